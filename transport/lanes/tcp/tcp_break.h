/*
 * tcp_break.h - lines that broke, and silent peers.
 *
 *	broken          the stream has ended; the thread's error says why; since_ns (0: now) is
 *	                when it was last alive; this may lose, and free, the peer
 *	superseded      the other side has a new stream for the line; the peer stays
 *	returns         a whole line had left a path, and that path is connected again: the line's
 *	                stream is ended, and the new stream continues its handshake
 *	mended          the line has a stream again
 *	attempt_failed  a redial has failed; the thread's error says why; false: the peer is
 *	                lost, and may be freed
 */
#ifndef TWI_TCP_BREAK_H
#define TWI_TCP_BREAK_H

#include "transport/lanes/tcp/tcp.h"

void twi_tcp_line_broken(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer, unsigned line,
			 uint64_t since_ns);
void twi_tcp_line_superseded(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer, unsigned line);
void twi_tcp_line_returns(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer, unsigned line);
void twi_tcp_line_mended(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer, unsigned line);
bool twi_tcp_attempt_failed(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer, unsigned line,
			    enum twi_tcp_denial denial);
/* The process of the peer has ended (lane.h). */
void twi_tcp_process_ended(struct tow_peer *base);
/* A peer is up: the lane looks for silence from now on. */
void twi_tcp_beat_start(struct twi_tcp_lane *lane);
/* Does all work that is due by the clock. */
void twi_tcp_clock(struct twi_tcp_lane *lane, uint64_t now_ns);

#endif
