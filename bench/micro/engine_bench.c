/*
 * engine_bench.c - measures what a call costs beside the lane's own work, and what an idle library
 * costs.
 *
 *	engine_bench [--quick]
 *
 *	pair      a send, a receive and both releases of 8 bytes, by one thread on the loop lane
 *	test      a test of an operation that is not done
 *	expire    operations with deadlines that all pass at once, for each operation
 *	idle      CPU time of a process with 50 idle tcp connections to itself, in % of one core
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <towline/towline.h>

#define ROUNDS      9
#define CONNECTIONS 50 /* each has both ends in this process */
#define EXPIRING    60000

#define OK(call)                                                                                   \
	do {                                                                                       \
		int ok_status = (call);                                                            \
		if (ok_status != TOW_OK) { /* TOW_COPIED, too */                                   \
			fprintf(stderr, "engine_bench: %s: %s: %s\n", #call,                       \
				tow_status_name(ok_status), tow_error_message());                  \
			exit(2);                                                                   \
		}                                                                                  \
	} while (0)

static struct tow_runtime *runtime;

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static double cpu_s(void)
{
	struct rusage use;

	getrusage(RUSAGE_SELF, &use);
	return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
	       (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1e-6;
}

static struct tow_peer *finish_op(struct tow_op *op)
{
	struct tow_result result = { .size = sizeof(result) };

	OK(tow_op_wait(op, TOW_FOREVER));
	OK(tow_op_result(op, &result));
	OK(tow_op_release(op));
	return result.peer;
}

static void join_peers(struct tow_endpoint *endpoint, struct tow_peer **a, struct tow_peer **b)
{
	char address[TOW_ADDRESS_MAX];
	struct tow_op *accept, *dial;

	OK(tow_endpoint_address(endpoint, address, sizeof(address)));
	OK(tow_accept_start(endpoint, NULL, &accept));
	OK(tow_connect_start(endpoint, address, NULL, &dial));
	*a = finish_op(dial);
	*b = finish_op(accept);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double time_pairs(struct tow_peer *a, struct tow_peer *b, unsigned count)
{
	uint64_t out = 1, in = 0;
	double start = now_s();

	for (unsigned i = 0; i < count; i++) {
		struct tow_op *send, *recv;

		OK(tow_recv_start(b, &in, sizeof(in), 1, NULL, &recv));
		OK(tow_send_start(a, &out, sizeof(out), 1, NULL, &send));
		OK(tow_op_wait(recv, TOW_FOREVER));
		OK(tow_op_release(send));
		OK(tow_op_release(recv));
	}
	return (now_s() - start) / count * 1e9;
}

static double time_tests(struct tow_peer *a, struct tow_peer *b, unsigned count)
{
	uint64_t in = 0;
	struct tow_op *recv;
	double start;

	(void)a;
	OK(tow_recv_start(b, &in, sizeof(in), 2, NULL, &recv));
	start = now_s();
	for (unsigned i = 0; i < count; i++) {
		if (tow_op_test(recv) != TOW_AGAIN)
			exit(2);
	}
	start = (now_s() - start) / count * 1e9;
	OK(tow_op_cancel(recv));
	tow_op_wait(recv, TOW_FOREVER);
	OK(tow_op_release(recv));
	return start;
}

/* All operations have a timeout of 1 ns, so that the first poll after it ends them all. */
static double time_expiry(struct tow_peer *a, struct tow_peer *b, unsigned count)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_op **ops = calloc(count, sizeof(struct tow_op *));
	static uint64_t in;
	double start;

	(void)a;
	if (ops == NULL)
		exit(2);
	options.timeout_ns = 1; /* no thread polls yet, so none expires early */
	for (unsigned i = 0; i < count; i++)
		OK(tow_recv_start(b, &in, sizeof(in), 3 + i, &options, &ops[i]));
	start = now_s();
	tow_progress(runtime);
	start = (now_s() - start) / count * 1e9;
	for (unsigned i = 0; i < count; i++) {
		tow_op_wait(ops[i], TOW_FOREVER);
		OK(tow_op_release(ops[i]));
	}
	free(ops);
	return start;
}

static void report_times(const char *name,
			 double (*once)(struct tow_peer *, struct tow_peer *, unsigned),
			 struct tow_peer *a, struct tow_peer *b, unsigned count)
{
	double ns[ROUNDS];

	for (unsigned i = 0; i < ROUNDS; i++)
		ns[i] = once(a, b, count);
	qsort(ns, ROUNDS, sizeof(ns[0]), by_value);
	printf("towline engine %s ns %.1f\n", name, ns[ROUNDS / 2]);
}

int main(int argc, char **argv)
{
	bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_endpoint *loop, *tcp;
	struct tow_peer *a, *b;
	double cpu, start;

	options.premap_memory_bytes = 4 << 20;
	options.stats = 0;
	options.background = 0;
	OK(tow_runtime_open(&options, &runtime));
	OK(tow_endpoint_open(runtime, "loop://bench", &loop));
	join_peers(loop, &a, &b);
	report_times("pair", time_pairs, a, b, quick ? 1000 : 300000);
	report_times("test", time_tests, a, b, quick ? 1000 : 1000000);
	report_times("expire", time_expiry, a, b, quick ? 1000 : EXPIRING);
	OK(tow_runtime_close(runtime));

	options.background = 1;
	OK(tow_runtime_open(&options, &runtime));
	OK(tow_endpoint_open(runtime, "tcp://127.0.0.1:0", &tcp));
	for (unsigned i = 0; i < CONNECTIONS; i++)
		join_peers(tcp, &a, &b);
	usleep(100000); /* until the library's thread takes over */
	cpu = cpu_s();
	start = now_s();
	usleep(quick ? 200000 : 10000000);
	printf("towline engine idle percent %.3f\n", 100 * (cpu_s() - cpu) / (now_s() - start));
	OK(tow_runtime_close(runtime));
	return 0;
}
