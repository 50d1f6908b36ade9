/*
 * test_coll_batch_late.c - a collective's deadline passes, or it is canceled, while it is held back
 * to be fused, in a batch that is still open or by the knob combine: by itself or with others
 * before and behind it, in a rank that waits and in one that does something else. All end, and say
 * why; a rank that has come hears the same, whatever it has fused.
 */
#include <stdlib.h>
#include <string.h>

#include "coll_team.h"

#define MOST    3u
#define LATE_NS (20ull * 1000 * 1000)
#define WHAT    " a collective that it held back to be fused"

struct variant {
	bool knob;      /* held by it; else by an open batch */
	unsigned calls; /* held */
	unsigned late;  /* which of them has the deadline, or is canceled */
	bool cancels;
	bool waits; /* for them, which a batch alone outlasts; else sleeps past the deadline */
};

/* Returns how many could be started: a slow rank may come when the group is broken already. */
static unsigned start_all(const struct twt_rank *rank, struct tow_group *group,
			  const struct variant *variant, float *data, struct tow_op **ops)
{
	bool late = rank->rank == 0 && !variant->cancels;

	for (unsigned i = 0; i < variant->calls; i++) {
		struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
		int status;

		options.timeout_ns = late && i == variant->late ? LATE_NS : TOW_FOREVER;
		status = tow_coll_all_reduce_start(group, &data[i], &data[i], 1, TOW_F32, TOW_SUM,
						   &options, &ops[i]);
		if (status == TOW_EPEER)
			return i;
		TWT_OK(status);
	}
	return variant->calls;
}

static void hold_late(struct twt_rank *rank, struct tow_group *group, const struct variant *variant)
{
	const char *why = variant->cancels ? "rank 0 has canceled" WHAT
					   : "rank 0 has had no more time for" WHAT;
	int status = variant->cancels ? TOW_ECANCELED : TOW_EDEADLINE;
	unsigned started;
	struct tow_op *ops[MOST];
	float data[MOST] = { 0 };

	if (!variant->knob)
		TWT_OK(tow_coll_batch_begin(group));
	started = start_all(rank, group, variant, data, ops);
	TWT_TRUE(started == variant->calls || strstr(tow_error_message(), why) != NULL);
	if (rank->rank == 0 && variant->cancels)
		TWT_OK(tow_op_cancel(ops[variant->late]));
	if (rank->rank == 1 && !variant->knob)
		TWT_OK(tow_coll_batch_end(group));
	if (rank->rank == 0 && !variant->waits)
		usleep(3 * LATE_NS / 1000);
	for (unsigned i = 0; i < started; i++) {
		TWT_TRUE(twt_coll_end(ops[i]) == status);
		TWT_TRUE(strstr(tow_error_message(), why) != NULL);
	}
	if (rank->rank == 0 && !variant->knob)
		TWT_OK(tow_coll_batch_end(group));
}

/* Each variant has a group of its own, as it breaks. */
static void run_variant(struct twt_rank *rank, const struct variant *variant)
{
	const uint32_t all[] = { 0, 1 };
	struct tow_group *group;

	TWT_OK(tow_group_create(rank->group, all, 2, NULL, 20 * TWT_SECOND, &group));
	hold_late(rank, group, variant);
	TWT_OK(tow_group_barrier(rank->group, 20 * TWT_SECOND));
	TWT_OK(tow_group_close(group));
}

static void run_variants(struct twt_rank *rank, bool knob)
{
	for (unsigned calls = 1; calls <= MOST; calls++) {
		for (unsigned late = 0; late < calls; late++) {
			struct variant variant = { .knob = knob,
						   .calls = calls,
						   .late = late,
						   .waits = !knob && (calls + late) % 2 };

			run_variant(rank, &variant);
			variant.cancels = true;
			run_variant(rank, &variant);
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
