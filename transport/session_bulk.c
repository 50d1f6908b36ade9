/*
 * session_bulk.c - the bulk stream in: chunks of granted messages, received where they belong.
 */
#include "diag/diag.h"
#include "diag/error.h"
#include "transport/endpoint.h"
#include "transport/engine.h"
#include "transport/op.h"
#include "transport/session.h"

/* Where bytes go that nobody wants. Never read, so every session may write here. */
static uint8_t sink[64 << 10];

/* A DATA header: a chunk of a granted message, its commit, or its abort. */
static int on_data(struct twi_session *session)
{
	const struct twi_frame_limits limits = { .control = false, .hello_done = true };
	struct twi_grant *grant;
	struct twi_frame frame;
	enum twi_frame_fault fault;
	struct tow_op *op;

	if (twi_frame_get(session->in_head, &limits, &frame, &fault) != TOW_OK)
		return twi_error(TOW_EPROTOCOL, "peer %s: bad bulk frame: %s",
				 session->peer->address, twi_frame_fault_text(fault));
	grant = twi_session_grant_find(session, frame.seq);
	if (grant == NULL)
		return twi_error(TOW_EPROTOCOL, "peer %s sent data of message %llu, not asked for",
				 session->peer->address, (unsigned long long)frame.seq);
	op = grant->op;
	if ((frame.flags & TWI_FRAME_ABORT) != 0) {
		twi_session_grant_free(session, grant);
		if (op != NULL)
			twi_session_repost(session, op);
		return TOW_OK;
	}
	if (frame.value != grant->got || frame.payload_bytes > grant->bytes - grant->got ||
	    ((frame.flags & TWI_FRAME_LAST) != 0) != (grant->got == grant->bytes))
		return twi_error(TOW_EPROTOCOL, "peer %s sent data of message %llu out of place",
				 session->peer->address, (unsigned long long)frame.seq);
	if ((frame.flags & TWI_FRAME_LAST) == 0) {
		session->in_grant = grant;
		session->in_left = frame.payload_bytes;
		return TOW_OK;
	}
	grant->op = NULL;
	if (op != NULL) {
		twi_session_owe(session, TWI_FRAME_DONE, frame.seq, 0);
		twi_session_received(session, op, grant->bytes);
	}
	twi_session_grant_free(session, grant);
	return TOW_OK;
}

int twi_session_bulk_want(struct twi_session *session, unsigned channel, uint64_t max_bytes,
			  struct iovec parts[2])
{
	struct twi_grant *grant = session->in_grant;
	uint64_t n = twi_min(session->in_left, max_bytes);

	(void)channel;
	if (session->in_left == 0) {
		parts[0] = (struct iovec){ session->in_head + session->in_fill,
					   TWI_FRAME_BYTES - session->in_fill };
		return 1;
	}
	if (grant->op == NULL) {
		parts[0] = (struct iovec){ sink, twi_min(session->in_left, sizeof(sink)) };
		return 1;
	}
	parts[0] = (struct iovec){ (uint8_t *)grant->op->data + grant->got, n };
	parts[1] = (struct iovec){ session->in_head, TWI_FRAME_BYTES };
	return n == session->in_left ? 2 : 1;
}

int twi_session_bulk_in(struct twi_session *session, unsigned channel, size_t bytes)
{
	size_t n = twi_min(bytes, session->in_left);
	int status;

	(void)channel;
	if (n > 0) {
		session->in_left -= n;
		session->in_grant->got += n;
		bytes -= n;
		if (session->in_left == 0)
			session->in_grant = NULL;
	}
	session->in_fill += (uint32_t)bytes;
	twi_assert(session->in_fill <= TWI_FRAME_BYTES);
	if (session->in_fill < TWI_FRAME_BYTES)
		return TOW_OK;
	session->in_fill = 0;
	status = on_data(session);
	return status;
}
