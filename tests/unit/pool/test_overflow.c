/*
 * test_overflow.c - memory outside the pool: found by any address in it, leased, freed late,
 * bounded; the same against a plain list of blocks on random calls; and with threads.
 */
#include "twt.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include <internal/base.h>
#include <towline/status.h>

#include "memreg/pool/overflow.h"
#include "memreg/region/lease.h"

#define LIMIT (1u << 20)

static struct twi_overflow overflow;

static int set_up(void **state)
{
	(void)state;
	twi_overflow_init(&overflow);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	twi_overflow_fini(&overflow);
	return 0;
}

static char *take(size_t bytes, size_t align)
{
	void *p;

	assert_int_equal(twi_overflow_alloc(&overflow, bytes, align, LIMIT, &p), TOW_OK);
	assert_int_equal((uintptr_t)p % align, 0);
	memset(p, 0x5a, bytes);
	return p;
}

static uint64_t bytes_now(void)
{
	return atomic_load(&overflow.bytes);
}

static void found_by_any_address(void **state)
{
	char *a = take(1000, 64), *b = take(4096, 4096);
	void *base;

	(void)state;
	assert_true(twi_overflow_find(&overflow, a + 999, 1, &base) && base == a);
	assert_true(twi_overflow_find(&overflow, a, 1000, &base) && base == a);
	assert_true(twi_overflow_find(&overflow, b + 1, 4095, &base) && base == b);
	assert_false(twi_overflow_find(&overflow, b + 1, 4096, &base));
	assert_false(twi_overflow_find(&overflow, b, UINT64_MAX, &base));
	assert_false(twi_overflow_find(&overflow, b + 4096, 1, &base) && base == b);
	assert_false(twi_overflow_find(&overflow, &base, 1, &base));
	assert_int_equal(twi_overflow_free(&overflow, a + 1), TOW_EFOREIGN);
	assert_int_equal(twi_overflow_free(&overflow, a), TWI_HOLD_ENDED);
	assert_int_equal(twi_overflow_free(&overflow, a), TOW_EFOREIGN);
	assert_false(twi_overflow_find(&overflow, a, 1, &base));
	assert_int_equal(twi_overflow_free(&overflow, b), TWI_HOLD_ENDED);
	assert_true(twi_overflow_empty(&overflow));
	assert_int_equal(bytes_now(), 0);
}

static void no_bytes_are_a_block(void **state)
{
	char *a = take(0, 64), *b = take(0, 64);

	(void)state;
	assert_ptr_not_equal(a, b);
	assert_int_equal(bytes_now(), 128);
	assert_int_equal(twi_overflow_free(&overflow, a), TWI_HOLD_ENDED);
	assert_int_equal(twi_overflow_free(&overflow, b), TWI_HOLD_ENDED);
}

static void limits(void **state)
{
	char *a = take(LIMIT / 2, 64);
	void *p = &p;

	(void)state;
	assert_int_equal(twi_overflow_alloc(&overflow, LIMIT / 2 + 1, 64, LIMIT, &p),
			 TOW_EEXHAUSTED);
	assert_null(p);
	assert_int_equal(twi_overflow_alloc(&overflow, LIMIT / 2, 64, LIMIT, &p), TOW_OK);
	assert_int_equal(bytes_now(), LIMIT);
	assert_int_equal(twi_overflow_free(&overflow, p), TWI_HOLD_ENDED);
	/* rounded up to its alignment it is too much */
	assert_int_equal(twi_overflow_alloc(&overflow, LIMIT / 2 - 64, 1u << 20, LIMIT, &p),
			 TOW_EEXHAUSTED);
	assert_int_equal(twi_overflow_alloc(&overflow, SIZE_MAX, 64, LIMIT, &p), TOW_EEXHAUSTED);
#ifndef TWT_SANITIZED /* they end the program for it */
	assert_int_equal(twi_overflow_alloc(&overflow, SIZE_MAX / 2, 64, SIZE_MAX, &p), TOW_ENOMEM);
#endif
	assert_int_equal(twi_overflow_alloc(&overflow, 1, 64, 0, &p), TOW_EEXHAUSTED);
	assert_int_equal(bytes_now(), LIMIT / 2);
	assert_int_equal(atomic_load(&overflow.peak_bytes), LIMIT);
	assert_int_equal(twi_overflow_free(&overflow, a), TWI_HOLD_ENDED);
}

static void leases(void **state)
{
	char *a = take(1000, 64);
	uint64_t bytes = 0;

	(void)state;
	assert_int_equal(twi_overflow_lease(&overflow, a + 500, &bytes), TWI_HOLD_FIRST);
	assert_int_equal(bytes, 1024);
	assert_int_equal(twi_overflow_lease(&overflow, a, &bytes), TOW_OK);
	assert_int_equal(twi_overflow_free(&overflow, a), TWI_HOLD_DEFERRED);
	assert_int_equal(twi_overflow_free(&overflow, a), TOW_EFREED);
	assert_int_equal(twi_overflow_lease(&overflow, a, &bytes), TOW_EFREED);
	assert_int_equal(twi_overflow_lease_again(&overflow, a + 9, &bytes), TOW_OK);
	for (int i = 0; i < 2; i++)
		assert_int_equal(twi_overflow_release(&overflow, a + i, &bytes), TOW_OK);
	a[999] = 1; /* still there */
	bytes = 0;
	assert_int_equal(twi_overflow_release(&overflow, a, &bytes), TWI_HOLD_ENDED);
	assert_int_equal(bytes, 1024);
	assert_int_equal(twi_overflow_release(&overflow, a, &bytes), TOW_EFOREIGN);
	assert_true(twi_overflow_empty(&overflow));
}

/* What is left at the end is freed by fini; a leak checker sees to it. */
static void left_behind(void **state)
{
	uint64_t bytes;

	(void)state;
	for (int i = 0; i < 200; i++) {
		char *p = take(64, 64);

		if (i % 3 == 0)
			twi_overflow_lease(&overflow, p, &bytes);
	}
	assert_int_equal(atomic_load(&overflow.count), 200);
}

#define MODEL 150

struct block {
	char *at;
	uint64_t bytes, leases;
	bool freed;
};

static struct block model[MODEL];
static unsigned model_count;
static uint64_t model_bytes;

static void model_end(struct block *block)
{
	model_bytes -= block->bytes;
	*block = model[--model_count];
}

static void try_alloc(uint64_t *random)
{
	size_t align = (size_t)64 << twt_random_below(random, 8);
	size_t bytes = twt_random_below(random, LIMIT / 16);
	uint64_t rounded = twi_align_up(bytes > 0 ? bytes : 1, align);
	void *p;
	int want = bytes > LIMIT || model_bytes + rounded > LIMIT ? TOW_EEXHAUSTED : TOW_OK;

	if (model_count == MODEL)
		return;
	assert_int_equal(twi_overflow_alloc(&overflow, bytes, align, LIMIT, &p), want);
	if (want != TOW_OK)
		return;
	assert_int_equal((uintptr_t)p % align, 0);
	for (unsigned i = 0; i < model_count; i++)
		assert_true((char *)p + rounded <= model[i].at ||
			    model[i].at + model[i].bytes <= (char *)p);
	model[model_count++] = (struct block){ .at = p, .bytes = rounded };
	model_bytes += rounded;
}

static void try_free(struct block *block)
{
	int want = block->freed ? TOW_EFREED : block->leases ? TWI_HOLD_DEFERRED : TWI_HOLD_ENDED;

	assert_int_equal(twi_overflow_free(&overflow, block->at), want);
	block->freed = true;
	if (want == TWI_HOLD_ENDED)
		model_end(block);
}

static void try_lease(struct block *block, const char *p)
{
	uint64_t bytes = 0;
	int want = block->freed ? TOW_EFREED : block->leases ? TOW_OK : TWI_HOLD_FIRST;

	assert_int_equal(twi_overflow_lease(&overflow, p, &bytes), want);
	assert_int_equal(bytes, block->bytes);
	block->leases += want != TOW_EFREED;
}

static void try_release(struct block *block, const char *p)
{
	uint64_t bytes = 0;
	bool last = block->leases == 1;
	int want = last ? (block->freed ? TWI_HOLD_ENDED : TWI_HOLD_LAST) : TOW_OK;

	if (block->leases == 0)
		want = TOW_EINVAL;
	assert_int_equal(twi_overflow_release(&overflow, p, &bytes), want);
	assert_int_equal(bytes, block->bytes);
	if (want == TOW_EINVAL)
		return;
	block->leases--;
	if (want == TWI_HOLD_ENDED)
		model_end(block);
}

static void check_find(const struct block *block, uint64_t at, uint64_t bytes)
{
	void *base = NULL;
	bool inside = bytes <= block->bytes - at;

	assert_int_equal(twi_overflow_find(&overflow, block->at + at, bytes, &base), inside);
	assert_ptr_equal(base, block->at);
}

/* Random calls, each with the outcome that a list of blocks foretells. */
static void as_the_model(void **state)
{
	uint64_t random = twt_seed();

	(void)state;
	model_count = 0;
	model_bytes = 0;
	for (int i = 0; i < 40000; i++) {
		uint64_t what = twt_random_below(&random, 10), at;
		struct block *block;

		if (what < 3 || model_count == 0) {
			try_alloc(&random);
			continue;
		}
		block = &model[twt_random_below(&random, model_count)];
		at = twt_random_below(&random, block->bytes);
		check_find(block, at, twt_random_below(&random, 2 * block->bytes));
		if (what < 5)
			try_free(block);
		else if (what < 7)
			try_lease(block, block->at + at);
		else
			try_release(block, block->at + at);
		assert_int_equal(atomic_load(&overflow.count), model_count);
		assert_int_equal(bytes_now(), model_bytes);
	}
	assert_true(atomic_load(&overflow.peak_bytes) <= LIMIT);
}

static void *churn(void *arg)
{
	uint64_t random = *(uint64_t *)arg, bytes;

	for (int i = 0; i < 3000; i++) {
		void *p;

		if (twi_overflow_alloc(&overflow, 1 + twt_random_below(&random, 5000), 64, LIMIT,
				       &p) != TOW_OK)
			continue;
		memset(p, i, 64);
		twi_overflow_lease(&overflow, p, &bytes);
		twi_overflow_free(&overflow, p);
		if (i % 2 == 0)
			twi_overflow_lease_again(&overflow, p, &bytes);
		twi_overflow_release(&overflow, p, &bytes);
		if (i % 2 == 0)
			twi_overflow_release(&overflow, p, &bytes);
	}
	return NULL;
}

static void threads(void **state)
{
	pthread_t thread[4];
	uint64_t seed[4] = { 1, 2, 3, 4 };

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, churn, &seed[i]), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	assert_true(twi_overflow_empty(&overflow));
	assert_int_equal(bytes_now(), 0);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		EACH(found_by_any_address), EACH(no_bytes_are_a_block), EACH(limits),  EACH(leases),
		EACH(left_behind),          EACH(as_the_model),         EACH(threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
