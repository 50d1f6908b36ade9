/*
 * Receives whose memory the lane finds, over the loop lane: they lie in the pool, and go back to it
 * whatever becomes of the message, the peer or the operation.
 */
#include "twt.h"

#include <string.h>

#include <towline/towline.h>

#include "pair.h"

#include "memreg/pool/pool.h"
#include "transport/engine/runtime.h"
#include "transport/op/message.h"
#include "transport/sim/loop_sim.h"

#define SECOND 1000000000ull
#define LARGE  200000u

static struct tow_runtime *runtime;
static struct twi_engine *engine;
static struct tow_endpoint *here, *there;
static struct tow_peer *a, *b;
static uint8_t from[LARGE];
static uint64_t leased; /* of the pool, before any view */

static uint64_t in_use(void)
{
	struct twi_pool_stats stats;

	twi_pool_stats(engine->pool, &stats);
	return stats.allocated;
}

static int set_up(void **state)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct twi_loop_config narrow = { .pipe_bytes = 5000 }; /* large messages take many trips */
	struct tow_op *connect, *accept;
	struct tow_result result;

	(void)state;
	options.premap_memory_bytes = 1 << 20;
	options.huge_pages = 0;
	options.max_ops = 256;
	options.exhaust = "fail";
	assert_int_equal(twi_runtime_open_sim(&options, &runtime), TOW_OK);
	engine = twi_runtime_engine(runtime);
	twi_loop_configure(engine, &narrow);
	assert_int_equal(tow_endpoint_open(runtime, "loop://here", &here), TOW_OK);
	assert_int_equal(tow_endpoint_open(runtime, "loop://there", &there), TOW_OK);
	assert_int_equal(tow_connect_start(here, "loop://there", NULL, &connect), TOW_OK);
	assert_int_equal(tow_accept_start(there, NULL, &accept), TOW_OK);
	assert_int_equal(twt_wait_for(connect, &result), TOW_OK);
	a = result.peer;
	assert_int_equal(twt_wait_for(accept, &result), TOW_OK);
	b = result.peer;
	tow_op_release(connect);
	tow_op_release(accept);
	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i * 13 + i / 300);
	leased = in_use();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	assert_int_equal(in_use(), leased);
	return tow_runtime_close(runtime);
}

static struct tow_op *view_op(struct tow_peer *peer, const struct tow_op_options *options)
{
	struct tow_op *op;

	assert_int_equal(tow_recv_view_start(peer, 1, options, &op), TOW_OK);
	return op;
}

static struct tow_op *send_op(uint64_t bytes)
{
	struct tow_op *op;

	assert_int_equal(tow_send_start(a, from, bytes, 1, NULL, &op), TOW_OK);
	return op;
}

static void check_view(struct tow_op *op, uint64_t bytes)
{
	struct tow_result result;

	assert_int_equal(twt_wait_for(op, &result), TOW_OK);
	assert_int_equal(result.bytes, bytes);
	assert_non_null(result.data);
	assert_memory_equal(result.data, from, bytes);
	assert_non_null(twi_pool_find(engine->pool, result.data, bytes));
	assert_int_equal(tow_view_release(op), TOW_OK);
}

/* Any length, posted before the message and after it. */
static void test_views(void **state)
{
	static const uint64_t lengths[] = { 0, 1, 100, 5000, LARGE };

	(void)state;
	for (size_t i = 0; i < 2 * twi_array_count(lengths); i++) {
		uint64_t bytes = lengths[i / 2];
		struct tow_op *view = i % 2 ? view_op(b, NULL) : NULL, *send = send_op(bytes);

		check_view(view != NULL ? view : view_op(b, NULL), bytes);
		assert_int_equal(twt_finish(send, NULL), TOW_OK);
		assert_int_equal(in_use(), leased);
	}
}

/* A view that never gets its message, in each way. */
static void test_views_taken_back(void **state)
{
	struct tow_op_options soon = TOW_OP_OPTIONS_INIT;
	struct twi_loop_config slow = { .delay_min_ns = 1000000, .delay_max_ns = 1000000 };
	struct tow_op *view, *send;
	struct tow_result result;

	(void)state;
	twi_loop_configure(engine, &slow);
	view = view_op(b, NULL);
	assert_int_equal(tow_op_cancel(view), TOW_OK);
	assert_int_equal(twt_finish(view, NULL), TOW_ECANCELED);
	/* in the middle of a large message, whose sender hears of it */
	soon.timeout_ns = 6000000;
	send = send_op(LARGE);
	view = view_op(b, &soon);
	assert_int_equal(twt_wait_for(view, &result), TOW_EDEADLINE);
	assert_null(result.data);
	assert_int_equal(tow_view_release(view), TOW_OK);
	assert_int_equal(twt_finish(send, NULL), TOW_ECANCELED);
	assert_int_equal(in_use(), leased);
}

/* The sender takes its message back: the view takes the next, of another length. */
static void test_message_withdrawn(void **state)
{
	struct tow_op_options soon = TOW_OP_OPTIONS_INIT;
	struct twi_loop_config slow = { .delay_min_ns = 1000000, .delay_max_ns = 1000000 };
	struct tow_op *view = view_op(b, NULL), *send;

	(void)state;
	twi_loop_configure(engine, &slow);
	soon.timeout_ns = 6000000;
	assert_int_equal(tow_send_start(a, from, LARGE, 1, &soon, &send), TOW_OK);
	assert_int_equal(twt_finish(send, NULL), TOW_EDEADLINE);
	send = send_op(77);
	check_view(view, 77);
	assert_int_equal(twt_finish(send, NULL), TOW_OK);
	send = send_op(LARGE / 2);
	assert_int_equal(tow_op_cancel(send), TOW_OK);
	assert_int_equal(twt_finish(send, NULL), TOW_ECANCELED);
	send = send_op(LARGE);
	check_view(view_op(b, NULL), LARGE);
	assert_int_equal(twt_finish(send, NULL), TOW_OK);
}

/* The pool is full: the receive waits, and so does the sender; then both go on. */
static void test_pool_exhausted(void **state)
{
	struct tow_op *view, *send;
	void *held[64];
	unsigned count = 0;

	(void)state;
	while (count < twi_array_count(held) &&
	       tow_alloc(runtime, LARGE / 4, 0, &held[count]) == TOW_OK)
		count++;
	assert_true(count > 0 && count < twi_array_count(held));
	send = send_op(LARGE);
	view = view_op(b, NULL);
	assert_int_equal(tow_op_wait(view, SECOND / 50), TOW_ETIMEDOUT);
	assert_int_equal(tow_op_test(send), TOW_AGAIN);
	while (count > 0)
		tow_free(runtime, held[--count]);
	check_view(view, LARGE);
	assert_int_equal(twt_finish(send, NULL), TOW_OK);
	send = send_op(LARGE);
	check_view(view_op(b, NULL), LARGE);
	assert_int_equal(twt_finish(send, NULL), TOW_OK);
}

/* What was received stays until it is given back, long after its peer. */
static void test_release_after_the_peer(void **state)
{
	struct tow_op *small = view_op(b, NULL), *large = view_op(b, NULL), *waiting;
	struct tow_op *sends[2] = { send_op(100), send_op(LARGE) };
	struct tow_result result;

	(void)state;
	assert_int_equal(twt_wait_for(small, &result), TOW_OK);
	assert_int_equal(twt_wait_for(large, &result), TOW_OK);
	waiting = view_op(b, NULL);
	for (int i = 0; i < 2; i++)
		assert_int_equal(twt_finish(sends[i], NULL), TOW_OK);
	assert_int_equal(tow_peer_close(a), TOW_OK);
	assert_int_equal(twt_finish(waiting, NULL), TOW_EPEER);
	assert_int_equal(tow_peer_close(b), TOW_OK);
	assert_int_equal(tow_accept_start(there, NULL, &waiting), TOW_OK); /* lets time pass */
	assert_int_equal(tow_op_wait(waiting, 2 * TWI_LOOP_LINGER_NS), TOW_ETIMEDOUT);
	assert_int_equal(tow_op_release(waiting), TOW_OK);
	assert_true(twi_list_empty(&engine->peers));
	check_view(small, 100);
	check_view(large, LARGE);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_views),
		CASE(test_views_taken_back),
		CASE(test_message_withdrawn),
		CASE(test_pool_exhausted),
		CASE(test_release_after_the_peer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
