/*
 * tcp_measure.h - state of the connections to a peer (tcp_measure.c).
 */
#ifndef TWI_TCP_MEASURE_H
#define TWI_TCP_MEASURE_H

#include <stdint.h>

struct tow_op;
struct tow_peer;
struct twi_state_dial;
struct twi_state_link;
struct twi_state_stream;
struct twi_tcp_lane;

/*
 * All connections to a peer together: since when nothing that was sent has been acknowledged, and
 * how much had been acknowledged by then.
 */
struct twi_tcp_watch {
	uint64_t since_ns; /* 0: all is acknowledged, or some was just now */
	uint64_t acked_bytes;
	uint32_t segments_in, heard_segments, backoffs;
	uint64_t pinged_ns;
};

/*
 * dial_measure: the kernel's state of a connect that is under way. peer_measure: of the connections
 * to a peer. peer_streams: of each bulk stream, if there are several. watch_silent: while a caller
 * waits, looks at the connections of silent peers, and pings these from time to time. It returns
 * when it is to be called again.
 */
void twi_tcp_dial_measure(const struct tow_op *op, struct twi_state_dial *out);
void twi_tcp_peer_measure(struct tow_peer *base, struct twi_state_link *out, char *fabric);
uint32_t twi_tcp_peer_streams(struct tow_peer *base, struct twi_state_stream *out, uint32_t room);
uint64_t twi_tcp_watch_silent(struct twi_tcp_lane *lane, uint64_t now_ns);

#endif
