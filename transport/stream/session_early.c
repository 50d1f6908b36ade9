/*
 * session_early.c - answers that come before the lane has reported how much of a message was sent.
 *
 *	lane                      session                    peer
 *	 |  bulk_out  <------------ |                          |
 *	 |  ~~~~~~~~~~~ header, payload, commit ~~~~~~~~~~~~~> |
 *	 |                          | <--------------- DONE -- |   kept: not known yet to be true
 *	 |  bulk_sent ------------> | DONE is judged now       |
 *
 * Between _out and _sent, a lane has bytes of which it cannot tell whether they were sent. A thread
 * may submit a send, give the engine back, and read the peer's answer before it sees the
 * completion. An answer about such a message is neither accepted nor rejected. It waits until no
 * channel has bytes of the message with the lane. Then it is judged like any other, in the order of
 * arrival. So an operation does not end while its memory may still be read.
 *
 * The number of waiting answers is bounded. At most one message of each channel is with the lane. A
 * peer can give four answers in a row about it: too early, over, wanted now, not wanted any more.
 * When such a message is over, there is room for another one. So the peer may also ask for as many
 * other messages, and not want them any more.
 */
#include "diag/base/error.h"
#include "transport/engine/engine.h"
#include "transport/op/endpoint.h"
#include "transport/stream/session_parts.h"

bool twi_session_handed(const struct twi_session *session, const struct twi_grant *send)
{
	for (unsigned c = 0; c < session->config.bulk_count; c++) {
		if (session->channels[c].handed &&
		    (send == NULL || session->channels[c].out == send))
			return true;
	}
	return false;
}

/* Is an answer about message seq among the first `count` of those that wait? */
static bool is_waiting(const struct twi_session *session, unsigned count, uint64_t seq)
{
	for (unsigned i = 0; i < count; i++) {
		if (session->early[i].frame.seq == seq)
			return true;
	}
	return false;
}

bool twi_session_early(const struct twi_session *session, uint64_t seq)
{
	return is_waiting(session, session->early_count, seq);
}

/*
 * May the receiver be through with a message of which this side still has a row? That may be a
 * message that is with the lane. Or it was taken back after its commit had been with the lane, when
 * the connection broke. Then the record of the new connection tells what became of it.
 */
static bool perhaps_over(const struct twi_session *session)
{
	if (twi_session_handed(session, NULL))
		return true;
	for (unsigned i = 0; i < TWI_LARGE_MAX; i++) {
		const struct twi_grant *send = &session->sends[i];

		if (send->used && send->op == NULL && !send->ready &&
		    twi_session_send_whole(session, send))
			return true;
	}
	return false;
}

/*
 * Is it not known yet whether this answer is allowed? Its message is with the lane, or an earlier
 * answer about it waits. Or the peer asks for one message more than it may, unless another is over.
 */
static bool is_early(const struct twi_session *session, unsigned count,
		     const struct twi_frame *frame)
{
	if (is_waiting(session, count, frame->seq))
		return true;
	for (unsigned c = 0; c < session->config.bulk_count; c++) {
		const struct twi_bulk_channel *channel = &session->channels[c];

		if (channel->handed && channel->out->seq == frame->seq)
			return true;
	}
	return frame->type == TWI_FRAME_CTS && session->send_count == TWI_GRANTS_MAX &&
	       perhaps_over(session);
}

static int judge_answer(struct twi_session *session, const struct twi_frame *frame)
{
	switch (frame->type) {
	case TWI_FRAME_CTS:
		return twi_session_granted(session, frame);
	case TWI_FRAME_DONE:
		return twi_session_done(session, frame);
	default:
		return twi_session_refused(session, frame);
	}
}

int twi_session_answered(struct twi_session *session, const struct twi_frame *frame)
{
	if (twi_likely(!is_early(session, session->early_count, frame)))
		return judge_answer(session, frame);
	if (session->early_count == TWI_EARLY_MAX)
		return twi_session_fault(session, TWI_RULE_ANSWERS,
					 "sent too many control messages about message %llu",
					 (unsigned long long)frame->seq);
	session->early[session->early_count++] = (struct twi_early){
		.frame = *frame,
		.came_ns = twi_engine_now(session->engine),
	};
	return TOW_OK;
}

int twi_session_settle(struct twi_session *session)
{
	uint64_t now = session->early_count > 0 ? twi_engine_now(session->engine) : 0;
	unsigned count = session->early_count, left = 0;
	int status = TOW_OK;

	for (unsigned i = 0; i < count && status == TOW_OK; i++) {
		struct twi_early early = session->early[i];

		if (is_early(session, left, &early.frame)) {
			session->early[left++] = early;
			continue;
		}
		/* The receiver has held the answer back, and then this side has too. */
		if (early.frame.type == TWI_FRAME_DONE)
			early.frame.value = twi_min(early.frame.value + (now - early.came_ns),
						    (uint64_t)TWI_WIRE_HOLD_MAX_NS);
		status = judge_answer(session, &early.frame);
	}
	session->early_count = left;
	return status;
}

void twi_session_settle_later(struct twi_session *session)
{
	if (twi_session_settle(session) < 0)
		session->doubted = true;
}
