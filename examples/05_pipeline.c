/*
 * 05_pipeline.c - pipeline parallelism: each rank is a stage, and micro-batches go round the ring.
 *
 * Run it as a job:      towrun -n 4 example_05_pipeline
 *
 * In each tick every stage works on one micro-batch and hands the one before on, by one
 * collective-permute of all stages, as XLA has it. That is under way during the next tick, so a
 * micro-batch reaches the next stage two ticks later: stage s has number m in tick m + 2 s, and
 * what the last stage made is back at the first in tick m + 2 * stages. Stages that have none yet,
 * or none left, hand on what they have; nobody looks at it.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <towline/coll.h>
#include <towline/towline.h>

#define MICRO_BATCHES 32
#define FLOATS        (1 << 16) /* of a micro-batch */
#define STAGES_MAX    64
#define LIMIT_NS      UINT64_C(60000000000)

static void check(int status, const char *what)
{
	if (status >= TOW_OK)
		return;
	fprintf(stderr, "%s: %s: %s\n", what, tow_status_name(status), tow_error_message());
	exit(EXIT_FAILURE);
}

static void finish(struct tow_op *op, const char *what)
{
	check(tow_op_wait(op, LIMIT_NS), what);
	check(tow_op_release(op), what);
}

/* What enters the pipeline, and what a stage makes of a value. */
static float sample(int micro_batch, int i)
{
	return (float)((micro_batch + i) % 100);
}

static float layer(float value, uint32_t stage)
{
	return value / 2 + (float)stage;
}

static void verify(const float *result, int micro_batch, uint32_t stages)
{
	for (int i = 0; i < FLOATS; i++) {
		float want = sample(micro_batch, i);

		for (uint32_t s = 0; s < stages; s++)
			want = layer(want, s);
		if (result[i] == want)
			continue;
		fprintf(stderr, "micro-batch %d, element %d: %g, not %g\n", micro_batch, i,
			result[i], want);
		exit(EXIT_FAILURE);
	}
}

/* One stage's work in a tick, from in to out; the first one feeds and takes out. */
static void work(int tick, uint32_t stage, uint32_t stages, const float *in, float *out)
{
	int number = tick - 2 * (int)stage, ready = tick - 2 * (int)stages;

	if (stage == 0 && ready >= 0)
		verify(in, ready, stages);
	for (int i = 0; i < FLOATS; i++)
		out[i] = layer(stage == 0 ? sample(number, i) : in[i], stage);
}

int main(void)
{
	struct tow_coll_pair ring[STAGES_MAX];
	struct tow_runtime *runtime;
	struct tow_group *group;
	struct tow_op *moving = NULL;
	float *in[2], *out[2];
	uint32_t stage, stages;

	check(tow_runtime_open(NULL, &runtime), "runtime");
	check(tow_group_open(runtime, NULL, &group), "group");
	stage = tow_group_rank(group);
	stages = tow_group_size(group);
	for (uint32_t s = 0; s < stages && s < STAGES_MAX; s++)
		ring[s] = (struct tow_coll_pair){ s, (s + 1) % stages };
	for (int i = 0; i < 2; i++) {
		check(tow_alloc(runtime, FLOATS * sizeof(float), 0, (void **)&in[i]), "alloc");
		check(tow_alloc(runtime, FLOATS * sizeof(float), 0, (void **)&out[i]), "alloc");
	}
	for (int tick = 0; tick < MICRO_BATCHES + 2 * (int)stages; tick++) {
		work(tick, stage, stages, in[tick % 2], out[tick % 2]);
		if (moving != NULL)
			finish(moving, "permute");
		check(tow_coll_permute_start(group, out[tick % 2], in[tick % 2], FLOATS, TOW_F32,
					     ring, stages, NULL, &moving),
		      "permute");
	}
	finish(moving, "permute");
	if (stage == 0)
		printf("%u stages: %d micro-batches of %d KiB went through all\n", stages,
		       MICRO_BATCHES, FLOATS * 4 / 1024);
	check(tow_group_barrier(group, LIMIT_NS), "barrier");
	check(tow_group_close(group), "close");
	check(tow_runtime_close(runtime), "close");
	return EXIT_SUCCESS;
}
