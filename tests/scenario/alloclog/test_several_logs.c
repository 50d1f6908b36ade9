/*
 * test_several_logs.c - tow-size names one size for several logs: the one that fits the worst
 * of them, how many the smaller ones fit, and what it says of logs and options that do not go
 * together. Sizes are compared with what the same program names for each log alone.
 */
#include "twt.h"

#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "memreg/alloclog/alloclog_file.h"
#include <towline/status.h>

static char dir[64];
static struct twt_command ran;

static void write_bytes(const char *name, const char *bytes, size_t count)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "we");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, count, file), count);
	assert_int_equal(fclose(file), 0);
}

static void write_text(const char *name, const char *text)
{
	write_bytes(name, text, strlen(text));
}

/* A recording whose pool has that arena: one block of 2 MiB. */
static void write_recording(const char *name, const char *arena)
{
	struct twi_alloc_event event[] = {
		{ .ns = 1, .id = 1, .bytes = 2 << 20, .kind = TWI_ALLOC_ALLOC, .align_log2 = 6 },
		{ .ns = 2, .id = 1, .bytes = 2 << 20, .kind = TWI_ALLOC_FREE },
	};
	struct twi_alloc_trace trace = {
		.events = event, .count = 2, .duration_ns = 9, .staging_bytes = 1 << 20
	};
	size_t count;
	char *bytes;

	snprintf(trace.arena, sizeof(trace.arena), "%s", arena);
	assert_int_equal(twi_alloclog_encode(&trace, &bytes, &count), TOW_OK);
	write_bytes(name, bytes, count);
	free(bytes);
}

/*
 * Found by seed among random logs: it fits in 5373952 bytes and some steps above, and not in the
 * 5898240 that the one below needs, which does not fit in what this one needs, either.
 */
static const char islands[] =
	"alloc 1 1293954 64\nfree 1\nalloc 2 64549 65536\nalloc 3 793796 4096\n"
	"alloc 4 634599 1048576\nalloc 5 4449 64\nfree 5\nalloc 6 362722 4096\n"
	"alloc 7 20740 1048576\nalloc 8 27039 4096\nfree 7\nfree 8\nfree 6\n"
	"alloc 9 11643 65536\nfree 3\nalloc 10 116428 4096\nalloc 11 51477 4096\n"
	"alloc 12 66339 1048576\nfree 2\nalloc 13 56863 4096\n"
	"alloc 14 26756 1048576\nalloc 15 148064 4096\nalloc 16 118685 65536\n"
	"free 10\nalloc 17 30161 64\nalloc 18 535365 4096\n"
	"alloc 19 559129 65536\nfree 19\nfree 16\nalloc 20 667322 4096\nfree 15\n"
	"alloc 21 157917 4096\nfree 14\nalloc 22 78748 1048576\n"
	"alloc 23 115226 4096\nfree 17\nfree 9\nalloc 24 208623 65536\nfree 24\n"
	"alloc 25 48527 4096\nalloc 26 502982 64\nfree 12\nfree 25\n"
	"alloc 27 47747 64\nfree 11\n";
static const char between[] = "alloc 1 4500000\nfree 1\n";

/* large.tsv fits in nothing that small.tsv or middle.tsv need. */
static int setup(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/twt-several-XXXXXX");
	if (mkdtemp(dir) == NULL)
		return -1;
	write_text("small.tsv", "alloc 1 4000000\nfree 1\n");
	/* A block in the place of a freed one would wait for that one's send, or need more. */
	write_text("middle.tsv", "alloc 1 9000000\nfree 1\n");
	write_text("large.tsv", "alloc 1 20000000 64 1\nalloc 2 3000000 64 2\n"
				"free 1 0 0 1\nfree 2 0 0 2\n");
	write_text("islands.tsv", islands);
	write_text("between.tsv", between);
	write_text("part.tsv", "# sampled 8\nalloc 1 400000\n");
	write_recording("pagerun.log", "pagerun");
	write_recording("jemalloc.log", "jemalloc");
	write_recording("slab.log", "slab");
	return setenv("TOW_STATS_DIR", dir, 1);
}

static int teardown(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", dir);
	return system(command);
}

/* Memory that is on its way while the machine stands still makes a run unclean: it is repeated. */
#define TRIES 3

/* Runs it in the folder of the logs; the status has to be that one. */
static void run_bench(const char *arguments, int status)
{
	char line[4096];

	snprintf(line, sizeof(line), "cd %s && @/bench/tow-size --quick %s", dir, arguments);
	ran.status = -1;
	for (int i = 0; i < TRIES && ran.status != status; i++)
		twt_command(line, &ran);
	if (ran.status != status)
		fail_msg("%s: status %d, wanted %d:\n%s", line, ran.status, status, ran.text);
}

static json_t *bench_json(const char *arguments, int status)
{
	char line[2048];
	json_t *json;

	snprintf(line, sizeof(line), "--json %s", arguments);
	run_bench(line, status);
	json = json_loads(ran.text, 0, NULL);
	if (json == NULL)
		fail_msg("%s is no JSON:\n%s", line, ran.text);
	return json;
}

static json_int_t number(json_t *json, const char *name)
{
	json_t *value = json_object_get(json, name);

	if (!json_is_integer(value))
		fail_msg("no number '%s' in:\n%s", name, ran.text);
	return json_integer_value(value);
}

static json_int_t size_alone(const char *file)
{
	char line[256];
	json_int_t bytes;
	json_t *json;

	snprintf(line, sizeof(line), "--arena pagerun --replay %s", file);
	json = bench_json(line, 0);
	bytes = number(json, "premap_memory_bytes");
	json_decref(json);
	return bytes;
}

/* The worst log's size, what each needs, how many fit in less, and which fails a step below. */
static void names_the_worst(void **state)
{
	static const char *const files[] = { "small.tsv", "large.tsv", "middle.tsv" };
	json_int_t alone[3];
	json_t *json, *logs, *smaller;

	(void)state;
	for (size_t i = 0; i < 3; i++)
		alone[i] = size_alone(files[i]);
	json = bench_json("--arena pagerun --replay small.tsv --replay large.tsv "
			  "--replay middle.tsv",
			  0);
	logs = json_object_get(json, "logs");
	smaller = json_object_get(json, "smaller");
	assert_true(json_is_true(json_object_get(json, "verified")));
	assert_int_equal(number(json, "premap_memory_bytes"), alone[1]);
	assert_int_equal(number(json, "below_bytes"),
			 number(json, "smallest_bytes") - number(json, "step_bytes"));
	assert_string_equal(json_string_value(json_object_get(json, "below_file")), "large.tsv");
	/* 20,000,000 and 3,000,000 in pages, and 4 MiB of staging. */
	assert_int_equal(number(json, "any_order_bytes"), 20000768 + 3002368 + (4 << 20));
	assert_int_equal(json_array_size(logs), 3);
	for (size_t i = 0; i < 3; i++) {
		json_t *log = json_array_get(logs, i);

		assert_string_equal(json_string_value(json_object_get(log, "file")), files[i]);
		assert_int_equal(number(log, "needs_bytes"), alone[i]);
		assert_true(json_is_true(json_object_get(log, "verified")));
		assert_true(json_is_true(json_object_get(log, "clean")));
	}
	assert_int_equal(json_array_size(smaller), 2);
	for (size_t i = 0; i < 2; i++) {
		json_t *size = json_array_get(smaller, i);

		assert_int_equal(number(size, "premap_memory_bytes"), alone[i == 0 ? 2 : 0]);
		assert_int_equal(number(size, "fits"), 2 - i);
		assert_int_equal(number(size, "of"), 3);
	}
	json_decref(json);
}

/* What either of two logs needs is nothing for the other: the size is above both. */
static void moves_up(void **state)
{
	json_int_t most = size_alone("between.tsv"), least = size_alone("islands.tsv");
	json_t *json, *smaller;

	(void)state;
	json = bench_json("--arena pagerun --replay islands.tsv --replay between.tsv", 0);
	smaller = json_object_get(json, "smaller");
	assert_true(json_is_true(json_object_get(json, "verified")));
	assert_true(number(json, "premap_memory_bytes") > most && most > least);
	assert_string_equal(json_string_value(json_object_get(json, "below_file")), "islands.tsv");
	assert_int_equal(json_array_size(smaller), 2);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(number(json_array_get(smaller, i), "fits"), 1);
	json_decref(json);
}

static void tells_as_text(void **state)
{
	(void)state;
	run_bench("--arena pagerun --replay small.tsv --replay large.tsv --replay small.tsv", 0);
	twt_command_expect(&ran, 0, "MiB), verified", 1);
	twt_command_expect(&ran, 0, "a run of each of 3 logs", 1);
	twt_command_expect(&ran, 0, "fits 2 of 3", 1);
	twt_command_expect(&ran, 0, "at most 25.94 MiB are live at once (large.tsv)", 1);
	run_bench("--arena pagerun --replay large.tsv", 0);
	twt_command_expect(&ran, 0, "at most 25.94 MiB are live at once", 1);
	/* The same log twice needs what it needs once. */
	run_bench("--arena pagerun --replay small.tsv --replay small.tsv", 0);
	twt_command_expect(&ran, 0, "none: no log needs less", 1);
}

static void checks_a_size(void **state)
{
	char line[256];
	json_t *json;

	(void)state;
	run_bench("--premap 14MiB --replay small.tsv --replay large.tsv --replay middle.tsv", 1);
	twt_command_expect(&ran, 1, "=14680064 fits 2 of 3 logs", 1);
	twt_command_expect(&ran, 1, "large.tsv: its run is not clean", 1);
	twt_command_expect(&ran, 1, "small.tsv: enough", 1);
	json = bench_json("--premap 40MiB --replay small.tsv --replay large.tsv", 0);
	assert_int_equal(number(json, "fits"), 2);
	json_decref(json);
	/* A small pool gives less to staging: what is named for it is enough. */
	snprintf(line, sizeof(line), "--arena pagerun --premap %lld --replay small.tsv",
		 (long long)size_alone("small.tsv"));
	run_bench(line, 0);
}

/* What is no proof for one log is none for all, and which log it is is said. */
static void is_unverified(void **state)
{
	(void)state;
	run_bench("--arena pagerun --replay large.tsv --replay part.tsv", 3);
	twt_command_expect(&ran, 3, "named, not verified: part.tsv: the log holds 1 of 8", 1);
	/* Nobody can say what lives in other orders of half a log. */
	twt_command_expect(&ran, 3, "any order of the threads", 0);
	run_bench("--replay slab.log --replay small.tsv", 3);
	twt_command_expect(&ran, 3, "not verified: slab.log: the log's pool has the arena slab", 1);
}

static void agrees_on_arenas(void **state)
{
	char line[256];
	bool without;
	json_t *json;

	(void)state;
	run_bench("--replay small.tsv --replay pagerun.log --replay jemalloc.log", 2);
	twt_command_expect(&ran, 2,
			   "the pool of pagerun.log has the arena pagerun, and that of "
			   "jemalloc.log has jemalloc: --arena",
			   1);
	run_bench("--arena pagerun --replay pagerun.log --replay jemalloc.log", 0);
	/* Of a text log, which does not say, it is that of the others. */
	snprintf(line, sizeof(line),
		 "cd %s && @/bench/tow-size --quick --arena jemalloc "
		 "--replay small.tsv",
		 dir);
	twt_command(line, &ran);
	without = ran.status == 2; /* there is no jemalloc here */
	json = bench_json(without ? "--replay small.tsv --replay pagerun.log"
				  : "--replay small.tsv --replay jemalloc.log",
			  0);
	assert_string_equal(json_string_value(json_object_get(json, "arena")),
			    without ? "pagerun" : "jemalloc");
	json_decref(json);
}

static void refuses(void **state)
{
	char many[2048] = "";

	(void)state;
	run_bench("--replay small.tsv --replay missing.tsv", 2);
	twt_command_expect(&ran, 2, "missing.tsv: No such file", 1);
	run_bench("--replay small.tsv --replay /", 2);
	run_bench("--replay - --replay - <small.tsv", 2);
	twt_command_expect(&ran, 2, "can be read only once", 1);
	run_bench("--replay small.tsv --replay large.tsv --svg x.svg", 2);
	twt_command_expect(&ran, 2, "--svg draws one log", 1);
	for (int i = 0; i < 65; i++)
		strcat(many, "--replay small.tsv ");
	run_bench(many, 2);
	twt_command_expect(&ran, 2, "--replay: at most 64 logs", 1);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_the_worst), cmocka_unit_test(moves_up),
		cmocka_unit_test(tells_as_text),   cmocka_unit_test(checks_a_size),
		cmocka_unit_test(is_unverified),   cmocka_unit_test(agrees_on_arenas),
		cmocka_unit_test(refuses),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
