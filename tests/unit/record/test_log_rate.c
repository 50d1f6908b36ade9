/*
 * test_log_rate.c - of lines that are alike one in ten seconds is shown; time is an argument.
 */
#include "twt.h"

#include <stdio.h>

#include "diag/record/log_rate.h"

#define SECOND 1000000000ull

static void test_alike(void **state)
{
	struct twi_log_rate rate = { 0 };
	uint64_t now = 5 * SECOND;
	uint32_t left_out;

	(void)state;
	assert_true(twi_log_rate_pass(&rate, "peer 10.0.0.3:4711 is gone", now, &left_out));
	assert_int_equal(left_out, 0);
	/* other numbers, also of another length, are the same cause */
	assert_false(twi_log_rate_pass(&rate, "peer 10.0.0.3:4711 is gone", now, &left_out));
	assert_false(twi_log_rate_pass(&rate, "peer 10.20.0.4:12 is gone", now + 1, &left_out));
	assert_false(twi_log_rate_pass(&rate, "peer 1.2.3.4:5 is gone", now + 10 * SECOND - 1,
				       &left_out));
	assert_int_equal(rate.left_out, 3);
	/* another cause */
	assert_true(twi_log_rate_pass(&rate, "peer 10.0.0.3:4711 is back", now, &left_out));
	assert_true(twi_log_rate_pass(&rate, "peer 10.0.0.3 is gone", now, &left_out));
	assert_true(twi_log_rate_pass(&rate, "", now, &left_out));
	/* what was left out is told once */
	now += 10 * SECOND;
	assert_true(twi_log_rate_pass(&rate, "peer 9.9.9.9:9 is gone", now, &left_out));
	assert_int_equal(left_out, 3);
	assert_int_equal(rate.left_out, 0);
	now += 10 * SECOND;
	assert_true(twi_log_rate_pass(&rate, "peer 9.9.9.9:9 is gone", now, &left_out));
	assert_int_equal(left_out, 0);
}

/* A different word for each number. */
static const char *word(unsigned number, char text[32])
{
	snprintf(text, 32, "%c%c is lost", 'a' + (char)(number % 26), 'a' + (char)(number / 26));
	return text;
}

static void test_bound(void **state)
{
	struct twi_log_rate rate = { 0 };
	uint64_t now = SECOND;
	unsigned shown = 0;
	uint32_t left_out;
	char text[32];

	(void)state;
	/* a hundred causes within ten seconds: no more than the table has rows */
	for (unsigned i = 0; i < 100; i++)
		shown += twi_log_rate_pass(&rate, word(i, text), now + i, &left_out);
	assert_int_equal(shown, TWI_LOG_CAUSES);
	assert_int_equal(rate.left_out, 100 - TWI_LOG_CAUSES);
	/* the first one may be forgotten, and one of those gets its row; the second may not yet */
	now += 10 * SECOND;
	assert_true(twi_log_rate_pass(&rate, word(99, text), now, &left_out));
	assert_false(twi_log_rate_pass(&rate, word(98, text), now, &left_out));
	assert_false(twi_log_rate_pass(&rate, word(1, text), now, &left_out));
	assert_true(twi_log_rate_pass(&rate, word(1, text), now + 1, &left_out));
	assert_int_equal(left_out, 1);
	/* in any ten seconds as many as there are rows */
	shown = 0;
	for (unsigned i = 0; i < 5000; i++)
		shown += twi_log_rate_pass(&rate, word(i % 600, text),
					   now + 20 * SECOND + i * (SECOND / 100), &left_out);
	assert_true(shown <= 6 * TWI_LOG_CAUSES);
	assert_true(shown >= 4 * TWI_LOG_CAUSES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alike),
		cmocka_unit_test(test_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
