/*
 * test_step_window.c - the median of the last steps against a plain reference, which keeps all of
 * them and sorts; which step is slow beside it.
 *
 * TOW_TEST_SEED replays.
 */
#include "twt.h"

#include <string.h>

#include "transport/engine/step_window.h"

#define ROUNDS 300u
#define STEPS  400u

static uint64_t random_state;
static uint64_t all[STEPS];

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Of the last of the first `count`; 0: too few. */
static uint64_t plain_median(unsigned count)
{
	unsigned known = count < TWI_STEP_WINDOW ? count : TWI_STEP_WINDOW;
	uint64_t sorted[TWI_STEP_WINDOW];

	if (known < TWI_STEP_KNOWN)
		return 0;
	memcpy(sorted, &all[count - known], known * sizeof(sorted[0]));
	qsort(sorted, known, sizeof(sorted[0]), by_size);
	return sorted[known / 2];
}

static uint64_t random_step(uint64_t spread)
{
	switch (twt_random_below(&random_state, 20)) {
	case 0:
		return twt_random(&random_state); /* any number at all */
	case 1:
		return 0;
	default:
		return 1000 + twt_random_below(&random_state, spread);
	}
}

static void same_as_plain(void **state)
{
	(void)state;
	for (unsigned round = 0; round < ROUNDS; round++) {
		uint64_t spread = 1 + twt_random_below(&random_state, 1u << (round % 20));
		struct twi_step_window window = { 0 };

		for (unsigned i = 0; i < STEPS; i++) {
			uint32_t percent = 101 + (uint32_t)twt_random_below(&random_state, 9900);
			uint64_t median = plain_median(i);

			all[i] = random_step(spread);
			assert_true(twi_step_window_median(&window) == median);
			assert_int_equal(twi_step_window_slow(&window, all[i], percent),
					 median > 0 && median <= UINT64_MAX / percent &&
						 all[i] > median * percent / 100);
			twi_step_window_add(&window, all[i]);
		}
	}
}

/* Seven steps are too few; the eighth makes a median, and exactly twice of it is not more. */
static void edges(void **state)
{
	struct twi_step_window window = { 0 };

	(void)state;
	for (unsigned i = 0; i < TWI_STEP_KNOWN; i++) {
		assert_int_equal(twi_step_window_median(&window), 0);
		assert_false(twi_step_window_slow(&window, UINT64_MAX, 200));
		twi_step_window_add(&window, 100);
	}
	assert_int_equal(twi_step_window_median(&window), 100);
	assert_false(twi_step_window_slow(&window, 200, 200));
	assert_true(twi_step_window_slow(&window, 201, 200));
	/* What has become usual is slow no more. */
	for (unsigned i = 0; i < TWI_STEP_WINDOW / 2; i++)
		twi_step_window_add(&window, 1000);
	assert_true(twi_step_window_slow(&window, 1000, 200) ==
		    (twi_step_window_median(&window) == 100));
	for (unsigned i = 0; i < TWI_STEP_WINDOW; i++)
		twi_step_window_add(&window, 1000);
	assert_false(twi_step_window_slow(&window, 1000, 200));
}

/* Small jitter is never slow, whatever it is made of. */
static void jitter(void **state)
{
	struct twi_step_window window = { 0 };

	(void)state;
	for (unsigned i = 0; i < 20000; i++) {
		uint64_t took = 1000000 + twt_random_below(&random_state, 900000);

		assert_false(twi_step_window_slow(&window, took, 200));
		twi_step_window_add(&window, took);
	}
	assert_true(twi_step_window_slow(&window, 4000000, 200));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_as_plain),
		cmocka_unit_test(edges),
		cmocka_unit_test(jitter),
	};

	random_state = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
