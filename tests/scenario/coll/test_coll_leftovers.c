/*
 * test_coll_leftovers.c - messages of collectives and barriers that a rank never begins, over every
 * lane. They must not use up the credit of the connection: whatever comes after them goes on.
 *
 *	TOW_TEST_SEED=S   what each round leaves, and whether it comes before or after the close
 */
#include "coll_team.h"
#include "job_lanes.h"

#define ROUNDS   24u
#define SMALL    1500u  /* s32: goes with the message */
#define LARGE    60000u /* s32: is offered */
#define GATHERS  6u
#define BARRIERS 40u

static uint64_t seed;

static uint64_t of_round(unsigned round, unsigned what)
{
	uint64_t state = seed + round * 131 + what * 1000003;

	return twt_random(&state);
}

/* The group may be over already: rank 0 has aborted or left it. */
static bool is_started(int status)
{
	TWT_TRUE(status == TOW_OK || status == TOW_EABORTED || status == TOW_EPEER);
	return status == TOW_OK;
}

/* Rank 1 is ahead: it starts what rank 0 never begins. */
static void run_ahead(struct tow_group *group, unsigned round, int32_t *data, int32_t *room)
{
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
	struct timespec pause = { .tv_nsec = (long)(of_round(round, 1) % 3) * 1000000 };
	struct tow_op *ops[GATHERS + BARRIERS];
	unsigned count = 0;
	bool more = true;

	options.plan = "binomial"; /* messages, also where ranks share memory */
	for (unsigned i = 0; i < GATHERS && more; i++) {
		more = is_started(tow_coll_gather_start(group, data, room,
							i % 3 == 2 ? LARGE : SMALL, TOW_S32, 0,
							&options, &ops[count]));
		count += more;
	}
	for (unsigned i = 0; i < BARRIERS && more; i++) {
		more = is_started(tow_group_barrier_start(group, NULL, &ops[count]));
		count += more;
	}
	nanosleep(&pause, NULL);
	for (unsigned i = 0; i < count; i++) {
		TWT_OK(tow_op_cancel(ops[i]));
		TWT_TRUE(twt_coll_end(ops[i]) < 0);
	}
}

static void run(struct twt_rank *rank)
{
	int32_t *data = calloc(LARGE, sizeof(*data)), *room = calloc(LARGE, 2 * sizeof(*data));
	uint64_t bytes;

	TWT_TRUE(data != NULL && room != NULL);
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct tow_group *group;
		struct tow_op *op;

		TWT_OK(tow_group_split(rank->group, 0, 0, TWT_FINISH_NS, &group));
		/* In a group that is set up gathers send at once. */
		if (of_round(round, 3) % 2 == 0) {
			TWT_OK(tow_coll_barrier_start(group, NULL, &op));
			TWT_OK(twt_coll_end(op));
		}
		if (rank->rank == 1)
			run_ahead(group, round, data, room);
		else if (of_round(round, 2) % 2 == 0)
			TWT_OK(tow_group_abort(group, "not needed"));
		TWT_OK(tow_group_close(group));
	}
	/* More than the credit, by messages of all kinds. */
	for (unsigned i = 0; i < 4; i++) {
		struct tow_op *op;

		TWT_OK(tow_group_barrier(rank->group, TWT_FINISH_NS));
		TWT_OK(tow_coll_all_reduce_start(rank->group, data, room, LARGE, TOW_S32, TOW_SUM,
						 NULL, &op));
		TWT_OK(twt_coll_end(op));
		if (rank->rank == 0)
			TWT_OK(tow_send(rank->group, 1, data, SMALL, 7, TWT_FINISH_NS));
		else
			TWT_OK(tow_recv(rank->group, 0, room, SMALL, 7, TWT_FINISH_NS, &bytes));
		twt_coll_meet(rank);
	}
	free(data);
	free(room);
}

static void what_nobody_receives(void **state)
{
	(void)state;
	seed = twt_seed();
	setenv("TOW_CREDIT_BYTES", "64KiB", 1);
	twt_ranks_by_lane(&(struct twt_job){ .ranks = 2, .run = run });
	unsetenv("TOW_CREDIT_BYTES");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_nobody_receives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
