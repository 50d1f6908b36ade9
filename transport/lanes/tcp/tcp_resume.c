/*
 * tcp_resume.c - resuming a line. See tcp_resume.h.
 */
#include "transport/lanes/tcp/tcp_resume.h"

#include "diag/base/error.h"
#include "transport/lanes/tcp/tcp_break.h"

/* The low byte of the tail's first word. The others are the number; 0: a version without it. */
#define SPEAKS_CONNECTOR 1u
#define SPEAKS_ACCEPTOR  2u
#define NUMBER_SHIFT     8

static bool has_numbers(const struct twi_tcp_peer *peer)
{
	return (peer->base.features & TWI_FEATURE_BIT(tcp_resumes)) != 0;
}

static uint32_t first_word(const struct twi_tcp_words *words)
{
	return words->tail_bytes < 4 ? 0 : twi_get_le32(words->tail);
}

void twi_tcp_resume_put(const struct twi_tcp_stream *stream, struct twi_tcp_words *words)
{
	struct twi_tcp_peer *peer = stream->peer;
	struct twi_session *session = &peer->session;
	uint32_t word = peer->base.connector ? SPEAKS_CONNECTOR : SPEAKS_ACCEPTOR;
	uint8_t *at = words->tail + 4;

	words->hello.flags = TWI_HELLO_RESUME;
	words->hello.features = 0; /* the first agreement stays */
	if (has_numbers(peer))
		word |= ++peer->lines[stream->line].said << NUMBER_SHIFT;
	twi_put_le32(words->tail, word);
	words->tail_bytes =
		4 + (stream->line == 0
			     ? twi_session_control_resume_put(session, at)
			     : twi_session_bulk_resume_put(session, stream->line - 1u, at));
	twi_assert(words->tail_bytes <= sizeof(words->tail));
}

int twi_tcp_resume_speaker(const struct twi_tcp_words *words, bool *connector_out)
{
	uint32_t speaker = first_word(words) & ((1u << NUMBER_SHIFT) - 1);

	*connector_out = speaker == SPEAKS_CONNECTOR;
	return speaker == SPEAKS_CONNECTOR || speaker == SPEAKS_ACCEPTOR
		       ? TOW_OK
		       : twi_error(TOW_EPROTOCOL, "a stream resumes a session as neither side");
}

/* Numbers go round: a newer one is less than half of them ahead. */
int twi_tcp_resume_newer(const struct twi_tcp_peer *peer, unsigned line,
			 const struct twi_tcp_words *words)
{
	uint32_t ahead = first_word(words) - (peer->lines[line].heard << NUMBER_SHIFT);

	if (!has_numbers(peer) || (int32_t)(ahead & ~((1u << NUMBER_SHIFT) - 1)) > 0)
		return TOW_OK;
	return twi_error(TOW_EBUSY, "peer %s: its connection was resumed since it said this",
			 peer->base.address);
}

int twi_tcp_may_resume(const struct twi_tcp_peer *peer, unsigned line,
		       const struct twi_tcp_words *words)
{
	const struct twi_tcp_stream *trial;

	if (line >= peer->line_count || !peer->up)
		return twi_error(TOW_EPROTOCOL,
				 "a stream resumes a connection that peer %s "
				 "does not have",
				 peer->base.address);
	if (peer->lost || (peer->parting ? line > 0 : peer->base.said_bye))
		return twi_error(TOW_ECLOSED, "peer %s is closed", peer->base.address);
	trial = peer->lines[line].trial;
	if (peer->base.connector && trial != NULL && trial->greet != NULL && trial->greet->said)
		return twi_error(TOW_EBUSY, "peer %s is being dialed", peer->base.address);
	return twi_tcp_resume_newer(peer, line, words);
}

static int take_record(struct twi_tcp_peer *peer, unsigned line, const struct twi_tcp_words *words)
{
	struct twi_session *session = &peer->session;
	const uint8_t *at = words->tail + 4;
	size_t bytes = words->tail_bytes < 4 ? 0 : words->tail_bytes - 4, used = 0;
	int status;

	peer->lines[line].heard = first_word(words) >> NUMBER_SHIFT;
	if (line == 0)
		status = twi_session_control_resume(session, at, bytes, &used);
	else
		status = twi_session_bulk_resume(session, line - 1, at, bytes, &used);
	if (status == TOW_AGAIN || (status == TOW_OK && used != bytes))
		return twi_error(TOW_EPROTOCOL, "peer %s: its resume record has a wrong length",
				 peer->base.address);
	return status;
}

void twi_tcp_resumed(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream,
		     const struct twi_tcp_words *words)
{
	struct twi_tcp_peer *peer = stream->peer;
	unsigned line = stream->line;
	int status;

	peer->lines[line].trial = NULL;
	peer->lines[line].stream = stream;
	status = take_record(peer, line, words);
	if (status < 0) {
		/* Without a position to resume at, control cannot carry a BYE. */
		if (line == 0)
			peer->session.rule = 0;
		twi_tcp_bad_bytes(lane, peer, status);
		return;
	}
	twi_tcp_stream_up(lane, stream);
	twi_tcp_line_mended(lane, peer, line);
}
