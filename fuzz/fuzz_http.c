/*
 * Fuzzes the stats socket: the input is what a client sends before it hangs up. libmicrohttpd and
 * what hangs behind it must answer or hang up in time, and serve the next client.
 *
 * An input that begins with the byte 1 is what comes over TCP: it meets the token first, and may
 * have it, as T in the text "token=T" or "Bearer T" is put in its place.
 *
 * One server for the whole run; each input is a connection of its own, over a socket pair.
 */
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "diag/record/diag.h"
#include "diag/record/registry.h"
#include "diag/serve/socket.h"

#define INPUT_MAX   (128u << 10) /* twice what a connection may hold */
#define PATIENCE_MS 20000
#define TOKEN       "fuzz-token-0123456789"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct twi_diag *diag;
static struct twi_socket *server;
static char dir[] = "/tmp/fuzz-http-XXXXXX";

static void expect_at(int truth, int line)
{
	if (truth)
		return;
	fprintf(stderr, "fuzz_http.c:%d: not so (%s)\n", line, strerror(errno));
	abort();
}
#define expect(truth) expect_at(truth, __LINE__)

/* A capture of as many milliseconds as seconds are asked for. */
static int capture_start(void *arg, int64_t seconds, void **session_out, uint64_t *wait_ns_out)
{
	*session_out = arg;
	*wait_ns_out = seconds > 0 ? (uint64_t)seconds * 1000000 : 0;
	return 0;
}

static int capture_choose(void *arg, void *session, unsigned format)
{
	(void)arg;
	(void)session;
	expect(format < 2);
	return 0;
}

static int capture_finish(void *arg, void *session, char **bytes_out, size_t *count_out)
{
	(void)arg;
	(void)session;
	if (bytes_out == NULL)
		return 0;
	*bytes_out = calloc(1, 10);
	*count_out = 10;
	return 0;
}

static void stop_server(void)
{
	twi_socket_close(server);
	twi_diag_destroy(diag);
	rmdir(dir);
}

static void start_server(void)
{
	static const struct twi_capture_format formats[] = { { "one", "a/b" },
							     { "two", "c/d" },
							     { NULL, NULL } };
	const struct twi_capture capture = { .path = "/v1/long",
					     .help = "x",
					     .content_type = "a/b",
					     .seconds_max = 60,
					     .start = capture_start,
					     .finish = capture_finish,
					     .formats = formats,
					     .formats_elsewhere = "a tool makes three",
					     .choose = capture_choose };

	expect(mkdtemp(dir) != NULL);
	expect(twi_diag_create(&diag) == 0);
	expect(twi_registry_capture(diag, &capture) == 0);
	expect(twi_socket_open(diag, dir, "fuzz", 0, &server) == 0);
	expect(twi_socket_listen(server, "127.0.0.1:0", TOKEN, "") == 0);
	atexit(stop_server);
}

/* What has come is thrown away; returns 0 when the server has hung up. */
static int drain_answer(int fd)
{
	char text[4096];
	ssize_t got;

	while ((got = recv(fd, text, sizeof(text), MSG_DONTWAIT)) > 0)
		continue;
	return got == 0 || errno != EAGAIN ? 0 : 1;
}

/* Sends while it reads, so that neither side waits for the other. */
static void talk_to_server(int fd, const uint8_t *data, size_t size)
{
	struct pollfd polled = { .fd = fd, .events = POLLIN | POLLOUT };

	while (drain_answer(fd)) {
		if (size > 0) {
			ssize_t sent = send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);

			if (sent < 0 && errno != EAGAIN)
				size = 0;
			else if (sent > 0) {
				data += sent;
				size -= (size_t)sent;
			}
		}
		if (size == 0 && polled.events != POLLIN) {
			shutdown(fd, SHUT_WR);
			polled.events = POLLIN;
		}
		/* the fuzzer's own alarm may interrupt */
		expect(poll(&polled, 1, PATIENCE_MS) > 0 || errno == EINTR);
	}
}

/* A copy with the token wherever it belongs; whether it is in it. The caller frees it. */
static uint8_t *with_token(const uint8_t *data, size_t *size)
{
	static const char *const marks[] = { "token=T", "Bearer T" };
	uint8_t *out = malloc(*size * sizeof(TOKEN) + 1);
	size_t used = 0;

	expect(out != NULL);
	for (size_t i = 0; i < *size; i++) {
		out[used++] = data[i];
		for (size_t m = 0; m < 2; m++) {
			size_t bytes = strlen(marks[m]);

			if (i + 1 < bytes || memcmp(data + i + 1 - bytes, marks[m], bytes) != 0)
				continue;
			memcpy(out + used - 1, TOKEN, strlen(TOKEN));
			used += strlen(TOKEN) - 1;
		}
	}
	*size = used;
	return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int (*adopt)(struct twi_socket * socket, int fd) = twi_socket_adopt;
	uint8_t *copy = NULL;
	int pair[2];

	if (server == NULL)
		start_server();
	if (size > INPUT_MAX)
		return 0;
	if (size > 0 && data[0] == 1) {
		adopt = twi_socket_adopt_tcp;
		size--;
		data = copy = with_token(data + 1, &size);
	}
	expect(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
	/* All connections taken: earlier ones are being closed by the server's thread just now. */
	for (int i = 0; adopt(server, pair[1]) != 0; i++) {
		expect(i < PATIENCE_MS);
		close(pair[0]); /* the server has closed the other one */
		expect(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) ==
		       0);
		usleep(1000);
	}
	talk_to_server(pair[0], data, size);
	close(pair[0]);
	free(copy);
	return 0;
}
