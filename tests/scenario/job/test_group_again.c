/*
 * test_group_again.c - a job that ends and begins anew in the same processes, at the same address,
 * as a framework does whose process group is destroyed and made again. Each rank comes to the next
 * start when it has closed the last group of the one before, which others have not yet done: rank 0
 * still serves the store of the old start then. Over every lane.
 *
 *	TOW_TEST_SEED=S   which rank is late
 */
#include "coll_team.h"
#include "job_lanes.h"

#include <unistd.h>

#define RANKS  3u
#define STARTS 3u

static uint64_t seed;

/* The sum over all ranks, which only those of one start can have. */
static void look_at_start(struct tow_group *group, uint64_t start)
{
	uint64_t mine = start * 1000 + tow_group_rank(group), sum = 0;
	struct tow_op *op;

	TWT_OK(tow_coll_all_reduce_start(group, &mine, &sum, 1, TOW_U64, TOW_SUM, NULL, &op));
	TWT_OK(twt_coll_end(op));
	TWT_TRUE(sum == RANKS * start * 1000 + RANKS * (RANKS - 1) / 2);
	TWT_OK(tow_group_barrier(group, TWT_FINISH_NS));
}

static void run_starts(struct twt_rank *rank)
{
	for (uint64_t start = 0;; start++) {
		look_at_start(rank->group, start);
		if (start == STARTS)
			return;
		if ((seed + start) % RANKS == rank->rank)
			usleep(120000);
		TWT_OK(tow_group_close(rank->group));
		TWT_OK(tow_group_open(rank->runtime, NULL, &rank->group));
	}
}

static void a_job_begins_anew(void **state)
{
	const struct twt_job job = { .ranks = RANKS, .run = run_starts };

	(void)state;
	seed = twt_seed();
	twt_ranks_by_lane(&job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_job_begins_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
