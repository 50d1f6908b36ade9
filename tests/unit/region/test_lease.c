/* test_lease.c - the hold word: every transition, and every refusal. */
#include "twt.h"

#include "memreg/region/lease.h"

static void alloc_free_ends_once(void **state)
{
	_Atomic uint32_t hold = 0;

	(void)state;
	assert_int_equal(twi_hold_free(&hold), TOW_EFREED);
	assert_int_equal(twi_hold_lease(&hold), TOW_EFREED);
	assert_int_equal(twi_hold_release(&hold), TOW_EINVAL);
	twi_hold_begin(&hold);
	assert_int_equal(twi_hold_free(&hold), TWI_HOLD_ENDED);
	assert_int_equal(twi_hold_free(&hold), TOW_EFREED);
	assert_int_equal(hold, 0);
}

static void free_waits_for_the_last_lease(void **state)
{
	_Atomic uint32_t hold = 0;

	(void)state;
	twi_hold_begin(&hold);
	assert_int_equal(twi_hold_lease(&hold), TWI_HOLD_FIRST);
	assert_int_equal(twi_hold_lease(&hold), TOW_OK);
	assert_int_equal(twi_hold_free(&hold), TWI_HOLD_DEFERRED);
	assert_int_equal(twi_hold_free(&hold), TOW_EFREED);
	assert_int_equal(twi_hold_lease(&hold), TOW_EFREED);
	assert_int_equal(twi_hold_release(&hold), TOW_OK);
	assert_int_equal(twi_hold_release(&hold), TWI_HOLD_ENDED);
	assert_int_equal(hold, 0);
}

static void leases_come_and_go(void **state)
{
	_Atomic uint32_t hold = 0;

	(void)state;
	twi_hold_begin(&hold);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(twi_hold_lease(&hold), TWI_HOLD_FIRST);
		assert_int_equal(twi_hold_release(&hold), TWI_HOLD_LAST);
		assert_int_equal(twi_hold_release(&hold), TOW_EINVAL);
	}
	assert_int_equal(twi_hold_free(&hold), TWI_HOLD_ENDED);
}

static void count_cannot_overflow(void **state)
{
	_Atomic uint32_t hold = TWI_HOLD_LIVE | (TWI_HOLD_LEASES - 1);

	(void)state;
	assert_int_equal(twi_hold_lease(&hold), TOW_OK);
	assert_int_equal(twi_hold_lease(&hold), TOW_EBUSY);
	assert_int_equal(hold, TWI_HOLD_LIVE | TWI_HOLD_LEASES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(alloc_free_ends_once),
		cmocka_unit_test(free_waits_for_the_last_lease),
		cmocka_unit_test(leases_come_and_go),
		cmocka_unit_test(count_cannot_overflow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
