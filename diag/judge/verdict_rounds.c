/*
 * verdict_rounds.c - whether messages go round: each rank receives from some ranks and sends to
 * others, so a delay at one rank comes back to it.
 *
 *	0 --> 1 --> 2		a ring, a pipeline whose last stage reports to the first, neighbours
 *	^           |		of a grid: a rank that waits for a message is held up by another
 *	+-----------+
 *
 *	1 <--> 0 <--> 2		clients and their server, which may wait for ever for the next
 *				request though no rank is late
 *
 * Any tree of ranks has a leaf, which exchanges messages with one other rank only. Any one-way flow
 * has a rank that receives from no rank, and one that sends to no rank. So if each rank receives,
 * sends, and does so with two others at least, there is a round of three ranks or more.
 */
#include "diag/judge/verdict_parts.h"

#include <internal/base.h>

#define ONCE   1u   /* a single message, of the start or the end, does not count */
#define SELDOM 32.0 /* nor do paths with one message to so many on the busiest path of a rank */
#define LEAST  3u   /* ranks of a round, at least */

static double rate_of(const struct twi_state_carried *carried)
{
	return carried->messages <= ONCE ? 0 : carried->messages / twi_max(carried->window_ms, 1.0);
}

/* Messages per time. For some messages, only one side knows when they went. */
static double rate_between(const struct twi_judge *judge, const struct twi_rank_state *from,
			   uint32_t to)
{
	const struct twi_verdict_rank *other = twi_judge_rank(judge, to);
	const struct twi_state_link *out = twi_rank_state_link(from, to), *in = NULL;
	double sent = out != NULL ? rate_of(&out->carried_out) : 0;

	if (other != NULL && other->last != NULL)
		in = twi_rank_state_link(other->last, from->rank);
	return in != NULL ? twi_max(sent, rate_of(&in->carried_in)) : sent;
}

static bool passes_on(const struct twi_judge *judge, const struct twi_rank_state *state)
{
	double in[TWI_STATE_LINKS] = { 0 }, out[TWI_STATE_LINKS] = { 0 }, most = 0;
	uint32_t from = 0, to = 0, others = 0;

	for (uint32_t i = 0; i < state->link_count; i++) {
		const struct twi_verdict_rank *other = twi_judge_rank(judge, state->links[i].rank);

		out[i] = rate_between(judge, state, state->links[i].rank);
		if (other != NULL && other->last != NULL)
			in[i] = rate_between(judge, other->last, state->rank);
		most = twi_max(most, twi_max(in[i], out[i]));
	}
	for (uint32_t i = 0; i < state->link_count; i++) {
		bool has_in = in[i] > 0 && in[i] * SELDOM >= most;
		bool has_out = out[i] > 0 && out[i] * SELDOM >= most;

		from += has_in;
		to += has_out;
		others += has_in || has_out;
	}
	return from > 0 && to > 0 && others > 1;
}

bool twi_judge_goes_round(const struct twi_judge *judge)
{
	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		if (judge->what->ranks[i].last == NULL ||
		    !passes_on(judge, judge->what->ranks[i].last))
			return false;
	}
	return judge->what->rank_count >= LEAST;
}
