/*
 * threads_bench.c - measures what other threads cost a thread that shares a runtime with them.
 *
 *	threads_bench [--lane LANE] [--threads N] [--style wait|test] [--window N] [--bytes N]
 *		      [--seldom US] [--for MS] [--quick]
 *
 *	alone     one pair of threads exchanges 8 bytes; no other thread has used the runtimes
 *	blocked   the same while the N - 1 other pairs have exchanged and block in tow_op_wait
 *	ended     the same after those have ended
 *	all       N pairs exchange at once: the sum of their rates while all of them do, the rate
 *	          from the start of the first thread to the end of the last, and the longest time
 *	          in which one of the threads has completed nothing
 *
 * An exchange is 8 bytes there and back. With --window it is that many messages of --bytes, and 8
 * bytes back. The messages use registered memory, and all are started before the first is waited
 * for.
 *
 * With --seldom the last of the N pairs exchanges 8 bytes beside the others, once in that many
 * microseconds. The time of these exchanges is printed.
 *
 * The near and the far threads are two processes; on the loop lane they are one. All pairs share
 * one connection, and each has tags of its own. alone, blocked and ended are measured in turns,
 * several times, and the median counts. So a machine that others use is slow for all three.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <towline/towline.h>

#include "bench/common/lanes.h"

#define THREADS_MAX 256
#define WINDOW_MAX  64u
#define SELDOM_MAX  100000u     /* exchanges whose time is kept */
#define BYTES_MAX   (64u << 20) /* of all windows of one side */
#define ROUNDS_MAX  9
#define BEGIN_NS    50000000u /* until all pairs exchange */
#define PART_MAX_NS 10000000000ull
#define STOP        UINT64_MAX
#define TAG_ASK     1000u /* plus the pair's number */
#define TAG_ANSWER  2000u
#define TAG_BLOCK   3000u
#define TAG_MEET    4000u
#define TAG_WINDOW  5000u

#define OK(call)                                                                                   \
	do {                                                                                       \
		int ok_status = (call);                                                            \
		if (ok_status != TOW_OK) { /* TOW_COPIED, too */                                   \
			fprintf(stderr, "threads_bench: %s: %s: %s\n", #call,                      \
				tow_status_name(ok_status), tow_error_message());                  \
			exit(2);                                                                   \
		}                                                                                  \
	} while (0)

struct side {
	struct tow_runtime *runtime;
	struct tow_peer *peer;
	bool near;
};

/* One thread of one side. */
struct worker {
	const struct side *side;
	pthread_t thread;
	unsigned number;
	bool block;  /* blocks after its exchanges */
	bool seldom; /* exchanges once in options.seldom_us */
	uint64_t from_ns, until_ns;
	uint64_t exchanges, worst_ns;
	uint64_t counted; /* exchanges between from_ns and until_ns */
};

static struct {
	const char *lane;
	unsigned threads, rounds, window, seldom_us;
	uint64_t bytes; /* of a message of a window */
	uint64_t part_ns;
	bool test;     /* tow_op_test instead of tow_op_wait */
	bool only_all; /* only the last measurement, for a profiler */
} options = { "tcp", 64, 5, 0, 0, 65536, 300000000, false, false };

static double seldom_took_us[SELDOM_MAX];
static unsigned seldom_count;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void finish_op(struct tow_op *op)
{
	int status;

	if (options.test) {
		while ((status = tow_op_test(op)) == TOW_AGAIN)
			;
		OK(status);
	} else {
		OK(tow_op_wait(op, TOW_FOREVER));
	}
	OK(tow_op_release(op));
}

static void put_value(const struct side *side, uint64_t tag, uint64_t value)
{
	OK(tow_send_start(side->peer, &value, sizeof(value), tag, NULL, NULL));
}

static uint64_t get_value(const struct side *side, uint64_t tag)
{
	struct tow_op *op;
	uint64_t value;

	OK(tow_recv_start(side->peer, &value, sizeof(value), tag, NULL, &op));
	finish_op(op);
	return value;
}

/* Returns when both sides have called it. */
static void meet_other(const struct side *side)
{
	put_value(side, TAG_MEET + side->near, 0);
	(void)get_value(side, TAG_MEET + !side->near);
}

/* Moves one window from the near side to the far side. */
static void move_window(const struct worker *worker, uint8_t *memory)
{
	const struct side *side = worker->side;
	struct tow_op *ops[WINDOW_MAX];
	uint64_t tag = TAG_WINDOW + worker->number;

	for (unsigned i = 0; i < options.window; i++) {
		uint8_t *data = memory + i * options.bytes;

		if (side->near)
			OK(tow_send_start(side->peer, data, options.bytes, tag, NULL, &ops[i]));
		else
			OK(tow_recv_start(side->peer, data, options.bytes, tag, NULL, &ops[i]));
	}
	for (unsigned i = 0; i < options.window; i++)
		finish_op(ops[i]);
}

static uint8_t *window_alloc(const struct side *side)
{
	void *memory = NULL;

	if (options.window > 0) {
		OK(tow_alloc(side->runtime, options.window * options.bytes, 4096, &memory));
		memset(memory, 1, options.window * options.bytes);
	}
	return memory;
}

static void window_free(const struct side *side, uint8_t *memory)
{
	if (memory != NULL)
		OK(tow_free(side->runtime, memory));
}

static void run_near(struct worker *worker)
{
	const struct side *side = worker->side;
	uint8_t *memory = window_alloc(side);
	uint64_t last_ns = now_ns(), answer;
	struct tow_op *op;

	for (uint64_t value = 0; value == 0 || last_ns < worker->until_ns; value++) {
		uint64_t at_ns;

		if (worker->seldom) {
			usleep(options.seldom_us);
			last_ns = now_ns();
		}
		OK(tow_recv_start(side->peer, &answer, sizeof(answer), TAG_ANSWER + worker->number,
				  NULL, &op));
		put_value(side, TAG_ASK + worker->number, value);
		if (!worker->seldom)
			move_window(worker, memory);
		finish_op(op);
		if (answer != value) {
			fprintf(stderr, "threads_bench: a wrong answer\n");
			exit(2);
		}
		at_ns = now_ns();
		if (at_ns - last_ns > worker->worst_ns)
			worker->worst_ns = at_ns - last_ns;
		if (worker->seldom && last_ns >= worker->from_ns && seldom_count < SELDOM_MAX)
			seldom_took_us[seldom_count++] = (double)(at_ns - last_ns) / 1e3;
		worker->counted += last_ns >= worker->from_ns && at_ns <= worker->until_ns;
		last_ns = at_ns;
		worker->exchanges++;
	}
	put_value(side, TAG_ASK + worker->number, STOP);
	window_free(side, memory);
}

static void run_far(struct worker *worker)
{
	uint8_t *memory = window_alloc(worker->side);
	uint64_t value;

	while ((value = get_value(worker->side, TAG_ASK + worker->number)) != STOP) {
		if (!worker->seldom)
			move_window(worker, memory);
		put_value(worker->side, TAG_ANSWER + worker->number, value);
	}
	window_free(worker->side, memory);
}

static void *worker_run(void *arg)
{
	struct worker *worker = arg;

	if (worker->side->near)
		run_near(worker);
	else
		run_far(worker);
	if (worker->block) {
		struct tow_op *op;
		uint64_t value;

		OK(tow_recv_start(worker->side->peer, &value, sizeof(value),
				  TAG_BLOCK + worker->number, NULL, &op));
		OK(tow_op_wait(op, TOW_FOREVER));
		OK(tow_op_release(op));
	}
	return NULL;
}

/* Starts workers that exchange until `until_ns`; 0: that block after one exchange. */
static void begin_workers(struct worker *workers, const struct side *side, unsigned first,
			  unsigned count, uint64_t from_ns, uint64_t until_ns)
{
	for (unsigned i = first; i < first + count; i++) {
		workers[i] = (struct worker){ .side = side,
					      .number = i,
					      .block = until_ns == 0,
					      .seldom = options.seldom_us > 0 && until_ns > 0 &&
							i == options.threads - 1,
					      .from_ns = from_ns,
					      .until_ns = until_ns };
		if (pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]) != 0) {
			fprintf(stderr, "threads_bench: no thread %u\n", i);
			exit(2);
		}
	}
}

static void end_workers(struct worker *workers, unsigned first, unsigned count)
{
	for (unsigned i = first; i < first + count; i++)
		pthread_join(workers[i].thread, NULL);
}

/* The time of one exchange by the first pair, in microseconds. */
static double measure_side(const struct side *side)
{
	uint64_t for_ns = options.only_all ? 10000000 : options.part_ns;
	struct worker one = { .side = side, .until_ns = now_ns() + for_ns };
	uint64_t begun = now_ns();

	worker_run(&one);
	return one.exchanges == 0 ? 0 : (double)(now_ns() - begun) / 1e3 / (double)one.exchanges;
}

struct figures {
	double alone_us[ROUNDS_MAX], blocked_us[ROUNDS_MAX], ended_us[ROUNDS_MAX];
	double all_per_s[ROUNDS_MAX], whole_per_s[ROUNDS_MAX], worst_ms;
};

static void exchange_all(struct worker *workers, const struct side *side, struct figures *out,
			 unsigned round)
{
	uint64_t begun = now_ns(), from = begun + BEGIN_NS, sum = 0, counted = 0;

	begin_workers(workers, side, 0, options.threads, from, from + options.part_ns);
	end_workers(workers, 0, options.threads);
	for (unsigned i = 0; i < options.threads; i++) {
		sum += workers[i].exchanges;
		counted += workers[i].counted;
		if ((double)workers[i].worst_ns / 1e6 > out->worst_ms)
			out->worst_ms = (double)workers[i].worst_ns / 1e6;
	}
	out->all_per_s[round] = (double)counted * 1e9 / (double)options.part_ns;
	out->whole_per_s[round] = (double)sum * 1e9 / (double)(now_ns() - begun);
}

static void round_of(const struct side *side, struct figures *out, unsigned round)
{
	static struct worker near[THREADS_MAX], far[THREADS_MAX];
	struct worker *workers = side->near ? near : far;
	unsigned others = options.threads - 1;

	meet_other(side);
	out->alone_us[round] = measure_side(side);
	meet_other(side);
	if (options.only_all)
		others = 0;
	begin_workers(workers, side, 1, others, 0, 0);
	usleep(100000);
	meet_other(side);
	out->blocked_us[round] = measure_side(side);
	meet_other(side);
	for (unsigned i = 1; i <= others; i++)
		put_value(side, TAG_BLOCK + i, 0);
	end_workers(workers, 1, others);
	meet_other(side);
	out->ended_us[round] = measure_side(side);
	meet_other(side);
	exchange_all(workers, side, out, round);
	meet_other(side);
}

static void *play_side(void *arg)
{
	const struct side *side = arg;
	struct figures unused = { 0 };

	for (unsigned i = 0; i < options.rounds; i++)
		round_of(side, &unused, i);
	return NULL;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median_of(double *values)
{
	qsort(values, options.rounds, sizeof(values[0]), by_value);
	return values[options.rounds / 2];
}

static void report_seldom(void)
{
	const double *took = seldom_took_us;
	unsigned count = seldom_count;

	if (count == 0)
		return;
	qsort(seldom_took_us, count, sizeof(took[0]), by_value);
	printf("{\"seldom_us\": %u, \"exchanges\": %u, \"p50_us\": %.1f, \"p90_us\": %.1f, "
	       "\"p99_us\": %.1f, \"most_us\": %.1f}\n",
	       options.seldom_us, count, took[count / 2], took[count - 1 - count / 10],
	       took[count - 1 - count / 100], took[count - 1]);
}

static void report_figures(struct figures *figures)
{
	double alone = median_of(figures->alone_us), blocked = median_of(figures->blocked_us);
	double ended = median_of(figures->ended_us), all = median_of(figures->all_per_s);
	double whole = median_of(figures->whole_per_s);

	report_seldom();
	if (options.window > 0)
		printf("{\"window\": %u, \"bytes\": %" PRIu64 ", \"all_gb_per_s\": %.3f}\n",
		       options.window, options.bytes,
		       all * options.window * (double)options.bytes / 1e9);
	printf("{\"lane\": \"%s\", \"style\": \"%s\", \"threads\": %u, \"alone_us\": %.2f, "
	       "\"blocked_us\": %.2f, \"ended_us\": %.2f, \"all_per_s\": %.0f, "
	       "\"all_over_alone\": %.2f, \"whole_over_alone\": %.2f, \"longest_gap_ms\": %.1f}\n",
	       options.lane, options.test ? "test" : "wait", options.threads, alone, blocked, ended,
	       all, all * alone / 1e6, whole * alone / 1e6, figures->worst_ms);
}

static struct tow_runtime *open_runtime(void)
{
	struct tow_options knobs = TOW_OPTIONS_INIT;
	struct tow_runtime *runtime;

	knobs.premap_memory_bytes = (8 << 20) + 2 * BYTES_MAX * (options.window > 0);
	knobs.stats = 0;
	OK(tow_runtime_open(&knobs, &runtime));
	return runtime;
}

static struct tow_peer *peer_of(struct tow_op *op)
{
	struct tow_result result = { .size = sizeof(result) };

	OK(tow_op_wait(op, TOW_FOREVER));
	OK(tow_op_result(op, &result));
	OK(tow_op_release(op));
	return result.peer;
}

/* Runs both sides in this process. */
static void run_here(struct figures *figures)
{
	struct tow_runtime *runtime = open_runtime();
	struct side near = { runtime, NULL, true }, far = { runtime, NULL, false };
	char address[TOW_ADDRESS_MAX];
	struct tow_endpoint *endpoint;
	struct tow_op *accept, *dial;
	pthread_t thread;

	OK(tow_endpoint_open(runtime, "loop://threads", &endpoint));
	OK(tow_endpoint_address(endpoint, address, sizeof(address)));
	OK(tow_accept_start(endpoint, NULL, &accept));
	OK(tow_connect_start(endpoint, address, NULL, &dial));
	near.peer = peer_of(dial);
	far.peer = peer_of(accept);
	if (pthread_create(&thread, NULL, play_side, &far) != 0)
		exit(2);
	for (unsigned i = 0; i < options.rounds; i++)
		round_of(&near, figures, i);
	pthread_join(thread, NULL);
	OK(tow_runtime_close(runtime));
}

/* Runs the far side in a child. */
static void run_apart(struct figures *figures)
{
	struct side side = { .near = true };
	char address[TOW_ADDRESS_MAX];
	struct tow_endpoint *endpoint;
	struct tow_op *op;
	int fds[2], how = 0;
	pid_t child;

	if (pipe(fds) != 0 || (child = fork()) < 0)
		exit(2);
	side.near = child != 0;
	side.runtime = open_runtime();
	if (!bench_lane_address(options.lane, address))
		snprintf(address, sizeof(address), "tow://");
	OK(tow_endpoint_open(side.runtime, address, &endpoint));
	if (side.near) {
		OK(tow_endpoint_address(endpoint, address, sizeof(address)));
		if (write(fds[1], address, sizeof(address)) != (ssize_t)sizeof(address))
			exit(2);
		OK(tow_accept_start(endpoint, NULL, &op));
	} else {
		close(fds[1]);
		if (read(fds[0], address, sizeof(address)) != (ssize_t)sizeof(address))
			exit(2);
		OK(tow_connect_start(endpoint, address, NULL, &op));
	}
	side.peer = peer_of(op);
	for (unsigned i = 0; i < options.rounds; i++)
		round_of(&side, figures, i);
	OK(tow_runtime_close(side.runtime));
	if (!side.near)
		exit(0);
	if (waitpid(child, &how, 0) != child || how != 0)
		exit(2);
}

static void usage_exit(void)
{
	char names[BENCH_LANES_HELP_BYTES];

	bench_lane_names(names);
	fprintf(stderr,
		"usage: threads_bench [--lane LANE] [--threads N] [--style wait|test] "
		"[--window N] [--bytes N] [--seldom US] [--for MS] [--quick]\n"
		"LANE is %s, tow or loop; all windows of a side have up to %u bytes\n",
		names, BYTES_MAX);
	exit(1);
}

static const char *lane_of(const char *text)
{
	char address[TOW_ADDRESS_MAX];

	if (strcmp(text, "loop") != 0 && strcmp(text, "tow") != 0 &&
	    !bench_lane_address(text, address))
		usage_exit();
	return text;
}

int main(int argc, char **argv)
{
	static struct figures figures;

	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : NULL;

		if (strcmp(argv[i], "--only-all") == 0) {
			options.only_all = true;
			continue;
		}
		if (strcmp(argv[i], "--quick") == 0) {
			options.rounds = 1;
			options.part_ns = 50000000;
			continue;
		}
		if (value == NULL)
			usage_exit();
		if (strcmp(argv[i], "--lane") == 0)
			options.lane = lane_of(value);
		else if (strcmp(argv[i], "--threads") == 0)
			options.threads = (unsigned)strtoul(value, NULL, 10);
		else if (strcmp(argv[i], "--for") == 0)
			options.part_ns = strtoul(value, NULL, 10) * 1000000;
		else if (strcmp(argv[i], "--window") == 0)
			options.window = (unsigned)strtoul(value, NULL, 10);
		else if (strcmp(argv[i], "--seldom") == 0)
			options.seldom_us = (unsigned)strtoul(value, NULL, 10);
		else if (strcmp(argv[i], "--bytes") == 0)
			options.bytes = strtoul(value, NULL, 10);
		else if (strcmp(argv[i], "--style") == 0)
			options.test = strcmp(value, "test") == 0;
		else
			usage_exit();
		i++;
	}
	if (options.threads < 2 || options.threads > THREADS_MAX || options.part_ns == 0 ||
	    options.part_ns > PART_MAX_NS || options.window > WINDOW_MAX || options.bytes == 0 ||
	    options.seldom_us >= 1000000 ||
	    (options.window > 0 && options.bytes > BYTES_MAX / options.window / options.threads))
		usage_exit();
	alarm(options.rounds * 60);
	if (strcmp(options.lane, "loop") == 0)
		run_here(&figures);
	else
		run_apart(&figures);
	report_figures(&figures);
	return 0;
}
