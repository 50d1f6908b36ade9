/*
 * perf_options.c - reads what to measure: the command line first, then the BENCH_ environment, then
 * the method's defaults.
 *
 * The defaults are the method of the side-by-side baselines (sizes, windows, volumes). So two lines
 * with the same op and size mean the same, whichever program printed them.
 */
#include "bench/common/lanes.h"
#include "bench/perf/perf.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const char *const perf_op_names[PERF_OP_COUNT] = { "lat", "view", "bw", "bw_spread", "rate" };

static const char help[] =
	"usage: tow-perf                       one side: listens, for one client after another\n"
	"       tow-perf HOST[:PORT]           the other side, which measures and prints\n"
	"       tow-perf OPTIONS               both sides on this host, where an option says what\n"
	"                                      to measure: --lane, --op, --bytes and such\n"
	"       tow-perf --listen ADDRESS      one side; serves one client, then ends\n"
	"       tow-perf --connect ADDRESS     the other side; ADDRESS without the option, too\n"
	"\n"
	"  -i, --interval S    a line each S seconds while it measures; without --seconds and\n"
	"                      --iters each measurement takes 10 s\n"
	"  -p, --port N        TCP port to listen at, and of HOST without one [7000]\n"
	"  -1, --one           the side that listens ends after one client\n"
	"  --lane LANE         a lane of `towstat lanes`, or LANE:REST for LANE://REST, such as\n"
	"                      ofi:PROVIDER, or tow (the best of them): two processes;\n"
	"                      loop: two threads of one process [tcp]\n"
	"  --op LIST           of latency, view, bw, bw_spread, rate [all but view]\n"
	"  --bytes LIST        message sizes, such as 8,4K,1M [as the baselines]\n"
	"  --cold              bw walks over 64 MiB, which caches do not hold: bw_spread\n"
	"  --iters N           round trips (latency) or windows (bw, rate)\n"
	"  --seconds S         time of each measurement, in place of a number\n"
	"  --volume-mib N      bytes of each bandwidth measurement [384]\n"
	"  --window N          messages in flight [64, but 64 MiB at most; rate 1024]\n"
	"  --drive HOW         wait: in tow_op_wait; test: in a loop of tow_op_test [wait]\n"
	"  --at-once           messages may need no operation (TOW_OP_AT_ONCE)\n"
	"  --outside           payload in malloc's memory, not in the pool\n"
	"  --pin, --no-pin     rank r on CPU r modulo their number [--pin]\n"
	"  --plain             lines: towline PATH OP BYTES METRIC VALUE\n"
	"  --json              one JSON document\n"
	"  --path NAME         name of the path in the output [the lane]\n"
	"  --stats             the library's latencies and counters of rank 0, at the end\n"
	"  --timeout S         the longest that anything may take [60]\n"
	"  -h, --help          this text\n"
	"  --version           the version\n"
	"\n"
	"Latency is half a round trip; view: the same, and each receive is a view. bw: a window of "
	"messages each way from one buffer, then an\n"
	"acknowledgement; rate: 8 bytes, one way, a window that slides, acknowledged at the end.\n"
	"cpu_s_per_GiB counts both sides. Intervals: MB/s and messages one way, and the mean and\n"
	"longest of half a round trip, or of a window until it is acknowledged (rate: none).\n"
	"\n"
	"Verified, outside of the timed region: all buffers after the warm-up; all buffers, "
	"refilled\n"
	"with another pattern, after the timed loop (so its last message in each buffer); and "
	"after\n"
	"each measurement one window each way in which every message has a buffer and a pattern "
	"of\n"
	"its own. Messages of the timed loop that a later one overwrites are not looked at.\n"
	"\n"
	"Environment: BENCH_PATH, BENCH_PEER, BENCH_SIZES_lat, BENCH_SIZES_bw, BENCH_LAT_ITERS,\n"
	"BENCH_VOLUME_MIB; BENCH_PIN=0 or BENCH_UNPINNED=1 for --no-pin; and the library's knobs\n"
	"(towstat knobs). Without TOW_PREMAP_MEMORY_BYTES the pool is made as large as needed.\n"
	"\n"
	"Exit: 0 good, 1 payload was wrong, 2 anything else.\n";

static int usage_error(const char *what, const char *value)
{
	fprintf(stderr, "tow-perf: %s: '%s' (tow-perf --help)\n", what, value);
	return PERF_FAILED;
}

static int parse_sizes(const char *text, struct bench_sizes *out)
{
	return bench_parse_sizes(text, 1, out) ? 0 : usage_error(BENCH_SIZES_HELP, text);
}

static int parse_ops(const char *text, struct perf_options *options)
{
	char copy[128], *save = NULL;

	memset(options->ops, 0, sizeof(options->ops));
	snprintf(copy, sizeof(copy), "%s", text);
	for (char *name = strtok_r(copy, ",", &save); name != NULL;
	     name = strtok_r(NULL, ",", &save)) {
		int op = 0;

		if (strcmp(name, "latency") == 0)
			name = (char *)(uintptr_t)perf_op_names[PERF_LAT];
		while (op < PERF_OP_COUNT && strcmp(name, perf_op_names[op]) != 0)
			op++;
		if (op == PERF_OP_COUNT)
			return usage_error("--op is a list of latency, view, bw, bw_spread, rate",
					   text);
		options->ops[op] = true;
	}
	return 0;
}

static int parse_number(const char *name, const char *text, double min, double max, double *out)
{
	char *end;
	double value;

	errno = 0;
	value = strtod(text, &end);
	if (errno != 0 || end == text || *end != '\0' || !(value >= min && value <= max)) {
		fprintf(stderr, "tow-perf: %s takes %g to %g, not '%s'\n", name, min, max, text);
		return PERF_FAILED;
	}
	*out = value;
	return 0;
}

static int parse_count(const char *name, const char *text, double max, uint64_t *out)
{
	double value = 0;
	int rc = parse_number(name, text, 1, max, &value);

	*out = (uint64_t)value;
	return rc;
}

static int from_environment(struct perf_options *options)
{
	int rc;

	*options = (struct perf_options){ .timeout_ns = UINT64_C(60) * 1000000000, .port = 7000 };
	for (int op = 0; op < PERF_OP_COUNT; op++)
		options->ops[op] = op != PERF_VIEW;
	options->lane = "tcp";
	options->peer = bench_env("BENCH_PEER", "towline");
	options->path = bench_env("BENCH_PATH", NULL);
	options->pin =
		bench_env("BENCH_PIN", "1")[0] != '0' && bench_env("BENCH_UNPINNED", NULL) == NULL;
	rc = parse_sizes(bench_env("BENCH_SIZES_lat", "8,64,1K,4K"), &options->lat);
	if (rc == 0)
		rc = parse_sizes(bench_env("BENCH_SIZES_bw", "4K,64K,256K,1M,4M,16M"),
				 &options->bw);
	if (rc == 0)
		rc = parse_count("BENCH_LAT_ITERS", bench_env("BENCH_LAT_ITERS", "10000"), 1e7,
				 &options->lat_iters);
	if (rc == 0)
		rc = parse_count("BENCH_VOLUME_MIB", bench_env("BENCH_VOLUME_MIB", "384"), 1 << 20,
				 &options->volume);
	options->volume <<= 20;
	return rc;
}

enum {
	OPT_LANE = 256,
	OPT_INTERVAL,
	OPT_PORT,
	OPT_ONE,
	OPT_LISTEN,
	OPT_CONNECT,
	OPT_OP,
	OPT_BYTES,
	OPT_COLD,
	OPT_ITERS,
	OPT_SECONDS,
	OPT_VOLUME,
	OPT_WINDOW,
	OPT_DRIVE,
	OPT_AT_ONCE,
	OPT_OUTSIDE,
	OPT_PIN,
	OPT_NO_PIN,
	OPT_PLAIN,
	OPT_JSON,
	OPT_PATH,
	OPT_STATS,
	OPT_TIMEOUT,
	OPT_HELP,
	OPT_VERSION
};

static const struct option long_options[] = {
	{ "lane", required_argument, NULL, OPT_LANE },
	{ "interval", required_argument, NULL, OPT_INTERVAL },
	{ "port", required_argument, NULL, OPT_PORT },
	{ "one", no_argument, NULL, OPT_ONE },
	{ "listen", required_argument, NULL, OPT_LISTEN },
	{ "connect", required_argument, NULL, OPT_CONNECT },
	{ "op", required_argument, NULL, OPT_OP },
	{ "bytes", required_argument, NULL, OPT_BYTES },
	{ "cold", no_argument, NULL, OPT_COLD },
	{ "iters", required_argument, NULL, OPT_ITERS },
	{ "seconds", required_argument, NULL, OPT_SECONDS },
	{ "volume-mib", required_argument, NULL, OPT_VOLUME },
	{ "window", required_argument, NULL, OPT_WINDOW },
	{ "drive", required_argument, NULL, OPT_DRIVE },
	{ "at-once", no_argument, NULL, OPT_AT_ONCE },
	{ "outside", no_argument, NULL, OPT_OUTSIDE },
	{ "pin", no_argument, NULL, OPT_PIN },
	{ "no-pin", no_argument, NULL, OPT_NO_PIN },
	{ "plain", no_argument, NULL, OPT_PLAIN },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "path", required_argument, NULL, OPT_PATH },
	{ "stats", no_argument, NULL, OPT_STATS },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "help", no_argument, NULL, OPT_HELP },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

static int parse_lane(const char *text, struct perf_options *options)
{
	char address[TOW_ADDRESS_MAX], names[BENCH_LANES_HELP_BYTES], rule[64 + sizeof(names)];

	options->lane = text;
	options->loop = strcmp(text, "loop") == 0;
	if (options->loop || strcmp(text, "tow") == 0 || bench_lane_address(text, address))
		return 0;
	bench_lane_names(names);
	snprintf(rule, sizeof(rule), "--lane is %s, LANE:REST, tow or loop", names);
	return usage_error(rule, text);
}

static int parse_bytes(const char *text, struct perf_options *options)
{
	int rc = parse_sizes(text, &options->lat);

	options->bw = options->lat;
	return rc;
}

/* Takes an option with a value. */
static int apply_value(struct perf_options *options, int option, const char *value)
{
	double number = 0;
	int rc = 0;

	switch (option) {
	case OPT_LANE:
		return parse_lane(value, options);
	case OPT_OP:
		return parse_ops(value, options);
	case OPT_BYTES:
		return parse_bytes(value, options);
	case OPT_ITERS:
		return parse_count("--iters", value, 1e7, &options->iters);
	case OPT_SECONDS:
		return parse_number("--seconds", value, 0.001, 3600, &options->seconds);
	case OPT_VOLUME:
		rc = parse_count("--volume-mib", value, 1 << 20, &options->volume);
		options->volume <<= 20;
		return rc;
	case OPT_WINDOW:
		return parse_count("--window", value, PERF_WINDOW_MAX, &options->window);
	case OPT_TIMEOUT:
		rc = parse_number("--timeout", value, 0.1, 86400, &number);
		options->timeout_ns = (uint64_t)(number * 1e9);
		return rc;
	case OPT_DRIVE:
		options->tests = strcmp(value, "test") == 0;
		return options->tests || strcmp(value, "wait") == 0
			       ? 0
			       : usage_error("--drive is wait or test", value);
	case OPT_INTERVAL:
		return parse_number("--interval", value, 0.01, 3600, &options->interval);
	case OPT_PORT:
		return parse_count("--port", value, 65535, &options->port);
	case OPT_LISTEN:
		options->listen = value;
		return 0;
	case OPT_CONNECT:
		options->connect = value;
		return 0;
	case OPT_PATH:
		options->path = value;
		return 0;
	}
	return PERF_FAILED; /* getopt has printed why */
}

static int apply_option(struct perf_options *options, int option, const char *value, bool *cold)
{
	switch (option) {
	case OPT_COLD:
		*cold = true;
		return 0;
	case OPT_AT_ONCE:
		options->at_once = true;
		return 0;
	case OPT_OUTSIDE:
		options->outside = true;
		return 0;
	case OPT_ONE:
		options->one = true;
		return 0;
	case OPT_PIN:
		options->pin = true;
		return 0;
	case OPT_NO_PIN:
		options->pin = false;
		return 0;
	case OPT_PLAIN:
		options->format = PERF_PLAIN;
		return 0;
	case OPT_JSON:
		options->format = PERF_JSON;
		return 0;
	case OPT_STATS:
		options->stats = true;
		return 0;
	case OPT_HELP:
		fputs(help, stdout);
		return -1;
	case OPT_VERSION:
		puts("tow-perf " TOW_VERSION);
		return -1;
	}
	return apply_value(options, option, value);
}

/* Takes an address as it is, or HOST, HOST:PORT or [HOST]:PORT of TCP. */
static int take_host(struct perf_options *options, const char *host)
{
	const char *colon = strchr(host, ':');
	bool bare = colon == NULL || (host[0] == '[' && host[strlen(host) - 1] == ']');
	bool six = colon != NULL && host[0] != '[' && strchr(colon + 1, ':') != NULL;
	int n;

	if (options->connect != NULL || host[0] == '\0')
		return usage_error("one address at most", host);
	options->connect = options->address;
	if (strstr(host, "://") != NULL)
		n = snprintf(options->address, sizeof(options->address), "%s", host);
	else if (bare || six)
		n = snprintf(options->address, sizeof(options->address), "tcp://%s%s%s:%" PRIu64,
			     six ? "[" : "", host, six ? "]" : "", options->port);
	else
		n = snprintf(options->address, sizeof(options->address), "tcp://%s", host);
	return n < (int)sizeof(options->address) ? 0 : usage_error("too long an address", host);
}

/*
 * Whether the option says what to measure. With such an option and no address, both sides run here.
 */
static bool measures_here(int option)
{
	switch (option) {
	case OPT_PORT:
	case OPT_ONE:
	case OPT_DRIVE:
	case OPT_AT_ONCE:
	case OPT_OUTSIDE:
	case OPT_PIN:
	case OPT_NO_PIN:
	case OPT_TIMEOUT:
		return false;
	default:
		return true;
	}
}

/* The address of all interfaces. An endpoint at [::] takes IPv4 connections too. */
static const char *any_address(void)
{
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return "0.0.0.0"; /* this kernel has no IPv6 */
	close(fd);
	return "[::]";
}

static int settle_options(struct perf_options *options, bool cold, bool here)
{
	if (cold && options->ops[PERF_BW]) {
		options->ops[PERF_BW] = false;
		options->ops[PERF_BW_SPREAD] = true;
	}
	if (options->listen != NULL && options->connect != NULL)
		return usage_error("the side that listens takes no address to connect to",
				   options->connect);
	if (options->loop && (options->listen != NULL || options->connect != NULL))
		return usage_error("lane loop is within one process, without another side", "loop");
	if (options->interval > 0 && options->seconds == 0 && options->iters == 0)
		options->seconds = 10;
	options->serve = !here && options->listen == NULL && options->connect == NULL;
	if (options->one && !options->serve)
		return usage_error("--one is for a side that listens by itself", "--one");
	if (options->serve)
		snprintf(options->address, sizeof(options->address), "tcp://%s:%" PRIu64,
			 any_address(), options->port);
	if (options->path == NULL && options->connect != NULL)
		options->path = "remote";
	if (options->path == NULL)
		options->path = strcmp(options->lane, "tcp") == 0 ? "tcp-lo" : options->lane;
	return 0;
}

static int long_of(int option)
{
	return option == 'h'   ? OPT_HELP
	       : option == 'i' ? OPT_INTERVAL
	       : option == 'p' ? OPT_PORT
	       : option == '1' ? OPT_ONE
			       : option;
}

int perf_options_parse(struct perf_options *options, int argc, char **argv)
{
	bool cold = false, here = false;
	int option, rc = from_environment(options);

	while (rc == 0 && (option = getopt_long(argc, argv, "hi:p:1", long_options, NULL)) != -1) {
		option = long_of(option);
		here |= measures_here(option);
		rc = apply_option(options, option, optarg, &cold);
	}
	for (; rc == 0 && optind < argc; optind++)
		rc = take_host(options, argv[optind]);
	return rc != 0 ? rc : settle_options(options, cold, here);
}

static uint64_t clamp_value(uint64_t value, uint64_t min, uint64_t max)
{
	return value < min ? min : value > max ? max : value;
}

/* A rate always has messages of 8 bytes, as in the baselines. */
const struct bench_sizes *perf_op_sizes(const struct perf_options *options, enum perf_op op)
{
	static const struct bench_sizes rate_sizes = { { 8 }, 1 };

	return perf_is_latency(op) ? &options->lat : op == PERF_RATE ? &rate_sizes : &options->bw;
}

struct perf_case perf_plan(const struct perf_options *options, enum perf_op op, uint64_t bytes)
{
	struct perf_case plan = { .op = op, .bytes = bytes, .window = 1, .slots = 1 };

	switch (op) {
	case PERF_LAT:
	case PERF_VIEW:
		plan.rounds = bytes <= 65536 ? options->lat_iters : 200;
		break;
	case PERF_RATE:
		plan.window = 1024;
		plan.rounds = 1500;
		break;
	default:
		plan.window = clamp_value(PERF_SPAN / bytes, 4, 64);
		if (op == PERF_BW_SPREAD)
			plan.slots = clamp_value(PERF_SPAN / perf_stride(bytes), 1, PERF_SPAN);
		break;
	}
	if (!perf_is_latency(op) && options->window != 0)
		plan.window = options->window;
	if (op == PERF_BW || op == PERF_BW_SPREAD)
		plan.rounds = clamp_value(options->volume / (bytes * plan.window + 1), 4, 2000);
	if (options->iters != 0)
		plan.rounds = options->iters;
	plan.warm = perf_is_latency(op) ? plan.rounds / 10 : plan.rounds / 10 + 1;
	if (plan.warm == 0)
		plan.warm = 1;
	return plan;
}

uint64_t perf_need(const struct perf_options *options)
{
	uint64_t most = PERF_SPAN;

	for (int op = 0; op < PERF_OP_COUNT; op++) {
		const struct bench_sizes *sizes = perf_op_sizes(options, op);

		for (unsigned int i = 0; options->ops[op] && i < sizes->count; i++) {
			struct perf_case plan = perf_plan(options, op, sizes->bytes[i]);
			uint64_t buffers = plan.window > plan.slots ? plan.window : plan.slots;
			uint64_t need = perf_stride(plan.bytes) * buffers;

			most = need > most ? need : most;
		}
	}
	return most;
}
