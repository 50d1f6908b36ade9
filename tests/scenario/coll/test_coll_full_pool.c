/*
 * test_coll_full_pool.c - random collectives of several groups at once, in pools that are nearly
 * full: memory of the pool and outside of it, drawn for each rank by itself, in place and not, with
 * callbacks, waits and tests. Each must end, and every value must be right.
 */
#include "beside.h"
#include "coll_job.h"

#include <pthread.h>
#include <sched.h>

#define GROUPS    3
#define IN_FLIGHT 5
#define ROUNDS    4

enum kind {
	ALL_REDUCE,
	REDUCE,
	BROADCAST,
	ALL_TO_ALL,
	CAN_BE_IN_PLACE, /* those before */
	GATHER = CAN_BE_IN_PLACE,
	SCATTER,
	ALL_GATHER,
	REDUCE_SCATTER,
	KINDS
};

struct buffer {
	int32_t *at;
	void *of_pool; /* NULL: of malloc */
};

struct call {
	enum kind kind;
	uint32_t root, mark; /* the mark tells calls apart in their values */
	uint64_t part;       /* elements */
	bool in_place;
	struct buffer in, out;
	struct tow_op *op;
	_Atomic int status; /* by the callback: 1 is TOW_OK, 0 not yet */
};

/* A thread with its group. */
struct player {
	struct twt_job *job;
	struct tow_group *group;
	uint64_t shared, own; /* states of random numbers: the same at all ranks, and this rank's */
};

static int32_t value(uint32_t rank, uint64_t i, uint32_t mark)
{
	return (int32_t)(rank * 1000003u + (uint32_t)i * 7 + mark * 31);
}

static int32_t sum(uint32_t ranks, uint64_t i, uint32_t mark)
{
	return (int32_t)(ranks * (ranks - 1) / 2 * 1000003u +
			 ranks * ((uint32_t)i * 7 + mark * 31));
}

static struct buffer take(struct player *player, uint64_t count)
{
	struct buffer out = { NULL, NULL };

	if (twt_random_below(&player->own, 4) == 0)
		tow_alloc(player->job->runtime, count * 4, 0, &out.of_pool);
	out.at = out.of_pool != NULL ? out.of_pool : malloc(count * 4);
	if (out.at == NULL)
		abort();
	return out;
}

static void give(const struct player *player, struct buffer buffer)
{
	const struct twt_job *job = player->job;

	if (buffer.of_pool != NULL)
		twt_must(tow_free(job->runtime, buffer.of_pool) == TOW_OK);
	else
		free(buffer.at);
}

static void at_end(struct tow_op *op, const struct tow_result *result)
{
	struct call *call = result->user;

	(void)op;
	atomic_store(&call->status, result->status == TOW_OK ? 1 : result->status);
}

static int start(struct tow_group *group, struct call *call, const struct tow_coll_options *options)
{
	int32_t *in = call->in.at, *out = call->out.at;
	uint64_t part = call->part;

	switch (call->kind) {
	case ALL_REDUCE:
		return tow_coll_all_reduce_start(group, in, out, part, TOW_S32, TOW_SUM, options,
						 &call->op);
	case REDUCE:
		return tow_coll_reduce_start(group, in, out, part, TOW_S32, TOW_SUM, call->root,
					     options, &call->op);
	case BROADCAST:
		return tow_coll_broadcast_start(group, in, part, TOW_S32, call->root, options,
						&call->op);
	case ALL_TO_ALL:
		return tow_coll_all_to_all_start(group, in, out, part, TOW_S32, options, &call->op);
	case GATHER:
		return tow_coll_gather_start(group, in, out, part, TOW_S32, call->root, options,
					     &call->op);
	case SCATTER:
		return tow_coll_scatter_start(group, in, out, part, TOW_S32, call->root, options,
					      &call->op);
	case ALL_GATHER:
		return tow_coll_all_gather_start(group, in, out, part, TOW_S32, options, &call->op);
	default:
		return tow_coll_reduce_scatter_start(group, in, out, part, TOW_S32, TOW_SUM,
						     options, &call->op);
	}
}

/* All ranks draw the same call; whose memory it is and how its end is seen each draws by itself. */
static void begin(struct player *player, struct call *call, uint32_t mark)
{
	const struct twt_job *job = player->job;
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
	uint64_t size = (uint64_t)job->size, in_count, out_count;

	call->kind = twt_random_below(&player->shared, KINDS);
	call->root = twt_random_below(&player->shared, size);
	call->part = twt_random_below(&player->shared, 4) == 0 ? 200000 : 40000;
	call->part = 1 + twt_random_below(&player->shared, call->part);
	call->in_place = call->kind == BROADCAST || (call->kind < CAN_BE_IN_PLACE &&
						     twt_random_below(&player->shared, 3) == 0);
	call->mark = mark;
	in_count = out_count = call->part;
	if (call->kind == SCATTER || call->kind == ALL_TO_ALL || call->kind == REDUCE_SCATTER)
		in_count *= size;
	if (call->kind == GATHER || call->kind == ALL_TO_ALL || call->kind == ALL_GATHER)
		out_count *= size;
	call->in = take(player, in_count);
	call->out = call->in_place ? call->in : take(player, out_count);
	for (uint64_t i = 0; i < in_count; i++)
		call->in.at[i] = value((uint32_t)job->rank, i, mark);
	if (twt_random_below(&player->own, 3) == 0) {
		options.done = at_end;
		options.user = call;
	} else {
		atomic_store(&call->status, 1);
	}
	twt_must(start(player->group, call, &options) == TOW_OK);
}

/* Of part `from` of the result; the values of a sum and a broadcast know none. */
static int32_t expected(const struct twt_job *job, const struct call *call, uint32_t from,
			uint64_t i)
{
	uint32_t size = (uint32_t)job->size;
	uint64_t mine = (uint64_t)job->rank * call->part + i;

	switch (call->kind) {
	case ALL_REDUCE:
	case REDUCE:
		return sum(size, i, call->mark);
	case REDUCE_SCATTER:
		return sum(size, mine, call->mark);
	case BROADCAST:
		return value(call->root, i, call->mark);
	case SCATTER:
		return value(call->root, mine, call->mark);
	case ALL_TO_ALL:
		return value(from, mine, call->mark);
	default:
		return value(from, i, call->mark);
	}
}

static void check(const struct twt_job *job, const struct call *call)
{
	bool of_root = call->kind == REDUCE || call->kind == GATHER;
	uint32_t parts = 1;

	if (call->kind == GATHER || call->kind == ALL_TO_ALL || call->kind == ALL_GATHER)
		parts = (uint32_t)job->size;
	if (of_root && call->root != (uint32_t)job->rank)
		return;
	for (uint32_t from = 0; from < parts; from++) {
		const int32_t *at = call->out.at + from * call->part;

		for (uint64_t i = 0; i < call->part; i++)
			twt_must(at[i] == expected(job, call, from, i));
	}
}

static void finish(struct player *player, struct call *call)
{
	const struct twt_job *job = player->job;
	uint64_t deadline = twt_job_now() + 3 * TWT_JOB_WAIT_NS;
	int status = TOW_AGAIN;

	while (atomic_load(&call->status) == 0 && twt_job_now() < deadline)
		usleep(100);
	twt_must(atomic_load(&call->status) == 1);
	if (twt_random_below(&player->own, 2) == 0)
		status = tow_op_wait(call->op, 3 * TWT_JOB_WAIT_NS);
	while (status == TOW_AGAIN && twt_job_now() < deadline) {
		status = tow_op_test(call->op);
		sched_yield();
	}
	twt_must(status == TOW_OK);
	check(job, call);
	twt_must(tow_op_release(call->op) == TOW_OK);
	give(player, call->in);
	if (!call->in_place)
		give(player, call->out);
}

static void *play_group(void *arg)
{
	struct player *player = arg;

	for (uint32_t round = 0; round < ROUNDS; round++) {
		struct call calls[IN_FLIGHT];

		memset(calls, 0, sizeof(calls));
		for (uint32_t i = 0; i < IN_FLIGHT; i++)
			begin(player, &calls[i], round * IN_FLIGHT + i);
		for (uint32_t i = 0, at = twt_random_below(&player->own, IN_FLIGHT); i < IN_FLIGHT;
		     i++)
			finish(player, &calls[(at + i * 2) % IN_FLIGHT]);
	}
	return NULL;
}

/* Takes all of the pool in blocks of at least `least` bytes, but for `left` of the smallest. */
static int fill_pool(const struct twt_job *job, void **used, int most, uint64_t least, int left)
{
	int n = 0;

	for (uint64_t bytes = 512 << 10; bytes >= least; bytes /= 2)
		while (n < most && tow_alloc(job->runtime, bytes, 0, &used[n]) == TOW_OK)
			n++;
	twt_must(n > 4 && n < most);
	for (int i = 0; i < left; i++)
		twt_must(tow_free(job->runtime, used[--n]) == TOW_OK);
	return n;
}

#define USED_MAX 4096

static void play(struct twt_job *job, const void *arg)
{
	static const uint64_t least[] = { 0, 64 << 10, 16 << 10, 4 << 10 };
	uint64_t seed = *(const uint64_t *)arg, shape = least[seed % 4];
	struct player players[GROUPS];
	void *used[USED_MAX];
	pthread_t threads[GROUPS];
	int n = 0;

	for (uint32_t i = 0; i < GROUPS; i++) {
		players[i] =
			(struct player){ .job = job,
					 .shared = seed * 77 + i,
					 .own = seed * 991 + i * 13 + (uint32_t)job->rank * 7 };
		twt_must(tow_group_split(job->group, 0, job->rank, TWT_JOB_WAIT_NS,
					 &players[i].group) == TOW_OK);
		twt_job_sum(job, players[i].group, 1); /* which sets the group up */
	}
	if (shape > 0 && job->rank % 2 == 1)
		n = fill_pool(job, used, USED_MAX, shape, (int)(seed / 4 % 4));
	for (uint32_t i = 0; i < GROUPS; i++)
		twt_must(pthread_create(&threads[i], NULL, play_group, &players[i]) == 0);
	for (uint32_t i = 0; i < GROUPS; i++)
		twt_must(pthread_join(threads[i], NULL) == 0);
	while (n > 0)
		twt_must(tow_free(job->runtime, used[--n]) == TOW_OK);
	for (uint32_t i = 0; i < GROUPS; i++)
		twt_must(tow_group_close(players[i].group) == TOW_OK);
}

static uint64_t first_seed;

/* Every policy of a full pool, but the one that lets tow_alloc wait for the program itself. */
static void run(size_t which)
{
	static const char *const policies[] = { "grow", "copy", "fail" };
	static const int sizes[] = { 2, 3, 5, 4 };
	uint64_t seed = first_seed + which;

	setenv("TOW_EXHAUST", policies[which % 3], 1);
	twt_job_run("shm", sizes[which / 4 % 4], 0, play, &seed, NULL);
}

static void test_jobs(void **state)
{
	(void)state;
	first_seed = twt_seed() % (1u << 20) * 4;
	twt_beside(16, 2, run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_jobs),
	};

	twt_job_pool_bytes = 4 << 20;
	setenv("TOW_PREMAP_LIMIT_BYTES", "4MiB", 1); /* the pool of a rank does not grow */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
