/*
 * clock_sync.h - computes how far the peer's clock is ahead of ours, with a bound of the error.
 * Pure: rpc_link.c does the exchanges.
 *
 *	ours   t1 ------------------------------ t4
 *	          \  there                back  /
 *	theirs      t2 --------------------- t3
 *
 * One exchange gives (RFC 5905, section 8)
 *
 *	offset = ((t2 - t1) + (t3 - t4)) / 2        delay = (t4 - t1) - (t3 - t2)
 *
 * If both directions took equally long, the offset is right. If one direction took all of the
 * delay, the offset is wrong by delay / 2. It cannot be wrong by more, so this is the bound. The
 * bound assumes nothing about the network, only that nothing arrives before it was sent.
 *
 * Clocks drift apart by at most TWI_CLOCK_DRIFT_PPM. This is twice the sum of the error of clock.h
 * (100 ppm) and the tolerance of a clock (PHI of RFC 5905, 15 ppm). Most of the drift is constant.
 * Two exchanges some time apart show it as the rate of one clock against the other. Its error is
 * the sum of both errors divided by the time between them. The rest of the drift is
 * TWI_CLOCK_WANDER_PPM. So a reading of age a is extrapolated by rate * a, and is good for
 *
 *	delay / 2 + a * min(DRIFT, error of the rate + WANDER)
 *
 * Of the last readings the one that is best *now* is used: a quick exchange long ago, or a slower
 * one of a moment ago. A clock that is set, or slewed by more than that, exceeds the bound.
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
	uint64_t delay_ns; /* round trip, without the peer's part */
	uint64_t at_ns;    /* t4 */
};

/* All zero is the initial state. */
struct twi_clock_sync {
	struct twi_clock_sample samples[TWI_CLOCK_SAMPLES];
	unsigned next;
	double rate;        /* rate of the peer's clock against ours, minus 1 */
	double rate_error;  /* bound of its error; DRIFT or more: the rate is not known */
	uint64_t exchanges; /* exchanges that were accepted */
	uint64_t refused;   /* exchanges with impossible times: the peer lies, or a clock was set */
};

struct twi_clock_estimate {
	int64_t offset_ns; /* theirs minus ours */
	uint64_t error_ns; /* the offset is within this of the truth */
	uint64_t age_ns;   /* age of the exchange that it comes from */
	uint64_t delay_ns; /* delay of that exchange */
};

/*
 * Adds one exchange; t1 and t4 are ours. False: the times are impossible, and nothing is kept. Then
 * t4 is before t1, or t3 before t2, or the peer claims to have taken longer than the whole
 * exchange.
 */
bool twi_clock_sync_add(struct twi_clock_sync *sync, uint64_t t1, uint64_t t2, uint64_t t3,
			uint64_t t4);

/* The best estimate at now_ns of our clock. False: nothing is known. */
bool twi_clock_sync_read(const struct twi_clock_sync *sync, uint64_t now_ns,
			 struct twi_clock_estimate *out);

/* Converts a time of the peer's clock to ours. */
static inline int64_t twi_clock_ours(const struct twi_clock_estimate *estimate, uint64_t theirs_ns)
{
	return (int64_t)(theirs_ns - (uint64_t)estimate->offset_ns);
}

#endif
