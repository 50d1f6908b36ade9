/*
 * tcp_io.c - the tcp lane's data path: arming, sending, receiving, and what completions mean.
 *
 * Budget: at most one send and one receive in flight for each stream; all that one round of
 * progress prepares for all peers goes to the kernel in one system call.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "diag/counter.h"
#include "diag/diag.h"
#include "diag/error.h"
#include "transport/op.h"
#include "transport/uring/ring.h"
#include "transport/uring/tcp.h"

static void stamp(struct twi_tcp_lane *lane, struct io_uring_sqe *sqe, enum twi_tcp_event event,
		  const struct twi_tcp_stream *stream)
{
	sqe->user_data =
		twi_tcp_tag(lane->base.engine->ring, event, stream->generation, stream->slot);
}

/*
 * False when the thread has no ring to arm in. What a thread arms that is not the driver must be
 * armed by the driver too, when it comes back.
 */
static bool may_arm(struct twi_engine *engine)
{
	engine->armed_since_enter = true;
	if (engine->ring != engine->armed_ring)
		engine->armed_ring = NULL;
	return engine->ring != NULL;
}

static void poll_arm(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream, uint32_t *rings,
		     unsigned mask, enum twi_tcp_event event)
{
	struct twi_engine *engine = lane->base.engine;
	struct io_uring_sqe *sqe;
	uint32_t bit;

	if (!may_arm(engine))
		return;
	bit = 1u << engine->ring->index;
	if ((*rings & bit) != 0)
		return;
	sqe = twi_tcp_request(lane);
	if (sqe == NULL)
		return;
	io_uring_prep_poll_add(sqe, stream->fd, mask);
	stamp(lane, sqe, event, stream);
	*rings |= bit;
}

void twi_tcp_poll_in(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	poll_arm(lane, stream, &stream->pollin_rings, POLLIN, TWI_TCP_POLLIN);
}

void twi_tcp_poll_out(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	stream->tx_blocked = true;
	poll_arm(lane, stream, &stream->pollout_rings, POLLOUT, TWI_TCP_POLLOUT);
}

void twi_tcp_accept_arm(struct twi_tcp_lane *lane, struct twi_tcp_endpoint *endpoint)
{
	struct twi_engine *engine = lane->base.engine;
	struct io_uring_sqe *sqe;
	uint32_t bit;

	if (!may_arm(engine))
		return;
	bit = 1u << engine->ring->index;
	if ((endpoint->accept_rings & bit) != 0)
		return;
	sqe = twi_tcp_request(lane);
	if (sqe == NULL)
		return;
	io_uring_prep_poll_add(sqe, endpoint->fd, POLLIN);
	sqe->user_data =
		twi_tcp_tag(engine->ring, TWI_TCP_ACCEPT, endpoint->generation, endpoint->slot);
	endpoint->accept_rings |= bit;
}

static void recv_arm(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	struct twi_engine *engine = lane->base.engine;
	struct io_uring_sqe *sqe;
	uint32_t bit;

	if (!may_arm(engine))
		return;
	bit = 1u << engine->ring->index;
	if ((stream->recv_rings & bit) != 0)
		return;
	sqe = twi_tcp_request(lane);
	if (sqe == NULL)
		return;
	io_uring_prep_recv_multishot(sqe, stream->fd, NULL, 0, 0);
	sqe->flags |= IOSQE_BUFFER_SELECT;
	sqe->buf_group = TWI_RING_BUFFER_GROUP;
	stamp(lane, sqe, TWI_TCP_RECV, stream);
	stream->recv_rings |= bit;
}

/* Arms in the driver's ring what a stream of this state waits for. */
void twi_tcp_arm(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	switch (stream->state) {
	case TWI_TCP_CONNECTING:
		twi_tcp_poll_out(lane, stream);
		return;
	case TWI_TCP_UP:
	case TWI_TCP_DRAINING:
		if (!stream->bulk && stream->state == TWI_TCP_UP)
			recv_arm(lane, stream);
		else if (!stream->rx_busy)
			twi_tcp_poll_in(lane, stream);
		if (stream->tx_blocked)
			twi_tcp_poll_out(lane, stream);
		return;
	default:
		twi_tcp_poll_in(lane, stream);
	}
}

static void send_control(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer)
{
	struct twi_tcp_stream *stream = peer->control;
	struct io_uring_sqe *sqe;
	struct iovec out;

	if (stream == NULL || stream->state != TWI_TCP_UP || stream->tx_busy ||
	    stream->tx_blocked || !twi_session_control_out(&peer->base.session, &out))
		return;
	sqe = twi_tcp_request(lane);
	if (sqe == NULL) {
		twi_tcp_mark_dirty(peer);
		return;
	}
	io_uring_prep_send(sqe, stream->fd, out.iov_base, out.iov_len, MSG_DONTWAIT | MSG_NOSIGNAL);
	stamp(lane, sqe, TWI_TCP_SEND, stream);
	stream->tx_parts[0] = out;
	stream->tx_busy = true;
	twi_count(lane->base.engine->diag, TWI_C_control_batches_sent, 1);
}

static void send_bulk(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer)
{
	struct twi_engine *engine = lane->base.engine;
	struct twi_tcp_stream *stream = peer->bulk;
	struct twi_bulk_out out;
	struct io_uring_sqe *sqe;
	int flags = MSG_DONTWAIT | MSG_NOSIGNAL, slot;

	if (stream == NULL || stream->state != TWI_TCP_UP || stream->tx_busy ||
	    stream->tx_blocked ||
	    !twi_session_bulk_out(&peer->base.session, 0, (uint64_t)engine->knobs.bulk_chunk_bytes,
				  &out))
		return;
	if (twi_tcp_zerocopy_wants(lane, peer, &out, &slot)) {
		if (out.payload_part == 0 && twi_tcp_zerocopy_go(lane, peer, &out, slot))
			return;
		/* What is zero-copy is payload alone: the header goes ahead, with a plain send. */
		if (out.payload_part > 0) {
			out.count = out.payload_part;
			flags |= MSG_MORE;
		}
	}
	sqe = twi_tcp_request(lane);
	if (sqe == NULL) {
		twi_tcp_mark_dirty(peer);
		return;
	}
	for (int i = 0; i < out.count; i++)
		stream->tx_parts[i] = out.parts[i];
	stream->tx_msg =
		(struct msghdr){ .msg_iov = stream->tx_parts, .msg_iovlen = (size_t)out.count };
	io_uring_prep_sendmsg(sqe, stream->fd, &stream->tx_msg, (unsigned)flags);
	stamp(lane, sqe, TWI_TCP_SEND, stream);
	stream->tx_busy = true;
}

static void recv_bulk(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer)
{
	struct twi_engine *engine = lane->base.engine;
	struct twi_tcp_stream *stream = peer->bulk;
	struct io_uring_sqe *sqe;
	int count;

	if (stream == NULL || stream->state != TWI_TCP_UP || stream->rx_busy)
		return;
	sqe = twi_tcp_request(lane);
	if (sqe == NULL) {
		may_arm(engine);
		engine->armed_ring = NULL; /* the next driver polls for it */
		return;
	}
	count = twi_session_bulk_want(&peer->base.session, 0,
				      (uint64_t)engine->knobs.bulk_chunk_bytes, stream->rx_parts);
	stream->rx_msg =
		(struct msghdr){ .msg_iov = stream->rx_parts, .msg_iovlen = (size_t)count };
	io_uring_prep_recvmsg(sqe, stream->fd, &stream->rx_msg, MSG_DONTWAIT);
	stamp(lane, sqe, TWI_TCP_RECVMSG, stream);
	stream->rx_busy = true;
}

/* Sends what is in the control buffer, with an acknowledgement if one is owed. */
void twi_tcp_flush_peer(struct twi_tcp_peer *peer)
{
	struct twi_tcp_lane *lane = twi_tcp_lane_of(peer->base.engine);
	struct iovec out;

	if (peer->lost)
		return;
	if (peer->control != NULL && !peer->control->tx_busy)
		twi_session_ack(&peer->base.session);
	if (!twi_session_control_out(&peer->base.session, &out))
		peer->base.session.urgent = false;
	send_control(lane, peer);
}

/* Everything that a peer may have to send after its session has moved. */
void twi_tcp_pump(struct twi_tcp_peer *peer)
{
	struct twi_tcp_lane *lane = twi_tcp_lane_of(peer->base.engine);
	struct iovec out;

	if (peer->lost)
		return;
	if (peer->base.session.urgent || twi_session_control_out(&peer->base.session, &out))
		twi_tcp_flush_peer(peer);
	if (!peer->base.closed)
		send_bulk(lane, peer);
}

static bool would_block(int res)
{
	return res == -EAGAIN || res == -EWOULDBLOCK || res == -EINTR;
}

/* The stream has ended or failed. Control decides; bulk waits a little for what control still has.
 */
static void stream_ended(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream, int res)
{
	struct twi_tcp_peer *peer = stream->peer;

	if (stream->bulk && !peer->base.closed) {
		twi_tcp_stream_destroy(lane, stream);
		peer->deadline_ns = twi_engine_now(lane->base.engine) + TWI_BULK_GRACE_NS;
		if (twi_list_empty(&peer->dying))
			twi_list_push_back(&lane->dying, &peer->dying);
		return;
	}
	if (res < 0)
		twi_error_errno(TOW_EPEER, -res, "the connection to %s broke", peer->base.address);
	else
		twi_error(TOW_EPEER, "peer %s %s", peer->base.address,
			  peer->base.session.peer_said_bye ? "closed the connection"
							   : "has gone without a word");
	twi_tcp_peer_lost(peer, TOW_EPEER);
}

void twi_tcp_sent(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream, int res)
{
	struct twi_tcp_peer *peer = stream->peer;

	stream->tx_busy = false;
	if (would_block(res)) {
		twi_tcp_poll_out(lane, stream);
		return;
	}
	if (res < 0) {
		/* What has arrived may still be read: the end of the receiving side decides. */
		if (stream->bulk || stream->state != TWI_TCP_UP)
			stream_ended(lane, stream, res);
		else
			stream->tx_blocked = true;
		return;
	}
	if (stream->bulk) {
		twi_tcp_zerocopy_missed(lane, stream, (uint64_t)res);
		twi_session_bulk_sent(&peer->base.session, 0, (size_t)res);
	} else {
		twi_session_control_sent(&peer->base.session, (size_t)res);
	}
	if (!stream->bulk && (size_t)res < stream->tx_parts[0].iov_len)
		twi_tcp_poll_out(lane, stream);
	twi_tcp_mark_dirty(peer);
}

static void received_control(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream, int res,
			     uint32_t flags, const void *data)
{
	struct twi_tcp_peer *peer = stream->peer;
	int status;

	if (res == -ENOBUFS || would_block(res)) {
		recv_arm(lane, stream);
		return;
	}
	if (res <= 0) {
		stream_ended(lane, stream, res);
		return;
	}
	status = twi_session_control_in(&peer->base.session, data, (size_t)res);
	if (status < 0) {
		twi_count(lane->base.engine->diag, TWI_C_protocol_errors, status == TOW_EPROTOCOL);
		twi_tcp_peer_lost(peer, status);
		return;
	}
	if ((flags & IORING_CQE_F_MORE) == 0)
		recv_arm(lane, stream);
	twi_tcp_mark_dirty(peer);
}

static void received_bulk(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream, int res,
			  uint32_t flags)
{
	struct twi_tcp_peer *peer = stream->peer;
	size_t wanted = 0;
	int status;

	stream->rx_busy = false;
	if (would_block(res)) {
		twi_tcp_poll_in(lane, stream);
		return;
	}
	if (res <= 0) {
		stream_ended(lane, stream, res);
		return;
	}
	for (size_t i = 0; i < stream->rx_msg.msg_iovlen; i++)
		wanted += stream->rx_parts[i].iov_len;
	status = twi_session_bulk_in(&peer->base.session, 0, (size_t)res);
	if (status < 0) {
		twi_count(lane->base.engine->diag, TWI_C_protocol_errors, 1);
		twi_tcp_peer_lost(peer, status);
		return;
	}
	if ((size_t)res == wanted || (flags & IORING_CQE_F_SOCK_NONEMPTY) != 0)
		recv_bulk(lane, peer);
	else
		twi_tcp_poll_in(lane, stream);
	twi_tcp_mark_dirty(peer);
}

/* Reads and drops until the other side's end comes. */
static void drain(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	uint8_t dropped[4096];
	ssize_t n = 0;

	for (int i = 0; i < 64; i++) {
		n = recv(stream->fd, dropped, sizeof(dropped), MSG_DONTWAIT);
		if (n <= 0)
			break;
	}
	if (n > 0 || (n < 0 && would_block(-errno)))
		twi_tcp_poll_in(lane, stream);
	else
		twi_tcp_peer_lost(stream->peer, TOW_ECLOSED);
}

static void stream_event(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream,
			 enum twi_tcp_event event, int res, uint32_t flags, const void *data)
{
	switch (event) {
	case TWI_TCP_POLLIN:
		if (stream->state == TWI_TCP_DRAINING)
			drain(lane, stream);
		else if (stream->state != TWI_TCP_UP)
			twi_tcp_handshake_event(lane, stream);
		else if (stream->bulk)
			recv_bulk(lane, stream->peer);
		break;
	case TWI_TCP_POLLOUT:
		stream->tx_blocked = false;
		if (stream->state != TWI_TCP_UP && stream->state != TWI_TCP_DRAINING)
			twi_tcp_handshake_event(lane, stream);
		else
			twi_tcp_mark_dirty(stream->peer);
		break;
	case TWI_TCP_RECV:
		if (stream->state == TWI_TCP_UP)
			received_control(lane, stream, res, flags, data);
		break;
	case TWI_TCP_RECVMSG:
		received_bulk(lane, stream, res, flags);
		break;
	case TWI_TCP_SEND:
		twi_tcp_sent(lane, stream, res);
		break;
	default:
		break;
	}
}

/* Somebody waits at an endpoint: takes all who do. */
static void accept_event(struct twi_tcp_lane *lane, struct twi_tcp_endpoint *endpoint)
{
	int fd;

	while ((fd = accept4(endpoint->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
		twi_tcp_accepted(lane, endpoint, fd);
	twi_tcp_accept_arm(lane, endpoint);
}

void twi_tcp_completed(struct twi_lane *base, uint64_t user_data, int res, uint32_t flags,
		       const void *data)
{
	struct twi_tcp_lane *lane = (struct twi_tcp_lane *)(void *)base;
	enum twi_tcp_event event = (enum twi_tcp_event)(user_data >> 52 & 15);
	uint32_t bit = 1u << (user_data >> 47 & 31), index = (uint32_t)user_data & 0x7fffffffu;
	uint16_t generation = (uint16_t)(user_data >> 31);
	struct twi_tcp_slot *slot;

	if (event == TWI_TCP_SEND_ZC) {
		twi_tcp_zerocopy_sent(lane, index, res, flags);
		return;
	}
	if (index >= lane->slot_count)
		return;
	slot = &lane->slots[index];
	if (slot->generation != generation || (slot->stream == NULL && slot->endpoint == NULL)) {
		return;
	}
	if (slot->endpoint != NULL) {
		slot->endpoint->accept_rings &= ~bit;
		accept_event(lane, slot->endpoint);
		return;
	}
	if (event == TWI_TCP_POLLIN)
		slot->stream->pollin_rings &= ~bit;
	else if (event == TWI_TCP_POLLOUT)
		slot->stream->pollout_rings &= ~bit;
	else if (event == TWI_TCP_RECV && (flags & IORING_CQE_F_MORE) == 0)
		slot->stream->recv_rings &= ~bit;
	stream_event(lane, slot->stream, event, res, flags, data);
}
