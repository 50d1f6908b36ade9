/*
 * test_verdict_status.c - the exit status of `towstat verdict`, for what documents say: of one
 * runtime, of several of which each speaks for itself, and of a runtime whose job has not come.
 */
#include "twt.h"

#include <string.h>
#include <unistd.h>

#include <towline/towline.h>

#include "command.h"
#include "told.h"
#include "tools/towstat/towstat.h"

#define RUNTIMES 2

static char dir[64];
static struct twt_command command;
static struct twt_told served[RUNTIMES];

static int setup(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/twt-status-XXXXXX");
	if (mkdtemp(dir) == NULL)
		return -1;
	setenv("TOW_STATS_DIR", dir, 1);
	twt_told_open(&served[0], dir, "told.0");
	twt_told_open(&served[1], dir, "told.1");
	return 0;
}

static int teardown(void **state)
{
	char line[128];

	(void)state;
	for (size_t i = 0; i < RUNTIMES; i++)
		twt_told_close(&served[i]);
	snprintf(line, sizeof(line), "rm -rf %s", dir);
	twt_command(line, &command);
	return command.status;
}

#define ANSWERED  "\"ranks_in_job\":3,\"ranks_answered\":3"
#define SILENT    "\"ranks_in_job\":3,\"ranks_answered\":2,\"ranks_unknown\":1"
#define ALONE     "\"ranks_in_job\":1,\"ranks_answered\":1"
#define NONE      ",\"findings\":[]"
#define FOUND     ",\"findings\":[{\"cause\":\"late\",\"ranks\":[1],\"evidence\":[]}]"
#define HEALTHY   "{\"state\":\"healthy\","
#define SLOW      "{\"state\":\"slow\","
#define STUCK     "{\"state\":\"stuck\","
#define NOT_THERE ",\"ranks_missing\":2"

static void verdict(const char *arguments, int status, const char *words)
{
	char line[256];

	snprintf(line, sizeof(line), "@/tools/towstat/towstat verdict %s", arguments);
	twt_command(line, &command);
	if (command.status != status || strstr(command.text, words) == NULL)
		fail_msg("verdict %s: status %d, wanted %d and '%s': %s", arguments, command.status,
			 status, words, command.text);
}

/* One runtime, which knows the whole job, or as much as there is of it. */
static void one(void **state)
{
	static const struct {
		const char *document;
		enum verdict_status status;
		const char *words;
	} rows[] = {
		{ HEALTHY ANSWERED NONE "}", VERDICT_HEALTHY, "healthy: 3 of 3 ranks answered" },
		{ STUCK ANSWERED FOUND "}", VERDICT_FOUND, "stuck: 3 of 3 ranks answered" },
		{ SLOW ANSWERED FOUND "}", VERDICT_FOUND, "slow: 3 of 3 ranks answered" },
		{ SLOW SILENT FOUND "}", VERDICT_FOUND, "slow: 2 of 3" },
		{ STUCK ANSWERED NONE "}", VERDICT_NOBODY, "stuck: 3 of 3 ranks answered" },
		{ SLOW ANSWERED NONE "}", VERDICT_NOBODY, "slow: 3 of 3 ranks answered" },
		{ STUCK SILENT NONE "}", VERDICT_PARTIAL, "stuck, as far as is known: 2 of 3" },
		{ HEALTHY SILENT NONE "}", VERDICT_PARTIAL, "of 1 nothing is known" },
		{ HEALTHY ALONE NOT_THERE NONE "}", VERDICT_PARTIAL, "2 of the job have not come" },
		{ HEALTHY ALONE NOT_THERE FOUND "}", VERDICT_FOUND, "2 of the job have not come" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		twt_told_say(&served[0], "/v1/verdict", rows[i].document);
		verdict("told.0", (int)rows[i].status, rows[i].words);
		verdict("told.0 --json", (int)rows[i].status, "\"ranks_answered\"");
	}
}

/* Of several that no group joins, the gravest counts, whoever says it. */
static void several(void **state)
{
	static const struct {
		const char *documents[RUNTIMES];
		enum verdict_status status;
	} rows[] = {
		{ { HEALTHY ALONE NONE "}", HEALTHY ALONE NONE "}" }, VERDICT_HEALTHY },
		{ { HEALTHY ALONE NONE "}", STUCK ALONE NONE "}" }, VERDICT_NOBODY },
		{ { HEALTHY ALONE NOT_THERE NONE "}", STUCK ALONE NONE "}" }, VERDICT_PARTIAL },
		{ { STUCK ALONE FOUND "}", HEALTHY ALONE NOT_THERE NONE "}" }, VERDICT_FOUND },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (size_t k = 0; k < RUNTIMES; k++) {
			twt_told_say(&served[0], "/v1/verdict", rows[i].documents[k]);
			twt_told_say(&served[1], "/v1/verdict", rows[i].documents[1 - k]);
			verdict("told", (int)rows[i].status, "told.1");
			verdict("told --json", (int)rows[i].status, "told.1");
		}
	}
}

/* A rank that knows from its launcher that there are three, and has met none yet. */
static void not_come(void **state)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_runtime *runtime;

	(void)state;
	options.job = "lonely";
	options.rank = 1;
	options.world_size = 3;
	assert_int_equal(tow_runtime_open(&options, &runtime), TOW_OK);
	verdict("lonely", VERDICT_PARTIAL, "2 of the job have not come");
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
	options.rank = 0;
	options.world_size = 1;
	assert_int_equal(tow_runtime_open(&options, &runtime), TOW_OK);
	verdict("lonely", VERDICT_HEALTHY, "healthy: 1 of 1 ranks answered");
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
	verdict("lonely", 1, "no live runtime or job is called lonely");
}

/* The help, from which the manual page is made, has the list. */
static void help(void **state)
{
	(void)state;
	twt_command("@/tools/towstat/towstat --help", &command);
	assert_int_equal(command.status, 0);
#define ROW(status, name, says) assert_non_null(strstr(command.text, #status "  " says "\n"));
	VERDICT_STATUS_MAP(ROW)
#undef ROW
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one),
		cmocka_unit_test(several),
		cmocka_unit_test(not_come),
		cmocka_unit_test(help),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
