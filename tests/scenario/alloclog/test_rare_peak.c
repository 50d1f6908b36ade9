/*
 * test_rare_peak.c - a job goes on for longer than its log has room for, and one step in the middle
 * of it, one of two thousand, takes far more than the others. The log has gaps, and the size that
 * is named by it holds that step all the same: so says the log of the same job that is whole.
 */
#include "twt.h"

#include <jansson.h>
#include <stdint.h>
#include <unistd.h>

#include "command.h"
#include <towline/towline.h>

#define STEPS     2000
#define PEAK_STEP 1234
#define BLOCKS    40
#define BLOCK     ((size_t)20000)
#define HIGH      5
#define HIGH_EACH ((size_t)3 << 20)
#define MIB       ((json_int_t)1 << 20)

static char dir[64];

static int setup(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/twt-rare-XXXXXX");
	return mkdtemp(dir) == NULL ? -1 : setenv("TOW_STATS_DIR", dir, 1);
}

static int teardown(void **state)
{
	static struct twt_command ran;
	char line[128];

	(void)state;
	snprintf(line, sizeof(line), "rm -r %s", dir);
	twt_command(line, &ran);
	return ran.status;
}

static void do_step(struct tow_runtime *runtime, uint64_t number)
{
	void *block[BLOCKS], *high[HIGH];
	int most = number == PEAK_STEP ? HIGH : 0;

	assert_int_equal(tow_step_begin(runtime, number), TOW_OK);
	for (int i = 0; i < BLOCKS; i++)
		assert_int_equal(tow_alloc(runtime, BLOCK + 512 * (number % 7), 0, &block[i]),
				 TOW_OK);
	for (int i = 0; i < most; i++)
		assert_int_equal(tow_alloc(runtime, HIGH_EACH, 0, &high[i]), TOW_OK);
	for (int i = 0; i < most; i++)
		assert_int_equal(tow_free(runtime, high[i]), TOW_OK);
	for (int i = 0; i < BLOCKS; i++)
		assert_int_equal(tow_free(runtime, block[(i * 7) % BLOCKS]), TOW_OK);
	assert_int_equal(tow_step_end(runtime, number), TOW_OK);
}

/* The job with room for so many events; its log goes to dir/name. */
static void record(int64_t events, const char *name)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	static struct twt_command ran;
	struct tow_runtime *runtime;
	void *stays;
	char line[256];

	options.premap_memory_bytes = 64 << 20;
	options.alloclog = 1;
	options.alloclog_events = events;
	options.job = name;
	options.stats_dir = dir;
	assert_int_equal(tow_runtime_open(&options, &runtime), TOW_OK);
	assert_int_equal(tow_alloc(runtime, 100000, 0, &stays), TOW_OK);
	for (uint64_t i = 1; i <= STEPS; i++)
		do_step(runtime, i);
	snprintf(line, sizeof(line), "@/tools/towstat/towstat alloclog %s.0 -o %s/%s", name, dir,
		 name);
	twt_command(line, &ran);
	assert_int_equal(ran.status, 0);
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
}

/* tow-size's document about a log. */
static json_t *judge(const char *name)
{
	static struct twt_command ran;
	char line[256];
	json_t *root;

	snprintf(line, sizeof(line), "@/bench/tow-size --quick --json --replay %s/%s", dir, name);
	twt_command(line, &ran);
	root = json_loads(ran.text, 0, NULL);
	if (root == NULL)
		fail_msg("%s", ran.text);
	return root;
}

static json_int_t number(json_t *root, const char *object, const char *name)
{
	json_t *value =
		json_object_get(object != NULL ? json_object_get(root, object) : root, name);

	assert_true(json_is_integer(value));
	return json_integer_value(value);
}

static void peak_is_held(void **state)
{
	json_t *whole, *gaps;

	(void)state;
	record(8192, "gaps");
	record(1 << 20, "whole");
	gaps = judge("gaps");
	whole = judge("whole");
	assert_int_equal(number(whole, "log", "gaps"), 0);
	assert_int_equal(number(whole, "log", "steps"), STEPS);
	assert_true(number(gaps, "log", "gaps") > 0);
	assert_true(number(gaps, "log", "events") <= 8192);
	assert_int_equal(number(gaps, "log", "steps") + number(gaps, "log", "left_steps"), STEPS);
	assert_int_equal(number(gaps, "log", "lost"), 0);
	assert_int_equal(number(gaps, "peak", "asked_bytes"), number(whole, "peak", "asked_bytes"));
	assert_true(number(gaps, "peak", "asked_bytes") > HIGH * 3 * MIB);
	assert_true(number(gaps, NULL, "premap_memory_bytes") >=
		    number(whole, NULL, "smallest_bytes"));
	assert_true(number(gaps, NULL, "premap_memory_bytes") > HIGH * 3 * MIB);
	json_decref(whole);
	json_decref(gaps);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(peak_is_held),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
