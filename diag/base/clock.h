/*
 * clock.h - time for diagnostics and deadlines: nanoseconds of CLOCK_MONOTONIC, read cheaply.
 *
 * Where the processor's time-stamp counter runs at a constant rate, a reading is that counter,
 * scaled (about 12 ns against 26 for clock_gettime, facts of the design). The scale is measured
 * once, at the first twi_clock_init; until then, and on other machines, clock_gettime is used. Over
 * a day the two drift apart by what the measurement missed (below 100 ppm), which deadlines and
 * latencies can bear; stamps are never compared between processes.
 */
#ifndef TWI_CLOCK_H
#define TWI_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#include <internal/base.h>

struct twi_tsc {
	_Atomic uint32_t usable; /* release: the other members are set before it */
	uint64_t scale;          /* ns = (ticks - base_ticks) * scale >> 32, plus base_ns */
	uint64_t base_ticks;
	uint64_t base_ns;
};

extern struct twi_tsc twi_tsc;

/* Measures the counter's rate, about 2 ms once in a process. Any thread, any number of times. */
void twi_clock_init(void);

static inline uint64_t twi_clock_gettime_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline uint64_t twi_now_ns(void)
{
#if defined(__x86_64__)
	/* acquire: pairs with the release in twi_clock_init */
	if (twi_likely(atomic_load_explicit(&twi_tsc.usable, memory_order_acquire) != 0)) {
		uint64_t ticks = __builtin_ia32_rdtsc() - twi_tsc.base_ticks;
		__extension__ typedef unsigned __int128 wide;

		return twi_tsc.base_ns + (uint64_t)((wide)ticks * twi_tsc.scale >> 32);
	}
#endif
	return twi_clock_gettime_ns();
}

#endif
