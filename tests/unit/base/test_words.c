/* test_words.c - numbers for sentences: separators, units, rounding, the largest. */
#include "twt.h"

#include <string.h>

#include "diag/base/error.h"
#include "diag/base/words.h"

static void counts(void **state)
{
	static const struct {
		uint64_t count;
		const char *text;
	} rows[] = {
		{ 0, "0" },
		{ 7, "7" },
		{ 999, "999" },
		{ 1000, "1,000" },
		{ 1204, "1,204" },
		{ 99999, "99,999" },
		{ 100000, "100,000" },
		{ 1234567, "1,234,567" },
		{ UINT64_MAX, "18,446,744,073,709,551,615" },
	};
	char text[TWI_WORDS_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		twi_words_count(rows[i].count, text);
		assert_string_equal(text, rows[i].text);
	}
}

static void bytes(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} rows[] = {
		{ 0, "0 B" },
		{ 1023, "1,023 B" },
		{ 1024, "1 KiB" },
		{ 1536, "1.5 KiB" },
		{ 10239, "10 KiB" }, /* 9.999 */
		{ 1023u << 10, "1,023 KiB" },
		{ (1u << 20) - 1, "1 MiB" }, /* not 1,024 KiB */
		{ 3328599654u, "3.1 GiB" },
		{ 64ull << 30, "64 GiB" },
		{ UINT64_MAX, "16 EiB" },
	};
	char text[TWI_WORDS_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		twi_words_bytes(rows[i].bytes, text);
		assert_string_equal(text, rows[i].text);
	}
}

static void times(void **state)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} rows[] = {
		{ 0, "0 ns" },           { 999, "999 ns" },       { 1000, "1 us" },
		{ 1250, "1.3 us" },      { 999499, "999 us" },    { 999500, "1 ms" },
		{ 410000000, "410 ms" }, { 2500000000, "2.5 s" }, { 1204000000000, "1,204 s" },
	};
	char text[TWI_WORDS_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		twi_words_ns(rows[i].ns, text);
		assert_string_equal(text, rows[i].text);
	}
	twi_words_ns(UINT64_MAX, text);
	assert_string_equal(text, "18,446,744,074 s");
}

/* What is shorter is never more: the same unit or a smaller one, at most the same number. */
static void grows(void **state)
{
	uint64_t random = twt_seed();
	char text[TWI_WORDS_BYTES];

	(void)state;
	for (int i = 0; i < 100000; i++) {
		uint64_t value = twt_random(&random) >> twt_random_below(&random, 64);
		unsigned whole, tenth = 0;
		char unit[8];

		twi_words_bytes(value, text);
		if (sscanf(text, "%u.%u %7s", &whole, &tenth, unit) != 3 &&
		    sscanf(text, "1,0%u %7s", &whole, unit) != 2)
			assert_int_equal(sscanf(text, "%u %7s", &whole, unit), 2);
		assert_true(whole < 1024 && tenth < 10);
		assert_non_null(strstr("B KiB MiB GiB TiB PiB EiB", unit));
	}
}

/* Printable ASCII comes through, all else as \\xNN; an escape is whole or not there. */
static void clean(void **state)
{
	static const struct {
		const char *in, *out;
		size_t room;
	} rows[] = {
		{ "plain 'text' ~", "plain 'text' ~", 64 },
		{ "a\nb\x1b[2J\x7f\x9b", "a\\x0ab\\x1b[2J\\x7f\\x9b", 64 },
		{ "cut here", "cut", 4 },
		{ "ab\n", "ab\\x0a", 7 },
		{ "ab\n", "ab", 6 },
		{ "x", "", 1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char out[64];

		memset(out, '!', sizeof(out));
		twi_words_clean(out, rows[i].room, rows[i].in);
		assert_string_equal(out, rows[i].out);
		assert_true(rows[i].room == sizeof(out) || out[rows[i].room] == '!');
	}
	twi_error(TOW_EINVAL, "name '%s'", "\x1b]0;t\x07\n");
	assert_string_equal(tow_error_message(), "name '\\x1b]0;t\\x07\\x0a'");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts), cmocka_unit_test(bytes), cmocka_unit_test(times),
		cmocka_unit_test(grows),  cmocka_unit_test(clean),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
