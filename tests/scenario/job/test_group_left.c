/*
 * test_group_left.c - ranks that close a group while others need them, over every lane.
 *
 * A barrier that all ranks have started ends well, whatever they do then: close the group, or
 * cancel their own. One that a rank has left out ends at once with TOW_EPEER when that rank has
 * closed the group, also where the group's collectives are broken, and where nobody was connected.
 * And without the library's own thread a rank that waits in the job's store is still there for the
 * others.
 *
 *	TOW_TEST_SEED=S   how many barriers each rank starts, and which groups break
 */
#include "coll_team.h"
#include "job_lanes.h"

#include <unistd.h>

#include <towline/group_message.h>

#define ROUNDS 10u
#define MOST   4u /* barriers of a group */
#define LARGE  (1u << 20)

static uint64_t seed;
static unsigned lane;
static bool background;

static uint64_t of_all(const char *what, unsigned round, uint32_t rank)
{
	uint64_t state = seed + (uint64_t)what[0] * 1000003 + round * 131 + rank;

	return twt_random(&state);
}

static uint32_t barriers_of(unsigned round, uint32_t rank)
{
	return (uint32_t)(of_all("count", round, rank) % (MOST + 1));
}

/* Ends a collective early, which breaks the collectives of the group at all ranks. */
static void break_collectives(struct tow_group *group)
{
	struct tow_op *op;
	int status = tow_coll_barrier_start(group, NULL, &op);

	if (status == TOW_OK) {
		TWT_OK(tow_op_cancel(op));
		status = twt_coll_end(op);
	}
	TWT_TRUE(status == TOW_ECANCELED || status == TOW_EPEER || status == TOW_OK);
}

/*
 * A barrier that this rank cancels: it still does for the others what they need, and its own next
 * one can begin. False: it cannot end, as a rank has left.
 */
static bool cancel_barrier(struct tow_group *group, bool all_start)
{
	struct tow_op *op;
	int status;

	TWT_OK(tow_group_barrier_start(group, NULL, &op));
	TWT_OK(tow_op_cancel(op));
	status = twt_coll_end(op);
	TWT_TRUE(status == TOW_ECANCELED || status == (all_start ? TOW_OK : TOW_EPEER));
	return status != TOW_EPEER;
}

static bool make_barrier(struct tow_group *group, bool all_start)
{
	int status = tow_group_barrier(group, TWT_FINISH_NS);

	TWT_TRUE(status == (all_start ? TOW_OK : TOW_EPEER));
	if (status == TOW_EPEER)
		TWT_TRUE(strstr(tow_error_message(), "has closed the group without its barrier"));
	return status == TOW_OK;
}

static void play_round(struct twt_rank *rank, unsigned round)
{
	uint32_t mine = barriers_of(round, rank->rank), least = mine;
	bool more = true;
	struct tow_group *group;

	for (uint32_t i = 0; i < rank->ranks; i++) {
		uint32_t other = barriers_of(round, i);

		least = other < least ? other : least;
	}
	TWT_OK(tow_group_split(rank->group, 0, 0, TWT_FINISH_NS, &group));
	if (of_all("break", round, 0) % 3 == 0)
		break_collectives(group);
	for (uint32_t n = 1; n <= mine && more; n++) {
		bool cancels = of_all("part", round, n * TWT_RANKS_MAX + rank->rank) % 4 == 0;

		more = (cancels ? cancel_barrier : make_barrier)(group, n <= least);
	}
	TWT_OK(tow_group_close(group));
}

static void run_barriers(struct twt_rank *rank)
{
	for (unsigned round = 0; round < ROUNDS; round++)
		play_round(rank, round);
	twt_coll_meet(rank);
}

/* --- without connections --- */

/* The first group closes without a barrier, and no rank has ever been connected to another. */
static void run_unknown(struct twt_rank *rank)
{
	bool leaves = seed % rank->ranks == rank->rank;
	struct tow_group *group;

	TWT_OK(tow_group_split(rank->group, 0, 0, TWT_FINISH_NS, &group));
	if (!leaves) {
		TWT_TRUE(tow_group_barrier(group, TWT_FINISH_NS) == TOW_EPEER);
		TWT_TRUE(strstr(tow_error_message(), "has closed the group without its barrier 1"));
	}
	TWT_OK(tow_group_close(group));
	twt_coll_meet(rank);
}

/* --- the store --- */

static int by_get(struct twt_rank *rank)
{
	char value[8];
	size_t bytes;

	return tow_group_get(rank->group, "come", value, sizeof(value), &bytes, TWT_FINISH_NS);
}

static int by_split(struct twt_rank *rank)
{
	struct tow_group *group;
	int status = tow_group_split(rank->group, 0, 0, TWT_FINISH_NS, &group);

	return status == TOW_OK ? tow_group_close(group) : status;
}

static int by_create(struct twt_rank *rank)
{
	const uint32_t ranks[] = { 0, 1 };
	struct tow_group *group;
	int status = tow_group_create(rank->group, ranks, 2, "both", TWT_FINISH_NS, &group);

	return status == TOW_OK ? tow_group_close(group) : status;
}

static int (*const meets[])(struct twt_rank *rank) = { by_get, by_split, by_create };

/* Rank 1 sends a large message, and waits in the store for rank 0, which needs all of it first. */
static void run_store(struct twt_rank *rank)
{
	char *data = calloc(1, LARGE);
	uint64_t bytes;
	struct tow_op *op;

	TWT_TRUE(data != NULL);
	TWT_OK(tow_group_connect(rank->group, 1 - rank->rank, TWT_FINISH_NS, NULL));
	for (unsigned i = 0; i < sizeof(meets) / sizeof(meets[0]); i++) {
		if (rank->rank == 0) {
			TWT_OK(tow_recv(rank->group, 1, data, LARGE, i, TWT_FINISH_NS, &bytes));
			TWT_TRUE(bytes == LARGE);
			if (meets[i] == by_get)
				TWT_OK(tow_group_set(rank->group, "come", "", 0, TWT_FINISH_NS));
			TWT_OK(meets[i](rank));
		} else {
			TWT_OK(tow_group_send_start(rank->group, 0, data, LARGE, i, NULL, &op));
			TWT_OK(meets[i](rank));
			TWT_OK(twt_coll_end(op));
		}
	}
	twt_coll_meet(rank);
	free(data);
}

/*
 * The process of rank 0 ends, with the store, and no rank was ever connected to it: who needs the
 * store then is told that it has gone, long before the call's time is over.
 */
static void run_without_store(struct twt_rank *rank)
{
	if (rank->rank == 0)
		_exit(0);
	usleep(300000);
	TWT_TRUE(meets[seed % (sizeof(meets) / sizeof(meets[0]))](rank) == TOW_EPEER);
	TWT_OK(tow_group_close(rank->group));
	TWT_OK(tow_runtime_close(rank->runtime));
	_exit(0);
}

static void common_options(struct tow_options *options)
{
	twt_job_lane_options(lane, options);
	options->background = background;
}

static void over_lanes(uint32_t ranks, void (*run)(struct twt_rank *rank))
{
	for (lane = 0; lane < TWT_LANES; lane++) {
		if (!twt_job_lane(lane))
			continue;
		print_message("%s, %u ranks, background %d\n", twt_lanes[lane].name, ranks,
			      background);
		twt_ranks(&(struct twt_job){ .ranks = ranks,
					     .lane = twt_lanes[lane].address[0],
					     .run = run,
					     .options = common_options });
	}
}

static void barriers_that_a_rank_leaves_out(void **state)
{
	(void)state;
	seed = twt_seed();
	for (uint32_t ranks = 2; ranks <= 4; ranks++) {
		background = (seed + ranks) % 2 == 0;
		over_lanes(ranks, run_barriers);
	}
}

static void a_rank_leaves_that_nobody_knows(void **state)
{
	(void)state;
	seed = twt_seed();
	for (uint32_t ranks = 2; ranks <= 4; ranks++, seed++) {
		background = (seed + ranks) % 2 == 0;
		over_lanes(ranks, run_unknown);
	}
}

static void who_waits_in_the_store_drives(void **state)
{
	(void)state;
	background = false;
	over_lanes(2, run_store);
}

static void the_store_dies_with_rank_0(void **state)
{
	(void)state;
	seed = twt_seed();
	print_message("call %d\n", (int)(seed % (sizeof(meets) / sizeof(meets[0]))));
	twt_ranks(&(struct twt_job){ .ranks = 2, .run = run_without_store });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(barriers_that_a_rank_leaves_out),
		cmocka_unit_test(a_rank_leaves_that_nobody_knows),
		cmocka_unit_test(who_waits_in_the_store_drives),
		cmocka_unit_test(the_store_dies_with_rank_0),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
