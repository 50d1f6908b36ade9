/*
 * verdict_credit.c - sends that wait for credit again and again, though none waits for long. Their
 * bursts are larger than what the receiver may hold of messages that it has not received.
 */
#include "diag/judge/verdict_parts.h"

#include <internal/base.h>

#define MUCH       0.2 /* least share of its time for which the sender waits for its sends */
#define MOSTLY     0.5 /* least part of that without credit */
#define CONFIDENCE 0.8

static double send_share(const struct twi_state_waited *waited)
{
	return waited != NULL ? (double)waited->ns[TWI_WAITED_SEND] / (double)waited->window_ns : 0;
}

/* The share of the time between the looks in which sends to `to` had no credit. */
static double starved_share(const struct twi_verdict_rank *at, uint32_t to)
{
	const struct twi_state_link *last = twi_rank_state_link(at->last, to);
	const struct twi_state_link *first = twi_rank_state_link(at->first, to);
	uint64_t window_ns = first != NULL ? twi_since(at->last->now_ns, at->first->now_ns) : 0;

	if (last == NULL || window_ns == 0)
		return 0;
	return (double)twi_since(last->starved_ns, first->starved_ns) / (double)window_ns;
}

void twi_judge_starved_sends(struct twi_judge *judge)
{
	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *at = &judge->what->ranks[i], *to;
		const struct twi_state_waited *waited = twi_judge_waited(at);
		double sends = send_share(waited), starved;

		if (at->last == NULL || at->first == NULL || sends < MUCH ||
		    waited->awaited_count == 0)
			continue;
		to = twi_judge_rank(judge, waited->awaited[0].rank);
		starved = starved_share(at, waited->awaited[0].rank);
		/* A rank that cannot pass data on has a reason to receive nothing. */
		if (to == NULL || to->last == NULL || starved < MOSTLY * sends ||
		    send_share(twi_judge_waited(to)) * 2 >= sends)
			continue;
		twi_judge_blame(
			judge, TWI_CAUSE_CREDIT, to->rank, CONFIDENCE,
			"rank %u waits for its sends to rank %u for %.0f %% of its time, and "
			"had no credit there for %.0f %%: at rank %u messages that no receive "
			"had taken used it up",
			at->rank, to->rank, 100 * twi_min(sends, 1.0), 100 * twi_min(starved, 1.0),
			to->rank);
	}
}
