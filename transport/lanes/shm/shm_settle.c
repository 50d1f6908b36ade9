/*
 * shm_settle.c - how an incoming offer ends, and what then happens to the receive that had met it.
 * See shm_settle.h.
 */
#include "transport/lanes/shm/shm_settle.h"

#include "transport/op/lane_host.h"

void twi_shm_incoming_note(struct twi_shm_peer *peer, const struct twi_shm_incoming *incoming,
			   enum twi_shm_note_kind kind)
{
	const struct twi_shm_remark remark = { .kind = kind,
					       .offer = twi_shm_index_of(peer, incoming),
					       .generation = incoming->generation };

	twi_shm_say(peer, &remark);
}

void twi_shm_forget(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming)
{
	twi_list_remove(&incoming->link);
	incoming->used = false;
	incoming->op = NULL;
	if (incoming->wanted)
		peer->expecting--;
	incoming->wanted = false;
}

/* Changes the offer's word. If the sender took the offer back, reports GONE and returns false. */
bool twi_shm_settle(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming,
		    enum twi_shm_state state, enum twi_shm_note_kind kind)
{
	uint64_t word;
	bool won = twi_shm_offer_decide(&peer->in.box.offers[twi_shm_index_of(peer, incoming)],
					incoming->generation, state, &word);

	incoming->unreadable =
		!won && word == twi_shm_state_word(incoming->generation, TWI_SHM_UNREADABLE);
	twi_shm_incoming_note(peer, incoming, won ? kind : TWI_SHM_GONE);
	twi_shm_forget(peer, incoming);
	return won;
}

static uint64_t rpc_id_of(const struct twi_shm_peer *peer, const struct tow_op *op)
{
	return twi_peer_rpc_id(&peer->base, op->seq, false);
}

/*
 * The sender has taken back the offer that a receive had met. The receive waits for the next
 * message, or ends if the reason was the sender's bad memory.
 */
void twi_shm_gone(struct twi_shm_peer *peer, const struct twi_shm_incoming *incoming,
		  struct tow_op *op)
{
	uint64_t bytes = incoming->arrival.bytes;

	if (twi_unlikely(incoming->unreadable))
		twi_inbox_end(&peer->inbox, op, twi_op_fault_theirs(op, rpc_id_of(peer, op), bytes),
			      0);
	else
		twi_inbox_repost(&peer->inbox, op);
}

void twi_shm_unwritable(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming, uint64_t from)
{
	struct tow_op *op = incoming->op;
	uint64_t bytes = incoming->arrival.bytes;

	if (twi_shm_settle(peer, incoming, TWI_SHM_UNWRITABLE, TWI_SHM_BAD_MEMORY))
		twi_inbox_end(&peer->inbox, op, twi_op_fault(op, rpc_id_of(peer, op), bytes, from),
			      0);
	else
		twi_shm_gone(peer, incoming, op);
}

/* Refuses the offer and ends the receive with `status`, unless the sender took the offer back. */
void twi_shm_refuse(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming, struct tow_op *op,
		    int status)
{
	uint64_t bytes = incoming->arrival.bytes;
	bool cut = status == TOW_ETRUNCATED;

	if (twi_shm_settle(peer, incoming, cut ? TWI_SHM_CUT : TWI_SHM_REFUSED,
			   cut ? TWI_SHM_TRUNCATED : TWI_SHM_CANCELED))
		twi_inbox_end(&peer->inbox, op, status, bytes);
	else
		twi_shm_gone(peer, incoming, op);
}
