/* client.c - a client of the stats, as simple as can be. */
#include "client.h"

#include <errno.h>

int twt_dial(const char *path, int type)
{
	const struct timeval patience = { 10, 0 };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	close(fd);
	return -1;
}

int twt_dial_tcp(const char *address)
{
	const struct timeval patience = { 10, 0 };
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	v4.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
	if (connect(fd, (struct sockaddr *)&v4, sizeof(v4)) == 0)
		return fd;
	close(fd);
	return -1;
}

char *twt_talk(int fd, const char *request)
{
	size_t room = 4 << 20, bytes = 0;
	char *text = malloc(room);
	ssize_t got;

	assert_non_null(text);
	assert_true(fd >= 0);
	assert_true(send(fd, request, strlen(request), MSG_NOSIGNAL) >= 0);
	/* io_uring's work for this thread ends a call that has a timeout, without a signal. */
	do {
		got = recv(fd, text + bytes, room - 1 - bytes, 0);
		bytes += got > 0 ? (size_t)got : 0;
	} while (bytes < room - 1 && (got > 0 || (got < 0 && errno == EINTR)));
	text[bytes] = '\0';
	close(fd);
	return text;
}

const char *twt_body(const char *answer)
{
	const char *body = strstr(answer, "\r\n\r\n");

	assert_non_null(body);
	return body + 4;
}

int twt_http_status(const char *answer)
{
	return strncmp(answer, "HTTP/1.", 7) == 0 ? atoi(answer + 9) : 0;
}

int twt_python(const char *script, const char *arg, const char *input)
{
	const char *python = getenv("TOW_TEST_PYTHON"), *source = getenv("TOW_TEST_SOURCE");
	char command[1024];
	FILE *pipe;
	int status;

	if (source == NULL || (python == NULL && system("python3 -c '' 2>/dev/null") != 0))
		return 77;
	fflush(stdout);
	assert_int_equal(setenv("TWT_ARG", arg, 1), 0); /* no quoting of hostile names */
	snprintf(command, sizeof(command), "%s '%s/tests/support/%s' \"$TWT_ARG\"",
		 python != NULL ? python : "python3", source, script);
	pipe = popen(command, "w");
	assert_non_null(pipe);
	if (input != NULL)
		fputs(input, pipe);
	status = pclose(pipe);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}
