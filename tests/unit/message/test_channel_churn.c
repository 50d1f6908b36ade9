/*
 * test_channel_churn.c - one channel is opened and closed again and again, by both sides and in
 * callbacks, while threads are inside calls with it: every operation ends, and the connection goes
 * on. On the lanes that have a runtime for each side.
 */
#include "twt.h"

#include <pthread.h>
#include <unistd.h>

#include <towline/channel.h>
#include <towline/match.h>

#include "lane_pair.h"

#define THREADS 4
#define TURNS   300
#define LARGE   100000u

static struct twt_lane_pair pair;
static _Atomic(struct tow_channel *) current[2];
static _Atomic bool over;
static _Atomic unsigned well;

/* Closes the channel of a side, if somebody has not done so. */
static void close_current(int side)
{
	struct tow_channel *channel = atomic_exchange(&current[side], NULL);

	if (channel != NULL)
		(void)tow_channel_close(channel);
}

static void on_done(struct tow_op *op, const struct tow_result *result)
{
	(void)op;
	if (result->status == TOW_OK)
		well++;
	if (result->status == TOW_EPEER)
		close_current(result->user == &current[1]);
}

static void wait_for(struct tow_op *op)
{
	if (tow_op_wait(op, TWT_SECOND) == TOW_ETIMEDOUT) {
		(void)tow_op_cancel(op);
		(void)tow_op_wait(op, TOW_FOREVER);
	}
	(void)tow_op_release(op);
}

/* A receive of any peer on that number waits on whatever becomes of the channel; a probe looks. */
static void receive_any(int side, uint8_t *in, struct tow_op_options *options)
{
	const struct tow_part part = { in, LARGE };
	struct tow_match match = TOW_MATCH_INIT;
	struct tow_result found = TOW_RESULT_INIT;
	struct tow_op *op;
	int status;

	match.channel = 3;
	match.tag_mask = 0;
	status = tow_probe(pair.endpoint[side], &match, &found);
	assert_true(status == TOW_OK || status == TOW_AGAIN);
	match.peer = pair.peer[side];
	status = tow_probe(pair.endpoint[side], &match, &found);
	assert_true(status == TOW_OK || status == TOW_AGAIN || status == TOW_EPEER ||
		    status == TOW_ECLOSED);
	match.peer = NULL;
	options->channel = NULL;
	options->timeout_ns = 2000000;
	TWT_OK(tow_recv_match_start(pair.endpoint[side], &match, &part, 1, options, &op));
	wait_for(op);
}

/* Starts what it can, of a channel that another thread may have closed by now. */
static void *start_many(void *arg)
{
	const int side = arg == &current[1];
	uint8_t *out = calloc(1, LARGE), *in = calloc(1, LARGE);

	for (unsigned i = 0; !over; i++) {
		struct tow_op_options options = TOW_OP_OPTIONS_INIT;
		struct tow_op *op = NULL;
		int status;

		options.channel = current[side];
		options.done = on_done;
		options.user = arg;
		options.flags = i % 3 == 0 ? TOW_OP_AT_ONCE : 0;
		if (options.channel == NULL) {
			usleep(50);
			continue;
		}
		if (i % 5 == 0) {
			receive_any(side, in, &options);
			continue;
		}
		status = i % 2 == 0 ? tow_recv_start(pair.peer[side], in, LARGE, 1, &options, &op)
				    : tow_send_start(pair.peer[side], out, i % 7 == 0 ? LARGE : 8,
						     1, &options, &op);
		if (status == TOW_OK && op != NULL)
			wait_for(op);
	}
	free(out);
	free(in);
	return NULL;
}

static void open_and_close(void)
{
	for (unsigned i = 0; i < TURNS; i++) {
		struct tow_channel *channel;
		const int side = i % 2;
		int status = TOW_EBUSY;

		if (current[side] == NULL)
			status = tow_channel_open(pair.peer[side], 3, &channel);
		if (status == TOW_OK)
			current[side] = channel;
		else
			assert_int_equal(status, TOW_EBUSY);
		usleep(300);
		if (i % 9 == 0)
			close_current(side);
	}
}

static void test_lane(void **state)
{
	pthread_t threads[THREADS];
	uint64_t word = 7, in = 0;
	struct tow_op *recv, *send;

	over = false;
	twt_lane_init(&pair, *state);
	for (int i = 0; i < 2; i++) {
		pair.options[i].background = 1;
		pair.options[i].premap_memory_bytes = 32 << 20;
	}
	if (pair.lane->one_runtime || !twt_lane_open(&pair))
		skip();
	twt_lane_join(&pair);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, start_many, &current[i % 2]), 0);
	open_and_close();
	over = true;
	close_current(0);
	close_current(1);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	TWT_OK(tow_recv_start(pair.peer[1], &in, sizeof(in), 9, NULL, &recv));
	TWT_OK(tow_send_start(pair.peer[0], &word, sizeof(word), 9, NULL, &send));
	assert_int_equal(twt_lane_finish(&pair, recv).status, TOW_OK);
	assert_int_equal(twt_lane_finish(&pair, send).status, TOW_OK);
	assert_int_equal(in, word);
	twt_lane_close(&pair);
}

static void test_some_went(void **state)
{
	(void)state;
	assert_true(well > 0);
}

int main(void)
{
	struct CMUnitTest tests[TWT_LANE_ROWS + 1];

	twt_lane_cases(tests, test_lane);
	tests[TWT_LANE_ROWS] = (struct CMUnitTest)cmocka_unit_test(test_some_went);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
