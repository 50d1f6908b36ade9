/*
 * session.c - the parts of a session that belong to neither direction: set-up, taking operations
 * back, and the end. session_parts.h lists the other files.
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

#define TIMED_EVERY_NS 2000u /* docs/stats.md: which side times what */

int twi_session_init(struct twi_session *session, struct twi_engine *engine, struct tow_peer *peer,
		     const struct twi_session_config *config)
{
	const struct twi_outbox_config sending = {
		.credit_bytes = config->remote_credit_bytes,
		/* A message that does not fit the control buffer would never be sent. */
		.eager_bytes = twi_min(config->eager_max_bytes,
				       TWI_CONTROL_BYTES - TWI_CONTROL_RESERVE - TWI_FRAME_BYTES),
		.timed_every_ns = TIMED_EVERY_NS,
		.checksum_all = config->checksum_all,
		.hears = true,
	};

	session->engine = engine;
	session->peer = peer;
	session->config = *config;
	session->config.lone_bytes = twi_max(config->lone_bytes, config->eager_max_bytes);
	if (session->config.bulk_count == 0)
		session->config.bulk_count = 1;
	twi_assert(session->config.bulk_count <= TWI_BULK_MAX);
	if (session->config.stripe_bytes == 0)
		session->config.stripe_bytes = TWI_STRIPE_BYTES;
	twi_list_init(&session->matched);
	twi_outbox_init(&session->outbox, peer, &twi_session_outbox);
	twi_outbox_configure(&session->outbox, &sending);
	twi_inbox_init(&session->inbox, peer, &twi_session_inbox, config->local_credit_bytes,
		       session->outbox.eager_bytes, &session->rule);
	if (twi_session_retain_init(session) < 0) {
		twi_session_fini(session);
		return twi_error(TOW_ENOMEM, "no memory for a connection's buffers (%u bytes)",
				 TWI_CONTROL_BYTES);
	}
	return TOW_OK;
}

void twi_session_fini(struct twi_session *session)
{
	if (session->peer != NULL) /* else init was never called */
		twi_inbox_fini(&session->inbox);
	twi_outbox_fini(&session->outbox);
	twi_session_retain_fini(session);
	free(session->owed);
	session->owed = NULL;
}

bool twi_session_abort(struct twi_session *session, struct tow_op *op, int status, bool force)
{
	if (op->kind == TWI_OP_SEND)
		return twi_outbox_abort(&session->outbox, op, status, force);
	return twi_session_abort_recv(session, op, status, force);
}

static void end_matched(struct twi_session *session, int status)
{
	struct twi_list *entry;

	while ((entry = twi_list_first(&session->matched)) != NULL)
		twi_inbox_end(&session->inbox, twi_container_of(entry, struct tow_op, link), status,
			      0);
}

static void end_granted(struct twi_session *session, int status)
{
	for (unsigned i = 0; i < TWI_LARGE_MAX; i++) {
		struct tow_op *op = session->grants[i].op;

		session->grants[i].op = NULL;
		if (op != NULL)
			twi_inbox_end(&session->inbox, op, status, 0);
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
	twi_outbox_fail(&session->outbox, status);
	end_matched(session, status);
	end_granted(session, status);
	session->skip_bytes = (uint32_t)session->inbox.filling.left;
	twi_inbox_fail(&session->inbox, status);
}

int twi_session_gone(const struct twi_session *session)
{
	char rank[TWI_PEER_RANK];

	return twi_rule_bye_error(session->peer->address, twi_peer_rank(session->peer, rank),
				  session->peer->said_bye ? session->bye : -1);
}

bool twi_session_quiet(const struct twi_session *session)
{
	return session->tx_head == session->tx_tail && session->owed_count == 0 &&
	       session->outbox.seq_sent == session->outbox.seq_acked && session->send_count == 0 &&
	       session->ready_sends == 0 && session->grant_count == 0 &&
	       session->ready_grants == 0 && !twi_outbox_waits(&session->outbox) &&
	       twi_list_empty(&session->matched);
}

void twi_session_measure(const struct twi_session *session, uint64_t now_ns,
			 struct twi_state_link *out)
{
	out->unsent_bytes = session->tx_tail - session->tx_head;
	out->unacked_bytes = session->tx_head - session->tx_acked;
	if (session->input_ns > 0 && session->input_ns < now_ns)
		out->silent_ns = now_ns - session->input_ns;
	out->waiting_sends = twi_outbox_waiting(&session->outbox);
	if (twi_outbox_no_credit(&session->outbox))
		out->flags |= TWI_LINK_NO_CREDIT;
	out->starved_ns = twi_outbox_starved_ns(&session->outbox, now_ns);
	if ((session->inbox.credit.charged - session->inbox.credit.given) * 2 >=
	    session->config.local_credit_bytes)
		out->flags |= TWI_LINK_HOLDS;
}

void twi_session_describe(const struct twi_session *session, struct twi_emit *emit)
{
	unsigned broken = 0;

	for (unsigned c = 0; c < session->config.bulk_count; c++)
		broken += session->channels[c].broken;
	twi_emit_str(emit, "state", session->failed != 0 ? tow_status_name(session->failed) : "up");
	twi_peer_messages_describe(session->peer, session->outbox.seq_sent,
				   session->inbox.seq_received, &session->inbox.match, emit);
	twi_outbox_describe(&session->outbox, emit);
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
