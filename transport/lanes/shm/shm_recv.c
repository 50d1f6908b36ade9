/*
 * shm_recv.c - the receiving side: reads the rings, matches messages, and hands out views. See
 * shm.h.
 *
 * A small message is copied out of the ring once, or twice if no receive was posted for it
 * (counted). A large message stays with its sender until a receive meets it. It is then copied in
 * chunks, one a round, so that other traffic and deadlines do not wait for it. The message counts
 * only after the compare-and-swap of the offer's word, which follows the last byte. If the sender
 * takes the offer back before, the receive waits on as if the message had never existed.
 *
 * The ring is always read. Credit bounds what the sender may write before messages are received, as
 * on every lane; this lane reports credit by control messages (message/channel.h). Control records
 * have a ring of their own.
 *
 * The other side writes its records and messages in one order, but into two rings. A message must
 * not take effect before the records that were written ahead of it. Otherwise an answer would end a
 * call whose request has not been reported as arrived. So records are read after a message is found
 * and before it takes effect.
 */
#include "diag/base/checksum.h"
#include "diag/base/error.h"
#include "transport/lanes/shm/shm_settle.h"
#include "transport/message/channel.h"
#include "transport/op/lane_host.h"

static struct twi_shm_peer *shm_peer(struct tow_peer *peer)
{
	return (struct twi_shm_peer *)(void *)peer;
}

static struct twi_shm_peer *peer_of(struct twi_inbox *inbox)
{
	return twi_container_of(inbox, struct twi_shm_peer, inbox);
}

static struct twi_shm_incoming *incoming_of(struct twi_unexpected *offer)
{
	return twi_container_of(offer, struct twi_shm_incoming, arrival);
}

/* An offer's bytes have another checksum: fails both sides, unless the sender took it back. */
static void spoil_offer(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming,
			struct tow_op *op)
{
	uint64_t bytes = incoming->arrival.bytes;

	if (twi_shm_settle(peer, incoming, TWI_SHM_SPOILED, TWI_SHM_CORRUPT))
		twi_inbox_corrupt(&peer->inbox, op, bytes);
	else
		twi_shm_gone(peer, incoming, op);
}

/* All bytes have come: they count unless the sender has taken the offer back. */
void twi_shm_commit(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming)
{
	struct tow_op *op = incoming->op;
	uint64_t bytes = incoming->arrival.bytes;

	if (twi_unlikely(incoming->summed) && twi_shm_takes(incoming) == bytes &&
	    !twi_inbox_same_sum(&peer->inbox, incoming->told, incoming->sum))
		spoil_offer(peer, incoming, op);
	else if (twi_shm_settle(peer, incoming, TWI_SHM_ACCEPTED, TWI_SHM_DONE))
		twi_inbox_received(&peer->inbox, op, bytes);
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

/* Gives the receive the address of the sender's own bytes. */
static void hand_view(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming,
		      struct tow_op *op)
{
	struct twi_shm_link *shared = peer->shared;
	uint64_t bytes = incoming->arrival.bytes, where = incoming->where;
	uint32_t extent = incoming->extent;
	uint64_t handle = (uint64_t)incoming->generation << 32 | twi_shm_index_of(peer, incoming);

	if (twi_unlikely(incoming->summed) &&
	    !twi_inbox_same_sum(
		    &peer->inbox, incoming->told,
		    twi_checksum(0, (uint8_t *)shared->extents[extent]->base + where, bytes))) {
		spoil_offer(peer, incoming, op);
		return;
	}
	if (!twi_shm_settle(peer, incoming, TWI_SHM_ACCEPTED, TWI_SHM_VIEWED)) {
		twi_shm_gone(peer, incoming, op);
		return;
	}
	op->data = (uint8_t *)shared->extents[extent]->base + where;
	op->bytes = bytes;
	op->moved = handle;
	op->view_state = shared;
	op->view_release = twi_shm_view_release;
	shared->refs++;
	twi_inbox_received(&peer->inbox, op, bytes);
}

/* --- matching --- */

/* Asks the sender for pieces. */
void twi_shm_want(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming)
{
	incoming->wanted = true;
	incoming->copied = 0;
	incoming->sum = 0;
	peer->expecting++;
	twi_list_remove(&incoming->link);
	twi_shm_incoming_note(peer, incoming, TWI_SHM_WANTED);
}

static bool in_place(const struct twi_unexpected *offer)
{
	const struct twi_shm_incoming *incoming =
		twi_container_of(offer, const struct twi_shm_incoming, arrival);

	return incoming->type == TWI_SHM_LENT;
}

static void offer_refuse(struct twi_inbox *inbox, struct tow_op *op, struct twi_unexpected *offer,
			 int status)
{
	twi_shm_refuse(peer_of(inbox), incoming_of(offer), op, status);
}

static void offer_matched(struct twi_inbox *inbox, struct tow_op *op, struct twi_unexpected *offer)
{
	struct twi_shm_peer *peer = peer_of(inbox);
	struct twi_shm_incoming *incoming = incoming_of(offer);

	if (op->view == TWI_VIEW_WHOLE && incoming->type == TWI_SHM_LENT) {
		hand_view(peer, incoming, op);
		return;
	}
	/* The sender's segment has the offer's word. It is fetched while the bytes are copied. */
	__builtin_prefetch(&peer->in.box.offers[twi_shm_index_of(peer, incoming)], 1);
	incoming->op = op;
	incoming->copied = 0;
	incoming->sum = 0;
	op->stage = TWI_STAGE_GRANTED;
	twi_op_begun(op);
	op->moved = twi_shm_index_of(peer, incoming);
	twi_claim_count(op, offer->bytes);
	if (twi_unlikely(op->bytes == 0)) { /* the whole message is dropped */
		twi_shm_commit(peer, incoming);
		return;
	}
	if (incoming->type == TWI_SHM_STAGED) {
		twi_shm_want(peer, incoming);
		return;
	}
	if (incoming->type == TWI_SHM_REMOTE && twi_shm_help_ask(peer, incoming))
		return;
	twi_list_push_back(&peer->copying, &incoming->link);
	twi_shm_busy(peer);
}

static void credit_due(struct twi_inbox *inbox)
{
	twi_channels_return_credit(inbox->peer);
}

static void offer_forget(struct twi_inbox *inbox, struct twi_unexpected *offer)
{
	twi_shm_forget(peer_of(inbox), incoming_of(offer));
}

const struct twi_inbox_ops twi_shm_inbox = {
	.in_place = in_place,
	.matched = offer_matched,
	.refuse = offer_refuse,
	.forget = offer_forget,
	.credit_due = credit_due,
};

void twi_shm_unstall(struct twi_shm_peer *peer)
{
	if (twi_likely(!peer->stalled))
		return;
	peer->stalled = false;
	twi_shm_busy(peer);
}

void twi_shm_look_again(struct tow_peer *base, uint64_t tag, uint32_t context)
{
	struct twi_shm_peer *peer = shm_peer(base);

	twi_inbox_look_again(&peer->inbox, tag, context);
	twi_shm_unstall(peer);
}

void twi_shm_recv(struct tow_peer *base, struct tow_op *op)
{
	struct twi_shm_peer *peer = shm_peer(base);

	twi_inbox_recv(&peer->inbox, op);
	twi_shm_unstall(peer);
}

/* --- reading the rings --- */

/* Returns TOW_AGAIN if the message must stay in the ring. */
static int on_small(struct twi_shm_peer *peer, const struct twi_shm_message *message)
{
	const struct twi_inbound in = {
		.payload = message->payload,
		.seq = peer->inbox.seq_received + 1,
		.tag = message->tag,
		.bytes = message->bytes,
		.sum = message->sum,
		.channel = message->channel,
		.space = message->space,
		.summed = message->summed,
	};
	int status =
		twi_inbox_admit(&peer->inbox, in.seq, (uint32_t)in.bytes, in.space, in.channel);

	if (twi_likely(status == TOW_OK))
		status = twi_inbox_small(&peer->inbox, &in);
	if (twi_unlikely(status == TOW_AGAIN))
		twi_inbox_put_off(&peer->inbox, &in);
	else if (twi_unlikely(message->sent_ns != 0) && status == TOW_OK)
		twi_shm_timed_small(peer, message);
	return status;
}

static int on_offer(struct twi_shm_peer *peer, const struct twi_shm_message *message)
{
	struct twi_shm_incoming *incoming = &peer->incoming[message->offer];
	int status = twi_inbox_admit(&peer->inbox, peer->inbox.seq_received + 1, 0, message->space,
				     message->channel);

	if (status < 0)
		return status;
	if (incoming->used)
		return twi_error(TOW_EPROTOCOL, "peer %s offers number %u twice",
				 peer->base.address, message->offer);
	incoming->used = true;
	peer->incoming_made = twi_max(peer->incoming_made, (uint16_t)(message->offer + 1));
	twi_list_init(&incoming->link);
	incoming->wanted = incoming->helped = incoming->dropping = incoming->pieces_only = false;
	incoming->unanswered = 0;
	incoming->came_bytes = 0;
	incoming->type = (uint8_t)message->type;
	incoming->where = message->where;
	incoming->extent = message->extent;
	incoming->generation = message->generation;
	incoming->summed = message->summed;
	incoming->told = message->sum;
	incoming->arrival = (struct twi_unexpected){
		.match = { .tag = message->tag,
			   .context = twi_context_of(message->space, message->channel) },
		.seq = peer->inbox.seq_received,
		.bytes = message->bytes,
		.offered = true,
	};
	twi_inbox_wait(&peer->inbox, &incoming->arrival);
	return TOW_OK;
}

/* The sender has taken an offer back. The offer has no row any more if it has ended meanwhile. */
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
		twi_inbox_drop_offer(&peer->inbox, &incoming->arrival);
	twi_shm_incoming_note(peer, incoming, TWI_SHM_GONE);
	twi_shm_forget(peer, incoming);
	if (op != NULL)
		twi_shm_gone(peer, incoming, op);
	return TOW_OK;
}

/*
 * Reads the slot. If its extent is not known yet, the announcement may be on the socket. On failure
 * `*rule_out` is the rule that the other side broke, if it broke one.
 */
static int get_message(struct twi_shm_peer *peer, uint64_t word, struct twi_shm_message *message,
		       enum twi_rule *rule_out)
{
	enum twi_shm_fault fault = twi_shm_slot_get(&peer->in, word, &peer->limits, message);
	int status;

	if (twi_unlikely(fault == TWI_SHM_FAULT_EXTENT)) {
		status = twi_shm_socket_read(peer);
		*rule_out = TWI_RULE_SOCKET;
		if (status < 0 && status != TOW_EPEER) /* the poll reports the socket's end */
			return status;
		fault = twi_shm_slot_get(&peer->in, word, &peer->limits, message);
	}
	if (twi_likely(fault == TWI_SHM_FAULT_NONE)) {
		*rule_out = TWI_RULE_OFFER;
		return TOW_OK;
	}
	*rule_out = TWI_RULE_SLOT;
	return twi_error(TOW_EPROTOCOL, "peer %s: bad slot: %s", peer->base.address,
			 twi_shm_fault_text(fault));
}

/*
 * Reads the records that were there before a message: the acquire of the message's word makes them
 * visible. Reads no more than the ring can hold, so a peer cannot keep this thread here.
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
		enum twi_rule rule;
		int status;

		if (twi_unlikely(peer->expecting > 0)) {
			count += twi_shm_take_all_notes(peer);
			if (peer->stage != TWI_SHM_UP)
				return count;
		}
		status = get_message(peer, word, &message, &rule);
		if (twi_unlikely(status < 0)) {
			/* nothing is to be taken */
		} else if (message.type <= TWI_SHM_IN_AREA) {
			status = on_small(peer, &message);
			if (twi_unlikely(status == TOW_AGAIN)) {
				peer->stalled = true;
				break;
			}
		} else if (message.type == TWI_SHM_WITHDRAWN) {
			status = on_withdrawal(peer, &message);
		} else {
			status = on_offer(peer, &message);
		}
		if (twi_unlikely(status < 0)) {
			if (status == TOW_EPROTOCOL)
				twi_shm_protocol_error(peer, rule);
			else
				twi_shm_peer_lost(peer, status);
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

bool twi_shm_abort_recv(struct twi_shm_peer *peer, struct tow_op *op, int status, bool force)
{
	struct twi_shm_incoming *incoming;

	if (twi_inbox_withdraw(&peer->inbox, op, status, force))
		return true;
	if (op->stage != TWI_STAGE_GRANTED)
		return false;
	incoming = &peer->incoming[op->moved];
	if (!force && (incoming->copied > 0 || (incoming->wanted && !incoming->dropping))) {
		op->canceled = true; /* it ends as usual unless the sender takes it back */
		return false;
	}
	op->seq = 0;
	/* The receive's memory is not touched from here on. */
	twi_inbox_end(&peer->inbox, op, status, 0);
	if (incoming->wanted && !incoming->helped && !incoming->dropping) {
		/* Pieces are on their way: the sender cannot start again at the first byte. */
		twi_shm_settle(peer, incoming, TWI_SHM_REFUSED, TWI_SHM_CANCELED);
		return true;
	}
	twi_list_remove(&incoming->link);
	incoming->op = NULL;
	incoming->copied = 0;
	/* Whoever receives it now reads it from its first byte on, by itself. */
	incoming->dropping |= incoming->helped;
	incoming->helped = false;
	twi_inbox_put_back(&peer->inbox, &incoming->arrival);
	return true;
}
