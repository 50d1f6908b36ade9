/*
 * test_group_message_ends.c - what ends the messages of groups, over each lane: a group that is
 * closed or aborted, or is made later, ranks that have gone, deadlines, cancels; their order; and
 * arguments that are wrong.
 */
#include "beside.h"
#include "coll_job.h"

#include <pthread.h>

#define AT_ONCE 4
#define WAITS   TWT_JOB_WAIT_NS
#define GONE_NS 10000000000ull /* until it is known that nobody listens, which takes 0.7 s */
#define HELD_NS 40000000000ull /* until the kernel has closed a dead process's sockets */

#define must_end(job, op, status, words) end_with(job, op, status, words, __LINE__)

static void end_with(const struct twt_job *job, struct tow_op *op, int status, const char *words,
		     int line)
{
	char text[512];
	int ended = twt_job_end(job, op, text);

	if (ended != status || strstr(text, words) == NULL)
		fprintf(stderr, "line %d: ended with %s: %s\n", line, tow_status_name(ended), text);
	twt_must(ended == status && strstr(text, words) != NULL);
}

static struct tow_op *hear(const struct twt_job *job, struct tow_group *group, uint64_t rank,
			   uint64_t tag, uint8_t *data, uint64_t bytes)
{
	const struct tow_part part = { data, bytes };
	struct tow_group_match match = TOW_GROUP_MATCH_INIT;
	struct tow_op *op;

	match.rank = rank;
	match.tag = tag;
	twt_must(tow_group_recv_match_start(group, &match, &part, 1, NULL, &op) == TOW_OK);
	return op;
}

static struct tow_op *say(const struct twt_job *job, struct tow_group *group, uint32_t rank,
			  uint64_t tag, const uint8_t *data, uint64_t bytes)
{
	struct tow_op *op;

	twt_must(tow_group_send_start(group, rank, data, bytes, tag, NULL, &op) == TOW_OK);
	return op;
}

static uint8_t memory[4][1u << 20];

static struct tow_group *second_group(const struct twt_job *job)
{
	struct tow_group *group;

	twt_must(tow_group_split(job->group, 1, job->rank, WAITS, &group) == TOW_OK);
	twt_must(tow_group_id(group) != tow_group_id(job->group) && tow_group_id(job->group) == 0);
	return group;
}

/*
 * Rank 0 closes a group: what both have in flight there ends, what had come small is still there,
 * and the group of all goes on. used: they have talked there before.
 */
static void close_group(struct twt_job *job, bool used)
{
	struct tow_group *group = second_group(job);
	struct tow_op *ops[4], *other;
	uint32_t to = 1 - (uint32_t)job->rank;

	other = hear(job, job->group, to, 5, memory[3], 8);
	if (used) {
		must_end(job, say(job, group, to, 1, memory[0], 8), TOW_OK, "");
		must_end(job, hear(job, group, to, 1, memory[1], 8), TOW_OK, "");
	}
	if (job->rank == 0) {
		ops[0] = hear(job, group, 1, 77, memory[0], 8);
		ops[1] = hear(job, group, TOW_RANK_ANY, 78, memory[1], 8);
		ops[2] = hear(job, group, 0, 79, memory[2], 8);
		twt_job_meet(job, 1);
		twt_job_meet(job, 2);
		twt_must(tow_group_close(group) == TOW_OK);
		for (int i = 0; i < 3; i++)
			must_end(job, ops[i], TOW_ECLOSED, "was closed");
		twt_job_meet(job, 3);
	} else {
		twt_job_meet(job, 1);
		ops[0] = say(job, group, 0, 1, memory[0], sizeof(memory[0])); /* nobody takes it */
		ops[1] = hear(job, group, 0, 2, memory[1], 8);
		ops[2] = hear(job, group, TOW_RANK_ANY, 2, memory[2], 8);
		twt_job_meet(job, 2);
		twt_job_meet(job, 3);
		must_end(job, ops[0], TOW_EPEER, "has closed group ");
		must_end(job, ops[1], TOW_EPEER, "has closed group ");
		must_end(job, say(job, group, 0, 3, memory[0], 8), TOW_EPEER, "has closed group ");
		/* One of any rank goes on: here is another sender. */
		must_end(job, say(job, group, 1, 2, memory[0], 8), TOW_OK, "");
		must_end(job, ops[2], TOW_OK, "");
		twt_must(tow_group_close(group) == TOW_OK);
	}
	must_end(job, say(job, job->group, to, 5, memory[0], 8), TOW_OK, "");
	must_end(job, other, TOW_OK, "");
	twt_job_meet(job, 4);
}

static void play_close(struct twt_job *job, const void *arg)
{
	(void)arg;
	close_group(job, true);
}

static void play_close_unused(struct twt_job *job, const void *arg)
{
	(void)arg;
	close_group(job, false);
}

/* A group that has gone before the other side says the first word in it. */
static void play_gone(struct twt_job *job, const void *arg)
{
	struct tow_group *group = second_group(job);

	(void)arg;
	if (job->rank == 0)
		twt_must(tow_group_close(group) == TOW_OK);
	twt_job_meet(job, 1);
	if (job->rank == 1) {
		struct tow_op *heard = hear(job, group, 0, 1, memory[1], 8);

		/* A small one may be on its way before its end is known, a large one not. */
		must_end(job, say(job, group, 0, 1, memory[0], sizeof(memory[0])), TOW_EPEER,
			 "has closed group ");
		must_end(job, heard, TOW_EPEER, "has closed group ");
		twt_must(tow_group_close(group) == TOW_OK);
	}
	twt_job_meet(job, 2);
}

/* Messages to a group that is made at the other side long after. */
static void play_early(struct twt_job *job, const void *arg)
{
	static const uint32_t both[] = { 0, 1 };
	struct tow_group *group;
	struct tow_op *op;

	(void)arg;
	/* They are connected already, or not: so both ways are gone. */
	if (job->rank == 1)
		must_end(job, say(job, job->group, 0, 1, memory[0], 8), TOW_OK, "");
	else
		must_end(job, hear(job, job->group, TOW_RANK_ANY, 1, memory[1], 8), TOW_OK, "");
	for (int i = 0; i < 6; i++) {
		twt_must(tow_group_create(job->group, both, 2, NULL, WAITS, &group) == TOW_OK);
		if (job->rank == i % 2) {
			memory[0][0] = (uint8_t)(40 + i);
			op = say(job, group, 1 - (uint32_t)job->rank, 9, memory[0],
				 i < 3 ? 8 : 100000);
			must_end(job, op, TOW_OK, "");
		} else {
			memory[1][0] = 0;
			must_end(job, hear(job, group, TOW_RANK_ANY, 9, memory[1], 100000), TOW_OK,
				 "");
			twt_must(memory[1][0] == 40 + i);
		}
		twt_must(tow_group_barrier(group, WAITS) == TOW_OK);
		twt_must(tow_group_close(group) == TOW_OK);
	}
	twt_job_meet(job, 1);
}

/* One rank aborts: posted, of any rank, to oneself, large and unmatched, small and unconnected. */
static void play_abort(struct twt_job *job, const void *arg)
{
	struct tow_group *group = second_group(job);
	uint32_t mine = (uint32_t)job->rank, to = (mine + 1) % 3;
	struct tow_op *ops[5], *late;

	(void)arg;
	ops[0] = hear(job, group, to, 1, memory[0], 8);
	ops[1] = hear(job, group, TOW_RANK_ANY, 2, memory[1], 8);
	ops[2] = hear(job, group, mine, 3, memory[2], 8);
	ops[3] = say(job, group, to, 4, memory[3], sizeof(memory[3]));
	ops[4] = say(job, group, mine, 5, memory[3], sizeof(memory[3]));
	if (mine == 1) {
		twt_must(twt_job_reached(7u & ~2u, 1));
		twt_must(tow_group_abort(group, "enough") == TOW_OK);
	}
	twt_job_mark(job, 1);
	for (int i = 0; i < 5; i++)
		must_end(job, ops[i], TOW_EABORTED, "rank 1 has aborted the group: enough");
	twt_must(tow_group_send_start(group, to, memory[0], 8, 1, NULL, &late) == TOW_EABORTED);
	twt_must(late == NULL && strstr(tow_error_message(), "enough") != NULL);
	must_end(job, say(job, job->group, mine, 6, memory[0], 8), TOW_OK, "");
	must_end(job, hear(job, job->group, mine, 6, memory[1], 8), TOW_OK, "");
	twt_job_meet(job, 2);
	twt_must(tow_group_close(group) == TOW_OK);
}

/* Receives from rank 2, to which there is no connection. Returns how that ends. */
static int ask_the_dead(const struct twt_job *job)
{
	uint64_t since_ns = twt_job_now();
	char text[512];
	int ended = twt_job_end(job, hear(job, job->group, 2, 3, memory[2], 8), text);

	twt_must(ended == TOW_EDEADLINE || twt_job_now() - since_ns < GONE_NS);
	twt_must(strstr(text, "no connection to rank 2 of the job") != NULL);
	return ended;
}

/*
 * Only where the kernel is seen to have the dead process's sockets may the connect's deadline come
 * first. Then the answer is due when it has them no more.
 */
static void hear_the_dead(const struct twt_job *job)
{
	bool held = twt_listening_held(&twt_marks->listening);
	uint64_t until = twt_job_now() + HELD_NS;
	int ended = ask_the_dead(job);

	if (ended == TOW_EDEADLINE && (held || twt_listening_held(&twt_marks->listening))) {
		while (twt_listening_held(&twt_marks->listening) && twt_job_now() < until)
			usleep(10000);
		ended = ask_the_dead(job);
	}
	twt_must(ended == TOW_EPEER || ended == TOW_EREFUSED);
	twt_job_mark(job, 3);
}

/* Rank 2 dies, to which rank 0 is connected and rank 1 is not. */
static void play_dead(struct twt_job *job, const void *arg)
{
	struct tow_op *any, *heard = NULL;

	(void)arg;
	if (job->rank == 2) {
		must_end(job, say(job, job->group, 0, 1, memory[0], 8), TOW_OK, "");
		twt_job_mark(job, 1);
		twt_must(twt_job_reached(1, 1));
		twt_listening_find(&twt_marks->listening);
		raise(SIGKILL);
	}
	any = hear(job, job->group, TOW_RANK_ANY, 2, memory[1], 8);
	if (job->rank == 0) {
		must_end(job, hear(job, job->group, 2, 1, memory[0], 8), TOW_OK, "");
		heard = hear(job, job->group, 2, 3, memory[2], 8);
		twt_job_mark(job, 1);
		must_end(job, heard, TOW_EPEER, "");
		twt_job_mark(job, 2);
		for (int i = 0; i < 3 && !twt_job_reached(2, 3); i++)
			continue; /* each call waits 20 s */
	} else {
		twt_must(twt_job_reached(1, 2));
		hear_the_dead(job);
	}
	/* The others go on, also who waits for anybody. */
	must_end(job, say(job, job->group, 1 - (uint32_t)job->rank, 2, memory[0], 8), TOW_OK, "");
	must_end(job, any, TOW_OK, "");
}

/* Deadlines and cancels, of what waits for a connection and of what waits for a message. */
static void play_ends(struct twt_job *job, const void *arg)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	uint32_t to = 1 - (uint32_t)job->rank;
	struct tow_op *ops[3];

	(void)arg;
	for (int turn = 0; turn < 2; turn++) {
		options.timeout_ns = 1;
		twt_must(tow_group_recv_start(job->group, to, memory[0], 8, 1, &options, &ops[0]) ==
			 TOW_OK);
		must_end(job, ops[0], TOW_EDEADLINE, "");
		ops[0] = hear(job, job->group, to, 2, memory[0], 8);
		ops[1] = hear(job, job->group, TOW_RANK_ANY, 3, memory[1], 8);
		ops[2] = say(job, job->group, to, 4, memory[2], sizeof(memory[2]));
		for (int i = 0; i < 3; i++) {
			twt_must(tow_op_cancel(ops[i]) == TOW_OK);
			must_end(job, ops[i], TOW_ECANCELED, "");
		}
		twt_job_meet(job, 1 + turn);
	}
	/* All is as before. */
	ops[0] = say(job, job->group, to, 4, memory[2], sizeof(memory[2]));
	must_end(job, hear(job, job->group, to, 4, memory[0], sizeof(memory[0])), TOW_OK, "");
	must_end(job, ops[0], TOW_OK, "");
	twt_job_meet(job, 3);
}

/* A receive that waits for its connection has its place among those of any rank. */
static void play_order(struct twt_job *job, const void *arg)
{
	struct tow_op *first, *second;

	(void)arg;
	if (job->rank == 0) {
		first = hear(job, job->group, 1, 1, memory[0], 8);
		second = hear(job, job->group, TOW_RANK_ANY, 1, memory[1], 8);
		twt_job_meet(job, 1);
		must_end(job, first, TOW_OK, "");
		must_end(job, second, TOW_OK, "");
		twt_must(memory[0][0] == 1 && memory[1][0] == 2);
	} else {
		twt_job_meet(job, 1);
		memory[0][0] = 1;
		must_end(job, say(job, job->group, 0, 1, memory[0], 8), TOW_OK, "");
		memory[1][0] = 2;
		must_end(job, say(job, job->group, 0, 1, memory[1], 8), TOW_OK, "");
	}
	twt_job_meet(job, 2);
}

#define THREADS 4
#define ROUNDS  60

struct worker {
	const struct twt_job *job;
	struct tow_group *group;
	uint64_t tag;
};

/* Both ways at once with each rank, oneself as well; the first of them all connects. */
static void *work(void *arg)
{
	const struct worker *worker = arg;
	const struct twt_job *job = worker->job;
	uint64_t in[3], out = worker->tag;

	for (int round = 0; round < ROUNDS; round++) {
		struct tow_op *ops[6];

		out++;
		for (uint32_t rank = 0; rank < 3; rank++) {
			ops[2 * rank] = hear(job, worker->group, rank, worker->tag,
					     (uint8_t *)&in[rank], 8);
			ops[2 * rank + 1] = say(job, worker->group, rank, worker->tag,
						(const uint8_t *)&out, 8);
		}
		for (int i = 0; i < 6; i++)
			must_end(job, ops[i], TOW_OK, "");
		for (int i = 0; i < 3; i++)
			twt_must(in[i] == out);
	}
	return NULL;
}

static void play_threads(struct twt_job *job, const void *arg)
{
	struct tow_group *group = second_group(job);
	struct worker workers[THREADS];
	pthread_t threads[THREADS];

	(void)arg;
	for (int i = 0; i < THREADS; i++) {
		/* The same tags in two groups. */
		workers[i] = (struct worker){ job, i % 2 == 0 ? group : job->group,
					      (uint64_t)(1 + i / 2) << 40 };
		twt_must(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	twt_job_meet(job, 1);
	twt_must(tow_group_close(group) == TOW_OK);
}

static void play_wrong(struct twt_job *job, const void *arg)
{
	struct tow_group_match match = TOW_GROUP_MATCH_INIT;
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_part part = { memory[0], 8 };
	struct tow_result result = TOW_RESULT_INIT;
	struct tow_channel *channel;
	struct tow_peer *peer;
	struct tow_op *op;

	(void)arg;
	twt_must(tow_group_send_start(NULL, 0, memory[0], 8, 1, NULL, &op) == TOW_EINVAL);
	twt_must(tow_group_send_start(job->group, 2, memory[0], 8, 1, NULL, &op) == TOW_EINVAL);
	twt_must(strstr(tow_error_message(), "rank is 2, the group has 2") != NULL);
	twt_must(tow_group_send_start(job->group, 0, NULL, 8, 1, NULL, &op) == TOW_EINVAL);
	twt_must(strstr(tow_error_message(), "tow_group_send_start: data is NULL") != NULL);
	twt_must(tow_group_recv_start(job->group, 0, memory[0], UINT64_MAX, 1, NULL, &op) ==
		 TOW_EINVAL);
	twt_must(tow_group_recv_start(job->group, 0, memory[0], 8, 1, NULL, NULL) == TOW_EINVAL);
	twt_must(tow_group_recv_match_start(job->group, NULL, &part, 1, NULL, &op) == TOW_EINVAL);
	match.rank = 9;
	twt_must(tow_group_recv_match_start(job->group, &match, &part, 1, NULL, &op) == TOW_EINVAL);
	twt_must(tow_group_probe(job->group, &match, &result) == TOW_EINVAL);
	match.rank = 0;
	part.data = NULL;
	twt_must(tow_group_recv_match_start(job->group, &match, &part, 1, NULL, &op) == TOW_EINVAL);
	match.size = 0;
	twt_must(tow_group_probe(job->group, &match, &result) == TOW_EINVAL);
	options.flags = 1u << 20;
	twt_must(tow_group_send_start(job->group, 0, memory[0], 8, 1, &options, &op) == TOW_EINVAL);
	options.flags = TOW_OP_LEND;
	twt_must(tow_group_recv_start(job->group, 0, memory[0], 8, 1, &options, &op) == TOW_EINVAL);
	options.flags = 0;
	twt_must(tow_group_connect(job->group, 1 - (uint32_t)job->rank, WAITS, &peer) == TOW_OK);
	twt_must(tow_channel_open(peer, 3, &channel) == TOW_OK);
	options.channel = channel;
	twt_must(tow_group_send_start(job->group, 1 - (uint32_t)job->rank, memory[0], 8, 1,
				      &options, &op) == TOW_EINVAL);
	twt_must(strstr(tow_error_message(), "options->channel is set") != NULL);
	twt_must(tow_channel_open(peer, TOW_CHANNEL_MAX + 1, &channel) == TOW_EINVAL);
	twt_must(tow_group_peer_rank(job->group, peer) == 1 - (uint32_t)job->rank);
	twt_must(tow_group_peer_rank(job->group, NULL) == UINT32_MAX);
	twt_must(tow_group_id(NULL) == UINT64_MAX);
	twt_job_meet(job, 1);
}

struct play {
	int size;
	unsigned victims;
	void (*play)(struct twt_job *job, const void *plan);
};

static const struct play ends[] = { { 2, 0, play_close }, { 2, 0, play_close_unused },
				    { 2, 0, play_gone },  { 2, 0, play_early },
				    { 3, 0, play_abort }, { 3, 1u << 2, play_dead },
				    { 2, 0, play_ends },  { 2, 0, play_order },
				    { 2, 0, play_wrong }, { 3, 0, play_threads } };

static void run(size_t which)
{
	const char *address = twt_job_addresses[which % TWT_JOB_ADDRESSES];
	const struct play *play = &ends[which / TWT_JOB_ADDRESSES];

	/* Over ofi a rank that dies is missed when peer_timeout_ns is over. */
	if (address != NULL && (play->victims == 0 || strncmp(address, "ofi", 3) != 0))
		twt_job_run(address, play->size, play->victims, play->play, NULL, NULL);
}

static void all_lanes(void **state)
{
	(void)state;
	twt_beside(TWT_JOB_ADDRESSES * sizeof(ends) / sizeof(ends[0]), AT_ONCE, run);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(all_lanes) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
