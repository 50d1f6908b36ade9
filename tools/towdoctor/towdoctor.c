/*
 * towdoctor.c - the program: selects checks, prints the report, and sets the exit status.
 *
 * It is an ordinary user of libtowline. It only reads, and writes no files.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <towline/towline.h>

#include "tools/common/words.h"
#include "tools/towdoctor/towdoctor.h"

#define EXIT_USAGE 2
#define EXIT_ERROR 3

struct check {
	const char *name, *title;
	void (*run)(struct doctor *doctor, struct finding *out);
};

static const struct check checks[] = {
#define DOCTOR_ROW(name, title) { #name, title, check_##name },
	DOCTOR_CHECKS(DOCTOR_ROW)
#undef DOCTOR_ROW
};
#define CHECK_COUNT (sizeof(checks) / sizeof(checks[0]))

struct arguments {
	const char *root, *peer, *judge;
	const char *which; /* argument of --pid */
	bool serve, once, json, list, all, no_probe;
	long seconds; /* 0: not given */
	long pid;     /* 0: not given */
	bool only[CHECK_COUNT], some;
	int argc;
	char **argv;
};

static const char usage[] =
	"towdoctor - what on this host keeps Towline from being fast, what it costs, what mends "
	"it\n"
	"\n"
	"  towdoctor                      all checks; measures for about 3 s, changes nothing\n"
	"  towdoctor --list               their names\n"
	"  towdoctor --only NAME[,NAME]   these alone\n"
	"  towdoctor --serve [PORT]       the other end of a measurement (port 7117)\n"
	"  towdoctor --peer HOST[:PORT]   measures the path to one that serves: about 3 s\n"
	"\n"
	"  -a, --all          in full what is as wanted, too\n"
	"      --json         as JSON; of --peer with all that was measured\n"
	"      --no-probe     reads files alone: opens no runtime, measures nothing\n"
	"      --root DIR     looks at the files of another host that lie there\n"
	"      --pid PID      limits, control groups and CPUs of that process, instead of its own\n"
	"      --seconds N    serve: ends after N s without a peer (default 600); peer: how long\n"
	"                     each direction is measured (default 1)\n"
	"      --once         serve: ends when the first peer has gone\n"
	"      --judge FILE   what limits a path that --peer --json has measured\n"
	"  -h, --help         this text\n"
	"      --version      the version\n"
	"\n"
	"The knobs of the job (TOW_PREMAP_MEMORY_BYTES, TOW_INTERFACES, TOW_JOB_KEY_FILE, ...) "
	"count\n"
	"here as they do there. Status: 0 all is well, or notes alone; 1 warnings; 2 wrong\n"
	"usage; 3 errors.\n";

static int misuse_of(const char *what, const char *which)
{
	fprintf(stderr, "towdoctor: %s%s%s; see towdoctor --help\n", what,
		which[0] != '\0' ? ": " : "", which);
	return EXIT_USAGE;
}

/* Files and peers may be of any user, so control characters are not printed. */
static void print_field(const char *label, const char *value)
{
	if (value[0] == '\0')
		return;
	printf("    %-7s ", label);
	print_clean(value);
	putchar('\n');
}

static void print_finding(const char *name, const char *title, const struct finding *finding)
{
	printf("%s: %s: %s\n", severity_name(finding->severity), name, title);
	print_field("found", finding->found);
	print_field("wanted", finding->wanted);
	print_field("costs", finding->effect);
	print_field("mend", finding->mend);
}

static json_t *finding_json(const char *name, const char *title, const struct finding *finding)
{
	return json_pack("{s:s,s:s,s:s,s:o,s:o,s:o,s:o}", "name", name, "title", title, "severity",
			 severity_name(finding->severity), "found", json_text(finding->found),
			 "wanted", json_text(finding->wanted), "effect", json_text(finding->effect),
			 "mend", json_text(finding->mend));
}

static enum severity worst_of(const struct finding *findings, const bool *looked, size_t count)
{
	enum severity worst = SEVERITY_OK;

	for (size_t i = 0; i < count; i++) {
		if (looked[i] && findings[i].severity > worst)
			worst = findings[i].severity;
	}
	return worst;
}

static int status_of(enum severity worst)
{
	return worst == SEVERITY_ERROR ? EXIT_ERROR : worst == SEVERITY_WARNING;
}

static void report_text(const struct arguments *arguments, const struct finding *findings)
{
	size_t counts[SEVERITY_COUNT] = { 0 };
	const char *separator = "";

	/* The worst findings come last, where a terminal shows them. */
	for (int severity = arguments->all ? SEVERITY_OK : SEVERITY_NOTE; severity < SEVERITY_COUNT;
	     severity++) {
		for (size_t i = 0; i < CHECK_COUNT; i++) {
			if (arguments->only[i] && (int)findings[i].severity == severity)
				print_finding(checks[i].name, checks[i].title, &findings[i]);
		}
	}
	for (size_t i = 0; i < CHECK_COUNT; i++) {
		if (arguments->only[i])
			counts[findings[i].severity]++;
	}
	for (int severity = SEVERITY_ERROR; severity >= SEVERITY_OK; severity--) {
		printf("%s%zu %s", separator, counts[severity],
		       severity_name((enum severity)severity));
		separator = ", ";
	}
	putchar('\n');
}

static void report_json(const struct arguments *arguments, const struct finding *findings,
			enum severity worst)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < CHECK_COUNT; i++) {
		if (arguments->only[i])
			json_array_append_new(
				rows, finding_json(checks[i].name, checks[i].title, &findings[i]));
	}
	print_json(json_pack("{s:s,s:s,s:o}", "version", tow_version(), "worst",
			     severity_name(worst), "checks", rows));
}

static int run_checks(const struct arguments *arguments)
{
	static struct finding findings[CHECK_COUNT];
	struct doctor doctor = { .root = arguments->root != NULL ? arguments->root : "",
				 .live = arguments->root == NULL,
				 .probe = !arguments->no_probe,
				 .pid = arguments->pid };
	enum severity worst;

	if (doctor.pid > 0 && !root_exists(&doctor, "/proc/self/status"))
		return misuse_of("--pid: no process of that number can be seen", arguments->which);

	doctor.pool_bytes = job_pool_bytes();
	for (size_t i = 0; i < CHECK_COUNT; i++) {
		if (arguments->only[i])
			checks[i].run(&doctor, &findings[i]);
	}
	worst = worst_of(findings, arguments->only, CHECK_COUNT);
	if (arguments->json)
		report_json(arguments, findings, worst);
	else
		report_text(arguments, findings);
	return status_of(worst);
}

static int list_checks(const struct arguments *arguments)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < CHECK_COUNT; i++) {
		if (arguments->json)
			json_array_append_new(rows, json_pack("{s:s,s:s}", "name", checks[i].name,
							      "title", checks[i].title));
		else
			printf("%-16s %s\n", checks[i].name, checks[i].title);
	}
	if (arguments->json)
		print_json(rows);
	else
		json_decref(rows);
	return 0;
}

/* Prints the latency and the one-way times of a measurement. */
static void print_times(json_t *measured)
{
	json_t *latency = json_object_get(measured, "latency_ns");
	json_t *one_way = json_object_get(measured, "one_way_ns");
	char p50[WORDS_BYTES], p99[WORDS_BYTES], error[WORDS_BYTES], there[WORDS_BYTES];
	json_int_t there_ns = json_integer_value(json_object_get(one_way, "there"));

	words_ns((unsigned long long)json_integer_value(json_object_get(latency, "p50")), p50);
	words_ns((unsigned long long)json_integer_value(json_object_get(latency, "p99")), p99);
	printf("a call and its answer: %s (p50), %s (p99)", p50, p99);
	if (json_is_object(one_way)) {
		json_int_t error_ns = json_integer_value(json_object_get(one_way, "error"));

		words_ns((unsigned long long)error_ns, error);
		words_ns((unsigned long long)(there_ns > 0 ? there_ns : 0), there);
		if (error_ns * 4 <= json_integer_value(json_object_get(latency, "p50")))
			printf("; the way there alone %s, within %s", there, error);
		else
			printf("; one way is not known: the clocks agree within %s", error);
	}
	putchar('\n');
}

static int report_path(const struct arguments *arguments, json_t *measured)
{
	static const char *const names[DIRECTIONS] = { "there", "back" };
	static const char *const titles[DIRECTIONS] = { "large messages to the peer",
							"large messages from the peer" };
	static const bool looked[DIRECTIONS] = { true, true };
	struct finding findings[DIRECTIONS];
	json_t *rows = json_array();
	enum severity worst;

	judge_path(measured, findings);
	worst = worst_of(findings, looked, DIRECTIONS);
	for (int i = 0; i < DIRECTIONS; i++)
		json_array_append_new(rows, finding_json(names[i], titles[i], &findings[i]));
	if (arguments->json) {
		print_json(json_pack("{s:s,s:s,s:o,s:O}", "version", tow_version(), "worst",
				     severity_name(worst), "checks", rows, "measured", measured));
	} else {
		print_times(measured);
		for (int i = 0; i < DIRECTIONS; i++)
			print_finding(names[i], titles[i], &findings[i]);
		json_decref(rows);
	}
	json_decref(measured);
	return status_of(worst);
}

#define DEFAULT_PORT "7117"

/* HOST, HOST:PORT, [V6], [V6]:PORT, or an address of any lane. */
static void full_address(const char *text, char out[TOW_ADDRESS_MAX])
{
	const char *colon = strrchr(text, ':'), *bracket = strrchr(text, ']');
	bool has_port = colon != NULL && (bracket == NULL || colon > bracket);

	if (strstr(text, "://") != NULL)
		say(out, TOW_ADDRESS_MAX, "%s", text);
	else
		say(out, TOW_ADDRESS_MAX, "tcp://%s%s", text, has_port ? "" : ":" DEFAULT_PORT);
}

static int run_peer(const struct arguments *arguments)
{
	const unsigned seconds = arguments->seconds == 0 ? 1 : (unsigned)arguments->seconds;
	char address[TOW_ADDRESS_MAX], error[512], clean[512];
	json_t *measured;

	if (seconds > 60)
		return misuse_of("--peer measures each direction for 60 s at most", "");

	full_address(arguments->peer, address);
	measured = measure(&(struct measure_options){ .address = address,
						      .latency_ms = 500,
						      .phase_ms = seconds * 1000,
						      .patience_ms = 5000 },
			   error, sizeof(error));
	if (measured == NULL) {
		words_clean(clean, sizeof(clean), error); /* may have text of the peer */
		fprintf(stderr, "towdoctor: %s\n", clean);
		return EXIT_ERROR;
	}
	return report_path(arguments, measured);
}

static int run_serve(const struct arguments *arguments)
{
	const char *port = arguments->argc > 0 ? arguments->argv[0] : DEFAULT_PORT;
	const unsigned seconds = arguments->seconds == 0 ? 600 : (unsigned)arguments->seconds;
	struct serve_options options = { .idle_ms = seconds * 1000u,
					 .once = arguments->once,
					 .announce_fd = STDOUT_FILENO };
	char address[TOW_ADDRESS_MAX], *end;
	long number = strtol(port, &end, 10);

	if (strstr(port, "://") != NULL) {
		say(address, sizeof(address), "%s", port);
	} else {
		if (*end != '\0' || end == port || number < 0 || number > 65535)
			return misuse_of("--serve takes a port", port);
		say(address, sizeof(address), "tcp://%s:%ld",
		    access("/proc/net/if_inet6", F_OK) == 0 ? "[::]" : "0.0.0.0", number);
	}
	if (getenv("TOW_JOB_KEY") == NULL && getenv("TOW_JOB_KEY_FILE") == NULL)
		fprintf(stderr, "towdoctor: no job key is set: any host that reaches this port "
				"can measure\n");
	options.address = address;
	return serve(&options);
}

/* Judges a stored measurement: the whole output of --json, or its "measured" alone. */
static int run_judge(const struct arguments *arguments)
{
	json_error_t error;
	json_t *document = json_load_file(arguments->judge, 0, &error), *measured;
	char why[JSON_ERROR_TEXT_LENGTH];

	if (document == NULL) {
		words_clean(why, sizeof(why), error.text); /* has text of the file */
		fprintf(stderr, "towdoctor: %s: line %d: %s\n", arguments->judge, error.line, why);
		return EXIT_USAGE;
	}
	measured = json_object_get(document, "measured");
	measured = json_incref(json_is_object(measured) ? measured : document);
	json_decref(document);
	if (!json_is_object(json_object_get(measured, "ends"))) {
		fprintf(stderr, "towdoctor: %s: no measurement of --peer --json\n",
			arguments->judge);
		json_decref(measured);
		return EXIT_USAGE;
	}
	return report_path(arguments, measured);
}

static int read_only(struct arguments *out, const char *names)
{
	char word[64];

	while (*names != '\0') {
		size_t bytes = strcspn(names, ","), i;

		say(word, sizeof(word), "%.*s", (int)(bytes < 63 ? bytes : 63), names);
		for (i = 0; i < CHECK_COUNT && strcmp(checks[i].name, word) != 0; i++)
			;
		if (i == CHECK_COUNT)
			return misuse_of("--only: no such check, see --list", word);
		out->only[i] = out->some = true;
		names += bytes + (names[bytes] == ',');
	}
	return -1;
}

enum {
	OPT_JSON = 256,
	OPT_ONCE,
	OPT_LIST,
	OPT_ONLY,
	OPT_ROOT,
	OPT_PID,
	OPT_PEER,
	OPT_SERVE,
	OPT_SECONDS,
	OPT_JUDGE,
	OPT_NO_PROBE,
	OPT_VERSION
};

static const struct option long_options[] = {
	{ "all", no_argument, NULL, 'a' },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "list", no_argument, NULL, OPT_LIST },
	{ "once", no_argument, NULL, OPT_ONCE },
	{ "only", required_argument, NULL, OPT_ONLY },
	{ "root", required_argument, NULL, OPT_ROOT },
	{ "pid", required_argument, NULL, OPT_PID },
	{ "peer", required_argument, NULL, OPT_PEER },
	{ "serve", no_argument, NULL, OPT_SERVE },
	{ "seconds", required_argument, NULL, OPT_SECONDS },
	{ "judge", required_argument, NULL, OPT_JUDGE },
	{ "no-probe", no_argument, NULL, OPT_NO_PROBE },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

/* Reads a number from 1 to `most`. Returns -1 for anything else. */
static int read_number(const char *text, long most, long *out)
{
	char *end;

	errno = 0;
	*out = strtol(text, &end, 10);
	return errno != 0 || *end != '\0' || end == text || *out < 1 || *out > most ? -1 : 0;
}

/* Returns -1 to go on, else the exit status. */
static int read_option(struct arguments *out, int option)
{
	switch (option) {
	case 'a':
		out->all = true;
		break;
	case OPT_JSON:
		out->json = true;
		break;
	case OPT_ONCE:
		out->once = true;
		break;
	case OPT_LIST:
		out->list = true;
		break;
	case OPT_ONLY:
		return read_only(out, optarg);
	case OPT_ROOT:
		out->root = optarg;
		break;
	case OPT_PID:
		out->which = optarg;
		return read_number(optarg, INT_MAX, &out->pid) == 0
			       ? -1
			       : misuse_of("--pid is the number of a process", optarg);
	case OPT_PEER:
		out->peer = optarg;
		break;
	case OPT_SERVE:
		out->serve = true;
		break;
	case OPT_SECONDS:
		if (read_number(optarg, 86400, &out->seconds) != 0)
			return misuse_of("--seconds is a number from 1 to 86400", optarg);
		break;
	case OPT_JUDGE:
		out->judge = optarg;
		break;
	case OPT_NO_PROBE:
		out->no_probe = true;
		break;
	case OPT_VERSION:
		printf("towdoctor %s\n", tow_version());
		return 0;
	case 'h':
		fputs(usage, stdout);
		return 0;
	default:
		return misuse_of("wrong option", "");
	}
	return -1;
}

static int run_command(struct arguments *arguments)
{
	if ((arguments->peer != NULL) + arguments->serve + arguments->list +
		    (arguments->judge != NULL) >
	    1)
		return misuse_of("one of --peer, --serve, --list and --judge", "");
	if (arguments->argc > (arguments->serve ? 1 : 0))
		return misuse_of("no such argument", arguments->argv[arguments->argc - 1]);
	if (arguments->root != NULL && access(arguments->root, R_OK | X_OK) != 0)
		return misuse_of("--root: no folder that can be read", arguments->root);
	if (arguments->list)
		return list_checks(arguments);
	if (arguments->peer != NULL)
		return run_peer(arguments);
	if (arguments->serve)
		return run_serve(arguments);
	if (arguments->judge != NULL)
		return run_judge(arguments);
	for (size_t i = 0; i < CHECK_COUNT && !arguments->some; i++)
		arguments->only[i] = true;
	return run_checks(arguments);
}

int main(int argc, char **argv)
{
	struct arguments arguments = { .seconds = 0 };
	int option, status = -1;

	while (status < 0 && (option = getopt_long(argc, argv, "ah", long_options, NULL)) != -1)
		status = read_option(&arguments, option);
	if (status >= 0)
		return status;
	arguments.argc = argc - optind;
	arguments.argv = argv + optind;
	status = run_command(&arguments);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		fprintf(stderr, "towdoctor: cannot write: %s\n", strerror(errno));
		return EXIT_ERROR;
	}
	return status;
}
