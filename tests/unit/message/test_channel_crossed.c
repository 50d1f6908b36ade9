/*
 * test_channel_crossed.c - both sides close a channel while large messages are under way on it: who
 * closes second reads the other one's close in the middle of his own. On every lane; the connection
 * goes on.
 */
#include "twt.h"

#include <towline/channel.h>

#include "lane_pair.h"

#define ROUNDS 30
#define MANY   64
#define BYTES  (1u << 18)

static struct twt_lane_pair pair;
static uint8_t *from, *to;

/* Whatever has come of it, it has ended. */
static void must_end(struct tow_op *op)
{
	struct tow_result result = twt_lane_finish(&pair, op);

	assert_true(result.status == TOW_OK || result.status == TOW_ECLOSED ||
		    result.status == TOW_EPEER || result.status == TOW_ECANCELED);
}

static void close_crossed(uint32_t number, int first)
{
	struct tow_op_options options[2] = { TOW_OP_OPTIONS_INIT, TOW_OP_OPTIONS_INIT };
	struct tow_op *ops[2][MANY];
	struct tow_channel *channel[2];

	for (int i = 0; i < 2; i++) {
		TWT_OK(tow_channel_open(pair.peer[i], number, &channel[i]));
		options[i].channel = channel[i];
	}
	for (int i = 0; i < MANY; i++) {
		TWT_OK(tow_recv_start(pair.peer[1], to, BYTES, 1, &options[1], &ops[1][i]));
		TWT_OK(tow_send_start(pair.peer[0], from, BYTES, 1, &options[0], &ops[0][i]));
	}
	for (uint32_t i = 0; i < number % 7; i++)
		twt_lane_drive(&pair, 1000);
	TWT_OK(tow_channel_close(channel[first]));
	TWT_OK(tow_channel_close(channel[1 - first]));
	for (int i = 0; i < MANY; i++) {
		must_end(ops[0][i]);
		must_end(ops[1][i]);
	}
}

static void test_lane(void **state)
{
	uint64_t word = 7, in = 0;
	struct tow_op *recv, *send;

	twt_lane_init(&pair, *state);
	if (!twt_lane_open(&pair))
		skip();
	twt_lane_join(&pair);
	for (uint32_t i = 1; i <= ROUNDS; i++)
		close_crossed(i, (int)(i % 2));
	TWT_OK(tow_recv_start(pair.peer[1], &in, sizeof(in), 9, NULL, &recv));
	TWT_OK(tow_send_start(pair.peer[0], &word, sizeof(word), 9, NULL, &send));
	assert_int_equal(twt_lane_finish(&pair, recv).status, TOW_OK);
	assert_int_equal(twt_lane_finish(&pair, send).status, TOW_OK);
	assert_int_equal(in, word);
	twt_lane_close(&pair);
}

int main(void)
{
	int failed;

	from = calloc(1, BYTES);
	to = calloc(1, BYTES);
	failed = twt_lane_main(test_lane);
	free(from);
	free(to);
	return failed;
}
