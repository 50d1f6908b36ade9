/*
 * trace_program.c - a rank of the job that test_trace_tools captures: a few steps of collectives
 * and messages, then it stays to be asked until the file FOLDER/leave is there, or 30 s have
 * passed.
 *
 *	trace_program FOLDER     FOLDER/ready.RANK says that the steps are done
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <towline/towline.h>

#define LIMIT_NS 30000000000u
#define STEPS    6
#define FLOATS   (1 << 16)
#define BYTES    (FLOATS * sizeof(float))

static void check(int status, const char *what)
{
	if (status >= TOW_OK)
		return;
	fprintf(stderr, "trace_program: %s: %s: %s\n", what, tow_status_name(status),
		tow_error_message());
	exit(EXIT_FAILURE);
}

static void finish(struct tow_op *op, const char *what)
{
	check(tow_op_wait(op, LIMIT_NS), what);
	check(tow_op_release(op), what);
}

static void nap_ms(long ms)
{
	nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

/* Other times for each step, so that nothing agrees by chance. */
static void compute(struct tow_runtime *runtime, uint64_t step)
{
	check(tow_span_begin(runtime, "compute"), "span");
	nap_ms(3 + (long)step);
	check(tow_span_end(runtime), "span");
}

/* Rank 0 sends to rank 1. */
static void message(struct tow_peer *peer, uint32_t rank, float *data)
{
	struct tow_op *op;

	if (rank == 0)
		check(tow_send_start(peer, data, BYTES, 7, NULL, &op), "send");
	else
		check(tow_recv_start(peer, data, BYTES, 7, NULL, &op), "receive");
	nap_ms(1);
	finish(op, "message");
}

static void step(struct tow_runtime *runtime, struct tow_group *group, struct tow_peer *peer,
		 float *data[2], uint64_t number)
{
	struct tow_op *op;

	check(tow_step_begin(runtime, number), "step");
	check(tow_coll_all_reduce_start(group, data[0], data[0], FLOATS, TOW_F32, TOW_SUM, NULL,
					&op),
	      "all-reduce");
	compute(runtime, number);
	finish(op, "all-reduce");
	check(tow_coll_all_gather_start(group, data[0], data[1], FLOATS / 2, TOW_F32, NULL, &op),
	      "all-gather");
	nap_ms(2);
	finish(op, "all-gather");
	message(peer, tow_group_rank(group), data[1]);
	check(tow_step_end(runtime, number), "step");
}

static void stay(const char *folder, uint32_t rank)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/ready.%u", folder, rank);
	file = fopen(path, "w");
	if (file == NULL || fclose(file) != 0)
		exit(EXIT_FAILURE);
	snprintf(path, sizeof(path), "%s/leave", folder);
	for (int i = 0; i < 3000 && access(path, F_OK) != 0; i++)
		nap_ms(10);
}

int main(int argc, char **argv)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_runtime *runtime;
	struct tow_group *group;
	struct tow_peer *peer;
	float *data[2];

	if (argc != 2)
		return 2;
	options.premap_memory_bytes = 16 << 20;
	check(tow_runtime_open(&options, &runtime), "runtime");
	check(tow_group_open(runtime, NULL, &group), "group");
	for (int i = 0; i < 2; i++)
		check(tow_alloc(runtime, BYTES, 0, (void **)&data[i]), "alloc");
	for (int i = 0; i < 2 * FLOATS; i++)
		data[i / FLOATS][i % FLOATS] = 1;
	check(tow_group_barrier(group, LIMIT_NS), "barrier");
	check(tow_group_peer(group, 1 - tow_group_rank(group), &peer), "peer");
	for (uint64_t number = 1; number <= STEPS; number++)
		step(runtime, group, peer, data, number);
	stay(argv[1], tow_group_rank(group));
	check(tow_group_close(group), "close");
	check(tow_runtime_close(runtime), "close");
	return EXIT_SUCCESS;
}
