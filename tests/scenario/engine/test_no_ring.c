/*
 * test_no_ring.c - threads that wait and can have no ring, as no descriptor is left for one: the
 * library's own thread moves what there is, and they sleep meanwhile.
 */
#include "pair.h"

#include <pthread.h>
#include <sys/resource.h>

#define THREADS     4
#define WAIT_NS     TWT_SECOND
#define CPU_NS_MOST (4 * WAIT_NS / 10) /* of all of them: a tenth of the time that each waits */

struct waiter {
	struct tow_op *op;
	uint64_t word;
	pthread_t thread;
	int status;
};

static void *wait_for_it(void *arg)
{
	struct waiter *waiter = arg;

	waiter->status = tow_op_wait(waiter->op, WAIT_NS);
	return NULL;
}

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * TWT_SECOND + (uint64_t)ts.tv_nsec;
}

/* From now on there is no descriptor left. Returns the old limit. */
static struct rlimit use_up(void)
{
	struct rlimit old, none;
	int lowest = dup(0);

	assert_true(lowest >= 0);
	close(lowest);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = old;
	none.rlim_cur = (rlim_t)lowest;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	return old;
}

static int silent(struct twt_side *side, void *arg)
{
	uint64_t word;
	struct tow_op *op;

	(void)arg;
	TWT_OK(tow_recv_start(side->peer, &word, sizeof(word), 99, NULL, &op));
	TWT_OK(twt_finish(op, NULL)); /* the parent has waited in vain */
	for (uint64_t i = 0; i < THREADS; i++) {
		TWT_OK(tow_send_start(side->peer, &i, sizeof(i), i, NULL, &op));
		TWT_OK(twt_finish(op, NULL));
	}
	return 0;
}

static void all_wait(struct waiter *waiters, int status)
{
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&waiters[i].thread, NULL, wait_for_it, &waiters[i]),
				 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(waiters[i].thread, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(waiters[i].status, status);
}

static void no_ring(const char *lane)
{
	struct waiter waiters[THREADS];
	uint64_t word = 1, before;
	struct twt_side side;
	struct rlimit limit;
	struct tow_op *op;

	twt_pair(&side, lane, 8 << 20, silent, NULL);
	for (int i = 0; i < THREADS; i++)
		TWT_OK(tow_recv_start(side.peer, &waiters[i].word, 8, (uint64_t)i, NULL,
				      &waiters[i].op));
	limit = use_up();
	before = cpu_ns();
	all_wait(waiters, TOW_ETIMEDOUT);
	before = cpu_ns() - before;
	printf("%s: %d threads waited 1 s and used %llu us of CPU time\n", lane, THREADS,
	       (unsigned long long)(before / 1000));
	assert_in_range(before, 0, CPU_NS_MOST);
	/* What comes then is theirs all the same. */
	TWT_OK(tow_send_start(side.peer, &word, sizeof(word), 99, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	for (int i = 0; i < THREADS; i++) {
		TWT_OK(twt_finish(waiters[i].op, NULL));
		assert_int_equal(waiters[i].word, i);
	}
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(twt_pair_end(&side), 0);
}

static void test_tcp(void **state)
{
	(void)state;
	no_ring("tcp://127.0.0.1:0");
}

static void test_shm(void **state)
{
	(void)state;
	no_ring("shm://*");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tcp),
		cmocka_unit_test(test_shm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
