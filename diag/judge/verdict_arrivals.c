/*
 * verdict_arrivals.c - which rank came last to a call, and how much of that was its own doing.
 *
 * Calls are compared by seq, on the asker's clock. A delay that the error of the clocks can explain
 * does not count. A rank's own doing is the time from the end of one call to its next call. Time in
 * which others held it up within a call is not.
 *
 *	early rank    |A........|  |B.......|  |C......|         A, B and C are one burst. The
 *	late rank                |A| |B| |C|                     lateness at A is seen at B and C,
 *	                  ^own^                                  which say nothing of their own
 *
 * So if the others have not waited between two calls, only the additional delay counts.
 */
#include "diag/judge/verdict_parts.h"

#include <internal/base.h>

#define MS_NS        1000000ull
#define RECENT_NS    (15000 * MS_NS)
#define BEFORE_TRIES 8u /* heads that are tried for the arrival before */
#define LONG_TRIES   4u /* ranks of which the long bursts are tried */

static uint64_t to_our_time(const struct twi_verdict_rank *rank, uint64_t theirs_ns)
{
	return theirs_ns - (uint64_t)rank->offset_ns;
}

/* When the rank came to `seq`, by its clock. False: it does not know any more. */
static bool came_at(const struct twi_state_group *group, uint64_t seq, uint64_t *start_ns_out)
{
	const struct twi_state_past *past = twi_state_group_past(group, seq);
	const struct twi_state_head *head = twi_state_group_head(group, seq);

	if (past == NULL && head == NULL)
		return false;
	*start_ns_out = past != NULL ? past->start_ns : head->start_ns;
	return true;
}

/* Since when nothing was under way at the rank when it came to `seq`. 0: something was. */
static uint64_t idle_since(const struct twi_state_group *group, uint64_t seq, uint64_t start_ns)
{
	const struct twi_state_head *head = twi_state_group_head(group, seq);
	const struct twi_state_past *before = twi_state_group_past(group, seq - 1);

	if (head != NULL)
		return head->idle_ns;
	return before != NULL && before->done_ns != 0 && before->done_ns <= start_ns
		       ? before->done_ns
		       : 0;
}

/* Finds the last arrival at `seq`. last is NULL unless all ranks are known to have come. */
static void find_last(const struct twi_judge *judge, uint32_t ctx, uint64_t seq,
		      struct twi_arrival *out)
{
	uint32_t count = 0, covered = 0, size = 0;

	*out = (struct twi_arrival){ .seq = seq };
	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *rank = &judge->what->ranks[i];
		const struct twi_state_group *group = twi_group_at(rank, ctx);
		uint64_t at;

		if (!came_at(group, seq, &at))
			continue;
		count++;
		covered += twi_state_group_covers(group);
		size = group->size;
		out->error_ns = twi_max(out->error_ns, rank->error_ns);
		at = to_our_time(rank, at);
		if (out->last != NULL && at <= out->at_ns) {
			out->second_ns = twi_max(out->second_ns, at);
			continue;
		}
		out->second_ns = out->last != NULL ? out->at_ns : 0;
		out->at_ns = at;
		out->last = rank;
	}
	if (count < 2 || covered != size)
		out->last = NULL;
}

/*
 * Whether all others have waited for the end of the call before. Then they do not lose again what
 * they lost there. If no waits are known, they have waited if they came to this call after the last
 * rank had come to the call before.
 */
static bool have_waited(const struct twi_judge *judge, uint32_t ctx,
			const struct twi_arrival *arrival, const struct twi_arrival *before)
{
	bool some = false, measured = (ctx & TWI_STATE_BARRIERS) == 0, all = true;

	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *rank = &judge->what->ranks[i];
		const struct twi_state_group *group = twi_group_at(rank, ctx);
		const struct twi_state_head *head = twi_state_group_head(group, arrival->seq);

		for (uint32_t k = 0; group != NULL && k < group->head_count; k++)
			some |= group->heads[k].waited != 0;
		if (group == NULL || rank == arrival->last)
			continue;
		measured &= (rank->last->tells & TWI_TELLS_WAITED) != 0;
		all &= head != NULL && head->waited != 0;
	}
	return some || measured ? all : arrival->second_ns >= before->at_ns;
}

/*
 * Finds the latest known arrival before this one: at the call before, or at the last call that
 * began a burst at all ranks. Each rank keeps only calls that began a burst at itself.
 */
static void find_before(const struct twi_judge *judge, uint32_t ctx,
			const struct twi_arrival *arrival, struct twi_arrival *out)
{
	const struct twi_state_group *group = twi_group_at(arrival->last, ctx);
	uint32_t tries = 0;

	find_last(judge, ctx, arrival->seq - 1, out);
	for (uint32_t i = 0; i < group->head_count && tries < BEFORE_TRIES; i++) {
		if (out->last != NULL)
			return;
		if (group->heads[i].seq >= arrival->seq)
			continue;
		tries++;
		find_last(judge, ctx, group->heads[i].seq, out);
	}
}

static bool took_long(const struct twi_state_group *group, uint64_t seq)
{
	for (uint32_t i = 0; i < group->long_count; i++)
		if (group->longs[i].seq == seq)
			return true;
	return false;
}

/*
 * The longest time for which the rank worked on its own before a burst, without bursts that took
 * long. If all of its last bursts did, it is the shortest time: a rank that is always equally late
 * takes as long before each. UINT64_MAX: its last calls do not show it.
 */
static uint64_t usual_own(const struct twi_state_group *group)
{
	uint64_t most = 0, least = UINT64_MAX;
	bool known = false;

	for (uint32_t i = 0; i < group->past_count; i++) {
		const struct twi_state_past *past = &group->past[i];
		const struct twi_state_past *before = twi_state_group_past(group, past->seq - 1);

		if (before == NULL || before->done_ns == 0 || before->done_ns > past->start_ns)
			continue;
		least = twi_min(least, past->start_ns - before->done_ns);
		if (took_long(group, past->seq))
			continue;
		most = twi_max(most, past->start_ns - before->done_ns);
		known = true;
	}
	return known ? most : least;
}

/*
 * How much of the lateness the others can have lost by this call. A rank that is always equally
 * late costs nothing if no rank waits for the end of a call. If its earlier lateness is not known,
 * it may be such a rank, unless the burst took far longer than usual.
 *
 * The known arrival before a long burst may be many calls back, because only long bursts are kept
 * of a rank that pauses. It may have been as late there. Then the rank's own time counts, as far as
 * it is longer than usual.
 */
static uint64_t newly_late(const struct twi_judge *judge, uint32_t ctx,
			   const struct twi_arrival *arrival, bool is_long, uint64_t own_ns)
{
	const struct twi_state_group *group = twi_group_at(arrival->last, ctx);
	uint64_t late = twi_since(arrival->at_ns, arrival->second_ns);
	struct twi_arrival before;
	uint64_t more;

	find_before(judge, ctx, arrival, &before);
	if (have_waited(judge, ctx, arrival, &before))
		return late;
	if (before.last == NULL)
		return is_long ? late : 0;
	if (before.last != arrival->last)
		return late;
	more = twi_since(late, twi_since(before.at_ns, before.second_ns));
	if (is_long && before.seq + 1 != arrival->seq)
		more = twi_max(more, twi_min(late, twi_since(own_ns, usual_own(group))));
	return more;
}

/* Sets the delay, without the time for which the rank itself was held up before its call. */
static void find_own_delay(const struct twi_judge *judge, uint32_t ctx, struct twi_arrival *arrival,
			   bool is_long)
{
	const struct twi_state_group *group = twi_group_at(arrival->last, ctx);
	const struct twi_state_past *past = twi_state_group_past(group, arrival->seq - 1);
	uint64_t late = twi_since(arrival->at_ns, arrival->second_ns), own = late, delay, start;
	uint64_t idle;

	if (!came_at(group, arrival->seq, &start))
		return;
	idle = idle_since(group, arrival->seq, start);
	if (idle != 0)
		own = twi_since(start, idle);
	else if (past != NULL)
		own = twi_since(start, past->start_ns);
	delay = twi_min(twi_min(late, own), newly_late(judge, ctx, arrival, is_long, own));
	arrival->delay_ns = delay > 2 * arrival->error_ns ? delay - arrival->error_ns : 0;
	arrival->burst = arrival->delay_ns < TWI_JUDGE_LATE_NS && late >= TWI_JUDGE_LATE_NS;
}

/* The row of the rank with the oldest head. Its calls are looked up at the other ranks. */
static const struct twi_state_group *furthest_back(const struct twi_judge *judge, uint32_t ctx)
{
	const struct twi_state_group *best = NULL;

	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_state_group *group = twi_group_at(&judge->what->ranks[i], ctx);

		if (group == NULL || (best != NULL && group->head_count == 0))
			continue;
		if (best == NULL || best->head_count == 0 ||
		    group->heads[group->head_count - 1].seq < best->heads[best->head_count - 1].seq)
			best = group;
	}
	return best;
}

/* Adds the arrival at `seq`, but not the first two of a group, which belong to its set-up. */
static void add_arrival(const struct twi_judge *judge, uint32_t ctx, uint64_t seq, bool is_long,
			struct twi_arrival out[TWI_JUDGE_ARRIVALS], uint32_t *count)
{
	struct twi_arrival *one = &out[*count];

	if (seq <= 2 || *count == TWI_JUDGE_ARRIVALS)
		return;
	find_last(judge, ctx, seq, one);
	if (one->last == NULL || twi_since(judge->what->now_ns, one->at_ns) > RECENT_NS)
		return;
	find_own_delay(judge, ctx, one, is_long);
	++*count;
}

uint32_t twi_judge_arrivals(const struct twi_judge *judge, uint32_t ctx,
			    struct twi_arrival out[TWI_JUDGE_ARRIVALS])
{
	const struct twi_state_group *group = furthest_back(judge, ctx);
	uint64_t oldest = UINT64_MAX;
	uint32_t count = 0;

	for (uint32_t i = 0; group != NULL && i < group->past_count; i++) {
		oldest = group->past[i].seq;
		add_arrival(judge, ctx, oldest, false, out, &count);
	}
	for (uint32_t i = 0; group != NULL && i < group->head_count; i++) {
		if (group->heads[i].seq < oldest)
			add_arrival(judge, ctx, group->heads[i].seq, false, out, &count);
	}
	return count;
}

/* The arrivals at one rank's long bursts; what they cost together. */
static uint32_t long_arrivals_of(const struct twi_judge *judge, uint32_t ctx,
				 const struct twi_state_group *group,
				 struct twi_arrival out[TWI_JUDGE_ARRIVALS], uint64_t *lost_ns)
{
	uint32_t count = 0;

	*lost_ns = 0;
	for (uint32_t i = 0; i < group->long_count; i++)
		add_arrival(judge, ctx, group->longs[i].seq, true, out, &count);
	for (uint32_t i = 0; i < count; i++)
		*lost_ns += out[i].delay_ns;
	return count;
}

/* A rank that pauses comes last, so its own bursts are short. Those of others show the pauses. */
uint32_t twi_judge_long_arrivals(const struct twi_judge *judge, uint32_t ctx,
				 struct twi_arrival out[TWI_JUDGE_ARRIVALS])
{
	struct twi_arrival tried[TWI_JUDGE_ARRIVALS];
	uint32_t count = 0, tries = 0;
	uint64_t most = 0, lost;

	for (uint32_t i = 0; i < judge->what->rank_count && tries < LONG_TRIES; i++) {
		const struct twi_state_group *group = twi_group_at(&judge->what->ranks[i], ctx);
		uint32_t found;

		if (group == NULL || group->long_count == 0)
			continue;
		tries++;
		found = long_arrivals_of(judge, ctx, group, tried, &lost);
		if (count > 0 && lost <= most)
			continue;
		for (uint32_t k = 0; k < found; k++)
			out[k] = tried[k];
		count = found;
		most = lost;
	}
	return count;
}
