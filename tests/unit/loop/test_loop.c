/*
 * The loop lane as a user meets it: names, connecting, closing, on the real clock and on the
 * virtual one, with one thread and with two.
 */
#include "twt.h"

#include <pthread.h>
#include <string.h>

#include <towline/towline.h>

#include "pair.h"

#include "transport/engine/runtime.h"
#include "transport/sim/loop_sim.h"

#define SECOND 1000000000ull
#define LARGE  3000000u

static struct tow_runtime *runtime;
static struct tow_endpoint *here, *there;
static struct tow_peer *a, *b;
static uint8_t from[LARGE], to[LARGE];

static void open_runtime(bool simulated)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	int status;

	options.premap_memory_bytes = 1 << 20;
	options.stats = 0;
	options.max_ops = 256;
	status = simulated ? twi_runtime_open_sim(&options, &runtime)
			   : tow_runtime_open(&options, &runtime);
	if (status == TOW_ENOTSUP || status == TOW_EPERM) {
		printf("no io_uring here: %s\n", tow_error_message());
		exit(77);
	}
	assert_int_equal(status, TOW_OK);
	assert_int_equal(tow_endpoint_open(runtime, "loop://here", &here), TOW_OK);
	assert_int_equal(tow_endpoint_open(runtime, "loop://there", &there), TOW_OK);
	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i * 13 + i / 300);
}

static void join(void)
{
	struct tow_op *connect, *accept;
	struct tow_result result;

	assert_int_equal(tow_connect_start(here, "loop://there", NULL, &connect), TOW_OK);
	assert_int_equal(tow_accept_start(there, NULL, &accept), TOW_OK);
	assert_int_equal(twt_finish(connect, &result), TOW_OK);
	a = result.peer;
	assert_int_equal(twt_finish(accept, &result), TOW_OK);
	b = result.peer;
}

static int set_up_real(void **state)
{
	(void)state;
	open_runtime(false);
	return 0;
}

static int set_up_simulated(void **state)
{
	(void)state;
	open_runtime(true);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	return tow_runtime_close(runtime);
}

static struct tow_op *send_op(struct tow_peer *peer, uint64_t bytes)
{
	struct tow_op *op;

	assert_int_equal(tow_send_start(peer, from, bytes, 1, NULL, &op), TOW_OK);
	return op;
}

static struct tow_op *recv_op(struct tow_peer *peer, uint64_t bytes)
{
	struct tow_op *op;

	assert_int_equal(tow_recv_start(peer, to, bytes, 1, NULL, &op), TOW_OK);
	return op;
}

static void exchange(uint64_t bytes)
{
	struct tow_op *recv = recv_op(b, sizeof(to)), *send;
	struct tow_result result;

	memset(to, 0, sizeof(to));
	send = send_op(a, bytes);
	assert_int_equal(twt_finish(recv, &result), TOW_OK);
	assert_int_equal(result.bytes, bytes);
	assert_memory_equal(to, from, bytes);
	assert_int_equal(twt_finish(send, NULL), TOW_OK);
}

static void test_messages(void **state)
{
	(void)state;
	join();
	exchange(0);
	exchange(100);
	exchange(LARGE);
}

static void test_messages_with_delay(void **state)
{
	struct twi_loop_config slow = { .delay_min_ns = 100000, .delay_max_ns = 300000 };

	(void)state;
	slow.pipe_bytes = 5000;
	slow.short_write = slow.short_read = 300;
	twi_loop_configure(twi_runtime_engine(runtime), &slow);
	join();
	exchange(100);
	exchange(100000);
}

static void test_names(void **state)
{
	char text[TOW_ADDRESS_MAX], name[300];
	struct tow_endpoint *other;
	struct tow_op *op;

	(void)state;
	assert_int_equal(tow_endpoint_address(here, text, sizeof(text)), TOW_OK);
	assert_string_equal(text, "loop://here");
	assert_int_equal(tow_endpoint_open(runtime, "loop://here", &other), TOW_EBUSY);
	assert_int_equal(tow_endpoint_open(runtime, "loop://", &other), TOW_EINVAL);
	assert_int_equal(tow_endpoint_open(runtime, "loop://a b", &other), TOW_EINVAL);
	memset(name, 'x', sizeof(name));
	memcpy(name, "loop://", 7);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(tow_endpoint_open(runtime, name, &other), TOW_EINVAL);
	assert_int_equal(tow_connect_start(here, "loop://", NULL, &op), TOW_EINVAL);
	assert_int_equal(tow_connect_start(here, "loop://nobody", NULL, &op), TOW_OK);
	assert_int_equal(twt_finish(op, NULL), TOW_EREFUSED);
	assert_int_equal(tow_endpoint_close(there), TOW_OK);
	assert_int_equal(tow_connect_start(here, "loop://there", NULL, &op), TOW_OK);
	assert_int_equal(twt_finish(op, NULL), TOW_EREFUSED);
	assert_int_equal(tow_endpoint_open(runtime, "loop://there", &there), TOW_OK);
	join();
}

/* Connecting that takes long can be given up, in each way, and leaves nothing behind. */
static void test_connect_given_up(void **state)
{
	struct twi_loop_config far = { .delay_min_ns = SECOND, .delay_max_ns = SECOND };
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_op *op, *accept;

	(void)state;
	twi_loop_configure(twi_runtime_engine(runtime), &far);
	options.timeout_ns = SECOND / 10;
	assert_int_equal(tow_connect_start(here, "loop://there", &options, &op), TOW_OK);
	assert_int_equal(twt_finish(op, NULL), TOW_EDEADLINE);
	assert_int_equal(tow_connect_start(here, "loop://there", NULL, &op), TOW_OK);
	assert_int_equal(tow_op_cancel(op), TOW_OK);
	assert_int_equal(twt_finish(op, NULL), TOW_ECANCELED);
	assert_int_equal(tow_accept_start(there, NULL, &accept), TOW_OK);
	assert_int_equal(tow_endpoint_close(there), TOW_OK);
	assert_int_equal(twt_finish(accept, NULL), TOW_ECLOSED);
	/* and one is on its way when the runtime closes, with its endpoint gone */
	assert_int_equal(tow_connect_start(here, "loop://nobody", NULL, &op), TOW_OK);
	assert_int_equal(tow_endpoint_close(here), TOW_OK);
}

static void test_too_many_wait(void **state)
{
	struct tow_op *op;

	(void)state;
	for (int i = 0; i < TWI_READY_PEERS_MAX; i++) {
		assert_int_equal(tow_connect_start(here, "loop://there", NULL, &op), TOW_OK);
		assert_int_equal(twt_finish(op, NULL), TOW_OK);
	}
	assert_int_equal(tow_connect_start(here, "loop://there", NULL, &op), TOW_OK);
	assert_int_equal(twt_finish(op, NULL), TOW_EREFUSED);
	assert_int_equal(tow_accept_start(there, NULL, &op), TOW_OK);
	assert_int_equal(twt_finish(op, NULL), TOW_OK);
	assert_int_equal(tow_connect_start(here, "loop://there", NULL, &op), TOW_OK);
	assert_int_equal(twt_finish(op, NULL), TOW_OK);
}

/* Small messages whose sends are complete arrive, then the end. */
static void test_close_delivers(void **state)
{
	struct twi_loop_config slow = { .delay_min_ns = 1000000, .delay_max_ns = 2000000 };
	struct tow_op *small, *large, *receive;

	(void)state;
	twi_loop_configure(twi_runtime_engine(runtime), &slow);
	join();
	small = send_op(a, 100);
	large = send_op(a, LARGE);
	assert_int_equal(twt_finish(small, NULL), TOW_OK);
	assert_int_equal(tow_peer_close(a), TOW_OK);
	assert_int_equal(twt_finish(large, NULL), TOW_ECLOSED);
	assert_int_equal(twt_finish(recv_op(b, 100), NULL), TOW_OK);
	receive = recv_op(b, sizeof(to)); /* it meets the offer of what will not come */
	assert_int_equal(twt_finish(receive, NULL), TOW_EPEER);
	assert_int_equal(twt_finish(send_op(b, 100), NULL), TOW_EPEER);
	assert_int_equal(tow_peer_close(b), TOW_OK);
}

/* The host has vanished: nothing ends by itself, deadlines and closing do. */
static void test_dark_link(void **state)
{
	struct twi_loop_config dark = { .dark = 1000, .fault_bytes = 1 };
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_op *op, *other;

	(void)state;
	options.timeout_ns = SECOND / 100;
	twi_loop_configure(twi_runtime_engine(runtime), &dark);
	join();
	assert_int_equal(twt_finish(send_op(a, 100), NULL), TOW_OK);
	assert_int_equal(tow_recv_start(b, to, 100, 1, &options, &op), TOW_OK);
	assert_int_equal(twt_finish(op, NULL), TOW_EDEADLINE);
	assert_int_equal(tow_send_start(b, from, LARGE, 1, &options, &op), TOW_OK);
	other = send_op(b, LARGE);
	assert_int_equal(twt_finish(op, NULL), TOW_EDEADLINE);
	assert_int_equal(tow_peer_close(b), TOW_OK);
	assert_int_equal(twt_finish(other, NULL), TOW_ECLOSED);
	assert_int_equal(twi_loop_faults(twi_runtime_engine(runtime)), 1);
}

/* A wait that ran out of time has failed, and says of what it was; a test has not. */
static void test_wait_in_vain(void **state)
{
	struct tow_op *op;

	(void)state;
	join();
	assert_int_equal(tow_recv_start(b, to, 100, 0x77, NULL, &op), TOW_OK);
	assert_int_equal(tow_op_test(op), TOW_AGAIN);
	for (uint64_t ns = 0; ns <= 3 * SECOND; ns = ns * 1000 + SECOND / 1000000) {
		assert_int_equal(tow_op_wait(op, ns), TOW_ETIMEDOUT);
		assert_non_null(strstr(tow_error_message(), "the receive of tag 0x77"));
		assert_non_null(strstr(tow_error_message(), "goes on"));
	}
	assert_int_equal(twt_finish(send_op(a, 100), NULL), TOW_OK);
	assert_int_equal(tow_op_cancel(op), TOW_OK);
	assert_int_equal(twt_finish(op, NULL), TOW_ECANCELED);
}

static void *answer(void *arg)
{
	static uint8_t word[64], large[100000];
	struct tow_op *op;

	(void)arg;
	for (int i = 0; i < 200; i++) {
		assert_int_equal(tow_recv_start(b, i % 8 ? word : large,
						i % 8 ? sizeof(word) : sizeof(large), 1, NULL, &op),
				 TOW_OK);
		assert_int_equal(twt_finish(op, NULL), TOW_OK);
		assert_int_equal(tow_send_start(b, word, sizeof(word), 2, NULL, &op), TOW_OK);
		assert_int_equal(twt_finish(op, NULL), TOW_OK);
	}
	return NULL;
}

static void test_two_threads(void **state)
{
	static uint8_t word[64];
	pthread_t thread;
	struct tow_op *op;

	(void)state;
	join();
	assert_int_equal(pthread_create(&thread, NULL, answer, NULL), 0);
	for (int i = 0; i < 200; i++) {
		struct tow_op *send = send_op(a, i % 8 ? 64 : 100000);

		assert_int_equal(tow_recv_start(a, word, sizeof(word), 2, NULL, &op), TOW_OK);
		assert_int_equal(twt_finish(op, NULL), TOW_OK);
		assert_int_equal(twt_finish(send, NULL), TOW_OK);
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
}

#define REAL(test)      cmocka_unit_test_setup_teardown(test, set_up_real, tear_down)
#define SIMULATED(test) cmocka_unit_test_setup_teardown(test, set_up_simulated, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SIMULATED(test_messages),       SIMULATED(test_messages_with_delay),
		SIMULATED(test_names),          SIMULATED(test_connect_given_up),
		SIMULATED(test_too_many_wait),  SIMULATED(test_close_delivers),
		SIMULATED(test_dark_link),      REAL(test_messages),
		REAL(test_messages_with_delay), REAL(test_close_delivers),
		REAL(test_dark_link),           REAL(test_two_threads),
		SIMULATED(test_wait_in_vain),   REAL(test_wait_in_vain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
