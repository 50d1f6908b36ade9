/*
 * clock.h - time for diagnostics and deadlines: nanoseconds of CLOCK_MONOTONIC, read cheaply.
 *
 * Where the processor's time-stamp counter runs at a constant rate, a reading is that counter,
 * scaled. It takes about 12 ns; clock_gettime takes 26 (facts of the design). The first
 * twi_clock_init measures the scale; until then, and on other machines, clock_gettime is used.
 *
 * Later the reading is steered. The thread that drives an engine compares both clocks about once a
 * second, and more often at first. A reading that is behind steps forward. One that is ahead runs
 * slower for a second. No reading goes back. The scale is kept slightly too small
 * (TWI_CLOCK_BELOW), so a reading is usually behind. All processes of a host thus agree to about a
 * microsecond, with each other and with tracers of the host.
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
 * version 0: the counter is not used. Else fits[version & 1] is valid, and the other one may be
 * under construction. A reader that finds the same version before and after has read one fit.
 */
struct twi_tsc {
	_Atomic uint64_t version;
	_Atomic uint64_t steer_ns; /* the earliest time of the next comparison */
	struct twi_tsc_fit fits[2];
};

extern struct twi_tsc twi_tsc;

/* The scale is reduced by one part in this many. */
#define TWI_CLOCK_BELOW 5000000u

/* Measures the counter's rate once in a process; takes about 2 ms. Any thread may call it again. */
void twi_clock_init(void);

/*
 * Compares both clocks; takes about a microsecond. Does nothing within a millisecond of the last
 * comparison. Any thread.
 */
void twi_clock_steer(void);

/* Compares both clocks when that is due. now_ns is a reading of twi_now_ns. */
static inline void twi_clock_keep(uint64_t now_ns)
{
	/* relaxed: this is a hint, and twi_clock_steer reads everything anew */
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
/* Another core may have set the base; that moment may be ahead of this core's counter. */
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
		/* acquire: pairs with the release by the thread that wrote the fit */
		version = atomic_load_explicit(&twi_tsc.version, memory_order_acquire);
		if (twi_unlikely(version == 0))
			return false;
		scale = atomic_load_explicit(&twi_tsc.fits[version & 1].scale,
					     memory_order_relaxed);
		base_ticks = atomic_load_explicit(&twi_tsc.fits[version & 1].base_ticks,
						  memory_order_relaxed);
		/* acquire: the version is read again only after all members of the fit */
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
