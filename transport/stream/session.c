/*
 * session.c - the parts of a session that belong to neither direction: its life, taking operations
 * back, and its end. session_parts.h says what is in the other files.
 */

#include <stdlib.h>

#include "diag/base/error.h"
#include "diag/judge/rank_state.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/message/waiting.h"
#include "transport/op/endpoint.h"
#include "transport/op/message.h"
#include "transport/op/op.h"
#include "transport/stream/session_parts.h"

#define SENDS_TOLD 64u /* of those that wait */

/*
 * The largest message that may go small. It must fit the control buffer, or it would never go; and
 * half of the credit, because a receiver tells of credit given back once it is a quarter.
 */
static uint32_t eager_max(const struct twi_session_config *config)
{
	uint64_t credit = config->remote_credit_bytes / 2;
	uint64_t room = TWI_CONTROL_BYTES - TWI_CONTROL_RESERVE - TWI_FRAME_BYTES;

	credit -= twi_min(credit, (uint64_t)twi_frame_cost(0));
	return (uint32_t)twi_min(config->eager_max_bytes, twi_min(room, credit));
}

int twi_session_init(struct twi_session *session, struct twi_engine *engine, struct tow_peer *peer,
		     const struct twi_session_config *config)
{
	uint64_t slots = 64;

	*session = (struct twi_session){ .engine = engine, .peer = peer, .config = *config };
	/* What a peer grants is its own affair; the memory to keep account of it is ours. */
	session->config.remote_credit_bytes =
		twi_min(config->remote_credit_bytes, (uint64_t)TWI_CREDIT_MAX);
	config = &session->config;
	session->eager_max_bytes = eager_max(config);
	/* What is not acknowledged is bounded by the credit, so its times fit in a ring of this
	 * size. */
	while (slots < config->remote_credit_bytes / twi_frame_cost(0) + 1)
		slots *= 2;
	if (session->config.bulk_count == 0)
		session->config.bulk_count = 1;
	twi_assert(session->config.bulk_count <= TWI_BULK_MAX);
	if (session->config.stripe_bytes == 0)
		session->config.stripe_bytes = TWI_STRIPE_BYTES;
	twi_list_init(&session->queued);
	twi_list_init(&session->matched);
	for (unsigned i = 0; i < TWI_SEQ_BUCKETS; i++)
		twi_list_init(&session->by_seq[i]);
	twi_inbox_init(&session->inbox, peer, &twi_session_inbox, config->local_credit_bytes,
		       session->eager_max_bytes);
	session->timings_mask = (uint32_t)(slots - 1);
	session->timings = calloc(slots, sizeof(session->timings[0]));
	if (session->timings == NULL || twi_session_retain_init(session) < 0) {
		twi_session_fini(session);
		return twi_error(TOW_ENOMEM, "no memory for a connection's buffers (%u bytes)",
				 TWI_CONTROL_BYTES);
	}
	return TOW_OK;
}

void twi_session_fini(struct twi_session *session)
{
	if (session->timings != NULL)
		twi_inbox_fini(&session->inbox);
	twi_session_retain_fini(session);
	free(session->timings);
	free(session->owed);
	session->owed = NULL;
	session->timings = NULL;
}

/* An operation of this session ends: it leaves every queue, and its memory is let go. */
void twi_session_op_end(struct twi_session *session, struct tow_op *op, int status, uint64_t bytes)
{
	twi_list_remove(&op->link);
	twi_list_remove(&op->seq_link);
	twi_claim_drop(session->engine, &op->claim);
	if (twi_unlikely(op->view &&
			 status < 0)) { /* nothing came: there is nothing to give back */
		twi_view_drop(op);
		op->data = NULL;
	}
	if (op->seq != 0)
		op->rpc_id = twi_peer_rpc_id(session->peer, op->seq, op->kind == TWI_OP_SEND);
	twi_op_complete(op, status, bytes);
}

struct tow_op *twi_session_find(struct twi_session *session, uint64_t seq)
{
	struct twi_list *bucket = &session->by_seq[seq % TWI_SEQ_BUCKETS], *pos, *next;

	twi_list_for_each_safe (pos, next, bucket) {
		struct tow_op *op = twi_container_of(pos, struct tow_op, seq_link);

		if (op->seq == seq)
			return op;
	}
	return NULL;
}

static bool abort_send(struct twi_session *session, struct tow_op *op, int status, bool force)
{
	switch (op->stage) {
	case TWI_STAGE_QUEUED:
		/* It may be what smaller ones behind it have waited for. */
		twi_session_op_end(session, op, status, 0);
		twi_session_drain(session);
		return true;
	case TWI_STAGE_OFFERED:
		twi_session_owe(session, TWI_FRAME_CANCEL, op->seq, 0);
		break;
	case TWI_STAGE_BULK:
		if (!force && op->moved > 0)
			return false;
		twi_session_send_leave(session, twi_session_send_find(session, op->seq));
		break;
	case TWI_STAGE_SENT:
		if (!force)
			return false;
		twi_session_send_leave(session, twi_session_send_find(session, op->seq));
		break;
	default:
		return false;
	}
	twi_session_op_end(session, op, status, 0);
	return true;
}

bool twi_session_abort(struct twi_session *session, struct tow_op *op, int status, bool force)
{
	if (op->kind == TWI_OP_SEND)
		return abort_send(session, op, status, force);
	return twi_session_abort_recv(session, op, status, force);
}

static void end_all(struct twi_session *session, struct twi_list *list, int status)
{
	struct twi_list *entry;

	while ((entry = twi_list_first(list)) != NULL)
		twi_session_op_end(session, twi_container_of(entry, struct tow_op, link), status,
				   0);
}

static void end_by_seq(struct twi_session *session, int status)
{
	struct twi_list *entry;

	for (unsigned i = 0; i < TWI_SEQ_BUCKETS; i++) {
		while ((entry = twi_list_first(&session->by_seq[i])) != NULL)
			twi_session_op_end(session,
					   twi_container_of(entry, struct tow_op, seq_link), status,
					   0);
	}
}

static void end_granted(struct twi_session *session, int status)
{
	for (unsigned i = 0; i < TWI_LARGE_MAX; i++) {
		struct tow_op *op = session->grants[i].op;

		session->grants[i].op = NULL;
		if (op != NULL)
			twi_session_op_end(session, op, status, 0);
	}
}

void twi_session_fail(struct twi_session *session, int status)
{
	if (session->failed != 0)
		return;
	session->failed = status;
	session->early_count = 0;
	for (unsigned i = 0; i < TWI_LARGE_MAX; i++)
		session->sends[i].op = NULL;
	end_all(session, &session->queued, status);
	end_by_seq(session, status);
	end_all(session, &session->matched, status);
	end_granted(session, status);
	session->skip_bytes = (uint32_t)session->inbox.filling.left;
	twi_inbox_fail(&session->inbox, status);
}

int twi_session_gone(const struct twi_session *session)
{
	return twi_rule_bye_error(session->peer->address,
				  session->peer->said_bye ? session->bye : -1);
}

bool twi_session_quiet(const struct twi_session *session)
{
	return session->tx_head == session->tx_tail && session->owed_count == 0 &&
	       session->seq_sent == session->seq_acked && session->send_count == 0 &&
	       session->ready_sends == 0 && session->grant_count == 0 &&
	       session->ready_grants == 0 && twi_list_empty(&session->queued) &&
	       twi_list_empty(&session->matched);
}

void twi_session_measure(const struct twi_session *session, uint64_t now_ns,
			 struct twi_state_link *out)
{
	struct twi_list *pos, *next;

	out->unsent_bytes = session->tx_tail - session->tx_head;
	out->unacked_bytes = session->tx_head - session->tx_acked;
	if (session->input_ns > 0 && session->input_ns < now_ns)
		out->silent_ns = now_ns - session->input_ns;
	twi_list_for_each_safe (pos, next, &session->queued) {
		if (++out->waiting_sends == SENDS_TOLD)
			break;
	}
	if ((session->inbox.credit_charged - session->inbox.credit_given) * 2 >=
	    session->config.local_credit_bytes)
		out->flags |= TWI_LINK_HOLDS;
	if (out->waiting_sends > 0 && twi_session_no_credit(session))
		out->flags |= TWI_LINK_NO_CREDIT;
}

void twi_session_describe(const struct twi_session *session, struct twi_emit *emit)
{
	unsigned broken = 0;

	for (unsigned c = 0; c < session->config.bulk_count; c++)
		broken += session->channels[c].broken;
	twi_emit_str(emit, "state", session->failed != 0 ? tow_status_name(session->failed) : "up");
	twi_peer_messages_describe(session->peer, session->seq_sent, session->inbox.seq_received,
				   &session->inbox.match, emit);
	twi_emit_u64(emit, "messages_unacknowledged", session->seq_sent - session->seq_acked);
	twi_emit_u64(emit, "credit_bytes", session->config.remote_credit_bytes);
	twi_emit_u64(emit, "credit_used_bytes", session->credit_used - session->credit_returned);
	twi_emit_u64(emit, "eager_max_bytes", session->config.eager_max_bytes);
	twi_emit_u64(emit, "unexpected_bytes", session->inbox.kept_bytes);
	twi_emit_u64(emit, "granted_to_peer", session->grant_count);
	twi_emit_u64(emit, "granted_by_peer", session->send_count);
	twi_emit_u64(emit, "control_buffered_bytes", session->tx_tail - session->tx_head);
	twi_emit_u64(emit, "control_retained_bytes", session->tx_tail - session->tx_acked);
	twi_emit_u64(emit, "bulk_channels", session->config.bulk_count);
	twi_emit_bool(emit, "control_broken", session->control_broken);
	twi_emit_u64(emit, "bulk_channels_broken", broken);
}
