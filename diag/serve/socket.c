/*
 * socket.c - runs libmicrohttpd on our listening socket; diag/serve/http.c decides every answer.
 *
 * A request for a capture suspends its connection: MHD ignores it and serves others, until
 * diag/serve/captures.c wakes it with the result. MHD must not be stopped while a connection is
 * suspended, so captures end first.
 *
 * MHD owns one thread, the connections, and the parsing of HTTP. Its thread blocks all signals, so
 * the user's handlers never run on it. When MHD announces a connection of another user, it is shut
 * down before any byte of it is parsed.
 *
 * TCP has a second such daemon. It judges the head of each request before any other work. So a
 * client without the token can cost us only reading and answering.
 */
#include "diag/serve/socket.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <internal/base.h>
#include <towline/stats.h>

#include "diag/base/ascii.h"
#include "diag/base/error.h"
#include "diag/base/fd.h"
#include "diag/record/diag.h"
#include "diag/record/registry.h"
#include "diag/serve/captures.h"
#include "diag/serve/http.h"
#include "diag/serve/listen.h"
#include "diag/serve/listen_tcp.h"
#include "diag/serve/mhd.h"
#include "diag/serve/stats_dir.h"
#include "diag/serve/token.h"

#define CONNECTION_MEMORY (32u << 10) /* bounds the head of a request */
#define STACK_BYTES       (512u << 10)
#define TOKEN_PARAM       "token"

/* One listener, and the daemon that serves it. */
struct door {
	struct twi_socket *sock;
	struct MHD_Daemon *daemon; /* NULL: closed */
};

/*
 * A connection over TCP. MHD's timeout restarts with each byte, so clients without a token could
 * hold all connections for ever. So what counts is whether a whole head with the token has come.
 */
struct caller {
	int fd;            /* -1: free */
	bool heard;        /* its client has the token, and a request is being served */
	uint64_t since_ns; /* when it came, or when its last request ended */
};

struct twi_socket {
	struct twi_diag *diag;
	struct twi_captures *captures;
	struct door local, tcp;
	struct twi_listen listener;
	struct twi_listen_tcp tcp_listener;
	struct twi_token token;
	struct twi_throttle throttle; /* only the tcp thread uses it, and the callers */
	struct caller callers[TWI_SOCKET_CONNECTIONS];
	unsigned caller_count;
};

/* The first call for a request has only its head. The answer belongs to the next call. */
static char head_seen;

static enum MHD_Result queue_response(struct MHD_Connection *connection,
				      const struct twi_http_answer *answer,
				      struct MHD_Response *response)
{
	enum MHD_Result queued;
	char retry[16];

	twi_mhd.add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->content_type);
	twi_mhd.add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	if (answer->status == 401)
		twi_mhd.add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
	if (answer->policy != NULL) {
		twi_mhd.add_response_header(response, "Content-Security-Policy", answer->policy);
		twi_mhd.add_response_header(response, "X-Content-Type-Options", "nosniff");
		/* The address of the page may contain the token. */
		twi_mhd.add_response_header(response, "Referrer-Policy", "no-referrer");
	}
	if (answer->allow != NULL)
		twi_mhd.add_response_header(response, MHD_HTTP_HEADER_ALLOW, answer->allow);
	if (answer->retry) {
		snprintf(retry, sizeof(retry), "%d", TWI_HTTP_RETRY_S);
		twi_mhd.add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, retry);
	}
	queued = twi_mhd.queue_response(connection, answer->status, response);
	twi_mhd.destroy_response(response);
	return queued;
}

static enum MHD_Result queue_answer(struct MHD_Connection *connection,
				    struct twi_http_answer *answer)
{
	struct MHD_Response *response = twi_mhd.create_response_from_buffer(
		answer->bytes, answer->text != NULL ? answer->text : (void *)"",
		answer->text != NULL ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);

	if (response == NULL) {
		free(answer->text);
		return MHD_NO;
	}
	return queue_response(connection, answer, response);
}

static ssize_t no_body(void *arg, uint64_t at, char *out, size_t room)
{
	(void)arg, (void)at, (void)out, (void)room;
	return MHD_CONTENT_READER_END_OF_STREAM;
}

/* Answers a HEAD of a capture. Without capturing, the length of the body is unknown. */
static enum MHD_Result queue_head(struct MHD_Connection *connection, const char *content_type)
{
	const struct twi_http_answer answer = { .status = 200, .content_type = content_type };
	struct MHD_Response *response =
		twi_mhd.create_response_from_callback(MHD_SIZE_UNKNOWN, 1024, no_body, NULL, NULL);

	if (response == NULL)
		return MHD_NO;
	/* Else the answer is chunked, and MHD sends a last chunk, though a HEAD has no body. */
	twi_mhd.set_response_options(response, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END);
	return queue_response(connection, &answer, response);
}

static enum MHD_Result collect_header(void *arg, enum MHD_ValueKind kind, const char *name,
				      const char *value)
{
	struct twi_http_query *query = arg;

	(void)kind;
	if (twi_ascii_same(name, TOKEN_PARAM)) /* is_admitted has read it */
		return MHD_YES;
	if (query->count < TWI_HTTP_PARAMS)
		query->params[query->count] = (struct twi_http_param){ name, value };
	query->count++;
	return MHD_YES;
}

static int descriptor_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		twi_mhd.get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

	return info != NULL ? info->connect_fd : -1;
}

static struct caller *caller_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		twi_mhd.get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info != NULL ? info->socket_context : NULL;
}

/* Shuts down the oldest connection that is not being served, so that a place is always free. */
static void give_way(struct twi_socket *sock, const struct caller *newcomer)
{
	struct caller *oldest = NULL;

	for (unsigned i = 0; i < TWI_SOCKET_CONNECTIONS; i++) {
		struct caller *caller = &sock->callers[i];

		if (caller->fd >= 0 && caller != newcomer && !caller->heard &&
		    (oldest == NULL || caller->since_ns < oldest->since_ns))
			oldest = caller;
	}
	if (oldest != NULL)
		shutdown(oldest->fd, SHUT_RDWR);
}

static struct caller *enter_caller(struct twi_socket *sock, int fd)
{
	struct caller *caller = NULL;

	for (unsigned i = 0; i < TWI_SOCKET_CONNECTIONS && caller == NULL; i++) {
		if (sock->callers[i].fd < 0)
			caller = &sock->callers[i];
	}
	if (caller == NULL)
		return NULL;
	*caller = (struct caller){ .fd = fd, .since_ns = twi_now_ns() };
	if (++sock->caller_count == TWI_SOCKET_CONNECTIONS)
		give_way(sock, caller);
	return caller;
}

static void leave_caller(struct twi_socket *sock, struct caller *caller)
{
	if (caller == NULL)
		return;
	caller->fd = -1;
	sock->caller_count--;
}

static unsigned failure_code(int status)
{
	return status == TOW_EBUSY ? 503 : status == TOW_ENOTSUP ? 501 : 500;
}

static const char *failure_text(int status, const struct twi_capture_run *run)
{
	return status == TOW_ENOMEM ? "no memory for the capture" : twi_captures_why(run);
}

/* Answers a capture's request: with its head, with an error, or later, after it has waited. */
static enum MHD_Result start_capture(struct twi_socket *sock, struct MHD_Connection *connection,
				     const char *method, const struct twi_capture *source,
				     void **request)
{
	struct twi_http_query query = { 0 };
	struct twi_capture_run *run;
	struct twi_http_answer answer;
	struct twi_http_wish wish;
	int status;

	twi_mhd.get_connection_values(connection, MHD_GET_ARGUMENT_KIND, collect_header, &query);
	if (twi_http_wish(&query, source, &wish, &answer) != 0)
		return queue_answer(connection, &answer);
	if (strcmp(method, MHD_HTTP_METHOD_HEAD) == 0)
		return queue_head(connection, source->formats != NULL
						      ? source->formats[wish.format].content_type
						      : source->content_type);
	status = twi_captures_begin(sock->captures, source, &wish, descriptor_of(connection),
				    connection, &run);
	if (status < 0) {
		twi_http_error(failure_code(status), tow_error_message(), &answer);
		return queue_answer(connection, &answer);
	}
	*request = run;
	twi_mhd.suspend_connection(connection);
	twi_captures_wait(sock->captures, run);
	return MHD_YES;
}

/* Answers on a connection that was woken, as its capture is done. */
static enum MHD_Result answer_capture(struct MHD_Connection *connection,
				      struct twi_capture_run *run)
{
	struct twi_http_answer answer = { .status = 200, .content_type = twi_captures_type(run) };
	int status = twi_captures_take(run, &answer.text, &answer.bytes);

	if (status == TOW_ECANCELED)
		return MHD_NO; /* the client has gone, or the server closes: disconnect */
	if (status < 0) {
		free(answer.text);
		twi_http_error(failure_code(status), failure_text(status, run), &answer);
	}
	return queue_answer(connection, &answer);
}

/* Has the client over TCP the token? If not, sets its answer. */
static bool is_admitted(struct twi_socket *sock, struct MHD_Connection *connection,
			struct twi_http_answer *answer)
{
	const char *header = twi_mhd.lookup_connection_value(connection, MHD_HEADER_KIND,
							     MHD_HTTP_HEADER_AUTHORIZATION);
	char param[TWI_TOKEN_PARAM_BYTES];
	const char *given =
		header != NULL
			? twi_token_bearer(header)
			: twi_token_param(twi_mhd.lookup_connection_value(
						  connection, MHD_GET_ARGUMENT_KIND, TOKEN_PARAM),
					  param);
	uint8_t address[16];
	uint64_t now = twi_now_ns();

	/* First, so that guesses from the same address do not keep out a client with the token. */
	if (twi_token_same(&sock->token, given))
		return true;
	twi_listen_tcp_peer(descriptor_of(connection), address);
	if (twi_throttle_refuses(&sock->throttle, address, now)) {
		twi_count(sock->diag, TWI_C_stats_throttled, 1);
		twi_http_error(429, "too many wrong tokens from this address; wait a second",
			       answer);
		return false;
	}
	twi_count(sock->diag, TWI_C_stats_token_refused, 1);
	if (given != NULL) /* a browser's first request has none, and is no guess */
		twi_throttle_wrong(&sock->throttle, address, now);
	twi_http_error(401, "a token is needed: Authorization: Bearer TOKEN, or ?token=TOKEN",
		       answer);
	return false;
}

static enum MHD_Result handle_request(void *arg, struct MHD_Connection *connection, const char *url,
				      const char *method, const char *version, const char *body,
				      size_t *body_bytes, void **request)
{
	struct door *door = arg;
	struct twi_socket *sock = door->sock;
	struct twi_http_answer answer;
	struct twi_capture source;

	(void)version;
	(void)body;
	if (*request == NULL) {
		struct caller *caller = caller_of(connection);

		*request = &head_seen;
		if (door == &sock->tcp && !is_admitted(sock, connection, &answer))
			return queue_answer(connection, &answer);
		if (caller != NULL)
			caller->heard = true;
		return MHD_YES;
	}
	if (*body_bytes != 0) { /* the request will get 405; its body is read and dropped */
		*body_bytes = 0;
		return MHD_YES;
	}
	if (*request != &head_seen)
		return answer_capture(connection, *request);
	twi_count(sock->diag, TWI_C_stats_requests, 1);
	if (twi_http_route(method, url).kind == TWI_HTTP_DOCUMENT &&
	    twi_registry_capture_find(sock->diag, url, &source))
		return start_capture(sock, connection, method, &source, request);
	twi_http_answer(sock->diag, method, url,
			twi_mhd.lookup_connection_value(connection, MHD_HEADER_KIND,
							MHD_HTTP_HEADER_ACCEPT),
			&answer);
	return queue_answer(connection, &answer);
}

/* Frees the slot of the request's capture, however the request has ended. */
static void request_completed(void *arg, struct MHD_Connection *connection, void **request,
			      enum MHD_RequestTerminationCode how)
{
	struct twi_socket *sock = ((struct door *)arg)->sock;
	struct caller *caller = caller_of(connection);

	(void)how;
	if (caller != NULL) {
		caller->heard = false;
		caller->since_ns = twi_now_ns();
	}
	if (*request != NULL && *request != &head_seen)
		twi_captures_end(sock->captures, *request);
	*request = NULL;
}

static void wake_connection(void *who)
{
	twi_mhd.resume_connection(who);
}

/* Our paths have nothing to decode, and a decoded NUL would end a path early. */
static size_t leave_escaped(void *arg, struct MHD_Connection *connection, char *text)
{
	(void)arg;
	(void)connection;
	return strlen(text);
}

static bool is_allowed(int fd)
{
	struct ucred peer;
	socklen_t bytes = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
	       (peer.uid == 0 || peer.uid == geteuid());
}

static void announce_connection(void *arg, struct MHD_Connection *connection, void **context,
				enum MHD_ConnectionNotificationCode what)
{
	struct door *door = arg;
	int fd;

	fd = descriptor_of(connection);
	if (door == &door->sock->tcp) {
		if (what == MHD_CONNECTION_NOTIFY_STARTED)
			*context = enter_caller(door->sock, fd);
		else
			leave_caller(door->sock, *context);
		return;
	}
	if (what != MHD_CONNECTION_NOTIFY_STARTED)
		return;
	if (!is_allowed(fd)) {
		twi_count(door->sock->diag, TWI_C_stats_refused, 1);
		shutdown(fd, SHUT_RDWR);
	}
}

static int start_door(struct twi_socket *sock, struct door *door, int fd, const char *path)
{
	sigset_t all, old;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	errno = 0;
	/*
	 * poll and not epoll: MHD's edge-triggered epoll misses an end of stream that comes with
	 * the last bytes. Such a client would hold one of the few connections until the timeout.
	 */
	door->sock = sock;
	twi_fd_fill();
	door->daemon = twi_mhd.start_daemon(
		MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_USE_ITC |
			MHD_ALLOW_SUSPEND_RESUME,
		0, NULL, NULL, handle_request, door, MHD_OPTION_LISTEN_SOCKET, fd,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned)TWI_SOCKET_CONNECTIONS,
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)TWI_SOCKET_TIMEOUT_S,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
		MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK_BYTES, MHD_OPTION_NOTIFY_CONNECTION,
		announce_connection, door, MHD_OPTION_NOTIFY_COMPLETED, request_completed, door,
		MHD_OPTION_UNESCAPE_CALLBACK, leave_escaped, NULL, MHD_OPTION_END);
	err = errno;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (door->daemon != NULL)
		return TOW_OK;
	return twi_error_errno(TOW_ESYSTEM, err, "libmicrohttpd cannot serve '%s'", path);
}

/* Listens in the first default directory that allows a socket. */
static int listen_by_default(struct twi_diag *diag, struct twi_listen_name *name,
			     struct twi_listen *out)
{
	char own[256];
	int status;

	for (unsigned index = 0;; index++) {
		status = twi_stats_dir_find(diag, &index, own, sizeof(own));
		if (status < 0)
			return status;
		name->dir = own;
		status = twi_listen_open(name, out);
		/* The disk is full, or became read-only. */
		if (status != TOW_EPERM && status != TOW_ESYSTEM)
			return status;
		twi_log(diag, 2, "%.200s; trying another directory", tow_error_message());
	}
}

int twi_socket_open(struct twi_diag *diag, const char *dir, const char *job, int64_t rank,
		    struct twi_socket **out)
{
	char stem[TWI_LISTEN_STEM_BYTES];
	struct twi_listen_name name = {
		.dir = dir, .stem = stem, .end = ".sock", .type = SOCK_STREAM, .sweep = true
	};
	bool by_default = dir == NULL || dir[0] == '\0';
	struct twi_socket *sock;
	int status;

	*out = NULL;
	status = twi_mhd_load();
	if (status < 0)
		return status;
	sock = calloc(1, sizeof(*sock));
	if (sock == NULL)
		return twi_error(TOW_ENOMEM, "no memory for the stats socket");
	sock->diag = diag;
	for (unsigned i = 0; i < TWI_SOCKET_CONNECTIONS; i++)
		sock->callers[i].fd = -1;
	status = twi_captures_create(wake_connection, &sock->captures);
	if (status == TOW_OK)
		status = twi_listen_stem(job != NULL ? job : "towline", rank, stem);
	if (status == TOW_OK)
		status = by_default ? listen_by_default(diag, &name, &sock->listener)
				    : twi_listen_open(&name, &sock->listener);
	if (status == TOW_OK) {
		status = start_door(sock, &sock->local, sock->listener.fd, sock->listener.path);
		if (status < 0)
			twi_listen_unlink(&sock->listener);
	}
	if (status < 0) {
		twi_captures_destroy(sock->captures);
		free(sock);
		return status;
	}
	*out = sock;
	return TOW_OK;
}

void twi_socket_close(struct twi_socket *sock)
{
	if (sock == NULL)
		return;
	/* First the file, so that a new client is refused and does not wait in vain. */
	twi_listen_unlink(&sock->listener);
	twi_captures_stop(sock->captures);
	twi_mhd.stop_daemon(sock->local.daemon); /* closes the listening socket too */
	if (sock->tcp.daemon != NULL)
		twi_mhd.stop_daemon(sock->tcp.daemon);
	twi_captures_destroy(sock->captures);
	explicit_bzero(&sock->token, sizeof(sock->token));
	free(sock);
}

const char *twi_socket_path(const struct twi_socket *sock)
{
	return sock != NULL ? sock->listener.path : "";
}

int twi_socket_listen(struct twi_socket *sock, const char *address, const char *token,
		      const char *token_file)
{
	int status;

	if (sock->tcp.daemon != NULL)
		return twi_error(TOW_EINVAL, "the stats are served over TCP already");
	status = twi_token_load(token, token_file, &sock->token);
	if (status == TOW_OK)
		status = twi_listen_tcp_open(address, &sock->tcp_listener);
	if (status < 0)
		return status;
	status = start_door(sock, &sock->tcp, sock->tcp_listener.fd, sock->tcp_listener.address);
	if (status < 0)
		sock->tcp_listener.address[0] = '\0';
	return status;
}

const char *twi_socket_address(const struct twi_socket *sock)
{
	return sock != NULL ? sock->tcp_listener.address : "";
}

static int adopt_socket(struct door *door, int fd)
{
	struct sockaddr address = { .sa_family = AF_UNIX };

	if (twi_mhd.add_connection(door->daemon, fd, &address, sizeof(address)) != MHD_YES)
		return twi_error_errno(TOW_ESYSTEM, errno, "libmicrohttpd refuses a connection");
	return TOW_OK;
}

int twi_socket_adopt(struct twi_socket *sock, int fd)
{
	return adopt_socket(&sock->local, fd);
}

int twi_socket_adopt_tcp(struct twi_socket *sock, int fd)
{
	return adopt_socket(&sock->tcp, fd);
}
