/*
 * test_shm_idle.c - connections that are quiet are not polled, and nothing is lost by that: random
 * traffic over many of them, which fall idle between messages, with small and large ones, views,
 * receives that come late or are taken back; a thread that sleeps meanwhile; and peers that go.
 */
#include "twt.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "shm_pair.h"

#define MANY  12
#define STEPS 3000
#define SMALL 200u
#define LARGE 70000u

static struct tow_peer *peers[2][MANY]; /* by side; the pair's own is the first */
static uint64_t rng;

static struct twi_shm_lane *lane_of(int side)
{
	return twi_shm_lane_of(twi_runtime_engine(twt_shm.runtime[side]));
}

static bool is_idle(int side, int i)
{
	return ((struct twi_shm_peer *)(void *)peers[side][i])->idle;
}

static unsigned idle_count(int side)
{
	unsigned count = 0;

	for (int i = 0; i < MANY; i++)
		count += is_idle(side, i);
	return count;
}

/* So often that those who are quiet are left alone, whatever the time. */
static void fall_idle(void)
{
	for (int i = 0; i < 600; i++)
		twt_shm_turn();
}

static int set_up(void **state)
{
	char address[TOW_ADDRESS_MAX];
	struct tow_op *accept, *connect;

	setenv("TOW_SHM_POLLED_PEERS", "0", 1);
	twt_shm_open(state);
	TWT_OK(tow_endpoint_address(twt_shm.endpoint[1], address, sizeof(address)));
	for (int i = 0; i < MANY; i++) {
		if (i == 0) {
			peers[0][0] = twt_shm.peer[0];
			peers[1][0] = twt_shm.peer[1];
			continue;
		}
		TWT_OK(tow_accept_start(twt_shm.endpoint[1], NULL, &accept));
		TWT_OK(tow_connect_start(twt_shm.endpoint[0], address, NULL, &connect));
		peers[0][i] = twt_lane_finish(&twt_shm, connect).peer;
		peers[1][i] = twt_lane_finish(&twt_shm, accept).peer;
	}
	return 0;
}

static int tear_down(void **state)
{
	unsetenv("TOW_SHM_POLLED_PEERS");
	return twt_shm_close(state);
}

static uint64_t rnd(uint64_t bound)
{
	return twt_random_below(&rng, bound);
}

static struct tow_op *start_recv(struct tow_peer *peer, uint8_t *in, bool view)
{
	struct tow_op *op;

	if (view)
		TWT_OK(tow_recv_view_start(peer, 4, NULL, &op));
	else
		TWT_OK(tow_recv_start(peer, in, LARGE, 4, NULL, &op));
	return op;
}

static void must_have(struct tow_op *recv, bool view, uint64_t bytes, uint8_t value)
{
	struct tow_result result = twt_lane_wait(&twt_shm, recv);

	assert_int_equal(result.status, TOW_OK);
	assert_int_equal(result.bytes, bytes);
	for (uint64_t at = 0; at < bytes; at += 1 + rnd(500))
		assert_int_equal(((const uint8_t *)result.data)[at], value);
	TWT_OK(view ? tow_view_release(recv) : tow_op_release(recv));
}

/* A receive is taken back over a connection that has fallen idle with it, or has not. */
static void take_back(struct tow_peer *peer, uint8_t *in)
{
	struct tow_op *recv = start_recv(peer, in, false);

	if (rnd(2) == 0)
		fall_idle();
	TWT_OK(tow_op_cancel(recv));
	assert_int_equal(twt_lane_finish(&twt_shm, recv).status, TOW_ECANCELED);
}

/* One message over connection i from `side`, with its receive before or behind it, and pauses. */
static void pass_one(int side, int i, uint8_t *out, uint8_t *in)
{
	uint64_t bytes = rnd(3) == 0 ? SMALL + rnd(LARGE - SMALL) : rnd(SMALL);
	bool posted = rnd(2) == 0, view = rnd(4) == 0;
	uint8_t value = (uint8_t)rnd(256);
	struct tow_op *recv = NULL, *send;

	memset(out, value, bytes);
	if (rnd(8) == 0)
		take_back(peers[!side][i], in);
	if (posted)
		recv = start_recv(peers[!side][i], in, view);
	if (rnd(3) == 0)
		fall_idle();
	TWT_OK(tow_send_start(peers[side][i], out, bytes, 4, NULL, &send));
	if (rnd(3) == 0)
		fall_idle();
	if (!posted)
		recv = start_recv(peers[!side][i], in, view);
	must_have(recv, view, bytes, value);
	assert_int_equal(twt_lane_finish(&twt_shm, send).status, TOW_OK);
}

static void test_traffic(void **state)
{
	uint8_t *pool = twt_shm_take(0, LARGE), *heap = malloc(LARGE), *in = malloc(LARGE);
	unsigned idle = 0;

	(void)state;
	for (int i = 0; i < STEPS; i++) {
		int side = (int)rnd(2), which = (int)rnd(MANY);

		idle += is_idle(!side, which);
		pass_one(side, which, side == 0 && rnd(2) == 0 ? pool : heap, in);
	}
	assert_in_range(idle, STEPS / 10, STEPS);
	fall_idle();
	for (int side = 0; side < 2; side++) {
		assert_int_equal(idle_count(side), MANY);
		assert_int_equal(lane_of(side)->up_count, 0);
	}
	TWT_OK(tow_free(twt_shm.runtime[0], pool));
	free(heap);
	free(in);
}

/*
 * Many small ones into a connection that is not looked at: its ring fills, then the credit of what
 * nobody has received is used up; and all come.
 */
static void test_full(void **state)
{
	enum { COUNT = 4000, BYTES = 1000 };
	static struct tow_op *sends[COUNT];
	static uint64_t words[COUNT][BYTES / 8], word[BYTES / 8];

	(void)state;
	fall_idle();
	for (uint64_t i = 0; i < COUNT; i++) {
		words[i][0] = i;
		TWT_OK(tow_send_start(peers[0][5], words[i], BYTES, 4, NULL, &sends[i]));
	}
	fall_idle();
	assert_true(twi_outbox_no_credit(&((struct twi_shm_peer *)(void *)peers[0][5])->outbox));
	for (uint64_t i = 0; i < COUNT; i++) {
		struct tow_op *op;

		if (i % 500 == 0)
			fall_idle();
		TWT_OK(tow_recv_start(peers[1][5], word, BYTES, 4, NULL, &op));
		assert_int_equal(twt_lane_finish(&twt_shm, op).status, TOW_OK);
		assert_int_equal(word[0], i);
	}
	for (uint64_t i = 0; i < COUNT; i++)
		assert_int_equal(twt_lane_finish(&twt_shm, sends[i]).status, TOW_OK);
}

static void *wait_long(void *op)
{
	assert_int_equal(tow_op_wait(op, 10 * TWT_SECOND), TOW_OK);
	return NULL;
}

/* A thread sleeps in a wait; what comes over a connection that is idle wakes it. */
static void test_sleeper(void **state)
{
	uint64_t word = 0, value = 77;
	pthread_t thread;
	struct tow_op *recv, *send;

	(void)state;
	fall_idle();
	assert_true(is_idle(1, 7));
	TWT_OK(tow_recv_start(peers[1][7], &word, 8, 4, NULL, &recv));
	assert_int_equal(pthread_create(&thread, NULL, wait_long, recv), 0);
	usleep(20000);
	TWT_OK(tow_send_start(peers[0][7], &value, 8, 4, NULL, &send));
	pthread_join(thread, NULL);
	assert_int_equal(word, 77);
	TWT_OK(tow_op_release(recv));
	TWT_OK(tow_op_release(send));
}

/*
 * A thread that looks for a window reads the socket, too, and with it the byte that is to wake the
 * connection: it is polled again all the same, as the other side sends no second byte.
 */
static void test_byte_taken_elsewhere(void **state)
{
	const struct twi_window_ops *windows = lane_of(1)->base.ops->windows;
	struct twi_engine *engine = twi_runtime_engine(twt_shm.runtime[1]);
	uint64_t word = 0, value = 78;
	struct tow_op *recv, *send;
	int status;

	(void)state;
	TWT_OK(tow_recv_start(peers[1][3], &word, 8, 4, NULL, &recv));
	fall_idle();
	assert_true(is_idle(1, 3));
	TWT_OK(tow_send_start(peers[0][3], &value, 8, 4, NULL, &send));
	twi_engine_enter(engine);
	assert_null(windows->at(peers[1][3], 9, 0, 8, false, &status));
	twi_engine_leave(engine);
	assert_int_equal(status, TOW_AGAIN);
	assert_false(is_idle(1, 3));
	assert_int_equal(twt_lane_finish(&twt_shm, recv).status, TOW_OK);
	assert_int_equal(word, 78);
	assert_int_equal(twt_lane_finish(&twt_shm, send).status, TOW_OK);
}

/* One that is idle closes, or its other side does. */
static void test_ends(void **state)
{
	uint64_t word;
	struct tow_op *recv;

	(void)state;
	for (int i = 1; i < MANY; i++) {
		int side = i % 2;

		TWT_OK(tow_recv_start(peers[!side][i], &word, 8, 4, NULL, &recv));
		fall_idle();
		assert_true(is_idle(0, i) && is_idle(1, i));
		TWT_OK(tow_peer_close(peers[side][i]));
		assert_int_equal(twt_lane_finish(&twt_shm, recv).status, TOW_EPEER);
		TWT_OK(tow_peer_close(peers[!side][i]));
		assert_true(twi_list_empty(&lane_of(0)->up));
		assert_int_equal(lane_of(0)->up_count + lane_of(1)->up_count, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_traffic, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_full, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_sleeper, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_byte_taken_elsewhere, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_ends, set_up, tear_down),
	};

	rng = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
