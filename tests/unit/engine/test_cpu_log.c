/*
 * test_cpu_log.c - which thread of a process is followed: one that waits before one that polls,
 * and none for ever. Times are made by hand; threads are this one and two that sleep.
 */
#include "twt.h"

#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include "transport/engine/cpu_log.h"

#define S 1000000000ull

static struct twi_cpu_log log_;
static int threads[3];
static sem_t told, over;

static void *sleeper(void *arg)
{
	*(int *)arg = gettid();
	sem_post(&told);
	sem_wait(&over);
	return NULL;
}

static void expect_followed(int which, uint32_t points)
{
	assert_int_equal(log_.thread, threads[which]);
	assert_int_equal(log_.last, points);
}

static void test_waits_first(void **state)
{
	(void)state;
	log_ = (struct twi_cpu_log){ 0 };
	assert_true(twi_cpu_log_poll(&log_, threads[1], S));
	expect_followed(1, 1);
	/* No point is due, and then another one waits. */
	assert_false(twi_cpu_log_wait(&log_, threads[0], S + 1));
	expect_followed(1, 1);
	assert_true(twi_cpu_log_wait(&log_, threads[0], 2 * S));
	expect_followed(0, 1);
	/* It waits for the last time; who polls has its place after a long time alone. */
	assert_true(twi_cpu_log_wait(&log_, threads[0], 3 * S));
	for (uint64_t s = 4; s < 15; s++) {
		twi_cpu_log_poll(&log_, threads[1], s * S);
		expect_followed(0, 2);
	}
	twi_cpu_log_poll(&log_, threads[1], 15 * S);
	expect_followed(1, 1);
	/* And gives it back at once. */
	twi_cpu_log_wait(&log_, threads[0], 16 * S);
	expect_followed(0, 1);
}

static void test_equals(void **state)
{
	(void)state;
	for (unsigned polls = 0; polls < 2; polls++) {
		bool (*note)(struct twi_cpu_log *, int, uint64_t) =
			polls ? twi_cpu_log_poll : twi_cpu_log_wait;

		log_ = (struct twi_cpu_log){ 0 };
		assert_true(note(&log_, threads[1], S));
		note(&log_, threads[2], 2 * S);
		expect_followed(1, 1);
		note(&log_, threads[1], 2 * S + S / 2);
		note(&log_, threads[2], 4 * S);
		expect_followed(1, 2);
		note(&log_, threads[2], 4 * S + S / 2);
		expect_followed(2, 1);
	}
}

/* Who has waited once is no poller, though it polls. */
static void test_both(void **state)
{
	(void)state;
	log_ = (struct twi_cpu_log){ 0 };
	twi_cpu_log_poll(&log_, threads[1], S);
	twi_cpu_log_wait(&log_, threads[1], 2 * S);
	twi_cpu_log_poll(&log_, threads[1], 3 * S);
	expect_followed(1, 3);
	twi_cpu_log_wait(&log_, threads[0], 4 * S);
	expect_followed(1, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_waits_first),
		cmocka_unit_test(test_equals),
		cmocka_unit_test(test_both),
	};
	pthread_t sleepers[2];
	int failed;

	sem_init(&told, 0, 0);
	sem_init(&over, 0, 0);
	threads[0] = gettid();
	for (unsigned i = 0; i < 2; i++) {
		if (pthread_create(&sleepers[i], NULL, sleeper, &threads[i + 1]) != 0)
			return 1;
		sem_wait(&told);
	}
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	for (unsigned i = 0; i < 2; i++)
		sem_post(&over);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(sleepers[i], NULL);
	return failed;
}
