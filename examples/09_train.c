/*
 * 09_train.c - a training loop with steps: what docs/tutorial.md sizes and diagnoses.
 *
 * Run it as a job:      towrun -n 2 example_09_train 10
 * With a slow rank:     towrun -n 2 example_09_train 60 40    (rank 1: 40 ms more for each bucket)
 *
 * The backward pass is a sleep, as it is for a core that waits for its device. tow_step_begin and
 * tow_step_end tell verdicts, slack and traces where a step begins and ends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <threads.h>
#include <time.h>
#include <towline/coll.h>
#include <towline/step.h>
#include <towline/towline.h>

#define BUCKETS  8
#define FLOATS   (1 << 20) /* of a bucket: 4 MiB */
#define LIMIT_NS UINT64_C(60000000000)

static void check(int status, const char *what)
{
	if (status == TOW_OK)
		return;
	fprintf(stderr, "%s: %s: %s\n", what, tow_status_name(status), tow_error_message());
	exit(EXIT_FAILURE);
}

/* Stands for the backward pass of a bucket, which takes `ms` on a device. */
static void backward(float *bucket, uint32_t rank, long ms)
{
	struct timespec busy = { 0, ms * 1000000 };

	thrd_sleep(&busy, NULL);
	for (int i = 0; i < FLOATS; i += 1024)
		bucket[i] = (float)rank;
}

static void step(struct tow_group *group, float **buckets, long ms)
{
	struct tow_op *ops[BUCKETS];

	for (int b = 0; b < BUCKETS; b++) {
		backward(buckets[b], tow_group_rank(group), ms);
		check(tow_coll_all_reduce_start(group, buckets[b], buckets[b], FLOATS, TOW_F32,
						TOW_AVG, NULL, &ops[b]),
		      "all-reduce");
	}
	for (int b = 0; b < BUCKETS; b++) {
		check(tow_op_wait(ops[b], LIMIT_NS), "wait");
		check(tow_op_release(ops[b]), "release");
	}
}

int main(int argc, char **argv) /* train STEPS [MS that rank 1 is late by] */
{
	unsigned long steps = argc > 1 ? strtoul(argv[1], NULL, 10) : 10;
	long late_ms = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
	struct tow_runtime *runtime;
	struct tow_group *group;
	float *buckets[BUCKETS];

	check(tow_runtime_open(NULL, &runtime), "runtime");
	check(tow_group_open(runtime, NULL, &group), "group");
	check(tow_group_set_label(group, "data"), "label");
	for (int b = 0; b < BUCKETS; b++)
		check(tow_alloc(runtime, FLOATS * sizeof(float), 0, (void **)&buckets[b]), "alloc");
	for (unsigned long n = 1; n <= steps; n++) {
		check(tow_step_begin(runtime, n), "step");
		step(group, buckets, 5 + (tow_group_rank(group) == 1 ? late_ms : 0));
		check(tow_step_end(runtime, n), "step");
	}
	if (tow_group_rank(group) == 0)
		printf("%lu steps, the mean is %g\n", steps, (double)buckets[0][0]);
	check(tow_group_barrier(group, LIMIT_NS), "barrier");
	check(tow_group_close(group), "close");
	check(tow_runtime_close(runtime), "close");
	return EXIT_SUCCESS;
}
