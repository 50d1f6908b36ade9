/*
 * tcp_socket.h - the knobs of a socket, and what the kernel says of a connection.
 *
 * A set-up that the kernel refuses is said once for each runtime, by the knob's name, and the
 * connection goes on without: none of these decides whether bytes arrive.
 */
#ifndef TWI_TCP_SOCKET_H
#define TWI_TCP_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "diag/base/emit.h"

struct twi_engine;

/* What is set up, one bit each: of what was refused and said. */
enum twi_tcp_setting {
	TWI_SET_CONGESTION,
	TWI_SET_BUFFER,
	TWI_SET_BUSY_POLL,
	TWI_SET_HEARTBEAT,
	TWI_SET_TIMEOUT,
	TWI_SET_NODELAY,
};

/*
 * A socket for `what` could not be had, with that errno. TOW_EBUSY: descriptors have run out, and
 * the message names the limit; else TOW_ESYSTEM.
 */
int twi_tcp_no_socket(int err, const char *what);

/* Before connect or listen: what a connection inherits from its listener is set there. */
void twi_tcp_socket_setup(struct twi_engine *engine, uint32_t *refused, int fd);

/* When it is up: congestion control and send buffer, by how near the other end is. */
enum twi_tcp_reach {
	TWI_TCP_REACH_HOST,  /* both ends have one address */
	TWI_TCP_REACH_SHORT, /* the handshake took no time */
	TWI_TCP_REACH_LONG,
};

enum twi_tcp_reach twi_tcp_route_setup(const struct twi_engine *engine, int fd);

/* TCP_INFO, at most every TWI_SAMPLE_NS. */
#define TWI_SAMPLE_NS (100ull * 1000 * 1000)

/* How a redial was answered, where it was. */
enum twi_tcp_denial {
	TWI_TCP_NO_ANSWER,
	TWI_TCP_NOBODY,  /* ECONNREFUSED: nobody listens there any more */
	TWI_TCP_UNKNOWN, /* our words were read, and the connection ended */
};

struct twi_tcp_sample {
	uint64_t at_ns;
	bool taken;
	uint8_t reach; /* enum twi_tcp_reach */
	uint32_t rtt_us, rttvar_us;
	uint32_t cwnd, mss;
	uint32_t retransmits; /* segments, since the start */
	uint64_t delivery_bytes_per_s;
	char congestion[16];
};

/* Refreshes *sample when it is older than that, and writes its members. */
void twi_tcp_sample_describe(struct twi_tcp_sample *sample, int fd, uint64_t now_ns,
			     struct twi_emit *emit);

#endif
