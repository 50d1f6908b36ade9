/*
 * test_auto.c - tow:// under a virtual clock: which lane a connect takes, and what it does when a
 * lane refuses, hangs or is not there. The lanes that fail are made up; loop stands for the
 * network.
 */
#include "twt.h"

#include "pair.h"

#include <string.h>

#include <towline/towline.h>

#include "diag/base/error.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/lanes/auto/auto.h"
#include "transport/lanes/loop/loop.h"
#include "transport/op/lane_host.h"
#include "transport/op/op.h"

#define SECOND 1000000000ull

/* How the made-up lane takes a connect. */
static enum { REFUSES, FAILS_LATER, HANGS, CANNOT_OPEN } manner;
static unsigned connects, open_endpoints;
static struct tow_op *pending;

static int made_up_open(struct twi_lane *lane, const char *address, struct tow_endpoint **out)
{
	struct tow_endpoint *endpoint;

	(void)address;
	if (manner == CANNOT_OPEN)
		return twi_error(TOW_ENOTSUP, "no such thing here");
	endpoint = calloc(1, sizeof(*endpoint));
	assert_non_null(endpoint);
	twi_endpoint_setup(endpoint, lane);
	snprintf(endpoint->address, sizeof(endpoint->address), "shm://name-%u", ++open_endpoints);
	*out = endpoint;
	return TOW_OK;
}

static void made_up_close(struct tow_endpoint *endpoint)
{
	open_endpoints--;
	free(endpoint);
}

static int made_up_connect(struct tow_endpoint *endpoint, const char *address, struct tow_op *op)
{
	(void)endpoint;
	connects++;
	assert_memory_equal(address, "name-", 5);
	if (manner == REFUSES)
		return twi_error(TOW_ESYSTEM, "the file is gone");
	op->lane_state = op;
	pending = op;
	if (manner == FAILS_LATER) {
		op->lane_state = NULL;
		twi_op_complete(op, TOW_EREFUSED, 0);
	}
	return TOW_OK;
}

static void made_up_abort(struct tow_op *op, int status)
{
	op->lane_state = NULL;
	pending = NULL;
	twi_op_complete(op, status, 0);
}

static void nothing(struct twi_lane *lane)
{
	(void)lane;
}

static void flush(struct twi_lane *lane, bool acks_too)
{
	(void)lane, (void)acks_too;
}

static unsigned no_progress(struct twi_lane *lane)
{
	(void)lane;
	return 0;
}

static uint64_t never(struct twi_lane *lane)
{
	(void)lane;
	return UINT64_MAX;
}

static const struct twi_lane_ops made_up_ops = {
	.id = TWI_LANE_SHM,
	.scheme = "shm",
	.close = nothing,
	.endpoint_open = made_up_open,
	.endpoint_close = made_up_close,
	.connect = made_up_connect,
	.connect_abort = made_up_abort,
	.flush = flush,
	.progress = no_progress,
	.deadline_ns = never,
	.driver_changed = nothing,
};

static struct twi_lane made_up;
static struct tow_runtime *runtime;
static struct tow_endpoint *here, *there;
static char address[TOW_ADDRESS_MAX];

static int open_it(void **state)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct twi_engine *engine;

	(void)state;
	options.premap_memory_bytes = 4 << 20;
	connects = open_endpoints = 0;
	pending = NULL;
	assert_int_equal(twi_runtime_open_sim(&options, &runtime), TOW_OK);
	engine = twi_runtime_engine(runtime);
	made_up = (struct twi_lane){ .ops = &made_up_ops, .engine = engine };
	engine->lanes[TWI_LANE_SHM] = &made_up;
	twi_lanes_pack(engine);
	return 0;
}

static int close_it(void **state)
{
	(void)state;
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
	assert_int_equal(open_endpoints, 0);
	return 0;
}

static void open_both(int how)
{
	manner = how;
	assert_int_equal(tow_endpoint_open(runtime, "tow://", &here), TOW_OK);
	assert_int_equal(tow_endpoint_open(runtime, "tow://", &there), TOW_OK);
	assert_int_equal(tow_endpoint_address(there, address, sizeof(address)), TOW_OK);
}

/* Connects, accepts, sends a message, and says why the lane was chosen. */
static const char *meet(void)
{
	static char why[sizeof(((struct tow_peer *)NULL)->why)];
	struct tow_op *accept, *dial, *send, *recv;
	struct tow_peer *mine, *other;
	int in = 0, out = 77;

	assert_int_equal(tow_accept_start(there, NULL, &accept), TOW_OK);
	assert_int_equal(tow_connect_start(here, address, NULL, &dial), TOW_OK);
	mine = twt_finish_peer(dial);
	other = twt_finish_peer(accept);
	assert_int_equal(tow_recv_start(other, &in, sizeof(in), 1, NULL, &recv), TOW_OK);
	assert_int_equal(tow_send_start(mine, &out, sizeof(out), 1, NULL, &send), TOW_OK);
	assert_int_equal(tow_op_wait(recv, SECOND), TOW_OK);
	assert_int_equal(in, 77);
	assert_int_equal(tow_op_release(send), TOW_OK);
	assert_int_equal(tow_op_release(recv), TOW_OK);
	assert_string_equal(mine->lane->ops->scheme, "loop");
	assert_string_equal(other->why, "loop chosen by the other side");
	snprintf(why, sizeof(why), "%s", mine->why);
	return why;
}

static void told(const char *why, const char *part)
{
	if (strstr(why, part) == NULL) {
		fprintf(stderr, "'%s' does not say '%s'\n", why, part);
		fail();
	}
}

static void test_refused_at_once(void **state)
{
	const char *why;

	(void)state;
	open_both(REFUSES);
	why = meet();
	assert_int_equal(connects, 1);
	told(why, "the same host");
	told(why, "shm: the file is gone");
	told(why, "ofi: not available here");
}

static void test_refused_later(void **state)
{
	(void)state;
	open_both(FAILS_LATER);
	told(meet(), "shm: TOW_EREFUSED");
	assert_int_equal(connects, 1);
}

/* It gets its share of the time, not all of it. */
static void test_hangs(void **state)
{
	uint64_t before = twi_runtime_engine(runtime)->virtual_ns;

	(void)state;
	open_both(HANGS);
	told(meet(), "shm: TOW_EDEADLINE");
	assert_true(twi_runtime_engine(runtime)->virtual_ns - before < 10 * SECOND);
	assert_null(pending);
}

static void test_not_here(void **state)
{
	(void)state;
	open_both(CANNOT_OPEN);
	told(meet(), "shm: not available here");
	assert_int_equal(connects, 0);
}

static void test_another_host(void **state)
{
	struct twi_auto_address to;

	(void)state;
	open_both(HANGS);
	assert_int_equal(twi_auto_address_get(address + 6, &to), TOW_OK);
	to.host++;
	assert_int_equal(twi_auto_address_put(&to, address), TOW_OK);
	told(meet(), "shm: another host");
	assert_int_equal(connects, 0);
}

static void ends_with(struct tow_op *dial, int status)
{
	assert_int_equal(twt_finish(dial, NULL), status);
	assert_null(pending);
}

static void test_nobody_there(void **state)
{
	struct tow_op *dial;

	(void)state;
	open_both(REFUSES);
	assert_int_equal(tow_endpoint_close(there), TOW_OK);
	assert_int_equal(tow_connect_start(here, address, NULL, &dial), TOW_OK);
	ends_with(dial, TOW_EREFUSED);
	assert_int_equal(tow_connect_start(here, "tow://nonsense", NULL, &dial), TOW_EINVAL);
	assert_int_equal(tow_connect_start(here, "loop://tow-1", NULL, &dial), TOW_EINVAL);
}

static void test_ended_early(void **state)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_op *dial;

	(void)state;
	open_both(HANGS);
	assert_int_equal(tow_connect_start(here, address, NULL, &dial), TOW_OK);
	assert_non_null(pending);
	assert_int_equal(tow_op_cancel(dial), TOW_OK);
	ends_with(dial, TOW_ECANCELED);
	/* Its own deadline covers all ways: half of it goes to the one that hangs. */
	options.timeout_ns = 1000000;
	assert_int_equal(tow_connect_start(here, address, &options, &dial), TOW_OK);
	assert_int_equal(tow_op_wait(dial, 60 * SECOND), TOW_OK);
	assert_int_equal(tow_op_release(dial), TOW_OK);
	/* The endpoint goes: the way being tried is the last. */
	assert_int_equal(tow_connect_start(here, address, &options, &dial), TOW_OK);
	assert_int_equal(tow_endpoint_close(here), TOW_OK);
	ends_with(dial, TOW_ECLOSED);
}

static int ended_with;

static void note(struct tow_op *op, const struct tow_result *result)
{
	(void)op;
	ended_with = result->status;
}

/* The runtime is closed while an inner connect is on its way. */
static void test_close(void **state)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_op *dial;

	(void)state;
	open_both(HANGS);
	options.done = note;
	ended_with = 0;
	assert_int_equal(tow_connect_start(here, address, &options, &dial), TOW_OK);
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
	assert_int_equal(ended_with, TOW_ECLOSED);
	assert_int_equal(open_endpoints, 0);
	assert_int_equal(open_it(NULL), 0);
}

/* No rows for the inner operations: the outer one says so and the table is whole again. */
static void test_no_rows(void **state)
{
	struct tow_op **ops = calloc(65537, sizeof(struct tow_op *)), *dial;
	unsigned count = 0;

	(void)state;
	open_both(HANGS);
	while (tow_accept_start(here, NULL, &ops[count]) == TOW_OK)
		count++;
	assert_int_equal(tow_op_cancel(ops[--count]), TOW_OK);
	assert_int_equal(tow_op_release(ops[count]), TOW_OK);
	assert_int_equal(tow_connect_start(here, address, NULL, &dial), TOW_OK);
	ends_with(dial, TOW_EREFUSED);
	while (count > 0) {
		assert_int_equal(tow_op_cancel(ops[--count]), TOW_OK);
		assert_int_equal(tow_op_release(ops[count]), TOW_OK);
	}
	free(ops);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_refused_at_once, open_it, close_it),
		cmocka_unit_test_setup_teardown(test_refused_later, open_it, close_it),
		cmocka_unit_test_setup_teardown(test_hangs, open_it, close_it),
		cmocka_unit_test_setup_teardown(test_not_here, open_it, close_it),
		cmocka_unit_test_setup_teardown(test_another_host, open_it, close_it),
		cmocka_unit_test_setup_teardown(test_nobody_there, open_it, close_it),
		cmocka_unit_test_setup_teardown(test_ended_early, open_it, close_it),
		cmocka_unit_test_setup_teardown(test_close, open_it, close_it),
		cmocka_unit_test_setup_teardown(test_no_rows, open_it, close_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
