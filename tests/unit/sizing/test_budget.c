/* test_budget.c - the sum of a pool's consumers: its lines, its rounding, its bounds. */
#include "twt.h"

#include <string.h>

#include "memreg/sizing/budget.h"

static void sums(void **state)
{
	struct twi_budget budget = { .count = 0 };

	(void)state;
	assert_int_equal(twi_budget_sum(&budget), 0);
	twi_budget_add(&budget, 1000, "a", "one");
	twi_budget_add(&budget, 24, "b", "two");
	assert_int_equal(budget.count, 2);
	assert_string_equal(budget.line[1].name, "b");
	assert_string_equal(budget.line[1].why, "two");
	assert_int_equal(twi_budget_sum(&budget), 1024);
}

static void rounds(void **state)
{
	struct twi_budget budget = { .count = 0 };

	(void)state;
	twi_budget_add(&budget, 5000, "a", "");
	assert_int_equal(twi_budget_round(&budget, 0, 4096, "rest", ""), 8192);
	assert_int_equal(budget.line[1].bytes, 3192);
	/* There is nothing to add: no line of nothing. */
	assert_int_equal(twi_budget_round(&budget, 100, 4096, "rest", ""), 8192);
	assert_int_equal(budget.count, 2);
	assert_int_equal(twi_budget_round(&budget, 8193, 4096, "rest", ""), 12288);
	assert_int_equal(twi_budget_sum(&budget), 12288);
}

static void saturates(void **state)
{
	struct twi_budget budget = { .count = 0 };

	(void)state;
	twi_budget_add(&budget, UINT64_MAX - 1, "a", "");
	twi_budget_add(&budget, 3, "b", "");
	assert_true(twi_budget_sum(&budget) == UINT64_MAX);
	assert_true(twi_budget_round(&budget, 0, 4096, "rest", "") == UINT64_MAX);
}

static void loses_nothing(void **state)
{
	struct twi_budget budget = { .count = 0 };

	(void)state;
	for (int i = 0; i < TWI_BUDGET_LINES + 5; i++)
		twi_budget_add(&budget, 10, "line", "");
	assert_int_equal(budget.count, TWI_BUDGET_LINES);
	assert_int_equal(twi_budget_sum(&budget), 10 * (TWI_BUDGET_LINES + 5));
}

static void cuts_names(void **state)
{
	struct twi_budget budget = { .count = 0 };
	char name[200];

	(void)state;
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	twi_budget_add(&budget, 1, name, name);
	assert_int_equal(strlen(budget.line[0].name), sizeof(budget.line[0].name) - 1);
	assert_int_equal(strlen(budget.line[0].why), sizeof(budget.line[0].why) - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums),       cmocka_unit_test(rounds),
		cmocka_unit_test(saturates),  cmocka_unit_test(loses_nothing),
		cmocka_unit_test(cuts_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
