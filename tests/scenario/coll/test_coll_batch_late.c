/*
 * test_coll_batch_late.c - the deadline of a collective passes while it is held back to be fused,
 * in a batch that is still open or by the knob combine: by itself or with others before and behind
 * it, in a rank that waits and in one that does something else. All end, and say why; a rank that
 * has come hears the same, whatever it has fused.
 */
#include <stdlib.h>
#include <string.h>

#include "coll_team.h"

#define MOST    3u
#define LATE_NS (20ull * 1000 * 1000)
#define WHY     "rank 0 has had no more time for a collective that it held back to be fused"

struct variant {
	bool knob;      /* held by it; else by an open batch */
	unsigned calls; /* held */
	unsigned late;  /* which of them has the deadline */
	bool waits;     /* for them, which a batch alone outlasts; else sleeps past the deadline */
};

static void start_all(struct tow_group *group, const struct variant *variant, bool late,
		      float *data, struct tow_op **ops)
{
	for (unsigned i = 0; i < variant->calls; i++) {
		struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;

		options.timeout_ns = late && i == variant->late ? LATE_NS : TOW_FOREVER;
		TWT_OK(tow_coll_all_reduce_start(group, &data[i], &data[i], 1, TOW_F32, TOW_SUM,
						 &options, &ops[i]));
	}
}

static void hold_late(struct twt_rank *rank, struct tow_group *group, const struct variant *variant)
{
	struct tow_op *ops[MOST];
	float data[MOST] = { 0 };

	if (!variant->knob)
		TWT_OK(tow_coll_batch_begin(group));
	start_all(group, variant, rank->rank == 0, data, ops);
	if (rank->rank == 1 && !variant->knob)
		TWT_OK(tow_coll_batch_end(group));
	if (rank->rank == 0 && !variant->waits)
		usleep(3 * LATE_NS / 1000);
	for (unsigned i = 0; i < variant->calls; i++) {
		TWT_TRUE(twt_coll_end(ops[i]) == TOW_EDEADLINE);
		TWT_TRUE(strstr(tow_error_message(), WHY) != NULL);
	}
	if (rank->rank == 0 && !variant->knob)
		TWT_OK(tow_coll_batch_end(group));
}

/* Each variant has a group of its own, as it breaks. */
static void run_variants(struct twt_rank *rank, bool knob)
{
	const uint32_t all[] = { 0, 1 };

	for (unsigned calls = 1; calls <= MOST; calls++) {
		for (unsigned late = 0; late < calls; late++) {
			const struct variant variant = { knob, calls, late,
							 !knob && (calls + late) % 2 };
			struct tow_group *group;

			TWT_OK(tow_group_create(rank->group, all, 2, NULL, 20 * TWT_SECOND,
						&group));
			hold_late(rank, group, &variant);
			TWT_OK(tow_group_barrier(rank->group, 20 * TWT_SECOND));
			TWT_OK(tow_group_close(group));
		}
	}
}

static void run_batch(struct twt_rank *rank)
{
	run_variants(rank, false);
}

static void run_knob(struct twt_rank *rank)
{
	run_variants(rank, true);
}

static void in_an_open_batch(void **state)
{
	(void)state;
	twt_ranks_by_lane(&(struct twt_job){ .ranks = 2, .run = run_batch });
}

static void by_the_knob(void **state)
{
	(void)state;
	setenv("TOW_COMBINE", "1", 1);
	twt_ranks_by_lane(&(struct twt_job){ .ranks = 2, .run = run_knob });
	unsetenv("TOW_COMBINE");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_an_open_batch),
		cmocka_unit_test(by_the_knob),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
