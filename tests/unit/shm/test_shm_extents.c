/*
 * test_shm_extents.c - a pool is mapped once, however many connections its process has: those that
 * come later, extents that the pool grows by, connections that close in any order while others and
 * views go on, and windows. What was mapped goes with the last of them.
 */
#include "twt.h"

#include <fcntl.h>
#include <sys/resource.h>

#include "shm_pair.h"

#include "transport/lanes/lane.h"

#define MANY  24
#define BYTES 300000u

static struct tow_peer *peers[2][MANY]; /* by side; the pair's own is the first */

static struct twi_shm_peer *inside(int side, int i)
{
	return (struct twi_shm_peer *)(void *)peers[side][i];
}

static struct twi_shm_lane *lane_of(int side)
{
	return twi_shm_lane_of(twi_runtime_engine(twt_shm.runtime[side]));
}

static unsigned mapped(int side)
{
	const struct twi_list *all = &lane_of(side)->extents;
	unsigned count = 0;

	for (const struct twi_list *pos = all->next; pos != all; pos = pos->next)
		count++;
	return count;
}

static void connect_one(int i)
{
	char address[TOW_ADDRESS_MAX];
	struct tow_op *accept, *connect;

	TWT_OK(tow_endpoint_address(twt_shm.endpoint[1], address, sizeof(address)));
	TWT_OK(tow_accept_start(twt_shm.endpoint[1], NULL, &accept));
	TWT_OK(tow_connect_start(twt_shm.endpoint[0], address, NULL, &connect));
	peers[0][i] = twt_lane_finish(&twt_shm, connect).peer;
	peers[1][i] = twt_lane_finish(&twt_shm, accept).peer;
	assert_non_null(peers[0][i]);
	assert_non_null(peers[1][i]);
}

static void connect_all(void)
{
	for (int side = 0; side < 2; side++)
		peers[side][0] = twt_shm.peer[side];
	for (int i = 1; i < MANY; i++)
		connect_one(i);
}

static void close_one(int i)
{
	for (int side = 0; side < 2; side++)
		TWT_OK(tow_peer_close(peers[side][i]));
	if (i == 0)
		twt_shm.peer[0] = twt_shm.peer[1] = NULL;
	twt_shm_settle();
}

/* One message each way over connection i, out of the pool. */
static void exchange(int i, uint8_t *out, uint8_t *in)
{
	for (int side = 0; side < 2; side++) {
		struct tow_op *recv, *send;

		memset(out, i + side + 1, BYTES);
		memset(in, 0, BYTES);
		TWT_OK(tow_recv_start(peers[!side][i], in, BYTES, 4, NULL, &recv));
		TWT_OK(tow_send_start(peers[side][i], out, BYTES, 4, NULL, &send));
		assert_int_equal(twt_lane_finish(&twt_shm, recv).status, TOW_OK);
		assert_int_equal(twt_lane_finish(&twt_shm, send).status, TOW_OK);
		assert_int_equal(in[0], i + side + 1);
		assert_int_equal(in[BYTES - 1], i + side + 1);
	}
}

static void test_once(void **state)
{
	uint8_t *out = twt_shm_take(0, BYTES), *in = malloc(BYTES);

	(void)state;
	connect_all();
	for (int side = 0; side < 2; side++) {
		assert_int_equal(mapped(side), 1);
		for (int i = 1; i < MANY; i++)
			assert_ptr_equal(inside(side, i)->shared->extents[0],
					 inside(side, 0)->shared->extents[0]);
		assert_int_equal(inside(side, 0)->shared->extents[0]->refs, MANY);
	}
	for (int i = 0; i < MANY; i++)
		exchange(i, out, in);
	for (int i = 0; i < MANY - 1; i++) { /* the first of all goes first */
		close_one(i);
		exchange(MANY - 1, out, in);
	}
	assert_int_equal(inside(0, MANY - 1)->shared->extents[0]->refs, 1);
	close_one(MANY - 1);
	assert_int_equal(mapped(0), 0);
	assert_int_equal(mapped(1), 0);
	TWT_OK(tow_free(twt_shm.runtime[0], out));
	free(in);
}

/* The pool grows: each connection names the new extent when it needs it, and it is one mapping. */
static void test_growth(void **state)
{
	uint64_t more = 2 * (uint64_t)twt_shm_pool_bytes;
	uint8_t *in = malloc(BYTES), *out;

	(void)state;
	connect_all();
	out = twt_shm_take(0, more);
	for (int i = 0; i < MANY; i++)
		exchange(i, out + more - BYTES, in);
	assert_int_equal(mapped(1), 2);
	assert_int_equal(inside(1, 0)->shared->extents[1]->refs, MANY);
	assert_int_equal(mapped(0), 1);
	for (int i = 0; i < MANY; i++)
		close_one(i);
	assert_int_equal(mapped(1), 0);
	TWT_OK(tow_free(twt_shm.runtime[0], out));
	free(in);
}

/* The process may open no more descriptors from here on; returns what it might before. */
static rlim_t close_door(void)
{
	struct rlimit limit;
	int next = fcntl(0, F_DUPFD, 0);
	rlim_t before;

	assert_true(next >= 0);
	close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	before = limit.rlim_cur;
	limit.rlim_cur = (rlim_t)next;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	return before;
}

static void open_door(rlim_t before)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = before;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/*
 * The kernel drops a descriptor that a process may not open. It is this process that lacks
 * something: the other side is not said to have broken the protocol. `window`: who looks for a
 * window finds out, not the poll.
 */
static void run_out(bool window)
{
	const struct twi_window_ops *windows = lane_of(1)->base.ops->windows;
	struct twi_engine *engine = twi_runtime_engine(twt_shm.runtime[1]);
	uint64_t more = 2 * (uint64_t)twt_shm_pool_bytes;
	uint8_t *in = malloc(BYTES), *out = twt_shm_take(0, more);
	struct tow_result result;
	struct tow_op *recv, *send;
	rlim_t before;
	int status;

	TWT_OK(tow_recv_start(twt_shm.peer[1], in, BYTES, 4, NULL, &recv));
	TWT_OK(tow_send_start(twt_shm.peer[0], out + more - BYTES, BYTES, 4, NULL, &send));
	before = close_door();
	if (window) {
		twi_engine_enter(engine);
		assert_null(windows->at(twt_shm.peer[1], 1, 0, 8, false, &status));
		twi_engine_leave(engine);
		assert_int_equal(status, TOW_EBUSY);
	}
	result = twt_lane_wait(&twt_shm, recv);
	open_door(before);
	assert_int_equal(result.status, TOW_EBUSY);
	assert_non_null(strstr(result.message, "ulimit -n"));
	TWT_OK(tow_op_release(recv));
	assert_int_equal(twt_lane_finish(&twt_shm, send).status, TOW_EPEER);
	assert_int_equal(twt_shm_counted(1, TWI_C_protocol_errors), 0);
	TWT_OK(tow_free(twt_shm.runtime[0], out));
	free(in);
}

static void test_no_descriptor(void **state)
{
	(void)state;
	run_out(false);
}

static void test_no_descriptor_for_window(void **state)
{
	(void)state;
	run_out(true);
}

/* A view shows the bytes of a connection that has closed, and of none. */
static void test_views(void **state)
{
	uint8_t *out = twt_shm_take(0, BYTES);
	struct tow_result result;
	struct tow_op_options lends = TOW_OP_OPTIONS_INIT;
	struct tow_op *view, *send;

	(void)state;
	lends.flags = TOW_OP_LEND;
	memset(out, 9, BYTES);
	connect_all();
	TWT_OK(tow_recv_view_start(peers[1][3], 4, NULL, &view));
	TWT_OK(tow_send_start(peers[0][3], out, BYTES, 4, &lends, &send));
	assert_int_equal(twt_lane_finish(&twt_shm, send).status, TOW_OK);
	result = twt_lane_wait(&twt_shm, view);
	assert_int_equal(result.status, TOW_OK);
	for (int i = 0; i < MANY; i++)
		close_one(i);
	assert_int_equal(mapped(1), 1);
	assert_int_equal(((const uint8_t *)result.data)[BYTES - 1], 9);
	TWT_OK(tow_view_release(view));
	assert_int_equal(mapped(1), 0);
	TWT_OK(tow_free(twt_shm.runtime[0], out));
}

/* Each connection has the same window, made once, and one descriptor is kept until then. */
static void test_windows(void **state)
{
	const struct twi_window_ops *windows = lane_of(1)->base.ops->windows;
	struct twi_engine *engine = twi_runtime_engine(twt_shm.runtime[1]);
	void *first = NULL;
	int status;

	(void)state;
	connect_all();
	twi_engine_enter(engine);
	assert_true(inside(1, 0)->shared->extents[0]->window_fd >= 0);
	for (int i = 0; i < MANY; i++) {
		void *at = windows->at(peers[1][i], 0, 64, 8, true, &status);

		assert_int_equal(status, TOW_OK);
		first = i == 0 ? at : first;
		assert_ptr_equal(at, first);
		assert_ptr_not_equal(at, windows->at(peers[1][i], 0, 64, 8, false, &status));
	}
	assert_int_equal(inside(1, 0)->shared->extents[0]->window_fd, -1);
	twi_engine_leave(engine);
	for (int i = 0; i < MANY; i++)
		close_one(i);
	assert_int_equal(mapped(1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_once, twt_shm_open, twt_shm_close),
		cmocka_unit_test_setup_teardown(test_growth, twt_shm_open, twt_shm_close),
		cmocka_unit_test_setup_teardown(test_no_descriptor, twt_shm_open, twt_shm_close),
		cmocka_unit_test_setup_teardown(test_no_descriptor_for_window, twt_shm_open,
						twt_shm_close),
		cmocka_unit_test_setup_teardown(test_views, twt_shm_open, twt_shm_close),
		cmocka_unit_test_setup_teardown(test_windows, twt_shm_open, twt_shm_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
