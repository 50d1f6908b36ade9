/*
 * tcp_name.h - addresses of the tcp lane in three forms: the user's text, the kernel's struct, and
 * the 18 bytes that are sent to a peer.
 *
 *	"node7:4000" --resolve, may wait for a name server--> "10.0.0.7:4000"
 *	             --parse, at once----------------------> struct twi_tcp_address
 */
#ifndef TWI_TCP_NAME_H
#define TWI_TCP_NAME_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include <towline/endpoint.h>

struct twi_tcp_address {
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	};
	socklen_t bytes; /* 0: no address */
};

/* How many addresses are sent to a peer, and their bytes on the wire. */
#define TWI_TCP_ADVERTISED_MAX   4u
#define TWI_TCP_ADVERTISED_BYTES (4u + TWI_TCP_ADVERTISED_MAX * 18u)

struct twi_tcp_advertised {
	unsigned count;
	struct twi_tcp_address rows[TWI_TCP_ADVERTISED_MAX];
};

/* lane.h's resolve: "HOST:PORT" or "[HOST]:PORT" becomes the same with numbers. */
int twi_tcp_resolve(const char *address, bool passive, char out[TOW_ADDRESS_MAX]);

/* Parses the output of resolve. TOW_OK, TOW_EINVAL. */
int twi_tcp_parse(const char *address, struct twi_tcp_address *out);

/* "tcp://10.0.0.7:4000", "tcp://[fe80::1%eth0]:4000". */
void twi_tcp_format(const struct twi_tcp_address *address, char out[TOW_ADDRESS_MAX]);

/* The two ends of a socket. False: the kernel does not know them, as the connection is gone. */
bool twi_tcp_local(int fd, struct twi_tcp_address *out);
bool twi_tcp_remote(int fd, struct twi_tcp_address *out);

/* Turns an IPv4 address in IPv6 form (::ffff:a.b.c.d) into plain IPv4. */
void twi_tcp_normalize(struct twi_tcp_address *address);

/* same_host ignores the ports. */
bool twi_tcp_same_host(const struct twi_tcp_address *a, const struct twi_tcp_address *b);
bool twi_tcp_wildcard(const struct twi_tcp_address *address);
bool twi_tcp_loopback(const struct twi_tcp_address *address);
bool twi_tcp_link_local(const struct twi_tcp_address *address);

uint16_t twi_tcp_port(const struct twi_tcp_address *address);
void twi_tcp_set_port(struct twi_tcp_address *address, uint16_t port);

/*
 * The ADDRESS record (docs/wire.md). get: TOW_OK; TOW_EPROTOCOL: it is no such record. Addresses
 * that mean nothing on another host (loopback, link-local, wildcard, multicast) are refused. With
 * `local`, both ends of the connection are one host, and loopback and link-local are allowed.
 */
void twi_tcp_advertised_put(uint8_t out[TWI_TCP_ADVERTISED_BYTES],
			    const struct twi_tcp_advertised *advertised);
int twi_tcp_advertised_get(const uint8_t in[TWI_TCP_ADVERTISED_BYTES], bool local,
			   struct twi_tcp_advertised *out);

#endif
