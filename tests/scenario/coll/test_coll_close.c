/*
 * test_coll_close.c - ranks that close a group as soon as their own part is done, while others are
 * still at theirs: every collective ends well at every rank, whatever the closer does with its pool
 * then, and nothing of the groups is left when all have closed them. Over each lane. So it is where
 * the closer breaks the group first: what ends well has the right result.
 */
#include "beside.h"
#include "coll_job.h"
#include "lane_pair.h"

#include "transport/job/group.h"

#define AT_ONCE 2
#define ROUNDS  12
#define BLOCKS  64
#define SUMS    3
#define GROUPS  4

static uint64_t seed;

static uint64_t own_bytes(const struct twt_job *job)
{
	char *text, *at;
	uint64_t bytes;

	twt_must(tow_stats_get(job->runtime, "/v1/pool", &text) == TOW_OK);
	at = strstr(text, "\"own_bytes\":");
	twt_must(at != NULL);
	bytes = strtoull(at + strlen("\"own_bytes\":"), NULL, 10);
	tow_stats_release(text);
	return bytes;
}

/* What the library has given back is the user's, who writes to all of it. */
static void use_pool(const struct twt_job *job, uint64_t *random)
{
	void *block[BLOCKS];

	for (int i = 0; i < BLOCKS; i++) {
		size_t bytes = 64 + twt_random_below(random, 40000);

		twt_must(tow_alloc(job->runtime, bytes, 0, &block[i]) == TOW_OK);
		memset(block[i], i % 3 == 0 ? 0xff : 0, bytes);
	}
	for (int i = 0; i < BLOCKS; i++)
		twt_must(tow_free(job->runtime, block[i]) == TOW_OK);
}

static void play(struct twt_job *job, const void *arg)
{
	/* The same of all ranks, and one of each rank's own. */
	uint64_t random = seed, mine = seed + (uint64_t)job->rank + 1, before, since;

	(void)arg;
	twt_job_sum(job, job->group, 100);
	before = own_bytes(job);
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t sums = 1 + twt_random_below(&random, 3);
		struct tow_group *made;

		twt_must(tow_group_split(job->group, 0, 0, TWT_JOB_WAIT_NS, &made) == TOW_OK);
		for (uint64_t i = 0; i < sums; i++) {
			uint64_t count = twt_random_below(&random, 2) == 0
						 ? 1 + twt_random_below(&random, 60)
						 : 1 + twt_random_below(&random, 60000);

			if (twt_random_below(&mine, 3) == 0)
				usleep((useconds_t)twt_random_below(&mine, 2000));
			twt_job_sum(job, made, count);
		}
		twt_must(tow_group_close(made) == TOW_OK);
		if (twt_random_below(&mine, 2) == 0)
			use_pool(job, &mine);
		twt_job_sum(job, job->group, 1 + twt_random_below(&random, 3000));
	}
	since = twt_job_now();
	while (own_bytes(job) > before && twt_job_now() - since < TWT_JOB_WAIT_NS)
		tow_progress(job->runtime);
	twt_must(own_bytes(job) <= before);
	twt_must(tow_group_barrier(job->group, TWT_JOB_WAIT_NS) == TOW_OK);
}

/* Starts sums, and returns the status of the last; those that end well must be right. */
static int try_sums(const struct twt_job *job, struct tow_group *group, uint64_t pause_us)
{
	int32_t data[SUMS], size = job->size;
	struct tow_op *ops[SUMS];
	char text[512];
	int status = TOW_OK, started;

	for (started = 0; started < SUMS; started++) {
		data[started] = job->rank + started;
		status = tow_coll_all_reduce_start(group, &data[started], &data[started], 1,
						   TOW_S32, TOW_SUM, NULL, &ops[started]);
		if (status < 0)
			break;
	}
	usleep((useconds_t)pause_us);
	for (int i = 0; i < started; i++) {
		int ended = twt_job_end(job, ops[i], text);

		twt_must(ended == TOW_EABORTED || ended == TOW_OK);
		twt_must(ended < 0 || data[i] == size * (size - 1) / 2 + size * i);
		status = status < 0 ? status : ended;
	}
	return status;
}

static void play_broken(struct twt_job *job, const void *arg)
{
	uint64_t mine = seed + (uint64_t)job->rank + 1;

	(void)arg;
	for (int round = 0; round < 8 * ROUNDS; round++) {
		struct tow_group *made;
		bool breaks = round % job->size == job->rank;
		int status;

		twt_must(tow_group_split(job->group, 0, 0, TWT_JOB_WAIT_NS, &made) == TOW_OK);
		twt_job_sum(job, made, 1);
		status = try_sums(job, made, breaks ? 0 : twt_random_below(&mine, 300));
		twt_must(!breaks || status == TOW_OK);
		if (breaks)
			twt_must(tow_group_abort(made, "a test") == TOW_OK);
		twt_must(tow_group_close(made) == TOW_OK);
		use_pool(job, &mine);
	}
	twt_must(tow_group_barrier(job->group, TWT_JOB_WAIT_NS) == TOW_OK);
}

static unsigned kept_regions(const struct twt_job *job)
{
	const struct twi_list *kept = &job->group->ranks->kept;
	unsigned count = 0;

	for (const struct twi_list *pos = kept->next; pos != kept; pos = pos->next)
		count++;
	return count;
}

/*
 * The other rank does not hear that the groups are broken. It may still read their regions: these
 * are kept until it has.
 */
static void play_unheard(struct twt_job *job, const void *arg)
{
	struct tow_group *made[GROUPS];
	uint64_t since = twt_job_now();

	(void)arg;
	for (int i = 0; i < GROUPS; i++) {
		twt_must(tow_group_split(job->group, 0, 0, TWT_JOB_WAIT_NS, &made[i]) == TOW_OK);
		twt_job_sum(job, made[i], 1);
	}
	twt_job_meet(job, 1);
	if (job->rank == 1) { /* drives nothing until then */
		twt_must(twt_job_reached(1, 2));
	} else {
		for (int i = 0; i < GROUPS; i++) {
			twt_must(tow_group_abort(made[i], "a test") == TOW_OK);
			twt_must(tow_group_close(made[i]) == TOW_OK);
		}
		twt_must(kept_regions(job) == GROUPS);
		twt_job_mark(job, 2);
		while (kept_regions(job) > 0 && twt_job_now() - since < TWT_JOB_WAIT_NS)
			tow_progress(job->runtime);
		twt_must(kept_regions(job) == 0);
	}
	twt_must(tow_group_barrier(job->group, TWT_JOB_WAIT_NS) == TOW_OK);
	for (int i = 0; i < GROUPS; i++) {
		if (job->rank == 1)
			twt_must(tow_group_close(made[i]) == TOW_OK);
	}
}

/* A lane that this build or system has not got is left out, by who opens the first group. */
static void run(size_t which)
{
	const char *address = twt_job_addresses[which / 3];

	if (address != NULL)
		twt_job_run(address, 2 + (int)(which % 3), 0, play, NULL, NULL);
}

static void all_lanes(void **state)
{
	(void)state;
	seed = twt_seed();
	twt_beside(3 * TWT_JOB_ADDRESSES, AT_ONCE, run);
}

static void run_broken(size_t which)
{
	const char *address = twt_job_addresses[which / 2];

	if (address != NULL)
		twt_job_run(address, 2 + 2 * (int)(which % 2), 0, play_broken, NULL, NULL);
}

static void broken_groups(void **state)
{
	(void)state;
	seed = twt_seed();
	twt_beside(2 * TWT_JOB_ADDRESSES, AT_ONCE, run_broken);
}

static void broken_unheard(void **state)
{
	(void)state;
	setenv("TOW_BACKGROUND", "0", 1);
	twt_job_run("shm", 2, 0, play_unheard, NULL, NULL);
	unsetenv("TOW_BACKGROUND");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_lanes),
		cmocka_unit_test(broken_groups),
		cmocka_unit_test(broken_unheard),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
