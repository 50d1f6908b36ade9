/*
 * test_trace_writer.c - captures that something triggers: how often they may be, what they hold of
 * the past, where their files are, and that none is lost at the end or written over.
 */
#include "twt.h"

#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <towline/status.h>

#include "diag/record/diag.h"
#include "diag/record/span.h"
#include "diag/trace/capture/trace_writer.h"
#include "diag/trace/export/export.h"
#include "trace_files.h"

#define S_NS 1000000000ull

static struct twi_diag *diag;
static char dir[64];
static struct twt_trace_file files[TWT_TRACE_FILES];

static int setup(void **state)
{
	(void)state;
	twi_clock_init();
	snprintf(dir, sizeof(dir), "/tmp/twt-trigger-XXXXXX");
	assert_non_null(mkdtemp(dir));
	return twi_diag_create(&diag);
}

static int teardown(void **state)
{
	(void)state;
	twi_diag_destroy(diag);
	twt_trace_files_remove(dir);
	return 0;
}

static void record(uint64_t id, uint64_t end_ns)
{
	struct twi_span span = {
		.id = id, .start_ns = end_ns - 1000, .end_ns = end_ns, .kind = TWI_SPAN_STEP
	};

	twi_span_record(diag, &span);
}

static struct twi_trace_writer *open_writer(uint32_t seconds)
{
	const struct twi_trace_writer_options options = { .seconds = seconds, .dir = dir };
	struct twi_trace_writer *writer;

	assert_int_equal(twi_trace_writer_open(diag, &options, &writer), TOW_OK);
	return writer;
}

static bool fire(struct twi_trace_writer *writer, const char *session, uint64_t since_ns)
{
	struct twi_trace_trigger *trigger = twi_trace_writer_claim(writer);

	if (trigger == NULL)
		return false;
	snprintf(trigger->session, sizeof(trigger->session), "%s", session);
	snprintf(trigger->why, sizeof(trigger->why), "a test");
	trigger->since_ns = since_ns;
	twi_trace_writer_fire(writer);
	return true;
}

static void bounds(void **state)
{
	struct twi_trace_bounds all = { 0 };
	uint64_t now = 5 * S_NS;

	(void)state;
	for (unsigned i = 0; i < TWI_TRIGGERED_MAX; i++) {
		assert_true(twi_trace_bounds_take(&all, now));
		assert_false(twi_trace_bounds_take(&all, now));
		assert_false(twi_trace_bounds_take(&all, now + TWI_TRIGGERED_APART_NS - 1));
		now += TWI_TRIGGERED_APART_NS;
	}
	assert_false(twi_trace_bounds_take(&all, now));
	assert_false(twi_trace_bounds_take(&all, now + 1000 * TWI_TRIGGERED_APART_NS));
}

/* What the rings hold since then is in the file, what is older is not, what comes is. */
static void past_and_future(void **state)
{
	const struct twi_span *spans[8];
	struct twi_trace_writer *writer;
	struct twi_trace trace;
	uint64_t since, now;

	(void)state;
	usleep(2000); /* behind the beginning of the diag's own time */
	since = twi_now_ns();
	usleep(2000);
	now = twi_now_ns();
	record(1, since - 2);
	record(2, since - 1);
	record(3, since + 5000);
	record(4, now);
	writer = open_writer(1);
	assert_true(fire(writer, "step_4", since));
	assert_false(fire(writer, "step_5", since)); /* one is under way */
	record(5, twi_now_ns());
	assert_int_equal(twt_trace_files_await(dir, 1, files), 1);
	assert_string_equal(files[0].session, "step_4");
	assert_false(fire(writer, "step_6", since)); /* that was less than a minute ago */
	twi_trace_writer_close(writer);
	assert_int_equal(twt_trace_files(dir, files), 1);
	twt_trace_file_read(&files[0], &trace);
	assert_int_equal(twt_trace_spans_of(&trace, TWI_SPAN_STEP, spans, 8), 3);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(spans[i]->id, 3 + i);
	assert_true(trace.ranks[0].begin_ns <= spans[0]->end_ns);
	twi_trace_fini(&trace);
	assert_int_equal(twi_counter_sum(diag, TWI_C_triggered_captures), 1);
	assert_int_equal(twi_counter_sum(diag, TWI_C_triggers_passed_over), 2);
}

/* Of a ring that has been overwritten since then it is known that something is missing. */
static void overwritten(void **state)
{
	uint64_t since = twi_now_ns();
	struct twi_trace_writer *writer;
	struct twi_trace trace;
	uint64_t lost = 0;

	(void)state;
	for (uint64_t i = 0; i < 3 * TWI_SPAN_ROWS; i++)
		record(i, twi_now_ns());
	writer = open_writer(60);
	assert_true(fire(writer, "late", since));
	twi_trace_writer_close(writer);
	assert_int_equal(twt_trace_files(dir, files), 1);
	twt_trace_file_read(&files[0], &trace);
	assert_int_equal(twt_trace_spans_of(&trace, TWI_SPAN_STEP, NULL, 0), TWI_SPAN_ROWS);
	for (size_t t = 0; t < trace.ranks[0].thread_count; t++)
		lost += trace.ranks[0].threads[t].lost;
	assert_true(lost >= 2 * TWI_SPAN_ROWS && lost <= 3 * TWI_SPAN_ROWS);
	twi_trace_fini(&trace);
}

/* The end comes first: the file is written all the same, and at once. */
static void ended_early(void **state)
{
	struct twi_trace_writer *writer = open_writer(60);
	uint64_t begun = twi_now_ns();

	(void)state;
	assert_true(fire(writer, "step_9", begun));
	twi_trace_writer_stop(writer);
	assert_true(twi_now_ns() - begun < 30 * S_NS);
	assert_int_equal(twt_trace_files(dir, files), 1);
	twi_trace_writer_stop(writer);
	assert_false(fire(writer, "step_10", begun));
	twi_trace_writer_close(writer);
	assert_int_equal(twt_trace_files(dir, files), 1);
}

static void not_written_over(void **state)
{
	struct stat before, after;
	struct twt_trace_file kept;

	(void)state;
	for (unsigned turn = 0; turn < 2; turn++) {
		struct twi_trace_writer *writer = open_writer(60);

		assert_true(fire(writer, "step_7", twi_now_ns()));
		twi_trace_writer_close(writer);
		assert_int_equal(twt_trace_files(dir, files), 1);
		kept = files[0];
		assert_int_equal(stat(kept.path, turn == 0 ? &before : &after), 0);
		record(turn, twi_now_ns());
	}
	assert_true(before.st_ino == after.st_ino && before.st_size == after.st_size);
	assert_int_equal(before.st_nlink, 1);
}

#define CALLERS 8

static void *fire_often(void *arg)
{
	for (unsigned i = 0; i < 1000; i++)
		fire(arg, "many", twi_now_ns());
	return NULL;
}

/* Of all that come at once one captures, and the others are counted. */
static void many_callers(void **state)
{
	struct twi_trace_writer *writer = open_writer(1);
	pthread_t threads[CALLERS];

	(void)state;
	for (unsigned i = 0; i < CALLERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, fire_often, writer), 0);
	for (unsigned i = 0; i < CALLERS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	twi_trace_writer_close(writer);
	assert_int_equal(twt_trace_files(dir, files), 1);
	assert_int_equal(twi_counter_sum(diag, TWI_C_triggered_captures), 1);
	assert_int_equal(twi_counter_sum(diag, TWI_C_triggers_passed_over), CALLERS * 1000 - 1);
}

static void no_writer(void **state)
{
	(void)state;
	assert_null(twi_trace_writer_claim(NULL));
	twi_trace_writer_stop(NULL);
	twi_trace_writer_close(NULL);
	assert_int_equal(twi_counter_sum(diag, TWI_C_triggers_passed_over), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bounds),
		cmocka_unit_test_setup_teardown(past_and_future, setup, teardown),
		cmocka_unit_test_setup_teardown(overwritten, setup, teardown),
		cmocka_unit_test_setup_teardown(ended_early, setup, teardown),
		cmocka_unit_test_setup_teardown(not_written_over, setup, teardown),
		cmocka_unit_test_setup_teardown(many_callers, setup, teardown),
		cmocka_unit_test_setup_teardown(no_writer, setup, teardown),
	};

	if (twi_xspace_ready() < 0) {
		printf("skipped: without protobuf-c there is no XSpace\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
