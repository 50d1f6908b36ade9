/* netlab_packet.c - packets of IPv4 and TCP. */
#include "netlab_packet.h"

uint64_t twt_nl_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NL_SECOND + (uint64_t)ts.tv_nsec;
}

static uint32_t twt_nl_be16(const uint8_t *at)
{
	return (uint32_t)at[0] << 8 | at[1];
}

static uint32_t twt_nl_be32(const uint8_t *at)
{
	return twt_nl_be16(at) << 16 | twt_nl_be16(at + 2);
}

static void twt_nl_put_be16(uint8_t *at, uint32_t v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
}

static void twt_nl_put_be32(uint8_t *at, uint32_t v)
{
	twt_nl_put_be16(at, v >> 16);
	twt_nl_put_be16(at + 2, v);
}

/* The internet checksum's sum of `bytes` (an even number, or the last of all). */
static uint32_t twt_nl_sum(const uint8_t *at, size_t bytes, uint32_t sum)
{
	for (size_t i = 0; i + 1 < bytes; i += 2)
		sum += twt_nl_be16(at + i);
	if (bytes % 2 != 0)
		sum += (uint32_t)at[bytes - 1] << 8;
	return sum;
}

static uint32_t twt_nl_fold(uint32_t sum)
{
	sum = (sum >> 16) + (sum & 0xffff);
	return ~(sum + (sum >> 16)) & 0xffff;
}

bool twt_nl_parse(const uint8_t *packet, size_t bytes, struct twt_nl_tcp *out)
{
	const size_t ip = bytes > 0 ? (size_t)(packet[0] & 15) * 4 : 0;
	const uint8_t *tcp = packet + ip;
	size_t header;

	if (bytes < 40 || packet[0] >> 4 != 4 || packet[9] != 6 || ip < 20 || bytes < ip + 20)
		return false;
	header = (size_t)(tcp[12] >> 4) * 4;
	if (bytes < ip + header)
		return false;
	out->port[0] = (uint16_t)twt_nl_be16(tcp);
	out->port[1] = (uint16_t)twt_nl_be16(tcp + 2);
	out->seq = twt_nl_be32(tcp + 4);
	out->ack = twt_nl_be32(tcp + 8);
	out->flags = tcp[13];
	out->payload = (uint32_t)(bytes - ip - header);
	return true;
}

void twt_nl_make_reset(uint8_t p[NL_RESET_BYTES], const uint8_t *addresses,
		       const struct twt_nl_tcp *tcp)
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
	twt_nl_put_be16(p + 10, twt_nl_fold(twt_nl_sum(p, 20, 0)));
	twt_nl_put_be16(p + 20, tcp->port[1]);
	twt_nl_put_be16(p + 22, tcp->port[0]);
	/* Only a RST at the very place that its receiver awaits is believed. */
	twt_nl_put_be32(p + 24, tcp->ack);
	twt_nl_put_be32(p + 28, tcp->seq + tcp->payload + ends);
	p[32] = 5 << 4;
	p[33] = NL_RST | NL_ACK;
	twt_nl_put_be16(p + 36, twt_nl_fold(twt_nl_sum(p + 20, 20, twt_nl_sum(p + 12, 8, 6 + 20))));
}
