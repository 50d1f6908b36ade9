/*
 * verdict_colls.c - ranks that call something else, and ranks that are missing.
 *
 * The n-th collective of a group is the same one at all ranks, so the states of ranks are compared
 * by group and seq.
 */
#include "diag/judge/verdict_parts.h"

#include <stdio.h>

#include <internal/base.h>
#include <towline/status.h>

#define MS_NS       1000000ull
#define WAITED_NS   (600 * MS_NS)   /* time in one collective, before a rank counts as missing */
#define UNWAITED_NS (3000 * MS_NS)  /* the same, if no thread waits for the collective */
#define USUAL_MAX   (10000 * MS_NS) /* upper bound of the time from one collective to the next */
#define HELD_NS     (300 * MS_NS)   /* least time of a wait for something else */

/* The median time from one call to the next, as far as it is known. */
uint64_t twi_judge_usual(const struct twi_state_group *group)
{
	uint64_t steps[TWI_STATE_PAST];
	uint32_t count = 0;

	/* past[0] is the call that the rank waits in. */
	for (uint32_t i = 1; i + 1 < group->past_count; i++) {
		uint64_t step = twi_since(group->past[i].start_ns, group->past[i + 1].start_ns);
		uint32_t at = count++;

		for (; at > 0 && steps[at - 1] > step; at--)
			steps[at] = steps[at - 1];
		steps[at] = step;
	}
	return count > 0 ? twi_min(steps[count / 2], USUAL_MAX) : 0;
}

static bool waits_in(const struct twi_rank_state *state, uint32_t ctx, uint64_t seq)
{
	for (uint32_t i = 0; i < state->wait_count; i++) {
		if (state->waits[i].kind == TWI_STATE_COLL && state->waits[i].ctx == ctx &&
		    state->waits[i].seq == seq)
			return true;
	}
	return false;
}

/* The oldest collective of the group in which the rank has been for too long; NULL: none. */
static const struct twi_state_past *long_in(const struct twi_verdict_rank *rank, uint32_t ctx)
{
	const struct twi_state_group *group = twi_group_at(rank, ctx);
	const struct twi_state_group *before = twi_rank_state_group(rank->first, ctx);
	const struct twi_state_past *found = NULL;

	for (uint32_t i = 0; group != NULL && i < group->past_count; i++) {
		if (group->past[i].done_ns == 0)
			found = &group->past[i]; /* newest first */
	}
	if (found != NULL && before != NULL && before->last_seq < found->seq)
		return NULL; /* the group goes on */
	if (found != NULL) {
		uint64_t most = waits_in(rank->last, ctx, found->seq) ? WAITED_NS : UNWAITED_NS;

		most = twi_max(most, twi_judge_usual(group));
		if (twi_since(rank->last->now_ns, found->start_ns) < most)
			return NULL;
	}
	return found;
}

/* The earliest collective of the group in which any rank has been for too long. */
static const struct twi_state_past *stuck_in(const struct twi_judge *judge, uint32_t ctx,
					     const struct twi_verdict_rank **at_out)
{
	const struct twi_state_past *found = NULL;

	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *rank = &judge->what->ranks[i];
		const struct twi_state_past *here = rank->last != NULL ? long_in(rank, ctx) : NULL;

		if (here != NULL && (found == NULL || here->seq < found->seq)) {
			found = here;
			*at_out = rank;
		}
	}
	return found;
}

/* Calls `found` once for each group that any rank knows. */
void twi_judge_groups(struct twi_judge *judge, void (*found)(struct twi_judge *, uint32_t ctx))
{
	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_rank_state *state = judge->what->ranks[i].last;

		for (uint32_t k = 0; state != NULL && k < state->group_count; k++) {
			uint32_t ctx = state->groups[k].ctx;
			bool seen = false;

			for (uint32_t j = 0; j < i && !seen; j++)
				seen = twi_group_at(&judge->what->ranks[j], ctx) != NULL;
			if (!seen)
				found(judge, ctx);
		}
	}
}

/*
 * Whether an operation of the rank has ended between the looks, or it has called another
 * collective. Then a thread that sits in a receive, as that of a server does, holds nothing up.
 */
static bool has_moved(const struct twi_verdict_rank *rank)
{
	if (rank->first == NULL)
		return false;
	for (uint32_t i = 0; i < rank->last->group_count; i++) {
		const struct twi_state_group *before =
			twi_rank_state_group(rank->first, rank->last->groups[i].ctx);

		if (before != NULL && before->last_seq < rank->last->groups[i].last_seq)
			return true;
	}
	return rank->last->ended > rank->first->ended;
}

bool twi_judge_stuck(const struct twi_judge *judge)
{
	const struct twi_verdict_rank *at;

	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_rank_state *state = judge->what->ranks[i].last;

		for (uint32_t k = 0; state != NULL && k < state->group_count; k++) {
			if (stuck_in(judge, state->groups[k].ctx, &at) != NULL)
				return true;
		}
		if (state == NULL || has_moved(&judge->what->ranks[i]))
			continue;
		for (uint32_t k = 0; k < state->wait_count; k++) {
			if (twi_since(state->now_ns, state->waits[k].since_ns) >= UNWAITED_NS)
				return true;
		}
	}
	return false;
}

/* --- agreement --- */

struct vote {
	uint64_t signature;
	uint32_t count;
	const struct twi_verdict_rank *first;
	const struct twi_state_past *past;
};

/* Counts which ranks have made which call as `seq`: up to 8 different calls. */
static uint32_t vote_on(const struct twi_judge *judge, uint32_t ctx, uint64_t seq,
			struct vote *votes)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *rank = &judge->what->ranks[i];
		const struct twi_state_past *past =
			twi_state_group_past(twi_group_at(rank, ctx), seq);
		uint32_t k = 0;

		if (past == NULL || past->signature == 0) /* not known while a group is set up */
			continue;
		while (k < count && votes[k].signature != past->signature)
			k++;
		if (k == 8)
			continue;
		if (k == count)
			votes[count++] = (struct vote){ past->signature, 0, rank, past };
		votes[k].count++;
	}
	return count;
}

static void blame_minority(struct twi_judge *judge, uint32_t ctx, uint64_t seq,
			   const struct vote *most, bool tie)
{
	char room[TWI_JUDGE_KIND], others[TWI_JUDGE_KIND], call[TWI_JUDGE_CALL];

	twi_judge_call(judge, ctx, seq, call);
	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *rank = &judge->what->ranks[i];
		const struct twi_state_past *past =
			twi_state_group_past(twi_group_at(rank, ctx), seq);

		if (past == NULL || past->signature == 0 ||
		    (!tie && past->signature == most->signature))
			continue;
		twi_judge_blame(
			judge, TWI_CAUSE_OTHER_OPERATION, rank->rank, tie ? 0.6 : 0.98,
			"%s is %s of %llu bytes at rank %u, and at %u other%s (rank %u) %s of %llu "
			"bytes",
			call, twi_judge_kind(judge, rank, ctx, past, room),
			(unsigned long long)past->bytes, rank->rank, most->count,
			most->count == 1 ? "" : "s", most->first->rank,
			twi_judge_kind(judge, most->first, ctx, most->past, others),
			(unsigned long long)most->past->bytes);
	}
}

/* The seq at which ranks may disagree: where the group broke for that reason, or is stuck. */
static uint64_t doubtful_seq(const struct twi_judge *judge, uint32_t ctx)
{
	const struct twi_verdict_rank *at;
	const struct twi_state_past *stuck;

	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_state_group *group = twi_group_at(&judge->what->ranks[i], ctx);

		if (group != NULL && group->broken == TOW_EMISMATCH)
			return group->broken_seq;
	}
	stuck = stuck_in(judge, ctx, &at);
	return stuck != NULL ? stuck->seq : 0;
}

static void judge_agreement(struct twi_judge *judge, uint32_t ctx)
{
	uint64_t seq = doubtful_seq(judge, ctx);
	struct vote votes[8];
	uint32_t count = seq > 0 ? vote_on(judge, ctx, seq, votes) : 0, best = 0, same = 0;

	if (count < 2)
		return;
	for (uint32_t i = 1; i < count; i++) {
		if (votes[i].count > votes[best].count)
			best = i;
	}
	for (uint32_t i = 0; i < count; i++)
		same += votes[i].count == votes[best].count;
	blame_minority(judge, ctx, seq, &votes[best], same > 1);
}

void twi_judge_agreement(struct twi_judge *judge)
{
	twi_judge_groups(judge, judge_agreement);
}

/* --- missing ranks --- */

/* A wait of the rank that has lasted for long, in whatever operation; NULL: none. */
static const struct twi_state_wait *held_elsewhere(const struct twi_verdict_rank *rank)
{
	for (uint32_t i = 0; i < rank->last->wait_count; i++) {
		if (twi_since(rank->last->now_ns, rank->last->waits[i].since_ns) >= HELD_NS)
			return &rank->last->waits[i];
	}
	return NULL;
}

/* How many ranks are known to wait in `seq` of `ctx`. */
static uint32_t waiters_in(const struct twi_judge *judge, uint32_t ctx, uint64_t seq)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_rank_state *state = judge->what->ranks[i].last;

		count += state != NULL && waits_in(state, ctx, seq);
	}
	return count;
}

/*
 * Whether the collective that `wait` is for depends on a rank that waits in `seq` of `ctx`: that is
 * a circle. Circles with messages in them are found by verdict_waits.c.
 */
static bool waits_in_circle(const struct twi_judge *judge, const struct twi_state_wait *wait,
			    uint32_t ctx, uint64_t seq)
{
	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *rank = &judge->what->ranks[i];
		const struct twi_state_group *there = twi_group_at(rank, wait->ctx);

		if (rank->last == NULL || !waits_in(rank->last, ctx, seq))
			continue;
		if (wait->kind == TWI_STATE_COLL && there != NULL && there->last_seq < wait->seq)
			return true;
	}
	return false;
}

struct absence {
	uint32_t ctx;
	uint64_t seq;
	const struct twi_verdict_rank *waiting;
	const struct twi_state_past *past;
	uint32_t arrival_count;
	struct twi_arrival arrivals[TWI_JUDGE_ARRIVALS]; /* at the last complete calls */
};

/* The rank waits for ranks that wait for it. The smaller number has called something else. */
static void blame_circle(struct twi_judge *judge, uint32_t rank, const struct twi_state_wait *wait,
			 const struct absence *absence)
{
	uint32_t with = waiters_in(judge, wait->ctx, wait->seq);
	uint32_t against = waiters_in(judge, absence->ctx, absence->seq);
	char there[TWI_JUDGE_CALL], here[TWI_JUDGE_CALL];

	if (with > against)
		return;
	twi_judge_call(judge, absence->ctx, absence->seq, there);
	twi_judge_call(judge, wait->ctx, wait->seq, here);
	twi_judge_blame(judge, TWI_CAUSE_OTHER_OPERATION, rank, with == against ? 0.6 : 0.9,
			"rank %u waits in %s, for ranks that wait for it in %s", rank, here, there);
}

/* Whether something known holds the rank up. True: it is blamed for that, or another rank is. */
static bool is_held_up(struct twi_judge *judge, const struct twi_verdict_rank *rank,
		       const struct absence *absence)
{
	const struct twi_rank_state *state = rank->last;
	const struct twi_state_wait *wait = held_elsewhere(rank);
	uint64_t age = twi_since(state->now_ns, state->pool_since_ns);
	char time[24], call[TWI_JUDGE_CALL];

	twi_judge_call(judge, absence->ctx, absence->seq, call);
	if (state->pool_waiters > 0 && age >= HELD_NS) {
		twi_judge_blame(judge, TWI_CAUSE_POOL, rank->rank, 0.97,
				"rank %u has waited for %s for %llu bytes of its pool, of which "
				"%llu of %llu bytes are free, and has not entered %s",
				rank->rank, twi_judge_time(age, time),
				(unsigned long long)state->pool_wanted_bytes,
				(unsigned long long)state->pool_free_bytes,
				(unsigned long long)state->pool_bytes, call);
		return true;
	}
	age = twi_since(state->now_ns, state->copy_since_ns);
	if (wait != NULL && state->copies > 0 && wait->kind == TWI_STATE_COPY && age >= HELD_NS) {
		twi_judge_blame(judge, TWI_CAUSE_DEVICE, rank->rank, 0.95,
				"rank %u has waited for %s for a copy with its device, and has not "
				"entered %s",
				rank->rank, twi_judge_time(age, time), call);
		return true;
	}
	if (wait == NULL)
		return false;
	if (waits_in_circle(judge, wait, absence->ctx, absence->seq))
		blame_circle(judge, rank->rank, wait, absence);
	return true; /* or the culprit is found elsewhere */
}

/*
 * Whether the rank has not come because it lacks a CPU. The time begins with the end of its last
 * call, at most UNWAITED_NS ago, or with the first look if that is earlier.
 */
static bool is_starved(const struct twi_judge *judge, const struct twi_verdict_rank *rank,
		       const struct twi_state_past *last, double *share_out)
{
	uint64_t now = rank->last->now_ns, from = now;
	struct twi_starved cpu;

	if (last != NULL && last->done_ns != 0)
		from = twi_max(last->done_ns, twi_since(now, UNWAITED_NS));
	if (rank->first != NULL)
		from = twi_min(from, rank->first->now_ns);
	twi_judge_starved(judge, rank, from, now, &cpu);
	*share_out = cpu.waited;
	return cpu.own >= 0.5;
}

static void blame_missing(struct twi_judge *judge, const struct twi_verdict_rank *rank,
			  const struct absence *absence)
{
	const struct twi_state_group *group = twi_group_at(rank, absence->ctx);
	const struct twi_state_past *done = group->past_count > 0 ? &group->past[0] : NULL;
	uint64_t waited = twi_since(absence->waiting->last->now_ns, absence->past->start_ns);
	char time[24], kind[TWI_JUDGE_KIND], last[24], call[TWI_JUDGE_CALL];
	char quota[TWI_JUDGE_QUOTA];
	uint32_t of = absence->arrival_count, late = 0;
	double share;

	for (uint32_t i = 0; i < of; i++)
		late += absence->arrivals[i].last == rank &&
			absence->arrivals[i].delay_ns >= HELD_NS;

	twi_judge_call(judge, absence->ctx, absence->seq, call);
	twi_judge_kind(judge, absence->waiting, absence->ctx, absence->past, kind);
	twi_judge_time(waited, time);
	twi_judge_time(done != NULL ? twi_since(rank->last->now_ns, done->done_ns) : 0, last);
	if (is_starved(judge, rank, done, &share))
		twi_judge_blame(judge, twi_judge_denied(rank, share, quota), rank->rank, 0.9,
				"rank %u wanted a CPU and had none for %.0f %% of the time%s; it "
				"has not entered %s (%s), in which rank %u has waited for %s",
				rank->rank, share * 100, quota, call, kind, absence->waiting->rank,
				time);
	else if (of >= 3 && late * 2 >= of)
		twi_judge_blame(judge, TWI_CAUSE_LATE, rank->rank, 0.9,
				"rank %u came last by 300 ms and more to %u of the last %u %ss, "
				"and has not come to %s, in which rank %u has waited for %s",
				rank->rank, late, of, twi_ctx_word(absence->ctx), call,
				absence->waiting->rank, time);
	else
		twi_judge_blame(
			judge, TWI_CAUSE_NEVER_ENTERED, rank->rank, 0.97,
			"rank %u has not entered %s (%s), in which rank %u has waited for %s; its "
			"last was %llu, over since %s, and it %s",
			rank->rank, call, kind, absence->waiting->rank, time,
			(unsigned long long)group->last_seq, done != NULL ? last : "ever",
			rank->last->waiters > 0 ? "waits elsewhere"
						: "waits in no call of the library");
}

/* The collective whose deadline has passed, if the group broke for that reason. */
static const struct twi_state_past *ended_at(const struct twi_judge *judge, uint32_t ctx,
					     const struct twi_verdict_rank **at_out)
{
	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *rank = &judge->what->ranks[i];
		const struct twi_state_group *group = twi_group_at(rank, ctx);
		const struct twi_state_past *past = NULL;

		if (group != NULL && group->broken == TOW_EDEADLINE)
			past = twi_state_group_past(group, group->broken_seq);
		*at_out = rank;
		if (past != NULL)
			return past;
	}
	return NULL;
}

static void judge_missing(struct twi_judge *judge, uint32_t ctx)
{
	struct absence absence = { .ctx = ctx };

	absence.past = stuck_in(judge, ctx, &absence.waiting);
	if (absence.past == NULL)
		absence.past = ended_at(judge, ctx, &absence.waiting);
	if (absence.past == NULL)
		return;
	absence.seq = absence.past->seq;
	absence.arrival_count = twi_judge_arrivals(judge, ctx, absence.arrivals);
	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *rank = &judge->what->ranks[i];
		const struct twi_state_group *group = twi_group_at(rank, ctx);

		if (group == NULL || group->last_seq >= absence.seq ||
		    is_held_up(judge, rank, &absence))
			continue;
		blame_missing(judge, rank, &absence);
	}
}

void twi_judge_missing(struct twi_judge *judge)
{
	twi_judge_groups(judge, judge_missing);
}
