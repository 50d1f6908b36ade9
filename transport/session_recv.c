/*
 * session_recv.c - the receiving direction of a session: parsing, matching, grants, the bulk stream
 * in.
 *
 * The control stream is parsed where it lies, in the lane's buffer; a header that is cut by the end
 * of the buffer is collected in `head`, a payload that is cut goes on where it was going (rx_at).
 * So a small message is copied once, from the lane's buffer to the user's; twice when nobody had
 * posted for it, which is counted as a fallback copy. Bulk payload is received in place.
 */
#include <stdlib.h>

#include "diag/counter.h"
#include "diag/diag.h"
#include "diag/error.h"
#include "transport/endpoint.h"
#include "transport/engine.h"
#include "transport/message.h"
#include "transport/op.h"
#include "transport/path.h"
#include "transport/session.h"

static void give_credit(struct twi_session *session, uint64_t payload_bytes)
{
	session->credit_given += twi_frame_cost((uint32_t)payload_bytes);
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
	twi_count(session->engine->diag, TWI_C_recv_bytes, bytes);
	twi_session_op_end(session, op, TOW_OK, bytes);
}

/* A view gets memory when the length of its message is known. */
static int room_for(struct tow_op *op, uint64_t bytes)
{
	return twi_likely(!op->view) ? TOW_OK : twi_view_room(op, bytes);
}

/* An unexpected message meets its receive: the copy that an earlier receive would have saved. */
static void deliver_unexpected(struct twi_session *session, struct twi_unexpected *message,
			       struct tow_op *op)
{
	int status = room_for(op, message->bytes);

	op->seq = message->seq;
	if (status == TOW_OK && message->bytes <= op->bytes)
		twi_path_copy_fallback(session->engine, TWI_R_unexpected_arrival, op->data,
				       message->data, message->bytes, op->site);
	give_credit(session, message->bytes);
	session->unexpected_bytes -= message->bytes;
	if (status < 0)
		twi_session_op_end(session, op, status, message->bytes);
	else
		twi_session_received(session, op, message->bytes);
	free(message);
}

/* A receive takes an unexpected message off the table. */
static void take_unexpected(struct twi_session *session, struct twi_unexpected *message,
			    struct tow_op *op)
{
	if (message->offered) {
		uint64_t seq = message->seq, bytes = message->bytes;

		if (!message->credited)
			give_credit(session, 0);
		free(message);
		twi_session_matched(session, op, seq, bytes);
	} else if (message->whole) {
		deliver_unexpected(session, message, op);
	} else {
		message->waiter = op;
		op->stage = TWI_STAGE_FILLING;
	}
}

void twi_session_recv(struct twi_session *session, struct tow_op *op)
{
	struct twi_match_entry *entry;

	twi_count(session->engine->diag, TWI_C_recvs, 1);
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
	}
}

static void forget_room(struct tow_op *op)
{
	twi_view_drop(op);
	op->data = NULL;
	op->bytes = TWI_WIRE_U63_MAX;
}

/* The message that `op` was to get was taken back by its sender: the receive waits for the next
 * one. */
void twi_session_repost(struct twi_session *session, struct tow_op *op)
{
	struct twi_match_entry *entry = twi_match_post_first(&session->match, &op->match);

	twi_list_remove(&op->link);
	op->stage = TWI_STAGE_POSTED;
	op->seq = 0;
	if (op->view)
		forget_room(op);
	if (entry != NULL)
		take_unexpected(session, twi_container_of(entry, struct twi_unexpected, match), op);
}

/* A receive has met the offer of a large message. */
void twi_session_matched(struct twi_session *session, struct tow_op *op, uint64_t seq,
			 uint64_t bytes)
{
	int status = room_for(op, bytes);

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
	op->stage = TWI_STAGE_QUEUED;
	twi_list_push_back(&session->matched, &op->link);
	twi_session_grant(session);
}

/* Asks for as many matched messages as the bound allows. */
void twi_session_grant(struct twi_session *session)
{
	struct twi_list *entry;

	while (session->grant_count < TWI_GRANTS_MAX &&
	       (entry = twi_list_first(&session->matched)) != NULL) {
		struct tow_op *op = twi_container_of(entry, struct tow_op, link);
		struct twi_grant *grant = session->grants;

		if (!twi_session_put(session, TWI_FRAME_CTS, op->seq, 0, op->result_bytes))
			return;
		while (grant->used)
			grant++;
		twi_claim_count(op, op->result_bytes);
		*grant = (struct twi_grant){
			.op = op,
			.seq = op->seq,
			.tag = op->tag,
			.bytes = op->result_bytes,
			.used = true,
		};
		session->grant_count++;
		session->urgent = true;
		op->stage = TWI_STAGE_GRANTED;
		twi_list_remove(&op->link);
	}
}

struct twi_grant *twi_session_grant_find(struct twi_session *session, uint64_t seq)
{
	for (unsigned i = 0; i < TWI_GRANTS_MAX; i++) {
		if (session->grants[i].used && session->grants[i].seq == seq)
			return &session->grants[i];
	}
	return NULL;
}

void twi_session_grant_free(struct twi_session *session, struct twi_grant *grant)
{
	grant->used = false;
	grant->op = NULL;
	session->grant_count--;
	twi_session_grant(session);
}

/* The sender has taken message seq back before any of it came. */
static int canceled(struct twi_session *session, uint64_t seq)
{
	struct twi_grant *grant = twi_session_grant_find(session, seq);
	struct twi_match_entry *entry;
	struct twi_list *pos, *next;

	if (grant != NULL && (grant->got > 0 || session->in_grant == grant))
		return twi_error(TOW_EPROTOCOL, "peer %s took message %llu back after it had begun",
				 session->peer->address, (unsigned long long)seq);
	if (grant != NULL) {
		struct tow_op *op = grant->op;

		twi_session_grant_free(session, grant);
		if (op != NULL)
			twi_session_repost(session, op);
		return TOW_OK;
	}
	twi_list_for_each_safe (pos, next, &session->matched) {
		struct tow_op *op = twi_container_of(pos, struct tow_op, link);

		if (op->seq == seq) {
			twi_session_repost(session, op);
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
				give_credit(session, 0);
			free(message);
			return TOW_OK;
		}
	}
	return TOW_OK; /* refused meanwhile */
}

static struct twi_unexpected *unexpected_create(const struct twi_frame *frame, uint64_t bytes)
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
		.seq = frame->seq,
		.bytes = bytes,
		.offered = offered,
	};
	return message;
}

/* Checks what every message must obey: the next number, within the credit. */
static int admit(struct twi_session *session, const struct twi_frame *frame)
{
	uint32_t cost = twi_frame_cost(frame->payload_bytes);

	if (frame->seq != session->seq_received + 1)
		return twi_error(TOW_EPROTOCOL, "peer %s sent message %llu after %llu",
				 session->peer->address, (unsigned long long)frame->seq,
				 (unsigned long long)session->seq_received);
	if (session->credit_charged - session->credit_given + cost >
	    session->config.local_credit_bytes)
		return twi_error(TOW_EPROTOCOL, "peer %s sent more than its credit of %llu bytes",
				 session->peer->address,
				 (unsigned long long)session->config.local_credit_bytes);
	session->credit_charged += cost;
	session->seq_received = frame->seq;
	session->received_ns = session->input_ns;
	if (++session->acks_owed >= TWI_ACK_EVERY)
		session->urgent = true;
	return TOW_OK;
}

static int on_offer(struct twi_session *session, const struct twi_frame *frame)
{
	struct twi_match_entry *entry;
	struct twi_unexpected *message;
	int status = admit(session, frame);

	if (status < 0)
		return status;
	entry = twi_match_take_posted(&session->match, frame->tag, 0);
	if (entry != NULL) {
		give_credit(session, 0);
		twi_session_matched(session, twi_container_of(entry, struct tow_op, match),
				    frame->seq, frame->value);
		return TOW_OK;
	}
	message = unexpected_create(frame, frame->value);
	if (message == NULL)
		return TOW_ENOMEM;
	twi_count(session->engine->diag, TWI_C_unexpected_messages, 1);
	twi_match_arrive(&session->match, &message->match);
	return TOW_OK;
}

/* All payload of the present small message has come. */
static void finish_eager(struct twi_session *session)
{
	struct twi_unexpected *message = session->rx_unexpected;
	struct tow_op *op = session->rx_op;

	session->rx_unexpected = NULL;
	session->rx_op = NULL;
	session->rx_at = NULL;
	if (message != NULL) {
		message->whole = true;
		if (message->waiter != NULL) {
			struct tow_op *waiter = message->waiter;

			deliver_unexpected(session, message, waiter);
		}
		return;
	}
	give_credit(session, session->rx_bytes);
	if (op != NULL)
		twi_session_received(session, op, session->rx_bytes);
}

/* Takes up to rx_left bytes of payload; returns how many. */
static size_t take_eager(struct twi_session *session, const uint8_t *data, size_t bytes)
{
	size_t n = twi_min(bytes, (size_t)session->rx_left);

	if (session->rx_at != NULL && n > 0) {
		twi_path_copy_eager(session->engine->diag, session->rx_at, data, n);
		session->rx_at += n;
	}
	session->rx_left -= (uint32_t)n;
	if (session->rx_left == 0)
		finish_eager(session);
	return n;
}

/* The header of a small message: finds out where its payload goes. */
static int on_eager(struct twi_session *session, const struct twi_frame *frame)
{
	struct twi_match_entry *entry;
	int status = admit(session, frame);

	if (status < 0)
		return status;
	session->rx_left = frame->payload_bytes;
	session->rx_bytes = frame->payload_bytes;
	entry = twi_match_take_posted(&session->match, frame->tag, 0);
	if (twi_likely(entry != NULL)) {
		struct tow_op *op = twi_container_of(entry, struct tow_op, match);

		op->seq = frame->seq;
		op->stage = TWI_STAGE_FILLING;
		session->rx_op = op;
		status = room_for(op, frame->payload_bytes);
		if (status < 0) {
			session->rx_op = NULL; /* the payload is dropped */
			if (frame->payload_bytes == 0)
				give_credit(session, 0);
			twi_session_op_end(session, op, status, frame->payload_bytes);
			return TOW_OK;
		}
		session->rx_at = frame->payload_bytes <= op->bytes ? op->data : NULL;
		return TOW_OK;
	}
	session->rx_unexpected = unexpected_create(frame, frame->payload_bytes);
	if (session->rx_unexpected == NULL)
		return TOW_ENOMEM;
	session->rx_at = session->rx_unexpected->data;
	session->unexpected_bytes += frame->payload_bytes;
	twi_count(session->engine->diag, TWI_C_unexpected_messages, 1);
	twi_count(session->engine->diag, TWI_C_unexpected_bytes, frame->payload_bytes);
	twi_match_arrive(&session->match, &session->rx_unexpected->match);
	return TOW_OK;
}

static int on_frame(struct twi_session *session, const struct twi_frame *frame)
{
	twi_count(session->engine->diag, TWI_C_control_frames_received, 1);
	switch (frame->type) {
	case TWI_FRAME_EAGER:
		return on_eager(session, frame);
	case TWI_FRAME_RTS:
		return on_offer(session, frame);
	case TWI_FRAME_CTS:
		return twi_session_granted(session, frame);
	case TWI_FRAME_DONE:
		return twi_session_done(session, frame);
	case TWI_FRAME_ACK:
		return twi_session_acked(session, frame);
	case TWI_FRAME_CANCEL:
		return canceled(session, frame->seq);
	case TWI_FRAME_REFUSE:
		return twi_session_refused(session, frame);
	case TWI_FRAME_BYE:
		session->peer_said_bye = true;
		return TOW_OK;
	default:
		return twi_error(TOW_EPROTOCOL, "peer %s sent a frame of type %u out of place",
				 session->peer->address, frame->type);
	}
}

static int parse_frame(struct twi_session *session, const uint8_t *head)
{
	const struct twi_frame_limits limits = {
		.eager_max_bytes = session->config.eager_max_bytes,
		.control = true,
		.hello_done = true,
	};
	struct twi_frame frame;
	enum twi_frame_fault fault;

	if (twi_frame_get(head, &limits, &frame, &fault) != TOW_OK)
		return twi_error(TOW_EPROTOCOL, "peer %s: bad control frame: %s",
				 session->peer->address, twi_frame_fault_text(fault));
	return on_frame(session, &frame);
}

int twi_session_control_in(struct twi_session *session, const uint8_t *data, size_t bytes)
{
	const uint8_t *end = data + bytes;
	int status;

	session->input_ns = twi_engine_now(session->engine);
	while (data < end && session->failed == 0) {
		const uint8_t *head = data;

		if (session->rx_left > 0) {
			data += take_eager(session, data, (size_t)(end - data));
			continue;
		}
		if (session->head_fill > 0 || end - data < TWI_FRAME_BYTES) {
			while (data < end && session->head_fill < TWI_FRAME_BYTES)
				session->head[session->head_fill++] = *data++;
			if (session->head_fill < TWI_FRAME_BYTES)
				return TOW_OK;
			session->head_fill = 0;
			head = session->head;
		} else {
			data += TWI_FRAME_BYTES;
		}
		status = parse_frame(session, head);
		if (status < 0)
			return status;
		if (session->rx_left == 0 &&
		    (session->rx_op != NULL || session->rx_unexpected != NULL))
			finish_eager(session); /* a message of no bytes */
	}
	if (twi_unlikely(session->stuck))
		return twi_error(TOW_EPEER, "peer %s does not read its control stream",
				 session->peer->address);
	return TOW_OK;
}

/* Puts a matched offer back among the unexpected messages, in front: nothing is lost. */
static void put_back(struct twi_session *session, struct tow_op *op)
{
	struct twi_frame frame = { .type = TWI_FRAME_RTS, .seq = op->seq, .tag = op->tag };
	struct twi_unexpected *message = unexpected_create(&frame, op->result_bytes);
	struct twi_match_entry *entry;

	if (message == NULL) {
		twi_session_owe(session, TWI_FRAME_REFUSE, op->seq, TWI_REFUSE_CANCELED);
		return;
	}
	op->seq = 0;
	message->credited = true; /* held again, on behalf of this side's own operation */
	twi_list_remove(&op->link);
	entry = twi_match_arrive_first(&session->match, &message->match);
	if (entry != NULL) {
		twi_session_matched(session, twi_container_of(entry, struct tow_op, match),
				    message->seq, message->bytes);
		free(message);
	}
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
		struct twi_frame frame = { .type = TWI_FRAME_EAGER, .tag = op->tag };
		uint64_t got = session->rx_bytes - session->rx_left;

		frame.seq = op->seq;
		op->seq = 0;
		session->rx_op = NULL;
		session->rx_at = NULL;
		message = unexpected_create(&frame, session->rx_bytes);
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
		if (!force)
			return false;
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
		if (!force || grant == NULL)
			return false;
		grant->op = NULL;
		twi_session_owe(session, TWI_FRAME_REFUSE, op->seq, TWI_REFUSE_CANCELED);
		break;
	default:
		return false;
	}
	twi_session_op_end(session, op, status, 0);
	return true;
}
