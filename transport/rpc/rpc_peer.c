/*
 * rpc_peer.c - the inbox of a peer: posts slots, reads what they receive, and ends the inbox.
 *
 *	[rpc->slots] --post--> posted --message--> read: posted again, or kept by a call
 *
 * A slot is kept only when another one can take its place (twi_rpc_may_keep). The peer's own slot
 * is allocated with the peer, so there is always one.
 */
#include <stdio.h>
#include <stdlib.h>

#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "transport/engine/engine.h"
#include "transport/op/own_memory.h"
#include "transport/op/path.h"
#include "transport/rpc/rpc.h"
#include "transport/rpc/rpc_records.h"

void twi_rpc_peer_settle(struct twi_rpc_peer *rp)
{
	twi_assert_held(rp->engine);
	if (rp->peer != NULL || rp->holds > 0 || twi_parcel_busy(&rp->spare))
		return;
	twi_list_remove(&rp->link);
	free(rp->own.data);
	free(rp);
}

void twi_rpc_broken(struct twi_rpc_peer *rp, const char *why)
{
	twi_assert_held(rp->engine);
	twi_count(rp->engine->diag, TWI_C_protocol_errors, 1);
	twi_log(rp->engine->diag, 2, "peer %s: a message of a call was dropped: %s", rp->address,
		why);
}

bool twi_rpc_may_keep(const struct twi_rpc_peer *rp)
{
	twi_assert_held(rp->engine);
	return rp->posted > 0 || !twi_list_empty(&rp->rpc->slots);
}

void *twi_rpc_keep_copy(struct twi_rpc_peer *rp, const void *data, uint64_t bytes)
{
	void *memory;

	twi_assert_held(rp->engine);
	if (twi_own_need(rp->engine, bytes, 64, TWI_SITE_NONE, &memory) < 0)
		return NULL;
	twi_path_copy_eager(rp->engine, memory, data, bytes);
	return memory;
}

static void post_slot(struct twi_rpc_peer *rp, struct twi_rpc_slot *slot);

/* Handles the message in a slot. True: the slot is kept. */
static bool dispatch_slot(struct twi_rpc_peer *rp, struct twi_rpc_slot *slot)
{
	struct twi_rpc_head head;
	const char *wrong = twi_rpc_head_get(slot->data, slot->bytes, &head);

	if (wrong != NULL) {
		twi_rpc_broken(rp, wrong);
		return false;
	}
	if (head.unread != 0 && (rp->peer == NULL || !twi_rpc_tells_unread(rp->peer))) {
		twi_rpc_broken(rp, "it says how long it was unread, which was not agreed on");
		return false;
	}
	switch (head.type) {
	case TWI_RPC_REQUEST:
		return twi_serve_request(rp, slot, &head);
	case TWI_RPC_RESPONSE:
		return twi_call_answered(rp, slot, &head, slot->arrived_ns);
	case TWI_RPC_CHUNK:
		return twi_stream_chunk(rp, slot, &head);
	case TWI_RPC_WINDOW:
		twi_stream_window(rp, &head);
		return false;
	case TWI_RPC_CANCEL:
		twi_serve_canceled(rp, head.id);
		return false;
	default:
		twi_call_given_up(rp, head.id);
		return false;
	}
}

/* Posts as many slots as the peer has needed at once so far. */
static void fill_slots(struct twi_rpc_peer *rp)
{
	struct twi_list *entry;

	while (rp->dead >= 0 && rp->posted < rp->post_target &&
	       (entry = twi_list_first(&rp->rpc->slots)) != NULL) {
		struct twi_rpc_slot *slot = twi_container_of(entry, struct twi_rpc_slot, link);

		twi_list_remove(entry);
		slot->rp = rp;
		rp->holds++;
		post_slot(rp, slot);
	}
}

/* Posts a slot again if its peer has few posted; else puts it back on the common list. */
void twi_rpc_slot_release(struct twi_rpc_slot *slot)
{
	struct twi_rpc_peer *rp = slot->rp;

	twi_assert_held(rp->engine);
	if (rp->dead >= 0 && (slot->own || rp->posted < TWI_RPC_POSTED_MIN)) {
		post_slot(rp, slot);
		return;
	}
	if (!slot->own)
		twi_list_push_front(&rp->rpc->slots, &slot->link);
	rp->holds--;
	twi_rpc_peer_settle(rp);
}

/* Reads one received slot. */
static void read_slot(struct twi_rpc_peer *rp, struct twi_rpc_slot *slot)
{
	twi_list_remove(&slot->link);
	slot->read_due = false;
	rp->posted--;
	if (slot->status < 0 && slot->status != TOW_ETRUNCATED) {
		twi_rpc_lost(rp, slot->status);
		twi_rpc_slot_release(slot);
		return;
	}
	if (rp->posted == 0)
		rp->post_target = twi_min(rp->post_target * 2, TWI_RPC_POSTED_MAX);
	if (slot->status == TOW_ETRUNCATED)
		twi_rpc_broken(rp, "it is longer than the limit");
	if (slot->status == TOW_ETRUNCATED || !dispatch_slot(rp, slot))
		twi_rpc_slot_release(slot);
	fill_slots(rp);
}

/*
 * Slots are matched in the order in which they were posted. But a message too long for one frame
 * completes after a short one behind it. So slots are read in their order, not as they complete.
 */
static void on_inbox(struct tow_op *op, const struct tow_result *result)
{
	struct twi_rpc_slot *slot = op->user;
	struct twi_rpc_peer *rp = slot->rp;
	struct twi_list *entry;

	slot->io.busy = false;
	slot->read_due = true;
	slot->status = result->status;
	slot->bytes = result->bytes;
	slot->arrived_ns = op->start_ns + op->latency_ns;
	slot->unread_ns = twi_engine_unseen(rp->engine, slot->arrived_ns);
	rp->holds++; /* rp must outlive the loop */
	while ((entry = twi_list_first(&rp->inbox)) != NULL &&
	       twi_container_of(entry, struct twi_rpc_slot, link)->read_due)
		read_slot(rp, twi_container_of(entry, struct twi_rpc_slot, link));
	rp->holds--;
	twi_rpc_peer_settle(rp);
}

static void post_slot(struct twi_rpc_peer *rp, struct twi_rpc_slot *slot)
{
	const struct twi_message message = { .kind = TWI_OP_RECV,
					     .space = TWI_SPACE_RPC,
					     .data = slot->data,
					     .bytes = TWI_RPC_HEAD_BYTES + rp->rpc->inline_max,
					     .tag = TWI_RPC_INBOX_TAG };

	rp->posted++;
	twi_list_push_back(&rp->inbox, &slot->link);
	if (twi_rpc_io_start(&slot->io, rp->peer, &message, on_inbox, slot) < 0) {
		rp->posted--;
		twi_list_remove(&slot->link);
		twi_rpc_lost(rp, TOW_ECLOSED);
		twi_rpc_slot_release(slot);
	}
}

static void on_refused(struct twi_parcel *parcel)
{
	struct twi_rpc_peer *rp = parcel->owner;

	twi_serve_refusals(rp);
	twi_rpc_peer_settle(rp);
}

static struct twi_rpc_peer *create_peer(struct twi_rpc *rpc, struct tow_peer *peer)
{
	struct twi_rpc_peer *rp = calloc(1, sizeof(*rp));

	if (rp != NULL)
		rp->own.data = malloc(TWI_RPC_HEAD_BYTES + rpc->inline_max);
	if (rp == NULL || rp->own.data == NULL) {
		free(rp);
		twi_error(TOW_ENOMEM, "no memory for calls to peer %s", peer->address);
		return NULL;
	}
	rp->rpc = rpc;
	rp->engine = peer->engine;
	rp->peer = peer;
	rp->link_state = peer->link_state;
	rp->peer_id = peer->id;
	snprintf(rp->address, sizeof(rp->address), "%s", peer->address);
	rp->post_target = TWI_RPC_POSTED_MIN;
	twi_list_init(&rp->queued);
	twi_list_init(&rp->active);
	twi_list_init(&rp->served);
	twi_list_init(&rp->inbox);
	twi_list_init(&rp->own.link);
	rp->spare.data = rp->spare_data;
	rp->spare.done = on_refused;
	rp->spare.owner = rp;
	rp->own.own = true;
	rp->own.rp = rp;
	twi_list_push_back(&rpc->peers, &rp->link);
	peer->link_state->rpc = rp;
	return rp;
}

struct twi_rpc_peer *twi_rpc_peer_of(struct tow_peer *peer)
{
	struct twi_rpc *rpc = twi_rpc_of(peer->engine);
	struct twi_rpc_peer *rp;

	twi_assert_held(peer->engine);
	if (rpc == NULL)
		return NULL;
	if (peer->link_state == NULL) {
		twi_error(TOW_ENOTSUP, "peer %s has no link for calls", peer->address);
		return NULL;
	}
	if (peer->link_state->rpc != NULL)
		return peer->link_state->rpc;
	rp = create_peer(rpc, peer);
	if (rp == NULL)
		return NULL;
	rp->holds = 2; /* its own slot, and this function */
	post_slot(rp, &rp->own);
	fill_slots(rp);
	twi_link_open(peer->link_state, rpc->inline_max, TOW_CALL_WINDOW);
	rp->holds--;
	return rp;
}

/* The other side has no memory for calls now. The next call opens again. */
static void calls_declined(struct twi_rpc_peer *rp)
{
	struct twi_list *entry;

	rp->declined = true;
	while ((entry = twi_list_first(&rp->queued)) != NULL)
		twi_call_end(twi_container_of(entry, struct twi_call, link), TOW_EREFUSED, false);
}

/* Opens again for a new call, if the other side has declined before. */
void twi_rpc_reopen(struct twi_rpc_peer *rp)
{
	twi_assert_held(rp->engine);
	if (!rp->declined || rp->link_state == NULL)
		return;
	rp->declined = false;
	twi_link_open(rp->link_state, rp->rpc->inline_max, TOW_CALL_WINDOW);
}

void twi_rpc_opened(struct twi_link *link, uint64_t inline_bytes, uint64_t window)
{
	struct twi_rpc_peer *rp = twi_rpc_peer_of(link->peer);

	twi_assert_held(link->engine);
	if (rp == NULL) {
		twi_log(link->engine->diag, 1, "calls of peer %s cannot be served: %s",
			link->peer->address, tow_error_message());
		twi_link_open(link, 0, 0);
		return;
	}
	if (rp->ready)
		return;
	if (inline_bytes == 0 && window == 0) {
		calls_declined(rp);
		return;
	}
	if (inline_bytes < TOW_CALL_TEXT_MAX || window == 0) {
		twi_rpc_broken(rp, "its limits leave no room for any call");
		twi_rpc_lost(rp, TOW_EPROTOCOL);
		return;
	}
	rp->ready = true;
	rp->declined = false;
	rp->inline_max = (uint32_t)twi_min(inline_bytes, (uint64_t)rp->rpc->inline_max);
	rp->window = (uint32_t)twi_min(window, (uint64_t)TOW_CALL_WINDOW);
	twi_call_pump(rp);
}

void twi_rpc_lost(struct twi_rpc_peer *rp, int status)
{
	struct twi_list *pos, *next;

	twi_assert_held(rp->engine);
	if (rp->dead < 0)
		return;
	rp->dead = status;
	twi_rpc_stats_peer_gone(rp->rpc);
	rp->holds++;
	while ((pos = twi_list_first(&rp->queued)) != NULL)
		twi_call_end(twi_container_of(pos, struct twi_call, link), status, false);
	while ((pos = twi_list_first(&rp->active)) != NULL)
		twi_call_end(twi_container_of(pos, struct twi_call, link), status, false);
	twi_list_for_each_safe (pos, next, &rp->served)
		twi_serve_lost(twi_container_of(pos, struct tow_call_in, link), status);
	rp->refused_count = 0;
	rp->holds--;
}

void twi_rpc_detach(struct twi_rpc_peer *rp)
{
	struct twi_list *pos, *next;

	twi_assert_held(rp->engine);
	rp->holds++;
	twi_rpc_lost(rp, TOW_ECLOSED);
	rp->peer = NULL;
	rp->link_state = NULL;
	twi_list_for_each_safe (pos, next, &rp->served) {
		struct tow_call_in *in = twi_container_of(pos, struct tow_call_in, link);

		atomic_store_explicit(&in->peer, NULL, memory_order_relaxed);
		twi_serve_lost(in, rp->dead); /* it may have come after the loss */
		twi_serve_let_go(in);
	}
	twi_calls_let_go(rp);
	twi_streams_let_go(rp);
	rp->holds--;
	twi_rpc_peer_settle(rp);
}
