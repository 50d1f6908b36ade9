/*
 * listen_tcp.h - parses and opens the address where the stats are served over TCP:
 *
 *	9400               port 9400 of 127.0.0.1
 *	127.0.0.1:9400     likewise
 *	localhost:9400     likewise
 *	[::1]:9400         port 9400 of IPv6's loopback
 *	10.0.0.7:9400      another address of this host, in numbers: other hosts can reach it
 *	0.0.0.0:9400       all addresses of IPv4
 *	127.0.0.1:0        a port that the kernel chooses; /v1/info has its number
 */
#ifndef TWI_LISTEN_TCP_H
#define TWI_LISTEN_TCP_H

#include <stdint.h>
#include <sys/socket.h>

#define TWI_LISTEN_TCP_BYTES 64 /* for an address as text, with its NUL */

struct twi_listen_tcp {
	int fd;
	char address[TWI_LISTEN_TCP_BYTES]; /* with the port in use */
};

/* TOW_EINVAL: the text is not an address. */
int twi_listen_tcp_parse(const char *text, struct sockaddr_storage *out, socklen_t *bytes_out);

/* TOW_EINVAL; TOW_EBUSY: the port is taken; TOW_EPERM; TOW_ESYSTEM. The caller owns fd. */
int twi_listen_tcp_open(const char *text, struct twi_listen_tcp *out);

/* The peer's address in 16 bytes: IPv6, or IPv4 mapped into it. Any other kind: zeros. */
void twi_listen_tcp_peer(int fd, uint8_t out[16]);

#endif
