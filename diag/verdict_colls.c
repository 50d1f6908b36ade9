/*
 * verdict_colls.c - who calls something else, who is missing, who comes late.
 *
 * The n-th collective of a group at one rank is the n-th at all, so states can be laid beside each
 * other by group and seq. What a rank does itself is the time from the end of one collective to its
 * call of the next; that it was held up in one by others is not its own doing.
 */
#include "diag/verdict.h"

#include <stdio.h>

#include <internal/base.h>
#include <towline/status.h>

#define MS_NS       1000000ull
#define WAITED_NS   (600 * MS_NS)   /* in one collective, before somebody is missing */
#define UNWAITED_NS (3000 * MS_NS)  /* the same where no thread waits for it */
#define USUAL_MAX   (10000 * MS_NS) /* of the time from one collective to the next */
#define HELD_NS     (300 * MS_NS)   /* in something else */
#define LATE_SEQS   6u
#define LATE_MIN_NS (2 * MS_NS)
#define ONCE_NS     (400 * MS_NS)   /* late so much, a single time is enough */
#define RECENT_NS   (15000 * MS_NS)

static uint64_t since(uint64_t now, uint64_t then)
{
	return now > then ? now - then : 0;
}

static const struct twi_state_group *group_at(const struct twi_verdict_rank *rank, uint32_t ctx)
{
	return twi_rank_state_group(rank->last, ctx);
}

/* The median time from one call to the next, as far as it is known. */
static uint64_t usual_ns(const struct twi_state_group *group)
{
	uint64_t steps[TWI_STATE_PAST];
	uint32_t count = 0;

	/* past[0] is the one that is waited in. */
	for (uint32_t i = 1; i + 1 < group->past_count; i++) {
		uint64_t step = since(group->past[i].start_ns, group->past[i + 1].start_ns);
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

/* The oldest collective of the group in which this rank has been for too long; NULL: none. */
static const struct twi_state_past *long_in(const struct twi_verdict_rank *rank, uint32_t ctx)
{
	const struct twi_state_group *group = group_at(rank, ctx);
	const struct twi_state_group *before = twi_rank_state_group(rank->first, ctx);
	const struct twi_state_past *found = NULL;

	for (uint32_t i = 0; group != NULL && i < group->past_count; i++) {
		if (group->past[i].done_ns == 0)
			found = &group->past[i]; /* newest first */
	}
	if (found != NULL && before != NULL && before->last_seq < found->seq)
		return NULL; /* it goes on */
	if (found != NULL) {
		uint64_t most = waits_in(rank->last, ctx, found->seq) ? WAITED_NS : UNWAITED_NS;

		most = twi_max(most, usual_ns(group));
		if (since(rank->last->now_ns, found->start_ns) < most)
			return NULL;
	}
	return found;
}

/* The earliest collective of the group in which somebody has been for too long. */
static const struct twi_state_past *stuck_in(const struct twi_judge *judge, uint32_t ctx,
					     const struct twi_verdict_rank **at_out)
{
	const struct twi_state_past *found = NULL;

	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *rank = &judge->what->ranks[i];
		const struct twi_state_past *here =
			rank->last != NULL ? long_in(rank, ctx) : NULL;

		if (here != NULL && (found == NULL || here->seq < found->seq)) {
			found = here;
			*at_out = rank;
		}
	}
	return found;
}

/* Calls `found` once for each group that anybody knows. */
static void each_group(struct twi_judge *judge, void (*found)(struct twi_judge *, uint32_t ctx))
{
	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_rank_state *state = judge->what->ranks[i].last;

		for (uint32_t k = 0; state != NULL && k < state->group_count; k++) {
			uint32_t ctx = state->groups[k].ctx;
			bool seen = false;

			for (uint32_t j = 0; j < i && !seen; j++)
				seen = group_at(&judge->what->ranks[j], ctx) != NULL;
			if (!seen)
				found(judge, ctx);
		}
	}
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
		for (uint32_t k = 0; state != NULL && k < state->wait_count; k++) {
			if (since(state->now_ns, state->waits[k].since_ns) >= UNWAITED_NS)
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

/* Who has called what as `seq`: of at most 8 different calls. */
static uint32_t vote(const struct twi_judge *judge, uint32_t ctx, uint64_t seq, struct vote *votes)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *rank = &judge->what->ranks[i];
		const struct twi_state_past *past =
			twi_state_group_past(group_at(rank, ctx), seq);
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
	char room[24], others[24];

	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *rank = &judge->what->ranks[i];
		const struct twi_state_past *past =
			twi_state_group_past(group_at(rank, ctx), seq);

		if (past == NULL || past->signature == 0 || (!tie && past->signature == most->signature))
			continue;
		twi_judge_blame(judge, TWI_CAUSE_OTHER_OPERATION, rank->rank, tie ? 0.6 : 0.98,
				"collective %llu of group %u is %s of %llu bytes at rank %u, and at "
				"%u other%s (rank %u) %s of %llu bytes",
				(unsigned long long)seq, ctx,
				twi_judge_kind(judge, past->kind, room),
				(unsigned long long)past->bytes, rank->rank, most->count,
				most->count == 1 ? "" : "s", most->first->rank,
				twi_judge_kind(judge, most->past->kind, others),
				(unsigned long long)most->past->bytes);
	}
}

/* The seq at which ranks may disagree: where the group broke for that, or where all stand. */
static uint64_t doubtful_seq(const struct twi_judge *judge, uint32_t ctx)
{
	const struct twi_verdict_rank *at;
	const struct twi_state_past *stuck;

	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_state_group *group = group_at(&judge->what->ranks[i], ctx);

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
	uint32_t count = seq > 0 ? vote(judge, ctx, seq, votes) : 0, best = 0, same = 0;

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
	each_group(judge, judge_agreement);
}

/* --- what holds a rank up --- */

/* The shares of the time between the two looks that it waited for a CPU, and had one. */
static void cpu_shares(const struct twi_verdict_rank *rank, double *waited_out, double *ran_out)
{
	double window;

	*waited_out = *ran_out = 0;
	if (rank->first == NULL || rank->last == NULL ||
	    rank->first->thread != rank->last->thread || rank->last->now_ns <= rank->first->now_ns)
		return;
	window = (double)(rank->last->now_ns - rank->first->now_ns);
	*waited_out = (double)since(rank->last->run_queue_ns, rank->first->run_queue_ns) / window;
	*ran_out = (double)since(rank->last->on_cpu_ns, rank->first->on_cpu_ns) / window;
}

/* It wants a CPU all the time, and much more than others has none. */
static bool is_starved(const struct twi_judge *judge, const struct twi_verdict_rank *rank,
		       double *waited_out)
{
	double waited, ran, others = 0;
	uint32_t count = 0;

	cpu_shares(rank, waited_out, &ran);
	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *other = &judge->what->ranks[i];
		double unused;

		if (other == rank || other->first == NULL || other->last == NULL)
			continue;
		cpu_shares(other, &waited, &unused);
		others += waited;
		count++;
	}
	return *waited_out >= 0.5 && *waited_out >= ran &&
	       (count == 0 || *waited_out * count >= 2 * others);
}

/* Its thread waits for something else than collective `seq`; NULL: none does for long. */
static const struct twi_state_wait *held_elsewhere(const struct twi_verdict_rank *rank)
{
	for (uint32_t i = 0; i < rank->last->wait_count; i++) {
		if (since(rank->last->now_ns, rank->last->waits[i].since_ns) >= HELD_NS)
			return &rank->last->waits[i];
	}
	return NULL;
}

/* Whether what `wait` is for depends on a rank that waits in `seq` of `ctx`: a circle. */
static bool waits_in_circle(const struct twi_judge *judge, const struct twi_state_wait *wait,
			    uint32_t ctx, uint64_t seq)
{
	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *rank = &judge->what->ranks[i];
		const struct twi_state_group *there = group_at(rank, wait->ctx);

		if (rank->last == NULL || !waits_in(rank->last, ctx, seq))
			continue;
		if (wait->kind == TWI_STATE_COLL ? there != NULL && there->last_seq < wait->seq
						 : wait->rank == rank->rank)
			return true;
	}
	return false;
}

/* --- who came when --- */

static uint64_t ours(const struct twi_verdict_rank *rank, uint64_t theirs_ns)
{
	return theirs_ns - (uint64_t)rank->offset_ns;
}

/* Of one collective: who came last, unless not all ranks of the group are known to have come. */
struct arrival {
	const struct twi_verdict_rank *last; /* NULL: not known */
	uint64_t seq, at_ns;                 /* by the asker's clock */
	uint64_t second_ns, error_ns;
	uint64_t delay_ns; /* later than all others, by its own doing */
};

/* That it was held up itself until just before its call is not its own doing. */
static uint64_t own_delay(const struct arrival *arrival, uint32_t ctx)
{
	const struct twi_state_group *group = group_at(arrival->last, ctx);
	const struct twi_state_past *call = twi_state_group_past(group, arrival->seq);
	const struct twi_state_past *before = twi_state_group_past(group, arrival->seq - 1);
	uint64_t delay = since(arrival->at_ns, arrival->second_ns);

	if (before != NULL) {
		/* One that was under way all the time says nothing of what it was held up by. */
		bool apart = before->done_ns != 0 && before->done_ns <= call->start_ns;
		uint64_t from = apart ? before->done_ns : before->start_ns;

		delay = twi_min(delay, since(call->start_ns, from));
	}
	return delay > 2 * arrival->error_ns ? delay - arrival->error_ns : 0;
}

static void find_arrival(const struct twi_judge *judge, uint32_t ctx, uint64_t seq,
			 struct arrival *out)
{
	uint32_t count = 0, size = 0;

	*out = (struct arrival){ .seq = seq };
	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *rank = &judge->what->ranks[i];
		const struct twi_state_group *group = group_at(rank, ctx);
		const struct twi_state_past *past = twi_state_group_past(group, seq);
		uint64_t at;

		if (past == NULL)
			continue;
		count++;
		size = group->size;
		out->error_ns = twi_max(out->error_ns, rank->error_ns);
		at = ours(rank, past->start_ns);
		if (out->last != NULL && at <= out->at_ns) {
			out->second_ns = twi_max(out->second_ns, at);
			continue;
		}
		out->second_ns = out->last != NULL ? out->at_ns : 0;
		out->at_ns = at;
		out->last = rank;
	}
	if (count < 2 || count != size)
		out->last = NULL;
	else
		out->delay_ns = own_delay(out, ctx);
}

/* Those of the last few seconds, but for the first two of a group, which come with its set-up. */
static uint32_t find_arrivals(const struct twi_judge *judge, uint32_t ctx,
			      struct arrival out[TWI_STATE_PAST])
{
	const struct twi_state_group *group = NULL;
	uint32_t count = 0;

	for (uint32_t i = 0; i < judge->what->rank_count && group == NULL; i++)
		group = group_at(&judge->what->ranks[i], ctx);
	for (uint32_t i = 0; group != NULL && i < group->past_count; i++) {
		if (group->past[i].seq <= 2)
			continue;
		find_arrival(judge, ctx, group->past[i].seq, &out[count]);
		if (out[count].last != NULL &&
		    since(judge->what->now_ns, out[count].at_ns) <= RECENT_NS)
			count++;
	}
	return count;
}

/* --- who is missing --- */

struct absence {
	uint32_t ctx;
	uint64_t seq;
	const struct twi_verdict_rank *waiting;
	const struct twi_state_past *past;
	uint32_t arrival_count;
	struct arrival arrivals[TWI_STATE_PAST]; /* at the last ones that all came to */
};

/* Something that is known to hold it up. True: it is blamed, or another is. */
static bool is_held_up(struct twi_judge *judge, const struct twi_verdict_rank *rank,
		       const struct absence *absence)
{
	const struct twi_rank_state *state = rank->last;
	const struct twi_state_wait *wait = held_elsewhere(rank);
	uint64_t age = since(state->now_ns, state->pool_since_ns);
	char time[24];

	if (state->pool_waiters > 0 && age >= HELD_NS) {
		twi_judge_blame(judge, TWI_CAUSE_POOL, rank->rank, 0.97,
				"rank %u has waited for %s for %llu bytes of its pool, of which "
				"%llu of %llu bytes are free, and has not entered collective %llu "
				"of group %u",
				rank->rank, twi_judge_time(age, time),
				(unsigned long long)state->pool_wanted_bytes,
				(unsigned long long)state->pool_free_bytes,
				(unsigned long long)state->pool_bytes,
				(unsigned long long)absence->seq, absence->ctx);
		return true;
	}
	age = since(state->now_ns, state->copy_since_ns);
	if (wait != NULL && state->copies > 0 && wait->kind == TWI_STATE_COPY && age >= HELD_NS) {
		twi_judge_blame(judge, TWI_CAUSE_DEVICE, rank->rank, 0.95,
				"rank %u has waited for %s for a copy with its device, and has not "
				"entered collective %llu of group %u",
				rank->rank, twi_judge_time(age, time),
				(unsigned long long)absence->seq, absence->ctx);
		return true;
	}
	if (wait == NULL)
		return false;
	if (!waits_in_circle(judge, wait, absence->ctx, absence->seq))
		return true; /* who holds it up is looked for elsewhere */
	twi_judge_blame(judge, TWI_CAUSE_OTHER_OPERATION, rank->rank, 0.9,
			"rank %u waits in %s %llu, for ranks that wait for it in collective %llu "
			"of group %u",
			rank->rank,
			wait->kind == TWI_STATE_COLL ? "another group's collective" :
						       "a message with tag",
			(unsigned long long)(wait->kind == TWI_STATE_COLL ? wait->seq : wait->tag),
			(unsigned long long)absence->seq, absence->ctx);
	return true;
}

static void blame_missing(struct twi_judge *judge, const struct twi_verdict_rank *rank,
			  const struct absence *absence)
{
	const struct twi_state_group *group = group_at(rank, absence->ctx);
	const struct twi_state_past *done = group->past_count > 0 ? &group->past[0] : NULL;
	uint64_t waited = since(absence->waiting->last->now_ns, absence->past->start_ns);
	char time[24], kind[24], last[24];
	uint32_t of = absence->arrival_count, late = 0;
	double share;

	for (uint32_t i = 0; i < of; i++)
		late += absence->arrivals[i].last == rank &&
			absence->arrivals[i].delay_ns >= HELD_NS;

	twi_judge_time(waited, time);
	twi_judge_time(done != NULL ? since(rank->last->now_ns, done->done_ns) : 0, last);
	if (is_starved(judge, rank, &share))
		twi_judge_blame(judge, TWI_CAUSE_CPU, rank->rank, 0.9,
				"rank %u wanted a CPU and had none for %.0f %% of the time; it has "
				"not entered collective %llu of group %u, in which rank %u has "
				"waited for %s",
				rank->rank, share * 100, (unsigned long long)absence->seq,
				absence->ctx, absence->waiting->rank, time);
	else if (of >= 3 && late * 2 >= of)
		twi_judge_blame(judge, TWI_CAUSE_LATE, rank->rank, 0.9,
				"rank %u came last by 300 ms and more to %u of the last %u "
				"collectives of group %u, and has not come to %llu, in which rank "
				"%u has waited for %s",
				rank->rank, late, of, absence->ctx,
				(unsigned long long)absence->seq, absence->waiting->rank, time);
	else
		twi_judge_blame(judge, TWI_CAUSE_NEVER_ENTERED, rank->rank, 0.97,
				"rank %u has not entered collective %llu of group %u (%s), in "
				"which rank %u has waited for %s; its last was %llu, over since %s, "
				"and it %s",
				rank->rank, (unsigned long long)absence->seq, absence->ctx,
				twi_judge_kind(judge, absence->past->kind, kind),
				absence->waiting->rank, time, (unsigned long long)group->last_seq,
				done != NULL ? last : "ever",
				rank->last->waiters > 0 ? "waits elsewhere" :
							  "waits in no call of the library");
}

/* The collective whose deadline has passed, if that is how the group broke. */
static const struct twi_state_past *ended_at(const struct twi_judge *judge, uint32_t ctx,
					     const struct twi_verdict_rank **at_out)
{
	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *rank = &judge->what->ranks[i];
		const struct twi_state_group *group = group_at(rank, ctx);
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
	absence.arrival_count = find_arrivals(judge, ctx, absence.arrivals);
	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *rank = &judge->what->ranks[i];
		const struct twi_state_group *group = group_at(rank, ctx);

		if (group == NULL || group->last_seq >= absence.seq ||
		    is_held_up(judge, rank, &absence))
			continue;
		blame_missing(judge, rank, &absence);
	}
}

void twi_judge_missing(struct twi_judge *judge)
{
	each_group(judge, judge_missing);
}

/* --- who comes late --- */

/* What makes it late, by `lost` of the time. */
static void blame_late(struct twi_judge *judge, const struct twi_verdict_rank *rank,
		       const char *how, double lost, double confidence)
{
	const struct twi_rank_state *first = rank->first, *last = rank->last;
	double waited, ran, pool = 0;

	if (first != NULL && last->now_ns > first->now_ns) {
		uint64_t ns = since(last->pool_wait_ns, first->pool_wait_ns);

		if (last->pool_waiters > 0)
			ns += since(last->now_ns, twi_max(last->pool_since_ns, first->now_ns));
		pool = (double)ns / (double)(last->now_ns - first->now_ns);
	}
	cpu_shares(rank, &waited, &ran);
	if (pool >= 0.3)
		twi_judge_blame(judge, TWI_CAUSE_POOL, rank->rank, confidence,
				"%s; it waited for room in its pool for %.0f %% of the time", how,
				pool * 100);
	else if (waited >= 0.15 && waited >= lost / 2 && waited >= ran) /* that explains it */
		twi_judge_blame(judge, TWI_CAUSE_CPU, rank->rank, confidence,
				"%s; it wanted a CPU and had none for %.0f %% of the time", how,
				waited * 100);
	else
		twi_judge_blame(judge, TWI_CAUSE_LATE, rank->rank, confidence, "%s", how);
}

/* How often `rank` came last, and what that took. */
static uint32_t count_late(const struct arrival *arrivals, uint32_t count,
			   const struct twi_verdict_rank *rank, uint64_t *lost_out)
{
	uint32_t times = 0;

	*lost_out = 0;
	for (uint32_t i = 0; i < count; i++) {
		if (arrivals[i].last != rank || arrivals[i].delay_ns < LATE_MIN_NS)
			continue;
		times++;
		*lost_out += arrivals[i].delay_ns;
	}
	return times;
}

/*
 * Of the newest `count`: one rank was late to nearly all of them, and hardly another to any, and it
 * cost much of the time. NULL: none was.
 */
static const struct twi_verdict_rank *late_one(const struct arrival *arrivals, uint32_t count,
					       uint32_t *times_out, uint64_t *lost_out)
{
	uint64_t span = since(arrivals[0].at_ns, arrivals[count - 1].at_ns), all = 0;

	for (uint32_t i = 0; i < count; i++)
		all += arrivals[i].delay_ns;
	for (uint32_t i = 0; i < count; i++) {
		const struct twi_verdict_rank *rank = arrivals[i].last;

		*times_out = count_late(arrivals, count, rank, lost_out);
		if (*times_out * 4 >= count * 3 && (*times_out == count || count >= 8) &&
		    *lost_out * 5 >= span && *lost_out * 4 >= all * 3)
			return rank;
	}
	return NULL;
}

/* One rank comes late again and again: always, or since a while. */
static bool judge_often(struct twi_judge *judge, uint32_t ctx, const struct arrival *arrivals,
			uint32_t count)
{
	char how[160], time[24], whole[24];

	for (; count >= LATE_SEQS; count--) {
		uint64_t span = since(arrivals[0].at_ns, arrivals[count - 1].at_ns), lost;
		const struct twi_verdict_rank *rank;
		uint32_t times;

		rank = late_one(arrivals, count, &times, &lost);
		if (rank == NULL)
			continue;
		snprintf(how, sizeof(how),
			 "rank %u came last to %u of the last %u collectives of group %u, by %s in "
			 "all of %s",
			 rank->rank, times, count, ctx, twi_judge_time(lost, time),
			 twi_judge_time(span, whole));
		blame_late(judge, rank, how, twi_min((double)lost / (double)(span + 1), 1.0), 0.9);
		return true;
	}
	return false;
}

static void judge_late(struct twi_judge *judge, uint32_t ctx)
{
	struct arrival arrivals[TWI_STATE_PAST];
	uint32_t count = find_arrivals(judge, ctx, arrivals), worst = 0;
	char how[160], time[24];

	if (count < 2 || judge_often(judge, ctx, arrivals, count))
		return;
	for (uint32_t i = 1; i < count; i++) {
		if (arrivals[i].delay_ns > arrivals[worst].delay_ns)
			worst = i;
	}
	if (arrivals[worst].delay_ns < ONCE_NS ||
	    arrivals[worst].delay_ns < 4 * usual_ns(group_at(arrivals[worst].last, ctx)))
		return;
	snprintf(how, sizeof(how),
		 "rank %u came to collective %llu of group %u by %s later than all others",
		 arrivals[worst].last->rank, (unsigned long long)arrivals[worst].seq, ctx,
		 twi_judge_time(arrivals[worst].delay_ns, time));
	blame_late(judge, arrivals[worst].last, how, 0.3, 0.85);
}

void twi_judge_late(struct twi_judge *judge)
{
	each_group(judge, judge_late);
}
