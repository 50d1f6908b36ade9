/*
 * test_environment.c - misspelt variables: found by name, told with the nearest knob and without
 * their value; and plans that there are not.
 */
#include "twt.h"

#include <string.h>

#include <towline/towline.h>

#include "diag/knob/environment.h"
#include "diag/record/diag.h"
#include "diag/record/log.h"

extern char **environ;

static void names(void **state)
{
	static const char *const known[] = { "TOW_JOB_KEY",       "TOW_PREMAP_MEMORY_BYTES",
					     "TOW_RANK",          "TOW_WORLD_SIZE",
					     "TOW_TEST_ANYTHING", "TOW_NETNS_MESSAGES",
					     "TOW_SIM_SEEDS",     "TOW_NCCL_JOIN",
					     "TOW_NCCL_EVENTS" };
	static const char *const unknown[] = { "TOW_JOBKEY", "TOW_", "TOW_TEST", "TOW_JOB_",
					       "TOW_RANK_" };

	(void)state;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		assert_true(twi_environment_knows(known[i], strlen(known[i])));
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
		assert_false(twi_environment_knows(unknown[i], strlen(unknown[i])));
}

static void nearest(void **state)
{
	static const struct {
		const char *name, *knob;
	} rows[] = {
		{ "TOW_JOBKEY", "TOW_JOB_KEY" },
		{ "TOW_ENCRYPTION", "TOW_ENCRYPT" },
		{ "TOW_JOB_KEYFILE", "TOW_JOB_KEY_FILE" },
		{ "TOW_PREMAP_MEMORY_BYTE", "TOW_PREMAP_MEMORY_BYTES" },
		{ "TOW_COLPLAN", "TOW_COLL_PLAN" },
		{ "TOW_QQQQQQQQ", NULL },
		{ "TOW_", NULL },
		{ "TOW_A_NAME_THAT_IS_LONGER_THAN_ALL_THAT_ANY_KNOB_COULD_EVER_BE_CALLED", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *got = twi_environment_nearest(rows[i].name, strlen(rows[i].name));

		if (rows[i].knob == NULL ? got != NULL
					 : got == NULL || strcmp(got, rows[i].knob) != 0)
			fail_msg("%s: %s", rows[i].name, got != NULL ? got : "none");
	}
}

static void keep_all(void *arg, uint64_t ns, int level, const char *text)
{
	size_t used = strlen(arg);

	(void)ns;
	assert_int_equal(level, 2);
	snprintf((char *)arg + used, 16384 - used, "%s\n", text);
}

static int lines_in(const char *text)
{
	int count = 0;

	for (; *text != '\0'; text++)
		count += *text == '\n';
	return count;
}

static void warnings(void **state)
{
	static char rows[40][32], text[16384],
		ours[4][32] = { "TOW_JOBKEY=0123456789abcdef", "PATH=/bin", "TOW_JOB_KEY=x",
				"TOW_\x1b[2J=1" };
	char *variables[45] = { ours[0], ours[1], ours[2], ours[3] };
	struct twi_diag *diag;

	(void)state;
	assert_int_equal(twi_diag_create(&diag), TOW_OK);
	twi_environment_check(diag, variables);
	twi_log_read(diag, keep_all, text);
	assert_non_null(strstr(text,
			       "TOW_JOBKEY, which is not a knob and does nothing; did you mean "
			       "TOW_JOB_KEY?"));
	assert_null(strstr(text, "0123456789"));
	assert_null(strstr(text, "PATH"));
	assert_null(strchr(text, 0x1b));
	assert_int_equal(lines_in(text), 2);
	/* However many there are, the log keeps what else it has. */
	for (int i = 0; i < 40; i++) {
		snprintf(rows[i], sizeof(rows[i]), "TOW_NOBODYS_%d=1", i);
		variables[4 + i] = rows[i];
	}
	text[0] = '\0';
	twi_environment_check(diag, variables);
	twi_log_read(diag, keep_all, text);
	assert_int_equal(lines_in(text), 2 + 16 + 1);
	assert_non_null(strstr(text, "26 more variables"));
	twi_environment_check(diag, NULL);
	twi_diag_destroy(diag);
}

static int try_open(struct tow_runtime **out)
{
	struct tow_options options = TOW_OPTIONS_INIT;

	options.premap_memory_bytes = 4 << 20;
	options.stats = 0;
	return tow_runtime_open(&options, out);
}

/* As a user meets it: in the log of a runtime, and as a runtime that does not open. */
static void runtimes(void **state)
{
	struct tow_runtime *runtime;
	char *info;

	(void)state;
	setenv("TOW_CHEKSUM_ALL", "1", 1);
	assert_int_equal(try_open(&runtime), TOW_OK);
	assert_int_equal(tow_stats_get(runtime, "/v1/info", &info), TOW_OK);
	assert_non_null(strstr(info, "TOW_CHEKSUM_ALL"));
	assert_non_null(strstr(info, "did you mean TOW_CHECKSUM_ALL?"));
	tow_stats_release(info);
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
	unsetenv("TOW_CHEKSUM_ALL");
	setenv("TOW_COLL_PLAN", "ringg", 1);
	assert_int_equal(try_open(&runtime), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "coll_plan = 'ringg' is no plan; there are: "));
	assert_non_null(strstr(tow_error_message(), "ring,"));
	setenv("TOW_COLL_PLAN", "ring", 1);
	assert_int_equal(try_open(&runtime), TOW_OK);
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
	unsetenv("TOW_COLL_PLAN");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(nearest),
		cmocka_unit_test(warnings),
		cmocka_unit_test(runtimes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
