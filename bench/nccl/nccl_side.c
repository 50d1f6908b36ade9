/*
 * nccl_side.c - one process of a measurement: connects, then runs the pattern.
 *
 * NCCL's progress thread keeps up to 8 messages of a communicator under way, and tests the oldest
 * request of each. A pump does the same here.
 */
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "bench/nccl/nccl_bench.h"

#define SLOTS   8
#define TAG     7
#define GIVE_UP 60.0

/* The work of one thread: a communicator in one direction. */
struct pump {
	struct net_table *net;
	void *comm, *region;
	char *memory; /* of SLOTS messages */
	size_t bytes;
	bool sends;
	int steps, posted, done;
	void *requests[SLOTS];
	int failed;
};

struct side {
	const struct nccl_bench *bench;
	struct net_table net;
	int side, fd;
	void *context;
	void *send[NCCL_BENCH_COMMS], *recv[NCCL_BENCH_COMMS];
	struct pump pumps[2 * NCCL_BENCH_COMMS];
};

double *nccl_bench_shared(void)
{
	double *value = mmap(NULL, sizeof(*value), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return value == MAP_FAILED ? NULL : value;
}

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int exchange_bytes(const struct side *side, const void *mine, void *theirs, size_t bytes)
{
	size_t got = 0;

	if (write(side->fd, mine, bytes) != (ssize_t)bytes)
		return -1;
	while (got < bytes) {
		ssize_t n = read(side->fd, (char *)theirs + got, bytes - got);

		if (n <= 0)
			return -1;
		got += (size_t)n;
	}
	return 0;
}

static int meet_other(const struct side *side)
{
	char mine = 0, theirs;

	return exchange_bytes(side, &mine, &theirs, 1);
}

/* Makes one communicator in each direction. */
static int connect_pair(struct side *side, int index)
{
	char mine[NCCL_HANDLE_BYTES] = { 0 }, theirs[NCCL_HANDLE_BYTES];
	double begin = now_s();
	void *listening;

	if (net_listen(&side->net, side->context, 0, mine, &listening) != NCCL_SUCCESS ||
	    exchange_bytes(side, mine, theirs, sizeof(mine)) < 0)
		return -1;
	while (side->send[index] == NULL || side->recv[index] == NULL) {
		if (side->send[index] == NULL &&
		    net_connect(&side->net, side->context, 0, theirs, &side->send[index]) != 0)
			return -1;
		if (side->recv[index] == NULL &&
		    net_accept(&side->net, listening, &side->recv[index]) != 0)
			return -1;
		if (now_s() - begin > GIVE_UP)
			return -1;
	}
	return net_close_listen(&side->net, listening);
}

static int pump_open(struct side *side, struct pump *pump, void *comm, bool sends)
{
	size_t room = side->bench->bytes * SLOTS;

	pump->net = &side->net;
	pump->comm = comm;
	pump->sends = sends;
	pump->bytes = side->bench->bytes;
	pump->steps = side->bench->steps;
	pump->memory = aligned_alloc(4096, (room + 4095) / 4096 * 4096 + 4096);
	if (pump->memory == NULL)
		return -1;
	memset(pump->memory, sends, room);
	return net_register(&side->net, comm, pump->memory, room, NCCL_POINTER_HOST, &pump->region);
}

static int post_one(struct pump *pump)
{
	int slot = pump->posted % SLOTS, tag = TAG;
	void *data = pump->memory + pump->bytes * (size_t)slot;
	size_t bytes = pump->bytes;
	void *request = NULL;
	int result;

	if (pump->sends)
		result = net_send(pump->net, pump->comm, data, bytes, tag, pump->region, &request);
	else
		result = net_recv(pump->net, pump->comm, 1, &data, &bytes, &tag, &pump->region,
				  &request);
	pump->requests[slot] = request;
	pump->posted += request != NULL;
	return result;
}

/* One turn: posts a message if there is room, and tests the oldest. Returns 0 when all are done. */
static int pump_turn(struct pump *pump)
{
	int done = 0;

	if (pump->posted < pump->steps && pump->posted - pump->done < SLOTS)
		pump->failed |= post_one(pump);
	if (pump->done < pump->posted) {
		pump->failed |=
			net_test(pump->net, pump->requests[pump->done % SLOTS], &done, NULL);
		pump->done += done;
	}
	return pump->failed == 0 && pump->done < pump->steps;
}

static int finish_one(struct pump *pump)
{
	int slot = pump->done % SLOTS, done = 0;

	while (pump->posted == pump->done)
		if (post_one(pump) != 0)
			return -1;
	while (!done)
		if (net_test(pump->net, pump->requests[slot], &done, NULL) != 0)
			return -1;
	pump->done++;
	return 0;
}

static double run_rtt(struct side *side)
{
	struct pump *out = &side->pumps[0], *in = &side->pumps[1];
	int warm = side->bench->steps / 10 + 1;
	double begin = 0;

	for (int i = 0; i < warm + side->bench->steps; i++) {
		if (i == warm)
			begin = now_s();
		/* The receive is posted before the message comes, as NCCL does. */
		if (side->side == 0 &&
		    (post_one(in) != 0 || finish_one(out) != 0 || finish_one(in) != 0))
			return -1;
		if (side->side == 1 && (finish_one(in) != 0 || finish_one(out) != 0))
			return -1;
	}
	return (now_s() - begin) / side->bench->steps / 2 * 1e6;
}

static void *pump_thread(void *arg)
{
	struct pump *pump = arg;

	while (pump_turn(pump) != 0)
		if (pump->done % 16 == 0)
			sched_yield();
	return NULL;
}

static int run_threads(struct side *side)
{
	static pthread_t threads[2 * NCCL_BENCH_COMMS];
	int count = 2 * side->bench->comms, failed = 0;

	for (int i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, pump_thread, &side->pumps[i]) != 0)
			return -1;
	for (int i = 0; i < count; i++) {
		pthread_join(threads[i], NULL);
		failed |= side->pumps[i].failed;
	}
	return failed;
}

static int run_ring(struct side *side)
{
	int count = 2 * side->bench->comms, left, failed = 0;

	do {
		left = 0;
		for (int i = 0; i < count; i++)
			left |= pump_turn(&side->pumps[i]);
	} while (left != 0);
	for (int i = 0; i < count; i++)
		failed |= side->pumps[i].failed;
	return failed;
}

static double run_rate(struct side *side)
{
	double begin, took, bytes = (double)side->bench->bytes * side->bench->steps;
	int failed;

	if (meet_other(side) < 0)
		return -1;
	begin = now_s();
	failed = side->bench->kind == NCCL_BENCH_RING ? run_ring(side) : run_threads(side);
	took = now_s() - begin;
	return failed != 0 ? -1 : bytes * side->bench->comms / took / 1e9;
}

/* Prints memory, threads and descriptors, from /proc/self/status and fd. */
static void print_cost(void)
{
	char line[128], command[64];
	FILE *file = fopen("/proc/self/status", "r");

	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
		if (strncmp(line, "VmRSS", 5) == 0 || strncmp(line, "VmSize", 6) == 0 ||
		    strncmp(line, "FDSize", 6) == 0 || strncmp(line, "Threads", 7) == 0)
			fputs(line, stdout);
	if (file != NULL)
		fclose(file);
	snprintf(command, sizeof(command), "echo descriptors: $(ls /proc/%d/fd | wc -l)",
		 (int)getpid());
	fflush(stdout);
	if (system(command) != 0)
		puts("descriptors: not known");
}

static double run_many(struct side *side)
{
	double begin = now_s(), took;

	for (int i = 0; i < side->bench->comms; i++)
		if (connect_pair(side, i) != 0)
			return -1;
	took = now_s() - begin;
	if (meet_other(side) < 0)
		return -1;
	if (side->side == 0)
		print_cost();
	return took / side->bench->comms * 1e6;
}

static double run_kind(struct side *side)
{
	const struct nccl_bench *bench = side->bench;

	if (bench->kind == NCCL_BENCH_MANY)
		return run_many(side);
	for (int i = 0; i < bench->comms; i++)
		if (connect_pair(side, i) != 0 ||
		    pump_open(side, &side->pumps[2 * i], side->send[i], true) != 0 ||
		    pump_open(side, &side->pumps[2 * i + 1], side->recv[i], false) != 0)
			return -1;
	return bench->kind == NCCL_BENCH_RTT ? run_rtt(side) : run_rate(side);
}

static void close_all(struct side *side)
{
	for (int i = 0; i < 2 * side->bench->comms; i++)
		if (side->pumps[i].region != NULL)
			net_deregister(&side->net, side->pumps[i].comm, side->pumps[i].region);
	for (int i = 0; i < side->bench->comms; i++) {
		net_close_send(&side->net, side->send[i]);
		net_close_recv(&side->net, side->recv[i]);
	}
	net_finalize(&side->net, side->context);
}

__attribute__((format(printf, 5, 6))) static void
print_line(int level, unsigned long flags, const char *file, int line, const char *format, ...)
{
	va_list arguments;

	if (level != NCCL_LOG_WARN)
		return;
	va_start(arguments, format);
	fprintf(stderr, "%s:%d: (%lx) ", file, line, flags);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
}

int nccl_bench_side(const struct nccl_bench *bench, int number, int fd)
{
	struct side *side = calloc(1, sizeof(*side));
	double value;
	cpu_set_t cpus;

	if (side == NULL || net_load(&side->net, bench->plugin, bench->version) < 0)
		return 1;
	side->bench = bench;
	side->side = number;
	side->fd = fd;
	CPU_ZERO(&cpus);
	CPU_SET(number, &cpus);
	if (bench->pin)
		sched_setaffinity(0, sizeof(cpus), &cpus);
	if (net_init(&side->net, &side->context, 1, print_line) != NCCL_SUCCESS)
		return 1;
	value = run_kind(side);
	if (number == 0)
		*bench->value = value;
	if (value < 0 || meet_other(side) < 0)
		return 1;
	close_all(side);
	return 0;
}
