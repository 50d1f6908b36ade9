/*
 * tcp_io.c - the tcp lane's data path: arming, sending, receiving, and the handling of completions.
 *
 * Budget: at most one send and one receive in flight for each stream. All requests of one round of
 * progress, for all peers, go to the kernel in one system call.
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/lanes/tcp/tcp.h"
#include "transport/lanes/tcp/tcp_part.h"
#include "transport/op/lane_host.h"

#define ANSWERS_MAX 16u /* frames about payload that share a packet */

/* The user data of a request in the present ring. */
static uint64_t tag_of(const struct twi_tcp_lane *lane, enum twi_tcp_event event,
		       const struct twi_tcp_stream *stream)
{
	return twi_tcp_tag(lane->base.engine->ring, event, stream->generation, stream->slot);
}

/*
 * The ring's bit, or 0: the thread has no ring to arm in, or the ring is armed. Requests that a
 * thread other than the driver arms must be armed by the driver too, when it comes back.
 */
static uint32_t may_arm(struct twi_engine *engine, uint32_t rings)
{
	engine->armed_since_enter = true;
	if (engine->ring != engine->armed_ring)
		engine->armed_ring = NULL;
	return engine->ring != NULL ? 1u << engine->ring->index & ~rings : 0;
}

static void poll_arm(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream, uint32_t *rings,
		     unsigned mask, enum twi_tcp_event event)
{
	struct twi_engine *engine = lane->base.engine;
	uint32_t bit = may_arm(engine, *rings);

	if (bit != 0 &&
	    engine->ring->poller->poll(engine->ring, stream->fd, mask, tag_of(lane, event, stream)))
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

void twi_tcp_accept_arm(struct twi_tcp_lane *lane, struct twi_tcp_listener *listener)
{
	struct twi_engine *engine = lane->base.engine;
	uint32_t bit;

	if (listener->pause_until_ns != 0)
		return;
	bit = may_arm(engine, listener->accept_rings);
	if (bit != 0 &&
	    engine->ring->poller->poll(engine->ring, listener->fd, POLLIN,
				       twi_tcp_tag(engine->ring, TWI_TCP_ACCEPT,
						   listener->generation, listener->slot)))
		listener->accept_rings |= bit;
}

static void recv_arm(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	struct twi_engine *engine = lane->base.engine;
	uint32_t bit;

	if (engine->plain_rings) {
		twi_tcp_poll_in(lane, stream);
		return;
	}
	bit = may_arm(engine, stream->recv_rings);
	if (bit != 0 && engine->ring->poller->receive(engine->ring, stream->fd,
						      tag_of(lane, TWI_TCP_RECV, stream)))
		stream->recv_rings |= bit;
}

/* Arms in the driver's ring the events that a stream of this state waits for. */
void twi_tcp_arm(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	switch (stream->state) {
	case TWI_TCP_CONNECTING:
		twi_tcp_poll_out(lane, stream);
		return;
	case TWI_TCP_UP:
		if (stream->line == 0 && stream->state == TWI_TCP_UP && stream->seal == NULL) {
			if (!stream->direct)
				recv_arm(lane, stream);
		} else if (!stream->rx_busy && !stream->rx_held)
			twi_tcp_poll_in(lane, stream);
		if (stream->tx_blocked)
			twi_tcp_poll_out(lane, stream);
		return;
	default:
		twi_tcp_poll_in(lane, stream);
	}
}

static bool may_send(const struct twi_tcp_stream *stream)
{
	return stream != NULL && stream->state == TWI_TCP_UP && !stream->tx_busy &&
	       !stream->tx_blocked;
}

/* Sends one piece of memory: the control buffer, or sealed bytes. */
static void send_piece(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream, struct iovec out)
{
	struct twi_ring *ring = lane->base.engine->ring;

	if (ring == NULL ||
	    !ring->poller->send(ring, stream->fd, out.iov_base, out.iov_len,
				MSG_DONTWAIT | MSG_NOSIGNAL, tag_of(lane, TWI_TCP_SEND, stream))) {
		twi_tcp_mark_dirty(stream->peer);
		return;
	}
	stream->tx_parts[0] = out;
	stream->tx_busy = true;
}

static void send_control(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer)
{
	struct twi_tcp_stream *stream = peer->lines[0].stream;
	struct iovec out;

	if (!may_send(stream))
		return;
	if (twi_unlikely(stream->seal != NULL) ? !twi_tcp_seal_out(lane, stream, &out)
					       : !twi_session_control_out(&peer->session, &out))
		return;
	twi_count(lane->base.engine->diag, TWI_C_control_batches_sent, 1);
	if (!twi_tcp_direct_send(lane, stream, out))
		send_piece(lane, stream, out);
}

/*
 * While there is more to send, the end of a message shares a segment with the bytes behind it.
 * MSG_MORE is not enough: without Nagle's algorithm, the next acknowledgement pushes the rest out.
 */
static void cork_stream(struct twi_tcp_stream *stream, bool on)
{
	const int value = on;

	if (stream->corked == on)
		return;
	setsockopt(stream->fd, IPPROTO_TCP, TCP_CORK, &value, sizeof(value));
	stream->corked = on;
}

static void send_bulk(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	struct twi_engine *engine = lane->base.engine;
	struct twi_ring *ring = engine->ring;
	struct twi_bulk_out out;
	int flags = MSG_DONTWAIT | MSG_NOSIGNAL, slot;

	if (twi_unlikely(stream->seal != NULL)) {
		struct iovec sealed;

		if (twi_tcp_seal_out(lane, stream, &sealed))
			send_piece(lane, stream, sealed);
		return;
	}
	if (!twi_session_bulk_out(&stream->peer->session, stream->line - 1u,
				  engine->knobs.bulk_chunk_bytes, &out)) {
		cork_stream(stream, false);
		return;
	}
	if (twi_tcp_zerocopy_wants(lane, stream, &out, &slot)) {
		if (out.payload_part == 0 && twi_tcp_zerocopy_go(lane, stream, &out, slot))
			return;
		/* A zero-copy send has payload alone: the header goes ahead in a plain send. */
		if (out.payload_part > 0) {
			out.count = out.payload_part;
			flags |= MSG_MORE;
		}
	}
	for (int i = 0; i < out.count; i++)
		stream->tx_parts[i] = out.parts[i];
	stream->tx_msg =
		(struct msghdr){ .msg_iov = stream->tx_parts, .msg_iovlen = (size_t)out.count };
	if (ring == NULL || !ring->poller->sendmsg(ring, stream->fd, &stream->tx_msg, flags,
						   tag_of(lane, TWI_TCP_SEND, stream))) {
		twi_tcp_mark_dirty(stream->peer);
		return;
	}
	if (out.more) /* before the send is submitted */
		cork_stream(stream, true);
	stream->tx_busy = true;
}

/*
 * Where the next bytes of a bulk stream, or of an encrypted one, go. 0: nowhere until the control
 * stream has brought more.
 */
static int fill_rx_parts(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	struct twi_session *session = &stream->peer->session;

	if (twi_unlikely(stream->seal != NULL))
		return twi_tcp_seal_room(stream, &stream->rx_parts[0]) ? 1 : 0;
	return twi_session_bulk_want(session, stream->line - 1u,
				     lane->base.engine->knobs.bulk_chunk_bytes, stream->rx_parts);
}

static void recv_bulk(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	struct twi_engine *engine = lane->base.engine;
	struct twi_ring *ring = engine->ring;
	int count;

	if (stream->state != TWI_TCP_UP || stream->rx_busy)
		return;
	count = fill_rx_parts(lane, stream);
	stream->rx_held = count == 0;
	if (count == 0)
		return;
	stream->rx_msg =
		(struct msghdr){ .msg_iov = stream->rx_parts, .msg_iovlen = (size_t)count };
	if (ring == NULL || !ring->poller->recvmsg(ring, stream->fd, &stream->rx_msg, MSG_DONTWAIT,
						   tag_of(lane, TWI_TCP_RECVMSG, stream))) {
		may_arm(engine, 0);
		engine->armed_ring = NULL; /* the next driver polls for it */
		return;
	}
	stream->rx_busy = true;
}

/* Control has brought bytes, so held streams may go on. False: the peer is lost. */
static bool release_held(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer)
{
	for (unsigned line = 1; line < peer->line_count; line++) {
		struct twi_tcp_stream *stream = peer->lines[line].stream;

		if (twi_likely(stream == NULL || !stream->rx_held))
			continue;
		if (stream->seal != NULL) {
			int status = twi_tcp_seal_in(lane, stream, 0);

			if (status < 0) {
				twi_tcp_bad_bytes(lane, peer, status);
				return false;
			}
		}
		recv_bulk(lane, stream);
	}
	return true;
}

/* Sends the control buffer, with an acknowledgement if one is owed. */
void twi_tcp_flush_peer(struct twi_tcp_peer *peer)
{
	struct twi_tcp_lane *lane = twi_tcp_lane_of(peer->base.engine);
	struct twi_tcp_stream *stream = peer->lines[0].stream;
	struct iovec out;

	if (peer->lost)
		return;
	peer->words_answered = lane->words;
	if (stream != NULL && !stream->tx_busy)
		twi_session_ack(&peer->session);
	if (!twi_session_control_out(&peer->session, &out))
		peer->session.urgent = false;
	send_control(lane, peer);
}

/*
 * Control frames about flowing payload are gathered. A small packet for each message would cost as
 * much as the payload of 64 KiB. The more messages are on their way, the longer frames wait.
 */
static void flush_or_gather(struct twi_tcp_peer *peer)
{
	struct twi_engine *engine = peer->base.engine;
	const struct twi_session *session = &peer->session;
	uint64_t hold_ns = engine->knobs.gather_ns, now_ns;
	unsigned flows = twi_session_flows(session);

	if (session->urgent || flows == 0 ||
	    session->tx_tail - session->tx_head >= ANSWERS_MAX * TWI_FRAME_BYTES) {
		twi_tcp_flush_peer(peer);
		return;
	}
	now_ns = twi_engine_now(engine);
	if (flows > ANSWERS_MAX)
		hold_ns *= ANSWERS_MAX / 4;
	if (now_ns - peer->last_flush_ns < hold_ns) {
		twi_tcp_mark_dirty(peer); /* the next progress asks again */
		return;
	}
	peer->last_flush_ns = now_ns;
	twi_tcp_flush_peer(peer);
}

/* An awaited acknowledgement goes with an answer of the program, or behind it. */
static void acknowledge_soon(struct twi_tcp_peer *peer)
{
	struct twi_session *session = &peer->session;

	session->ack_soon = false;
	if (session->acks_owed == 0)
		return;
	session->urgent = true;
	peer->base.engine->armed_since_enter = true;
	twi_tcp_mark_dirty(peer);
}

/* Sends everything that a peer may have to send after its session has moved. */
void twi_tcp_pump(struct twi_tcp_peer *peer)
{
	struct twi_tcp_lane *lane = twi_tcp_lane_of(peer->base.engine);
	struct twi_tcp_stream *control = peer->lines[0].stream;
	struct iovec out;

	if (peer->lost)
		return;
	if (peer->session.urgent || twi_session_control_out(&peer->session, &out) ||
	    (control != NULL && control->seal != NULL))
		flush_or_gather(peer);
	if (peer->parting)
		return;
	if (twi_unlikely(peer->session.ack_soon))
		acknowledge_soon(peer);
	for (unsigned line = 1; line < peer->line_count; line++) {
		struct twi_tcp_stream *stream = peer->lines[line].stream;

		if (may_send(stream))
			send_bulk(lane, stream);
	}
}

static bool would_block(int res)
{
	return res == -EAGAIN || res == -EWOULDBLOCK || res == -EINTR;
}

void twi_tcp_sent(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream, int res)
{
	struct twi_tcp_peer *peer = stream->peer;

	stream->tx_busy = false;
	if (would_block(res)) {
		twi_tcp_poll_out(lane, stream);
		/* The kernel has taken nothing, so a message that the peer refused may end now. */
		if (stream->line > 0 && stream->seal == NULL)
			twi_tcp_bulk_sent(lane, stream, 0);
		return;
	}
	if (twi_unlikely(res == -EFAULT) && twi_tcp_sent_fault(stream))
		return;
	if (res < 0) {
		/* Bytes that have arrived may still be read, so the receiving side decides. */
		stream->tx_blocked = true;
		if (stream->state != TWI_TCP_UP)
			twi_tcp_peer_lost(peer, TOW_ECLOSED);
		else if (stream->rx_held)
			twi_tcp_stream_ended(lane, stream, res);
		return;
	}
	stream->tx_bytes += (uint64_t)res;
	if (twi_unlikely(peer->several_ways))
		twi_tcp_stall_begin(lane);
	if (twi_unlikely(stream->seal != NULL)) {
		twi_tcp_seal_sent(stream, (size_t)res);
	} else if (stream->line > 0) {
		twi_tcp_zerocopy_missed(lane, stream, (uint64_t)res);
		if (!twi_tcp_bulk_sent(lane, stream, (size_t)res))
			return;
	} else {
		twi_session_control_sent(&peer->session, (size_t)res);
	}
	if ((stream->line == 0 || stream->seal != NULL) &&
	    (size_t)res < stream->tx_parts[0].iov_len)
		twi_tcp_poll_out(lane, stream);
	twi_tcp_mark_dirty(peer);
}

void twi_tcp_received(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream, int res,
		      const void *data)
{
	struct twi_tcp_peer *peer = stream->peer;
	int status;

	if (res <= 0) {
		twi_tcp_stream_ended(lane, stream, res);
		return;
	}
	peer->heard = true;
	lane->words += stream->direct;
	status = twi_session_control_in(&peer->session, data, (size_t)res);
	if (status < 0) {
		twi_tcp_bad_bytes(lane, peer, status);
		return;
	}
	if (twi_unlikely(peer->base.said_bye))
		twi_tcp_part_answer(peer);
	if (release_held(lane, peer))
		twi_tcp_mark_dirty(peer);
}

static void received_control(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream, int res,
			     uint32_t flags, const void *data)
{
	if (res > 0) {
		uint32_t slot = stream->slot;
		uint16_t generation = stream->generation;

		twi_tcp_received(lane, stream, res, data);
		if (lane->slots[slot].stream != stream || stream->generation != generation)
			return; /* it is gone */
		if ((flags & TWI_DONE_MORE) != 0)
			twi_tcp_direct_warm(lane, stream);
		else if (!stream->direct)
			recv_arm(lane, stream);
	} else if (res != -ENOBUFS && res != -ECANCELED && !would_block(res)) {
		twi_tcp_stream_ended(lane, stream, res);
	} else if (!stream->direct) {
		recv_arm(lane, stream);
	}
}

/* Gives received bytes to the session. False: the peer is lost. */
static bool bytes_deliver(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream, size_t bytes)
{
	struct twi_tcp_peer *peer = stream->peer;
	int status = twi_unlikely(stream->seal != NULL)
			     ? twi_tcp_seal_in(lane, stream, bytes)
			     : twi_session_bulk_in(&peer->session, stream->line - 1u, bytes);

	peer->heard = true;
	if (status < 0) {
		twi_tcp_bad_bytes(lane, peer, status);
		return false;
	}
	if (twi_unlikely(peer->base.said_bye) && stream->line == 0)
		twi_tcp_part_answer(peer);
	return stream->line > 0 || release_held(lane, peer);
}

static void received_bulk(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream, int res,
			  uint32_t flags)
{
	struct twi_tcp_peer *peer = stream->peer;
	size_t wanted = 0;

	stream->rx_busy = false;
	if (would_block(res)) {
		twi_tcp_poll_in(lane, stream);
		return;
	}
	if (twi_unlikely(res == -EFAULT) && twi_tcp_received_fault(stream)) {
		recv_bulk(lane, stream);
		return;
	}
	if (res <= 0) {
		twi_tcp_stream_ended(lane, stream, res);
		return;
	}
	for (size_t i = 0; i < stream->rx_msg.msg_iovlen; i++)
		wanted += stream->rx_parts[i].iov_len;
	if (!bytes_deliver(lane, stream, (size_t)res))
		return;
	if ((size_t)res == wanted || (flags & TWI_DONE_NONEMPTY) != 0)
		recv_bulk(lane, stream);
	else
		twi_tcp_poll_in(lane, stream);
	twi_tcp_mark_dirty(peer);
}

static void stream_event(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream,
			 enum twi_tcp_event event, int res, uint32_t flags, const void *data)
{
	switch (event) {
	case TWI_TCP_POLLIN:
		if (stream->state != TWI_TCP_UP)
			twi_tcp_handshake_event(lane, stream);
		else if (stream->line > 0 || stream->seal != NULL)
			recv_bulk(lane, stream);
		else if (lane->base.engine->plain_rings) {
			/*
			 * Not read now: another ring may still hold the completion of the send that
			 * these bytes answer.
			 */
			stream->readable = true;
			twi_tcp_mark_dirty(stream->peer);
		}
		break;
	case TWI_TCP_POLLOUT:
		stream->tx_blocked = false;
		if (stream->state != TWI_TCP_UP)
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
	if (slot->generation != generation || (slot->stream == NULL && slot->listener == NULL))
		return;
	if (slot->listener != NULL) {
		slot->listener->accept_rings &= ~bit;
		twi_tcp_accept_event(lane, slot->listener);
		return;
	}
	if (event == TWI_TCP_POLLIN)
		slot->stream->pollin_rings &= ~bit;
	else if (event == TWI_TCP_POLLOUT)
		slot->stream->pollout_rings &= ~bit;
	else if (event == TWI_TCP_RECV && (flags & TWI_DONE_MORE) == 0)
		slot->stream->recv_rings &= ~bit;
	stream_event(lane, slot->stream, event, res, flags, data);
}
