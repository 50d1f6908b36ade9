/*
 * test_alloclog.c - the allocation log of a living runtime, fetched by towstat and converted by
 * tow-alloclog, against what the program did.
 */
#include "twt.h"

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towline/towline.h>

static char dir[64];
static struct tow_runtime *runtime;

static int open_runtime(int64_t alloclog)
{
	struct tow_options options = TOW_OPTIONS_INIT;

	snprintf(dir, sizeof(dir), "/tmp/twt-alloclog-XXXXXX");
	if (mkdtemp(dir) == NULL)
		return -1;
	setenv("TOW_STATS_DIR", dir, 1);
	options.premap_memory_bytes = 16 << 20;
	options.alloclog = alloclog;
	options.job = "log";
	options.stats_dir = dir;
	return tow_runtime_open(&options, &runtime);
}

static int setup(void **state)
{
	(void)state;
	return open_runtime(0);
}

static int setup_on(void **state)
{
	(void)state;
	return open_runtime(1);
}

static int teardown(void **state)
{
	char path[128];

	(void)state;
	tow_runtime_close(runtime);
	snprintf(path, sizeof(path), "%s/log", dir);
	unlink(path);
	return rmdir(dir);
}

/* Runs a program of the build; its output, both streams, is the caller's to free. */
static char *run(const char *program, const char *arguments, int *status_out)
{
	const char *build = getenv("TOW_TEST_BUILD");
	size_t room = 16 << 20, bytes;
	char command[1024], *text = malloc(room);
	FILE *pipe;

	assert_non_null(text);
	snprintf(command, sizeof(command), "%s/%s %s 2>&1", build != NULL ? build : ".", program,
		 arguments);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	bytes = fread(text, 1, room - 1, pipe);
	text[bytes] = '\0';
	*status_out = pclose(pipe);
	*status_out = WIFEXITED(*status_out) ? WEXITSTATUS(*status_out) : -1;
	return text;
}

static void expect(const char *program, const char *arguments, int status, const char *words)
{
	int got;
	char *text = run(program, arguments, &got);

	if (got != status || strstr(text, words) == NULL)
		fail_msg("%s %s: status %d, wanted %d with \"%s\":\n%s", program, arguments, got,
			 status, words, text);
	free(text);
}

static json_t *fetch(const char *seconds)
{
	char arguments[256], *text;
	int status;
	json_t *root;

	snprintf(arguments, sizeof(arguments), "alloclog log.0 %s -o %s/log", seconds, dir);
	expect("tools/towstat/towstat", arguments, 0, "");
	snprintf(arguments, sizeof(arguments), "%s/log", dir);
	expect("bench/tow-alloclog --summary", arguments, 0, " allocations, ");
	text = run("bench/tow-alloclog", arguments, &status);
	assert_int_equal(status, 0);
	root = json_loads(text, 0, NULL);
	if (root == NULL)
		fail_msg("%s", text);
	free(text);
	return root;
}

static json_int_t number(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	assert_true(json_is_integer(value));
	return json_integer_value(value);
}

/* docs/alloclog.md: the beginnings of training steps are in it. */
static void steps_are_marked(void **state)
{
	json_t *root, *row;

	(void)state;
	assert_int_equal(tow_step_begin(runtime, 17), TOW_OK);
	assert_int_equal(tow_step_begin(runtime, 18), TOW_EBUSY); /* what fails is not in it */
	assert_int_equal(tow_step_end(runtime, 17), TOW_OK);
	root = fetch("");
	assert_int_equal(json_array_size(json_object_get(root, "events")), 1);
	row = json_array_get(json_object_get(root, "events"), 0);
	assert_string_equal(json_string_value(json_object_get(row, "kind")), "step");
	assert_int_equal(number(row, "step"), 17);
	assert_non_null(json_object_get(row, "caller"));
	json_decref(root);
}

static void from_the_open(void **state)
{
	void *first, *second;
	json_t *root, *events, *row;

	(void)state;
	assert_int_equal(tow_alloc(runtime, 1000, 0, &first), TOW_OK);
	assert_int_equal(tow_alloc(runtime, 50000, 4096, &second), TOW_OK);
	assert_int_equal(tow_free(runtime, first), TOW_OK);
	assert_true(tow_free(runtime, first) < 0); /* what fails is not in it */
	assert_true(tow_alloc(runtime, (size_t)1 << 40, 0, &first) < 0);
	root = fetch("");
	events = json_object_get(root, "events");
	assert_true(json_is_true(json_object_get(root, "from_open")));
	assert_int_equal(number(root, "live_bytes_at_start"), 0);
	assert_int_equal(number(root, "kept_of_addresses_1_in"), 1);
	assert_int_equal(number(root, "pid"), getpid());
	assert_int_equal(number(root, "pool_bytes"), 16 << 20);
	assert_int_equal(json_array_size(events), 3);
	row = json_array_get(events, 1);
	assert_int_equal(number(row, "bytes"), 50000);
	assert_int_equal(number(row, "align"), 4096);
	assert_non_null(json_object_get(row, "caller"));
	row = json_array_get(events, 2);
	assert_string_equal(json_string_value(json_object_get(row, "kind")), "free");
	assert_int_equal(number(row, "id"), 1);
	assert_int_equal(number(row, "bytes"), 1000);
	json_decref(root);
	assert_int_equal(tow_free(runtime, second), TOW_OK);
	assert_int_equal(tow_step_begin(runtime, 17), TOW_OK);
	assert_true(tow_step_begin(runtime, 18) < 0); /* what fails is not in it */
	assert_int_equal(tow_step_end(runtime, 17), TOW_OK);
	root = fetch("--seconds 0");
	events = json_object_get(root, "events");
	assert_int_equal(json_array_size(events), 5);
	row = json_array_get(events, 4);
	assert_string_equal(json_string_value(json_object_get(row, "kind")), "step");
	assert_int_equal(number(row, "step"), 17);
	assert_non_null(json_object_get(row, "caller"));
	json_decref(root);
}

static atomic_bool stop;

static void *allocate(void *arg)
{
	void *p;

	(void)arg;
	while (!atomic_load(&stop)) {
		assert_int_equal(tow_alloc(runtime, 4096, 0, &p), TOW_OK);
		usleep(500);
		assert_int_equal(tow_free(runtime, p), TOW_OK);
	}
	return NULL;
}

/* Off but for the second that is asked for; it begins in the middle, with what was live. */
static void for_a_second(void **state)
{
	pthread_t thread;
	json_t *root, *row;
	size_t index, allocs = 0, old_ones = 0;
	char *info;
	void *old;

	(void)state;
	assert_int_equal(tow_alloc(runtime, 70000, 0, &old), TOW_OK);
	atomic_store(&stop, false);
	assert_int_equal(pthread_create(&thread, NULL, allocate, NULL), 0);
	root = fetch("--seconds 1");
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	assert_true(json_is_false(json_object_get(root, "from_open")));
	assert_in_range(number(root, "live_bytes_at_start"), 0, 4096);
	assert_true(number(root, "duration_ns") >= 1000000000);
	json_array_foreach(json_object_get(root, "events"), index, row)
	{
		const char *kind = json_string_value(json_object_get(row, "kind"));

		allocs += strcmp(kind, "alloc") == 0;
		/* Whole pages, as it took them; nobody frees it. */
		old_ones += number(row, "bytes") == 73728 && number(row, "ns") == 0 &&
			    number(row, "thread") == 0;
		assert_true(number(row, "ns") <= number(root, "duration_ns"));
	}
	assert_true(allocs > 1);
	assert_int_equal(old_ones, 1);
	assert_int_equal(number(root, "lost"), 0);
	json_decref(root);
	assert_int_equal(tow_stats_get(runtime, "/v1/info", &info), TOW_OK);
	root = json_loads(info, 0, NULL);
	row = json_object_get(root, "alloclog");
	assert_true(json_is_false(json_object_get(row, "on")));
	assert_int_equal(number(row, "memory_bytes"), 0);
	json_decref(root);
	tow_stats_release(info);
	assert_int_equal(tow_free(runtime, old), TOW_OK);
}

/* A runtime that is closed while somebody captures ends at once, and he is told. */
static void *fetch_long(void *arg)
{
	char arguments[256];

	(void)arg;
	snprintf(arguments, sizeof(arguments), "alloclog log.0 --seconds 60 -o %s/log", dir);
	expect("tools/towstat/towstat", arguments, 1, "closed the connection");
	return NULL;
}

static void close_while_capturing(void **state)
{
	pthread_t thread;
	json_t *root;
	char *info;
	json_int_t users = 0;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, fetch_long, NULL), 0);
	for (int i = 0; i < 2000 && users == 0; i++) {
		usleep(5000);
		assert_int_equal(tow_stats_get(runtime, "/v1/info", &info), TOW_OK);
		root = json_loads(info, 0, NULL);
		users = number(json_object_get(root, "alloclog"), "users");
		json_decref(root);
		tow_stats_release(info);
	}
	assert_int_equal(users, 1);
	alarm(30);
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
	pthread_join(thread, NULL);
	alarm(0);
	runtime = NULL;
}

static void misuse(void **state)
{
	(void)state;
	expect("tools/towstat/towstat", "alloclog log.0", 2, "--output");
	expect("tools/towstat/towstat", "alloclog log.0 --seconds 61 -o x", 2, "60");
	expect("tools/towstat/towstat", "alloclog log.0 x -o x", 2, "name");
	expect("tools/towstat/towstat", "alloclog log.0 -o /nowhere/at/all", 1, "/nowhere");
	expect("bench/tow-alloclog", "", 2, "missing");
	expect("bench/tow-alloclog", "--what", 2, "help");
	expect("bench/tow-alloclog", "--help", 0, "tow-alloclog [--summary] FILE");
	expect("bench/tow-alloclog", "--version", 0, "tow-alloclog ");
	expect("bench/tow-alloclog", "/nowhere", 1, "No such file");
	expect("bench/tow-alloclog", "/dev/null", 1, "at byte 0");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(steps_are_marked, setup_on, teardown),
		cmocka_unit_test_setup_teardown(from_the_open, setup_on, teardown),
		cmocka_unit_test_setup_teardown(for_a_second, setup, teardown),
		cmocka_unit_test_setup_teardown(close_while_capturing, setup, teardown),
		cmocka_unit_test_setup_teardown(misuse, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
