/*
 * netlab_packet.h - reading TCP over IPv4 as it comes out of a tun, and the RST that answers it.
 */
#ifndef TWT_NETLAB_PACKET_H
#define TWT_NETLAB_PACKET_H

#include "twt.h"

#include <stdbool.h>
#include <string.h>

#define NL_SECOND      1000000000ull
#define NL_MS          1000000ull
#define NL_RESET_BYTES 40

uint64_t twt_nl_now(void);

/* Where things are in an IPv4 packet with a TCP segment; false: it is something else. */
struct twt_nl_tcp {
	uint16_t port[2]; /* source, destination */
	uint32_t seq, ack, payload;
	uint8_t flags;
};

#define NL_FIN 0x01u
#define NL_SYN 0x02u
#define NL_RST 0x04u
#define NL_ACK 0x10u

bool twt_nl_parse(const uint8_t *packet, size_t bytes, struct twt_nl_tcp *out);

/* A RST from where a segment went, to where it came from; `addresses` are those of its packet. */
void twt_nl_make_reset(uint8_t p[NL_RESET_BYTES], const uint8_t *addresses,
		       const struct twt_nl_tcp *tcp);

#endif
