/*
 * test_canceled_job.c - in a job of two ranks no call is a cancellation point either: collectives,
 * messages by rank, groups, queues, on every lane that joins processes.
 */
#include "cancel_points.h"
#include "coll_team.h"
#include "job_lanes.h"

#include <stdlib.h>
#include <string.h>

#define OFTEN 100

static unsigned job_lane;

/* Each rank is in calls from here on. */
static void enter_job(struct tow_options *options)
{
	twt_job_lane_options(job_lane, options);
	twt_inside = true;
}

static void reduce(struct twt_rank *rank, float *data, uint64_t count)
{
	struct tow_op *op;

	TWT_OK(tow_coll_all_reduce_start(rank->group, data, data, count, TOW_F32, TOW_SUM, NULL,
					 &op));
	TWT_OK(twt_coll_end(op));
}

/* A message to the other rank, whose end is taken from a queue. */
static void take_from_queue(struct twt_rank *rank)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	uint64_t out = 1, in = 0;
	struct tow_result result = TOW_RESULT_INIT;
	struct tow_queue *queue;
	size_t count = 0;
	int fd;

	TWT_OK(tow_queue_open(rank->runtime, 8, &queue));
	TWT_OK(tow_queue_fd(queue, &fd));
	options.queue = queue;
	TWT_OK(tow_group_recv_start(rank->group, !rank->rank, &in, sizeof(in), 9, &options, NULL));
	TWT_OK(tow_group_send_start(rank->group, !rank->rank, &out, sizeof(out), 9, NULL, NULL));
	while (count == 0) {
		TWT_TRUE(tow_queue_take(queue, &result, 1, &count) != TOW_EINVAL);
		(void)tow_progress(rank->runtime);
	}
	TWT_TRUE(result.status == TOW_OK && in == 1);
	TWT_OK(tow_queue_close(queue));
}

static void work_in_job(struct twt_rank *rank)
{
	const uint64_t sizes[] = { 2, 3000, 300000 };
	struct tow_group *again;
	void *pool;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		float *plain = calloc(sizes[i], sizeof(*plain));

		TWT_OK(tow_alloc(rank->runtime, sizes[i] * sizeof(*plain), 0, &pool));
		memset(pool, 0, sizes[i] * sizeof(*plain));
		for (int k = 0; k < OFTEN; k++) /* tcp then reads its sockets by itself */
			reduce(rank, plain, sizes[i]);
		reduce(rank, pool, sizes[i]);
		TWT_OK(tow_free(rank->runtime, pool));
		free(plain);
	}
	take_from_queue(rank);
	TWT_OK(tow_flush(rank->runtime));
	TWT_OK(tow_group_split(rank->group, 0, 0, 10 * TWT_SECOND, &again));
	TWT_OK(tow_group_barrier(again, 10 * TWT_SECOND));
	TWT_OK(tow_group_close(again));
	TWT_TRUE(atomic_load(&twt_points) > 20 && atomic_load(&twt_point_faults) == 0);
}

static void test_job(void **state)
{
	job_lane = (unsigned)(uintptr_t)*state;
	if (!twt_job_lane(job_lane))
		skip();
	twt_points_where = twt_lanes[job_lane].name;
	twt_ranks(&(struct twt_job){ .ranks = 2,
				     .lane = twt_lanes[job_lane].address[0],
				     .run = work_in_job,
				     .options = enter_job });
}

int main(void)
{
	struct CMUnitTest tests[TWT_LANES];

	for (size_t i = 0; i < TWT_LANES; i++)
		tests[i] = (struct CMUnitTest){ twt_lanes[i].name, test_job, NULL, NULL,
						(void *)(uintptr_t)i };
#ifdef TWT_SANITIZED
	printf("a sanitizer has wrappers of these calls itself\n");
	return 77;
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
