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

struct nl_shape {
	uint64_t delay_ns, jitter_ns;
	uint64_t bytes_per_second; /* 0: as fast as it goes */
	uint32_t loss_ppm;
	bool cut;      /* nothing passes */
	unsigned mute; /* bit i: nothing that side i sends passes */
};

struct nl_packet {
	uint64_t due_ns;
	uint32_t bytes;
	uint8_t data[NL_MTU];
};

struct nl_queue {
	struct nl_packet *packets; /* NL_QUEUE of them */
	uint32_t head, tail;
	uint64_t busy_ns; /* until when the capped link is sending */
	uint64_t passed, lost, full;
};

/* A TCP connection by its ports, which of them is whose known by the side. */
struct nl_flow {
	uint16_t port[2];
	bool known, dead;
	uint64_t payload[2];
	uint64_t seen_ns;
};

struct nl_link {
	int fd[2];
	struct nl_shape shape;
	struct nl_queue queue[2]; /* [i]: what side i has sent */
	struct nl_flow flows[NL_FLOWS];
	uint64_t random;
	uint64_t cut_flow_at; /* a connection that has carried this much payload one way dies; 0 */
	uint64_t resets;      /* connections ended */
};

static inline void nl_deliver(struct nl_link *link, int to, const uint8_t *packet, size_t bytes)
{
	/* A namespace that is gone, or a device that is full: a packet is lost, as packets are. */
	if (write(link->fd[to], packet, bytes) != (ssize_t)bytes)
		link->queue[!to].lost++;
}

/* Gives side `to` a RST that says it is from where its own `packet` went. */
static inline void nl_reset_to(struct nl_link *link, int to, const uint8_t *packet,
			       const struct nl_tcp *tcp)
{
	uint8_t reset[NL_RESET_BYTES];

	nl_make_reset(reset, packet + 12, tcp);
	nl_deliver(link, to, reset, sizeof(reset));
}

/* The flow of a segment that side `from` sends; the one that was silent longest makes room. */
static inline struct nl_flow *nl_flow_of(struct nl_link *link, int from, const struct nl_tcp *tcp)
{
	const uint16_t mine = tcp->port[0], theirs = tcp->port[1];
	struct nl_flow *oldest = &link->flows[0];

	for (unsigned i = 0; i < NL_FLOWS; i++) {
		struct nl_flow *flow = &link->flows[i];

		if (flow->known && flow->port[from] == mine && flow->port[!from] == theirs)
			return flow;
		if (flow->seen_ns < oldest->seen_ns)
			oldest = flow;
	}
	*oldest = (struct nl_flow){ .known = true };
	oldest->port[from] = mine;
	oldest->port[!from] = theirs;
	return oldest;
}

/* Follows a connection; true: it is dead, and the packet has been answered. */
static inline bool nl_track(struct nl_link *link, int from, const uint8_t *packet, size_t bytes)
{
	struct nl_flow *flow;
	struct nl_tcp tcp;

	if (!nl_parse(packet, bytes, &tcp))
		return false;
	flow = nl_flow_of(link, from, &tcp);
	flow->seen_ns = nl_now();
	if ((tcp.flags & (NL_SYN | NL_ACK)) == NL_SYN) { /* the ports again, for another one */
		flow->dead = false;
		flow->payload[0] = flow->payload[1] = 0;
	}
	flow->payload[from] += tcp.payload;
	if (link->cut_flow_at != 0 && flow->payload[from] >= link->cut_flow_at) {
		flow->dead = true;
		link->cut_flow_at = 0;
		link->resets++;
	}
	if (flow->dead && (tcp.flags & NL_RST) == 0)
		nl_reset_to(link, from, packet, &tcp);
	return flow->dead;
}

/* Ends every connection that is there. Each side hears of it with the next packet that it sends. */
static inline void nl_link_reset(struct nl_link *link)
{
	for (unsigned i = 0; i < NL_FLOWS; i++) {
		if (link->flows[i].known && !link->flows[i].dead) {
			link->flows[i].dead = true;
			link->resets++;
		}
	}
}

/* What becomes of a packet that side `from` has sent. */
static inline void nl_judge(struct nl_link *link, int from, const uint8_t *packet, size_t bytes)
{
	const struct nl_shape *shape = &link->shape;
	struct nl_queue *queue = &link->queue[from];
	struct nl_packet *slot = &queue->packets[queue->tail % NL_QUEUE];
	uint64_t due = nl_now();

	if (shape->cut || (shape->mute >> from & 1) != 0 ||
	    twt_random_below(&link->random, 1000000) < shape->loss_ppm) {
		queue->lost++;
		return;
	}
	if (nl_track(link, from, packet, bytes))
		return;
	if (queue->tail - queue->head == NL_QUEUE) {
		queue->full++;
		return;
	}
	if (shape->bytes_per_second != 0) {
		queue->busy_ns = queue->busy_ns > due ? queue->busy_ns : due;
		queue->busy_ns += bytes * NL_SECOND / shape->bytes_per_second;
		due = queue->busy_ns;
	}
	due += shape->delay_ns;
	if (shape->jitter_ns != 0)
		due += twt_random_below(&link->random, shape->jitter_ns);
	if (queue->tail != queue->head) { /* in order */
		uint64_t last = queue->packets[(queue->tail - 1) % NL_QUEUE].due_ns;

		due = due > last ? due : last;
	}
	slot->due_ns = due;
	slot->bytes = (uint32_t)bytes;
	memcpy(slot->data, packet, bytes);
	queue->tail++;
}

/* Delivers what is due; returns when the next is, at most `until_ns`. */
static inline uint64_t nl_deliver_due(struct nl_link *link, uint64_t until_ns)
{
	for (int from = 0; from < 2; from++) {
		struct nl_queue *queue = &link->queue[from];

		while (queue->head != queue->tail) {
			const struct nl_packet *packet = &queue->packets[queue->head % NL_QUEUE];

			if (packet->due_ns > nl_now()) {
				until_ns = packet->due_ns < until_ns ? packet->due_ns : until_ns;
				break;
			}
			if (link->shape.cut) { /* what is on its way is lost as well */
				queue->lost++;
			} else {
				nl_deliver(link, !from, packet->data, packet->bytes);
				queue->passed++;
			}
			queue->head++;
		}
	}
	return until_ns;
}

/* Moves packets until `until_ns`, or one round where nothing waits. */
static inline void nl_link_turn(struct nl_link *link, uint64_t until_ns)
{
	struct pollfd fds[2] = { { link->fd[0], POLLIN, 0 }, { link->fd[1], POLLIN, 0 } };
	uint64_t next = nl_deliver_due(link, until_ns), now = nl_now();
	struct timespec wait = { 0, 0 };
	uint8_t packet[NL_MTU];

	if (next > now) {
		wait.tv_sec = (time_t)((next - now) / NL_SECOND);
		wait.tv_nsec = (long)((next - now) % NL_SECOND);
	}
	if (ppoll(fds, 2, &wait, NULL) <= 0)
		return;
	for (int from = 0; from < 2; from++) {
		for (int i = 0; i < 64 && (fds[from].revents & POLLIN) != 0; i++) {
			ssize_t got = read(link->fd[from], packet, sizeof(packet));

			if (got <= 0)
				break;
			nl_judge(link, from, packet, (size_t)got);
		}
	}
}

static inline bool nl_link_open(struct nl_link *link, int fd0, int fd1, uint64_t seed)
{
	*link = (struct nl_link){ .fd = { fd0, fd1 }, .random = seed };
	for (int i = 0; i < 2; i++) {
		link->queue[i].packets = calloc(NL_QUEUE, sizeof(struct nl_packet));
		if (link->queue[i].packets == NULL)
			return false;
	}
	return true;
}

static inline void nl_link_close(struct nl_link *link)
{
	for (int i = 0; i < 2; i++) {
		free(link->queue[i].packets);
		close(link->fd[i]);
	}
}

#endif
