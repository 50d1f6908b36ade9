/*
 * ofi_send.c - messages on their way out: credit, offers, and what the receiver answers. See ofi.h.
 */
#include "transport/lanes/ofi/ofi_calls.h"

#ifdef TWI_HAVE_OFI

#include <stdlib.h>

#include "diag/base/checksum.h"
#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "memreg/pool/pool.h"
#include "transport/op/lane_host.h"

#define PIECES_MAX 8u

/* Whether message seq carries a checksum. */
static bool is_sampled(const struct twi_ofi_peer *peer, uint64_t seq)
{
	return peer->base.engine->knobs.checksum_all || twi_checksum_chosen(seq);
}

static struct twi_ofi_give *give_of(const struct tow_op *op)
{
	return op->lane_state;
}

void twi_ofi_give_free(struct twi_ofi_give *give)
{
	struct twi_ofi_port *port = give->peer->port;

	*give->cell = 0; /* whoever reads now finds that there is no message */
	atomic_thread_fence(memory_order_seq_cst);
	twi_list_remove(&give->link);
	twi_list_push_back(&port->give_free, &give->link);
	give->peer->gives--;
	give->op = NULL;
	give->way = 0;
	give->ending = 0;
	port->freed = true;
}

void twi_ofi_op_end(struct twi_ofi_peer *peer, struct tow_op *op, int status, uint64_t bytes)
{
	twi_list_remove(&op->link);
	twi_list_remove(&op->seq_link);
	if (op->kind == TWI_OP_SEND && op->lane_state != NULL) {
		twi_ofi_give_free(op->lane_state);
	} else if (op->kind == TWI_OP_RECV) {
		free(op->lane_state); /* the offer that it met, while it waited for a pull */
	}
	op->lane_state = NULL;
	twi_claim_drop(peer->base.engine, &op->claim);
	if (op->seq != 0)
		op->rpc_id = twi_ofi_rpc_id(peer, op);
	twi_op_complete(op, status, bytes);
}

struct tow_op *twi_ofi_find(struct twi_ofi_peer *peer, uint64_t seq)
{
	struct twi_list *bucket = &peer->by_seq[seq % TWI_OFI_SEQ_BUCKETS], *pos, *next;

	twi_list_for_each_safe (pos, next, bucket) {
		struct tow_op *op = twi_container_of(pos, struct tow_op, seq_link);

		if (op->seq == seq)
			return op;
	}
	return NULL;
}

enum twi_need twi_ofi_need(struct tow_peer *base, const struct tow_op *op)
{
	const struct twi_ofi_port *port = twi_ofi_peer_of(base)->port;

	if (port->local_mr)
		return TWI_NEED_REGISTERED;
	/* What is read from afar has a key; where a send does as well, none is needed. */
	return op->kind == TWI_OP_SEND && port->reads && !port->prefers_tagged ? TWI_NEED_WISHED
									       : TWI_NEED_NOTHING;
}

static bool has_credit(struct twi_ofi_peer *peer, const struct tow_op *op, uint32_t cost)
{
	if (peer->credit_used - peer->credit_returned + cost <= peer->remote_credit_bytes)
		return true;
	twi_count(peer->base.engine->diag, TWI_C_credit_stalls,
		  op->stage == TWI_STAGE_NEW && op->space == TWI_SPACE_USER);
	return false;
}

static void charge_credit(struct twi_ofi_peer *peer, struct tow_op *op, uint32_t cost, bool eager)
{
	struct twi_ofi_timing *timing;

	op->seq = ++peer->seq_sent;
	twi_peer_sent(&peer->base, op->space);
	peer->credit_used += cost;
	timing = &peer->timings[op->seq % TWI_OFI_TIMINGS];
	timing->seq = eager ? op->seq : 0;
	timing->start_ns = op->start_ns;
	timing->bytes = op->bytes;
	timing->space = op->space;
	twi_op_framed(peer->base.engine, op);
	timing->queue_ns = twi_op_queue_ns(op);
}

/* In how many packets a small message goes. */
static uint32_t pieces_of(const struct twi_ofi_port *port, uint64_t bytes)
{
	uint64_t piece = port->quick_bytes - TWI_OFI_HEAD_BYTES;

	if (port->quick_bytes == 0 || bytes <= piece || bytes > piece * PIECES_MAX)
		return 1;
	return (uint32_t)((bytes + piece - 1) / piece);
}

/* There are slots for all of it. */
static void send_rest(struct twi_ofi_peer *peer, const struct tow_op *op, uint64_t seq,
		      uint64_t offset)
{
	while (offset < op->bytes) {
		struct twi_ofi_packet packet = {
			.type = TWI_OFI_MORE,
			.payload_bytes = (uint32_t)twi_min(
				op->bytes - offset,
				(uint64_t)(peer->port->quick_bytes - TWI_OFI_HEAD_BYTES)),
			.seq = seq,
			.value = offset,
		};

		twi_assert(twi_ofi_send_packet(peer, &packet, (const uint8_t *)op->data + offset,
					       op, true));
		offset += packet.payload_bytes;
	}
}

static bool send_eager(struct twi_ofi_peer *peer, struct tow_op *op)
{
	struct twi_diag *diag = peer->base.engine->diag;
	struct twi_ofi_port *port = peer->port;
	struct twi_ofi_packet packet = {
		.type = TWI_OFI_EAGER,
		.space = op->space,
		.payload_bytes = (uint32_t)op->bytes,
		.seq = peer->seq_sent + 1,
		.tag = op->tag,
	};
	uint32_t cost = twi_frame_cost((uint32_t)op->bytes), pieces = pieces_of(port, op->bytes);

	if (!has_credit(peer, op, cost))
		return false;
	if (twi_unlikely(is_sampled(peer, packet.seq))) {
		packet.flags = TWI_OFI_CHECKSUM;
		packet.checksum = twi_checksum(0, op->data, op->bytes);
	}
	if (pieces > 1 && port->big_count < pieces)
		return false;
	if (pieces > 1) {
		packet.value = op->bytes;
		packet.payload_bytes = port->quick_bytes - TWI_OFI_HEAD_BYTES;
	}
	if (!twi_ofi_send_packet(peer, &packet, op->data, op, false))
		return false;
	if (pieces > 1)
		send_rest(peer, op, packet.seq, packet.payload_bytes);
	charge_credit(peer, op, cost, true);
	twi_count_two(diag, TWI_C_eager_sends, op->space == TWI_SPACE_USER,
		      twi_counter_of(TWI_C_send_bytes, op->space), op->bytes);
	twi_ofi_op_end(peer, op, TOW_OK, op->bytes);
	return true;
}

/*
 * What libfabric cannot read takes the connection with it: such a message is offered in pieces
 * alone, and ends when it is asked for (reach.h says why two pages stand for all).
 */
static bool can_read(const struct tow_op *op)
{
	return op->claim.kind == TWI_CLAIM_POOL ||
	       twi_reach_ends(op->data, op->bytes, false) == op->bytes;
}

/* A checksum is made of all of it. */
static bool can_sum(const struct tow_op *op)
{
	return op->claim.kind == TWI_CLAIM_POOL ||
	       twi_reach(op->data, op->bytes, false) == op->bytes;
}

/* Where the payload of op lies, and the cell that it stands by. */
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

static bool send_offer(struct twi_ofi_peer *peer, struct tow_op *op)
{
	struct twi_ofi_port *port = peer->port;
	struct twi_list *entry = twi_list_first(&port->give_free);
	struct twi_ofi_packet packet = {
		.type = TWI_OFI_RTS,
		.space = op->space,
		.payload_bytes = TWI_OFI_OFFER_BYTES,
		.seq = peer->seq_sent + 1,
		.tag = op->tag,
		.value = op->bytes,
	};
	uint8_t payload[TWI_OFI_OFFER_BYTES];
	struct twi_ofi_where where;
	struct twi_ofi_give *give;

	if (!has_credit(peer, op, twi_frame_cost(0)) || entry == NULL)
		return false;
	give = twi_container_of(entry, struct twi_ofi_give, link);
	describe_where(peer, op, give, &where);
	twi_ofi_where_put(payload, &where);
	if (is_sampled(peer, packet.seq) && can_sum(op)) {
		packet.flags = TWI_OFI_CHECKSUM;
		packet.checksum = twi_checksum(0, op->data, op->bytes);
	}
	/* Before anybody can read it: the offer stands. */
	*give->cell = where.cell;
	atomic_thread_fence(memory_order_seq_cst);
	if (!twi_ofi_send_packet(peer, &packet, payload, NULL, false)) {
		*give->cell = 0;
		return false;
	}
	charge_credit(peer, op, twi_frame_cost(0), false);
	twi_list_remove(&give->link);
	give->op = op;
	give->peer = peer;
	peer->gives++;
	op->lane_state = give;
	twi_count(peer->base.engine->diag, TWI_C_rendezvous_sends, op->space == TWI_SPACE_USER);
	twi_list_remove(&op->link);
	op->stage = TWI_STAGE_OFFERED;
	op->result_bytes = 0;
	twi_claim_count(op, op->bytes);
	twi_list_push_back(&peer->by_seq[op->seq % TWI_OFI_SEQ_BUCKETS], &op->seq_link);
	return true;
}

static bool start_send(struct twi_ofi_peer *peer, struct tow_op *op)
{
	if (peer->owed_count > 0)
		return false;
	return op->bytes <= peer->eager_max_bytes ? send_eager(peer, op) : send_offer(peer, op);
}

void twi_ofi_send(struct tow_peer *base, struct tow_op *op)
{
	struct twi_ofi_peer *peer = twi_ofi_peer_of(base);

	twi_count(base->engine->diag, twi_counter_of(TWI_C_sends, op->space), 1);
	if (peer->state != TWI_OFI_UP || peer->broken != 0) {
		twi_ofi_op_end(peer, op, peer->broken != 0 ? peer->broken : TOW_ECLOSED, 0);
		return;
	}
	if (op->bytes > peer->eager_max_bytes) {
		int status = twi_claim_need(base, op);

		if (status < 0) {
			twi_ofi_op_end(peer, op, status, 0);
			return;
		}
	}
	if (twi_list_empty(&peer->queued) && start_send(peer, op))
		return;
	op->stage = TWI_STAGE_QUEUED;
	twi_claim_lease(base, op);
	twi_list_push_back(&peer->queued, &op->link);
	if (twi_list_empty(&peer->stalled))
		twi_list_push_back(&peer->port->stalled, &peer->stalled);
}

/* Credit, slots or gives have come: what waits goes, in order. */
void twi_ofi_drain(struct twi_ofi_peer *peer)
{
	struct twi_list *entry;
	uint32_t paid = 0;

	while (paid < peer->owed_count && peer->broken == 0) {
		const struct twi_ofi_owed *owed = &peer->owed[paid];
		struct twi_ofi_packet packet = {
			.type = owed->type, .seq = owed->seq, .tag = owed->tag, .value = owed->value
		};

		if (!twi_ofi_send_packet(peer, &packet, NULL, NULL, true))
			break;
		paid++;
	}
	peer->owed_count -= paid;
	for (uint32_t i = 0; i < peer->owed_count; i++)
		peer->owed[i] = peer->owed[i + paid];
	while ((entry = twi_list_first(&peer->queued)) != NULL && peer->broken == 0) {
		if (!start_send(peer, twi_container_of(entry, struct tow_op, link)))
			return;
	}
	if (peer->owed_count == 0 && twi_list_empty(&peer->queued))
		twi_list_remove(&peer->stalled);
}

bool twi_ofi_abort_send(struct twi_ofi_peer *peer, struct tow_op *op, int status, bool force)
{
	struct twi_ofi_give *give = give_of(op);

	switch (op->stage) {
	case TWI_STAGE_QUEUED:
		twi_ofi_op_end(peer, op, status, 0);
		twi_ofi_drain(peer); /* it may be what smaller ones behind it have waited for */
		return true;
	case TWI_STAGE_OFFERED:
		twi_ofi_say(peer, TWI_OFI_CANCEL, op->seq, 0, 0);
		break;
	case TWI_STAGE_BULK:
		if (give->req.busy) {
			if (force && give->ending == 0) {
				give->ending = status; /* libfabric has its memory */
				twi_op_unwatch(op);
			}
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
	twi_ofi_op_end(peer, op, status, 0);
	return true;
}

/* CTS: the receiver wants message seq sent. One that was taken back meanwhile is not there. */
int twi_ofi_asked(struct twi_ofi_peer *peer, const struct twi_ofi_packet *packet)
{
	struct tow_op *op = twi_ofi_find(peer, packet->seq);
	struct twi_ofi_give *give;

	if (packet->seq > peer->seq_sent)
		return twi_ofi_fault(
			peer, TWI_RULE_NO_SUCH_MESSAGE, "asks for message %llu of %llu",
			(unsigned long long)packet->seq, (unsigned long long)peer->seq_sent);
	if (op == NULL)
		return TOW_OK;
	give = give_of(op);
	if (op->stage != TWI_STAGE_OFFERED ||
	    (packet->value == TWI_OFI_TAGGED && !peer->can_tagged))
		return twi_ofi_fault(peer, TWI_RULE_ASKED, "asks for message %llu twice or wrongly",
				     (unsigned long long)packet->seq);
	op->stage = TWI_STAGE_BULK;
	twi_op_begun(op);
	give->way = (uint8_t)packet->value;
	give->tag = packet->tag;
	twi_list_push_back(&peer->port->sending, &give->link);
	twi_ofi_push(peer->port);
	return TOW_OK;
}

/* True when the tagged send is with libfabric, or the peer is broken. */
static bool push_tagged(struct twi_ofi_give *give)
{
	struct twi_ofi_peer *peer = give->peer;
	struct twi_ofi_port *port = peer->port;
	struct tow_op *op = give->op;
	void *desc;
	ssize_t rc;

	if (!twi_ofi_local(port, &op->claim, &desc)) {
		twi_ofi_fault(peer, TWI_RULE_ASKED,
			      "asks for a message in a way that is not offered");
		twi_ofi_break(peer, TOW_EPROTOCOL);
		return true;
	}
	rc = fi_tsend(port->ep, op->data, op->bytes, desc, peer->address, give->tag,
		      &give->req.ctx);
	if (rc == -FI_EAGAIN)
		return false;
	if (rc != 0) {
		twi_error(TOW_EPEER, "peer %s cannot be reached: %s", peer->base.address,
			  twi_fi.strerror((int)-rc));
		twi_ofi_break(peer, TOW_EPEER);
		return true;
	}
	give->req.busy = true;
	peer->held++;
	port->in_flight++;
	return true;
}

/* False: the message has ended, and its row is free. */
static bool readable_piece(struct twi_ofi_peer *peer, struct tow_op *op, uint64_t bytes)
{
	if (op->claim.kind == TWI_CLAIM_POOL ||
	    twi_reach((const uint8_t *)op->data + op->moved, bytes, false) == bytes)
		return true;
	twi_ofi_say(peer, TWI_OFI_CANCEL, op->seq, 0, TWI_BACK_FAULT);
	twi_ofi_op_end(peer, op, twi_op_fault(op, twi_ofi_rpc_id(peer, op), op->bytes, op->moved),
		       0);
	return false;
}

/* True when all pieces are out. */
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

		if (!readable_piece(peer, op, packet.payload_bytes))
			return false;
		if (peer->owed_count > 0 ||
		    !twi_ofi_send_packet(peer, &packet, (const uint8_t *)op->data + op->moved, op,
					 false))
			return false;
		op->moved += packet.payload_bytes;
	}
	op->stage = TWI_STAGE_SENT;
	return true;
}

/* Moves messages that their receivers have asked for. Returns how many went. */
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

/* The tagged send of a message has ended. */
void twi_ofi_give_done(struct twi_ofi_give *give, int err)
{
	struct twi_ofi_peer *peer = give->peer;
	struct tow_op *op = give->op;
	int ending = give->ending;

	give->req.busy = false;
	peer->held--;
	op->stage = TWI_STAGE_SENT;
	op->moved = op->bytes;
	if (ending != 0) {
		twi_ofi_op_end(peer, op, ending, 0);
	} else if (err != 0) {
		twi_error(TOW_EPEER, "message %llu to peer %s: %s", (unsigned long long)op->seq,
			  peer->base.address, twi_fi.strerror(err));
		twi_ofi_break(peer, TOW_EPEER);
	} else if (op->result_bytes == op->seq) {
		/* DONE was here before the completion */
		twi_ofi_op_end(peer, op, TOW_OK, op->bytes);
	}
	twi_ofi_peer_let_go(peer);
}

int twi_ofi_arrived(struct twi_ofi_peer *peer, const struct twi_ofi_packet *packet)
{
	struct tow_op *op = twi_ofi_find(peer, packet->seq);
	struct twi_engine *engine = peer->base.engine;
	struct twi_ofi_give *give;

	if (packet->seq > peer->seq_sent)
		return twi_ofi_fault(peer, TWI_RULE_NO_SUCH_MESSAGE, "has message %llu, never sent",
				     (unsigned long long)packet->seq);
	if (op == NULL)
		return TOW_OK; /* taken back meanwhile */
	give = give_of(op);
	if (op->stage == TWI_STAGE_BULK && !give->req.busy)
		return twi_ofi_fault(peer, TWI_RULE_DONE_EARLY,
				     "has message %llu before it was sent",
				     (unsigned long long)packet->seq);
	if (give->ending == 0) {
		uint64_t now = twi_engine_now(engine);
		struct twi_latency_reading reading = {
			.kind = twi_latency_kind_of(op->space),
			.lane = TWI_LANE_OFI,
			.id = twi_ofi_rpc_id(peer, op),
			.bytes = op->bytes,
			.end_ns = now,
		};

		if (twi_space_counts(op->space))
			twi_peer_timed(&peer->base, engine, &reading, now - op->start_ns,
				       twi_op_queue_ns(op), twi_op_match_ns(op));
		twi_count(engine->diag, twi_counter_of(TWI_C_send_bytes, op->space), op->bytes);
	}
	if (give->req.busy)
		op->result_bytes = op->seq; /* libfabric is not through with it */
	else
		twi_ofi_op_end(peer, op, TOW_OK, op->bytes);
	return TOW_OK;
}

int twi_ofi_refused(struct twi_ofi_peer *peer, const struct twi_ofi_packet *packet)
{
	struct tow_op *op = twi_ofi_find(peer, packet->seq);
	int status = packet->value == TWI_OFI_REFUSE_TRUNCATED ? TOW_ETRUNCATED
		     : packet->value == TWI_OFI_REFUSE_CORRUPT ? TOW_ECORRUPT
		     : packet->value == TWI_OFI_REFUSE_FAULT   ? TOW_EFAULT
							       : TOW_ECANCELED;

	if (op == NULL)
		return TOW_OK;
	if (status == TOW_EFAULT)
		twi_op_fault_theirs(op, twi_ofi_rpc_id(peer, op), op->bytes);
	if (give_of(op)->req.busy)
		give_of(op)->ending = status;
	else
		twi_ofi_op_end(peer, op, status, op->bytes);
	return TOW_OK;
}

int twi_ofi_acked(struct twi_ofi_peer *peer, const struct twi_ofi_packet *packet)
{
	struct twi_latency_reading reading;

	if (packet->seq > peer->seq_sent || packet->seq < peer->seq_acked ||
	    packet->tag > peer->credit_used || packet->tag < peer->credit_returned)
		return twi_ofi_fault(peer, TWI_RULE_ACK,
				     "acknowledged what was never sent, or gave back credit "
				     "that was never used");
	if (packet->seq - peer->seq_acked > TWI_OFI_TIMINGS)
		peer->seq_acked = packet->seq - TWI_OFI_TIMINGS;
	while (peer->seq_acked < packet->seq) {
		const struct twi_ofi_timing *timing =
			&peer->timings[++peer->seq_acked % TWI_OFI_TIMINGS];

		if (timing->seq != peer->seq_acked || !twi_space_counts((uint8_t)timing->space))
			continue;
		reading = (struct twi_latency_reading){
			.kind = twi_latency_kind_of((uint8_t)timing->space),
			.lane = TWI_LANE_OFI,
			.id = twi_peer_rpc_id(&peer->base, timing->seq, true),
			.bytes = timing->bytes,
		};
		twi_peer_heard(&peer->base, peer->base.engine, &reading, timing->start_ns,
			       packet->value, timing->queue_ns, TWI_LATENCY_UNKNOWN);
	}
	peer->credit_returned = packet->tag;
	twi_ofi_drain(peer);
	return TOW_OK;
}

#endif
