/*
 * tcp_stall.h - stalled connections: nothing is acknowledged on one, while the peer can be reached
 * over another path. A rail was cut. The line is broken and resumed over a path that works. This
 * happens long before the kernel or the silence of the peer would show the fault.
 *
 * Only peers with several paths are examined, and only while bytes are on their way to them. A look
 * comes every 10 ms, and reads at most 64 of their connections (TCP_INFO: a microsecond each).
 */
#ifndef TWI_TCP_STALL_H
#define TWI_TCP_STALL_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/lanes/tcp/tcp_name.h"

struct twi_tcp_lane;
struct twi_tcp_peer;

/* A stream at the last look. */
struct twi_tcp_pulse {
	uint64_t tx_bytes, acked_bytes;
	uint32_t acks; /* segments without data that have come */
	uint64_t
		since_ns; /* nothing was acknowledged since then, though it is owed; 0: it is not */
	uint32_t looks;   /* in a row that saw nothing acknowledged */
	bool idle;        /* all that was sent by then is acknowledged */
};

/* A path: the two ends of a stream, without their ports. */
struct twi_tcp_way {
	struct twi_tcp_address local, remote;
};

/* Recent stalls of a line. */
struct twi_tcp_stall {
	bool shuns;             /* stalled: `way` is dialed only if there is no other path */
	bool left;              /* the line has left its path, and goes back when it can */
	struct twi_tcp_way way; /* the path that it had */
	uint8_t times;          /* how often its patience has doubled */
	uint64_t last_ns;
	uint64_t back_ns, back_wait_ns; /* next time to go back; the wait after the last try */
};

/* The stall state of the lane. */
struct twi_tcp_stalls {
	uint64_t look_ns; /* when to look next; UINT64_MAX: when bytes are sent */
	uint64_t back_ns; /* when a line may go back; UINT64_MAX: none has left its path */
	uint32_t from;    /* the first peer of the next look */
};

/* After the lines of the peer were made, or one was mended: finds whether it has several paths. */
void twi_tcp_stall_ways(struct twi_tcp_peer *peer);

/* Bytes are sent to a peer with several paths: the lane examines it from now on. */
void twi_tcp_stall_begin(struct twi_tcp_lane *lane);

/* Looks, if it is time to. Returns when to look next; UINT64_MAX: when bytes are sent. */
uint64_t twi_tcp_stall_look(struct twi_tcp_lane *lane, uint64_t now_ns);

/* The line has a stream again. If it left its path because of a stall, it is to go back later. */
void twi_tcp_stall_mended(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer, unsigned line);

/*
 * Dials lines that have left their path over that path again, if it is time to. The first try comes
 * after 1 s, each later one after twice the time, up to a minute. The line stays as it is until
 * such a connect has succeeded. Returns when to call again.
 */
uint64_t twi_tcp_stall_return(struct twi_tcp_lane *lane, uint64_t now_ns);

/* tcp_dial.c: begins that connect, as the line's trial. Below TOW_OK: its interface is down. */
int twi_tcp_dial_back(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer, unsigned line);

#endif
