/* test_runs.c - the run heads' bitmap and the page runs, each against a plain model. */
#include "twt.h"

#include <string.h>

#include "memreg/arena/runs.h"
#include <internal/base.h>
#include <towline/status.h>

static void bitmap_finds_back(void **state)
{
	enum { MEMBERS = 300000 };
	static bool model[MEMBERS];
	uint64_t random = twt_seed();
	struct twi_bitmap map;

	(void)state;
	assert_true(twi_bitmap_init(&map, MEMBERS));
	assert_int_equal(twi_bitmap_find_back(&map, MEMBERS - 1), TWI_BITMAP_NONE);
	for (int i = 0; i < 20000; i++) {
		uint32_t at = (uint32_t)twt_random_below(&random, MEMBERS);
		uint32_t from = (uint32_t)twt_random_below(&random, MEMBERS);
		int64_t want = from;

		/* Mostly empty, so that all levels are climbed. */
		if (model[at] || twt_random_below(&random, 100) == 0) {
			model[at] = !model[at];
			(model[at] ? twi_bitmap_set : twi_bitmap_clear)(&map, at);
		}
		while (want >= 0 && !model[want])
			want--;
		assert_int_equal(twi_bitmap_find_back(&map, from),
				 want < 0 ? TWI_BITMAP_NONE : (uint32_t)want);
	}
	twi_bitmap_fini(&map);
}

static void init_runs(struct twi_runs *runs, uint32_t pages)
{
	/* Any base will do: pages are only numbered here. It is 2 MiB aligned. */
	assert_int_equal(twi_runs_init(runs, (void *)(uintptr_t)0x40000000, pages), TOW_OK);
}

static void whole_pool_is_one_run(void **state)
{
	struct twi_runs runs;
	uint32_t at;

	(void)state;
	init_runs(&runs, 1000);
	assert_int_equal(twi_runs_largest(&runs), 1000);
	assert_int_equal(twi_runs_last_free(&runs), 1000);
	at = twi_runs_take(&runs, 1000, 1, false);
	assert_int_equal(at, 0);
	assert_int_equal(twi_runs_largest(&runs), 0);
	assert_int_equal(twi_runs_last_free(&runs), 0);
	assert_int_equal(twi_runs_take(&runs, 1, 1, false), TWI_PAGE_NONE);
	twi_runs_give(&runs, at);
	assert_int_equal(twi_runs_largest(&runs), 1000);
	twi_runs_fini(&runs);
}

static void merges_on_both_sides(void **state)
{
	uint32_t order[][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
				{ 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };
	struct twi_runs runs;

	(void)state;
	init_runs(&runs, 31);
	for (size_t i = 0; i < twi_array_count(order); i++) {
		uint32_t at[3];

		for (int k = 0; k < 3; k++)
			at[k] = twi_runs_take(&runs, k == 1 ? 1 : 10, 1, k == 2);
		for (int k = 0; k < 3; k++)
			twi_runs_give(&runs, at[order[i][k]]);
		assert_int_equal(twi_runs_largest(&runs), 31);
	}
	twi_runs_fini(&runs);
}

/* The class search rounds up; a run that is just large enough must be found all the same. */
static void exact_fit_between_classes_is_found(void **state)
{
	struct twi_runs runs;

	(void)state;
	for (uint32_t pages = 1; pages < 3000; pages += 7) {
		init_runs(&runs, pages);
		assert_int_equal(twi_runs_take(&runs, pages, 1, false), 0);
		twi_runs_give(&runs, 0);
		assert_int_equal(twi_runs_take(&runs, pages, 512, true), 0);
		twi_runs_fini(&runs);
	}
}

static void alignment_is_kept_and_costs_nothing(void **state)
{
	struct twi_runs runs;
	uint32_t odd, at;

	(void)state;
	init_runs(&runs, 4096);
	odd = twi_runs_take(&runs, 3, 1, false);
	for (uint32_t align = 1; align <= 512; align *= 2) {
		at = twi_runs_take(&runs, 5, align, false);
		assert_int_equal(at % align, 0);
		twi_runs_give(&runs, at);
		at = twi_runs_take(&runs, 5, align, true);
		assert_int_equal(at % align, 0);
		twi_runs_give(&runs, at);
	}
	twi_runs_give(&runs, odd);
	assert_int_equal(twi_runs_largest(&runs), 4096);
	twi_runs_fini(&runs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bitmap_finds_back),
		cmocka_unit_test(whole_pool_is_one_run),
		cmocka_unit_test(merges_on_both_sides),
		cmocka_unit_test(exact_fit_between_classes_is_found),
		cmocka_unit_test(alignment_is_kept_and_costs_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
