/*
 * listen_tcp.h - where the stats are served over TCP, as people write it:
 *
 *	9400               port 9400 of 127.0.0.1
 *	127.0.0.1:9400     likewise
 *	localhost:9400     likewise
 *	[::1]:9400         of IPv6
 *	10.0.0.7:9400      another address of this host, by number: others can reach it then
 *	0.0.0.0:9400       all of them
 *	127.0.0.1:0        a port that the kernel chooses; /v1/info says which
 */
#ifndef TWI_LISTEN_TCP_H
#define TWI_LISTEN_TCP_H

#include <stdint.h>
#include <sys/socket.h>

#define TWI_LISTEN_TCP_BYTES 64 /* of an address in text, with its final NUL */

struct twi_listen_tcp {
	int fd;
	char address[TWI_LISTEN_TCP_BYTES]; /* with the port that it has got */
};

/* TOW_EINVAL: it is no address. */
int twi_listen_tcp_parse(const char *text, struct sockaddr_storage *out, socklen_t *bytes_out);

/* TOW_EINVAL; TOW_EBUSY: the port is taken; TOW_EPERM; TOW_ESYSTEM. fd is the caller's. */
int twi_listen_tcp_open(const char *text, struct twi_listen_tcp *out);

/* The other side of a connection as 16 bytes: IPv6, or IPv4 mapped into it; zeros: neither. */
void twi_listen_tcp_peer(int fd, uint8_t out[16]);

#endif
