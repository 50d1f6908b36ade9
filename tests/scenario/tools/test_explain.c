/*
 * test_explain.c - towstat explain: over pretended runtimes what it says of their documents and
 * with which status it ends; over a real one that it has looked at the host as it should.
 */
#include "twt.h"

#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towline/towline.h>

#include "command.h"
#include "told.h"
#include "tools/towstat/towstat.h"

#define RANKS 2

static char dir[64], folders[2048];
static struct twt_command command;
static struct twt_told told[RANKS];

#define COUNTERS(stalls, reasons)                                                                  \
	"{\"counters\":{\"credit_stalls\":" #stalls ",\"fallback_copies\":" #stalls                \
	"},\"reasons\":[" reasons "]}"
#define COPIES                                                                                     \
	"{\"reasons\":[{\"name\":\"unexpected_arrival\",\"cure\":\"post receives\"}],\"sites\":[{" \
	"\"reason\":\"unexpected_arrival\",\"count\":7,\"bytes\":9,\"ns\":5000000,\"text\":\"7 "   \
	"copies: it came early from \\u001b[2J; post receives\"}],\"sites_known\":1}"
#define VERDICT(state, findings)                                                                   \
	"{\"state\":\"" state "\",\"ranks_in_job\":2,\"ranks_answered\":2,\"findings\":[" findings \
	"]}"
#define LATE                                                                                       \
	"{\"cause\":\"late\",\"says\":\"comes late\",\"ranks\":[1],\"evidence\":[\"by 3 ms\"],"    \
	"\"confidence\":0.9,\"cure\":\"look at rank 1\"}"

static int setup(void **state)
{
	const char *build = getenv("TOW_TEST_BUILD"), *path = getenv("PATH");

	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/twt-explain-XXXXXX");
	if (mkdtemp(dir) == NULL)
		return -1;
	setenv("TOW_STATS_DIR", dir, 1);
	/* In a build folder towdoctor does not lie beside towstat. */
	snprintf(folders, sizeof(folders), "%s/tools/towdoctor:%s", build != NULL ? build : ".",
		 path != NULL ? path : "");
	setenv("PATH", folders, 1);
	twt_told_open(&told[0], dir, "told.0");
	twt_told_open(&told[1], dir, "told.1");
	return 0;
}

static int teardown(void **state)
{
	char line[128];

	(void)state;
	for (size_t i = 0; i < RANKS; i++)
		twt_told_close(&told[i]);
	snprintf(line, sizeof(line), "rm -rf %s", dir);
	twt_command(line, &command);
	return command.status;
}

static void explain(const char *arguments, int status)
{
	char line[256];

	snprintf(line, sizeof(line), "@/tools/towstat/towstat explain -i 0.1 %s", arguments);
	twt_command(line, &command);
	if (command.status != status)
		fail_msg("explain %s: status %d, wanted %d: %s", arguments, command.status, status,
			 command.text);
}

static json_t *explain_json(const char *arguments, int status)
{
	char line[128];
	json_t *root;

	snprintf(line, sizeof(line), "--json %s", arguments);
	explain(line, status);
	root = json_loads(command.text, 0, NULL);
	if (root == NULL)
		fail_msg("no JSON: %s", command.text);
	assert_int_equal(json_integer_value(json_object_get(root, "status")), status);
	return root;
}

static void say_both(const char *path, const char *document)
{
	for (size_t i = 0; i < RANKS; i++)
		twt_told_say(&told[i], path, document);
}

/* Where words stand in what was printed; they must. */
static const char *place_of(const char *words)
{
	const char *at = strstr(command.text, words);

	if (at == NULL)
		fail_msg("'%s' is not in: %s", words, command.text);
	return at;
}

/* The worst first, each line with its cure; nothing that a terminal obeys. */
static void tells_all_of_it(void **state)
{
	(void)state;
	say_both("/v1/verdict", VERDICT("slow", LATE));
	say_both("/v1/counters", COUNTERS(200, ""));
	say_both("/v1/copies", COPIES);
	explain("told --no-host", VERDICT_FOUND);
	assert_ptr_equal(place_of("told: slow: 2 of 2 ranks answered"), command.text);
	assert_true(place_of("watched for 0.") < place_of("1. verdict\n"));
	assert_true(place_of("1. verdict\n   rank 1: late, comes late (90 %)\n") <
		    place_of("2. copies, rank 0\n"));
	place_of("     mend: look at rank 1\n");
	place_of("   7 copies: it came early from ?[2J\n     mend: post receives\n");
	assert_true(place_of("3. copies, rank 1\n") < place_of("4. counters, ranks 0, 1\n"));
	place_of("   credit_stalls 400, 200 of them at rank 0: ");
	place_of("     mend: post receives sooner, or raise credit_bytes\n");
	explain("told --no-host -n 1", VERDICT_FOUND);
	place_of("and 3 more (--count 4)\n");
	assert_null(strstr(command.text, "2. "));
}

/* It ends as towstat verdict does. */
static void ends_like_verdict(void **state)
{
	static const struct {
		const char *document;
		enum verdict_status status;
	} rows[] = {
		{ VERDICT("healthy", ""), VERDICT_HEALTHY },
		{ VERDICT("stuck", LATE), VERDICT_FOUND },
		{ VERDICT("stuck", ""), VERDICT_NOBODY },
		{ "{\"state\":\"healthy\",\"ranks_in_job\":3,\"ranks_answered\":2}",
		  VERDICT_PARTIAL },
	};

	(void)state;
	say_both("/v1/counters", COUNTERS(0, ""));
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		say_both("/v1/verdict", rows[i].document);
		explain("told --no-host", (int)rows[i].status);
		json_decref(explain_json("told --no-host", (int)rows[i].status));
		twt_command("@/tools/towstat/towstat verdict told", &command);
		assert_int_equal(command.status, (int)rows[i].status);
	}
	twt_command("@/tools/towstat/towstat explain --help", &command);
#define ROW(status, name, says) place_of(#status "  " says "\n");
	VERDICT_STATUS_MAP(ROW)
#undef ROW
}

/* Who has copied nothing is not asked why; healthy jobs are told so in a line. */
static void is_short_where_all_is_well(void **state)
{
	unsigned before = twt_told_asked(&told[0], "/v1/copies");

	(void)state;
	say_both("/v1/counters", COUNTERS(0, ""));
	say_both("/v1/verdict", VERDICT("healthy", ""));
	explain("--no-host", VERDICT_HEALTHY); /* the only job that lives here */
	place_of("Nothing that costs anything was found.\n");
	assert_null(strstr(command.text, "1. "));
	assert_int_equal(twt_told_asked(&told[0], "/v1/copies"), before);
}

/* One that hangs up is named, and the other ones are told of. */
static void names_who_is_silent(void **state)
{
	json_t *root;

	(void)state;
	say_both("/v1/verdict", VERDICT("healthy", ""));
	twt_told_say(&told[0], "/v1/counters", COUNTERS(0, ""));
	twt_told_say(&told[1], "/v1/counters", NULL);
	root = explain_json("told --no-host", VERDICT_HEALTHY);
	assert_string_equal(json_string_value(json_array_get(json_object_get(root, "silent"), 0)),
			    "told.1");
	assert_int_equal(json_array_size(json_object_get(root, "ranks")), 1);
	json_decref(root);
	explain("told --no-host", VERDICT_HEALTHY);
	place_of("told.1 does not answer");
	twt_told_say(&told[0], "/v1/counters", NULL);
	explain("told --no-host", 1);
	place_of("no rank of it answers");
	say_both("/v1/counters", COUNTERS(0, ""));
}

static void knows_its_usage(void **state)
{
	(void)state;
	explain("-i 0", EXIT_USAGE);
	place_of("--interval is from 0.1 to 60 seconds: 0");
	explain("-n none", EXIT_USAGE);
	explain("told told", EXIT_USAGE);
	explain("--nothing", EXIT_USAGE);
	explain("nobody", 1);
	place_of("no live runtime or job is called nobody");
}

static const json_t *check_of(json_t *root, const char *name)
{
	json_t *row;
	size_t i;

	json_array_foreach(json_object_get(root, "checks"), i, row)
	{
		if (strcmp(json_string_value(json_object_get(row, "name")), name) == 0)
			return row;
	}
	return NULL;
}

/* A real runtime, whose socket it is: the host is looked at with its limits and knobs. */
static void looks_at_the_host(void **state)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_runtime *runtime;
	const json_t *memlock;
	json_t *root;

	(void)state;
	options.job = "real";
	options.rank = 0;
	options.premap_memory_bytes = 4 << 20;
	assert_int_equal(tow_runtime_open(&options, &runtime), TOW_OK);
	root = explain_json("real", VERDICT_HEALTHY);
	memlock = check_of(root, "memlock");
	if (memlock == NULL)
		fail_msg("the host was not looked at: %s", command.text);
	/* The pool's size is this runtime's, whatever the environment says. */
	assert_non_null(
		strstr(json_string_value(json_object_get(memlock, "wanted")), "the pool (4 MiB)"));
	assert_null(check_of(root, "tcp_rmem")); /* it has no connection */
	assert_null(check_of(root, "loopback"));
	assert_true(json_number_value(
			    json_object_get(json_object_get(root, "window"), "seconds")) >= 0.1);
	json_decref(root);
	setenv("PATH", "/nowhere", 1);
	explain("real", VERDICT_HEALTHY);
	setenv("PATH", folders, 1);
	place_of("the host was not looked at: there is no towdoctor beside towstat, nor in PATH");
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
}

/* Where a rank has a connection by tcp, what concerns networks counts as well. */
static void looks_at_the_network(void **state)
{
	json_t *root;

	(void)state;
	say_both("/v1/counters", COUNTERS(0, ""));
	say_both("/v1/verdict", VERDICT("healthy", ""));
	twt_told_say(&told[1], "/v1/peers", "{\"peers\":[{\"lane\":\"shm\"},{\"lane\":\"tcp\"}]}");
	root = explain_json("told", VERDICT_HEALTHY);
	assert_non_null(check_of(root, "tcp_rmem"));
	assert_non_null(check_of(root, "files"));
	assert_null(check_of(root, "loopback"));
	json_decref(root);
}

/* Several jobs, and none named: they are listed. */
static void lists_several_jobs(void **state)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_runtime *runtime;

	(void)state;
	options.job = "other";
	assert_int_equal(tow_runtime_open(&options, &runtime), TOW_OK);
	explain("--no-host", 1);
	place_of("several jobs run here: other, told; name one");
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tells_all_of_it),
		cmocka_unit_test(ends_like_verdict),
		cmocka_unit_test(is_short_where_all_is_well),
		cmocka_unit_test(names_who_is_silent),
		cmocka_unit_test(knows_its_usage),
		cmocka_unit_test(looks_at_the_network),
		cmocka_unit_test(lists_several_jobs),
		cmocka_unit_test(looks_at_the_host),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
