/*
 * launch_program.c - what the tests of the suite `launchers` start as ranks: an ordinary program
 * that knows no launcher. It opens the group of all ranks, and then in rounds makes a barrier,
 * sends a message to the next rank, and sums over all ranks; all that arrives is checked.
 *
 *	launch_program [SECONDS [BYTES [MARK]]]
 *
 * It plays one round, or as many as rank 0 begins within SECONDS. With MARK the last rank fails
 * before it meets the others, unless the file MARK is there: it makes it, so it fails once.
 * As a shared object it has launch_run, which gets the program's own exchange (tow_exchange_put).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <towline/coll.h>
#include <towline/towline.h>

#define LIMIT_NS UINT64_C(60000000000)
#define COUNT    4096u

struct launch {
	struct tow_runtime *runtime;
	struct tow_group *group;
	uint32_t rank, size;
	size_t bytes;
	uint32_t *out, *in;
	float *sum;
};

static void check(int status, const char *what)
{
	if (status >= TOW_OK)
		return;
	printf("%s: %s: %s\n", what, tow_status_name(status), tow_error_message());
	exit(EXIT_FAILURE);
}

static void finish(struct tow_op *op, const char *what)
{
	check(tow_op_wait(op, LIMIT_NS), what);
	check(tow_op_release(op), what);
}

static void expect(int truth, const char *what, const struct launch *launch)
{
	if (truth)
		return;
	printf("rank %u of %u: %s\n", launch->rank, launch->size, what);
	exit(EXIT_FAILURE);
}

static double seconds_now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

static void *pool_block(struct launch *launch, size_t bytes)
{
	void *block;

	check(tow_alloc(launch->runtime, bytes, 0, &block), "alloc");
	return block;
}

/* To the next rank, of the one before; a job of one rank sends to itself. */
static void pass_message(struct launch *launch, uint32_t round)
{
	uint32_t next = (launch->rank + 1) % launch->size;
	uint32_t before = (launch->rank + launch->size - 1) % launch->size;
	size_t words = launch->bytes / sizeof(uint32_t);
	struct tow_op *send, *recv;

	for (size_t i = 0; i < words; i++)
		launch->out[i] = launch->rank * 65599u + round + (uint32_t)i;
	memset(launch->in, 0, launch->bytes);
	check(tow_group_recv_start(launch->group, before, launch->in, launch->bytes, 1, NULL,
				   &recv),
	      "recv");
	check(tow_group_send_start(launch->group, next, launch->out, launch->bytes, 1, NULL, &send),
	      "send");
	finish(recv, "recv");
	finish(send, "send");
	for (size_t i = 0; i < words; i++)
		expect(launch->in[i] == before * 65599u + round + (uint32_t)i,
		       "the message is another one", launch);
}

/* The sum of all ranks' numbers; more_out: does rank 0 begin another round? */
static void sum_ranks(struct launch *launch, int more, int *more_out)
{
	const uint32_t size = launch->size;
	struct tow_op *op;

	for (uint32_t i = 0; i < COUNT; i++)
		launch->sum[i] = (float)(launch->rank + i);
	launch->sum[COUNT] = launch->rank == 0 && more ? 1 : 0;
	check(tow_coll_all_reduce_start(launch->group, launch->sum, launch->sum, COUNT + 1, TOW_F32,
					TOW_SUM, NULL, &op),
	      "all-reduce");
	finish(op, "all-reduce");
	for (uint32_t i = 0; i < COUNT; i++)
		expect(launch->sum[i] == (float)(size * (size - 1) / 2 + size * i),
		       "the sum is wrong", launch);
	*more_out = launch->sum[COUNT] > 0;
}

/* The lanes of this process's peers, each once; "" without a peer. */
static void name_lanes(const struct launch *launch, char out[64])
{
	static const char key[] = "\"lane\":\"";
	char *text, word[16];

	out[0] = '\0';
	check(tow_stats_get(launch->runtime, "/v1/peers", &text), "/v1/peers");
	for (const char *at = text; (at = strstr(at, key)) != NULL;) {
		at += sizeof(key) - 1;
		snprintf(word, sizeof(word), "%.*s ", (int)strcspn(at, "\""), at);
		if (strstr(out, word) == NULL)
			snprintf(out + strlen(out), 64 - strlen(out), "%s", word);
	}
	tow_stats_release(text);
}

static void play_rounds(struct launch *launch, double seconds, struct tow_job_info *info)
{
	double begun = seconds_now(), end = begun + seconds, longest = 0;
	uint32_t round = 0;
	char lanes[64];
	int more;

	do {
		begun = seconds_now();
		check(tow_group_barrier(launch->group, LIMIT_NS), "barrier");
		pass_message(launch, round++);
		sum_ranks(launch, seconds_now() < end, &more);
		longest = seconds_now() - begun > longest ? seconds_now() - begun : longest;
	} while (more);
	name_lanes(launch, lanes);
	printf("all well: rank %u of %u, launcher %s, local %" PRId64 " of %" PRId64
	       ", restarts %" PRId64 ", lanes [%s], %u rounds of at most %.2f s, job %s\n",
	       launch->rank, launch->size, info->launcher, info->local_rank, info->local_size,
	       info->restarts, lanes, round, longest, info->job);
	fflush(stdout);
	check(tow_group_barrier(launch->group, LIMIT_NS), "barrier");
}

/* The last rank makes the file and fails, when the file is not there. */
static void fail_once(const char *mark, const struct tow_job_info *info)
{
	FILE *file;

	if (info->rank != info->world_size - 1 || access(mark, F_OK) == 0)
		return;
	file = fopen(mark, "w");
	if (file != NULL)
		fclose(file);
	printf("rank %" PRId64 " fails, this once\n", info->rank);
	exit(7);
}

__attribute__((visibility("default"))) int
launch_run(int argc, char **argv, const struct tow_group_options *group_options);

int launch_run(int argc, char **argv, const struct tow_group_options *group_options)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_job_info info = { .size = sizeof(info) };
	double seconds = argc > 1 ? strtod(argv[1], NULL) : 0;
	struct launch launch = { .bytes = argc > 2 ? strtoul(argv[2], NULL, 10) : 1u << 20 };

	options.premap_memory_bytes = 64 << 20;
	check(tow_runtime_open(&options, &launch.runtime), "runtime");
	check(tow_job_info(launch.runtime, &info), "job");
	if (argc > 3)
		fail_once(argv[3], &info);
	check(tow_group_open(launch.runtime, group_options, &launch.group), "group");
	launch.rank = tow_group_rank(launch.group);
	launch.size = tow_group_size(launch.group);
	launch.out = pool_block(&launch, launch.bytes);
	launch.in = pool_block(&launch, launch.bytes);
	launch.sum = pool_block(&launch, (COUNT + 1) * sizeof(float));
	play_rounds(&launch, seconds, &info);
	check(tow_group_close(launch.group), "close");
	check(tow_runtime_close(launch.runtime), "close");
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	return launch_run(argc, argv, NULL);
}
