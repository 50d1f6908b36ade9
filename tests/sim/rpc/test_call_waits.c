/*
 * test_call_waits.c - whose time is it: a server's that computes, or a network's that is slow. Over
 * the loop lane with a virtual clock, where both are known to the nanosecond.
 */
#include "twt.h"

#include <string.h>

#include <towline/towline.h>

#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/op/endpoint.h"
#include "transport/rpc/rpc.h"
#include "transport/sim/loop_sim.h"

#define MS    1000000ull
#define CALLS 16

static struct tow_runtime *runtime;
static struct twi_engine *engine;
static struct tow_peer *client, *server;
static struct tow_op *ticks; /* an accept that nobody meets */
static uint64_t handler_ns;

/* Computes for so long: nobody polls meanwhile. */
static void work(struct tow_call_in *call, void *user)
{
	(void)user;
	engine->virtual_ns += handler_ns;
	assert_int_equal(tow_reply_start(call, 0, NULL, 0, NULL, NULL), TOW_OK);
}

static void let_pass(uint64_t ns)
{
	assert_int_equal(tow_op_wait(ticks, ns), TOW_ETIMEDOUT);
}

static struct tow_peer *peer_of(struct tow_op *op)
{
	struct tow_result result = TOW_RESULT_INIT;

	assert_int_equal(tow_op_wait(op, 1000 * MS), TOW_OK);
	assert_int_equal(tow_op_result(op, &result), TOW_OK);
	tow_op_release(op);
	return result.peer;
}

/* Every write takes delay_ns there. features: bits that this version does not offer. */
static void world_open(uint64_t delay_ns, uint32_t lacks)
{
	const struct twi_loop_config config = { .delay_min_ns = delay_ns,
						.delay_max_ns = delay_ns };
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_endpoint *left, *right, *nowhere;
	struct tow_op *connect, *accept;

	options.premap_memory_bytes = 4 << 20;
	options.huge_pages = 0;
	assert_int_equal(twi_runtime_open_sim(&options, &runtime), TOW_OK);
	engine = twi_runtime_engine(runtime);
	engine->features.offered &= ~lacks;
	twi_loop_configure(engine, &config);
	assert_int_equal(tow_endpoint_open(runtime, "loop://left", &left), TOW_OK);
	assert_int_equal(tow_endpoint_open(runtime, "loop://right", &right), TOW_OK);
	assert_int_equal(tow_endpoint_open(runtime, "loop://nowhere", &nowhere), TOW_OK);
	assert_int_equal(tow_accept_start(nowhere, NULL, &ticks), TOW_OK);
	assert_int_equal(tow_accept_start(right, NULL, &accept), TOW_OK);
	assert_int_equal(tow_connect_start(left, "loop://right", NULL, &connect), TOW_OK);
	client = peer_of(connect);
	server = peer_of(accept);
	assert_int_equal(tow_method_register(runtime, "work", work, NULL, NULL), TOW_OK);
	handler_ns = 0;
}

static struct tow_op *call_begin(void)
{
	struct tow_op *op;

	assert_int_equal(tow_call_start(client, "work", "", 0, NULL, 0, NULL, &op), TOW_OK);
	return op;
}

static struct tow_call_result call_end(struct tow_op *op)
{
	struct tow_call_result result = TOW_CALL_RESULT_INIT;

	assert_int_equal(tow_op_wait(op, 100000 * MS), TOW_OK);
	assert_int_equal(tow_call_result(op, &result), TOW_OK);
	tow_op_release(op);
	assert_true(result.queue_ns + result.server_queue_ns + result.wire_ns + result.match_ns +
			    result.serve_ns ==
		    result.total_ns);
	if (result.one_way_error_ns != UINT64_MAX)
		assert_true(result.request_one_way_ns + result.response_one_way_ns ==
			    (int64_t)result.wire_ns);
	return result;
}

/* A slow network in front of a server that looks all the time is the network's, alone or many. */
static void test_slow_network(void **state)
{
	struct tow_call_result result;
	struct tow_op *ops[CALLS];

	(void)state;
	world_open(MS / 10, 0);
	for (unsigned i = 0; i < 3; i++) {
		result = call_end(call_begin());
		assert_int_equal(result.server_queue_ns, 0);
	}
	assert_int_equal(result.wire_ns, MS / 5);
	twi_loop_configure(engine, &(struct twi_loop_config){ .delay_min_ns = 20 * MS,
							      .delay_max_ns = 20 * MS });
	for (unsigned i = 0; i < CALLS; i++)
		ops[i] = call_begin();
	for (unsigned i = 0; i < CALLS; i++) {
		result = call_end(ops[i]);
		assert_int_equal(result.server_queue_ns, 0);
		assert_true(result.wire_ns >= 40 * MS);
	}
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
}

/* One request comes while the handler of another computes, and is read when that is through. */
static void queue_behind(uint64_t delay_ns, uint64_t later_ns)
{
	struct tow_call_result first, second;
	struct tow_op *ops[2];

	for (unsigned i = 0; i < 3; i++)
		call_end(call_begin());
	let_pass(50 * MS); /* no acknowledgement is under way any more */
	handler_ns = 4 * MS;
	ops[0] = call_begin();
	let_pass(later_ns);
	ops[1] = call_begin();
	first = call_end(ops[0]);
	second = call_end(ops[1]);
	assert_int_equal(first.server_queue_ns, 0);
	assert_int_equal(first.serve_ns, 4 * MS);
	assert_in_range(second.server_queue_ns, 4 * MS - later_ns - MS / 100, 4 * MS - later_ns);
	assert_int_equal(second.serve_ns, 4 * MS);
	assert_true(second.wire_ns >= 2 * delay_ns);
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
}

static void test_queue(void **state)
{
	(void)state;
	world_open(MS, 0);
	queue_behind(MS, MS / 2);
	world_open(10 * MS, 0);
	queue_behind(10 * MS, MS);
}

/* A program that computes and does not drive is its requests' queue, too. */
static void test_program_is_away(void **state)
{
	struct tow_call_result result;
	struct tow_op *op;

	(void)state;
	world_open(MS, 0);
	for (unsigned i = 0; i < 3; i++)
		call_end(call_begin());
	let_pass(50 * MS);
	op = call_begin();
	engine->virtual_ns += 30 * MS;
	result = call_end(op);
	/* the request was there after 1 ms; its answer waited for nobody */
	assert_in_range(result.server_queue_ns, 29 * MS - MS / 100, 29 * MS);
	assert_in_range(result.wire_ns, 2 * MS, 2 * MS + MS / 100);
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
}

/* A peer of a version that does not tell: as before, and nothing is claimed. */
static void test_older_peer(void **state)
{
	struct tow_call_result result;
	struct tow_op *op;
	char *rpc;

	(void)state;
	for (int old = 0; old < 2; old++) {
		world_open(MS, old ? TWI_FEATURE_BIT(call_unread) : 0);
		for (unsigned i = 0; i < 3; i++)
			call_end(call_begin());
		let_pass(50 * MS);
		op = call_begin();
		engine->virtual_ns += 30 * MS;
		result = call_end(op);
		assert_true(old == (result.server_queue_ns == 0));
		assert_true(result.wire_ns >= (old ? 31 : 2) * MS);
		assert_int_equal(tow_stats_get(runtime, "/v1/rpc", &rpc), TOW_OK);
		assert_true(old == (strstr(rpc, "\"server_queue\"") == NULL));
		tow_stats_release(rpc);
		assert_int_equal(tow_runtime_close(runtime), TOW_OK);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slow_network),
		cmocka_unit_test(test_queue),
		cmocka_unit_test(test_program_is_away),
		cmocka_unit_test(test_older_peer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
