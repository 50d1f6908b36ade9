/*
 * towbpf.c - lets the kernel count for Towline's runtimes. It loads eBPF programs, which the
 * runtimes cannot, and passes them the maps. When the process ends in any way, the kernel removes
 * the programs.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <towline/towline.h>

#include "tools/towbpf/towbpf.h"

#define EXIT_USAGE 2
#define DIRS_MAX   32
#define SCAN_MS    500

static const char usage[] =
	"towbpf - lets the kernel count for the Towline runtimes of this host\n"
	"\n"
	"  towbpf [options]\n"
	"\n"
	"  -d, --dir DIR             where stats sockets are; may be given again. Without: \n"
	"                            $TOW_STATS_DIR or, where it is not set, the default\n"
	"                            directory of this user, /run/towline,\n"
	"                            /run/user/*/towline, /tmp/towline-* and\n"
	"                            /dev/shm/towline-*\n"
	"      --all-users           serves runtimes of all users; without, those of one's own\n"
	"      --seconds N           ends after N seconds; without, when it is interrupted\n"
	"      --registration-time   times registrations with io_uring too. Costs every system\n"
	"                            call of the machine some 60 ns\n"
	"      --check               loads, says what works, and ends\n"
	"  -v, --verbose             what libbpf says\n"
	"  -h, --help                this text\n"
	"      --version             the version\n"
	"\n"
	"Needs CAP_BPF and CAP_PERFMON, or root; with --all-users root. The figures\n"
	"are in /v1/bpf and /metrics of each runtime, until towbpf ends. Status: 0 done, 1\n"
	"nothing can be loaded, 2 wrong usage.\n";

static volatile sig_atomic_t ended;

static void on_signal(int number)
{
	(void)number;
	ended = 1;
}

struct arguments {
	struct load_options options;
	char *dirs[DIRS_MAX];
	int dir_count;
	long seconds; /* -1: until interrupted */
	bool check, all_users;
};

static void add_dir(struct arguments *arguments, const char *dir)
{
	char *copy = arguments->dir_count < DIRS_MAX ? strdup(dir) : NULL;

	if (copy != NULL)
		arguments->dirs[arguments->dir_count++] = copy;
}

static void add_default_dirs(struct arguments *arguments)
{
	const char *from_env = getenv("TOW_STATS_DIR");
	char own[256];

	if (from_env != NULL && from_env[0] != '\0') { /* only the named directory */
		add_dir(arguments, from_env);
		return;
	}
	if (tow_stats_dir(own, sizeof(own)) == TOW_OK)
		add_dir(arguments, own);
	add_dir(arguments, "/run/towline");
	add_dir(arguments, "/run/user/*/towline");
	add_dir(arguments, "/tmp/towline-*");
	add_dir(arguments, "/dev/shm/towline-*");
}

/* Returns -1 to go on, else the exit status. */
static int parse_arguments(int argc, char **argv, struct arguments *out)
{
	static const struct option options[] = {
		{ "dir", required_argument, NULL, 'd' },
		{ "seconds", required_argument, NULL, 's' },
		{ "all-users", no_argument, NULL, 'a' },
		{ "registration-time", no_argument, NULL, 'r' },
		{ "check", no_argument, NULL, 'c' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ 0 },
	};
	char *end;
	int option;

	*out = (struct arguments){ .seconds = -1 };
	while ((option = getopt_long(argc, argv, "d:vh", options, NULL)) != -1) {
		if (option == 'h' || option == 'V') {
			printf("%s%s%s", option == 'h' ? usage : "towbpf ",
			       option == 'h' ? "" : tow_version(), option == 'h' ? "" : "\n");
			return 0;
		}
		if (option == 'd') {
			add_dir(out, optarg);
		} else if (option == 's') {
			out->seconds = strtol(optarg, &end, 10);
			if (end == optarg || *end != '\0' || out->seconds < 0 ||
			    out->seconds > 1000000) {
				fprintf(stderr, "towbpf: --seconds: '%s' is no number of seconds\n",
					optarg);
				return EXIT_USAGE;
			}
		} else if (option == 'r' || option == 'c' || option == 'v' || option == 'a') {
			out->all_users |= option == 'a';
			out->options.registration_time |= option == 'r';
			out->check |= option == 'c';
			out->options.verbose |= option == 'v';
		} else {
			return EXIT_USAGE;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "towbpf: it takes options only, not '%s'; see towbpf --help\n",
			argv[optind]);
		return EXIT_USAGE;
	}
	if (out->dir_count == 0)
		add_default_dirs(out);
	return -1;
}

static int check_load(const struct load_options *options)
{
	struct loaded loaded;
	int status = load(geteuid(), options, &loaded);

	if (status == 0)
		printf("towbpf: works%s%s\n", loaded.why[0] != '\0' ? ", but not all of it: " : "",
		       loaded.why);
	else
		printf("towbpf: off: %s\n", loaded.why);
	unload(&loaded);
	return status == 0 ? 0 : 1;
}

static int serve_ranks(struct arguments *arguments)
{
	static struct ranks ranks;
	uint64_t end_ms = now_ms() + (uint64_t)arguments->seconds * 1000;
	bool works;
	int own;

	ranks.options = arguments->options;
	ranks.all_users = arguments->all_users;
	/*
	 * Loads at once, so that the user sees a failure now. After a failure, one round informs
	 * the runtimes.
	 */
	own = ranks_user(&ranks, geteuid());
	works = own >= 0 && ranks.users[own]->skeleton != NULL;
	while (!ended && (arguments->seconds < 0 || now_ms() < end_ms)) {
		uint64_t now = now_ms(), scan_ms = now + SCAN_MS;

		ranks_scan(&ranks, arguments->dirs, arguments->dir_count);
		for (; !ended && now < scan_ms; now = now_ms())
			ranks_wait(&ranks, (int)(scan_ms - now));
		if (!works)
			break;
	}
	ranks_fini(&ranks);
	return works ? 0 : 1;
}

int main(int argc, char **argv)
{
	struct arguments arguments;
	int status = parse_arguments(argc, argv, &arguments);

	if (status < 0) {
		const struct sigaction action = { .sa_handler = on_signal };

		sigaction(SIGINT, &action, NULL);
		sigaction(SIGTERM, &action, NULL);
		status = arguments.check ? check_load(&arguments.options) : serve_ranks(&arguments);
	}
	for (int i = 0; i < arguments.dir_count; i++)
		free(arguments.dirs[i]);
	return status;
}
