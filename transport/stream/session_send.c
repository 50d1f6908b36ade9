/*
 * session_send.c - the sending direction of a session: frames of messages and offers, and the
 * peer's answers. The outbox decides which messages may go, and what they cost
 * (transport/message/outbox.h).
 */
#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/engine/held_count.h"
#include "transport/op/endpoint.h"
#include "transport/op/message_times.h"
#include "transport/op/op.h"
#include "transport/op/path.h"
#include "transport/stream/session_parts.h"

/* --- operations of the outbox --- */

static struct twi_session *session_of(struct twi_outbox *outbox)
{
	return twi_container_of(outbox, struct twi_session, outbox);
}

static bool frame_eager(struct twi_outbox *outbox, const struct twi_outbound *out)
{
	struct twi_session *session = session_of(outbox);
	uint32_t bytes = (uint32_t)out->bytes, sum;
	uint8_t *at = twi_session_room(session, TWI_FRAME_BYTES + bytes, false);
	struct twi_frame frame = { .type = TWI_FRAME_EAGER,
				   .flags = out->space,
				   .channel = out->channel,
				   .payload_bytes = bytes,
				   .seq = out->seq,
				   .tag = out->tag };

	if (at == NULL)
		return false;
	if (session->offers) /* else no receive will be announced */
		twi_session_mention(session, out->tag, twi_context_of(out->space, out->channel),
				    out->seq);
	if (twi_unlikely(twi_outbox_sum(outbox, out, &sum))) {
		frame.flags |= TWI_FRAME_SUM;
		frame.value = sum;
	}
	twi_frame_put(at, &frame);
	twi_path_copy_small(session->engine, out->space, at + TWI_FRAME_BYTES, out->data, bytes);
	if (twi_unlikely(bytes > outbox->eager_bytes))
		twi_session_lone_went(session, out->seq);
	return true;
}

/* Offers that are made close together share a system call, as small messages do. */
static bool frame_offer(struct twi_outbox *outbox, struct tow_op *op)
{
	struct twi_session *session = session_of(outbox);
	uint8_t *at = twi_session_room(session, TWI_FRAME_BYTES, false);
	struct twi_frame frame = { .type = TWI_FRAME_RTS,
				   .flags = op->space,
				   .channel = op->channel,
				   .seq = op->seq,
				   .tag = op->tag,
				   .value = op->bytes };
	bool ready;

	if (at == NULL)
		return false;
	ready = twi_session_may_go(session, op);
	session->offers = true;
	twi_session_mention(session, op->tag, twi_context_of(op->space, op->channel), op->seq);
	frame.flags |= twi_outbox_sums(outbox, op->seq) ? TWI_FRAME_SUM : 0;
	frame.flags |= ready ? TWI_FRAME_READY : 0;
	twi_frame_put(at, &frame);
	if (ready)
		twi_session_send_begin(session, op, true);
	return true;
}

/* The send goes on. If it came too early and becomes an offer again, it ends (session_out.c). */
static bool cancel_defer(struct tow_op *op)
{
	op->canceled = true;
	return false;
}

static bool take_back(struct twi_outbox *outbox, struct tow_op *op, int status, bool force)
{
	struct twi_session *session = session_of(outbox);

	switch (op->stage) {
	case TWI_STAGE_OFFERED:
		twi_session_owe(session, TWI_FRAME_CANCEL, op->seq, 0);
		break;
	case TWI_STAGE_BULK:
		if (!force && op->moved > 0)
			return cancel_defer(op);
		twi_session_send_leave(session, twi_session_send_find(session, op->seq));
		break;
	case TWI_STAGE_SENT:
		if (!force)
			return cancel_defer(op);
		twi_session_send_leave(session, twi_session_send_find(session, op->seq));
		break;
	default:
		return false;
	}
	twi_outbox_end(outbox, op, status, 0);
	return true;
}

static bool goes_alone(struct twi_outbox *outbox, const struct twi_outbound *out)
{
	return twi_session_goes_alone(session_of(outbox), out);
}

const struct twi_outbox_ops twi_session_outbox = {
	.small = frame_eager,
	.alone = goes_alone,
	.offer = frame_offer,
	.take_back = take_back,
};

/* --- frames of the peer --- */

/* ACK: the peer has the messages up to seq, and gives credit back. */
int twi_session_acked(struct twi_session *session, const struct twi_frame *frame)
{
	int status = twi_outbox_acked(&session->outbox, frame->seq, frame->tag, frame->value,
				      &session->rule);

	if (status == TOW_OK)
		twi_outbox_drain(&session->outbox, UINT32_MAX);
	return status;
}

/* CTS: the receiver wants message seq now. If it was taken back meanwhile, nothing is done. */
int twi_session_granted(struct twi_session *session, const struct twi_frame *frame)
{
	struct tow_op *op = twi_outbox_find(&session->outbox, frame->seq);

	if (frame->seq > session->outbox.seq_sent)
		return twi_session_fault(session, TWI_RULE_NO_SUCH_MESSAGE,
					 "asks for message %llu of %llu",
					 (unsigned long long)frame->seq,
					 (unsigned long long)session->outbox.seq_sent);
	if (op == NULL)
		return TOW_OK;
	if (op->stage != TWI_STAGE_OFFERED || frame->value != op->bytes)
		return twi_session_fault(session, TWI_RULE_ASKED,
					 "asks for message %llu twice or changed",
					 (unsigned long long)frame->seq);
	if (session->send_count == TWI_GRANTS_MAX)
		return twi_session_fault(session, TWI_RULE_GRANTS,
					 "grants more than %d messages at once", TWI_GRANTS_MAX);
	twi_session_send_begin(session, op, false);
	return TOW_OK;
}

/*
 * DONE: the receiver has all of message seq. Or the message was sent unasked and has ended in
 * another way, which an earlier frame reported.
 */
int twi_session_done(struct twi_session *session, const struct twi_frame *frame)
{
	struct twi_grant *send = twi_session_send_find(session, frame->seq);
	struct tow_op *op = twi_outbox_find(&session->outbox, frame->seq);

	if (frame->seq > session->outbox.seq_sent)
		return twi_session_fault(session, TWI_RULE_NO_SUCH_MESSAGE,
					 "acknowledges message %llu, which was never sent",
					 (unsigned long long)frame->seq);
	if (send != NULL
		    ? !twi_session_send_whole(session, send) && (send->op != NULL || send->ready)
		    : op != NULL)
		return twi_session_fault(session, TWI_RULE_DONE_EARLY,
					 "acknowledges message %llu before it was sent",
					 (unsigned long long)frame->seq);
	if (send != NULL && (send->op != NULL || send->ready)) {
		op = send->op;
		twi_session_send_free(session, send);
	}
	if (op == NULL)
		return TOW_OK;
	twi_outbox_arrived(&session->outbox, op, frame->value, twi_op_match_ns(op));
	twi_outbox_end(&session->outbox, op, TOW_OK, op->bytes);
	return TOW_OK;
}

/* A message that was sent unasked came before its receive. It stays offered, if it still exists. */
static int not_ready(struct twi_session *session, const struct twi_frame *frame, struct tow_op *op)
{
	struct twi_grant *send = twi_session_send_find(session, frame->seq);

	if (op == NULL) {
		twi_session_owe(session, TWI_FRAME_CANCEL, frame->seq,
				twi_session_back_why(session, frame->seq));
		return TOW_OK;
	}
	if (send == NULL || !send->ready || send->op != op)
		return twi_session_fault(session, TWI_RULE_NOT_READY,
					 "defers message %llu, which is not allowed",
					 (unsigned long long)frame->seq);
	twi_count(session->engine->diag, TWI_C_announced_refusals, 1);
	twi_session_send_refuse(session, send, TOW_AGAIN);
	return TOW_OK;
}

/* REFUSE: the receiver does not want message seq, or the rest of it. */
int twi_session_refused(struct twi_session *session, const struct twi_frame *frame)
{
	static const int statuses[TWI_REFUSE_END] = {
		[TWI_REFUSE_TRUNCATED] = TOW_ETRUNCATED,
		[TWI_REFUSE_CANCELED] = TOW_ECANCELED,
		[TWI_REFUSE_CORRUPT] = TOW_ECORRUPT,
		[TWI_REFUSE_FAULT] = TOW_EFAULT,
	};
	struct tow_op *op = twi_outbox_find(&session->outbox, frame->seq);
	struct twi_grant *send;

	if (frame->seq > session->outbox.seq_sent)
		return twi_session_fault(session, TWI_RULE_NO_SUCH_MESSAGE,
					 "refuses message %llu, which was never sent",
					 (unsigned long long)frame->seq);
	if (frame->value == TWI_REFUSE_NOT_READY)
		return not_ready(session, frame, op);
	send = twi_session_send_find(session, frame->seq);
	if (frame->value == TWI_REFUSE_CORRUPT && send != NULL &&
	    !twi_session_send_whole(session, send))
		return twi_session_fault(session, TWI_RULE_DONE_EARLY,
					 "acknowledges message %llu before it was sent",
					 (unsigned long long)frame->seq);
	if (op != NULL && op->stage == TWI_STAGE_OFFERED)
		twi_outbox_end(&session->outbox, op, statuses[frame->value], op->bytes);
	else if (op != NULL)
		twi_session_send_refuse(session, send, statuses[frame->value]);
	/* For a message that was sent unasked, no other answer follows. */
	if (frame->value == TWI_REFUSE_CORRUPT && send != NULL && send->used && send->ready)
		twi_session_send_free(session, send);
	return TOW_OK;
}
