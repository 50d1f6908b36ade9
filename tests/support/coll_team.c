/* coll_team.c - ranks of a small job, each a process. */
#include "coll_team.h"

#include "job_lanes.h"

static void twt_rank_main(const struct twt_job *job, uint32_t number, const char *store)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_group_options group = TOW_GROUP_OPTIONS_INIT;
	struct twt_rank rank = { .rank = number, .ranks = job->ranks, .arg = job->arg };

	alarm(TWT_RANKS_WAIT);
	options.premap_memory_bytes = job->pool_bytes > 0 ? job->pool_bytes : 8 << 20;
	options.stats = 0;
	options.max_ops = 4096;
	options.rank = number;
	options.world_size = job->ranks;
	options.store = store;
	options.job = "coll-ranks";
	options.job_key = "0123456789abcdef0123456789abcdef";
	if (job->options != NULL)
		job->options(&options);
	TWT_OK(tow_runtime_open(&options, &rank.runtime));
	group.address = job->lane;
	TWT_OK(tow_group_open(rank.runtime, &group, &rank.group));
	job->run(&rank);
	TWT_OK(tow_group_close(rank.group));
	TWT_OK(tow_runtime_close(rank.runtime));
	exit(0); /* not _exit: leaks are looked for at exit */
}

void twt_ranks(const struct twt_job *job)
{
	pid_t pids[TWT_RANKS_MAX] = { 0 };
	int wrong = 0, left = (int)job->ranks;
	char store[64];
	int fd = twt_store_port(store, sizeof(store));

	fflush(NULL);
	for (uint32_t i = 0; i < job->ranks; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] == 0)
			twt_rank_main(job, i, store);
	}
	for (int turn = 0; left > 0 && turn < (TWT_RANKS_WAIT + 10) * 100; turn++) {
		for (uint32_t i = 0; i < job->ranks; i++) {
			int how;

			if (pids[i] == 0 || waitpid(pids[i], &how, WNOHANG) != pids[i])
				continue;
			if (how != 0)
				fprintf(stderr, "rank %u ended with 0x%x\n", i, how);
			wrong += how != 0;
			pids[i] = 0;
			left--;
		}
		usleep(10000);
	}
	for (uint32_t i = 0; i < job->ranks; i++) {
		if (pids[i] == 0)
			continue;
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
	close(fd);
	assert_int_equal(wrong + left, 0);
}

static unsigned lane_of_job;

static void choose_lane(struct tow_options *options)
{
	twt_job_lane_options(lane_of_job, options);
}

void twt_ranks_by_lane(const struct twt_job *job)
{
	struct twt_job own = *job;

	own.options = choose_lane;
	for (lane_of_job = 0; lane_of_job < TWT_LANES; lane_of_job++) {
		if (!twt_job_lane(lane_of_job))
			continue;
		print_message("%s\n", twt_lanes[lane_of_job].name);
		own.lane = twt_lanes[lane_of_job].address[0];
		twt_ranks(&own);
	}
}

int twt_coll_end(struct tow_op *op)
{
	return twt_finish(op, NULL);
}

void twt_coll_meet(struct twt_rank *rank)
{
	struct tow_op *op;

	TWT_OK(tow_coll_barrier_start(rank->group, NULL, &op));
	TWT_OK(twt_coll_end(op));
}
