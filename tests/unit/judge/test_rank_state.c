/*
 * test_rank_state.c - states as bytes: the longest there is, one that is cut, one of another
 * version, and what a reader of an older version is told.
 */
#include "verdict_states.h"

static struct twt_vs_job job;

/* By members: bytes between them are compared, too. */
static void fill_flow(struct twi_state_flow *flow, uint32_t i)
{
	flow->ctx = TWI_STATE_FOREIGN | i;
	flow->peer = i;
	flow->sends = i & 1;
	flow->window_ns = UINT64_MAX;
	flow->messages = i;
	flow->bytes = 1ull << i;
	flow->device_ns = 3;
	flow->peer_ns = 4;
	flow->wire_ns = 5;
}

/* Likewise. */
static void fill_messages(struct twi_rank_state *state)
{
	state->tells = 1;
	state->ended = UINT64_MAX;
	state->polls = 6;
	state->usual_ns = 7;
	state->throttled_ns = UINT64_MAX;
	state->throttled_at_ns = 8;
	state->throttled_then_ns = UINT64_MAX - 1;
	state->message_count = TWI_STATE_MESSAGES;
	state->stray_count = TWI_STATE_STRAYS;
	for (uint32_t i = 0; i < TWI_STATE_MESSAGES; i++) {
		state->messages[i].kind = TWI_STATE_PULL;
		state->messages[i].rank = i;
		state->messages[i].tag = UINT64_MAX - i;
		state->messages[i].since_ns = i;
	}
	for (uint32_t i = 0; i < TWI_STATE_STRAYS; i++) {
		state->strays[i].rank = i;
		state->strays[i].channel = 65535;
		state->strays[i].seq = 1ull << i;
		state->strays[i].tag = UINT64_MAX;
		state->strays[i].bytes = 1ull << (60 + i % 4);
	}
}

static void fill_waited(struct twi_state_waited *waited)
{
	waited->window_ns = UINT64_MAX;
	for (uint32_t i = 0; i < TWI_WAITED_KINDS; i++)
		waited->ns[i] = UINT64_MAX - i;
	waited->waits = UINT32_MAX;
	waited->steps = 9;
	waited->step_ns = 10;
	waited->major_faults = 11;
	waited->read_bytes = 12;
	waited->awaited_count = TWI_STATE_AWAITED;
	for (uint32_t i = 0; i < TWI_STATE_AWAITED; i++) {
		waited->awaited[i].rank = i;
		waited->awaited[i].ns = 1ull << (i + 40);
	}
}

/* Likewise. */
static void fill_dial(struct twi_state_dial *dial, uint32_t i)
{
	dial->rank = i;
	dial->lane = 1;
	dial->wanted = 1;
	dial->attempts = 2 + i;
	dial->since_ns = UINT64_MAX;
	dial->syn_ns = UINT64_MAX - i;
	dial->syns = 3;
	dial->failed_ns = 4;
	dial->error = 111;
	memset(dial->address, 'a', TWI_STATE_ADDRESS - 1);
}

/* Likewise. */
static void fill_stream(struct twi_state_stream *stream, uint32_t i)
{
	stream->rank = i / 4;
	stream->stream = i % 4;
	stream->acked_bytes = UINT64_MAX - i;
	stream->busy_us = 13;
	stream->rwnd_limited_us = 14;
	memset(stream->from_if, 'i', TWI_STATE_IF - 1);
	memset(stream->way, 'w', TWI_STATE_WAY - 1);
}

/* Likewise. */
static void fill_head(struct twi_state_head *head)
{
	head->seq = 1;
	head->start_ns = 2;
	head->idle_ns = 3;
	head->waited = 1;
}

/* As much as there is room for. */
static void fill_state(struct twi_rank_state *last)
{
	last->group_count = TWI_STATE_GROUPS;
	last->wait_count = TWI_STATE_WAITS;
	last->link_count = TWI_STATE_LINKS;
	last->cpu_count = TWI_STATE_CPUS;
	last->flow_count = TWI_STATE_FLOWS;
	for (uint32_t i = 0; i < TWI_STATE_FLOWS; i++)
		fill_flow(&last->flows[i], i);
	for (uint32_t i = 0; i < TWI_STATE_GROUPS; i++) {
		struct twi_state_group *group = &last->groups[i];

		group->head_count = TWI_STATE_HEADS;
		group->long_count = TWI_STATE_LONGS;
		fill_head(&group->longs[TWI_STATE_LONGS - 1]);
		memset(group->name, 'n', TWI_STATE_NAME - 1);
		group->local_count = TWI_STATE_LOCALS;
		group->locals[TWI_STATE_LOCALS - 1] = i;
		group->past_count = TWI_STATE_PAST;
		group->past[TWI_STATE_PAST - 1].name = 0xfffffff1;
		memset(group->why, 'w', TWI_STATE_WHY - 1);
		memset(group->label, 'l', TWI_STATE_LABEL - 1);
		memset(group->call, 'c', TWI_STATE_CALL - 1);
		group->call_seq = UINT64_MAX;
	}
	fill_messages(last);
	fill_waited(&last->lately);
	fill_waited(&last->longer);
	for (uint32_t i = 0; i < TWI_STATE_LINKS; i++) {
		last->links[i].carried_out = (struct twi_state_carried){ 1, 2, 3, 4 + i };
		last->links[i].carried_in = (struct twi_state_carried){ 5, 6, 7, 8 + i };
		last->links[i].called = (struct twi_state_called){ 10, 11 + i };
		last->links[i].starved_ns = 12 + i;
	}
	last->dial_count = TWI_STATE_DIALS;
	for (uint32_t i = 0; i < TWI_STATE_DIALS; i++)
		fill_dial(&last->dials[i], i);
	last->stream_count = TWI_STATE_STREAMS;
	for (uint32_t i = 0; i < TWI_STATE_STREAMS; i++)
		fill_stream(&last->streams[i], i);
	last->pool_overflows = 7;
	last->pool_overflow_bytes = 1ull << 33;
	memset(last->host, 'h', TWI_STATE_HOST - 1);
	memset(last->fabric, 'f', TWI_STATE_FABRIC - 1);
}

static void test_bytes(void **state)
{
	static uint8_t bytes[TWI_STATE_BYTES];
	static struct twi_rank_state back;
	struct twi_rank_state *last = &job.last[3];
	size_t n;

	(void)state;
	twt_vs_healthy(&job, 8);
	fill_state(last);
	assert_int_equal(twi_rank_state_encode(last, TWI_STATE_FORM_LONGS, bytes, sizeof(bytes)),
			 0);
	assert_true(twi_rank_state_encode(last, TWI_STATE_FORM_WAITED, bytes, sizeof(bytes)) > 0);
	memset(&last->groups[--last->group_count], 0, sizeof(last->groups[0]));
	assert_int_equal(twi_rank_state_encode(last, TWI_STATE_FORM_LONGS, bytes, sizeof(bytes)),
			 0);
	last->stream_count = 0; /* what goes first */
	assert_true(twi_rank_state_encode(last, TWI_STATE_FORM_LONGS, bytes, sizeof(bytes)) > 0);
	last->stream_count = TWI_STATE_STREAMS;
	memset(&last->groups[--last->group_count], 0, sizeof(last->groups[0]));
	n = twi_rank_state_encode(last, TWI_STATE_FORM_LONGS, bytes, sizeof(bytes));
	assert_true(n > 0);
	assert_true(twi_rank_state_decode(bytes, n, &back));
	assert_memory_equal(&back, last, sizeof(back));
	assert_int_equal(twi_rank_state_encode(last, TWI_STATE_FORM_LONGS, bytes, n - 1), 0);
	/* Cut, or with something behind it, or of another version: nobody's. */
	twi_rank_state_encode(last, TWI_STATE_FORM_LONGS, bytes, sizeof(bytes));
	for (size_t i = 0; i < n; i += 7)
		assert_false(twi_rank_state_decode(bytes, i, &back));
	assert_false(twi_rank_state_decode(bytes, n + 1, &back));
	bytes[4]++;
	assert_false(twi_rank_state_decode(bytes, n, &back));
	/* For one that knows nothing of bursts that took long. */
	n = twi_rank_state_encode(last, TWI_STATE_FORM_WAITED, bytes, sizeof(bytes));
	assert_true(n > 0);
	assert_true(twi_rank_state_decode(bytes, n, &back));
	assert_int_equal(back.links[0].carried_out.messages, 2);
	assert_int_equal(back.groups[0].long_count + back.dial_count + back.stream_count, 0);
	/* For one that knows nothing of waits. */
	n = twi_rank_state_encode(last, TWI_STATE_FORM_MESSAGES, bytes, sizeof(bytes));
	assert_true(n > 0);
	assert_true(twi_rank_state_decode(bytes, n, &back));
	assert_int_equal(back.stray_count, TWI_STATE_STRAYS);
	assert_int_equal(back.lately.window_ns + back.links[0].carried_out.messages, 0);
	/* For one that knows nothing of messages, whose room is as large. */
	n = twi_rank_state_encode(last, TWI_STATE_FORM_HEADS, bytes, sizeof(bytes));
	assert_true(n > 0);
	assert_true(twi_rank_state_decode(bytes, n, &back));
	assert_int_equal(back.groups[0].head_count, TWI_STATE_HEADS);
	assert_int_equal(back.message_count + back.stray_count + back.tells, 0);
	/* For a reader that knows nothing foreign: within what it has room for. */
	n = twi_rank_state_encode(last, TWI_STATE_FORM_BARE, bytes, TWI_STATE_BARE);
	assert_true(n > 0);
	assert_true(twi_rank_state_decode(bytes, n, &back));
	assert_int_equal(back.flow_count, 0);
	assert_string_equal(back.groups[0].name, "");
	assert_string_equal(back.groups[0].label, "");
	assert_int_equal(back.groups[0].call_seq, 0);
	assert_int_equal(back.link_count, TWI_STATE_LINKS);
}

/* When it was held from outside: of the newest form alone. */
static void test_held_bytes(void **state)
{
	static uint8_t bytes[TWI_STATE_BYTES];
	static struct twi_rank_state back;
	struct twi_rank_state *last = &job.last[3];
	size_t n, less;

	(void)state;
	twt_vs_healthy(&job, 8);
	fill_state(last);
	last->group_count = 3;
	memset(&last->groups[3], 0, sizeof(last->groups) - 3 * sizeof(last->groups[0]));
	last->held_count = TWI_STATE_HELD;
	for (uint32_t i = 0; i < TWI_STATE_HELD; i++)
		last->held[i] =
			(struct twi_state_held){ (uint16_t)(65535 - i), (uint16_t)(1000 - i) };
	n = twi_rank_state_encode(last, TWI_STATE_FORM_HELD, bytes, sizeof(bytes));
	assert_true(n > 0);
	assert_true(twi_rank_state_decode(bytes, n, &back));
	assert_memory_equal(&back, last, sizeof(back));
	assert_false(twi_rank_state_decode(bytes, n - 1, &back));
	bytes[4]++;
	assert_false(twi_rank_state_decode(bytes, n, &back));
	less = twi_rank_state_encode(last, TWI_STATE_FORM_LONGS, bytes, sizeof(bytes));
	assert_int_equal(less, n - 4 - 4 * TWI_STATE_HELD);
	assert_true(twi_rank_state_decode(bytes, less, &back));
	assert_int_equal(back.stream_count, TWI_STATE_STREAMS);
	assert_int_equal(back.held_count, 0);
	/* More rows than there are: nobody's. */
	last->held_count = TWI_STATE_HELD + 1;
	assert_int_equal(twi_rank_state_encode(last, TWI_STATE_FORM_HELD, bytes, sizeof(bytes)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_held_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
