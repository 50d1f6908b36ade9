/*
 * test_span_faults.c - the Nth allocation of spans and traces fails: nothing leaks, a trace is
 * whole or empty, and a thread without a ring says that it lost what it had to tell.
 */
#include "twt.h"

#include "fault.h"

#include <string.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "diag/record/span.h"
#include "diag/trace/trace.h"

static void no_ring(void **state)
{
	struct twi_span span = { .end_ns = 1 };
	struct twi_diag *diag;
	struct twi_trace trace;

	(void)state;
	assert_int_equal(twi_diag_create(&diag), TOW_OK);
	twi_count(diag, TWI_C_sends, 1); /* the block is there */
	twt_fault_arm(TWT_MMAP, 1);
	twi_span_record(diag, &span);
	assert_true(twt_fault_off());
	assert_int_equal(twi_counter_sum(diag, TWI_C_telemetry_lost), 1);
	assert_int_equal(twi_counter_sum(diag, TWI_C_spans), 0);
	twi_span_record(diag, &span); /* there is memory again */
	assert_int_equal(twi_counter_sum(diag, TWI_C_spans), 1);
	assert_int_equal(twi_trace_read(diag, 0, &trace), TOW_OK);
	assert_int_equal(trace.ranks[0].threads[0].span_count, 1);
	twi_trace_fini(&trace);
	twi_diag_destroy(diag);
}

static void no_trace(void **state)
{
	struct twi_span span = { .end_ns = 1 };
	struct twi_diag *diag;
	bool reached = true;
	int nth = 1;

	(void)state;
	assert_int_equal(twi_diag_create(&diag), TOW_OK);
	twi_span_record(diag, &span);
	assert_int_equal(twi_span_peer(diag, "a", 0), 1);
	for (; reached; nth++) {
		struct twi_trace trace;
		int status;

		assert_true(nth < 100);
		twt_fault_arm(TWT_CALLOC, nth);
		status = twi_trace_read(diag, 0, &trace);
		reached = twt_fault_off();
		assert_int_equal(status, reached ? TOW_ENOMEM : TOW_OK);
		assert_int_equal(trace.rank_count, reached ? 0 : 1);
		if (reached)
			assert_non_null(strstr(tow_error_message(), "trace"));
		twi_trace_fini(&trace);
	}
#ifndef TWT_SANITIZED
	assert_true(nth > 5);
#endif
	twi_diag_destroy(diag);
}

static void no_diag(void **state)
{
	bool reached = true;

	(void)state;
	for (int nth = 1; reached; nth++) {
		struct twi_diag *diag;
		int status;

		twt_fault_arm(TWT_CALLOC, nth);
		status = twi_diag_create(&diag);
		reached = twt_fault_off();
		assert_int_equal(status, reached ? TOW_ENOMEM : TOW_OK);
		twi_diag_destroy(diag);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_ring),
		cmocka_unit_test(no_trace),
		cmocka_unit_test(no_diag),
	};

	twi_clock_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
