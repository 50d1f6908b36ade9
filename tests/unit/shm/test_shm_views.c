/*
 * test_shm_views.c - views over the shm lane: of memory that is lent, where the receiver looks at
 * the sender's own bytes, and of all other, which is copied.
 */
#include "shm_pair.h"

#define LARGE  (3u << 20)
#define MIDDLE (100u << 10)

static uint64_t leased(int i)
{
	struct twi_pool_stats stats;

	twi_pool_stats(twi_runtime_engine(twt_shm.runtime[i])->pool, &stats);
	return stats.leased;
}

/* A view of a lent one is the sender's memory itself, leased until it is given back. */
static void test_view(void **state)
{
	uint8_t *out = twt_shm_take(0, LARGE);
	struct tow_result result;
	struct tow_op *send, *view;
	uint64_t copied = twt_shm_counted(1, TWI_C_necessary_copy_bytes);

	(void)state;
	twt_fill(out, LARGE, 9);
	send = twt_shm_lend(0, out, LARGE, 1);
	view = twt_shm_view(1, 1);
	assert_int_equal(twt_shm_finish(view, &result, true), TOW_OK);
	assert_int_equal(result.bytes, LARGE);
	assert_true(twt_same(result.data, LARGE, 9));
	/* the library's own messages, which tell the time, are small */
	assert_true(twt_shm_counted(1, TWI_C_necessary_copy_bytes) - copied < 4096);
	assert_int_equal(twt_shm_finish(send, NULL, false), TOW_OK);
	assert_true(leased(0) > 0);
	TWT_OK(tow_free(twt_shm.runtime[0], out)); /* deferred */
	assert_true(twt_same(result.data, LARGE, 9));
	TWT_OK(tow_view_release(view));
	twt_shm_settle();
	assert_int_equal(leased(0), 0);
	assert_int_equal(twt_shm_inside(0)->offer_count, 0);
}

/*
 * A send that has not lent its memory may write there when it has completed: its view is a copy,
 * counted with its cure.
 */
static void test_view_unlent(void **state)
{
	uint8_t *out = twt_shm_take(0, LARGE);
	uint64_t before = twt_shm_reasons(1, TWI_R_view_unlent);
	struct tow_result result;
	struct tow_op *send, *view;

	(void)state;
	for (int posted = 0; posted < 2; posted++) {
		twt_fill(out, LARGE, 9);
		view = posted ? twt_shm_view(1, 1) : NULL;
		send = twt_shm_send(0, out, LARGE, 1);
		twt_shm_settle();
		view = view != NULL ? view : twt_shm_view(1, 1);
		assert_int_equal(twt_shm_finish(view, &result, true), TOW_OK);
		assert_int_equal(twt_shm_finish(send, NULL, false), TOW_OK);
		assert_int_equal(leased(0), 0);
		memset(out, 0, LARGE);
		assert_int_equal(result.bytes, LARGE);
		assert_true(twt_same(result.data, LARGE, 9));
		TWT_OK(tow_view_release(view));
		assert_true(twt_shm_reasons(1, TWI_R_view_unlent) > before);
		before = twt_shm_reasons(1, TWI_R_view_unlent);
	}
	TWT_OK(tow_free(twt_shm.runtime[0], out));
}

/* Small messages, and ones that are not in the pool, have memory of the receiver's pool. */
static void test_view_copied(void **state)
{
	static const uint64_t sizes[] = { 0, 1, 40, 41, 5000, MIDDLE };
	uint8_t *heap = malloc(MIDDLE);
	struct tow_result result;

	(void)state;
	for (size_t i = 0; i < twi_array_count(sizes); i++) {
		for (int way = 0; way < 3; way++) {
			struct tow_op *send, *view;

			twt_shm_inside(0)->remote_mine = way != 2;
			twt_fill(heap, sizes[i], i);
			view = way != 0 ? twt_shm_view(1, 1) : NULL;
			send = twt_shm_send(0, heap, sizes[i], 1);
			twt_shm_settle();
			view = view != NULL ? view : twt_shm_view(1, 1);
			assert_int_equal(twt_shm_finish(view, &result, true), TOW_OK);
			assert_int_equal(twt_shm_finish(send, NULL, false), TOW_OK);
			assert_int_equal(result.bytes, sizes[i]);
			memset(heap, 0, sizes[i]);
			assert_true(twt_same(result.data, sizes[i], i));
			TWT_OK(tow_view_release(view));
		}
	}
	free(heap);
}

/* The sender closes with a view out: the view's bytes can be read until its release. */
static void test_view_outlives_peer(void **state)
{
	uint8_t *out = twt_shm_take(0, LARGE);
	struct tow_result result;
	struct tow_op *send, *view;

	(void)state;
	twt_fill(out, LARGE, 9);
	send = twt_shm_lend(0, out, LARGE, 1);
	view = twt_shm_view(1, 1);
	assert_int_equal(twt_shm_finish(view, &result, true), TOW_OK);
	assert_int_equal(twt_shm_finish(send, NULL, false), TOW_OK);
	TWT_OK(tow_peer_close(twt_shm.peer[0]));
	assert_int_equal(leased(0), 0);
	twt_shm_settle();
	assert_int_equal(twt_shm_inside(1)->base.ended, TOW_EPEER);
	TWT_OK(tow_peer_close(twt_shm.peer[1]));
	assert_true(twt_same(result.data, LARGE, 9));
	TWT_OK(tow_view_release(view));
	assert_true(
		twi_list_empty(&twi_shm_lane_of(twi_runtime_engine(twt_shm.runtime[1]))->links));
	TWT_OK(tow_free(twt_shm.runtime[0], out));
}

/* A view that is out when its runtime closes goes with it. */
static void test_view_at_close(void **state)
{
	uint8_t *out = twt_shm_take(0, LARGE);
	struct tow_op *send, *view;

	(void)state;
	send = twt_shm_lend(0, out, LARGE, 1);
	view = twt_shm_view(1, 1);
	assert_int_equal(twt_shm_finish(view, NULL, true), TOW_OK);
	assert_int_equal(twt_shm_finish(send, NULL, false), TOW_OK);
	TWT_OK(tow_free(twt_shm.runtime[0], out));
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, twt_shm_open, twt_shm_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_view),          CASE(test_view_unlent),
		CASE(test_view_copied),   CASE(test_view_outlives_peer),
		CASE(test_view_at_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
