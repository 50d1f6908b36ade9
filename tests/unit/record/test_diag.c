/*
 * test_diag.c - counters, reasons, latencies and the log: sums over threads that come and go,
 * blocks that are used again, a reader beside writers, several runtimes in one thread; and the
 * clock.
 */
#include "twt.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "diag/base/clock.h"
#include "diag/base/error.h"
#include "diag/record/diag.h"

#define THREADS 8
#define ROUNDS  5
#define EACH    10000

static struct twi_diag *diag;

static unsigned blocks(void)
{
	unsigned count = 0;

	for (struct twi_diag_block *block = atomic_load(&diag->blocks); block != NULL;
	     block = block->next)
		count++;
	return count;
}

static void *record(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < EACH; i++) {
		twi_count(diag, TWI_C_sends, 1);
		twi_latency_record(diag, TWI_LANE_TCP, 8, i);
		if (i % 100 == 0)
			twi_copy_record(diag, TWI_R_unexpected_arrival, 10, 3, TWI_SITE_NONE);
	}
	return NULL;
}

static _Atomic int stop;

static void *watch(void *arg)
{
	struct twi_latency_sum sum;
	uint64_t last = 0;

	while (!atomic_load(&stop)) {
		uint64_t now = twi_counter_sum(diag, TWI_C_sends);

		if (now < last)
			*(int *)arg = 1; /* counters only grow */
		last = now;
		twi_latency_sum(diag, TWI_LANE_TCP, 0, &sum);
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct twi_reason_sum copies;
	struct twi_latency_sum sum;
	pthread_t threads[THREADS], watcher;
	int shrank = 0;

	(void)state;
	assert_int_equal(twi_diag_create(&diag), TOW_OK);
	assert_int_equal(pthread_create(&watcher, NULL, watch, &shrank), 0);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < THREADS; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, record, NULL), 0);
		for (int i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
	}
	atomic_store(&stop, 1);
	pthread_join(watcher, NULL);
	assert_int_equal(shrank, 0);
	assert_int_equal(twi_counter_sum(diag, TWI_C_sends), THREADS * ROUNDS * EACH);
	assert_true(twi_latency_sum(diag, TWI_LANE_TCP, 0, &sum));
	assert_int_equal(sum.count, THREADS * ROUNDS * EACH);
	assert_int_equal(sum.max_ns, EACH - 1);
	assert_int_equal(sum.sum_ns, (uint64_t)THREADS * ROUNDS * (EACH / 2) * (EACH - 1));
	assert_false(twi_latency_sum(diag, TWI_LANE_LOOP, 0, &sum));
	twi_reason_sum(diag, TWI_R_unexpected_arrival, &copies);
	assert_int_equal(copies.count, THREADS * ROUNDS * EACH / 100);
	assert_int_equal(copies.bytes, 10 * copies.count);
	assert_int_equal(copies.ns, 3 * copies.count);
	assert_int_equal(twi_counter_sum(diag, TWI_C_fallback_copy_bytes), copies.bytes);
	assert_true(blocks() <= THREADS); /* those of ended threads were taken over */
	twi_diag_destroy(diag);
}

/* A thread that serves more diags than its cache holds still writes to the right one. */
static void test_many(void **state)
{
	struct twi_diag *many[3 * TWI_DIAG_BLOCKS];

	(void)state;
	for (unsigned i = 0; i < 3 * TWI_DIAG_BLOCKS; i++)
		assert_int_equal(twi_diag_create(&many[i]), TOW_OK);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 3 * TWI_DIAG_BLOCKS; i++)
			twi_count(many[i], TWI_C_recvs, i + 1);
	}
	for (unsigned i = 0; i < 3 * TWI_DIAG_BLOCKS; i++) {
		assert_int_equal(twi_counter_sum(many[i], TWI_C_recvs), 3 * (i + 1));
		twi_diag_destroy(many[i]);
	}
}

struct seen {
	unsigned count;
	char first[TWI_LOG_BYTES], last[TWI_LOG_BYTES];
};

static void see(void *arg, uint64_t ns, int level, const char *text)
{
	struct seen *seen = arg;

	(void)ns;
	(void)level;
	if (seen->count++ == 0)
		strcpy(seen->first, text);
	strcpy(seen->last, text);
}

static void test_log(void **state)
{
	struct seen seen = { 0 };

	(void)state;
	assert_int_equal(twi_diag_create(&diag), TOW_OK);
	twi_diag_log_level(diag, 2);
	twi_log(diag, 3, "information is above the level");
	for (unsigned i = 0; i < TWI_LOG_LINES + 10; i++)
		twi_log(diag, 2, "line %u", i);
	twi_log_read(diag, see, &seen);
	assert_int_equal(seen.count, TWI_LOG_LINES);
	assert_string_equal(seen.first, "line 10");
	twi_diag_destroy(diag);
}

static void test_error(void **state)
{
	(void)state;
	assert_int_equal(twi_error(TOW_EINVAL, "first"), TOW_EINVAL);
	assert_int_equal(twi_error_errno(TOW_ESYSTEM, ENOENT, "open %s", "x"), TOW_ESYSTEM);
	assert_string_equal(tow_error_message(), "open x: No such file or directory (ENOENT)");
	/* the old message as an argument of the new one */
	twi_error(TOW_EPEER, "again: %s", tow_error_message());
	assert_non_null(strstr(tow_error_message(), "again: open x"));
	assert_string_equal(tow_status_name(TOW_EPEER), "TOW_EPEER");
	assert_string_equal(tow_status_name(12345), "TOW_UNKNOWN");
	assert_true(strlen(tow_status_text(TOW_ETRUNCATED)) > 10);
}

/* The fast clock follows the system's: within a thousandth over 50 ms. */
static void test_clock(void **state)
{
	struct timespec nap = { .tv_nsec = 50000000 };
	uint64_t fast, slow;
	int64_t drift;

	(void)state;
	twi_clock_init();
	fast = twi_now_ns();
	slow = twi_clock_gettime_ns();
	nanosleep(&nap, NULL);
	drift = (int64_t)(twi_now_ns() - fast) - (int64_t)(twi_clock_gettime_ns() - slow);
	assert_true(drift < 1000000 && drift > -1000000);
	for (unsigned i = 0; i < 100000; i++) {
		uint64_t now = twi_now_ns();

		assert_true(now >= fast);
		fast = now;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads), cmocka_unit_test(test_many),
		cmocka_unit_test(test_log),     cmocka_unit_test(test_error),
		cmocka_unit_test(test_clock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
