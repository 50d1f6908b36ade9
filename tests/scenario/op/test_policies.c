/*
 * test_policies.c - what a full pool does while several threads allocate, send, receive and free.
 */
#include "own_pair.h"

#include <pthread.h>

#define THREADS 5
#define HELD    12
#define ROUNDS  250

struct worker {
	pthread_t thread;
	uint64_t tag, random;
	void *held[HELD];
	uint64_t full; /* allocations that found no room */
};

/* An allocation, giving back what this thread holds until there is room. */
static uint8_t *take(struct worker *worker, uint64_t bytes)
{
	void *memory;
	int status;

	for (int i = 0;; i++) {
		status = tow_alloc(twt_own.runtime, bytes, 0, &memory);
		if (status != TOW_EEXHAUSTED)
			break;
		worker->full++;
		TWT_OK(tow_free(twt_own.runtime, worker->held[i % HELD]));
		worker->held[i % HELD] = NULL;
		if (i >= HELD) /* others hold the rest: theirs comes back */
			tow_progress(twt_own.runtime);
		if (i > 1000000) {
			fprintf(stderr, "no room, for ever\n");
			abort();
		}
	}
	TWT_OK(status);
	return memory;
}

/* A message from this thread to itself; the sender frees while it is on its way. */
static void exchange(struct worker *worker, uint64_t seed)
{
	uint64_t bytes = 8 * (1 + twt_random_below(&worker->random, 40000));
	unsigned pair = (unsigned)twt_random_below(&worker->random, TWT_OWN_PAIRS);
	uint8_t *out = take(worker, bytes), *in = take(worker, bytes);
	struct tow_op *send, *recv;
	struct tow_result result;
	int status;

	twt_fill(out, bytes, seed);
	TWT_OK(tow_recv_start(twt_own.to[pair], in, bytes, worker->tag, NULL, &recv));
	while ((status = tow_send_start(twt_own.from[pair], out, bytes, worker->tag, NULL,
					&send)) == TOW_EBUSY)
		tow_progress(twt_own.runtime);
	TWT_OK(status);
	TWT_OK(tow_free(twt_own.runtime, out));
	TWT_OK(twt_finish(recv, &result));
	assert_int_equal(result.bytes, bytes);
	twt_own_check(in, bytes, seed);
	TWT_OK(twt_finish(send, NULL));
	TWT_OK(tow_free(twt_own.runtime, in));
}

static void *work(void *arg)
{
	struct worker *worker = arg;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		unsigned at = (unsigned)twt_random_below(&worker->random, HELD);

		TWT_OK(tow_free(twt_own.runtime, worker->held[at]));
		worker->held[at] = NULL;
		worker->held[at] = take(worker, 1 + twt_random_below(&worker->random, TWT_MIB / 4));
		exchange(worker, worker->tag << 32 | i);
	}
	for (int i = 0; i < HELD; i++)
		TWT_OK(tow_free(twt_own.runtime, worker->held[i]));
	return NULL;
}

/* All threads at once; returns how often they found no room. */
static uint64_t load(void)
{
	struct worker workers[THREADS] = { 0 };
	uint64_t full = 0, random = twt_seed();

	for (uint64_t i = 0; i < THREADS; i++) {
		workers[i].tag = i;
		workers[i].random = twt_random(&random);
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		full += workers[i].full;
	}
	assert_true(twt_own_counter(TWI_C_pool_exhausted) > 0);
	assert_true(twt_own_counter(TWI_C_deferred_frees) > 0);
	return full;
}

static void test_grow(void **state)
{
	struct tow_options options = twt_own_options("grow");
	struct twi_pool_stats stats;
	uint64_t extents;

	(void)state;
	options.premap_limit_bytes = 10 * TWT_MIB;
	twt_own_open(&options);
	load();
	twi_pool_stats(twt_own.engine->pool, &stats);
	extents = atomic_load(&((struct twi_extent_table *)(void *)twt_own.engine->pool)->count);
	assert_true(extents > 1 && stats.mapped <= 10 * TWT_MIB);
	assert_int_equal(twt_own_counter(TWI_C_pool_grown), extents - 1);
	assert_int_equal(twt_own_reason(TWI_R_late_extent).count, extents - 1);
	assert_int_equal(twt_own_reason(TWI_R_late_extent).bytes, stats.mapped - 4 * TWT_MIB);
	assert_int_equal(twt_own_counter(TWI_C_pool_grown_bytes), stats.grown);
	assert_int_equal(twt_own_counter(TWI_C_pool_overflow_allocs), 0);
	twt_own_no_copies();
	twt_own_close();
}

static void test_copy(void **state)
{
	struct tow_options options = twt_own_options("copy");
	struct twi_pool_stats stats;

	(void)state;
	options.premap_limit_bytes = 6 * TWT_MIB;
	twt_own_open(&options);
	load();
	twi_pool_stats(twt_own.engine->pool, &stats);
	assert_int_equal(stats.mapped, 4 * TWT_MIB);
	assert_true(stats.overflow_peak > 0 && stats.overflow_peak <= 2 * TWT_MIB);
	assert_true(twt_own_counter(TWI_C_pool_overflow_allocs) > 0);
	assert_int_equal(twt_own_counter(TWI_C_pool_grown), 0);
	assert_true(twt_own_reason(TWI_R_pool_exhausted).bytes > 0);
	assert_int_equal(twt_own_reason(TWI_R_pool_unpinned).count, 0);
	assert_int_equal(twt_own_reason(TWI_R_unregistered_send).count, 0);
	twt_own_close();
}

static void test_wait(void **state)
{
	struct tow_options options = twt_own_options("wait");
	uint64_t full;

	(void)state;
	options.exhaust_wait_ns = 2000000;
	twt_own_open(&options);
	full = load();
	assert_true(twt_own_counter(TWI_C_pool_waits) > 0);
	assert_int_equal(twt_own_counter(TWI_C_pool_wait_timeouts), full);
	assert_true(twt_own_counter(TWI_C_pool_wait_ns) >= full * 2000000);
	assert_int_equal(twt_own_counter(TWI_C_pool_exhausted), twt_own_counter(TWI_C_pool_waits));
	twt_own_no_copies();
	twt_own_close();
}

static void test_fail(void **state)
{
	struct tow_options options = twt_own_options("fail");
	struct twi_pool_stats stats;
	uint64_t full;

	(void)state;
	twt_own_open(&options);
	full = load();
	assert_int_equal(twt_own_counter(TWI_C_pool_exhausted), full);
	twi_pool_stats(twt_own.engine->pool, &stats);
	assert_int_equal(stats.exhausted, full);
	assert_true(stats.recommended > 4 * TWT_MIB);
	assert_int_equal(stats.mapped, 4 * TWT_MIB);
	twt_own_no_copies();
	twt_own_close();
}

/* Strict: nothing is degraded, whatever the policy; grow and copy say that they would have. */
static void test_strict(void **state)
{
	static const char *const policies[] = { "grow", "copy", "wait", "fail" };

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct tow_options options = twt_own_options(policies[i]);
		uint64_t full;

		options.require_zero_copy = 1;
		options.exhaust_wait_ns = 1000000;
		twt_own_open(&options);
		full = load();
		assert_int_equal(twt_own_counter(TWI_C_zero_copy_refusals), i < 2 ? full : 0);
		assert_int_equal(twt_own_counter(TWI_C_pool_overflow_allocs), 0);
		assert_int_equal(twt_own_counter(TWI_C_pool_grown), 0);
		assert_int_equal(twt_own_counter(TWI_C_late_registrations),
				 twt_own_reason(TWI_R_late_registrar).count);
		twt_own_no_copies();
		twt_own_close();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_grow),   cmocka_unit_test(test_copy),
		cmocka_unit_test(test_wait),   cmocka_unit_test(test_fail),
		cmocka_unit_test(test_strict),
	};

	alarm(200);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
