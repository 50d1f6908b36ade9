/*
 * shm_recv.c - the receiving side: reading the rings, matching, views. See shm.h.
 *
 * A small message is copied out of the ring once; twice when nobody had posted for it (counted). A
 * large one stays with its sender until a receive meets it, and is then copied in chunks, one in a
 * round, so that other traffic and deadlines do not wait for it. Only the exchange of the offer's
 * word, after the last byte, makes it count: a sender that takes it back before wins, and the
 * receive waits on as if the message had never been.
 *
 * Small messages nobody has posted for are kept up to credit_bytes; beyond, the ring is not read.
 * Offers among them cost nothing, and notes have a ring of their own, which is always read.
 *
 * The other side writes its notes and messages in one order, into two rings. A message must not be
 * heard before the notes that were written ahead of it: an answer would end what it answers, of
 * which it was said to have arrived. So notes are read between finding a message and acting on it.
 */
#include <stdlib.h>

#include "diag/base/checksum.h"
#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/lanes/shm/shm_settle.h"
#include "transport/message/waiting.h"
#include "transport/op/lane_host.h"

#define PARCEL_COST 64u /* of credit, beside the payload */

static struct twi_shm_peer *shm_peer(struct tow_peer *peer)
{
	return (struct twi_shm_peer *)(void *)peer;
}

static void offer_matched(struct twi_shm_peer *peer, struct tow_op *op,
			  struct twi_shm_incoming *incoming);

/* All of it is there, and it is not what was sent. Returns the status. */
static int tell_corrupt(struct twi_shm_peer *peer, const struct tow_op *op, uint64_t bytes)
{
	twi_error(TOW_ECORRUPT,
		  "peer %s (shm): message of rpc id %llu, %llu bytes, came with another checksum",
		  peer->base.address, (unsigned long long)(op->seq << 1 | !peer->connector),
		  (unsigned long long)bytes);
	twi_log(peer->base.engine->diag, 1, "%s", tow_error_message());
	twi_count(peer->base.engine->diag, TWI_C_checksum_mismatches, 1);
	return TOW_ECORRUPT;
}

static bool same_sum(struct twi_shm_peer *peer, uint32_t told, uint32_t sum)
{
	twi_count(peer->base.engine->diag, TWI_C_checksums_checked, 1);
	return told == sum;
}

/* An offer came with other bytes; if its sender still means it, both sides hear of that. */
static void spoil_offer(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming,
			struct tow_op *op)
{
	uint64_t bytes = incoming->arrival.bytes;

	if (twi_shm_settle(peer, incoming, TWI_SHM_SPOILED, TWI_SHM_CORRUPT))
		twi_shm_op_end(peer, op, tell_corrupt(peer, op, bytes), bytes);
	else
		twi_shm_gone(peer, incoming, op);
}

static void end_received(struct twi_shm_peer *peer, struct tow_op *op, uint64_t bytes)
{
	twi_held_count(peer->base.engine, twi_counter_of(TWI_C_recv_bytes, op->space), bytes);
	twi_shm_op_end(peer, op, TOW_OK, bytes);
}

/* All bytes are there: they count if the sender still means them. */
void twi_shm_commit(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming)
{
	struct tow_op *op = incoming->op;
	uint64_t bytes = incoming->arrival.bytes;

	if (twi_unlikely(incoming->summed) && !same_sum(peer, incoming->told, incoming->sum))
		spoil_offer(peer, incoming, op);
	else if (twi_shm_settle(peer, incoming, TWI_SHM_ACCEPTED, TWI_SHM_DONE))
		end_received(peer, op, bytes);
	else
		twi_shm_gone(peer, incoming, op);
}

/* --- views --- */

void twi_shm_view_release(struct tow_op *op)
{
	struct twi_shm_link *shared = op->view_state;
	const struct twi_shm_remark remark = { .kind = TWI_SHM_RELEASED,
					       .offer = (uint16_t)op->moved,
					       .generation = (uint32_t)(op->moved >> 32) };

	if (shared->peer != NULL)
		twi_shm_say(shared->peer, &remark);
	twi_shm_link_release(shared);
}

/* Hands over the sender's own bytes. */
static void hand_view(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming,
		      struct tow_op *op)
{
	struct twi_shm_link *shared = peer->shared;
	uint64_t bytes = incoming->arrival.bytes, where = incoming->where;
	uint32_t extent = incoming->extent;
	uint64_t handle = (uint64_t)incoming->generation << 32 | twi_shm_index_of(peer, incoming);

	if (twi_unlikely(incoming->summed) &&
	    !same_sum(peer, incoming->told,
		      twi_checksum(0, (uint8_t *)shared->extents[extent] + where, bytes))) {
		spoil_offer(peer, incoming, op);
		return;
	}
	if (!twi_shm_settle(peer, incoming, TWI_SHM_ACCEPTED, TWI_SHM_VIEWED)) {
		twi_shm_gone(peer, incoming, op);
		return;
	}
	op->data = (uint8_t *)shared->extents[extent] + where;
	op->bytes = bytes;
	op->moved = handle;
	op->view_state = shared;
	op->view_release = twi_shm_view_release;
	shared->refs++;
	end_received(peer, op, bytes);
}

/* --- matching --- */

/* The sender is asked for pieces. */
void twi_shm_want(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming)
{
	incoming->wanted = true;
	incoming->copied = 0;
	incoming->sum = 0;
	peer->expecting++;
	twi_list_remove(&incoming->link);
	twi_shm_incoming_note(peer, incoming, TWI_SHM_WANTED);
}

/* A receive has met an offer; neither is in a table any more. */
static void offer_matched(struct twi_shm_peer *peer, struct tow_op *op,
			  struct twi_shm_incoming *incoming)
{
	uint64_t bytes = incoming->arrival.bytes;

	op->seq = incoming->arrival.seq;
	if (op->view && incoming->type == TWI_SHM_IN_POOL) {
		hand_view(peer, incoming, op);
		return;
	}
	if (twi_unlikely(!twi_view_ready(op, bytes))) {
		twi_view_hold(&peer->match, op, bytes);
		twi_match_arrive_first(&peer->match, &incoming->arrival.match);
		return;
	}
	if (op->view) {
		int status = twi_view_room(op, bytes);

		if (status < 0) {
			twi_shm_refuse(peer, incoming, op, status);
			return;
		}
	}
	if (bytes > op->bytes) {
		twi_shm_refuse(peer, incoming, op, TOW_ETRUNCATED);
		return;
	}
	/* Its word is on the sender's side: it is fetched while the bytes are copied. */
	__builtin_prefetch(&peer->in.box.offers[twi_shm_index_of(peer, incoming)], 1);
	incoming->op = op;
	incoming->copied = 0;
	incoming->sum = 0;
	op->stage = TWI_STAGE_GRANTED;
	twi_op_begun(op);
	op->moved = twi_shm_index_of(peer, incoming);
	twi_claim_count(op, bytes);
	if (incoming->type == TWI_SHM_STAGED) {
		twi_shm_want(peer, incoming);
		return;
	}
	twi_list_push_back(&peer->copying, &incoming->link);
	twi_shm_busy(peer);
}

/* Payload of a small message reaches its receive; without `message` it was kept before. */
static void deliver_small(struct twi_shm_peer *peer, struct tow_op *op, const uint8_t *payload,
			  uint64_t bytes, const struct twi_shm_message *message)
{
	struct twi_engine *engine = peer->base.engine;
	int status = twi_likely(!op->view) ? TOW_OK : twi_view_room(op, bytes);

	if (status == TOW_OK && bytes > op->bytes)
		status = TOW_ETRUNCATED;
	if (twi_unlikely(status < 0)) {
		twi_shm_op_end(peer, op, status, bytes);
		return;
	}
	/* The library's own messages come when they like. */
	if (message == NULL && twi_space_counts(op->space))
		twi_path_copy_fallback(engine, TWI_R_unexpected_arrival, op->data, payload, bytes,
				       op->site);
	else
		twi_path_copy_small(engine, op->space, op->data, payload, bytes);
	if (message != NULL && twi_unlikely(message->summed) &&
	    !same_sum(peer, message->sum, twi_checksum(0, op->data, bytes)))
		twi_shm_op_end(peer, op, tell_corrupt(peer, op, bytes), bytes);
	else
		end_received(peer, op, bytes);
}

/* A receive takes a message that had come before it. */
void twi_shm_take_arrival(struct twi_shm_peer *peer, struct twi_match_entry *entry,
			  struct tow_op *op)
{
	struct twi_shm_arrival *arrival = twi_container_of(entry, struct twi_shm_arrival, match);
	struct twi_shm_parcel *parcel;

	if (arrival->offered) {
		offer_matched(peer, op,
			      twi_container_of(arrival, struct twi_shm_incoming, arrival));
		return;
	}
	if (twi_unlikely(!twi_view_ready(op, arrival->bytes))) {
		twi_view_hold(&peer->match, op, arrival->bytes);
		twi_match_arrive_first(&peer->match, &arrival->match);
		return;
	}
	parcel = twi_container_of(arrival, struct twi_shm_parcel, arrival);
	op->seq = arrival->seq;
	peer->unexpected_bytes -= arrival->bytes + PARCEL_COST;
	if (twi_unlikely(arrival->corrupt))
		twi_shm_op_end(peer, op, tell_corrupt(peer, op, arrival->bytes), arrival->bytes);
	else
		deliver_small(peer, op, parcel->data, arrival->bytes, NULL);
	free(parcel);
}

/* The ring is read again: there may be room, or a receive, for what stands in front. */
static void unstall_ring(struct twi_shm_peer *peer)
{
	if (twi_likely(!peer->stalled))
		return;
	peer->stalled = false;
	twi_shm_busy(peer);
}

void twi_shm_look_again(struct tow_peer *base, uint64_t tag, uint8_t space)
{
	struct twi_shm_peer *peer = shm_peer(base);
	struct twi_match_entry *entry;

	twi_match_let_go(&peer->match, tag, space);
	while ((entry = twi_match_take_posted(&peer->match, tag, space)) != NULL) {
		struct tow_op *op = twi_container_of(entry, struct tow_op, match);

		twi_shm_repost(peer, op);
		if (op->stage == TWI_STAGE_POSTED)
			break;
	}
	unstall_ring(peer);
}

void twi_shm_recv(struct tow_peer *base, struct tow_op *op)
{
	struct twi_shm_peer *peer = shm_peer(base);
	struct twi_match_entry *entry;

	twi_held_count(base->engine, TWI_C_recvs, op->space == TWI_SPACE_USER);
	op->match.tag = op->tag;
	op->match.space = op->space;
	if (!op->view)
		twi_claim_lease(base, op);
	entry = twi_match_post(&peer->match, &op->match);
	if (entry != NULL) {
		twi_shm_take_arrival(peer, entry, op);
	} else if (peer->failed != 0) {
		twi_match_remove_posted(&peer->match, &op->match);
		twi_shm_op_end(peer, op, peer->failed, 0);
	} else {
		op->stage = TWI_STAGE_POSTED;
	}
	unstall_ring(peer);
}

/* --- reading the rings --- */

/* Keeps a small message until somebody receives it; false: the credit is used up. */
static bool keep_small(struct twi_shm_peer *peer, const struct twi_shm_message *message,
		       bool bounded)
{
	struct twi_diag *diag = peer->base.engine->diag;
	uint64_t cost = message->bytes + PARCEL_COST;
	struct twi_shm_parcel *parcel;

	if (bounded && peer->unexpected_bytes > 0 &&
	    peer->unexpected_bytes + cost > peer->base.engine->knobs.credit_bytes)
		return false;
	parcel = malloc(sizeof(*parcel) + message->bytes);
	if (parcel == NULL)
		return false; /* as if there were no credit: it is tried again */
	parcel->arrival = (struct twi_shm_arrival){
		.match = { .tag = message->tag, .space = message->space },
		.seq = peer->seq_received + 1,
		.bytes = message->bytes,
	};
	twi_path_copy_small(peer->base.engine, message->space, parcel->data, message->payload,
			    message->bytes);
	if (twi_unlikely(message->summed))
		parcel->arrival.corrupt = !same_sum(peer, message->sum,
						    twi_checksum(0, parcel->data, message->bytes));
	peer->unexpected_bytes += cost;
	if (message->space == TWI_SPACE_USER)
		twi_count_two(diag, TWI_C_unexpected_messages, 1, TWI_C_unexpected_bytes,
			      message->bytes);
	twi_match_arrive(&peer->match, &parcel->arrival.match);
	return true;
}

/* False: it stays in the ring. */
static bool on_small(struct twi_shm_peer *peer, const struct twi_shm_message *message, bool bounded)
{
	struct twi_match_entry *entry =
		twi_match_take_posted(&peer->match, message->tag, message->space);
	struct tow_op *op = entry != NULL ? twi_container_of(entry, struct tow_op, match) : NULL;

	if (op != NULL && twi_unlikely(!twi_view_ready(op, message->bytes))) {
		twi_view_hold(&peer->match, op, message->bytes);
		op = NULL;
	}
	if (op == NULL) {
		if (!keep_small(peer, message, bounded))
			return false;
		peer->seq_received++;
		twi_peer_received(&peer->base, message->space);
		if (twi_unlikely(message->sent_ns != 0))
			twi_shm_timed_small(peer, message);
		return true;
	}
	twi_peer_received(&peer->base, message->space);
	op->seq = ++peer->seq_received;
	deliver_small(peer, op, message->payload, message->bytes, message);
	if (twi_unlikely(message->sent_ns != 0))
		twi_shm_timed_small(peer, message);
	return true;
}

static int on_offer(struct twi_shm_peer *peer, const struct twi_shm_message *message)
{
	struct twi_shm_incoming *incoming = &peer->incoming[message->offer];
	struct twi_match_entry *entry;

	if (incoming->used)
		return twi_error(TOW_EPROTOCOL, "peer %s offers number %u twice",
				 peer->base.address, message->offer);
	incoming->used = true;
	incoming->wanted = false;
	incoming->type = (uint8_t)message->type;
	incoming->where = message->where;
	incoming->extent = message->extent;
	incoming->generation = message->generation;
	incoming->summed = message->summed;
	incoming->told = message->sum;
	incoming->arrival = (struct twi_shm_arrival){
		.match = { .tag = message->tag, .space = message->space },
		.seq = ++peer->seq_received,
		.bytes = message->bytes,
		.offered = true,
	};
	twi_peer_received(&peer->base, message->space);
	entry = twi_match_arrive(&peer->match, &incoming->arrival.match);
	if (entry != NULL)
		offer_matched(peer, twi_container_of(entry, struct tow_op, match), incoming);
	else
		twi_count(peer->base.engine->diag, TWI_C_unexpected_messages,
			  message->space == TWI_SPACE_USER);
	return TOW_OK;
}

/* The sender has taken an offer back. One that was dealt with meanwhile is not there any more. */
static int on_withdrawal(struct twi_shm_peer *peer, const struct twi_shm_message *message)
{
	struct twi_shm_incoming *incoming = &peer->incoming[message->offer];
	struct tow_op *op = incoming->op;
	uint64_t word;

	if (!incoming->used || incoming->generation != message->generation)
		return TOW_OK;
	word = atomic_load_explicit(&peer->in.box.offers[message->offer].word,
				    memory_order_acquire);
	incoming->unreadable = word == twi_shm_state_word(incoming->generation, TWI_SHM_UNREADABLE);
	if (!incoming->unreadable &&
	    word != twi_shm_state_word(incoming->generation, TWI_SHM_TAKEN_BACK))
		return twi_error(TOW_EPROTOCOL, "peer %s withdraws offer %u and lets it stand",
				 peer->base.address, message->offer);
	if (op == NULL)
		twi_match_remove_unexpected(&peer->match, &incoming->arrival.match);
	twi_shm_incoming_note(peer, incoming, TWI_SHM_GONE);
	twi_shm_forget(peer, incoming);
	if (op != NULL)
		twi_shm_gone(peer, incoming, op);
	return TOW_OK;
}

/* Reads the slot; an extent that is not known yet may be on the socket. */
static enum twi_shm_fault get_message(struct twi_shm_peer *peer, uint64_t word,
				      struct twi_shm_message *message)
{
	enum twi_shm_fault fault = twi_shm_slot_get(&peer->in, word, &peer->limits, message);

	if (twi_unlikely(fault == TWI_SHM_FAULT_EXTENT)) {
		(void)twi_shm_socket_read(peer); /* its end is seen by its poll */
		fault = twi_shm_slot_get(&peer->in, word, &peer->limits, message);
	}
	return fault;
}

static enum twi_rule rule_of(enum twi_shm_fault fault)
{
	return fault == TWI_SHM_FAULT_NONE      ? TWI_RULE_OFFER
	       : fault == TWI_SHM_FAULT_CHANNEL ? TWI_RULE_CHANNEL
						: TWI_RULE_SLOT;
}

/*
 * The notes that are there when a message is: the acquire of its word shows all that were written
 * before it. No more are read than there can be, so nobody can keep this side here.
 */
unsigned twi_shm_take_all_notes(struct twi_shm_peer *peer)
{
	unsigned count = 0;

	while (count < TWI_SHM_NOTES && peer->stage == TWI_SHM_UP && peer->expecting > 0 &&
	       twi_shm_note_there(&peer->notes_in))
		count += twi_shm_take_notes(peer);
	return count;
}

unsigned twi_shm_take_messages(struct twi_shm_peer *peer, unsigned most)
{
	struct twi_shm_message message;
	unsigned count = 0;
	uint64_t word;

	while (count < most && (word = twi_shm_slot_peek(&peer->in)) != 0) {
		enum twi_shm_fault fault;
		int status = TOW_OK;

		if (twi_unlikely(peer->expecting > 0)) {
			count += twi_shm_take_all_notes(peer);
			if (peer->stage != TWI_SHM_UP)
				return count;
		}
		fault = get_message(peer, word, &message);
		if (twi_unlikely(fault != TWI_SHM_FAULT_NONE)) {
			status = twi_error(TOW_EPROTOCOL, "peer %s: bad slot: %s",
					   peer->base.address, twi_shm_fault_text(fault));
		} else if (message.type <= TWI_SHM_IN_AREA) {
			if (!on_small(peer, &message, most != TWI_SHM_ALL)) {
				peer->stalled = true;
				break;
			}
		} else if (message.type == TWI_SHM_WITHDRAWN) {
			status = on_withdrawal(peer, &message);
		} else {
			status = on_offer(peer, &message);
		}
		if (twi_unlikely(status < 0)) {
			twi_shm_protocol_error(peer, rule_of(fault));
			return count + 1;
		}
		count++;
		if (twi_shm_slot_take(&peer->in, &message))
			twi_shm_wrote(peer);
	}
	return count;
}

unsigned twi_shm_take_notes(struct twi_shm_peer *peer)
{
	unsigned count = 0;

	while (count < TWI_SHM_BATCH && peer->expecting > 0 &&
	       twi_shm_note_there(&peer->notes_in)) {
		struct twi_shm_remark remark;
		enum twi_shm_fault fault =
			twi_shm_note_get(&peer->notes_in, &peer->limits, &remark);
		int status;

		if (fault != TWI_SHM_FAULT_NONE)
			status = twi_error(TOW_EPROTOCOL, "peer %s: bad note: %s",
					   peer->base.address, twi_shm_fault_text(fault));
		else if (remark.kind == TWI_SHM_PIECE)
			status = twi_shm_piece_noted(peer, &remark);
		else
			status = twi_shm_offer_noted(peer, &remark);
		count++;
		if (status < 0) {
			twi_shm_protocol_error(peer, TWI_RULE_NOTE);
			return count;
		}
	}
	return count;
}

/* --- taking back, and the end --- */

/* The message goes back where it was, in front: nothing of it is lost. */
static void put_back(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming)
{
	struct twi_match_entry *entry;

	twi_list_remove(&incoming->link);
	incoming->op = NULL;
	incoming->copied = 0;
	entry = twi_match_arrive_first(&peer->match, &incoming->arrival.match);
	if (entry != NULL)
		offer_matched(peer, twi_container_of(entry, struct tow_op, match), incoming);
}

bool twi_shm_abort_recv(struct twi_shm_peer *peer, struct tow_op *op, int status, bool force)
{
	struct twi_shm_incoming *incoming;

	if (op->stage == TWI_STAGE_POSTED) {
		twi_match_remove_posted(&peer->match, &op->match);
		twi_shm_op_end(peer, op, status, 0);
		return true;
	}
	if (op->stage != TWI_STAGE_GRANTED)
		return false;
	incoming = &peer->incoming[op->moved];
	if (!force && (incoming->copied > 0 || incoming->wanted))
		return false; /* it completes as it would */
	op->seq = 0;
	twi_shm_op_end(peer, op, status, 0); /* its memory is not touched from here on */
	if (incoming->wanted) /* pieces are on their way: there is no way back to its first byte */
		twi_shm_settle(peer, incoming, TWI_SHM_REFUSED, TWI_SHM_CANCELED);
	else
		put_back(peer, incoming);
	return true;
}
