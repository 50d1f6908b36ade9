/*
 * test_channel_filling.c - a small message comes in parts while its channel is closed: its receive
 * ends, and a receive of any peer that waits behind it gets nothing of it. On a virtual clock, over
 * a pipe that is shorter than the message.
 */
#include "pair.h"

#include <towline/channel.h>
#include <towline/match.h>

#include "transport/engine/runtime.h"
#include "transport/message/inbox.h"
#include "transport/sim/loop_sim.h"

#define BYTES  10000
#define ROUNDS 40

static struct tow_runtime *runtime;
static struct tow_endpoint *ends[2];
static struct tow_peer *sender, *receiver;

static int open_pair(void **state)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct twi_loop_config config = { .seed = 1,
					  .pipe_bytes = 1000,
					  .channels = 1,
					  .delay_min_ns = 1000,
					  .delay_max_ns = 1000 };
	struct tow_op *connect, *accept;

	(void)state;
	options.huge_pages = 0;
	options.eager_max_bytes = 16384;
	TWT_OK(twi_runtime_open_sim(&options, &runtime));
	twi_loop_configure(twi_runtime_engine(runtime), &config);
	TWT_OK(tow_endpoint_open(runtime, "loop://a", &ends[0]));
	TWT_OK(tow_endpoint_open(runtime, "loop://b", &ends[1]));
	TWT_OK(tow_accept_start(ends[1], NULL, &accept));
	TWT_OK(tow_connect_start(ends[0], "loop://b", NULL, &connect));
	sender = twt_finish_peer(connect);
	receiver = twt_finish_peer(accept);
	return 0;
}

static int close_pair(void **state)
{
	(void)state;
	TWT_OK(tow_runtime_close(runtime));
	return 0;
}

/* Closes it so long after the send. Was the message just coming? */
static bool close_after(uint64_t ns, uint32_t number)
{
	static uint8_t message[BYTES], room[2][BYTES];
	struct tow_part parts[2] = { { room[0], BYTES }, { room[1], BYTES } };
	struct tow_match match = TOW_MATCH_INIT;
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_channel *ours, *theirs;
	struct tow_op *named, *any, *send;
	bool coming;
	int status;

	TWT_OK(tow_channel_open(receiver, number, &ours));
	TWT_OK(tow_channel_open(sender, number, &theirs));
	match.channel = number;
	match.peer = receiver;
	TWT_OK(tow_recv_match_start(ends[1], &match, &parts[0], 1, NULL, &named));
	match.peer = NULL;
	TWT_OK(tow_recv_match_start(ends[1], &match, &parts[1], 1, NULL, &any));
	assert_int_equal(tow_op_wait(any, 1000000), TOW_ETIMEDOUT);
	options.channel = theirs;
	TWT_OK(tow_send_start(sender, message, BYTES, 0, &options, &send));
	assert_int_equal(tow_op_wait(any, ns), TOW_ETIMEDOUT);
	coming = receiver->inbox->filling.left > 0;
	TWT_OK(tow_channel_close(ours));
	status = twt_finish(named, NULL);
	assert_true(status == TOW_ECLOSED || (status == TOW_OK && !coming));
	assert_int_equal(tow_op_wait(any, 10000000), TOW_ETIMEDOUT);
	TWT_OK(tow_op_cancel(any));
	assert_int_equal(twt_finish(any, NULL), TOW_ECANCELED);
	(void)twt_finish(send, NULL);
	TWT_OK(tow_channel_close(theirs));
	return coming;
}

static void test_rest_is_dropped(void **state)
{
	unsigned coming = 0;

	(void)state;
	for (uint32_t i = 0; i < ROUNDS; i++)
		coming += close_after(1 + i * 500, 1 + i);
	assert_in_range(coming, ROUNDS / 8, ROUNDS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_rest_is_dropped, open_pair, close_pair),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
