/*
 * session_recv.c - the receiving direction of a session: matching, grants, receives taken back.
 */
#include <stdlib.h>

#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/engine/held_count.h"
#include "transport/message/waiting.h"
#include "transport/op/endpoint.h"
#include "transport/op/message.h"
#include "transport/op/op.h"
#include "transport/op/op_span.h"
#include "transport/op/path.h"
#include "transport/stream/session_parts.h"

void twi_session_give_credit(struct twi_session *session, uint64_t payload_bytes)
{
	session->credit_given += twi_frame_cost((uint32_t)payload_bytes);
	twi_assert_hot(session->credit_given <= session->credit_charged);
	if (session->credit_given - session->credit_told >= session->config.local_credit_bytes / 4)
		session->urgent = true;
}

/* The receive has its message, of `bytes`; all of it, or as much as the buffer holds, is there. */
void twi_session_received(struct twi_session *session, struct tow_op *op, uint64_t bytes)
{
	if (bytes > op->bytes) {
		twi_session_op_end(session, op, TOW_ETRUNCATED, bytes);
		return;
	}
	twi_held_count(session->engine, twi_counter_of(TWI_C_recv_bytes, op->space), bytes);
	twi_session_op_end(session, op, TOW_OK, bytes);
}

/* All of it is there, and it is not what was sent. */
void twi_session_corrupt(struct twi_session *session, struct tow_op *op, uint64_t bytes)
{
	twi_error(TOW_ECORRUPT,
		  "peer %s (%s): message of rpc id %llu, %llu bytes, came with another checksum",
		  session->peer->address, twi_lane_name(session->config.lane),
		  (unsigned long long)twi_session_rpc_id(session, op->seq, false),
		  (unsigned long long)bytes);
	twi_log(session->engine->diag, 1, "%s", tow_error_message());
	twi_count(session->engine->diag, TWI_C_checksum_mismatches, 1);
	twi_session_op_end(session, op, TOW_ECORRUPT, bytes);
}

/* A view gets memory when the length of its message is known. */
int twi_session_room_for(struct tow_op *op, uint64_t bytes)
{
	return twi_likely(!op->view) ? TOW_OK : twi_view_room(op, bytes);
}

/* An unexpected message meets its receive: the copy that an earlier receive would have saved. */
void twi_session_deliver(struct twi_session *session, struct twi_unexpected *message,
			 struct tow_op *op)
{
	int status = twi_session_room_for(op, message->bytes);

	op->seq = message->seq;
	if (status == TOW_OK && message->bytes <= op->bytes && !twi_space_counts(op->space))
		twi_path_copy_own(op->data, message->data, message->bytes);
	else if (status == TOW_OK && message->bytes <= op->bytes)
		twi_path_copy_fallback(session->engine, TWI_R_unexpected_arrival, op->data,
				       message->data, message->bytes, op->site);
	twi_session_give_credit(session, message->bytes);
	session->unexpected_bytes -= message->bytes;
	if (status < 0)
		twi_session_op_end(session, op, status, message->bytes);
	else if (twi_unlikely(message->corrupt) && message->bytes <= op->bytes)
		twi_session_corrupt(session, op, message->bytes);
	else
		twi_session_received(session, op, message->bytes);
	free(message);
}

/* A receive takes an unexpected message off the table. */
static void take_unexpected(struct twi_session *session, struct twi_unexpected *message,
			    struct tow_op *op)
{
	if (twi_unlikely(!twi_view_ready(op, message->bytes))) {
		twi_view_hold(&session->match, op, message->bytes);
		twi_match_arrive_first(&session->match, &message->match);
		return;
	}
	if (message->offered) {
		uint64_t seq = message->seq, bytes = message->bytes;
		bool sum = message->sum;

		if (!message->credited)
			twi_session_give_credit(session, 0);
		free(message);
		twi_session_matched(session, op, seq, bytes, sum);
	} else if (message->whole) {
		twi_session_deliver(session, message, op);
	} else {
		message->waiter = op;
		op->stage = TWI_STAGE_FILLING;
		twi_op_begun(op);
	}
}

void twi_session_recv(struct twi_session *session, struct tow_op *op)
{
	struct twi_match_entry *entry;

	twi_held_count(session->engine, TWI_C_recvs, op->space == TWI_SPACE_USER);
	op->match.tag = op->tag;
	op->match.space = op->space;
	if (!op->view)
		twi_claim_lease(session->peer, op);
	if (op->bytes > session->eager_max_bytes && !op->view) {
		int status = twi_claim_need(session->peer, op);

		if (status < 0) {
			twi_session_op_end(session, op, status, 0);
			return;
		}
	}
	entry = twi_match_post(&session->match, &op->match);
	if (entry != NULL) {
		take_unexpected(session, twi_container_of(entry, struct twi_unexpected, match), op);
	} else if (session->failed != 0) {
		twi_match_remove_posted(&session->match, &op->match);
		twi_session_op_end(session, op, session->failed, 0);
	} else {
		op->stage = TWI_STAGE_POSTED;
		op->moved = 0;
		if (session->config.announce)
			twi_session_announce(session, op);
	}
}

static void forget_room(struct tow_op *op)
{
	twi_view_drop(op);
	op->data = NULL;
	op->bytes = TWI_WIRE_U63_MAX;
}

/* The message that `op` was to get was taken back by its sender: the receive waits for the next
 * one. One that was canceled meanwhile has nothing left to wait for. */
void twi_session_repost(struct twi_session *session, struct tow_op *op)
{
	struct twi_match_entry *entry;

	if (op->canceled) {
		op->seq = 0;
		twi_session_op_end(session, op, TOW_ECANCELED, 0);
		return;
	}
	entry = twi_match_post_first(&session->match, &op->match);
	twi_list_remove(&op->link);
	op->stage = TWI_STAGE_POSTED;
	op->seq = 0;
	op->moved = 0;
	if (op->view)
		forget_room(op);
	if (entry != NULL)
		take_unexpected(session, twi_container_of(entry, struct twi_unexpected, match), op);
}

void twi_session_look_again(struct twi_session *session, uint64_t tag, uint8_t space)
{
	struct twi_match_entry *entry;

	twi_match_let_go(&session->match, tag, space);
	while ((entry = twi_match_take_posted(&session->match, tag, space)) != NULL) {
		struct tow_op *op = twi_container_of(entry, struct tow_op, match);

		twi_session_repost(session, op);
		if (op->stage == TWI_STAGE_POSTED)
			break;
	}
}

/* A receive has met the offer of a large message. */
void twi_session_matched(struct twi_session *session, struct tow_op *op, uint64_t seq,
			 uint64_t bytes, bool sum)
{
	int status = twi_session_room_for(op, bytes);

	op->seq = seq;
	if (status < 0) {
		twi_session_owe(session, TWI_FRAME_REFUSE, seq, TWI_REFUSE_CANCELED);
		twi_session_op_end(session, op, status, bytes);
		return;
	}
	if (bytes > op->bytes) {
		twi_session_owe(session, TWI_FRAME_REFUSE, seq, TWI_REFUSE_TRUNCATED);
		twi_session_op_end(session, op, TOW_ETRUNCATED, bytes);
		return;
	}
	op->result_bytes = bytes;
	op->moved = sum ? TWI_RECV_SUM : 0;
	op->stage = TWI_STAGE_QUEUED;
	twi_list_push_back(&session->matched, &op->link);
	twi_session_grant(session);
}

/* A row for a message that may come; op NULL: it falls into the sink. There is a free one. */
static void grant_begin(struct twi_session *session, struct tow_op *op, uint64_t seq,
			uint64_t bytes, bool sum, bool ready)
{
	struct twi_grant *grant = session->grants;

	while (grant->used)
		grant++;
	*grant = (struct twi_grant){
		.op = op,
		.seq = seq,
		.bytes = bytes,
		.used = true,
		.ready = ready,
		.sum = sum,
	};
	twi_stripes_cut(session, grant);
	*(ready ? &session->ready_grants : &session->grant_count) += 1;
	if (op == NULL)
		return;
	grant->tag = op->tag;
	op->stage = TWI_STAGE_GRANTED;
	twi_op_begun(op);
	op->result_bytes = bytes;
	twi_claim_count(op, bytes);
}

/*
 * Asks for as many matched messages as the bound allows. Asking for one more than those that are on
 * their way is not urgent: it may share a packet. What is owed goes first: a DONE must be
 * there before the CTS that uses the row it has freed. A message that came too early, and whose
 * bytes still fall into the sink, has to wait until the last of them has.
 */
void twi_session_grant(struct twi_session *session)
{
	struct twi_list *entry, *next;

	twi_list_for_each_safe (entry, next, &session->matched) {
		struct tow_op *op = twi_container_of(entry, struct tow_op, link);
		const struct twi_frame frame = { .type = TWI_FRAME_CTS,
						 .seq = op->seq,
						 .value = op->result_bytes };

		if (session->grant_count == TWI_GRANTS_MAX || session->owed_count > 0)
			return;
		if (session->ready_grants > 0 && twi_session_grant_find(session, op->seq) != NULL)
			continue;
		if (!twi_session_put(session, &frame))
			return;
		twi_list_remove(&op->link);
		grant_begin(session, op, op->seq, op->result_bytes, (op->moved & TWI_RECV_SUM) != 0,
			    false);
		session->urgent |= session->grant_count + session->ready_grants == 1;
	}
}

struct twi_grant *twi_session_grant_find(struct twi_session *session, uint64_t seq)
{
	for (unsigned i = 0; i < TWI_LARGE_MAX; i++) {
		if (session->grants[i].used && session->grants[i].seq == seq)
			return &session->grants[i];
	}
	return NULL;
}

void twi_session_grant_free(struct twi_session *session, struct twi_grant *grant)
{
	*(grant->ready ? &session->ready_grants : &session->grant_count) -= 1;
	grant->used = false;
	grant->op = NULL;
	twi_session_grant(session);
}

/* An ABORT may have come ahead of the CANCEL, where a resumed channel listed the message. */
static bool has_begun(const struct twi_session *session, const struct twi_grant *grant)
{
	for (unsigned c = 0; c < session->config.bulk_count; c++) {
		if (grant->at[c] > 0 || session->channels[c].in == grant)
			return true;
	}
	return false;
}

/* The receive that had met it waits for the next one; or ends, where that is no wish of anybody. */
static void taken_back(struct twi_session *session, struct tow_op *op,
		       const struct twi_frame *frame)
{
	if (twi_unlikely(frame->value == TWI_BACK_FAULT))
		twi_session_unreadable(session, op, op->result_bytes);
	else
		twi_session_repost(session, op);
}

/* The sender has taken message seq back before any of it came. */
int twi_session_canceled(struct twi_session *session, const struct twi_frame *frame)
{
	uint64_t seq = frame->seq;
	struct twi_grant *grant = twi_session_grant_find(session, seq);
	struct twi_match_entry *entry;
	struct twi_list *pos, *next;

	if (grant != NULL && grant->ready) /* it came too early: its offer is elsewhere */
		grant = NULL;
	if (grant != NULL && has_begun(session, grant))
		return twi_session_fault(session, TWI_RULE_CANCEL_LATE,
					 "took message %llu back after it had begun",
					 (unsigned long long)seq);
	if (grant != NULL) {
		struct tow_op *op = grant->op;

		twi_session_grant_free(session, grant);
		if (op != NULL)
			taken_back(session, op, frame);
		return TOW_OK;
	}
	twi_list_for_each_safe (pos, next, &session->matched) {
		struct tow_op *op = twi_container_of(pos, struct tow_op, link);

		if (op->seq == seq) {
			taken_back(session, op, frame);
			return TOW_OK;
		}
	}
	for (entry = twi_match_first_unexpected(&session->match); entry != NULL;
	     entry = twi_match_next_unexpected(&session->match, entry)) {
		struct twi_unexpected *message =
			twi_container_of(entry, struct twi_unexpected, match);

		if (message->offered && message->seq == seq) {
			twi_match_remove_unexpected(&session->match, entry);
			if (!message->credited)
				twi_session_give_credit(session, 0);
			free(message);
			return TOW_OK;
		}
	}
	return TOW_OK; /* refused meanwhile */
}

struct twi_unexpected *twi_session_unexpected(const struct twi_frame *frame, uint64_t bytes)
{
	bool offered = frame->type == TWI_FRAME_RTS;
	struct twi_unexpected *message = malloc(sizeof(*message) + (offered ? 0 : bytes));

	if (message == NULL) {
		twi_error(TOW_ENOMEM, "no memory for an unexpected message of %llu bytes",
			  (unsigned long long)bytes);
		return NULL;
	}
	*message = (struct twi_unexpected){
		.match.tag = frame->tag,
		.match.space = frame->flags & TWI_FRAME_SPACE,
		.seq = frame->seq,
		.bytes = bytes,
		.offered = offered,
		.sum = (frame->flags & TWI_FRAME_SUM) != 0,
	};
	return message;
}

/* Checks what every message must obey: the next number, within the credit. */
int twi_session_admit(struct twi_session *session, const struct twi_frame *frame)
{
	uint32_t cost = twi_frame_cost(frame->payload_bytes);

	if (frame->seq != session->seq_received + 1)
		return twi_session_fault(
			session, TWI_RULE_MESSAGE_ORDER, "sent message %llu after %llu",
			(unsigned long long)frame->seq, (unsigned long long)session->seq_received);
	if (session->credit_charged - session->credit_given + cost >
	    session->config.local_credit_bytes)
		return twi_session_fault(session, TWI_RULE_CREDIT,
					 "sent more than its credit of %llu bytes",
					 (unsigned long long)session->config.local_credit_bytes);
	session->credit_charged += cost;
	session->seq_received = frame->seq;
	twi_peer_received(session->peer, frame->flags & TWI_FRAME_SPACE);
	session->received_ns = session->input_ns;
	if (++session->acks_owed >= TWI_ACK_EVERY)
		session->urgent = true;
	return TOW_OK;
}

/*
 * An offer whose data comes without having been asked for. The receive that was announced takes it,
 * if it is still there and fits; else the data falls into the sink, and it is an offer like others.
 * True when `op` is served.
 */
static bool take_ready(struct twi_session *session, const struct twi_frame *frame,
		       struct tow_op *op)
{
	bool sum = (frame->flags & TWI_FRAME_SUM) != 0;

	if (op != NULL && !op->view && frame->value <= op->bytes) {
		op->seq = frame->seq;
		grant_begin(session, op, frame->seq, frame->value, sum, true);
		return true;
	}
	grant_begin(session, NULL, frame->seq, frame->value, sum, true);
	return false;
}

struct tow_op *twi_session_take_posted(struct twi_session *session, const struct twi_frame *frame,
				       uint64_t bytes)
{
	struct twi_match_entry *entry =
		twi_match_take_posted(&session->match, frame->tag, frame->flags & TWI_FRAME_SPACE);
	struct tow_op *op;

	if (entry == NULL)
		return NULL;
	op = twi_container_of(entry, struct tow_op, match);
	if (twi_likely(twi_view_ready(op, bytes)))
		return op;
	twi_view_hold(&session->match, op, bytes);
	return NULL;
}

int twi_session_offered(struct twi_session *session, const struct twi_frame *frame)
{
	bool ready = (frame->flags & TWI_FRAME_READY) != 0;
	struct twi_unexpected *message;
	struct tow_op *op;
	int status = twi_session_admit(session, frame);

	if (status < 0)
		return status;
	if (ready && (session->ready_grants == TWI_READY_MAX || !session->config.announce))
		return twi_session_fault(session, TWI_RULE_UNASKED,
					 "sends more than it may unasked");
	op = twi_session_take_posted(session, frame, frame->value);
	twi_session_note(session, frame->tag, true);
	if (op != NULL)
		twi_session_give_credit(session, 0);
	if (ready && take_ready(session, frame, op))
		return TOW_OK;
	if (ready && (op == NULL || op->view))
		twi_session_owe(session, TWI_FRAME_REFUSE, frame->seq, TWI_REFUSE_NOT_READY);
	if (op != NULL) {
		twi_session_matched(session, op, frame->seq, frame->value,
				    (frame->flags & TWI_FRAME_SUM) != 0);
		return TOW_OK;
	}
	message = twi_session_unexpected(frame, frame->value);
	if (message == NULL)
		return TOW_ENOMEM;
	twi_count(session->engine->diag, TWI_C_unexpected_messages,
		  message->match.space == TWI_SPACE_USER);
	twi_match_arrive(&session->match, &message->match);
	return TOW_OK;
}

/* Puts a matched offer back among the unexpected messages, in front: nothing is lost. */
static void put_back(struct twi_session *session, struct tow_op *op)
{
	struct twi_frame frame = {
		.type = TWI_FRAME_RTS, .flags = op->space, .seq = op->seq, .tag = op->tag
	};
	struct twi_unexpected *message;
	struct twi_match_entry *entry;

	if ((op->moved & TWI_RECV_SUM) != 0)
		frame.flags |= TWI_FRAME_SUM;
	message = twi_session_unexpected(&frame, op->result_bytes);
	if (message == NULL) {
		twi_session_owe(session, TWI_FRAME_REFUSE, op->seq, TWI_REFUSE_CANCELED);
		return;
	}
	op->seq = 0;
	message->credited = true; /* held again, on behalf of this side's own operation */
	twi_list_remove(&op->link);
	entry = twi_match_arrive_first(&session->match, &message->match);
	if (entry != NULL)
		take_unexpected(session, message, twi_container_of(entry, struct tow_op, match));
}

/*
 * A receive is taken back while its small message arrives: the message stays, in front, and goes on
 * arriving there. Without memory for it, it is lost.
 */
static void leave_filling(struct twi_session *session, struct tow_op *op)
{
	struct twi_unexpected *message = session->rx_unexpected;
	struct twi_match_entry *other;

	if (session->rx_op == op) {
		struct twi_frame frame = { .type = TWI_FRAME_EAGER,
					   .flags = op->space,
					   .tag = op->tag };
		uint64_t got = session->rx_bytes - session->rx_left;

		frame.seq = op->seq;
		op->seq = 0;
		session->rx_op = NULL;
		session->rx_at = NULL;
		message = twi_session_unexpected(&frame, session->rx_bytes);
		if (message == NULL)
			return;
		twi_path_copy_fallback(session->engine, TWI_R_unexpected_arrival, message->data,
				       op->data, got, op->site);
		session->rx_unexpected = message;
		session->rx_at = message->data + got;
		session->unexpected_bytes += message->bytes;
	}
	message->waiter = NULL;
	other = twi_match_arrive_first(&session->match, &message->match);
	if (other != NULL)
		take_unexpected(session, message, twi_container_of(other, struct tow_op, match));
}

bool twi_session_abort_recv(struct twi_session *session, struct tow_op *op, int status, bool force)
{
	struct twi_grant *grant;

	switch (op->stage) {
	case TWI_STAGE_POSTED:
		twi_match_remove_posted(&session->match, &op->match);
		break;
	case TWI_STAGE_QUEUED:
		put_back(session, op);
		break;
	case TWI_STAGE_FILLING:
		if (!force) {
			op->canceled = true;
			return false;
		}
		if (session->rx_op == op && session->rx_at == NULL) {
			/* it did not fit, and is lost as it would have been */
			session->rx_op = NULL;
			twi_session_op_end(session, op, TOW_ETRUNCATED, session->rx_bytes);
			return true;
		}
		leave_filling(session, op);
		break;
	case TWI_STAGE_GRANTED:
		grant = twi_session_grant_find(session, op->seq);
		if (!force || grant == NULL) {
			op->canceled = true;
			return false;
		}
		grant->op = NULL;
		twi_session_owe(session, TWI_FRAME_REFUSE, op->seq, TWI_REFUSE_CANCELED);
		break;
	default:
		return false;
	}
	twi_session_op_end(session, op, status, 0);
	return true;
}
