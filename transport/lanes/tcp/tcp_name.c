/*
 * tcp_name.c - names, numbers and wire form of addresses. See tcp_name.h. Text of a user and bytes
 * of a peer are not trusted: lengths, brackets, ports and families are checked.
 */
#include "transport/lanes/tcp/tcp_name.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "transport/wire/frame.h"

static int bad_address(const char *address, const char *why)
{
	return twi_error(TOW_EINVAL,
			 "address tcp://%s: %s; it is tcp://HOST:PORT or tcp://[IPV6]:PORT",
			 address, why);
}

/* Splits "HOST:PORT" or "[HOST]:PORT". */
static int split_address(const char *address, char host[TOW_ADDRESS_MAX], const char **port_out)
{
	const char *colon = strrchr(address, ':'), *start = address, *end = colon;
	char *rest;
	unsigned long port;

	if (strlen(address) >= TOW_ADDRESS_MAX)
		return bad_address("(too long)", "over 127 bytes");
	if (colon == NULL)
		return bad_address(address, "there is no port");
	if (address[0] == '[') {
		if (colon == address || colon[-1] != ']')
			return bad_address(address, "the bracket is not closed");
		start++;
		end--;
	}
	if (end <= start)
		return bad_address(address, "there is no host");
	errno = 0;
	port = strtoul(colon + 1, &rest, 10);
	if (colon[1] < '0' || colon[1] > '9' || *rest != '\0' || port > 65535 || errno != 0)
		return bad_address(address, "the port is not a number from 0 to 65535");
	snprintf(host, TOW_ADDRESS_MAX, "%.*s", (int)(end - start), start);
	*port_out = colon + 1;
	return TOW_OK;
}

static int look_up(const char *address, int flags, struct twi_tcp_address *out)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags };
	struct addrinfo *found = NULL;
	char host[TOW_ADDRESS_MAX];
	const char *port = NULL;
	int status = split_address(address, host, &port), err;

	if (status < 0)
		return status;
	err = getaddrinfo(host, port, &hints, &found);
	if (err != 0)
		return twi_error(err == EAI_MEMORY   ? TOW_ENOMEM
				 : err == EAI_SYSTEM ? TOW_ESYSTEM
						     : TOW_EINVAL,
				 "address tcp://%s: %s", address, gai_strerror(err));
	*out = (struct twi_tcp_address){ 0 };
	if (found->ai_family == AF_INET)
		out->in = *(const struct sockaddr_in *)(const void *)found->ai_addr;
	else if (found->ai_family == AF_INET6)
		out->in6 = *(const struct sockaddr_in6 *)(const void *)found->ai_addr;
	else
		status = bad_address(address, "it is neither IPv4 nor IPv6");
	out->bytes = found->ai_addrlen;
	freeaddrinfo(found);
	return status;
}

int twi_tcp_resolve(const char *address, bool passive, char out[TOW_ADDRESS_MAX])
{
	struct twi_tcp_address found;
	char text[TOW_ADDRESS_MAX];
	int status = look_up(address, passive ? AI_PASSIVE : 0, &found);

	if (status < 0)
		return status;
	twi_tcp_format(&found, text);
	snprintf(out, TOW_ADDRESS_MAX, "%s", text + strlen("tcp://"));
	return TOW_OK;
}

int twi_tcp_parse(const char *address, struct twi_tcp_address *out)
{
	return look_up(address, AI_NUMERICHOST, out);
}

void twi_tcp_format(const struct twi_tcp_address *address, char out[TOW_ADDRESS_MAX])
{
	char host[TOW_ADDRESS_MAX - 16];

	if (getnameinfo(&address->any, address->bytes, host, sizeof(host), NULL, 0,
			NI_NUMERICHOST) != 0)
		snprintf(host, sizeof(host), "?");
	snprintf(out, TOW_ADDRESS_MAX,
		 address->any.sa_family == AF_INET6 ? "tcp://[%s]:%u" : "tcp://%s:%u", host,
		 twi_tcp_port(address));
}

void twi_tcp_normalize(struct twi_tcp_address *address)
{
	struct sockaddr_in in = { .sin_family = AF_INET };

	if (address->bytes == 0 || address->any.sa_family != AF_INET6 ||
	    !IN6_IS_ADDR_V4MAPPED(&address->in6.sin6_addr))
		return;
	in.sin_port = address->in6.sin6_port;
	memcpy(&in.sin_addr, &address->in6.sin6_addr.s6_addr[12], 4);
	address->in = in;
	address->bytes = sizeof(in);
}

bool twi_tcp_local(int fd, struct twi_tcp_address *out)
{
	*out = (struct twi_tcp_address){ 0 };
	out->bytes = sizeof(out->in6);
	if (getsockname(fd, &out->any, &out->bytes) != 0)
		return false;
	twi_tcp_normalize(out);
	return true;
}

bool twi_tcp_remote(int fd, struct twi_tcp_address *out)
{
	*out = (struct twi_tcp_address){ 0 };
	out->bytes = sizeof(out->in6);
	if (getpeername(fd, &out->any, &out->bytes) != 0)
		return false;
	twi_tcp_normalize(out);
	return true;
}

bool twi_tcp_same_host(const struct twi_tcp_address *a, const struct twi_tcp_address *b)
{
	if (a->bytes == 0 || b->bytes == 0 || a->any.sa_family != b->any.sa_family)
		return false;
	if (a->any.sa_family == AF_INET)
		return a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
	return memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, sizeof(a->in6.sin6_addr)) == 0;
}

bool twi_tcp_wildcard(const struct twi_tcp_address *address)
{
	if (address->any.sa_family == AF_INET)
		return address->in.sin_addr.s_addr == htonl(INADDR_ANY);
	return IN6_IS_ADDR_UNSPECIFIED(&address->in6.sin6_addr) != 0;
}

bool twi_tcp_loopback(const struct twi_tcp_address *address)
{
	if (address->any.sa_family == AF_INET)
		return ntohl(address->in.sin_addr.s_addr) >> 24 == 127;
	return IN6_IS_ADDR_LOOPBACK(&address->in6.sin6_addr) != 0;
}

bool twi_tcp_link_local(const struct twi_tcp_address *address)
{
	if (address->any.sa_family == AF_INET)
		return ntohl(address->in.sin_addr.s_addr) >> 16 == 0xa9fe;
	return IN6_IS_ADDR_LINKLOCAL(&address->in6.sin6_addr) != 0;
}

static bool is_multicast(const struct twi_tcp_address *address)
{
	if (address->any.sa_family == AF_INET)
		return ntohl(address->in.sin_addr.s_addr) >> 28 >= 14; /* and broadcast */
	return IN6_IS_ADDR_MULTICAST(&address->in6.sin6_addr) != 0;
}

uint16_t twi_tcp_port(const struct twi_tcp_address *address)
{
	return ntohs(address->any.sa_family == AF_INET ? address->in.sin_port
						       : address->in6.sin6_port);
}

void twi_tcp_set_port(struct twi_tcp_address *address, uint16_t port)
{
	if (address->any.sa_family == AF_INET)
		address->in.sin_port = htons(port);
	else
		address->in6.sin6_port = htons(port);
}

/*
 *     0 | count | 0 0 0 | then four rows of: address (16, IPv4 as ::ffff:a.b.c.d), port (2)
 *
 * Rows from `count` on are zero.
 */
void twi_tcp_advertised_put(uint8_t out[TWI_TCP_ADVERTISED_BYTES],
			    const struct twi_tcp_advertised *advertised)
{
	/* Read once, because for the compiler `out` may overlap `advertised`. */
	const unsigned count = advertised->count;

	twi_assert(count <= TWI_TCP_ADVERTISED_MAX);
	memset(out, 0, TWI_TCP_ADVERTISED_BYTES);
	out[0] = (uint8_t)count;
	for (unsigned i = 0; i < count; i++) {
		const struct twi_tcp_address *row = &advertised->rows[i];
		uint8_t *at = out + 4 + i * 18;

		if (row->any.sa_family == AF_INET) {
			at[10] = at[11] = 0xff;
			memcpy(at + 12, &row->in.sin_addr, 4);
		} else {
			memcpy(at, &row->in6.sin6_addr, 16);
		}
		twi_put_le16(at + 16, twi_tcp_port(row));
	}
}

static void get_row(const uint8_t *at, struct twi_tcp_address *out)
{
	*out = (struct twi_tcp_address){ .bytes = sizeof(out->in6) };
	out->in6.sin6_family = AF_INET6;
	memcpy(&out->in6.sin6_addr, at, 16);
	twi_tcp_normalize(out);
	twi_tcp_set_port(out, twi_get_le16(at + 16));
}

int twi_tcp_advertised_get(const uint8_t in[TWI_TCP_ADVERTISED_BYTES], bool local,
			   struct twi_tcp_advertised *out)
{
	struct twi_tcp_advertised advertised = { .count = in[0] };
	uint8_t again[TWI_TCP_ADVERTISED_BYTES];

	if (advertised.count > TWI_TCP_ADVERTISED_MAX)
		return twi_error(TOW_EPROTOCOL, "a peer sent %u addresses, more than %u",
				 advertised.count, TWI_TCP_ADVERTISED_MAX);
	for (unsigned i = 0; i < advertised.count; i++) {
		struct twi_tcp_address *row = &advertised.rows[i];

		get_row(in + 4 + i * 18, row);
		if (twi_tcp_port(row) == 0 || twi_tcp_wildcard(row) || is_multicast(row) ||
		    (!local && (twi_tcp_loopback(row) || twi_tcp_link_local(row))))
			return twi_error(TOW_EPROTOCOL,
					 "a peer sent an address that cannot be reached");
	}
	/* There is one encoding: reserved bytes are zero. */
	twi_tcp_advertised_put(again, &advertised);
	if (memcmp(again, in, TWI_TCP_ADVERTISED_BYTES) != 0)
		return twi_error(TOW_EPROTOCOL, "a peer's ADDRESS record is malformed");
	*out = advertised;
	return TOW_OK;
}
