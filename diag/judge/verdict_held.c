/*
 * verdict_held.c - ranks whose process is held from outside and continued: by SIGSTOP and SIGCONT
 * as cpulimit sends them, a debugger, a freezer of control groups. A rank notices that when it
 * continues (transport/inquiry/inquiry_held.h), and reports each of the last seconds.
 *
 *	rank 1's process  ____      ____      ____        held for half of the time
 *	message 0 -> 1    |--------->|                    long on its way, but the link is fine
 *	rank 2            waits for rank 1, which is no slow stage
 *
 * So holds are judged before anything that other ranks have measured of such a rank.
 */
#include "diag/judge/verdict_parts.h"

#include <internal/base.h>

#define SECOND_NS  1000000000ull
#define LATELY_NS  (5 * SECOND_NS) /* longer than the window of what links have carried */
#define MUCH       0.1             /* share of that time for which a rank is named */
#define LITTLE     0.02            /* share of that time that may explain what others measured */
#define CONFIDENCE 0.9

struct twi_held twi_judge_held(const struct twi_verdict_rank *rank, uint64_t from, uint64_t to)
{
	struct twi_held out = { 0 };
	const struct twi_rank_state *state = rank->last;
	uint64_t newest = state != NULL ? state->now_ns / SECOND_NS : 0, oldest;

	if (state == NULL || from >= to)
		return out;
	to = twi_min(to, state->now_ns);
	oldest = newest - twi_min(newest, TWI_STATE_HELD - 1u);
	from = twi_max(from, oldest * SECOND_NS);
	if (from >= to)
		return out;
	/* Round to whole seconds, because no more is known. */
	from = from / SECOND_NS * SECOND_NS;
	to += twi_min(SECOND_NS - to % SECOND_NS, state->now_ns - to);
	out.window_ns = to - from;
	for (uint32_t i = 0; i < state->held_count && i <= newest; i++) {
		uint64_t second = (newest - i) * SECOND_NS;

		if (second < from || second >= to)
			continue;
		out.times += state->held[i].times;
		out.ns += twi_min((uint32_t)state->held[i].ms, 1000u) * 1000000ull;
	}
	out.ns = twi_min(out.ns, out.window_ns);
	return out;
}

static struct twi_held held_lately(const struct twi_verdict_rank *rank)
{
	uint64_t now = rank->last != NULL ? rank->last->now_ns : 0;

	return twi_judge_held(rank, twi_since(now, LATELY_NS), now);
}

double twi_held_share(const struct twi_held *held)
{
	return held->window_ns > 0 ? (double)held->ns / (double)held->window_ns : 0;
}

bool twi_judge_was_held(const struct twi_verdict_rank *rank)
{
	struct twi_held held = { 0 };

	if (rank != NULL)
		held = held_lately(rank);
	/* The length of the first hold is not known: then ns is 0. */
	return held.times > 0 && (held.ns == 0 || twi_held_share(&held) >= LITTLE);
}

void twi_judge_held_ranks(struct twi_judge *judge)
{
	char time[24];

	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *rank = &judge->what->ranks[i];
		struct twi_held held = held_lately(rank);

		if (held.times == 0 || twi_held_share(&held) < MUCH)
			continue;
		twi_judge_blame(judge, TWI_CAUSE_HELD, rank->rank, CONFIDENCE,
				"the process of rank %u, %llu, was stopped from outside and "
				"continued %u times in the last %s, and stood still for %.0f %% of "
				"that",
				rank->rank, (unsigned long long)rank->last->pid, held.times,
				twi_judge_time(held.window_ns, time), 100 * twi_held_share(&held));
	}
}
