/*
 * test_coll_ends.c - random collectives that end early. Each rank has some threads. Each thread
 * makes and closes groups all the time, and starts collectives of all kinds, plans and types in
 * them, in batches and alone, by wait, test, callback and queue. In some rounds each rank may have
 * one call that is late, or is canceled, or it may abort the group.
 *
 * What ends well is right, and what fails says one of the statuses that an end can have. Memory of
 * a call that has failed is the program's again: nobody writes to it any more. Over every lane that
 * ranks can have.
 *
 *	TOW_TEST_SEED=S          the calls, the ends, and how each rank waits for them
 *	TOW_COLL_GENERATIONS=N   so many groups of each thread; some thousand to look for faults
 *	TOW_TEST_LANE=NAME       that lane alone
 */
#include "coll_call.h"
#include "coll_team.h"
#include "job_lanes.h"

#include <pthread.h>

#define THREADS 3
#define CALLS   10u /* of a round */
#define ROUNDS  4u
#define KEPT    32u /* calls that have failed, whose memory is looked at later */
#define FREED   0xc3

#ifdef TWT_SANITIZED
#define GENERATIONS 4
#else
#define GENERATIONS 8
#endif

enum style { BY_WAIT, BY_TEST, BY_CALLBACK, BY_QUEUE, STYLES };
enum fault { LATE, CANCELED, ABORTED, FAULTS };

static uint64_t seed;
static unsigned lane;

struct one {
	struct twt_coll_case drawn;
	struct twt_coll_call call;
	enum style style;
	_Atomic int status;
};

struct thread {
	struct twt_rank *rank;
	uint32_t number;
	uint64_t shared; /* the same at all ranks */
	uint64_t own;
	struct tow_queue *queue;
	struct tow_group *group;
	struct one *kept[KEPT];
	uint32_t kept_count;
	struct one *ones[CALLS];
	uint32_t started;
};

static bool may_be(int status)
{
	return status == TOW_EDEADLINE || status == TOW_ECANCELED || status == TOW_EABORTED ||
	       status == TOW_EPEER || status == TOW_ECLOSED;
}

static void one_free(struct one *one)
{
	twt_coll_call_fini(&one->call);
	twt_coll_case_fini(&one->drawn);
	free(one);
}

/* Nobody has written since to the memory of a call that had failed. */
static void look_at(struct one *one)
{
	const struct twt_plan_memory *memory = &one->call.memory;

	for (int space = 0; space < 2; space++)
		for (uint64_t i = 0; i < memory->bytes[space]; i++)
			TWT_TRUE(memory->at[space][i] == FREED);
	TWT_TRUE(twt_plan_guards_hold(memory));
	one_free(one);
}

static void keep(struct thread *thread, struct one *one)
{
	struct one **place = &thread->kept[thread->kept_count++ % KEPT];

	for (int space = 0; space < 2; space++)
		memset(one->call.memory.at[space], FREED, one->call.memory.bytes[space]);
	if (*place != NULL)
		look_at(*place);
	*place = one;
}

static void judge(struct thread *thread, struct one *one, int status)
{
	struct twt_coll_truth truth;
	bool wrong = false;

	if (status < 0) {
		if (!may_be(status))
			fprintf(stderr, "thread %u: %s\n", thread->number, tow_status_name(status));
		TWT_TRUE(may_be(status));
		keep(thread, one);
		return;
	}
	twt_coll_truth_init(&truth, &one->drawn);
	one->call.called = 1;
	twt_coll_call_end(&one->call, &truth, &wrong);
	twt_coll_truth_fini(&truth);
	TWT_TRUE(!wrong);
	one_free(one);
}

static void called_back(struct tow_op *op, const struct tow_result *result)
{
	struct one *one = result->user;

	(void)op;
	atomic_store(&one->status, result->status);
}

static struct one *one_new(struct thread *thread, bool fused)
{
	bool large = twt_random_below(&thread->shared, 6) == 0;
	const struct twt_coll_world world = { .n = thread->rank->ranks,
					      .segment_bytes = 1 << 20,
					      .bytes_max = large ? 1 << 20 : 16384,
					      .depth = 4 };
	struct one *one = calloc(1, sizeof(*one));

	TWT_TRUE(one != NULL);
	twt_coll_case_init(&one->drawn, twt_random(&thread->shared), &world);
	twt_coll_call_init(&one->call, &one->drawn, thread->rank->rank, thread->group,
			   twt_random(&thread->own));
	one->call.fused = fused;
	one->style = (enum style)twt_random_below(&thread->own, STYLES);
	one->status = TOW_AGAIN;
	return one;
}

static int start_one(struct thread *thread, struct one *one, bool late)
{
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;

	if (late)
		options.timeout_ns = 1000 + twt_random_below(&thread->own, 3000000);
	options.user = one;
	if (one->style == BY_CALLBACK)
		options.done = called_back;
	if (one->style == BY_QUEUE)
		options.queue = thread->queue;
	return twt_coll_call_start_by(&one->call, &options);
}

/* Starts the calls of a round. False: the group has broken meanwhile. */
static bool start_round(struct thread *thread, uint32_t count, bool batch, uint32_t late)
{
	int status = TOW_OK;

	thread->started = 0;
	if (batch)
		TWT_OK(tow_coll_batch_begin(thread->group));
	for (uint32_t i = 0; i < count && status == TOW_OK; i++) {
		struct one *one = one_new(thread, batch);

		status = start_one(thread, one, i == late);
		if (status == TOW_OK)
			thread->ones[thread->started++] = one;
		else
			judge(thread, one, status);
	}
	if (batch)
		TWT_OK(tow_coll_batch_end(thread->group));
	return status == TOW_OK;
}

static void end_early(struct thread *thread, enum fault fault, uint32_t which)
{
	if (fault == LATE || thread->started == 0)
		return;
	usleep((useconds_t)twt_random_below(&thread->own, 1500));
	if (fault == ABORTED)
		TWT_OK(tow_group_abort(thread->group, "a test"));
	else
		TWT_OK(tow_op_cancel(thread->ones[which % thread->started]->call.op));
}

static void take_results(struct thread *thread)
{
	struct tow_result results[3];
	size_t count;
	int status;

	for (size_t i = 0; i < 3; i++)
		results[i] = (struct tow_result)TOW_RESULT_INIT;
	status = tow_queue_take(thread->queue, results, 3, &count);
	TWT_TRUE(status == TOW_OK || (status == TOW_AGAIN && count == 0));
	for (size_t i = 0; i < count; i++) {
		struct one *one = results[i].user;

		atomic_store(&one->status, results[i].status);
		one->call.op = NULL;
		TWT_OK(tow_op_release(results[i].op));
	}
}

/* TOW_AGAIN while it is in flight. */
static int try_end(struct thread *thread, struct one *one)
{
	switch (one->style) {
	case BY_WAIT:
		return tow_op_wait(one->call.op, TWT_FINISH_NS);
	case BY_TEST:
		return tow_op_test(one->call.op);
	case BY_CALLBACK:
		break;
	default:
		take_results(thread);
		break;
	}
	if (atomic_load(&one->status) == TOW_AGAIN)
		TWT_TRUE(tow_progress(thread->rank->runtime) >= 0);
	return atomic_load(&one->status);
}

/* Ends them in a random order. False: one has failed. */
static bool end_round(struct thread *thread)
{
	uint64_t since = twi_now_ns();
	bool well = true;

	while (thread->started > 0) {
		uint32_t i = (uint32_t)twt_random_below(&thread->own, thread->started);
		struct one *one = thread->ones[i];
		int status = try_end(thread, one);

		if (status == TOW_AGAIN) {
			TWT_TRUE(twi_now_ns() - since < TWT_FINISH_NS);
			usleep(20); /* there are more threads than cores */
			continue;
		}
		well = well && status >= 0;
		TWT_OK(tow_op_release(one->call.op)); /* NULL where it was a queue's */
		judge(thread, one, status);
		thread->ones[i] = thread->ones[--thread->started];
	}
	return well;
}

/* Some collectives at once. False: the group has broken. */
static bool play_round(struct thread *thread)
{
	uint32_t count = 1 + (uint32_t)twt_random_below(&thread->shared, CALLS);
	bool batch = twt_random_below(&thread->shared, 3) == 0;
	bool faulty = twt_random_below(&thread->shared, 3) == 0;
	bool mine = faulty && twt_random_below(&thread->own, 2) == 0;
	enum fault fault = (enum fault)twt_random_below(&thread->own, FAULTS);
	uint32_t which = (uint32_t)twt_random_below(&thread->own, count);
	bool well = start_round(thread, count, batch, mine && fault == LATE ? which : count);

	if (mine)
		end_early(thread, fault, which);
	return end_round(thread) && well;
}

static void play_group(struct thread *thread, int generation)
{
	struct twt_rank *rank = thread->rank;
	uint32_t ranks[TWT_RANKS_MAX];
	bool well = true, barrier;
	char name[32];

	for (uint32_t i = 0; i < rank->ranks; i++)
		ranks[i] = i;
	snprintf(name, sizeof(name), "t%u.%d", thread->number, generation);
	thread->shared = twt_coll_hash(seed + thread->number, (uint64_t)generation);
	TWT_OK(tow_group_create(rank->group, ranks, rank->ranks, name, TWT_FINISH_NS,
				&thread->group));
	barrier = twt_random_below(&thread->shared, 2) == 0;
	for (uint32_t i = 0; i < ROUNDS && well; i++)
		well = play_round(thread);
	if (well && barrier) {
		int status = tow_group_barrier(thread->group, TWT_FINISH_NS);

		TWT_TRUE(status == TOW_OK || may_be(status));
	}
	TWT_OK(tow_group_close(thread->group));
}

static int generations(void)
{
	const char *text = getenv("TOW_COLL_GENERATIONS");

	return text != NULL ? atoi(text) : GENERATIONS;
}

static void *play(void *arg)
{
	struct thread *thread = arg;

	TWT_OK(tow_queue_open(thread->rank->runtime, CALLS, &thread->queue));
	for (int i = 0; i < generations(); i++)
		play_group(thread, i);
	for (uint32_t i = 0; i < KEPT; i++) {
		if (thread->kept[i] != NULL)
			look_at(thread->kept[i]);
	}
	TWT_OK(tow_queue_close(thread->queue));
	return NULL;
}

static void run(struct twt_rank *rank)
{
	struct thread threads[THREADS] = { 0 };
	pthread_t ids[THREADS];

	for (uint32_t i = 0; i < THREADS; i++) {
		threads[i].rank = rank;
		threads[i].number = i;
		threads[i].own = twt_coll_hash(seed, 1000 + 100 * rank->rank + i);
		TWT_TRUE(pthread_create(&ids[i], NULL, play, &threads[i]) == 0);
	}
	for (uint32_t i = 0; i < THREADS; i++)
		pthread_join(ids[i], NULL);
	twt_coll_meet(rank);
}

static void common_options(struct tow_options *options)
{
	twt_job_lane_options(lane, options);
	options->background = twt_coll_hash(seed, lane) % 3 != 0;
	options->premap_memory_bytes = 32 << 20;
}

static void over_lanes(void **state)
{
	const char *only = getenv("TOW_TEST_LANE");

	(void)state;
	seed = twt_seed();
	for (lane = 0; lane < TWT_LANES; lane++) {
		uint32_t ranks = 2 + (uint32_t)(twt_coll_hash(seed, 50 + lane) % 3);

		if ((only != NULL && strcmp(only, twt_lanes[lane].name) != 0) ||
		    !twt_job_lane(lane))
			continue;
		print_message("%s, %u ranks\n", twt_lanes[lane].name, ranks);
		twt_ranks(&(struct twt_job){ .ranks = ranks,
					     .lane = twt_lanes[lane].address[0],
					     .run = run,
					     .options = common_options });
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(over_lanes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
