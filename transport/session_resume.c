/*
 * session_resume.c - streams that broke go on over new connections.
 */
#include "diag/error.h"
#include "transport/endpoint.h"
#include "transport/session.h"

void twi_session_control_broken(struct twi_session *session)
{
	(void)session;
}

void twi_session_bulk_broken(struct twi_session *session, unsigned channel)
{
	(void)session, (void)channel;
}

size_t twi_session_control_resume_put(struct twi_session *session, uint8_t *out)
{
	(void)session, (void)out;
	return 0;
}

static int refuse(const struct twi_session *session)
{
	return twi_error(TOW_EPROTOCOL, "peer %s: a stream cannot be resumed",
			 session->peer->address);
}

int twi_session_control_resume(struct twi_session *session, const uint8_t *in, size_t bytes,
			       size_t *used_out)
{
	(void)in, (void)bytes, (void)used_out;
	return refuse(session);
}

size_t twi_session_bulk_resume_put(struct twi_session *session, unsigned channel, uint8_t *out)
{
	(void)session, (void)channel, (void)out;
	return 0;
}

int twi_session_bulk_resume(struct twi_session *session, unsigned channel, const uint8_t *in,
			    size_t bytes, size_t *used_out)
{
	(void)channel, (void)in, (void)bytes, (void)used_out;
	return refuse(session);
}

bool twi_session_quiet(const struct twi_session *session)
{
	return session->tx_head == session->tx_tail && session->seq_sent == session->seq_acked &&
	       session->bulk_count == 0 && session->grant_count == 0;
}

void twi_session_ping(struct twi_session *session)
{
	(void)session;
}
