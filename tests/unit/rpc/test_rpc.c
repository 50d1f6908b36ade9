/*
 * test_rpc.c - calls over the loop lane with a virtual clock: each promise of <towline/rpc.h> once.
 */
#include "twt.h"

#include <string.h>

#include <towline/towline.h>

#include "memreg/pool/pool.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/op/endpoint.h"
#include "transport/op/op_table.h"
#include "transport/rpc/rpc.h"
#include "transport/rpc/rpc_records.h"

#define MS  1000000ull
#define BIG 300000u

static struct tow_runtime *runtime;
static struct twi_engine *engine;
static struct tow_peer *client, *server;
static struct tow_op *ticks; /* an accept that nobody meets */
static struct tow_call_in *held[200];
static int held_count, served;
static uint8_t big[BIG];

static void fill(uint8_t *data, size_t bytes, uint8_t seed)
{
	for (size_t i = 0; i < bytes; i++)
		data[i] = (uint8_t)(seed + i * 7);
}

static bool same(const void *data, size_t bytes, uint8_t seed)
{
	const uint8_t *at = data;

	for (size_t i = 0; i < bytes; i++) {
		if (at[i] != (uint8_t)(seed + i * 7))
			return false;
	}
	return true;
}

static void echo(struct tow_call_in *call, void *user)
{
	uint64_t bytes;
	const void *request = tow_call_request(call, &bytes);

	(void)user;
	served++;
	assert_int_equal(tow_reply_start(call, 0, request, bytes, NULL, NULL), TOW_OK);
}

static void refuse(struct tow_call_in *call, void *user)
{
	const char *text = user;

	assert_int_equal(tow_reply_start(call, 42, text, strlen(text), NULL, NULL), TOW_OK);
}

/* Answered by the test itself, later. */
static void hold(struct tow_call_in *call, void *user)
{
	(void)user;
	held[held_count++] = call;
}

static int call_end(struct tow_op *op, struct tow_call_result *out)
{
	int status = tow_op_wait(op, 1000 * MS);

	assert_int_not_equal(status, TOW_ETIMEDOUT);
	if (out != NULL) {
		out->size = sizeof(*out);
		assert_int_equal(tow_call_result(op, out), TOW_OK);
		assert_int_equal(out->status, status);
	}
	return status;
}

/* Lets a millisecond pass. */
static void settle(void)
{
	assert_int_equal(tow_op_wait(ticks, MS), TOW_ETIMEDOUT);
}

static int set_up(void **state)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_endpoint *left, *right, *nowhere;
	struct tow_result result = { .size = sizeof(result) };
	struct tow_op *connect, *accept;

	(void)state;
	options.premap_memory_bytes = 4 << 20;
	options.exhaust = "fail";
	options.huge_pages = 0;
	options.max_ops = 2048;
	assert_int_equal(twi_runtime_open_sim(&options, &runtime), TOW_OK);
	engine = twi_runtime_engine(runtime);
	assert_int_equal(tow_endpoint_open(runtime, "loop://left", &left), TOW_OK);
	assert_int_equal(tow_endpoint_open(runtime, "loop://right", &right), TOW_OK);
	assert_int_equal(tow_endpoint_open(runtime, "loop://nowhere", &nowhere), TOW_OK);
	assert_int_equal(tow_accept_start(nowhere, NULL, &ticks), TOW_OK);
	assert_int_equal(tow_accept_start(right, NULL, &accept), TOW_OK);
	assert_int_equal(tow_connect_start(left, "loop://right", NULL, &connect), TOW_OK);
	assert_int_equal(tow_op_wait(connect, MS), TOW_OK);
	assert_int_equal(tow_op_wait(accept, MS), TOW_OK);
	assert_int_equal(tow_op_result(connect, &result), TOW_OK);
	client = result.peer;
	assert_int_equal(tow_op_result(accept, &result), TOW_OK);
	server = result.peer;
	tow_op_release(connect);
	tow_op_release(accept);
	held_count = served = 0;
	fill(big, BIG, 3);
	assert_int_equal(tow_method_register(runtime, "echo", echo, NULL, NULL), TOW_OK);
	assert_int_equal(tow_method_register(runtime, "hold", hold, NULL, NULL), TOW_OK);
	return 0;
}

/* Nothing is left over: operations, records, pool. */
static void check_empty(void)
{
	struct twi_pool_stats stats;
	struct twi_rpc *rpc = engine->rpc;
	uint32_t free_calls = 0, free_ins = 0, free_streams = 0;

	settle();
	for (struct twi_list *at = rpc->calls.next; at != &rpc->calls; at = at->next)
		free_calls++;
	for (struct twi_list *at = rpc->ins.next; at != &rpc->ins; at = at->next)
		free_ins++;
	for (struct twi_list *at = rpc->streams.next; at != &rpc->streams; at = at->next)
		free_streams++;
	assert_int_equal(free_calls, rpc->records);
	assert_int_equal(free_ins, rpc->records);
	assert_int_equal(free_streams, TWI_RPC_STREAMS);
	twi_pool_stats(engine->pool, &stats);
	assert_int_equal(stats.allocated, engine->staging.bytes);
	assert_int_equal(stats.leased, 0);
	for (uint32_t i = 0; i < engine->ops->count; i++)
		assert_int_equal(engine->ops->rows[i].wait.state,
				 &engine->ops->rows[i] == ticks ? TWI_OP_USED : 0);
}

static int tear_down(void **state)
{
	(void)state;
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
	return 0;
}

static void echo_once(size_t bytes, bool view)
{
	struct tow_call_options options = TOW_CALL_OPTIONS_INIT;
	struct tow_call_result result;
	static uint8_t back[BIG];
	struct tow_op *op;

	memset(back, 0, bytes);
	options.flags = view ? TOW_CALL_VIEW : 0;
	assert_int_equal(tow_call_start(client, "echo", big, bytes, view ? NULL : back,
					view ? 0 : bytes, &options, &op),
			 TOW_OK);
	assert_int_equal(call_end(op, &result), TOW_OK);
	assert_int_equal(result.bytes, bytes);
	if (bytes > 0)
		assert_true(same(result.data, bytes, 3));
	assert_int_equal(tow_op_release(op), TOW_OK);
}

static void test_echo(void **state)
{
	static const size_t sizes[] = { 0, 1, 64, 4032, 16384, 16385, 65536, BIG };

	(void)state;
	for (size_t i = 0; i < twi_array_count(sizes); i++) {
		echo_once(sizes[i], false);
		echo_once(sizes[i], true);
	}
	assert_int_equal(served, 16);
	check_empty();
}

static void test_failures_of_the_server(void **state)
{
	static char text[] = "not today";
	struct tow_call_result result;
	struct tow_op *op;

	(void)state;
	assert_int_equal(tow_method_register(runtime, "no", refuse, text, NULL), TOW_OK);
	assert_int_equal(tow_call_start(client, "no", big, 10, NULL, 0, NULL, &op), TOW_OK);
	assert_int_equal(call_end(op, &result), TOW_EREMOTE);
	assert_int_equal(result.code, 42);
	assert_string_equal(result.text, "not today");
	tow_op_release(op);
	/* with a large body, which is taken back */
	assert_int_equal(tow_call_start(client, "none", big, BIG, NULL, 0, NULL, &op), TOW_OK);
	assert_int_equal(call_end(op, &result), TOW_ENOTSUP);
	assert_non_null(strstr(result.text, "no method"));
	tow_op_release(op);
	assert_int_equal(tow_method_deregister(runtime, "no"), TOW_OK);
	assert_int_equal(tow_method_deregister(runtime, "no"), TOW_EINVAL);
	assert_int_equal(tow_call_start(client, "no", NULL, 0, NULL, 0, NULL, &op), TOW_OK);
	assert_int_equal(call_end(op, NULL), TOW_ENOTSUP);
	tow_op_release(op);
	/* too long for the buffer, inline and not */
	assert_int_equal(tow_call_start(client, "echo", big, 100, big, 99, NULL, &op), TOW_OK);
	assert_int_equal(call_end(op, NULL), TOW_ETRUNCATED);
	tow_op_release(op);
	assert_int_equal(tow_call_start(client, "echo", big, BIG, big, 99, NULL, &op), TOW_OK);
	assert_int_equal(call_end(op, NULL), TOW_ETRUNCATED);
	tow_op_release(op);
	check_empty();
}

/* The message of a call's failure names method, sizes, limits and peer, and the server's text. */
static void told(const char *method, uint64_t request_bytes, uint64_t response_bytes, int status,
		 const char *text)
{
	struct tow_call_options options = TOW_CALL_OPTIONS_INIT;
	char head[128];
	struct tow_op *op;

	options.timeout_ns = 5 * MS;
	assert_int_equal(tow_call_start(client, method, big, request_bytes, big, response_bytes,
					&options, &op),
			 TOW_OK);
	assert_int_equal(call_end(op, NULL), status);
	snprintf(head, sizeof(head), "call of %s with %llu bytes to loop://right", method,
		 (unsigned long long)request_bytes);
	if (strstr(tow_error_message(), head) == NULL || strstr(tow_error_message(), text) == NULL)
		fail_msg("not '%s ... %s' but '%s'", head, text, tow_error_message());
	tow_op_release(op);
}

static void test_failures_are_told(void **state)
{
	static char text[] = "not\ntoday";
	struct tow_method_options limits = TOW_METHOD_OPTIONS_INIT;

	(void)state;
	limits.request_bytes_max = 9;
	limits.in_service = 1;
	assert_int_equal(tow_method_register(runtime, "no", refuse, text, NULL), TOW_OK);
	assert_int_equal(tow_method_register(runtime, "one", hold, NULL, &limits), TOW_OK);
	told("no", 10, 0, TOW_EREMOTE, "the handler failed with code 42: not.today");
	told("none", BIG, 0, TOW_ENOTSUP, "no method of that name");
	told("one", 10, 0, TOW_EINVAL, "has 10 bytes, request_bytes_max of the method is 9");
	told("echo", 100, 99, TOW_ETRUNCATED, "the response has 100 bytes, and the buffer 99");
	told("echo", BIG, 99, TOW_ETRUNCATED, "the response has 300000 bytes, and the buffer 99");
	told("one", 8, 8, TOW_EDEADLINE, "the server had not answered");
	told("one", 7, 8, TOW_EBUSY, "1 calls of the method are in service, its limit is 1");
	assert_int_equal(held_count, 1);
	assert_int_equal(tow_reply_start(held[0], 0, NULL, 0, NULL, NULL), TOW_OK);
	assert_int_equal(tow_method_deregister(runtime, "no"), TOW_OK);
	assert_int_equal(tow_method_deregister(runtime, "one"), TOW_OK);
	settle();
	check_empty();
}

static void test_deadline_and_cancel(void **state)
{
	struct tow_call_options options = TOW_CALL_OPTIONS_INIT;
	struct tow_result result = { .size = sizeof(result) };
	struct tow_op *op, *reply;

	(void)state;
	options.timeout_ns = 5 * MS;
	assert_int_equal(tow_call_start(client, "hold", big, 8, NULL, 0, &options, &op), TOW_OK);
	settle();
	assert_int_equal(held_count, 1);
	assert_in_range(tow_call_remaining_ns(held[0]), 1 * MS, 5 * MS);
	assert_false(tow_call_canceled(held[0]));
	assert_int_equal(call_end(op, NULL), TOW_EDEADLINE);
	settle();
	assert_true(tow_call_canceled(held[0]));
	assert_int_equal(tow_call_remaining_ns(held[0]), 0);
	assert_int_equal(tow_reply_start(held[0], 0, big, BIG, NULL, &reply), TOW_OK);
	assert_int_equal(tow_op_wait(reply, MS), TOW_ECANCELED);
	tow_op_release(reply);
	tow_op_release(op);
	/* canceled while the large request is on its way, and while it is in service */
	for (int i = 0; i < 2; i++) {
		held_count = 0;
		assert_int_equal(tow_call_start(client, "hold", big, BIG, NULL, 0, NULL, &op),
				 TOW_OK);
		if (i == 1)
			settle();
		assert_int_equal(tow_op_cancel(op), TOW_OK);
		assert_int_equal(call_end(op, NULL), TOW_ECANCELED);
		tow_op_release(op);
		settle();
		for (int j = 0; j < held_count; j++) {
			assert_true(tow_call_canceled(held[j]));
			assert_int_equal(tow_reply_start(held[j], 0, NULL, 0, NULL, NULL), TOW_OK);
		}
	}
	/* one that is given back while it is in flight */
	held_count = 0;
	assert_int_equal(tow_call_start(client, "hold", big, 8, NULL, 0, NULL, &op), TOW_OK);
	tow_op_release(op);
	settle();
	assert_int_equal(tow_reply_start(held[0], 0, NULL, 0, NULL, NULL), TOW_OK);
	check_empty();
}

static void test_reply_later_and_twice(void **state)
{
	struct tow_call_result result;
	struct tow_op *op, *reply;
	uint64_t bytes;

	(void)state;
	assert_int_equal(tow_call_start(client, "hold", big, BIG, NULL, 0, NULL, &op), TOW_OK);
	settle();
	settle();
	assert_int_equal(held_count, 1);
	assert_true(same(tow_call_request(held[0], &bytes), BIG, 3));
	assert_int_equal(bytes, BIG);
	assert_ptr_equal(tow_call_peer(held[0]), server);
	assert_int_equal(tow_reply_start(held[0], 0, NULL, 5, NULL, &reply), TOW_EINVAL);
	assert_int_equal(tow_reply_start(held[0], 0, NULL, 0, NULL, &reply), TOW_OK);
	assert_int_equal(call_end(op, &result), TOW_OK);
	assert_int_equal(result.bytes, 0);
	assert_true(result.serve_ns >= 2 * MS - MS / 10);
	assert_true(result.total_ns >= result.serve_ns);
	tow_op_release(reply);
	tow_op_release(op);
	check_empty();
}

static void test_limits(void **state)
{
	struct tow_method_options limits = TOW_METHOD_OPTIONS_INIT;
	struct tow_call_result result;
	struct tow_op *ops[300];

	(void)state;
	limits.in_service = 2;
	limits.request_bytes_max = BIG - 1;
	limits.held_bytes_max = 150000;
	assert_int_equal(tow_method_register(runtime, "few", hold, NULL, &limits), TOW_OK);
	assert_int_equal(tow_method_register(runtime, "few", hold, NULL, &limits), TOW_EBUSY);
	assert_int_equal(tow_method_register(runtime, "", hold, NULL, &limits), TOW_EINVAL);
	assert_int_equal(tow_method_register(runtime, "a\"b", hold, NULL, &limits), TOW_EINVAL);
	assert_int_equal(tow_method_register(runtime, "null", NULL, NULL, &limits), TOW_EINVAL);
	assert_int_equal(tow_call_start(client, "few", big, BIG, NULL, 0, NULL, &ops[0]), TOW_OK);
	assert_int_equal(call_end(ops[0], &result), TOW_EINVAL);
	tow_op_release(ops[0]);
	for (int i = 0; i < 3; i++)
		assert_int_equal(tow_call_start(client, "few", big, i == 0 ? 100000 : 8, NULL, 0,
						NULL, &ops[i]),
				 TOW_OK);
	settle();
	assert_int_equal(call_end(ops[2], &result), TOW_EBUSY);
	assert_int_equal(held_count, 2);
	tow_op_release(ops[2]);
	assert_int_equal(tow_reply_start(held[1], 0, NULL, 0, NULL, NULL), TOW_OK);
	assert_int_equal(call_end(ops[1], NULL), TOW_OK);
	assert_int_equal(tow_call_start(client, "few", big, 100000, NULL, 0, NULL, &ops[2]),
			 TOW_OK);
	assert_int_equal(call_end(ops[2], &result), TOW_EBUSY); /* holds too much */
	tow_op_release(ops[1]);
	tow_op_release(ops[2]);
	assert_int_equal(tow_reply_start(held[0], 0, NULL, 0, NULL, NULL), TOW_OK);
	assert_int_equal(call_end(ops[0], NULL), TOW_OK);
	tow_op_release(ops[0]);
	/* beyond the window they wait at the client */
	held_count = 0;
	for (int i = 0; i < 150; i++)
		assert_int_equal(
			tow_call_start(client, "hold", &i, sizeof(i), NULL, 0, NULL, &ops[i]),
			TOW_OK);
	settle();
	assert_int_equal(held_count, TOW_CALL_WINDOW);
	for (int i = 0; i < 150; i++) {
		assert_int_equal(*(const int *)tow_call_request(held[i], NULL), i);
		assert_int_equal(tow_reply_start(held[i], 0, NULL, 0, NULL, NULL), TOW_OK);
		settle();
	}
	for (int i = 0; i < 150; i++) {
		assert_int_equal(call_end(ops[i], NULL), TOW_OK);
		tow_op_release(ops[i]);
	}
	check_empty();
}

static void test_table_is_full(void **state)
{
	struct tow_op *ops[TWI_RPC_RECORDS], *one;

	(void)state;
	for (unsigned i = 0; i < TWI_RPC_RECORDS; i++)
		assert_int_equal(tow_call_start(client, "echo", NULL, 0, NULL, 0, NULL, &ops[i]),
				 TOW_OK);
	assert_int_equal(tow_call_start(client, "echo", NULL, 0, NULL, 0, NULL, &one), TOW_EBUSY);
	assert_null(one);
	for (unsigned i = 0; i < TWI_RPC_RECORDS; i++) {
		assert_int_equal(call_end(ops[i], NULL), TOW_OK);
		tow_op_release(ops[i]);
	}
	check_empty();
}

static void test_pool_is_full(void **state)
{
	void *rest[4096];
	struct tow_call_result result;
	struct tow_op *op;
	int count = 0;

	(void)state;
	while (count < 4096 && tow_alloc(runtime, 16384, 0, &rest[count]) == TOW_OK)
		count++;
	assert_int_equal(tow_call_start(client, "echo", big, BIG, NULL, 0, NULL, &op), TOW_OK);
	assert_int_equal(call_end(op, &result), TOW_EEXHAUSTED);
	assert_non_null(strstr(result.text, "pool"));
	tow_op_release(op);
	while (count > 0)
		tow_free(runtime, rest[--count]);
	echo_once(BIG, false);
	check_empty();
}

static void on_done(struct tow_op *op, const struct tow_result *result)
{
	struct tow_call_result *out = result->user;

	out->size = sizeof(*out);
	assert_int_equal(tow_call_result(op, out), TOW_OK);
	assert_int_equal(out->status, result->status);
	tow_op_release(op);
}

static void test_callback(void **state)
{
	struct tow_call_options options = TOW_CALL_OPTIONS_INIT;
	struct tow_call_result result = { .status = TOW_AGAIN };
	char back[8];
	struct tow_op *op;

	(void)state;
	options.done = on_done;
	options.user = &result;
	assert_int_equal(tow_call_start(client, "echo", "abc", 4, back, 8, &options, &op), TOW_OK);
	settle();
	assert_int_equal(result.status, TOW_OK);
	assert_string_equal(back, "abc");
	/* in one */
	result.size = sizeof(result);
	assert_int_equal(tow_call(client, "echo", "xyz", 4, back, 8, MS, &result), TOW_OK);
	assert_string_equal(back, "xyz");
	assert_int_equal(result.bytes, 4);
	assert_int_equal(tow_call(client, "hold", "xyz", 4, back, 8, MS, NULL), TOW_EDEADLINE);
	assert_int_equal(tow_reply_start(held[0], 1, NULL, 0, NULL, NULL), TOW_OK);
	check_empty();
}

static void test_peer_goes(void **state)
{
	struct tow_op *ops[5];

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(tow_call_start(client, "hold", big, i % 2 ? 8 : BIG, NULL, 0, NULL,
						&ops[i]),
				 TOW_OK);
	settle();
	assert_int_equal(held_count, 4);
	assert_int_equal(tow_peer_close(server), TOW_OK);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(call_end(ops[i], NULL), TOW_EPEER);
		assert_true(tow_call_canceled(held[i]));
		assert_null(tow_call_peer(held[i]));
		assert_int_equal(tow_reply_start(held[i], 0, big, BIG, NULL, &ops[4]), TOW_OK);
		assert_int_equal(tow_op_wait(ops[4], MS), TOW_ECLOSED);
		tow_op_release(ops[4]);
		tow_op_release(ops[i]);
	}
	assert_int_equal(tow_call_start(client, "hold", big, 8, NULL, 0, NULL, &ops[0]), TOW_OK);
	assert_int_equal(call_end(ops[0], NULL), TOW_EPEER);
	tow_op_release(ops[0]);
	check_empty();
}

static void test_arguments(void **state)
{
	struct tow_call_options options = TOW_CALL_OPTIONS_INIT;
	struct tow_call_result result = { 0 };
	char name[TOW_METHOD_NAME_MAX + 1];
	struct tow_op *op;

	(void)state;
	memset(name, 'a', sizeof(name));
	name[TOW_METHOD_NAME_MAX] = '\0';
	assert_int_equal(tow_call_start(client, name, NULL, 0, NULL, 0, NULL, &op), TOW_EINVAL);
	assert_int_equal(tow_call_start(client, NULL, NULL, 0, NULL, 0, NULL, &op), TOW_EINVAL);
	assert_int_equal(tow_call_start(NULL, "echo", NULL, 0, NULL, 0, NULL, &op), TOW_EINVAL);
	assert_int_equal(tow_call_start(client, "echo", NULL, 1, NULL, 0, NULL, &op), TOW_EINVAL);
	assert_int_equal(tow_call_start(client, "echo", NULL, 0, NULL, 1, NULL, &op), TOW_EINVAL);
	options.flags = 128;
	assert_int_equal(tow_call_start(client, "echo", NULL, 0, NULL, 0, &options, &op),
			 TOW_EINVAL);
	options.flags = 0;
	options.size = 1;
	assert_int_equal(tow_call_start(client, "echo", NULL, 0, NULL, 0, &options, &op),
			 TOW_EINVAL);
	assert_int_equal(tow_recv_start(client, NULL, 0, 7, NULL, &op), TOW_OK);
	result.size = sizeof(result);
	assert_int_equal(tow_call_result(op, &result), TOW_EINVAL);
	assert_null(tow_call_stream(op));
	tow_op_cancel(op);
	tow_op_release(op);
	assert_int_equal(tow_call_result(NULL, &result), TOW_EINVAL);
	assert_int_equal(tow_reply_start(NULL, 0, NULL, 0, NULL, NULL), TOW_EINVAL);
	assert_int_equal(tow_stream_push_start(NULL, big, 1, NULL, &op), TOW_EINVAL);
	assert_int_equal(tow_stream_pull_start(NULL, big, 1, NULL, &op), TOW_EINVAL);
	assert_int_equal(tow_stream_end(NULL), TOW_EINVAL);
	assert_int_equal(tow_stream_abort(NULL), TOW_EINVAL);
}

/* The runtime is closed with calls in every state. */
static void test_close(void **state)
{
	struct tow_call_result results[3] = { { 0 } };
	struct tow_call_options options = TOW_CALL_OPTIONS_INIT;
	struct tow_op *op;

	options.done = on_done;
	set_up(state);
	for (int i = 0; i < 3; i++) {
		options.user = &results[i];
		assert_int_equal(tow_call_start(client, "hold", big, i == 0 ? BIG : 8, NULL, 0,
						&options, &op),
				 TOW_OK);
		if (i < 2)
			settle();
	}
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
	for (int i = 0; i < 3; i++)
		assert_int_equal(results[i].status, TOW_ECLOSED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_echo, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_failures_of_the_server, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_failures_are_told, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_deadline_and_cancel, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_reply_later_and_twice, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_limits, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_table_is_full, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_pool_is_full, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_callback, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_peer_goes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_arguments, set_up, tear_down),
		cmocka_unit_test(test_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
