/*
 * test_knob.c - options, environment and defaults: who wins, how values are written, and that a bad
 * one names the knob, the value, where it came from and the range.
 */
#include "twt.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <towline/towline.h>

#include "diag/knob/knob.h"

/* glibc says nothing of the environment to a program that has more rights than its caller. */
static bool privileged;

char *secure_getenv(const char *name)
{
	return privileged ? NULL : getenv(name);
}

static int resolve(struct twi_knobs *out)
{
	return twi_knob_resolve(NULL, out);
}

static void test_order(void **state)
{
	struct tow_options in = TOW_OPTIONS_INIT;
	struct twi_knobs out;

	(void)state;
	unsetenv("TOW_PREMAP_MEMORY_BYTES");
	assert_int_equal(resolve(&out), TOW_OK);
	assert_int_equal(out.premap_memory_bytes, 256 << 20);
	assert_string_equal(out.job, "towline");
	setenv("TOW_PREMAP_MEMORY_BYTES", "2GiB", 1);
	assert_int_equal(resolve(&out), TOW_OK);
	assert_int_equal(out.premap_memory_bytes, 2ll << 30);
	in.premap_memory_bytes = 3 << 20;
	in.job = "mine";
	assert_int_equal(twi_knob_resolve(&in, &out), TOW_OK);
	assert_int_equal(out.premap_memory_bytes, 3 << 20);
	assert_string_equal(out.job, "mine");
	unsetenv("TOW_PREMAP_MEMORY_BYTES");
}

static void test_spelling(void **state)
{
	static const struct {
		const char *env, *text;
		int64_t value;
	} good[] = {
		{ "TOW_PREMAP_MEMORY_BYTES", "1048576", 1 << 20 },
		{ "TOW_PREMAP_MEMORY_BYTES", "64k", -1 }, /* below the range */
		{ "TOW_PREMAP_MEMORY_BYTES", "1.5MiB", 3 << 19 },
		{ "TOW_PREMAP_MEMORY_BYTES", "2 mib", 2 << 20 },
		{ "TOW_PREMAP_MEMORY_BYTES", "3MB", 3000000 },
		{ "TOW_PREMAP_MEMORY_BYTES", "-1", -1 },
		{ "TOW_PREMAP_MEMORY_BYTES", "nan", -1 },
		{ "TOW_PREMAP_MEMORY_BYTES", "0x100000", -1 },
		{ "TOW_PREMAP_MEMORY_BYTES", "1e300", -1 },
		{ "TOW_PREMAP_MEMORY_BYTES", "5MiBs", -1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct twi_knobs out;
		int status;

		setenv(good[i].env, good[i].text, 1);
		status = resolve(&out);
		unsetenv(good[i].env);
		if (good[i].value < 0) {
			assert_int_equal(status, TOW_EINVAL);
			assert_non_null(strstr(tow_error_message(), "premap_memory_bytes"));
			assert_non_null(strstr(tow_error_message(), good[i].text));
			assert_non_null(strstr(tow_error_message(), good[i].env));
			assert_non_null(strstr(tow_error_message(), "1MiB to 1TiB"));
		} else {
			assert_int_equal(status, TOW_OK);
			assert_int_equal(out.premap_memory_bytes, good[i].value);
		}
	}
	setenv("TOW_SPIN_NS", "1.5ms", 1);
	setenv("TOW_STATS", "off", 1);
	{
		struct twi_knobs out;

		assert_int_equal(resolve(&out), TOW_OK);
		assert_int_equal(out.spin_ns, 1500000);
		assert_false(out.stats);
	}
	setenv("TOW_STATS", "perhaps", 1);
	{
		struct twi_knobs out;

		assert_int_equal(resolve(&out), TOW_EINVAL);
		assert_non_null(strstr(tow_error_message(), "perhaps"));
	}
	unsetenv("TOW_SPIN_NS");
	unsetenv("TOW_STATS");
}

static void test_bad_options(void **state)
{
	struct tow_options in = TOW_OPTIONS_INIT;
	struct twi_knobs out;
	struct {
		struct tow_options known;
		int64_t unknown;
	} newer = { TOW_OPTIONS_INIT, -1 };

	(void)state;
	in.job = "../up";
	assert_int_equal(twi_knob_resolve(&in, &out), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "../up"));
	in.job = NULL;
	in.rank = -7;
	assert_int_equal(twi_knob_resolve(&in, &out), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "rank=-7"));
	in.rank = -1;
	in.size = 3;
	assert_int_equal(twi_knob_resolve(&in, &out), TOW_EINVAL);
	/* a caller built against a newer header: legal while it sets nothing that we do not know */
	newer.known.size = sizeof(newer);
	assert_int_equal(twi_knob_resolve(&newer.known, &out), TOW_OK);
	newer.unknown = 5;
	assert_int_equal(twi_knob_resolve(&newer.known, &out), TOW_EINVAL);
	/* and against an older one, that ends before the last fields */
	in.size = offsetof(struct tow_options, job);
	in.job = (const char *)16;
	assert_int_equal(twi_knob_resolve(&in, &out), TOW_OK);
	assert_string_equal(out.job, "towline");
}

static size_t index_of(const char *name)
{
	struct tow_knob_info knob = { .size = sizeof(knob) };
	size_t i = 0;

	while (tow_knob_info(i, &knob) == TOW_OK && strcmp(knob.name, name) != 0)
		i++;
	return i;
}

/* Each word becomes its enumerator and is told as the word; what is no word is refused. */
static void test_words(void **state)
{
#define WORD(id, word) { id, word },
	static const struct {
		enum twi_exhaust value;
		const char *word;
	} words[] = { TWI_EXHAUST_MAP(WORD) };
#undef WORD
	struct tow_options in = TOW_OPTIONS_INIT;
	struct twi_knobs out;

	(void)state;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		in.exhaust = words[i].word;
		assert_int_equal(twi_knob_resolve(&in, &out), TOW_OK);
		assert_int_equal(out.exhaust, words[i].value);
		assert_string_equal(twi_knob_text(&out, index_of("exhaust")), words[i].word);
	}
	in.exhaust = "growl";
	assert_int_equal(twi_knob_resolve(&in, &out), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "exhaust=growl (option)"));
	assert_non_null(strstr(tow_error_message(), "fail, grow, copy, wait"));
	in.exhaust = NULL;
	setenv("TOW_ZEROCOPY", "sometimes", 1);
	assert_int_equal(twi_knob_resolve(&in, &out), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "zerocopy=sometimes (TOW_ZEROCOPY)"));
	setenv("TOW_ZEROCOPY", "never", 1);
	in.poller = "epoll";
	assert_int_equal(twi_knob_resolve(&in, &out), TOW_OK);
	assert_int_equal(out.zerocopy, TWI_ZEROCOPY_NEVER);
	assert_int_equal(out.poller, TWI_POLLER_EPOLL);
	assert_int_equal(out.exhaust, TWI_EXHAUST_GROW);
	unsetenv("TOW_ZEROCOPY");
}

/* Every type of the table is read back as it was set. */
static void test_read_back(void **state)
{
	struct tow_options in = TOW_OPTIONS_INIT;
	struct twi_knobs out;

	(void)state;
	in.premap_memory_bytes = 1ll << 40;
	in.spin_ns = 10000000000;
	in.rank = INT32_MAX;
	in.encrypt = 1;
	in.stats = 0;
	in.job = "mine";
	assert_int_equal(twi_knob_resolve(&in, &out), TOW_OK);
	assert_int_equal(twi_knob_number(&out, index_of("premap_memory_bytes")), 1ll << 40);
	assert_int_equal(twi_knob_number(&out, index_of("spin_ns")), 10000000000);
	assert_int_equal(twi_knob_number(&out, index_of("rank")), INT32_MAX);
	assert_int_equal(twi_knob_number(&out, index_of("encrypt")), 1);
	assert_int_equal(twi_knob_number(&out, index_of("stats")), 0);
	assert_null(twi_knob_text(&out, index_of("spin_ns")));
	assert_string_equal(twi_knob_text(&out, index_of("job")), "mine");
	assert_ptr_equal(twi_knob_string(&out, index_of("job")), &out.job);
	assert_null(twi_knob_string(&out, index_of("exhaust")));
	assert_null(twi_knob_string(&out, index_of("stats")));
}

/* Every row is valid by its own rules, and the API tells the whole table. */
static void test_table(void **state)
{
	struct tow_knob_info knob = { .size = sizeof(knob) };

	(void)state;
	assert_true(tow_knob_count() >= 16);
	for (size_t i = 0; i < tow_knob_count(); i++) {
		int64_t def, min, max;

		assert_int_equal(tow_knob_info(i, &knob), TOW_OK);
		assert_true(strlen(knob.help) > 10 && strncmp(knob.env, "TOW_", 4) == 0);
		if (strcmp(knob.unit, "text") == 0)
			continue;
		assert_true(twi_knob_parse(i, knob.def, &def));
		assert_true(twi_knob_parse(i, knob.min, &min));
		assert_true(twi_knob_parse(i, knob.max, &max));
		assert_true(min <= def && def <= max);
	}
	assert_int_equal(tow_knob_info(tow_knob_count(), &knob), TOW_EINVAL);
	knob.size = 4;
	assert_int_equal(tow_knob_info(0, &knob), TOW_EINVAL);
	assert_int_equal(tow_knob_info(0, NULL), TOW_EINVAL);
}

/* A setuid program takes no knob, and so no folder to write to, from whoever started it. */
static void test_privileged(void **state)
{
	struct twi_knobs out;

	(void)state;
	setenv("TOW_STATS_DIR", "/etc/somewhere", 1);
	setenv("TOW_PREMAP_MEMORY_BYTES", "2GiB", 1);
	privileged = true;
	assert_int_equal(resolve(&out), TOW_OK);
	assert_string_equal(out.stats_dir, "");
	assert_int_equal(out.premap_memory_bytes, 256 << 20);
	privileged = false;
	assert_int_equal(resolve(&out), TOW_OK);
	assert_string_equal(out.stats_dir, "/etc/somewhere");
	assert_int_equal(out.premap_memory_bytes, 2ll << 30);
	unsetenv("TOW_STATS_DIR");
	unsetenv("TOW_PREMAP_MEMORY_BYTES");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),       cmocka_unit_test(test_spelling),
		cmocka_unit_test(test_bad_options), cmocka_unit_test(test_table),
		cmocka_unit_test(test_privileged),  cmocka_unit_test(test_words),
		cmocka_unit_test(test_read_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
