/*
 * tcp_stall.h - a connection on which nothing is acknowledged while the peer can be reached by
 * another way: a rail that was cut. It is broken, and resumed by a way that works, long before its
 * kernel or the silence of the peer would say anything.
 *
 * Only peers that are connected by several ways are looked at, while something is on its way to
 * them: every 10 ms, at most 64 of their connections (TCP_INFO: a microsecond each).
 */
#ifndef TWI_TCP_STALL_H
#define TWI_TCP_STALL_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/lanes/tcp/tcp_name.h"

struct twi_tcp_lane;
struct twi_tcp_peer;

/* What a stream looked like the last time. */
struct twi_tcp_pulse {
	uint64_t tx_bytes, acked_bytes;
	uint32_t acks; /* segments without data that have come */
	uint64_t
		since_ns; /* nothing was acknowledged since then, though it is owed; 0: it is not */
	uint32_t looks;   /* in a row that saw nothing acknowledged */
	bool idle;        /* all that was sent by then is acknowledged */
};

/* The two ends of a stream, without their ports. */
struct twi_tcp_way {
	struct twi_tcp_address local, remote;
};

/* Of a line: how it has stalled lately. */
struct twi_tcp_stall {
	bool shuns;             /* it does: `way` is dialed only for want of others */
	bool left;              /* it has another way since then, and goes back when it can */
	struct twi_tcp_way way; /* by which it went */
	uint8_t times;          /* its patience has doubled so often */
	uint64_t last_ns;
	uint64_t back_ns, back_wait_ns; /* when that is tried next; how long after the last time */
};

/* Of the lane. */
struct twi_tcp_stalls {
	uint64_t look_ns; /* when to look next; UINT64_MAX: when something is sent */
	uint64_t back_ns; /* when a line may go back to its way; UINT64_MAX: none has left it */
	uint32_t from;    /* the first peer that is looked at then */
};

/* The lines of the peer have been made, or one was mended: it has several ways, or not. */
void twi_tcp_stall_ways(struct twi_tcp_peer *peer);

/* Bytes go to a peer that has several ways: the lane looks at it from now on. */
void twi_tcp_stall_begin(struct twi_tcp_lane *lane);

/* Looks, if it is time to. Returns when to look next; UINT64_MAX: when something is sent. */
uint64_t twi_tcp_stall_look(struct twi_tcp_lane *lane, uint64_t now_ns);

/* The line has a stream again. One that has left its way for a stall is to go back. */
void twi_tcp_stall_mended(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer, unsigned line);

/*
 * Lines that have left their way are dialed by it once more, if it is time to: after 1 s, then
 * after twice as long each time, up to a minute. Nothing of the line is touched before such a
 * connect has succeeded. Returns when to call again.
 */
uint64_t twi_tcp_stall_return(struct twi_tcp_lane *lane, uint64_t now_ns);

/* tcp_dial.c: begins that connect, as the line's trial. Below TOW_OK: its interface is down. */
int twi_tcp_dial_back(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer, unsigned line);

#endif
