/*
 * verdict_cpu.c - for how much of a time a rank wanted a CPU and had none.
 *
 * The kernel counts that for each thread (schedstat). A few points of the count are known of a
 * rank: some that it recorded when it came to waits (cpu_log.h), and the two looks. Load that all
 * ranks of a host share does not make one of them late. So the share that the other ranks of the
 * host were denied is taken off.
 *
 * A rank that has used up the CPU quota of its control group lacks a CPU as well, but the cure is
 * another one. That time is known of the whole group (cpu.stat): between the looks, or in seconds
 * when the rank lacked a CPU and came to waits.
 */
#include "diag/judge/verdict_parts.h"

#include <stdio.h>

#include <internal/base.h>

#define POINTS (TWI_STATE_CPUS + 2u)

static uint32_t points_of(const struct twi_verdict_rank *rank, struct twi_state_cpu out[POINTS])
{
	const struct twi_rank_state *first = rank->first, *last = rank->last;
	uint32_t count = 0;

	if (last == NULL)
		return 0;
	for (uint32_t i = 0; i < last->cpu_count; i++)
		out[count++] = last->cpus[i];
	if (first != NULL && first->thread == last->thread)
		out[count++] = (struct twi_state_cpu){ first->now_ns, first->on_cpu_ns,
						       first->run_queue_ns };
	out[count++] = (struct twi_state_cpu){ last->now_ns, last->on_cpu_ns, last->run_queue_ns };
	return count;
}

struct use {
	uint64_t window_ns, waited_ns, ran_ns;
};

/* Sums between the points nearest outside of `from` and `to`, by the clock of the rank. */
static bool use_of(const struct twi_verdict_rank *rank, uint64_t from, uint64_t to, struct use *out)
{
	struct twi_state_cpu points[POINTS];
	uint32_t count = points_of(rank, points);
	const struct twi_state_cpu *low = NULL, *high = NULL, *oldest = points, *newest = points;

	if (count < 2)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		const struct twi_state_cpu *at = &points[i];

		oldest = at->at_ns < oldest->at_ns ? at : oldest;
		newest = at->at_ns > newest->at_ns ? at : newest;
		if (at->at_ns <= from && (low == NULL || at->at_ns > low->at_ns))
			low = at;
		if (at->at_ns >= to && (high == NULL || at->at_ns < high->at_ns))
			high = at;
	}
	low = low != NULL ? low : oldest;
	high = high != NULL ? high : newest;
	*out = (struct use){ twi_since(high->at_ns, low->at_ns),
			     twi_since(high->run_queue_ns, low->run_queue_ns),
			     twi_since(high->on_cpu_ns, low->on_cpu_ns) };
	return out->window_ns > 0 && low->at_ns < to && high->at_ns > from;
}

/* The same for the other ranks of its host together. */
static struct use use_of_others(const struct twi_judge *judge, const struct twi_verdict_rank *rank,
				uint64_t from, uint64_t to)
{
	struct use all = { 0 };

	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *other = &judge->what->ranks[i];
		uint64_t apart = (uint64_t)other->offset_ns - (uint64_t)rank->offset_ns;
		struct use use;

		if (other == rank || other->last == NULL || other->last->boot != rank->last->boot ||
		    !use_of(other, from + apart, to + apart, &use))
			continue;
		all.waited_ns += use.waited_ns;
		all.ran_ns += use.ran_ns;
		all.window_ns += use.window_ns;
	}
	return all;
}

/* Share of the wanted CPU time that was denied; 0 if the rank wanted too little to tell. */
static double denied_share(const struct use *use)
{
	double wanted = (double)use->waited_ns + (double)use->ran_ns;

	if (wanted <= 0 || wanted * 50 < (double)use->window_ns)
		return 0;
	return twi_min((double)use->waited_ns / wanted, 0.95);
}

bool twi_judge_starved(const struct twi_judge *judge, const struct twi_verdict_rank *rank,
		       uint64_t from, uint64_t to, struct twi_starved *out)
{
	struct use use, others;
	double usual, window;

	*out = (struct twi_starved){ 0 };
	if (rank->last == NULL || !use_of(rank, from, to, &use))
		return false;
	others = use_of_others(judge, rank, from, to);
	window = (double)use.window_ns;
	usual = (double)use.ran_ns * denied_share(&others) / (1 - denied_share(&others));
	out->window_ns = use.window_ns;
	out->waited = twi_min((double)use.waited_ns / window, 1.0);
	if (usual < (double)use.waited_ns)
		out->own = twi_min(((double)use.waited_ns - usual) / window, 1.0);
	out->slept = (double)twi_since(use.window_ns, use.waited_ns + use.ran_ns) / window;
	out->ran_more = (double)use.ran_ns * (double)others.window_ns >
			1.5 * (double)others.ran_ns * window;
	return true;
}

#define THROTTLED 0.1 /* least share of the time */

struct throttled {
	double share;     /* share of the time since the start point */
	double of_waited; /* share of the time without a CPU since then; 0: not known */
};

/* For how long the thread had wanted a CPU and had none at that point; false: not known. */
static bool waited_until(const struct twi_verdict_rank *rank, uint64_t at_ns, uint64_t *ns_out)
{
	struct twi_state_cpu points[POINTS];
	uint32_t count = points_of(rank, points);

	for (uint32_t i = 0; i < count; i++) {
		*ns_out = points[i].run_queue_ns;
		if (points[i].at_ns == at_ns)
			return true;
	}
	return false;
}

/*
 * For how much of a time the control groups of the rank were kept off CPUs. The kernel may count
 * that when a group gets a CPU again, up to some tenths of a second later. Two looks may be as
 * close as that, or there is only one, so an earlier start point is better. It may be far before
 * the time in which the rank was denied CPUs. So the denied time since the same point is compared
 * as well.
 */
static struct throttled throttled_of(const struct twi_verdict_rank *rank)
{
	const struct twi_rank_state *first = rank->first, *last = rank->last;
	struct throttled out = { 0 };
	uint64_t since, then, waited;
	double ns;

	if (last == NULL)
		return out;
	since = last->throttled_at_ns;
	then = last->throttled_then_ns;
	if (since == 0 || (first != NULL && first->now_ns < since)) {
		since = first != NULL ? first->now_ns : last->now_ns;
		then = first != NULL ? first->throttled_ns : last->throttled_ns;
	}
	if (last->now_ns <= since)
		return out;
	ns = (double)twi_since(last->throttled_ns, then);
	out.share = twi_min(ns / (double)(last->now_ns - since), 1.0); /* each CPU counts */
	if (waited_until(rank, since, &waited) && last->run_queue_ns > waited)
		out.of_waited = ns / (double)(last->run_queue_ns - waited);
	return out;
}

enum twi_cause twi_judge_denied(const struct twi_verdict_rank *rank, double waited,
				char room[TWI_JUDGE_QUOTA])
{
	struct throttled throttled = throttled_of(rank);

	room[0] = '\0';
	if (throttled.share < THROTTLED ||
	    (throttled.share * 2 < waited && throttled.of_waited < 0.5))
		return TWI_CAUSE_CPU;
	snprintf(room, TWI_JUDGE_QUOTA,
		 "; the quota of its control group was used up for %.0f %% of it",
		 throttled.share * 100);
	return TWI_CAUSE_THROTTLED;
}
