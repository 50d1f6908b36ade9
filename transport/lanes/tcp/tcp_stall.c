/*
 * tcp_stall.c - see tcp_stall.h.
 *
 * If something is owed on a connection, and no segment comes except data, there are three causes.
 * Its path is cut, its host stands still, or its program does. A program that does not read is not
 * the cause for long: its kernel still acknowledges, 200 ms later at most.
 *
 * A program that has sent something meanwhile does read; a ping asks for that. Then the lane waits
 * for 30 ms and at least four round trips. An acknowledgement of one or two small segments may be
 * delayed by 40 ms, so these have 100 ms. Without such a sign, or if the peer's window is full, it
 * is 250 ms and at least eight round trips. A line that stalls again has twice the time, up to a
 * second. So a path that loses much is not left again and again.
 *
 * linux/tcp.h, not netinet/tcp.h: see tcp_socket.c.
 */
#include "transport/lanes/tcp/tcp_stall.h"

#include <linux/tcp.h>
#include <stddef.h>
#include <sys/socket.h>

#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/lanes/tcp/tcp.h"
#include "transport/lanes/tcp/tcp_break.h"
#include "transport/stream/session.h"

#define MS_NS        1000000ull
#define LOOK_NS      (10 * MS_NS)
#define LOOKED_AT    64u /* connections in one look */
#define SHORT_NS     (30 * MS_NS)
#define DELAYED_NS   (100 * MS_NS)
#define ALONE_NS     (250 * MS_NS)
#define LONGEST_NS   (1000 * MS_NS)
#define ROUND_TRIPS  4u
#define ALONE_TRIPS  8u
#define LOOKS        3u /* without progress: then the kernel has had time for what had come */
#define FEW_SEGMENTS 2u
#define ACCEPTOR_NS  (10 * MS_NS) /* the acceptor dials so much later */
#define CALM_NS      (10000 * MS_NS)
#define LATER_NS     (200 * MS_NS) /* the acceptor goes back so much later */
#define BACK_MIN_NS  (1000 * MS_NS)
#define BACK_MAX_NS  (60000 * MS_NS)

static bool way_of(const struct twi_tcp_stream *stream, struct twi_tcp_way *out)
{
	return twi_tcp_local(stream->fd, &out->local) && twi_tcp_remote(stream->fd, &out->remote);
}

static bool same_way(const struct twi_tcp_way *a, const struct twi_tcp_way *b)
{
	return twi_tcp_same_host(&a->local, &b->local) && twi_tcp_same_host(&a->remote, &b->remote);
}

void twi_tcp_stall_ways(struct twi_tcp_peer *peer)
{
	struct twi_tcp_way first = { .local = { .bytes = 0 } }, way;
	bool any = false;

	peer->several_ways = false;
	for (unsigned i = 0; i < peer->line_count; i++) {
		const struct twi_tcp_stream *stream = peer->lines[i].stream;

		if (stream == NULL || !way_of(stream, &way))
			continue;
		if (any && !same_way(&way, &first))
			peer->several_ways = true;
		first = any ? first : way;
		any = true;
	}
}

void twi_tcp_stall_begin(struct twi_tcp_lane *lane)
{
	if (lane->stalls.look_ns != UINT64_MAX)
		return;
	lane->stalls.look_ns = twi_engine_now(lane->base.engine) + LOOK_NS;
	twi_tcp_due(lane, lane->stalls.look_ns);
}

static bool read_info(const struct twi_tcp_stream *stream, struct tcp_info *out)
{
	socklen_t bytes = sizeof(*out);

	*out = (struct tcp_info){ 0 };
	return getsockopt(stream->fd, IPPROTO_TCP, TCP_INFO, out, &bytes) == 0 &&
	       bytes >= offsetof(struct tcp_info, tcpi_snd_wnd) + sizeof(uint32_t);
}

/*
 * Is an acknowledgement due? Bytes have been sent; or the kernel has bytes for which the peer has
 * room. The second case matters because nothing counts as sent while the interface is down.
 */
static bool is_owed(const struct tcp_info *info)
{
	return info->tcpi_unacked > 0 ||
	       (info->tcpi_notsent_bytes > 0 && info->tcpi_snd_wnd >= info->tcpi_snd_mss);
}

/* Updates the stream's pulse. Returns whether something is awaited on it. */
static bool take_pulse(struct twi_tcp_stream *stream, uint64_t now_ns, struct tcp_info *info)
{
	struct twi_tcp_pulse *pulse = &stream->pulse;
	uint32_t acks;

	if (pulse->idle && pulse->tx_bytes == stream->tx_bytes)
		return false;
	pulse->tx_bytes = stream->tx_bytes;
	if (!read_info(stream, info))
		return false;
	acks = info->tcpi_segs_in - info->tcpi_data_segs_in;
	pulse->idle = info->tcpi_unacked == 0 && info->tcpi_notsent_bytes == 0;
	if (!is_owed(info)) { /* all is acked, or the program there has no room */
		pulse->since_ns = 0;
		pulse->looks = 0;
	} else if (pulse->since_ns == 0 || info->tcpi_bytes_acked != pulse->acked_bytes ||
		   acks != pulse->acks) {
		pulse->since_ns = now_ns;
		pulse->looks = 0;
	} else {
		pulse->looks++;
	}
	pulse->acked_bytes = info->tcpi_bytes_acked;
	pulse->acks = acks;
	return !pulse->idle;
}

/*
 * Has the peer's program sent something since the stream had its last acknowledgement? Then it
 * reads what comes. For a program that does not read, the kernel delays acknowledgements, by 200 ms
 * at most.
 */
static bool is_reached(const struct twi_tcp_peer *peer, const struct twi_tcp_stream *stalled)
{
	return peer->session.input_ns > stalled->pulse.since_ns;
}

/* Has this side sent all that the peer's window takes? Then the peer may not read this stream. */
static bool fills_window(const struct tcp_info *info)
{
	return ((uint64_t)info->tcpi_unacked + 2) * info->tcpi_snd_mss >= info->tcpi_snd_wnd;
}

/* How long nothing must have been acknowledged before the line leaves its stream. */
static uint64_t patience_of(const struct twi_tcp_peer *peer, const struct twi_tcp_stream *stream,
			    const struct tcp_info *info)
{
	uint64_t rtt_ns = (uint64_t)info->tcpi_rtt * 1000, ns;

	if (!is_reached(peer, stream) || fills_window(info))
		ns = twi_max(ALONE_NS, ALONE_TRIPS * rtt_ns);
	else if (info->tcpi_unacked <= FEW_SEGMENTS && info->tcpi_notsent_bytes == 0)
		ns = twi_max(DELAYED_NS, ROUND_TRIPS * rtt_ns);
	else
		ns = twi_max(SHORT_NS, ROUND_TRIPS * rtt_ns);
	return ns << peer->lines[stream->line].stall.times;
}

/* The peer is not reached over this path: dials over another one at once. */
static void give_up(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer,
		    struct twi_tcp_stream *stream, uint64_t now_ns)
{
	struct twi_tcp_line *line = &peer->lines[stream->line];
	uint64_t since_ns = stream->pulse.since_ns;
	unsigned number = stream->line;

	line->stall.shuns = way_of(stream, &line->stall.way);
	if ((SHORT_NS << (line->stall.times + 1)) <= LONGEST_NS)
		line->stall.times++;
	line->stall.last_ns = now_ns;
	twi_count(lane->base.engine->diag, TWI_C_connections_stalled, 1);
	twi_error(TOW_EPEER, "nothing was acknowledged for %llu ms",
		  (unsigned long long)((now_ns - since_ns) / MS_NS));
	twi_tcp_line_broken(lane, peer, number, since_ns);
	if (peer->lost || line->broken_ns == 0)
		return;
	line->redial_ns = now_ns + (peer->base.connector ? 0 : ACCEPTOR_NS);
	twi_tcp_due(lane, line->redial_ns);
}

/* Pings a peer without acknowledgements since the last look: an answer shows that it is there. */
static void ask_for_sign(struct twi_tcp_peer *peer, const struct twi_tcp_stream *stalled)
{
	const struct twi_tcp_stream *control = peer->lines[0].stream;

	if (control == NULL || control == stalled || control->pulse.looks > 0 ||
	    peer->session.input_ns > stalled->pulse.since_ns)
		return;
	twi_session_ping(&peer->session);
	twi_tcp_mark_dirty(peer);
}

/* Returns whether something is awaited from the peer. */
static bool look_at_peer(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer, uint64_t now_ns)
{
	bool awaits = false;

	for (unsigned i = 0; i < peer->line_count && !peer->lost; i++) {
		struct twi_tcp_line *line = &peer->lines[i];
		struct twi_tcp_stream *stream = line->stream;
		struct tcp_info info;

		if (stream == NULL || stream->state != TWI_TCP_UP)
			continue;
		if (line->stall.times > 0 && now_ns - line->stall.last_ns > CALM_NS)
			line->stall.times = 0;
		if (!take_pulse(stream, now_ns, &info))
			continue;
		awaits = true;
		if (stream->pulse.looks == 1)
			ask_for_sign(peer, stream);
		if (stream->pulse.looks >= LOOKS &&
		    now_ns - stream->pulse.since_ns >= patience_of(peer, stream, &info))
			give_up(lane, peer, stream, now_ns);
	}
	return awaits;
}

static bool is_looked_at(const struct twi_tcp_lane *lane, const struct tow_peer *base)
{
	const struct twi_tcp_peer *peer = (const struct twi_tcp_peer *)(const void *)base;

	return base->lane == &lane->base && peer->several_ways && peer->up && !peer->lost &&
	       !peer->parting;
}

/* Connections above the limit of one look have their turns in the next looks. */
uint64_t twi_tcp_stall_look(struct twi_tcp_lane *lane, uint64_t now_ns)
{
	struct twi_list *pos, *next;
	uint32_t place = 0, looked = 0, until = UINT32_MAX;
	bool awaits = false;

	if (now_ns < lane->stalls.look_ns)
		return lane->stalls.look_ns;
	twi_list_for_each_safe (pos, next, &lane->base.engine->peers) {
		struct tow_peer *base = twi_container_of(pos, struct tow_peer, link);
		struct twi_tcp_peer *peer = (struct twi_tcp_peer *)(void *)base;

		if (!is_looked_at(lane, base) || place++ < lane->stalls.from)
			continue;
		if (looked >= LOOKED_AT) {
			until = place - 1;
			break;
		}
		looked += peer->line_count;
		awaits |= look_at_peer(lane, peer, now_ns);
	}
	awaits |= until != UINT32_MAX || lane->stalls.from > 0;
	lane->stalls.from = until != UINT32_MAX ? until : 0;
	lane->stalls.look_ns = awaits ? now_ns + LOOK_NS : UINT64_MAX;
	return lane->stalls.look_ns;
}

/* --- back to the path that was left --- */

void twi_tcp_stall_mended(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer, unsigned line)
{
	const struct twi_tcp_stream *stream = peer->lines[line].stream;
	struct twi_tcp_stall *stall = &peer->lines[line].stall;
	uint64_t now = twi_engine_now(lane->base.engine);
	struct twi_tcp_way way;

	stall->left |= stall->shuns;
	stall->shuns = false;
	if (!stall->left)
		return;
	if (way_of(stream, &way) && same_way(&way, &stall->way)) {
		stall->left = false;
		return;
	}
	/* The first time, or the path was good for long: back_ns lies after the last attempt. */
	if (stall->back_wait_ns == 0 || now > stall->back_ns + BACK_MAX_NS)
		stall->back_wait_ns = BACK_MIN_NS;
	stall->back_ns = now + stall->back_wait_ns + (peer->base.connector ? 0 : LATER_NS);
	lane->stalls.back_ns = twi_min(lane->stalls.back_ns, stall->back_ns);
	twi_tcp_due(lane, lane->stalls.back_ns);
}

static void try_back(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer, unsigned line,
		     uint64_t now_ns)
{
	struct twi_tcp_stall *stall = &peer->lines[line].stall;

	stall->back_wait_ns = twi_min(stall->back_wait_ns * 2, (uint64_t)BACK_MAX_NS);
	stall->back_ns = now_ns + stall->back_wait_ns;
	(void)twi_tcp_dial_back(lane, peer, line);
}

uint64_t twi_tcp_stall_return(struct twi_tcp_lane *lane, uint64_t now_ns)
{
	struct twi_list *pos, *next;
	uint64_t next_ns = UINT64_MAX;

	if (now_ns < lane->stalls.back_ns)
		return lane->stalls.back_ns;
	twi_list_for_each_safe (pos, next, &lane->base.engine->peers) {
		struct tow_peer *base = twi_container_of(pos, struct tow_peer, link);
		struct twi_tcp_peer *peer = (struct twi_tcp_peer *)(void *)base;

		if (base->lane != &lane->base || !peer->up || peer->lost || peer->parting)
			continue;
		for (unsigned i = 0; i < peer->line_count; i++) {
			const struct twi_tcp_line *line = &peer->lines[i];

			if (!line->stall.left)
				continue;
			if (line->stall.back_ns <= now_ns && line->stream != NULL &&
			    line->trial == NULL)
				try_back(lane, peer, i, now_ns);
			next_ns = twi_min(next_ns, twi_max(line->stall.back_ns, now_ns + LOOK_NS));
		}
	}
	lane->stalls.back_ns = next_ns;
	return next_ns;
}
