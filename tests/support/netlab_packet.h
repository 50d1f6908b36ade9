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

static inline uint64_t nl_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NL_SECOND + (uint64_t)ts.tv_nsec;
}

/* Where things are in an IPv4 packet with a TCP segment; false: it is something else. */
struct nl_tcp {
	uint16_t port[2]; /* source, destination */
	uint32_t seq, ack, payload;
	uint8_t flags;
};

#define NL_FIN 0x01u
#define NL_SYN 0x02u
#define NL_RST 0x04u
#define NL_ACK 0x10u

static inline uint32_t nl_be16(const uint8_t *at)
{
	return (uint32_t)at[0] << 8 | at[1];
}

static inline uint32_t nl_be32(const uint8_t *at)
{
	return nl_be16(at) << 16 | nl_be16(at + 2);
}

static inline void nl_put_be16(uint8_t *at, uint32_t v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
}

static inline void nl_put_be32(uint8_t *at, uint32_t v)
{
	nl_put_be16(at, v >> 16);
	nl_put_be16(at + 2, v);
}

/* The internet checksum's sum of `bytes` (an even number, or the last of all). */
static inline uint32_t nl_sum(const uint8_t *at, size_t bytes, uint32_t sum)
{
	for (size_t i = 0; i + 1 < bytes; i += 2)
		sum += nl_be16(at + i);
	if (bytes % 2 != 0)
		sum += (uint32_t)at[bytes - 1] << 8;
	return sum;
}

static inline uint32_t nl_fold(uint32_t sum)
{
	sum = (sum >> 16) + (sum & 0xffff);
	return ~(sum + (sum >> 16)) & 0xffff;
}

static inline bool nl_parse(const uint8_t *packet, size_t bytes, struct nl_tcp *out)
{
	const size_t ip = bytes > 0 ? (size_t)(packet[0] & 15) * 4 : 0;
	const uint8_t *tcp = packet + ip;
	size_t header;

	if (bytes < 40 || packet[0] >> 4 != 4 || packet[9] != 6 || ip < 20 || bytes < ip + 20)
		return false;
	header = (size_t)(tcp[12] >> 4) * 4;
	if (bytes < ip + header)
		return false;
	out->port[0] = (uint16_t)nl_be16(tcp);
	out->port[1] = (uint16_t)nl_be16(tcp + 2);
	out->seq = nl_be32(tcp + 4);
	out->ack = nl_be32(tcp + 8);
	out->flags = tcp[13];
	out->payload = (uint32_t)(bytes - ip - header);
	return true;
}

/* A RST from where a segment went, to where it came from; `addresses` are those of its packet. */
static inline void nl_make_reset(uint8_t p[NL_RESET_BYTES], const uint8_t *addresses,
				 const struct nl_tcp *tcp)
{
	const uint32_t ends = (tcp->flags & (NL_SYN | NL_FIN)) != 0;

	memset(p, 0, NL_RESET_BYTES);
	p[0] = 0x45;
	p[3] = NL_RESET_BYTES;
	p[6] = 0x40;
	p[8] = 64;
	p[9] = 6;
	memcpy(p + 12, addresses + 4, 4);
	memcpy(p + 16, addresses, 4);
	nl_put_be16(p + 10, nl_fold(nl_sum(p, 20, 0)));
	nl_put_be16(p + 20, tcp->port[1]);
	nl_put_be16(p + 22, tcp->port[0]);
	/* Only a RST at the very place that its receiver awaits is believed. */
	nl_put_be32(p + 24, tcp->ack);
	nl_put_be32(p + 28, tcp->seq + tcp->payload + ends);
	p[32] = 5 << 4;
	p[33] = NL_RST | NL_ACK;
	nl_put_be16(p + 36, nl_fold(nl_sum(p + 20, 20, nl_sum(p + 12, 8, 6 + 20))));
}

#endif
