/*
 * verdict_dials.c - connections that ranks try to make in vain. The kernel answers a SYN for any
 * process that listens, whether the process runs or not; and a rank publishes its address when it
 * listens. So the fault is the path, or the host:
 *
 *	rank 2 --SYN--> x   rank 3	other ranks receive from rank 3: the path is cut for new
 *					connections only, as a firewall does it
 *	rank 2 --SYN--> x		no rank receives from it: its host may be gone as well
 *	rank 2 <--refused-- ?		other ranks receive from it, and something answers that no
 *					process listens there
 *
 * A connection that only a look at the job has asked for holds nothing up, so it is not reported.
 */
#include "diag/judge/verdict_parts.h"

#include <errno.h>
#include <stdio.h>

#include <internal/base.h>

#define MS_NS   1000000ull
#define TRY_NS  (2000 * MS_NS)  /* no answer to a SYN for so long; it was sent again after 1 s */
#define KEPT_NS (30000 * MS_NS) /* for so long a failure counts */
#define MUTE_NS (2500 * MS_NS)  /* as in verdict_links.c */

static bool is_unanswered(const struct twi_rank_state *state, const struct twi_state_dial *dial)
{
	return dial->syn_ns != 0 && dial->syns > 0 &&
	       twi_since(state->now_ns, dial->syn_ns) >= TRY_NS;
}

/* The kernel's error of an attempt as text for people; NULL: it says nothing about the path. */
static const char *words_of(uint32_t error)
{
	switch (error) {
	case ECONNREFUSED:
		return "refused (ECONNREFUSED): nothing listens there, or a firewall refuses";
	case EHOSTUNREACH:
		return "no route to that host (EHOSTUNREACH)";
	case ENETUNREACH:
		return "no route to that network (ENETUNREACH)";
	case EACCES:
	case EPERM:
		return "forbidden by a rule of its own host";
	case ETIMEDOUT:
		return "its SYNs were not answered";
	default:
		return NULL;
	}
}

static bool has_failed(const struct twi_rank_state *state, const struct twi_state_dial *dial)
{
	return dial->failed_ns != 0 && twi_since(state->now_ns, dial->failed_ns) < KEPT_NS &&
	       words_of(dial->error) != NULL;
}

static const struct twi_state_dial *dial_to(const struct twi_verdict_rank *at, uint32_t rank)
{
	for (uint32_t i = 0; at->last != NULL && i < at->last->dial_count; i++) {
		if (at->last->dials[i].rank == rank)
			return &at->last->dials[i];
	}
	return NULL;
}

bool twi_judge_dials_long(const struct twi_verdict_rank *at, uint32_t rank)
{
	const struct twi_state_dial *dial = dial_to(at, rank);

	return dial != NULL && (is_unanswered(at->last, dial) || has_failed(at->last, dial));
}

/* A rank that receives from `rank`; else `rank` itself if it has answered; else NULL. */
static const struct twi_verdict_rank *hearer_of(const struct twi_judge *judge, uint32_t rank)
{
	const struct twi_verdict_rank *found = NULL;

	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *at = &judge->what->ranks[i];
		const struct twi_state_link *link = twi_rank_state_link(at->last, rank);

		if (link != NULL && (link->flags & (TWI_LINK_UP | TWI_LINK_BYE)) == TWI_LINK_UP &&
		    link->silent_ns < MUTE_NS && link->stuck_ns == 0)
			return at;
		if (at->rank == rank && at->last != NULL)
			found = at;
	}
	return found;
}

/* ", though rank 0 hears rank 3" */
static void tell_hearer(const struct twi_verdict_rank *hearer, uint32_t rank, char out[64])
{
	if (hearer == NULL)
		snprintf(out, 64,
			 "; no rank receives from rank %u, so its host may have "
			 "gone",
			 rank);
	else if (hearer->rank == rank)
		snprintf(out, 64, ", though rank %u answers others", rank);
	else
		snprintf(out, 64, ", though rank %u receives from rank %u", hearer->rank, rank);
}

static bool blame_dial(struct twi_judge *judge, const struct twi_verdict_rank *at,
		       const struct twi_state_dial *dial)
{
	const struct twi_verdict_rank *hearer = hearer_of(judge, dial->rank);
	const struct twi_rank_state *state = at->last;
	bool named = dial->address[0] != '\0', open = is_unanswered(state, dial);
	char time[24], hears[64];

	/* If no rank receives from it, it may have ended, and then its connection is refused. */
	if (dial->wanted == 0 || twi_judge_blames(judge, dial->rank) ||
	    (!open && (hearer == NULL || !has_failed(state, dial))))
		return false;
	tell_hearer(hearer, dial->rank, hears);
	if (open)
		twi_judge_blame_link(
			judge, TWI_CAUSE_LINK, at->rank, dial->rank, hearer != NULL ? 0.95 : 0.7,
			"rank %u has tried to connect to rank %u%s%s for %s: its SYNs are not "
			"answered (%u sent again)%s",
			at->rank, dial->rank, named ? " at " : "", dial->address,
			twi_judge_time(twi_since(state->now_ns, dial->since_ns), time), dial->syns,
			hears);
	else
		twi_judge_blame_link(
			judge, TWI_CAUSE_LINK, at->rank, dial->rank, 0.8,
			"rank %u could not connect to rank %u%s%s, tried %u times until %s ago: "
			"%s%s",
			at->rank, dial->rank, named ? " at " : "", dial->address, dial->attempts,
			twi_judge_time(twi_since(state->now_ns, dial->failed_ns), time),
			words_of(dial->error), hears);
	return true;
}

bool twi_judge_dials_to(struct twi_judge *judge, uint32_t rank)
{
	bool any = false;

	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *at = &judge->what->ranks[i];
		const struct twi_state_dial *dial = dial_to(at, rank);

		any = (dial != NULL && blame_dial(judge, at, dial)) || any;
	}
	return any;
}

void twi_judge_dials(struct twi_judge *judge)
{
	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *at = &judge->what->ranks[i];

		for (uint32_t k = 0; at->last != NULL && k < at->last->dial_count; k++) {
			const struct twi_verdict_rank *to =
				twi_judge_rank(judge, at->last->dials[k].rank);

			if (to != NULL && to->last != NULL)
				blame_dial(judge, at, &at->last->dials[k]);
		}
	}
}
