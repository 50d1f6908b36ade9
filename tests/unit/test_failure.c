/*
 * Why an operation has failed is told to whoever asks for its status, whichever thread drove.
 */
#include "twt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <towline/towline.h>

#include "diag/error.h"
#include "transport/failure.h"

#define SECOND 1000000000ull
#define MS     1000000ull

static struct tow_runtime *runtime;
static struct tow_peer *a, *b;

static struct tow_peer *peer_of(struct tow_op *op)
{
	struct tow_result result = { .size = sizeof(result) };

	assert_int_equal(tow_op_wait(op, 20 * SECOND), TOW_OK);
	assert_int_equal(tow_op_result(op, &result), TOW_OK);
	assert_int_equal(tow_op_release(op), TOW_OK);
	return result.peer;
}

static int setup(void **state)
{
	struct tow_options options = TOW_OPTIONS_DEFAULT;
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
	a = peer_of(connect);
	b = peer_of(accept);
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

/* The oldest messages go; who asks for one of them hears that, and the status stays. */
static void test_many(void **state)
{
	struct tow_op *ops[TWI_FAILURES + 8];
	const unsigned count = sizeof(ops) / sizeof(ops[0]);

	(void)state;
	for (unsigned i = 0; i < count; i++) {
		ops[i] = hopeless(100 + i, NULL, NULL);
		wait_elsewhere(ops[i]);
	}
	for (unsigned i = 0; i < count; i++) {
		char expected[64];

		snprintf(expected, sizeof(expected), "receive of %u bytes", 100 + i);
		assert_int_equal(tow_op_test(ops[i]), TOW_EDEADLINE);
		assert_int_equal(strstr(tow_error_message(), expected) != NULL, i >= 8);
		if (i < 8)
			assert_non_null(strstr(tow_error_message(), "not known any more"));
		assert_int_equal(tow_op_release(ops[i]), TOW_OK);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_of_another_thread),
		cmocka_unit_test(test_old_message_is_not_taken),
		cmocka_unit_test(test_of_a_callback),
		cmocka_unit_test(test_two_threads),
		cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
