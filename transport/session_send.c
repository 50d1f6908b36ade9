/*
 * session_send.c - the sending direction of a session: framing, credit, grants, the bulk stream
 * out.
 *
 * Budget of a small send: one frame written into the control buffer, one time stamp, three
 * counters. No allocation, no system call; the lane decides when the buffer leaves.
 */
#include <stdlib.h>

#include "diag/counter.h"
#include "diag/diag.h"
#include "diag/error.h"
#include "transport/endpoint.h"
#include "transport/engine.h"
#include "transport/op.h"
#include "transport/path.h"
#include "transport/session.h"

/* What fills the rest of a chunk whose operation was taken back. */
static const uint8_t padding[64 << 10];

/*
 * Room for `bytes` at the end of the control buffer, or NULL. The last TWI_CONTROL_RESERVE bytes
 * are for control frames, so that acknowledgements get through when messages fill the buffer.
 */
uint8_t *twi_session_room(struct twi_session *session, uint32_t bytes, bool control)
{
	uint32_t limit = TWI_CONTROL_BYTES - (control ? 0 : TWI_CONTROL_RESERVE);
	uint8_t *at;

	if (session->tx_head == session->tx_tail)
		session->tx_head = session->tx_tail = 0;
	if (twi_unlikely(limit < bytes || session->tx_tail > limit - bytes))
		return NULL;
	at = session->tx + session->tx_tail;
	session->tx_tail += bytes;
	return at;
}

/* A control frame. False when the peer has not read so much that the reserve is full. */
bool twi_session_put(struct twi_session *session, uint8_t type, uint64_t seq, uint64_t tag,
		     uint64_t value)
{
	struct twi_frame frame = { .type = type, .seq = seq, .tag = tag, .value = value };
	uint8_t *at = twi_session_room(session, TWI_FRAME_BYTES, true);

	if (at == NULL)
		return false;
	twi_frame_put(at, &frame);
	twi_count(session->engine->diag, TWI_C_control_frames_sent, 1);
	return true;
}

/*
 * A frame that must be said: an offer is withdrawn, a message refused or complete, the side closes.
 * Where there is no room it waits outside the buffer, at most one for each operation there can be;
 * a peer that reads so little has gone (twi_session_control_in says so).
 */
void twi_session_owe(struct twi_session *session, uint8_t type, uint64_t seq, uint64_t value)
{
	uint32_t room = session->owed_room == 0 ? 64 : session->owed_room * 2;
	struct twi_frame *owed = session->owed;

	session->urgent = true;
	if (session->owed_count == 0 && twi_session_put(session, type, seq, 0, value))
		return;
	if (session->owed_count == session->owed_room) {
		owed = session->owed_count > session->engine->ops.count
			       ? NULL
			       : realloc(owed, room * sizeof(owed[0]));
		if (owed == NULL) {
			session->stuck = true;
			return;
		}
		session->owed = owed;
		session->owed_room = room;
	}
	owed[session->owed_count++] =
		(struct twi_frame){ .type = type, .seq = seq, .value = value };
}

/* The control buffer is empty: what was owed goes first. */
static void pay(struct twi_session *session)
{
	uint32_t paid = 0;

	while (paid < session->owed_count &&
	       twi_session_put(session, session->owed[paid].type, session->owed[paid].seq, 0,
			       session->owed[paid].value))
		paid++;
	session->owed_count -= paid;
	for (uint32_t i = 0; i < session->owed_count; i++)
		session->owed[i] = session->owed[i + paid];
	session->urgent = paid > 0;
}

static bool has_credit(const struct twi_session *session, uint32_t cost)
{
	return session->credit_used - session->credit_returned + cost <=
	       session->config.remote_credit_bytes;
}

static void charge(struct twi_session *session, struct tow_op *op, uint32_t cost, bool eager)
{
	struct twi_timing *timing;

	op->seq = ++session->seq_sent;
	session->credit_used += cost;
	timing = &session->timings[op->seq & session->timings_mask];
	timing->start_ns = eager ? op->start_ns : 0;
	timing->bytes = op->bytes;
}

static bool frame_eager(struct twi_session *session, struct tow_op *op)
{
	uint32_t bytes = (uint32_t)op->bytes, cost = twi_frame_cost(bytes);
	struct twi_frame frame = { .type = TWI_FRAME_EAGER,
				   .payload_bytes = bytes,
				   .tag = op->tag };
	struct twi_diag *diag = session->engine->diag;
	uint8_t *at;

	if (!has_credit(session, cost)) {
		twi_count(diag, TWI_C_credit_stalls, op->stage == TWI_STAGE_NEW);
		return false;
	}
	at = twi_session_room(session, TWI_FRAME_BYTES + bytes, false);
	if (at == NULL)
		return false;
	charge(session, op, cost, true);
	frame.seq = op->seq;
	twi_frame_put(at, &frame);
	twi_path_copy_eager(diag, at + TWI_FRAME_BYTES, op->data, bytes);
	twi_count(diag, TWI_C_eager_sends, 1);
	twi_count(diag, TWI_C_send_bytes, bytes);
	twi_session_op_end(session, op, TOW_OK, bytes);
	return true;
}

static bool frame_offer(struct twi_session *session, struct tow_op *op)
{
	struct twi_frame frame = { .type = TWI_FRAME_RTS, .tag = op->tag, .value = op->bytes };
	uint32_t cost = twi_frame_cost(0);
	uint8_t *at;

	if (!has_credit(session, cost)) {
		twi_count(session->engine->diag, TWI_C_credit_stalls, op->stage == TWI_STAGE_NEW);
		return false;
	}
	at = twi_session_room(session, TWI_FRAME_BYTES, false);
	if (at == NULL)
		return false;
	charge(session, op, cost, false);
	frame.seq = op->seq;
	twi_frame_put(at, &frame);
	twi_count(session->engine->diag, TWI_C_rendezvous_sends, 1);
	twi_list_remove(&op->link);
	op->stage = TWI_STAGE_OFFERED;
	twi_claim_count(op, op->bytes);
	twi_list_push_back(&session->by_seq[op->seq % TWI_SEQ_BUCKETS], &op->seq_link);
	session->urgent = true;
	return true;
}

static bool frame_send(struct twi_session *session, struct tow_op *op)
{
	if (op->bytes <= session->eager_max_bytes)
		return frame_eager(session, op);
	return frame_offer(session, op);
}

void twi_session_send(struct twi_session *session, struct tow_op *op)
{
	twi_count(session->engine->diag, TWI_C_sends, 1);
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

bool twi_session_ack(struct twi_session *session)
{
	uint64_t hold_ns;

	if (session->failed != 0 ||
	    (session->acks_owed == 0 && session->credit_told == session->credit_given))
		return false; /* after a failure BYE is the last frame */
	hold_ns = twi_engine_now(session->engine) - session->received_ns;
	hold_ns = twi_min(hold_ns, (uint64_t)TWI_WIRE_HOLD_MAX_NS);
	if (!twi_session_put(session, TWI_FRAME_ACK, session->seq_received, session->credit_given,
			     hold_ns))
		return false;
	session->acks_owed = 0;
	session->credit_told = session->credit_given;
	return true;
}

void twi_session_bye(struct twi_session *session)
{
	twi_session_owe(session, TWI_FRAME_BYE, 0, 0);
}

bool twi_session_control_out(struct twi_session *session, struct iovec *out)
{
	if (session->tx_head == session->tx_tail)
		return false;
	out->iov_base = session->tx + session->tx_head;
	out->iov_len = session->tx_tail - session->tx_head;
	return true;
}

void twi_session_control_sent(struct twi_session *session, size_t bytes)
{
	twi_assert(bytes <= session->tx_tail - session->tx_head);
	session->tx_head += (uint32_t)bytes;
	if (session->tx_head == session->tx_tail) {
		pay(session);
		twi_session_grant(session);
		twi_session_drain(session);
	}
}

/* ACK: messages up to seq are there; credit has come back. */
int twi_session_acked(struct twi_session *session, const struct twi_frame *frame)
{
	uint64_t now = twi_engine_now(session->engine);

	if (frame->seq > session->seq_sent || frame->seq < session->seq_acked)
		return twi_error(TOW_EPROTOCOL,
				 "peer %s acknowledged message %llu, sent are %llu to %llu",
				 session->peer->address, (unsigned long long)frame->seq,
				 (unsigned long long)session->seq_acked,
				 (unsigned long long)session->seq_sent);
	if (frame->tag > session->credit_used || frame->tag < session->credit_returned)
		return twi_error(TOW_EPROTOCOL, "peer %s returned credit that was never used",
				 session->peer->address);
	while (session->seq_acked < frame->seq) {
		const struct twi_timing *timing =
			&session->timings[++session->seq_acked & session->timings_mask];
		uint64_t taken = timing->start_ns + frame->value;

		if (timing->start_ns == 0)
			continue;
		twi_latency_record(session->engine->diag, session->config.lane, timing->bytes,
				   now > taken ? now - taken : 0);
	}
	session->credit_returned = frame->tag;
	twi_session_drain(session);
	return TOW_OK;
}

/* CTS: the receiver wants message seq now. One that was taken back meanwhile is not there any more.
 */
int twi_session_granted(struct twi_session *session, const struct twi_frame *frame)
{
	struct tow_op *op = twi_session_find(session, frame->seq);

	if (frame->seq > session->seq_sent)
		return twi_error(TOW_EPROTOCOL, "peer %s asks for message %llu of %llu",
				 session->peer->address, (unsigned long long)frame->seq,
				 (unsigned long long)session->seq_sent);
	if (op == NULL)
		return TOW_OK;
	if (op->stage != TWI_STAGE_OFFERED || frame->value != op->bytes)
		return twi_error(TOW_EPROTOCOL, "peer %s asks for message %llu twice or changed",
				 session->peer->address, (unsigned long long)frame->seq);
	if (session->bulk_count == TWI_GRANTS_MAX)
		return twi_error(TOW_EPROTOCOL, "peer %s grants more than %d messages at once",
				 session->peer->address, TWI_GRANTS_MAX);
	op->stage = TWI_STAGE_BULK;
	session->bulk_count++;
	twi_list_push_back(&session->bulk, &op->link);
	return TOW_OK;
}

/* DONE: the receiver has all of message seq. */
int twi_session_done(struct twi_session *session, const struct twi_frame *frame)
{
	struct tow_op *op = twi_session_find(session, frame->seq);
	uint64_t now = twi_engine_now(session->engine), taken;

	if (op == NULL)
		return frame->seq <= session->seq_sent
			       ? TOW_OK
			       : twi_error(TOW_EPROTOCOL, "peer %s has message %llu, never sent",
					   session->peer->address, (unsigned long long)frame->seq);
	if (op->stage != TWI_STAGE_SENT)
		return twi_error(TOW_EPROTOCOL, "peer %s has message %llu before it was sent",
				 session->peer->address, (unsigned long long)frame->seq);
	taken = op->start_ns + frame->value;
	twi_latency_record(session->engine->diag, session->config.lane, op->bytes,
			   now > taken ? now - taken : 0);
	twi_count(session->engine->diag, TWI_C_send_bytes, op->bytes);
	twi_session_op_end(session, op, TOW_OK, op->bytes);
	return TOW_OK;
}

/* REFUSE: the receiver does not want message seq, or does not want the rest of it. */
int twi_session_refused(struct twi_session *session, const struct twi_frame *frame)
{
	struct tow_op *op = twi_session_find(session, frame->seq);
	int status = frame->value == TWI_REFUSE_TRUNCATED ? TOW_ETRUNCATED : TOW_ECANCELED;

	if (op == NULL)
		return TOW_OK;
	if (op->stage == TWI_STAGE_OFFERED)
		twi_session_op_end(session, op, status, op->bytes);
	else if (op == session->out_op)
		session->out_refusal = status; /* the lane may be sending from its buffer now */
	else
		twi_session_abort(session, op, status, true);
	return TOW_OK;
}

static void put_data(uint8_t *at, uint64_t seq, uint64_t offset, uint32_t bytes, uint8_t flags)
{
	struct twi_frame frame = {
		.type = TWI_FRAME_DATA,
		.flags = flags,
		.payload_bytes = bytes,
		.seq = seq,
		.value = offset,
	};

	twi_frame_put(at, &frame);
}

/* Writes the header of the next chunk: an abort first, else the head of the bulk queue. */
static bool next_chunk(struct twi_session *session)
{
	struct twi_list *entry = twi_list_first(&session->bulk);
	struct tow_op *op;

	if (session->abort_count > 0) {
		put_data(session->out_head, session->aborts[0], 0, 0, TWI_FRAME_ABORT);
		session->abort_count--;
		for (unsigned i = 0; i < session->abort_count; i++)
			session->aborts[i] = session->aborts[i + 1];
		session->bulk_count--;
		session->out_head_left = TWI_FRAME_BYTES;
		return true;
	}
	if (entry == NULL)
		return false;
	op = twi_container_of(entry, struct tow_op, link);
	session->out_op = op;
	session->out_refusal = 0;
	session->out_left = twi_min(op->bytes - op->moved, (uint64_t)TWI_CHUNK_BYTES);
	put_data(session->out_head, op->seq, op->moved, (uint32_t)session->out_left, 0);
	session->out_head_left = TWI_FRAME_BYTES;
	if (op->moved + session->out_left == op->bytes) {
		put_data(session->out_tail, op->seq, op->bytes, 0, TWI_FRAME_LAST);
		session->out_tail_left = TWI_FRAME_BYTES;
	}
	return true;
}

static void add_part(struct twi_bulk_out *out, const void *data, uint64_t bytes)
{
	out->parts[out->count++] = (struct iovec){ (void *)(uintptr_t)data, bytes };
}

bool twi_session_bulk_out(struct twi_session *session, unsigned channel, uint64_t max_bytes,
			  struct twi_bulk_out *out)
{
	(void)channel;
	*out = (struct twi_bulk_out){ .payload_part = -1 };
	if (session->failed != 0)
		return false;
	if (session->out_op != NULL && session->out_refusal != 0)
		twi_session_abort(session, session->out_op, session->out_refusal, true);
	if (session->out_head_left == 0 && session->out_left == 0 && session->out_tail_left == 0 &&
	    !next_chunk(session))
		return false;
	if (session->out_head_left > 0)
		add_part(out, session->out_head + TWI_FRAME_BYTES - session->out_head_left,
			 session->out_head_left);
	if (session->out_left > 0 && session->out_padding) {
		add_part(out, padding, twi_min(session->out_left, sizeof(padding)));
		return true;
	}
	if (session->out_left > 0) {
		out->op = session->out_op;
		out->payload_bytes = twi_min(session->out_left, max_bytes);
		out->payload_part = out->count;
		add_part(out, (uint8_t *)out->op->data + out->op->moved, out->payload_bytes);
	}
	if (session->out_tail_left > 0 && out->payload_bytes == session->out_left)
		add_part(out, session->out_tail + TWI_FRAME_BYTES - session->out_tail_left,
			 session->out_tail_left);
	return true;
}

void twi_session_bulk_sent(struct twi_session *session, unsigned channel, size_t bytes)
{
	size_t head = twi_min(bytes, (size_t)session->out_head_left), payload;
	struct tow_op *op = session->out_op;

	(void)channel;
	session->out_head_left -= (uint32_t)head;
	bytes -= head;
	payload = twi_min(bytes, session->out_left);
	session->out_left -= payload;
	bytes -= payload;
	if (op != NULL)
		op->moved += payload;
	twi_assert(bytes <= session->out_tail_left);
	if (bytes > 0 && (session->out_tail_left -= (uint32_t)bytes) == 0) {
		/* The commit is out. Without its operation, that was taken back too late to matter.
		 */
		session->bulk_count--;
		if (op != NULL) {
			twi_list_remove(&op->link);
			op->stage = TWI_STAGE_SENT;
			if (session->out_refusal != 0) /* came while this was on its way: no DONE */
				twi_session_op_end(session, op, session->out_refusal, 0);
		}
	}
	if (session->out_left == 0 && session->out_tail_left == 0) {
		session->out_padding = false;
		session->out_op = NULL;
	}
}
