/*
 * verdict_pool.c - ranks whose pool has no room. Some ranks wait for room: in tow_alloc (the knob
 * exhaust), or with a receive that shall return a view of its message. Others get memory from
 * outside the pool. Each such allocation is mapped, faulted in and unmapped, and its data is
 * copied.
 */
#include "diag/judge/verdict_parts.h"

#include <internal/base.h>

#define ALLOCS     8u  /* least number between the looks */
#define COST_BYTES 1e9 /* so many take a second at least: map, fault, copy, unmap */
#define COSTLY     0.1 /* least share of the time */
#define CONFIDENCE 0.75
#define LONG_NS    3000000000ull /* wait for room that counts even if no rank waits for this one */

static bool waits_long(const struct twi_rank_state *state)
{
	return state->pool_waiters > 0 && twi_since(state->now_ns, state->pool_since_ns) >= LONG_NS;
}

void twi_judge_roomless(struct twi_judge *judge)
{
	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *rank = &judge->what->ranks[i];
		const struct twi_rank_state *last = rank->last;
		char time[24];

		if (last == NULL || !waits_long(last) || twi_judge_blames(judge, rank->rank))
			continue;
		twi_judge_blame(judge, TWI_CAUSE_POOL, rank->rank, 0.9,
				"rank %u has waited for %s for %llu bytes of its pool, of which "
				"%llu of %llu bytes are free",
				rank->rank,
				twi_judge_time(twi_since(last->now_ns, last->pool_since_ns), time),
				(unsigned long long)last->pool_wanted_bytes,
				(unsigned long long)last->pool_free_bytes,
				(unsigned long long)last->pool_bytes);
		judge->out->stuck = true;
	}
}

void twi_judge_overflows(struct twi_judge *judge)
{
	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *rank = &judge->what->ranks[i];
		const struct twi_rank_state *first = rank->first, *last = rank->last;
		double seconds, cost;
		uint64_t allocs, bytes;

		if (first == NULL || last == NULL || last->now_ns <= first->now_ns)
			continue;
		seconds = (double)(last->now_ns - first->now_ns) / 1e9;
		allocs = twi_since(last->pool_overflows, first->pool_overflows);
		bytes = twi_since(last->pool_overflow_bytes, first->pool_overflow_bytes);
		cost = (double)bytes / COST_BYTES / seconds;
		if (allocs < ALLOCS || cost < COSTLY)
			continue;
		twi_judge_blame(judge, TWI_CAUSE_POOL, rank->rank, CONFIDENCE,
				"at rank %u %.0f allocations a second found no room in its pool "
				"of %.0f MiB, and got memory outside: %.0f MB/s of it, which "
				"takes some %.0f %% of the time",
				rank->rank, (double)allocs / seconds,
				(double)last->pool_bytes / (1 << 20), (double)bytes / 1e6 / seconds,
				100 * twi_min(cost, 1.0));
	}
}
