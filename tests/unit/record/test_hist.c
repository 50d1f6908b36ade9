/*
 * test_hist.c - the buckets of a latency histogram: no gap, no overlap, the resolution that its
 * head promises, quantiles that never flatter; and the size classes.
 */
#include "twt.h"

#include "diag/record/hist.h"

static void test_buckets(void **state)
{
	(void)state;
	assert_int_equal(twi_hist_lower(0), 0);
	for (unsigned i = 0; i < TWI_HIST_BUCKETS; i++) {
		uint64_t lower = twi_hist_lower(i), upper = twi_hist_upper(i);

		assert_true(lower <= upper);
		assert_int_equal(twi_hist_index(lower), i);
		assert_int_equal(twi_hist_index(upper), i);
		if (i > 0)
			assert_int_equal(lower, twi_hist_upper(i - 1) + 1);
		/* at most 1/16 of the value wide */
		assert_true(upper - lower <= lower / 16);
	}
	assert_int_equal(twi_hist_upper(TWI_HIST_BUCKETS - 1), (1ull << TWI_HIST_BITS) - 1);
	assert_int_equal(twi_hist_index(UINT64_MAX), TWI_HIST_BUCKETS - 1);
}

static uint64_t quantile(const uint64_t counts[TWI_HIST_BUCKETS], double q)
{
	uint64_t value;

	twi_hist_quantiles(counts, &q, 1, &value);
	return value;
}

/* Random readings against a sorted list. */
static void test_quantiles(void **state)
{
	static const double quantiles[] = { 0, 0.5, 0.9, 0.99, 0.999, 1 };
	uint64_t counts[TWI_HIST_BUCKETS] = { 0 }, values[1000], random = twt_seed();

	(void)state;
	assert_int_equal(quantile(counts, 0.5), 0);
	for (unsigned i = 0; i < 1000; i++) {
		uint64_t value = twt_random(&random) >> (24 + twt_random_below(&random, 36));

		values[i] = value;
		counts[twi_hist_index(value)]++;
		for (unsigned k = i; k > 0 && values[k - 1] > values[k]; k--) {
			value = values[k];
			values[k] = values[k - 1];
			values[k - 1] = value;
		}
	}
	for (unsigned i = 0; i < sizeof(quantiles) / sizeof(quantiles[0]); i++) {
		unsigned rank = (unsigned)(quantiles[i] * 1000);
		uint64_t exact = values[rank < 1000 ? rank : 999];
		uint64_t told = quantile(counts, quantiles[i]);

		assert_true(told >= exact && told <= exact + exact / 16 + 1);
	}
}

static void test_merge(void **state)
{
	uint64_t one[TWI_HIST_BUCKETS] = { 0 }, two[TWI_HIST_BUCKETS] = { 0 };

	(void)state;
	one[3] = 2;
	two[3] = 5;
	two[TWI_HIST_BUCKETS - 1] = 1;
	twi_hist_merge(one, two);
	assert_int_equal(one[3], 7);
	assert_int_equal(one[TWI_HIST_BUCKETS - 1], 1);
}

static void test_size_classes(void **state)
{
	(void)state;
	for (unsigned i = 0; i < TWI_SIZE_CLASSES; i++) {
		assert_int_equal(twi_size_class(twi_size_class_min(i)), i);
		assert_int_equal(twi_size_class(twi_size_class_max(i)), i);
	}
	assert_int_equal(twi_size_class_max(0), 64);
	assert_int_equal(twi_size_class_max(TWI_SIZE_CLASSES - 2), 16 << 20);
	assert_int_equal(twi_size_class_max(TWI_SIZE_CLASSES - 1), UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_buckets),
		cmocka_unit_test(test_quantiles),
		cmocka_unit_test(test_merge),
		cmocka_unit_test(test_size_classes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
