/*
 * coll_options.c - reads what to measure: the command line first, then the BENCH_ environment, then
 * the method's defaults, which are those of the side-by-side baselines.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/coll/tow_coll.h"
#include "bench/common/lanes.h"

static const char help[] =
	"usage: tow-coll [--ranks N] [options]        N processes on this host, started here\n"
	"       towrun -n N tow-coll [options]        or mpirun, torchrun, srun: its ranks\n"
	"\n"
	"  --ranks N           processes to start, up to 64 [2]\n"
	"  --lane LANE         a lane of `towstat lanes` on this host, LANE:REST for LANE://REST\n"
	"                      (ofi:PROVIDER), or auto (the best there is, also between hosts)\n"
	"                      [shm; with a launcher auto]\n"
	"  --op LIST           of allreduce, allgather, reduce_scatter, alltoall, bcast, reduce,\n"
	"                      gather, scatter, allgather_v, alltoall_v, permute, sendrecv, "
	"barrier,\n"
	"                      all [allreduce]\n"
	"  --sizes LIST        bytes, such as 8,1K,16M [as the baselines]\n"
	"  --type NAME         f32 f64 f16 bf16 f8e4m3 f8e5m2 s8 .. s64 u8 .. u64 bool [f32]\n"
	"  --reduce NAME       sum prod min max avg and or xor [sum]\n"
	"  --in-place          input and output are the same where the operation has that\n"
	"  --outside           buffers of malloc, not of the pool\n"
	"  --plan NAME         this plan; sizes that it does not fit are skipped, which is said\n"
	"  --depth N           collectives in flight [1]\n"
	"  --drive HOW         wait: in tow_op_wait; test: in a loop of tow_op_test [wait]\n"
	"  --overlap           beside a compute loop of equal length [sizes: 64M]\n"
	"  --apart             with --overlap: the loops of all ranks share the first CPU, the\n"
	"                      library's threads have the last one; callers sleep while they wait\n"
	"  --seconds S         time of each measurement [0.4]\n"
	"  --pin, --no-pin     rank r on CPU r modulo their number [--pin]\n"
	"  --plain             lines: towline PATH OP-nRANKS BYTES METRIC VALUE\n"
	"  --format NAME       table, plain (as --plain), or nccl-tests: the columns of NVIDIA's\n"
	"                      nccl-tests, each operation out of place and in place [table]\n"
	"  --profile FILE      writes what was measured for schedulers, as JSON (towtrace "
	"profile)\n"
	"  --path NAME         name of the path in the output [the lane]\n"
	"  --timeout S         the longest that one collective may take [60]\n"
	"  -h, --help          this text\n"
	"  --version           the version\n"
	"\n"
	"bytes: allreduce, reduce, bcast, permute, sendrecv: the vector that each rank holds;\n"
	"allgather, gather: what a rank contributes; reduce_scatter, scatter: what a rank ends up\n"
	"with; alltoall: what a rank sends in all. Of _v kinds: the mean.\n"
	"time_us: the slowest rank's mean, without barriers in between. bus MB/s: what one link "
	"of\n"
	"each rank would see of the best algorithm. bound_ratio: the time in which the bytes that\n"
	"must be read and written could be, at the rate at which this machine copies with all\n"
	"CPUs at once, divided by the time; above 1 where the caches hold them.\n"
	"nccl-tests: size, time, algbw and busbw by its doc/PERFORMANCE.md; GB is 10^9 bytes, "
	"#wrong of\n"
	"all ranks.\n"
	"Checked, outside of the timed region: every element of the first and the last result.\n"
	"\n"
	"Environment: BENCH_PATH, BENCH_PEER, BENCH_SECONDS, BENCH_SIZES_allreduce and so on;\n"
	"BENCH_PIN=0 or BENCH_UNPINNED=1 for --no-pin; and the library's knobs (towstat knobs).\n"
	"Without TOW_PREMAP_MEMORY_BYTES the pool is made as large as needed.\n"
	"\n"
	"Exit: 0 good, 1 an element was wrong, 2 anything else.\n";

static int usage_error(const char *what, const char *value)
{
	fprintf(stderr, "tow-coll: %s: '%s' (tow-coll --help)\n", what, value);
	return COLL_FAILED;
}

static int parse_sizes(const char *text, struct bench_sizes *out)
{
	return bench_parse_sizes(text, 0, out) ? 0 : usage_error(BENCH_SIZES_HELP, text);
}

static int parse_ops(const char *text, struct coll_options *options)
{
	char copy[256], *save = NULL;

	memset(options->ops, 0, sizeof(options->ops));
	snprintf(copy, sizeof(copy), "%s", text);
	for (char *name = strtok_r(copy, ",", &save); name != NULL;
	     name = strtok_r(NULL, ",", &save)) {
		bool all = strcmp(name, "all") == 0, found = all;

		for (int kind = 0; kind < COLL_KINDS; kind++) {
			if (all || strcmp(name, coll_kind_names[kind]) == 0)
				options->ops[kind] = found = true;
		}
		if (!found)
			return usage_error("--op has no such operation", name);
	}
	return 0;
}

static int parse_type(const char *text, enum tow_type *out)
{
	for (int i = 0; i < TOW_TYPE_COUNT; i++) {
		if (strcmp(text, tow_type_name(i)) == 0) {
			*out = i;
			return 0;
		}
	}
	return usage_error("--type has no such type", text);
}

static int parse_reduce(const char *text, enum tow_reduce *out)
{
	for (int i = 0; i < TOW_REDUCE_COUNT; i++) {
		if (strcmp(text, tow_reduce_name(i)) == 0) {
			*out = i;
			return 0;
		}
	}
	return usage_error("--reduce has no such operator", text);
}

static int parse_number(const char *name, const char *text, double min, double max, double *out)
{
	char *end;

	errno = 0;
	*out = strtod(text, &end);
	if (errno == 0 && end != text && *end == '\0' && *out >= min && *out <= max)
		return 0;
	fprintf(stderr, "tow-coll: %s takes %g to %g, not '%s'\n", name, min, max, text);
	return COLL_FAILED;
}

static int parse_lane(const char *text, struct coll_options *options)
{
	char address[TOW_ADDRESS_MAX], names[BENCH_LANES_HELP_BYTES], rule[64 + sizeof(names)];

	if (strcmp(text, "auto") == 0 || bench_lane_address(text, address)) {
		snprintf(options->lane, sizeof(options->lane), "%s", text);
		return 0;
	}
	bench_lane_names(names);
	snprintf(rule, sizeof(rule), "--lane is %s, LANE:REST or auto", names);
	return usage_error(rule, text);
}

static int parse_format(const char *text, struct coll_options *options)
{
	options->nccl = strcmp(text, "nccl-tests") == 0;
	options->plain = strcmp(text, "plain") == 0;
	return options->nccl || options->plain || strcmp(text, "table") == 0
		       ? 0
		       : usage_error("--format is table, plain or nccl-tests", text);
}

static int from_environment(struct coll_options *options)
{
	int rc;

	*options = (struct coll_options){ .timeout_ns = UINT64_C(60) * 1000000000, .depth = 1 };
	options->ops[COLL_ALL_REDUCE] = true;
	options->peer = bench_env("BENCH_PEER", "towline");
	options->path = bench_env("BENCH_PATH", NULL);
	options->pin =
		bench_env("BENCH_PIN", "1")[0] != '0' && bench_env("BENCH_UNPINNED", NULL) == NULL;
	rc = parse_number("BENCH_SECONDS", bench_env("BENCH_SECONDS", "0.4"), 0.0001, 3600,
			  &options->seconds);
	for (int kind = 0; kind < COLL_KINDS && rc == 0; kind++) {
		const char *fallback =
			kind == COLL_ALL_REDUCE ? "8,1K,16K,256K,1M,16M,64M,256M" : "1M,16M";
		char name[64];

		snprintf(name, sizeof(name), "BENCH_SIZES_%s", coll_kind_names[kind]);
		rc = parse_sizes(bench_env(name, fallback), &options->sizes[kind]);
	}
	return rc;
}

enum {
	OPT_RANKS = 256,
	OPT_LANE,
	OPT_OP,
	OPT_SIZES,
	OPT_TYPE,
	OPT_REDUCE,
	OPT_IN_PLACE,
	OPT_OUTSIDE,
	OPT_PLAN,
	OPT_DEPTH,
	OPT_DRIVE,
	OPT_OVERLAP,
	OPT_APART,
	OPT_SECONDS,
	OPT_PIN,
	OPT_NO_PIN,
	OPT_PLAIN,
	OPT_PATH,
	OPT_PROFILE,
	OPT_FORMAT,
	OPT_TIMEOUT
};

static const struct option long_options[] = {
	{ "ranks", required_argument, NULL, OPT_RANKS },
	{ "lane", required_argument, NULL, OPT_LANE },
	{ "op", required_argument, NULL, OPT_OP },
	{ "sizes", required_argument, NULL, OPT_SIZES },
	{ "type", required_argument, NULL, OPT_TYPE },
	{ "reduce", required_argument, NULL, OPT_REDUCE },
	{ "in-place", no_argument, NULL, OPT_IN_PLACE },
	{ "outside", no_argument, NULL, OPT_OUTSIDE },
	{ "plan", required_argument, NULL, OPT_PLAN },
	{ "depth", required_argument, NULL, OPT_DEPTH },
	{ "drive", required_argument, NULL, OPT_DRIVE },
	{ "overlap", no_argument, NULL, OPT_OVERLAP },
	{ "apart", no_argument, NULL, OPT_APART },
	{ "seconds", required_argument, NULL, OPT_SECONDS },
	{ "pin", no_argument, NULL, OPT_PIN },
	{ "no-pin", no_argument, NULL, OPT_NO_PIN },
	{ "plain", no_argument, NULL, OPT_PLAIN },
	{ "format", required_argument, NULL, OPT_FORMAT },
	{ "path", required_argument, NULL, OPT_PATH },
	{ "profile", required_argument, NULL, OPT_PROFILE },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

static int apply_number(struct coll_options *options, int option, const char *value)
{
	double number = 0;
	int rc;

	switch (option) {
	case OPT_RANKS:
		rc = parse_number("--ranks", value, 1, COLL_RANKS_MAX, &number);
		options->ranks = (uint32_t)number;
		return rc;
	case OPT_DEPTH:
		rc = parse_number("--depth", value, 1, TOW_COLL_IN_FLIGHT, &number);
		options->depth = (uint32_t)number;
		return rc;
	case OPT_SECONDS:
		return parse_number("--seconds", value, 0.0001, 3600, &options->seconds);
	case OPT_TIMEOUT:
		rc = parse_number("--timeout", value, 0.1, 86400, &number);
		options->timeout_ns = (uint64_t)(number * 1e9);
		return rc;
	}
	return COLL_FAILED; /* getopt has printed why */
}

static int apply_flag(struct coll_options *options, int option)
{
	bool *flags[] = { [OPT_IN_PLACE - OPT_RANKS] = &options->in_place,
			  [OPT_OUTSIDE - OPT_RANKS] = &options->outside,
			  [OPT_OVERLAP - OPT_RANKS] = &options->overlap,
			  [OPT_APART - OPT_RANKS] = &options->apart,
			  [OPT_PIN - OPT_RANKS] = &options->pin,
			  [OPT_NO_PIN - OPT_RANKS] = &options->pin,
			  [OPT_PLAIN - OPT_RANKS] = &options->plain };

	*flags[option - OPT_RANKS] = option != OPT_NO_PIN;
	return 0;
}

static int apply_option(struct coll_options *options, int option, const char *value, bool *sized)
{
	int rc;

	switch (option) {
	case OPT_LANE:
		return parse_lane(value, options);
	case OPT_OP:
		return parse_ops(value, options);
	case OPT_TYPE:
		return parse_type(value, &options->type);
	case OPT_REDUCE:
		return parse_reduce(value, &options->reduce);
	case OPT_FORMAT:
		return parse_format(value, options);
	case OPT_DRIVE:
		options->tests = strcmp(value, "test") == 0;
		return options->tests || strcmp(value, "wait") == 0
			       ? 0
			       : usage_error("--drive is wait or test", value);
	case OPT_PLAN:
		options->plan = value;
		return 0;
	case OPT_PROFILE:
		options->profile = value;
		return 0;
	case OPT_PATH:
		options->path = value;
		return 0;
	case OPT_SIZES:
		*sized = true;
		rc = parse_sizes(value, &options->sizes[0]);
		for (int kind = 1; kind < COLL_KINDS; kind++)
			options->sizes[kind] = options->sizes[0];
		return rc;
	case OPT_IN_PLACE:
	case OPT_OUTSIDE:
	case OPT_OVERLAP:
	case OPT_APART:
	case OPT_PIN:
	case OPT_NO_PIN:
	case OPT_PLAIN:
		return apply_flag(options, option);
	case 'h':
		fputs(help, stdout);
		return -1;
	case 'V':
		puts("tow-coll " TOW_VERSION);
		return -1;
	}
	return apply_number(options, option, value);
}

static int settle_options(struct coll_options *options, bool sized)
{
	for (int kind = 0; kind < COLL_KINDS; kind++) {
		if (options->overlap && !sized)
			options->sizes[kind] = (struct bench_sizes){ { 64 << 20 }, 1 };
		if (options->in_place && options->ops[kind] && !coll_kind_in_place(kind))
			return usage_error("--in-place: this operation has no in-place form",
					   coll_kind_names[kind]);
	}
	if (options->nccl && (options->in_place || options->overlap || options->depth > 1 ||
			      options->plain || options->profile != NULL))
		return usage_error("--in-place, --overlap, --depth, --plain and --profile are not "
				   "for --format",
				   "nccl-tests");
	if (options->apart && !options->overlap)
		return usage_error("--apart needs --overlap", "--apart");
	if (options->overlap && options->depth > 1)
		return usage_error("--overlap has one collective in flight", "--depth");
	if (options->profile != NULL && (options->overlap || options->depth > 1))
		return usage_error("--profile takes neither --overlap nor --depth above 1",
				   options->profile);
	if (options->type == TOW_BOOL && options->reduce == TOW_AVG)
		return usage_error("--reduce: there is no mean of", "bool");
	if (options->type >= TOW_C64)
		return usage_error("--type: there is no pattern to check of",
				   tow_type_name(options->type));
	if (options->type <= TOW_F8E5M2 && options->reduce >= TOW_AND)
		return usage_error("--reduce: of floats there is no",
				   tow_reduce_name(options->reduce));
	return 0;
}

int coll_options_parse(struct coll_options *options, int argc, char **argv)
{
	bool sized = false;
	int option, rc = from_environment(options);

	while (rc == 0 && (option = getopt_long(argc, argv, "h", long_options, NULL)) != -1)
		rc = apply_option(options, option, optarg, &sized);
	if (rc == 0 && optind < argc)
		rc = usage_error("not an option", argv[optind]);
	return rc != 0 ? rc : settle_options(options, sized);
}
