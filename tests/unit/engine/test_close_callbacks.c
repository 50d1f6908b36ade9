/*
 * test_close_callbacks.c - callbacks and handlers that run while something is being closed, and
 * that start again on it, close it themselves, close everything: on every lane. What they start is
 * refused or ends, all of it ends once, and nothing that was freed is touched (ASan looks on).
 */
#include "twt.h"

#include <string.h>
#include <unistd.h>

#include "beside.h"
#include "lane_pair.h"
#include "store_port.h"

#define AT_ONCE 3
#define LARGE   (1u << 20)

static struct twt_lane_pair pair;
static struct tow_group *group;
static char in[AT_ONCE][64];
static unsigned ended, refused; /* callbacks; starts that were refused with TOW_ECLOSED */
static unsigned accepted;
static bool all; /* callbacks try everything that there is */

static void on_any(struct tow_op *op, const struct tow_result *result);

static struct tow_op_options with(tow_op_callback done, void *user)
{
	return (struct tow_op_options){ .size = sizeof(struct tow_op_options),
					.timeout_ns = TOW_FOREVER,
					.done = done,
					.user = user };
}

/* A start that must not be taken, and if it was not, for the right reason. */
static void started(int status, struct tow_op **op)
{
	if (status == TOW_ECLOSED)
		refused++;
	else if (status < 0)
		fail_msg("%s: %s", pair.lane->name, tow_error_message());
	else
		TWT_OK(tow_op_release(*op));
}

static void on_accepted_again(struct tow_op *op, const struct tow_result *result)
{
	struct tow_op_options options = with(on_accepted_again, result->user);
	struct tow_op *again;

	(void)op;
	ended++;
	if (result->status == TOW_OK && accepted < AT_ONCE)
		pair.peer[accepted++ % 2] = result->peer;
	started(tow_accept_start(result->user, &options, &again), &again);
}

/* As every server does: what was accepted, or not, is followed by another accept. */
static void test_accept(void **state)
{
	struct tow_op *op;

	twt_lane_init(&pair, *state);
	if (!twt_lane_open(&pair))
		skip();
	ended = refused = accepted = 0;
	for (int i = 0; i < AT_ONCE; i++) {
		struct tow_op_options options = with(on_accepted_again, pair.endpoint[1]);

		TWT_OK(tow_accept_start(pair.endpoint[1], &options, &op));
		TWT_OK(tow_op_release(op));
	}
	for (int i = 0; i < AT_ONCE - 1; i++) {
		char address[TOW_ADDRESS_MAX];

		TWT_OK(tow_endpoint_address(pair.endpoint[1], address, sizeof(address)));
		TWT_OK(tow_connect_start(pair.endpoint[0], address, NULL, &op));
		assert_int_equal(twt_lane_finish(&pair, op).status, TOW_OK);
	}
	while (accepted < AT_ONCE - 1)
		twt_lane_turn(&pair);
	TWT_OK(tow_endpoint_close(pair.endpoint[1]));
	assert_int_equal(refused, AT_ONCE);
	assert_int_equal(ended, AT_ONCE + AT_ONCE - 1);
	twt_lane_close(&pair);
}

static void on_received_again(struct tow_op *op, const struct tow_result *result)
{
	unsigned which = (unsigned)(uintptr_t)result->user;
	struct tow_op_options options = with(on_received_again, result->user);
	struct tow_op *again;

	(void)op;
	ended++;
	started(tow_recv_start(result->peer, in[which], sizeof(in[which]), which, &options, &again),
		&again);
}

static void on_sent_again(struct tow_op *op, const struct tow_result *result)
{
	struct tow_op_options options = with(on_sent_again, result->user);
	struct tow_op *again;

	(void)op;
	ended++;
	started(tow_send_start(result->peer, result->user, LARGE, 99, &options, &again), &again);
}

/* Receives and large sends that follow each other, when their peer is closed. */
static void test_peer(void **state)
{
	struct tow_op_options options;
	struct tow_op *op;
	uint64_t until;
	void *data;

	twt_lane_init(&pair, *state);
	if (!twt_lane_open(&pair))
		skip();
	twt_lane_join(&pair);
	ended = refused = 0;
	data = calloc(1, LARGE);
	for (uintptr_t i = 0; i < AT_ONCE; i++) {
		options = with(on_received_again, (void *)i);
		TWT_OK(tow_recv_start(pair.peer[1], in[i], sizeof(in[i]), i, &options, &op));
		TWT_OK(tow_op_release(op));
	}
	options = with(on_sent_again, data);
	TWT_OK(tow_send_start(pair.peer[1], data, LARGE, 99, &options, &op));
	TWT_OK(tow_op_release(op));
	TWT_OK(tow_send_start(pair.peer[0], "once", 4, 0, NULL, &op));
	assert_int_equal(twt_lane_finish(&pair, op).status, TOW_OK);
	while (ended == 0)
		twt_lane_turn(&pair);
	TWT_OK(tow_peer_close(pair.peer[1]));
	/* Over ofi the large one ends when its receiver has said that it does not read it. */
	assert_in_range(refused, AT_ONCE, AT_ONCE + 1);
	until = twi_now_ns() + 5 * TWT_SECOND;
	while (ended < 1 + AT_ONCE + 1 && twi_now_ns() < until)
		twt_lane_turn(&pair);
	assert_int_equal(refused, AT_ONCE + 1);
	assert_int_equal(ended, 1 + AT_ONCE + 1);
	twt_lane_drive(&pair, TWT_SECOND / 50);
	twt_lane_close(&pair);
	free(data);
}

/* Everything that a callback may do, each of it allowed to be refused. */
static void try_all(struct tow_runtime *runtime)
{
	char address[TOW_ADDRESS_MAX];
	struct tow_op *op;
	void *memory;

	for (int i = 0; i < 2; i++) {
		struct tow_op_options options = with(on_any, pair.runtime[i]);
		int status;

		if (tow_recv_start(pair.peer[i], in[0], 64, 5, &options, &op) == TOW_OK)
			TWT_OK(tow_op_release(op));
		if (tow_send_start(pair.peer[i], "x", 1, 6, &options, &op) == TOW_OK)
			TWT_OK(tow_op_release(op));
		if (tow_accept_start(pair.endpoint[i], &options, &op) == TOW_OK)
			TWT_OK(tow_op_release(op));
		if (tow_endpoint_address(pair.endpoint[i], address, sizeof(address)) == TOW_OK &&
		    tow_connect_start(pair.endpoint[i], address, &options, &op) == TOW_OK)
			TWT_OK(tow_op_release(op));
		if (tow_call_start(pair.peer[i], "m", "x", 1, in[1], 64, NULL, &op) == TOW_OK)
			TWT_OK(tow_op_release(op));
		status = tow_peer_close(pair.peer[i]);
		assert_true(status == TOW_OK || status == TOW_ECLOSED);
		status = tow_endpoint_close(pair.endpoint[i]);
		assert_true(status == TOW_OK || status == TOW_ECLOSED);
	}
	if (tow_alloc(runtime, 4096, 0, &memory) >= 0)
		TWT_OK(tow_free(runtime, memory));
	assert_int_equal(tow_runtime_close(runtime), TOW_EINVAL);
	assert_true(tow_progress(runtime) <= TOW_AGAIN);
}

static void on_any(struct tow_op *op, const struct tow_result *result)
{
	(void)op;
	ended++;
	if (all && ended < 50)
		try_all(result->user);
}

/* Closes: 0 the endpoint, 1 the peer, 2 the runtime, under callbacks that close all the rest. */
static void run_all(const struct twt_lane_row *lane, int what)
{
	struct tow_op_options options;
	unsigned mine = 0;
	struct tow_op *op;

	twt_lane_init(&pair, lane);
	if (!twt_lane_open(&pair))
		skip();
	twt_lane_join(&pair);
	options = with(on_any, pair.runtime[1]);
	ended = 0;
	all = false;
	for (int i = 0; i < AT_ONCE; i++, mine += 3) {
		TWT_OK(tow_accept_start(pair.endpoint[1], &options, &op));
		TWT_OK(tow_op_release(op));
		TWT_OK(tow_recv_start(pair.peer[1], in[i], 64, 7, &options, &op));
		TWT_OK(tow_op_release(op));
		TWT_OK(tow_recv_view_start(pair.peer[1], 8, &options, &op));
		TWT_OK(tow_op_release(op));
	}
	all = true;
	if (what == 0)
		TWT_OK(tow_endpoint_close(pair.endpoint[1]));
	else if (what == 1)
		TWT_OK(tow_peer_close(pair.peer[1]));
	twt_lane_drive(&pair, TWT_SECOND / 50);
	twt_lane_close(&pair);
	assert_true(ended >= mine);
}

static void test_everything(void **state)
{
	for (int what = 0; what < 3; what++)
		run_all(*state, what);
}

/* A handler that closes its caller, and its own endpoint, before it answers, or after. */
static void on_call(struct tow_call_in *call, void *user)
{
	const bool *first = user;
	struct tow_peer *peer = tow_call_peer(call);
	struct tow_stream *stream = tow_call_in_stream(call);
	struct tow_op *op;

	ended++;
	if (stream != NULL && tow_stream_pull_start(stream, NULL, 0, NULL, &op) == TOW_OK)
		TWT_OK(tow_op_release(op));
	if (*first) {
		TWT_OK(tow_peer_close(peer));
		assert_int_equal(tow_peer_close(peer), TOW_ECLOSED);
		TWT_OK(tow_endpoint_close(pair.endpoint[1]));
	}
	assert_true(tow_reply_start(call, 0, in, sizeof(in), NULL, NULL) <= TOW_OK);
	if (!*first)
		TWT_OK(tow_peer_close(peer));
}

static void run_handler(const struct twt_lane_row *lane, bool first, bool stream)
{
	struct tow_call_options options = TOW_CALL_OPTIONS_INIT;
	struct tow_op *op, *push = NULL;

	twt_lane_init(&pair, lane);
	if (!twt_lane_open(&pair))
		skip();
	twt_lane_join(&pair);
	ended = 0;
	TWT_OK(tow_method_register(pair.runtime[1], "m", on_call, &first, NULL));
	options.flags = stream ? TOW_CALL_STREAM : 0;
	TWT_OK(tow_call_start(pair.peer[0], "m", "x", 1, in[1], 64, &options, &op));
	if (stream)
		TWT_OK(tow_stream_push_start(tow_call_stream(op), "piece", 5, NULL, &push));
	twt_lane_finish(&pair, op); /* with any status: its server has gone */
	if (push != NULL)
		twt_lane_finish(&pair, push);
	assert_int_equal(ended, 1);
	twt_lane_drive(&pair, TWT_SECOND / 100);
	twt_lane_close(&pair);
}

static void test_handler(void **state)
{
	for (int i = 0; i < 4; i++)
		run_handler(*state, i % 2 == 0, i / 2 == 0);
}

static bool closing;

/* Connects that are on their way when their endpoint is closed, and start again. */
static void on_connected_again(struct tow_op *op, const struct tow_result *result)
{
	struct tow_op_options options = with(on_connected_again, result->user);
	struct tow_op *again;

	(void)op;
	ended++;
	if (closing)
		started(tow_connect_start(pair.endpoint[0], result->user, &options, &again),
			&again);
}

static void test_connect(void **state)
{
	char address[TOW_ADDRESS_MAX];
	unsigned before;

	twt_lane_init(&pair, *state);
	if (!twt_lane_open(&pair))
		skip();
	TWT_OK(tow_endpoint_address(pair.endpoint[1], address, sizeof(address)));
	ended = refused = before = 0;
	closing = false;
	for (int i = 0; i < AT_ONCE; i++) {
		struct tow_op_options options = with(on_connected_again, address);
		struct tow_op *op;

		TWT_OK(tow_connect_start(pair.endpoint[0], address, &options, &op));
		TWT_OK(tow_op_release(op));
	}
	before = ended; /* the loop lane connects at once */
	closing = true;
	TWT_OK(tow_endpoint_close(pair.endpoint[0]));
	for (uint64_t until = twi_now_ns() + 10 * TWT_SECOND; ended < AT_ONCE;) {
		twt_lane_turn(&pair);
		assert_true(twi_now_ns() < until);
	}
	assert_int_equal(refused, AT_ONCE - before);
	twt_lane_close(&pair);
}

static void on_group(struct tow_op *op, const struct tow_result *result)
{
	struct tow_op_options options = with(on_group, NULL);
	struct tow_peer *peer;
	struct tow_op *again;

	(void)op;
	(void)result;
	ended++;
	if (ended > 20)
		return;
	started(tow_group_barrier_start(group, &options, &again), &again);
	started(tow_group_connect_start(group, 1, &options, &again), &again);
	assert_true(tow_group_peer(group, 1, &peer) != TOW_OK);
	assert_true(tow_group_close(group) < 0);
}

/* A group of two that is closed, by itself or with its runtime, while a barrier waits in it. */
static void test_group_close(void **state)
{
	struct tow_op_options options = with(on_group, NULL);
	struct tow_group *groups[2];
	struct tow_op *opens[2], *op;
	char store[32];
	int port;

	(void)state;
	for (int way = 0; way < 2; way++) {
		twt_lane_init(&pair, &twt_lane_rows[0]);
		port = twt_store_port(store, sizeof(store));
		for (int i = 0; i < 2; i++) {
			pair.options[i].rank = i;
			pair.options[i].world_size = 2;
			pair.options[i].store = store;
			pair.options[i].lanes = "tcp";
			TWT_OK(tow_runtime_open(&pair.options[i], &pair.runtime[i]));
			TWT_OK(tow_group_open_start(pair.runtime[i], NULL, NULL, &groups[i],
						    &opens[i]));
		}
		for (int i = 0; i < 2; i++)
			assert_int_equal(twt_lane_finish(&pair, opens[i]).status, TOW_OK);
		group = groups[0];
		ended = refused = 0;
		TWT_OK(tow_group_barrier_start(group, &options, &op));
		TWT_OK(tow_op_release(op));
		twt_lane_drive(&pair, TWT_SECOND / 20);
		if (way == 0)
			TWT_OK(tow_group_close(group));
		else
			TWT_OK(tow_runtime_close(pair.runtime[0]));
		if (way == 1)
			pair.runtime[0] = NULL;
		assert_true(ended >= 1);
		assert_true(refused >= 2);
		twt_lane_close(&pair);
		close(port);
	}
}

#define KINDS 5

int main(void)
{
	static const struct {
		const char *name;
		CMUnitTestFunction run;
	} kinds[KINDS] = {
		{ "accept", test_accept },         { "peer", test_peer },
		{ "everything", test_everything }, { "handler", test_handler },
		{ "connect", test_connect },
	};
	struct CMUnitTest tests[KINDS * TWT_LANE_ROWS + 1];
	static char names[KINDS * TWT_LANE_ROWS][64];

	for (size_t i = 0; i < KINDS * TWT_LANE_ROWS; i++) {
		const struct twt_lane_row *lane = &twt_lane_rows[i / KINDS];

		snprintf(names[i], sizeof(names[i]), "%s: %s", lane->name, kinds[i % KINDS].name);
		tests[i] = (struct CMUnitTest){ names[i], kinds[i % KINDS].run, NULL, NULL,
						(void *)(uintptr_t)lane };
	}
	tests[KINDS * TWT_LANE_ROWS] = (struct CMUnitTest)cmocka_unit_test(test_group_close);
	return twt_beside_tests(tests, KINDS * TWT_LANE_ROWS + 1, KINDS, TWT_LANE_ROWS);
}
