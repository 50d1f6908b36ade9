/*
 * ofi_recv.c - messages on their way in: credit, matching, what nobody has posted for. See ofi.h.
 *
 * A small message is copied once, from libfabric's buffer to the user's; twice when nobody had
 * posted for it, which is counted as a fallback copy.
 */
#include "transport/lanes/ofi/ofi_calls.h"
#include "transport/message/waiting.h"

#ifdef TWI_HAVE_OFI

#include <stdlib.h>

#include "diag/base/checksum.h"
#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/op/lane_host.h"

static struct twi_ofi_unexpected *unexpected_of(struct twi_match_entry *entry)
{
	return twi_container_of(entry, struct twi_ofi_unexpected, match);
}

static void give_credit(struct twi_ofi_peer *peer, uint64_t payload_bytes)
{
	peer->credit_given += twi_frame_cost((uint32_t)payload_bytes);
	if (peer->credit_given - peer->credit_told >= peer->local_credit_bytes / 4)
		twi_ofi_ack(peer);
}

bool twi_ofi_ack(struct twi_ofi_peer *peer)
{
	uint64_t hold_ns;

	if (peer->state != TWI_OFI_UP || peer->broken != 0 ||
	    (peer->acks_owed == 0 && peer->credit_told == peer->credit_given))
		return false;
	hold_ns = twi_engine_now(peer->base.engine) - peer->received_ns;
	hold_ns = twi_min(hold_ns, (uint64_t)TWI_WIRE_HOLD_MAX_NS);
	if (!twi_ofi_say(peer, TWI_OFI_ACK, peer->seq_received, peer->credit_given, hold_ns))
		return false;
	peer->acks_owed = 0;
	peer->credit_told = peer->credit_given;
	return true;
}

void twi_ofi_received(struct twi_ofi_peer *peer, struct tow_op *op, uint64_t bytes)
{
	if (bytes > op->bytes) {
		twi_ofi_op_end(peer, op, TOW_ETRUNCATED, bytes);
		return;
	}
	twi_count(peer->base.engine->diag, twi_counter_of(TWI_C_recv_bytes, op->space), bytes);
	twi_ofi_op_end(peer, op, TOW_OK, bytes);
}

/* All of it is there, and it is not what was sent. */
void twi_ofi_corrupt(struct twi_ofi_peer *peer, struct tow_op *op, uint64_t bytes)
{
	struct twi_diag *diag = peer->base.engine->diag;

	twi_error(TOW_ECORRUPT,
		  "peer %s (ofi, %s): message of rpc id %llu, %llu bytes, came with another "
		  "checksum",
		  peer->base.address, peer->port->provider,
		  (unsigned long long)(op->seq << 1 | !peer->connector), (unsigned long long)bytes);
	twi_log(diag, 1, "%s", tow_error_message());
	twi_count(diag, TWI_C_checksum_mismatches, 1);
	twi_ofi_op_end(peer, op, TOW_ECORRUPT, bytes);
}

/* A view gets memory when the length of its message is known. */
static int room_for(struct tow_op *op, uint64_t bytes)
{
	return twi_likely(!op->view) ? TOW_OK : twi_view_room(op, bytes);
}

/* An unexpected message meets its receive: the copy that an earlier receive would have saved. */
static void deliver_unexpected(struct twi_ofi_peer *peer, struct twi_ofi_unexpected *message,
			       struct tow_op *op)
{
	int status = room_for(op, message->bytes);

	op->seq = message->seq;
	if (status == TOW_OK && message->bytes <= op->bytes && !twi_space_counts(op->space))
		twi_path_copy_own(op->data, message->data, message->bytes);
	else if (status == TOW_OK && message->bytes <= op->bytes)
		twi_path_copy_fallback(peer->base.engine, TWI_R_unexpected_arrival, op->data,
				       message->data, message->bytes, op->site);
	give_credit(peer, message->bytes);
	peer->unexpected_bytes -= message->bytes;
	if (status < 0)
		twi_ofi_op_end(peer, op, status, message->bytes);
	else if (message->corrupt)
		twi_ofi_corrupt(peer, op, message->bytes);
	else
		twi_ofi_received(peer, op, message->bytes);
	free(message);
}

static void take_unexpected(struct twi_ofi_peer *peer, struct twi_ofi_unexpected *message,
			    struct tow_op *op)
{
	if (twi_unlikely(!twi_view_ready(op, message->bytes))) {
		twi_view_hold(&peer->match, op, message->bytes);
		twi_match_arrive_first(&peer->match, &message->match);
		return;
	}
	if (!message->offered) {
		deliver_unexpected(peer, message, op);
		return;
	}
	if (!message->credited)
		give_credit(peer, 0);
	twi_ofi_matched(peer, op, message);
	free(message);
}

void twi_ofi_look_again(struct tow_peer *base, uint64_t tag, uint8_t space)
{
	struct twi_ofi_peer *peer = twi_ofi_peer_of(base);
	struct twi_match_entry *entry;

	twi_match_let_go(&peer->match, tag, space);
	while ((entry = twi_match_take_posted(&peer->match, tag, space)) != NULL) {
		struct tow_op *op = twi_container_of(entry, struct tow_op, match);

		twi_ofi_repost(peer, op);
		if (op->stage == TWI_STAGE_POSTED)
			break;
	}
}

/* The receive that takes this message, of `bytes`, now; NULL: it is to queue. */
static struct tow_op *take_posted(struct twi_ofi_peer *peer, const struct twi_ofi_packet *p,
				  uint64_t bytes)
{
	struct twi_match_entry *entry = twi_match_take_posted(&peer->match, p->tag, p->space);
	struct tow_op *op;

	if (entry == NULL)
		return NULL;
	op = twi_container_of(entry, struct tow_op, match);
	if (twi_likely(twi_view_ready(op, bytes)))
		return op;
	twi_view_hold(&peer->match, op, bytes);
	return NULL;
}

void twi_ofi_recv(struct tow_peer *base, struct tow_op *op)
{
	struct twi_ofi_peer *peer = twi_ofi_peer_of(base);
	struct twi_match_entry *entry;

	twi_count(base->engine->diag, TWI_C_recvs, op->space == TWI_SPACE_USER);
	op->match.tag = op->tag;
	op->match.space = op->space;
	if (!op->view)
		twi_claim_lease(base, op);
	if (op->bytes > peer->eager_max_bytes && !op->view) {
		int status = twi_claim_need(base, op);

		if (status < 0) {
			twi_ofi_op_end(peer, op, status, 0);
			return;
		}
	}
	entry = twi_match_post(&peer->match, &op->match);
	if (entry != NULL) {
		take_unexpected(peer, unexpected_of(entry), op);
	} else if (peer->state != TWI_OFI_UP || peer->broken != 0) {
		twi_match_remove_posted(&peer->match, &op->match);
		twi_ofi_op_end(peer, op, peer->broken != 0 ? peer->broken : TOW_ECLOSED, 0);
	} else {
		op->stage = TWI_STAGE_POSTED;
	}
}

/* The message that op was to get was taken back: it waits for the next one. */
void twi_ofi_repost(struct twi_ofi_peer *peer, struct tow_op *op)
{
	struct twi_match_entry *entry;

	op->seq = 0;
	if (op->view) {
		twi_claim_drop(peer->base.engine, &op->claim);
		twi_view_drop(op);
		op->data = NULL;
		op->bytes = TWI_WIRE_U63_MAX;
	}
	twi_list_remove(&op->link);
	op->stage = TWI_STAGE_POSTED;
	entry = twi_match_post_first(&peer->match, &op->match);
	if (entry != NULL)
		take_unexpected(peer, unexpected_of(entry), op);
}

void twi_ofi_matched(struct twi_ofi_peer *peer, struct tow_op *op,
		     const struct twi_ofi_unexpected *message)
{
	int status = room_for(op, message->bytes);

	op->seq = message->seq;
	if (status == TOW_OK && op->view) {
		twi_claim_init(&op->claim);
		twi_claim_lease(&peer->base, op); /* where its memory is registered */
	}
	if (status < 0) {
		twi_ofi_say(peer, TWI_OFI_REFUSE, op->seq, 0, TWI_OFI_REFUSE_CANCELED);
		twi_ofi_op_end(peer, op, status, message->bytes);
		return;
	}
	if (message->bytes > op->bytes) {
		twi_ofi_say(peer, TWI_OFI_REFUSE, op->seq, 0, TWI_OFI_REFUSE_TRUNCATED);
		twi_ofi_op_end(peer, op, TOW_ETRUNCATED, message->bytes);
		return;
	}
	op->result_bytes = message->bytes;
	twi_ofi_pull_start(peer, op, message);
}

static struct twi_ofi_unexpected *unexpected_create(struct twi_ofi_peer *peer,
						    const struct twi_ofi_packet *p, uint64_t bytes)
{
	bool offered = p->type == TWI_OFI_RTS;
	struct twi_ofi_unexpected *message = malloc(sizeof(*message) + (offered ? 0 : bytes));

	if (message == NULL) {
		twi_error(TOW_ENOMEM, "no memory for an unexpected message of %llu bytes",
			  (unsigned long long)bytes);
		return NULL;
	}
	*message = (struct twi_ofi_unexpected){
		.match = { .tag = p->tag, .space = p->space },
		.seq = p->seq,
		.bytes = bytes,
		.offered = offered,
		.checksum = p->checksum,
		.checked = (p->flags & TWI_OFI_CHECKSUM) != 0,
	};
	twi_count(peer->base.engine->diag, TWI_C_unexpected_messages, p->space == TWI_SPACE_USER);
	return message;
}

/* Checks what every message must obey: the next number, within the credit. */
static int admit_packet(struct twi_ofi_peer *peer, const struct twi_ofi_packet *p)
{
	uint32_t cost = twi_frame_cost(p->type == TWI_OFI_RTS ? 0
				       : p->value != 0        ? (uint32_t)p->value
							      : p->payload_bytes);

	if (p->seq != peer->seq_received + 1)
		return twi_ofi_fault(peer, TWI_RULE_MESSAGE_ORDER, "sent message %llu after %llu",
				     (unsigned long long)p->seq,
				     (unsigned long long)peer->seq_received);
	if (peer->credit_charged - peer->credit_given + cost > peer->local_credit_bytes)
		return twi_ofi_fault(peer, TWI_RULE_CREDIT,
				     "sent more than its credit of %llu bytes",
				     (unsigned long long)peer->local_credit_bytes);
	peer->credit_charged += cost;
	peer->seq_received = p->seq;
	twi_peer_received(&peer->base, p->space);
	peer->received_ns = peer->heard_ns;
	if (++peer->acks_owed >= TWI_OFI_ACK_EVERY)
		twi_ofi_ack(peer);
	return TOW_OK;
}

/* The last packet of a message that came in several. */
static void finish_filling(struct twi_ofi_peer *peer)
{
	struct twi_ofi_filling *filling = &peer->filling;
	struct twi_ofi_unexpected *message = filling->message;
	struct tow_op *op = filling->op;
	const uint8_t *data = op != NULL ? op->data : message != NULL ? message->data : NULL;
	bool corrupt = filling->checked && filling->at != NULL &&
		       twi_checksum(0, data, filling->bytes) != filling->checksum;

	filling->op = NULL;
	filling->message = NULL;
	if (message != NULL) {
		struct twi_match_entry *entry;

		message->corrupt = corrupt;
		entry = twi_match_arrive(&peer->match, &message->match);
		if (entry != NULL)
			take_unexpected(peer, message,
					twi_container_of(entry, struct tow_op, match));
		return;
	}
	give_credit(peer, filling->bytes);
	if (op != NULL && corrupt)
		twi_ofi_corrupt(peer, op, filling->bytes);
	else if (op != NULL)
		twi_ofi_received(peer, op, filling->bytes);
}

static void fill_payload(struct twi_ofi_peer *peer, const uint8_t *payload, uint32_t bytes)
{
	struct twi_ofi_filling *filling = &peer->filling;

	if (filling->at != NULL) {
		twi_path_copy_small(peer->base.engine, (uint8_t)filling->space, filling->at,
				    payload, bytes);
		filling->at += bytes;
	}
	filling->left -= bytes;
	if (filling->left == 0)
		finish_filling(peer);
}

void twi_ofi_filling_end(struct twi_ofi_peer *peer, int status)
{
	struct twi_ofi_filling *filling = &peer->filling;
	struct tow_op *op = filling->op;

	free(filling->message);
	*filling = (struct twi_ofi_filling){ .op = NULL };
	if (op != NULL)
		twi_ofi_op_end(peer, op, status, 0);
}

/* The first packet of several: where do they go? */
static int begin_filling(struct twi_ofi_peer *peer, const struct twi_ofi_packet *p,
			 const uint8_t *payload)
{
	struct tow_op *op = take_posted(peer, p, p->value);
	struct twi_ofi_filling *filling = &peer->filling;
	struct twi_diag *diag = peer->base.engine->diag;
	int status;

	*filling = (struct twi_ofi_filling){
		.seq = p->seq,
		.bytes = p->value,
		.left = p->value,
		.checksum = p->checksum,
		.checked = (p->flags & TWI_OFI_CHECKSUM) != 0,
		.space = p->space,
	};
	if (op == NULL) {
		filling->message = unexpected_create(peer, p, p->value);
		if (filling->message == NULL)
			return TOW_ENOMEM;
		filling->at = filling->message->data;
		peer->unexpected_bytes += p->value;
		twi_count(diag, TWI_C_unexpected_bytes, p->space == TWI_SPACE_USER ? p->value : 0);
	} else {
		op->seq = p->seq;
		status = room_for(op, p->value);
		if (status < 0) {
			twi_ofi_op_end(peer, op, status, p->value);
		} else {
			op->stage = TWI_STAGE_FILLING;
			twi_op_begun(op);
			filling->op = op;
			filling->at = p->value <= op->bytes ? op->data : NULL;
		}
	}
	fill_payload(peer, payload, p->payload_bytes);
	return TOW_OK;
}

int twi_ofi_more(struct twi_ofi_peer *peer, const struct twi_ofi_packet *p, const uint8_t *payload)
{
	const struct twi_ofi_filling *filling = &peer->filling;

	if (filling->left < p->payload_bytes || p->seq != filling->seq ||
	    p->value != filling->bytes - filling->left)
		return twi_ofi_fault(peer, TWI_RULE_DATA_PLACE,
				     "sent a piece of message %llu that does not follow",
				     (unsigned long long)p->seq);
	fill_payload(peer, payload, p->payload_bytes);
	return TOW_OK;
}

int twi_ofi_eager(struct twi_ofi_peer *peer, const struct twi_ofi_packet *p, const uint8_t *payload)
{
	struct twi_diag *diag = peer->base.engine->diag;
	struct twi_ofi_unexpected *message;
	struct tow_op *op;
	int status = admit_packet(peer, p);
	bool corrupt;

	if (status < 0)
		return status;
	if (p->value != 0)
		return begin_filling(peer, p, payload);
	corrupt = twi_unlikely((p->flags & TWI_OFI_CHECKSUM) != 0) &&
		  twi_checksum(0, payload, p->payload_bytes) != p->checksum;
	op = take_posted(peer, p, p->payload_bytes);
	if (twi_likely(op != NULL)) {
		op->seq = p->seq;
		status = room_for(op, p->payload_bytes);
		give_credit(peer, p->payload_bytes);
		if (status < 0) {
			twi_ofi_op_end(peer, op, status, p->payload_bytes);
			return TOW_OK;
		}
		if (twi_unlikely(corrupt)) {
			twi_ofi_corrupt(peer, op, p->payload_bytes);
			return TOW_OK;
		}
		if (p->payload_bytes <= op->bytes)
			twi_path_copy_small(peer->base.engine, p->space, op->data, payload,
					    p->payload_bytes);
		twi_ofi_received(peer, op, p->payload_bytes);
		return TOW_OK;
	}
	message = unexpected_create(peer, p, p->payload_bytes);
	if (message == NULL)
		return TOW_ENOMEM;
	message->corrupt = corrupt;
	twi_path_copy_small(peer->base.engine, p->space, message->data, payload, p->payload_bytes);
	peer->unexpected_bytes += p->payload_bytes;
	twi_count(diag, TWI_C_unexpected_bytes, p->space == TWI_SPACE_USER ? p->payload_bytes : 0);
	twi_match_arrive(&peer->match, &message->match);
	return TOW_OK;
}

int twi_ofi_offered(struct twi_ofi_peer *peer, const struct twi_ofi_packet *p,
		    const uint8_t *payload)
{
	struct twi_ofi_unexpected *message, offer;
	struct twi_ofi_where where;
	struct tow_op *op;
	int status = admit_packet(peer, p);

	if (status == TOW_OK && twi_ofi_where_get(payload, p->value, &where) < 0)
		status = twi_ofi_fault(peer, TWI_RULE_OFFER, "offers message %llu at no place",
				       (unsigned long long)p->seq);
	if (status < 0)
		return status;
	op = take_posted(peer, p, p->value);
	if (op != NULL) {
		offer = (struct twi_ofi_unexpected){
			.seq = p->seq,
			.bytes = p->value,
			.where = where,
			.checksum = p->checksum,
			.checked = (p->flags & TWI_OFI_CHECKSUM) != 0,
		};
		give_credit(peer, 0);
		twi_ofi_matched(peer, op, &offer);
		return TOW_OK;
	}
	message = unexpected_create(peer, p, p->value);
	if (message == NULL)
		return TOW_ENOMEM;
	message->where = where;
	twi_match_arrive(&peer->match, &message->match);
	return TOW_OK;
}

void twi_ofi_unreadable(struct twi_ofi_peer *peer, struct tow_op *op)
{
	uint64_t rpc_id = twi_ofi_rpc_id(peer, op);

	twi_ofi_op_end(peer, op, twi_op_fault_theirs(op, rpc_id, op->result_bytes), 0);
}

/* The sender has taken message seq back. */
int twi_ofi_withdrawn(struct twi_ofi_peer *peer, const struct twi_ofi_packet *p)
{
	bool unreadable = p->value == TWI_BACK_FAULT;
	uint64_t seq = p->seq;
	struct twi_ofi_pull *pull = twi_ofi_pull_find(peer, seq);
	struct twi_match_entry *entry;
	struct twi_list *pos, *next;

	if (pull != NULL) {
		struct tow_op *op = pull->op;

		pull->withdrawn = true;
		pull->unreadable = unreadable;
		if (pull->way == TWI_OFI_TAGGED)
			fi_cancel(&peer->port->ep->fid, &pull->reqs[0].ctx);
		if (pull->in_flight > 0)
			return TOW_OK;
		twi_ofi_pull_end(pull);
		if (unreadable)
			twi_ofi_unreadable(peer, op);
		else
			twi_ofi_repost(peer, op);
		return TOW_OK;
	}
	twi_list_for_each_safe (pos, next, &peer->matched) {
		struct tow_op *op = twi_container_of(pos, struct tow_op, link);

		if (op->seq != seq)
			continue;
		free(op->lane_state);
		op->lane_state = NULL;
		if (unreadable)
			twi_ofi_unreadable(peer, op);
		else
			twi_ofi_repost(peer, op);
		return TOW_OK;
	}
	for (entry = twi_match_first_unexpected(&peer->match); entry != NULL;
	     entry = twi_match_next_unexpected(&peer->match, entry)) {
		struct twi_ofi_unexpected *message = unexpected_of(entry);

		if (!message->offered || message->seq != seq)
			continue;
		twi_match_remove_unexpected(&peer->match, entry);
		if (!message->credited)
			give_credit(peer, 0);
		free(message);
		return TOW_OK;
	}
	return TOW_OK; /* it has arrived, or was refused */
}

/* Messages that arrived whole can still be received from a peer that has gone. */
void twi_ofi_drop_unexpected(struct twi_ofi_peer *peer, bool all)
{
	struct twi_match_entry *entry = twi_match_first_unexpected(&peer->match), *next;

	for (; entry != NULL; entry = next) {
		struct twi_ofi_unexpected *message = unexpected_of(entry);

		next = twi_match_next_unexpected(&peer->match, entry);
		if (!all && !message->offered)
			continue;
		twi_match_remove_unexpected(&peer->match, entry);
		free(message);
	}
}

/* The offer that a receive has met is among the unexpected messages again, in front. */
static void put_back(struct twi_ofi_peer *peer, struct tow_op *op)
{
	struct twi_ofi_unexpected *message = op->lane_state;
	struct twi_match_entry *entry;

	op->lane_state = NULL;
	op->seq = 0;
	message->credited = true; /* held again, on behalf of this side's own operation */
	message->match.tag = op->tag;
	message->match.space = op->space;
	twi_list_remove(&op->link);
	entry = twi_match_arrive_first(&peer->match, &message->match);
	if (entry != NULL)
		take_unexpected(peer, message, twi_container_of(entry, struct tow_op, match));
}

bool twi_ofi_abort_recv(struct twi_ofi_peer *peer, struct tow_op *op, int status, bool force)
{
	struct twi_ofi_pull *pull;

	if (op->stage == TWI_STAGE_POSTED) {
		twi_match_remove_posted(&peer->match, &op->match);
		twi_ofi_op_end(peer, op, status, 0);
		return true;
	}
	if (op->stage == TWI_STAGE_QUEUED) {
		put_back(peer, op);
		twi_ofi_op_end(peer, op, status, 0);
		return true;
	}
	if (op->stage != TWI_STAGE_GRANTED || !force)
		return false;
	pull = twi_ofi_pull_find(peer, op->seq);
	if (pull == NULL || pull->ending != 0)
		return false;
	if (pull->in_flight > 0) {
		pull->ending = status; /* libfabric has its memory */
		twi_op_unwatch(op);
		return false;
	}
	twi_ofi_say(peer, TWI_OFI_REFUSE, op->seq, 0, TWI_OFI_REFUSE_CANCELED);
	twi_ofi_pull_end(pull);
	twi_ofi_op_end(peer, op, status, 0);
	return true;
}

#endif
