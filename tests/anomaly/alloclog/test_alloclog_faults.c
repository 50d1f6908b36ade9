/*
 * test_alloclog_faults.c - the Nth allocation or thread of a capture fails, while threads allocate.
 *
 * N grows until nothing fails any more. A capture that cannot be had says so, costs events at most
 * and leaves the log off; what is recorded is right or not there.
 */
#include "twt.h"

#include "fault.h"

#include <stdatomic.h>
#include <string.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "diag/serve/captures.h"
#include "diag/serve/http.h"
#include "memreg/alloclog/alloclog.h"

static struct twi_diag *diag;
static struct twi_alloclog *alloclog;

static int setup(void **state)
{
	(void)state;
	twi_clock_init();
	return twi_diag_create(&diag) < 0 ? -1 : twi_alloclog_create(diag, 4096, &alloclog);
}

static int teardown(void **state)
{
	(void)state;
	twi_alloclog_destroy(alloclog);
	twi_diag_destroy(diag);
	return 0;
}

static void some_events(void)
{
	for (uintptr_t i = 1; i <= 200; i++) {
		const void *p = (const void *)(i << 12);

		twi_alloclog_alloc(alloclog, p, i, 0, TWI_SITE_NONE);
		twi_alloclog_free(alloclog, p, twi_alloclog_begin(alloclog, p), TWI_SITE_NONE);
	}
}

/* One capture with its file; true when it came whole. */
static bool attempt(void)
{
	struct twi_alloclog_capture *capture;
	struct twi_alloc_trace trace = { 0 };
	bool whole = false;
	char *bytes;
	size_t count;
	int status = twi_alloclog_capture_start(alloclog, false, &capture);

	if (status == TOW_OK) {
		some_events();
		status = twi_alloclog_capture_finish(alloclog, capture, &trace);
	}
	if (status == TOW_OK) {
		/* No memory for a chunk: thinned early, or lost. */
		assert_true(trace.sampling_shift > 0 || trace.count + trace.lost == 400);
		whole = trace.count == 400;
		status = twi_alloclog_encode(&trace, &bytes, &count);
	}
	twi_alloc_trace_fini(&trace);
	assert_false(twi_alloclog_is_on(alloclog));
	if (status == TOW_OK) {
		free(bytes);
		return whole;
	}
	assert_int_equal(status, TOW_ENOMEM);
	assert_true(strlen(tow_error_message()) > 0);
	return false;
}

static void allocations(void **state)
{
	bool reached = true;

	(void)state;
	for (int n = 1; n < 200 && reached; n++) {
		bool whole;

		twt_fault_arm(TWT_CALLOC, n);
		whole = attempt();
		reached = twt_fault_off();
		assert_true(whole || reached);
	}
	assert_false(reached);
	assert_true(attempt());
}

static void open_fails(void **state)
{
	(void)state;
	twt_fault_arm(TWT_CALLOC, 1);
	if (twi_alloclog_open(alloclog) != TOW_OK) {
		assert_false(twi_alloclog_is_on(alloclog));
		assert_true(twt_fault_off());
	}
	twt_fault_off();
	assert_int_equal(twi_alloclog_open(alloclog), TOW_OK);
	assert_true(twi_alloclog_is_on(alloclog));
}

static atomic_int starts, finishes, wakes;

static int start(void *arg, int64_t seconds, void **session_out, uint64_t *wait_ns_out)
{
	(void)arg;
	*session_out = NULL;
	*wait_ns_out = (uint64_t)seconds * 1000000000u;
	atomic_fetch_add(&starts, 1);
	return TOW_OK;
}

static int finish(void *arg, void *session, char **bytes_out, size_t *count_out)
{
	(void)arg, (void)session;
	atomic_fetch_add(&finishes, 1);
	if (bytes_out == NULL)
		return TOW_OK;
	*bytes_out = calloc(1, 1);
	*count_out = 1;
	return *bytes_out != NULL ? TOW_OK : TOW_ENOMEM;
}

static void wake(void *who)
{
	(void)who;
	atomic_fetch_add(&wakes, 1);
}

static const struct twi_http_wish at_once = { .seconds = 0 }, a_minute = { .seconds = 60 };

static const struct twi_capture source = { .path = "/v1/x",
					   .help = "x",
					   .content_type = "x",
					   .seconds_max = 60,
					   .start = start,
					   .finish = finish };

/* No thread, no capture; the place is free again. */
static void no_thread(void **state)
{
	struct twi_captures *captures;
	struct twi_capture_run *run;

	(void)state;
	twt_fault_arm(TWT_CALLOC, 1);
	if (twi_captures_create(wake, &captures) != TOW_OK)
		assert_int_equal(twi_captures_create(wake, &captures), TOW_OK);
	twt_fault_arm(TWT_PTHREAD_CREATE, 1);
	for (int i = 0; i < 2; i++) {
		int status = twi_captures_begin(captures, &source, &at_once, -1, NULL, &run);

		if (status == TOW_OK)
			twi_captures_end(captures, run);
		else
			assert_int_equal(status, TOW_ESYSTEM);
	}
	twt_fault_off();
	assert_int_equal(twi_captures_begin(captures, &source, &at_once, -1, NULL, &run), TOW_OK);
	twi_captures_end(captures, run);
	twi_captures_stop(captures);
	assert_int_equal(twi_captures_begin(captures, &source, &at_once, -1, NULL, &run),
			 TOW_ECLOSED);
	twi_captures_destroy(captures);
}

/* Stopped in any state: each that waits is finished once and woken once. */
static void stop_ends_all(void **state)
{
	struct twi_captures *captures;
	struct twi_capture_run *runs[TWI_CAPTURES_MAX], *more;
	char *bytes;
	size_t count;

	(void)state;
	atomic_store(&starts, 0);
	atomic_store(&finishes, 0);
	atomic_store(&wakes, 0);
	assert_int_equal(twi_captures_create(wake, &captures), TOW_OK);
	for (int i = 0; i < TWI_CAPTURES_MAX; i++)
		assert_int_equal(
			twi_captures_begin(captures, &source, &a_minute, -1, NULL, &runs[i]),
			TOW_OK);
	assert_int_equal(twi_captures_begin(captures, &source, &a_minute, -1, NULL, &more),
			 TOW_EBUSY);
	twi_captures_wait(captures, runs[0]);
	twi_captures_wait(captures, runs[1]);
	twi_captures_stop(captures);
	assert_int_equal(wakes, 2);
	twi_captures_wait(captures, runs[2]); /* too late: at once */
	twi_captures_wait(captures, runs[3]);
	assert_int_equal(starts, TWI_CAPTURES_MAX);
	assert_int_equal(finishes, TWI_CAPTURES_MAX);
	assert_int_equal(wakes, TWI_CAPTURES_MAX);
	for (int i = 0; i < TWI_CAPTURES_MAX; i++) {
		assert_int_equal(twi_captures_take(runs[i], &bytes, &count), TOW_ECANCELED);
		assert_null(bytes);
		twi_captures_end(captures, runs[i]);
	}
	twi_captures_destroy(captures);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(allocations),
		TEST(open_fails),
		cmocka_unit_test(no_thread),
		cmocka_unit_test(stop_ends_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
