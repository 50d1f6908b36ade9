/*
 * tow_rpc.c - measures calls between two processes: latency by size, and calls per second.
 *
 * A call is raw and unary, as of gRPC. Request and answer both have the size. Latency is that of
 * the whole round trip, one call at a time. The rate is that of calls of 64 bytes with 64 of them
 * under way. When the oldest has ended, another is started in its place. docs/rpc.md has figures to
 * compare with. Exit: 0; 1 when an answer was wrong; 2 when a call failed.
 */
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <towline/towline.h>

#define SECOND    1000000000ull
#define LARGEST   (16u << 20)
#define WINDOW    64
#define ITERS_MAX 20000

static struct {
	bool quick, loop, json, spread;
} options;

static const char help[] = "usage: tow-rpc [options]\n"
			   "\n"
			   "  --quick       few calls, to see that it works\n"
			   "  --lane LANE   tcp: two processes; loop: one [tcp]\n"
			   "  --json        one JSON document in each line\n"
			   "  --no-pin      the processes run on any CPU\n"
			   "  -h, --help    this text\n"
			   "  --version     the version\n"
			   "\n"
			   "Latency is a whole round trip: a request of the size, and an answer of "
			   "it, one at a time.\n"
			   "calls/s: calls of 64 bytes, 64 of them on their way.\n"
			   "\n"
			   "Exit: 0 good, 1 an answer was wrong, 2 anything else.\n";

static double samples[ITERS_MAX];

static void fail_call(const char *what)
{
	fprintf(stderr, "tow-rpc: %s: %s\n", what, tow_error_message());
	exit(2);
}

static void must_succeed(int status, const char *what)
{
	if (status < TOW_OK)
		fail_call(what);
}

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

/* With both sides on one processor, each would wait while the other polls in vain. */
static void pin_side(int side)
{
	long count = sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t set;

	if (options.spread || count < 2)
		return;
	CPU_ZERO(&set);
	CPU_SET((size_t)(side % count), &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void echo_call(struct tow_call_in *call, void *user)
{
	uint64_t bytes;
	const void *request = tow_call_request(call, &bytes);

	(void)user;
	must_succeed(tow_reply_start(call, 0, request, bytes, NULL, NULL), "reply");
}

static struct tow_runtime *open_runtime(void)
{
	struct tow_options knobs = TOW_OPTIONS_INIT;
	struct tow_runtime *runtime;

	knobs.stats = 0;
	must_succeed(tow_runtime_open(&knobs, &runtime), "runtime");
	must_succeed(tow_method_register(runtime, "echo", echo_call, NULL, NULL), "register");
	return runtime;
}

static struct tow_peer *finish_op(struct tow_op *op, const char *what)
{
	struct tow_result result = { .size = sizeof(result) };

	must_succeed(tow_op_wait(op, 20 * SECOND) == TOW_OK ? TOW_OK : TOW_EPEER, what);
	must_succeed(tow_op_result(op, &result), what);
	tow_op_release(op);
	return result.peer;
}

/* Serves until the client has gone, for two minutes at most. */
static void serve_client(int fd)
{
	struct tow_runtime *runtime = open_runtime();
	char address[TOW_ADDRESS_MAX] = "";
	struct tow_endpoint *endpoint;
	struct tow_peer *peer;
	struct tow_op *op;
	char word[8];

	must_succeed(tow_endpoint_open(runtime, "tcp://127.0.0.1:0", &endpoint), "endpoint");
	must_succeed(tow_endpoint_address(endpoint, address, sizeof(address)), "address");
	if (write(fd, address, sizeof(address)) != (ssize_t)sizeof(address))
		exit(2);
	must_succeed(tow_accept_start(endpoint, NULL, &op), "accept");
	peer = finish_op(op, "accept");
	must_succeed(tow_recv_start(peer, word, sizeof(word), 1, NULL, &op), "end");
	tow_op_wait(op, 120 * SECOND);
	tow_runtime_close(runtime);
	exit(0);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void print_latency(struct tow_peer *peer, uint8_t *out, uint8_t *in, size_t bytes)
{
	int iters = options.quick ? 20 : bytes <= 4096 ? 20000 : bytes <= 1 << 20 ? 1000 : 100;
	struct tow_call_result result = { .size = sizeof(result) };

	for (int i = -iters / 10 - 2; i < iters; i++) {
		double start = now_us();

		must_succeed(tow_call(peer, "echo", out, bytes, in, bytes, 20 * SECOND, &result),
			     "call");
		if (i >= 0)
			samples[i] = now_us() - start;
	}
	if (result.bytes != bytes || memcmp(out, in, bytes) != 0) {
		fprintf(stderr, "tow-rpc: the answer of %zu bytes is wrong\n", bytes);
		exit(1);
	}
	qsort(samples, (size_t)iters, sizeof(samples[0]), by_size);
	if (options.json)
		printf("{\"op\":\"call\",\"bytes\":%zu,\"p50_us\":%.2f,\"p99_us\":%.2f}\n", bytes,
		       samples[iters / 2], samples[iters * 99 / 100]);
	else
		printf("%10zu %12.2f %12.2f   %.2f + %.2f + %.2f + %.2f + %.2f\n", bytes,
		       samples[iters / 2], samples[iters * 99 / 100], (double)result.queue_ns / 1e3,
		       (double)result.server_queue_ns / 1e3, (double)result.wire_ns / 1e3,
		       (double)result.match_ns / 1e3, (double)result.serve_ns / 1e3);
}

static void print_rate(struct tow_peer *peer, uint8_t *out, uint8_t *in, size_t bytes)
{
	int calls = (options.quick ? 10 : 6000) * WINDOW, warm = calls / 10;
	struct tow_op *ops[WINDOW];
	double start = 0;

	for (int i = 0; i < warm + calls + WINDOW; i++) {
		int at = i % WINDOW;

		if (i >= WINDOW) {
			if (tow_op_wait(ops[at], 20 * SECOND) != TOW_OK) /* TOW_COPIED, too */
				fail_call("call");
			tow_op_release(ops[at]);
		}
		if (i == warm + WINDOW)
			start = now_us();
		if (i < warm + calls)
			must_succeed(tow_call_start(peer, "echo", out, bytes,
						    in + (size_t)at * bytes, bytes, NULL, &ops[at]),
				     "call");
	}
	if (options.json)
		printf("{\"op\":\"rate\",\"bytes\":%zu,\"window\":%d,\"calls_per_s\":%.0f}\n",
		       bytes, WINDOW, calls / (now_us() - start) * 1e6);
	else
		printf("\n%d at once, %zu bytes: %.0f calls/s\n", WINDOW, bytes,
		       calls / (now_us() - start) * 1e6);
}

static struct tow_peer *join_loop(struct tow_runtime *runtime)
{
	struct tow_endpoint *left, *right;
	struct tow_op *accept, *connect;
	struct tow_peer *peer;

	must_succeed(tow_endpoint_open(runtime, "loop://left", &left), "endpoint");
	must_succeed(tow_endpoint_open(runtime, "loop://right", &right), "endpoint");
	must_succeed(tow_accept_start(right, NULL, &accept), "accept");
	must_succeed(tow_connect_start(left, "loop://right", NULL, &connect), "connect");
	peer = finish_op(connect, "connect");
	finish_op(accept, "accept");
	return peer;
}

static struct tow_peer *join_tcp(struct tow_runtime *runtime, int fd)
{
	char address[TOW_ADDRESS_MAX];
	struct tow_endpoint *endpoint;
	struct tow_op *op;

	if (TEMP_FAILURE_RETRY(read(fd, address, sizeof(address))) != (ssize_t)sizeof(address))
		fail_call("the server did not start");
	must_succeed(tow_endpoint_open(runtime, "tcp://127.0.0.1:0", &endpoint), "endpoint");
	must_succeed(tow_connect_start(endpoint, address, NULL, &op), "connect");
	return finish_op(op, "connect");
}

static void measure_all(struct tow_runtime *runtime, struct tow_peer *peer)
{
	static const size_t sizes[] = { 8, 64, 4096, 1 << 20, 16 << 20 };
	void *out, *in;

	must_succeed(tow_alloc(runtime, LARGEST, 0, &out), "pool");
	must_succeed(tow_alloc(runtime, LARGEST, 0, &in), "pool");
	for (size_t i = 0; i < LARGEST; i++)
		((uint8_t *)out)[i] = (uint8_t)(i * 7 >> 3);
	if (!options.json)
		printf("%10s %12s %12s   %s\n", "bytes", "p50 us", "p99 us",
		       "queue + server queue + wire + match + serve of the last");
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		print_latency(peer, out, in, sizes[i]);
	print_rate(peer, out, in, 64);
	tow_free(runtime, out);
	tow_free(runtime, in);
}

static int set_lane(const char *name)
{
	options.loop = strcmp(name, "loop") == 0;
	if (options.loop || strcmp(name, "tcp") == 0)
		return -1;
	fprintf(stderr, "tow-rpc: --lane is tcp or loop, not '%s'\n", name);
	return 2;
}

/* Returns -1 to go on, else the exit status. */
static int apply_option(int option, const char *value)
{
	switch (option) {
	case 'q':
		options.quick = true;
		return -1;
	case 'j':
		options.json = true;
		return -1;
	case 'n':
		options.spread = true;
		return -1;
	case 'l':
		return set_lane(value);
	case 'h':
		fputs(help, stdout);
		return 0;
	case 'V':
		puts("tow-rpc " TOW_VERSION);
		return 0;
	}
	fputs("tow-rpc --help lists the options\n", stderr); /* getopt has printed why */
	return 2;
}

static int parse_options(int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "quick", no_argument, NULL, 'q' },
		{ "lane", required_argument, NULL, 'l' },
		{ "json", no_argument, NULL, 'j' },
		{ "no-pin", no_argument, NULL, 'n' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	int option, status = -1;

	while (status < 0 && (option = getopt_long(argc, argv, "h", long_options, NULL)) != -1)
		status = apply_option(option, optarg);
	if (status < 0 && optind < argc) {
		fprintf(stderr, "tow-rpc: not an option: '%s' (tow-rpc --help)\n", argv[optind]);
		status = 2;
	}
	return status;
}

int main(int argc, char **argv)
{
	struct tow_runtime *runtime;
	struct tow_peer *peer;
	struct tow_op *op;
	pid_t child = 0;
	int fds[2], how = 0;

	how = parse_options(argc, argv);
	if (how >= 0)
		return how;
	how = 0;
	if (!options.loop && (pipe(fds) != 0 || (child = fork()) < 0)) {
		fprintf(stderr, "tow-rpc: no second process\n");
		return 2;
	}
	if (!options.loop && child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fds[0]);
		pin_side(1);
		serve_client(fds[1]);
	}
	if (!options.loop)
		close(fds[1]);
	pin_side(0);
	runtime = open_runtime();
	peer = options.loop ? join_loop(runtime) : join_tcp(runtime, fds[0]);
	measure_all(runtime, peer);
	if (!options.loop) {
		must_succeed(tow_send_start(peer, "end", 4, 1, NULL, &op), "end");
		tow_op_release(op);
	}
	must_succeed(tow_runtime_close(runtime), "close");
	if (!options.loop)
		waitpid(child, &how, 0);
	return WIFEXITED(how) ? WEXITSTATUS(how) : 2;
}
