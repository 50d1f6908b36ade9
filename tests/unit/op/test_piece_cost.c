/*
 * test_piece_cost.c - how a collective's pieces are written for other cores: through the caches,
 * unless reading them costs so much that memory passes them on sooner; and again after a while.
 */
#include "lane_pair.h"

#include <string.h>

#include "transport/op/path.h"

#define PIECE (256u << 10)
#define NEAR  (PIECE / 16) /* ns: 0.06 a byte */
#define FAR   (PIECE / 2)  /* ns: 0.5 a byte */

static struct twt_lane_pair pair;
static struct twi_engine *engine;

static int open_pair(void **state)
{
	(void)state;
	twt_lane_init(&pair, &twt_lane_rows[TWT_LANE_ROW_SHM]);
	TWT_OK(twt_lane_open_side(&pair, 0));
	engine = twi_runtime_engine(pair.runtime[0]);
	return 0;
}

static int close_pair(void **state)
{
	(void)state;
	TWT_OK(tow_runtime_close(pair.runtime[0]));
	return 0;
}

static void read_pieces(unsigned count, uint64_t ns)
{
	for (unsigned i = 0; i < count; i++)
		twi_path_piece_read(engine, ns, PIECE);
}

static void copy_pieces(unsigned count, bool outside)
{
	static uint8_t from[PIECE + 3], to[PIECE + 3];
	const struct twi_site site = { 0 };

	for (unsigned i = 0; i < count; i++) {
		uint64_t bytes = PIECE - i % 200, at = i % 4;

		twt_fill(from + at, bytes, i);
		twi_path_copy_piece(engine, outside, to + at, from + at, bytes, site);
		assert_int_equal(twt_check(to + at, bytes, i), 0);
	}
}

static void test_near(void **state)
{
	(void)state;
	read_pieces(500, NEAR);
	assert_int_equal(engine->pieces_around, 0);
	/* Some that took long, as their thread had lost its CPU, change nothing. */
	for (unsigned i = 0; i < 100; i++) {
		read_pieces(9, NEAR);
		read_pieces(1, 1000 * FAR);
	}
	assert_int_equal(engine->pieces_around, 0);
	copy_pieces(4, true);
	assert_int_equal(engine->pieces_around, 0);
}

static void test_far(void **state)
{
	uint32_t around;

	(void)state;
	read_pieces(500, FAR);
	around = engine->pieces_around;
	assert_in_range(around, 1000, 10000);
	/* What is read then says nothing of the caches. */
	read_pieces(500, NEAR);
	assert_int_equal(engine->pieces_around, around);
	copy_pieces(100, true);
	copy_pieces(100, false);
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx2"))
		assert_int_equal(engine->pieces_around, around - 200);
#endif
	engine->pieces_around = 0; /* the last of them: the threads are on other cores now */
	read_pieces(500, NEAR);
	assert_int_equal(engine->pieces_around, 0);
}

static void test_learns(void **state)
{
	uint32_t cost = 0;

	(void)state;
	twi_path_learn(&cost, 1024, 1024);
	assert_int_equal(cost, 1000 * 1024);
	for (unsigned i = 0; i < 500; i++)
		twi_path_learn(&cost, 64, 1024);
	assert_in_range(cost, 50 * 1024, 80 * 1024);
	for (unsigned i = 0; i < 500; i++)
		twi_path_learn(&cost, UINT64_MAX, 1);
	assert_in_range(cost, UINT32_MAX / 2, UINT32_MAX);
	for (unsigned i = 0; i < 1000; i++)
		twi_path_learn(&cost, 0, UINT64_MAX);
	assert_in_range(cost, 1, 32);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_near, open_pair, close_pair),
		cmocka_unit_test_setup_teardown(test_far, open_pair, close_pair),
		cmocka_unit_test(test_learns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
