/*
 * test_coll_abort.c - groups that are aborted: with 1 to 64 collectives and barriers in flight,
 * from another thread and from a callback, by two ranks at once, while ranks wait in the store, of
 * a group that nobody uses or that is broken already; then closed, or shrunk. Over each lane.
 */
#include "beside.h"
#include "coll_job.h"
#include "lane_pair.h"

#include <pthread.h>
#include <stdatomic.h>

#define AT_ONCE 4
#define COUNT   3000u
#define FLIGHT  64

/* A group of all ranks, connected and used. */
static struct tow_group *make(const struct twt_job *job)
{
	struct tow_group *group;

	twt_must(tow_group_split(job->group, 0, 0, TWT_JOB_WAIT_NS, &group) == TOW_OK);
	twt_job_sum(job, group, 100);
	return group;
}

static void must_say(const struct twt_job *job, const char *text, const char *words)
{
	if (strstr(text, words) == NULL) {
		fprintf(stderr, "'%s' is not in: %s\n", words, text);
		twt_must(false);
	}
}

/* Every call that needs the others fails with the text, and no operation begins. */
static void must_be_aborted(const struct twt_job *job, struct tow_group *group, const char *words)
{
	const uint32_t mine = tow_group_rank(group);
	struct tow_op *op = NULL;
	struct tow_group *none;
	char data[8];
	size_t bytes;

#define MUST_FAIL(call)                                                                            \
	do {                                                                                       \
		twt_must((call) == TOW_EABORTED);                                                  \
		must_say(job, tow_error_message(), words);                                         \
	} while (0)
	MUST_FAIL(tow_coll_barrier_start(group, NULL, &op));
	MUST_FAIL(tow_group_barrier_start(group, NULL, &op));
	MUST_FAIL(tow_group_barrier(group, TWT_JOB_WAIT_NS));
	MUST_FAIL(tow_group_split(group, 0, 0, TWT_JOB_WAIT_NS, &none));
	MUST_FAIL(tow_group_create(group, &mine, 1, NULL, TWT_JOB_WAIT_NS, &none));
	MUST_FAIL(tow_group_set(group, "k", "v", 1, TWT_JOB_WAIT_NS));
	MUST_FAIL(tow_group_get(group, "k", data, sizeof(data), &bytes, TWT_JOB_WAIT_NS));
	MUST_FAIL(tow_group_connect_start(group, (mine + 1) % tow_group_size(group), NULL, &op));
	twt_must(op == NULL && none == NULL);
	twt_must(tow_group_abort(group, "again") == TOW_OK); /* the first text stays */
	MUST_FAIL(tow_coll_barrier_start(group, NULL, &op));
#undef MUST_FAIL
}

/* Until this rank has been told: by a call that needs no other rank. */
static void await_abort(const struct twt_job *job, struct tow_group *group)
{
	uint64_t until_ns = twt_job_now() + TWT_JOB_WAIT_NS;

	while (tow_group_set(group, "k", "v", 1, TWT_JOB_WAIT_NS) == TOW_OK) {
		twt_must(twt_job_now() < until_ns);
		usleep(1000);
	}
}

/* The job and its connections live on. */
static void must_live(const struct twt_job *job)
{
	twt_job_sum(job, job->group, COUNT);
	twt_must(tow_group_barrier(job->group, TWT_JOB_WAIT_NS) == TOW_OK);
}

/* --- in flight --- */

struct flight {
	struct tow_op *ops[2 * FLIGHT];
	int32_t *data;
	int count;
};

/* Rank 0 starts nothing, so none of them can end well. */
static void take_off(const struct twt_job *job, struct tow_group *group, int count, bool pool,
		     struct flight *flight)
{
	uint64_t bytes = (uint64_t)count * COUNT * 4;
	void *memory;

	flight->count = 0;
	flight->data = NULL;
	if (pool)
		twt_must(tow_alloc(job->runtime, bytes, 64, &memory) == TOW_OK);
	else
		memory = malloc(bytes);
	twt_must(memory != NULL);
	flight->data = memory;
	memset(memory, 1, bytes);
	for (int i = 0; i < count; i++) {
		int32_t *at = flight->data + (size_t)i * COUNT;
		/* Small and large, so that some stand at each step. */
		uint64_t elements = i % 3 == 0 ? 1 : i % 3 == 1 ? 300 : COUNT;

		twt_must(tow_coll_all_reduce_start(group, at, at, elements, TOW_S32, TOW_SUM, NULL,
						   &flight->ops[flight->count++]) == TOW_OK);
		if (i % 4 == 0)
			twt_must(tow_group_barrier_start(group, NULL,
							 &flight->ops[flight->count++]) == TOW_OK);
	}
}

static void must_crash(const struct twt_job *job, struct flight *flight, bool pool,
		       const char *words)
{
	char text[512];

	for (int i = 0; i < flight->count; i++) {
		int status = twt_job_end(job, flight->ops[i], text);

		if (status != TOW_EABORTED)
			fprintf(stderr, "operation %d: %s\n", i, tow_status_name(status));
		twt_must(status == TOW_EABORTED);
		must_say(job, text, words);
	}
	if (pool)
		twt_must(tow_free(job->runtime, flight->data) == TOW_OK);
	else
		free(flight->data);
}

struct abort {
	struct tow_group *group;
	const char *reason;
	int status;
};

static void *abort_thread(void *arg)
{
	struct abort *abort = arg;

	abort->status = tow_group_abort(abort->group, abort->reason);
	return NULL;
}

static void abort_beside(const struct twt_job *job, struct tow_group *group, const char *reason)
{
	struct abort abort = { group, reason, TOW_ENOMEM };
	pthread_t thread;

	twt_must(pthread_create(&thread, NULL, abort_thread, &abort) == 0);
	pthread_join(thread, NULL);
	twt_must(abort.status == TOW_OK);
}

/* By rank 0, which starts nothing, or by the last, which is in the middle of it. */
static void play_flight(struct twt_job *job, const void *arg)
{
	static const int counts[] = { 1, 2, 17, FLIGHT };
	int mark = 1;

	(void)arg;
	for (int i = 0; i < 8; i++) {
		int by = i % 2 == 0 ? 0 : job->size - 1;
		struct tow_group *group = make(job);
		struct flight flight;
		char words[80];

		snprintf(words, sizeof(words), "rank %d has aborted the group: round %d", by, i);
		if (job->rank != 0)
			take_off(job, group, counts[i / 2], i < 4, &flight);
		twt_job_meet(job, mark++);
		if (job->rank == by) {
			snprintf(words, sizeof(words), "round %d", i);
			abort_beside(job, group, words);
			snprintf(words, sizeof(words), "rank %d has aborted the group: round %d",
				 by, i);
		}
		if (job->rank != 0)
			must_crash(job, &flight, i < 4, words);
		await_abort(job, group);
		must_be_aborted(job, group, words);
		must_live(job);
		if (i % 4 == 3) {
			struct tow_group *made;

			twt_must(tow_group_shrink(group, TWT_JOB_WAIT_NS, &made) == TOW_OK);
			twt_must(tow_group_size(made) == (uint32_t)job->size);
			twt_job_sum(job, made, COUNT);
			twt_must(tow_group_barrier(made, TWT_JOB_WAIT_NS) == TOW_OK);
			twt_must(tow_group_close(made) == TOW_OK);
		}
		twt_must(tow_group_close(group) == TOW_OK);
		must_live(job);
	}
}

/* --- many at once, and nobody --- */

static void play_two(struct twt_job *job, const void *arg)
{
	struct tow_group *group = make(job), *made;
	struct flight flight;

	(void)arg;
	if (job->rank == 1)
		take_off(job, group, 5, true, &flight);
	twt_job_meet(job, 1);
	if (job->rank != 1)
		abort_beside(job, group, job->rank == 0 ? "zero" : "two");
	if (job->rank == 1)
		must_crash(job, &flight, true, "has aborted the group: ");
	else
		must_be_aborted(job, group, "has aborted the group: ");
	twt_must(tow_group_shrink(group, TWT_JOB_WAIT_NS, &made) == TOW_OK);
	twt_must(tow_group_close(group) == TOW_OK);
	twt_job_sum(job, made, COUNT);
	twt_must(tow_group_barrier(made, TWT_JOB_WAIT_NS) == TOW_OK);
	twt_must(tow_group_close(made) == TOW_OK);
	must_live(job);
}

/* Nobody has used it, and no two ranks are connected: all are told all the same. */
static void play_unused(struct twt_job *job, const void *arg)
{
	struct tow_group *group, *other;
	char words[400], long_reason[400];

	(void)arg;
	twt_must(tow_group_split(job->group, 0, 0, TWT_JOB_WAIT_NS, &group) == TOW_OK);
	twt_must(tow_group_split(job->group, 0, 0, TWT_JOB_WAIT_NS, &other) == TOW_OK);
	twt_job_meet(job, 1);
	if (job->rank == 1) {
		memset(long_reason, 'r', sizeof(long_reason));
		long_reason[sizeof(long_reason) - 1] = '\0';
		twt_must(tow_group_abort(group, long_reason) == TOW_OK);
		twt_must(tow_group_abort(other, NULL) == TOW_OK);
	}
	await_abort(job, group);
	await_abort(job, other);
	snprintf(words, sizeof(words), "rank 1 has aborted the group: %.250s", long_reason);
	if (job->rank == 1) {
		must_be_aborted(job, group, words);
		twt_must(strlen(tow_error_message()) ==
			 strlen("rank 1 has aborted the group: ") + 250);
	}
	must_be_aborted(job, other, "rank 1 has aborted the group");
	twt_must(tow_group_close(group) == TOW_OK);
	twt_must(tow_group_close(other) == TOW_OK);
	must_live(job);
}

/* --- waits in the store --- */

static void play_waits(struct twt_job *job, const void *arg)
{
	static const uint32_t all[] = { 0, 1, 2 };
	struct tow_group *none;
	char data[8];
	size_t bytes;

	(void)arg;
	for (int kind = 0; kind < 3; kind++) {
		struct tow_group *group = make(job);
		int status = TOW_OK;

		twt_job_meet(job, 2 * kind + 1);
		if (job->rank == 2) {
			usleep(30000); /* they wait by then, or are refused at once */
			twt_must(tow_group_abort(group, "enough") == TOW_OK);
		} else if (kind == 0) {
			status = tow_group_split(group, 0, 0, TOW_FOREVER, &none);
		} else if (kind == 1) {
			status = tow_group_create(group, all, 3, NULL, TOW_FOREVER, &none);
		} else {
			status = tow_group_get(group, "nobody's", data, sizeof(data), &bytes,
					       TOW_FOREVER);
		}
		if (job->rank != 2) {
			twt_must(status == TOW_EABORTED);
			must_say(job, tow_error_message(), "rank 2 has aborted the group: enough");
		}
		twt_job_meet(job, 2 * kind + 2);
		twt_must(tow_group_close(group) == TOW_OK);
		must_live(job);
	}
}

/* --- from a callback; of a broken group; closed at once --- */

static struct tow_group *callback_group;
static atomic_int callback_status;

static void on_done(struct tow_op *op, const struct tow_result *result)
{
	(void)result;
	atomic_store(&callback_status, tow_group_abort(callback_group, "in a callback"));
	tow_op_release(op);
}

static void play_callback(struct twt_job *job, const void *arg)
{
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
	struct tow_group *group = make(job);
	struct flight flight;
	struct tow_op *op;

	(void)arg;
	callback_group = group;
	atomic_store(&callback_status, 1);
	options.done = on_done;
	if (job->rank != 0)
		take_off(job, group, 7, true, &flight);
	/* One of the job ends well, everywhere; its callback ends those of the group. */
	twt_must(tow_coll_barrier_start(job->group, job->rank == 0 ? &options : NULL, &op) ==
		 TOW_OK);
	if (job->rank != 0) {
		char text[512];

		twt_must(twt_job_end(job, op, text) == TOW_OK);
		must_crash(job, &flight, true, "rank 0 has aborted the group: in a callback");
	}
	while (job->rank == 0 && atomic_load(&callback_status) == 1)
		twt_must(tow_progress(job->runtime) >= TOW_OK);
	twt_must(job->rank != 0 || atomic_load(&callback_status) == TOW_OK);
	must_be_aborted(job, group, "rank 0 has aborted the group: in a callback");
	twt_must(tow_group_close(group) == TOW_OK);
	must_live(job);
}

/* A barrier goes on in a group whose collectives have failed; the abort ends it. */
static void play_broken(struct twt_job *job, const void *arg)
{
	struct tow_group *group = make(job);
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
	struct tow_op *op, *barrier;
	char text[512];

	(void)arg;
	options.timeout_ns = 200000000;
	if (job->rank != 0) {
		twt_must(tow_group_barrier_start(group, NULL, &barrier) == TOW_OK);
		twt_must(tow_coll_barrier_start(group, &options, &op) == TOW_OK);
		twt_must(twt_job_end(job, op, text) < 0);
	}
	twt_job_meet(job, 1);
	if (job->rank == 0)
		twt_must(tow_group_abort(group, "broken") == TOW_OK);
	else
		twt_must(twt_job_end(job, barrier, text) == TOW_EABORTED);
	must_be_aborted(job, group, "rank 0 has aborted the group: broken");
	twt_must(tow_group_close(group) == TOW_OK);
	must_live(job);
}

/* Whoever aborts closes at once, with everything in flight, at both sides. */
static void play_close(struct twt_job *job, const void *arg)
{
	(void)arg;
	for (int i = 0; i < 10; i++) {
		struct tow_group *group = make(job);
		struct flight flight;

		if (job->rank != 0)
			take_off(job, group, 9, i % 2 == 0, &flight);
		twt_job_meet(job, i + 1);
		if (job->rank == i % job->size)
			twt_must(tow_group_abort(group, "and closed") == TOW_OK);
		if (job->rank != 0 && job->rank == i % job->size) {
			twt_must(tow_group_close(group) == TOW_OK);
			must_crash(job, &flight, i % 2 == 0, "has aborted the group: and closed");
		} else if (job->rank != 0) {
			must_crash(job, &flight, i % 2 == 0, "has aborted the group: and closed");
			twt_must(tow_group_close(group) == TOW_OK);
		} else {
			await_abort(job, group);
			twt_must(tow_group_close(group) == TOW_OK);
		}
		must_live(job);
	}
}

static const struct {
	int size;
	void (*play)(struct twt_job *job, const void *plan);
} cases[] = { { 3, play_flight }, { 2, play_flight },   { 3, play_two },    { 4, play_unused },
	      { 3, play_waits },  { 3, play_callback }, { 3, play_broken }, { 3, play_close } };

/* A lane that this build or system has not got is left out, by who opens the first group. */
static void run(size_t which)
{
	const char *address = twt_job_addresses[which % TWT_JOB_ADDRESSES];

	if (address != NULL)
		twt_job_run(address, cases[which / TWT_JOB_ADDRESSES].size, 0,
			    cases[which / TWT_JOB_ADDRESSES].play, NULL, NULL);
}

static void all_cases(void **state)
{
	(void)state;
	twt_beside(TWT_JOB_ADDRESSES * sizeof(cases) / sizeof(cases[0]), AT_ONCE, run);
}

static void play_single(struct twt_job *job, const void *arg)
{
	struct tow_group *made;

	(void)arg;
	twt_must(tow_group_split(job->group, 0, 0, TWT_JOB_WAIT_NS, &made) == TOW_OK);
	twt_must(tow_group_abort(made, "alone") == TOW_OK);
	twt_must(tow_group_barrier(made, TWT_JOB_WAIT_NS) == TOW_EABORTED);
	must_say(job, tow_error_message(), "rank 0 has aborted the group: alone");
	twt_must(tow_group_close(made) == TOW_OK);
	twt_must(tow_group_abort(NULL, "none") == TOW_EINVAL);
	twt_job_sum(job, job->group, COUNT);
}

static void single(void **state)
{
	(void)state;
	twt_job_run("tcp", 1, 0, play_single, NULL, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(all_cases), cmocka_unit_test(single) };

	twt_job_pool_bytes = 4 << 20; /* an endpoint of ofi takes 2 MiB */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
