/*
 * towtrace.c - the program: captures traces of runtimes, merges them, and writes them for other
 * tools.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <towline/status.h>
#include <towline/version.h>

#include "tools/common/words.h"
#include "tools/towtrace/towtrace.h"

#define EXIT_USAGE  2
#define SECONDS_MAX 60

static const char usage[] =
	"towtrace - traces of Towline runtimes, for XProf, Perfetto, Chrome, or as a report\n"
	"\n"
	"  towtrace capture [SOCKET...]     all ranks of a job on this host, at once\n"
	"  towtrace convert FILE            writes a trace in another format\n"
	"  towtrace merge FILE...           several hosts' traces as one\n"
	"  towtrace report FILE...          a page: latency, throughput, slack, steps, copies\n"
	"  towtrace show FILE...            which ranks are in it, and how sure their clocks are\n"
	"  towtrace profile FILE...         how long collectives took, for schedulers\n"
	"\n"
	"      --seconds N     capture: how long, from 0 (what there is) to 60; default 1\n"
	"      --job NAME      capture: of which job, where several live here\n"
	"  -f, --format F      xspace (the default), perfetto, chrome, json or html;\n"
	"                      profile: json (the default), xla-table or xla-costs\n"
	"  -o, --output FILE   where it goes; - is the standard output\n"
	"      --logdir DIR    as XProf and TensorBoard look for it, instead of -o:\n"
	"                      DIR/plugins/profile/<run>/<host>.xplane.pb\n"
	"      --run NAME      of the run in --logdir; default the time\n"
	"      --lane NAME     profile: of that lane alone\n"
	"      --type NAME     profile: of collectives whose type is not known, such as bf16\n"
	"      --device NAME   profile: what XLA calls the device in xla-table, such as sm_90\n"
	"  -h, --help          this text\n"
	"      --version       the version\n"
	"\n"
	"FILEs are xspace; the other formats do not hold all of a trace. Those of profile can be\n"
	"what tow-coll --profile wrote, too. Status: 0 done, 1 failed\n"
	"(capture: also when a rank did not answer; what came is written), 2 wrong usage.\n";

struct arguments {
	struct capture_options capture;
	enum trace_format format;
	struct profile_options profile;
	const char *format_name; /* NULL: the command's own */
	const char *output, *logdir, *run;
	char **files;
	size_t file_count;
};

static int misuse_of(const char *what, const char *which)
{
	fprintf(stderr, "towtrace: %s%s%s; see towtrace --help\n", what,
		which[0] != '\0' ? ": " : "", which);
	return EXIT_USAGE;
}

static int failed_at(const char *what)
{
	fprintf(stderr, "towtrace: %s: %s\n", what, tow_error_message());
	return 1;
}

/* Loads the trace of a file. NULL: it failed, after a message. */
static struct trace_document *load_trace(const char *path)
{
	struct trace_document *trace = NULL;
	size_t count;
	void *bytes = read_file(path, &count);

	if (bytes == NULL)
		return NULL;
	if (trace_document_load(bytes, count, &trace) < 0)
		failed_at(path);
	free(bytes);
	return trace;
}

/* Loads all files as one trace. NULL: it failed, after a message. */
static struct trace_document *load_all(const struct arguments *args)
{
	struct trace_document *all = NULL;

	for (size_t i = 0; i < args->file_count; i++) {
		struct trace_document *trace = load_trace(args->files[i]);

		if (trace != NULL && all == NULL) {
			all = trace;
			continue;
		}
		if (trace != NULL && trace_document_merge(all, trace) == TOW_OK) {
			trace_document_release(trace);
			continue;
		}
		if (trace != NULL)
			failed_at(args->files[i]);
		trace_document_release(trace);
		trace_document_release(all);
		return NULL;
	}
	return all;
}

/* Returns the path to write: -o, or the path in --logdir by the host of the first rank. 0 or -1. */
static int output_place(const struct arguments *args, const struct trace_document *trace, char *out,
			size_t out_size)
{
	struct trace_rank_info row;
	time_t now = time(NULL);
	struct tm local;
	char run[64];

	if (args->output != NULL) {
		snprintf(out, out_size, "%s", args->output);
		return strlen(args->output) < out_size ? 0 : -1;
	}
	if (localtime_r(&now, &local) == NULL ||
	    strftime(run, sizeof(run), "%Y_%m_%d_%H_%M_%S", &local) == 0)
		snprintf(run, sizeof(run), "%lld", (long long)now);
	if (trace_document_rank(trace, 0, &row) < 0) {
		failed_at("--logdir");
		return -1;
	}
	return profile_path(args->logdir, args->run != NULL ? args->run : run, row.host, out,
			    out_size);
}

static int write_trace(const struct arguments *args, const struct trace_document *trace)
{
	char path[4096];
	size_t count;
	char *bytes;
	int status;

	if (output_place(args, trace, path, sizeof(path)) != 0)
		return 1;
	if (trace_document_write(trace, args->format, &bytes, &count) < 0)
		return failed_at(path);
	status = write_file(path, bytes, count) != 0;
	free(bytes);
	if (status == 0 && strcmp(path, "-") != 0)
		fprintf(stderr, "towtrace: %s: %zu bytes\n", path, count);
	return status;
}

static void show_rank(const struct trace_rank_info *row, FILE *out)
{
	char job[128], host[128];

	words_clean(job, sizeof(job), row->job);
	words_clean(host, sizeof(host), row->host);
	fprintf(out, "%s rank %lld of %lld on %s: %llu spans in %.3f s", job, (long long)row->rank,
		(long long)row->world, host, (unsigned long long)row->spans,
		(double)row->window_ns / 1e9);
	if (row->unfinished != 0)
		fprintf(out, ", %llu unfinished", (unsigned long long)row->unfinished);
	if (row->lost != 0)
		fprintf(out, ", %llu lost (overwritten: capture fewer seconds)",
			(unsigned long long)row->lost);
	if (row->clock_error_ns == UINT64_MAX)
		fprintf(out, "; its clock is only known as the host's time of day\n");
	else
		fprintf(out, "; clock %+lld ns from rank 0's, within %llu ns\n",
			(long long)row->clock_offset_ns, (unsigned long long)row->clock_error_ns);
}

static void show_trace(const struct trace_document *trace, FILE *out)
{
	struct trace_rank_info row;

	for (size_t i = 0; trace_document_rank(trace, i, &row) == TOW_OK; i++)
		show_rank(&row, out);
}

static int run_capture(struct arguments *args)
{
	struct trace_document *trace;
	size_t missed;
	int status;

	if (args->file_count > SOCKETS_MAX)
		return misuse_of("too many sockets", "");
	for (size_t i = 0; i < args->file_count; i++)
		args->capture.sockets[args->capture.socket_count++] = args->files[i];
	trace = capture(&args->capture, &missed);
	if (trace == NULL)
		return 1;
	show_trace(trace, stderr);
	status = write_trace(args, trace);
	trace_document_release(trace);
	return status != 0 || missed != 0;
}

static int run_files(const struct arguments *args, int shows)
{
	struct trace_document *trace = load_all(args);
	int status = 0;

	if (trace == NULL)
		return 1;
	if (shows)
		show_trace(trace, stdout);
	else
		status = write_trace(args, trace);
	trace_document_release(trace);
	return status;
}

enum {
	OPT_SECONDS = 256,
	OPT_JOB,
	OPT_LOGDIR,
	OPT_RUN,
	OPT_LANE,
	OPT_TYPE,
	OPT_DEVICE,
	OPT_VERSION
};

static int read_seconds(const char *text, long *out)
{
	char *end;

	errno = 0;
	*out = strtol(text, &end, 10);
	return errno != 0 || end == text || *end != '\0' || *out < 0 || *out > SECONDS_MAX ? -1 : 0;
}

/* Returns 0, or the exit status + 1. */
static int read_option(int option, struct arguments *args)
{
	switch (option) {
	case OPT_SECONDS:
		if (read_seconds(optarg, &args->capture.seconds) != 0)
			return misuse_of("--seconds takes a number from 0 to 60", optarg) + 1;
		return 0;
	case OPT_JOB:
		args->capture.job = optarg;
		return 0;
	case OPT_LOGDIR:
		args->logdir = optarg;
		return 0;
	case OPT_RUN:
		args->run = optarg;
		return 0;
	case 'o':
		args->output = optarg;
		return 0;
	case 'f':
		args->format_name = optarg;
		return 0;
	case OPT_LANE:
		args->profile.lane = optarg;
		return 0;
	case OPT_TYPE:
		args->profile.type = optarg;
		return 0;
	case OPT_DEVICE:
		args->profile.device = optarg;
		return 0;
	case 'h':
		fputs(usage, stdout);
		return 1;
	case OPT_VERSION:
		puts("towtrace " TOW_VERSION);
		return 1;
	default:
		return misuse_of("wrong option", "") + 1;
	}
}

static int read_options(int argc, char **argv, struct arguments *args)
{
	static const struct option options[] = {
		{ "seconds", required_argument, NULL, OPT_SECONDS },
		{ "job", required_argument, NULL, OPT_JOB },
		{ "format", required_argument, NULL, 'f' },
		{ "output", required_argument, NULL, 'o' },
		{ "logdir", required_argument, NULL, OPT_LOGDIR },
		{ "run", required_argument, NULL, OPT_RUN },
		{ "lane", required_argument, NULL, OPT_LANE },
		{ "type", required_argument, NULL, OPT_TYPE },
		{ "device", required_argument, NULL, OPT_DEVICE },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, OPT_VERSION },
		{ 0 },
	};
	int option, status = 0;

	while (status == 0 && (option = getopt_long(argc, argv, "f:o:h", options, NULL)) != -1)
		status = read_option(option, args);
	args->files = argv + optind;
	args->file_count = (size_t)(argc - optind);
	return status;
}

/* Reads -f, whose names differ for a profile. Returns 0 or the exit status. */
static int settle_format(struct arguments *args, const char *command)
{
	const char *name = args->format_name;

	if (strcmp(command, "report") == 0)
		args->format = TRACE_HTML;
	if (name == NULL)
		return 0;
	if (strcmp(command, "profile") != 0)
		return trace_format_from_name(name, &args->format) < 0
			       ? misuse_of(tow_error_message(), "")
			       : 0;
	return profile_format_from_name(name, &args->profile.format) != 0
		       ? misuse_of("-f of profile is json, xla-table or xla-costs", name)
		       : 0;
}

static int check_profile(const struct arguments *args)
{
	const struct profile_options *profile = &args->profile;

	if (args->output == NULL || args->logdir != NULL)
		return misuse_of("profile needs --output, and no --logdir", "");
	if (profile->type != NULL && !profile_type_known(profile->type))
		return misuse_of("--type names no type of towline/coll.h", profile->type);
	if ((profile->format == PROFILE_XLA_TABLE) != (profile->device != NULL))
		return misuse_of("-f xla-table needs --device, and nothing else takes it", "");
	if (profile->device != NULL && profile->device[0] == '\0')
		return misuse_of("--device is empty", "");
	return 0;
}

/* Checks the combination of command and options. Returns 0 or the exit status. */
static int check_command(const struct arguments *args, const char *command)
{
	int captures = strcmp(command, "capture") == 0, shows = strcmp(command, "show") == 0;
	const struct profile_options *profile = &args->profile;

	if (!captures && args->file_count == 0)
		return misuse_of("which FILE", command);
	if (strcmp(command, "profile") == 0)
		return check_profile(args);
	if (profile->lane != NULL || profile->type != NULL || profile->device != NULL)
		return misuse_of("--lane, --type and --device are for profile", command);
	if (strcmp(command, "convert") == 0 && args->file_count != 1)
		return misuse_of("convert takes one FILE; merge takes several", "");
	if (shows)
		return 0;
	if ((args->output != NULL) == (args->logdir != NULL))
		return misuse_of("one of --output and --logdir is needed", "");
	if (args->logdir != NULL && args->format != TRACE_XSPACE)
		return misuse_of("--logdir takes the format xspace only", "");
	return 0;
}

static int is_command(const char *name)
{
	static const char *const commands[] = { "capture", "convert", "merge",
						"report",  "show",    "profile" };

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(name, commands[i]) == 0)
			return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	static struct arguments args = { .capture.seconds = 1 };
	const char *command;
	int status = read_options(argc, argv, &args);

	if (status != 0)
		return status - 1;
	if (args.file_count == 0)
		return misuse_of("what to do: capture, convert, merge, report, show or profile",
				 "");
	command = args.files[0];
	args.files++;
	args.file_count--;
	args.profile.output = args.output;
	if (!is_command(command))
		return misuse_of("no such command", command);
	status = settle_format(&args, command);
	if (status == 0)
		status = check_command(&args, command);
	if (status != 0)
		return status;
	if (strcmp(command, "capture") == 0)
		return run_capture(&args);
	if (strcmp(command, "profile") == 0)
		return write_profile(&args.profile, (const char *const *)args.files,
				     args.file_count);
	return run_files(&args, strcmp(command, "show") == 0);
}
