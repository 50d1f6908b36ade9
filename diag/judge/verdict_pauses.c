/*
 * verdict_pauses.c - one rank pauses: it is seldom late, but by much each time. Its last calls
 * rarely show that, so all ranks keep the bursts that took far longer than usual (series.h).
 *
 *	rank 0   .|..|..|......x|..|..|......x|..       x: what the others wait for rank 0 for
 *	others   .|..|..|..    .|..|..|..    .|..
 */
#include "diag/judge/verdict_parts.h"

#include <stdio.h>

#include <internal/base.h>

#define PAUSE_NS    10000000ull   /* a shorter delay is no pause */
#define GOES_ON_NS  2000000000ull /* most age of the newest pause, or twice the usual gap */
#define PAUSES      3u
#define PAUSES_OF_2 5u /* of two ranks one is the last by chance as often as by its own doing */
#define CONFIDENCE  0.8

/* The pauses of one rank among the newest arrivals. */
struct pauses {
	uint32_t times;
	uint64_t lost_ns, longest_ns, span_ns;
};

/* Tries the span back to each pause. Returns the one in which pauses cost the largest share. */
static struct pauses count_pauses(const struct twi_judge *judge,
				  const struct twi_verdict_rank *rank,
				  const struct twi_arrival *arrivals, uint32_t count,
				  uint32_t least)
{
	struct pauses now = { 0 }, best = { 0 };

	for (uint32_t i = 0; i < count; i++) {
		if (arrivals[i].last != rank || arrivals[i].delay_ns < PAUSE_NS)
			continue;
		now.times++;
		now.lost_ns += arrivals[i].delay_ns;
		now.longest_ns = twi_max(now.longest_ns, arrivals[i].delay_ns);
		now.span_ns =
			twi_since(judge->what->now_ns, arrivals[i].at_ns) + arrivals[i].delay_ns;
		if (now.times >= least &&
		    (best.times == 0 || (double)now.lost_ns * (double)best.span_ns >=
						(double)best.lost_ns * (double)now.span_ns))
			best = now;
	}
	return best;
}

/* Whether three quarters of all delays, in time and in number, are those of the rank. */
static bool is_alone(const struct twi_verdict_rank *rank, const struct twi_arrival *arrivals,
		     uint32_t count)
{
	uint64_t all = 0, own = 0;
	uint32_t times = 0, all_times = 0;

	for (uint32_t i = 0; i < count; i++) {
		all += arrivals[i].delay_ns;
		all_times += arrivals[i].delay_ns >= PAUSE_NS;
		own += arrivals[i].last == rank ? arrivals[i].delay_ns : 0;
		times += arrivals[i].last == rank && arrivals[i].delay_ns >= PAUSE_NS;
	}
	return own * 4 >= all * 3 && times * 4 >= all_times * 3;
}

static void blame_pauses(struct twi_judge *judge, uint32_t ctx, const struct twi_verdict_rank *rank,
			 const struct pauses *pauses)
{
	char longest[24], lost[24], span[24], group[TWI_JUDGE_GROUP];
	struct twi_lateness late = {
		.rank = rank,
		.from_ns = judge->what->now_ns - pauses->span_ns,
		.to_ns = judge->what->now_ns,
		.lost = twi_min((double)pauses->lost_ns / (double)pauses->span_ns, 1.0),
		.confidence = CONFIDENCE,
	};

	late.saves = late.lost;
	snprintf(late.how, sizeof(late.how),
		 "rank %u pauses: %u times in the last %s it came to a %s of %s late, by up to %s, "
		 "and %s in all",
		 rank->rank, pauses->times, twi_judge_time(pauses->span_ns, span),
		 twi_ctx_word(ctx), twi_judge_group(judge, ctx, group),
		 twi_judge_time(pauses->longest_ns, longest),
		 twi_judge_time(pauses->lost_ns, lost));
	twi_judge_blame_late(judge, &late);
}

bool twi_judge_pauses(struct twi_judge *judge, uint32_t ctx)
{
	struct twi_arrival arrivals[TWI_JUDGE_ARRIVALS];
	uint32_t count = twi_judge_long_arrivals(judge, ctx, arrivals), least;
	const struct twi_verdict_rank *rank = NULL;
	struct pauses pauses;

	for (uint32_t i = 0; i < count && rank == NULL; i++)
		if (arrivals[i].delay_ns >= PAUSE_NS)
			rank = arrivals[i].last;
	if (rank == NULL || !is_alone(rank, arrivals, count))
		return false;
	least = twi_group_at(rank, ctx)->size <= 2 ? PAUSES_OF_2 : PAUSES;
	pauses = count_pauses(judge, rank, arrivals, count, least);
	if (pauses.times == 0 || pauses.lost_ns * 10 < pauses.span_ns ||
	    twi_since(judge->what->now_ns, arrivals[0].at_ns) >
		    twi_max((uint64_t)GOES_ON_NS, 2 * (pauses.span_ns / pauses.times)))
		return false;
	blame_pauses(judge, ctx, rank, &pauses);
	return true;
}
