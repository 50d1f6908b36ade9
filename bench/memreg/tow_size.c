/*
 * tow_size.c - the options of tow-size, which is two programs.
 *
 * One finds how large a pool must be; the other measures the cost of memory on this machine.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/memreg/tow_size.h"
#include <internal/base.h>
#include <towline/version.h>

#define MIB         ((uint64_t)1 << 20)
#define FLOPS_PER_S 1e14

static const char help[] =
	"usage: tow-size --workload FILE[:STRATEGY] [--set NAME=N]... [options]\n"
	"       tow-size --replay LOG [--replay LOG]... [options]\n"
	"       tow-size [--machine] [--sizes LIST] [--rounds N] [--quick] [--json]\n"
	"\n"
	"The first two name the smallest premap_memory_bytes at which a job has 0 late\n"
	"registrations and 0 fallback copies, prove it by running the job, and say what smaller\n"
	"pools cost. The third measures what memory costs on this machine.\n"
	"\n"
	"  --workload FILE   tensors of a model: a file, or gpt2, resnet50, llama3-8b,\n"
	"                    mixtral, gemma2-2b\n"
	"            STRATEGY   data-parallel [the default], fsdp, pipeline, tensor-parallel,\n"
	"                       expert-parallel or kv-transfer\n"
	"  --set NAME=N      a number that the strategy assumes (ranks, micro_batches, ...)\n"
	"  --set lane=LANE   a lane of `towstat lanes`, or auto: ranks of one host [auto]\n"
	"  --tensors N       only the first N tensors [all]\n"
	"  --replay LOG      a recorded allocation log, or its text form (docs/sizing.md); - is\n"
	"                    the standard input; several: one size for all of them\n"
	"  --arena NAME      which arena the job's pool has: pagerun, or jemalloc in programs "
	"that\n"
	"                    link it [as the log says; else the one that needs more]\n"
	"  --premap SIZE     only say whether SIZE is enough; exit 1 when it is not\n"
	"                    (1048576, 64MiB, 1.5GiB, or in powers of ten 64MB)\n"
	"  --svg FILE        draw it: the sum, live bytes over time by tag, what smaller pools\n"
	"                    cost\n"
	"  --intensity       size nothing: what a rank of --workload computes and sends in a "
	"step,\n"
	"                    and the bandwidth at which that hides behind computing\n"
	"  --flops N         FLOP/s that a rank computes at, for --intensity [1e14]\n"
	"\n"
	"  --machine         tables: premapping a pool, registering it with io_uring, registering\n"
	"                    one buffer late, allocating; medians in nanoseconds\n"
	"  --sizes LIST      pool sizes of the tables [64MiB,256MiB,1GiB]\n"
	"  --rounds N        measure each N times, 1..31 [5]\n"
	"\n"
	"  --long            real runs of pools above 4 GiB, too, which take long\n"
	"  --quick           small and short, to see that it works\n"
	"  --json            one JSON document\n"
	"  -h, --help        this text\n"
	"  --version         the version\n"
	"\n"
	"Exit: 0 good; 1 the size is not enough, or it did not work; 2 wrong options or files;\n"
	"3 a size is named, and not verified.\n";

static int parse_sizes(struct memreg_options *options, char *list)
{
	char *rest = list;

	options->size_count = 0;
	for (char *item = strsep(&rest, ","); item != NULL; item = strsep(&rest, ",")) {
		if (options->size_count == MEMREG_SIZES) {
			fprintf(stderr, "tow-size: --sizes: at most %d sizes\n", MEMREG_SIZES);
			return MEMREG_USAGE;
		}
		if (!memreg_parse_bytes(item, &options->sizes[options->size_count])) {
			fprintf(stderr,
				"tow-size: --sizes: '%s' is not a size such as 64MiB, 1.5GiB, "
				"64MB\n",
				item);
			return MEMREG_USAGE;
		}
		options->size_count++;
	}
	return 0;
}

/* The strategy defines the numbers. Only the lane is no number. */
static int parse_set(struct memreg_options *options, const char *text)
{
	if (strncmp(text, "lane=", 5) == 0) {
		options->lane = text + 5;
		return 0;
	}
	if (options->set_count == MEMREG_SETS) {
		fprintf(stderr, "tow-size: --set: at most %d\n", MEMREG_SETS);
		return MEMREG_USAGE;
	}
	options->sets[options->set_count++] = text;
	return 0;
}

/* Reads a whole number of an option. */
static int parse_count(const char *name, const char *text, long max, long *out)
{
	char *end;

	errno = 0;
	*out = strtol(text, &end, 10);
	if (errno == 0 && end != text && *end == '\0' && *out >= 1 && *out <= max)
		return 0;
	fprintf(stderr, "tow-size: %s: '%s' is not in 1..%ld\n", name, text, max);
	return MEMREG_USAGE;
}

static int parse_premap(struct memreg_options *options, const char *text)
{
	if (memreg_parse_bytes(text, &options->premap) && options->premap >= TWI_REPLAY_POOL_MIN)
		return 0;
	fprintf(stderr,
		"tow-size: --premap takes a size from 1MiB to 1024GiB, such as 1.5GiB, 64MB or "
		"1048576, not '%s'\n",
		text);
	return MEMREG_USAGE;
}

static int parse_flops(struct memreg_options *options, const char *text)
{
	char *end;

	options->flops_per_s = strtod(text, &end);
	if (end != text && *end == '\0' && options->flops_per_s >= 1 &&
	    options->flops_per_s <= 1e21)
		return 0;
	fprintf(stderr, "tow-size: --flops takes 1 to 1e21, such as 4e14, not '%s'\n", text);
	return MEMREG_USAGE;
}

static int add_replay(struct memreg_options *options, const char *path)
{
	if (options->replay_count == MEMREG_LOGS) {
		fprintf(stderr, "tow-size: --replay: at most %d logs\n", MEMREG_LOGS);
		return MEMREG_USAGE;
	}
	options->replays[options->replay_count++] = path;
	options->replay = options->replays[0];
	return 0;
}

static const struct option long_options[] = {
	{ "workload", required_argument, NULL, 'w' }, { "replay", required_argument, NULL, 'R' },
	{ "set", required_argument, NULL, 'S' },      { "tensors", required_argument, NULL, 't' },
	{ "arena", required_argument, NULL, 'a' },    { "premap", required_argument, NULL, 'p' },
	{ "svg", required_argument, NULL, 'v' },      { "machine", no_argument, NULL, 'm' },
	{ "sizes", required_argument, NULL, 's' },    { "rounds", required_argument, NULL, 'r' },
	{ "quick", no_argument, NULL, 'q' },          { "json", no_argument, NULL, 'j' },
	{ "intensity", no_argument, NULL, 'i' },      { "flops", required_argument, NULL, 'f' },
	{ "long", no_argument, NULL, 'L' },           { "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },        { NULL, 0, NULL, 0 },
};

/* Returns -1 when help or the version was printed. */
static int apply_option(struct memreg_options *options, int option, char *value)
{
	long number = 0;
	int rc = 0;

	switch (option) {
	case 'w':
		options->workload = value;
		break;
	case 'R':
		return add_replay(options, value);
	case 'S':
		return parse_set(options, value);
	case 't':
		rc = parse_count("--tensors", value, 100000, &number);
		options->limit = (uint64_t)number;
		break;
	case 'a':
		options->arena = value;
		break;
	case 'p':
		return parse_premap(options, value);
	case 'v':
		options->svg = value;
		break;
	case 'm':
		options->machine = true;
		break;
	case 's':
		return parse_sizes(options, value);
	case 'r':
		rc = parse_count("--rounds", value, MEMREG_ROUNDS_MAX, &number);
		options->rounds = (int)number;
		break;
	case 'q':
		options->quick = true;
		break;
	case 'j':
		options->json = true;
		break;
	case 'i':
		options->intensity = true;
		break;
	case 'f':
		return parse_flops(options, value);
	case 'L':
		options->long_runs = true;
		break;
	case 'h':
		fputs(help, stdout);
		return -1;
	case 'V':
		puts("tow-size " TOW_VERSION);
		return -1;
	default:
		fputs("tow-size --help lists the options\n", stderr);
		return MEMREG_USAGE; /* getopt has printed why */
	}
	return rc;
}

/* Refuses options that do not go together. */
static int check_options(const struct memreg_options *options)
{
	int programs = options->machine + (options->workload != NULL) + (options->replay != NULL);
	const char *alone =
		programs > 1 ? "--machine, --workload and --replay exclude each other"
		: options->workload == NULL && (options->set_count > 0 || options->lane != NULL)
			? "--set needs --workload"
		: options->workload == NULL && options->limit > 0 ? "--tensors needs --workload"
		: options->workload == NULL && options->replay == NULL && options->premap > 0
			? "--premap needs --workload or --replay"
		: options->workload == NULL && options->replay == NULL && options->arena != NULL
			? "--arena needs --workload or --replay"
		: options->intensity && (options->workload == NULL || options->premap > 0 ||
					 options->svg != NULL)
			? "--intensity needs --workload, without --premap and --svg"
		: options->svg != NULL && (options->premap > 0 ||
					   (options->workload == NULL && options->replay == NULL))
			? "--svg needs --workload or --replay, without --premap"
		: options->svg != NULL && options->replay_count > 1
			? "--svg draws one log: give --replay once"
			: NULL;

	if (alone == NULL)
		return 0;
	fprintf(stderr, "tow-size: %s\n", alone);
	return MEMREG_USAGE;
}

static int parse_options(struct memreg_options *options, int argc, char **argv)
{
	int option, rc = 0;

	while (rc == 0 && (option = getopt_long(argc, argv, "h", long_options, NULL)) != -1)
		rc = apply_option(options, option, optarg);
	if (rc == 0 && optind < argc) {
		fprintf(stderr, "tow-size: unexpected argument '%s'\n", argv[optind]);
		rc = MEMREG_USAGE;
	}
	if (rc == 0)
		rc = check_options(options);
	if (options->quick && options->size_count == 0) {
		options->sizes[options->size_count++] = 8 * MIB;
		options->rounds = 1;
	}
	while (options->size_count == 0) {
		static const uint64_t usual[] = { 64 * MIB, 256 * MIB, 1024 * MIB };

		for (size_t i = 0; i < twi_array_count(usual); i++)
			options->sizes[options->size_count++] = usual[i];
	}
	return rc;
}

int main(int argc, char **argv)
{
	struct memreg_options options = { .rounds = 5, .flops_per_s = FLOPS_PER_S };
	int rc = parse_options(&options, argc, argv);

	if (rc != 0)
		return rc < 0 ? 0 : rc;
	if (options.intensity)
		rc = memreg_intensity(&options);
	else if (options.replay_count > 1)
		rc = memreg_several(&options);
	else
		rc = options.workload != NULL || options.replay != NULL ? memreg_size(&options)
									: memreg_machine(&options);
	return rc != 0 || (fflush(stdout) == 0 && !ferror(stdout)) ? rc : MEMREG_FAULT;
}
