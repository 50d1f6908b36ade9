/*
 * test_send_times.c - how long a send says that it took, on every lane: never longer than from its
 * start to its end, and no shorter than it was kept waiting, after a while in which nobody has read
 * a clock. Small ones that go at once, that wait for credit and on channels, and large ones.
 */
#include "twt.h"

#include <string.h>
#include <time.h>

#include <towline/channel.h>

#include "lane_pair.h"

#define CREDIT   (64u << 10)
#define PIECE    2048u
#define PIECES   80u /* more than the credit is good for */
#define LARGE    (512u << 10)
#define QUIET_NS 20000000

static struct twt_lane_pair pair;
static struct tow_channel *channel[2];
static uint8_t out[LARGE], in[LARGE];

/* Nobody drives, and no engine reads the clock. */
static void be_quiet(void)
{
	const struct timespec quiet = { .tv_nsec = QUIET_NS };

	nanosleep(&quiet, NULL);
}

struct timed {
	struct tow_op *op;
	uint64_t start_ns;
};

static struct timed send_timed(uint64_t bytes, uint64_t tag, struct tow_channel *on,
			       uint64_t timeout_ns)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct timed timed = { .start_ns = twi_now_ns() };

	options.channel = on;
	options.timeout_ns = timeout_ns;
	TWT_OK(tow_send_start(pair.peer[0], out, bytes, tag, &options, &timed.op));
	return timed;
}

static void must_take(struct timed *timed, uint64_t least_ns)
{
	struct tow_result result = twt_lane_finish(&pair, timed->op);
	uint64_t most_ns = twi_now_ns() - timed->start_ns;

	assert_int_equal(result.status, TOW_OK);
	if (result.latency_ns > most_ns || result.latency_ns < least_ns)
		fail_msg("%s: a send took %llu ns, by its result; at least %llu, at most %llu",
			 pair.lane->name, (unsigned long long)result.latency_ns,
			 (unsigned long long)least_ns, (unsigned long long)most_ns);
}

static void receive(uint64_t bytes, uint64_t tag, struct tow_channel *on)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_op *op;

	options.channel = on;
	TWT_OK(tow_recv_start(pair.peer[1], in, bytes, tag, &options, &op));
	assert_int_equal(twt_lane_finish(&pair, op).status, TOW_OK);
}

static void small_ones(struct tow_channel *const on[2], uint64_t timeout_ns)
{
	for (int i = 0; i < 3; i++) {
		struct timed timed;

		be_quiet();
		timed = send_timed(8, 1, on[0], timeout_ns);
		receive(8, 1, on[1]);
		must_take(&timed, 0);
	}
}

/* Those that have ended at once have not waited; of the others each has as long as nobody took. */
static void ones_that_wait(struct tow_channel *const on[2], uint64_t timeout_ns)
{
	struct timed timed[PIECES];
	bool waits[PIECES];
	unsigned waiting = 0;

	be_quiet();
	for (unsigned i = 0; i < PIECES; i++)
		timed[i] = send_timed(PIECE, 2, on[0], timeout_ns);
	twt_lane_drive(&pair, 2000000);
	for (unsigned i = 0; i < PIECES; i++) {
		waits[i] = tow_op_test(timed[i].op) == TOW_AGAIN;
		waiting += waits[i];
	}
	assert_true(waiting > 0);
	be_quiet();
	for (unsigned i = 0; i < PIECES; i++)
		receive(PIECE, 2, on[1]);
	for (unsigned i = 0; i < PIECES; i++)
		must_take(&timed[i], waits[i] ? QUIET_NS : 0);
}

static void large_one(struct tow_channel *const on[2], uint64_t timeout_ns)
{
	struct timed timed;

	be_quiet();
	timed = send_timed(LARGE, 3, on[0], timeout_ns);
	twt_lane_drive(&pair, 2000000);
	be_quiet();
	receive(LARGE, 3, on[1]);
	must_take(&timed, QUIET_NS);
}

static void test_lane(void **state)
{
	struct tow_channel *const none[2] = { NULL, NULL };

	twt_lane_init(&pair, *state);
	for (int side = 0; side < 2; side++) {
		pair.options[side].premap_memory_bytes = 32 << 20;
		pair.options[side].credit_bytes = CREDIT;
	}
	if (!twt_lane_open(&pair))
		skip();
	twt_lane_join(&pair);
	for (int side = 0; side < 2; side++)
		TWT_OK(tow_channel_open(pair.peer[side], 1, &channel[side]));
	for (int i = 0; i < 4; i++) {
		struct tow_channel *const *on = i < 2 ? none : channel;
		uint64_t timeout_ns = i % 2 == 0 ? TOW_FOREVER : 60000000000u;

		small_ones(on, timeout_ns);
		ones_that_wait(on, timeout_ns);
		large_one(on, timeout_ns);
	}
	for (int side = 0; side < 2; side++)
		TWT_OK(tow_channel_close(channel[side]));
	twt_lane_close(&pair);
}

int main(void)
{
	return twt_lane_main(test_lane);
}
