/*
 * test_runtime_faults.c - the Nth call of one kind fails while a runtime opens, listens, connects
 * to itself, exchanges messages and closes.
 *
 * For each kind N grows until it is not reached any more. Each time every call either works or
 * fails with a documented status and a message, nothing waits longer than its deadline, and no
 * descriptor and no mapping stays behind. A last round without a fault works.
 */
#include "twt.h"

#include "fault_net.h"
#include "pair.h"

#include <string.h>

#include <towline/towline.h>

#define SECOND 1000000000ull
#define LARGE  (200u << 10)

struct world {
	struct tow_runtime *runtime;
	struct tow_endpoint *one, *two;
	struct tow_peer *from_one, *from_two;
	uint8_t *out, *in;
};

static int failed(const char *what, int status)
{
	if (status >= 0)
		return status;
	if (tow_error_message()[0] == '\0' || strcmp(tow_status_name(status), "TOW_UNKNOWN") == 0)
		fail_msg("%s: status %d without a message", what, status);
	return status;
}

static int open_world(struct world *world)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	void *memory;
	int status;

	options.premap_memory_bytes = 4 << 20;
	options.connect_timeout_ns = SECOND / 4;
	options.max_ops = 64;
	options.stats = 0;
	options.trace_on_slow_step = 200; /* a thread and a window more */
	status = failed("open", tow_runtime_open(&options, &world->runtime));
	if (status < 0)
		return status;
	status = tow_alloc(world->runtime, LARGE, 0, &memory);
	world->out = memory;
	if (status == TOW_OK)
		status = tow_alloc(world->runtime, LARGE, 0, &memory);
	world->in = memory;
	if (status == TOW_OK)
		status = tow_endpoint_open(world->runtime, "tcp://127.0.0.1:0", &world->one);
	if (status == TOW_OK)
		status = tow_endpoint_open(world->runtime, "tcp://127.0.0.1:0", &world->two);
	return failed("endpoints", status);
}

static int meet(struct world *world)
{
	struct tow_op_options soon = TOW_OP_OPTIONS_INIT;
	struct tow_op *connect, *accept;
	struct tow_result result;
	char address[TOW_ADDRESS_MAX];
	int status, other;

	soon.timeout_ns = SECOND / 2;
	assert_int_equal(tow_endpoint_address(world->two, address, sizeof(address)), TOW_OK);
	status = failed("accept", tow_accept_start(world->two, &soon, &accept));
	if (status < 0)
		return status;
	status = failed("connect", tow_connect_start(world->one, address, &soon, &connect));
	if (status == TOW_OK) {
		status = failed("connect", twt_finish(connect, &result));
		world->from_one = status == TOW_OK ? result.peer : NULL;
	}
	if (status < 0)
		tow_op_cancel(accept);
	other = failed("accept", twt_finish(accept, &result));
	world->from_two = other == TOW_OK ? result.peer : NULL;
	return status < 0 ? status : other;
}

static int message(struct world *world, uint64_t bytes, bool receive_first)
{
	struct tow_op_options soon = TOW_OP_OPTIONS_INIT;
	struct tow_op *send = NULL, *recv = NULL;
	struct tow_result result;
	int status, other;

	soon.timeout_ns = SECOND / 2;
	memset(world->out, (int)bytes | 1, bytes);
	memset(world->in, 0, bytes);
	if (receive_first)
		assert_int_equal(tow_recv_start(world->from_two, world->in, LARGE, 1, &soon, &recv),
				 TOW_OK);
	assert_int_equal(tow_send_start(world->from_one, world->out, bytes, 1, &soon, &send),
			 TOW_OK);
	if (!receive_first) {
		for (int i = 0; i < 20; i++)
			tow_progress(world->runtime);
		assert_int_equal(tow_recv_start(world->from_two, world->in, LARGE, 1, &soon, &recv),
				 TOW_OK);
	}
	status = failed("send", twt_finish(send, &result));
	other = failed("receive", twt_finish(recv, &result));
	if (other == TOW_OK)
		assert_memory_equal(world->in, world->out, bytes);
	return status < 0 ? status : other;
}

/* All of it; the first failure. What was opened is closed whatever happened. */
static int live_once(void)
{
	struct world world = { 0 };
	int status = open_world(&world);

	if (status == TOW_OK)
		status = meet(&world);
	for (int i = 0; i < 2 && status == TOW_OK; i++) {
		status = message(&world, 0, i == 0);
		if (status == TOW_OK)
			status = message(&world, 1000, i == 0);
		if (status == TOW_OK)
			status = message(&world, LARGE, i == 0);
	}
	if (world.from_one != NULL)
		assert_int_equal(tow_peer_close(world.from_one), TOW_OK);
	if (world.runtime != NULL)
		assert_int_equal(tow_runtime_close(world.runtime), TOW_OK);
	/* Memory outlives its runtime. */
	if (world.in != NULL)
		assert_int_equal(tow_free(world.runtime, world.in), TOW_OK);
	if (world.out != NULL)
		assert_int_equal(tow_free(world.runtime, world.out), TOW_OK);
	return status;
}

static void check_clean(int fds, int maps, const char *what, int nth)
{
	if (twt_fd_count() != fds || twt_map_count("memfd:") != maps ||
	    twt_map_count("io_uring") != 0)
		fail_msg("%s %d: left behind: %d descriptors, %d pool maps, %d ring maps", what,
			 nth, twt_fd_count() - fds, twt_map_count("memfd:") - maps,
			 twt_map_count("io_uring"));
}

static void test_net_faults(void **state)
{
	static const char *const names[] = {
#define NAME(id, function, err, bad, params, run) #function,
		TWT_NET_FAULTS(NAME)
#undef NAME
			"malloc",
	};
	int fds, maps;

	(void)state;
	assert_int_equal(live_once(), TOW_OK);
	fds = twt_fd_count();
	maps = twt_map_count("memfd:");
	for (int call = 0; call < TWT_NET_FAULTS_COUNT; call++) {
		int nth = 1, bad = 0;

		for (; nth < 200; nth++) {
			int status;

			twt_net_fault_arm((enum twt_net_fault)call, nth);
			status = live_once();
			bad += status < 0;
			if (!twt_net_fault_off())
				break;
			check_clean(fds, maps, names[call], nth);
		}
		printf("%s: %d calls, %d of them needed\n", names[call], nth - 1, bad);
		assert_true(nth < 200);
#ifndef TWT_SANITIZED
		assert_true(nth > 1); /* else the fault is not where the library can meet it */
#endif
	}
	assert_int_equal(live_once(), TOW_OK);
}

static void test_memory_faults(void **state)
{
	static const enum twt_fault calls[] = { TWT_MMAP, TWT_CALLOC };
	int fds, maps;

	(void)state;
	assert_int_equal(live_once(), TOW_OK);
	fds = twt_fd_count();
	maps = twt_map_count("memfd:");
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		for (int nth = 1; nth < 400; nth++) {
			twt_fault_arm(calls[i], nth);
			live_once();
			if (!twt_fault_off())
				break;
			check_clean(fds, maps, calls[i] == TWT_MMAP ? "mmap" : "calloc", nth);
		}
	}
	assert_int_equal(live_once(), TOW_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_net_faults),
		cmocka_unit_test(test_memory_faults),
	};

	alarm(200);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
