/* netlab_link.c - the cable between two tun devices. */
#include "netlab_link.h"

static void twt_nl_deliver(struct twt_nl_link *link, int to, const uint8_t *packet, size_t bytes)
{
	/* A namespace that is gone, or a device that is full: a packet is lost, as packets are. */
	if (write(link->fd[to], packet, bytes) != (ssize_t)bytes)
		link->queue[!to].lost++;
}

/* Gives side `to` a RST that says it is from where its own `packet` went. */
static void twt_nl_reset_to(struct twt_nl_link *link, int to, const uint8_t *packet,
			    const struct twt_nl_tcp *tcp)
{
	uint8_t reset[NL_RESET_BYTES];

	twt_nl_make_reset(reset, packet + 12, tcp);
	twt_nl_deliver(link, to, reset, sizeof(reset));
}

/* The flow of a segment that side `from` sends; the one that was silent longest makes room. */
static struct twt_nl_flow *twt_nl_flow_of(struct twt_nl_link *link, int from,
					  const struct twt_nl_tcp *tcp)
{
	const uint16_t mine = tcp->port[0], theirs = tcp->port[1];
	struct twt_nl_flow *oldest = &link->flows[0];

	for (unsigned i = 0; i < NL_FLOWS; i++) {
		struct twt_nl_flow *flow = &link->flows[i];

		if (flow->known && flow->port[from] == mine && flow->port[!from] == theirs)
			return flow;
		if (flow->seen_ns < oldest->seen_ns)
			oldest = flow;
	}
	*oldest = (struct twt_nl_flow){ .known = true };
	oldest->port[from] = mine;
	oldest->port[!from] = theirs;
	return oldest;
}

/* Follows a connection; true: it is dead, and the packet has been answered. */
static bool twt_nl_track(struct twt_nl_link *link, int from, const uint8_t *packet, size_t bytes)
{
	struct twt_nl_flow *flow;
	struct twt_nl_tcp tcp;

	if (!twt_nl_parse(packet, bytes, &tcp))
		return false;
	flow = twt_nl_flow_of(link, from, &tcp);
	flow->seen_ns = twt_nl_now();
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
		twt_nl_reset_to(link, from, packet, &tcp);
	return flow->dead;
}

void twt_nl_link_reset(struct twt_nl_link *link)
{
	for (unsigned i = 0; i < NL_FLOWS; i++) {
		if (link->flows[i].known && !link->flows[i].dead) {
			link->flows[i].dead = true;
			link->resets++;
		}
	}
}

/* What becomes of a packet that side `from` has sent. */
static void twt_nl_judge(struct twt_nl_link *link, int from, const uint8_t *packet, size_t bytes)
{
	const struct twt_nl_shape *shape = &link->shape;
	struct twt_nl_queue *queue = &link->queue[from];
	struct twt_nl_packet *slot = &queue->packets[queue->tail % NL_QUEUE];
	uint64_t due = twt_nl_now();

	if (shape->cut || (shape->mute >> from & 1) != 0 ||
	    twt_random_below(&link->random, 1000000) < shape->loss_ppm) {
		queue->lost++;
		return;
	}
	if (twt_nl_track(link, from, packet, bytes))
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
static uint64_t twt_nl_deliver_due(struct twt_nl_link *link, uint64_t until_ns)
{
	for (int from = 0; from < 2; from++) {
		struct twt_nl_queue *queue = &link->queue[from];

		while (queue->head != queue->tail) {
			const struct twt_nl_packet *packet =
				&queue->packets[queue->head % NL_QUEUE];

			if (packet->due_ns > twt_nl_now()) {
				until_ns = packet->due_ns < until_ns ? packet->due_ns : until_ns;
				break;
			}
			if (link->shape.cut) { /* what is on its way is lost as well */
				queue->lost++;
			} else {
				twt_nl_deliver(link, !from, packet->data, packet->bytes);
				queue->passed++;
			}
			queue->head++;
		}
	}
	return until_ns;
}

void twt_nl_link_turn(struct twt_nl_link *link, uint64_t until_ns)
{
	struct pollfd fds[2] = { { link->fd[0], POLLIN, 0 }, { link->fd[1], POLLIN, 0 } };
	uint64_t next = twt_nl_deliver_due(link, until_ns), now = twt_nl_now();
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
			twt_nl_judge(link, from, packet, (size_t)got);
		}
	}
}

bool twt_nl_link_open(struct twt_nl_link *link, int fd0, int fd1, uint64_t seed)
{
	*link = (struct twt_nl_link){ .fd = { fd0, fd1 }, .random = seed };
	for (int i = 0; i < 2; i++) {
		link->queue[i].packets = calloc(NL_QUEUE, sizeof(struct twt_nl_packet));
		if (link->queue[i].packets == NULL)
			return false;
	}
	return true;
}

void twt_nl_link_close(struct twt_nl_link *link)
{
	for (int i = 0; i < 2; i++) {
		free(link->queue[i].packets);
		close(link->fd[i]);
	}
}
