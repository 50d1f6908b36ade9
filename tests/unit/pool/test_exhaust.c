/* test_exhaust.c - a full pool: by how much it grows, its bounds, strict mode, room to wait for. */
#include "twt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "fake_registrar.h"
#include "memreg/pool/pool.h"
#include "memreg/pool/pool_impl.h"
#include <internal/base.h>

#define MIB ((uint64_t)1 << 20)

static struct twi_diag *diag;
static struct twi_pool *pool;

/* The time of day was set by so much: what was read of it before the step is wrong after it. */
static _Atomic int64_t step_s;

int clock_gettime(clockid_t clock, struct timespec *out)
{
	int status = (int)syscall(SYS_clock_gettime, clock, out);

	if (clock == CLOCK_REALTIME)
		out->tv_sec += atomic_load(&step_s);
	return status;
}

static uint64_t pool_bytes = 4 * MIB;

static void open_pool(enum twi_exhaust exhaust, uint64_t limit, bool strict)
{
	struct twi_pool_options options = { .bytes = pool_bytes,
					    .exhaust = exhaust,
					    .limit_bytes = limit,
					    .require_zero_copy = strict };

	assert_int_equal(twi_diag_create(&diag), TOW_OK);
	options.diag = diag;
	assert_int_equal(twi_pool_create(&options, &pool), TOW_OK);
}

static void close_pool(void)
{
	twi_pool_destroy(pool);
	twi_diag_destroy(diag);
}

static uint64_t count(enum twi_counter counter)
{
	return twi_counter_sum(diag, counter);
}

static struct twi_pool_stats stats(void)
{
	struct twi_pool_stats out;

	twi_pool_stats(pool, &out);
	return out;
}

static void *take(uint64_t bytes)
{
	void *p;

	assert_int_equal(twi_pool_alloc(pool, bytes, 0, &p), TOW_OK);
	memset(p, 1, bytes);
	return p;
}

static void refused(uint64_t bytes, const char *why)
{
	void *p = &p;

	assert_int_equal(twi_pool_alloc(pool, bytes, 0, &p), TOW_EEXHAUSTED);
	assert_null(p);
	if (strstr(tow_error_message(), why) == NULL)
		fail_msg("'%s' is not in: %s", why, tow_error_message());
}

static void names(void **state)
{
	(void)state;
	assert_string_equal(twi_exhaust_name(TWI_EXHAUST_FAIL), "fail");
	assert_string_equal(twi_exhaust_name(TWI_EXHAUST_WAIT), "wait");
}

/* Each block is larger than the gaps that those before it have left, as much as is in use. */
static void break_up(void)
{
	for (uint64_t i = 1; i <= 10; i++) {
		void *goes = take(i * 32 << 10);

		take(i * 32 << 10);
		assert_int_equal(twi_pool_free(pool, goes), TOW_OK);
	}
	take(MIB);
}

/* What is recommended does, though the pool is in pieces; the sum of what is in use would not. */
static void recommended_in_pieces(void **state)
{
	const enum twi_exhaust policies[] = { TWI_EXHAUST_GROW, TWI_EXHAUST_COPY };
	uint64_t recommended;

	(void)state;
	for (size_t i = 0; i < twi_array_count(policies); i++) {
		open_pool(policies[i], 16 * MIB, false);
		break_up();
		recommended = stats().recommended;
		assert_true(stats().exhausted > 0);
		assert_int_equal(recommended, 6 * MIB);
		close_pool();
		pool_bytes = recommended;
		open_pool(policies[i], 16 * MIB, false);
		break_up();
		assert_int_equal(stats().exhausted, 0);
		close_pool();
		pool_bytes = 4 * MIB;
	}
}

/*
 * A pool that is nearly full and had room for all was enough: what is recommended is not more than
 * it has. The first request without room ends that.
 */
static void recommended_was_enough(void **state)
{
	(void)state;
	open_pool(TWI_EXHAUST_GROW, 16 * MIB, false);
	take(3 * MIB + MIB / 2);
	take(MIB / 2);
	assert_int_equal(stats().exhausted, 0);
	assert_int_equal(stats().recommended, 4 * MIB);
	take(MIB);
	assert_int_equal(stats().exhausted, 1);
	assert_true(stats().recommended > 4 * MIB);
	close_pool();
}

/* By a quarter at least, by what is asked for, and never beyond the limit. */
static void grows(void **state)
{
	void *big[2];

	(void)state;
	open_pool(TWI_EXHAUST_GROW, 16 * MIB, false);
	big[0] = take(3 * MIB);
	assert_int_equal(stats().mapped, 4 * MIB);
	big[1] = take(2 * MIB);
	assert_true(stats().mapped >= 6 * MIB && stats().mapped <= 10 * MIB);
	assert_int_equal(stats().grown, stats().mapped - 4 * MIB);
	assert_int_equal(count(TWI_C_pool_grown), 1);
	refused(12 * MIB, "premap_limit_bytes");
	assert_int_equal(count(TWI_C_pool_grown), 1);
	while (stats().mapped < 16 * MIB)
		take(MIB);
	for (void *p; twi_pool_try(pool, MIB, 64, &p) == TOW_OK;)
		;
	refused(MIB, "premap_limit_bytes");
	assert_int_equal(stats().mapped, 16 * MIB);
	assert_true(stats().recommended > 16 * MIB);
	assert_int_equal(twi_pool_free(pool, big[0]), TOW_OK);
	assert_int_equal(twi_pool_free(pool, big[1]), TOW_OK);
	assert_int_equal(twi_pool_find(pool, take(3 * MIB), 1)->slot, 0); /* used again */
	close_pool();
}

/* 15 times, however large the limit. */
static void grows_so_often(void **state)
{
	(void)state;
	open_pool(TWI_EXHAUST_GROW, 4096 * MIB, false);
	for (int i = 0; i < 15; i++) {
		void *p;

		while (twi_pool_try(pool, MIB, 64, &p) == TOW_OK)
			;
		pool->limit_bytes = stats().mapped + 2 * MIB; /* a small step */
		take(MIB);
		assert_int_equal(count(TWI_C_pool_grown), i + 1);
	}
	pool->limit_bytes = 4096 * MIB;
	for (void *p; twi_pool_try(pool, MIB, 64, &p) == TOW_OK;)
		;
	refused(MIB, "15 times");
	close_pool();
}

static void no_growth_without_registration(void **state)
{
	static struct twt_fake fake;
	struct twi_pool_stats before;

	(void)state;
	open_pool(TWI_EXHAUST_GROW, 16 * MIB, false);
	assert_int_equal(twi_pool_registrar_add(pool, &twt_fake_registrar, &fake), TOW_OK);
	take(3 * MIB);
	before = stats();
	fake.fail_at = fake.calls + 1;
	refused(2 * MIB, "fake fails");
	assert_int_equal(fake.known, 1);
	assert_int_equal(stats().mapped, before.mapped);
	assert_int_equal(twt_map_count("memfd:"), 1);
	take(2 * MIB);
	assert_true(stats().mapped > before.mapped);
	assert_int_equal(fake.known, 2);
	close_pool();
	assert_int_equal(fake.known, 0);
}

static void goes_outside(void **state)
{
	void *p;

	(void)state;
	open_pool(TWI_EXHAUST_COPY, 5 * MIB, false);
	take(3 * MIB);
	p = take(MIB / 2 + 3 * MIB / 8); /* still inside */
	assert_non_null(twi_pool_find(pool, p, 1));
	p = take(MIB - 64);
	assert_null(twi_pool_find(pool, p, 1));
	assert_true(twi_pool_overflow(pool, (char *)p + MIB - 65, 1));
	assert_false(twi_pool_overflow(pool, (char *)p + MIB - 65, 2));
	assert_int_equal(stats().overflow, MIB - 64);
	refused(MIB, "outside the pool");
	assert_int_equal(twi_pool_lease(pool, p), TOW_OK);
	assert_int_equal(stats().leased, MIB - 64);
	assert_int_equal(twi_pool_free(pool, p), TOW_OK);
	assert_int_equal(twi_pool_free(pool, p), TOW_EFREED);
	assert_int_equal(stats().overflow, MIB - 64);
	assert_int_equal(stats().deferred, 0); /* it holds back nothing of the pool */
	twi_pool_release(pool, p);
	assert_int_equal(stats().overflow, 0);
	assert_int_equal(stats().leased, 0);
	assert_int_equal(twi_pool_free(pool, p), TOW_EFOREIGN);
	assert_int_equal(count(TWI_C_pool_overflow_allocs), 1);
	close_pool();
}

static void strict(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		open_pool((enum twi_exhaust)i, 16 * MIB, true);
		take(3 * MIB);
		refused(2 * MIB, i == TWI_EXHAUST_GROW || i == TWI_EXHAUST_COPY
					 ? "require_zero_copy"
					 : "would have been enough");
		assert_int_equal(count(TWI_C_zero_copy_refusals),
				 i == TWI_EXHAUST_GROW || i == TWI_EXHAUST_COPY);
		assert_int_equal(stats().mapped, 4 * MIB);
		assert_int_equal(stats().overflow, 0);
		close_pool();
	}
}

static void absurd_sizes(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		open_pool((enum twi_exhaust)i, 16 * MIB, false);
		refused(SIZE_MAX, "");
		refused(SIZE_MAX / 2, "");
		refused(SIZE_MAX / 4 - 4096, "");
		assert_int_equal(count(TWI_C_pool_exhausted), 3);
		close_pool();
	}
}

static void trying(void **state)
{
	void *p, *q;

	(void)state;
	open_pool(TWI_EXHAUST_WAIT, 0, false);
	assert_true(twi_pool_waits(pool));
	assert_int_equal(twi_pool_try(pool, 3 * MIB, 4096, &p), TOW_OK);
	assert_int_equal((uintptr_t)p % 4096, 0);
	assert_int_equal(twi_pool_try(pool, 3 * MIB, 64, &q), TOW_EEXHAUSTED);
	assert_int_equal(count(TWI_C_pool_exhausted), 0);
	assert_int_equal(count(TWI_C_pool_allocs), 1);
	assert_int_equal(twi_pool_free(pool, p), TOW_OK);
	assert_int_equal(twi_pool_try(pool, 3 * MIB, 64, &q), TOW_OK);
	close_pool();
}

static _Atomic bool got;

static void *wait_and_try(void *arg)
{
	void *p;

	(void)arg;
	while (twi_pool_try(pool, 3 * MIB, 64, &p) != TOW_OK)
		twi_pool_wait_room(pool, 100000000);
	atomic_store(&got, true);
	return NULL;
}

/* A free, and the end of a freed lease, wake who waits; nobody waits past the time given. */
static void room_comes(void **state)
{
	(void)state;
	for (int leased = 0; leased < 2; leased++) {
		pthread_t thread;
		void *p;

		open_pool(TWI_EXHAUST_WAIT, 0, false);
		p = take(3 * MIB);
		if (leased)
			assert_int_equal(twi_pool_lease(pool, p), TOW_OK);
		twi_pool_wait_room(pool, 1000000);
		atomic_store(&got, false);
		assert_int_equal(pthread_create(&thread, NULL, wait_and_try, NULL), 0);
		while (atomic_load(&pool->room_waiters) == 0)
			usleep(100);
		assert_false(atomic_load(&got));
		assert_int_equal(twi_pool_free(pool, p), TOW_OK);
		if (leased) {
			assert_int_equal(stats().deferred, twi_pool_deferred(pool));
			assert_true(stats().deferred >= 3 * MIB);
			assert_true(twi_pool_freed(pool, p));
			twi_pool_release(pool, p);
		}
		pthread_join(thread, NULL);
		assert_int_equal(stats().allocations, 1);
		close_pool();
	}
}

static uint64_t steady_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Whoever sets the time of day makes no wait longer, nor shorter. */
static void clock_is_set(void **state)
{
	static const int64_t steps[] = { 5, -5 };

	(void)state;
	open_pool(TWI_EXHAUST_WAIT, 0, false);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		uint64_t start = steady_ns(), took;

		atomic_store(&step_s, steps[i]);
		twi_pool_wait_room(pool, 50000000);
		took = steady_ns() - start;
		atomic_store(&step_s, 0);
		assert_in_range(took, 49000000, 4000000000u);
	}
	close_pool();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(grows),
		cmocka_unit_test(recommended_in_pieces),
		cmocka_unit_test(recommended_was_enough),
		cmocka_unit_test(grows_so_often),
		cmocka_unit_test(no_growth_without_registration),
		cmocka_unit_test(goes_outside),
		cmocka_unit_test(strict),
		cmocka_unit_test(absurd_sizes),
		cmocka_unit_test(trying),
		cmocka_unit_test(room_comes),
		cmocka_unit_test(clock_is_set),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
