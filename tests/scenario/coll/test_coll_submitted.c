/*
 * test_coll_submitted.c - a thread that gives the engine back leaves no request in its ring that
 * the kernel has not been told of. Only that thread could submit it, and it may be computing: a
 * message would stand still, or be written into memory whose operation has ended meanwhile. Threads
 * start collectives on new groups, wait and look; all rings are examined after each call.
 */
#include <pthread.h>
#include <stdio.h>

#include "coll_team.h"

#include "transport/engine/engine.h"
#include "transport/engine/poller.h"
#include "transport/engine/runtime.h"

#define RANKS   3u
#define THREADS 3u
#define FLIGHT  4u
#define COUNT   30000u /* of a part: above what is eager */

#ifdef TWT_SANITIZED
#define ROUNDS 20u
#else
#define ROUNDS 60u
#endif

struct worker {
	struct twt_rank *rank;
	unsigned number;
	float *in, *out; /* FLIGHT times RANKS parts */
	pthread_t thread;
};

static void examine_rings(struct twt_rank *rank)
{
	struct twi_engine *engine = twi_runtime_engine(rank->runtime);

	twi_engine_enter(engine);
	for (unsigned i = 0; i < TWI_RING_SLOTS; i++)
		TWT_TRUE(engine->rings[i] == NULL || engine->rings[i]->unsubmitted == 0);
	twi_engine_leave(engine);
}

static int start(const struct worker *worker, struct tow_group *group, unsigned i,
		 struct tow_op **op_out)
{
	float *in = worker->in + (size_t)i * RANKS * COUNT;
	float *out = worker->out + (size_t)i * RANKS * COUNT;

	if (i % 2 == 0)
		return tow_coll_all_to_all_start(group, in, out, COUNT, TOW_F32, NULL, op_out);
	return tow_coll_all_reduce_start(group, in, out, COUNT, TOW_F32, TOW_SUM, NULL, op_out);
}

static void play_round(const struct worker *worker, struct tow_group *group)
{
	struct tow_op *ops[FLIGHT];

	for (unsigned i = 0; i < FLIGHT; i++) {
		TWT_OK(start(worker, group, i, &ops[i]));
		examine_rings(worker->rank);
	}
	for (unsigned i = 0; i < FLIGHT; i++) {
		int status = tow_op_test(ops[i]);

		examine_rings(worker->rank);
		if (status == TOW_AGAIN)
			status = tow_op_wait(ops[i], 60 * TWT_SECOND);
		TWT_TRUE(status == TOW_OK);
		examine_rings(worker->rank);
		TWT_OK(tow_op_release(ops[i]));
	}
}

static void *work(void *arg)
{
	const uint32_t all[RANKS] = { 0, 1, 2 };
	const struct worker *worker = arg;
	struct tow_group *group;
	char name[32];

	for (unsigned round = 0; round < ROUNDS; round++) {
		snprintf(name, sizeof(name), "%u.%u", worker->number, round);
		TWT_OK(tow_group_create(worker->rank->group, all, RANKS, name, 20 * TWT_SECOND,
					&group));
		play_round(worker, group);
		TWT_OK(tow_group_barrier(group, 20 * TWT_SECOND));
		TWT_OK(tow_group_close(group));
	}
	return NULL;
}

static void play(struct twt_rank *rank)
{
	const uint64_t bytes = FLIGHT * RANKS * COUNT * sizeof(float);
	struct worker workers[THREADS];

	for (unsigned i = 0; i < THREADS; i++) {
		workers[i].rank = rank;
		workers[i].number = i;
		TWT_OK(tow_alloc(rank->runtime, bytes, 0, (void **)&workers[i].in));
		TWT_OK(tow_alloc(rank->runtime, bytes, 0, (void **)&workers[i].out));
	}
	for (unsigned i = 0; i < THREADS; i++)
		TWT_TRUE(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
	for (unsigned i = 0; i < THREADS; i++)
		TWT_TRUE(pthread_join(workers[i].thread, NULL) == 0);
	twt_coll_meet(rank);
	for (unsigned i = 0; i < THREADS; i++) {
		TWT_OK(tow_free(rank->runtime, workers[i].in));
		TWT_OK(tow_free(rank->runtime, workers[i].out));
	}
}

static void over_each_lane(void **state)
{
	(void)state;
	twt_ranks_by_lane(&(struct twt_job){ .ranks = RANKS, .run = play });
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(over_each_lane) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
