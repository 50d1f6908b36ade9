/*
 * ofi_recv.c - incoming messages: packets of small ones, and offers. The inbox matches them with
 * receives (transport/message/inbox.h). See ofi.h.
 */
#include "transport/lanes/ofi/ofi_calls.h"

#ifdef TWI_HAVE_OFI

#include <stdlib.h>

#include "diag/base/error.h"
#include "transport/op/lane_host.h"

static struct twi_ofi_peer *peer_of(struct twi_inbox *inbox)
{
	return twi_container_of(inbox, struct twi_ofi_peer, inbox);
}

static struct twi_ofi_arrival *offer_of(struct twi_unexpected *arrival)
{
	return twi_container_of(arrival, struct twi_ofi_arrival, arrival);
}

static void offer_free(struct twi_ofi_arrival *offer)
{
	if (offer->allocated)
		free(offer);
}

struct twi_ofi_arrival *twi_ofi_arrival_keep(const struct twi_ofi_arrival *made)
{
	struct twi_ofi_arrival *offer = malloc(sizeof(*offer));

	if (offer == NULL) {
		twi_error(TOW_ENOMEM, "no memory for the offer of a message");
		return NULL;
	}
	*offer = *made;
	twi_list_init(&offer->arrival.match.link);
	offer->allocated = true;
	return offer;
}

bool twi_ofi_ack(struct twi_ofi_peer *peer)
{
	uint64_t hold_ns;

	if (peer->state != TWI_OFI_UP || peer->broken != 0 ||
	    (peer->acks_owed == 0 && peer->inbox.credit.reported == peer->inbox.credit.given))
		return false;
	hold_ns = twi_engine_now(peer->base.engine) - peer->received_ns;
	hold_ns = twi_min(hold_ns, (uint64_t)TWI_WIRE_HOLD_MAX_NS);
	if (!twi_ofi_say(peer, TWI_OFI_ACK, peer->inbox.seq_received, peer->inbox.credit.given,
			 hold_ns))
		return false;
	peer->acks_owed = 0;
	peer->inbox.credit.reported = peer->inbox.credit.given;
	return true;
}

/* --- the inbox's table --- */

static void offer_matched(struct twi_inbox *inbox, struct tow_op *op,
			  struct twi_unexpected *arrival)
{
	struct twi_ofi_peer *peer = peer_of(inbox);
	struct twi_ofi_arrival *offer = offer_of(arrival);

	if (op->view == TWI_VIEW_WHOLE) {
		twi_claim_init(&op->claim);
		twi_claim_lease(&peer->base, op); /* if its memory is registered */
	}
	op->result_bytes = arrival->bytes;
	twi_ofi_pull_start(peer, op, offer);
	offer_free(offer);
}

static void offer_refuse(struct twi_inbox *inbox, struct tow_op *op, struct twi_unexpected *arrival,
			 int status)
{
	uint64_t bytes = arrival->bytes;

	twi_ofi_say(peer_of(inbox), TWI_OFI_REFUSE, arrival->seq, 0,
		    status == TOW_ETRUNCATED ? TWI_OFI_REFUSE_TRUNCATED : TWI_OFI_REFUSE_CANCELED);
	offer_free(offer_of(arrival));
	twi_inbox_end(inbox, op, status, bytes);
}

static void offer_forget(struct twi_inbox *inbox, struct twi_unexpected *arrival)
{
	(void)inbox;
	offer_free(offer_of(arrival));
}

static void credit_due(struct twi_inbox *inbox)
{
	twi_ofi_ack(peer_of(inbox));
}

const struct twi_inbox_ops twi_ofi_inbox = {
	.matched = offer_matched,
	.refuse = offer_refuse,
	.forget = offer_forget,
	.credit_due = credit_due,
};

void twi_ofi_look_again(struct tow_peer *base, uint64_t tag, uint32_t context)
{
	twi_inbox_look_again(&twi_ofi_peer_of(base)->inbox, tag, context);
}

void twi_ofi_recv(struct tow_peer *base, struct tow_op *op)
{
	twi_inbox_recv(&twi_ofi_peer_of(base)->inbox, op);
}

/* --- packets --- */

/* Checks the rules for every message: it has the next number, and the credit allows it. */
static int admit_packet(struct twi_ofi_peer *peer, const struct twi_ofi_packet *p)
{
	uint32_t bytes = p->type == TWI_OFI_RTS ? 0
			 : p->value != 0        ? (uint32_t)p->value
						: p->payload_bytes;
	int status = twi_inbox_admit(&peer->inbox, p->seq, bytes, p->space, p->channel);

	if (status < 0)
		return status;
	peer->received_ns = peer->heard_ns;
	if (++peer->acks_owed >= TWI_OFI_ACK_EVERY)
		twi_ofi_ack(peer);
	return TOW_OK;
}

int twi_ofi_more(struct twi_ofi_peer *peer, const struct twi_ofi_packet *p, const uint8_t *payload)
{
	const struct twi_filling *filling = &peer->inbox.filling;

	if (filling->left < p->payload_bytes || p->seq != filling->seq ||
	    p->value != filling->bytes - filling->left)
		return twi_ofi_fault(peer, TWI_RULE_DATA_PLACE,
				     "sent a piece of message %llu that does not follow",
				     (unsigned long long)p->seq);
	twi_inbox_fill(&peer->inbox, payload, p->payload_bytes);
	return TOW_OK;
}

/* A small message of one packet, or the first of several packets, which has the total length. */
int twi_ofi_eager(struct twi_ofi_peer *peer, const struct twi_ofi_packet *p, const uint8_t *payload)
{
	const struct twi_inbound in = {
		.payload = payload,
		.seq = p->seq,
		.tag = p->tag,
		.bytes = p->value != 0 ? p->value : p->payload_bytes,
		.sum = p->checksum,
		.channel = p->channel,
		.space = p->space,
		.summed = (p->flags & TWI_OFI_CHECKSUM) != 0,
	};
	int status = admit_packet(peer, p);

	if (status < 0)
		return status;
	if (p->value == 0)
		return twi_inbox_small(&peer->inbox, &in);
	status = twi_inbox_begin(&peer->inbox, &in);
	if (status < 0)
		return status;
	twi_inbox_fill(&peer->inbox, payload, p->payload_bytes);
	return TOW_OK;
}

int twi_ofi_offered(struct twi_ofi_peer *peer, const struct twi_ofi_packet *p,
		    const uint8_t *payload)
{
	struct twi_ofi_arrival *offer, made = {
		.arrival = { .match = { .tag = p->tag,
					.context = twi_context_of(p->space, p->channel) },
			     .seq = p->seq,
			     .bytes = p->value,
			     .offered = true },
		.checksum = p->checksum,
		.checked = (p->flags & TWI_OFI_CHECKSUM) != 0,
	};
	struct tow_op *op;
	int status = admit_packet(peer, p);

	if (status == TOW_OK && twi_ofi_where_get(payload, p->value, &made.where) < 0)
		status = twi_ofi_fault(peer, TWI_RULE_OFFER,
				       "offers message %llu without an address",
				       (unsigned long long)p->seq);
	if (status < 0)
		return status;
	op = twi_inbox_take_posted(&peer->inbox, p->tag, made.arrival.match.context, p->value);
	if (op != NULL) {
		twi_inbox_meet(&peer->inbox, op, &made.arrival);
		return TOW_OK;
	}
	offer = twi_ofi_arrival_keep(&made);
	if (offer == NULL)
		return TOW_ENOMEM;
	twi_inbox_wait(&peer->inbox, &offer->arrival);
	return TOW_OK;
}

/* The sender has withdrawn the message of `op`: the receive waits for the next one. */
static void repost_receive(struct twi_ofi_peer *peer, struct tow_op *op)
{
	if (op->view == TWI_VIEW_WHOLE)
		twi_claim_drop(peer->base.engine, &op->claim);
	twi_list_remove(&op->link);
	twi_inbox_repost(&peer->inbox, op);
}

/* Answers a sender that waits until its memory is not read any more. A BYE answers them all. */
static void answer_cancel(struct twi_ofi_peer *peer, uint64_t seq, uint8_t why)
{
	if (why == TWI_OFI_CANCEL_ASKS && !peer->said_bye)
		twi_ofi_say(peer, TWI_OFI_REFUSE, seq, 0, TWI_OFI_REFUSE_CANCELED);
}

void twi_ofi_taken_back(struct twi_ofi_peer *peer, struct tow_op *op, uint8_t why)
{
	answer_cancel(peer, op->seq, why);
	if (why == TWI_OFI_CANCEL_FAULT)
		twi_inbox_end(&peer->inbox, op,
			      twi_op_fault_theirs(op, twi_ofi_rpc_id(peer, op), op->result_bytes),
			      0);
	else
		repost_receive(peer, op);
}

/* The sender has withdrawn message seq. */
int twi_ofi_withdrawn(struct twi_ofi_peer *peer, const struct twi_ofi_packet *p)
{
	const uint8_t why = (uint8_t)p->value;
	uint64_t seq = p->seq;
	struct twi_ofi_pull *pull = twi_ofi_pull_find(peer, seq);
	struct twi_unexpected *offer;
	struct twi_list *pos, *next;

	if (pull != NULL) {
		struct tow_op *op = pull->op;

		pull->withdrawn = true;
		pull->why = why;
		if (pull->way == TWI_OFI_TAGGED)
			fi_cancel(&peer->port->ep->fid, &pull->reqs[0].ctx);
		if (pull->in_flight > 0)
			return TOW_OK;
		twi_ofi_pull_end(pull);
		twi_ofi_taken_back(peer, op, why);
		return TOW_OK;
	}
	twi_list_for_each_safe (pos, next, &peer->matched) {
		struct tow_op *op = twi_container_of(pos, struct tow_op, link);

		if (op->seq != seq)
			continue;
		free(op->lane_state);
		op->lane_state = NULL;
		twi_ofi_taken_back(peer, op, why);
		return TOW_OK;
	}
	offer = twi_inbox_find_offer(&peer->inbox, seq);
	if (offer != NULL) {
		twi_inbox_drop_offer(&peer->inbox, offer);
		offer_free(offer_of(offer));
	}
	/* A sender that knows that the message arrived or was refused ignores this. */
	answer_cancel(peer, seq, why);
	return TOW_OK;
}

/* Puts an offer that a receive has met back in front of the waiting messages. */
static void put_back(struct twi_ofi_peer *peer, struct tow_op *op)
{
	struct twi_ofi_arrival *offer = op->lane_state;

	op->lane_state = NULL;
	op->seq = 0;
	offer->arrival.credited = true; /* its credit was given back at the match */
	twi_list_remove(&op->link);
	twi_inbox_put_back(&peer->inbox, &offer->arrival);
}

bool twi_ofi_abort_recv(struct twi_ofi_peer *peer, struct tow_op *op, int status, bool force)
{
	struct twi_ofi_pull *pull;

	if (twi_inbox_withdraw(&peer->inbox, op, status, force))
		return true;
	if (op->stage == TWI_STAGE_QUEUED) {
		put_back(peer, op);
		twi_inbox_end(&peer->inbox, op, status, 0);
		return true;
	}
	if (op->stage != TWI_STAGE_GRANTED)
		return false;
	if (!force) { /* it ends as usual unless its message is withdrawn */
		op->canceled = true;
		return false;
	}
	pull = twi_ofi_pull_find(peer, op->seq);
	if (pull == NULL || pull->ending != 0)
		return false;
	if (pull->in_flight > 0) {
		pull->ending = status; /* libfabric still uses its memory */
		twi_op_unwatch(op);
		return false;
	}
	twi_ofi_say(peer, TWI_OFI_REFUSE, op->seq, 0, TWI_OFI_REFUSE_CANCELED);
	twi_ofi_pull_end(pull);
	twi_inbox_end(&peer->inbox, op, status, 0);
	return true;
}

#endif
