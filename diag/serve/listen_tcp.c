/*
 * listen_tcp.c - see listen_tcp.h. It looks no names up.
 */
#include "diag/serve/listen_tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "diag/base/fd.h"

#define BACKLOG 64

static bool parse_port(const char *text, uint16_t *out)
{
	unsigned value = 0, digits = 0;

	for (; text[digits] >= '0' && text[digits] <= '9' && digits < 6; digits++)
		value = value * 10 + (unsigned)(text[digits] - '0');
	*out = htons((uint16_t)value);
	return digits > 0 && text[digits] == '\0' && value <= 65535;
}

static bool parse_v4(const char *host, const char *port, struct sockaddr_storage *out)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)out;

	v4->sin_family = AF_INET;
	if (strcmp(host, "localhost") == 0)
		host = "127.0.0.1";
	return inet_pton(AF_INET, host, &v4->sin_addr) == 1 && parse_port(port, &v4->sin_port);
}

static bool parse_v6(const char *host, const char *port, struct sockaddr_storage *out)
{
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)out;

	v6->sin6_family = AF_INET6;
	return inet_pton(AF_INET6, host, &v6->sin6_addr) == 1 && parse_port(port, &v6->sin6_port);
}

int twi_listen_tcp_parse(const char *text, struct sockaddr_storage *out, socklen_t *bytes_out)
{
	char copy[TWI_LISTEN_TCP_BYTES];
	char *colon;
	bool good = false;

	memset(out, 0, sizeof(*out));
	snprintf(copy, sizeof(copy), "%s", text);
	colon = strrchr(copy, ':');
	if (strlen(text) >= sizeof(copy))
		good = false;
	else if (colon == NULL)
		good = parse_v4("127.0.0.1", copy, out);
	else if (copy[0] == '[' && colon > copy + 1 && colon[-1] == ']') {
		colon[-1] = '\0';
		good = parse_v6(copy + 1, colon + 1, out);
	} else {
		*colon = '\0';
		good = parse_v4(copy, colon + 1, out);
	}
	*bytes_out = out->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
						: sizeof(struct sockaddr_in);
	if (good)
		return TOW_OK;
	return twi_error(TOW_EINVAL,
			 "stats_listen '%.80s' is not an address: use PORT, or ADDRESS:PORT "
			 "with a numeric address such as 127.0.0.1:0 or [::1]:9400",
			 text);
}

static void print_address(int fd, struct twi_listen_tcp *out)
{
	struct sockaddr_storage got = { 0 };
	socklen_t bytes = sizeof(got);
	char host[INET6_ADDRSTRLEN] = "";

	getsockname(fd, (struct sockaddr *)&got, &bytes);
	if (got.ss_family == AF_INET6) {
		const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)&got;

		inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
		snprintf(out->address, sizeof(out->address), "[%s]:%u", host, ntohs(v6->sin6_port));
	} else {
		const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)&got;

		inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
		snprintf(out->address, sizeof(out->address), "%s:%u", host, ntohs(v4->sin_port));
	}
}

int twi_listen_tcp_open(const char *text, struct twi_listen_tcp *out)
{
	struct sockaddr_storage address;
	socklen_t bytes;
	int one = 1, err, status = twi_listen_tcp_parse(text, &address, &bytes);

	out->fd = -1;
	if (status < 0)
		return status;
	out->fd = twi_fd_high(
		socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (out->fd < 0)
		return twi_error_errno(TOW_ESYSTEM, errno, "socket for stats_listen %s", text);
	setsockopt(out->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(out->fd, (const struct sockaddr *)&address, bytes) == 0 &&
	    listen(out->fd, BACKLOG) == 0) {
		print_address(out->fd, out);
		return TOW_OK;
	}
	err = errno;
	close(out->fd);
	out->fd = -1;
	if (err == EADDRINUSE)
		return twi_error_errno(TOW_EBUSY, err,
				       "stats_listen %s is in use; give each rank a port of its "
				       "own, or port 0",
				       text);
	return twi_error_errno(err == EACCES ? TOW_EPERM : TOW_ESYSTEM, err, "stats_listen %s",
			       text);
}

void twi_listen_tcp_peer(int fd, uint8_t out[16])
{
	struct sockaddr_storage peer = { 0 };
	socklen_t bytes = sizeof(peer);

	memset(out, 0, 16);
	if (getpeername(fd, (struct sockaddr *)&peer, &bytes) != 0)
		return;
	if (peer.ss_family == AF_INET6) {
		memcpy(out, &((const struct sockaddr_in6 *)(const void *)&peer)->sin6_addr, 16);
	} else if (peer.ss_family == AF_INET) {
		out[10] = out[11] = 0xff;
		memcpy(out + 12, &((const struct sockaddr_in *)(const void *)&peer)->sin_addr, 4);
	}
}
