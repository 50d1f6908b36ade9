/*
 * towstat_ras.c - serves the groups of a job on the port of NCCL's RAS, for tools that watch it.
 *
 * One thread and one poll serve the clients (ras_server.h) and the ask for a verdict
 * (ras_gather.h). A report waits for the ranks, at most for the shorter of --timeout and the
 * client's timeout. Reports within LOOK_S of each other share one look.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tools/towstat/ras_gather.h"
#include "tools/towstat/ras_server.h"
#include "tools/towstat/towstat.h"

#define LOOK_S    0.2 /* how long the result of a look is used */
#define WATCH_S   1.0 /* between two looks, while a client monitors */
#define LIVING_S  5.0 /* between two while none does: whether the job lives */
#define POLL_MS   200
#define TEXT_ROOM 512

static const char usage[] =
	"towstat ras - a job's groups, as NCCL's RAS shows communicators\n"
	"\n"
	"  towstat ras [OPTION...] [JOB]\n"
	"\n"
	"Answers on the port of NCCL's RAS to what watches that: ncclras, Ray Train, SGLang, or\n"
	"echo verbose status | nc localhost 28028. Groups appear as communicators, with their\n"
	"ranks, which of them do not answer, and how many collectives each has begun. Without JOB\n"
	"the only job here is meant. Serves until SIGINT, SIGTERM or SIGHUP, or until all of its\n"
	"ranks on this host have ended.\n"
	"\n"
	"  -p, --port N        the port: 28028 unless said; 0: any\n"
	"  -l, --listen ADDR   the address: 127.0.0.1 unless said. Nothing is authenticated:\n"
	"                      whoever reaches it can read\n"
	"      --host NAME     what this host is called in reports: its address unless said\n"
	"      --timeout S     the longest that a rank may take to answer, from 0.1 to 30\n"
	"                      (default 0.7: watchers wait for a second)\n"
	"      --all-users     also ranks of other users\n"
	"  -h, --help          this text\n"
	"\n"
	"Commands: client protocol N, timeout SECONDS, set format text|json, status, verbose "
	"status,\n"
	"monitor [lifecycle,trace,all]. 16 clients. Status: 0 done, 1 failed, 2 wrong usage.\n";

struct ras {
	const char *job, *address, *host;
	long port;
	double timeout_s;
	struct ras_gather gather;
	struct ras_server server;
	struct ras_report report;
	bool reported;
	double looked_s;
};

/* --- reports --- */

/* Looks at the ranks, unless the last look is recent. -1: no memory. */
static int look_again(struct ras *ras, long long timeout_ms)
{
	struct ras_report report;

	if (ras->reported && http_now_s() - ras->looked_s < LOOK_S)
		return 0;
	if (ras_gather_look(&ras->gather, timeout_ms, &report) != 0)
		return -1;
	if (ras->reported)
		ras_report_fini(&ras->report);
	ras->report = report;
	ras->reported = true;
	ras->looked_s = http_now_s();
	return 0;
}

static long long timeout_of(const struct ras *ras, const struct ras_session *session)
{
	long long most_ms = (long long)(ras->timeout_s * 1e3);
	long long said_ms = session != NULL ? session->timeout_s * 1000LL : 0;

	return said_ms > 0 && said_ms < most_ms ? said_ms : most_ms;
}

static char *make_report(void *arg, const struct ras_session *session)
{
	struct ras *ras = arg;

	if (look_again(ras, timeout_of(ras, session)) != 0)
		return NULL;
	return session->json ? ras_print_json(&ras->report)
			     : ras_print_text(&ras->report, session->verbose);
}

/* --- events --- */

static void time_text(char *out, size_t room)
{
	time_t now = time(NULL);
	struct tm local;

	if (localtime_r(&now, &local) == NULL || strftime(out, room, "%F %T", &local) == 0)
		out[0] = '\0';
}

static void tell_change(void *arg, const struct ras_peer *peer, enum ras_peer_state before)
{
	struct ras *ras = arg;
	unsigned events = RAS_LIFECYCLE;
	const char *name = "PEER_NEW";
	char text[TEXT_ROOM], json[TEXT_ROOM * 2], now[64];

	if (peer->state == RAS_PEER_DEAD)
		name = "PEER_DEAD";
	else if (peer->state == RAS_PEER_SLOW || before == RAS_PEER_SLOW)
		events = RAS_TRACE;
	if (events == RAS_TRACE)
		name = peer->state == RAS_PEER_SLOW ? "PEER_UNRESPONSIVE" : "PEER_RECOVERED";
	time_text(now, sizeof(now));
	snprintf(text, sizeof(text), "[%s] %s: rank %lld, process %ld on %s\n", now, name,
		 peer->rank, peer->pid, ras->gather.host);
	snprintf(json, sizeof(json),
		 "{\n  \"timestamp\": \"%s\",\n  \"group\": \"%s\",\n  \"event\": \"%s\",\n"
		 "  \"peer\": {\n    \"host\": \"%s\",\n    \"pid\": %ld,\n"
		 "    \"cuda_devs\": [],\n    \"nvml_devs\": []\n  },\n"
		 "  \"details\": \"rank %lld\"\n}\n",
		 now, events == RAS_LIFECYCLE ? "LIFECYCLE" : "TRACE", name, ras->gather.host,
		 peer->pid, peer->rank);
	ras_server_tell(&ras->server, events, text, json);
}

/* --- the port --- */

static int listen_port(const struct ras *ras)
{
	const struct addrinfo hints = { .ai_family = AF_UNSPEC,
					.ai_socktype = SOCK_STREAM,
					.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV };
	struct addrinfo *found = NULL;
	int fd, on = 1, err = EINVAL;
	char port[16];

	snprintf(port, sizeof(port), "%ld", ras->port);
	if (getaddrinfo(ras->address, port, &hints, &found) != 0) {
		errno = EINVAL;
		return -1;
	}
	fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		err = errno;
	else
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (fd >= 0 &&
	    (bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, RAS_CLIENTS) != 0)) {
		err = errno;
		close(fd);
		fd = -1;
	}
	freeaddrinfo(found);
	errno = err;
	return fd;
}

static void print_port(const struct ras *ras)
{
	struct sockaddr_storage address;
	socklen_t bytes = sizeof(address);
	char port[16] = "?";

	if (getsockname(ras->server.fd, (struct sockaddr *)&address, &bytes) == 0)
		getnameinfo((struct sockaddr *)&address, bytes, NULL, 0, port, sizeof(port),
			    NI_NUMERICSERV);
	printf("towstat: speaks RAS for %s at %s, port %s; in reports this host is %s\n",
	       ras->gather.job, ras->address, port, ras->gather.host);
	fflush(stdout);
}

/*
 * The address of this host that others see: that of the route to other networks. connect() on UDP
 * sends no packet. The remote address is one of those that no host has (RFC 5737).
 */
static void name_host(char *out, size_t room)
{
	struct sockaddr_in far = { .sin_family = AF_INET, .sin_port = htons(9) }, own;
	socklen_t bytes = sizeof(own);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	snprintf(out, room, "127.0.0.1");
	inet_pton(AF_INET, "192.0.2.1", &far.sin_addr);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&far, sizeof(far)) == 0 &&
	    getsockname(fd, (struct sockaddr *)&own, &bytes) == 0)
		inet_ntop(AF_INET, &own.sin_addr, out, (socklen_t)room);
	if (fd >= 0)
		close(fd);
}

/* --- serving --- */

/* Whether it is time for a look that no client has asked for. */
static bool is_due(const struct ras *ras)
{
	double age_s = http_now_s() - ras->looked_s;

	return !ras->reported || age_s >= (ras_server_watched(&ras->server) ? WATCH_S : LIVING_S);
}

static int serve_clients(struct ras *ras, int signals)
{
	struct pollfd polled[RAS_CLIENTS + 3];

	for (;;) {
		polled[0] = (struct pollfd){ signals, POLLIN, 0 };
		ras_gather_polls(&ras->gather, &polled[1]);
		ras_server_polls(&ras->server, &polled[2]);
		if (poll(polled, RAS_CLIENTS + 3, POLL_MS) < 0 && errno != EINTR)
			return 1;
		if (polled[0].revents != 0)
			return 0;
		ras_gather_turn(&ras->gather);
		ras_server_turn(&ras->server, &polled[2], http_now_s());
		if (is_due(ras) && look_again(ras, timeout_of(ras, NULL)) != 0)
			return 1;
		if (ras->reported && ras->gather.living == 0) {
			ras_server_flush(&ras->server);
			printf("towstat: all ranks of %s have ended\n", ras->gather.job);
			return 0;
		}
	}
}

static int open_ras(struct ras *ras)
{
	struct runtime_list targets;
	int fd, status;

	if (find_targets(NULL, ras->job, &targets) != 0)
		return -1;
	status = ras_gather_open(&ras->gather, &targets,
				 ras->job != NULL && strchr(ras->job, '@') != NULL);
	runtime_list_fini(&targets);
	if (status != 0)
		return -1;
	if (ras->host != NULL)
		snprintf(ras->gather.host, sizeof(ras->gather.host), "%s", ras->host);
	else
		name_host(ras->gather.host, sizeof(ras->gather.host));
	ras->gather.changed = tell_change;
	ras->gather.arg = ras;
	fd = listen_port(ras);
	if (fd < 0) {
		fprintf(stderr, "towstat: cannot listen at %s, port %ld: %s\n", ras->address,
			ras->port,
			errno == EINVAL ? "this is not a numeric address" : strerror(errno));
		return -1;
	}
	ras->server.report = make_report;
	ras->server.arg = ras;
	ras_server_init(&ras->server, fd);
	print_port(ras);
	return 0;
}

static int run_ras_server(struct ras *ras)
{
	sigset_t ends;
	int signals, status = 1;

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
	if (open_ras(ras) == 0) {
		status = serve_clients(ras, signals);
		printf("towstat: %llu reports; clients refused %llu, hung up on %llu\n",
		       ras->server.served, ras->server.refused, ras->server.dropped);
		ras_server_fini(&ras->server);
	}
	ras_gather_close(&ras->gather);
	if (ras->reported)
		ras_report_fini(&ras->report);
	close(signals);
	return status;
}

enum { OPT_HOST = 256, OPT_TIMEOUT };

/*
 * Whether the name has only letters, digits and the characters of addresses. It goes into JSON
 * without escapes.
 */
static bool good_host(const char *host)
{
	return host[0] != '\0' && strlen(host) < 64 &&
	       host[strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				 "0123456789-_.:")] == '\0';
}

/* Returns 0, or the exit status. */
static int take_option(struct ras *ras, int option)
{
	switch (option) {
	case 'p':
		if (read_number(optarg, 0, 65535, &ras->port) != 0)
			return misuse("--port is a number from 0 to 65535", optarg);
		return 0;
	case 'l':
		ras->address = strcmp(optarg, "localhost") == 0 ? "127.0.0.1" : optarg;
		return 0;
	case OPT_HOST:
		ras->host = optarg;
		if (!good_host(optarg))
			return misuse("--host is a name or an address", optarg);
		return 0;
	case OPT_TIMEOUT:
		if (read_seconds(optarg, 0.1, 30, &ras->timeout_s) != 0)
			return misuse("--timeout is from 0.1 to 30 seconds", optarg);
		return 0;
	default:
		return misuse("ras: wrong option", "");
	}
}

int run_ras(int argc, char **argv)
{
	static const struct option options[] = {
		{ "port", required_argument, NULL, 'p' },
		{ "listen", required_argument, NULL, 'l' },
		{ "host", required_argument, NULL, OPT_HOST },
		{ "timeout", required_argument, NULL, OPT_TIMEOUT },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct ras ras = { .address = "127.0.0.1", .port = RAS_PORT, .timeout_s = 0.7 };
	int option, status;

	while ((option = getopt_long(argc, argv, "p:l:h", options, NULL)) != -1) {
		if (option == 'h') {
			fputs(usage, stdout);
			return 0;
		}
		status = take_option(&ras, option);
		if (status != 0)
			return status;
	}
	if (argc - optind > 1)
		return misuse("ras takes one job", argv[optind + 1]);
	ras.job = optind < argc ? argv[optind] : NULL;
	return run_ras_server(&ras);
}
