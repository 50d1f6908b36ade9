/*
 * session_recv.c - the receiving direction of a session: offers, grants, receives taken back. The
 * inbox matches receives and messages (transport/message/inbox.h).
 */
#include <stdlib.h>

#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/op/endpoint.h"
#include "transport/op/message.h"
#include "transport/op/op.h"
#include "transport/op/op_span.h"
#include "transport/stream/session_parts.h"

static struct twi_session *session_of(struct twi_inbox *inbox)
{
	return twi_container_of(inbox, struct twi_session, inbox);
}

static struct twi_session_offer *offer_of(struct twi_unexpected *arrival)
{
	return twi_container_of(arrival, struct twi_session_offer, arrival);
}

static void offer_free(struct twi_session_offer *offer)
{
	if (offer->allocated)
		free(offer);
}

static struct twi_session_offer offer_made(uint64_t seq, uint64_t tag, uint32_t context,
					   uint64_t bytes, bool sum)
{
	return (struct twi_session_offer){
		.arrival = { .match = { .tag = tag, .context = context },
			     .seq = seq,
			     .bytes = bytes,
			     .offered = true },
		.sum = sum,
	};
}

struct twi_session_offer *twi_session_offer_keep(const struct twi_session_offer *made)
{
	struct twi_session_offer *offer = malloc(sizeof(*offer));

	if (offer == NULL) {
		twi_error(TOW_ENOMEM, "no memory for the offer of a message");
		return NULL;
	}
	*offer = *made;
	offer->allocated = true;
	return offer;
}

/* --- operations of the inbox --- */

static void offer_matched(struct twi_inbox *inbox, struct tow_op *op,
			  struct twi_unexpected *arrival)
{
	struct twi_session *session = session_of(inbox);
	struct twi_session_offer *offer = offer_of(arrival);

	op->result_bytes = arrival->bytes;
	op->moved = offer->sum ? TWI_RECV_SUM : 0;
	op->stage = TWI_STAGE_QUEUED;
	twi_list_push_back(&session->matched, &op->link);
	offer_free(offer);
	twi_session_grant(session);
}

static void offer_refuse(struct twi_inbox *inbox, struct tow_op *op, struct twi_unexpected *arrival,
			 int status)
{
	uint64_t bytes = arrival->bytes;

	twi_session_owe(session_of(inbox), TWI_FRAME_REFUSE, arrival->seq,
			status == TOW_ETRUNCATED ? TWI_REFUSE_TRUNCATED : TWI_REFUSE_CANCELED);
	offer_free(offer_of(arrival));
	twi_inbox_end(inbox, op, status, bytes);
}

static void offer_forget(struct twi_inbox *inbox, struct twi_unexpected *arrival)
{
	(void)inbox;
	offer_free(offer_of(arrival));
}

static void recv_posted(struct twi_inbox *inbox, struct tow_op *op)
{
	struct twi_session *session = session_of(inbox);

	if (session->config.announce)
		twi_session_announce(session, op);
}

static void credit_due(struct twi_inbox *inbox)
{
	session_of(inbox)->urgent = true;
}

const struct twi_inbox_ops twi_session_inbox = {
	.matched = offer_matched,
	.refuse = offer_refuse,
	.forget = offer_forget,
	.posted = recv_posted,
	.credit_due = credit_due,
};

void twi_session_recv(struct twi_session *session, struct tow_op *op)
{
	twi_inbox_recv(&session->inbox, op);
}

void twi_session_look_again(struct twi_session *session, uint64_t tag, uint32_t context)
{
	twi_inbox_look_again(&session->inbox, tag, context);
}

/* The sender took back the message that `op` was to get: the receive waits for the next one. */
void twi_session_repost(struct twi_session *session, struct tow_op *op)
{
	twi_list_remove(&op->link);
	twi_inbox_repost(&session->inbox, op);
}

/* --- grants --- */

/* Makes a row for a message that may come. op NULL: it goes to the sink. There is a free row. */
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
	twi_stripes_cut(&session->config, grant);
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
 * Asks for as many matched messages as the bound allows. Only the first one is urgent: while others
 * are on their way, a CTS may share a packet. Frames that are owed go first, because a DONE must
 * come before the CTS that uses its row. A message may have come too early, with bytes that still
 * go to the sink. It must wait until the last of them has come.
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

/*
 * Has any of the message come? An ABORT may have come before the CANCEL, if a resumed channel
 * listed the message.
 */
static bool has_begun(const struct twi_session *session, const struct twi_grant *grant)
{
	for (unsigned c = 0; c < session->config.bulk_count; c++) {
		if (grant->at[c] > 0 || session->channels[c].in == grant)
			return true;
	}
	return false;
}

/* The receive waits for the next message. It ends if the sender could not read this one. */
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
	struct twi_unexpected *offer;
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
	offer = twi_inbox_find_offer(&session->inbox, seq);
	if (offer != NULL) {
		twi_inbox_drop_offer(&session->inbox, offer);
		offer_free(offer_of(offer));
	}
	return TOW_OK; /* else it was refused meanwhile */
}

/* Checks the rules for every message: the next number, and enough credit. */
int twi_session_admit(struct twi_session *session, const struct twi_frame *frame)
{
	int status = twi_inbox_admit(&session->inbox, frame->seq, frame->payload_bytes,
				     frame->flags & TWI_FRAME_SPACE, frame->channel);

	if (status < 0)
		return status;
	session->received_ns = session->input_ns;
	if (++session->acks_owed >= TWI_ACK_EVERY)
		session->urgent = true;
	return TOW_OK;
}

/*
 * Handles an offer whose data comes unasked. The receive that was announced takes it, if it is
 * still there and has room. Else the data goes to the sink, and the offer is handled like others.
 * True: `op` takes the data.
 */
static bool take_ready(struct twi_session *session, const struct twi_frame *frame,
		       struct tow_op *op)
{
	bool sum = (frame->flags & TWI_FRAME_SUM) != 0;

	if (op != NULL && op->view != TWI_VIEW_WHOLE && frame->value <= op->bytes) {
		op->seq = frame->seq;
		grant_begin(session, op, frame->seq, frame->value, sum, true);
		return true;
	}
	grant_begin(session, NULL, frame->seq, frame->value, sum, true);
	return false;
}

int twi_session_offered(struct twi_session *session, const struct twi_frame *frame)
{
	bool ready = (frame->flags & TWI_FRAME_READY) != 0;
	const uint32_t context = twi_frame_context(frame);
	struct twi_session_offer made = offer_made(frame->seq, frame->tag, context, frame->value,
						   (frame->flags & TWI_FRAME_SUM) != 0);
	struct twi_session_offer *offer;
	struct tow_op *op;
	int status = twi_session_admit(session, frame);

	if (status < 0)
		return status;
	if (ready && (session->ready_grants == TWI_READY_MAX || !session->config.announce))
		return twi_session_fault(session, TWI_RULE_UNASKED,
					 "sends more than it may unasked");
	op = twi_inbox_take_posted(&session->inbox, frame->tag, context, frame->value);
	twi_session_note(session, frame->tag, true);
	if (op != NULL) {
		made.arrival.credited = true;
		twi_inbox_give(&session->inbox, frame->channel, 0);
	}
	if (ready && take_ready(session, frame, op))
		return TOW_OK;
	if (ready && (op == NULL || op->view == TWI_VIEW_WHOLE || op->truncate))
		twi_session_owe(session, TWI_FRAME_REFUSE, frame->seq, TWI_REFUSE_NOT_READY);
	if (op != NULL) {
		twi_inbox_meet(&session->inbox, op, &made.arrival);
		return TOW_OK;
	}
	offer = twi_session_offer_keep(&made);
	if (offer == NULL)
		return TOW_ENOMEM;
	twi_inbox_wait(&session->inbox, &offer->arrival);
	return TOW_OK;
}

/* Puts a matched offer back among the messages that wait, in front, so that nothing is lost. */
static void put_back(struct twi_session *session, struct tow_op *op)
{
	const struct twi_session_offer made =
		offer_made(op->seq, op->tag, twi_context_of(op->space, op->channel),
			   op->result_bytes, (op->moved & TWI_RECV_SUM) != 0);
	struct twi_session_offer *offer = twi_session_offer_keep(&made);

	twi_list_remove(&op->link);
	if (offer == NULL) {
		twi_session_owe(session, TWI_FRAME_REFUSE, op->seq, TWI_REFUSE_CANCELED);
		return;
	}
	op->seq = 0;
	offer->arrival.credited = true; /* this side's own operation holds the message now */
	twi_inbox_put_back(&session->inbox, &offer->arrival);
}

bool twi_session_abort_recv(struct twi_session *session, struct tow_op *op, int status, bool force)
{
	struct twi_grant *grant;

	switch (op->stage) {
	case TWI_STAGE_QUEUED:
		put_back(session, op);
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
		return twi_inbox_withdraw(&session->inbox, op, status, force);
	}
	twi_inbox_end(&session->inbox, op, status, 0);
	return true;
}
