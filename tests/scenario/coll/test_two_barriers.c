/*
 * test_two_barriers.c - what tow_group_barrier promises and a collective does not: an order of its
 * own, a deadline that is nobody else's, and no need of a group that is whole. Where it cannot end,
 * as a rank has died, all learn it.
 *
 *	TOW_TEST_SEED=S   which rank dies
 */
#include "coll_job.h"
#include "lane_pair.h"

#define COUNT 1000u
#define SHORT 200000000u

#define EACH_LANE(i) for (size_t i = 0; i < TWT_LANE_ROWS_ALWAYS; i++)

static struct tow_op *reduce(const struct twt_job *job, int32_t *in, int32_t *out, uint64_t ns)
{
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
	struct tow_op *op;

	options.timeout_ns = ns;
	twt_must(tow_coll_all_reduce_start(job->group, in, out, COUNT, TOW_S32, TOW_SUM, &options,
					   &op) == TOW_OK);
	return op;
}

static struct tow_op *meet(const struct twt_job *job)
{
	struct tow_op *op;

	twt_must(tow_group_barrier_start(job->group, NULL, &op) == TOW_OK);
	return op;
}

/* One rank starts the collective first, the other one the barrier. */
static void play_order(struct twt_job *job, const void *arg)
{
	static int32_t in[COUNT], out[COUNT];
	struct tow_op *ops[2];
	char text[512];

	(void)arg;
	for (uint32_t i = 0; i < 8; i++) {
		bool first = (i + job->rank) % 2 == 0;

		if (first)
			ops[0] = meet(job);
		ops[1] = reduce(job, in, out, TWT_JOB_WAIT_NS);
		if (!first)
			ops[0] = meet(job);
		twt_must(twt_job_end(job, ops[1], text) == TOW_OK);
		twt_must(twt_job_end(job, ops[0], text) == TOW_OK);
	}
}

/* A barrier in vain: collectives go on, and so does the next barrier's start. */
static void play_vain(struct twt_job *job, const void *arg)
{
	struct tow_op *op;
	char text[512];

	(void)arg;
	twt_must(tow_group_barrier(job->group, TWT_JOB_WAIT_NS) == TOW_OK);
	if (job->rank == 0) {
		twt_must(tow_group_barrier(job->group, SHORT) == TOW_EDEADLINE);
		op = meet(job);
		twt_must(tow_op_test(op) == TOW_AGAIN);
		tow_op_cancel(op);
		twt_must(twt_job_end(job, op, text) == TOW_ECANCELED);
	}
	twt_job_sum(job, job->group, COUNT);
	twt_job_sum(job, job->group, COUNT);
	twt_job_mark(job, 1);
	twt_must(twt_job_reached(3, 1));
}

/* A rank dies. The others learn it at once, also those that do not wait for it themselves. */
static void play_death(struct twt_job *job, const void *arg)
{
	uint32_t dead = *(const uint32_t *)arg;
	int mark = 0;

	twt_must(tow_group_barrier(job->group, TWT_JOB_WAIT_NS) == TOW_OK);
	twt_job_meet(job, ++mark);
	if ((uint32_t)job->rank == dead)
		raise(SIGKILL);
	for (int i = 0; i < 3; i++)
		twt_must(tow_group_barrier(job->group, TWT_JOB_WAIT_NS) == TOW_EPEER);
	twt_job_mark(job, ++mark);
	twt_must(twt_job_reached(((1u << job->size) - 1) & ~(1u << dead), mark));
}

/* More barriers in vain than a rank still does its part for: the first has failed elsewhere. */
static void play_many(struct twt_job *job, const void *arg)
{
	enum { VAIN = 3 }; /* one more than max_ops = 32 has room for */
	struct tow_op *op;
	char text[512];
	int status;

	(void)arg;
	twt_must(tow_group_barrier(job->group, TWT_JOB_WAIT_NS) == TOW_OK);
	for (int i = 0; job->rank == 0 && i < VAIN; i++) {
		op = meet(job);
		tow_op_cancel(op);
		twt_must(twt_job_end(job, op, text) == TOW_ECANCELED);
	}
	twt_job_meet(job, 1);
	for (int i = 0; job->rank != 0 && i < VAIN; i++) {
		op = meet(job);
		status = twt_job_end(job, op, text);
		/* rank 1 may have all that it needs before rank 2 knows */
		twt_must(status == (i == 0 ? TOW_EPEER : TOW_OK) || (i == 0 && job->rank == 1));
		twt_must(status == TOW_OK ||
			 strstr(text, "rank 0 has given up its barrier 2") != NULL);
	}
	twt_must(tow_group_barrier(job->group, TWT_JOB_WAIT_NS) == TOW_OK);
}

/* A collective in vain breaks the group; its ranks can still meet. */
static void play_broken(struct twt_job *job, const void *arg)
{
	static int32_t in[COUNT], out[COUNT];
	struct tow_op *op = NULL;
	char text[512];

	(void)arg;
	twt_job_sum(job, job->group, COUNT);
	if (job->rank == 0)
		twt_must(twt_job_end(job, reduce(job, in, out, SHORT), text) == TOW_EDEADLINE);
	twt_job_mark(job, 1);
	twt_must(twt_job_reached(3, 1));
	twt_must(tow_group_barrier(job->group, TWT_JOB_WAIT_NS) == TOW_OK);
	twt_must(tow_coll_barrier_start(job->group, NULL, &op) == TOW_EPEER);
	twt_must(op == NULL && strstr(tow_error_message(), "the group is broken: ") != NULL);
	twt_must(tow_group_barrier(job->group, TWT_JOB_WAIT_NS) == TOW_OK);
}

static void an_order_of_its_own(void **state)
{
	(void)state;
	EACH_LANE(i)
	twt_job_run(twt_lane_rows[i].name, 2, 0, play_order, NULL, NULL);
}

static void a_failure_of_its_own(void **state)
{
	(void)state;
	EACH_LANE(i)
	twt_job_run(twt_lane_rows[i].name, 2, 0, play_vain, NULL, NULL);
}

static void where_a_rank_dies(void **state)
{
	uint32_t dead = (uint32_t)(twt_seed() % 5);

	(void)state;
	EACH_LANE(i)
	twt_job_run(twt_lane_rows[i].name, 5, 1u << dead, play_death, &dead, NULL);
}

static void more_in_vain_than_are_kept(void **state)
{
	(void)state;
	setenv("TOW_MAX_OPS", "32", 1);
	EACH_LANE(i)
	twt_job_run(twt_lane_rows[i].name, 3, 0, play_many, NULL, NULL);
	unsetenv("TOW_MAX_OPS");
}

static void in_a_broken_group(void **state)
{
	(void)state;
	EACH_LANE(i)
	twt_job_run(twt_lane_rows[i].name, 2, 0, play_broken, NULL, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_order_of_its_own), cmocka_unit_test(a_failure_of_its_own),
		cmocka_unit_test(where_a_rank_dies),   cmocka_unit_test(more_in_vain_than_are_kept),
		cmocka_unit_test(in_a_broken_group),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
