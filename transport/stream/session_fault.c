/*
 * session_fault.c - payload whose memory cannot be read or written: unmapped, protected, beyond the
 * end of its file. Only the message ends, at both sides.
 *
 *	sending:   the rest of the chunk is zeros, then an ABORT with the reason; the receive that
 *	           had met the message ends too, because the user did not take the message back
 *	receiving: a REFUSE with the reason; bytes that still come go to the sink
 *
 * The reason why a message was taken back is kept for a while. A channel that is resumed, or a
 * message that came too early, makes it necessary to send the reason again.
 *
 * A stream is resumed in vain when the records of both sides are the same as the last time. The
 * records tell how much has come.
 */
#include "diag/base/checksum.h"
#include "transport/op/op.h"
#include "transport/op/op_fault.h"
#include "transport/stream/session_parts.h"

static uint64_t fault_of(const struct twi_session *session, uint64_t seq)
{
	uint64_t kept = twi_min(session->faults.count, (uint64_t)TWI_FAULTS_MAX);

	for (uint64_t i = 0; i < kept; i++) {
		if (session->faults.rows[i].seq == seq)
			return i;
	}
	return TWI_FAULTS_MAX;
}

uint64_t twi_session_back_why(const struct twi_session *session, uint64_t seq)
{
	return fault_of(session, seq) < TWI_FAULTS_MAX ? TWI_BACK_FAULT : TWI_BACK_WISHED;
}

void twi_session_fault_tell(struct twi_session *session, const struct tow_op *op)
{
	uint64_t row = fault_of(session, op->seq);
	uint64_t rpc_id = twi_peer_rpc_id(session->peer, op->seq, true);

	if (row < TWI_FAULTS_MAX)
		twi_op_fault(op, rpc_id, op->bytes, session->faults.rows[row].offset);
	else
		twi_op_fault_theirs(op, rpc_id, op->bytes);
}

void twi_session_unreadable(struct twi_session *session, struct tow_op *op, uint64_t bytes)
{
	int status = twi_op_fault_theirs(op, twi_peer_rpc_id(session->peer, op->seq, false), bytes);

	twi_inbox_end(&session->inbox, op, status, 0);
}

bool twi_session_out_faulted(struct twi_session *session, unsigned c)
{
	struct twi_bulk_channel *channel = &session->channels[c];
	struct twi_grant *send = channel->out;
	uint64_t row = session->faults.count % TWI_FAULTS_MAX;
	struct twi_frame refuse = { .type = TWI_FRAME_REFUSE, .value = TWI_REFUSE_FAULT };

	if (send == NULL) /* it was taken back meanwhile */
		return true;
	if (send->op == NULL || channel->out_left == 0)
		return false;
	channel->handed = false;
	if (twi_session_early(session, send->seq)) /* known; another channel still has some */
		return true;
	session->faults.rows[row].seq = send->seq;
	session->faults.rows[row].offset = twi_stripe_place(send, c);
	session->faults.count++;
	/* As if the peer had refused it: the operation ends when no channel has its memory. */
	refuse.seq = send->seq;
	return twi_session_answered(session, &refuse) == TOW_OK;
}

bool twi_session_in_faulted(struct twi_session *session, unsigned c)
{
	struct twi_bulk_channel *channel = &session->channels[c];
	struct twi_grant *grant = channel->in;
	struct tow_op *op;
	int status;

	if (grant == NULL || channel->in_left == 0)
		return false;
	op = grant->op;
	if (op == NULL) /* it was taken back meanwhile */
		return true;
	grant->op = NULL;
	twi_session_owe(session, TWI_FRAME_REFUSE, grant->seq, TWI_REFUSE_FAULT);
	status = twi_op_fault(op, twi_peer_rpc_id(session->peer, op->seq, false), grant->bytes,
			      twi_stripe_place(grant, c));
	twi_inbox_end(&session->inbox, op, status, 0);
	return true;
}

unsigned twi_session_fruitless(const struct twi_session *session, unsigned line)
{
	return session->faults.resumed[line].fruitless;
}

void twi_session_resume_said(struct twi_session *session, unsigned line, const uint8_t *record,
			     size_t bytes, bool awaits)
{
	session->faults.resumed[line].now_said = twi_checksum(0, record, bytes);
	session->faults.resumed[line].awaits = awaits;
}

void twi_session_resume_heard(struct twi_session *session, unsigned line, const uint8_t *record,
			      size_t bytes, bool awaits)
{
	struct twi_session_resumed *resumed = &session->faults.resumed[line];
	uint32_t heard = twi_checksum(0, record, bytes);
	bool same = resumed->said == resumed->now_said && resumed->heard == heard;

	resumed->fruitless = same && (awaits || resumed->awaits) ? resumed->fruitless + 1 : 0;
	resumed->said = resumed->now_said;
	resumed->heard = heard;
}
