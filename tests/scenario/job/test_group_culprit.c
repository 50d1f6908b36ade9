/*
 * test_group_culprit.c - the first rank of a line leaves: each rank behind it fails
 * because the one before it has, and ends at once; all of them name the first.
 */
#include "beside.h"
#include "coll_team.h"

#include <towline/group.h>

#define RANKS  4u
#define ROUNDS 50
#define BYTES  512u
#define TIMES  3 /* on each lane */
#define LANES  2

static void leave_job(struct twt_rank *rank)
{
	tow_group_close(rank->group);
	tow_runtime_close(rank->runtime);
	_exit(0);
}

/* What it hears of the one before it, which has ended in the moment that it failed itself. */
static void must_name_first(const struct twt_rank *rank)
{
	const char *first = rank->rank == 1 ? "rank 0" : "before that it had failed for rank 0: ";

	TWT_TRUE(strstr(tow_error_message(), first) != NULL);
	_exit(0);
}

static void pass_on(struct twt_rank *rank)
{
	char bytes[BYTES] = { 0 };

	for (int round = 0; round < ROUNDS || rank->rank > 0; round++) {
		int status = TOW_OK;

		if (rank->rank > 0)
			status = tow_recv(rank->group, rank->rank - 1, bytes, BYTES, 1, TOW_FOREVER,
					  NULL);
		if (status < 0)
			must_name_first(rank);
		if (rank->rank + 1 < RANKS)
			status =
				tow_send(rank->group, rank->rank + 1, bytes, BYTES, 1, TOW_FOREVER);
		TWT_OK(status);
	}
	usleep(50000); /* the others have taken all, and wait for more */
	leave_job(rank);
}

/* Who has left keeps the store for two seconds, so several jobs run beside each other. */
static void leaves(void **state)
{
	const struct twt_job job = { .ranks = RANKS, .lane = *state, .run = pass_on };

	twt_ranks(&job);
}

int main(void)
{
	static char tcp[] = "tcp://127.0.0.1:0";
	char *const lanes[LANES] = { tcp, NULL };
	struct CMUnitTest tests[TIMES * LANES];

	for (size_t i = 0; i < TIMES * LANES; i++)
		tests[i] = (struct CMUnitTest){ "leaves", leaves, NULL, NULL, lanes[i % LANES] };
	return twt_beside_tests(tests, TIMES * LANES, 1, TIMES);
}
