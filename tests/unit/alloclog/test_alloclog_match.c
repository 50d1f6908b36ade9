/* test_alloclog_match.c - which allocation and free belong together, late frees included. */
#include "twt.h"

#include "memreg/alloclog/alloclog_match.h"
#include <internal/base.h>
#include <towline/status.h>

#define NONE TWI_ALLOCLOG_NO_MATCH

static struct twi_alloclog_match match;

static uint32_t add(uint64_t ns, uint64_t address, enum twi_alloc_kind kind)
{
	struct twi_alloclog_rec rec = { .ns = ns,
					.address = address,
					.what = (uint64_t)kind << 62 | 100 };
	uint64_t taken = 128;
	uint32_t found = twi_alloclog_match_add(&match, &rec, &taken);

	assert_int_equal(taken, 128); /* 100 bytes in units of 64 */
	return found;
}

static int begin(void **state)
{
	(void)state;
	return twi_alloclog_match_begin(&match, 64);
}

static int end(void **state)
{
	(void)state;
	twi_alloclog_area_fini(&match.area);
	match = (struct twi_alloclog_match){ 0 };
	return 0;
}

static void in_order(void **state)
{
	(void)state;
	assert_int_equal(add(1, 64, TWI_ALLOC_FREE), NONE); /* of something older */
	assert_int_equal(add(2, 64, TWI_ALLOC_ALLOC), NONE);
	assert_int_equal(add(3, 128, TWI_ALLOC_ALLOC), NONE);
	assert_int_equal(add(4, 7, TWI_ALLOC_STEP), NONE);
	assert_int_equal(add(5, 64, TWI_ALLOC_FREE), 1);
	assert_int_equal(add(6, 64, TWI_ALLOC_ALLOC), NONE);
	assert_int_equal(add(7, 128, TWI_ALLOC_FREE), 2);
	assert_int_equal(add(7, 64, TWI_ALLOC_FREE), 5);
	/* The next round knows nothing of this one. */
	assert_int_equal(add(8, 64, TWI_ALLOC_ALLOC), NONE);
	assert_int_equal(begin(NULL), TOW_OK);
	assert_int_equal(add(9, 64, TWI_ALLOC_FREE), NONE);
}

/* The free between two allocations is missing: which of them the next free ends is not known. */
static void free_comes_after_next(void **state)
{
	(void)state;
	assert_int_equal(add(1, 64, TWI_ALLOC_ALLOC), NONE);
	assert_int_equal(add(3, 64, TWI_ALLOC_ALLOC), NONE);
	assert_int_equal(add(4, 64, TWI_ALLOC_FREE), NONE);
	assert_int_equal(add(2, 64, TWI_ALLOC_FREE), NONE);
	assert_int_equal(add(5, 64, TWI_ALLOC_ALLOC), NONE);
	assert_int_equal(add(6, 64, TWI_ALLOC_FREE), 4);
}

/* A free that comes later still is older than the allocation before it, and does not end it. */
static void free_is_older(void **state)
{
	(void)state;
	assert_int_equal(add(1, 64, TWI_ALLOC_ALLOC), NONE);
	assert_int_equal(add(3, 64, TWI_ALLOC_ALLOC), NONE);
	assert_int_equal(add(4, 64, TWI_ALLOC_FREE), NONE);
	assert_int_equal(add(5, 64, TWI_ALLOC_ALLOC), NONE);
	assert_int_equal(add(2, 64, TWI_ALLOC_FREE), NONE);
	assert_int_equal(add(6, 64, TWI_ALLOC_FREE), NONE);
	assert_int_equal(add(7, 64, TWI_ALLOC_ALLOC), NONE);
	assert_int_equal(add(8, 64, TWI_ALLOC_FREE), 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(in_order, begin, end),
		cmocka_unit_test_setup_teardown(free_comes_after_next, begin, end),
		cmocka_unit_test_setup_teardown(free_is_older, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
