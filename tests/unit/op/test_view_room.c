/*
 * test_view_room.c - views whose message finds no room in the receiver's pool, on every lane: they
 * wait until there is room, their deadline or a cancel; the sender waits with them and is told of
 * nothing that did not happen; nothing is lost, and each tag keeps its order. Where a full pool may
 * grow it does so for a view, but not while others are given back.
 */
#include "twt.h"

#include <string.h>

#include "beside.h"
#include "lane_pair.h"
#include "memreg/pool/pool.h"
#include "transport/engine/engine.h"

#define POOL  (8u << 20) /* half of it more where two ports of libfabric take theirs from it */
#define LARGE (3u << 20)
#define SMALL 5000u

static struct twt_lane_pair pair;
static uint8_t *out; /* plain memory of the sender's: no lane can hand it over as it lies */
static uint64_t out_handle;
static void *stones[64]; /* that fill the receiver's pool */
static int stone_count;

/* `limit` pools may be mapped, or taken outside; a view asks for that after `wait_ns`. */
static bool open_pair_as(const struct twt_lane_row *lane, const char *exhaust, int limit,
			 uint64_t wait_ns)
{
	bool ports = lane->one_runtime && strncmp(lane->name, "ofi", 3) == 0;
	int64_t pool_bytes = ports ? POOL / 2 * 3 : POOL;

	twt_lane_init(&pair, lane);
	for (int i = 0; i < 2; i++) {
		pair.options[i].premap_memory_bytes = pool_bytes;
		pair.options[i].premap_limit_bytes = limit * pool_bytes;
		pair.options[i].exhaust = exhaust;
		pair.options[i].exhaust_wait_ns = (int64_t)wait_ns;
	}
	if (!twt_lane_open(&pair))
		return false;
	twt_lane_join(&pair);
	/* Registered: a sender of the same runtime needs no room of the pool to send it. */
	out = twt_memory_get(pair.runtime[0], TWT_REGISTERED, 5 * LARGE, &out_handle);
	return true;
}

static bool open_pair(const struct twt_lane_row *lane)
{
	return open_pair_as(lane, "fail", 1, TWT_SECOND);
}

static void close_runtimes(void)
{
	twt_lane_close(&pair);
	free(out); /* its registration has ended with the runtime */
}

/* Both ends of the connection, in turns: a runtime waits 1 s for a side that nobody drives. */
static void close_pair(void)
{
	for (int i = 0; i < 2; i++)
		TWT_OK(tow_peer_close(pair.peer[i]));
	twt_lane_drive(&pair, TWT_SECOND / 200);
	close_runtimes();
}

static void fill_pool(void)
{
	static const size_t sizes[] = { 1 << 20, 64 << 10, 4 << 10, 1 << 10, 64 };

	stone_count = 0;
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		while (stone_count < 64 &&
		       tow_alloc(pair.runtime[1], sizes[s], 0, &stones[stone_count]) == TOW_OK)
			stone_count++;
	}
}

static void empty_pool(void)
{
	while (stone_count > 0)
		TWT_OK(tow_free(pair.runtime[1], stones[--stone_count]));
}

static struct tow_op *send(size_t bytes, uint64_t tag, uint64_t seed)
{
	uint8_t *at = out + seed % 4 * LARGE;
	struct tow_op *op;

	twt_fill(at, bytes, seed);
	TWT_OK(tow_send_start(pair.peer[0], at, bytes, tag, NULL, &op));
	return op;
}

static struct tow_op *view(uint64_t tag, uint64_t timeout_ns)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_op *op;

	options.timeout_ns = timeout_ns;
	TWT_OK(tow_recv_view_start(pair.peer[1], tag, &options, &op));
	return op;
}

static void must_have(struct tow_op *op, size_t bytes, uint64_t seed)
{
	struct tow_result result = twt_lane_wait(&pair, op);

	if (result.status < 0)
		fail_msg("%s: message %llu: %s", pair.lane->name, (unsigned long long)seed,
			 tow_error_message());
	assert_int_equal(result.bytes, bytes);
	assert_int_equal(twt_check(result.data, bytes, seed), 0);
	TWT_OK(tow_op_release(op));
}

static void must_wait(struct tow_op *op)
{
	twt_lane_drive(&pair, TWT_SECOND / 50);
	assert_int_equal(tow_op_test(op), TOW_AGAIN);
}

/* Posted before the message comes, and after; small and large; then there is room. */
static void test_waits(void **state)
{
	if (!open_pair(*state))
		skip();
	for (int way = 0; way < 4; way++) {
		size_t bytes = way < 2 ? SMALL : LARGE;
		bool early = way % 2 == 0;
		struct tow_op *recv = NULL, *sent, *other;
		char word[8];

		fill_pool();
		if (early)
			recv = view(1, TOW_FOREVER);
		sent = send(bytes, 1, 1);
		twt_lane_drive(&pair, TWT_SECOND / 50);
		if (!early)
			recv = view(1, TOW_FOREVER);
		must_wait(recv);
		/* Another tag goes on meanwhile. */
		TWT_OK(tow_recv_start(pair.peer[1], word, sizeof(word), 2, NULL, &other));
		assert_true(twt_lane_finish(&pair, send(8, 2, 2)).status >= 0);
		assert_int_equal(twt_lane_finish(&pair, other).status, TOW_OK);
		must_wait(recv);
		empty_pool();
		must_have(recv, bytes, 1);
		assert_true(twt_lane_finish(&pair, sent).status >= 0);
	}
	close_pair();
}

/* A view that gives up leaves its message to the next receive, in order. */
static void test_gives_up(void **state)
{
	if (!open_pair(*state))
		skip();
	for (int way = 0; way < 4; way++) {
		size_t bytes = way < 2 ? SMALL : LARGE;
		bool canceled = way % 2 == 0;
		struct tow_op *recv, *next, *sent[2];
		uint8_t *in = calloc(2, LARGE);

		fill_pool();
		recv = view(1, canceled ? TOW_FOREVER : TWT_SECOND / 20);
		TWT_OK(tow_recv_start(pair.peer[1], in, LARGE, 1, NULL, &next));
		sent[0] = send(bytes, 1, 1);
		sent[1] = send(bytes, 1, 2);
		if (canceled) {
			must_wait(recv);
			must_wait(next); /* behind the view, whose message this is */
			TWT_OK(tow_op_cancel(recv));
		}
		assert_int_equal(twt_lane_finish(&pair, recv).status,
				 canceled ? TOW_ECANCELED : TOW_EDEADLINE);
		assert_int_equal(twt_lane_finish(&pair, next).bytes, bytes);
		assert_int_equal(twt_check(in, bytes, 1), 0);
		TWT_OK(tow_recv_start(pair.peer[1], in + LARGE, LARGE, 1, NULL, &next));
		assert_int_equal(twt_lane_finish(&pair, next).bytes, bytes);
		assert_int_equal(twt_check(in + LARGE, bytes, 2), 0);
		for (int i = 0; i < 2; i++)
			assert_true(twt_lane_finish(&pair, sent[i]).status >= 0);
		empty_pool();
		free(in);
	}
	close_pair();
}

/* Six views of three tags, more than the pool has room for at once: as they are given back. */
static void test_order(void **state)
{
	uint64_t until = twi_now_ns() + 20 * TWT_SECOND;
	struct tow_op *recv[6], *sent[6];

	if (!open_pair(*state))
		skip();
	for (int i = 0; i < 6; i++)
		recv[i] = view((uint64_t)i % 3, TOW_FOREVER);
	for (uint64_t i = 0; i < 6; i++) {
		twt_fill(out, LARGE, 7);
		TWT_OK(tow_send_start(pair.peer[0], out, LARGE - 64 * i, i % 3, NULL, &sent[i]));
	}
	for (int left = 6; left > 0;) {
		assert_true(twi_now_ns() < until);
		twt_lane_turn(&pair);
		for (int i = 0; i < 6; i++) {
			if (recv[i] == NULL || tow_op_test(recv[i]) == TOW_AGAIN)
				continue;
			must_have(recv[i], LARGE - 64u * (unsigned)i, 7);
			recv[i] = NULL;
			left--;
		}
	}
	for (int i = 0; i < 6; i++)
		assert_true(twt_lane_finish(&pair, sent[i]).status >= 0);
	close_pair();
}

/*
 * A view that is longer than the pool can ever be, or than what the library leaves of it: the
 * receive says so, and the message is there for a buffer. A pool at its limit is as one that may
 * not grow.
 */
static void test_never(void **state)
{
	static const char *const policies[] = { "fail", "wait", "grow", "copy" };

	for (int way = 0; way < 8; way++) {
		struct tow_op *recv, *sent;
		uint8_t *in = malloc(5 * LARGE);
		size_t bytes;

		if (!open_pair_as(*state, policies[way / 2], 1, TWT_SECOND / 100)) {
			free(in);
			skip();
		}
		bytes = way % 2 == 0 ? 5 * LARGE
				     : (size_t)pair.options[1].premap_memory_bytes - 4096;
		recv = view(1, TOW_FOREVER);
		sent = send(bytes, 1, 0);
		assert_int_equal(twt_lane_wait(&pair, recv).status, TOW_EEXHAUSTED);
		assert_int_equal(tow_op_test(recv), TOW_EEXHAUSTED);
		assert_non_null(strstr(tow_error_message(), way < 4 ? "raise premap_memory_bytes"
								    : "raise premap_limit_bytes"));
		TWT_OK(tow_op_release(recv));
		must_wait(sent);
		TWT_OK(tow_recv_start(pair.peer[1], in, bytes, 1, NULL, &recv));
		assert_int_equal(twt_lane_finish(&pair, recv).bytes, bytes);
		assert_int_equal(twt_check(in, bytes, 0), 0);
		assert_true(twt_lane_finish(&pair, sent).status >= 0);
		close_pair();
		free(in);
	}
}

static struct twi_pool_stats pool_now(void)
{
	struct twi_pool_stats stats;

	twi_pool_stats(twi_runtime_engine(pair.runtime[1])->pool, &stats);
	return stats;
}

/* Four that nobody gives back, more than fit; and one that the pool as it is can never hold. */
static void test_more(void **state)
{
	static const char *const policies[] = { "grow", "copy" };

	for (int policy = 0; policy < 2; policy++) {
		struct tow_op *recv[4], *sent[4];
		uint64_t mapped;

		if (!open_pair_as(*state, policies[policy], 8, TWT_SECOND / 20))
			skip();
		mapped = pool_now().mapped;
		for (uint64_t i = 0; i < 4; i++) {
			recv[i] = view(1, TOW_FOREVER);
			sent[i] = send(LARGE, 1, i);
		}
		for (int i = 0; i < 4; i++)
			assert_true(twt_lane_wait(&pair, recv[i]).status >= 0);
		for (uint64_t i = 0; i < 4; i++) {
			must_have(recv[i], LARGE, i);
			assert_true(twt_lane_finish(&pair, sent[i]).status >= 0);
		}
		assert_true((pool_now().mapped > mapped) == (policy == 0));
		close_pair();
		/* The receive of that one does not wait. */
		assert_true(open_pair_as(*state, policies[policy], 8, 300 * TWT_SECOND));
		recv[0] = view(1, TOW_FOREVER);
		sent[0] = send(5 * LARGE, 1, 0);
		must_have(recv[0], 5 * LARGE, 0);
		assert_true(twt_lane_finish(&pair, sent[0]).status >= 0);
		close_pair();
	}
}

/* Views wait all the time, but there is always one that is given back soon: nothing grows. */
static void test_slow(void **state)
{
	enum { COUNT = 24, WINDOW = 6 };
	struct tow_op *recv[COUNT], *sent[COUNT];
	uint64_t mapped;

	if (!open_pair_as(*state, "grow", 8, TWT_SECOND))
		skip();
	mapped = pool_now().mapped;
	twt_fill(out, LARGE, 7);
	for (uint64_t i = 0; i < COUNT + WINDOW; i++) {
		if (i < COUNT) {
			recv[i] = view(1, TOW_FOREVER);
			TWT_OK(tow_send_start(pair.peer[0], out, LARGE - 64 * i, 1, NULL,
					      &sent[i]));
		}
		if (i < WINDOW)
			continue;
		twt_lane_drive(&pair, 60 * TWT_SECOND / 1000);
		must_have(recv[i - WINDOW], LARGE - 64 * (i - WINDOW), 7);
		assert_true(twt_lane_finish(&pair, sent[i - WINDOW]).status >= 0);
	}
	assert_int_equal(pool_now().mapped, mapped);
	close_pair();
}

/* Nobody awaits them any more: the sender takes the message back, a side closes, all is closed. */
static void test_ends(void **state)
{
	for (int way = 0; way < 4; way++) {
		struct tow_op *recv, *sent;

		if (!open_pair(*state))
			skip();
		fill_pool();
		recv = view(1, TOW_FOREVER);
		sent = send(LARGE, 1, 1);
		must_wait(recv);
		if (way == 0) {
			TWT_OK(tow_op_cancel(sent));
			assert_int_equal(twt_lane_wait(&pair, sent).status, TOW_ECANCELED);
			empty_pool();
			must_wait(recv);
			must_wait(recv);
			assert_true(twt_lane_finish(&pair, send(SMALL, 1, 2)).status >= 0);
			must_have(recv, SMALL, 2);
		} else if (way == 1) {
			TWT_OK(tow_peer_close(pair.peer[0]));
			assert_int_equal(twt_lane_wait(&pair, sent).status, TOW_ECLOSED);
			assert_int_equal(twt_lane_finish(&pair, recv).status, TOW_EPEER);
		} else if (way == 2) {
			TWT_OK(tow_peer_close(pair.peer[1]));
			assert_int_equal(twt_lane_finish(&pair, recv).status, TOW_ECLOSED);
			assert_int_equal(twt_lane_wait(&pair, sent).status, TOW_EPEER);
		}
		close_runtimes();
	}
}

#define KINDS 7

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		CMUnitTestFunction run;
	} kinds[KINDS] = {
		{ "waits", test_waits }, { "gives up", test_gives_up }, { "order", test_order },
		{ "never", test_never }, { "ends", test_ends },         { "more", test_more },
		{ "slow", test_slow },
	};
	struct CMUnitTest tests[KINDS * TWT_LANE_ROWS];
	static char names[KINDS * TWT_LANE_ROWS][64];

	for (size_t i = 0; i < KINDS * TWT_LANE_ROWS; i++) {
		const struct twt_lane_row *lane = &twt_lane_rows[i / KINDS];

		snprintf(names[i], sizeof(names[i]), "%s: %s", lane->name, kinds[i % KINDS].name);
		tests[i] = (struct CMUnitTest){ names[i], kinds[i % KINDS].run, NULL, NULL,
						(void *)(uintptr_t)lane };
	}
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return twt_beside_tests(tests, KINDS * TWT_LANE_ROWS, KINDS, TWT_LANE_ROWS);
}
