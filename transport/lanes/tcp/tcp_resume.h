/*
 * tcp_resume.h - what a stream says that takes the place of one that broke.
 *
 *	HELLO(RESUME) | tail: role and number (u32), resume record of session.h
 *
 * Either side may dial to resume. When both do, the stream of the session's connector is used. The
 * connector refuses the other one while its own is on its way, and the acceptor gives its own up.
 *
 * What an attempt said may be read long after it was given up, and after bytes have moved over
 * another stream. Such a record would set the line back to a place that it has left. So each side
 * numbers its records of a line, and takes no record after a newer one (feature tcp_resumes).
 */
#ifndef TWI_TCP_RESUME_H
#define TWI_TCP_RESUME_H

#include "transport/lanes/tcp/tcp.h"

/* Makes our HELLO of this stream one that resumes its line. */
void twi_tcp_resume_put(const struct twi_tcp_stream *stream, struct twi_tcp_words *words);

/* The role of the side that has sent this. TOW_OK, TOW_EPROTOCOL. */
int twi_tcp_resume_speaker(const struct twi_tcp_words *words, bool *connector_out);

/* Whether no newer record of the line has come. TOW_OK, TOW_EBUSY. */
int twi_tcp_resume_newer(const struct twi_tcp_peer *peer, unsigned line,
			 const struct twi_tcp_words *words);

/* May the line be resumed over a stream that the other side dialed? TOW_OK, or why not. */
int twi_tcp_may_resume(const struct twi_tcp_peer *peer, unsigned line,
		       const struct twi_tcp_words *words);

/* The line goes on over this stream. If the peer is lost by it, the stream is gone too. */
void twi_tcp_resumed(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream,
		     const struct twi_tcp_words *words);

#endif
