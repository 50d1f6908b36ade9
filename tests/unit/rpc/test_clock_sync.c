/*
 * test_clock_sync.c - the offset of two clocks: the examples that can be done by hand, and what is
 * refused. tests/property/rpc/test_clock_sync.c has the law.
 */
#include "twt.h"

#include "transport/rpc/clock_sync.h"

static struct twi_clock_sync made(void)
{
	return (struct twi_clock_sync){ 0 };
}

static void test_nothing_is_known(void **state)
{
	struct twi_clock_sync sync = made();
	struct twi_clock_estimate estimate;

	(void)state;
	assert_false(twi_clock_sync_read(&sync, 5, &estimate));
}

static void test_even_ways(void **state)
{
	struct twi_clock_sync sync = made();
	struct twi_clock_estimate estimate;

	(void)state;
	/* theirs is 1,000,000 ahead; 500 there, 200 with them, 500 back */
	assert_true(twi_clock_sync_add(&sync, 10000, 1010500, 1010700, 11200));
	assert_true(twi_clock_sync_read(&sync, 11200, &estimate));
	assert_int_equal(estimate.offset_ns, 1000000);
	assert_int_equal(estimate.delay_ns, 1000);
	assert_int_equal(estimate.error_ns, 502);
	assert_int_equal(estimate.age_ns, 0);
	assert_int_equal(twi_clock_ours(&estimate, 1010500), 10500);
}

static void test_theirs_is_behind(void **state)
{
	struct twi_clock_sync sync = made();
	struct twi_clock_estimate estimate;

	(void)state;
	/* all of the delay on the way there: off by half of it, and no more */
	assert_true(twi_clock_sync_add(&sync, 5000000, 1000, 1000, 5000800));
	assert_true(twi_clock_sync_read(&sync, 5000800, &estimate));
	assert_int_equal(estimate.offset_ns, -4999400);
	assert_int_equal(estimate.error_ns, 402);
}

static void test_refused(void **state)
{
	struct twi_clock_sync sync = made();
	struct twi_clock_estimate estimate;

	(void)state;
	assert_false(twi_clock_sync_add(&sync, 100, 50, 60, 99));   /* back before it left */
	assert_false(twi_clock_sync_add(&sync, 100, 60, 50, 200));  /* sent before it came */
	assert_false(twi_clock_sync_add(&sync, 100, 50, 200, 200)); /* longer there than away */
	assert_int_equal(sync.refused, 3);
	assert_false(twi_clock_sync_read(&sync, 200, &estimate));
}

static void test_best_of_the_window(void **state)
{
	struct twi_clock_sync sync = made();
	struct twi_clock_estimate estimate;
	uint64_t t = 0;

	(void)state;
	for (int i = 0; i < 20; i++, t += 1000000) {
		uint64_t delay = i == 15 ? 100 : 10000;

		assert_true(twi_clock_sync_add(&sync, t, t + delay / 2, t + delay / 2, t + delay));
	}
	assert_int_equal(sync.exchanges, 20);
	assert_true(twi_clock_sync_read(&sync, t, &estimate));
	assert_int_equal(estimate.delay_ns, 100);
	assert_int_equal(estimate.offset_ns, 0);
	assert_true(estimate.error_ns < 2000);
	/* much later it is worth less, whatever came with it */
	assert_true(twi_clock_sync_read(&sync, t + 1000000000000ull, &estimate));
	assert_true(estimate.error_ns > 1000000);
}

static void test_stamps_that_wrap(void **state)
{
	struct twi_clock_sync sync = made();
	struct twi_clock_estimate estimate;

	(void)state;
	/* a peer that says anything must not overflow anything */
	assert_true(twi_clock_sync_add(&sync, 10, UINT64_MAX - 5, UINT64_MAX, 100));
	assert_true(twi_clock_sync_read(&sync, 100, &estimate));
	assert_true(estimate.offset_ns < 0 && estimate.offset_ns > -200);
	assert_true(twi_clock_sync_add(&sync, 200, 1ull << 63, 1ull << 63, 300));
	assert_true(twi_clock_sync_add(&sync, 300, 0, 0, 300));
	assert_true(twi_clock_sync_read(&sync, UINT64_MAX, &estimate));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_is_known),   cmocka_unit_test(test_even_ways),
		cmocka_unit_test(test_theirs_is_behind),   cmocka_unit_test(test_refused),
		cmocka_unit_test(test_best_of_the_window), cmocka_unit_test(test_stamps_that_wrap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
