/*
 * test_step.c - steps and the program's own spans: what they record, the seal, and every misuse.
 */
#include "twt.h"

#include <pthread.h>
#include <string.h>

#include <towline/towline.h>

#include "diag/trace/trace.h"
#include "memreg/pool/pool.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/op/op.h"

static struct tow_runtime *runtime;

static int setup(void **state)
{
	struct tow_options options = TOW_OPTIONS_INIT;

	(void)state;
	options.premap_memory_bytes = 4 << 20;
	return twi_runtime_open_sim(&options, &runtime);
}

static int teardown(void **state)
{
	(void)state;
	return tow_runtime_close(runtime);
}

static struct twi_engine *engine(void)
{
	return twi_runtime_engine(runtime);
}

static void later(uint64_t ns)
{
	engine()->virtual_ns += ns;
}

static void refused(int status, int wanted, const char *words)
{
	assert_int_equal(status, wanted);
	if (strstr(tow_error_message(), words) == NULL)
		fail_msg("'%s' is not in: %s", words, tow_error_message());
}

static void read_trace(struct twi_trace *out)
{
	assert_int_equal(twi_trace_read(engine()->diag, 0, out), TOW_OK);
	assert_int_equal(out->ranks[0].thread_count, 1);
}

static void seals(void **state)
{
	struct twi_trace trace;
	const struct twi_span *span;

	(void)state;
	assert_int_equal(tow_step_begin(runtime, 5), TOW_OK);
	assert_int_equal(twi_step_number(&engine()->step), 5);
	later(1000);
	assert_false(twi_pool_sealed(engine()->pool));
	assert_int_equal(tow_step_end(runtime, 5), TOW_OK);
	assert_true(twi_pool_sealed(engine()->pool));
	assert_int_equal(twi_step_number(&engine()->step), 0);
	read_trace(&trace);
	span = &trace.ranks[0].threads[0].spans[0];
	assert_int_equal(span->kind, TWI_SPAN_STEP);
	assert_int_equal(span->id, 5);
	assert_int_equal(span->end_ns - span->start_ns, 1000);
	twi_trace_fini(&trace);
}

/* Steps are counted, with what their thread was blocked for. */
static void counted_steps(void **state)
{
	char *text;

	(void)state;
	for (uint64_t step = 1; step <= 3; step++) {
		assert_int_equal(tow_step_begin(runtime, step), TOW_OK);
		twi_op_blocked_ns += 1000000; /* as a wait does */
		later(4000000);
		assert_int_equal(tow_step_end(runtime, step), TOW_OK);
	}
	assert_int_equal(tow_stats_get(runtime, "/metrics", &text), TOW_OK);
	assert_non_null(strstr(text, "\ntowline_step_seconds_count 3\n"));
	assert_non_null(strstr(text, "\ntowline_step_seconds_sum 0.012\n"));
	assert_non_null(strstr(text, "\ntowline_step_seconds_bucket{le=\"0.002048\"} 0\n"));
	assert_non_null(strstr(text, "\ntowline_step_seconds_bucket{le=\"0.008192\"} 3\n"));
	assert_non_null(strstr(text, "\ntowline_step_wait_seconds_count 3\n"));
	assert_non_null(strstr(text, "\ntowline_step_wait_seconds_sum 0.003\n"));
	tow_stats_release(text);
	assert_int_equal(tow_stats_get(runtime, "/v1/steps", &text), TOW_OK);
	assert_non_null(strstr(text, "\"ended\":3"));
	assert_non_null(strstr(text, "\"sum\":12000000"));
	assert_non_null(strstr(text, "\"sum\":3000000"));
	tow_stats_release(text);
}

static void misused_steps(void **state)
{
	(void)state;
	refused(tow_step_begin(NULL, 1), TOW_EINVAL, "tow_step_begin: runtime is NULL");
	refused(tow_step_end(NULL, 1), TOW_EINVAL, "tow_step_end: runtime is NULL");
	refused(tow_step_end(runtime, 1), TOW_EINVAL, "no step is under way");
	assert_false(twi_pool_sealed(engine()->pool));
	assert_int_equal(tow_step_begin(runtime, 1), TOW_OK);
	refused(tow_step_begin(runtime, 2), TOW_EBUSY, "tow_step_begin(2): step 1 is under way");
	refused(tow_step_end(runtime, 2), TOW_EINVAL, "under way is 1");
	assert_false(twi_pool_sealed(engine()->pool));
	assert_int_equal(tow_step_end(runtime, 1), TOW_OK);
	refused(tow_step_end(runtime, 1), TOW_EINVAL, "no step is under way");
	assert_int_equal(twi_counter_sum(engine()->diag, TWI_C_spans), 1);
}

static void nested(void **state)
{
	struct twi_trace trace;
	const struct twi_span *spans;

	(void)state;
	assert_int_equal(tow_step_begin(runtime, 9), TOW_OK);
	assert_int_equal(tow_span_begin(runtime, "outer"), TOW_OK);
	later(10);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(tow_span_begin(runtime, "inner"), TOW_OK);
		later(10);
		assert_int_equal(tow_span_end(runtime), TOW_OK);
	}
	assert_int_equal(tow_span_end(runtime), TOW_OK);
	later(1);
	assert_int_equal(tow_step_end(runtime, 9), TOW_OK);
	read_trace(&trace);
	assert_int_equal(trace.ranks[0].threads[0].span_count, 4);
	spans = trace.ranks[0].threads[0].spans; /* by start, the longest first */
	assert_int_equal(spans[0].kind, TWI_SPAN_STEP);
	assert_string_equal(trace.ranks[0].names[spans[1].name - 1], "outer");
	assert_int_equal(spans[1].parent, 9);
	assert_int_equal(spans[1].end_ns - spans[1].start_ns, 30);
	for (unsigned i = 2; i < 4; i++) {
		assert_int_equal(spans[i].kind, TWI_SPAN_USER);
		assert_string_equal(trace.ranks[0].names[spans[i].name - 1], "inner");
		assert_true(spans[i].parent == spans[1].id);
	}
	assert_true(spans[2].id != spans[3].id);
	twi_trace_fini(&trace);
}

static void misused_spans(void **state)
{
	(void)state;
	refused(tow_span_begin(NULL, "a"), TOW_EINVAL, "tow_span_begin: runtime is NULL");
	refused(tow_span_end(NULL), TOW_EINVAL, "tow_span_end: runtime is NULL");
	refused(tow_span_begin(runtime, NULL), TOW_EINVAL, "name is NULL");
	refused(tow_span_begin(runtime, ""), TOW_EINVAL, "tow_span_begin: the tag is empty");
	refused(tow_span_begin(runtime, "a\tb"), TOW_EINVAL, "byte 1");
	refused(tow_span_end(runtime), TOW_EINVAL, "no span open");
	for (unsigned i = 0; i < TOW_SPAN_DEPTH; i++)
		assert_int_equal(tow_span_begin(runtime, "deep"), TOW_OK);
	refused(tow_span_begin(runtime, "deeper"), TOW_EBUSY, "32 spans open already");
	assert_non_null(strstr(tow_error_message(), "'deep'"));
	for (unsigned i = 0; i < TOW_SPAN_DEPTH; i++)
		assert_int_equal(tow_span_end(runtime), TOW_OK);
	refused(tow_span_end(runtime), TOW_EINVAL, "no span open");
	assert_int_equal(twi_counter_sum(engine()->diag, TWI_C_spans), TOW_SPAN_DEPTH);
}

/* Two runtimes in one thread: each has its own. */
static void two_runtimes(void **state)
{
	struct tow_runtime *first = runtime, *second;

	(void)state;
	assert_int_equal(setup(NULL), TOW_OK);
	second = runtime;
	runtime = first;
	assert_int_equal(tow_span_begin(first, "a"), TOW_OK);
	for (unsigned i = 0; i < TOW_SPAN_DEPTH; i++)
		assert_int_equal(tow_span_begin(second, "b"), TOW_OK);
	refused(tow_span_begin(second, "a"), TOW_EBUSY, "'b'");
	assert_int_equal(tow_span_end(first), TOW_OK);
	refused(tow_span_end(first), TOW_EINVAL, "no span open");
	assert_int_equal(tow_span_end(second), TOW_OK);
	assert_int_equal(tow_runtime_close(second), TOW_OK);
	assert_int_equal(tow_span_begin(first, "a"), TOW_OK);
	assert_int_equal(tow_span_end(first), TOW_OK);
}

static void *leave_open(void *arg)
{
	(void)arg;
	assert_int_equal(tow_span_begin(runtime, "left open"), TOW_OK);
	return NULL;
}

static void *find_none(void *arg)
{
	(void)arg;
	refused(tow_span_end(runtime), TOW_EINVAL, "no span open");
	return NULL;
}

/* What a thread leaves open is nothing to the one that comes after it. */
static void left_open(void **state)
{
	void *(*const turns[])(void *) = { leave_open, find_none };
	pthread_t thread;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(pthread_create(&thread, NULL, turns[i], NULL), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
	}
	assert_int_equal(twi_counter_sum(engine()->diag, TWI_C_spans), 0);
}

static void *end_elsewhere(void *arg)
{
	(void)arg;
	refused(tow_span_end(runtime), TOW_EINVAL, "no span open");
	assert_int_equal(tow_span_begin(runtime, "mine"), TOW_OK);
	assert_int_equal(tow_span_end(runtime), TOW_OK);
	assert_int_equal(tow_step_end(runtime, 3), TOW_OK);
	return NULL;
}

/* Spans are the thread's, the step is everybody's. */
static void threads(void **state)
{
	pthread_t thread;

	(void)state;
	assert_int_equal(tow_step_begin(runtime, 3), TOW_OK);
	assert_int_equal(tow_span_begin(runtime, "mine"), TOW_OK);
	assert_int_equal(pthread_create(&thread, NULL, end_elsewhere, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(tow_span_end(runtime), TOW_OK);
	refused(tow_step_end(runtime, 3), TOW_EINVAL, "no step");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(seals, setup, teardown),
		cmocka_unit_test_setup_teardown(counted_steps, setup, teardown),
		cmocka_unit_test_setup_teardown(misused_steps, setup, teardown),
		cmocka_unit_test_setup_teardown(nested, setup, teardown),
		cmocka_unit_test_setup_teardown(misused_spans, setup, teardown),
		cmocka_unit_test_setup_teardown(two_runtimes, setup, teardown),
		cmocka_unit_test_setup_teardown(threads, setup, teardown),
		cmocka_unit_test_setup_teardown(left_open, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
