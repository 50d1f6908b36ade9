/*
 * test_clock.c - the clock follows the system's CLOCK_MONOTONIC, and never goes back: from a fit
 * that is right, behind, ahead, too fast or too slow, while others read it, and in a child.
 */
#include "twt.h"

#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>

#include "diag/base/clock.h"

#define READERS  4
#define NEAR_NS  15000 /* what a look at both clocks may be off by */
#define CLOSE_NS 5000u /* a look at both clocks took less: nothing came between */
#define MS_NS    1000000u

/* How far the reading is from the system's clock, by a look that nothing came between. */
static int64_t ahead(void)
{
	for (;;) {
		uint64_t before = twi_clock_gettime_ns(), ours = twi_now_ns(),
			 after = twi_clock_gettime_ns();

		if (after - before < CLOSE_NS)
			return (int64_t)(ours - before - (after - before) / 2);
	}
}

/* The fit that holds, moved by so much, and as fast as that in millionths. */
static void disturb(int64_t by_ns, int64_t ppm)
{
	uint64_t version = atomic_load(&twi_tsc.version);
	struct twi_tsc_fit *now = &twi_tsc.fits[version & 1], *next = &twi_tsc.fits[~version & 1];
	uint64_t scale = atomic_load(&now->scale);

	atomic_store(&next->scale, scale + (uint64_t)((int64_t)(scale / 1000000) * ppm));
	atomic_store(&next->base_ticks, atomic_load(&now->base_ticks));
	atomic_store(&next->base_ns, atomic_load(&now->base_ns) + (uint64_t)by_ns);
	atomic_store(&twi_tsc.version, version + 1);
}

static void wait_ms(unsigned ms)
{
	uint64_t until = twi_clock_gettime_ns() + (uint64_t)ms * MS_NS;

	while (twi_clock_gettime_ns() < until)
		sched_yield();
}

static bool has_counter(void)
{
	twi_clock_init();
	return atomic_load(&twi_tsc.version) != 0;
}

static void test_follows(void **state)
{
	(void)state;
	if (!has_counter())
		return;
	for (int i = 0; i < 8; i++) {
		wait_ms(12);
		twi_clock_steer();
		assert_in_range(ahead() + NEAR_NS, 0, 2 * NEAR_NS);
	}
}

/* It is there at once. */
static void test_behind(void **state)
{
	(void)state;
	if (!has_counter())
		return;
	disturb(-50 * (int64_t)MS_NS, -100);
	assert_true(ahead() < -(int64_t)(45 * MS_NS));
	wait_ms(2);
	twi_clock_steer();
	assert_in_range(ahead() + NEAR_NS, 0, 2 * NEAR_NS);
}

/* It goes slower, for as long as that takes. */
static void test_ahead(void **state)
{
	uint64_t last = twi_now_ns(), begun = twi_clock_gettime_ns();

	(void)state;
	if (!has_counter())
		return;
	disturb(60000, 100);
	while (ahead() > NEAR_NS) {
		uint64_t now;

		wait_ms(2);
		twi_clock_steer();
		now = twi_now_ns();
		assert_true(now >= last);
		last = now;
		assert_true(twi_clock_gettime_ns() - begun < 60000ull * MS_NS);
	}
	assert_in_range(ahead() + 10 * NEAR_NS, 0, 12 * NEAR_NS);
}

static _Atomic int over;

static void *read_on(void *arg)
{
	uint64_t last = 0, *backwards = arg;

	while (atomic_load_explicit(&over, memory_order_relaxed) == 0) {
		uint64_t now = twi_now_ns();

		*backwards += now < last;
		last = now;
	}
	return NULL;
}

static void *steer_on(void *arg)
{
	(void)arg;
	while (atomic_load_explicit(&over, memory_order_relaxed) == 0)
		twi_clock_steer();
	return NULL;
}

/* No thread sees it go back while two others steer all the time. */
static void test_threads(void **state)
{
	uint64_t backwards[READERS] = { 0 };
	pthread_t threads[READERS + 2];

	(void)state;
	twi_clock_init();
	atomic_store(&over, 0);
	for (int i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, read_on, &backwards[i]), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[READERS + i], NULL, steer_on, NULL), 0);
	usleep(300000);
	atomic_store(&over, 1);
	for (int i = 0; i < READERS + 2; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < READERS; i++)
		assert_int_equal(backwards[i], 0);
	assert_in_range(ahead() + NEAR_NS, 0, 2 * NEAR_NS);
}

static void test_child(void **state)
{
	int how;
	pid_t pid;

	(void)state;
	if (!has_counter())
		return;
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		wait_ms(12);
		twi_clock_steer();
		_exit(ahead() < NEAR_NS && ahead() > -NEAR_NS ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &how, 0), pid);
	assert_int_equal(how, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_follows), cmocka_unit_test(test_behind),
		cmocka_unit_test(test_ahead),   cmocka_unit_test(test_threads),
		cmocka_unit_test(test_child),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
