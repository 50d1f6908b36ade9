/*
 * group_bench.c - measures what groups cost: two ranks, which are processes, make some in three
 * ways.
 *
 *	group_bench [--groups N] [--quick]
 *
 *	create    tow_group_create, by the members alone
 *	split     tow_group_split, by all ranks of the parent
 *	runtime   a runtime and a job for each group, as in a program that uses neither call; a
 *	          pool of 16 MiB
 *
 * Each way is timed until all groups exist, until all have made a barrier, and until all are
 * closed.
 */
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <towline/towline.h>

#define GROUPS_MAX 1000u
#define LIMIT_NS   60000000000ull
#define POOL_BYTES (16ull << 20)

#define OK(call)                                                                                   \
	do {                                                                                       \
		int ok_status = (call);                                                            \
		if (ok_status < 0) {                                                               \
			fprintf(stderr, "group_bench: %s: %s: %s\n", #call,                        \
				tow_status_name(ok_status), tow_error_message());                  \
			exit(2);                                                                   \
		}                                                                                  \
	} while (0)

enum way { CREATE, SPLIT, RUNTIME, WAYS };

static const char *const names[] = { "create", "split", "runtime" };

static struct tow_runtime *runtimes[GROUPS_MAX];
static struct tow_group *groups[GROUPS_MAX];

static double now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static int open_job(int rank, const char *store, struct tow_runtime **runtime_out,
		    struct tow_group **group_out)
{
	struct tow_group_options where = TOW_GROUP_OPTIONS_INIT;
	struct tow_options options = TOW_OPTIONS_INIT;
	int status;

	options.premap_memory_bytes = POOL_BYTES;
	options.stats = 0;
	where.rank = rank;
	where.world_size = 2;
	where.store = store;
	where.timeout_ns = LIMIT_NS;
	status = tow_runtime_open(&options, runtime_out);
	return status < 0 ? status : tow_group_open(*runtime_out, &where, group_out);
}

/*
 * Reserves a port of loopback for a store. It is bound and not listened at, so no other socket gets
 * it.
 */
static void reserve_port(char out[32])
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(address);
	int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &length) < 0) {
		perror("group_bench: a port");
		exit(2);
	}
	snprintf(out, 32, "127.0.0.1:%u", ntohs(address.sin_port));
}

static int make_one(enum way way, struct tow_group *job, int rank, const char *store, unsigned i)
{
	static const uint32_t ranks[] = { 0, 1 };

	if (way == CREATE)
		return tow_group_create(job, ranks, 2, NULL, LIMIT_NS, &groups[i]);
	if (way == SPLIT)
		return tow_group_split(job, 0, 0, LIMIT_NS, &groups[i]);
	return open_job(rank, store, &runtimes[i], &groups[i]);
}

static void measure_way(enum way way, struct tow_group *job, int rank, char (*stores)[32],
			unsigned count)
{
	double begin, made, met;

	OK(tow_group_barrier(job, LIMIT_NS));
	begin = now_ms();
	for (unsigned i = 0; i < count; i++)
		OK(make_one(way, job, rank, stores[i], i));
	made = now_ms();
	for (unsigned i = 0; i < count; i++)
		OK(tow_group_barrier(groups[i], LIMIT_NS));
	met = now_ms();
	for (unsigned i = 0; i < count; i++) {
		OK(tow_group_close(groups[i]));
		if (way == RUNTIME)
			OK(tow_runtime_close(runtimes[i]));
	}
	if (rank == 0)
		printf("%-8s %7u %10.2f %10.3f %10.2f %10.2f\n", names[way], count, made - begin,
		       (made - begin) / count, met - made, now_ms() - met);
	fflush(stdout);
}

static void run_rank(int rank, char (*stores)[32], unsigned count)
{
	struct tow_runtime *runtime;
	struct tow_group *job;

	OK(open_job(rank, stores[count], &runtime, &job));
	if (rank == 0)
		printf("%-8s %7s %10s %10s %10s %10s\n", "way", "groups", "made ms", "each ms",
		       "barrier ms", "closed ms");
	for (int way = 0; way < WAYS; way++)
		measure_way((enum way)way, job, rank, stores, count);
	OK(tow_group_close(job));
	OK(tow_runtime_close(runtime));
}

int main(int argc, char **argv)
{
	static char stores[GROUPS_MAX + 1][32];
	unsigned count = 12;
	int how = 0;
	pid_t other;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--quick") == 0) {
			count = 2;
		} else if (strcmp(argv[i], "--groups") == 0 && i + 1 < argc) {
			count = (unsigned)strtoul(argv[++i], NULL, 10);
		} else {
			fprintf(stderr, "usage: group_bench [--groups N] [--quick]\n");
			return 2;
		}
	}
	if (count < 1 || count > GROUPS_MAX) {
		fprintf(stderr, "group_bench: --groups expects 1 to %u\n", GROUPS_MAX);
		return 2;
	}
	for (unsigned i = 0; i <= count; i++)
		reserve_port(stores[i]);
	other = fork();
	if (other < 0) {
		perror("group_bench: fork");
		return 2;
	}
	run_rank(other == 0, stores, count);
	if (other != 0)
		waitpid(other, &how, 0);
	return how == 0 ? 0 : 2;
}
