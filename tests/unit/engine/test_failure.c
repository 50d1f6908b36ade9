/*
 * Why an operation has failed is told to whoever asks for its status, whichever thread drove.
 */
#include "twt.h"

#include "pair.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <towline/towline.h>

#include "diag/base/error.h"

#define SECOND 1000000000ull
#define MS     1000000ull

static struct tow_runtime *runtime;
static struct tow_peer *a, *b;

static int setup(void **state)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_endpoint *here, *there;
	struct tow_op *connect, *accept;
	int status;

	(void)state;
	options.premap_memory_bytes = 1 << 20;
	options.stats = 0;
	options.max_ops = 256;
	status = tow_runtime_open(&options, &runtime);
	if (status == TOW_ENOTSUP || status == TOW_EPERM) {
		printf("no io_uring here: %s\n", tow_error_message());
		exit(77);
	}
	assert_int_equal(status, TOW_OK);
	assert_int_equal(tow_endpoint_open(runtime, "loop://failing", &here), TOW_OK);
	assert_int_equal(tow_endpoint_open(runtime, "loop://failed", &there), TOW_OK);
	assert_int_equal(tow_accept_start(there, NULL, &accept), TOW_OK);
	assert_int_equal(tow_connect_start(here, "loop://failed", NULL, &connect), TOW_OK);
	a = twt_finish_peer(connect);
	b = twt_finish_peer(accept);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	return tow_runtime_close(runtime);
}

/* A receive that ends by its deadline. */
static struct tow_op *hopeless(uint64_t bytes, tow_op_callback done, void *user)
{
	static uint8_t room[4096];
	const struct tow_op_options options = {
		.size = sizeof(options), .timeout_ns = MS, .done = done, .user = user
	};
	struct tow_op *op;

	assert_int_equal(tow_recv_start(a, room, bytes, 7, &options, &op), TOW_OK);
	return op;
}

/* The library's own thread, or nobody at all, must end it: this one sleeps. */
static void wait_elsewhere(struct tow_op *op)
{
	struct tow_result result = { .size = sizeof(result) };

	for (int i = 0; i < 20000; i++) {
		if (tow_op_result(op, &result) == TOW_OK)
			return;
		usleep(1000);
	}
	fail_msg("the operation has not ended within 20 s");
}

static void test_of_another_thread(void **state)
{
	struct tow_op *op = hopeless(321, NULL, NULL);

	(void)state;
	wait_elsewhere(op);
	twi_error(TOW_EINVAL, "something else");
	assert_int_equal(tow_op_test(op), TOW_EDEADLINE);
	assert_non_null(strstr(tow_error_message(), "receive of 321 bytes, peer "));
	twi_error(TOW_EINVAL, "something else");
	assert_int_equal(tow_op_wait(op, SECOND), TOW_EDEADLINE);
	assert_non_null(strstr(tow_error_message(), "receive of 321 bytes, peer "));
	assert_int_equal(tow_op_release(op), TOW_OK);
}

static void test_old_message_is_not_taken(void **state)
{
	struct tow_op *op = hopeless(5, NULL, NULL);

	(void)state;
	twi_error(TOW_EDEADLINE, "a deadline of long ago");
	assert_int_equal(tow_op_wait(op, 20 * SECOND), TOW_EDEADLINE);
	assert_non_null(strstr(tow_error_message(), "receive of 5 bytes"));
	assert_int_equal(tow_op_release(op), TOW_OK);
}

static _Atomic int told;

static void on_done(struct tow_op *op, const struct tow_result *result)
{
	(void)op;
	told = result->status == TOW_EDEADLINE &&
			       strstr(tow_error_message(), "receive of 77 bytes") != NULL
		       ? 1
		       : -1;
}

static void test_of_a_callback(void **state)
{
	struct tow_op *op = hopeless(77, on_done, NULL);

	(void)state;
	wait_elsewhere(op);
	assert_int_equal(told, 1);
	assert_int_equal(tow_op_release(op), TOW_OK);
}

/* Two threads ask about one failure each, over and over: each gets its own. */
static void *ask(void *arg)
{
	struct tow_op *op = arg;
	struct tow_result result = { .size = sizeof(result) };
	char expected[64];

	tow_op_result(op, &result);
	snprintf(expected, sizeof(expected), "receive of %d bytes", (int)(uintptr_t)result.user);
	for (int i = 0; i < 2000; i++) {
		if (tow_op_test(op) != TOW_EDEADLINE ||
		    strstr(tow_error_message(), expected) == NULL)
			return op;
	}
	return NULL;
}

static void test_two_threads(void **state)
{
	struct tow_op *ops[2];
	pthread_t threads[2];
	void *wrong;

	(void)state;
	for (uintptr_t i = 0; i < 2; i++) {
		ops[i] = hopeless(1000 + i, NULL, (void *)(1000 + i));
		wait_elsewhere(ops[i]);
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask, ops[i]), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pthread_join(threads[i], &wrong), 0);
		assert_null(wrong);
		assert_int_equal(tow_op_release(ops[i]), TOW_OK);
	}
}

/* Each has its own message until it is released, however many fail; and its result has it too. */
static void test_many(void **state)
{
	struct tow_op *ops[200];
	const unsigned count = sizeof(ops) / sizeof(ops[0]);

	(void)state;
	for (unsigned i = 0; i < count; i++)
		ops[i] = hopeless(100 + i, NULL, NULL);
	for (unsigned i = 0; i < count; i++)
		wait_elsewhere(ops[i]);
	for (unsigned i = 0; i < count; i++) {
		struct tow_result result = { .size = sizeof(result) };
		char expected[64];

		snprintf(expected, sizeof(expected), "receive of %u bytes", 100 + i);
		assert_int_equal(tow_op_result(ops[i], &result), TOW_OK);
		assert_int_equal(result.status, TOW_EDEADLINE);
		assert_non_null(result.message);
		assert_non_null(strstr(result.message, expected));
		assert_int_equal(tow_op_test(ops[i]), TOW_EDEADLINE);
		assert_string_equal(tow_error_message(), result.message);
		assert_int_equal(tow_op_release(ops[i]), TOW_OK);
	}
}

/* A row that failed once has no message when it is used again and all goes well. */
static void test_good_ones_have_none(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 300; i++) {
		struct tow_result result = { .size = sizeof(result), .message = "old" };
		struct tow_op *send, *recv;
		uint8_t in[8], out[8] = { 0 };

		assert_int_equal(tow_recv_start(b, in, sizeof(in), 8, NULL, &recv), TOW_OK);
		assert_int_equal(tow_send_start(a, out, sizeof(out), 8, NULL, &send), TOW_OK);
		assert_int_equal(tow_op_wait(recv, 20 * SECOND), TOW_OK);
		assert_int_equal(tow_op_result(recv, &result), TOW_OK);
		assert_null(result.message);
		assert_int_equal(tow_op_wait(send, 20 * SECOND), TOW_OK);
		assert_int_equal(tow_op_release(recv), TOW_OK);
		assert_int_equal(tow_op_release(send), TOW_OK);
	}
}

/* Programs that were built with an older header, or with a newer one. */
static void test_other_sizes(void **state)
{
	const size_t first = offsetof(struct tow_result, message);
	struct {
		struct tow_result result;
		uint64_t newer[2];
	} wide;
	struct tow_op *op = hopeless(55, NULL, &wide);

	(void)state;
	wait_elsewhere(op);
	memset(&wide, 0x5a, sizeof(wide));
	wide.result.size = first;
	assert_int_equal(tow_op_result(op, &wide.result), TOW_OK);
	assert_int_equal(wide.result.size, first);
	assert_int_equal(wide.result.status, TOW_EDEADLINE);
	assert_ptr_equal(wide.result.user, &wide);
	assert_int_equal((uintptr_t)wide.result.message, 0x5a5a5a5a5a5a5a5a);
	wide.result.size = sizeof(wide);
	assert_int_equal(tow_op_result(op, &wide.result), TOW_OK);
	assert_int_equal(wide.result.size, sizeof(wide));
	assert_non_null(strstr(wide.result.message, "receive of 55 bytes"));
	assert_int_equal(wide.newer[0] | wide.newer[1], 0);
	wide.result.size = first - 1;
	assert_int_equal(tow_op_result(op, &wide.result), TOW_EINVAL);
	assert_int_equal(tow_op_release(op), TOW_OK);
}

static _Atomic int heard;

static void on_forgotten(struct tow_op *op, const struct tow_result *result)
{
	(void)op;
	heard = strstr(result->message, "receive of 66 bytes") != NULL ? 1 : -1;
}

/* Of an operation without a handle, the callback has it. */
static void test_without_a_handle(void **state)
{
	static uint8_t room[66];
	const struct tow_op_options options = { .size = sizeof(options),
						.timeout_ns = MS,
						.done = on_forgotten };

	(void)state;
	heard = 0;
	assert_int_equal(tow_recv_start(a, room, sizeof(room), 9, &options, NULL), TOW_OK);
	for (int i = 0; i < 20000 && heard == 0; i++) {
		tow_progress(runtime);
		usleep(1000);
	}
	assert_int_equal(heard, 1);
}

/* Whoever drives while another's operation fails, and succeeds himself, keeps his message. */
static void test_success_keeps_the_message(void **state)
{
	struct tow_op *failing = hopeless(44, NULL, NULL), *op;
	uint8_t in[8], out[8] = { 0 };

	(void)state;
	twi_error(TOW_EINVAL, "what I did wrong");
	for (int i = 0; i < 20000; i++) {
		struct tow_result result = { .size = sizeof(result) };

		assert_true(tow_progress(runtime) >= TOW_OK);
		if (tow_op_result(failing, &result) == TOW_OK)
			break;
	}
	assert_string_equal(tow_error_message(), "what I did wrong");
	assert_int_equal(tow_recv_start(b, in, sizeof(in), 8, NULL, &op), TOW_OK);
	assert_int_equal(tow_send_start(a, out, sizeof(out), 8, NULL, NULL), TOW_OK);
	assert_int_equal(tow_op_wait(op, 20 * SECOND), TOW_OK);
	assert_int_equal(tow_op_release(op), TOW_OK);
	assert_string_equal(tow_error_message(), "what I did wrong");
	assert_int_equal(tow_op_release(failing), TOW_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_of_another_thread),
		cmocka_unit_test(test_old_message_is_not_taken),
		cmocka_unit_test(test_of_a_callback),
		cmocka_unit_test(test_two_threads),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_good_ones_have_none),
		cmocka_unit_test(test_other_sizes),
		cmocka_unit_test(test_without_a_handle),
		cmocka_unit_test(test_success_keeps_the_message),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
