/*
 * test_blocking.c - calls that start, wait and release in one: over every lane between processes.
 */
#include "coll_job.h"

#define KIB   1024u
#define LARGE (3u * KIB * KIB + 1)
#define MS    1000000ull

static const char *const lanes[] = { "tcp", "shm", "ofi://tcp", "tow://127.0.0.1" };
static unsigned char out[LARGE], in[LARGE];

static void fill(unsigned char *data, size_t bytes, unsigned seed)
{
	for (size_t i = 0; i < bytes; i++)
		data[i] = (unsigned char)(i * 31 + seed);
}

static void ring(struct twt_job *job, uint64_t bytes, uint64_t tag)
{
	uint32_t size = (uint32_t)job->size, rank = (uint32_t)job->rank;
	uint32_t to = (rank + 1) % size, from = (rank + size - 1) % size;
	uint64_t got = 77;

	fill(out, bytes, rank);
	memset(in, 0, bytes);
	if (rank % 2 == 0)
		twt_must(tow_send(job->group, to, out, bytes, tag, TWT_JOB_WAIT_NS) >= TOW_OK);
	twt_must(tow_recv(job->group, from, in, LARGE, tag, TWT_JOB_WAIT_NS, &got) >= TOW_OK);
	if (rank % 2 != 0)
		twt_must(tow_send(job->group, to, out, bytes, tag, TWT_JOB_WAIT_NS) >= TOW_OK);
	twt_must(got == bytes);
	fill(out, bytes, from);
	twt_must(memcmp(in, out, bytes) == 0);
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
	twt_must(tow_group_barrier(job->group, TWT_JOB_WAIT_NS) == TOW_OK);
	fill(out, 8, 40 + (unsigned)job->rank);
	twt_must(tow_send(job->group, other, out, 8, 5, TWT_JOB_WAIT_NS) >= TOW_OK);
	twt_must(tow_recv(job->group, other, in, 8, 5, TWT_JOB_WAIT_NS, &got) >= TOW_OK);
	fill(out, 8, 40 + other);
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
	struct tow_peer *peer;

	(void)plan;
	twt_must(tow_group_connect(job->group, other, TWT_JOB_WAIT_NS, &peer) == TOW_OK);
	twt_must(tow_wait_all(NULL, 0, 0) == TOW_OK && tow_wait_all(ops, 5, 0) == TOW_OK);
	twt_must(tow_wait_all(NULL, 1, 0) == TOW_EINVAL);
	for (uint64_t tag = 0; tag < 4; tag++)
		twt_must(tow_recv_start(peer, in + 64 * tag, 64, tag, NULL, &ops[tag]) == TOW_OK);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_messages),
		cmocka_unit_test(test_deadlines),
		cmocka_unit_test(test_mistakes),
		cmocka_unit_test(test_wait_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
