/*
 * http_unix.c - the client: it sends a request, and reads until the server closes the connection.
 *
 * All waits share one deadline. So a stopped process costs some seconds only, and so does one that
 * answers byte by byte.
 */
#include "tools/common/http_unix.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "tools/common/trust.h"

#define STEP_READS 32 /* then other asks get a turn */
#define ROOM_FIRST (1u << 14)

long long http_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (long long)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

double http_now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int dial_socket(const char *path, int type)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(path) >= sizeof(address.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(address.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
		int err = errno;

		close(fd);
		errno = err;
		return -1;
	}
	if (fd >= 0 && type == SOCK_STREAM && !trust_peer(fd, path)) {
		close(fd);
		errno = EPERM;
		return -1;
	}
	return fd;
}

static void fail_ask(struct http_ask *ask, int error)
{
	http_ask_fini(ask);
	ask->state = HTTP_FAILED;
	ask->error = error;
}

void http_ask_start(struct http_ask *ask, const char *socket_path, const char *path,
		    long long deadline_ms, size_t bytes_max)
{
	int length;

	http_ask_fini(ask);
	ask->deadline_ms = deadline_ms;
	ask->bytes_max = bytes_max;
	length = snprintf(ask->head, sizeof(ask->head),
			  "GET %s HTTP/1.1\r\nHost: towline\r\nConnection: close\r\n\r\n", path);
	if (length < 0 || (size_t)length >= sizeof(ask->head) || path[0] != '/' ||
	    strpbrk(path, " \r\n") != NULL) {
		fail_ask(ask, EINVAL);
		return;
	}
	ask->head_bytes = (size_t)length;
	ask->fd = dial_socket(socket_path, SOCK_STREAM);
	if (ask->fd < 0) {
		fail_ask(ask, errno);
		return;
	}
	ask->state = HTTP_SENDING;
	http_ask_step(ask);
}

int http_ask_waits(const struct http_ask *ask, short *events_out)
{
	*events_out = ask->state == HTTP_SENDING ? POLLOUT : POLLIN;
	return ask->state == HTTP_SENDING || ask->state == HTTP_READING;
}

/* Splits head from body, and checks that the body is complete. */
static int parse_answer(struct http_answer *out, size_t bytes)
{
	char *end = strstr(out->text, "\r\n\r\n");
	long long promised = -1;

	if (end == NULL || sscanf(out->text, "HTTP/1.%*1[01] %3d", &out->status) != 1)
		return -1;
	out->body = end + 4;
	out->bytes = bytes - (size_t)(out->body - out->text);
	for (char *line = strstr(out->text, "\r\n"); line != NULL && line < end;
	     line = strstr(line + 2, "\r\n")) {
		if (strncasecmp(line + 2, "Content-Length:", 15) == 0)
			promised = atoll(line + 17);
	}
	return promised < 0 || promised == (long long)out->bytes ? 0 : -1;
}

static void finish_ask(struct http_ask *ask)
{
	close(ask->fd);
	ask->state = HTTP_DONE;
	ask->answer.text[ask->bytes] = '\0';
	if (parse_answer(&ask->answer, ask->bytes) != 0)
		fail_ask(ask, ask->bytes == 0 ? EPIPE : EBADMSG);
}

static void send_some(struct http_ask *ask)
{
	while (ask->sent < ask->head_bytes) {
		ssize_t sent = send(ask->fd, ask->head + ask->sent, ask->head_bytes - ask->sent,
				    MSG_NOSIGNAL);

		if (sent < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (sent < 0) {
			fail_ask(ask, errno);
			return;
		}
		ask->sent += (size_t)sent;
	}
	ask->state = HTTP_READING;
}

/* Makes room for at least one byte and the NUL. */
static int make_room(struct http_ask *ask)
{
	size_t room = ask->room == 0 ? ROOM_FIRST : ask->room * 2;
	char *more;

	if (ask->bytes + 1 < ask->room)
		return 0;
	if (ask->bytes >= ask->bytes_max)
		return -1;
	more = realloc(ask->answer.text, room);
	if (more == NULL)
		return -1;
	ask->answer.text = more;
	ask->room = room;
	return 0;
}

static void read_some(struct http_ask *ask)
{
	for (int i = 0; i < STEP_READS; i++) {
		ssize_t got;

		if (make_room(ask) != 0) {
			fail_ask(ask, EFBIG);
			return;
		}
		got = recv(ask->fd, ask->answer.text + ask->bytes, ask->room - 1 - ask->bytes, 0);
		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (got < 0) {
			fail_ask(ask, errno);
			return;
		}
		if (got == 0) {
			finish_ask(ask);
			return;
		}
		ask->bytes += (size_t)got;
	}
}

void http_ask_step(struct http_ask *ask)
{
	if (ask->state == HTTP_SENDING)
		send_some(ask);
	if (ask->state == HTTP_READING)
		read_some(ask);
	if ((ask->state == HTTP_SENDING || ask->state == HTTP_READING) &&
	    http_now_ms() >= ask->deadline_ms)
		fail_ask(ask, ETIMEDOUT);
}

void http_ask_fini(struct http_ask *ask)
{
	if (ask->state == HTTP_SENDING || ask->state == HTTP_READING)
		close(ask->fd);
	free(ask->answer.text);
	ask->answer = (struct http_answer){ 0 };
	ask->state = HTTP_IDLE;
	ask->fd = -1;
	ask->error = 0;
	ask->sent = ask->bytes = ask->room = 0;
}

const char *http_ask_why(const struct http_ask *ask)
{
	switch (ask->error) {
	case ENOENT:
		return "there is no such socket; `towstat list` shows those that exist";
	case ECONNREFUSED:
		return "its process has ended and left the file behind";
	case EACCES:
		return "it belongs to another user";
	case EPERM:
		return "the process that answers there belongs to another user than the file";
	case EAGAIN:
	case ETIMEDOUT:
		return "its process does not answer; is it stopped?";
	case EFBIG:
		return "the answer is larger than towstat reads, or there is no memory for it";
	case ECONNRESET:
	case EPIPE:
		return "it closed the connection; runtimes answer only their own user and root";
	case EBADMSG:
		return "the process that answers there does not serve a stats socket";
	case EINVAL:
		return "this is not a path, or it is too long";
	default:
		return strerror(ask->error);
	}
}

int http_ask_is_gone(const struct http_ask *ask)
{
	return ask->state == HTTP_FAILED &&
	       (ask->error == ECONNREFUSED || ask->error == ENOENT || ask->error == EACCES);
}

/* Starts asks up to the limit. Returns the number of open ones. */
static size_t start_more(struct http_ask_of *asks, size_t count, size_t *next, const char *path,
			 long long deadline_ms, size_t bytes_max)
{
	size_t open = 0;
	short events;

	for (size_t i = 0; i < *next; i++)
		open += (size_t)http_ask_waits(&asks[i].ask, &events);
	while (*next < count && open < HTTP_ASKS_MAX) {
		struct http_ask_of *one = &asks[(*next)++];

		http_ask_start(&one->ask, one->socket_path, path, deadline_ms, bytes_max);
		open += (size_t)http_ask_waits(&one->ask, &events);
	}
	return open;
}

void http_ask_all(struct http_ask_of *asks, size_t count, const char *path,
		  const struct http_limits *limits)
{
	long long deadline_ms = http_now_ms() + limits->timeout_ms, left;
	struct pollfd polled[HTTP_ASKS_MAX];
	struct http_ask *open[HTTP_ASKS_MAX];
	size_t next = 0, waiting;

	while (start_more(asks, count, &next, path, deadline_ms, limits->bytes_max) > 0) {
		waiting = 0;
		for (size_t i = 0; i < next; i++) {
			short events;

			if (!http_ask_waits(&asks[i].ask, &events))
				continue;
			open[waiting] = &asks[i].ask;
			polled[waiting++] = (struct pollfd){ asks[i].ask.fd, events, 0 };
		}
		left = deadline_ms - http_now_ms();
		poll(polled, waiting, left > 0 ? (int)left : 0);
		for (size_t i = 0; i < waiting; i++) {
			if (polled[i].revents != 0 || http_now_ms() >= deadline_ms)
				http_ask_step(open[i]);
		}
	}
}

int http_get(const char *socket_path, const char *path, struct http_answer *out, char *error_out,
	     size_t error_size)
{
	const struct http_limits limits = { HTTP_TIMEOUT_MS, HTTP_BYTES_MAX };

	return http_get_within(socket_path, path, &limits, out, error_out, error_size);
}

int http_get_within(const char *socket_path, const char *path, const struct http_limits *limits,
		    struct http_answer *out, char *error_out, size_t error_size)
{
	struct http_ask_of one = { .socket_path = socket_path };

	*out = (struct http_answer){ 0 };
	http_ask_all(&one, 1, path, limits);
	if (one.ask.state == HTTP_DONE) {
		*out = one.ask.answer;
		return 0;
	}
	if (one.ask.error == EINVAL)
		snprintf(error_out, error_size, "%.100s is not a path", path);
	else
		snprintf(error_out, error_size, "%s: %s", socket_path, http_ask_why(&one.ask));
	return -1;
}

void http_answer_fini(struct http_answer *answer)
{
	free(answer->text);
	*answer = (struct http_answer){ 0 };
}

/* A server does not notice a connect with another socket type (diag/serve/listen.c). */
int http_is_live(const char *socket_path)
{
	int fd = dial_socket(socket_path, SOCK_DGRAM);

	if (fd >= 0)
		close(fd);
	if (fd >= 0 || errno == EPROTOTYPE)
		return 1;
	return errno == ECONNREFUSED ? 0 : -1;
}
