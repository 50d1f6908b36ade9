/*
 * test_tow_info.c - tow-info on this host: what stands on its screen and in its document, what the
 * environment changes of it, what it does not show, and what it ends with.
 */
#include "command.h"

#include <jansson.h>
#include <towline/towline.h>

#define INFO "@/tools/towdoctor/tow-info"

static struct twt_command command;

static json_t *document_of(const char *line, int status)
{
	json_t *document;

	twt_command(line, &command);
	document = json_loads(command.text, 0, NULL);
	if (document == NULL || command.status != status)
		fail_msg("%s: status %d, %s:\n%s", line, command.status,
			 document == NULL ? "no JSON" : "not wanted", command.text);
	return document;
}

static json_t *row_of(json_t *rows, const char *name)
{
	json_t *row;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		if (strcmp(json_string_value(json_object_get(row, "name")), name) == 0)
			return row;
	}
	fail_msg("there is no row %s", name);
	return NULL;
}

static const char *text_at(json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text != NULL ? text : "";
}

/* A terminal of 120 columns and 40 lines has all of it, whatever this host lacks. */
static void test_one_screen(void **state)
{
	struct tow_lane_info lane = TOW_LANE_INFO_INIT;
	size_t lines = 0;

	(void)state;
	twt_command("env -u TOW_FLIGHT_DIR " INFO, &command);
	assert_int_equal(command.status, 0);
	for (char *at = command.text; *at != '\0'; at += strcspn(at, "\n") + 1) {
		if (strcspn(at, "\n") > 140)
			fail_msg("a line of %zu columns: %.60s", strcspn(at, "\n"), at);
		lines++;
	}
	if (lines > 40)
		fail_msg("%zu lines:\n%s", lines, command.text);
	assert_memory_equal(command.text, "towline      " TOW_VERSION ", /", 16);
	for (size_t i = 0; tow_lane_info(i, &lane) == TOW_OK; i++)
		assert_non_null(strstr(command.text, lane.name));
	assert_non_null(strstr(command.text, "memlock"));
	assert_non_null(strstr(command.text, "lo "));
}

static void test_the_document(void **state)
{
	json_t *document, *rows, *row;
	size_t i;

	(void)state;
	document = document_of(INFO " --json", 0);
	assert_string_equal(text_at(document, "version"), TOW_VERSION);
	assert_string_equal(text_at(json_object_get(document, "library"), "version"), TOW_VERSION);
	assert_non_null(
		strstr(text_at(json_object_get(document, "library"), "file"), "libtowline"));
	rows = json_object_get(document, "lanes");
	/* Those that need nothing but this kernel. */
	assert_true(json_is_true(json_object_get(row_of(rows, "shm"), "there")));
	row = row_of(rows, "tcp");
	assert_true(json_is_true(json_object_get(row, "there")));
	assert_memory_equal(text_at(row, "address"), "tcp://127.0.0.1:", 16);
	json_array_foreach(rows, i, row) assert_true(json_is_true(json_object_get(row, "there")) ||
						     text_at(row, "why")[0] != '\0');
	json_array_foreach(json_object_get(document, "host"), i, row)
		assert_true(text_at(row, "found")[0] != '\0');
	assert_true(i > 10);
	json_array_foreach(json_object_get(json_object_get(document, "build"), "options"), i, row)
		assert_true(json_is_true(json_object_get(row, "there")) !=
			    (text_at(row, "why")[0] != '\0'));
	assert_true(i > 4);
	row = row_of(json_object_get(document, "interfaces"), "lo");
	assert_true(json_is_true(json_object_get(row, "loopback")));
	assert_true(json_is_null(json_object_get(row, "speed_mbits")));
	json_decref(document);
}

/* Knobs count as they do in a job; a secret is told of, and not told. */
static void test_the_environment(void **state)
{
	json_t *document, *rows;

	(void)state;
	document = document_of("TOW_POLLER=epoll TOW_JOB_KEY=0123456789abcdef TOW_INTERFACES=^lo "
			       "TOW_PREMAP_MEMORY_BYTE=1 " INFO " --json",
			       0);
	assert_null(strstr(command.text, "0123456789abcdef"));
	rows = json_object_get(document, "environment");
	assert_string_equal(text_at(row_of(rows, "TOW_JOB_KEY"), "value"), "(set)");
	assert_string_equal(text_at(row_of(rows, "TOW_POLLER"), "knob"), "poller");
	assert_string_equal(text_at(row_of(rows, "TOW_PREMAP_MEMORY_BYTE"), "knob"), "");
	assert_string_equal(text_at(json_object_get(document, "runtime"), "poller"), "epoll");
	assert_non_null(strstr(command.text, "did you mean TOW_PREMAP_MEMORY_BYTES"));
	json_decref(document);
}

/* The lanes that can never be what `require` asks, each with why; and a word that is none. */
static void test_require(void **state)
{
	json_t *document, *runtime;

	(void)state;
	document = document_of("TOW_REQUIRE=encrypted,lane:tcp " INFO " --json", 0);
	runtime = json_object_get(document, "runtime");
	assert_string_equal(text_at(runtime, "require"), "encrypted,lane:tcp");
	assert_non_null(strstr(command.text, "\"require=encrypted: it does not encrypt\""));
	json_decref(document);
	twt_command("TOW_REQUIRE=lane:tcp " INFO, &command);
	twt_command_expect(&command, 0, "shm   refused: require=lane:tcp: this is lane shm", 1);
	twt_command("TOW_REQUIRE=lane:tcp,fast " INFO, &command);
	twt_command_expect(&command, 1,
			   "runtime    ! does not open: require = 'lane:tcp,fast': 'fast'", 1);
	document = document_of(INFO " --json", 0);
	assert_true(json_is_null(json_object_get(json_object_get(document, "runtime"), "require")));
	json_decref(document);
}

/* Where no runtime opens everything else is there, with the reason. */
static void test_no_runtime(void **state)
{
	json_t *document, *runtime;

	(void)state;
	document = document_of("TOW_POLLER=select " INFO " --json", 1);
	runtime = json_object_get(document, "runtime");
	assert_true(json_is_false(json_object_get(runtime, "opens")));
	assert_non_null(strstr(text_at(runtime, "why"), "select"));
	assert_non_null(strstr(text_at(row_of(json_object_get(document, "lanes"), "tcp"), "why"),
			       "select"));
	assert_true(json_is_null(json_object_get(document, "interfaces")));
	json_decref(document);
	twt_command("TOW_POLLER=select " INFO, &command);
	twt_command_expect(&command, 1, "! does not open: ", 1);
	document = document_of("TOW_POLLER=select " INFO " --no-probe --json", 0);
	assert_true(json_is_null(json_object_get(json_object_get(document, "runtime"), "opens")));
	json_decref(document);
}

static void test_words_and_usage(void **state)
{
	(void)state;
	twt_command("TOW_X=\"$(printf 'a\\033[2Jb')\" " INFO " --no-probe", &command);
	twt_command_expect(&command, 0, "TOW_X=a?[2Jb\n", 1);
	twt_command(INFO " --version", &command);
	twt_command_expect(&command, 0, "tow-info " TOW_VERSION "\n", 1);
	twt_command(INFO " --help", &command);
	twt_command_expect(&command, 0, "Status: 0; 1 no runtime opens here", 1);
	twt_command(INFO " extra", &command);
	twt_command_expect(&command, 2, "it takes no argument: extra", 1);
	twt_command(INFO " --lanes", &command);
	twt_command_expect(&command, 2, "wrong option", 1);
	twt_command(INFO " --no-probe >/dev/full", &command);
	twt_command_expect(&command, 2, "tow-info: cannot write: ", 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_screen),      cmocka_unit_test(test_the_document),
		cmocka_unit_test(test_the_environment), cmocka_unit_test(test_require),
		cmocka_unit_test(test_no_runtime),      cmocka_unit_test(test_words_and_usage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
