/*
 * tcp_measure.c - the state of the connections to a peer, for the question why a job does not go
 * on.
 *
 * Two figures show in which direction packets are lost: for how long nothing was acknowledged, and
 * what came meanwhile. So while a caller waits and a peer is silent, its connections are examined a
 * few times a second (TCP_INFO: a microsecond each). The peer also gets a ping once a second. A
 * missing answer is then known to both sides. A peer that sends costs nothing.
 *
 * linux/tcp.h, not netinet/tcp.h: see tcp_socket.c.
 */
#include <arpa/inet.h>
#include <linux/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>

#include "diag/judge/rank_state.h"
#include "transport/lanes/tcp/tcp.h"
#include "transport/stream/session.h"

#define MS_NS     1000000ull
#define WATCH_NS  (200 * MS_NS)
#define SILENT_NS (500 * MS_NS)
#define PING_NS   (1000 * MS_NS)

/* With timers that double, this takes at least 1.4 s: a live path has carried pings meanwhile. */
#define STUCK_AGAIN 3u
#define PASSED_MS   1500u

#define SYN_SENT 2u /* tcpi_state; its name is in the header that is not included */

/* Figures of one connection, or of all together. */
struct sum {
	uint32_t streams, unacked, backoffs, segments_in, segments_out;
	uint32_t retransmits, spurious, rtt_us, send_window;
	uint64_t acked_bytes, busy_us, rwnd_us, sndbuf_us;
	const struct twi_tcp_stream *full; /* longest held up by its send buffer; NULL: none */
	bool stuck, passes; /* one stream retransmits again and again; another gets through */
};

static bool add_stream(const struct twi_tcp_stream *stream, struct sum *sum)
{
	struct tcp_info info = { 0 };
	socklen_t bytes = sizeof(info);
	uint32_t rtt;

	if (getsockopt(stream->fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 ||
	    bytes < offsetof(struct tcp_info, tcpi_sndbuf_limited) + sizeof(uint64_t))
		return false;
	sum->streams++;
	sum->unacked += info.tcpi_unacked;
	sum->backoffs = twi_max(sum->backoffs, (uint32_t)info.tcpi_retransmits);
	sum->stuck |= info.tcpi_unacked > 0 && info.tcpi_retransmits >= STUCK_AGAIN;
	sum->passes |= info.tcpi_unacked == 0 && info.tcpi_last_data_sent < PASSED_MS;
	sum->segments_in += info.tcpi_segs_in;
	sum->segments_out += info.tcpi_segs_out;
	sum->retransmits += info.tcpi_total_retrans;
	sum->spurious += info.tcpi_dsack_dups; /* an older kernel leaves these 0 */
	sum->acked_bytes += info.tcpi_bytes_acked;
	sum->busy_us = twi_max(sum->busy_us, info.tcpi_busy_time);
	sum->rwnd_us = twi_max(sum->rwnd_us, info.tcpi_rwnd_limited);
	if (info.tcpi_sndbuf_limited > sum->sndbuf_us) {
		sum->sndbuf_us = info.tcpi_sndbuf_limited;
		sum->full = stream;
	}
	rtt = info.tcpi_min_rtt != 0 && info.tcpi_min_rtt != UINT32_MAX ? info.tcpi_min_rtt
									: info.tcpi_rtt;
	sum->rtt_us = sum->rtt_us == 0 ? rtt : twi_min(sum->rtt_us, rtt);
	sum->send_window = twi_max(sum->send_window, info.tcpi_snd_wnd);
	return true;
}

static void add_streams(const struct twi_tcp_peer *peer, struct sum *sum)
{
	*sum = (struct sum){ 0 };
	for (unsigned i = 0; i < peer->line_count; i++) {
		if (peer->lines[i].stream != NULL)
			add_stream(peer->lines[i].stream, sum);
	}
}

/* Updates the figures of the last look. Without any connection they stay. */
static void follow_sum(struct twi_tcp_watch *watch, const struct sum *sum, uint64_t now_ns)
{
	if (sum->streams == 0)
		return;
	if (sum->unacked == 0 || sum->acked_bytes != watch->acked_bytes) {
		watch->since_ns = sum->unacked > 0 ? now_ns : 0;
		watch->acked_bytes = sum->acked_bytes;
		watch->segments_in = sum->segments_in;
		watch->heard_segments = 0;
	} else if (watch->since_ns == 0) {
		watch->since_ns = now_ns;
		watch->segments_in = sum->segments_in;
	} else if (sum->segments_in > watch->segments_in) {
		watch->heard_segments = sum->segments_in - watch->segments_in;
	}
	watch->backoffs = sum->backoffs;
}

static uint32_t buffer_of(const struct twi_tcp_stream *stream, int option)
{
	int bytes = 0;
	socklen_t room = sizeof(bytes);

	return stream != NULL && getsockopt(stream->fd, SOL_SOCKET, option, &bytes, &room) == 0 &&
			       bytes > 0
		       ? (uint32_t)bytes
		       : 0;
}

static uint32_t least_buffer(const struct twi_tcp_peer *peer, int option)
{
	uint32_t least = 0;

	for (unsigned i = 0; i < peer->line_count; i++) {
		uint32_t bytes = buffer_of(peer->lines[i].stream, option);

		if (bytes > 0)
			least = least == 0 ? bytes : twi_min(least, bytes);
	}
	return least;
}

void twi_tcp_peer_measure(struct tow_peer *base, struct twi_state_link *out, char *fabric)
{
	struct twi_tcp_peer *peer = (struct twi_tcp_peer *)(void *)base;
	uint64_t now = twi_engine_now(base->engine);
	struct sum sum;

	(void)fabric;
	if (peer->session_up)
		twi_session_measure(&peer->session, now, out);
	if (base->ended != 0)
		return;
	add_streams(peer, &sum);
	follow_sum(&peer->watch, &sum, now);
	out->flags |= TWI_LINK_TCP;
	for (unsigned i = 0; i < peer->line_count; i++) {
		if (peer->lines[i].stream == NULL)
			out->flags |= TWI_LINK_BROKEN;
	}
	if (sum.stuck && sum.passes)
		out->flags |= TWI_LINK_STREAM_STUCK;
	if (peer->watch.since_ns != 0)
		out->stuck_ns = now - twi_min(now, peer->watch.since_ns);
	out->heard_segments = peer->watch.heard_segments;
	out->backoffs = peer->watch.backoffs;
	out->retransmits = sum.retransmits;
	out->spurious = sum.spurious;
	out->segments_in = sum.segments_in;
	out->segments_out = sum.segments_out;
	out->rtt_us = sum.rtt_us;
	out->send_window = sum.send_window;
	out->busy_us = sum.busy_us;
	out->rwnd_limited_us = sum.rwnd_us;
	out->sndbuf_limited_us = sum.sndbuf_us;
	/* The buffer of a stream that was not held up may be small, and does not matter. */
	out->send_buffer =
		sum.full != NULL ? buffer_of(sum.full, SO_SNDBUF) : least_buffer(peer, SO_SNDBUF);
	out->receive_buffer = least_buffer(peer, SO_RCVBUF);
}

static const char *host_of(const struct twi_tcp_address *at, char text[INET6_ADDRSTRLEN])
{
	const void *bytes = at->any.sa_family == AF_INET6 ? (const void *)&at->in6.sin6_addr
							  : (const void *)&at->in.sin_addr;

	return inet_ntop(at->any.sa_family, bytes, text, INET6_ADDRSTRLEN) != NULL ? text : "?";
}

/* Writes the two ends of a stream, and its interface on this host. */
static void path_describe(const struct twi_tcp_lane *lane, int fd, struct twi_state_stream *out)
{
	char here[INET6_ADDRSTRLEN], there[INET6_ADDRSTRLEN];
	struct twi_tcp_address from, to;

	if (!twi_tcp_local(fd, &from) || !twi_tcp_remote(fd, &to))
		return;
	snprintf(out->way, sizeof(out->way), "%s -> %s", host_of(&from, here), host_of(&to, there));
	snprintf(out->from_if, sizeof(out->from_if), "%s",
		 twi_tcp_interface_of(&lane->have, &from));
}

uint32_t twi_tcp_peer_streams(struct tow_peer *base, struct twi_state_stream *out, uint32_t room)
{
	const struct twi_tcp_peer *peer = (const struct twi_tcp_peer *)(const void *)base;
	uint32_t count = 0;

	if (base->ended != 0 || peer->line_count < 3 || room < peer->line_count - 1)
		return 0;
	for (unsigned i = 1; i < peer->line_count; i++) {
		const struct twi_tcp_stream *stream = peer->lines[i].stream;
		struct tcp_info info = { 0 };
		socklen_t bytes = sizeof(info);

		if (stream == NULL ||
		    getsockopt(stream->fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 ||
		    bytes < offsetof(struct tcp_info, tcpi_sndbuf_limited))
			continue;
		out[count] = (struct twi_state_stream){ .stream = (uint8_t)(i - 1),
							.acked_bytes = info.tcpi_bytes_acked,
							.busy_us = info.tcpi_busy_time,
							.rwnd_limited_us = info.tcpi_rwnd_limited };
		path_describe(twi_tcp_lane_of(base->engine), stream->fd, &out[count++]);
	}
	return count;
}

/* A SYN that was retransmitted has been without answer for a second or more. */
void twi_tcp_dial_measure(const struct tow_op *op, struct twi_state_dial *out)
{
	const struct twi_tcp_peer *peer = op->lane_state;
	char text[TOW_ADDRESS_MAX];

	out->lane = TWI_LANE_TCP;
	for (unsigned i = 0; peer != NULL && i < peer->line_count; i++) {
		const struct twi_tcp_stream *stream = peer->lines[i].stream;
		struct tcp_info info = { 0 };
		socklen_t bytes = sizeof(info);

		if (stream == NULL || stream->state != TWI_TCP_CONNECTING ||
		    getsockopt(stream->fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 ||
		    info.tcpi_state != SYN_SENT ||
		    (out->syn_ns != 0 && info.tcpi_retransmits <= out->syns))
			continue;
		out->syn_ns = stream->start_ns;
		out->syns = info.tcpi_retransmits;
		twi_tcp_format(&peer->rails.rows[stream->rail].remote, text);
		snprintf(out->address, sizeof(out->address), "%.*s", (int)sizeof(out->address) - 1,
			 text);
	}
}

static void look_at_peer(struct twi_tcp_peer *peer, uint64_t now_ns)
{
	struct twi_session *session = &peer->session;
	struct sum sum;

	if (session->input_ns + SILENT_NS > now_ns || peer->lines[0].stream == NULL)
		return;
	if (peer->watch.pinged_ns + PING_NS <= now_ns) {
		peer->watch.pinged_ns = now_ns;
		twi_session_ping(session);
		twi_tcp_mark_dirty(peer);
	}
	add_streams(peer, &sum);
	follow_sum(&peer->watch, &sum, now_ns);
}

uint64_t twi_tcp_watch_silent(struct twi_tcp_lane *lane, uint64_t now_ns)
{
	struct twi_engine *engine = lane->base.engine;
	struct twi_list *pos, *next;

	if (engine->inquiry == NULL || lane->beat_ns == UINT64_MAX ||
	    atomic_load_explicit(&engine->waiters, memory_order_relaxed) == 0)
		return UINT64_MAX;
	if (now_ns < lane->watch_ns)
		return lane->watch_ns;
	lane->watch_ns = now_ns + WATCH_NS;
	twi_list_for_each_safe (pos, next, &engine->peers) {
		struct tow_peer *base = twi_container_of(pos, struct tow_peer, link);
		struct twi_tcp_peer *peer = (struct twi_tcp_peer *)(void *)base;

		if (base->lane == &lane->base && peer->up && !peer->lost && !peer->parting)
			look_at_peer(peer, now_ns);
	}
	return lane->watch_ns;
}
