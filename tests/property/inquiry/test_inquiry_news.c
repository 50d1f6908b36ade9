/*
 * test_inquiry_news.c - what a rank tells of a verdict's news: read is what was written, whatever
 * else comes is refused or harmless, and old news are none.
 *
 * TOW_TEST_SEED replays.
 */
#include "twt.h"

#include <string.h>

#include "transport/inquiry/inquiry.h"

#define CASES 20000u
#define DAY_S 86400u

static uint64_t random_state;

static uint32_t random_word(void)
{
	return (uint32_t)twt_random(&random_state);
}

static void read_is_written(void **state)
{
	(void)state;
	for (unsigned i = 0; i < CASES; i++) {
		uint64_t now = 1700000000ull + random_word();
		struct twi_inquiry_news news = {
			.unix_s = now + twt_random_below(&random_state, 2 * DAY_S) - DAY_S,
			.cause = (enum twi_cause)twt_random_below(&random_state, TWI_CAUSES),
			.rank = random_word(),
			.peer = i % 2 == 0 ? UINT32_MAX : random_word()
		};
		uint8_t bytes[TWI_INQUIRY_NEWS + 8] = { 0 };
		struct twi_inquiry_news back;

		twi_inquiry_news_write(&news, bytes);
		for (size_t count = 0; count <= sizeof(bytes); count++)
			assert_int_equal(twi_inquiry_news_read(bytes, count, now, &back),
					 count >= TWI_INQUIRY_NEWS);
		assert_true(back.unix_s == news.unix_s && back.cause == news.cause &&
			    back.rank == news.rank && back.peer == news.peer);
		/* A day and more away it makes no folder. */
		assert_false(twi_inquiry_news_read(bytes, sizeof(bytes), now + 3 * DAY_S, &back));
		assert_false(twi_inquiry_news_read(bytes, sizeof(bytes), now - 3 * DAY_S, &back));
	}
}

static void any_bytes(void **state)
{
	(void)state;
	for (unsigned i = 0; i < CASES; i++) {
		uint64_t now = 1700000000ull + random_word();
		uint8_t bytes[TWI_INQUIRY_NEWS];
		struct twi_inquiry_news back;

		for (size_t at = 0; at < sizeof(bytes); at++)
			bytes[at] = (uint8_t)(twt_random(&random_state) >> 32);
		if (i % 2 == 0) /* a time that is good */
			for (size_t at = 0; at < 8; at++)
				bytes[at] = (uint8_t)(now >> (8 * at));
		if (i % 4 == 0)
			memset(bytes + 9, 0, 3); /* a small cause */
		if (!twi_inquiry_news_read(bytes, sizeof(bytes), now, &back))
			continue;
		assert_true((unsigned)back.cause < TWI_CAUSES);
		assert_non_null(twi_cause_name(back.cause));
		assert_true(back.unix_s >= now - DAY_S && back.unix_s <= now + DAY_S);
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
