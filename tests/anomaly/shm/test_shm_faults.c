/*
 * test_shm_faults.c - the Nth call of one kind fails while two runtimes meet over shm, exchange
 * messages of every kind, grow their pools and part.
 *
 * N grows until it is not reached any more. Each time every call works or fails with a status and
 * a message, nothing hangs, no descriptor, mapping or file stays behind; a last round works.
 */
#include "twt.h"

#include "fault_net.h"
#include "pair.h"

#include <string.h>

#include <towline/towline.h>

#include "diag/base/clock.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/lanes/shm/shm.h"

#define SECOND 1000000000ull
#define LARGE  (300u << 10)

struct end {
	struct tow_runtime *runtime;
	struct tow_endpoint *endpoint;
	struct tow_peer *peer;
};

/* fault_net.h has no call that returns a ssize_t. */
static _Atomic int sendmsg_left;

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	if (atomic_fetch_sub(&sendmsg_left, 1) == 1) {
		errno = EAGAIN;
		return -1;
	}
	return syscall(SYS_sendmsg, fd, msg, flags);
}

static void arm_sendmsg(int call, int nth)
{
	(void)call;
	atomic_store(&sendmsg_left, nth);
}

static bool sendmsg_off(void)
{
	return atomic_exchange(&sendmsg_left, 0) <= 0;
}

static int judged(const char *what, int status)
{
	if (status < 0 && tow_error_message()[0] == '\0')
		fail_msg("%s: %s without a message", what, tow_status_name(status));
	return status;
}

static int open_end(struct end *end)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	int status;

	options.premap_memory_bytes = 2 << 20;
	options.connect_timeout_ns = SECOND / 4;
	options.max_ops = 64;
	options.stats = 0;
	options.background = 0;
	status = judged("open", tow_runtime_open(&options, &end->runtime));
	if (status == TOW_OK)
		status = judged("endpoint",
				tow_endpoint_open(end->runtime, "shm://*", &end->endpoint));
	return status;
}

static int meet(struct end *ends)
{
	struct tow_op_options soon = TOW_OP_OPTIONS_INIT;
	struct tow_op *connect_op, *accept;
	char address[TOW_ADDRESS_MAX];
	struct tow_runtime *both[] = { ends[0].runtime, ends[1].runtime };
	struct tow_result result;
	int status;

	soon.timeout_ns = SECOND / 2;
	assert_int_equal(tow_endpoint_address(ends[1].endpoint, address, sizeof(address)), TOW_OK);
	assert_int_equal(tow_accept_start(ends[1].endpoint, &soon, &accept), TOW_OK);
	status =
		judged("connect", tow_connect_start(ends[0].endpoint, address, &soon, &connect_op));
	if (status == TOW_OK) {
		status = twt_finish_driving(connect_op, &result, both, 2);
		ends[0].peer = result.peer;
	}
	if (status < 0)
		tow_op_cancel(accept);
	if (twt_finish_driving(accept, &result, both, 2) == TOW_OK)
		ends[1].peer = result.peer;
	return ends[0].peer != NULL && ends[1].peer != NULL ? TOW_OK : TOW_EPEER;
}

/* The statuses of both sides, and the bytes where both are good. */
static int message(struct end *ends, uint8_t *out, uint8_t *in, uint64_t bytes, bool view)
{
	struct tow_op_options soon = TOW_OP_OPTIONS_INIT;
	struct tow_runtime *both[] = { ends[0].runtime, ends[1].runtime };
	struct tow_op *send, *recv;
	struct tow_result result;
	int status;

	soon.timeout_ns = SECOND;
	memset(out, (int)bytes | 1, bytes);
	memset(in, 0, bytes);
	assert_int_equal(tow_send_start(ends[0].peer, out, bytes, 1, &soon, &send), TOW_OK);
	for (int i = 0; i < 10; i++)
		(void)tow_progress(ends[1].runtime);
	if (view)
		assert_int_equal(tow_recv_view_start(ends[1].peer, 1, &soon, &recv), TOW_OK);
	else
		assert_int_equal(tow_recv_start(ends[1].peer, in, LARGE, 1, &soon, &recv), TOW_OK);
	status = twt_finish_driving(recv, &result, both, 2);
	if (status == TOW_OK && !view) {
		assert_int_equal(result.bytes, bytes);
		for (uint64_t i = 0; i < bytes; i++)
			assert_int_equal(in[i], (uint8_t)(bytes | 1));
	}
	return judged("send", twt_finish_driving(send, &result, both, 2)) < 0 ? TOW_EPEER : status;
}

static int exchange(struct end *ends)
{
	static uint8_t heap[2][LARGE];
	static const uint64_t sizes[] = { 8, 3000, LARGE };
	void *pool = NULL, *more = NULL;
	int status = judged("alloc", tow_alloc(ends[0].runtime, LARGE, 0, &pool));

	for (size_t i = 0; i < twi_array_count(sizes) && status >= 0; i++) {
		status = message(ends, pool, heap[1], sizes[i], false);
		if (status >= 0)
			status = message(ends, heap[0], heap[1], sizes[i], false);
		if (status >= 0)
			status = message(ends, pool, heap[1], sizes[i], true);
	}
	if (status >= 0) /* from an extent that is announced now */
		status = judged("grow", tow_alloc(ends[0].runtime, 4 << 20, 0, &more));
	if (status >= 0)
		status = message(ends, more, heap[1], LARGE, false);
	if (more != NULL)
		assert_int_equal(tow_free(ends[0].runtime, more), TOW_OK);
	if (pool != NULL)
		assert_int_equal(tow_free(ends[0].runtime, pool), TOW_OK);
	return status;
}

/* True when all of it worked. */
static bool attempt(void)
{
	struct end ends[2] = { 0 };
	int status = open_end(&ends[0]);

	if (status == TOW_OK)
		status = open_end(&ends[1]);
	if (status == TOW_OK)
		status = meet(ends);
	if (status == TOW_OK)
		status = exchange(ends);
	for (int i = 0; i < 2; i++) {
		if (ends[i].runtime != NULL)
			assert_int_equal(tow_runtime_close(ends[i].runtime), TOW_OK);
	}
	return status >= 0;
}

static void round_of(int call, void (*arm)(int call, int nth), bool (*off)(void))
{
	bool reached = true;
	int fds, maps, n;

	assert_true(attempt());
	fds = twt_fd_count();
	maps = twt_map_count("memfd:");
	for (n = 1; n < 400 && reached; n++) {
		arm(call, n);
		(void)attempt();
		reached = off();
		assert_int_equal(twt_fd_count(), fds);
		assert_int_equal(twt_map_count("memfd:"), maps);
	}
	assert_false(reached);
	assert_true(n > 1);
	assert_true(attempt());
}

static void arm_memory(int call, int nth)
{
	twt_fault_arm((enum twt_fault)call, nth);
}

static void arm_net(int call, int nth)
{
	twt_net_fault_arm((enum twt_net_fault)call, nth);
}

static void test_memory(void **state)
{
	static const enum twt_fault calls[] = { TWT_MMAP, TWT_MEMFD_CREATE, TWT_FTRUNCATE,
						TWT_MADVISE, TWT_CALLOC };

	(void)state;
	for (size_t i = 0; i < twi_array_count(calls); i++)
		round_of((int)calls[i], arm_memory, twt_fault_off);
}

static void test_sockets(void **state)
{
	static const enum twt_net_fault calls[] = { TWT_SOCKET,  TWT_BIND,    TWT_LISTEN,
						    TWT_CONNECT, TWT_ACCEPT4, TWT_MALLOC };

	(void)state;
	for (size_t i = 0; i < twi_array_count(calls); i++)
		round_of((int)calls[i], arm_net, twt_net_fault_off);
	round_of(0, arm_sendmsg, sendmsg_off);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_memory),
					    cmocka_unit_test(test_sockets) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
