/*
 * http_unix.c - the client side: a head is sent, and all is read until the server hangs up.
 *
 * Every wait is against one deadline, so that a stopped process costs seconds and not for ever.
 */
#include "http_unix.h"

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

static long long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (long long)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int wait_for(int fd, short events, long long deadline)
{
	struct pollfd polled = { .fd = fd, .events = events };
	long long left = deadline - now_ms();
	int ready;

	if (left <= 0) {
		errno = ETIMEDOUT;
		return -1;
	}
	ready = poll(&polled, 1, (int)left);
	if (ready == 0)
		errno = ETIMEDOUT;
	return ready == 1 ? 0 : -1;
}

static int dial(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(path) >= sizeof(address.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(address.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
		int err = errno;

		close(fd);
		errno = err;
		return -1;
	}
	return fd;
}

static int send_all(int fd, const char *text, size_t bytes, long long deadline)
{
	while (bytes > 0) {
		ssize_t sent = send(fd, text, bytes, MSG_NOSIGNAL);

		if (sent < 0 && errno == EAGAIN) {
			if (wait_for(fd, POLLOUT, deadline) != 0)
				return -1;
			continue;
		}
		if (sent < 0)
			return -1;
		text += sent;
		bytes -= (size_t)sent;
	}
	return 0;
}

/* Everything until the end; NULL with errno. */
static char *read_all(int fd, size_t bytes_max, size_t *bytes_out, long long deadline)
{
	size_t room = 1 << 16, bytes = 0;
	char *text = malloc(room), *more;
	ssize_t got = 1;

	while (text != NULL && got != 0) {
		if (bytes + 1 == room) {
			more = room < bytes_max ? realloc(text, room * 2) : NULL;
			if (more == NULL) {
				errno = EFBIG;
				break;
			}
			text = more;
			room *= 2;
		}
		got = recv(fd, text + bytes, room - 1 - bytes, 0);
		if (got > 0)
			bytes += (size_t)got;
		else if (got < 0 && (errno != EAGAIN || wait_for(fd, POLLIN, deadline) != 0))
			break;
	}
	if (text != NULL && got != 0) {
		int err = errno;

		free(text);
		errno = err;
		return NULL;
	}
	if (text != NULL)
		text[bytes] = '\0';
	*bytes_out = bytes;
	return text;
}

/* Cuts head from body and checks that the body came whole. */
static int parse(struct http_answer *out, size_t bytes)
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

static const char *why(int err)
{
	switch (err) {
	case ENOENT:
		return "there is no such socket; `towstat list` shows those there are";
	case ECONNREFUSED:
		return "its process has ended and left the file behind";
	case EACCES:
		return "it belongs to another user";
	case EAGAIN:
	case ETIMEDOUT:
		return "its process does not answer; is it stopped?";
	case EFBIG:
		return "the answer is larger than towstat reads, or there is no memory for it";
	case ECONNRESET:
	case EPIPE:
		return "it hung up; runtimes answer only their own user and root";
	default:
		return strerror(err);
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
	long long deadline = now_ms() + limits->timeout_ms;
	char head[1024];
	size_t bytes = 0;
	int fd, length;

	*out = (struct http_answer){ 0 };
	length = snprintf(head, sizeof(head),
			  "GET %s HTTP/1.1\r\nHost: towline\r\nConnection: close\r\n\r\n", path);
	if (length < 0 || (size_t)length >= sizeof(head) || strpbrk(path, " \r\n") != NULL) {
		snprintf(error_out, error_size, "%.100s is no path", path);
		return -1;
	}
	fd = dial(socket_path);
	if (fd >= 0 && send_all(fd, head, (size_t)length, deadline) == 0)
		out->text = read_all(fd, limits->bytes_max, &bytes, deadline);
	if (out->text == NULL)
		snprintf(error_out, error_size, "%s: %s", socket_path, why(errno));
	if (fd >= 0)
		close(fd);
	if (out->text == NULL)
		return -1;
	if (parse(out, bytes) != 0) {
		snprintf(error_out, error_size, "%s: %s", socket_path,
			 bytes == 0 ? why(EPIPE) : "what answers there is no stats socket");
		http_answer_fini(out);
		return -1;
	}
	return 0;
}

void http_answer_fini(struct http_answer *answer)
{
	free(answer->text);
	*answer = (struct http_answer){ 0 };
}

int http_is_live(const char *socket_path)
{
	int fd = dial(socket_path);

	if (fd >= 0) {
		close(fd);
		return 1;
	}
	return errno == ECONNREFUSED ? 0 : errno == EAGAIN ? 1 : -1;
}
