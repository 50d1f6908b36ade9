/*
 * test_rpc_faults.c - the Nth allocation of the first call between two peers fails: the call ends
 * with a status that says so, nothing is left behind, and the next one goes well.
 */
#include "twt.h"

#include "fault.h"
#include "pair.h"

#include <string.h>

#include <towline/towline.h>

#include "transport/engine/runtime.h"

#define MS 1000000ull

#ifndef TWT_SANITIZED
static _Atomic int mutexes; /* made, and not destroyed; fewer than none: one that was not made */

int pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr)
{
	union {
		void *found;
		int (*call)(pthread_mutex_t *, const pthread_mutexattr_t *);
	} real = { .found = dlsym(RTLD_NEXT, "pthread_mutex_init") };

	mutexes++;
	return real.call(mutex, attr);
}

int pthread_mutex_destroy(pthread_mutex_t *mutex)
{
	union {
		void *found;
		int (*call)(pthread_mutex_t *);
	} real = { .found = dlsym(RTLD_NEXT, "pthread_mutex_destroy") };

	mutexes--;
	return real.call(mutex);
}
#else
static const int mutexes;
#endif

static void echo(struct tow_call_in *call, void *user)
{
	uint64_t bytes;
	const void *request = tow_call_request(call, &bytes);

	(void)user;
	assert_int_equal(tow_reply_start(call, 0, request, bytes, NULL, NULL), TOW_OK);
}

static struct tow_peer *set_up(struct tow_runtime **runtime_out)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_endpoint *left, *right;
	struct tow_op *connect, *accept;
	struct tow_peer *peer;

	options.premap_memory_bytes = 1 << 20;
	options.huge_pages = 0;
	options.max_ops = 256;
	assert_int_equal(twi_runtime_open_sim(&options, runtime_out), TOW_OK);
	assert_int_equal(tow_endpoint_open(*runtime_out, "loop://left", &left), TOW_OK);
	assert_int_equal(tow_endpoint_open(*runtime_out, "loop://right", &right), TOW_OK);
	assert_int_equal(tow_accept_start(right, NULL, &accept), TOW_OK);
	assert_int_equal(tow_connect_start(left, "loop://right", NULL, &connect), TOW_OK);
	peer = twt_finish_peer(connect);
	(void)twt_finish_peer(accept);
	return peer;
}

/* Every allocation from the registration to the answer, one by one. */
static void test_first_call(void **state)
{
	bool hit = true;
	int refused = 0;

	(void)state;
	for (int nth = 1; hit && nth < 100; nth++) {
		const int before = mutexes;
		struct tow_runtime *runtime;
		struct tow_peer *peer = set_up(&runtime);
		char in[8] = "", out[8] = "abcdefg";
		int registered, called;

		twt_fault_arm(TWT_CALLOC, nth);
		registered = tow_method_register(runtime, "echo", echo, NULL, NULL);
		called = tow_call(peer, "echo", out, 8, in, 8, 50 * MS, NULL);
		hit = twt_fault_off();
		assert_true(registered == TOW_OK || (hit && registered == TOW_ENOMEM));
		if (called != TOW_OK) {
			assert_true(hit);
			assert_true(called == TOW_ENOMEM || called == TOW_EREFUSED ||
				    (called == TOW_ENOTSUP && registered == TOW_ENOMEM));
			refused += called == TOW_EREFUSED;
		}
		if (registered == TOW_ENOMEM)
			assert_int_equal(tow_method_register(runtime, "echo", echo, NULL, NULL),
					 TOW_OK);
		assert_int_equal(tow_call(peer, "echo", out, 8, in, 8, 50 * MS, NULL), TOW_OK);
		assert_string_equal(in, out);
		assert_int_equal(tow_runtime_close(runtime), TOW_OK);
		assert_int_equal(mutexes, before);
	}
	assert_false(hit);
#ifdef TWT_SANITIZED
	(void)refused;
#else
	assert_true(refused > 0); /* the other side's, too, was reached */
#endif
}

/* Without the link there are no calls and no clock; messages go as ever. */
static void test_no_link(void **state)
{
	struct tow_runtime *runtime;
	struct tow_peer *peer = NULL;
	int without = 0;

	(void)state;
	for (int nth = 1; nth < 12; nth++) {
		struct tow_options options = TOW_OPTIONS_INIT;
		struct tow_endpoint *left, *right;
		struct tow_op *connect, *accept, *send;
		int status;

		options.premap_memory_bytes = 1 << 20;
		options.huge_pages = 0;
		assert_int_equal(twi_runtime_open_sim(&options, &runtime), TOW_OK);
		assert_int_equal(tow_endpoint_open(runtime, "loop://left", &left), TOW_OK);
		assert_int_equal(tow_endpoint_open(runtime, "loop://right", &right), TOW_OK);
		assert_int_equal(tow_accept_start(right, NULL, &accept), TOW_OK);
		twt_fault_arm(TWT_CALLOC, nth);
		status = tow_connect_start(left, "loop://right", NULL, &connect);
		if (status == TOW_OK && tow_op_wait(connect, 100 * MS) == TOW_OK) {
			twt_fault_off();
			peer = twt_finish_peer(connect);
			assert_int_equal(tow_send_start(peer, "abc", 4, 1, NULL, &send), TOW_OK);
			assert_int_equal(tow_op_wait(send, MS), TOW_OK);
			tow_op_release(send);
			without += tow_call_start(peer, "echo", NULL, 0, NULL, 0, NULL, &send) ==
				   TOW_ENOTSUP;
		}
		twt_fault_off();
		assert_int_equal(tow_runtime_close(runtime), TOW_OK);
	}
#ifndef TWT_SANITIZED
	assert_true(without > 0);
#else
	assert_int_equal(without, 0);
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_call),
		cmocka_unit_test(test_no_link),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
