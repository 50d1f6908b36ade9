/*
 * test_coll_close.c - ranks that close a group as soon as their own part is done, while others are
 * still at theirs: every collective ends well at every rank, whatever the closer does with its pool
 * then, and nothing of the groups is left when all have closed them. Over each lane.
 */
#include "beside.h"
#include "coll_job.h"
#include "lane_pair.h"

#define AT_ONCE 2
#define ROUNDS  12
#define BLOCKS  64

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

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(all_lanes) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
