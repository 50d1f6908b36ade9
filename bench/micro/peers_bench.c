/*
 * peers_bench.c - measures what idle connections between two processes cost beside the one in use.
 *
 *	peers_bench [--lane LANE] [--peers N] [--channels] [--pool MIB] [--rounds N] [--quick]
 *
 *	alone    one connection exchanges 8 bytes; there is no other
 *	beside   the same while N - 1 others are open and idle
 *	memory   the resident memory that each of those adds to both processes, and the descriptors.
 *	         rss has all pages that a process sees; pss divides shared pages among the processes
 *	         that share them
 *
 * With --channels the others are message channels of the one connection, and each has carried a
 * message each way.
 *
 * The near side connects all of them. The far side is a child of it, and answers.
 */
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <towline/towline.h>

#include "bench/common/lanes.h"

#define PEERS_MAX  4096u
#define ROUNDS_MAX 15u
#define TAG_ASK    1u
#define TAG_ANSWER 2u
#define TAG_USAGE  3u

#define OK(call)                                                                                   \
	do {                                                                                       \
		int ok_status = (call);                                                            \
		if (ok_status != TOW_OK) { /* TOW_COPIED, too */                                   \
			fprintf(stderr, "peers_bench: %s: %s: %s\n", #call,                        \
				tow_status_name(ok_status), tow_error_message());                  \
			exit(2);                                                                   \
		}                                                                                  \
	} while (0)

/* The usage of one process. */
struct usage {
	double rss_kib, pss_kib, descriptors;
};

static struct {
	const char *lane;
	unsigned peers, rounds, exchanges, settling;
	bool channels;
	int64_t pool_bytes;
} options = { "shm", 512, 5, 20000, 30, false, 32 << 20 };

static struct tow_runtime *runtime;
static struct tow_endpoint *endpoint;
static struct tow_peer *peers[PEERS_MAX];
static bool near;

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void send_to(const void *data, uint64_t bytes, uint64_t tag)
{
	OK(tow_send_start(peers[0], data, bytes, tag, NULL, NULL));
}

static void recv_from(void *data, uint64_t bytes, uint64_t tag)
{
	struct tow_op *op;

	OK(tow_recv_start(peers[0], data, bytes, tag, NULL, &op));
	OK(tow_op_wait(op, TOW_FOREVER));
	OK(tow_op_release(op));
}

static struct usage own_usage(void)
{
	struct usage usage = { 0 };
	char line[256];
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	DIR *dir = opendir("/proc/self/fd");

	while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
		(void)sscanf(line, "Rss: %lf", &usage.rss_kib);
		(void)sscanf(line, "Pss: %lf", &usage.pss_kib);
	}
	while (dir != NULL && readdir(dir) != NULL)
		usage.descriptors++;
	if (file != NULL)
		fclose(file);
	if (dir != NULL)
		closedir(dir);
	return usage;
}

/* The usage of both processes, at the near side. */
static struct usage both_usages(void)
{
	struct usage mine = own_usage(), other = { 0 };

	if (!near) {
		send_to(&mine, sizeof(mine), TAG_USAGE);
		return mine;
	}
	recv_from(&other, sizeof(other), TAG_USAGE);
	mine.rss_kib += other.rss_kib;
	mine.pss_kib += other.pss_kib;
	mine.descriptors += other.descriptors;
	return mine;
}

/* Half a round trip of 8 bytes, in microseconds. */
static double exchange_all(void)
{
	uint64_t value = 0;
	double start = now_us();

	for (unsigned i = 0; i < options.exchanges; i++) {
		if (near)
			send_to(&value, sizeof(value), TAG_ASK);
		recv_from(&value, sizeof(value), near ? TAG_ANSWER : TAG_ASK);
		if (!near)
			send_to(&value, sizeof(value), TAG_ANSWER);
	}
	return (now_us() - start) / options.exchanges / 2;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Exchanges for a while first, until the library leaves quiet connections alone. */
static double median_exchange(void)
{
	double all[ROUNDS_MAX];

	for (unsigned i = 0; i < options.settling; i++)
		(void)exchange_all();

	for (unsigned i = 0; i < options.rounds; i++)
		all[i] = exchange_all();
	qsort(all, options.rounds, sizeof(all[0]), compare_doubles);
	return all[options.rounds / 2];
}

static struct tow_peer *peer_of(struct tow_op *op)
{
	struct tow_result result = TOW_RESULT_INIT;

	OK(tow_op_wait(op, TOW_FOREVER));
	OK(tow_op_result(op, &result));
	OK(tow_op_release(op));
	return result.peer;
}

/* Makes the next connection of both sides. The near side connects when the far side accepts. */
static void join_one(unsigned i, const char *address)
{
	struct tow_op *op;

	if (near)
		OK(tow_connect_start(endpoint, address, NULL, &op));
	else
		OK(tow_accept_start(endpoint, NULL, &op));
	peers[i] = peer_of(op);
}

/* Opens a channel in place of a connection. */
static void open_channel(unsigned number)
{
	struct tow_op_options with = TOW_OP_OPTIONS_INIT;
	uint64_t out = number, in = 0;
	struct tow_op *send, *recv;

	OK(tow_channel_open(peers[0], number, &with.channel));
	OK(tow_recv_start(peers[0], &in, sizeof(in), TAG_ASK, &with, &recv));
	OK(tow_send_start(peers[0], &out, sizeof(out), TAG_ASK, &with, &send));
	OK(tow_op_wait(send, TOW_FOREVER));
	OK(tow_op_wait(recv, TOW_FOREVER));
	OK(tow_op_release(send));
	OK(tow_op_release(recv));
}

static void open_side(int fd)
{
	struct tow_options with = TOW_OPTIONS_INIT;
	char address[TOW_ADDRESS_MAX];

	with.premap_memory_bytes = options.pool_bytes;
	with.stats = 0;
	OK(tow_runtime_open(&with, &runtime));
	if (!bench_lane_address(options.lane, address))
		snprintf(address, sizeof(address), "tow://");
	OK(tow_endpoint_open(runtime, address, &endpoint));
	if (near)
		return;
	OK(tow_endpoint_address(endpoint, address, sizeof(address)));
	if (write(fd, address, sizeof(address)) != (ssize_t)sizeof(address))
		exit(2);
}

static void print_figures(double alone, double beside, const struct usage *before,
			  const struct usage *after)
{
	double others = options.peers - 1;

	printf("peers_bench %s %s %u pool_mib %lld\n", options.lane,
	       options.channels ? "channels" : "peers", options.peers,
	       (long long)(options.pool_bytes >> 20));
	printf("  alone_us %.3f\n  beside_us %.3f\n  ratio %.2f\n", alone, beside, beside / alone);
	printf("  rss_kib %.1f\n  pss_kib %.1f\n  descriptors %.2f\n",
	       (after->rss_kib - before->rss_kib) / others,
	       (after->pss_kib - before->pss_kib) / others,
	       (after->descriptors - before->descriptors) / others);
}

static void play_side(const char *address)
{
	struct usage before, after;
	double alone, beside;

	join_one(0, address);
	alone = median_exchange();
	before = both_usages();
	for (unsigned i = 1; i < options.peers; i++) {
		if (options.channels)
			open_channel(i);
		else
			join_one(i, address);
	}
	after = both_usages();
	beside = median_exchange();
	if (near)
		print_figures(alone, beside, &before, &after);
	OK(tow_runtime_close(runtime));
}

static void usage_exit(void)
{
	char names[BENCH_LANES_HELP_BYTES];

	bench_lane_names(names);
	fprintf(stderr,
		"usage: peers_bench [--lane LANE] [--peers N] [--channels] [--pool MIB] [--rounds "
		"N] "
		"[--quick]\n"
		"LANE is %s, or tow\n",
		names);
	exit(1);
}

static void read_options(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : NULL;

		if (strcmp(argv[i], "--quick") == 0) {
			options.peers = 8;
			options.rounds = 1;
			options.exchanges = 100;
			options.settling = 1;
			continue;
		}
		if (strcmp(argv[i], "--channels") == 0) {
			options.channels = true;
			continue;
		}
		if (value == NULL)
			usage_exit();
		if (strcmp(argv[i], "--lane") == 0)
			options.lane = value;
		else if (strcmp(argv[i], "--peers") == 0)
			options.peers = (unsigned)strtoul(value, NULL, 10);
		else if (strcmp(argv[i], "--pool") == 0)
			options.pool_bytes = (int64_t)strtoul(value, NULL, 10) << 20;
		else if (strcmp(argv[i], "--rounds") == 0)
			options.rounds = (unsigned)strtoul(value, NULL, 10);
		else
			usage_exit();
		i++;
	}
	if (options.peers < 2 || options.peers > PEERS_MAX || options.rounds == 0 ||
	    options.rounds > ROUNDS_MAX || options.pool_bytes <= 0)
		usage_exit();
}

int main(int argc, char **argv)
{
	char address[TOW_ADDRESS_MAX] = "";
	int fds[2], how = 0;
	pid_t child;

	read_options(argc, argv);
	alarm(300);
	if (pipe(fds) != 0 || (child = fork()) < 0)
		exit(2);
	near = child != 0;
	open_side(fds[1]);
	if (near && read(fds[0], address, sizeof(address)) != (ssize_t)sizeof(address))
		exit(2);
	close(fds[0]);
	close(fds[1]);
	play_side(address);
	if (near && (waitpid(child, &how, 0) != child || how != 0))
		exit(2);
	return 0;
}
