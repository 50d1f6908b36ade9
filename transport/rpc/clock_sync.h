/*
 * clock_sync.h - by how much the peer's clock is ahead of ours, with a bound of the error. Pure:
 * the exchanges themselves are rpc_link.c's.
 *
 *	ours   t1 ------------------------------ t4
 *	          \  there                back  /
 *	theirs      t2 --------------------- t3
 *
 * One exchange gives (RFC 5905, section 8)
 *
 *	offset = ((t2 - t1) + (t3 - t4)) / 2        delay = (t4 - t1) - (t3 - t2)
 *
 * If both ways took equally long, offset is right. If all of the delay was on one way, it is wrong
 * by delay / 2, and it cannot be wrong by more: that is the bound. It is no guess about the
 * network, only that nothing arrives before it was sent.
 *
 * Clocks drift apart meanwhile, by at most TWI_CLOCK_DRIFT_PPM: twice what clock.h may be off (100
 * ppm) and the tolerance of a clock (PHI of RFC 5905, 15 ppm). Most of that is a constant, and two
 * exchanges that lie apart show it: the rate of one clock against the other, within the sum of both
 * errors over the time between them. What is left then is TWI_CLOCK_WANDER_PPM. So a reading of age
 * a is carried on by rate * a and is good for
 *
 *	delay / 2 + a * min(DRIFT, error of the rate + WANDER)
 *
 * and of the last readings the one that is best *now* is used: a quick exchange long ago, or a
 * slower one of a moment ago. A clock that is set, or slewed by more than that, exceeds the bound.
 */
#ifndef TWI_CLOCK_SYNC_H
#define TWI_CLOCK_SYNC_H

#include <stdbool.h>
#include <stdint.h>

#define TWI_CLOCK_SAMPLES    8
#define TWI_CLOCK_DRIFT_PPM  230
#define TWI_CLOCK_WANDER_PPM 2

struct twi_clock_sample {
	int64_t offset_ns; /* theirs minus ours */
	uint64_t delay_ns; /* there and back, without their part */
	uint64_t at_ns;    /* t4 */
};

/* All zero is a fresh one. */
struct twi_clock_sync {
	struct twi_clock_sample samples[TWI_CLOCK_SAMPLES];
	unsigned next;
	double rate;        /* theirs against ours, less 1 */
	double rate_error;  /* at most; more than DRIFT: it is not known */
	uint64_t exchanges; /* taken */
	uint64_t refused;   /* whose times cannot be: a peer that lies, or a clock that was set */
};

struct twi_clock_estimate {
	int64_t offset_ns; /* theirs minus ours */
	uint64_t error_ns; /* the offset is within this of the truth */
	uint64_t age_ns;   /* of the exchange that it is from */
	uint64_t delay_ns; /* of that exchange */
};

/*
 * One exchange; t1 and t4 are ours. False, and nothing kept, when t4 is before t1, t3 before t2, or
 * the peer says that it took longer than the whole exchange did.
 */
bool twi_clock_sync_add(struct twi_clock_sync *sync, uint64_t t1, uint64_t t2, uint64_t t3,
			uint64_t t4);

/* The best that is known at now_ns, of our clock. False: nothing is known. */
bool twi_clock_sync_read(const struct twi_clock_sync *sync, uint64_t now_ns,
			 struct twi_clock_estimate *out);

/* A time of the peer's clock on ours. */
static inline int64_t twi_clock_ours(const struct twi_clock_estimate *estimate, uint64_t theirs_ns)
{
	return (int64_t)(theirs_ns - (uint64_t)estimate->offset_ns);
}

#endif
