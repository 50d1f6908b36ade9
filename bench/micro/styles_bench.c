/*
 * styles_bench.c - measures what each way to learn of an end costs.
 *
 *	styles_bench [--lane LANE] [--bytes N] [--away US] [--burst N] [--style STYLE]
 *		     [--rounds N] [--quick]
 *
 *	wait      tow_op_wait
 *	test      tow_op_test in a loop
 *	callback  a completion callback posts a semaphore, on which the thread sleeps
 *	queue     the thread polls the descriptor of a completion queue, and takes
 *	take      tow_queue_take in a loop
 *	fd        the thread polls its tow_fd, and progresses
 *
 * Two processes exchange a message of --bytes there and back. The first figures are the time of
 * that. With --away the thread sleeps for that time after it has started a send and a receive of
 * --bytes each, and both sides do so at once. Then the figures are the time that it waits after
 * that, which is 0 where the library goes on meanwhile.
 *
 * With --burst one side sends so many messages one after another, and sleeps for --away. It waits
 * for each at once with the style wait, and learns of their ends after the sleep with another. The
 * figures are the time from a message's start until the other side, which waits, has it.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <towline/towline.h>

#include "bench/common/lanes.h"
#include <internal/base.h>

#define ROUNDS_MAX 100000u
#define BYTES_MAX  (64u << 20)
#define WAIT_NS    60000000000ull
#define WARM       20u
#define BURST_MAX  64u
#define STAMP      16u /* bytes of a message in a burst, at least */

enum style { WAIT, TEST, CALLBACK, QUEUE, TAKE, DESCRIPTOR, STYLES };

static const char *const style_names[STYLES] = {
	"wait", "test", "callback", "queue", "take", "fd"
};

static struct {
	const char *lane;
	unsigned rounds, away_us, burst;
	uint64_t bytes;
	int style; /* -1: each */
} options = { "tcp", 2000, 0, 0, 64, -1 };

struct side {
	struct tow_runtime *runtime;
	struct tow_peer *peer;
	struct tow_queue *queue;
	int queue_fd, fd;
	bool near;
	uint8_t *memory; /* two messages, or a burst of them */
	enum style style;
};

static sem_t told;
static double took_us[ROUNDS_MAX];

static _Noreturn void die_with(const char *what, const char *why)
{
	fprintf(stderr, "styles_bench: %s: %s\n", what, why);
	exit(2);
}

/* TOW_COPIED is a success. */
#define OK(call)                                                                                   \
	do {                                                                                       \
		if ((call) < 0)                                                                    \
			die_with(#call, tow_error_message());                                      \
	} while (0)

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void on_done(struct tow_op *op, const struct tow_result *result)
{
	OK(result->status);
	tow_op_release(op);
	sem_post(&told);
}

static void sleep_on(int fd)
{
	struct pollfd entry = { .fd = fd, .events = POLLIN };

	while (poll(&entry, 1, -1) < 0 && errno == EINTR)
		;
}

static void take_one(const struct side *side)
{
	struct tow_result result = { .size = sizeof(result) };
	size_t count = 0;

	while (count == 0) {
		if (side->style == QUEUE)
			sleep_on(side->queue_fd);
		if (tow_queue_take(side->queue, &result, 1, &count) < 0)
			die_with("tow_queue_take", tow_error_message());
	}
	OK(result.status);
	tow_op_release(result.op);
}

/* The program's own loop: progress until there is nothing more to do, and sleep. */
static void test_one(const struct side *side, struct tow_op *op)
{
	int status;

	while ((status = tow_op_test(op)) == TOW_AGAIN) {
		if (side->style == DESCRIPTOR && tow_progress(side->runtime) == TOW_AGAIN &&
		    tow_op_test(op) == TOW_AGAIN)
			sleep_on(side->fd);
	}
	OK(status);
	tow_op_release(op);
}

static struct tow_op *start_at(const struct side *side, bool sends, uint64_t tag, uint8_t *data)
{
	struct tow_op_options how = TOW_OP_OPTIONS_INIT;
	struct tow_op *op;

	if (side->style == CALLBACK)
		how.done = on_done;
	else if (side->style == QUEUE || side->style == TAKE)
		how.queue = side->queue;
	if (sends)
		OK(tow_send_start(side->peer, data, options.bytes, tag, &how, &op));
	else
		OK(tow_recv_start(side->peer, data, options.bytes, tag, &how, &op));
	return op;
}

static struct tow_op *start_one(const struct side *side, bool sends, uint64_t tag)
{
	return start_at(side, sends, tag, side->memory + (sends ? 0 : options.bytes));
}

static void finish_one(const struct side *side, struct tow_op *op)
{
	switch (side->style) {
	case WAIT:
		OK(tow_op_wait(op, WAIT_NS));
		tow_op_release(op);
		break;
	case CALLBACK:
		while (sem_wait(&told) != 0 && errno == EINTR)
			;
		break;
	case QUEUE:
	case TAKE:
		take_one(side);
		break;
	default:
		test_one(side, op);
	}
}

/* There and back. Returns how long it took. */
static double exchange_once(const struct side *side)
{
	uint64_t since = now_ns();

	for (unsigned way = 0; way < 2; way++)
		finish_one(side, start_one(side, (way == 0) == side->near, way));
	return (double)(now_ns() - since) / 1e3;
}

static void stay_away(void)
{
	const struct timespec away = { .tv_sec = options.away_us / 1000000,
				       .tv_nsec = (long)(options.away_us % 1000000) * 1000 };

	nanosleep(&away, NULL);
}

/* Both ways at once, while the thread sleeps. Returns how long it waits after that. */
static double exchange_away(const struct side *side)
{
	struct tow_op *sent, *received;
	uint64_t since;

	exchange_once(side); /* begins both sides together */
	received = start_one(side, false, 2u + side->near);
	sent = start_one(side, true, 2u + !side->near);
	stay_away();
	since = now_ns();
	finish_one(side, received);
	finish_one(side, sent);
	return (double)(now_ns() - since) / 1e3;
}

static void send_burst(const struct side *side)
{
	struct tow_op *ops[BURST_MAX];

	for (unsigned i = 0; i < options.burst; i++) {
		uint8_t *data = side->memory + i * options.bytes;
		uint64_t stamp = now_ns();

		memcpy(data, &stamp, sizeof(stamp));
		ops[i] = start_at(side, true, 0, data);
		if (side->style == WAIT)
			finish_one(side, ops[i]);
	}
	stay_away();
	for (unsigned i = 0; i < options.burst && side->style != WAIT; i++)
		finish_one(side, ops[i]);
}

/* Stores how long each message took. */
static void receive_burst(const struct side *side, double *us_out)
{
	for (unsigned i = 0; i < options.burst; i++) {
		uint64_t stamp;
		struct tow_op *op;

		OK(tow_recv_start(side->peer, side->memory, options.bytes, 0, NULL, &op));
		OK(tow_op_wait(op, WAIT_NS));
		tow_op_release(op);
		memcpy(&stamp, side->memory, sizeof(stamp));
		us_out[i] = (double)(now_ns() - stamp) / 1e3;
	}
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print_times(enum style style, unsigned count)
{
	double sum = 0;

	qsort(took_us, count, sizeof(took_us[0]), by_value);
	for (unsigned i = 0; i < count; i++)
		sum += took_us[i];
	printf("{\"lane\": \"%s\", \"style\": \"%s\", \"bytes\": %lu, \"away_us\": %u, \"burst\": "
	       "%u, "
	       "\"p50_us\": %.1f, \"p90_us\": %.1f, \"p99_us\": %.1f, \"mean_us\": %.1f}\n",
	       options.lane, style_names[style], (unsigned long)options.bytes, options.away_us,
	       options.burst, took_us[count / 2], took_us[count - 1 - count / 10],
	       took_us[count - 1 - count / 100], sum / count);
	fflush(stdout);
}

/* A far side has at most ROUNDS_MAX times. */
static void play_bursts(const struct side *side)
{
	unsigned bursts = twi_min(options.rounds, ROUNDS_MAX / options.burst);

	for (unsigned i = 0; i < WARM + bursts; i++) {
		if (side->near)
			send_burst(side);
		else
			receive_burst(side, took_us + (i < WARM ? 0 : i - WARM) * options.burst);
	}
	exchange_once(side);
	if (!side->near)
		print_times(side->style, bursts * options.burst);
}

static void play_style(struct side *side, enum style style)
{
	side->style = style;
	if (style == DESCRIPTOR)
		OK(tow_fd(side->runtime, &side->fd));
	if (options.burst > 0) {
		play_bursts(side);
		return;
	}
	for (unsigned i = 0; i < WARM + options.rounds; i++) {
		double us = options.away_us > 0 ? exchange_away(side) : exchange_once(side);

		if (i >= WARM)
			took_us[i - WARM] = us;
	}
	if (side->near)
		print_times(style, options.rounds);
}

static struct tow_peer *peer_of(struct tow_op *op)
{
	struct tow_result result = { .size = sizeof(result) };

	OK(tow_op_wait(op, WAIT_NS));
	OK(tow_op_result(op, &result));
	OK(tow_op_release(op));
	return result.peer;
}

static void open_side(struct side *side, int fds[2])
{
	struct tow_options knobs = TOW_OPTIONS_INIT;
	char address[TOW_ADDRESS_MAX];
	struct tow_endpoint *endpoint;
	struct tow_op *op;
	void *memory;

	uint64_t memory_bytes = twi_max(options.burst, 2u) * options.bytes;

	knobs.premap_memory_bytes = (8 << 20) + memory_bytes;
	knobs.stats = 0;
	OK(tow_runtime_open(&knobs, &side->runtime));
	bench_lane_address(options.lane, address);
	OK(tow_endpoint_open(side->runtime, address, &endpoint));
	if (side->near) {
		OK(tow_endpoint_address(endpoint, address, sizeof(address)));
		if (write(fds[1], address, sizeof(address)) != (ssize_t)sizeof(address))
			die_with("write", strerror(errno));
		OK(tow_accept_start(endpoint, NULL, &op));
	} else {
		close(fds[1]); /* the near side may fail */
		if (read(fds[0], address, sizeof(address)) != (ssize_t)sizeof(address))
			exit(2);
		OK(tow_connect_start(endpoint, address, NULL, &op));
	}
	side->peer = peer_of(op);
	OK(tow_alloc(side->runtime, memory_bytes, 4096, &memory));
	side->memory = memory;
	memset(memory, 1, memory_bytes);
	OK(tow_queue_open(side->runtime, BURST_MAX, &side->queue));
	OK(tow_queue_fd(side->queue, &side->queue_fd));
	OK(tow_runtime_seal(side->runtime));
}

/* The far side is a child. A thread that has a tow_fd keeps it, so that style stands last. */
static void play_sides(void)
{
	struct side side = { 0 };
	int fds[2], how = 0;
	pid_t child;

	if (pipe(fds) != 0 || (child = fork()) < 0)
		die_with("fork", strerror(errno));
	side.near = child != 0;
	open_side(&side, fds);
	sem_init(&told, 0, 0);
	for (enum style style = 0; style < STYLES; style++) {
		if (options.style < 0 || options.style == (int)style)
			play_style(&side, style);
	}
	OK(tow_runtime_close(side.runtime));
	if (!side.near)
		exit(0);
	if (waitpid(child, &how, 0) != child || how != 0)
		die_with("the far side", "it has failed");
}

static _Noreturn void usage_exit(void)
{
	char names[BENCH_LANES_HELP_BYTES];

	bench_lane_names(names);
	fprintf(stderr,
		"usage: styles_bench [--lane LANE] [--bytes N] [--away US] [--burst N] "
		"[--style STYLE] [--rounds N] [--quick]\n"
		"LANE is %s; STYLE is wait, test, callback, queue, take or fd\n",
		names);
	exit(1);
}

static int style_of(const char *text)
{
	for (int i = 0; i < STYLES; i++) {
		if (strcmp(style_names[i], text) == 0)
			return i;
	}
	usage_exit();
}

static void parse_options(int argc, char **argv)
{
	static const struct option known[] = {
		{ "lane", required_argument, NULL, 'l' },
		{ "bytes", required_argument, NULL, 'b' },
		{ "away", required_argument, NULL, 'a' },
		{ "burst", required_argument, NULL, 'B' },
		{ "style", required_argument, NULL, 's' },
		{ "rounds", required_argument, NULL, 'r' },
		{ "quick", no_argument, NULL, 'q' },
		{ NULL, 0, NULL, 0 },
	};
	char address[TOW_ADDRESS_MAX];
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (option == 'l')
			options.lane = optarg;
		else if (option == 'b')
			options.bytes = strtoul(optarg, NULL, 10);
		else if (option == 'a')
			options.away_us = (unsigned)strtoul(optarg, NULL, 10);
		else if (option == 'B')
			options.burst = (unsigned)strtoul(optarg, NULL, 10);
		else if (option == 's')
			options.style = style_of(optarg);
		else if (option == 'r')
			options.rounds = (unsigned)strtoul(optarg, NULL, 10);
		else if (option == 'q')
			options.rounds = 20;
		else
			usage_exit();
	}
	if (optind < argc || !bench_lane_address(options.lane, address) || options.rounds == 0 ||
	    options.rounds > ROUNDS_MAX || options.bytes == 0 || options.bytes > BYTES_MAX ||
	    options.burst > BURST_MAX || (options.burst > 0 && options.bytes < STAMP))
		usage_exit();
}

int main(int argc, char **argv)
{
	parse_options(argc, argv);
	alarm(600);
	play_sides();
	return 0;
}
