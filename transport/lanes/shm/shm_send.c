/*
 * shm_send.c - the sending side: writes small messages into the ring, offers large ones, handles
 * the receiver's control records, and withdraws offers.
 *
 * Budget of a small send: one slot written, a copy, a fence. An offer costs the same, and a lease.
 */
#include <string.h>

#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "memreg/pool/staging.h"
#include "transport/lanes/shm/shm_settle.h"
#include "transport/op/lane_host.h"

static struct twi_shm_peer *peer_of(struct twi_outbox *outbox)
{
	return twi_container_of(outbox, struct twi_shm_peer, outbox);
}

int twi_shm_traffic_init(struct twi_shm_peer *peer)
{
	twi_inbox_init(&peer->inbox, &peer->base, &twi_shm_inbox,
		       peer->base.engine->knobs.credit_bytes, UINT64_MAX, &peer->rule);
	twi_outbox_init(&peer->outbox, &peer->base, &twi_shm_outbox);
	twi_list_init(&peer->copying);
	twi_list_init(&peer->helped);
	twi_list_init(&peer->staging);
	twi_list_init(&peer->revoked);
	return TOW_OK;
}

void twi_shm_busy(struct twi_shm_peer *peer)
{
	peer->busy = true;
	if (twi_unlikely(peer->idle))
		twi_shm_wake(peer);
	peer->base.engine->armed_since_enter = true; /* a sleeper must do the work */
}

void twi_shm_say(struct twi_shm_peer *peer, const struct twi_shm_remark *remark)
{
	/* Full: the other side does not read its records. The next work on this peer ends it. */
	if (twi_likely(twi_shm_note_put(&peer->notes_out, remark))) {
		twi_shm_wrote(peer);
		return;
	}
	peer->out.broken = true;
	twi_shm_busy(peer);
}

/* --- small messages --- */

/* Writes a message into a free slot. Not inlined: put_small often finds a full ring. */
static __attribute__((noinline)) bool write_slot(struct twi_shm_peer *peer,
						 const struct twi_outbound *out)
{
	const struct twi_engine *engine = peer->base.engine;
	struct twi_shm_slot *slot = twi_shm_slot_next(&peer->out);
	uint32_t bytes = (uint32_t)out->bytes;
	uint64_t where;

	if (bytes <= TWI_SHM_INLINE) {
		twi_path_copy_small(engine, out->space, slot->data, out->data, bytes);
	} else {
		where = twi_shm_area_room(&peer->out, bytes);
		if (where == UINT64_MAX)
			return false;
		twi_path_copy_small(engine, out->space, peer->out.box.area + where, out->data,
				    bytes);
		atomic_store_explicit(&slot->bytes, bytes, memory_order_relaxed);
		atomic_store_explicit(&slot->where, where, memory_order_relaxed);
	}
	atomic_store_explicit(&slot->tag, out->tag, memory_order_relaxed);
	if (bytes <= TWI_SHM_INLINE)
		twi_shm_slot_put(&peer->out, slot, twi_shm_stamp(peer, slot, out, TWI_SHM_INLINED),
				 twi_context_of(out->space, out->channel), (uint16_t)bytes);
	else
		twi_shm_slot_put(&peer->out, slot, twi_shm_stamp(peer, slot, out, TWI_SHM_IN_AREA),
				 twi_context_of(out->space, out->channel), 0);
	twi_shm_wrote(peer);
	return true;
}

static bool put_small(struct twi_outbox *outbox, const struct twi_outbound *out)
{
	struct twi_shm_peer *peer = peer_of(outbox);

	if (twi_unlikely(twi_shm_slot_room(&peer->out) == NULL))
		return false;
	/* A withdrawal goes before a control message that closes its channel. */
	if (twi_unlikely(out->channel != 0) && !twi_list_empty(&peer->revoked))
		return false;
	return write_slot(peer, out);
}

/* --- offers --- */

/* Rows are made when they are needed: many peers never offer anything. */
static bool has_offer(const struct twi_shm_peer *peer)
{
	return peer->offer_free != 0 || peer->offers_made < TWI_SHM_OFFERS;
}

static struct twi_shm_offer *offer_acquire(struct twi_shm_peer *peer)
{
	struct twi_shm_offer *offer;

	if (peer->offer_free != 0) {
		offer = &peer->offers[peer->offer_free - 1];
		peer->offer_free = offer->next_free;
	} else if (peer->offers_made < TWI_SHM_OFFERS) {
		offer = &peer->offers[peer->offers_made++];
		twi_list_init(&offer->link);
	} else {
		return NULL;
	}
	offer->use = TWI_SHM_OPEN;
	offer->wanted = false;
	offer->asked = offer->plain = false;
	offer->staged = 0;
	offer->piece_count = 0;
	offer->generation++;
	twi_claim_init(&offer->claim);
	peer->offer_count++;
	peer->expecting++;
	return offer;
}

static uint16_t index_of(const struct twi_shm_peer *peer, const struct twi_shm_offer *offer)
{
	return (uint16_t)(offer - peer->offers);
}

static void drop_pieces(struct twi_shm_peer *peer, struct twi_shm_offer *offer)
{
	while (offer->piece_count > 0)
		twi_staging_release(&peer->base.engine->staging,
				    offer->pieces[--offer->piece_count]);
}

static void offer_release(struct twi_shm_peer *peer, struct twi_shm_offer *offer)
{
	drop_pieces(peer, offer);
	twi_claim_drop(peer->base.engine, &offer->claim);
	twi_list_remove(&offer->link);
	/* A withdrawn offer keeps its word: at a close, its withdrawal may still be in the ring. */
	if (offer->use != TWI_SHM_REVOKED)
		atomic_store_explicit(&peer->out.box.offers[index_of(peer, offer)].word, 0,
				      memory_order_relaxed);
	offer->use = TWI_SHM_UNUSED;
	offer->op = NULL;
	offer->next_free = peer->offer_free;
	peer->offer_free = (uint16_t)(index_of(peer, offer) + 1);
	peer->offer_count--;
	peer->expecting--;
}

/* Returns how the receiver gets at the message's memory, and where that memory is. */
static enum twi_shm_type place_message(struct twi_shm_peer *peer, const struct tow_op *op,
				       uint64_t *where_out, uint32_t *extent_out)
{
	const struct twi_extent *extent = NULL;

	*extent_out = 0;
	*where_out = (uint64_t)(uintptr_t)op->data;
	if (op->claim.staged) /* an offer names one piece of memory */
		return TWI_SHM_STAGED;
	if (op->claim.kind == TWI_CLAIM_POOL)
		extent = twi_pool_find(peer->base.engine->pool, op->data, op->bytes);
	if (extent != NULL &&
	    (extent->slot < peer->announced || twi_shm_announce(peer, extent->slot))) {
		*extent_out = extent->slot;
		*where_out -= (uint64_t)(uintptr_t)extent->base;
		return op->lent ? TWI_SHM_LENT : TWI_SHM_IN_POOL;
	}
	return peer->remote_mine ? TWI_SHM_REMOTE : TWI_SHM_STAGED;
}

static bool put_offer(struct twi_outbox *outbox, struct tow_op *op)
{
	struct twi_shm_peer *peer = peer_of(outbox);
	struct twi_shm_slot *slot = twi_shm_slot_room(&peer->out);
	struct twi_shm_offer *offer;
	enum twi_shm_type type;
	uint64_t where;
	uint32_t extent;

	if (slot == NULL)
		return false;
	offer = offer_acquire(peer);
	if (offer == NULL)
		return false;
	type = place_message(peer, op, &where, &extent);
	offer->op = op;
	op->moved = index_of(peer, offer);
	twi_op_begun(op);
	atomic_store_explicit(&peer->out.box.offers[op->moved].word,
			      twi_shm_state_word(offer->generation, TWI_SHM_OFFERED),
			      memory_order_relaxed); /* made visible by the slot's release */
	atomic_store_explicit(&slot->tag, op->tag, memory_order_relaxed);
	atomic_store_explicit(&slot->bytes, op->bytes, memory_order_relaxed);
	atomic_store_explicit(&slot->where, type == TWI_SHM_STAGED ? 0 : where,
			      memory_order_relaxed);
	atomic_store_explicit(&slot->more, (uint64_t)offer->generation << 32 | extent,
			      memory_order_relaxed);
	twi_shm_slot_put(&peer->out, slot, twi_shm_stamp_offer(peer, slot, op, type),
			 twi_context_of(op->space, op->channel), (uint16_t)op->moved);
	twi_shm_wrote(peer);
	return true;
}

/* Tells the receiver to read the state of an offer that was taken back. */
static bool put_withdrawal(struct twi_shm_peer *peer, struct twi_shm_offer *offer)
{
	struct twi_shm_slot *slot = twi_shm_slot_room(&peer->out);

	if (slot == NULL)
		return false;
	atomic_store_explicit(&slot->tag, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->sent_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->bytes, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->where, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->more, (uint64_t)offer->generation << 32, memory_order_relaxed);
	twi_shm_slot_put(&peer->out, slot, TWI_SHM_WITHDRAWN, 0, index_of(peer, offer));
	twi_shm_wrote(peer);
	return true;
}

static int refuse_parts(const struct tow_op *op)
{
	return twi_error(TOW_EEXHAUSTED,
			 "send of %llu bytes in several parts, which the shm lane sends through "
			 "staging, and staging_bytes is 0",
			 (unsigned long long)op->bytes);
}

static int refuse_unread(const struct twi_shm_peer *peer, const struct tow_op *op)
{
	return twi_error(TOW_EEXHAUSTED,
			 "send of %llu bytes outside the pool, which %s may not read, needs "
			 "staging, and staging_bytes is 0",
			 (unsigned long long)op->bytes, peer->base.address);
}

/*
 * Leases what a large message needs. Memory outside the pool that the receiver may not read goes
 * through staging, which is one more copy.
 */
static int claim_memory(struct twi_outbox *outbox, struct tow_op *op)
{
	struct twi_shm_peer *peer = peer_of(outbox);
	struct twi_engine *engine = peer->base.engine;
	int status = twi_claim_need(&peer->base, op);

	if (status == TOW_OK && op->claim.staged)
		return engine->staging.chunks > 0 ? TOW_OK : refuse_parts(op);
	if (status < 0 || op->claim.kind == TWI_CLAIM_POOL || peer->remote_mine)
		return status;
	if (engine->knobs.require_zero_copy) {
		twi_count(engine->diag, TWI_C_zero_copy_refusals, 1);
		return twi_error(TOW_EZEROCOPY,
				 "require_zero_copy: send of %llu bytes at %p outside the pool, "
				 "which %s may not read; allocate them with tow_alloc",
				 (unsigned long long)op->bytes, op->data, peer->base.address);
	}
	return engine->staging.chunks > 0 ? TOW_OK : refuse_unread(peer, op);
}

static void send_waits(struct twi_outbox *outbox, struct tow_op *op)
{
	struct twi_shm_peer *peer = peer_of(outbox);

	twi_count(peer->base.engine->diag, TWI_C_credit_stalls,
		  op != NULL && op->space == TWI_SPACE_USER);
	twi_shm_busy(peer);
}

/* --- control records of the receiver --- */

/* Reads the status with which the receiver has ended an offer. False if the receiver has not. */
static bool settled_status(const struct twi_shm_peer *peer, const struct twi_shm_offer *offer,
			   int *status_out)
{
	uint64_t word = atomic_load_explicit(&peer->out.box.offers[index_of(peer, offer)].word,
					     memory_order_acquire);

	switch ((uint8_t)word) {
	case TWI_SHM_ACCEPTED:
		*status_out = TOW_OK;
		return true;
	case TWI_SHM_CUT:
		*status_out = TOW_ETRUNCATED;
		return true;
	case TWI_SHM_REFUSED:
		*status_out = TOW_ECANCELED;
		return true;
	case TWI_SHM_SPOILED:
		*status_out = TOW_ECORRUPT;
		return true;
	case TWI_SHM_UNWRITABLE:
		*status_out = TOW_EFAULT;
		return true;
	default:
		return false;
	}
}

static void end_offer_op(struct twi_shm_peer *peer, struct twi_shm_offer *offer, int status)
{
	struct tow_op *op = offer->op;

	offer->op = NULL;
	if (status == TOW_OK)
		twi_outbox_arrived(&peer->outbox, op, 0, TWI_LATENCY_UNKNOWN);
	else if (status == TOW_EFAULT)
		twi_op_fault_theirs(op, twi_peer_rpc_id(&peer->base, op->seq, true), op->bytes);
	twi_outbox_end(&peer->outbox, op, status, op->bytes);
}

/* The receiver's view outlives the operation, so the offer takes over the lease on the memory. */
static void keep_claim(struct twi_shm_peer *peer, struct twi_shm_offer *offer)
{
	struct tow_op *op = offer->op;

	if (op->claim.kind != TWI_CLAIM_NONE)
		twi_claim_share(&op->claim, op->data, op->bytes, peer->base.engine, &offer->claim);
}

/* The operation ends with the receiver's view, since its memory must not change before. */
static void show_offer(struct twi_shm_peer *peer, struct twi_shm_offer *offer)
{
	twi_outbox_arrived(&peer->outbox, offer->op, 0, TWI_LATENCY_UNKNOWN);
	offer->op->stage = TWI_STAGE_VIEWED;
	offer->use = TWI_SHM_IN_VIEW;
}

static int out_of_place(const struct twi_shm_peer *peer, const struct twi_shm_remark *remark)
{
	return twi_error(TOW_EPROTOCOL, "peer %s: a note of kind %d about offer %u out of place",
			 peer->base.address, (int)remark->kind, remark->offer);
}

/* Handles a record about an open offer. */
static int open_noted(struct twi_shm_peer *peer, struct twi_shm_offer *offer,
		      const struct twi_shm_remark *remark)
{
	switch (remark->kind) {
	case TWI_SHM_DONE:
		end_offer_op(peer, offer, TOW_OK);
		offer_release(peer, offer);
		return TOW_OK;
	case TWI_SHM_VIEWED:
		if (offer->op->awaits_view) {
			show_offer(peer, offer);
			return TOW_OK;
		}
		keep_claim(peer, offer);
		end_offer_op(peer, offer, TOW_OK);
		offer->use = TWI_SHM_IN_VIEW;
		return TOW_OK;
	case TWI_SHM_TRUNCATED:
		end_offer_op(peer, offer, TOW_ETRUNCATED);
		offer_release(peer, offer);
		return TOW_OK;
	case TWI_SHM_CANCELED:
		end_offer_op(peer, offer, TOW_ECANCELED);
		offer_release(peer, offer);
		return TOW_OK;
	case TWI_SHM_CORRUPT:
		end_offer_op(peer, offer, TOW_ECORRUPT);
		offer_release(peer, offer);
		return TOW_OK;
	case TWI_SHM_BAD_MEMORY:
		end_offer_op(peer, offer, TOW_EFAULT);
		offer_release(peer, offer);
		return TOW_OK;
	case TWI_SHM_WANTED:
		return twi_shm_help_give(peer, offer, remark) ? TOW_OK : out_of_place(peer, remark);
	case TWI_SHM_TAKEN:
		if (offer->piece_count == 0)
			return out_of_place(peer, remark);
		twi_staging_release(&peer->base.engine->staging, offer->pieces[0]);
		offer->piece_count--;
		for (unsigned i = 0; i < offer->piece_count; i++)
			offer->pieces[i] = offer->pieces[i + 1];
		twi_shm_busy(peer);
		return TOW_OK;
	default:
		return out_of_place(peer, remark);
	}
}

/* Handles a record about an offer whose operation has already ended. */
static int late_noted(struct twi_shm_peer *peer, struct twi_shm_offer *offer,
		      const struct twi_shm_remark *remark)
{
	bool passing = remark->kind == TWI_SHM_WANTED || remark->kind == TWI_SHM_TAKEN;
	bool last;

	if (passing && offer->use != TWI_SHM_IN_VIEW)
		return TOW_OK;
	if (offer->use == TWI_SHM_SETTLED && remark->kind == TWI_SHM_VIEWED) {
		offer->use = TWI_SHM_IN_VIEW;
		return TOW_OK;
	}
	last = offer->use == TWI_SHM_REVOKED ? remark->kind == TWI_SHM_GONE
	       : offer->use == TWI_SHM_IN_VIEW
		       ? remark->kind == TWI_SHM_RELEASED
		       : remark->kind == TWI_SHM_DONE || remark->kind == TWI_SHM_TRUNCATED ||
				 remark->kind == TWI_SHM_CANCELED ||
				 remark->kind == TWI_SHM_CORRUPT ||
				 remark->kind == TWI_SHM_BAD_MEMORY;
	if (!last)
		return out_of_place(peer, remark);
	if (offer->op != NULL) {
		twi_outbox_end(&peer->outbox, offer->op, TOW_OK, offer->op->bytes);
		offer->op = NULL;
	}
	offer_release(peer, offer);
	return TOW_OK;
}

int twi_shm_offer_noted(struct twi_shm_peer *peer, const struct twi_shm_remark *remark)
{
	struct twi_shm_offer *offer = &peer->offers[remark->offer];

	if (offer->use == TWI_SHM_UNUSED || offer->generation != remark->generation)
		return out_of_place(peer, remark);
	return offer->use == TWI_SHM_OPEN ? open_noted(peer, offer, remark)
					  : late_noted(peer, offer, remark);
}

/* --- taking back --- */

/* Ends the operation of an open offer now, whatever the receiver is doing with the offer. */
static bool abort_offered(struct twi_shm_peer *peer, struct tow_op *op, int status, bool force)
{
	struct twi_shm_offer *offer = &peer->offers[op->moved];
	enum twi_shm_state back = status == TOW_EFAULT ? TWI_SHM_UNREADABLE : TWI_SHM_TAKEN_BACK;
	uint64_t word;
	int settled;

	if (twi_shm_offer_decide(&peer->out.box.offers[op->moved], offer->generation, back,
				 &word)) {
		drop_pieces(peer, offer);
		twi_list_remove(&offer->link);
		offer->op = NULL;
		offer->use = TWI_SHM_REVOKED;
		if (!put_withdrawal(peer, offer)) {
			twi_list_push_back(&peer->revoked, &offer->link);
			twi_shm_busy(peer);
		}
		twi_outbox_end(&peer->outbox, op, status, 0);
		return true;
	}
	if (!force) /* the record is on its way */
		return false;
	if (!settled_status(peer, offer, &settled))
		settled = status; /* the peer has written nonsense there */
	else if (settled == TOW_OK && op->awaits_view) {
		op->stage = TWI_STAGE_VIEWED; /* or received: the record says so soon */
		return false;
	}
	keep_claim(peer, offer);
	drop_pieces(peer, offer);
	twi_list_remove(&offer->link);
	offer->use = TWI_SHM_SETTLED;
	end_offer_op(peer, offer, settled);
	return true;
}

void twi_shm_unreadable(struct twi_shm_peer *peer, struct twi_shm_offer *offer)
{
	struct tow_op *op = offer->op;
	uint64_t rpc_id = twi_peer_rpc_id(&peer->base, op->seq, true);

	abort_offered(peer, op, twi_op_fault(op, rpc_id, op->bytes, offer->staged), true);
}

void twi_shm_unstaged(struct twi_shm_peer *peer, struct twi_shm_offer *offer)
{
	struct tow_op *op = offer->op;

	abort_offered(peer, op, refuse_unread(peer, op), true);
}

static bool take_back(struct twi_outbox *outbox, struct tow_op *op, int status, bool force)
{
	return op->stage == TWI_STAGE_OFFERED && abort_offered(peer_of(outbox), op, status, force);
}

const struct twi_outbox_ops twi_shm_outbox = {
	.small = put_small,
	.offer = put_offer,
	.waits = send_waits,
	.claim = claim_memory,
	.take_back = take_back,
};

/* --- work --- */

unsigned twi_shm_send_work(struct twi_shm_peer *peer)
{
	struct twi_list *entry;
	unsigned events = 0;

	while ((entry = twi_list_first(&peer->revoked)) != NULL) {
		if (!put_withdrawal(peer, twi_container_of(entry, struct twi_shm_offer, link)))
			break;
		twi_list_remove(entry);
		events++;
	}
	events += twi_outbox_drain(&peer->outbox, TWI_SHM_BATCH);
	events += twi_shm_stage(peer);
	if (twi_unlikely(peer->out.broken)) {
		twi_error(TOW_EPROTOCOL,
			  "peer %s does not read its notes, or has read what was never written",
			  peer->base.address);
		twi_shm_protocol_error(peer, TWI_RULE_NOTES_UNREAD);
	}
	return events;
}

/* Returns whether work would move something. The receiver wakes this side when it has made room. */
bool twi_shm_send_ready(struct twi_shm_peer *peer)
{
	const struct tow_op *op = twi_outbox_next(&peer->outbox);
	bool words = !twi_list_empty(&peer->revoked) || twi_outbox_owes(&peer->outbox);

	if (peer->out.broken)
		return true;
	if (op != NULL || words) {
		uint64_t before = peer->out.area_next, bytes = op != NULL ? op->bytes : 0;
		bool small = bytes <= peer->outbox.eager_bytes,
		     room = twi_shm_slot_room(&peer->out) != NULL;

		if (room && small && bytes > TWI_SHM_INLINE) {
			room = twi_shm_area_room(&peer->out, (uint32_t)bytes) != UINT64_MAX;
			peer->out.area_next = before; /* undo: this was only a test */
		}
		if (peer->out.broken || (room && (words || small || has_offer(peer))))
			return true;
	}
	return twi_shm_send_stages(peer) && twi_shm_has_chunk(peer);
}

void twi_shm_send_fail(struct twi_shm_peer *peer, int status)
{
	twi_outbox_fail(&peer->outbox, status);
	for (unsigned i = 0; i < peer->offers_made; i++) {
		if (peer->offers[i].use != TWI_SHM_UNUSED)
			offer_release(peer, &peer->offers[i]);
	}
	peer->busy = false;
}
