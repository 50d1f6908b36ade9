/*
 * clock.h - time for diagnostics and deadlines: nanoseconds of CLOCK_MONOTONIC, read cheaply.
 *
 * Where the processor's time-stamp counter runs at a constant rate, a reading is that counter,
 * scaled (about 12 ns against 26 for clock_gettime, facts of the design). The scale is measured at
 * the first twi_clock_init; until then, and on other machines, clock_gettime is used. From then on
 * the reading is steered: whoever drives an engine compares both clocks once in a second. A reading
 * that is behind steps forward, one that is ahead goes slower for a second; none goes back. The
 * scale is kept a hair below the truth (TWI_CLOCK_BELOW), so that it is behind as a rule. So all
 * processes of a host tell the same time to within about a microsecond, and so do its tracers.
 */
#ifndef TWI_CLOCK_H
#define TWI_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include <internal/base.h>

/* ns = (ticks - base_ticks) * scale >> 32, plus base_ns */
struct twi_tsc_fit {
	_Atomic uint64_t scale, base_ticks, base_ns;
};

/*
 * Version 0: the counter is not used. Else fits[version & 1] holds; the other one is being written,
 * perhaps, so a reader that sees the same version before and after has read one fit.
 */
struct twi_tsc {
	_Atomic uint64_t version;
	_Atomic uint64_t steer_ns; /* when both clocks are to be compared next, at the earliest */
	struct twi_tsc_fit fits[2];
};

extern struct twi_tsc twi_tsc;

/* A part of the scale that is left out. */
#define TWI_CLOCK_BELOW 5000000u

/* Measures the counter's rate, about 2 ms once in a process. Any thread, any number of times. */
void twi_clock_init(void);

/* Compares both clocks, about a microsecond, unless it was done a millisecond ago. Any thread. */
void twi_clock_steer(void);

/* The same when it is due; now_ns is a reading of twi_now_ns. */
static inline void twi_clock_keep(uint64_t now_ns)
{
	/* relaxed: a hint, and what it leads to reads anew */
	if (twi_unlikely(now_ns >= atomic_load_explicit(&twi_tsc.steer_ns, memory_order_relaxed)))
		twi_clock_steer();
}

static inline uint64_t twi_clock_gettime_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#if defined(__x86_64__)
/* A moment that another core has given as the base may be ahead of this core's counter. */
static inline uint64_t twi_tsc_ns(uint64_t ticks, uint64_t base_ticks, uint64_t base_ns,
				  uint64_t scale)
{
	uint64_t since = ticks - base_ticks;
	__extension__ typedef unsigned __int128 wide;

	if (twi_unlikely((int64_t)since < 0))
		return base_ns;
	return base_ns + (uint64_t)((wide)since * scale >> 32);
}

/* False: the counter is not used. */
static inline bool twi_tsc_now(uint64_t *ns_out)
{
	uint64_t version, ticks, scale, base_ticks, base_ns;

	do {
		/* acquire: pairs with the release of who has written the fit */
		version = atomic_load_explicit(&twi_tsc.version, memory_order_acquire);
		if (twi_unlikely(version == 0))
			return false;
		scale = atomic_load_explicit(&twi_tsc.fits[version & 1].scale,
					     memory_order_relaxed);
		base_ticks = atomic_load_explicit(&twi_tsc.fits[version & 1].base_ticks,
						  memory_order_relaxed);
		/* acquire: the version is read again after all of the fit */
		base_ns = atomic_load_explicit(&twi_tsc.fits[version & 1].base_ns,
					       memory_order_acquire);
		ticks = __builtin_ia32_rdtsc();
	} while (twi_unlikely(atomic_load_explicit(&twi_tsc.version, memory_order_acquire) !=
			      version));
	*ns_out = twi_tsc_ns(ticks, base_ticks, base_ns, scale);
	return true;
}
#endif

static inline uint64_t twi_now_ns(void)
{
#if defined(__x86_64__)
	uint64_t ns;

	if (twi_likely(twi_tsc_now(&ns)))
		return ns;
#endif
	return twi_clock_gettime_ns();
}

#endif
