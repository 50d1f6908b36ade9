/*
 * 07_group.c - the ranks of a job: who am I, who are the others, and messages by number.
 *
 * Run it as a job:      towrun -n 4 example_07_group
 * Alone it is a job of one rank. Under torchrun, mpirun, srun, ... it finds its rank there, too.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <towline/towline.h>

static void check(int status, const char *what)
{
	if (status >= TOW_OK)
		return;
	fprintf(stderr, "%s: %s: %s\n", what, tow_status_name(status), tow_error_message());
	exit(EXIT_FAILURE);
}

static void finish(struct tow_op *op, const char *what)
{
	check(tow_op_wait(op, 20000000000u), what);
	check(tow_op_release(op), what);
}

/* The connection to a rank: made when one of the two first asks for it. */
static struct tow_peer *peer_of(struct tow_group *group, uint32_t rank)
{
	struct tow_peer *peer;
	struct tow_op *op;

	check(tow_group_connect_start(group, rank, NULL, &op), "connect");
	finish(op, "connect");
	check(tow_group_peer(group, rank, &peer), "peer");
	return peer;
}

/* Each rank tells its number to every other, and adds up what it hears. */
static uint32_t add_up(struct tow_group *group)
{
	uint32_t rank = tow_group_rank(group), size = tow_group_size(group), sum = rank, heard;
	struct tow_op *send, *recv;

	for (uint32_t other = 0; other < size; other++) {
		struct tow_peer *peer;

		if (other == rank)
			continue;
		peer = peer_of(group, other);
		check(tow_recv_start(peer, &heard, sizeof(heard), 7, NULL, &recv), "recv");
		check(tow_send_start(peer, &rank, sizeof(rank), 7, NULL, &send), "send");
		finish(send, "send");
		finish(recv, "recv");
		sum += heard;
	}
	return sum;
}

int main(void)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_job_info job = { .size = sizeof(job) };
	struct tow_runtime *runtime;
	struct tow_group *all, *half;
	uint32_t sum, size;

	options.premap_memory_bytes = 16 << 20;
	check(tow_runtime_open(&options, &runtime), "runtime");
	check(tow_job_info(runtime, &job), "job");
	check(tow_group_open(runtime, NULL, &all), "group");
	size = tow_group_size(all);
	sum = add_up(all);
	printf("rank %u of %u (%s, local rank %" PRId64 "): the sum is %u\n", tow_group_rank(all),
	       size, job.launcher, job.local_rank, sum);
	if (sum != size * (size - 1) / 2)
		return EXIT_FAILURE;
	check(tow_group_barrier(all, 20000000000u), "barrier");
	/* Even and odd ranks become two groups, each with its own numbers. */
	check(tow_group_split(all, tow_group_rank(all) % 2, 0, 20000000000u, &half), "split");
	printf("rank %u is rank %u of %u in its half\n", tow_group_rank(all), tow_group_rank(half),
	       tow_group_size(half));
	check(tow_group_barrier(half, 20000000000u), "barrier of the half");
	check(tow_group_close(half), "close");
	/* Whoever goes first would break what others still do with it. */
	check(tow_group_barrier(all, 20000000000u), "barrier");
	check(tow_group_close(all), "close");
	check(tow_runtime_close(runtime), "close");
	return EXIT_SUCCESS;
}
