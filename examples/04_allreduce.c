/*
 * 04_allreduce.c - data parallelism: gradients in buckets, averaged over all ranks while the
 * backward pass goes on.
 *
 * Run it as a job:      towrun -n 2 example_04_allreduce
 *
 * A bucket is exchanged as soon as its gradients are there; the next one is computed meanwhile, and
 * nobody waits before the end of the step.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <towline/coll.h>
#include <towline/towline.h>

#define STEPS    5
#define BUCKETS  8
#define FLOATS   (1 << 20) /* of a bucket */
#define LIMIT_NS UINT64_C(60000000000)

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

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static double shorter(double a, double b)
{
	return a < b ? a : b;
}

/* The gradients of a bucket: each rank's differ, as each has seen other samples. */
static void backward(float *bucket, int number, uint32_t rank)
{
	for (int i = 0; i < FLOATS; i++)
		bucket[i] = (float)((i + number) % 1000 + (int)rank);
}

/* The mean of all ranks: of r = 0 to n - 1 it is (n - 1) / 2. */
static void verify(const float *bucket, int number, uint32_t ranks)
{
	for (int i = 0; i < FLOATS; i++) {
		float want = (float)((i + number) % 1000) + (float)(ranks - 1) / 2;

		if (bucket[i] == want)
			continue;
		fprintf(stderr, "bucket %d, element %d: %g, not %g\n", number, i, bucket[i], want);
		exit(EXIT_FAILURE);
	}
}

/* A step, or one half of it: the seconds of the shortest of a few. */
static double step(struct tow_group *group, float **buckets, int computes, int exchanges)
{
	struct tow_op *ops[BUCKETS] = { NULL };
	double begin;

	check(tow_group_barrier(group, LIMIT_NS), "barrier");
	begin = now();
	for (int b = 0; b < BUCKETS; b++) {
		if (computes)
			backward(buckets[b], b, tow_group_rank(group));
		if (exchanges)
			check(tow_coll_all_reduce_start(group, buckets[b], buckets[b], FLOATS,
							TOW_F32, TOW_AVG, NULL, &ops[b]),
			      "all-reduce");
	}
	for (int b = 0; b < BUCKETS && exchanges; b++)
		finish(ops[b], "all-reduce");
	return now() - begin;
}

int main(void)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_runtime *runtime;
	struct tow_group *group;
	float *buckets[BUCKETS];
	double compute, exchange, both;

	options.premap_memory_bytes = 96 << 20;
	check(tow_runtime_open(&options, &runtime), "runtime");
	check(tow_group_open(runtime, NULL, &group), "group");
	for (int b = 0; b < BUCKETS; b++) /* of the pool: other ranks use it where it lies */
		check(tow_alloc(runtime, FLOATS * sizeof(float), 0, (void **)&buckets[b]), "alloc");
	step(group, buckets, 1, 1); /* connects, and makes the plan */
	compute = exchange = both = LIMIT_NS;
	for (int i = 0; i < STEPS; i++) { /* the shortest of each */
		compute = shorter(compute, step(group, buckets, 1, 0));
		exchange = shorter(exchange, step(group, buckets, 0, 1));
		both = shorter(both, step(group, buckets, 1, 1));
	}
	for (int b = 0; b < BUCKETS; b++)
		verify(buckets[b], b, tow_group_size(group));
	printf("rank %u of %u: compute %.1f ms, exchange %.1f ms, together %.1f ms: %.0f %% "
	       "hidden\n",
	       tow_group_rank(group), tow_group_size(group), compute * 1e3, exchange * 1e3,
	       both * 1e3, (compute + exchange - both) / shorter(compute, exchange) * 100);
	check(tow_group_barrier(group, LIMIT_NS), "barrier");
	check(tow_group_close(group), "close");
	return check(tow_runtime_close(runtime), "close"), EXIT_SUCCESS;
}
