/*
 * test_verdict.c - random healthy states accuse nobody; random states, healthy or not, and random
 * bytes harm nobody, and findings stay within their bounds.
 *
 * TOW_TEST_SEED replays. TOW_VERDICT_CASES: how many (default 3,000).
 */
#include "verdict_states.h"

static uint64_t random_state;
static struct twt_vs_job job;

static uint64_t below(uint64_t n)
{
	return twt_random_below(&random_state, n);
}

/* Messages that take about as long each, on all links. */
static void make_carried(struct twi_state_carried *carried)
{
	*carried =
		(struct twi_state_carried){ .window_ms = 4000, .messages = (uint32_t)below(100) };
	carried->bytes = (uint64_t)carried->messages << 20;
	carried->wire_ns = carried->messages * (VS_MS + below(VS_MS));
}

/* Blocked for any part of the time, for collectives most. */
static void make_waited(struct twi_state_waited *waited, uint64_t window_ns, uint32_t size)
{
	memset(waited, 0, sizeof(*waited)); /* states are compared with what is between members */
	waited->window_ns = window_ns;
	waited->waits = (uint32_t)below(1000);
	waited->steps = (uint32_t)below(20);
	waited->step_ns = below(window_ns);
	waited->major_faults = below(10);
	waited->read_bytes = below(1 << 20);
	waited->awaited_count = (uint32_t)below(2);
	waited->ns[TWI_WAITED_COLL] = below(window_ns / 2);
	waited->ns[TWI_WAITED_RECV] = below(window_ns / 8);
	if (waited->awaited_count == 0)
		return;
	waited->awaited[0].rank = (uint32_t)below(size);
	waited->awaited[0].ns = below(window_ns / 8);
}

/* A connection that is new, and perhaps lost its first SYN, or that only a look asks for. */
static void make_dial(struct twi_rank_state *state, uint32_t size)
{
	struct twi_state_dial *dial = &state->dials[0];
	bool wanted = below(2) == 0;
	uint64_t ms = below(wanted ? 2000 : 10000);

	if (below(4) != 0)
		return;
	state->dial_count = 1;
	dial->rank = (uint32_t)below(size);
	dial->wanted = wanted;
	dial->attempts = 1;
	dial->since_ns = dial->syn_ns = state->now_ns - ms * VS_MS;
	dial->syns = ms >= 1000 ? (uint32_t)below(3) : 0;
}

/*
 * Streams to one rank, by one rail, of which any may get less than the others, or by several that
 * are as fast as each other and have as much to carry.
 */
static void make_streams(struct twi_rank_state *first, struct twi_rank_state *last, uint32_t to)
{
	uint32_t count = 2 + (uint32_t)below(3), rails = 1 + (uint32_t)below(2);
	uint64_t bytes = 1 + below(4 << 20), busy_us = 1 + below(350000);

	if (below(2) == 0)
		return;
	first->stream_count = last->stream_count = count;
	for (uint32_t i = 0; i < count; i++) {
		struct twi_state_stream *row = &last->streams[i];

		row->rank = to;
		row->stream = (uint8_t)i;
		row->acked_bytes = below(1ull << 40);
		row->busy_us = below(1ull << 40);
		snprintf(row->way, sizeof(row->way), "10.0.%u.1 -> 10.0.%u.2", i % rails,
			 i % rails);
		first->streams[i] = *row;
		row->acked_bytes += rails > 1 ? bytes + below(bytes) : below(4 << 20);
		row->busy_us += rails > 1 ? busy_us + below(busy_us) / 2 : below(400000);
	}
}

/*
 * A healthy job: steps of any length, each rank's a little different; some collectives under way;
 * clocks apart; traffic without losses; ranks that wait for a moment.
 */
static void make_healthy(void)
{
	uint32_t size = 1 + (uint32_t)below(VS_RANKS);
	uint64_t step = (1 + below(2000)) * VS_MS, slack = step / 10, newest = 20 + below(1000);
	uint64_t begun[TWI_STATE_PAST];

	twt_vs_healthy(&job, size);
	for (uint32_t k = 0; k < TWI_STATE_PAST; k++)
		begun[k] = VS_NOW - below(step / 2 + 1) / 4 - k * step - slack;
	for (uint32_t i = 0; i < size; i++) {
		struct twi_state_group *group = &job.last[i].groups[0];
		int64_t offset = i == 0 ? 0 : (int64_t)below(1000000000) - 500000000;

		job.ranks[i].offset_ns = offset;
		twt_vs_past(group, newest, VS_NOW);
		for (uint32_t k = 0; k < TWI_STATE_PAST; k++) {
			struct twi_state_past *past = &group->past[k];

			past->start_ns = begun[k] + below(slack + 1) + (uint64_t)offset;
			past->done_ns = begun[k] + slack + below(VS_MS) + (uint64_t)offset;
		}
		if (begun[0] + slack > VS_NOW - 50 * VS_MS && below(2) == 0) {
			group->past[0].done_ns = 0;
			group->in_flight = 1;
		}
		job.last[i].now_ns = VS_NOW + (uint64_t)offset;
		job.first[i].now_ns = VS_NOW - VS_GAP + (uint64_t)offset;
		job.first[i].groups[0].last_seq = newest - below(3);
		job.last[i].run_queue_ns = job.first[i].run_queue_ns + below(VS_GAP / 3);
		job.last[i].on_cpu_ns = job.first[i].on_cpu_ns + below(VS_GAP);
		if (below(2) == 0)
			twt_vs_cpu(&job, i, below(125), below(125));
		job.last[i].pool_free_bytes = below(1 << 20);
		for (uint32_t k = 0; k < job.last[i].link_count; k++) {
			struct twi_state_link *link = &job.last[i].links[k];

			link->retransmits = link->spurious = (uint32_t)below(3);
			link->stuck_ns = below(100) * VS_MS;
			link->busy_us += below(400000);
			link->rwnd_limited_us = below(link->busy_us + 1);
			link->sndbuf_limited_us = below(link->busy_us + 1);
			link->waiting_sends = (uint32_t)below(4);
			make_carried(&link->carried_out);
			make_carried(&link->carried_in);
		}
		make_dial(&job.last[i], size);
		make_streams(&job.first[i], &job.last[i], (i + 1) % size);
		make_waited(&job.last[i].lately, 2000 * VS_MS, size);
		make_waited(&job.last[i].longer, 12000 * VS_MS, size);
	}
}

static void test_healthy_accuses_nobody(void **state)
{
	char text[512];

	(void)state;
	for (uint64_t n = 0; n < twt_vs_cases(3000); n++) {
		make_healthy();
		twt_vs_judge(&job);
		twi_verdict_short(&job.verdict, text, sizeof(text));
		if (job.verdict.finding_count > 0)
			fail_msg("case %llu: %s", (unsigned long long)n, text);
	}
}

/*
 * One rank comes late, and is denied a CPU for any part of the time; so are the others, at times,
 * of what little they want. What explains half of the lateness is the cause; near half either is,
 * and where all are denied one and it runs no longer than they do.
 */
static void test_late_or_cpu(void **state)
{
	(void)state;
	for (uint64_t n = 0; n < twt_vs_cases(3000); n++) {
		uint32_t size = 3 + (uint32_t)below(VS_RANKS - 2), rank = (uint32_t)below(size);
		uint64_t delay = 10 + below(400), waited = below(200), ran = 1 + below(40);
		double lost = (double)delay / (double)(delay + VS_STEP / VS_MS);
		uint64_t denied = below(3); /* times what they get */
		double excess = ((double)waited - (double)(ran * denied)) / 250;
		enum twi_cause cause;

		twt_vs_healthy(&job, size);
		twt_vs_delay(&job, rank, TWI_STATE_PAST, delay);
		for (uint32_t i = 0; i < size; i++) {
			int64_t offset = i == 0 ? 0 : (int64_t)below(1000000000) - 500000000;

			twt_vs_move_clock(&job, i, offset);
			twt_vs_cpu(&job, i, 15 * denied, 15);
		}
		twt_vs_cpu(&job, rank, waited, ran);
		twt_vs_judge(&job);
		assert_int_equal(job.verdict.finding_count, 1);
		cause = job.verdict.findings[0].cause;
		assert_int_equal(job.verdict.findings[0].ranks[0], rank);
		if (excess > 0.12 && excess > 0.6 * lost)
			assert_int_equal(cause, TWI_CAUSE_CPU);
		else if ((excess < 0.08 || excess < 0.4 * lost) && ran > 25)
			assert_int_equal(cause, TWI_CAUSE_LATE);
		else if ((double)waited / 250 < 0.4 * lost || waited < 20)
			assert_int_equal(cause, TWI_CAUSE_LATE);
	}
}

static void scramble(struct twi_rank_state *at)
{
	for (uint64_t i = below(40); i > 0; i--) {
		uint8_t *bytes = (uint8_t *)at;

		bytes[below(sizeof(*at))] = (uint8_t)below(256);
	}
	/* No other byte is a truth value in C; the decoder makes none. */
	at->cut = below(2) == 0;
	at->cpu_count = at->cpu_count > TWI_STATE_CPUS ? 0 : at->cpu_count;
	at->group_count = at->group_count > TWI_STATE_GROUPS ? 0 : at->group_count;
	at->wait_count = at->wait_count > TWI_STATE_WAITS ? 0 : at->wait_count;
	at->link_count = at->link_count > TWI_STATE_LINKS ? 0 : at->link_count;
	at->message_count = at->message_count > TWI_STATE_MESSAGES ? 0 : at->message_count;
	at->stray_count = at->stray_count > TWI_STATE_STRAYS ? 0 : at->stray_count;
	at->flow_count = at->flow_count > TWI_STATE_FLOWS ? 0 : at->flow_count;
	at->dial_count = at->dial_count > TWI_STATE_DIALS ? 0 : at->dial_count;
	for (uint32_t i = 0; i < TWI_STATE_DIALS; i++)
		at->dials[i].address[TWI_STATE_ADDRESS - 1] = '\0';
	at->stream_count = at->stream_count > TWI_STATE_STREAMS ? 0 : at->stream_count;
	for (uint32_t i = 0; i < TWI_STATE_STREAMS; i++) {
		at->streams[i].from_if[TWI_STATE_IF - 1] = '\0';
		at->streams[i].way[TWI_STATE_WAY - 1] = '\0';
	}
	if (at->lately.awaited_count > TWI_STATE_AWAITED)
		at->lately.awaited_count = TWI_STATE_AWAITED;
	if (at->longer.awaited_count > TWI_STATE_AWAITED)
		at->longer.awaited_count = TWI_STATE_AWAITED;
	for (uint32_t i = 0; i < TWI_STATE_GROUPS; i++) {
		if (at->groups[i].past_count > TWI_STATE_PAST)
			at->groups[i].past_count = TWI_STATE_PAST;
		if (at->groups[i].head_count > TWI_STATE_HEADS)
			at->groups[i].head_count = TWI_STATE_HEADS;
		if (at->groups[i].long_count > TWI_STATE_LONGS)
			at->groups[i].long_count = TWI_STATE_LONGS;
		if (at->groups[i].local_count > TWI_STATE_LOCALS)
			at->groups[i].local_count = TWI_STATE_LOCALS;
		at->groups[i].why[TWI_STATE_WHY - 1] = '\0';
		at->groups[i].label[TWI_STATE_LABEL - 1] = '\0';
		at->groups[i].call[TWI_STATE_CALL - 1] = '\0';
		at->groups[i].name[TWI_STATE_NAME - 1] = '\0';
	}
	at->host[TWI_STATE_HOST - 1] = '\0';
	at->fabric[TWI_STATE_FABRIC - 1] = '\0';
}

static void check(const struct twi_verdict *verdict)
{
	assert_in_range(verdict->finding_count, 0, TWI_CAUSES);
	for (uint32_t i = 0; i < verdict->finding_count; i++) {
		const struct twi_verdict_finding *finding = &verdict->findings[i];

		assert_true(finding->confidence > 0 && finding->confidence <= 1);
		assert_in_range(finding->rank_count, 0, TWI_FINDING_RANKS);
		assert_in_range(finding->link_count, 0, TWI_FINDING_LINKS);
		assert_true(finding->rank_count + finding->link_count > 0);
		assert_in_range(finding->evidence_count, 1, TWI_FINDING_EVIDENCE);
	}
}

static void test_anything_is_borne(void **state)
{
	(void)state;
	for (uint64_t n = 0; n < twt_vs_cases(3000); n++) {
		make_healthy();
		if (below(2) == 0)
			twt_vs_miss(&job, (uint32_t)below(job.size), below(5000));
		for (uint32_t i = 0; i < job.size; i++) {
			if (below(3) == 0)
				scramble(&job.last[i]);
			if (below(5) == 0)
				twt_vs_silent(&job, i);
			job.ranks[i].process = (enum twi_process)below(4);
			job.ranks[i].lost = below(8) == 0;
			job.ranks[i].bye = below(8) == 0;
		}
		twt_vs_judge(&job);
		check(&job.verdict);
	}
}

/* Bytes between members stay. */
static void fill_head(struct twi_state_head *head)
{
	head->seq = below(100);
	head->start_ns = below(VS_NOW);
	head->idle_ns = below(VS_NOW);
	head->waited = (uint8_t)below(2);
}

static void add_dials(struct twi_rank_state *state)
{
	memset(state->dials, 0, sizeof(state->dials));
	state->dial_count = (uint32_t)below(TWI_STATE_DIALS + 1);
	for (uint32_t i = 0; i < state->dial_count; i++) {
		state->dials[i].rank = (uint32_t)below(VS_RANKS);
		state->dials[i].wanted = (uint8_t)below(2);
		state->dials[i].since_ns = state->dials[i].syn_ns = below(VS_NOW);
		state->dials[i].syns = (uint32_t)below(4);
		state->dials[i].failed_ns = below(VS_NOW);
		state->dials[i].error = (uint32_t)below(120);
		state->dials[i].address[0] = 'x';
	}
}

static void add_heads(struct twi_state_group *group)
{
	group->head_count = (uint32_t)below(TWI_STATE_HEADS + 1);
	for (uint32_t i = 0; i < group->head_count; i++)
		fill_head(&group->heads[i]);
	group->long_count = (uint32_t)below(TWI_STATE_LONGS + 1);
	for (uint32_t i = 0; i < group->long_count; i++)
		fill_head(&group->longs[i]);
}

static void test_bytes(void **state)
{
	static uint8_t bytes[TWI_STATE_BYTES];
	static struct twi_rank_state back;

	(void)state;
	for (uint64_t n = 0; n < twt_vs_cases(3000); n++) {
		size_t count;

		make_healthy();
		add_heads(&job.last[0].groups[0]);
		add_dials(&job.last[0]);
		count = twi_rank_state_encode(&job.last[0], TWI_STATE_FORM_HELD, bytes,
					      sizeof(bytes));
		assert_true(count > 0);
		assert_true(twi_rank_state_decode(bytes, count, &back));
		assert_memory_equal(&back, &job.last[0], sizeof(back));
		for (uint64_t i = 1 + below(8); i > 0; i--)
			bytes[below(count)] = (uint8_t)below(256);
		if (!twi_rank_state_decode(bytes, count, &back))
			continue;
		assert_in_range(back.group_count, 0, TWI_STATE_GROUPS);
		assert_in_range(back.wait_count, 0, TWI_STATE_WAITS);
		assert_in_range(back.link_count, 0, TWI_STATE_LINKS);
		assert_in_range(back.message_count, 0, TWI_STATE_MESSAGES);
		assert_in_range(back.stray_count, 0, TWI_STATE_STRAYS);
		job.ranks[0].last = &back;
		twt_vs_judge(&job);
		check(&job.verdict);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_healthy_accuses_nobody),
		cmocka_unit_test(test_late_or_cpu),
		cmocka_unit_test(test_anything_is_borne),
		cmocka_unit_test(test_bytes),
	};

	random_state = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
