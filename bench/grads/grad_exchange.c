/*
 * grad_exchange.c - the options of tow-grads.
 *
 * The ranks of a job exchange the data of a published model, step by step: gradients or, with other
 * strategies, parameters, activations or caches.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/common/lanes.h"
#include "bench/grads/grads.h"

static const char help[] =
	"usage: tow-grads --workload FILE[:STRATEGY] [options]\n"
	"\n"
	"  --workload FILE   tensors of a model: a file, or gpt2, resnet50, llama3-8b,\n"
	"                    mixtral, gemma2-2b\n"
	"            STRATEGY   data-parallel [the default], fsdp, pipeline, tensor-parallel,\n"
	"                       expert-parallel or kv-transfer: docs/sizing.md\n"
	"  --set NAME=N      a number of the strategy (ranks, micro_batches, ...)\n"
	"  --steps N         how often [5]\n"
	"  --tensors N       only the first N tensors of the file [all]\n"
	"  --bucket SIZE     gradients that are exchanged together, about [25MiB]: bucket_bytes\n"
	"  --lane LANE       a lane of `towstat lanes`, or auto: the best that both have [auto]\n"
	"  --premap SIZE     pool of each rank, such as 256MiB [TOW_PREMAP_MEMORY_BYTES, else "
	"what\n"
	"                    the buffers need]; buffers that do not fit come from the heap\n"
	"  --linger S        stay S seconds after the last step, to be looked at [0]\n"
	"  --timeout S       the longest that an exchange may take [60]\n"
	"  -h, --help        this text\n"
	"  --version         the version\n"
	"\n"
	"Each rank is a process of this machine. What it allocates and sends in a step is what\n"
	"tow-size sizes a pool for, with the same --workload and --set.\n"
	"\n"
	"Data-parallel, two ranks: in each step each makes a gradient for each tensor, the last\n"
	"tensor first, as a backward pass does. As soon as a bucket of them is there, its\n"
	"all-reduce (mean) is started, and the next bucket is made meanwhile; at the end of the\n"
	"step all are awaited, and every byte of every mean is checked. Before that the two "
	"halves\n"
	"of the step are timed alone. Others: each step is timed without computing, then done\n"
	"again with payload that is checked.\n"
	"\n"
	"overlap            the share of the shorter half that the step hides\n"
	"slack of a bucket  the time from its start to the first wait for it, less what calls\n"
	"                   into the library took in between\n"
	"late registration  memory that was registered after start-up, within a step\n"
	"fallback copy      payload that was copied where the lane could have done without;\n"
	"                   each has a reason and a cure (towstat counters)\n"
	"\n"
	"Exit: 0 good, 1 payload was wrong, 2 anything else.\n";

static int parse_number(const char *name, const char *text, double min, double max, double *out)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end != '\0' || !(value >= min && value <= max)) {
		fprintf(stderr, "tow-grads: %s takes %g to %g, not '%s'\n", name, min, max, text);
		return GRADS_FAILED;
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

/* Reads "256MiB", "1GiB", "64KiB" or bytes. */
static int parse_size(const char *name, const char *text, uint64_t *out)
{
	static const struct {
		const char *unit;
		unsigned int shift;
	} units[] = { { "", 0 }, { "KiB", 10 }, { "MiB", 20 }, { "GiB", 30 } };
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (errno != 0 || end == text || *text == '-' || strcmp(end, units[i].unit) != 0)
			continue;
		if (value == 0 || value > (UINT64_C(1) << 40) >> units[i].shift)
			break;
		*out = (uint64_t)value << units[i].shift;
		return 0;
	}
	fprintf(stderr, "tow-grads: %s takes a size such as 256MiB, up to 1024GiB, not '%s'\n",
		name, text);
	return GRADS_FAILED;
}

static const struct option long_options[] = {
	{ "workload", required_argument, NULL, 'f' }, { "steps", required_argument, NULL, 's' },
	{ "tensors", required_argument, NULL, 'n' },  { "bucket", required_argument, NULL, 'w' },
	{ "set", required_argument, NULL, 'S' },      { "lane", required_argument, NULL, 'm' },
	{ "premap", required_argument, NULL, 'p' },   { "linger", required_argument, NULL, 'l' },
	{ "timeout", required_argument, NULL, 't' },  { "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },        { NULL, 0, NULL, 0 },
};

static int add_set(struct grads_options *options, const char *text)
{
	if (options->set_count == GRADS_SETS) {
		fprintf(stderr, "tow-grads: --set: at most %d\n", GRADS_SETS);
		return GRADS_FAILED;
	}
	options->set[options->set_count++] = text;
	return 0;
}

static int apply_option(struct grads_options *options, int option, const char *value)
{
	char address[TOW_ADDRESS_MAX], names[BENCH_LANES_HELP_BYTES];
	uint64_t bytes = 0;
	double number = 0;
	int rc;

	switch (option) {
	case 'f':
		options->file = value;
		return 0;
	case 's':
		return parse_count("--steps", value, 1e6, &options->steps);
	case 'n':
		return parse_count("--tensors", value, 1e5, &options->limit);
	case 'w':
		rc = parse_size("--bucket", value, &bytes);
		snprintf(options->bucket, sizeof(options->bucket), "bucket_bytes=%" PRIu64, bytes);
		return rc == 0 ? add_set(options, options->bucket) : rc;
	case 'S':
		return add_set(options, value);
	case 'm':
		options->lane = value;
		if (strcmp(value, "auto") == 0 || bench_lane_address(value, address))
			return 0;
		bench_lane_names(names);
		fprintf(stderr, "tow-grads: --lane takes %s or auto, not '%s'\n", names, value);
		return GRADS_FAILED;
	case 'p':
		return parse_size("--premap", value, &options->premap);
	case 'l':
		return parse_number("--linger", value, 0, 3600, &options->linger_s);
	case 't':
		rc = parse_number("--timeout", value, 0.1, 86400, &number);
		options->timeout_ns = (uint64_t)(number * 1e9);
		return rc;
	case 'h':
		fputs(help, stdout);
		return -1;
	case 'V':
		puts("tow-grads " TOW_VERSION);
		return -1;
	}
	return GRADS_FAILED; /* getopt has printed why */
}

static int parse_options(struct grads_options *options, int argc, char **argv)
{
	int option, rc = 0;

	*options = (struct grads_options){ .steps = 5,
					   .lane = "auto",
					   .timeout_ns = UINT64_C(60) * 1000000000 };
	while (rc == 0 && (option = getopt_long(argc, argv, "h", long_options, NULL)) != -1)
		rc = apply_option(options, option, optarg);
	if (rc == 0 && (options->file == NULL || optind < argc)) {
		fprintf(stderr, "tow-grads: --workload FILE is needed, and only options "
				"(tow-grads --help)\n");
		rc = GRADS_FAILED;
	}
	if (rc == 0) {
		const char *slash = strrchr(options->file, '/');

		options->label = slash != NULL ? slash + 1 : options->file;
	}
	return rc;
}

static int apply_sets(const struct grads_options *options, struct strategy_plan *plan)
{
	char error[512];
	int rc = 0;

	for (int i = 0; i < options->set_count && rc == 0; i++)
		rc = strategy_set_text(plan, options->set[i], error, sizeof(error));
	if (rc == 0)
		rc = strategy_check(plan, error, sizeof(error));
	if (rc == 0 && (strategy_ranks(plan) < 2 || strategy_ranks(plan) > GRADS_RANKS)) {
		snprintf(error, sizeof(error), "%u ranks: there can be 2 to %d of one machine",
			 strategy_ranks(plan), GRADS_RANKS);
		rc = -1;
	}
	if (rc == 0)
		return 0;
	fprintf(stderr, "tow-grads: %s\n", error);
	return GRADS_FAILED;
}

/* Loads the workload's tensors, and sets the numbers of the plan. */
static int prepare_plan(const struct grads_options *options, struct workload *work,
			struct strategy_plan *plan)
{
	char name[4096], path[4096], error[1024];
	const char *strategy = workload_split(options->file, name, sizeof(name));
	enum strategy_kind kind = STRATEGY_DATA_PARALLEL;

	if (strategy != NULL && !strategy_parse(strategy, &kind)) {
		strategy_names(error);
		fprintf(stderr, "tow-grads: strategy '%s' is none of %s\n", strategy, error);
		return GRADS_FAILED;
	}
	if (workload_find(name, path, sizeof(path), error, sizeof(error)) != 0 ||
	    workload_load(path, options->limit, work, error, sizeof(error)) != 0) {
		fprintf(stderr, "tow-grads: %s\n", error);
		return GRADS_FAILED;
	}
	strategy_assume(kind, work, plan);
	return apply_sets(options, plan);
}

int main(int argc, char **argv)
{
	struct workload work = { .count = 0 };
	struct strategy_plan plan;
	struct grads_options options;
	int rc = parse_options(&options, argc, argv);

	if (rc != 0)
		return rc < 0 ? EXIT_SUCCESS : rc;
	signal(SIGPIPE, SIG_IGN);
	rc = prepare_plan(&options, &work, &plan);
	if (rc == 0)
		rc = grads_ranks_run(&options, &work, &plan);
	workload_free(&work);
	return rc;
}
