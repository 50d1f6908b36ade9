/* peer.c - see peer.h. */
#include "bench/peers/programs/peer.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS_LEAST 4u /* the least number of windows of a bandwidth, for any size */
#define LARGE_BYTES  65536u
#define LARGE_ITERS  200u
#define CALLS_LEAST  3u
#define CALLS_MOST   20000u

struct peer_settings peer_settings;
const char *const peer_coll_names[PEER_COLLS] = { "allreduce", "allgather", "reduce_scatter",
						  "alltoall",  "bcast",     "reduce",
						  "gather",    "scatter" };

static const char *const op_names[] = { "lat", "bw", "bw_spread", "rate" };
#define OP_NAMES (sizeof(op_names) / sizeof(op_names[0]))

void peer_end(int status, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s: ", peer_settings.peer != NULL ? peer_settings.peer : "peer");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(status);
}

/* Reads a number from the environment. */
static double read_number(const char *name, const char *fallback, double least, double most)
{
	const char *text = bench_env(name, fallback);
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end != '\0' || !(value >= least && value <= most))
		peer_end(2, "%s is a number from %g to %g, not '%s'", name, least, most, text);
	return value;
}

static void read_sizes(const char *name, const char *fallback, struct bench_sizes *out)
{
	const char *text = bench_env(name, fallback);

	if (!bench_parse_sizes(text, 1, out))
		peer_end(2, "%s is '%s'; %s", name, text, BENCH_SIZES_HELP);
}

static void read_coll_sizes(int coll, struct bench_sizes *out)
{
	const char *usual = coll == PEER_ALLREDUCE ? "8,1K,16K,256K,1M,16M,64M,256M" : "1M,16M";
	char name[64];

	snprintf(name, sizeof(name), "BENCH_SIZES_%s", peer_coll_names[coll]);
	read_sizes(name, usual, out);
	for (unsigned i = 0; i < out->count; i++)
		if (out->bytes[i] % sizeof(float) != 0)
			peer_end(2,
				 "%s has %llu bytes, which is not a whole number of "
				 "floats",
				 name, (unsigned long long)out->bytes[i]);
}

static void read_environment(void)
{
	struct peer_settings *settings = &peer_settings;

	settings->peer = bench_env("BENCH_PEER", "peer");
	settings->path = bench_env("BENCH_PATH", "default");
	settings->iters = (unsigned)read_number("BENCH_LAT_ITERS", "10000", 1, 1e7);
	settings->volume_bytes = (uint64_t)read_number("BENCH_VOLUME_MIB", "384", 1, 1 << 20) << 20;
	settings->seconds = read_number("BENCH_SECONDS", "0.4", 0.0001, 3600);
	read_sizes("BENCH_SIZES_lat", "8,64,1K,4K", &settings->lat);
	read_sizes("BENCH_SIZES_bw", "4K,64K,256K,1M,4M,16M", &settings->bw);
	for (int coll = 0; coll < PEER_COLLS; coll++)
		read_coll_sizes(coll, &settings->coll[coll]);
}

static void add_op(const char *name, unsigned colls)
{
	for (unsigned i = 0; i < OP_NAMES; i++) {
		if (strcmp(name, op_names[i]) == 0) {
			peer_settings.ops |= 1u << i;
			return;
		}
	}
	for (unsigned i = 0; i < colls; i++) {
		if (strcmp(name, peer_coll_names[i]) == 0) {
			peer_settings.colls |= 1u << i;
			return;
		}
	}
	peer_end(2, "there is no operation '%s'; there are lat, bw, bw_spread, rate%s%s", name,
		 colls > 0 ? ", allreduce, allgather, reduce_scatter, alltoall, bcast" : "",
		 colls > PEER_UNROOTED ? ", reduce, gather, scatter" : "");
}

static void pin_rank(int rank)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t set;

	if (bench_env("BENCH_PIN", "1")[0] == '0' || bench_env("BENCH_UNPINNED", NULL) != NULL)
		return;
	CPU_ZERO(&set);
	CPU_SET((size_t)(rank % (int)(cpus > 0 ? cpus : 1)), &set);
	if (sched_setaffinity(0, sizeof(set), &set) != 0)
		peer_end(1, "rank %d cannot be pinned to a CPU: %s", rank, strerror(errno));
}

void peer_begin(int rank, int count, char *const *ops, unsigned colls)
{
	alarm(PEER_LIMIT_S);
	read_environment();
	for (int i = 0; i < count; i++)
		add_op(ops[i], colls);
	if (count == 0) {
		peer_settings.ops = (1u << OP_NAMES) - 1;
		peer_settings.colls = (1u << colls) - 1;
	}
	pin_rank(rank);
}

double peer_now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double time_s(struct timeval time)
{
	return (double)time.tv_sec + 1e-6 * (double)time.tv_usec;
}

double peer_cpu_s(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return time_s(used.ru_utime) + time_s(used.ru_stime);
}

void *peer_memory(uint64_t bytes)
{
	uint64_t least = bytes < 4096 ? 4096 : bytes;
	void *memory = NULL;

	if (posix_memalign(&memory, 4096, least) != 0)
		peer_end(1, "there is no memory of %llu bytes", (unsigned long long)least);
	memset(memory, 1, least);
	return memory;
}

static uint64_t largest_of(const struct bench_sizes *sizes, uint64_t largest)
{
	for (unsigned i = 0; i < sizes->count; i++)
		largest = sizes->bytes[i] > largest ? sizes->bytes[i] : largest;
	return largest;
}

void *peer_walk_memory(void)
{
	return peer_memory(
		largest_of(&peer_settings.lat, largest_of(&peer_settings.bw, PEER_SPAN)));
}

unsigned peer_iters(uint64_t bytes)
{
	return bytes > LARGE_BYTES && peer_settings.iters > LARGE_ITERS ? LARGE_ITERS
									: peer_settings.iters;
}

unsigned peer_window(uint64_t bytes)
{
	uint64_t window = PEER_SPAN / bytes;

	return window > PEER_WINDOW ? PEER_WINDOW : window < 4 ? 4 : (unsigned)window;
}

unsigned peer_windows(uint64_t bytes, unsigned window, unsigned most)
{
	uint64_t windows = peer_settings.volume_bytes / (bytes * window);

	return windows > most ? most : windows < ROUNDS_LEAST ? ROUNDS_LEAST : (unsigned)windows;
}

uint64_t peer_messages(uint64_t bytes, uint64_t most)
{
	uint64_t messages = peer_settings.volume_bytes / bytes;

	return messages > most ? most : messages < 1 ? 1 : messages;
}

unsigned peer_slots(uint64_t bytes, bool spread)
{
	return !spread || bytes > PEER_SPAN ? 1 : (unsigned)(PEER_SPAN / bytes);
}

unsigned peer_calls(double seconds_each)
{
	double calls = seconds_each > 0 ? peer_settings.seconds / seconds_each : CALLS_MOST;

	return calls > CALLS_MOST    ? CALLS_MOST
	       : calls < CALLS_LEAST ? CALLS_LEAST
				     : (unsigned)calls;
}

void peer_print(const char *op, uint64_t bytes, const char *metric, double value)
{
	printf("%s %s %s %llu %s %.6g\n", peer_settings.peer, peer_settings.path, op,
	       (unsigned long long)bytes, metric, value);
	fflush(stdout);
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void peer_print_latency(uint64_t bytes, double *seconds, unsigned count)
{
	double sum = 0;

	for (unsigned i = 0; i < count; i++)
		sum += seconds[i];
	qsort(seconds, count, sizeof(*seconds), compare_doubles);
	peer_print("lat", bytes, "p50_us", 1e6 * seconds[count / 2]);
	peer_print("lat", bytes, "p99_us", 1e6 * seconds[(uint64_t)count * 99 / 100]);
	peer_print("lat", bytes, "avg_us", 1e6 * sum / count);
}

void peer_print_stream(enum peer_op op, uint64_t bytes, uint64_t messages, double seconds,
		       double cpu_s)
{
	const char *name = op == PEER_BW ? "bw" : "bw_spread";
	double moved = (double)bytes * (double)messages;

	if (op == PEER_RATE) {
		peer_print("rate", bytes, "Mmsgps", 1e-6 * (double)messages / seconds);
		return;
	}
	peer_print(name, bytes, "MBps", 1e-6 * moved / seconds);
	peer_print(name, bytes, "cpu_s_per_GiB", cpu_s / (moved / (1 << 30)));
}

void peer_print_coll(enum peer_coll coll, int ranks, uint64_t bytes, unsigned calls,
		     double slowest_s, double cpu_s)
{
	char op[64];

	snprintf(op, sizeof(op), "%s-n%d", peer_coll_names[coll], ranks);
	peer_print(op, bytes, "time_us", 1e6 * slowest_s);
	if (bytes >= 1 << 20)
		peer_print(op, bytes, "cpu_s_per_GiB", cpu_s / ((double)bytes * calls / (1 << 30)));
}
