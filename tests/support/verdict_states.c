/* verdict_states.c - states of ranks made by hand. */
#include "verdict_states.h"

void twt_vs_past(struct twi_state_group *group, uint64_t newest, uint64_t at)
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

static void twt_vs_state(const struct twt_vs_job *job, uint32_t rank, uint64_t now, uint64_t newest,
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
	twt_vs_past(&out->groups[0], newest, now - VS_STEP / 2);
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

void twt_vs_healthy(struct twt_vs_job *job, uint32_t size)
{
	*job = (struct twt_vs_job){ .size = size };
	for (uint32_t i = 0; i < size; i++) {
		twt_vs_state(job, i, VS_NOW - VS_GAP, 60, &job->first[i]);
		twt_vs_state(job, i, VS_NOW, 80, &job->last[i]);
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

void twt_vs_wait_in(struct twt_vs_job *job, uint32_t rank, uint64_t seq, uint64_t ms)
{
	struct twi_rank_state *states[2] = { &job->first[rank], &job->last[rank] };

	for (unsigned i = 0; i < 2; i++) {
		struct twi_state_group *group = &states[i]->groups[0];

		twt_vs_past(group, seq, VS_NOW - ms * VS_MS);
		group->past[0].done_ns = 0;
		group->in_flight = 1;
		states[i]->waiters = states[i]->wait_count = 1;
		states[i]->waits[0] = (struct twi_state_wait){ .kind = TWI_STATE_COLL,
							       .seq = seq,
							       .rank = TWI_STATE_NO_RANK,
							       .since_ns = VS_NOW - ms * VS_MS };
	}
}

void twt_vs_stay_out(struct twt_vs_job *job, uint32_t rank, uint64_t seq, uint64_t ms)
{
	twt_vs_past(&job->first[rank].groups[0], seq, VS_NOW - ms * VS_MS);
	twt_vs_past(&job->last[rank].groups[0], seq, VS_NOW - ms * VS_MS);
}

void twt_vs_miss(struct twt_vs_job *job, uint32_t missing, uint64_t ms)
{
	for (uint32_t i = 0; i < job->size; i++) {
		if (i == missing)
			twt_vs_stay_out(job, i, 80, ms + VS_STEP / VS_MS);
		else
			twt_vs_wait_in(job, i, 81, ms);
	}
}

void twt_vs_barriers(struct twt_vs_job *job, uint32_t rank, uint64_t newest, uint64_t ms)
{
	struct twi_rank_state *states[2] = { &job->first[rank], &job->last[rank] };

	for (unsigned i = 0; i < 2; i++) {
		struct twi_state_group *group = &states[i]->groups[states[i]->group_count++];

		*group = (struct twi_state_group){ .ctx = TWI_STATE_BARRIERS,
						   .rank = rank,
						   .size = job->size };
		twt_vs_past(group, newest, VS_NOW - ms * VS_MS - VS_STEP);
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

void twt_vs_delay(struct twt_vs_job *job, uint32_t rank, uint32_t count, uint64_t ms)
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

void twt_vs_still(struct twt_vs_job *job, uint32_t size)
{
	twt_vs_healthy(job, size);
	for (uint32_t i = 0; i < size; i++) {
		struct twi_rank_state *states[2] = { &job->first[i], &job->last[i] };

		for (unsigned k = 0; k < 2; k++) {
			states[k]->group_count = 0;
			states[k]->tells = 1;
			states[k]->ended = 100;
			states[k]->polls = 100;
		}
	}
}

void twt_vs_moves(struct twt_vs_job *job, uint32_t rank)
{
	job->last[rank].ended += 3;
}

void twt_vs_message(struct twt_vs_job *job, uint32_t rank, uint8_t kind, uint32_t to, uint64_t tag,
		    uint64_t ms, bool thread)
{
	const struct twi_state_wait row = {
		.kind = kind,
		.stage = kind == TWI_STATE_RECV ? TWI_STATE_POSTED : TWI_STATE_OFFERED,
		.rank = to,
		.tag = tag,
		.bytes = 4096,
		.since_ns = VS_NOW - ms * VS_MS,
	};

	for (unsigned i = 0; i < 2; i++) {
		struct twi_rank_state *at = i == 0 ? &job->first[rank] : &job->last[rank];

		if (row.since_ns > at->now_ns)
			continue;
		if (at->message_count < TWI_STATE_MESSAGES)
			at->messages[at->message_count++] = row;
		if (thread && at->wait_count < TWI_STATE_WAITS)
			at->waits[at->wait_count++] = row;
		at->waiters += thread;
	}
}

void twt_vs_polls(struct twt_vs_job *job, uint32_t rank, uint64_t polls)
{
	job->last[rank].polls = job->first[rank].polls + polls;
}

void twt_vs_stray(struct twt_vs_job *job, uint32_t rank, uint32_t from, uint64_t tag)
{
	for (unsigned i = 0; i < 2; i++) {
		struct twi_rank_state *at = i == 0 ? &job->first[rank] : &job->last[rank];

		if (at->stray_count < TWI_STATE_STRAYS)
			at->strays[at->stray_count++] = (struct twi_state_stray){
				.rank = from, .seq = 40 + tag, .tag = tag, .bytes = 512
			};
	}
}

void twt_vs_move_clock(struct twt_vs_job *job, uint32_t rank, int64_t offset)
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

void twt_vs_cpu(struct twt_vs_job *job, uint32_t rank, uint64_t waited_ms, uint64_t ran_ms)
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

struct twi_state_link *twt_vs_link(struct twi_rank_state *state, uint32_t to)
{
	for (uint32_t i = 0; i < state->link_count; i++) {
		if (state->links[i].rank == to)
			return &state->links[i];
	}
	return NULL;
}

void twt_vs_silent(struct twt_vs_job *job, uint32_t rank)
{
	job->ranks[rank].first = job->ranks[rank].last = NULL;
}

void twt_vs_judge(struct twt_vs_job *job)
{
	twi_verdict_judge(&job->what, &job->verdict);
}

void twt_vs_expect_ranks(struct twt_vs_job *job, enum twi_cause cause, uint32_t ranks)
{
	const struct twi_verdict_finding *finding = &job->verdict.findings[0];
	uint32_t named = 0;
	char text[1024];

	twt_vs_judge(job);
	twi_verdict_short(&job->verdict, text, sizeof(text));
	for (uint32_t i = 0; job->verdict.finding_count > 0 && i < finding->rank_count; i++)
		named |= 1u << finding->ranks[i];
	if (job->verdict.finding_count != 1 || finding->cause != cause || named != ranks ||
	    finding->evidence_count == 0)
		fail_msg("%u findings, wanted %s of ranks 0x%x: %s", job->verdict.finding_count,
			 twi_cause_name(cause), ranks, text);
}

void twt_vs_expect(struct twt_vs_job *job, enum twi_cause cause, uint32_t rank)
{
	twt_vs_judge(job);
	assert_int_equal(job->verdict.finding_count, 1);
	assert_int_equal(job->verdict.findings[0].cause, cause);
	assert_int_equal(job->verdict.findings[0].rank_count, 1);
	assert_int_equal(job->verdict.findings[0].ranks[0], rank);
	assert_true(job->verdict.findings[0].evidence_count > 0);
}

void twt_vs_expect_link(struct twt_vs_job *job, enum twi_cause cause, uint32_t from, uint32_t to)
{
	twt_vs_judge(job);
	assert_int_equal(job->verdict.finding_count, 1);
	assert_int_equal(job->verdict.findings[0].cause, cause);
	assert_int_equal(job->verdict.findings[0].rank_count, 0);
	assert_int_equal(job->verdict.findings[0].link_count, 1);
	assert_int_equal(job->verdict.findings[0].links[0].from, from);
	assert_int_equal(job->verdict.findings[0].links[0].to, to);
}

uint64_t twt_vs_cases(uint64_t usual)
{
	const char *text = getenv("TOW_VERDICT_CASES");

	return text != NULL ? strtoull(text, NULL, 10) : usual;
}

void twt_vs_tell(const struct twi_series *series, struct twi_state_group *group)
{
	group->last_seq = series->next_seq - 1;
	group->past_count = group->head_count = 0;
	for (uint64_t seq = group->last_seq; seq > 0 && group->past_count < TWI_STATE_PAST; seq--)
		group->past[group->past_count++] = series->past[seq % TWI_STATE_PAST];
	for (uint32_t i = 1; i <= TWI_STATE_HEADS && i <= series->head_count; i++)
		group->heads[group->head_count++] =
			series->heads[(series->head_count - i) % TWI_STATE_HEADS];
	group->long_count = twi_series_longs(series, group->longs);
}
