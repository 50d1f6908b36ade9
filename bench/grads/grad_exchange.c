/*
 * grad_exchange.c - two processes average the gradients of a published model, step by step.
 *
 * Rank 1 is forked before any runtime is open. Both meet at a port of loopback that was chosen
 * before; rank 1 says through a pipe how it went, and rank 0 prints the report of both.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/common/lanes.h"
#include "bench/grads/grads.h"

static const char help[] =
	"usage: tow-grads --workload FILE [options]\n"
	"\n"
	"  --workload FILE   tensors to exchange: a file, or gpt2, resnet50, llama3-8b\n"
	"  --steps N         how often [5]\n"
	"  --tensors N       only the first N tensors of the file [all]\n"
	"  --bucket SIZE     gradients that are exchanged together, about [25MiB]\n"
	"  --lane LANE       a lane of `towstat lanes`, or auto: the best that both have [auto]\n"
	"  --premap SIZE     pool of each rank, such as 256MiB [TOW_PREMAP_MEMORY_BYTES, else "
	"what\n"
	"                    the buffers need]; buffers that do not fit come from the heap\n"
	"  --linger S        stay S seconds after the last step, to be looked at [0]\n"
	"  --timeout S       the longest that an all-reduce may take [60]\n"
	"\n"
	"In each step each rank makes a gradient for each tensor, the last tensor first, as a\n"
	"backward pass does. As soon as a bucket of them is there, its all-reduce (mean) is\n"
	"started, and the next bucket is made meanwhile; at the end of the step all are awaited,\n"
	"and every byte of every mean is checked. Before that the two halves of the step are\n"
	"timed alone. overlap: the share of the shorter half that the step hides; slack of a\n"
	"bucket: the time from its start to the first wait for it, less what the calls between\n"
	"took. Memory of each rank: twice the workload's bytes.\n"
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

/* "256MiB", "1GiB", "64KiB" or bytes. */
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
	{ "lane", required_argument, NULL, 'm' },     { "premap", required_argument, NULL, 'p' },
	{ "linger", required_argument, NULL, 'l' },   { "timeout", required_argument, NULL, 't' },
	{ "help", no_argument, NULL, 'h' },           { NULL, 0, NULL, 0 },
};

static int apply_option(struct grads_options *options, int option, const char *value)
{
	char address[TOW_ADDRESS_MAX], names[BENCH_LANES_HELP_BYTES];
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
		return parse_size("--bucket", value, &options->bucket);
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
	}
	return GRADS_FAILED; /* getopt has said why */
}

static int parse_options(struct grads_options *options, int argc, char **argv)
{
	int option, rc = 0;

	*options = (struct grads_options){ .steps = 5,
					   .bucket = UINT64_C(25) << 20,
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

static int say_to_parent(int fd, const void *data, size_t bytes)
{
	if (write(fd, data, bytes) == (ssize_t)bytes)
		return 0;
	fprintf(stderr, "tow-grads: rank 0 has gone\n");
	return GRADS_FAILED;
}

static int run_child(const struct grads_options *options, const struct workload *work,
		     const struct strategy_plan *plan, int fd)
{
	struct grads_rank rank = { .options = options, .work = work, .plan = plan, .rank = 1 };
	int rc = grads_rank_open(&rank), said;

	if (rc == 0)
		rc = grads_rank_run(&rank);
	rank.outcome.code = rc;
	said = say_to_parent(fd, &rank.outcome, sizeof(rank.outcome));
	if (rc == 0 && options->linger_s > 0)
		usleep((useconds_t)(options->linger_s * 1e6));
	grads_rank_close(&rank);
	return rc != 0 ? rc : said;
}

/* From the child, within the time limit; less than a pipe's atomic size, so it comes whole. */
static int hear_from_child(const struct grads_options *options, int fd, void *data, size_t bytes)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };

	if (poll(&wait, 1, (int)(options->timeout_ns / 1000000)) == 1 &&
	    read(fd, data, bytes) == (ssize_t)bytes)
		return 0;
	fprintf(stderr, "tow-grads: rank 1 failed\n");
	return GRADS_FAILED;
}

static int run_parent(const struct grads_options *options, const struct workload *work,
		      const struct strategy_plan *plan, int fd)
{
	struct grads_rank rank = { .options = options, .work = work, .plan = plan };
	struct grads_outcome other = { .code = GRADS_FAILED };
	int rc = grads_rank_open(&rank);

	if (rc == 0) {
		grads_report_head(&rank);
		rc = grads_rank_run(&rank);
	}
	if (rc == 0)
		rc = hear_from_child(options, fd, &other, sizeof(other));
	if (rc == 0)
		rc = other.code;
	if (rc == 0) {
		grads_report_run(&rank, &other);
		grads_report_library(&rank);
	}
	if (rc == 0 && options->linger_s > 0)
		usleep((useconds_t)(options->linger_s * 1e6));
	grads_rank_close(&rank);
	return rc;
}

/* Waits for the child, which has its own time limits; one that overstays is ended. */
static int reap_child(pid_t child, double seconds)
{
	int status = 0;

	for (double waited = 0; waited < seconds; waited += 0.01) {
		if (waitpid(child, &status, WNOHANG) == child)
			return WIFEXITED(status) ? WEXITSTATUS(status) : GRADS_FAILED;
		usleep(10000);
	}
	fprintf(stderr, "tow-grads: rank 1 does not end; stopping it\n");
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	return GRADS_FAILED;
}

/* A free port of loopback, which stays ours while the ranks run (see towrun_start.c). */
static int choose_store(struct grads_options *options)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 ||
	    getsockname(fd, (struct sockaddr *)&at, &bytes) < 0) {
		fprintf(stderr, "tow-grads: no port to meet at: %s\n", strerror(errno));
		return GRADS_FAILED;
	}
	snprintf(options->store, sizeof(options->store), "127.0.0.1:%u", ntohs(at.sin_port));
	return 0;
}

static int run_ranks(const struct grads_options *options, const struct workload *work,
		     const struct strategy_plan *plan)
{
	pid_t parent = getpid(), child;
	int fds[2], rc, ended;

	if (pipe(fds) != 0 || (child = fork()) < 0) {
		fprintf(stderr, "tow-grads: no second process: %s\n", strerror(errno));
		return GRADS_FAILED;
	}
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fds[0]);
		_exit(getppid() == parent ? run_child(options, work, plan, fds[1]) : GRADS_FAILED);
	}
	close(fds[1]);
	rc = run_parent(options, work, plan, fds[0]);
	close(fds[0]);
	ended = reap_child(child, rc == GRADS_FAILED ? 3 : 10 + options->linger_s);
	/* What the child found wrong is more than that rank 0 then lost it. */
	return rc == 0 || ended == GRADS_MISMATCH ? ended : rc;
}

/* Two ranks with two buffers for each tensor; better refused than ended by the kernel. */
static int check_memory(const struct workload *work)
{
	uint64_t have = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t need = 4 * work->bytes;

	if (need < have)
		return 0;
	fprintf(stderr,
		"tow-grads: both ranks need %.1f GB, this machine has %.1f GB: --tensors N takes "
		"fewer\n",
		(double)need / 1e9, (double)have / 1e9);
	return GRADS_FAILED;
}

/* The workload's tensors, and what a data-parallel step does with them. */
static int prepare_plan(const struct grads_options *options, struct workload *work,
			struct strategy_plan *plan)
{
	char name[4096], path[4096], error[1024];
	const char *strategy = workload_split(options->file, name, sizeof(name));
	enum strategy_kind kind = STRATEGY_DATA_PARALLEL;

	*plan = (struct strategy_plan){ .events = NULL };
	if (strategy != NULL &&
	    (!strategy_parse(strategy, &kind) || kind != STRATEGY_DATA_PARALLEL)) {
		fprintf(stderr, "tow-grads: strategy '%s' is not data-parallel\n", strategy);
		return GRADS_FAILED;
	}
	if (workload_find(name, path, sizeof(path), error, sizeof(error)) != 0 ||
	    workload_load(path, options->limit, work, error, sizeof(error)) != 0) {
		fprintf(stderr, "tow-grads: %s\n", error);
		return GRADS_FAILED;
	}
	strategy_assume(kind, work, plan);
	strategy_set(plan, "bucket_bytes", options->bucket);
	if (strategy_make(plan, work) == 0)
		return 0;
	fprintf(stderr, "tow-grads: no memory for the plan of %" PRIu64 " tensors\n", work->count);
	return GRADS_FAILED;
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
		rc = check_memory(&work);
	if (rc == 0)
		rc = choose_store(&options);
	if (rc == 0)
		rc = run_ranks(&options, &work, &plan);
	strategy_free(&plan);
	workload_free(&work);
	return rc;
}
