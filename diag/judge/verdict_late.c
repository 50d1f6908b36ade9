/*
 * verdict_late.c - ranks that come late again and again, or once by much, and the reason. It judges
 * the arrivals of verdict_arrivals.c, without those that followed the first call of a burst.
 *
 * There are two kinds of lateness. A rank is late to most calls, and that costs a fifth of the
 * time. Or it is late to nearly all of many calls, and that costs a twentieth.
 */
#include "diag/judge/verdict_parts.h"

#include <stdio.h>

#include <internal/base.h>

#define MS_NS        1000000ull
#define LATE_SEQS    6u
#define GOES_ON_NS   (1000 * MS_NS)
#define ONCE_NS      (400 * MS_NS) /* a delay for which a single time is enough */
#define MANY         12u
#define MANY_OF_TWO  24u /* of two ranks one is the last by chance as often as by its own doing */
#define STARVED      0.1 /* least share of the time without a CPU */
#define READS_TEXT   96u
#define READS_FAULTS 50.0 /* least major faults a second; or */
#define READS_BYTES  4e6  /* least bytes a second from storage: more than a log file causes */

/* --- the reason --- */

/* The share of the time between the looks in which the rank waited for room in its pool. */
static double pool_share(const struct twi_verdict_rank *rank)
{
	const struct twi_rank_state *first = rank->first, *last = rank->last;
	uint64_t ns;

	if (first == NULL || last->now_ns <= first->now_ns)
		return 0;
	ns = twi_since(last->pool_wait_ns, first->pool_wait_ns);
	if (last->pool_waiters > 0)
		ns += twi_since(last->now_ns, twi_max(last->pool_since_ns, first->now_ns));
	return (double)ns / (double)(last->now_ns - first->now_ns);
}

static uint64_t to_their_time(const struct twi_verdict_rank *rank, uint64_t ours_ns)
{
	return ours_ns + (uint64_t)rank->offset_ns;
}

static double per_second(uint64_t count, const struct twi_state_waited *waited)
{
	return (double)count * 1e9 / (double)waited->window_ns;
}

/* Whether the process read far more from storage than others did: by major faults, or in bytes. */
static bool reads_storage(const struct twi_judge *judge, const struct twi_verdict_rank *rank,
			  char room[READS_TEXT])
{
	const struct twi_state_waited *own = twi_judge_waited(rank);
	double faults, bytes;
	bool faulting, reading;

	room[0] = '\0';
	if (own == NULL)
		return false;
	faults = per_second(own->major_faults, own);
	bytes = per_second(own->read_bytes, own);
	faulting = faults >= READS_FAULTS;
	reading = bytes >= READS_BYTES;
	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_state_waited *other = twi_judge_waited(&judge->what->ranks[i]);

		if (&judge->what->ranks[i] == rank || other == NULL)
			continue;
		faulting &= per_second(other->major_faults, other) * 2 <= faults;
		reading &= per_second(other->read_bytes, other) * 2 <= bytes;
	}
	snprintf(room, READS_TEXT,
		 "; it read %.1f MB/s from storage, with %.0f major faults a second", bytes / 1e6,
		 faults);
	return faulting || reading;
}

/* Adds how long a step takes, and how long without the lateness, where ranks report steps. */
static void tell_savings(struct twi_judge *judge, const struct twi_lateness *late)
{
	const struct twi_state_waited *waited = twi_judge_waited(late->rank);
	double step_ms, saves = twi_min(late->saves, 1.0);
	struct twi_verdict_finding *finding = NULL;

	for (uint32_t i = 0; i < judge->out->finding_count; i++)
		for (uint32_t k = 0; k < judge->out->findings[i].rank_count; k++)
			if (judge->out->findings[i].ranks[k] == late->rank->rank)
				finding = &judge->out->findings[i];
	if (finding == NULL || saves <= 0 || finding->rank_count > 1)
		return;
	finding->saves = saves;
	if (waited == NULL || waited->steps == 0)
		return;
	step_ms = (double)waited->step_ns / 1e6 / waited->steps;
	finding->step_ns = waited->step_ns / waited->steps;
	twi_judge_add(judge, finding->cause,
		      "a step takes %.1f ms; without that it would take %.1f ms", step_ms,
		      step_ms * (1 - saves));
}

/* Whether holds from outside explain half of the lateness. */
static bool is_held(const struct twi_lateness *late, const struct twi_held *held)
{
	if (held->times == 0)
		return false;
	if (late->once)
		return held->ns * 2 >= late->to_ns - late->from_ns;
	return twi_held_share(held) * 2 >= late->lost;
}

void twi_judge_blame_late(struct twi_judge *judge, const struct twi_lateness *late)
{
	const struct twi_verdict_rank *rank = late->rank;
	double pool = pool_share(rank), lost = 1;
	char quota[TWI_JUDGE_QUOTA], reads[READS_TEXT];
	struct twi_starved cpu;
	enum twi_cause denied;
	struct twi_held held;

	twi_judge_starved(judge, rank, to_their_time(rank, late->from_ns),
			  to_their_time(rank, late->to_ns), &cpu);
	denied = twi_judge_denied(rank, cpu.waited, quota);
	if (!late->once)
		lost = late->lost;
	else if (cpu.window_ns > late->to_ns - late->from_ns) /* known of a longer window only */
		lost = (double)(late->to_ns - late->from_ns) / (double)cpu.window_ns;
	held = twi_judge_held(rank, to_their_time(rank, late->from_ns),
			      to_their_time(rank, late->to_ns));
	if (is_held(late, &held))
		twi_judge_blame(judge, TWI_CAUSE_HELD, rank->rank, late->confidence,
				"%s; its process was stopped from outside and continued %u times, "
				"and stood still for %.0f %% of the time",
				late->how, held.times, 100 * twi_held_share(&held));
	else if (pool >= 0.3)
		twi_judge_blame(judge, TWI_CAUSE_POOL, rank->rank, late->confidence,
				"%s; it waited for room in its pool for %.0f %% of the time",
				late->how, pool * 100);
	else if (cpu.own >= STARVED && cpu.own * 2 >= lost)
		twi_judge_blame(judge, denied, rank->rank, late->confidence,
				"%s; it wanted a CPU and had none for %.0f %% of the time%s",
				late->how, cpu.waited * 100, quota);
	else if (cpu.waited >= STARVED && cpu.waited * 2 >= lost)
		/* All ranks of the host lack CPUs. This one has more to do, or waits for more. */
		twi_judge_blame(
			judge, cpu.ran_more || cpu.slept > cpu.waited ? TWI_CAUSE_LATE : denied,
			rank->rank, 0.6,
			"%s; it wanted a CPU and had none for %.0f %% of the time, as all of its "
			"host do, and slept for %.0f %%%s",
			late->how, cpu.waited * 100, cpu.slept * 100, quota);
	else if (cpu.slept * 2 >= lost && reads_storage(judge, rank, reads))
		twi_judge_blame(judge, TWI_CAUSE_INPUT, rank->rank, late->confidence, "%s%s",
				late->how, reads);
	else
		twi_judge_blame(judge, TWI_CAUSE_LATE, rank->rank, late->confidence,
				"%s; it had no CPU for %.0f %% of the time", late->how,
				cpu.waited * 100);
	tell_savings(judge, late);
}

/* --- the late ranks --- */

/* How often `rank` came last, and how much time that took. */
static uint32_t count_late(const struct twi_arrival *arrivals, uint32_t count,
			   const struct twi_verdict_rank *rank, uint64_t *lost_out)
{
	uint32_t times = 0;

	*lost_out = 0;
	for (uint32_t i = 0; i < count; i++) {
		if (arrivals[i].last != rank || arrivals[i].delay_ns < TWI_JUDGE_LATE_NS)
			continue;
		times++;
		*lost_out += arrivals[i].delay_ns;
	}
	return times;
}

/* Whether a rank came late often enough, for the time that this took. */
static bool is_late(uint32_t times, uint32_t count, uint32_t many, uint64_t lost, uint64_t span)
{
	bool often = times * 4 >= count * 3 && (times == count || count >= 8);
	bool always = count >= many && times * 10 >= count * 9;

	return (often && lost * 5 >= span) || (always && lost * 20 >= span);
}

/*
 * The rank that was late to nearly all of the newest `count` calls. Hardly another one was, and the
 * lateness cost much of the time. NULL: there is none.
 */
static const struct twi_verdict_rank *late_one(const struct twi_arrival *arrivals, uint32_t count,
					       uint32_t many, uint32_t *times_out,
					       uint64_t *lost_out)
{
	uint64_t span = twi_since(arrivals[0].at_ns, arrivals[count - 1].at_ns), all = 0;

	for (uint32_t i = 0; i < count; i++)
		all += arrivals[i].delay_ns;
	for (uint32_t i = 0; i < count; i++) {
		const struct twi_verdict_rank *rank = arrivals[i].last;

		*times_out = count_late(arrivals, count, rank, lost_out);
		if (is_late(*times_out, count, many, *lost_out, span) && *lost_out * 4 >= all * 3)
			return rank;
	}
	return NULL;
}

/*
 * Whether calls still follow each other at their usual distance. If none has come for longer,
 * something else holds the job up, and the rank that was late before is not the culprit.
 */
static bool go_on(const struct twi_judge *judge, const struct twi_arrival *arrivals, uint32_t count)
{
	uint64_t span = twi_since(arrivals[0].at_ns, arrivals[count - 1].at_ns);

	return twi_since(judge->what->now_ns, arrivals[0].at_ns) <=
	       twi_max((uint64_t)GOES_ON_NS, 4 * (span / (count - 1)));
}

/* Judges one rank that comes late again and again, always or for some time now. */
static bool judge_often(struct twi_judge *judge, uint32_t ctx, const struct twi_arrival *arrivals,
			uint32_t count)
{
	const struct twi_state_group *of = twi_group_at(arrivals[0].last, ctx);
	uint32_t many = of != NULL && of->size <= 2 ? MANY_OF_TWO : MANY;
	char time[24], whole[24], group[TWI_JUDGE_GROUP];

	for (; count >= LATE_SEQS; count--) {
		uint64_t span = twi_since(arrivals[0].at_ns, arrivals[count - 1].at_ns), lost;
		const struct twi_verdict_rank *rank;
		struct twi_lateness late;
		uint32_t times;

		rank = late_one(arrivals, count, many, &times, &lost);
		if (rank == NULL)
			continue;
		late = (struct twi_lateness){
			.rank = rank,
			.from_ns = arrivals[count - 1].at_ns,
			.to_ns = arrivals[0].at_ns,
			.lost = twi_min((double)lost / (double)(span + 1), 1.0),
			/* The delay of the oldest call was before the span. */
			.saves = (double)twi_since(lost, arrivals[count - 1].last == rank
								 ? arrivals[count - 1].delay_ns
								 : 0) /
				 (double)(span + 1),
			.confidence = 0.9,
		};
		snprintf(late.how, sizeof(late.how),
			 "rank %u came last to %u of the last %u %ss of %s, by %s in all of %s",
			 rank->rank, times, count, twi_ctx_word(ctx),
			 twi_judge_group(judge, ctx, group), twi_judge_time(lost, time),
			 twi_judge_time(span, whole));
		twi_judge_blame_late(judge, &late);
		return true;
	}
	return false;
}

/* Drops arrivals in a burst: they say nothing of their rank, which was late to an earlier call. */
static uint32_t keep_own(struct twi_arrival *arrivals, uint32_t count)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (!arrivals[i].burst)
			arrivals[kept++] = arrivals[i];
	}
	return kept;
}

static void judge_late(struct twi_judge *judge, uint32_t ctx)
{
	struct twi_arrival arrivals[TWI_JUDGE_ARRIVALS];
	uint32_t count = twi_judge_arrivals(judge, ctx, arrivals), worst = 0;
	char time[24], call[TWI_JUDGE_CALL];
	struct twi_lateness late;

	count = keep_own(arrivals, count);
	if (count < 2 ||
	    (go_on(judge, arrivals, count) && judge_often(judge, ctx, arrivals, count)) ||
	    twi_judge_pauses(judge, ctx))
		return;
	for (uint32_t i = 1; i < count; i++) {
		if (arrivals[i].delay_ns > arrivals[worst].delay_ns)
			worst = i;
	}
	if (arrivals[worst].delay_ns < ONCE_NS ||
	    arrivals[worst].delay_ns < 4 * twi_judge_usual(twi_group_at(arrivals[worst].last, ctx)))
		return;
	late = (struct twi_lateness){
		.rank = arrivals[worst].last,
		.from_ns = arrivals[worst].at_ns - arrivals[worst].delay_ns,
		.to_ns = arrivals[worst].at_ns,
		.once = true,
		.confidence = 0.85,
	};
	snprintf(late.how, sizeof(late.how), "rank %u came to %s by %s later than all others",
		 late.rank->rank, twi_judge_call(judge, ctx, arrivals[worst].seq, call),
		 twi_judge_time(arrivals[worst].delay_ns, time));
	twi_judge_blame_late(judge, &late);
}

void twi_judge_late(struct twi_judge *judge)
{
	twi_judge_groups(judge, judge_late);
}
