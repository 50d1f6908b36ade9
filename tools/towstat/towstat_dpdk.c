/*
 * towstat_dpdk.c - serves runtimes of this host to tools that speak DPDK's telemetry.
 *
 * One thread and one poll serve all bridges (dpdk_bridge.h), until a signal comes or every runtime
 * has ended.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "tools/towstat/dpdk_bridge.h"
#include "tools/towstat/towstat.h"

#define BRIDGES_MAX 64

static const char usage[] =
	"towstat dpdk - runtimes of this host, for tools that speak DPDK's telemetry\n"
	"\n"
	"  towstat dpdk [OPTION...] [NAME]\n"
	"\n"
	"NAME is a runtime (job.rank) or a job; without it the only job here is meant. Each "
	"runtime\n"
	"gets the socket DIR/dpdk/PREFIX/dpdk_telemetry.v2, where dpdk-telemetry.py -f PREFIX "
	"looks.\n"
	"Serves until SIGINT, SIGTERM or SIGHUP, or until the last of them has ended.\n"
	"\n"
	"  -s, --socket PATH      the runtime's stats socket, instead of NAME\n"
	"  -f, --file-prefix PREFIX\n"
	"                         for all of them, the second with :1 behind its name and so on\n"
	"                         (dpdk-telemetry.py -i 1); without: the runtime's name. Clients\n"
	"                         that are told none look for rte\n"
	"      --dir DIR          where those clients look: unless said $RUNTIME_DIRECTORY, else\n"
	"                         /var/run for root, else $XDG_RUNTIME_DIR, else /tmp\n"
	"      --timeout S        how long a runtime may take to answer, from 0.1 to 30 (default "
	"2)\n"
	"      --all-users        also runtimes of other users\n"
	"  -h, --help             this text\n"
	"\n"
	"/towline/NAME is the document /v1/NAME (towstat get /v1), flattened and in pages. Clients "
	"are\n"
	"of this user or root, 10 for each runtime. Status: 0 done, 1 failed, 2 wrong usage.\n";

struct dpdk {
	const char *socket_path, *name, *dir, *prefix;
	double timeout_s;
	size_t count;
	struct dpdk_bridge *bridges;
	struct pollfd *polled; /* one for the signals, then DPDK_POLLED for each bridge */
};

static void say_end(const struct dpdk_bridge *bridge)
{
	printf("towstat: %s: %llu replies; clients refused %llu, hung up on for not reading %llu\n",
	       bridge->runtime.name, bridge->replies, bridge->refused, bridge->dropped);
	fflush(stdout);
}

static int open_one(struct dpdk *dpdk, const struct runtime_entry *runtime)
{
	struct dpdk_bridge *bridge = &dpdk->bridges[dpdk->count];
	char error[512];

	bridge->timeout_ms = (long long)(dpdk->timeout_s * 1e3);
	if (bridge_open(bridge, runtime, dpdk->dir,
			dpdk->prefix != NULL ? dpdk->prefix : runtime->name, error,
			sizeof(error)) != 0) {
		fprintf(stderr, "towstat: %s\n", error);
		return -1;
	}
	/* The bridge that closes last removes the folder that the first one made. */
	if (dpdk->prefix != NULL)
		bridge->listener.made |= dpdk->bridges[0].listener.made;
	dpdk->count++;
	printf("towstat: %s is served at %s\n", runtime->name, bridge->listener.path);
	return 0;
}

static int open_all(struct dpdk *dpdk)
{
	struct runtime_list targets;
	int status = 0;

	if (find_targets(dpdk->socket_path, dpdk->name, &targets) != 0)
		return -1;
	if (targets.count > BRIDGES_MAX) {
		fprintf(stderr,
			"towstat: %zu runtimes are more than the %d that one bridge serves; "
			"name one of them\n",
			targets.count, BRIDGES_MAX);
		status = -1;
	}
	dpdk->bridges = calloc(targets.count, sizeof(*dpdk->bridges));
	dpdk->polled = calloc(1 + targets.count * DPDK_POLLED, sizeof(*dpdk->polled));
	if (dpdk->bridges == NULL || dpdk->polled == NULL)
		status = -1;
	for (size_t i = 0; i < targets.count && status == 0; i++)
		status = open_one(dpdk, &targets.rows[i]);
	runtime_list_fini(&targets);
	fflush(stdout);
	return status;
}

/* Closes the bridges whose runtime has ended. The others move up. */
static void drop_gone(struct dpdk *dpdk)
{
	size_t kept = 0;

	for (size_t i = 0; i < dpdk->count; i++) {
		if (dpdk->bridges[i].gone) {
			printf("towstat: %s has ended\n", dpdk->bridges[i].runtime.name);
			bridge_close(&dpdk->bridges[i]);
			say_end(&dpdk->bridges[i]);
		} else if (kept++ < i) {
			dpdk->bridges[kept - 1] = dpdk->bridges[i];
		}
	}
	dpdk->count = kept;
}

static int serve_bridges(struct dpdk *dpdk, int signals)
{
	while (dpdk->count > 0) {
		int timeout_ms = DPDK_LOOK_MS;

		dpdk->polled[0] = (struct pollfd){ signals, POLLIN, 0 };
		for (size_t i = 0; i < dpdk->count; i++)
			bridge_poll(&dpdk->bridges[i], dpdk->polled + 1 + i * DPDK_POLLED,
				    &timeout_ms);
		if (poll(dpdk->polled, 1 + dpdk->count * DPDK_POLLED, timeout_ms) < 0) {
			if (errno == EINTR)
				continue;
			fprintf(stderr, "towstat: poll: %s\n", strerror(errno));
			return 1;
		}
		if (dpdk->polled[0].revents != 0)
			return 0;
		for (size_t i = 0; i < dpdk->count; i++)
			bridge_turn(&dpdk->bridges[i], dpdk->polled + 1 + i * DPDK_POLLED);
		drop_gone(dpdk);
	}
	return 0;
}

static int run_bridges(struct dpdk *dpdk)
{
	sigset_t ends;
	int signals, status;

	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGHUP);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	signals = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals < 0) {
		fprintf(stderr, "towstat: signalfd: %s\n", strerror(errno));
		return 1;
	}
	status = open_all(dpdk) != 0 ? 1 : serve_bridges(dpdk, signals);
	for (size_t i = 0; i < dpdk->count; i++) {
		bridge_close(&dpdk->bridges[i]);
		say_end(&dpdk->bridges[i]);
	}
	close(signals);
	free(dpdk->bridges);
	free(dpdk->polled);
	return status;
}

enum { OPT_DIR = 256, OPT_TIMEOUT };

/* Returns 0, or the exit status. */
static int take_option(struct dpdk *dpdk, int option)
{
	switch (option) {
	case 's':
		dpdk->socket_path = optarg;
		return 0;
	case 'f':
		dpdk->prefix = optarg;
		return 0;
	case OPT_DIR:
		dpdk->dir = optarg;
		return 0;
	case OPT_TIMEOUT:
		if (read_seconds(optarg, 0.1, 30, &dpdk->timeout_s) != 0)
			return misuse("--timeout is from 0.1 to 30 seconds", optarg);
		return 0;
	default:
		return misuse("dpdk: wrong option", "");
	}
}

int run_dpdk(int argc, char **argv)
{
	static const struct option options[] = {
		{ "socket", required_argument, NULL, 's' },
		{ "file-prefix", required_argument, NULL, 'f' },
		{ "dir", required_argument, NULL, OPT_DIR },
		{ "timeout", required_argument, NULL, OPT_TIMEOUT },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct dpdk dpdk = { .dir = dpdk_default_dir(), .timeout_s = 2 };
	int option, status;

	while ((option = getopt_long(argc, argv, "s:f:h", options, NULL)) != -1) {
		if (option == 'h') {
			fputs(usage, stdout);
			return 0;
		}
		status = take_option(&dpdk, option);
		if (status != 0)
			return status;
	}
	if (argc - optind > 1)
		return misuse("dpdk takes one name", argv[optind + 1]);
	dpdk.name = optind < argc ? argv[optind] : NULL;
	if (dpdk.name != NULL && dpdk.socket_path != NULL)
		return misuse("--socket takes no name beside it", dpdk.name);
	if (dpdk.dir[0] != '/')
		return misuse("--dir is an absolute path", dpdk.dir);
	return run_bridges(&dpdk);
}
