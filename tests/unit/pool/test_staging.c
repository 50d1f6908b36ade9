/*
 * test_staging.c - the staging part of the pool: every chunk once, none twice, none after the last.
 */
#include "twt.h"

#include "diag/record/diag.h"
#include "memreg/pool/pool.h"
#include "memreg/pool/staging.h"
#include <towline/status.h>

static struct twi_pool *pool_of(struct twi_diag *diag, uint64_t bytes)
{
	struct twi_pool_options options = { .bytes = bytes, .diag = diag };
	struct twi_pool *pool;

	assert_int_equal(twi_pool_create(&options, &pool), TOW_OK);
	return pool;
}

static void chunks_are_apart(void **state)
{
	struct twi_staging staging;
	struct twi_diag *diag;
	struct twi_pool *pool;
	void *chunk[8];

	(void)state;
	assert_int_equal(twi_diag_create(&diag), TOW_OK);
	pool = pool_of(diag, 8 << 20);
	assert_int_equal(twi_staging_init(&staging, pool, 2 << 20), TOW_OK);
	assert_int_equal(staging.chunk_bytes, TWI_STAGING_CHUNK);
	assert_int_equal(staging.chunks, 8);
	for (int i = 0; i < 8; i++) {
		chunk[i] = twi_staging_acquire(&staging);
		assert_non_null(twi_pool_find(pool, chunk[i], staging.chunk_bytes));
		for (int k = 0; k < i; k++)
			assert_true((char *)chunk[i] >= (char *)chunk[k] + staging.chunk_bytes ||
				    (char *)chunk[k] >= (char *)chunk[i] + staging.chunk_bytes);
	}
	assert_null(twi_staging_acquire(&staging));
	assert_int_equal(staging.least_free, 0);
	twi_staging_release(&staging, chunk[3]);
	assert_ptr_equal(twi_staging_acquire(&staging), chunk[3]);
	for (int i = 0; i < 8; i++)
		twi_staging_release(&staging, chunk[i]);
	twi_staging_fini(&staging);
	twi_pool_destroy(pool);
	twi_diag_destroy(diag);
}

static void none_and_too_much(void **state)
{
	struct twi_staging staging;
	struct twi_diag *diag;
	struct twi_pool *pool;

	(void)state;
	assert_int_equal(twi_diag_create(&diag), TOW_OK);
	pool = pool_of(diag, 1 << 20);
	assert_int_equal(twi_staging_init(&staging, pool, 0), TOW_OK);
	assert_null(twi_staging_acquire(&staging));
	twi_staging_fini(&staging);
	assert_int_equal(twi_staging_init(&staging, pool, 4 << 20), TOW_EEXHAUSTED);
	assert_null(twi_staging_acquire(&staging));
	twi_staging_fini(&staging);
	assert_int_equal(twi_staging_init(&staging, pool, 64 << 10), TOW_OK);
	assert_int_equal(staging.chunk_bytes, 16 << 10);
	assert_int_equal(staging.chunks, 4);
	twi_staging_fini(&staging);
	twi_pool_destroy(pool);
	twi_diag_destroy(diag);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chunks_are_apart),
		cmocka_unit_test(none_and_too_much),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
