/*
 * clock.c - finds out whether the time-stamp counter can be trusted, and its rate. See clock.h.
 */
#include "diag/base/clock.h"

#include <pthread.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define MEASURE_NS 2000000u

struct twi_tsc twi_tsc;
static pthread_once_t once = PTHREAD_ONCE_INIT;

#if defined(__x86_64__)
/* CPUID 0x80000007, EDX bit 8: the counter runs at a constant rate in all power states. */
static bool tsc_is_invariant(void)
{
	unsigned a, b, c, d;

	return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & 1u << 8) != 0;
}

/* Both clocks at one moment: the closest of several tries. */
static void sample_clocks(uint64_t *ticks_out, uint64_t *ns_out)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 20; i++) {
		uint64_t before = __builtin_ia32_rdtsc();
		uint64_t ns = twi_clock_gettime_ns();
		uint64_t after = __builtin_ia32_rdtsc();

		if (after - before < best) {
			best = after - before;
			*ticks_out = before + (after - before) / 2;
			*ns_out = ns;
		}
	}
}

static void measure_tick_rate(void)
{
	uint64_t ticks0, ns0, ticks1, ns1;
	__extension__ typedef unsigned __int128 wide;

	if (!tsc_is_invariant())
		return;
	sample_clocks(&ticks0, &ns0);
	do
		sample_clocks(&ticks1, &ns1);
	while (ns1 - ns0 < MEASURE_NS);
	if (ticks1 <= ticks0)
		return;
	twi_tsc.scale = (uint64_t)(((wide)(ns1 - ns0) << 32) / (ticks1 - ticks0));
	twi_tsc.base_ticks = ticks0;
	twi_tsc.base_ns = ns0;
	atomic_store_explicit(&twi_tsc.usable, 1, memory_order_release);
}
#else
static void measure_tick_rate(void)
{
}
#endif

void twi_clock_init(void)
{
	pthread_once(&once, measure_tick_rate);
}
