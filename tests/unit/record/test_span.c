/*
 * test_span.c - rings of spans, their sampling, peers, and the traces that are read from them.
 */
#include "twt.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include <towline/stats.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "diag/record/span.h"
#include "diag/trace/trace.h"

static struct twi_diag *diag;

static int setup(void **state)
{
	(void)state;
	twi_clock_init();
	return twi_diag_create(&diag);
}

static int teardown(void **state)
{
	(void)state;
	twi_diag_destroy(diag);
	return 0;
}

static void record(uint64_t id, uint64_t start_ns, uint64_t end_ns)
{
	struct twi_span span = { .id = id,
				 .start_ns = start_ns,
				 .end_ns = end_ns,
				 .bytes = id * 3,
				 .kind = TWI_SPAN_USER,
				 .lane = TWI_SPAN_NO_LANE,
				 .status = TOW_EPEER };

	twi_span_record(diag, &span);
}

static const struct twi_trace_thread *only_thread(const struct twi_trace *trace)
{
	assert_int_equal(trace->rank_count, 1);
	assert_int_equal(trace->ranks[0].thread_count, 1);
	return &trace->ranks[0].threads[0];
}

static void nothing(void **state)
{
	struct twi_trace trace;

	(void)state;
	assert_int_equal(twi_trace_read(diag, 0, &trace), TOW_OK);
	assert_int_equal(trace.rank_count, 1);
	assert_int_equal(trace.ranks[0].thread_count, 0);
	assert_int_equal(trace.ranks[0].rank, -1);
	assert_string_equal(trace.ranks[0].job, "");
	assert_true(trace.ranks[0].clock_error_ns == UINT64_MAX);
	assert_int_equal(trace.ranks[0].pid, getpid());
	twi_trace_fini(&trace);
	assert_int_equal(trace.rank_count, 0);
	twi_trace_fini(&trace);
}

/* They are written by their end, and come by their start; what ended before the window is left. */
static void order_and_window(void **state)
{
	const struct twi_trace_thread *thread;
	struct twi_trace trace;

	(void)state;
	record(1, 100, 150);
	record(2, 300, 400);
	record(3, 200, 500);
	record(4, 200, 600);
	assert_int_equal(twi_trace_read(diag, 400, &trace), TOW_OK);
	thread = only_thread(&trace);
	assert_int_equal(thread->span_count, 3);
	assert_int_equal(thread->lost, 0);
	assert_int_equal(thread->tid, gettid());
	assert_int_equal(thread->spans[0].id, 4);
	assert_int_equal(thread->spans[1].id, 3);
	assert_int_equal(thread->spans[2].id, 2);
	assert_int_equal(thread->spans[2].bytes, 6);
	assert_int_equal(thread->spans[2].status, TOW_EPEER);
	assert_int_equal(thread->spans[2].lane, TWI_SPAN_NO_LANE);
	twi_trace_fini(&trace);
	assert_int_equal(twi_counter_sum(diag, TWI_C_spans), 4);
}

static void lost(void **state)
{
	const struct twi_trace_thread *thread;
	struct twi_trace trace;
	uint64_t written = 3 * TWI_SPAN_ROWS + 100;

	(void)state;
	for (uint64_t i = 0; i < written; i++)
		record(i, 1000 + i, 1001 + i);
	assert_int_equal(twi_trace_read(diag, 0, &trace), TOW_OK);
	thread = only_thread(&trace);
	assert_int_equal(thread->span_count, TWI_SPAN_ROWS);
	assert_int_equal(thread->lost, written - TWI_SPAN_ROWS);
	assert_int_equal(thread->spans[0].id, written - TWI_SPAN_ROWS);
	twi_trace_fini(&trace);

	/* The window begins with a span that is gone: never too few, at most a ring too many. */
	assert_int_equal(twi_trace_read(diag, 1001 + written - TWI_SPAN_ROWS - 50, &trace), TOW_OK);
	thread = only_thread(&trace);
	assert_int_equal(thread->span_count, TWI_SPAN_ROWS);
	assert_in_range(thread->lost, 50, 50 + TWI_SPAN_ROWS);
	twi_trace_fini(&trace);

	/* All of the window is there. */
	assert_int_equal(twi_trace_read(diag, 1001 + written - 10, &trace), TOW_OK);
	thread = only_thread(&trace);
	assert_int_equal(thread->span_count, 10);
	assert_int_equal(thread->lost, 0);
	twi_trace_fini(&trace);

	/* So long ago that it is not known: all of them. */
	for (uint64_t i = written; i < 30 * TWI_SPAN_ROWS; i++)
		record(i, 1000 + i, 1001 + i);
	assert_int_equal(twi_trace_read(diag, 5000, &trace), TOW_OK);
	assert_int_equal(only_thread(&trace)->lost, 29 * TWI_SPAN_ROWS);
	twi_trace_fini(&trace);
}

static unsigned kept_of(unsigned messages, uint64_t bytes)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < messages; i++)
		kept += twi_span_wanted(diag, bytes);
	return kept;
}

static void sampling(void **state)
{
	(void)state;
	assert_int_equal(kept_of(640, 8), 10);
	assert_int_equal(twi_counter_sum(diag, TWI_C_spans_sampled_out), 630);
	assert_int_equal(kept_of(640, TWI_SPAN_SMALL + 1), 640);
	twi_span_sample(diag, 10); /* rounded up to 16 */
	assert_int_equal(kept_of(1600, TWI_SPAN_SMALL), 100);
	twi_span_capture(diag, true);
	twi_span_capture(diag, true);
	assert_int_equal(kept_of(100, 8), 100);
	twi_span_capture(diag, false);
	twi_span_sample(diag, 5);
	assert_int_equal(kept_of(100, 8), 100);
	twi_span_capture(diag, false);
	assert_in_range(kept_of(160, 8), 18, 20);
	twi_span_sample(diag, 1);
	assert_int_equal(kept_of(100, 8), 100);
}

static void peers(void **state)
{
	char name[32];
	uint32_t first;
	struct twi_trace trace;

	(void)state;
	first = twi_span_peer(diag, "tcp://10.0.0.1:1", -1);
	assert_int_not_equal(first, 0);
	assert_int_equal(twi_span_peer(diag, "tcp://10.0.0.1:1", 7), first);
	assert_int_equal(twi_span_peer(diag, "tcp://10.0.0.1:1", -1), first);
	for (unsigned i = 1; i < TWI_SPAN_PEERS; i++) {
		snprintf(name, sizeof(name), "peer %u", i);
		assert_int_equal(twi_span_peer(diag, name, (int64_t)i), i + 1);
	}
	assert_int_equal(twi_span_peer(diag, "one too many", 1), 0);
	assert_int_equal(twi_span_peer(diag, "peer 77", 1077), 78);
	assert_int_equal(twi_trace_read(diag, 0, &trace), TOW_OK);
	assert_int_equal(trace.ranks[0].peer_count, TWI_SPAN_PEERS);
	assert_string_equal(trace.ranks[0].peers[first - 1].name, "tcp://10.0.0.1:1");
	assert_int_equal(trace.ranks[0].peers[first - 1].rank, 7);
	assert_int_equal(trace.ranks[0].peers[77].rank, 1077);
	twi_trace_fini(&trace);
}

static void *one_span(void *arg)
{
	pthread_setname_np(pthread_self(), arg);
	record((uint64_t)strlen(arg), 10, 20);
	return (void *)(intptr_t)gettid();
}

static intptr_t thread_of(const char *name)
{
	pthread_t thread;
	void *tid;

	assert_int_equal(pthread_create(&thread, NULL, one_span, (void *)(uintptr_t)name), 0);
	assert_int_equal(pthread_join(thread, &tid), 0);
	return (intptr_t)tid;
}

/* A ring goes from thread to thread with its block, and each has what is its own. */
static void owners(void **state)
{
	const struct twi_trace_rank *rank;
	struct twi_trace trace;
	intptr_t a, bb;

	(void)state;
	a = thread_of("a");
	bb = thread_of("bb");
	assert_int_equal(twi_trace_read(diag, 0, &trace), TOW_OK);
	rank = &trace.ranks[0];
	assert_int_equal(rank->thread_count, 2);
	assert_string_equal(rank->threads[0].name, "a");
	assert_int_equal(rank->threads[0].tid, a);
	assert_int_equal(rank->threads[0].span_count, 1);
	assert_int_equal(rank->threads[0].spans[0].id, 1);
	assert_string_equal(rank->threads[1].name, "bb");
	assert_int_equal(rank->threads[1].tid, bb);
	assert_int_equal(rank->threads[1].spans[0].id, 2);
	twi_trace_fini(&trace);
	for (unsigned i = 0; i < 20; i++)
		thread_of("many");
	assert_int_equal(twi_trace_read(diag, 0, &trace), TOW_OK);
	assert_in_range(trace.ranks[0].thread_count, 8, 9);
	twi_trace_fini(&trace);
}

static bool clock_known;

static bool rank0_clock(void *arg, int64_t *offset_ns_out, uint64_t *error_ns_out)
{
	*offset_ns_out = *(int64_t *)arg;
	*error_ns_out = 9;
	return clock_known;
}

static void identity(void **state)
{
	int64_t offset = -1234;
	struct twi_trace_about about = {
		.job = "j", .rank = 3, .world = 8, .clock = rank0_clock, .arg = &offset
	};
	struct twi_trace trace, other;

	(void)state;
	assert_int_equal(twi_trace_identify(diag, &about), TOW_OK);
	assert_int_equal(twi_trace_read(diag, 0, &trace), TOW_OK);
	assert_string_equal(trace.ranks[0].job, "j");
	assert_int_equal(trace.ranks[0].rank, 3);
	assert_int_equal(trace.ranks[0].world, 8);
	assert_int_equal(trace.ranks[0].clock_offset_ns, 0);
	assert_true(trace.ranks[0].clock_error_ns == UINT64_MAX);
	clock_known = true;
	assert_int_equal(twi_trace_read(diag, 0, &other), TOW_OK);
	assert_int_equal(other.ranks[0].clock_offset_ns, -1234);
	assert_int_equal(other.ranks[0].clock_error_ns, 9);
	twi_trace_fini(&other);
	twi_trace_fini(&trace);
}

static void names(void **state)
{
	struct twi_span span = { .kind = TWI_SPAN_USER, .end_ns = 1 };
	struct twi_trace trace;

	(void)state;
	assert_int_equal(tow_tag_set("embedding"), TOW_OK);
	span.name = twi_tag_current;
	twi_span_record(diag, &span);
	assert_int_equal(tow_tag_set(NULL), TOW_OK);
	assert_int_equal(twi_trace_read(diag, 0, &trace), TOW_OK);
	assert_true(trace.ranks[0].name_count >= span.name);
	assert_string_equal(trace.ranks[0].names[span.name - 1], "embedding");
	twi_trace_fini(&trace);
	assert_string_equal(twi_span_kind_name(TWI_SPAN_COLL), "collective");
	assert_string_equal(twi_span_kind_name(TWI_SPAN_KINDS), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(order_and_window, setup, teardown),
		cmocka_unit_test_setup_teardown(lost, setup, teardown),
		cmocka_unit_test_setup_teardown(sampling, setup, teardown),
		cmocka_unit_test_setup_teardown(peers, setup, teardown),
		cmocka_unit_test_setup_teardown(owners, setup, teardown),
		cmocka_unit_test_setup_teardown(identity, setup, teardown),
		cmocka_unit_test_setup_teardown(names, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
