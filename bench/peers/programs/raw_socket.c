/*
 * raw_socket.c - messages without frames over one stream socket: both sides know each size.
 *
 * With RAW_SPIN=1 the socket does not block, and the calls are repeated instead of sleeping.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "bench/peers/programs/exchange.h"
#include "bench/peers/programs/peer.h"
#include "bench/peers/programs/raw.h"

#define CONNECT_TRIES 200
#define CONNECT_US    20000

static int connection = -1;
static int receive_flags, send_flags = MSG_NOSIGNAL;

union address {
	struct sockaddr any;
	struct sockaddr_in tcp;
	struct sockaddr_un path;
};

static bool try_again(ssize_t moved)
{
	return moved < 0 && (errno == EAGAIN || errno == EINTR);
}

static void socket_send(const void *data, size_t bytes)
{
	const char *at = data;

	while (bytes > 0) {
		ssize_t moved = send(connection, at, bytes, send_flags);

		if (try_again(moved))
			continue;
		if (moved <= 0)
			peer_end(1, "send: %s", strerror(errno));
		at += moved;
		bytes -= (size_t)moved;
	}
}

static void socket_receive(void *data, size_t bytes)
{
	char *at = data;

	while (bytes > 0) {
		ssize_t moved = recv(connection, at, bytes, receive_flags);

		if (try_again(moved))
			continue;
		if (moved < 0)
			peer_end(1, "recv: %s", strerror(errno));
		if (moved == 0)
			peer_end(1, "the other side has closed its connection");
		at += moved;
		bytes -= (size_t)moved;
	}
}

static socklen_t parse_tcp(const char *text, struct sockaddr_in *out)
{
	const char *colon = strrchr(text, ':');
	char host[INET_ADDRSTRLEN], *end;
	long port = colon != NULL ? strtol(colon + 1, &end, 10) : 0;

	if (colon == NULL || colon - text >= (long)sizeof(host) || end == colon + 1 ||
	    *end != '\0' || port < 1 || port > 65535)
		return 0;
	snprintf(host, sizeof(host), "%.*s", (int)(colon - text), text);
	out->sin_family = AF_INET;
	out->sin_port = htons((uint16_t)port);
	return inet_pton(AF_INET, host, &out->sin_addr) == 1 ? sizeof(*out) : 0;
}

static socklen_t parse_url(const char *url, union address *out)
{
	memset(out, 0, sizeof(*out));
	if (strncmp(url, "tcp:", 4) == 0)
		return parse_tcp(url + 4, &out->tcp);
	if (strncmp(url, "unix:", 5) != 0 || strlen(url + 5) >= sizeof(out->path.sun_path))
		return 0;
	out->path.sun_family = AF_UNIX;
	snprintf(out->path.sun_path, sizeof(out->path.sun_path), "%s", url + 5);
	return sizeof(out->path);
}

static int accept_one(int listening, const union address *at, socklen_t bytes, const char *url)
{
	int one = 1, accepted;

	if (at->any.sa_family == AF_UNIX)
		unlink(at->path.sun_path);
	setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listening, &at->any, bytes) != 0 || listen(listening, 1) != 0)
		peer_end(1, "%s: %s", url, strerror(errno));
	accepted = accept(listening, NULL, NULL);
	if (accepted < 0)
		peer_end(1, "%s: %s", url, strerror(errno));
	close(listening);
	return accepted;
}

void raw_socket_open(bool server, const char *url)
{
	bool spin = bench_env("RAW_SPIN", "0")[0] == '1';
	union address at;
	socklen_t bytes = parse_url(url, &at);
	int one = 1, tries = 0;

	if (bytes == 0)
		peer_end(2, "an address is tcp:IPV4:PORT or unix:PATH, not '%s'", url);
	connection = socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connection < 0)
		peer_end(1, "socket: %s", strerror(errno));
	if (server)
		connection = accept_one(connection, &at, bytes, url);
	while (!server && connect(connection, &at.any, bytes) != 0) {
		if (++tries == CONNECT_TRIES)
			peer_end(1, "%s: %s", url, strerror(errno));
		usleep(CONNECT_US);
	}
	if (at.any.sa_family == AF_INET)
		setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	receive_flags = spin ? MSG_DONTWAIT : 0;
	send_flags |= spin ? MSG_DONTWAIT : 0;
}

const struct exchange raw_socket = { socket_send, socket_receive };
