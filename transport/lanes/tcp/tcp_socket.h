/*
 * tcp_socket.h - the knobs of a socket, and the kernel's state of a connection.
 *
 * A setting that the kernel refuses is logged once for each runtime, with the knob's name. The
 * connection goes on without it, because none of the settings decides whether bytes arrive.
 */
#ifndef TWI_TCP_SOCKET_H
#define TWI_TCP_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "diag/base/emit.h"

struct twi_engine;

/* The settings, one bit each, to record those that were refused and logged. */
enum twi_tcp_setting {
	TWI_SET_CONGESTION,
	TWI_SET_BUFFER,
	TWI_SET_BUSY_POLL,
	TWI_SET_HEARTBEAT,
	TWI_SET_TIMEOUT,
	TWI_SET_NODELAY,
};

/* Called before connect or listen, because a connection inherits the settings of its listener. */
void twi_tcp_socket_setup(struct twi_engine *engine, uint32_t *refused, int fd);

/*
 * Called when a stream is up: chooses the congestion control, and limits unsent bytes, by the
 * distance of the peer.
 */
enum twi_tcp_reach {
	TWI_TCP_REACH_HOST,  /* both ends have one address */
	TWI_TCP_REACH_SHORT, /* the handshake took no time */
	TWI_TCP_REACH_LONG,
};

enum twi_tcp_reach twi_tcp_route_setup(const struct twi_engine *engine, int fd);

/* Least time between two reads of TCP_INFO for a description. */
#define TWI_SAMPLE_NS (100ull * 1000 * 1000)

/* How a redial was answered, if it was. */
enum twi_tcp_denial {
	TWI_TCP_NO_ANSWER,
	TWI_TCP_NOBODY,  /* ECONNREFUSED: no process listens there any more */
	TWI_TCP_UNKNOWN, /* our HELLO was read, and the connection ended */
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

/* Refreshes *sample if it is older than TWI_SAMPLE_NS, and writes its members. */
void twi_tcp_sample_describe(struct twi_tcp_sample *sample, int fd, uint64_t now_ns,
			     struct twi_emit *emit);

#endif
