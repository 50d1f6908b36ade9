/*
 * test_ascii.c - numbers and words are read as in the locale "C" by a program that has set another.
 * In the German one the decimal point is a comma, and in the Turkish one i and I are two letters.
 *
 * The locales are made here, of the sources that a distribution has (package locales). Where it has
 * none the cases of a locale are left out. tests/check/tidy.py sees to it that no one calls the
 * functions of libc that ask the locale.
 */
#include "twt.h"

#include <errno.h>
#include <locale.h>
#include <string.h>
#include <unistd.h>

#include <towline/towline.h>

#include "diag/base/ascii.h"
#include "diag/knob/knob.h"
#include "diag/serve/plain.h"
#include "diag/serve/token.h"
#include "transport/device/device.h"

static const struct place {
	const char *name, *source, *charmap;
} places[] = {
	{ "C", NULL, NULL },
	{ "de_DE.ISO-8859-1", "de_DE", "ISO-8859-1" },
	{ "tr_TR.ISO-8859-9", "tr_TR", "ISO-8859-9" },
};

static char folder[64];

/* Makes the locale and sets it. False: there is none here. */
static bool set_place(const struct place *place)
{
	char command[512];

	if (place->source == NULL)
		return setlocale(LC_ALL, place->name) != NULL;
	snprintf(command, sizeof(command),
		 "localedef -c -i %s -f %s %s/%s >%s/log 2>&1 || test -d %s/%s", place->source,
		 place->charmap, folder, place->name, folder, folder, place->name);
	if (system(command) != 0 || setlocale(LC_ALL, place->name) == NULL) {
		printf("left out: there is no locale %s\n", place->name);
		return false;
	}
	return true;
}

static void reads_numbers(void)
{
	static const struct {
		const char *text;
		double value;
		const char *rest;
	} rows[] = {
		{ "1.5MiB", 1.5, "MiB" }, { "1,5", 1, ",5" },   { "0.25", 0.25, "" },
		{ "7", 7, "" },           { "2e3s", 2e3, "s" }, { ".", 0, "." },
		{ "1.000.5", 1, ".5" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *end;

		errno = 0;
		assert_true(twi_ascii_number(rows[i].text, &end) == rows[i].value);
		assert_string_equal(end, rows[i].rest);
		assert_int_equal(errno, 0);
	}
	(void)twi_ascii_number("1e999", NULL);
	assert_int_equal(errno, ERANGE);
}

static void compares_words(void)
{
	char text[] = "tow_stats_dir ij\xe9z";

	assert_true(twi_ascii_same("MIB", "MiB"));
	assert_true(twi_ascii_same("", ""));
	assert_false(twi_ascii_same("MiB", "MB"));
	assert_false(twi_ascii_same("Mi", "MiB"));
	assert_true(twi_ascii_begins("text/plain IS", "TEXT/PLAIN is not", 13));
	assert_false(twi_ascii_begins("text", "text/plain", 6));
	twi_ascii_raise(text);
	assert_string_equal(text, "TOW_STATS_DIR IJ\xe9Z");
}

/* The callers: knobs and their names, items of a device, HTTP. */
static void serves_callers(void)
{
	struct twi_spec_item item = { "size", "1.5MiB" };
	struct twi_knobs knobs;
	uint64_t bytes = 0;

	setenv("TOW_STATS_DIR", "/nowhere", 1);
	setenv("TOW_SPIN_NS", "1.5US", 1);
	setenv("TOW_EAGER_MAX_BYTES", "1.5KIB", 1);
	setenv("TOW_STRICT_PREMAP", "FALSE", 1);
	assert_int_equal(twi_knob_resolve(NULL, &knobs), TOW_OK);
	assert_string_equal(knobs.stats_dir, "/nowhere");
	assert_int_equal(knobs.spin_ns, 1500);
	assert_int_equal(knobs.eager_max_bytes, 1536);
	unsetenv("TOW_STATS_DIR");
	unsetenv("TOW_SPIN_NS");
	unsetenv("TOW_EAGER_MAX_BYTES");
	unsetenv("TOW_STRICT_PREMAP");
	assert_int_equal(twi_spec_bytes(&item, &bytes), TOW_OK);
	assert_int_equal(bytes, 3 << 19);
	assert_true(twi_plain_wanted("TEXT/PLAIN"));
	assert_string_equal(twi_token_bearer("BEARER secret"), "secret");
}

static void in_each_locale(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (!set_place(&places[i]))
			continue;
		reads_numbers();
		compares_words();
		serves_callers();
	}
	assert_non_null(setlocale(LC_ALL, "C"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = { cmocka_unit_test(in_each_locale) };
	char command[128];
	int failed;

	snprintf(folder, sizeof(folder), "/tmp/towline-locale-XXXXXX");
	if (mkdtemp(folder) == NULL)
		return 1;
	setenv("LOCPATH", folder, 1);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command) != 0 ? 1 : failed;
}
