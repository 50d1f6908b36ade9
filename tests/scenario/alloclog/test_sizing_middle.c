/*
 * test_sizing_middle.c - what tow-size knows of the time before a recording that begins in the
 * middle: the blocks that were live, as the log lists them, or as a sum, as they were asked for or,
 * where the header says so, as they were taken of the pool; the most that the pool has held, and
 * how far it was in pieces, below which no size is.
 */
#include "twt.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memreg/alloclog/alloclog_file.h"
#include <towline/status.h>

#define MIB   ((uint64_t)1 << 20)
#define SLABS (124 << 10) /* that small blocks leave free of their slabs */

#define UNVERIFIED 3 /* tow-size's status where it names a size without proof */

static char dir[64], path[80];

static int setup(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/twt-middle-XXXXXX");
	if (mkdtemp(dir) == NULL)
		return -1;
	snprintf(path, sizeof(path), "%s/log", dir);
	return setenv("TOW_STATS_DIR", dir, 1);
}

static int teardown(void **state)
{
	(void)state;
	return unlink(path) != 0 || rmdir(dir) != 0 ? -1 : 0;
}

static json_t *size_of(const struct twi_alloc_trace *trace)
{
	const char *build = getenv("TOW_TEST_BUILD");
	FILE *file = fopen(path, "we"), *pipe;
	char command[512];
	char *bytes;
	size_t count;
	json_t *json;
	int status;

	assert_non_null(file);
	assert_int_equal(twi_alloclog_encode(trace, &bytes, &count), TOW_OK);
	assert_int_equal(fwrite(bytes, 1, count, file), count);
	assert_int_equal(fclose(file), 0);
	free(bytes);
	snprintf(command, sizeof(command), "%s/bench/tow-size --quick --json --replay %s",
		 build != NULL ? build : ".", path);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	json = json_loadf(pipe, 0, NULL);
	status = pclose(pipe);
	/* Whether a run proves it is not asked here, as that hangs on the machine's load. */
	assert_true(WIFEXITED(status) &&
		    (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == UNVERIFIED));
	assert_non_null(json);
	return json;
}

static uint64_t number(json_t *object, const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(object, name));
}

/* Ten blocks were live; one of them is freed, by an id that the log does not have. */
static struct twi_alloc_event events[] = {
	{ .id = 1, .bytes = 4096, .align_log2 = 6, .kind = TWI_ALLOC_ALLOC },
	{ .id = 0, .bytes = 102400, .kind = TWI_ALLOC_FREE },
	{ .id = 1, .bytes = 4096, .kind = TWI_ALLOC_FREE },
};

static struct twi_alloc_trace middle(void)
{
	return (struct twi_alloc_trace){ .events = events,
					 .count = 3,
					 .unknown_frees = 1,
					 .live_bytes_at_start = 1000000,
					 .live_allocations_at_start = 10,
					 .pool_bytes = 16 * MIB,
					 .page_bytes = 4096,
					 .staging_bytes = MIB,
					 .arena = "pagerun" };
}

static void counts_asked(void **state)
{
	struct twi_alloc_trace trace = middle();
	json_t *json = size_of(&trace);

	(void)state;
	assert_int_equal(number(json_object_get(json, "peak"), "asked_bytes"), 1000000 + 4096);
	json_decref(json);
}

static void counts_taken(void **state)
{
	struct twi_alloc_trace trace = middle();
	json_t *json;

	(void)state;
	trace.taken_bytes_at_start = trace.taken_peak_bytes = 1024000;
	json = size_of(&trace);
	assert_int_equal(number(json_object_get(json, "peak"), "asked_bytes"),
			 1024000 + SLABS + 4096);
	json_decref(json);
}

static void counts_peak(void **state)
{
	struct twi_alloc_trace trace = middle();
	json_t *json;

	(void)state;
	trace.taken_bytes_at_start = 1024000;
	trace.taken_peak_bytes = 9 * MIB;
	json = size_of(&trace);
	assert_true(number(json, "premap_memory_bytes") > 9 * MIB);
	assert_int_equal(number(json_object_get(json, "peak"), "asked_bytes"), 9 * MIB + SLABS);
	json_decref(json);
	/* From the open on, the log has all of it. */
	trace.from_open = true;
	json = size_of(&trace);
	assert_true(number(json, "premap_memory_bytes") < 4 * MIB);
	json_decref(json);
}

/* The live blocks are listed: each is itself, at its alignment, and is freed by its id. */
static void takes_listed(void **state)
{
	static struct twi_alloc_event listed[] = {
		{ .id = 1, .bytes = 2 * MIB, .align_log2 = 21, .kind = TWI_ALLOC_ALLOC },
		{ .id = 2, .bytes = 3 * MIB, .align_log2 = 6, .kind = TWI_ALLOC_ALLOC },
		{ .id = 3, .bytes = 4096, .align_log2 = 6, .kind = TWI_ALLOC_ALLOC, .thread = 7 },
		{ .id = 2, .bytes = 3 * MIB, .kind = TWI_ALLOC_FREE, .thread = 7 },
		{ .id = 4,
		  .bytes = 5 * MIB,
		  .align_log2 = 6,
		  .kind = TWI_ALLOC_ALLOC,
		  .thread = 7 },
	};
	struct twi_alloc_trace trace = middle();
	json_t *json, *peak;

	(void)state;
	listed[0].tag = listed[1].tag = TWI_ALLOC_TAG_EARLIER;
	listed[1].thread = 7;
	trace.events = listed;
	trace.count = 5;
	trace.unknown_frees = trace.live_bytes_at_start = trace.live_allocations_at_start = 0;
	trace.taken_peak_bytes = 7 * MIB;
	json = size_of(&trace);
	peak = json_object_get(json, "peak");
	/* 2 MiB stay, at their alignment; 3 MiB go before the 5 come. */
	assert_int_equal(number(peak, "asked_bytes"), 7 * MIB + 4096);
	assert_int_equal(number(json_object_get(json, "headroom"), "bytes"), 0);
	json_decref(json);
	trace.spread_bytes = 12 * MIB;
	json = size_of(&trace);
	assert_true(number(json, "premap_memory_bytes") >= 13 * MIB);
	assert_true(number(json, "premap_memory_bytes") < 14 * MIB);
	json_decref(json);
	/* From the open on, the log has all of it. */
	trace.from_open = true;
	json = size_of(&trace);
	assert_true(number(json, "premap_memory_bytes") < 12 * MIB);
	json_decref(json);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_asked),
		cmocka_unit_test(counts_taken),
		cmocka_unit_test(counts_peak),
		cmocka_unit_test(takes_listed),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
