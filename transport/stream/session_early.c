/*
 * session_early.c - answers that come before the lane has said how much of a message went.
 *
 *	lane                      session                    peer
 *	 |  bulk_out  <------------ |                          |
 *	 |  ~~~~~~~~~~~ header, payload, commit ~~~~~~~~~~~~~> |
 *	 |                          | <--------------- DONE -- |   kept: nobody knows yet
 *	 |  bulk_sent ------------> | DONE is judged now       |
 *
 * Between _out and _sent a lane has bytes of which it cannot say whether they went: a thread may
 * submit a send, give the engine back, and read the peer's answer to it before it looks at the
 * completion. An answer about such a message is neither believed nor called a lie: it waits until
 * no channel has the message handed out, and is judged then as any other, in the order in which
 * answers came. So an operation does not end, either, while its memory may still be read.
 *
 * What waits is bounded: at most one message of each channel is handed out, and of one message a
 * peer can say four things in a row (it came too early; its bytes are over; it is wanted now; it is
 * not wanted any more). A peer may also ask for as many others as that made room for, and not want
 * them any more.
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

/* Among the first `count` of those that wait. */
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
 * May a message be over at the receiver of which this side still keeps a row? One that is handed
 * out; or one that was taken back after its commit had been, when the connection broke: the record
 * of the new one says what became of it.
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
 * Whether nobody knows yet if this answer may be: its message is handed out, or something said of
 * it before waits; or the peer asks for one more than it may, unless another is over.
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
					 "says more about message %llu than there is to say",
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
		/* The receiver has held the news back, and so has this side. */
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
