/*
 * tcp_direct.c - control streams that the polling thread reads itself. See tcp_direct.h.
 */
#include "transport/lanes/tcp/tcp_direct.h"

#include <errno.h>
#include <stdlib.h>

#include "diag/base/cancel.h"
#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/lanes/tcp/tcp.h"

#define WARM_RECEIVES 16u   /* in a row without a sleep */
#define PULLS_MAX     16u   /* before other streams have their turn */
#define IDLE_TURNS    4096u /* without a byte: the stream is armed again */

static void forget_stream(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	struct twi_tcp_direct *direct = &lane->direct;

	for (unsigned i = 0; i < direct->count; i++) {
		if (direct->streams[i] == stream)
			direct->streams[i] = direct->streams[--direct->count];
	}
	lane->base.engine->read_directly = direct->count;
	stream->direct = false;
	stream->warm = 0;
}

void twi_tcp_direct_forget(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	if (stream->direct)
		forget_stream(lane, stream);
}

void twi_tcp_direct_end(struct twi_tcp_lane *lane)
{
	struct twi_tcp_direct *direct = &lane->direct;

	direct->sleeps++;
	while (direct->count > 0) {
		struct twi_tcp_stream *stream = direct->streams[0];

		forget_stream(lane, stream);
		twi_tcp_arm(lane, stream);
	}
}

static bool disarm_stream(const struct twi_tcp_lane *lane, const struct twi_tcp_stream *stream)
{
	struct twi_ring *ring = lane->base.engine->ring;

	return ring->poller->cancel(
		ring, stream->fd,
		twi_tcp_tag(ring, TWI_TCP_RECV, stream->generation, stream->slot));
}

/*
 * While payload flows, turns are long, or many that find nothing. Then each would cost one system
 * call more.
 */
static bool payload_flows(const struct twi_tcp_stream *stream)
{
	return twi_session_flows(&stream->peer->session) > 0;
}

/*
 * Will the driver poll again in a moment? A caller that waits or polls will. The library's own
 * thread sleeps as soon as nothing happens.
 */
static bool driver_returns(const struct twi_engine *engine)
{
	return engine->ring->index != TWI_RING_BACKGROUND ||
	       atomic_load_explicit(&engine->waiters, memory_order_relaxed) > 0;
}

void twi_tcp_direct_warm(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	struct twi_engine *engine = lane->base.engine;
	struct twi_tcp_direct *direct = &lane->direct;

	/* An armed receive may bring more until its end, but a stream must be in the list once. */
	if (stream->direct)
		return;
	if (stream->warm_sleeps != direct->sleeps || payload_flows(stream)) {
		stream->warm_sleeps = direct->sleeps;
		stream->warm = 0;
	}
	if (stream->warm < WARM_RECEIVES)
		stream->warm++;
	if (stream->warm < WARM_RECEIVES || direct->count == TWI_TCP_DIRECT_MAX ||
	    engine->ring == NULL || engine->ring != engine->armed_ring || !driver_returns(engine) ||
	    atomic_load_explicit(&engine->watchers, memory_order_relaxed) > 0)
		return;
	if (!disarm_stream(lane, stream))
		return;
	stream->direct = true;
	stream->idle_turns = 0;
	direct->streams[direct->count++] = stream;
	engine->read_directly = direct->count;
}

static void arm_again(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	forget_stream(lane, stream);
	twi_tcp_arm(lane, stream);
}

/* Reads one stream. True: bytes or its end have come, and the stream may be gone. */
static bool read_one(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	const struct twi_engine *engine = lane->base.engine;
	ssize_t n;

	/* The armed receive of this ring is being canceled, and may still bring bytes before. */
	if (engine->ring == NULL || (stream->recv_rings & 1u << engine->ring->index) != 0)
		return false;
	if (payload_flows(stream)) {
		arm_again(lane, stream);
		return false;
	}
	n = recv(stream->fd, lane->direct.buffer, TWI_RING_BUFFER_BYTES, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		if (++stream->idle_turns == IDLE_TURNS)
			arm_again(lane, stream);
		return false;
	}
	stream->idle_turns = 0;
	twi_count(engine->diag, TWI_C_direct_receives, 1);
	twi_tcp_received(lane, stream, n < 0 ? -errno : (int)n, lane->direct.buffer);
	return true;
}

unsigned twi_tcp_direct_read(struct twi_tcp_lane *lane)
{
	struct twi_tcp_direct *direct = &lane->direct;
	unsigned events = 0;

	/* Backwards, because a stream that leaves is replaced by the last one. */
	for (unsigned i = direct->count; i-- > 0;) {
		if (i < direct->count)
			events += read_one(lane, direct->streams[i]);
	}
	return events;
}

bool twi_tcp_direct_pull(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	struct twi_ring *ring = lane->base.engine->ring;
	const uint32_t slot = stream->slot;
	const uint16_t generation = stream->generation;
	bool any = false;

	/* The bytes may answer a send of this ring, whose completion must be handled first. */
	if (ring != NULL)
		twi_ring_reap(ring);
	if (lane->slots[slot].stream != stream || stream->generation != generation)
		return true;
	for (unsigned i = 0; i < PULLS_MAX && !stream->direct; i++) {
		ssize_t n =
			recv(stream->fd, lane->direct.buffer, TWI_RING_BUFFER_BYTES, MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		twi_tcp_received(lane, stream, n < 0 ? -errno : (int)n, lane->direct.buffer);
		if (n <= 0 || lane->slots[slot].stream != stream ||
		    stream->generation != generation)
			return true; /* it is gone, or about to go */
		any = true;
		twi_tcp_direct_warm(lane, stream);
	}
	if (!stream->direct)
		twi_tcp_arm(lane, stream);
	return any;
}

static ssize_t send_now(int fd, struct iovec out)
{
	TWI_UNCANCELED;

	return send(fd, out.iov_base, out.iov_len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool twi_tcp_direct_send(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream, struct iovec out)
{
	const struct twi_engine *engine = lane->base.engine;
	struct twi_tcp_peer *peer = stream->peer;
	ssize_t n;

	/* A thread without a ring could not wait for room, so the driver sends. */
	if (lane->direct.count == 0 || stream->seal != NULL || engine->ring == NULL ||
	    engine->ring->unsubmitted > 0)
		return false;
	n = send_now(stream->fd, out);
	if (n < 0)
		return false;
	twi_count(engine->diag, TWI_C_direct_sends, 1);
	twi_session_control_sent(&peer->session, (size_t)n);
	if ((size_t)n < out.iov_len)
		twi_tcp_poll_out(lane, stream);
	if (twi_session_has_words(&peer->session)) /* this was one of several pieces of memory */
		twi_tcp_mark_dirty(peer);
	return true;
}

int twi_tcp_direct_init(struct twi_tcp_direct *direct)
{
	direct->buffer = malloc(TWI_RING_BUFFER_BYTES);
	return direct->buffer != NULL ? TOW_OK
				      : twi_error(TOW_ENOMEM, "no memory for the tcp lane");
}

void twi_tcp_direct_fini(struct twi_tcp_direct *direct)
{
	free(direct->buffer);
	direct->buffer = NULL;
}
