/*
 * test_magazine.c - the front cache: what goes in comes out once, by size and alignment; it is
 * bounded; a drain gives all of it back.
 *
 * The thread stays on one CPU, so that one shard is seen.
 */
#include "twt.h"

#include <sched.h>
#include <string.h>

#include "memreg/arena/magazine.h"

#define ARENA_BYTES ((uint64_t)1 << 20)
#define LIST_MAX    4096

/* Given back, in order. */
struct given {
	void *base[LIST_MAX];
	int count;
};

static void give(void *ctx, void *base)
{
	struct given *given = ctx;

	assert_true(given->count < LIST_MAX);
	given->base[given->count++] = base;
}

/* Blocks are only numbers here; nothing is behind them. */
static void *block(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

static void begin(struct twi_magazine *magazine)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((size_t)sched_getcpu(), &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_true(twi_magazine_init(magazine, ARENA_BYTES));
}

static void what_goes_in_comes_out_once(void **state)
{
	struct given given = { .count = 0 };
	struct twi_magazine magazine;

	(void)state;
	begin(&magazine);
	assert_false(twi_magazine_occupied(&magazine));
	assert_null(twi_magazine_take(&magazine, 4096, 64));
	twi_magazine_put(&magazine, block(0x1000), 4096, give, &given);
	twi_magazine_put(&magazine, block(0x4000), 64, give, &given);
	assert_true(twi_magazine_occupied(&magazine));
	assert_null(twi_magazine_take(&magazine, 8192, 64));
	assert_ptr_equal(twi_magazine_take(&magazine, 4096, 64), block(0x1000));
	assert_null(twi_magazine_take(&magazine, 4096, 64));
	assert_ptr_equal(twi_magazine_take(&magazine, 64, 64), block(0x4000));
	assert_null(twi_magazine_take(&magazine, 64, 64));
	assert_int_equal(given.count, 0);
	twi_magazine_fini(&magazine);
}

static void alignment_is_asked_for(void **state)
{
	struct given given = { .count = 0 };
	struct twi_magazine magazine;

	(void)state;
	begin(&magazine);
	twi_magazine_put(&magazine, block(0x203000), 4096, give, &given);
	twi_magazine_put(&magazine, block(0x400000), 4096, give, &given);
	twi_magazine_put(&magazine, block(0x205000), 4096, give, &given);
	assert_null(twi_magazine_take(&magazine, 4096, 0x800000));
	assert_ptr_equal(twi_magazine_take(&magazine, 4096, 0x200000), block(0x400000));
	assert_null(twi_magazine_take(&magazine, 4096, 0x200000));
	assert_non_null(twi_magazine_take(&magazine, 4096, 4096));
	assert_non_null(twi_magazine_take(&magazine, 4096, 4096));
	assert_int_equal(given.count, 0);
	twi_magazine_fini(&magazine);
}

static void it_is_bounded(void **state)
{
	struct given given = { .count = 0 };
	struct twi_magazine magazine;
	uint64_t share = ARENA_BYTES / TWI_MAGAZINE_SHARE;

	(void)state;
	begin(&magazine);
	/* By number, for one size. */
	for (uint64_t i = 1; i <= TWI_MAGAZINE_WAYS + 1; i++)
		twi_magazine_put(&magazine, block(i << 12), 64, give, &given);
	assert_int_equal(given.count, 1);
	assert_ptr_equal(given.base[0], block((TWI_MAGAZINE_WAYS + 1) << 12));
	/* By bytes: more than the share never, and all together no more either. */
	twi_magazine_put(&magazine, block(0x100000), share + 64, give, &given);
	assert_int_equal(given.count, 2);
	twi_magazine_put(&magazine, block(0x200000), share, give, &given);
	assert_int_equal(given.count, 3);
	twi_magazine_put(&magazine, block(0x300000), share - TWI_MAGAZINE_WAYS * 64, give, &given);
	assert_int_equal(given.count, 3);
	assert_ptr_equal(twi_magazine_take(&magazine, share - TWI_MAGAZINE_WAYS * 64, 64),
			 block(0x300000));
	twi_magazine_fini(&magazine);
}

static int compare(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t) * (void *const *)a, y = (uintptr_t) * (void *const *)b;

	return (x > y) - (x < y);
}

static void a_drain_gives_all_of_it(void **state)
{
	static struct given given;
	struct twi_magazine magazine;
	uint64_t random = twt_seed();
	int put = 0;

	(void)state;
	begin(&magazine);
	memset(&given, 0, sizeof(given));
	/* Whatever way each of them goes back, each goes back once. */
	for (; put < 2000; put++)
		twi_magazine_put(&magazine, block((uint64_t)(put + 1) << 12),
				 64 * (1 + twt_random_below(&random, 100)), give, &given);
	assert_true(given.count < put);
	twi_magazine_drain(&magazine, give, &given);
	assert_int_equal(given.count, put);
	assert_false(twi_magazine_occupied(&magazine));
	qsort(given.base, (size_t)given.count, sizeof(given.base[0]), compare);
	for (int i = 0; i < put; i++)
		assert_ptr_equal(given.base[i], block((uint64_t)(i + 1) << 12));
	twi_magazine_drain(&magazine, give, &given);
	assert_int_equal(given.count, put);
	twi_magazine_fini(&magazine);
}

/* A shard full of sizes that nobody asks for does not stay so. */
static void it_starts_anew(void **state)
{
	static struct given given;
	struct twi_magazine magazine;
	uint64_t share = ARENA_BYTES / TWI_MAGAZINE_SHARE;
	int puts = 0;

	(void)state;
	begin(&magazine);
	memset(&given, 0, sizeof(given));
	twi_magazine_put(&magazine, block(0x100000), share, give, &given);
	assert_int_equal(given.count, 0);
	do {
		assert_true(++puts < 1000);
		twi_magazine_put(&magazine, block(0x200000), 4096, give, &given);
	} while (twi_magazine_take(&magazine, 4096, 64) == NULL);
	assert_int_equal(given.count, puts); /* all but the last, and the one that was in the way */
	twi_magazine_fini(&magazine);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_goes_in_comes_out_once),
		cmocka_unit_test(alignment_is_asked_for),
		cmocka_unit_test(it_is_bounded),
		cmocka_unit_test(a_drain_gives_all_of_it),
		cmocka_unit_test(it_starts_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
