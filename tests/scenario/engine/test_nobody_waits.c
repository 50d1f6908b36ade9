/*
 * test_nobody_waits.c - what nobody waits for ends as soon as what somebody waits for.
 *
 * Between two rounds the library's own thread falls asleep. A start that finds it asleep and leaves
 * it something to do must wake it, whatever was started, on every lane, and from whichever memory;
 * where it does not, the round lasts until the sleeper looks by itself, which is up to a second.
 *
 *	{tcp, shm, ofi, tow} x {message, call, collective} x {pool, plain memory}
 *	                     x {callback, tow_op_result polled, a thread that is one too many}
 */
#include "beside.h"
#include "coll_team.h"

#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#include <internal/base.h>

#define ROUNDS   20
#define STALLS   2 /* rounds that a loaded machine may hold up: the fault holds up 18 of 20 */
#define STALL_NS (500ull * 1000 * 1000) /* the fault: a second; loaded machines: up to 0.2 s */
#define HANG_NS  (20ull * 1000 * 1000 * 1000)
#define APART_US 5000 /* long enough for the library's threads to fall asleep */
#define BYTES    7168u
#define SURPLUS  20 /* above the rings that a runtime gives its callers */

enum what { MESSAGE, CALL, COLLECTIVE, WHATS };
enum how { CALLBACK, RESULT, SURPLUS_THREAD, HOWS };

static const char *const what_names[] = { "message", "call", "collective" };
static const char *const how_names[] = { "callback", "tow_op_result", "surplus thread" };

struct memory {
	uint8_t *in, *out;
	bool pool;
};

static sem_t called;
static pthread_barrier_t there, over;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * TWT_SECOND + (uint64_t)ts.tv_nsec;
}

static void called_back(struct tow_op *op, const struct tow_result *result)
{
	(void)op;
	TWT_OK(result->status);
	sem_post(&called);
}

static void echo(struct tow_call_in *call, void *user)
{
	uint64_t bytes;
	const void *request = tow_call_request(call, &bytes);

	(void)user;
	TWT_OK(tow_reply_start(call, 0, request, bytes, NULL, NULL));
}

static struct tow_peer *other_rank(struct twt_rank *rank)
{
	struct tow_peer *peer;

	TWT_OK(tow_group_peer(rank->group, 1 - rank->rank, &peer));
	return peer;
}

/* Starts one round's operations: two for a message, one for the others. Returns how many. */
static unsigned start(struct twt_rank *rank, enum what what, const struct memory *memory,
		      tow_op_callback done, struct tow_op *ops[2])
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_call_options call = TOW_CALL_OPTIONS_INIT;
	struct tow_coll_options coll = TOW_COLL_OPTIONS_INIT;

	options.done = call.done = coll.done = done;
	switch (what) {
	case MESSAGE:
		TWT_OK(tow_recv_start(other_rank(rank), memory->in, BYTES, 1, &options, &ops[0]));
		TWT_OK(tow_send_start(other_rank(rank), memory->out, BYTES, 1, &options, &ops[1]));
		return 2;
	case CALL:
		TWT_OK(tow_call_start(other_rank(rank), "echo", memory->out, BYTES, memory->in,
				      BYTES, &call, &ops[0]));
		return 1;
	default:
		TWT_OK(tow_coll_all_reduce_start(rank->group, memory->out, memory->in, BYTES / 4,
						 TOW_S32, TOW_MAX, &coll, &ops[0]));
		return 1;
	}
}

/* Until it is done, without a call that would drive. */
static void look_until_done(struct tow_op *op)
{
	struct tow_result result = { .size = sizeof(result) };
	uint64_t until = now_ns() + HANG_NS;

	while (tow_op_result(op, &result) == TOW_AGAIN) {
		TWT_TRUE(now_ns() < until);
		usleep(50);
	}
	TWT_OK(result.status);
}

static void one_round(struct twt_rank *rank, enum what what, enum how how,
		      const struct memory *memory)
{
	struct tow_op *ops[2];
	unsigned count = start(rank, what, memory, how == CALLBACK ? called_back : NULL, ops);

	for (unsigned i = 0; i < count; i++) {
		if (how == CALLBACK) {
			while (sem_wait(&called) != 0)
				;
		} else if (how == RESULT) {
			look_until_done(ops[i]);
		} else {
			TWT_OK(tow_op_wait(ops[i], HANG_NS));
		}
	}
	for (unsigned i = 0; i < count; i++)
		TWT_OK(tow_op_release(ops[i]));
	TWT_OK(twt_check(memory->in, BYTES, 7));
}

struct case_of {
	struct twt_rank *rank;
	enum what what;
	enum how how;
	struct memory memory;
};

static void play_rounds(const struct case_of *one)
{
	unsigned stalls = 0;
	uint64_t worst = 0;

	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t begin, took;

		memset(one->memory.in, 0, BYTES);
		/* One comes late and finds everything but its own part done, by turns. */
		usleep(i % 2 == one->rank->rank ? APART_US : 2 * APART_US);
		begin = now_ns();
		one_round(one->rank, one->what, one->how, &one->memory);
		took = now_ns() - begin;
		worst = took > worst ? took : worst;
		stalls += took > STALL_NS + APART_US * 1000ull;
	}
	if (stalls <= STALLS)
		return;
	fprintf(stderr, "rank %u: %s by %s, %s memory: %u of %u rounds stalled, worst %.1f ms\n",
		one->rank->rank, what_names[one->what], how_names[one->how],
		one->memory.pool ? "pool" : "plain", stalls, ROUNDS, (double)worst / 1e6);
	abort();
}

static void *drive_once(void *arg)
{
	tow_progress(arg);
	pthread_barrier_wait(&there);
	pthread_barrier_wait(&over);
	return NULL;
}

static void *play_in_thread(void *arg)
{
	play_rounds(arg);
	return NULL;
}

/* More threads than can have a ring have driven and are idle; one more plays. */
static void play_with_surplus(struct case_of *one)
{
	pthread_t threads[SURPLUS], last;

	pthread_barrier_init(&there, NULL, SURPLUS + 1);
	pthread_barrier_init(&over, NULL, SURPLUS + 1);
	for (unsigned i = 0; i < SURPLUS; i++)
		TWT_TRUE(pthread_create(&threads[i], NULL, drive_once, one->rank->runtime) == 0);
	pthread_barrier_wait(&there);
	TWT_TRUE(pthread_create(&last, NULL, play_in_thread, one) == 0);
	pthread_join(last, NULL);
	pthread_barrier_wait(&over);
	for (unsigned i = 0; i < SURPLUS; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&there);
	pthread_barrier_destroy(&over);
}

static void play_cases(struct twt_rank *rank, const struct memory *memory)
{
	for (unsigned how = 0; how < HOWS; how++) {
		for (unsigned what = 0; what < WHATS; what++) {
			struct case_of one = { rank, (enum what)what, (enum how)how, *memory };

			/* The first makes connections and plans, which may take longer. */
			one_round(rank, one.what, RESULT, memory);
			twt_coll_meet(rank);
			if (one.how == SURPLUS_THREAD)
				play_with_surplus(&one);
			else
				play_rounds(&one);
			twt_coll_meet(rank);
		}
	}
}

static void meet_peer(struct twt_rank *rank)
{
	struct tow_op *op;

	TWT_OK(tow_group_connect_start(rank->group, 1 - rank->rank, NULL, &op));
	TWT_OK(twt_coll_end(op));
	twt_coll_meet(rank);
}

static void play(struct twt_rank *rank)
{
	struct memory plain = { malloc(BYTES), malloc(BYTES), false }, pool = { .pool = true };

	sem_init(&called, 0, 0);
	TWT_OK(tow_method_register(rank->runtime, "echo", echo, NULL, NULL));
	TWT_OK(tow_alloc(rank->runtime, BYTES, 0, (void **)&pool.in));
	TWT_OK(tow_alloc(rank->runtime, BYTES, 0, (void **)&pool.out));
	TWT_TRUE(plain.in != NULL && plain.out != NULL);
	twt_fill(plain.out, BYTES, 7);
	twt_fill(pool.out, BYTES, 7);
	meet_peer(rank);
	play_cases(rank, &plain);
	play_cases(rank, &pool);
	TWT_OK(tow_free(rank->runtime, pool.in));
	TWT_OK(tow_free(rank->runtime, pool.out));
	free(plain.in);
	free(plain.out);
}

static void job_over(const char *lane)
{
	twt_ranks(&(struct twt_job){ .ranks = 2, .lane = lane, .run = play });
}

static void test_tcp(void **state)
{
	(void)state;
	job_over("tcp://127.0.0.1:0");
}

static void test_shm(void **state)
{
	(void)state;
	job_over("shm://*");
}

static void test_all_lanes(void **state)
{
	(void)state;
	job_over(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tcp),
		cmocka_unit_test(test_shm),
		cmocka_unit_test(test_all_lanes),
	};

	return twt_beside_tests(tests, twi_array_count(tests), 1, twi_array_count(tests));
}
