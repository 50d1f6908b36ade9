/*
 * test_op_ops.c - what the table of an operation is asked, when and how often (op.h): an operation
 * of a room of this test's own is canceled, expires, is waited for, ends and is released.
 */
#include "twt.h"

#include <stdio.h>
#include <string.h>

#include <towline/towline.h>

#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/op/op.h"

static struct tow_runtime *runtime;
static struct twi_engine *engine;
static struct {
	int aborts, ended, released, waited;
	int status;      /* of the last abort */
	uint64_t now_ns; /* of the last wait */
	bool stays;      /* what is aborted does not end at once */
} asked;

static void on_abort(struct tow_op *op, int status)
{
	assert_true(twi_engine_held(engine));
	asked.aborts++;
	asked.status = status;
	if (!asked.stays)
		twi_op_complete(op, status, 0);
}

static void on_ended(struct tow_op *op)
{
	assert_true(twi_engine_held(engine));
	assert_int_equal(op->status, TOW_OK);
	asked.ended++;
}

static void on_release(struct tow_op *op)
{
	(void)op;
	assert_true(twi_engine_held(engine));
	asked.released++;
}

static void on_waited(struct tow_op *op, uint64_t now_ns)
{
	(void)op;
	assert_false(twi_engine_held(engine));
	asked.waited++;
	asked.now_ns = now_ns;
}

static const struct twi_op_ops full = { .kind = TWI_OP_CALL,
					.noun = "thing of this test",
					.abort = on_abort,
					.ended = on_ended,
					.release = on_release,
					.waited = on_waited };
static const struct twi_op_ops bare = { .kind = TWI_OP_CALL, .noun = "bare thing" };

static int set_up(void **state)
{
	struct tow_options options = TOW_OPTIONS_INIT;

	(void)state;
	options.premap_memory_bytes = 4 << 20;
	options.stats = 0;
	options.max_ops = 16;
	memset(&asked, 0, sizeof(asked));
	if (twi_runtime_open_sim(&options, &runtime) < 0)
		return -1;
	engine = twi_runtime_engine(runtime);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	return tow_runtime_close(runtime);
}

/* Started, with a deadline of timeout_ns. */
static struct tow_op *start(const struct twi_op_ops *ops, uint64_t timeout_ns)
{
	const struct tow_op_options options = { .size = sizeof(options), .timeout_ns = timeout_ns };
	struct tow_op *op;

	twi_engine_enter(engine);
	op = twi_op_acquire(engine, ops, &options);
	assert_non_null(op);
	assert_ptr_equal(op->ops, ops);
	assert_int_equal(op->kind, ops->kind);
	twi_op_watch(op);
	twi_engine_leave(engine);
	return op;
}

static void complete(struct tow_op *op, int status)
{
	twi_engine_enter(engine);
	twi_op_complete(op, status, 0);
	twi_engine_leave(engine);
}

static void cancel_asks_once(void **state)
{
	struct tow_op *op = start(&full, TOW_FOREVER);

	(void)state;
	assert_int_equal(tow_op_cancel(op), TOW_OK);
	assert_int_equal(asked.aborts, 1);
	assert_int_equal(asked.status, TOW_ECANCELED);
	assert_int_equal(tow_op_cancel(op), TOW_OK); /* it has ended */
	assert_int_equal(asked.aborts, 1);
	assert_int_equal(asked.ended, 0);
	assert_int_equal(tow_op_wait(op, TOW_FOREVER), TOW_ECANCELED);
	assert_int_equal(tow_op_release(op), TOW_OK);
	assert_int_equal(asked.released, 1);
}

/* One that does not end at once is asked again by a cancel, but not by its deadline. */
static void a_deadline_asks_once(void **state)
{
	struct tow_op *op = start(&full, 1000);

	(void)state;
	asked.stays = true;
	assert_int_equal(tow_op_wait(op, 1000000), TOW_ETIMEDOUT);
	assert_non_null(strstr(tow_error_message(), "the thing of this test is not done"));
	assert_int_equal(asked.aborts, 1);
	assert_int_equal(asked.status, TOW_EDEADLINE);
	assert_int_equal(tow_op_cancel(op), TOW_OK);
	assert_int_equal(asked.aborts, 2);
	complete(op, TOW_EDEADLINE);
	assert_int_equal(tow_op_wait(op, TOW_FOREVER), TOW_EDEADLINE);
	assert_int_equal(tow_op_release(op), TOW_OK);
	assert_int_equal(asked.released, 1);
}

static void a_good_end_is_told(void **state)
{
	struct tow_op *op = start(&full, TOW_FOREVER);
	size_t index;

	(void)state;
	assert_int_equal(tow_op_test(op), TOW_AGAIN);
	assert_int_equal(asked.waited, 1);
	assert_int_equal(asked.now_ns, 0);
	complete(op, TOW_OK);
	assert_int_equal(asked.ended, 1);
	assert_int_equal(tow_op_wait(op, TOW_FOREVER), TOW_OK);
	assert_int_equal(tow_wait_any(&op, 1, TOW_FOREVER, &index), TOW_OK);
	assert_int_equal(asked.waited, 3);
	assert_int_equal(tow_op_release(op), TOW_OK);
	assert_int_equal(asked.ended, 1);
	assert_int_equal(asked.released, 1);
	assert_int_equal(asked.aborts, 0);
}

/* Released while it is in flight: its row goes back, and what it holds, when it ends. */
static void a_late_end_releases(void **state)
{
	struct tow_op *op = start(&full, TOW_FOREVER);

	(void)state;
	assert_int_equal(tow_op_release(op), TOW_OK);
	assert_int_equal(asked.released, 0);
	complete(op, TOW_OK);
	assert_int_equal(asked.released, 1);
}

/* A table may be almost empty: then nobody can end the operation early, and nobody is told. */
static void nothing_is_asked_of_nothing(void **state)
{
	struct tow_op *op = start(&bare, TOW_FOREVER);

	(void)state;
	assert_int_equal(tow_op_cancel(op), TOW_OK);
	assert_int_equal(tow_op_test(op), TOW_AGAIN);
	assert_int_equal(tow_op_wait(op, 1000), TOW_ETIMEDOUT);
	assert_int_equal(tow_view_release(op), TOW_EINVAL);
	complete(op, TOW_OK);
	assert_int_equal(tow_op_wait(op, TOW_FOREVER), TOW_OK);
	assert_int_equal(tow_op_release(op), TOW_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(cancel_asks_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_deadline_asks_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_good_end_is_told, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_late_end_releases, set_up, tear_down),
		cmocka_unit_test_setup_teardown(nothing_is_asked_of_nothing, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
