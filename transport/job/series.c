/*
 * series.c - keeps the long bursts of a series. See series.h.
 */
#include "transport/job/series.h"

/* The worth of a burst grows with its time, and falls with its age to nothing. */
static double worth_of(const struct twi_series_long *one, uint64_t now_ns)
{
	uint64_t end_ns = one->ended_ns + TWI_SERIES_KEEP_NS;

	return (double)one->took_ns * (double)(twi_max(end_ns, now_ns) - now_ns);
}

void twi_series_keep_long(struct twi_series *series, uint64_t took_ns, uint64_t now_ns)
{
	const struct twi_series_long one = { series->burst, took_ns, now_ns };
	struct twi_series_long *least = &series->longs[0];

	for (uint32_t i = 1; i < TWI_STATE_LONGS; i++)
		if (worth_of(&series->longs[i], now_ns) < worth_of(least, now_ns))
			least = &series->longs[i];
	if (worth_of(least, now_ns) < worth_of(&one, now_ns))
		*least = one;
}

uint32_t twi_series_longs(const struct twi_series *series,
			  struct twi_state_head out[TWI_STATE_LONGS])
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < TWI_STATE_LONGS; i++) {
		struct twi_state_head one = series->longs[i].burst;
		uint32_t at = count;

		if (one.seq == 0)
			continue;
		for (; at > 0 && out[at - 1].seq < one.seq; at--)
			out[at] = out[at - 1];
		out[at] = one;
		count++;
	}
	return count;
}
