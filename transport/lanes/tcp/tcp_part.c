/*
 * tcp_part.c - how two sides part. See tcp_part.h.
 */
#include "transport/lanes/tcp/tcp_part.h"

#include <sys/socket.h>

#include "diag/base/error.h"
#include "transport/lanes/tcp/tcp_break.h"
#include "transport/wire/feature.h"
#include "transport/wire/rule.h"

static bool byes_answered(const struct twi_tcp_peer *peer)
{
	return (peer->base.features & TWI_FEATURE_BIT(tcp_byes)) != 0;
}

/* Has this side parted, and the socket taken its last byte? */
static bool output_finished(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	struct iovec left;

	return stream->peer->parting && !stream->tx_busy &&
	       (stream->seal != NULL ? twi_tcp_seal_out(lane, stream, &left)
				     : twi_session_control_out(&stream->peer->session, &left)) == 0;
}

void twi_tcp_peer_part(struct twi_tcp_peer *peer, int status)
{
	struct twi_engine *engine = peer->base.engine;
	struct twi_tcp_lane *lane = twi_tcp_lane_of(engine);

	peer->parting = true;
	twi_peer_ended(&peer->base, status);
	for (unsigned i = 1; i < peer->line_count; i++) {
		if (peer->lines[i].trial != NULL)
			twi_tcp_stream_destroy(lane, peer->lines[i].trial);
		if (peer->lines[i].stream != NULL)
			twi_tcp_stream_destroy(lane, peer->lines[i].stream);
		peer->lines[i].broken_ns = 0;
	}
	if (!peer->base.closed)
		twi_peer_tell_lost(&peer->base, tow_error_message());
	twi_session_fail(&peer->session, status);
	twi_session_bye(&peer->session);
	/* Buffered bytes are still sent; if control is broken, it is resumed for them. */
	peer->deadline_ns = twi_engine_now(engine) + TWI_LINGER_NS;
	twi_tcp_due(lane, peer->deadline_ns);
	if (twi_list_empty(&peer->dying))
		twi_list_push_back(&lane->dying, &peer->dying);
}

void twi_tcp_part_answer(struct twi_tcp_peer *peer)
{
	char rank[TWI_PEER_RANK];

	if (peer->parting || !byes_answered(peer))
		return;
	twi_rule_bye_error(peer->base.address, twi_peer_rank(&peer->base, rank), peer->session.bye);
	twi_tcp_peer_part(peer, TOW_EPEER);
	peer->session.urgent = true;
	twi_tcp_mark_dirty(peer);
	peer->base.engine->armed_since_enter = true; /* the next driver sends it */
}

static void peer_over(struct twi_tcp_peer *peer)
{
	char rank[TWI_PEER_RANK];

	twi_rule_bye_error(peer->base.address, twi_peer_rank(&peer->base, rank), peer->session.bye);
	twi_tcp_peer_lost(peer, peer->base.closed ? TOW_ECLOSED : TOW_EPEER);
}

void twi_tcp_part_finish(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer)
{
	struct twi_tcp_stream *stream = peer->lines[0].stream;

	if (stream == NULL || stream->state != TWI_TCP_UP || !output_finished(lane, stream))
		return;
	if (stream->ended) {
		peer_over(peer);
		return;
	}
	if (stream->shut)
		return;
	stream->shut = true;
	shutdown(stream->fd, SHUT_WR);
	twi_tcp_arm(lane, stream);
}

void twi_tcp_stream_ended(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream, int res)
{
	struct twi_tcp_peer *peer = stream->peer;
	bool finished = output_finished(lane, stream);

	if (peer->base.said_bye && res == 0 && peer->parting && stream->line == 0 && !finished) {
		stream->ended = true; /* our own BYE is still to be sent */
		twi_tcp_mark_dirty(peer);
		return;
	}
	if (peer->base.said_bye ||
	    (finished && (res == 0 || stream->shut) && !byes_answered(peer))) {
		peer_over(peer);
		return;
	}
	if (res < 0)
		twi_error_errno(TOW_EPEER, -res, "the connection broke");
	else
		twi_error(TOW_EPEER, "the connection ended without a goodbye");
	twi_tcp_line_broken(lane, peer, stream->line, 0);
}
