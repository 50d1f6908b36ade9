/*
 * test_inquiry_gone.c - what a rank tells of the one for which it has failed: read is what was
 * written, and whatever else comes is refused, or is text that can be printed.
 *
 * TOW_TEST_SEED replays.
 */
#include "twt.h"

#include <string.h>

#include "transport/inquiry/inquiry.h"

#define CASES 20000u

static uint64_t random_state;

static void read_is_written(void **state)
{
	(void)state;
	for (unsigned i = 0; i < CASES; i++) {
		uint32_t ranks = 1 + (uint32_t)twt_random_below(&random_state, 65536);
		size_t text = 1 + twt_random_below(&random_state, TWI_INQUIRY_WHY - 1);
		struct twi_inquiry_gone gone = { .rank = (uint32_t)twt_random_below(&random_state,
										    ranks) };
		uint8_t bytes[TWI_INQUIRY_GONE];
		struct twi_inquiry_gone back;
		uint32_t count;

		for (size_t at = 0; at < text; at++)
			gone.why[at] = (char)(' ' + twt_random_below(&random_state, 95));
		count = twi_inquiry_gone_write(&gone, bytes);
		assert_int_equal(count, 8 + text);
		assert_true(twi_inquiry_gone_read(bytes, count, ranks, &back));
		assert_int_equal(back.rank, gone.rank);
		assert_string_equal(back.why, gone.why);
		assert_false(twi_inquiry_gone_read(bytes, count, gone.rank, &back));
		assert_false(twi_inquiry_gone_read(bytes, 8, ranks, &back));
	}
}

static void any_bytes(void **state)
{
	(void)state;
	for (unsigned i = 0; i < CASES; i++) {
		uint8_t bytes[TWI_INQUIRY_GONE + 64];
		size_t count = twt_random_below(&random_state, sizeof(bytes) + 1);
		struct twi_inquiry_gone back;

		for (size_t at = 0; at < sizeof(bytes); at++)
			bytes[at] = (uint8_t)(twt_random(&random_state) >> 32);
		if (i % 2 == 0) /* a rank that is good */
			memset(bytes + 1, 0, 3);
		if (!twi_inquiry_gone_read(bytes, count, 1024, &back))
			continue;
		assert_true(back.rank < 1024);
		assert_in_range(strnlen(back.why, TWI_INQUIRY_WHY), 1, TWI_INQUIRY_WHY - 1);
		for (const char *at = back.why; *at != '\0'; at++)
			assert_true(*at >= ' ' && *at < 0x7f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read_is_written),
		cmocka_unit_test(any_bytes),
	};

	random_state = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
