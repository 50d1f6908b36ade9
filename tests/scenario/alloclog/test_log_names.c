/*
 * test_log_names.c - tags and call sites by their names, from a program that has them to whoever
 * reads its log: in JSON and summary of tow-alloclog, and in the sum, the call sites, the warning
 * of a leak and the picture of tow-size. Then text logs with words, units and odd names, and
 * sums of tiny pools.
 */
#include "twt.h"

#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include <towline/towline.h>

#define STEPS 8

static char dir[64];
static struct twt_command ran;
static struct tow_runtime *runtime;

static int setup(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/twt-names-XXXXXX");
	return mkdtemp(dir) == NULL ? -1 : setenv("TOW_STATS_DIR", dir, 1);
}

static int teardown(void **state)
{
	char line[128];

	(void)state;
	snprintf(line, sizeof(line), "rm -r %s", dir);
	return system(line);
}

static void run_line(const char *program, const char *arguments)
{
	char line[512];

	snprintf(line, sizeof(line), "cd %s && @/%s %s", dir, program, arguments);
	twt_command(line, &ran);
}

static json_t *run_json(const char *program, const char *arguments)
{
	json_t *json;

	run_line(program, arguments);
	json = json_loads(ran.text, 0, NULL);
	if (ran.status != 0 || json == NULL)
		fail_msg("%s %s: status %d: %s", program, arguments, ran.status, ran.text);
	return json;
}

static void write_file(const char *name, const char *text)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "we");
	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

/* The text of a file, to be given to free(). */
static char *read_file(const char *name)
{
	size_t room = 4 << 20, bytes;
	char path[128], *text = malloc(room);
	FILE *file;

	assert_non_null(text);
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "re");
	assert_non_null(file);
	bytes = fread(text, 1, room - 1, file);
	fclose(file);
	text[bytes] = '\0';
	return text;
}

/* Two places of their own: what is never freed, and what each step frees. */
static __attribute__((noinline)) void *take_weights(size_t bytes)
{
	void *block = NULL;

	assert_int_equal(tow_tag_set("weights <&\"> of the model"), TOW_OK);
	assert_int_equal(tow_alloc(runtime, bytes, 0, &block), TOW_OK);
	return block;
}

static __attribute__((noinline)) void *take_gradient(size_t bytes)
{
	void *block = NULL;

	assert_int_equal(tow_tag_set("gradients"), TOW_OK);
	assert_int_equal(tow_alloc(runtime, bytes, 0, &block), TOW_OK);
	return block;
}

static __attribute__((noinline)) void *take_cache(size_t bytes)
{
	void *block = NULL;

	assert_int_equal(tow_tag_set("metrics_cache"), TOW_OK);
	assert_int_equal(tow_alloc(runtime, bytes, 0, &block), TOW_OK);
	return block;
}

/* A training run that leaks a little in each step, and its log in `job.log`. */
static void record(void)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	void *weights, *cache[STEPS];

	options.premap_memory_bytes = 16 << 20;
	options.alloclog = 1;
	options.job = "log";
	options.stats_dir = dir;
	assert_int_equal(tow_runtime_open(&options, &runtime), TOW_OK);
	weights = take_weights(3 << 20);
	for (unsigned i = 0; i < STEPS; i++) {
		void *gradient;

		assert_int_equal(tow_step_begin(runtime, i), TOW_OK);
		gradient = take_gradient(1 << 20);
		cache[i] = take_cache(40000);
		assert_int_equal(tow_free(runtime, gradient), TOW_OK);
		assert_int_equal(tow_step_end(runtime, i), TOW_OK);
	}
	assert_int_equal(tow_tag_set(NULL), TOW_OK);
	run_line("tools/towstat/towstat", "alloclog log.0 -o job.log");
	assert_int_equal(ran.status, 0);
	for (unsigned i = 0; i < STEPS; i++)
		assert_int_equal(tow_free(runtime, cache[i]), TOW_OK);
	assert_int_equal(tow_free(runtime, weights), TOW_OK);
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
}

/* The row of an array whose member `key` is `text`; fails without one. */
static const json_t *row_of(const json_t *array, const char *key, const char *text)
{
	const json_t *row;
	size_t i;

	json_array_foreach(array, i, row)
	{
		const char *value = json_string_value(json_object_get(row, key));

		if (value != NULL && strstr(value, text) != NULL)
			return row;
	}
	fail_msg("no '%s' with '%s'", key, text);
	return NULL;
}

static json_int_t number(const json_t *object, const char *key)
{
	assert_true(json_is_integer(json_object_get(object, key)));
	return json_integer_value(json_object_get(object, key));
}

#define THIS_PROGRAM "test_scenario_log_names"

static void tools_tell_names(void)
{
	json_t *json = run_json("bench/tow-alloclog", "job.log");
	const json_t *event = json_array_get(json_object_get(json, "events"), 0);
	const json_t *row = row_of(json_object_get(json, "tag_names"), "name", "weights <&\"> of");

	assert_int_equal(number(row, "tag"), number(event, "tag"));
	row = row_of(json_object_get(json, "caller_names"), "caller",
		     json_string_value(json_object_get(event, "caller")));
	assert_non_null(
		strstr(json_string_value(json_object_get(row, "name")), THIS_PROGRAM "+0x"));
	json_decref(json);
	run_line("bench/tow-alloclog", "--summary job.log");
	twt_command_expect(&ran, 0, "  weights <&\"> of the model: at most 3145728 bytes live, 1 ",
			   1);
	twt_command_expect(&ran, 0, "  metrics_cache: at most 320000 bytes live, 8 allocations", 1);
	twt_command_expect(&ran, 0, "  gradients: at most 1048576 bytes live, 8 allocations", 1);
	twt_command_expect(&ran, 0, "  " THIS_PROGRAM "+0x", 3);
}

static void sizing_tells_names(void)
{
	json_t *json = run_json("bench/tow-size", "--quick --json --replay job.log");
	const json_t *row = row_of(json_object_get(json, "budget"), "name", "tag metrics_cache");
	const json_t *sites = json_object_get(json, "call_sites");

	assert_int_equal(number(row, "bytes"), 320000);
	row = row_of(json_object_get(json, "budget"), "name", "tag weights <&\"> of the model");
	assert_int_equal(number(row, "bytes"), 3 << 20);
	assert_int_equal(json_array_size(sites), 3);
	row = json_array_get(sites, 0);
	assert_int_equal(number(row, "bytes"), 3 << 20);
	assert_int_equal(number(row, "blocks"), 1);
	assert_non_null(strstr(json_string_value(json_object_get(row, "caller")), THIS_PROGRAM));
	assert_non_null(json_object_get(row, "address"));
	row = json_object_get(json, "growth_most");
	assert_string_equal(json_string_value(json_object_get(row, "tag")), "tag metrics_cache");
	assert_non_null(strstr(json_string_value(json_object_get(row, "caller")), THIS_PROGRAM));
	assert_int_equal(number(row, "bytes"), 4 * 40000);
	row = json_object_get(json, "never_freed_most");
	assert_string_equal(json_string_value(json_object_get(row, "tag")), "tag metrics_cache");
	assert_int_equal(number(row, "blocks"), 4);
	json_decref(json);
	run_line("bench/tow-size", "--quick --replay job.log --svg job.svg");
	twt_command_expect(&ran, 0, "  tag weights <&\"> of the model", 1);
	twt_command_expect(&ran, 0, "  tag gradients", 1);
	twt_command_expect(&ran, 0, "what is live grows by 39.06 KiB a step", 1);
	twt_command_expect(&ran, 0, "the steps: tag metrics_cache at " THIS_PROGRAM "+0x", 1);
	twt_command_expect(&ran, 0, "in 4 blocks: tag metrics_cache at " THIS_PROGRAM "+0x", 1);
	twt_command_expect(&ran, 0, "call sites with the most bytes live at the peak", 1);
	twt_command_expect(&ran, 0, "3.00 MiB        1 block  " THIS_PROGRAM "+0x", 1);
}

/* What the picture says, as the text elements of an XML parser; a line each. */
static void read_picture(const char *name)
{
	char line[512];

	snprintf(line, sizeof(line),
		 "python3 -c 'import sys, xml.dom.minidom as m; print(*[t.firstChild.data for t in "
		 "m.parse(sys.argv[1]).getElementsByTagName(\"text\")], sep=\"\\n\")' %s/%s",
		 dir, name);
	twt_command(line, &ran);
}

static void from_program_to_picture(void **state)
{
	char *svg;

	(void)state;
	record();
	tools_tell_names();
	sizing_tells_names();
	svg = read_file("job.svg");
	assert_non_null(strstr(svg, "<title>tag weights &lt;&amp;&quot;&gt; of the model</title>"));
	free(svg);
	read_picture("job.svg");
	twt_command_expect(&ran, 0, "Live bytes over time, by tag, MiB\n", 1);
	twt_command_expect(&ran, 0, "seconds since the first event\n", 1);
	/* The sum and the legend; there, the names are shorter. */
	twt_command_expect(&ran, 0, "tag metrics_cache\n312.50 KiB\n", 2);
	twt_command_expect(&ran, 0, "tag weights <&\"> of the model\n3.00 MiB\n", 1);
	twt_command_expect(&ran, 0, "tag weights <&\"> of the ...\n3.00 MiB\n", 1);
	twt_command_expect(&ran, 0, "the peak\n4.31 MiB\n", 1);
	twt_command_expect(&ran, 0, "premap_memory_bytes\n", 1);
}

/* Words for tags and callers, sizes with units, none of them; the same as numbers would be. */
static void text_has_words(void **state)
{
	(void)state;
	write_file("words.tsv", "kind id bytes align thread tag caller\n"
				"# before 1.5MiB\n"
				"alloc 1 2MiB 64 0 weights load+0x41\n"
				"alloc 2 512KiB 0 0 - step+0x7\n"
				"alloc 3 1048576 64 0 5 0x401000\n"
				"alloc 4 100 64 0 \033[31m\377red\n"
				"free 1 2MiB 64 0 weights load+0x41\n"
				"free 3\n");
	run_line("bench/tow-size", "--quick --arena pagerun --replay words.tsv --svg w.svg");
	twt_command_expect(&ran, 0,
			   "  tag weights                                            2097152 ", 1);
	twt_command_expect(&ran, 0, "  tag 5 ", 1);
	twt_command_expect(&ran, 0, "  step+0x7 ", 1);
	twt_command_expect(&ran, 0,
			   "  live before the log began                              1572864 ", 1);
	twt_command_expect(&ran, 0, "  tag ?[31m?red ", 1);
	twt_command_expect(&ran, 0, "1 block  load+0x41\n", 1);
	twt_command_expect(&ran, 0, "1 block  caller 0x401000\n", 1);
	assert_null(strchr(ran.text, '\033'));
	read_picture("w.svg");
	twt_command_expect(&ran, 0, "events, from the first one on\n", 1);
}

static const struct {
	const char *text, *words;
} bad[] = {
	{ "alloc 1 64 64 0 5x\n", ":1: tag is neither a number nor a word: '5x'" },
	{ "alloc 1 64 64 0 4026531840\n", ":1: tag is larger than 4026531839: '4026531840'" },
	{ "alloc 1 64 64 0 a -b\n", ":1: caller is neither a number nor a word: '-b'" },
	{ "alloc 1 64 64 0 a 0xffffffffffffffff\n", ":1: caller is larger than" },
	{ "alloc 1 1TiB\n", ":1: bytes is not a size such as 4096 or 1.5MiB: '1TiB'" },
	{ "alloc 1 1.5\n", ":1: bytes is not a size" },
	{ "alloc 1 \033]0;x\n", ":1: bytes is not a size such as 4096 or 1.5MiB: '?]0;x'" },
	{ "alloc 1 64\n# before 2GIB\n", ":2: # before takes a size up to 2^40 bytes" },
};

static void text_is_refused(void **state)
{
	char text[512];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		write_file("bad.tsv", bad[i].text);
		run_line("bench/tow-size", "--quick --replay bad.tsv");
		twt_command_expect(&ran, 2, bad[i].words, 1);
	}
	memset(text, 'x', sizeof(text));
	memcpy(text, "alloc 1 64 64 0 ", 16);
	memcpy(text + 200, "\n", 2);
	write_file("bad.tsv", text);
	run_line("bench/tow-size", "--quick --replay bad.tsv");
	twt_command_expect(&ran, 2, ":1: tag is longer than 127 characters: 'xxx", 1);
}

/* A program that made a word of each step: refused at the line that has one too many. */
static void words_are_bounded(void **state)
{
	char *text = malloc(1 << 16), *at = text;

	(void)state;
	assert_non_null(text);
	for (int i = 0; i < 1025; i++)
		at += sprintf(at, "alloc %d 64 64 0 step_%d\n", i, i);
	write_file("many.tsv", text);
	free(text);
	run_line("bench/tow-size", "--quick --replay many.tsv");
	twt_command_expect(&ran, 2, ":1025: tag is a new word, and 1024 words are kept at most", 1);
}

/* A pool that is larger than all that is in it: each line makes sense, and they add up. */
static void tiny_pools_add_up(void **state)
{
	static const char *const logs[] = { "alloc 1 100\nalloc 2 100\nalloc 3 100\n",
					    "alloc 1 1\nfree 1\n",
					    "alloc 1 700000\nalloc 2 5000 4096\nalloc 3 90001\n" };

	(void)state;
	for (size_t i = 0; i < sizeof(logs) / sizeof(logs[0]); i++) {
		json_int_t sum = 0;
		const json_t *row;
		json_t *json;
		size_t k;

		write_file("tiny.tsv", logs[i]);
		json = run_json("bench/tow-size",
				"--quick --json --arena pagerun --replay tiny.tsv");
		json_array_foreach(json_object_get(json, "budget"), k, row) sum +=
			number(row, "bytes");
		assert_int_equal(sum, number(json, "premap_memory_bytes"));
		assert_true(number(json, "any_order_bytes") <= sum);
		json_decref(json);
	}
	write_file("tiny.tsv", logs[0]);
	run_line("bench/tow-size", "--quick --arena pagerun --replay tiny.tsv");
	twt_command_expect(&ran, 0, "at most 300 bytes live, 100 bytes the largest", 1);
	twt_command_expect(&ran, 0,
			   "  all of the program                                         300      "
			   "300 bytes  3 blocks",
			   1);
	twt_command_expect(&ran, 0, "  free: no pool is smaller ", 1);
	twt_command_expect(&ran, 0, " 0.00 MiB", 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(from_program_to_picture), cmocka_unit_test(text_has_words),
		cmocka_unit_test(text_is_refused),         cmocka_unit_test(words_are_bounded),
		cmocka_unit_test(tiny_pools_add_up),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
