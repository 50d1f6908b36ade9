/*
 * towrun.c - starts a job of local ranks, and ends the whole job when one rank fails.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <towline/version.h>

#include "tools/common/sweep.h"
#include "tools/towrun/towrun.h"

static const char usage[] =
	"usage: towrun -n RANKS [OPTION...] [--] PROGRAM [ARGUMENT...]\n"
	"Starts RANKS processes of PROGRAM on this machine that are one job: TOW_RANK,\n"
	"TOW_WORLD_SIZE, TOW_LOCAL_RANK, TOW_LOCAL_SIZE, TOW_STORE and, unless they are set,\n"
	"TOW_JOB and TOW_JOB_KEY.\n"
	"  -n, --ranks N         how many, from 1 to 1024\n"
	"  --timeout SECONDS     end the job after so long, with status 124\n"
	"  --grace SECONDS       from TERM to KILL, when the job is ended; 5 unless said\n"
	"  --tag-output on|off   on: \"[RANK] \" before each line (the default); off: as it is\n"
	"  --cores N             pin each rank to N cores, taken in turn\n"
	"  --help, --version\n"
	"Standard input goes to rank 0. INT, TERM, HUP, USR1 and USR2 go to all ranks; a second "
	"INT\n"
	"or TERM ends the job. The first rank that fails ends the job, and its status, or 128 and\n"
	"its signal, is towrun's: 127 and 126 where PROGRAM cannot be run, 2 for a wrong call.\n";

static int misuse_of(const char *what, const char *value)
{
	fprintf(stderr, "towrun: %s%s%s%s\n%s", what, *value != '\0' ? " ('" : "", value,
		*value != '\0' ? "')" : "", usage);
	return 2;
}

static int read_number(const char *text, long least, long most, long *out)
{
	char *end;

	errno = 0;
	*out = strtol(text, &end, 10);
	return errno != 0 || end == text || *end != '\0' || *out < least || *out > most ? -1 : 0;
}

static int read_seconds(const char *text, double least, double *out)
{
	char *end;

	*out = strtod(text, &end);
	return end == text || *end != '\0' || !(*out >= least && *out <= 1e9) ? -1 : 0;
}

enum { OPT_TIMEOUT = 256, OPT_GRACE, OPT_TAG, OPT_CORES, OPT_VERSION };

/* Returns -1 to go on, else the exit status. */
static int read_option(int option, struct options *out)
{
	switch (option) {
	case 'n':
		if (read_number(optarg, 1, RANKS_MAX, &out->ranks) != 0)
			return misuse_of("-n is a number from 1 to 1024", optarg);
		return -1;
	case OPT_TIMEOUT:
		if (read_seconds(optarg, 1e-3, &out->timeout_s) != 0)
			return misuse_of("--timeout is seconds from 0.001 on", optarg);
		return -1;
	case OPT_GRACE:
		if (read_seconds(optarg, 0, &out->grace_s) != 0)
			return misuse_of("--grace is seconds from 0 on", optarg);
		return -1;
	case OPT_TAG:
		if (strcmp(optarg, "on") != 0 && strcmp(optarg, "off") != 0)
			return misuse_of("--tag-output is on or off", optarg);
		out->tag = strcmp(optarg, "on") == 0;
		return -1;
	case OPT_CORES:
		if (read_number(optarg, 1, 4096, &out->cores) != 0)
			return misuse_of("--cores is a number from 1 to 4096", optarg);
		return -1;
	case OPT_VERSION:
		printf("towrun %s\n", tow_version());
		return 0;
	case 'h':
		fputs(usage, stdout);
		return 0;
	default:
		return misuse_of("wrong option", "");
	}
}

/* Returns -1 to go on, else the exit status. */
static int read_options(int argc, char **argv, struct options *out)
{
	static const struct option options[] = {
		{ "ranks", required_argument, NULL, 'n' },
		{ "timeout", required_argument, NULL, OPT_TIMEOUT },
		{ "grace", required_argument, NULL, OPT_GRACE },
		{ "tag-output", required_argument, NULL, OPT_TAG },
		{ "cores", required_argument, NULL, OPT_CORES },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, OPT_VERSION },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	/* "+": arguments after the program belong to the program */
	while ((option = getopt_long(argc, argv, "+n:h", options, NULL)) != -1) {
		int status = read_option(option, out);

		if (status >= 0)
			return status;
	}
	if (out->ranks == 0)
		return misuse_of("-n is missing", "");
	if (optind == argc)
		return misuse_of("a program is missing", "");
	out->program = argv + optind;
	return -1;
}

/* Kills the ranks that were already started. */
static void kill_all(struct rank *ranks, long count)
{
	for (long i = 0; i < count; i++) {
		if (ranks[i].pid <= 0)
			continue;
		kill(-ranks[i].pid, SIGKILL);
		guard_remove(ranks[i].pid);
		waitpid(ranks[i].pid, NULL, 0);
	}
}

int main(int argc, char **argv)
{
	struct options options = { .grace_s = 5, .tag = true };
	int status = read_options(argc, argv, &options), stdin_fd;
	struct rank *ranks;

	if (status >= 0)
		return status;
	ranks = calloc((size_t)options.ranks, sizeof(ranks[0]));
	if (ranks == NULL) {
		fprintf(stderr, "towrun: no memory for %ld ranks\n", options.ranks);
		return 1;
	}
	for (long i = 0; i < options.ranks; i++)
		ranks[i].streams[0].fd = ranks[i].streams[1].fd = -1;
	if (block_signals() != 0 || guard_start() != 0)
		return 1;
	status = start_ranks(&options, ranks, &stdin_fd);
	if (status != 0)
		kill_all(ranks, options.ranks);
	else
		status = run_job(&options, ranks, stdin_fd);
	/* Removes what killed ranks have left. Ranks that end by themselves leave nothing. */
	sweep_sockets(getenv("TOW_JOB"), options.ranks);
	free(ranks);
	return status;
}
