/*
 * tcp_part.h - how two sides part: what each says last, and when its streams are closed.
 *
 *	this side closes                     the other side
 *	----------------                     --------------
 *	what is buffered, BYE, end  ------>  has read all: its operations end
 *	has read it: closes         <------  BYE, end
 *
 * The answer is the feature tcp_byes. Without it, the end of the other side's stream is the answer.
 * The network can end a stream as well, before the BYE has been read. With the answer, such an end
 * is a break: the control stream is resumed, and what was lost is sent again.
 *
 *	part    the peer's operations end now, with the status and the thread's error; the control
 *	        stream when BYE is out and answered, or after TWI_LINGER_NS
 *	answer  the peer has said BYE: what has come before it was delivered
 *	finish  after a part: shuts the stream down when its last byte has been sent
 *	ended   the stream has ended (0) or failed (-errno)
 *
 * All but answer may lose, and free, the peer.
 */
#ifndef TWI_TCP_PART_H
#define TWI_TCP_PART_H

#include "transport/lanes/tcp/tcp.h"

#define TWI_LINGER_NS (1000ull * 1000 * 1000)

void twi_tcp_peer_part(struct twi_tcp_peer *peer, int status);
void twi_tcp_part_answer(struct twi_tcp_peer *peer);
void twi_tcp_part_finish(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer);
void twi_tcp_stream_ended(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream, int res);

#endif
