/* test_pool.c - allocation, errors, leases, registrars, exhaustion and the report of the pool. */
#include "twt.h"

#include <string.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "memreg/arena/arena.h"
#include "memreg/pool/pool.h"
#include <internal/base.h>

#define MIB ((uint64_t)1 << 20)

static struct twi_diag *diag;

static struct twi_pool *make_pool(uint64_t bytes, bool strict)
{
	struct twi_pool_options options = { .bytes = bytes, .strict = strict, .diag = diag };
	struct twi_pool *pool;

	assert_int_equal(twi_pool_create(&options, &pool), TOW_OK);
	return pool;
}

static void *take(struct twi_pool *pool, size_t bytes, size_t align)
{
	void *p;

	assert_int_equal(twi_pool_alloc(pool, bytes, align, &p), TOW_OK);
	assert_non_null(twi_pool_find(pool, p, bytes ? bytes : 1));
	assert_int_equal((uintptr_t)p % (align ? align : 64), 0);
	return p;
}

static struct twi_pool_stats stats_of(struct twi_pool *pool)
{
	struct twi_pool_stats stats;

	twi_pool_stats(pool, &stats);
	return stats;
}

static void assert_all_free(struct twi_pool *pool)
{
	struct twi_pool_stats stats = stats_of(pool);

	assert_int_equal(stats.allocated, 0);
	assert_int_equal(stats.allocations, 0);
	assert_int_equal(stats.waste, 0);
	assert_int_equal(stats.leased, 0);
	assert_int_equal(stats.largest_free, stats.mapped);
}

static void sizes_and_alignments(void **state)
{
	static const size_t sizes[] = { 0,    1,    63,   64,    65,      2047,   2048,
					2049, 4096, 4097, 65536, 1 << 20, 3 << 20 };
	struct twi_pool *pool = make_pool(16 * MIB, false);

	(void)state;
	for (size_t i = 0; i < twi_array_count(sizes); i++)
		for (size_t align = 1; align <= TWI_ALIGN_MAX; align *= 2) {
			void *p = take(pool, sizes[i], align), *q = take(pool, sizes[i], 0);

			assert_ptr_not_equal(p, q);
			memset(p, 1, sizes[i]);
			memset(q, 2, sizes[i]);
			assert_int_equal(twi_pool_free(pool, p), TOW_OK);
			assert_int_equal(twi_pool_free(pool, q), TOW_OK);
		}
	assert_all_free(pool);
	twi_pool_destroy(pool);
}

static void bad_alignment_is_named(void **state)
{
	struct twi_pool *pool = make_pool(2 * MIB, false);
	void *p = pool;

	(void)state;
	assert_int_equal(twi_pool_alloc(pool, 1, 3, &p), TOW_EINVAL);
	assert_null(p);
	assert_non_null(strstr(tow_error_message(), "align = 3"));
	assert_int_equal(twi_pool_alloc(pool, 1, 4 * MIB, &p), TOW_EINVAL);
	twi_pool_destroy(pool);
}

static void wrong_frees_change_nothing(void **state)
{
	struct twi_pool *pool = make_pool(4 * MIB, false);
	size_t sizes[] = { 64, 100, 2048, 4096, 1 << 20 };
	int outside;

	(void)state;
	assert_int_equal(twi_pool_free(pool, NULL), TOW_OK);
	assert_int_equal(twi_pool_free(pool, &outside), TOW_EFOREIGN);
	for (size_t i = 0; i < twi_array_count(sizes); i++) {
		char *p = take(pool, sizes[i], 0);

		assert_int_equal(twi_pool_free(pool, p + 1), TOW_EFOREIGN);
		if (sizes[i] > 64) {
			assert_int_equal(twi_pool_free(pool, p + 64), TOW_EFOREIGN);
			assert_non_null(strstr(tow_error_message(), "inside the allocation"));
		}
		assert_int_equal(stats_of(pool).allocations, 1);
		assert_int_equal(twi_pool_free(pool, p), TOW_OK);
		assert_int_equal(twi_pool_free(pool, p), TOW_EFREED);
		assert_all_free(pool);
	}
	twi_pool_destroy(pool);
}

static void almost_all_is_usable_for_large_blocks(void **state)
{
	struct twi_pool *pool = make_pool(64 * MIB, false);
	void *p, *small = take(pool, 100, 0);
	int count = 0;

	(void)state;
	while (twi_pool_alloc(pool, MIB, 0, &p) == TOW_OK)
		count++;
	assert_true(count >= 61); /* 95 % */
	assert_int_equal(twi_pool_free(pool, small), TOW_OK);
	twi_pool_destroy(pool);
}

static void exhaustion_says_what_would_do(void **state)
{
	struct twi_pool *pool = make_pool(8 * MIB, false);
	uint64_t before = twi_counter_sum(diag, TWI_C_pool_exhausted);
	void *kept = take(pool, 6 * MIB, 0), *p;
	struct twi_pool_stats stats;

	(void)state;
	assert_int_equal(twi_pool_alloc(pool, 5 * MIB, 0, &p), TOW_EEXHAUSTED);
	assert_null(p);
	assert_non_null(strstr(tow_error_message(), "2097152 of 8388608 bytes are free"));
	assert_non_null(strstr(tow_error_message(), "largest block has 2097152"));
	assert_non_null(strstr(tow_error_message(), "premap_memory_bytes=12MiB"));
	assert_int_equal(twi_pool_alloc(pool, SIZE_MAX, 0, &p), TOW_EEXHAUSTED);
	assert_int_equal(twi_counter_sum(diag, TWI_C_pool_exhausted), before + 2);
	stats = stats_of(pool);
	assert_int_equal(stats.demand, 11 * MIB);
	assert_int_equal(stats.recommended, 12 * MIB);
	assert_int_equal(stats.exhausted, 2);
	assert_int_equal(twi_pool_free(pool, kept), TOW_OK);
	twi_pool_destroy(pool);

	/* And it would have been. */
	pool = make_pool(12 * MIB, false);
	take(pool, 6 * MIB, 0);
	take(pool, 5 * MIB, 0);
	twi_pool_destroy(pool);
}

static void full_of_slots(void **state)
{
	struct twi_pool *pool = make_pool(64 << 10, false);
	void *p[1024];

	(void)state;
	for (int i = 0; i < 1024; i++)
		p[i] = take(pool, 64, 0);
	assert_int_equal(twi_pool_alloc(pool, 1, 0, &p[0]), TOW_EEXHAUSTED);
	p[0] = (char *)p[1] - 64; /* slots of one slab follow each other */
	for (int i = 0; i < 1024; i++)
		assert_int_equal(twi_pool_free(pool, p[i]), TOW_OK);
	assert_all_free(pool);
	twi_pool_destroy(pool);
}

static void find_wants_all_of_it_inside(void **state)
{
	struct twi_pool *pool = make_pool(2 * MIB, false);
	char *p = take(pool, 2 * MIB, 0);

	(void)state;
	assert_non_null(twi_pool_find(pool, p, 2 * MIB));
	assert_non_null(twi_pool_find(pool, p + 2 * MIB - 1, 1));
	assert_null(twi_pool_find(pool, p, 2 * MIB + 1));
	assert_null(twi_pool_find(pool, p + 1, UINT64_MAX));
	assert_null(twi_pool_find(pool, p - 1, 2));
	assert_null(twi_pool_find(pool, p + 2 * MIB, 0));
	assert_null(twi_pool_find(pool, NULL, 1));
	twi_pool_destroy(pool);
}

static void leased_memory_outlives_its_free(void **state)
{
	size_t sizes[] = { 64, 200, 2048, 5000, 1 << 20 };
	struct twi_pool *pool = make_pool(4 * MIB, false);
	int outside;

	(void)state;
	assert_int_equal(twi_pool_lease(pool, &outside), TOW_EFOREIGN);
	for (size_t i = 0; i < twi_array_count(sizes); i++) {
		char *p = take(pool, sizes[i], 0);

		assert_int_equal(twi_pool_lease(pool, p + sizes[i] - 1), TOW_OK);
		assert_int_equal(twi_pool_lease(pool, p + sizes[i] / 2), TOW_OK);
		assert_true(stats_of(pool).leased >= sizes[i]);
		assert_int_equal(twi_pool_free(pool, p), TOW_OK);
		assert_int_equal(twi_pool_free(pool, p), TOW_EFREED);
		assert_int_equal(twi_pool_lease(pool, p), TOW_EFREED);
		assert_int_equal(stats_of(pool).allocations, 1);
		twi_pool_release(pool, p);
		assert_int_equal(stats_of(pool).allocations, 1);
		twi_pool_release(pool, p + sizes[i] - 1);
		assert_all_free(pool);
		assert_int_equal(twi_pool_lease(pool, p), TOW_EFREED);
	}
	assert_int_equal(stats_of(pool).leased_peak, MIB);
	twi_pool_destroy(pool);
}

struct fake {
	int status, added, removed;
};

static int fake_add(void *ctx, const struct twi_region *region)
{
	struct fake *fake = ctx;

	assert_non_null(region->base);
	if (fake->status != TOW_OK)
		return twi_error(fake->status, "fake says no");
	fake->added++;
	return TOW_OK;
}

static void fake_remove(void *ctx, const struct twi_region *region)
{
	struct fake *fake = ctx;

	assert_non_null(region->base);
	fake->removed++;
}

static const struct twi_registrar fake_registrar = { "fake", fake_add, fake_remove };

static void registrars_know_all_extents(void **state)
{
	struct twi_pool *pool = make_pool(2 * MIB, false);
	struct fake one = { 0 }, two = { 0 }, broken = { .status = TOW_ESYSTEM };

	(void)state;
	assert_int_equal(twi_pool_registrar_add(pool, &fake_registrar, &one), TOW_OK);
	assert_int_equal(twi_pool_registrar_add(pool, &fake_registrar, &one), TOW_EINVAL);
	assert_int_equal(twi_pool_registrar_add(pool, NULL, &one), TOW_EINVAL);
	assert_int_equal(stats_of(pool).registered, 2 * MIB);
	assert_int_equal(twi_pool_registrar_add(pool, &fake_registrar, &broken), TOW_ESYSTEM);
	assert_string_equal(tow_error_message(), "fake says no");
	assert_int_equal(twi_pool_registrar_add(pool, &fake_registrar, &two), TOW_OK);
	twi_pool_registrar_remove(pool, &fake_registrar, &one);
	twi_pool_registrar_remove(pool, &fake_registrar, &one);
	assert_int_equal(one.removed, 1);
	twi_pool_destroy(pool);
	assert_int_equal(two.added, 1);
	assert_int_equal(two.removed, 1);
	assert_int_equal(broken.removed, 0);
}

static void no_right_to_pin_is_no_end(void **state)
{
	struct fake fake = { .status = TOW_ENOMEM };
	struct twi_pool *pool = make_pool(2 * MIB, false);

	(void)state;
	assert_int_equal(twi_pool_registrar_add(pool, &fake_registrar, &fake), TOW_OK);
	assert_false(twi_pool_registered(pool, &fake_registrar, &fake));
	assert_int_equal(stats_of(pool).registered, 0);
	assert_int_equal(twi_pool_free(pool, take(pool, 100, 0)), TOW_OK);
	twi_pool_destroy(pool);
	assert_int_equal(fake.removed, 0);

	pool = make_pool(2 * MIB, true);
	assert_int_equal(twi_pool_registrar_add(pool, &fake_registrar, &fake), TOW_ENOMEM);
	assert_non_null(strstr(tow_error_message(), "fake: fake says no; RLIMIT_MEMLOCK is"));
	assert_non_null(strstr(tow_error_message(), "ulimit -l unlimited"));
	twi_pool_destroy(pool);
}

static void options_are_checked(void **state)
{
	struct twi_pool_options options = { .bytes = 0, .diag = diag };
	struct twi_pool *pool = NULL;

	(void)state;
	assert_int_equal(twi_pool_create(&options, &pool), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "premap_memory_bytes"));
	assert_int_equal(twi_pool_create(NULL, &pool), TOW_EINVAL);
	options.diag = NULL;
	assert_int_equal(twi_pool_create(&options, &pool), TOW_EINVAL);
	assert_null(pool);
	twi_pool_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_and_alignments),
		cmocka_unit_test(bad_alignment_is_named),
		cmocka_unit_test(wrong_frees_change_nothing),
		cmocka_unit_test(almost_all_is_usable_for_large_blocks),
		cmocka_unit_test(exhaustion_says_what_would_do),
		cmocka_unit_test(full_of_slots),
		cmocka_unit_test(find_wants_all_of_it_inside),
		cmocka_unit_test(leased_memory_outlives_its_free),
		cmocka_unit_test(registrars_know_all_extents),
		cmocka_unit_test(no_right_to_pin_is_no_end),
		cmocka_unit_test(options_are_checked),
	};
	int failed;

	if (twi_diag_create(&diag))
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	twi_diag_destroy(diag);
	return failed;
}
