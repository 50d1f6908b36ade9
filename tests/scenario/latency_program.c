/*
 * latency_program.c - one of two ranks that send each other messages of several sizes, both ways at
 * once: `latency_program FOLDER`, under towrun.
 *
 * It is ready when FOLDER/ready.RANK is there, sends once FOLDER/go is there, has done so when
 * FOLDER/done.RANK is there, and leaves when FOLDER/leave is there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <towline/towline.h>

#define LIMIT_NS   (20ull * 1000000000)
#define BYTES_MOST (1u << 20)
#define BATCH      4

/* Small ones and large ones, no two in one size class of /v1/latency. */
static const struct {
	uint64_t bytes;
	int rounds;
} kinds[] = {
	{ 8, 40 }, { 300, 20 }, { 2000, 20 }, { 12000, 20 }, { 100000, 15 }, { BYTES_MOST, 5 }
};

static void check(int status, const char *what)
{
	if (status >= 0)
		return;
	fprintf(stderr, "latency_program: %s: %s: %s\n", what, tow_status_name(status),
		tow_error_message());
	exit(EXIT_FAILURE);
}

static void nap_ms(long ms)
{
	nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

static void tell(const char *folder, const char *what, uint32_t rank)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s.%u", folder, what, rank);
	file = fopen(path, "w");
	if (file == NULL || fclose(file) != 0)
		exit(EXIT_FAILURE);
}

static void await(const char *folder, const char *what)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", folder, what);
	for (int i = 0; i < 6000 && access(path, F_OK) != 0; i++)
		nap_ms(5);
}

/* A batch each way. Now and then one side's receives lie there long before anything comes. */
static void exchange(struct tow_peer *peer, uint32_t rank, uint8_t *data, uint64_t bytes, int round)
{
	struct tow_op *ops[2 * BATCH];

	for (uint64_t i = 0; i < BATCH; i++)
		check(tow_recv_start(peer, data + i * BYTES_MOST, bytes, i, NULL, &ops[i]),
		      "receive");
	if (round % 10 == 5 && rank == (uint32_t)round / 10 % 2)
		nap_ms(3);
	for (uint64_t i = 0; i < BATCH; i++)
		check(tow_send_start(peer, data + (BATCH + i) * BYTES_MOST, bytes, i, NULL,
				     &ops[BATCH + i]),
		      "send");
	for (int i = 0; i < 2 * BATCH; i++) {
		check(tow_op_wait(ops[i], LIMIT_NS), "wait");
		check(tow_op_release(ops[i]), "release");
	}
}

int main(int argc, char **argv)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_runtime *runtime;
	struct tow_group *group;
	struct tow_peer *peer;
	uint8_t *data;
	uint32_t rank;

	if (argc != 2)
		return 2;
	options.premap_memory_bytes = 32 << 20;
	check(tow_runtime_open(&options, &runtime), "runtime");
	check(tow_group_open(runtime, NULL, &group), "group");
	rank = tow_group_rank(group);
	check(tow_alloc(runtime, 2ull * BATCH * BYTES_MOST, 0, (void **)&data), "alloc");
	memset(data, 1, 2ull * BATCH * BYTES_MOST);
	check(tow_group_barrier(group, LIMIT_NS), "barrier");
	check(tow_group_peer(group, 1 - rank, &peer), "peer");
	tell(argv[1], "ready", rank);
	await(argv[1], "go");
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		for (int round = 0; round < kinds[i].rounds; round++)
			exchange(peer, rank, data, kinds[i].bytes, round);
	tell(argv[1], "done", rank);
	await(argv[1], "leave");
	check(tow_group_close(group), "close");
	check(tow_runtime_close(runtime), "close");
	return EXIT_SUCCESS;
}
