/*
 * towstat_export.c - one OpenMetrics endpoint for all ranks of this host.
 *
 *	clients --> libmicrohttpd's thread --> waiting --> this thread: one reading of all ranks
 *	        <-- one text for all of them <-------------/
 *
 * A scrape waits suspended. Scrapes that came before a reading began get its text, and later ones
 * get the next text. So ranks are read once at a time for any number of clients. A scrape waits for
 * two readings at most, and the timeouts bound each reading.
 */
#include <errno.h>
#include <getopt.h>
#include <microhttpd.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tools/common/http_unix.h"
#include "tools/towstat/export_lock.h"
#include "tools/towstat/export_scrape.h"
#include "tools/towstat/metrics_plain.h"
#include "tools/towstat/towstat.h"

#define CLIENTS_MAX   64
#define CLIENT_S      10 /* for the client's own part of a request */
#define RETRY_S       0.2
#define CLIENT_MEMORY (16u << 10)

#define TYPE_OPENMETRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"

static const char usage[] =
	"towstat export - one OpenMetrics endpoint for all ranks of this host\n"
	"\n"
	"  towstat export [--listen ADDRESS:PORT] [OPTION...]\n"
	"\n"
	"  -l, --listen A:P    where: 127.0.0.1:9464 unless said; [ADDRESS]:PORT for IPv6; port 0: "
	"any\n"
	"      --wait          wait while another exporter has the address, and take over from "
	"it;\n"
	"                      without: say who has it, and end with 0\n"
	"      --timeout S     how long a rank may take to answer, from 0.1 to 30 (default 2)\n"
	"      --all-users     also ranks of other users, with the label user\n"
	"      --lock-dir DIR  where the address's lock lies, instead of the stats sockets' "
	"default\n"
	"  -h, --help          this text\n"
	"\n"
	"GET /metrics asks all living ranks and merges what they say, with the labels tow_job and\n"
	"rank; towline_up is 0 for one that does not answer. It is OpenMetrics, or Prometheus' "
	"text\n"
	"format for who asks for text/plain. Whoever can reach the address can read it.\n"
	"Status: 0 done, or another has the address; 1 failed, 2 wrong usage.\n";

/* The formats: OpenMetrics, or the text format when the header Accept asks for it. */
enum format { FORMAT_OPEN, FORMAT_PLAIN, FORMATS };

/* A text that several answers share. */
struct shared {
	_Atomic unsigned users;
	size_t bytes;
	char *text;
};

/* One request. It belongs to its connection until MHD reports its end. */
struct request {
	struct MHD_Connection *connection;
	struct shared *shared; /* NULL when done: no memory, or the program ends */
	enum format format;
	bool done;
	struct request *next;
};

struct exporter {
	const char *listen, *lock_dir;
	bool wait;
	double timeout_s;
	struct export_lock lock;
	struct MHD_Daemon *daemon;
	struct scraper *scraper;
	int wake;
	pthread_mutex_t mutex;
	bool ending;             /* new requests get 503 */
	struct request *waiting; /* for the next reading */
};

static volatile sig_atomic_t ended; /* number of a signal */
static int ended_fd = -1;

static void on_signal(int number)
{
	const uint64_t one = 1;
	int err = errno;
	ssize_t wrote;

	ended = number;
	wrote = write(ended_fd, &one, sizeof(one));
	(void)wrote;
	errno = err;
}

/* --- requests: on MHD's thread --- */

static void release_body(void *arg)
{
	struct shared *shared = arg;

	if (atomic_fetch_sub_explicit(&shared->users, 1, memory_order_acq_rel) != 1)
		return;
	free(shared->text);
	free(shared);
}

static enum MHD_Result answer_with(struct MHD_Connection *connection, unsigned status,
				   const char *type, struct MHD_Response *response)
{
	enum MHD_Result queued;

	if (response == NULL)
		return MHD_NO;
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	if (status == 405)
		MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	queued = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return queued;
}

static enum MHD_Result answer_text(struct MHD_Connection *connection, unsigned status,
				   const char *text)
{
	return answer_with(connection, status, "text/plain; charset=utf-8",
			   MHD_create_response_from_buffer(strlen(text), (void *)text,
							   MHD_RESPMEM_PERSISTENT));
}

static enum MHD_Result answer_metrics(struct request *request)
{
	static const char *const content[] = { TYPE_OPENMETRICS, METRICS_PLAIN_TYPE };
	struct shared *shared = request->shared;
	struct MHD_Response *response;

	if (shared == NULL)
		return answer_text(request->connection, 503, "no memory, or it is ending\n");
	request->shared = NULL;
	response = MHD_create_response_from_buffer_with_free_callback_cls(
		shared->bytes, shared->text, release_body, shared);
	if (response == NULL)
		release_body(shared);
	return answer_with(request->connection, 200, content[request->format], response);
}

/* Suspends the request until the next reading. */
static enum MHD_Result suspend_request(struct exporter *exporter, struct request *request)
{
	const uint64_t one = 1;
	ssize_t wrote;
	bool ending;

	pthread_mutex_lock(&exporter->mutex);
	ending = exporter->ending;
	if (!ending) {
		MHD_suspend_connection(request->connection);
		request->next = exporter->waiting;
		exporter->waiting = request;
	}
	pthread_mutex_unlock(&exporter->mutex);
	if (ending)
		return answer_text(request->connection, 503, "it is ending\n");
	wrote = write(exporter->wake, &one, sizeof(one));
	(void)wrote;
	return MHD_YES;
}

static enum MHD_Result handle_request(void *arg, struct MHD_Connection *connection, const char *url,
				      const char *method, const char *version, const char *body,
				      size_t *body_bytes, void **context)
{
	struct request *request = *context;

	(void)version, (void)body;
	if (request == NULL) { /* only the head has come */
		request = calloc(1, sizeof(*request));
		if (request == NULL)
			return MHD_NO;
		request->connection = connection;
		*context = request;
		return MHD_YES;
	}
	if (*body_bytes != 0) { /* its answer will be 405; the body is dropped */
		*body_bytes = 0;
		return MHD_YES;
	}
	if (request->done)
		return answer_metrics(request);
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		return answer_text(connection, 405, "only GET and HEAD\n");
	if (strcmp(url, "/") == 0)
		return answer_text(connection, 200, "Towline's metrics of this host: /metrics\n");
	if (strcmp(url, "/metrics") != 0)
		return answer_text(connection, 404, "there is /metrics\n");
	request->format = metrics_plain_wanted(MHD_lookup_connection_value(
				  connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT))
				  ? FORMAT_PLAIN
				  : FORMAT_OPEN;
	return suspend_request(arg, request);
}

/* MHD resumes a connection before it ends it, so the request is not on the waiting list. */
static void request_completed(void *arg, struct MHD_Connection *connection, void **context,
			      enum MHD_RequestTerminationCode how)
{
	struct request *request = *context;

	(void)arg, (void)connection, (void)how;
	if (request != NULL && request->shared != NULL)
		release_body(request->shared);
	free(request);
	*context = NULL;
}

/* --- readings: on the main thread --- */

static void answer_waiting(struct request *first, struct shared *const texts[FORMATS])
{
	struct request *next;

	for (; first != NULL; first = next) {
		struct shared *shared = texts[first->format];

		next = first->next; /* the request may be freed once resumed */
		if (shared != NULL)
			atomic_fetch_add_explicit(&shared->users, 1, memory_order_relaxed);
		first->shared = shared;
		first->done = true;
		MHD_resume_connection(first->connection);
	}
}

static struct request *take_waiting(struct exporter *exporter, bool ending)
{
	struct request *first;

	pthread_mutex_lock(&exporter->mutex);
	first = exporter->waiting;
	exporter->waiting = NULL;
	exporter->ending = ending;
	pthread_mutex_unlock(&exporter->mutex);
	return first;
}

/* NULL `text` means no memory. */
static struct shared *share_text(char *text, size_t bytes)
{
	struct shared *shared = text != NULL ? calloc(1, sizeof(*shared)) : NULL;

	if (shared == NULL) {
		free(text);
		return NULL;
	}
	atomic_init(&shared->users, 1);
	shared->text = text;
	shared->bytes = bytes;
	return shared;
}

static bool format_wanted(const struct request *first, enum format format)
{
	for (; first != NULL; first = first->next) {
		if (first->format == format)
			return true;
	}
	return false;
}

static void serve_once(struct exporter *exporter)
{
	struct request *first = take_waiting(exporter, false);
	struct shared *texts[FORMATS] = { NULL };
	size_t bytes;
	char *text;

	if (first == NULL)
		return;
	text = scraper_run(exporter->scraper, &bytes);
	texts[FORMAT_OPEN] = share_text(text, bytes);
	if (texts[FORMAT_OPEN] != NULL && format_wanted(first, FORMAT_PLAIN)) {
		text = metrics_plain(texts[FORMAT_OPEN]->text, &bytes);
		texts[FORMAT_PLAIN] = share_text(text, bytes);
	}
	answer_waiting(first, texts);
	for (size_t i = 0; i < FORMATS; i++) {
		if (texts[i] != NULL)
			release_body(texts[i]);
	}
}

static void serve_requests(struct exporter *exporter)
{
	while (!ended) {
		struct pollfd polled = { exporter->wake, POLLIN, 0 };
		uint64_t count;

		if (poll(&polled, 1, -1) == 1 && read(exporter->wake, &count, sizeof(count)) < 0 &&
		    errno != EAGAIN)
			break;
		serve_once(exporter);
	}
	answer_waiting(take_waiting(exporter, true), (struct shared *[FORMATS]){ NULL });
}

/* --- the address --- */

/* Splits "127.0.0.1:9464" or "[::1]:9464" at its last colon. */
static int split_address(const char *text, char *host, size_t size, char *port, size_t port_size)
{
	const char *colon = strrchr(text, ':');
	size_t bytes = colon != NULL ? (size_t)(colon - text) : 0;

	if (bytes >= 2 && text[0] == '[' && text[bytes - 1] == ']') {
		text++;
		bytes -= 2;
	}
	if (colon == NULL || bytes == 0 || bytes >= size || strlen(colon + 1) >= port_size ||
	    colon[1] == '\0' || strspn(colon + 1, "0123456789") != strlen(colon + 1) ||
	    memchr(text, '/', bytes) != NULL || atol(colon + 1) > 65535)
		return -1;
	memcpy(host, text, bytes);
	host[bytes] = '\0';
	snprintf(port, port_size, "%s", colon + 1);
	return 0;
}

/* Returns a listening socket, or -1 with errno; EINVAL means that it is no address. */
static int listen_at(const char *host, const char *port)
{
	const struct addrinfo hints = { .ai_family = AF_UNSPEC,
					.ai_socktype = SOCK_STREAM,
					.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV };
	struct addrinfo *found = NULL;
	int fd, on = 1, err = EINVAL;

	if (getaddrinfo(strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, port, &hints,
			&found) != 0) {
		errno = EINVAL;
		return -1;
	}
	fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		err = errno;
	else
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (fd >= 0 && (bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, 64) != 0)) {
		err = errno;
		close(fd);
		fd = -1;
	}
	freeaddrinfo(found);
	errno = err;
	return fd;
}

static void print_address(int fd, const char *host)
{
	struct sockaddr_storage address;
	socklen_t bytes = sizeof(address);
	char port[16] = "?";

	if (getsockname(fd, (struct sockaddr *)&address, &bytes) == 0)
		getnameinfo((struct sockaddr *)&address, bytes, NULL, 0, port, sizeof(port),
			    NI_NUMERICSERV);
	printf(strchr(host, ':') != NULL ? "towstat: serves http://[%s]:%s/metrics\n"
					 : "towstat: serves http://%s:%s/metrics\n",
	       host, port);
	fflush(stdout);
}

static int start_server(struct exporter *exporter, int fd)
{
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old); /* only the main thread takes signals */
	exporter->daemon = MHD_start_daemon(
		MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_USE_ITC |
			MHD_ALLOW_SUSPEND_RESUME,
		0, NULL, NULL, handle_request, exporter, MHD_OPTION_LISTEN_SOCKET, fd,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned)CLIENTS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
		(unsigned)CLIENT_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CLIENT_MEMORY,
		MHD_OPTION_NOTIFY_COMPLETED, request_completed, exporter, MHD_OPTION_END);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return exporter->daemon != NULL ? 0 : -1;
}

/*
 * Takes the lock and the port. Returns 0 with *fd_out; 1 to end with status 0 and serve nothing; -1
 * when it failed.
 */
static int become_exporter(struct exporter *exporter, const char *host, const char *port,
			   int *fd_out)
{
	char error[512], name[128];
	bool told = false;

	snprintf(name, sizeof(name), "%.90s:%s", host, port);
	while (!ended) {
		int had = strcmp(port, "0") == 0 ? 0 : 1;

		exporter->lock.fd = -1;
		if (had == 1)
			had = export_lock_take(&exporter->lock, exporter->lock_dir, name, error,
					       sizeof(error));
		*fd_out = had == 0 ? listen_at(host, port) : -1;
		if (had < 0 ||
		    (had == 0 && *fd_out < 0 && (errno != EADDRINUSE || !exporter->wait))) {
			fprintf(stderr, "towstat: cannot listen at %s: %s\n", name,
				had < 0           ? error
				: errno == EINVAL ? "this is not a numeric address"
						  : strerror(errno));
			return -1;
		}
		if (*fd_out >= 0)
			return 0;
		export_lock_drop(&exporter->lock);
		if (!told)
			printf("towstat: %s is the exporter at %s%s\n",
			       exporter->lock.owner[0] != '\0' ? exporter->lock.owner
							       : "another process",
			       name, exporter->wait ? "; waiting to take over" : "");
		told = true;
		fflush(stdout);
		if (!exporter->wait)
			return 1;
		nap(RETRY_S);
	}
	return 1;
}

static int run_exporter(struct exporter *exporter)
{
	char host[80], port[8];
	int fd, status;

	if (split_address(exporter->listen, host, sizeof(host), port, sizeof(port)) != 0)
		return misuse("--listen is ADDRESS:PORT", exporter->listen);
	exporter->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	exporter->scraper = scraper_create((long long)(exporter->timeout_s * 1e3));
	if (exporter->wake < 0 || exporter->scraper == NULL)
		return 1;
	ended_fd = exporter->wake;
	for (size_t i = 0; i < 3; i++) {
		struct sigaction action = { .sa_handler = on_signal };

		sigaction(i == 0 ? SIGINT : i == 1 ? SIGTERM : SIGHUP, &action, NULL);
	}
	status = become_exporter(exporter, host, port, &fd);
	if (status != 0)
		return status < 0;
	if (start_server(exporter, fd) != 0) {
		fprintf(stderr, "towstat: the HTTP server does not start\n");
		close(fd);
		return 1;
	}
	print_address(fd, host);
	serve_requests(exporter);
	MHD_stop_daemon(exporter->daemon);
	return 0;
}

enum { OPT_WAIT = 256, OPT_TIMEOUT, OPT_LOCK_DIR };

/* Returns 0, or the exit status. */
static int take_option(struct exporter *exporter, int option)
{
	switch (option) {
	case 'l':
		exporter->listen = optarg;
		return 0;
	case OPT_WAIT:
		exporter->wait = true;
		return 0;
	case OPT_TIMEOUT:
		if (read_seconds(optarg, 0.1, 30, &exporter->timeout_s) != 0)
			return misuse("--timeout is from 0.1 to 30 seconds", optarg);
		return 0;
	case OPT_LOCK_DIR:
		exporter->lock_dir = optarg;
		return 0;
	default:
		return misuse("export: wrong option", "");
	}
}

int run_export(int argc, char **argv)
{
	static const struct option options[] = {
		{ "listen", required_argument, NULL, 'l' },
		{ "wait", no_argument, NULL, OPT_WAIT },
		{ "timeout", required_argument, NULL, OPT_TIMEOUT },
		{ "lock-dir", required_argument, NULL, OPT_LOCK_DIR },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct exporter exporter = { .listen = "127.0.0.1:9464",
				     .timeout_s = 2,
				     .lock = { .fd = -1 },
				     .wake = -1,
				     .mutex = PTHREAD_MUTEX_INITIALIZER };
	int option, status;

	while ((option = getopt_long(argc, argv, "l:h", options, NULL)) != -1) {
		if (option == 'h') {
			fputs(usage, stdout);
			return 0;
		}
		status = take_option(&exporter, option);
		if (status != 0)
			return status;
	}
	if (optind < argc)
		return misuse("export takes options alone", argv[optind]);
	status = run_exporter(&exporter);
	scraper_destroy(exporter.scraper);
	export_lock_drop(&exporter.lock);
	if (exporter.wake >= 0)
		close(exporter.wake);
	return status;
}
