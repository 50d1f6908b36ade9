/*
 * test_coll_shrink.c - ranks die, and those that are left make a group of themselves and go on:
 * one of three, one of four, rank 0 with the store, two at once, one in the middle of it; and with
 * nobody dead, with one that does not come, and again.
 */
#include "beside.h"
#include "coll_job.h"
#include "lane_pair.h"

#define COUNT 5000u

struct plan {
	int size;
	unsigned dead;  /* bits: die before the others shrink */
	unsigned dying; /* die while the others shrink */
	bool used;      /* there was a collective before */
	bool broken;    /* there is one that fails */
};

/* In it the ranks see that some have gone. */
static void fail_once(const struct twt_job *job)
{
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
	struct tow_op *op;
	char text[512];
	int status;

	options.timeout_ns = TWT_JOB_WAIT_NS / 2;
	status = tow_coll_barrier_start(job->group, &options, &op);
	if (status == TOW_OK)
		status = twt_job_end(job, op, text);
	twt_must(status == TOW_EPEER);
}

static struct tow_group *shrink(const struct twt_job *job, struct tow_group *group, uint32_t size,
				uint32_t rank)
{
	struct tow_group *made;
	int status = tow_group_shrink(group, TWT_JOB_WAIT_NS, &made);

	if (status < 0)
		fprintf(stderr, "%s: %s\n", tow_status_name(status), tow_error_message());
	twt_must(status == TOW_OK);
	twt_must(tow_group_size(made) == size && tow_group_rank(made) == rank);
	return made;
}

static void play(struct twt_job *job, const void *arg)
{
	const struct plan *plan = arg;
	unsigned lives = ((1u << plan->size) - 1) & ~plan->dead & ~plan->dying;
	unsigned before = lives & ((1u << job->rank) - 1);
	uint32_t size = (uint32_t)__builtin_popcount(lives);
	struct tow_group *made;

	if (plan->used)
		twt_job_sum(job, job->group, COUNT);
	twt_job_mark(job, 1);
	twt_must(twt_job_reached((1u << plan->size) - 1, 1));
	if ((plan->dead >> job->rank & 1) != 0)
		raise(SIGKILL);
	if (plan->broken)
		fail_once(job);
	if ((plan->dying >> job->rank & 1) != 0) {
		usleep(100000);
		raise(SIGKILL);
	}
	made = shrink(job, job->group, size, (uint32_t)__builtin_popcount(before));
	for (uint64_t count = 1; count <= COUNT * 5; count *= 5)
		twt_job_sum(job, made, count);
	twt_must(tow_group_close(job->group) == TOW_OK);
	job->group = made;
	twt_job_sum(job, made, 1);
}

#define LANES ((size_t)TWT_LANE_ROWS_ALWAYS)
/* Jobs at once: most of the time each waits for dead ranks to be missed. */
#define AT_ONCE 5

static const struct plan dead_before[] = {
	{ 3, 1u << 2, 0, true, true },   { 4, 1u << 1, 0, true, true },
	{ 3, 1u << 0, 0, true, true },   { 4, 3u << 1, 0, true, true },
	{ 4, 3u << 0, 0, true, true },   { 4, 1u << 3, 0, true, false },
	{ 3, 1u << 1, 0, false, false }, /* nobody was connected */
	{ 3, 1u << 0, 0, false, false }, { 2, 1u << 0, 0, true, true },
	{ 5, 0x15, 0, true, true },
};

static const struct plan dead_during[] = {
	{ 4, 1u << 1, 1u << 2, true, true },
	{ 4, 1u << 1, 1u << 0, true, true }, /* who would gather */
	{ 4, 0, 1u << 0, true, false },
	{ 4, 1u << 3, 3u << 0, true, true },
	{ 3, 0, 1u << 2, false, false },
};

static void run(const struct plan *plans, size_t which)
{
	const struct plan *plan = &plans[which / LANES];

	twt_job_run(twt_lane_rows[which % LANES].name, plan->size, plan->dead | plan->dying, play,
		    plan, NULL);
}

static void run_before(size_t which)
{
	run(dead_before, which);
}

static void deaths(void **state)
{
	(void)state;
	twt_beside(LANES * sizeof(dead_before) / sizeof(dead_before[0]), AT_ONCE, run_before);
}

static void run_during(size_t which)
{
	run(dead_during, which);
}

static void during(void **state)
{
	(void)state;
	twt_beside(LANES * sizeof(dead_during) / sizeof(dead_during[0]), AT_ONCE, run_during);
}

/* Nobody has died: the same ranks again, and from that once more; the first is closed early. */
static void play_whole(struct twt_job *job, const void *arg)
{
	uint32_t size = (uint32_t)job->size, rank = (uint32_t)job->rank;
	struct tow_group *made, *again, *no;

	(void)arg;
	made = shrink(job, job->group, size, rank);
	twt_must(tow_group_shrink(job->group, TWT_JOB_WAIT_NS, &no) == TOW_EINVAL && no == NULL);
	twt_must(tow_group_close(job->group) == TOW_OK);
	twt_job_sum(job, made, COUNT);
	twt_job_mark(job, 1); /* who shrinks a whole group breaks it for the others */
	twt_must(twt_job_reached((1u << job->size) - 1, 1));
	again = shrink(job, made, size, rank);
	twt_job_sum(job, again, COUNT);
	twt_must(tow_group_close(made) == TOW_OK);
	twt_must(tow_group_split(again, job->rank % 2, 0, TWT_JOB_WAIT_NS, &made) == TOW_OK);
	twt_job_sum(job, made, COUNT);
	twt_must(tow_group_close(made) == TOW_OK);
	job->group = again;
}

static void whole(void **state)
{
	(void)state;
	for (size_t i = 0; i < LANES; i++) {
		twt_job_run(twt_lane_rows[i].name, 4, 0, play_whole, NULL, NULL);
		twt_job_run(twt_lane_rows[i].name, 1, 0, play_whole, NULL, NULL);
	}
}

/* One does not come: all others are told who. When all have come it works. */
static void play_late(struct twt_job *job, const void *arg)
{
	const int *absent = arg;
	struct tow_group *made;
	char name[16];

	snprintf(name, sizeof(name), "rank %d", *absent);
	twt_job_sum(job, job->group, COUNT);
	twt_job_mark(job, 1);
	twt_must(twt_job_reached(7, 1));
	if (job->rank != *absent) {
		twt_must(tow_group_shrink(job->group, 300000000, &made) == TOW_EDEADLINE);
		twt_must(strstr(tow_error_message(), name) != NULL && made == NULL);
	}
	twt_job_mark(job, 2);
	twt_must(twt_job_reached(7u & ~(1u << *absent), 2));
	made = shrink(job, job->group, 3, (uint32_t)job->rank);
	twt_job_sum(job, made, COUNT);
	twt_must(tow_group_close(made) == TOW_OK);
}

static void run_late(size_t which)
{
	twt_job_run(twt_lane_rows[which % LANES].name, 3, 0, play_late,
		    &(int){ which < LANES ? 2 : 0 }, NULL);
}

static void late(void **state)
{
	(void)state;
	twt_beside(2 * LANES, AT_ONCE, run_late);
}

/* Without rank 0 there is no store to split by. */
static void play_storeless(struct twt_job *job, const void *arg)
{
	struct tow_group *made, *split;

	(void)arg;
	twt_job_sum(job, job->group, 1);
	twt_job_mark(job, 1);
	twt_must(twt_job_reached(7, 1));
	if (job->rank == 0)
		raise(SIGKILL);
	made = shrink(job, job->group, 2, (uint32_t)job->rank - 1);
	twt_must(tow_group_split(made, 0, 0, TWT_JOB_WAIT_NS, &split) == TOW_EPEER);
	twt_must(strstr(tow_error_message(), "rank 0 has gone") != NULL);
	twt_job_sum(job, made, 1);
	twt_must(tow_group_close(made) == TOW_OK);
}

static void run_storeless(size_t which)
{
	twt_job_run(twt_lane_rows[which].name, 3, 1, play_storeless, NULL, NULL);
}

static void storeless(void **state)
{
	(void)state;
	twt_beside(LANES, AT_ONCE, run_storeless);
}

/*
 * Nobody was connected, and a rank answers nobody for some connect_timeout_ns before it dies: it is
 * stopped, or its process takes long to end.
 */
static void play_silent(struct twt_job *job, const void *arg)
{
	struct tow_group *made;
	char killer[64];

	(void)arg;
	twt_job_mark(job, 1);
	twt_must(twt_job_reached(7, 1));
	if (job->rank == 1) {
		snprintf(killer, sizeof(killer), "sleep 2; kill -9 %d", (int)getpid());
		if (fork() == 0)
			_exit(execlp("sh", "sh", "-c", killer, NULL));
		raise(SIGSTOP);
	}
	made = shrink(job, job->group, 2, (uint32_t)job->rank / 2);
	twt_job_sum(job, made, 1);
	twt_must(tow_group_close(made) == TOW_OK);
}

static void run_silent(size_t which)
{
	setenv("TOW_CONNECT_TIMEOUT_NS", "300000000", 1);
	twt_job_run(twt_lane_rows[which].name, 3, 1u << 1, play_silent, NULL, NULL);
}

static void silent(void **state)
{
	(void)state;
	twt_beside(LANES, AT_ONCE, run_silent);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(deaths), cmocka_unit_test(during),    cmocka_unit_test(whole),
		cmocka_unit_test(late),   cmocka_unit_test(storeless), cmocka_unit_test(silent),
	};

	if (argc > 1) /* one of them, to look at */
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
