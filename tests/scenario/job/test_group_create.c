/*
 * test_group_create.c - groups that their members make by themselves: of a job and of its parts,
 * over each lane, by several threads, beside a broken parent and ranks that have gone.
 */
#include "beside.h"
#include "coll_job.h"
#include "lane_pair.h"

#include <pthread.h>

#define LANES   ((size_t)TWT_LANE_ROWS_ALWAYS)
#define AT_ONCE 4
#define COUNT   700u
#define SHORT   3000000000ull /* long enough for the store to say who is missing */
#define THREADS 6
#define MANY    300

static struct tow_group *create(const struct twt_job *job, struct tow_group *parent,
				const uint32_t *ranks, uint32_t count, const char *name)
{
	struct tow_group *made;

	twt_must(tow_group_create(parent, ranks, count, name, TWT_JOB_WAIT_NS, &made) == TOW_OK);
	twt_must(tow_group_size(made) == count);
	for (uint32_t i = 0; i < count; i++)
		twt_must((ranks[i] == tow_group_rank(parent)) == (tow_group_rank(made) == i));
	return made;
}

static void use(const struct twt_job *job, struct tow_group *group)
{
	twt_job_sum(job, group, COUNT);
	twt_must(tow_group_barrier(group, TWT_JOB_WAIT_NS) == TOW_OK);
}

static void must_fail(const struct twt_job *job, struct tow_group *parent, const uint32_t *ranks,
		      uint32_t count, const char *name, int status, const char *words)
{
	struct tow_group *made = (struct tow_group *)&made;

	twt_must(tow_group_create(parent, ranks, count, name, SHORT, &made) == status);
	twt_must(made == NULL);
	twt_must(strstr(tow_error_message(), words) != NULL);
}

/* By members alone, in an order of their own, and a group of that group; the rest does nothing. */
static void play_members(struct twt_job *job, const void *arg)
{
	static const uint32_t list[] = { 4, 1, 3 }, part[] = { 2, 0 }, alone[] = { 0 };
	struct tow_group *group, *inner, *single;
	char theirs[TOW_ADDRESS_MAX], same[TOW_ADDRESS_MAX];

	(void)arg;
	if (job->rank == 0 || job->rank == 2) {
		twt_job_meet(job, 1);
		return;
	}
	group = create(job, job->group, list, 3, NULL);
	twt_must(tow_group_address(group, 1, theirs, sizeof(theirs)) == TOW_OK);
	twt_must(tow_group_address(job->group, 1, same, sizeof(same)) == TOW_OK);
	twt_must(strcmp(theirs, same) == 0);
	use(job, group);
	if (job->rank != 1) {
		inner = create(job, group, part, 2, "inner");
		use(job, inner);
		if (tow_group_rank(inner) == 0) {
			single = create(job, inner, alone, 1, NULL);
			use(job, single);
			twt_must(tow_group_close(single) == TOW_OK);
		}
		twt_must(tow_group_barrier(inner, TWT_JOB_WAIT_NS) == TOW_OK);
		twt_must(tow_group_close(inner) == TOW_OK);
	}
	use(job, group);
	twt_must(tow_group_barrier(group, TWT_JOB_WAIT_NS) == TOW_OK);
	twt_must(tow_group_close(group) == TOW_OK);
	twt_job_meet(job, 1);
}

/* What is wrong with a list is told by the rank that says it, without the others. */
static void play_lists(struct twt_job *job, const void *arg)
{
	const uint32_t twice[] = { 0, 1, 2, 1 }, beyond[] = { 0, 1, 3 };
	const uint32_t others[] = { (uint32_t)(job->rank + 1) % 3, (uint32_t)(job->rank + 2) % 3 };
	struct tow_group *none;
	char name[300], own[64];

	(void)arg;
	memset(name, 'n', sizeof(name));
	name[201] = '\0';
	snprintf(own, sizeof(own), "rank %d, which is this process, is not among", job->rank);
	must_fail(job, job->group, beyond, 3, NULL, TOW_EINVAL, "ranks[2] is 3, the group has 3");
	must_fail(job, job->group, twice, 4, NULL, TOW_EINVAL, "count is 4, the group has 3");
	must_fail(job, job->group, twice + 1, 3, NULL, TOW_EINVAL,
		  "ranks[2] is 1, which is listed before");
	must_fail(job, job->group, others, 2, NULL, TOW_EINVAL, own);
	must_fail(job, job->group, others, 0, NULL, TOW_EINVAL, "count is 0");
	must_fail(job, job->group, NULL, 2, NULL, TOW_EINVAL, "ranks is NULL");
	must_fail(job, job->group, beyond, 2, name, TOW_EINVAL, "the name must have");
	must_fail(job, job->group, beyond, 2, "", TOW_EINVAL, "the name must have");
	twt_must(tow_group_create(job->group, beyond, 2, NULL, SHORT, NULL) == TOW_EINVAL);
	twt_must(tow_group_create(NULL, beyond, 2, NULL, SHORT, &none) == TOW_EINVAL);
	twt_job_meet(job, 1);
}

/* Ranks that disagree, and one that does not come. Afterwards all is as before. */
static void play_wrong(struct twt_job *job, const void *arg)
{
	static const uint32_t all[] = { 0, 1, 2 }, turned[] = { 0, 2, 1 }, two[] = { 0, 1 };
	struct tow_group *made;

	(void)arg;
	twt_must(tow_group_create(job->group, job->rank == 2 ? turned : all, 3, NULL,
				  TWT_JOB_WAIT_NS, &made) == TOW_EMISMATCH);
	twt_must(strstr(tow_error_message(), "rank 2 of the job lists 0, 2, 1") != NULL);
	twt_must(strstr(tow_error_message(), "of the job lists 0-2") != NULL);
	twt_job_meet(job, 1);
	if (job->rank < 2) {
		twt_must(tow_group_create(job->group, job->rank == 0 ? two : all,
					  job->rank == 0 ? 2 : 3, "n", TWT_JOB_WAIT_NS,
					  &made) == TOW_EMISMATCH);
		twt_must(strstr(tow_error_message(), "a group 'n': ") != NULL);
		twt_must(strstr(tow_error_message(), "rank 1 of the job lists 0-2") != NULL);
		twt_must(strstr(tow_error_message(), "rank 0 of the job lists 0, 1") != NULL);
	}
	twt_job_meet(job, 2);
	if (job->rank != 1)
		must_fail(job, job->group, all, 3, NULL, TOW_EDEADLINE, "rank 1 of the job");
	twt_job_meet(job, 3);
	use(job, create(job, job->group, all, 3, NULL));
	twt_job_meet(job, 4);
}

struct worker {
	const struct twt_job *job;
	int which;
};

/* Each thread its own list or its own name, in no order. */
static void *work(void *arg)
{
	static const uint32_t lists[2][3] = { { 0, 1, 2 }, { 2, 0, 1 } };
	const struct worker *worker = arg;
	const struct twt_job *job = worker->job;
	char name[16];

	snprintf(name, sizeof(name), "thread %d", worker->which);
	for (int i = 0; i < 4; i++) {
		struct tow_group *group =
			create(job, job->group, lists[worker->which % 2], 3, name);

		use(job, group);
		twt_must(tow_group_close(group) == TOW_OK);
	}
	return NULL;
}

static void play_threads(struct twt_job *job, const void *arg)
{
	struct worker workers[THREADS];
	pthread_t threads[THREADS];

	(void)arg;
	for (int i = 0; i < THREADS; i++) {
		/* Another order at each rank. */
		workers[i] = (struct worker){ job, (i * (job->rank == 1 ? 5 : 1) + job->rank) %
							   THREADS };
		twt_must(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	twt_job_meet(job, 1);
}

/* The parent is broken, and one of its ranks is dead: the others make groups of it all the same. */
static void play_broken(struct twt_job *job, const void *arg)
{
	static const uint32_t left[] = { 2, 0 }, dead[] = { 0, 1, 2 };
	struct tow_group *made;
	struct tow_op *op;
	char text[512];
	int status;

	(void)arg;
	twt_job_sum(job, job->group, COUNT);
	twt_job_meet(job, 1);
	if (job->rank == 1)
		raise(SIGKILL);
	/* A rank that comes later finds the group broken by the other one. */
	status = tow_coll_barrier_start(job->group, NULL, &op);
	twt_must((status < 0 ? status : twt_job_end(job, op, text)) == TOW_EPEER);
	/* At once, and when the store has missed rank 1: that is told when it is listed. */
	made = create(job, job->group, left, 2, "at once");
	use(job, made);
	twt_must(tow_group_close(made) == TOW_OK);
	twt_must(tow_group_create(job->group, dead, 3, NULL, TWT_JOB_WAIT_NS, &made) == TOW_EPEER);
	twt_must(strstr(tow_error_message(), "rank 1 of the job, which belongs to the group, has "
					     "gone") != NULL);
	made = create(job, job->group, left, 2, "later");
	use(job, made);
	use(job, create(job, made, (const uint32_t[]){ 1, 0 }, 2, NULL));
}

/* Numbers and the store's room last: with splits, whose gathers go with their parents. */
static void play_many(struct twt_job *job, const void *arg)
{
	static const uint32_t both[] = { 0, 1 };
	struct tow_group *group, *part;

	(void)arg;
	for (int i = 0; i < MANY; i++) {
		group = create(job, job->group, both, 2, i % 2 == 0 ? NULL : "odd");
		if (i % 50 == 0)
			use(job, group);
		if (i % 10 == 0) {
			twt_must(tow_group_split(group, 1, 0, TWT_JOB_WAIT_NS, &part) == TOW_OK);
			use(job, part);
			twt_must(tow_group_close(part) == TOW_OK);
		}
		twt_must(tow_group_close(group) == TOW_OK);
	}
	twt_job_meet(job, 1);
}

static const struct {
	int size;
	unsigned victims;
	void (*play)(struct twt_job *job, const void *plan);
} cases[] = { { 5, 0, play_members }, { 3, 0, play_lists },        { 3, 0, play_wrong },
	      { 3, 0, play_threads }, { 3, 1u << 1, play_broken }, { 2, 0, play_many } };

static void run(size_t which)
{
	twt_job_run(twt_lane_rows[which % LANES].name, cases[which / LANES].size,
		    cases[which / LANES].victims, cases[which / LANES].play, NULL, NULL);
}

static void all_cases(void **state)
{
	(void)state;
	twt_beside(LANES * sizeof(cases) / sizeof(cases[0]), AT_ONCE, run);
}

static void play_single(struct twt_job *job, const void *arg)
{
	struct tow_group *made = create(job, job->group, (const uint32_t[]){ 0 }, 1, "alone");

	(void)arg;
	use(job, made);
	twt_must(tow_group_close(made) == TOW_OK);
}

/* A job of one rank has no store, and needs none. */
static void single(void **state)
{
	(void)state;
	twt_job_run("tcp", 1, 0, play_single, NULL, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(all_cases), cmocka_unit_test(single) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
