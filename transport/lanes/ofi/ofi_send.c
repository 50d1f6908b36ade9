/*
 * ofi_send.c - outgoing messages: packets, offers, and the receiver's answers. See ofi.h and
 * transport/message/outbox.h.
 */
#include "transport/lanes/ofi/ofi_calls.h"

#ifdef TWI_HAVE_OFI

#include <stdlib.h>

#include "diag/base/cancel.h"
#include "diag/base/checksum.h"
#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "memreg/pool/pool.h"
#include "transport/op/lane_host.h"

#define PIECES_MAX 8u

static struct twi_ofi_peer *peer_of(struct twi_outbox *outbox)
{
	return twi_container_of(outbox, struct twi_ofi_peer, outbox);
}

static struct twi_ofi_give *give_of(const struct tow_op *op)
{
	return op->lane_state;
}

void twi_ofi_give_free(struct twi_ofi_give *give)
{
	struct twi_ofi_port *port = give->peer->port;

	*give->cell = 0; /* a reader now finds that there is no message */
	atomic_thread_fence(memory_order_seq_cst);
	twi_list_remove(&give->link);
	twi_list_push_back(&port->give_free, &give->link);
	give->peer->gives--;
	give->op = NULL;
	give->way = 0;
	give->ending = 0;
	give->acknowledged = false;
	port->freed = true;
}

enum twi_need twi_ofi_need(struct tow_peer *base, const struct tow_op *op)
{
	const struct twi_ofi_port *port = twi_ofi_peer_of(base)->port;

	if (port->local_mr)
		return TWI_NEED_REGISTERED;
	/* Memory for remote reads needs a key. Where a send does as well, none is needed. */
	return op->kind == TWI_OP_SEND && port->reads && !port->prefers_tagged ? TWI_NEED_WISHED
									       : TWI_NEED_NOTHING;
}

/* Owed control packets go first. A peer that is about to end gets nothing. */
static bool may_write(const struct twi_ofi_peer *peer)
{
	return twi_likely(peer->owed_count == 0) && peer->broken == 0;
}

/* Returns how many packets a small message takes. */
static uint32_t pieces_of(const struct twi_ofi_port *port, uint64_t bytes)
{
	uint64_t piece = port->quick_bytes - TWI_OFI_HEAD_BYTES;

	if (port->quick_bytes == 0 || bytes <= piece || bytes > piece * PIECES_MAX)
		return 1;
	return (uint32_t)((bytes + piece - 1) / piece);
}

/* Sends the other packets of a message. The caller has checked that there are slots for all. */
static void send_rest(struct twi_ofi_peer *peer, const struct twi_outbound *out, uint64_t offset)
{
	while (offset < out->bytes) {
		const struct twi_ofi_load load = { .data = (const uint8_t *)out->data + offset,
						   .message = true,
						   .space = out->space };
		struct twi_ofi_packet packet = {
			.type = TWI_OFI_MORE,
			.payload_bytes = (uint32_t)twi_min(
				out->bytes - offset,
				(uint64_t)(peer->port->quick_bytes - TWI_OFI_HEAD_BYTES)),
			.seq = out->seq,
			.value = offset,
		};

		twi_assert(twi_ofi_send_packet(peer, &packet, &load, true));
		offset += packet.payload_bytes;
	}
}

static bool send_eager(struct twi_outbox *outbox, const struct twi_outbound *out)
{
	struct twi_ofi_peer *peer = peer_of(outbox);
	struct twi_ofi_port *port = peer->port;
	uint32_t pieces = pieces_of(port, out->bytes);
	const struct twi_ofi_load load = { .data = out->data,
					   .message = true,
					   .space = out->space };
	struct twi_ofi_packet packet = {
		.type = TWI_OFI_EAGER,
		.space = out->space,
		.channel = out->channel,
		.payload_bytes = (uint32_t)out->bytes,
		.seq = out->seq,
		.tag = out->tag,
	};

	if (!may_write(peer) || (pieces > 1 && port->big_count < pieces))
		return false;
	if (twi_unlikely(twi_outbox_sum(outbox, out, &packet.checksum)))
		packet.flags = TWI_OFI_CHECKSUM;
	if (pieces > 1) {
		packet.value = out->bytes;
		packet.payload_bytes = port->quick_bytes - TWI_OFI_HEAD_BYTES;
	}
	if (!twi_ofi_send_packet(peer, &packet, &load, false))
		return false;
	if (pieces > 1)
		send_rest(peer, out, packet.payload_bytes);
	return true;
}

/*
 * Memory that libfabric cannot read would end the connection. Such a message is offered in pieces
 * only, and ends when the receiver asks for it. The first and the last page stand for all
 * (reach.h).
 */
static bool can_read(const struct tow_op *op)
{
	return op->claim.kind == TWI_CLAIM_POOL ||
	       twi_op_reach_ends(op, op->bytes, false) == op->bytes;
}

/* Describes where the payload of `op` is, and the cell that its offer uses. */
static void describe_where(struct twi_ofi_peer *peer, struct tow_op *op, struct twi_ofi_give *give,
			   struct twi_ofi_where *where)
{
	struct twi_ofi_port *port = peer->port;
	const struct twi_extent *extent =
		twi_pool_find(peer->base.engine->pool, port->memory, port->memory_bytes);
	void *desc;

	*where = (struct twi_ofi_where){ .tagged = peer->can_tagged && !op->claim.staged };
	if (!can_read(op)) {
		where->tagged = false;
		return;
	}
	where->tagged = where->tagged && twi_ofi_local(port, &op->claim, &desc);
	if ((peer->base.features & TWI_FEATURE_BIT(ofi_read)) == 0 || op->claim.staged ||
	    extent == NULL ||
	    !twi_ofi_remote(port, op->claim.region, op->data, &where->address, &where->key) ||
	    !twi_ofi_remote(port, &extent->region, (const void *)(uintptr_t)give->cell,
			    &where->cell_address, &where->cell_key)) {
		*where = (struct twi_ofi_where){ .tagged = where->tagged };
		return;
	}
	if (++port->next_cell == 0)
		port->next_cell = 1;
	where->cell = port->next_cell;
	where->read = true;
}

static bool send_offer(struct twi_outbox *outbox, struct tow_op *op)
{
	struct twi_ofi_peer *peer = peer_of(outbox);
	struct twi_ofi_port *port = peer->port;
	struct twi_list *entry = twi_list_first(&port->give_free);
	struct twi_ofi_packet packet = {
		.type = TWI_OFI_RTS,
		.space = op->space,
		.channel = op->channel,
		.payload_bytes = TWI_OFI_OFFER_BYTES,
		.seq = op->seq,
		.tag = op->tag,
		.value = op->bytes,
	};
	uint8_t payload[TWI_OFI_OFFER_BYTES];
	const struct twi_ofi_load load = { .data = payload };
	struct twi_ofi_where where;
	struct twi_ofi_give *give;

	if (!may_write(peer) || entry == NULL)
		return false;
	give = twi_container_of(entry, struct twi_ofi_give, link);
	describe_where(peer, op, give, &where);
	twi_ofi_where_put(payload, &where);
	if (twi_outbox_sum_offer(outbox, op, &packet.checksum))
		packet.flags = TWI_OFI_CHECKSUM;
	/* The cell is set before the receiver can read it. */
	*give->cell = where.cell;
	atomic_thread_fence(memory_order_seq_cst);
	if (!twi_ofi_send_packet(peer, &packet, &load, false)) {
		*give->cell = 0;
		return false;
	}
	twi_list_remove(&give->link);
	give->op = op;
	give->peer = peer;
	peer->gives++;
	op->lane_state = give;
	return true;
}

static void send_waits(struct twi_outbox *outbox, struct tow_op *op)
{
	struct twi_ofi_peer *peer = peer_of(outbox);

	(void)op;
	if (twi_list_empty(&peer->stalled))
		twi_list_push_back(&peer->port->stalled, &peer->stalled);
}

/* Sends what waits, in order, after credit, slots or gives have come. */
void twi_ofi_drain(struct twi_ofi_peer *peer)
{
	uint32_t paid = 0;

	while (paid < peer->owed_count && peer->broken == 0) {
		const struct twi_ofi_owed *owed = &peer->owed[paid];
		struct twi_ofi_packet packet = {
			.type = owed->type, .seq = owed->seq, .tag = owed->tag, .value = owed->value
		};

		if (!twi_ofi_send_packet(peer, &packet, &twi_ofi_no_load, true))
			break;
		paid++;
	}
	peer->owed_count -= paid;
	for (uint32_t i = 0; i < peer->owed_count; i++)
		peer->owed[i] = peer->owed[i + paid];
	twi_outbox_drain(&peer->outbox, UINT32_MAX);
	if (peer->owed_count == 0 && !twi_outbox_waits(&peer->outbox))
		twi_list_remove(&peer->stalled);
}

/*
 * Returns whether a withdrawal must wait for the receiver's answer. The receiver may still be
 * reading the message, and libfabric may be copying it in this process. Memory that its owner could
 * unmap therefore stays in use until the receiver has answered (REFUSE or DONE), or is lost. Pool
 * memory lasts as long as its runtime, so a deadline does not wait for an answer. A caller that
 * cancels waits, to know whether the message has come.
 */
static bool must_settle(const struct twi_ofi_peer *peer, const struct tow_op *op, bool force)
{
	return op->stage == TWI_STAGE_OFFERED && *give_of(op)->cell != 0 &&
	       (!force || op->claim.kind != TWI_CLAIM_POOL) &&
	       (peer->base.features & TWI_FEATURE_BIT(ofi_settles)) != 0;
}

/* Tells the receiver. Returns false if the send ends only with the answer, with `status`. */
static bool withdraw_offer(struct twi_ofi_peer *peer, struct tow_op *op, int status, bool force)
{
	struct twi_ofi_give *give = give_of(op);
	bool asks = must_settle(peer, op, force);

	*give->cell = 0;
	atomic_thread_fence(memory_order_seq_cst);
	twi_ofi_say(peer, TWI_OFI_CANCEL, op->seq, 0,
		    asks ? TWI_OFI_CANCEL_ASKS : TWI_OFI_CANCEL_WISHED);
	if (!asks)
		return true;
	give->ending = status;
	if (op->claim.kind != TWI_CLAIM_POOL) /* otherwise its deadline can still end it */
		twi_op_unwatch(op);
	return false;
}

/* libfabric still uses the memory. A message that its receiver has acknowledged ends well. */
static void end_when_free(struct twi_ofi_give *give, int status)
{
	if (give->ending == 0)
		give->ending = status;
	twi_op_unwatch(give->op);
}

static bool take_back(struct twi_outbox *outbox, struct tow_op *op, int status, bool force)
{
	struct twi_ofi_peer *peer = peer_of(outbox);
	struct twi_ofi_give *give = give_of(op);

	if (give != NULL && give->ending != 0 &&
	    (!force || give->req.busy || op->claim.kind != TWI_CLAIM_POOL))
		return false;
	switch (op->stage) {
	case TWI_STAGE_OFFERED:
		if (!withdraw_offer(peer, op, status, force))
			return false;
		break;
	case TWI_STAGE_BULK:
		if (give->req.busy) {
			if (force)
				end_when_free(give, status);
			return false;
		}
		if (!force && op->moved > 0)
			return false;
		twi_ofi_say(peer, TWI_OFI_CANCEL, op->seq, 0, 0);
		break;
	case TWI_STAGE_SENT:
		if (!force)
			return false;
		break;
	default:
		return false;
	}
	twi_outbox_end(outbox, op, status, 0);
	return true;
}

static bool send_lost(struct twi_outbox *outbox, struct tow_op *op, int status)
{
	struct twi_ofi_peer *peer = peer_of(outbox);
	struct twi_ofi_give *give = give_of(op);

	if (give == NULL)
		return true;
	if (!give->req.busy && give->ending != 0) { /* it awaits an answer, or gets none */
		if (peer->broken != 0)
			twi_outbox_end(outbox, op, give->ending, 0);
		return false;
	}
	if (!give->req.busy)
		return peer->broken != 0 || op->stage == TWI_STAGE_SENT ||
		       withdraw_offer(peer, op, status, true);
	end_when_free(give, status);
	return false;
}

static void send_forget(struct twi_outbox *outbox, struct tow_op *op)
{
	(void)outbox;
	twi_ofi_give_free(op->lane_state);
}

const struct twi_outbox_ops twi_ofi_outbox = {
	.small = send_eager,
	.offer = send_offer,
	.waits = send_waits,
	.take_back = take_back,
	.lost = send_lost,
	.forget = send_forget,
};

bool twi_ofi_awaits_answer(const struct twi_ofi_peer *peer)
{
	const struct twi_ofi_port *port = peer->port;

	for (uint32_t i = 0; peer->gives > 0 && i < TWI_OFI_GIVES; i++) {
		const struct twi_ofi_give *give = &port->gives[i];

		if (give->op != NULL && give->peer == peer && give->ending != 0 && !give->req.busy)
			return true;
	}
	return false;
}

bool twi_ofi_withdraw_unsent(struct twi_ofi_peer *peer)
{
	const struct twi_ofi_port *port = peer->port;
	bool waits = false;

	for (uint32_t i = 0; peer->gives > 0 && i < TWI_OFI_GIVES; i++) {
		const struct twi_ofi_give *give = &port->gives[i];

		if (give->op == NULL || give->peer != peer || give->way != TWI_OFI_TAGGED)
			continue;
		waits = true;
		if (give->op->stage == TWI_STAGE_BULK && !give->req.busy)
			twi_ofi_say(peer, TWI_OFI_CANCEL, give->op->seq, 0, TWI_OFI_CANCEL_WISHED);
	}
	return waits;
}

/* CTS: the receiver wants message seq. A message that was withdrawn meanwhile is not found. */
int twi_ofi_asked(struct twi_ofi_peer *peer, const struct twi_ofi_packet *packet)
{
	struct tow_op *op = twi_outbox_find(&peer->outbox, packet->seq);
	struct twi_ofi_give *give;

	if (packet->seq > peer->outbox.seq_sent)
		return twi_ofi_fault(
			peer, TWI_RULE_NO_SUCH_MESSAGE, "asks for message %llu of %llu",
			(unsigned long long)packet->seq, (unsigned long long)peer->outbox.seq_sent);
	if (op == NULL)
		return TOW_OK;
	give = give_of(op);
	if (op->stage == TWI_STAGE_OFFERED && give->ending != 0)
		return TOW_OK; /* our CANCEL has crossed it, and is answered */
	if (op->stage != TWI_STAGE_OFFERED ||
	    (packet->value == TWI_OFI_TAGGED && !peer->can_tagged))
		return twi_ofi_fault(peer, TWI_RULE_ASKED,
				     "asks for message %llu twice, or with wrong values",
				     (unsigned long long)packet->seq);
	op->stage = TWI_STAGE_BULK;
	twi_op_begun(op);
	give->way = (uint8_t)packet->value;
	give->tag = packet->tag;
	twi_list_push_back(&peer->port->sending, &give->link);
	twi_ofi_push(peer->port);
	return TOW_OK;
}

/* Returns true when libfabric has the tagged send, or the peer is broken. */
static bool push_tagged(struct twi_ofi_give *give)
{
	TWI_UNCANCELED;
	struct twi_ofi_peer *peer = give->peer;
	struct twi_ofi_port *port = peer->port;
	struct tow_op *op = give->op;
	void *desc;
	ssize_t rc;

	if (op->claim.staged || !twi_ofi_local(port, &op->claim, &desc)) {
		twi_ofi_fault(peer, TWI_RULE_ASKED,
			      "asks for a message by a protocol that was not offered");
		twi_ofi_break(peer, TOW_EPROTOCOL);
		return true;
	}
	rc = fi_tsend(port->ep, op->data, op->bytes, desc, peer->address, give->tag,
		      &give->req.ctx);
	if (rc == -FI_EAGAIN)
		return false;
	if (rc != 0) {
		twi_ofi_unreached(peer, (int)-rc);
		return true;
	}
	give->req.busy = true;
	peer->held++;
	port->in_flight++;
	return true;
}

/* Returns false if the message has ended and its row is free. */
static bool readable_piece(struct twi_ofi_peer *peer, struct tow_op *op, uint64_t bytes)
{
	if (twi_op_reach(op, op->moved, bytes, false) == bytes)
		return true;
	twi_ofi_say(peer, TWI_OFI_CANCEL, op->seq, 0, TWI_OFI_CANCEL_FAULT);
	twi_outbox_end(&peer->outbox, op,
		       twi_op_fault(op, twi_ofi_rpc_id(peer, op), op->bytes, op->moved), 0);
	return false;
}

/* Returns true when all pieces have been sent. */
static bool push_frags(struct twi_ofi_give *give)
{
	struct twi_ofi_peer *peer = give->peer;
	struct tow_op *op = give->op;

	while (op->moved < op->bytes) {
		struct twi_ofi_packet packet = {
			.type = TWI_OFI_FRAG,
			.payload_bytes = (uint32_t)twi_min(op->bytes - op->moved,
							   (uint64_t)peer->piece_bytes),
			.seq = op->seq,
			.value = op->moved,
		};
		const struct twi_ofi_load load = { .op = op };

		if (!readable_piece(peer, op, packet.payload_bytes))
			return false;
		if (peer->owed_count > 0 || !twi_ofi_send_packet(peer, &packet, &load, false))
			return false;
		op->moved += packet.payload_bytes;
	}
	op->stage = TWI_STAGE_SENT;
	return true;
}

/* Sends messages that their receivers have asked for. Returns how many were sent. */
unsigned twi_ofi_push(struct twi_ofi_port *port)
{
	struct twi_list *pos, *next;
	unsigned count = 0;

	twi_list_for_each_safe (pos, next, &port->sending) {
		struct twi_ofi_give *give = twi_container_of(pos, struct twi_ofi_give, link);
		bool gone;

		if (give->peer->broken != 0)
			continue;
		gone = give->way == TWI_OFI_TAGGED ? push_tagged(give) : push_frags(give);
		if (gone) {
			twi_list_remove(&give->link);
			count++;
		}
	}
	return count;
}

/* The tagged send of a message has completed. */
void twi_ofi_give_done(struct twi_ofi_give *give, int err)
{
	struct twi_ofi_peer *peer = give->peer;
	struct tow_op *op = give->op;
	int ending = give->ending;

	give->req.busy = false;
	peer->held--;
	op->stage = TWI_STAGE_SENT;
	op->moved = op->bytes;
	if (give->acknowledged) {
		twi_outbox_end(&peer->outbox, op, TOW_OK, op->bytes);
	} else if (ending != 0) {
		twi_outbox_end(&peer->outbox, op, ending, 0);
	} else if (err != 0) {
		twi_ofi_unreached(peer, err);
	}
	twi_ofi_peer_let_go(peer);
}

int twi_ofi_arrived(struct twi_ofi_peer *peer, const struct twi_ofi_packet *packet)
{
	struct tow_op *op = twi_outbox_find(&peer->outbox, packet->seq);
	struct twi_ofi_give *give;

	if (packet->seq > peer->outbox.seq_sent)
		return twi_ofi_fault(peer, TWI_RULE_NO_SUCH_MESSAGE,
				     "acknowledges message %llu, which was never sent",
				     (unsigned long long)packet->seq);
	if (op == NULL)
		return TOW_OK; /* it was withdrawn meanwhile */
	give = give_of(op);
	if (op->stage == TWI_STAGE_BULK && !give->req.busy)
		return twi_ofi_fault(peer, TWI_RULE_DONE_EARLY,
				     "acknowledges message %llu before it was sent",
				     (unsigned long long)packet->seq);
	if (!give->acknowledged)
		twi_outbox_arrived(&peer->outbox, op, 0, twi_op_match_ns(op));
	give->acknowledged = give->req.busy;
	if (!give->acknowledged)
		twi_outbox_end(&peer->outbox, op, TOW_OK, op->bytes);
	return TOW_OK;
}

int twi_ofi_refused(struct twi_ofi_peer *peer, const struct twi_ofi_packet *packet)
{
	struct tow_op *op = twi_outbox_find(&peer->outbox, packet->seq);
	int status = packet->value == TWI_OFI_REFUSE_TRUNCATED ? TOW_ETRUNCATED
		     : packet->value == TWI_OFI_REFUSE_CORRUPT ? TOW_ECORRUPT
		     : packet->value == TWI_OFI_REFUSE_FAULT   ? TOW_EFAULT
							       : TOW_ECANCELED;
	struct twi_ofi_give *give;

	if (op == NULL)
		return TOW_OK;
	give = give_of(op);
	if (status == TOW_EFAULT)
		twi_op_fault_theirs(op, twi_ofi_rpc_id(peer, op), op->bytes);
	if (give->req.busy)
		give->ending = status;
	else if (give->ending != 0)
		twi_outbox_end(&peer->outbox, op, give->ending, 0); /* as this side wished */
	else
		twi_outbox_end(&peer->outbox, op, status, op->bytes);
	return TOW_OK;
}

int twi_ofi_acked(struct twi_ofi_peer *peer, const struct twi_ofi_packet *packet)
{
	int status = twi_outbox_acked(&peer->outbox, packet->seq, packet->tag, packet->value,
				      &peer->rule);

	if (status == TOW_OK)
		twi_ofi_drain(peer);
	return status;
}

#endif
