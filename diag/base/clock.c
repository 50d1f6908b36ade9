/*
 * clock.c - decides whether the time-stamp counter can be used, and measures its rate. It also
 * steers the reading to the system's clock. See clock.h.
 */
#include "diag/base/clock.h"

#include <pthread.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define MEASURE_NS  2000000u
#define STEER_NS    1000000000u /* between two comparisons; the first ones are closer together */
#define ANCHOR_NS   10000000u   /* a rate is measured over at least this time */
#define AGAIN_NS    1000000u    /* two comparisons within this time are one */
#define HORIZON_NS  100000000u  /* a thread that writes a fit may be off its core for this long */
#define SAME_NS     200u        /* two clocks cannot be read at one moment more exactly */
#define SLOWER_MOST 500000000u  /* of 10^9: a reading that is far ahead runs half as fast */

struct twi_tsc twi_tsc = { .steer_ns = UINT64_MAX };
static pthread_once_t once = PTHREAD_ONCE_INIT;

#if defined(__x86_64__)
/* CPUID 0x80000007, EDX bit 8: the counter runs at a constant rate in all power states. */
static bool tsc_is_invariant(void)
{
	unsigned a, b, c, d;

	return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & 1u << 8) != 0;
}

/* Reads both clocks at one moment: keeps the closest of several tries. */
static void sample_clocks(uint64_t *ticks_out, uint64_t *ns_out)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 20; i++) {
		uint64_t before = __builtin_ia32_rdtsc();
		uint64_t ns = twi_clock_gettime_ns();
		uint64_t after = __builtin_ia32_rdtsc();

		if (i == 0 || after - before < best) {
			best = after - before;
			*ticks_out = before + (after - before) / 2;
			*ns_out = ns;
		}
	}
}

/* The rate between two moments: ns for each tick, times 2^32. */
static uint64_t rate_of(uint64_t ticks, uint64_t ns)
{
	__extension__ typedef unsigned __int128 wide;

	return (uint64_t)(((wide)ns << 32) / ticks);
}

/* One thread at a time. Readers use the other fit meanwhile. */
static void set_fit(uint64_t ticks, uint64_t ns, uint64_t scale)
{
	uint64_t version = atomic_load_explicit(&twi_tsc.version, memory_order_relaxed) + 1;
	struct twi_tsc_fit *fit = &twi_tsc.fits[version & 1];

	atomic_store_explicit(&fit->scale, scale, memory_order_relaxed);
	atomic_store_explicit(&fit->base_ticks, ticks, memory_order_relaxed);
	atomic_store_explicit(&fit->base_ns, ns, memory_order_relaxed);
	/* release: pairs with the acquire by readers */
	atomic_store_explicit(&twi_tsc.version, version, memory_order_release);
}

static struct {
	atomic_flag taken;
	uint64_t looked_ns; /* the last comparison of both clocks */
	uint64_t ticks, ns; /* where the next measurement of the rate begins */
	uint64_t span_ns;   /* its shortest length */
	uint64_t scale;     /* the best known rate */
} steering = { .taken = ATOMIC_FLAG_INIT };

static void measure_tick_rate(void)
{
	uint64_t ticks0 = 0, ns0 = 0, ticks1 = 0, ns1 = 0;

	if (!tsc_is_invariant())
		return;
	sample_clocks(&ticks0, &ns0);
	do
		sample_clocks(&ticks1, &ns1);
	while (ns1 - ns0 < MEASURE_NS);
	if (ticks1 <= ticks0)
		return;
	steering.ticks = ticks1;
	steering.ns = ns1;
	steering.span_ns = ANCHOR_NS;
	steering.scale = rate_of(ticks1 - ticks0, ns1 - ns0);
	set_fit(ticks1, ns1, steering.scale);
	atomic_store_explicit(&twi_tsc.steer_ns, ns1 + ANCHOR_NS, memory_order_relaxed);
}

/* The reading at counter value `ticks`. */
static uint64_t reading_at(uint64_t ticks)
{
	uint64_t version = atomic_load_explicit(&twi_tsc.version, memory_order_relaxed);
	const struct twi_tsc_fit *fit = &twi_tsc.fits[version & 1];

	return twi_tsc_ns(ticks, atomic_load_explicit(&fit->base_ticks, memory_order_relaxed),
			  atomic_load_explicit(&fit->base_ns, memory_order_relaxed),
			  atomic_load_explicit(&fit->scale, memory_order_relaxed));
}

/*
 * Sets the fit from `now` on. Readers may use the old fit until this thread has published the new
 * one, and this thread may lose its core before that. So the new fit is not behind the old one for
 * HORIZON_NS, even if it is much slower.
 */
static void change_fit(uint64_t now, uint64_t ns, uint64_t scale)
{
	uint64_t version = atomic_load_explicit(&twi_tsc.version, memory_order_relaxed);
	uint64_t old = atomic_load_explicit(&twi_tsc.fits[version & 1].scale, memory_order_relaxed);
	__extension__ typedef unsigned __int128 wide;

	ns = twi_max(ns, reading_at(now)) + 1; /* rounds up a part of a nanosecond */
	if (old > scale)
		ns += (uint64_t)((wide)HORIZON_NS * (old - scale) / scale) + 1;
	set_fit(now, ns, scale);
}

/* Continues the reading from the moment at which the counter was `ticks` and the clock was `ns`. */
static void steer_to(uint64_t ticks, uint64_t ns)
{
	uint64_t ours = reading_at(ticks), scale = steering.scale, now;
	uint64_t ahead = ours > ns ? ours - ns : 0;
	__extension__ typedef unsigned __int128 wide;

	if (ahead > SAME_NS)
		scale -= (uint64_t)((wide)scale * twi_min(ahead, SLOWER_MOST) / STEER_NS);
	else
		scale -= scale / TWI_CLOCK_BELOW;
	now = __builtin_ia32_rdtsc();
	change_fit(now, twi_tsc_ns(now, ticks, ns, scale), scale);
}

/* A rate is more exact over a longer time, so each measurement takes four times as long. */
static void take_rate(uint64_t ticks, uint64_t ns)
{
	uint64_t span = ns - twi_min(steering.ns, ns);

	if (ticks <= steering.ticks || span < steering.span_ns)
		return;
	steering.scale = rate_of(ticks - steering.ticks, span);
	steering.ticks = ticks;
	steering.ns = ns;
	steering.span_ns = twi_min(4 * steering.span_ns, (uint64_t)STEER_NS);
}

void twi_clock_steer(void)
{
	uint64_t ticks, ns;

	if (atomic_load_explicit(&twi_tsc.version, memory_order_acquire) == 0 ||
	    atomic_flag_test_and_set_explicit(&steering.taken, memory_order_acquire))
		return;
	if (twi_clock_gettime_ns() - steering.looked_ns >= AGAIN_NS) {
		sample_clocks(&ticks, &ns);
		take_rate(ticks, ns);
		steer_to(ticks, ns);
		steering.looked_ns = ns;
		atomic_store_explicit(&twi_tsc.steer_ns, ns + steering.span_ns,
				      memory_order_relaxed);
	}
	atomic_flag_clear_explicit(&steering.taken, memory_order_release);
}
#else
static void measure_tick_rate(void)
{
}

void twi_clock_steer(void)
{
}
#endif

void twi_clock_init(void)
{
	pthread_once(&once, measure_tick_rate);
}
