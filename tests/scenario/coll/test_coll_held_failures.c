/*
 * test_coll_held_failures.c - collectives that are held back behind others when one is canceled or
 * has no more time, when the group is closed, and when a rank dies: each ends once, with the status
 * and the words of the failure, at every rank.
 */
#include "beside.h"
#include "coll_job.h"
#include "job_lanes.h"

#define HELD     500u
#define ALL      (TOW_COLL_IN_FLIGHT + HELD)
#define SHORT_NS 300000000u
#define AT_ONCE  4

enum how {
	CANCEL_HELD,   /* rank 0 cancels one of them */
	CANCEL_BEGUN,  /* rank 0 cancels one that has begun */
	DEADLINE_HELD, /* that of one of them passes at rank 0 */
	CLOSE,         /* rank 0 closes the group */
	KILLED,        /* rank 2 dies and has come to none */
	KILLED_LATER,  /* rank 2 dies in the middle */
	LEFT,          /* rank 2 closes the group when it has done some of them */
	HOWS
};

struct plan {
	enum how how;
	unsigned lane;
};

static const struct {
	int status, others; /* at rank 0, and at rank 1 */
	const char *words;
} ends[HOWS] = {
	[CANCEL_HELD] = { TOW_ECANCELED, TOW_ECANCELED,
			  "rank 0 has canceled a collective that was" },
	[CANCEL_BEGUN] = { TOW_ECANCELED, TOW_ECANCELED, "rank 0 has canceled " },
	[DEADLINE_HELD] = { TOW_EDEADLINE, TOW_EDEADLINE, "rank 2 never entered" },
	[CLOSE] = { TOW_ECLOSED, TOW_EPEER, "rank 0 has closed the group" },
	[KILLED] = { TOW_EPEER, TOW_EPEER, "rank 2" },
	[KILLED_LATER] = { TOW_EPEER, TOW_EPEER, "rank 2" },
	[LEFT] = { TOW_EPEER, TOW_EPEER, "rank 2" },
};

static bool is_deadly(enum how how)
{
	return how == KILLED || how == KILLED_LATER;
}

#define PART 100 /* that rank 2 does */

struct started {
	struct tow_op *ops[ALL];
	_Atomic unsigned called[ALL];
	int64_t data[ALL];
};

static void called_back(struct tow_op *op, const struct tow_result *result)
{
	(void)op;
	atomic_fetch_add((_Atomic unsigned *)result->user, 1);
}

static void start_one(struct twt_job *job, struct started *all, unsigned i, uint64_t timeout_ns)
{
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;

	options.timeout_ns = timeout_ns;
	if (i % 3 == 0) {
		options.done = called_back;
		options.user = &all->called[i];
	}
	all->data[i] = (int64_t)i + job->rank;
	twt_must(tow_coll_all_reduce_start(job->group, &all->data[i], &all->data[i], 1, TOW_S64,
					   TOW_SUM, &options, &all->ops[i]) == TOW_OK);
}

/* In an order of its own; what has ended well is right. */
static void end_all(const struct twt_job *job, const struct plan *plan, struct started *all)
{
	int wanted = job->rank == 0 ? ends[plan->how].status : ends[plan->how].others;
	unsigned failed = 0;
	char text[512];

	for (unsigned k = 0; k < ALL; k++) {
		unsigned i = (k * 101 + 7) % ALL;
		int status = twt_job_end(job, all->ops[i], text);

		twt_must(status == wanted || status == TOW_OK);
		twt_must(i % 3 != 0 || atomic_load(&all->called[i]) == 1);
		if (status == TOW_OK) {
			twt_must(all->data[i] == 3 * (int64_t)i + 3);
			continue;
		}
		if (strstr(text, ends[plan->how].words) == NULL)
			fprintf(stderr, "how %d: %s\n", plan->how, text);
		twt_must(strstr(text, ends[plan->how].words) != NULL);
		failed++;
	}
	twt_must(failed >= HELD - (plan->how >= KILLED_LATER ? PART : 0));
}

static void play_failing(const struct twt_job *job, const struct plan *plan, struct started *all)
{
	if (job->rank != 0)
		return;
	if (plan->how == CANCEL_HELD)
		twt_must(tow_op_cancel(all->ops[ALL - 100]) == TOW_OK);
	if (plan->how == CANCEL_BEGUN)
		twt_must(tow_op_cancel(all->ops[TOW_COLL_IN_FLIGHT / 2]) == TOW_OK);
}

/* Rank 2 comes to none of them, or to some. */
static void play_last(struct twt_job *job, const struct plan *plan, struct started *all)
{
	char text[512];

	twt_must(twt_job_reached(3, 2));
	if (plan->how >= KILLED_LATER) {
		for (unsigned i = 0; i < PART; i++)
			start_one(job, all, i, TOW_FOREVER);
		for (unsigned i = 0; i < PART; i++)
			twt_must(twt_job_end(job, all->ops[i], text) == TOW_OK);
	}
	if (is_deadly(plan->how))
		kill(getpid(), SIGKILL);
	if (plan->how == LEFT) {
		twt_must(tow_group_close(job->group) == TOW_OK);
		job->group = NULL;
	}
	twt_job_mark(job, 3);
	twt_must(twt_job_reached(7, 3));
}

static void play(struct twt_job *job, const void *arg)
{
	const struct plan *plan = arg;
	struct started *all = calloc(1, sizeof(*all));

	twt_must(all != NULL);
	twt_job_sum(job, job->group, 10); /* all are connected, and are told of what fails */
	twt_job_mark(job, 1);             /* which ends what is under way */
	twt_must(twt_job_reached(7, 1));
	if (job->rank == 2) {
		play_last(job, plan, all);
		free(all);
		return;
	}
	for (unsigned i = 0; i < ALL; i++)
		start_one(job, all, i,
			  plan->how == DEADLINE_HELD && job->rank == 0 && i == ALL - 50
				  ? SHORT_NS
				  : TOW_FOREVER);
	twt_job_mark(job, 2);
	twt_must(twt_job_reached(3, 2));
	play_failing(job, plan, all);
	if (plan->how == CLOSE && job->rank == 0) {
		twt_must(tow_group_close(job->group) == TOW_OK);
		job->group = NULL;
	}
	end_all(job, plan, all);
	twt_job_mark(job, 3);
	if (!is_deadly(plan->how))
		twt_must(twt_job_reached(7, 3));
	free(all);
}

static struct plan plans[TWT_LANES * HOWS];
static size_t plan_count;

static void run_plan(size_t which)
{
	const struct plan *plan = &plans[which];

	twt_job_run(twt_lanes[plan->lane].address[0], 3, is_deadly(plan->how) ? 4 : 0, play, plan,
		    NULL);
}

/* Variants of a lane differ in the runtime alone, which these jobs do not choose. */
static void failures(void **state)
{
	(void)state;
	for (unsigned lane = 0; lane < TWT_LANES; lane++) {
		if (twt_lanes[lane].poller != NULL || twt_lanes[lane].encrypted ||
		    !twt_job_lane(lane))
			continue;
		/* What libfabric tells of the dead may take it longer than these tests wait. */
		for (unsigned how = 0; how < HOWS; how++)
			if (!is_deadly((enum how)how) ||
			    strncmp(twt_lanes[lane].address[0], "ofi", 3) != 0)
				plans[plan_count++] = (struct plan){ (enum how)how, lane };
	}
	assert_true(plan_count >= 2 * (size_t)HOWS);
	twt_beside(plan_count, AT_ONCE, run_plan);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(failures) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
