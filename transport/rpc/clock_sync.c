/*
 * clock_sync.c - the offset of two clocks from exchanges of time stamps. See clock_sync.h.
 */
#include "transport/rpc/clock_sync.h"

/*
 * Differences are taken unsigned. So they wrap around correctly when the two clocks began at
 * different times. The halves are added, because the sum of both may not fit.
 */
static int64_t offset_of(uint64_t t1, uint64_t t2, uint64_t t3, uint64_t t4)
{
	int64_t there = (int64_t)(t2 - t1), back = (int64_t)(t3 - t4);

	return there / 2 + back / 2 + (there % 2 + back % 2) / 2;
}

/* Computes a rate from two samples; keeps it if its bound is the tightest. */
static void try_rate(struct twi_clock_sync *sync, const struct twi_clock_sample *a,
		     const struct twi_clock_sample *b)
{
	double apart = (double)b->at_ns - (double)a->at_ns;
	double error, rate = (double)b->offset_ns - (double)a->offset_ns;

	if (apart < 1)
		return;
	error = ((double)a->delay_ns / 2 + (double)b->delay_ns / 2 + 2) / apart;
	if (error < sync->rate_error) {
		sync->rate = rate / apart;
		sync->rate_error = error;
	}
}

static unsigned count_of(const struct twi_clock_sync *sync)
{
	return sync->exchanges < TWI_CLOCK_SAMPLES ? (unsigned)sync->exchanges : TWI_CLOCK_SAMPLES;
}

static void find_rate(struct twi_clock_sync *sync)
{
	unsigned count = count_of(sync);

	sync->rate = 0;
	sync->rate_error = TWI_CLOCK_DRIFT_PPM / 1e6;
	for (unsigned i = 0; i < count; i++) {
		for (unsigned j = 0; j < count; j++)
			try_rate(sync, &sync->samples[i], &sync->samples[j]);
	}
	/* No clock drifts this much: one was set, or the peer lies. The plain bound holds then. */
	if (sync->rate > TWI_CLOCK_DRIFT_PPM / 1e6 || sync->rate < -TWI_CLOCK_DRIFT_PPM / 1e6) {
		sync->rate = 0;
		sync->rate_error = TWI_CLOCK_DRIFT_PPM / 1e6;
	}
}

bool twi_clock_sync_add(struct twi_clock_sync *sync, uint64_t t1, uint64_t t2, uint64_t t3,
			uint64_t t4)
{
	struct twi_clock_sample *sample = &sync->samples[sync->next];

	if (t4 < t1 || t3 < t2 || t3 - t2 > t4 - t1) {
		sync->refused++;
		return false;
	}
	*sample = (struct twi_clock_sample){
		.offset_ns = offset_of(t1, t2, t3, t4),
		.delay_ns = (t4 - t1) - (t3 - t2),
		.at_ns = t4,
	};
	sync->next = (sync->next + 1) % TWI_CLOCK_SAMPLES;
	sync->exchanges++;
	find_rate(sync);
	return true;
}

/*
 * Extrapolates a sample to now_ns. The offset is true half way between t1 and t4, within half of
 * the exchange. The clocks drift during the exchange, too, so its length is part of the age. The 2
 * covers rounding.
 */
static void extrapolate_sample(const struct twi_clock_sync *sync,
			       const struct twi_clock_sample *sample, uint64_t now_ns,
			       struct twi_clock_estimate *out)
{
	double worst = TWI_CLOCK_DRIFT_PPM / 1e6, per_ns = worst;
	uint64_t age_ns = now_ns > sample->at_ns ? now_ns - sample->at_ns : 0;
	double age = (double)age_ns, offset = 0;

	if (sync->rate_error + TWI_CLOCK_WANDER_PPM / 1e6 < worst) {
		per_ns = sync->rate_error + TWI_CLOCK_WANDER_PPM / 1e6;
		offset = sync->rate * age;
	}
	out->age_ns = age_ns;
	out->delay_ns = sample->delay_ns;
	out->offset_ns = (int64_t)((uint64_t)sample->offset_ns + (uint64_t)(int64_t)offset);
	out->error_ns = sample->delay_ns / 2 + (uint64_t)(age * per_ns) +
			(uint64_t)((double)sample->delay_ns * worst) + 2;
}

bool twi_clock_sync_read(const struct twi_clock_sync *sync, uint64_t now_ns,
			 struct twi_clock_estimate *out)
{
	unsigned count = count_of(sync);

	*out = (struct twi_clock_estimate){ .error_ns = UINT64_MAX };
	for (unsigned i = 0; i < count; i++) {
		struct twi_clock_estimate one;

		extrapolate_sample(sync, &sync->samples[i], now_ns, &one);
		if (one.error_ns < out->error_ns)
			*out = one;
	}
	return count > 0;
}
