/*
 * test_coll_setup.c - a group's set-up is an all-gather of its own, planned before the group knows
 * who shares memory. A call of the program's that looks like it has a plan of its own: where some
 * ranks took that of the set-up, they waited for each other for ever.
 */
#include "beside.h"
#include "coll_job.h"
#include "lane_pair.h"

/* One u64 for each rank, in place at the ranks in the bits of `in_place`. */
static void play(struct twt_job *job, const void *arg)
{
	unsigned in_place = *(const unsigned *)arg;
	uint64_t mine, all[TWT_JOB_RANKS];
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
	struct tow_op *op;
	char text[512];

	options.timeout_ns = TWT_JOB_WAIT_NS;
	for (uint64_t turn = 0; turn < 3; turn++) {
		const uint64_t *in = &mine;

		mine = 100 * turn + (uint64_t)job->rank;
		memset(all, 0, sizeof(all));
		if ((in_place >> job->rank & 1) != 0) {
			all[job->rank] = mine;
			in = &all[job->rank];
		}
		twt_must(tow_coll_all_gather_start(job->group, in, all, 1, TOW_U64, &options,
						   &op) == TOW_OK);
		twt_must(twt_job_end(job, op, text) == TOW_OK);
		for (int i = 0; i < job->size; i++)
			twt_must(all[i] == 100 * turn + (uint64_t)i);
	}
}

static const unsigned in_place[] = { 0x0, 0xf, 0xe, 0x1, 0x5 };

#define WAYS (sizeof(in_place) / sizeof(in_place[0]))

static void run(size_t which)
{
	twt_job_run(twt_lane_rows[which / WAYS].name, 4, 0, play, &in_place[which % WAYS], NULL);
}

static void test_like_it(void **state)
{
	(void)state;
	twt_beside(TWT_LANE_ROWS_ALWAYS * WAYS, 3, run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_like_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
