/*
 * tcp.c - the tcp lane's table, its endpoints, streams and peers: who is made when, and freed when.
 *
 * A peer lives until both hold: the user has closed it (or never saw it), and its streams are gone.
 */
#include "transport/uring/tcp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "diag/counter.h"
#include "diag/diag.h"
#include "diag/error.h"
#include "transport/op.h"
#include "transport/uring/ring.h"

#define SLOTS_MAX      65536u
#define LISTEN_BACKLOG 256

struct twi_tcp_lane *twi_tcp_lane_of(const struct twi_engine *engine)
{
	return (struct twi_tcp_lane *)(void *)engine->lanes[TWI_LANE_TCP];
}

static struct twi_tcp_peer *tcp_peer(struct tow_peer *peer)
{
	return (struct twi_tcp_peer *)(void *)peer;
}

void twi_tcp_socket_setup(int fd)
{
	int one = 1;

	/* Frames are gathered by us, when it pays. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static bool same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
	const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;

	if (a->ss_family != b->ss_family)
		return false;
	if (a->ss_family == AF_INET)
		return a4->sin_addr.s_addr == b4->sin_addr.s_addr;
	return memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr)) == 0;
}

/*
 * A route that does not leave the host has no queue that pacing could spare: bbr's costs a fifth of
 * the bandwidth there (docs/performance.md). Elsewhere the host's choice stands.
 */
void twi_tcp_route_setup(int fd)
{
	static const char name[] = "cubic";
	struct sockaddr_storage here = { 0 }, there = { 0 };
	socklen_t bytes = sizeof(here);

	if (getsockname(fd, (struct sockaddr *)(void *)&here, &bytes) != 0)
		return;
	bytes = sizeof(there);
	if (getpeername(fd, (struct sockaddr *)(void *)&there, &bytes) != 0)
		return;
	/* Not permitted or not there: the connection works all the same. */
	if (same_address(&here, &there))
		setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, sizeof(name) - 1);
}

/* A free slot; the table doubles when there is none. */
static int take_slot(struct twi_tcp_lane *lane, uint32_t *slot_out)
{
	uint32_t count = lane->slot_count, more = count == 0 ? 64 : count * 2;
	struct twi_tcp_slot *slots;

	for (uint32_t i = 0; i < count; i++) {
		if (lane->slots[i].stream == NULL && lane->slots[i].endpoint == NULL) {
			*slot_out = i;
			return TOW_OK;
		}
	}
	if (count >= SLOTS_MAX)
		return twi_error(TOW_EBUSY, "more than %u connections", SLOTS_MAX);
	slots = realloc(lane->slots, more * sizeof(slots[0]));
	if (slots == NULL)
		return twi_error(TOW_ENOMEM, "no memory for %u connections", more);
	for (uint32_t i = count; i < more; i++)
		slots[i] = (struct twi_tcp_slot){ 0 };
	lane->slots = slots;
	lane->slot_count = more;
	*slot_out = count;
	return TOW_OK;
}

/* Takes the socket, also when it fails. */
int twi_tcp_stream_create(struct twi_tcp_lane *lane, int fd, struct twi_tcp_stream **out)
{
	struct twi_engine *engine = lane->base.engine;
	struct twi_tcp_stream *stream = calloc(1, sizeof(*stream));
	uint32_t slot;
	int status = stream == NULL ? twi_error(TOW_ENOMEM, "no memory for a connection")
				    : take_slot(lane, &slot);

	if (status < 0) {
		free(stream);
		close(fd);
		return status;
	}
	stream->fd = fd;
	stream->slot = slot;
	stream->generation = ++lane->slots[slot].generation;
	stream->deadline_ns = twi_engine_now(engine) + (uint64_t)engine->knobs.connect_timeout_ns;
	twi_list_push_back(&lane->handshakes, &stream->link);
	lane->handshake_count++;
	lane->slots[slot].stream = stream;
	*out = stream;
	return TOW_OK;
}

void twi_tcp_stream_destroy(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	struct twi_ring *ring = lane->base.engine->ring;

	/* What is prepared points into the stream and into users' buffers: it must run now. */
	if (ring != NULL)
		twi_ring_submit(ring);
	if (!twi_list_empty(&stream->link)) {
		twi_list_remove(&stream->link);
		lane->handshake_count--;
	}
	lane->slots[stream->slot].stream = NULL;
	if (stream->peer != NULL && stream->peer->control == stream)
		stream->peer->control = NULL;
	if (stream->peer != NULL && stream->peer->bulk == stream)
		stream->peer->bulk = NULL;
	/* Sleeping polls of other rings still hold the file: the end must not wait for them. */
	shutdown(stream->fd, SHUT_RDWR);
	close(stream->fd);
	free(stream);
}

struct twi_tcp_peer *twi_tcp_peer_create(struct twi_tcp_lane *lane, const char *address)
{
	struct twi_tcp_peer *peer = calloc(1, sizeof(*peer));
	struct twi_ring *ring = lane->base.engine->ring;

	if (peer == NULL)
		return NULL;
	twi_peer_setup(&peer->base, &lane->base, address);
	twi_list_init(&peer->dirty);
	twi_list_init(&peer->dying);
	twi_route_init(&peer->route, ring == NULL || ring->zerocopy);
	return peer;
}

static void drop_streams(struct twi_tcp_peer *peer)
{
	struct twi_tcp_lane *lane = twi_tcp_lane_of(peer->base.engine);

	if (peer->control != NULL)
		twi_tcp_stream_destroy(lane, peer->control);
	if (peer->bulk != NULL)
		twi_tcp_stream_destroy(lane, peer->bulk);
}

void twi_tcp_peer_free(struct twi_tcp_peer *peer)
{
	drop_streams(peer);
	twi_list_remove(&peer->dirty);
	twi_list_remove(&peer->dying);
	twi_peer_teardown(&peer->base);
	if (peer->session_up)
		twi_session_fini(&peer->base.session);
	free(peer);
}

void twi_tcp_peer_lost(struct twi_tcp_peer *peer, int status)
{
	struct twi_engine *engine = peer->base.engine;

	if (peer->lost)
		return;
	peer->lost = true;
	drop_streams(peer); /* before the operations end: nothing may touch their buffers then */
	if (!peer->base.closed) {
		twi_count(engine->diag, TWI_C_peers_lost, 1);
		twi_log(engine->diag, 2, "%s", tow_error_message());
	}
	twi_session_fail(&peer->base.session, status);
	twi_list_remove(&peer->dying);
	if (peer->base.closed)
		twi_tcp_peer_free(peer);
}

void twi_tcp_mark_dirty(struct twi_tcp_peer *peer)
{
	struct twi_tcp_lane *lane = twi_tcp_lane_of(peer->base.engine);

	if (twi_list_empty(&peer->dirty))
		twi_list_push_back(&lane->dirty, &peer->dirty);
}

static int lane_open(struct twi_engine *engine, struct twi_lane **lane_out)
{
	struct twi_tcp_lane *lane = calloc(1, sizeof(*lane));

	if (lane == NULL)
		return twi_error(TOW_ENOMEM, "no memory for the tcp lane");
	lane->base.ops = &twi_lane_tcp;
	lane->base.engine = engine;
	twi_list_init(&lane->dirty);
	twi_list_init(&lane->dying);
	twi_list_init(&lane->handshakes);
	for (uint32_t i = 0; i < TWI_ZC_RECORDS; i++)
		lane->zc[i].next_free = i + 1 < TWI_ZC_RECORDS ? i + 2 : 0;
	lane->zc_free = 1;
	*lane_out = &lane->base;
	return TOW_OK;
}

/* Closes what is still draining once its time is over. */
static void expire_dying(struct twi_tcp_lane *lane, uint64_t now_ns)
{
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &lane->dying) {
		struct twi_tcp_peer *peer = twi_container_of(pos, struct twi_tcp_peer, dying);

		if (peer->deadline_ns > now_ns)
			continue;
		twi_error(TOW_EPEER, "the bulk connection to %s broke", peer->base.address);
		twi_tcp_peer_lost(peer, peer->base.closed ? TOW_ECLOSED : TOW_EPEER);
	}
}

static void lane_close(struct twi_lane *base)
{
	struct twi_tcp_lane *lane = (struct twi_tcp_lane *)(void *)base;
	struct twi_engine *engine = base->engine;
	uint64_t until = twi_now_ns() + TWI_LINGER_NS;

	/* A thread without a ring cannot send what is left. */
	while (engine->ring != NULL && !twi_list_empty(&lane->dying) && twi_now_ns() < until) {
		if (twi_engine_poll(engine) == 0)
			twi_ring_sleep(engine->ring, 1000 * 1000);
	}
	expire_dying(lane, UINT64_MAX);
	twi_tcp_handshake_expire(lane, UINT64_MAX);
	for (uint32_t i = 0; i < TWI_ZC_RECORDS; i++) {
		if (lane->zc[i].used)
			twi_claim_drop(engine, &lane->zc[i].claim);
	}
	free(lane->slots);
	free(lane);
}

static int listen_on(const struct sockaddr_storage *local, socklen_t bytes, const char *address,
		     int *fd_out)
{
	int fd = socket(local->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;
	int err = 0;

	if (fd < 0)
		return twi_error_errno(TOW_ESYSTEM, errno, "socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (const struct sockaddr *)(const void *)local, bytes) != 0 ||
	    listen(fd, LISTEN_BACKLOG) != 0)
		err = errno;
	if (err == 0) {
		*fd_out = fd;
		return TOW_OK;
	}
	close(fd);
	return twi_error_errno(err == EADDRINUSE      ? TOW_EBUSY
			       : err == EACCES        ? TOW_EPERM
			       : err == EADDRNOTAVAIL ? TOW_EINVAL
						      : TOW_ESYSTEM,
			       err, "listen at tcp://%s", address);
}

static int endpoint_open(struct twi_lane *base, const char *address, struct tow_endpoint **out)
{
	struct twi_tcp_lane *lane = (struct twi_tcp_lane *)(void *)base;
	struct twi_tcp_endpoint *endpoint;
	struct sockaddr_storage local;
	socklen_t bytes;
	uint32_t slot = 0;
	int status = twi_tcp_resolve(address, true, &local, &bytes), fd = -1;

	if (status == TOW_OK)
		status = take_slot(lane, &slot);
	if (status == TOW_OK)
		status = listen_on(&local, bytes, address, &fd);
	if (status < 0)
		return status;
	endpoint = calloc(1, sizeof(*endpoint));
	bytes = sizeof(local);
	if (endpoint == NULL || getsockname(fd, (struct sockaddr *)(void *)&local, &bytes) != 0) {
		free(endpoint);
		close(fd);
		return twi_error(TOW_ENOMEM, "no memory for an endpoint");
	}
	twi_endpoint_setup(&endpoint->base, base);
	twi_tcp_format(&local, endpoint->base.address);
	endpoint->fd = fd;
	endpoint->slot = slot;
	endpoint->generation = ++lane->slots[slot].generation;
	lane->slots[slot].endpoint = endpoint;
	twi_tcp_accept_arm(lane, endpoint);
	*out = &endpoint->base;
	return TOW_OK;
}

static void endpoint_close(struct tow_endpoint *base)
{
	struct twi_tcp_endpoint *endpoint = (struct twi_tcp_endpoint *)(void *)base;
	struct twi_tcp_lane *lane = twi_tcp_lane_of(base->engine);
	struct twi_list *pos, *next;

	/* Handshakes that it accepted have nobody to go to now. */
	twi_list_for_each_safe (pos, next, &lane->handshakes) {
		struct twi_tcp_stream *stream = twi_container_of(pos, struct twi_tcp_stream, link);

		if (stream->endpoint != endpoint)
			continue;
		if (stream->peer != NULL)
			twi_tcp_peer_free(stream->peer);
		else
			twi_tcp_stream_destroy(lane, stream);
		next = lane->handshakes.next;
	}
	lane->slots[endpoint->slot].endpoint = NULL;
	shutdown(endpoint->fd, SHUT_RDWR);
	close(endpoint->fd);
	free(endpoint);
}

/*
 * The peer has something that the next progress moves. Whoever sleeps is woken for it, once: the
 * caller may not come back for long, and a descriptor of its own must say that there is something.
 */
static void hold_back(struct twi_tcp_peer *peer)
{
	struct twi_engine *engine = peer->base.engine;

	if (!twi_list_empty(&peer->dirty))
		return;
	twi_tcp_mark_dirty(peer);
	engine->armed_since_enter = true;
	if (engine->ring != NULL && engine->ring->watched)
		twi_ring_wake(engine->ring);
}

/*
 * Flushes now, or lets the message wait for company: the first of a burst goes at once, the
 * following ones share a system call, and leave when there are enough or when somebody waits.
 */
static void kick(struct twi_tcp_peer *peer, uint64_t now_ns)
{
	struct twi_engine *engine = peer->base.engine;
	struct twi_session *session = &peer->base.session;

	if (peer->lost)
		return;
	if (!session->urgent && session->tx_tail - session->tx_head < TWI_FLUSH_BYTES &&
	    now_ns - peer->last_flush_ns < (uint64_t)engine->knobs.gather_ns) {
		hold_back(peer);
		return;
	}
	peer->last_flush_ns = now_ns;
	twi_tcp_pump(peer);
	if (engine->ring == NULL) {
		twi_tcp_mark_dirty(peer);
		engine->armed_since_enter = true; /* a sleeper sends it */
		return;
	}
	twi_ring_submit(engine->ring);
	twi_ring_reap(engine->ring);
}

static void peer_send(struct tow_peer *base, struct tow_op *op)
{
	uint64_t start_ns = op->start_ns;

	twi_session_send(&base->session, op);
	kick(tcp_peer(base), start_ns);
}

static void peer_recv(struct tow_peer *base, struct tow_op *op)
{
	uint64_t start_ns = op->start_ns;

	twi_session_recv(&base->session, op);
	if (base->session.urgent)
		kick(tcp_peer(base), start_ns);
}

static bool peer_abort(struct tow_peer *base, struct tow_op *op, int status, bool force)
{
	struct twi_tcp_peer *peer = tcp_peer(base);
	struct twi_ring *ring = base->engine->ring;
	bool ended;

	/* A request that holds the operation's memory must have run before that is given back. */
	if (ring != NULL) {
		twi_ring_submit(ring);
		twi_ring_reap(ring);
		if (op->stage == TWI_STAGE_COMPLETING)
			return true;
	}
	ended = twi_session_abort(&base->session, op, status, force);
	hold_back(peer);
	return ended;
}

static void peer_close(struct tow_peer *base)
{
	struct twi_tcp_peer *peer = tcp_peer(base);
	struct twi_engine *engine = base->engine;
	struct twi_tcp_lane *lane = twi_tcp_lane_of(engine);

	if (peer->lost) {
		twi_tcp_peer_free(peer);
		return;
	}
	if (peer->bulk != NULL)
		twi_tcp_stream_destroy(lane, peer->bulk);
	twi_error(TOW_ECLOSED, "peer %s was closed on this side", base->address);
	twi_session_fail(&base->session, TOW_ECLOSED);
	if (peer->control == NULL) {
		twi_tcp_peer_free(peer);
		return;
	}
	twi_session_bye(&base->session);
	peer->deadline_ns = twi_engine_now(engine) + TWI_LINGER_NS;
	if (twi_list_empty(&peer->dying))
		twi_list_push_back(&lane->dying, &peer->dying);
	twi_tcp_flush_peer(peer);
	hold_back(peer);
}

/* A closed peer whose last bytes have left says that it is done, and waits for the other side's
 * end. */
static void finish_closing(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer)
{
	struct twi_tcp_stream *stream = peer->control;
	struct iovec left;

	if (stream == NULL || stream->state != TWI_TCP_UP || stream->tx_busy ||
	    twi_session_control_out(&peer->base.session, &left))
		return;
	stream->state = TWI_TCP_DRAINING;
	shutdown(stream->fd, SHUT_WR);
	twi_tcp_arm(lane, stream);
}

static unsigned lane_progress(struct twi_lane *base)
{
	struct twi_tcp_lane *lane = (struct twi_tcp_lane *)(void *)base;
	struct twi_list work, *entry;
	unsigned count = 0;

	if (!twi_list_empty(&lane->dirty)) {
		twi_list_init(&work);
		while ((entry = twi_list_first(&lane->dirty)) != NULL) {
			twi_list_remove(entry);
			twi_list_push_back(&work, entry);
		}
		while ((entry = twi_list_first(&work)) != NULL) {
			struct twi_tcp_peer *peer =
				twi_container_of(entry, struct twi_tcp_peer, dirty);

			twi_list_remove(entry);
			twi_tcp_pump(peer);
			if (peer->base.closed)
				finish_closing(lane, peer);
			count++;
		}
	}
	if (!twi_list_empty(&lane->dying) || lane->handshake_count > 0) {
		uint64_t now = twi_engine_now(base->engine);

		expire_dying(lane, now);
		twi_tcp_handshake_expire(lane, now);
	}
	return count;
}

static void lane_flush(struct twi_lane *base, bool acks_too)
{
	struct twi_tcp_lane *lane = (struct twi_tcp_lane *)(void *)base;
	struct twi_engine *engine = base->engine;
	struct twi_list *pos, *next;

	if (acks_too) {
		twi_list_for_each_safe (pos, next, &engine->peers) {
			struct tow_peer *peer = twi_container_of(pos, struct tow_peer, link);

			if (peer->lane == base && tcp_peer(peer)->session_up)
				twi_tcp_flush_peer(tcp_peer(peer));
		}
	}
	lane_progress(&lane->base);
	if (engine->ring != NULL) {
		twi_ring_submit(engine->ring);
		twi_ring_reap(engine->ring);
	}
}

static uint64_t lane_deadline(struct twi_lane *base)
{
	struct twi_tcp_lane *lane = (struct twi_tcp_lane *)(void *)base;
	struct twi_list *pos, *next;
	uint64_t earliest = UINT64_MAX;

	if (!twi_list_empty(&lane->dirty))
		return 0;
	twi_list_for_each_safe (pos, next, &lane->handshakes)
		earliest = twi_min(earliest,
				   twi_container_of(pos, struct twi_tcp_stream, link)->deadline_ns);
	twi_list_for_each_safe (pos, next, &lane->dying)
		earliest = twi_min(earliest,
				   twi_container_of(pos, struct twi_tcp_peer, dying)->deadline_ns);
	return earliest;
}

static void lane_driver_changed(struct twi_lane *base)
{
	struct twi_tcp_lane *lane = (struct twi_tcp_lane *)(void *)base;

	for (uint32_t i = 0; i < lane->slot_count; i++) {
		if (lane->slots[i].stream != NULL)
			twi_tcp_arm(lane, lane->slots[i].stream);
		else if (lane->slots[i].endpoint != NULL)
			twi_tcp_accept_arm(lane, lane->slots[i].endpoint);
	}
}

static void lane_ring_gone(struct twi_lane *base, unsigned index)
{
	struct twi_tcp_lane *lane = (struct twi_tcp_lane *)(void *)base;
	uint32_t keep = ~(1u << index);

	for (uint32_t i = 0; i < lane->slot_count; i++) {
		struct twi_tcp_stream *stream = lane->slots[i].stream;

		if (stream != NULL) {
			stream->pollin_rings &= keep;
			stream->pollout_rings &= keep;
			stream->recv_rings &= keep;
		}
		if (lane->slots[i].endpoint != NULL)
			lane->slots[i].endpoint->accept_rings &= keep;
	}
	twi_tcp_zerocopy_ring_gone(lane, index);
}

static void peer_describe(struct tow_peer *base, struct twi_emit *emit)
{
	twi_session_describe(&base->session, emit);
	twi_route_describe(&tcp_peer(base)->route, emit);
}

const struct twi_lane_ops twi_lane_tcp = {
	.id = TWI_LANE_TCP,
	.scheme = "tcp",
	.open = lane_open,
	.close = lane_close,
	.endpoint_open = endpoint_open,
	.endpoint_close = endpoint_close,
	.connect = twi_tcp_dial,
	.connect_abort = twi_tcp_dial_abort,
	.send = peer_send,
	.recv = peer_recv,
	.abort = peer_abort,
	.peer_close = peer_close,
	.flush = lane_flush,
	.progress = lane_progress,
	.deadline_ns = lane_deadline,
	.driver_changed = lane_driver_changed,
	.ring_gone = lane_ring_gone,
	.completed = twi_tcp_completed,
	.need = twi_tcp_need,
	.peer_describe = peer_describe,
};
