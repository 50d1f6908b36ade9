/*
 * test_nccl_profiler.c - trees of events as NCCL emits them for a ring all-reduce, played through
 * each table of plugins/nccl in real processes, with faults planted: towstat's verdict names cause,
 * culprit and communicator.
 *
 * What a step takes is said by waiting between its states, so a slow one is a real wait.
 */
#include "twt.h"

#include "beside.h"
#include "nccl_events.h"

#define SLOW_US 6000
#define COMM_ID UINT64_C(0xfeedfacecafe)

static uint64_t seed;

static struct twt_np_times times_of(const struct twt_fj *job, uint32_t rank)
{
	struct twt_np_times times = { 50, 10, 100, 100, 50 };
	uint32_t after = (job->victim + 1) % job->ranks, before = job->victim + job->ranks - 1;

	if (job->fault == FJ_LINK && rank == job->victim)
		times.send_wire = SLOW_US;
	if (job->fault == FJ_LINK && rank == after)
		times.recv_wire = SLOW_US;
	if (job->fault == FJ_DEVICE && rank == job->victim)
		times.recv_gpu = SLOW_US;
	if (job->fault == FJ_DEVICE && rank == before % job->ranks)
		times.send_peer = SLOW_US;
	return times;
}

/* What the device does, as its thread tells: from when the rank comes until all have. */
static void play_ring(const struct twt_np *p, struct twt_fj *job, uint32_t rank, void *context)
{
	const struct twt_np_times times = times_of(job, rank);
	struct nccl_event_descriptor kernel = { .parent = NULL };
	void *coll = twt_np_coll(p, context, "AllReduce"), *kernels[NP_CHANNELS];
	bool told = job->which < 3; /* of channels on the device */
	bool all_came;

	twt_np_stop(p, coll); /* launched: all else comes later */
	kernel.parent = coll;
	if (told && job->fault == FJ_LATE)
		twt_fj_dawdle(job, rank);
	for (int c = 0; told && c < NP_CHANNELS; c++) {
		kernel.kernel.channel = (uint8_t)c;
		kernels[c] = twt_np_start(p, context, NCCL_EVENT_KERNEL, kernel);
	}
	twt_np_proxy(p, job, rank, &times, context, coll);
	all_came = twt_fj_meet(job);
	for (int c = 0; told && all_came && c < NP_CHANNELS; c++) {
		union nccl_state_arguments arguments = { .device_clock = 1 };

		TWT_MUST(p->v4->state(kernels[c], NCCL_STATE_KERNEL_STOP, &arguments) == 0);
		twt_np_stop(p, kernels[c]);
	}
}

/* job->which: the version by its rest by 3; from 3 on without the device's channels. */
static void play(struct twt_fj *job, uint32_t rank)
{
	struct twt_np p = twt_np_load(4 + job->which % 3);
	void *context = NULL;
	int mask = 0;

	TWT_MUST(twt_np_init(&p, &context, &mask, FJ_NAME, COMM_ID, (int)job->ranks, (int)rank) ==
		 0);
	TWT_MUST(context != NULL);
	TWT_MUST(mask == (NCCL_EVENT_COLL | NCCL_EVENT_P2P | NCCL_EVENT_PROXY_OP |
			  NCCL_EVENT_PROXY_STEP | NCCL_EVENT_KERNEL));
	while (twt_fj_step(job, rank))
		play_ring(&p, job, rank, context);
	TWT_MUST(p.v4->finalize(context) == 0);
}

static void play_case(size_t which)
{
	static const enum twt_fj_fault faults[] = { FJ_HEALTHY, FJ_LATE, FJ_LINK, FJ_DEVICE };
	uint64_t state = seed + which;
	struct twt_fj job = { .fault = faults[which % 4], .which = (int)(which / 4), .play = play };

	job.joins = which >= 16;
	job.ranks = 2 + (uint32_t)twt_random_below(&state, FJ_RANKS - 1);
	job.victim = (uint32_t)twt_random_below(&state, job.ranks);
	twt_fj_begin(&job);
	twt_fj_expect(&job);
	twt_fj_end(&job);
}

/* Three tables, four jobs each; and one table without channels of the device, and with a join. */
static void faults_are_named(void **state)
{
	(void)state;
	twt_beside(20, 3, play_case);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(faults_are_named),
	};

	seed = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
