/*
 * alloclog_bench.c - measures what the allocation log costs a pair of alloc and free.
 *
 *	alloclog_bench [--quick]
 *
 * The same loop runs without the hook, with the hook and the log off, and with the log on. The
 * three take turns in each round, so that other work of the machine slows all alike. Each figure is
 * the median of the rounds. Of two threads each has its own memory in one pool.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/base/clock.h"
#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "memreg/alloclog/alloclog.h"
#include "memreg/pool/pool.h"

#define ROUNDS 21
#define LIVE   64 /* blocks that a thread cycles through, so more than one address */

enum way { WITHOUT, OFF, ON, WAYS };

static struct twi_pool *pool;
static struct twi_alloclog *alloclog;
static uint64_t pairs = 200000;

/* Each variant has its own function, as in a program. Returns ns of a pair. */
static double loop_without(uint64_t bytes, void **live)
{
	uint64_t start = twi_clock_gettime_ns();

	for (uint64_t i = 0; i < pairs; i++) {
		void **at = &live[i % LIVE];

		twi_pool_free(pool, *at);
		twi_pool_alloc(pool, bytes, 0, at);
	}
	return (double)(twi_clock_gettime_ns() - start) / (double)pairs;
}

static double loop_with(uint64_t bytes, void **live)
{
	uint64_t start = twi_clock_gettime_ns();

	for (uint64_t i = 0; i < pairs; i++) {
		void **at = &live[i % LIVE];
		struct twi_alloclog_begun begun = twi_alloclog_begin(alloclog, *at);

		if (twi_pool_free(pool, *at) >= 0)
			twi_alloclog_free(alloclog, *at, begun, TWI_SITE_HERE);
		if (twi_pool_alloc(pool, bytes, 0, at) >= 0)
			twi_alloclog_alloc(alloclog, *at, bytes, 0, TWI_SITE_HERE);
	}
	return (double)(twi_clock_gettime_ns() - start) / (double)pairs;
}

struct job {
	enum way way;
	uint64_t bytes;
	double ns;
};

static void *run_loop(void *arg)
{
	struct job *job = arg;
	void *live[LIVE] = { 0 };

	for (int i = 0; i < LIVE; i++) {
		if (twi_pool_alloc(pool, job->bytes, 0, &live[i]) < 0)
			return NULL;
	}
	job->ns =
		job->way == WITHOUT ? loop_without(job->bytes, live) : loop_with(job->bytes, live);
	for (int i = 0; i < LIVE; i++)
		twi_pool_free(pool, live[i]);
	return NULL;
}

/* Measures one round, on one or two threads. The log is on only for ON. */
static double measure_way(enum way way, uint64_t bytes, int threads)
{
	struct twi_alloclog_capture *capture = NULL;
	struct job mine = { way, bytes, -1 }, other = mine;
	pthread_t thread;

	if (way == ON && twi_alloclog_capture_start(alloclog, false, &capture) < 0)
		return -1;
	if (threads == 2 && pthread_create(&thread, NULL, run_loop, &other) != 0)
		return -1;
	run_loop(&mine);
	if (threads == 2)
		pthread_join(thread, NULL);
	if (capture != NULL)
		twi_alloclog_capture_finish(alloclog, capture, NULL);
	return threads == 2 ? (mine.ns + other.ns) / 2 : mine.ns;
}

static int compare_values(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print_row(uint64_t bytes, int threads)
{
	double ns[WAYS][ROUNDS];

	for (int r = 0; r < ROUNDS; r++) {
		for (int way = 0; way < WAYS; way++)
			ns[way][r] = measure_way((enum way)way, bytes, threads);
	}
	for (int way = 0; way < WAYS; way++)
		qsort(ns[way], ROUNDS, sizeof(double), compare_values);
	printf("%8llu %8d %10.1f %10.1f %10.1f %+10.1f%% %+10.1f\n", (unsigned long long)bytes,
	       threads, ns[WITHOUT][ROUNDS / 2], ns[OFF][ROUNDS / 2], ns[ON][ROUNDS / 2],
	       100 * (ns[OFF][ROUNDS / 2] / ns[WITHOUT][ROUNDS / 2] - 1),
	       ns[ON][ROUNDS / 2] - ns[WITHOUT][ROUNDS / 2]);
}

int main(int argc, char **argv)
{
	struct twi_pool_options options = { .bytes = (uint64_t)256 << 20 };

	if (argc > 1 && strcmp(argv[1], "--quick") == 0) {
		pairs = 2000;
		options.bytes = (uint64_t)16 << 20;
	} else if (argc > 1) {
		printf("usage: alloclog_bench [--quick]\n"
		       "ns of a pair of alloc and free: without the hook, log off, log on\n");
		return strcmp(argv[1], "--help") == 0 ? 0 : 2;
	}
	twi_clock_init();
	if (twi_diag_create(&options.diag) < 0 || twi_pool_create(&options, &pool) < 0 ||
	    twi_alloclog_create(options.diag, 1 << 20, &alloclog) < 0) {
		fprintf(stderr, "alloclog_bench: %s\n", tow_error_message());
		return 1;
	}
	printf("%8s %8s %10s %10s %10s %11s %10s\n", "bytes", "threads", "no hook", "off", "on",
	       "off", "on, ns");
	for (int threads = 1; threads <= 2; threads++) {
		print_row(256, threads);
		print_row(4096, threads);
		print_row(65536, threads);
	}
	twi_alloclog_destroy(alloclog);
	twi_pool_destroy(pool);
	twi_diag_destroy(options.diag);
	return 0;
}
