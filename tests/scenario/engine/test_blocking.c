/*
 * test_blocking.c - calls that start, wait and release in one: over every lane between processes.
 */
#include "coll_job.h"
#include "pair.h"

#include <pthread.h>
#include <time.h>

#define KIB   1024u
#define LARGE (3u * KIB * KIB + 1)
#define MS    1000000ull

static const char *const lanes[] = { "tcp", "shm", "ofi://tcp", "tow://127.0.0.1" };
static unsigned char out[LARGE], in[LARGE];

static void ring(struct twt_job *job, uint64_t bytes, uint64_t tag)
{
	uint32_t size = (uint32_t)job->size, rank = (uint32_t)job->rank;
	uint32_t to = (rank + 1) % size, from = (rank + size - 1) % size;
	uint64_t got = 77;

	twt_fill(out, bytes, rank);
	memset(in, 0, bytes);
	if (rank % 2 == 0)
		twt_must(tow_send(job->group, to, out, bytes, tag, TWT_JOB_WAIT_NS) >= TOW_OK);
	twt_must(tow_recv(job->group, from, in, LARGE, tag, TWT_JOB_WAIT_NS, &got) >= TOW_OK);
	if (rank % 2 != 0)
		twt_must(tow_send(job->group, to, out, bytes, tag, TWT_JOB_WAIT_NS) >= TOW_OK);
	twt_must(got == bytes);
	twt_must(twt_check(in, bytes, from) == 0);
}

static void play_messages(struct twt_job *job, const void *plan)
{
	static const uint64_t sizes[] = { 0, 8, 4 * KIB, 100 * KIB, LARGE };

	(void)plan;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (uint64_t turn = 0; turn < 3; turn++)
			ring(job, sizes[i], turn % 2);
	}
	twt_must(tow_group_barrier(job->group, TWT_JOB_WAIT_NS) == TOW_OK);
}

/* What has run out of time is over: the next call gets the message, or nobody does. */
static void play_deadlines(struct twt_job *job, const void *plan)
{
	uint32_t other = (uint32_t)(job->rank == 0);
	struct tow_peer *peer = NULL, *again = NULL;
	uint64_t got = 77;

	(void)plan;
	twt_must(tow_group_connect(job->group, other, TWT_JOB_WAIT_NS, &peer) == TOW_OK);
	twt_must(tow_group_connect(job->group, other, 0, &again) == TOW_OK && again == peer);
	twt_must(tow_recv(job->group, other, in, 8, 5, 20 * MS, &got) == TOW_EDEADLINE);
	twt_must(got == 0);
	twt_must(tow_send(job->group, other, out, LARGE, 6, 20 * MS) == TOW_EDEADLINE);
	twt_must(tow_send(job->group, other, out, 40000, 6, 20 * MS) == TOW_EDEADLINE);
	twt_must(tow_group_barrier(job->group, TWT_JOB_WAIT_NS) == TOW_OK);
	twt_fill(out, 8, 40 + (unsigned)job->rank);
	twt_must(tow_send(job->group, other, out, 8, 5, TWT_JOB_WAIT_NS) >= TOW_OK);
	twt_must(tow_recv(job->group, other, in, 8, 5, TWT_JOB_WAIT_NS, &got) >= TOW_OK);
	twt_fill(out, 8, 40 + other);
	twt_must(got == 8 && memcmp(in, out, 8) == 0);
	twt_must(tow_recv(job->group, other, in, LARGE, 6, 20 * MS, &got) == TOW_EDEADLINE);
	twt_must(tow_group_barrier(job->group, TWT_JOB_WAIT_NS) == TOW_OK);
}

static void play_mistakes(struct twt_job *job, const void *plan)
{
	struct tow_peer *peer = (struct tow_peer *)job;
	uint32_t other = (uint32_t)(job->rank == 0);

	(void)plan;
	twt_must(tow_group_connect(NULL, 0, 0, &peer) == TOW_EINVAL && peer == NULL);
	twt_must(tow_group_connect(job->group, (uint32_t)job->rank, 0, NULL) == TOW_EINVAL);
	twt_must(tow_group_connect(job->group, 9, 0, NULL) == TOW_EINVAL);
	twt_must(tow_send(NULL, 0, out, 8, 1, 0) == TOW_EINVAL);
	twt_must(tow_send(job->group, 9, out, 8, 1, 0) == TOW_EINVAL);
	twt_must(tow_send(job->group, other, NULL, 8, 1, TWT_JOB_WAIT_NS) == TOW_EINVAL);
	twt_must(tow_recv(job->group, other, NULL, 8, 1, TWT_JOB_WAIT_NS, NULL) == TOW_EINVAL);
	/* one that is too long says how long it was, and is gone */
	twt_must(tow_send(job->group, other, out, 100, 2, TWT_JOB_WAIT_NS) >= TOW_OK);
	twt_must(tow_recv(job->group, other, in, 8, 2, TWT_JOB_WAIT_NS, NULL) == TOW_ETRUNCATED);
	twt_must(tow_group_barrier(job->group, TWT_JOB_WAIT_NS) == TOW_OK);
}

static void over_lanes(int ranks, void (*play)(struct twt_job *job, const void *plan))
{
	for (size_t i = 0; i < sizeof(lanes) / sizeof(lanes[0]); i++)
		twt_job_run(lanes[i], ranks, 0, play, NULL, NULL);
}

static void test_messages(void **state)
{
	(void)state;
	over_lanes(3, play_messages);
}

static void test_deadlines(void **state)
{
	(void)state;
	over_lanes(2, play_deadlines);
}

static void test_mistakes(void **state)
{
	(void)state;
	over_lanes(2, play_mistakes);
}

/* The last one ends first; one fails; one never ends. */
static void play_wait_all(struct twt_job *job, const void *plan)
{
	uint32_t other = (uint32_t)(job->rank == 0);
	struct tow_op *ops[5] = { NULL };

	(void)plan;
	twt_must(tow_wait_all(NULL, 0, 0) == TOW_OK && tow_wait_all(ops, 5, 0) == TOW_OK);
	twt_must(tow_wait_all(NULL, 1, 0) == TOW_EINVAL);
	for (uint64_t tag = 0; tag < 4; tag++)
		twt_must(tow_group_recv_start(job->group, other, in + 64 * tag, 64, tag, NULL,
					      &ops[tag]) == TOW_OK);
	twt_must(tow_wait_all(ops, 5, 20 * MS) == TOW_ETIMEDOUT);
	twt_must(strstr(tow_error_message(), "of tag 0") != NULL);
	twt_must(tow_group_barrier(job->group, TWT_JOB_WAIT_NS) == TOW_OK);
	for (uint64_t tag = 4; tag-- > 0;)
		twt_must(tow_send(job->group, other, out, tag == 2 ? 65 : 64, tag,
				  TWT_JOB_WAIT_NS) >= TOW_OK);
	twt_must(tow_wait_all(ops, 5, TWT_JOB_WAIT_NS) == TOW_ETRUNCATED);
	twt_must(tow_op_test(ops[0]) == TOW_OK && tow_op_test(ops[3]) == TOW_OK);
	for (int i = 0; i < 4; i++)
		twt_must(tow_op_release(ops[i]) == TOW_OK);
	twt_must(tow_group_barrier(job->group, TWT_JOB_WAIT_NS) == TOW_OK);
}

static void test_wait_all(void **state)
{
	(void)state;
	over_lanes(2, play_wait_all);
}

static void refuse_any(struct twt_job *job, struct tow_op *op)
{
	struct tow_op *ops[2] = { NULL, op };
	size_t at = 5;

	twt_must(tow_wait_any(NULL, 0, 0, &at) == TOW_EINVAL && at == SIZE_MAX);
	at = 5;
	twt_must(tow_wait_any(ops, 1, 0, &at) == TOW_EINVAL && at == SIZE_MAX);
	twt_must(strstr(tow_error_message(), "none of the 1 entries") != NULL);
	twt_must(tow_wait_any(ops, 0, 0, &at) == TOW_EINVAL);
	twt_must(tow_wait_any(ops, 2, 0, NULL) == TOW_EINVAL);
	twt_must(tow_wait_any(ops, 2, 0, &at) == TOW_ETIMEDOUT && at == SIZE_MAX);
	twt_must(tow_wait_any(ops, 2, 20 * MS, &at) == TOW_ETIMEDOUT && at == SIZE_MAX);
	twt_must(strstr(tow_error_message(), "none of 1 operations") != NULL);
	twt_must(strstr(tow_error_message(), "of tag 0") != NULL);
}

/* They end one after another, the last one first; the third fails. Each is given once. */
static void play_wait_any(struct twt_job *job, const void *plan)
{
	uint32_t other = (uint32_t)(job->rank == 0);
	struct tow_op *ops[6] = { NULL };
	size_t at;

	(void)plan;
	for (uint64_t tag = 0; tag < 4; tag++)
		twt_must(tow_group_recv_start(job->group, other, in + 64 * tag, 64, tag, NULL,
					      &ops[tag]) == TOW_OK);
	ops[5] = ops[3]; /* twice is legal */
	refuse_any(job, ops[0]);
	for (uint64_t tag = 4; tag-- > 0;) {
		twt_must(tow_group_barrier(job->group, TWT_JOB_WAIT_NS) == TOW_OK);
		twt_must(tow_send(job->group, other, out, tag == 2 ? 65 : 64, tag,
				  TWT_JOB_WAIT_NS) >= TOW_OK);
		at = SIZE_MAX;
		twt_must(tow_wait_any(ops, 6, TWT_JOB_WAIT_NS, &at) ==
			 (tag == 2 ? TOW_ETRUNCATED : TOW_OK));
		twt_must(at == tag && tow_op_test(ops[at]) != TOW_EINVAL);
		/* again, as it is not released */
		twt_must(tow_wait_any(ops, 6, 0, &at) == (tag == 2 ? TOW_ETRUNCATED : TOW_OK));
		twt_must(at == tag && tow_op_release(ops[at]) == TOW_OK);
		twt_must(tow_wait_any(ops, 6, 0, &at) == TOW_EINVAL && at == SIZE_MAX);
		twt_must(strstr(tow_error_message(), "was released before") != NULL);
		ops[tag] = NULL;
		if (tag == 3)
			ops[5] = NULL;
	}
	twt_must(tow_group_barrier(job->group, TWT_JOB_WAIT_NS) == TOW_OK);
}

static void test_wait_any(void **state)
{
	(void)state;
	over_lanes(2, play_wait_any);
}

#define CROWD   8u
#define EACH    40u /* of one thread: more than what needs no memory */
#define CALM_NS (200 * MS)

struct any_thread {
	pthread_t thread;
	struct twt_job *job;
	struct tow_op *never; /* waited for by all of them */
	uint64_t first_tag;
	uint64_t cpu_ns;
	uint32_t other; /* rank */
};

static uint64_t thread_cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000 * MS + (uint64_t)ts.tv_nsec;
}

/* Waits in vain for a while, then gets all that is its own, each once, in whatever order. */
static void *gather(void *arg)
{
	struct any_thread *my = arg;
	struct twt_job *job = my->job;
	struct tow_op *ops[EACH + 1];
	unsigned char data[EACH];
	uint64_t cpu_ns;
	size_t at;

	for (size_t i = 0; i < EACH; i++)
		twt_must(tow_group_recv_start(my->job->group, my->other, &data[i], 1,
					      my->first_tag + i, NULL, &ops[i]) == TOW_OK);
	ops[EACH] = my->never;
	cpu_ns = thread_cpu_ns();
	twt_must(tow_wait_any(ops, EACH + 1, CALM_NS, &at) == TOW_ETIMEDOUT && at == SIZE_MAX);
	my->cpu_ns = thread_cpu_ns() - cpu_ns;
	atomic_fetch_add(&twt_marks->at[job->rank], 1);
	for (size_t left = EACH; left > 0; left--) {
		twt_must(tow_wait_any(ops, EACH + 1, TWT_JOB_WAIT_NS, &at) == TOW_OK);
		twt_must(at < EACH && data[at] == (unsigned char)(my->first_tag + at));
		twt_must(tow_op_release(ops[at]) == TOW_OK);
		ops[at] = NULL;
	}
	return NULL;
}

/* What the threads of the other rank wait for: the tags of one thread in turn with the others'. */
static void feed(struct twt_job *job, uint32_t other)
{
	while (atomic_load(&twt_marks->at[other]) < (int)CROWD)
		usleep(1000);
	for (uint64_t i = EACH; i-- > 0;) {
		for (uint64_t k = 0; k < CROWD; k++) {
			unsigned char word = (unsigned char)(100 * k + i);

			twt_must(tow_send(job->group, other, &word, 1, 100 * k + i,
					  TWT_JOB_WAIT_NS) >= TOW_OK);
		}
	}
}

/* Many wait and one drives: nobody polls for longer than a wait does, of 41 operations each. */
static void play_crowd(struct twt_job *job, const void *plan)
{
	uint32_t other = (uint32_t)(job->rank == 0);
	struct any_thread threads[CROWD];
	struct tow_op *never;
	uint64_t cpu_ns = 0;
	char word;

	(void)plan;
	twt_must(tow_group_recv_start(job->group, other, &word, 1, 7777, NULL, &never) == TOW_OK);
	for (unsigned i = 0; i < CROWD; i++) {
		threads[i] = (struct any_thread){
			.job = job, .other = other, .never = never, .first_tag = 100ull * i
		};
		twt_must(pthread_create(&threads[i].thread, NULL, gather, &threads[i]) == 0);
	}
	feed(job, other);
	for (unsigned i = 0; i < CROWD; i++) {
		pthread_join(threads[i].thread, NULL);
		cpu_ns += threads[i].cpu_ns;
	}
	/* One that polls would have had 200 ms by itself, eight more. */
	twt_must(cpu_ns < CALM_NS / 2);
	twt_must(tow_op_cancel(never) == TOW_OK);
	twt_must(tow_op_wait(never, TWT_JOB_WAIT_NS) == TOW_ECANCELED);
	twt_must(tow_op_release(never) == TOW_OK);
	twt_must(tow_group_barrier(job->group, TWT_JOB_WAIT_NS) == TOW_OK);
}

static void test_crowd(void **state)
{
	(void)state;
	over_lanes(2, play_crowd);
	setenv("TOW_BACKGROUND", "0", 1); /* whoever waits must drive */
	twt_job_run("tcp", 2, 0, play_crowd, NULL, NULL);
	twt_job_run("shm", 2, 0, play_crowd, NULL, NULL);
	unsetenv("TOW_BACKGROUND");
	setenv("TOW_POLLER", "epoll", 1);
	twt_job_run("tcp", 2, 0, play_crowd, NULL, NULL);
	unsetenv("TOW_POLLER");
}

static size_t ended_at;

static void wait_inside(struct tow_op *op, const struct tow_result *result)
{
	struct tow_op **ops = result->user;

	(void)op;
	if (tow_wait_any(ops, 1, 0, &ended_at) != TOW_EINVAL)
		_exit(1);
}

/* Within a callback nobody may wait; operations of two runtimes have no common driver. */
static void play_any_mistakes(struct twt_job *job, const void *plan)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_options plain = TOW_OPTIONS_INIT;
	uint32_t other = (uint32_t)(job->rank == 0);
	struct tow_endpoint *endpoint;
	struct tow_runtime *second;
	struct tow_op *ops[3];
	size_t at;

	(void)plan;
	plain.stats = 0;
	plain.premap_memory_bytes = 4 * KIB * KIB;
	twt_must(tow_group_recv_start(job->group, other, in, 64, 1, NULL, &ops[0]) == TOW_OK);
	ended_at = 5;
	options.done = wait_inside;
	options.user = &ops[0];
	twt_must(tow_group_recv_start(job->group, other, in + 64, 64, 2, &options, &ops[1]) ==
		 TOW_OK);
	twt_must(tow_runtime_open(&plain, &second) == TOW_OK);
	twt_must(tow_endpoint_open(second, "tcp://127.0.0.1:0", &endpoint) == TOW_OK);
	twt_must(tow_accept_start(endpoint, NULL, &ops[2]) == TOW_OK);
	twt_must(tow_wait_any(ops, 3, 0, &at) == TOW_EINVAL && at == SIZE_MAX);
	twt_must(strstr(tow_error_message(), "operations 0 and 2") != NULL);
	twt_must(tow_op_release(ops[2]) == TOW_OK && tow_runtime_close(second) == TOW_OK);
	twt_must(tow_send(job->group, other, out, 64, 2, TWT_JOB_WAIT_NS) >= TOW_OK);
	twt_must(tow_wait_any(ops, 2, TWT_JOB_WAIT_NS, &at) == TOW_OK && at == 1);
	twt_must(ended_at == SIZE_MAX);
	twt_must(tow_op_release(ops[1]) == TOW_OK);
	/* else the first could be done by then */
	twt_must(tow_group_barrier(job->group, TWT_JOB_WAIT_NS) == TOW_OK);
	twt_must(tow_send(job->group, other, out, 64, 1, TWT_JOB_WAIT_NS) >= TOW_OK);
	twt_must(tow_wait_any(ops, 1, TOW_FOREVER, &at) == TOW_OK && at == 0);
	twt_must(tow_op_release(ops[0]) == TOW_OK);
	twt_must(tow_group_barrier(job->group, TWT_JOB_WAIT_NS) == TOW_OK);
}

static void test_any_mistakes(void **state)
{
	(void)state;
	twt_job_run("tcp", 2, 0, play_any_mistakes, NULL, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_messages),     cmocka_unit_test(test_deadlines),
		cmocka_unit_test(test_mistakes),     cmocka_unit_test(test_wait_all),
		cmocka_unit_test(test_wait_any),     cmocka_unit_test(test_crowd),
		cmocka_unit_test(test_any_mistakes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
