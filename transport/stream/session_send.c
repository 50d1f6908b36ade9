/*
 * session_send.c - the sending direction of a session: framing, credit, and what the peer answers.
 *
 * Budget of a small send: one frame written into the control buffer, one time stamp, three
 * counters. No allocation, no system call; the lane decides when the buffer leaves.
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

#define TIMED_NS 2000u /* docs/stats.md, who times what */

static bool has_credit(const struct twi_session *session, uint32_t cost)
{
	return session->credit_used - session->credit_returned + cost <=
	       session->config.remote_credit_bytes;
}

/*
 * Which small messages are timed: all, but of those that come in bursts one in TIMED_NS, where not
 * everything is recorded: to count each costs 3 % of their rate, and more where that is high.
 */
static bool is_timed(struct twi_session *session, const struct tow_op *op)
{
#ifndef TWI_NO_DIAGNOSTICS
	if (!twi_space_counts(op->space) ||
	    (op->start_ns - session->timed_ns < TIMED_NS && !twi_span_all(session->engine->diag)))
		return false;
	session->timed_ns = op->start_ns;
	return true;
#else
	(void)session, (void)op;
	return false;
#endif
}

static void charge_credit(struct twi_session *session, struct tow_op *op, uint32_t cost, bool eager)
{
	struct twi_timing *timing;

	op->seq = ++session->seq_sent;
	twi_peer_sent(session->peer, op->space);
	twi_assert_hot(has_credit(session, cost));
	session->credit_used += cost;
	timing = &session->timings[op->seq & session->timings_mask];
	timing->start_ns = eager && is_timed(session, op) ? op->start_ns : 0;
	timing->bytes = (uint32_t)op->bytes;
	timing->space = op->space;
	twi_op_framed(session->engine, op);
	timing->queue_ns = twi_op_queue_ns(op);
	if (session->offers) /* else nothing will be announced */
		twi_session_mention(session, op);
}

/* It begins to wait for credit, and is the user's. */
static bool stalls_on_credit(const struct tow_op *op)
{
	return op->stage == TWI_STAGE_NEW && op->space == TWI_SPACE_USER;
}

bool twi_session_no_credit(const struct twi_session *session)
{
	const struct twi_list *first = twi_list_first(&session->queued);
	const struct tow_op *op;

	if (first == NULL)
		return false;
	op = twi_container_of(first, struct tow_op, link);
	return !has_credit(session, op->bytes <= session->eager_max_bytes
					    ? twi_frame_cost((uint32_t)op->bytes)
					    : twi_frame_cost(0));
}

static bool frame_eager(struct twi_session *session, struct tow_op *op)
{
	uint32_t bytes = (uint32_t)op->bytes, cost = twi_frame_cost(bytes);
	struct twi_frame frame = {
		.type = TWI_FRAME_EAGER, .flags = op->space, .payload_bytes = bytes, .tag = op->tag
	};
	struct twi_diag *diag = session->engine->diag;
	uint8_t *at;

	if (!has_credit(session, cost)) {
		twi_count(diag, TWI_C_credit_stalls, stalls_on_credit(op));
		return false;
	}
	at = twi_session_room(session, TWI_FRAME_BYTES + bytes, false);
	if (at == NULL)
		return false;
	charge_credit(session, op, cost, true);
	frame.seq = op->seq;
	if (twi_unlikely(twi_session_sums(session, op->seq))) {
		frame.flags |= TWI_FRAME_SUM;
		frame.value = twi_checksum(0, op->data, bytes);
	}
	twi_frame_put(at, &frame);
	twi_path_copy_small(session->engine, op->space, at + TWI_FRAME_BYTES, op->data, bytes);
	twi_held_count_two(session->engine, TWI_C_eager_sends, op->space == TWI_SPACE_USER,
			   twi_counter_of(TWI_C_send_bytes, op->space), bytes);
	twi_session_op_end(session, op, TOW_OK, bytes);
	return true;
}

static bool frame_offer(struct twi_session *session, struct tow_op *op)
{
	struct twi_frame frame = {
		.type = TWI_FRAME_RTS, .flags = op->space, .tag = op->tag, .value = op->bytes
	};
	uint32_t cost = twi_frame_cost(0);
	bool ready;
	uint8_t *at;

	if (!has_credit(session, cost)) {
		twi_count(session->engine->diag, TWI_C_credit_stalls, stalls_on_credit(op));
		return false;
	}
	at = twi_session_room(session, TWI_FRAME_BYTES, false);
	if (at == NULL)
		return false;
	ready = twi_session_may_go(session, op);
	session->offers = true;
	charge_credit(session, op, cost, false);
	frame.seq = op->seq;
	frame.flags |= twi_session_sums(session, op->seq) ? TWI_FRAME_SUM : 0;
	frame.flags |= ready ? TWI_FRAME_READY : 0;
	twi_frame_put(at, &frame);
	twi_count(session->engine->diag, TWI_C_rendezvous_sends, op->space == TWI_SPACE_USER);
	twi_list_remove(&op->link);
	op->stage = TWI_STAGE_OFFERED;
	twi_claim_count(op, op->bytes);
	twi_list_push_back(&session->by_seq[op->seq % TWI_SEQ_BUCKETS], &op->seq_link);
	if (ready)
		twi_session_send_begin(session, op, true);
	return true; /* offers made close together share a system call, as small messages do */
}

static bool frame_send(struct twi_session *session, struct tow_op *op)
{
	if (op->bytes <= session->eager_max_bytes)
		return frame_eager(session, op);
	return frame_offer(session, op);
}

void twi_session_send(struct twi_session *session, struct tow_op *op)
{
	twi_held_count(session->engine, twi_counter_of(TWI_C_sends, op->space), 1);
	if (session->failed != 0) {
		twi_session_op_end(session, op, session->failed, 0);
		return;
	}
	if (op->bytes > session->eager_max_bytes) {
		int status = twi_claim_need(session->peer, op);

		if (status < 0) {
			twi_session_op_end(session, op, status, 0);
			return;
		}
	}
	if (twi_list_empty(&session->queued) && frame_send(session, op))
		return;
	op->stage = TWI_STAGE_QUEUED;
	twi_claim_lease(session->peer, op);
	twi_list_push_back(&session->queued, &op->link);
}

/* Credit or room has come: what waits goes, in order. */
void twi_session_drain(struct twi_session *session)
{
	struct twi_list *entry;

	while ((entry = twi_list_first(&session->queued)) != NULL) {
		if (!frame_send(session, twi_container_of(entry, struct tow_op, link)))
			return;
	}
}

/* ACK: messages up to seq are there; credit has come back. */
int twi_session_acked(struct twi_session *session, const struct twi_frame *frame)
{
	struct twi_latency_reading reading;

	if (frame->seq > session->seq_sent || frame->seq < session->seq_acked)
		return twi_session_fault(
			session, TWI_RULE_ACK, "acknowledged message %llu, sent are %llu to %llu",
			(unsigned long long)frame->seq, (unsigned long long)session->seq_acked,
			(unsigned long long)session->seq_sent);
	if (frame->tag > session->credit_used || frame->tag < session->credit_returned)
		return twi_session_fault(session, TWI_RULE_CREDIT_BACK,
					 "returned credit that was never used");
	while (session->seq_acked < frame->seq) {
		const struct twi_timing *timing =
			&session->timings[++session->seq_acked & session->timings_mask];

		if (timing->start_ns == 0)
			continue;
		reading = (struct twi_latency_reading){
			.kind = twi_latency_kind_of((uint8_t)timing->space),
			.lane = session->config.lane,
			.id = twi_peer_rpc_id(session->peer, session->seq_acked, true),
			.bytes = timing->bytes,
		};
		twi_peer_heard(session->peer, session->engine, &reading, timing->start_ns,
			       frame->value, timing->queue_ns, TWI_LATENCY_UNKNOWN);
	}
	session->credit_returned = frame->tag;
	twi_assert_hot(has_credit(session, 0));
	twi_session_drain(session);
	return TOW_OK;
}

/* CTS: the receiver wants message seq now. One that was taken back meanwhile is gone. */
int twi_session_granted(struct twi_session *session, const struct twi_frame *frame)
{
	struct tow_op *op = twi_session_find(session, frame->seq);

	if (frame->seq > session->seq_sent)
		return twi_session_fault(
			session, TWI_RULE_NO_SUCH_MESSAGE, "asks for message %llu of %llu",
			(unsigned long long)frame->seq, (unsigned long long)session->seq_sent);
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
 * DONE: the receiver has all of message seq; or, of one that it was sent unasked, has seen the end
 * of it in some other way and said before what that means.
 */
int twi_session_done(struct twi_session *session, const struct twi_frame *frame)
{
	struct twi_grant *send = twi_session_send_find(session, frame->seq);
	struct tow_op *op = twi_session_find(session, frame->seq);
	struct twi_latency_reading reading;

	if (frame->seq > session->seq_sent)
		return twi_session_fault(session, TWI_RULE_NO_SUCH_MESSAGE,
					 "has message %llu, never sent",
					 (unsigned long long)frame->seq);
	if (send != NULL
		    ? !twi_session_send_whole(session, send) && (send->op != NULL || send->ready)
		    : op != NULL)
		return twi_session_fault(session, TWI_RULE_DONE_EARLY,
					 "has message %llu before it was sent",
					 (unsigned long long)frame->seq);
	if (send != NULL && (send->op != NULL || send->ready)) {
		op = send->op;
		twi_session_send_free(session, send);
	}
	if (op == NULL)
		return TOW_OK;
	reading = (struct twi_latency_reading){
		.kind = twi_latency_kind_of(op->space),
		.lane = session->config.lane,
		.id = twi_peer_rpc_id(session->peer, op->seq, true),
		.bytes = op->bytes,
	};
	if (twi_space_counts(op->space))
		twi_peer_heard(session->peer, session->engine, &reading, op->start_ns, frame->value,
			       twi_op_queue_ns(op), twi_op_match_ns(op));
	twi_count(session->engine->diag, twi_counter_of(TWI_C_send_bytes, op->space), op->bytes);
	twi_session_op_end(session, op, TOW_OK, op->bytes);
	return TOW_OK;
}

/* One that was sent unasked came before its receive. It stays offered, if it is there still. */
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
					 "asks for message %llu later, and may not",
					 (unsigned long long)frame->seq);
	twi_count(session->engine->diag, TWI_C_announced_refusals, 1);
	twi_session_send_refuse(session, send, TOW_AGAIN);
	return TOW_OK;
}

/* REFUSE: the receiver does not want message seq, or does not want the rest of it. */
int twi_session_refused(struct twi_session *session, const struct twi_frame *frame)
{
	static const int statuses[TWI_REFUSE_END] = {
		[TWI_REFUSE_TRUNCATED] = TOW_ETRUNCATED,
		[TWI_REFUSE_CANCELED] = TOW_ECANCELED,
		[TWI_REFUSE_CORRUPT] = TOW_ECORRUPT,
		[TWI_REFUSE_FAULT] = TOW_EFAULT,
	};
	struct tow_op *op = twi_session_find(session, frame->seq);
	struct twi_grant *send;

	if (frame->seq > session->seq_sent)
		return twi_session_fault(session, TWI_RULE_NO_SUCH_MESSAGE,
					 "refuses message %llu, never sent",
					 (unsigned long long)frame->seq);
	if (frame->value == TWI_REFUSE_NOT_READY)
		return not_ready(session, frame, op);
	send = twi_session_send_find(session, frame->seq);
	if (frame->value == TWI_REFUSE_CORRUPT && send != NULL &&
	    !twi_session_send_whole(session, send))
		return twi_session_fault(session, TWI_RULE_DONE_EARLY,
					 "has message %llu before it was sent",
					 (unsigned long long)frame->seq);
	if (op != NULL && op->stage == TWI_STAGE_OFFERED)
		twi_session_op_end(session, op, statuses[frame->value], op->bytes);
	else if (op != NULL)
		twi_session_send_refuse(session, send, statuses[frame->value]);
	/* It is the last word about one that was sent unasked. */
	if (frame->value == TWI_REFUSE_CORRUPT && send != NULL && send->used && send->ready)
		twi_session_send_free(session, send);
	return TOW_OK;
}
