/*
 * netlab_link.h - a network cable in this process, between two tun devices: packets that come out
 * of one go into the other, later, or never, as told. See netlab.h for the two namespaces.
 *
 *	side 0            this process                         side 1
 *	tun fd --read--> judge --> [ queue by due time ] --write--> tun fd
 *	       <--write--        <-- [ queue ] <-- judge <--read--
 *
 * It delays and jitters (in order), loses by seed, caps the rate with a bounded queue in front of
 * it, drops everything while it is cut, and can end TCP connections as a firewall does that has
 * forgotten them: every further packet of one is answered with a RST and dropped.
 *
 * One thread; nothing is allocated after opening.
 */
#ifndef TWT_NETLAB_LINK_H
#define TWT_NETLAB_LINK_H

#include "netlab_packet.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define NL_MTU   1500
#define NL_QUEUE 2048 /* packets that may wait in each direction */
#define NL_FLOWS 256  /* connections that are told apart */

struct twt_nl_shape {
	uint64_t delay_ns, jitter_ns;
	uint64_t bytes_per_second; /* 0: as fast as it goes */
	uint32_t loss_ppm;
	bool cut;      /* nothing passes */
	unsigned mute; /* bit i: nothing that side i sends passes */
};

struct twt_nl_packet {
	uint64_t due_ns;
	uint32_t bytes;
	uint8_t data[NL_MTU];
};

struct twt_nl_queue {
	struct twt_nl_packet *packets; /* NL_QUEUE of them */
	uint32_t head, tail;
	uint64_t busy_ns; /* until when the capped link is sending */
	uint64_t passed, lost, full;
};

/* A TCP connection by its ports, which of them is whose known by the side. */
struct twt_nl_flow {
	uint16_t port[2];
	bool known, dead;
	uint64_t payload[2];
	uint64_t seen_ns;
};

struct twt_nl_link {
	int fd[2];
	struct twt_nl_shape shape;
	struct twt_nl_queue queue[2]; /* [i]: what side i has sent */
	struct twt_nl_flow flows[NL_FLOWS];
	uint64_t random;
	uint64_t cut_flow_at; /* a connection that has carried this much payload one way dies; 0 */
	uint64_t resets;      /* connections ended */
};

/* Ends every connection that is there. Each side hears of it with the next packet that it sends. */
void twt_nl_link_reset(struct twt_nl_link *link);

/* Moves packets until `until_ns`, or one round where nothing waits. */
void twt_nl_link_turn(struct twt_nl_link *link, uint64_t until_ns);

bool twt_nl_link_open(struct twt_nl_link *link, int fd0, int fd1, uint64_t seed);

void twt_nl_link_close(struct twt_nl_link *link);

#endif
