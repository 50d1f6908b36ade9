/*
 * verdict_states.h - states of ranks made by hand: a healthy job, to which a test does something.
 */
#ifndef TWT_VERDICT_STATES_H
#define TWT_VERDICT_STATES_H

#include "twt.h"

#include <string.h>

#include "diag/judge/verdict.h"

#define VS_RANKS 8
#define VS_MS    1000000ull
#define VS_STEP  (20 * VS_MS) /* from one collective to the next */
#define VS_NOW   (100000 * VS_MS)
#define VS_GAP   (400 * VS_MS) /* between the two looks */

struct vs_job {
	uint32_t size;
	struct twi_verdict_rank ranks[VS_RANKS];
	struct twi_rank_state first[VS_RANKS], last[VS_RANKS];
	struct twi_verdict_case what;
	struct twi_verdict verdict;
};

/* The newest collective is `newest`, begun at `at`; each took a millisecond. */
static inline void vs_past(struct twi_state_group *group, uint64_t newest, uint64_t at)
{
	group->last_seq = newest;
	group->past_count = 0;
	for (uint32_t i = 0; i < TWI_STATE_PAST && newest > i; i++)
		group->past[group->past_count++] = (struct twi_state_past){
			.seq = newest - i,
			.signature = 1000 + newest - i,
			.bytes = 4096,
			.start_ns = at - i * VS_STEP,
			.done_ns = at - i * VS_STEP + VS_MS,
		};
}

static inline void vs_state(const struct vs_job *job, uint32_t rank, uint64_t now, uint64_t newest,
			    struct twi_rank_state *out)
{
	*out = (struct twi_rank_state){
		.rank = rank,
		.world = job->size,
		.pid = 100 + rank,
		.now_ns = now,
		.on_cpu_ns = now / 10,
		.run_queue_ns = now / 100,
		.thread = 7,
		.pool_bytes = 1 << 20,
		.pool_free_bytes = 1 << 19,
		.group_count = 1,
	};
	out->groups[0] = (struct twi_state_group){ .rank = rank, .size = job->size };
	vs_past(&out->groups[0], newest, now - VS_STEP / 2);
	for (uint32_t i = 0; i < job->size; i++) {
		if (i == rank)
			continue;
		out->links[out->link_count++] = (struct twi_state_link){
			.rank = i,
			.flags = TWI_LINK_UP | TWI_LINK_TCP,
			.segments_in = (uint32_t)(now / VS_MS),
			.segments_out = (uint32_t)(now / VS_MS),
			.rtt_us = 30,
			.send_window = 1 << 20,
			.send_buffer = 1 << 18,
			.receive_buffer = 1 << 18,
			.busy_us = now / 10000,
		};
	}
}

static inline void vs_healthy(struct vs_job *job, uint32_t size)
{
	*job = (struct vs_job){ .size = size };
	for (uint32_t i = 0; i < size; i++) {
		vs_state(job, i, VS_NOW - VS_GAP, 60, &job->first[i]);
		vs_state(job, i, VS_NOW, 80, &job->last[i]);
		job->ranks[i] = (struct twi_verdict_rank){ .rank = i,
							   .me = i == 0,
							   .asked = true,
							   .pid = 100 + i,
							   .error_ns = i > 0 ? 20000 : 0,
							   .first = &job->first[i],
							   .last = &job->last[i] };
	}
	job->what = (struct twi_verdict_case){ .now_ns = VS_NOW,
					       .rank_count = size,
					       .ranks = job->ranks };
}

/* Rank `rank` has waited in collective `seq` for `ms`, in both looks. */
static inline void vs_wait_in(struct vs_job *job, uint32_t rank, uint64_t seq, uint64_t ms)
{
	struct twi_rank_state *states[2] = { &job->first[rank], &job->last[rank] };

	for (unsigned i = 0; i < 2; i++) {
		struct twi_state_group *group = &states[i]->groups[0];

		vs_past(group, seq, VS_NOW - ms * VS_MS);
		group->past[0].done_ns = 0;
		group->in_flight = 1;
		states[i]->waiters = states[i]->wait_count = 1;
		states[i]->waits[0] = (struct twi_state_wait){ .kind = TWI_STATE_COLL,
							       .seq = seq,
							       .rank = TWI_STATE_NO_RANK,
							       .since_ns = VS_NOW - ms * VS_MS };
	}
}

/* It has ended collective `seq` so long ago, and is in none. */
static inline void vs_stay_out(struct vs_job *job, uint32_t rank, uint64_t seq, uint64_t ms)
{
	vs_past(&job->first[rank].groups[0], seq, VS_NOW - ms * VS_MS);
	vs_past(&job->last[rank].groups[0], seq, VS_NOW - ms * VS_MS);
}

/* All but one wait for it. */
static inline void vs_miss(struct vs_job *job, uint32_t missing, uint64_t ms)
{
	for (uint32_t i = 0; i < job->size; i++) {
		if (i == missing)
			vs_stay_out(job, i, 80, ms + VS_STEP / VS_MS);
		else
			vs_wait_in(job, i, 81, ms);
	}
}

/* It has gone through the barriers up to `newest`, or waits there for `ms`; 0: it does not. */
static inline void vs_barriers(struct vs_job *job, uint32_t rank, uint64_t newest, uint64_t ms)
{
	struct twi_rank_state *states[2] = { &job->first[rank], &job->last[rank] };

	for (unsigned i = 0; i < 2; i++) {
		struct twi_state_group *group = &states[i]->groups[states[i]->group_count++];

		*group = (struct twi_state_group){ .ctx = TWI_STATE_BARRIERS,
						   .rank = rank,
						   .size = job->size };
		vs_past(group, newest, VS_NOW - ms * VS_MS - VS_STEP);
		for (uint32_t k = 0; k < group->past_count; k++)
			group->past[k].signature = 0;
		if (ms == 0)
			continue;
		group->past[0].done_ns = 0;
		group->in_flight = 1;
		states[i]->waiters = states[i]->wait_count = 1;
		states[i]->waits[0] = (struct twi_state_wait){ .kind = TWI_STATE_COLL,
							       .ctx = TWI_STATE_BARRIERS,
							       .seq = newest,
							       .rank = TWI_STATE_NO_RANK,
							       .since_ns = VS_NOW - ms * VS_MS };
	}
}

/* Rank `rank` came to each of the last `count` collectives so much later than the others. */
static inline void vs_delay(struct vs_job *job, uint32_t rank, uint32_t count, uint64_t ms)
{
	struct twi_state_group *groups[VS_RANKS];

	for (uint32_t i = 0; i < job->size; i++)
		groups[i] = &job->last[i].groups[0];
	for (uint32_t k = 0; k < TWI_STATE_PAST; k++) {
		uint64_t ago = (k < count ? k : count) * ms * VS_MS;

		for (uint32_t i = 0; i < job->size; i++) {
			struct twi_state_past *past = &groups[i]->past[k];

			past->start_ns -= ago;
			past->done_ns -= ago;
			if (i != rank && k < count)
				past->start_ns -= ms * VS_MS; /* it came, and waited */
		}
	}
}

/* Its clock is ahead of the asker's by so much. */
static inline void vs_move_clock(struct vs_job *job, uint32_t rank, int64_t offset)
{
	struct twi_rank_state *states[2] = { &job->first[rank], &job->last[rank] };

	job->ranks[rank].offset_ns += offset;
	for (unsigned i = 0; i < 2; i++) {
		struct twi_state_group *group = &states[i]->groups[0];

		states[i]->now_ns += (uint64_t)offset;
		for (uint32_t k = 0; k < group->past_count; k++) {
			group->past[k].start_ns += (uint64_t)offset;
			group->past[k].done_ns += (uint64_t)offset;
		}
	}
}

/*
 * Points of its thread's time, every 250 ms until now: in each it waited for a CPU for `waited_ms`,
 * and had one for `ran_ms`. The looks agree with them.
 */
static inline void vs_cpu(struct vs_job *job, uint32_t rank, uint64_t waited_ms, uint64_t ran_ms)
{
	struct twi_rank_state *first = &job->first[rank], *last = &job->last[rank];
	const uint64_t step = 250 * VS_MS;

	last->cpu_count = TWI_STATE_CPUS;
	for (uint32_t i = 0; i < TWI_STATE_CPUS; i++)
		last->cpus[i] = (struct twi_state_cpu){
			.at_ns = last->now_ns - (TWI_STATE_CPUS - i) * step,
			.on_cpu_ns = i * ran_ms * VS_MS,
			.run_queue_ns = i * waited_ms * VS_MS,
		};
	last->on_cpu_ns = TWI_STATE_CPUS * ran_ms * VS_MS;
	last->run_queue_ns = TWI_STATE_CPUS * waited_ms * VS_MS;
	first->on_cpu_ns = last->on_cpu_ns - ran_ms * VS_MS * VS_GAP / step;
	first->run_queue_ns = last->run_queue_ns - waited_ms * VS_MS * VS_GAP / step;
}

static inline struct twi_state_link *vs_link(struct twi_rank_state *state, uint32_t to)
{
	for (uint32_t i = 0; i < state->link_count; i++) {
		if (state->links[i].rank == to)
			return &state->links[i];
	}
	return NULL;
}

static inline void vs_silent(struct vs_job *job, uint32_t rank)
{
	job->ranks[rank].first = job->ranks[rank].last = NULL;
}

static inline void vs_judge(struct vs_job *job)
{
	twi_verdict_judge(&job->what, &job->verdict);
}

/* One finding, of this cause, with this rank alone. */
static inline void vs_expect(struct vs_job *job, enum twi_cause cause, uint32_t rank)
{
	vs_judge(job);
	assert_int_equal(job->verdict.finding_count, 1);
	assert_int_equal(job->verdict.findings[0].cause, cause);
	assert_int_equal(job->verdict.findings[0].rank_count, 1);
	assert_int_equal(job->verdict.findings[0].ranks[0], rank);
	assert_true(job->verdict.findings[0].evidence_count > 0);
}

static inline void vs_expect_link(struct vs_job *job, enum twi_cause cause, uint32_t from,
				  uint32_t to)
{
	vs_judge(job);
	assert_int_equal(job->verdict.finding_count, 1);
	assert_int_equal(job->verdict.findings[0].cause, cause);
	assert_int_equal(job->verdict.findings[0].rank_count, 0);
	assert_int_equal(job->verdict.findings[0].link_count, 1);
	assert_int_equal(job->verdict.findings[0].links[0].from, from);
	assert_int_equal(job->verdict.findings[0].links[0].to, to);
}

#endif
