/*
 * towstat.c - reads the stats sockets of the runtimes on this host, and prints the library's lists.
 *
 * It is an ordinary user of libtowline and of HTTP: curl can get the same documents.
 */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <towline/towline.h>

#include "tools/towstat/towstat.h"

struct arguments {
	const char *socket_path;
	enum list_style style;
	long count;
	int json, all, sweep;
	double interval_s;  /* 0: not given */
	double since_s;     /* likewise */
	long seconds;       /* -1: not given */
	const char *output; /* NULL: not given */
	const char *from;   /* likewise */
	const char *torch;  /* likewise */
	int argc;
	char **argv; /* arguments that are no options */
};

static const char usage[] =
	"towstat - what Towline runtimes on this host are doing\n"
	"\n"
	"  towstat list [JOB]                  all live runtimes: name, state, process, version, "
	"age,\n"
	"                                      the store of their job; --all: also what ended "
	"ones\n"
	"                                      have left; --sweep takes that away\n"
	"  towstat top                         all ranks: rates, latencies, pool, copies, slack, "
	"verdict\n"
	"  towstat explain [NAME|SOCKET]       all of it in one answer, the worst first, each with "
	"its\n"
	"                                      cure: verdict, why, counters, host, and 3 s of "
	"rates\n"
	"  towstat watch [SECONDS] [NAME]      rates and latencies, summed, each SECONDS (default "
	"1)\n"
	"  towstat why [NAME|SOCKET]           what it waits for now, and which rank holds it\n"
	"                                      up; what was copied or registered late: why, from\n"
	"                                      where, what it cost, and what mends it\n"
	"  towstat get PATH [NAME]             documents, or parts of them, of one or all: "
	"/metrics\n"
	"                                      /v1/info /v1/counters /v1/latency; /v1 lists them\n"
	"  towstat get coll [NAME]             collectives: which plan ran and why, what it "
	"moved,\n"
	"                                      times, skew and slack (/v1/coll has all of it)\n"
	"  towstat verdict [NAME|SOCKET]       why the job does not go on, or is slow: causes,\n"
	"                                      culprits, evidence; the exit status says\n"
	"                                      which (below). With --since: what was seen\n"
	"                                      so far\n"
	"  towstat stacks [NAME|SOCKET]        threads: state, what they sleep in, and their\n"
	"                                      stacks, where the knob stacks_signal allows it\n"
	"  towstat diff A B                    what is worse in B: snapshots or living ranks\n"
	"  towstat export                      one OpenMetrics endpoint for all ranks\n"
	"  towstat dpdk [NAME]                 serves runtimes to tools that speak DPDK's "
	"telemetry\n"
	"  towstat ras [JOB]                   its groups on the port of NCCL's RAS, for what "
	"watches\n"
	"                                      that: ncclras, Ray, SGLang\n"
	"  towstat bpf                         lets the kernel count for all runtimes, while it "
	"runs\n"
	"                                      (runs towbpf, which needs CAP_BPF or root)\n"
	"  towstat alloclog [NAME] -o FILE     a log of allocations, of --seconds N; for\n"
	"                                      tow-alloclog and tow-size --replay\n"
	"  towstat knobs [PART]                every knob, or those with PART in their name: "
	"default\n"
	"                                      and range\n"
	"  towstat counters                    every counter, reason and status\n"
	"  towstat lanes                       every lane, and which peers it reaches\n"
	"\n"
	"  top, explain, get, diff, export, dpdk, ras and bpf have options of their own: towstat "
	"top "
	"--help.\n"
	"\n";

static const char usage_options[] =
	"  -s, --socket PATH   the runtime's stats socket, instead of NAME\n"
	"      --all-users     also sockets of other users, and whose they are (all commands)\n"
	"  -i, --interval S    watch: the same as SECONDS\n"
	"  -n, --count N       watch: end after N lines; why: show N places of each kind\n"
	"  -a, --all           why: of all ranks, one after the other; list: also what is left of\n"
	"                      ended processes\n"
	"      --sweep         list: takes away what this user's ended processes have left, of "
	"jobs\n"
	"                      of which nobody lives\n"
	"      --since TIME    verdict: what the looks of the last TIME have seen, by the rank "
	"that\n"
	"                      looks each verdict_interval_ns: 90s, 10m, 2h\n"
	"      --from FOLDER   verdict: of a job that has ended, by the files that its flight\n"
	"                      recorders have left there (flight_dir); NAME is the job\n"
	"      --fr-trace OUT  verdict --from: writes them into folder OUT as PyTorch's fr_trace\n"
	"                      reads them\n"
	"      --json          why, verdict: as JSON, all there is\n"
	"      --seconds N     alloclog: from 0 to 60; without: what there is where the knob "
	"alloclog\n"
	"                      is set, else 1\n"
	"  -o, --output FILE   alloclog: where it goes; - is the standard output\n"
	"      --markdown      knobs, counters: as a document\n"
	"      --man           knobs: as a manual page\n"
	"  -h, --help          this text\n"
	"      --version       the version\n"
	"\n"
	"NAME is a runtime (job.rank), or a job, or JOB@STORE where two have one name (list), "
	"whose ranks are all meant: watch sums them, "
	"verdict\n"
	"is the job's, why and get go rank by rank. Without NAME and --socket the only job that\n"
	"lives here is meant. What sockets of other users say is not believed, by root neither,\n"
	"unless --all-users asks for them. Runtimes are looked for in\n"
	"$TOW_STATS_DIR or, where it is not set, in the default directory of this user,\n"
	"/run/towline, /run/user/*/towline, /tmp/towline-* and /dev/shm/towline-*. Status: 0 done, "
	"1 failed, 2 wrong usage; of verdict and explain\n"
#define ROW(status, name, says) "  " #status "  " says "\n"
	VERDICT_STATUS_MAP(ROW)
#undef ROW
	;

int misuse(const char *what, const char *which)
{
	fprintf(stderr, "towstat: %s%s%s; see towstat --help\n", what, which[0] != '\0' ? ": " : "",
		which);
	return EXIT_USAGE;
}

int read_number(const char *text, long least, long most, long *out)
{
	char *end;

	errno = 0;
	*out = strtol(text, &end, 10);
	return errno != 0 || end == text || *end != '\0' || *out < least || *out > most ? -1 : 0;
}

int read_seconds(const char *text, double least, double most, double *out)
{
	char *end;

	*out = strtod(text, &end);
	return end == text || *end != '\0' || !(*out >= least && *out <= most) ? -1 : 0;
}

/* Reads a time with a unit, or in seconds, of up to a year. */
static int read_span(const char *text, double *out)
{
	static const struct {
		char unit;
		double seconds;
	} units[] = { { 's', 1 }, { 'm', 60 }, { 'h', 3600 }, { 'd', 86400 }, { '\0', 1 } };
	char *end;

	*out = strtod(text, &end);
	if (end == text || (*end != '\0' && end[1] != '\0'))
		return -1;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (*end != units[i].unit)
			continue;
		*out *= units[i].seconds;
		return *out > 0 && *out <= 366 * 86400.0 ? 0 : -1;
	}
	return -1;
}

/* list [JOB] */
static int run_list(const struct arguments *arguments)
{
	const struct list_options options = { .job = arguments->argc > 1 ? arguments->argv[1]
									 : NULL,
					      .all = arguments->all,
					      .sweep = arguments->sweep };

	if (arguments->argc > 2)
		return misuse("list takes a job", arguments->argv[2]);
	return list_runtimes(&options);
}

/* watch [SECONDS] [NAME]: an argument that reads as a number is the interval. */
static int run_watch(const struct arguments *arguments)
{
	struct watch_options options = { .seconds = 1, .count = arguments->count };
	int given = arguments->interval_s > 0;
	struct runtime_list targets;
	const char *name = NULL;
	int at = 1, status;
	char *end;

	if (given)
		options.seconds = arguments->interval_s;
	if (!given && at < arguments->argc) {
		double seconds = strtod(arguments->argv[at], &end);

		if (end != arguments->argv[at] && *end == '\0') {
			if (!(seconds >= 0.01 && seconds <= 86400))
				return misuse("SECONDS is from 0.01 to 86400", arguments->argv[at]);
			options.seconds = seconds;
			at++;
		}
	}
	if (at < arguments->argc)
		name = arguments->argv[at++];
	if (at < arguments->argc)
		return misuse("watch takes SECONDS and a name", arguments->argv[at]);
	if (find_targets(arguments->socket_path, name, &targets) != 0)
		return 1;
	status = watch(&targets, &options);
	runtime_list_fini(&targets);
	return status;
}

/*
 * Finds [NAME|SOCKET] behind the command's name. A slash makes it a path. Returns 0, or -1 with the
 * reason printed.
 */
static int find_given(const struct arguments *arguments, struct runtime_list *out)
{
	const char *target = arguments->argc > 1 ? arguments->argv[1] : NULL;
	const char *socket_path = arguments->socket_path;

	if (target != NULL && strchr(target, '/') != NULL)
		socket_path = target;
	return find_targets(socket_path, target, out);
}

/* why [NAME|SOCKET] */
static int run_why(const struct arguments *arguments)
{
	struct why_options options = { .count = arguments->count, .json = arguments->json };
	struct runtime_list targets;
	int status;

	if (arguments->argc > (arguments->all ? 1 : 2))
		return misuse("why takes one name or socket, or --all",
			      arguments->argv[arguments->argc - 1]);
	if (arguments->all)
		return show_why_all(&options);
	if (find_given(arguments, &targets) != 0)
		return 1;
	status = show_why(&targets, &options);
	runtime_list_fini(&targets);
	return status;
}

static int run_verdict(const struct arguments *arguments)
{
	const char *target = arguments->argc > 1 ? arguments->argv[1] : NULL;
	struct runtime_list targets;
	int status;

	if (arguments->argc > 2)
		return misuse("verdict takes one name or socket", arguments->argv[2]);
	if (arguments->from != NULL && arguments->since_s > 0)
		return misuse("verdict takes --from or --since", "");
	if (arguments->torch != NULL && (arguments->from == NULL || arguments->json))
		return misuse("--fr-trace goes with --from, and without --json", "");
	if (arguments->torch != NULL)
		return write_last_words(arguments->from, target, arguments->torch);
	if (arguments->from != NULL)
		return show_last_words(arguments->from, target, arguments->json);
	if (find_given(arguments, &targets) != 0)
		return 1;
	status = arguments->since_s > 0
			 ? show_history(&targets, arguments->since_s, arguments->json)
			 : show_verdict(&targets, arguments->json);
	runtime_list_fini(&targets);
	return status;
}

/* stacks [NAME|SOCKET] */
static int run_stacks(const struct arguments *arguments)
{
	struct runtime_list targets;
	int status;

	if (arguments->argc > 2)
		return misuse("stacks takes one name or socket", arguments->argv[2]);
	if (arguments->json)
		return misuse("stacks: towstat get /v1/stacks has them as JSON", "");
	if (find_given(arguments, &targets) != 0)
		return 1;
	status = show_stacks(&targets);
	runtime_list_fini(&targets);
	return status;
}

static int run_alloclog(const struct arguments *arguments)
{
	char path[256];

	if (arguments->argc > 2)
		return misuse("alloclog takes a name", arguments->argv[2]);
	if (arguments->output == NULL)
		return misuse("alloclog needs --output FILE", "");
	if (find_target(arguments->socket_path, arguments->argc > 1 ? arguments->argv[1] : NULL,
			path, sizeof(path)) != 0)
		return 1;
	return fetch_alloclog(path, arguments->seconds, arguments->output);
}

static int run_knobs(const struct arguments *arguments)
{
	if (arguments->argc > 2)
		return misuse("knobs takes a part of a name", arguments->argv[2]);
	if (arguments->argc == 1) {
		print_knobs(arguments->style);
		return 0;
	}
	if (arguments->style != LIST_PLAIN)
		return misuse("knobs: --markdown and --man are of all knobs", arguments->argv[1]);
	if (print_knobs_like(arguments->argv[1]) > 0)
		return 0;
	fprintf(stderr, "towstat: no knob has '%s' in its name\n", arguments->argv[1]);
	return 1;
}

static int run_counters(const struct arguments *arguments)
{
	if (arguments->argc != 1 || arguments->style == LIST_MAN)
		return misuse("counters takes --markdown alone", "");
	print_counters(arguments->style);
	return 0;
}

static int run_lanes(const struct arguments *arguments)
{
	if (arguments->argc != 1 || arguments->style != LIST_PLAIN)
		return misuse("lanes takes nothing more", "");
	print_lanes();
	return 0;
}

/* run: takes the options below; own: has options of its own. */
static const struct {
	const char *name;
	int (*run)(const struct arguments *arguments);
	int (*own)(int argc, char **argv);
} commands[] = {
	{ "alloclog", run_alloclog, NULL }, { "list", run_list, NULL },
	{ "watch", run_watch, NULL },       { "why", run_why, NULL },
	{ "knobs", run_knobs, NULL },       { "counters", run_counters, NULL },
	{ "get", NULL, run_get },           { "top", NULL, run_top },
	{ "export", NULL, run_export },     { "diff", NULL, run_diff },
	{ "verdict", run_verdict, NULL },   { "bpf", NULL, run_bpf },
	{ "explain", NULL, run_explain },   { "dpdk", NULL, run_dpdk },
	{ "ras", NULL, run_ras },           { "lanes", run_lanes, NULL },
	{ "stacks", run_stacks, NULL },
};

enum {
	OPT_MARKDOWN = 256,
	OPT_MAN,
	OPT_JSON,
	OPT_VERSION,
	OPT_SECONDS,
	OPT_SINCE,
	OPT_FROM,
	OPT_FR_TRACE,
	OPT_SWEEP
};

/* Takes an option without a value. */
static int take_flag(struct arguments *out, int option)
{
	switch (option) {
	case 'a':
		out->all = 1;
		return 0;
	case OPT_MARKDOWN:
		out->style = LIST_MARKDOWN;
		return 0;
	case OPT_MAN:
		out->style = LIST_MAN;
		return 0;
	case OPT_JSON:
		out->json = 1;
		return 0;
	case OPT_SWEEP:
		out->sweep = 1;
		return 0;
	default:
		return -1;
	}
}

/* Takes an option whose text needs no conversion. */
static int take_text(struct arguments *out, int option)
{
	switch (option) {
	case 's':
		out->socket_path = optarg;
		return 0;
	case 'o':
		out->output = optarg;
		return 0;
	case OPT_FROM:
		out->from = optarg;
		return 0;
	case OPT_FR_TRACE:
		out->torch = optarg;
		return 0;
	default:
		return -1;
	}
}

/* Returns -1 to go on, else the exit status. */
static int read_options(int argc, char **argv, struct arguments *out)
{
	static const struct option options[] = {
		{ "socket", required_argument, NULL, 's' },
		{ "count", required_argument, NULL, 'n' },
		{ "interval", required_argument, NULL, 'i' },
		{ "all", no_argument, NULL, 'a' },
		{ "sweep", no_argument, NULL, OPT_SWEEP },
		{ "seconds", required_argument, NULL, OPT_SECONDS },
		{ "since", required_argument, NULL, OPT_SINCE },
		{ "from", required_argument, NULL, OPT_FROM },
		{ "fr-trace", required_argument, NULL, OPT_FR_TRACE },
		{ "output", required_argument, NULL, 'o' },
		{ "markdown", no_argument, NULL, OPT_MARKDOWN },
		{ "man", no_argument, NULL, OPT_MAN },
		{ "json", no_argument, NULL, OPT_JSON },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, OPT_VERSION },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "s:n:i:ao:h", options, NULL)) != -1) {
		switch (option) {
		case 'n':
			if (read_number(optarg, 1, LONG_MAX, &out->count) != 0)
				return misuse("--count is a number from 1", optarg);
			break;
		case 'i':
			if (read_seconds(optarg, 0.01, 86400, &out->interval_s) != 0)
				return misuse("--interval is from 0.01 to 86400 seconds", optarg);
			break;
		case OPT_SECONDS:
			if (read_number(optarg, 0, 60, &out->seconds) != 0)
				return misuse("--seconds is a number from 0 to 60", optarg);
			break;
		case OPT_SINCE:
			if (read_span(optarg, &out->since_s) != 0)
				return misuse("--since is a time such as 90s, 10m or 2h", optarg);
			break;
		case OPT_VERSION:
			printf("towstat %s\n", tow_version());
			return 0;
		case 'h':
			fputs(usage, stdout);
			fputs(usage_options, stdout);
			return 0;
		default:
			if (take_flag(out, option) != 0 && take_text(out, option) != 0)
				return misuse("wrong option", "");
		}
	}
	out->argc = argc - optind;
	out->argv = argv + optind;
	return -1;
}

/* Removes --all-users, which may stand anywhere as all commands take it. */
static int take_all_users(int argc, char **argv)
{
	int kept = 1;

	for (int at = 1; at < argc; at++) {
		if (strcmp(argv[at], "--all-users") == 0)
			find_all_users();
		else
			argv[kept++] = argv[at];
	}
	if (kept < argc)
		argv[kept] = NULL;
	return kept;
}

static int finish_output(int status)
{
	if (fflush(stdout) != 0 || ferror(stdout)) {
		fprintf(stderr, "towstat: cannot write: %s\n", strerror(errno));
		return 1;
	}
	return status;
}

/* Finds a command with options of its own and makes it argv[1]. Options may stand before it. */
static int (*find_own(int argc, char **argv))(int, char **)
{
	static char title[32];

	for (int at = 1; at < argc; at++) {
		for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
			if (strcmp(argv[at], commands[i].name) != 0)
				continue;
			memmove(argv + 2, argv + 1, (size_t)(at - 1) * sizeof(*argv));
			/* getopt prints it as the program's name. */
			snprintf(title, sizeof(title), "towstat %s", commands[i].name);
			argv[1] = commands[i].own != NULL ? title : (char *)commands[i].name;
			return commands[i].own;
		}
		if (argv[1][0] != '-')
			break;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct arguments arguments = { .seconds = -1 };
	int (*own)(int, char **);
	int status;

	argc = take_all_users(argc, argv);
	own = find_own(argc, argv);
	if (own != NULL)
		return finish_output(own(argc - 1, argv + 1));
	status = read_options(argc, argv, &arguments);
	if (status >= 0)
		return status;
	if (arguments.argc == 0)
		return misuse("a command is missing", "");
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (commands[i].run != NULL && strcmp(arguments.argv[0], commands[i].name) == 0)
			return finish_output(commands[i].run(&arguments));
	}
	return misuse("no such command", arguments.argv[0]);
}
