/*
 * test_base.c - internal/base.h: the least and the greatest of two numbers, whose expressions may
 * do something: each is evaluated once, in whichever place it stands.
 */
#include "twt.h"

#include <internal/base.h>

/* What has a side effect: a bell that rings once, as a timer does. */
static uint64_t ring(unsigned *rung)
{
	return (*rung)++ == 0 ? 10 : UINT64_MAX;
}

static void test_once(void **state)
{
	unsigned rung = 0;
	uint64_t other = 20;

	(void)state;
	assert_int_equal(twi_min(other, ring(&rung)), 10);
	assert_int_equal(rung, 1);
	rung = 0;
	assert_int_equal(twi_min(ring(&rung), other), 10);
	assert_int_equal(rung, 1);
	rung = 0;
	assert_int_equal(twi_max(other, ring(&rung)), 20);
	assert_int_equal(twi_max(ring(&rung), other), UINT64_MAX);
	assert_int_equal(rung, 2);
}

static void test_nested(void **state)
{
	unsigned rung = 0;

	(void)state;
	assert_int_equal(twi_min(twi_max(ring(&rung), (uint64_t)5), twi_min(30, 40)), 10);
	assert_int_equal(twi_max(twi_min(-3, 4), twi_max(-7, -5)), -3);
	assert_int_equal(rung, 1);
}

/* The type is that of both, as of a sum. */
static void test_types(void **state)
{
	uint32_t small = 7;
	uint64_t large = 1ull << 40;

	(void)state;
	assert_int_equal(twi_max(small, large), 1ull << 40);
	assert_int_equal(twi_min(small, large), 7);
	_Static_assert(sizeof(twi_min((uint32_t)1, (uint64_t)2)) == 8, "the wider of two types");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_once),
		cmocka_unit_test(test_nested),
		cmocka_unit_test(test_types),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
