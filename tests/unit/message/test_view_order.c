/*
 * Views that wait for room keep their messages, also when several of them look for room at a time:
 * a later receive of such a tag waits with them (match.h). Found by test_sim_programs.
 */
#include "pair.h"

#include "transport/engine/runtime.h"

#define MS     1000000ull
#define BLOCKS 64

static struct tow_runtime *runtime;
static struct tow_endpoint *ends[2];
static struct tow_peer *sender, *receiver;
static void *blocks[BLOCKS];

/* A connection on a virtual clock, with a pool of 1 MiB. */
static int open_pair(void **state)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_op *connect, *accept;

	(void)state;
	options.premap_memory_bytes = options.premap_limit_bytes = 1 << 20;
	options.huge_pages = 0;
	TWT_OK(twi_runtime_open_sim(&options, &runtime));
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

static void fill_pool(void)
{
	int count = 0;

	for (size_t bytes = 1 << 20; bytes >= 64; bytes /= 2) {
		while (count < BLOCKS && tow_alloc(runtime, bytes, 0, &blocks[count]) == TOW_OK)
			count++;
	}
	assert_in_range(count, 1, BLOCKS - 1);
}

static void empty_pool(void)
{
	for (int i = 0; i < BLOCKS; i++) {
		if (blocks[i] != NULL)
			TWT_OK(tow_free(runtime, blocks[i]));
		blocks[i] = NULL;
	}
}

static void finish_view(struct tow_op *view, uint64_t tag, uint64_t bytes)
{
	struct tow_result result = TOW_RESULT_INIT;

	assert_int_equal(twt_wait_for(view, &result), TOW_OK);
	assert_int_equal(result.tag, tag);
	assert_int_equal(result.bytes, bytes);
	TWT_OK(tow_view_release(view));
}

static void test_later_receive_waits(void **state)
{
	static uint8_t message[40000], room[40000];
	struct tow_match even = TOW_MATCH_INIT;
	struct tow_op *first, *second, *later, *large, *small;

	(void)state;
	fill_pool();
	even.peer = receiver;
	even.tag_mask = 1;
	TWT_OK(tow_recv_view_start(receiver, 0, NULL, &first));
	TWT_OK(tow_recv_match_start(ends[1], &even, NULL, 0, NULL, &second));
	TWT_OK(tow_send_start(sender, message, sizeof(message), 2, NULL, &large));
	TWT_OK(tow_send_start(sender, message, 47, 0, NULL, &small));
	TWT_OK(tow_recv_start(receiver, room, sizeof(room), 2, NULL, &later));
	/* Both views have looked for room again and again. */
	assert_int_equal(tow_op_wait(later, 20 * MS), TOW_ETIMEDOUT);
	assert_int_equal(tow_op_test(first), TOW_AGAIN);
	assert_int_equal(tow_op_test(second), TOW_AGAIN);
	empty_pool();
	finish_view(first, 0, 47);
	finish_view(second, 2, sizeof(message));
	assert_int_equal(tow_op_test(later), TOW_AGAIN);
	TWT_OK(tow_op_cancel(later));
	assert_int_equal(twt_finish(later, NULL), TOW_ECANCELED);
	TWT_OK(twt_finish(large, NULL));
	TWT_OK(twt_finish(small, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_later_receive_waits, open_pair, close_pair),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
