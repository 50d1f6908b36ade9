/*
 * inbox.c - how receives and messages meet, and how receives end. See inbox.h.
 *
 * A small message is copied once, from the lane's memory to its receive. If no receive was posted,
 * it is copied twice; the second copy counts as a fallback copy.
 */
#include "transport/message/inbox.h"

#include <stdlib.h>

#include "diag/base/checksum.h"
#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/engine/held_count.h"
#include "transport/lanes/lane.h"
#include "transport/message/any_peer.h"
#include "transport/message/channel.h"
#include "transport/message/inbox_over.h"
#include "transport/message/waiting.h"
#include "transport/op/message.h"
#include "transport/op/op_span.h"
#include "transport/op/op_table.h"
#include "transport/op/parts.h"
#include "transport/op/path.h"
#include "transport/wire/frame.h"

static struct tow_op *op_of(struct twi_match_entry *entry)
{
	return twi_container_of(entry, struct tow_op, match);
}

static struct twi_unexpected *arrival_of(struct twi_match_entry *entry)
{
	return twi_container_of(entry, struct twi_unexpected, match);
}

static struct twi_kept *kept_of(struct twi_unexpected *arrival)
{
	return twi_container_of(arrival, struct twi_kept, arrival);
}

void twi_inbox_init(struct twi_inbox *inbox, struct tow_peer *peer, const struct twi_inbox_ops *ops,
		    uint64_t credit_bytes, uint64_t claim_above, uint8_t *rule)
{
	inbox->peer = peer;
	inbox->ops = ops;
	inbox->credit.bytes = credit_bytes;
	inbox->rule = rule;
	inbox->claim_above = claim_above;
	twi_match_init(&inbox->match);
	peer->inbox = inbox;
}

/* Drops all messages that wait. but_whole: messages that are here stay. */
static void drop_arrivals(struct twi_inbox *inbox, bool but_whole)
{
	struct twi_match_entry *entry = twi_match_first_unexpected(&inbox->match), *next;

	for (; entry != NULL; entry = next) {
		struct twi_unexpected *arrival = arrival_of(entry);

		next = twi_match_next_unexpected(&inbox->match, entry);
		if (but_whole && arrival->whole)
			continue;
		twi_match_remove_unexpected(&inbox->match, entry);
		if (arrival->offered) {
			inbox->ops->forget(inbox, arrival);
			continue;
		}
		inbox->kept_bytes -= arrival->bytes;
		free(kept_of(arrival));
	}
}

/* The message that is coming will not be complete. Returns the receive that has met it, or NULL. */
static struct tow_op *drop_filling(struct twi_inbox *inbox)
{
	struct twi_filling *filling = &inbox->filling;
	struct twi_unexpected *kept = filling->kept;
	struct tow_op *op = kept != NULL ? kept->waiter : filling->op;

	filling->op = NULL;
	filling->kept = NULL;
	filling->at = NULL;
	if (kept != NULL) {
		twi_match_remove_unexpected(&inbox->match, &kept->match);
		inbox->kept_bytes -= kept->bytes;
		free(kept_of(kept));
	}
	return op;
}

void twi_inbox_fini(struct twi_inbox *inbox)
{
	(void)drop_filling(inbox);
	drop_arrivals(inbox, false);
}

static void repost_all(struct twi_inbox *inbox, struct twi_list *ops);

void twi_inbox_fail(struct twi_inbox *inbox, int status)
{
	struct twi_match_entry *entry;
	struct twi_list held;
	struct tow_op *filled;

	inbox->failed = status;
	twi_list_init(&held);
	while ((entry = twi_match_first_posted(&inbox->match)) != NULL) {
		if (!entry->any) {
			twi_inbox_withdraw(inbox, op_of(entry), status, true);
			continue;
		}
		twi_match_remove_posted(&inbox->match, entry);
		twi_list_push_back(&held, &entry->link);
	}
	filled = drop_filling(inbox);
	if (filled != NULL)
		twi_inbox_end(inbox, filled, status, 0);
	drop_arrivals(inbox, true);
	repost_all(inbox, &held); /* other peers may have a message for them */
}

/* --- the end of a receive --- */

void twi_inbox_end(struct twi_inbox *inbox, struct tow_op *op, int status, uint64_t bytes)
{
	if (op->claim.kind != TWI_CLAIM_NONE)
		twi_claim_drop(inbox->peer->engine, &op->claim);
	/* No message came, so there is nothing for the user to give back. */
	if (twi_unlikely(op->view) && status < 0) {
		twi_view_drop(op);
		op->data = NULL;
	}
	if (op->seq != 0)
		op->rpc_id = twi_peer_rpc_id(inbox->peer, op->seq, false);
	twi_op_complete(op, status, bytes);
}

void twi_inbox_received(struct twi_inbox *inbox, struct tow_op *op, uint64_t bytes)
{
	bytes = twi_min(bytes, op->bytes);
	twi_held_count(inbox->peer->engine, twi_counter_of(TWI_C_recv_bytes, op->space), bytes);
	twi_inbox_end(inbox, op, TOW_OK, bytes);
}

void twi_inbox_corrupt(struct twi_inbox *inbox, struct tow_op *op, uint64_t bytes)
{
	const struct tow_peer *peer = inbox->peer;

	twi_error(TOW_ECORRUPT,
		  "peer %s (%s): message of rpc id %llu, %llu bytes, came with another checksum",
		  peer->address, twi_lane_name(peer->lane->ops->id),
		  (unsigned long long)twi_peer_rpc_id(peer, op->seq, false),
		  (unsigned long long)bytes);
	twi_log(peer->engine->diag, 1, "%s", tow_error_message());
	twi_count(peer->engine->diag, TWI_C_checksum_mismatches, 1);
	twi_inbox_end(inbox, op, TOW_ECORRUPT, bytes);
}

bool twi_inbox_same_sum(const struct twi_inbox *inbox, uint32_t sent_sum, uint32_t sum)
{
	twi_count(inbox->peer->engine->diag, TWI_C_checksums_checked, 1);
	return sent_sum == sum;
}

bool twi_inbox_withdraw(struct twi_inbox *inbox, struct tow_op *op, int status, bool force)
{
	struct twi_filling *filling = &inbox->filling;

	if (op->stage == TWI_STAGE_POSTED) {
		twi_match_remove_posted(&inbox->match, &op->match);
	} else if (op->stage != TWI_STAGE_FILLING) {
		return false;
	} else if (!force) {
		op->canceled = true;
		return false;
	} else if (filling->op == op && filling->bytes > op->bytes && filling->room == 0) {
		/*
		 * The message does not fit. With `truncate`, all that fits is here; without it,
		 * none of the message is stored.
		 */
		filling->op = NULL;
		filling->at = NULL;
		if (op->truncate)
			twi_inbox_received(inbox, op, filling->bytes);
		else
			twi_inbox_end(inbox, op, TOW_ETRUNCATED, filling->bytes);
		return true;
	} else {
		twi_inbox_leave_filling(inbox, op);
	}
	twi_inbox_end(inbox, op, status, 0);
	return true;
}

/* --- a receive and a message have met; neither is in a table any more --- */

int twi_inbox_cut(struct tow_op *op, uint64_t bytes)
{
	if (op->truncate == TWI_TRUNCATE_NEVER)
		return TOW_ETRUNCATED;
	op->truncate = TWI_TRUNCATE_DONE;
	op->dropped_bytes = bytes - op->bytes;
	return TOW_OK;
}

void twi_inbox_meet(struct twi_inbox *inbox, struct tow_op *op, struct twi_unexpected *offer)
{
	int status = TOW_OK;

	op->seq = offer->seq;
	twi_inbox_credit_offer(inbox, offer);
	if (op->view && (inbox->ops->in_place == NULL || !inbox->ops->in_place(offer)))
		status = twi_view_room(op, offer->bytes);
	if (status == TOW_OK && twi_unlikely(offer->bytes > op->bytes))
		status = twi_inbox_cut(op, offer->bytes);
	if (twi_unlikely(status < 0))
		inbox->ops->refuse(inbox, op, offer, status);
	else
		inbox->ops->matched(inbox, op, offer);
}

int twi_inbox_room(struct twi_inbox *inbox, struct tow_op *op, uint64_t bytes)
{
	int status = twi_likely(!op->view) ? TOW_OK : twi_view_room(op, bytes);

	if (status == TOW_OK && twi_unlikely(bytes > op->bytes))
		status = twi_inbox_cut(op, bytes);
	if (twi_unlikely(status < 0))
		twi_inbox_end(inbox, op, status, bytes);
	return status;
}

void twi_inbox_deliver(struct twi_inbox *inbox, struct tow_op *op, struct twi_kept *kept)
{
	struct twi_engine *engine = inbox->peer->engine;
	uint64_t bytes = kept->arrival.bytes, fits;

	op->seq = kept->arrival.seq;
	inbox->kept_bytes -= bytes;
	twi_inbox_give(inbox, twi_channel_of(kept->arrival.match.context), bytes);
	if (twi_inbox_room(inbox, op, bytes) < 0) {
		free(kept);
		return;
	}
	fits = twi_min(bytes, op->bytes);
	if (twi_op_in_parts(op))
		twi_path_scatter(engine, TWI_R_unexpected_arrival, op->claim.parts, 0, kept->data,
				 fits, op->site);
	else if (twi_space_counts(op->space)) /* internal messages may come at any time */
		twi_path_copy_fallback(engine, twi_space_why_kept(op->space), op->data, kept->data,
				       fits, op->site);
	else
		twi_path_copy_small(engine, op->space, op->data, kept->data, fits);
	if (twi_unlikely(kept->arrival.corrupt))
		twi_inbox_corrupt(inbox, op, bytes);
	else
		twi_inbox_received(inbox, op, bytes);
	free(kept);
}

/* Does the pool have room for what the receive is to take? A view in place needs none. */
static bool is_ready(const struct twi_inbox *inbox, struct tow_op *op,
		     const struct twi_unexpected *arrival)
{
	return twi_likely(!op->view) ||
	       (arrival->offered && inbox->ops->in_place != NULL &&
		inbox->ops->in_place(arrival)) ||
	       twi_view_ready(op, arrival->bytes);
}

/*
 * Binds a wild receive to a message of `bytes`. False: the receive has ended, because its memory is
 * not fit for this lane, which was not known before. Then the message is for another receive.
 */
static bool bind_wild(struct twi_inbox *inbox, struct tow_op *op, uint64_t tag, uint64_t bytes)
{
	int status;

	op->tag = tag;
	if (!op->match.any || op->peer != NULL)
		return true;
	op->peer = inbox->peer;
	if (op->channel != 0)
		twi_channel_add_op(inbox->peer, op);
	twi_claim_list(inbox->peer, op);
	if (op->view == TWI_VIEW_WHOLE || op->bytes <= inbox->claim_above ||
	    bytes <= inbox->claim_above)
		return true;
	status = twi_claim_need(inbox->peer, op);
	if (status < 0)
		twi_inbox_end(inbox, op, status, 0);
	return status == TOW_OK;
}

/*
 * A receive is no longer held: matches the messages that were kept back by it. Each message, from
 * the oldest on, goes to the first receive that takes it.
 */
static void settle_wild(struct twi_inbox *inbox)
{
	struct twi_match_entry *message, *recv;
	uint64_t from = 0;

	if (!inbox->match.kept_back)
		return;
	inbox->match.kept_back = false;
	while ((message = twi_match_settle(&inbox->match, &from, &recv)) != NULL)
		twi_inbox_take(inbox, op_of(recv), arrival_of(message));
}

void twi_inbox_take(struct twi_inbox *inbox, struct tow_op *op, struct twi_unexpected *arrival)
{
	bool ready;

	while (twi_unlikely(op->match.wild) &&
	       !bind_wild(inbox, op, arrival->match.tag, arrival->bytes)) {
		struct twi_match_entry *other =
			twi_match_arrive_first(&inbox->match, &arrival->match);

		if (other == NULL)
			return;
		op = op_of(other);
	}
	ready = is_ready(inbox, op, arrival);
	if (twi_unlikely(!ready && inbox->failed != 0)) { /* it must not stay here */
		twi_inbox_end(inbox, op, TOW_EEXHAUSTED, arrival->bytes);
		twi_inbox_put_back(inbox, arrival);
	} else if (twi_unlikely(!ready)) {
		twi_view_hold(&inbox->match, op, arrival->bytes);
		twi_match_arrive_first(&inbox->match, &arrival->match);
	} else if (arrival->offered) {
		twi_inbox_meet(inbox, op, arrival);
	} else if (twi_likely(arrival->whole)) {
		twi_inbox_deliver(inbox, op, kept_of(arrival));
	} else {
		arrival->waiter = op;
		op->stage = TWI_STAGE_FILLING;
		twi_op_begun(op);
	}
}

/* --- receives --- */

void twi_inbox_recv(struct twi_inbox *inbox, struct tow_op *op)
{
	struct tow_peer *peer = inbox->peer;
	struct twi_match_entry *entry;
	int status;

	twi_held_count(peer->engine, TWI_C_recvs, op->space == TWI_SPACE_USER);
	twi_assert_hot(op->match.context == twi_context_of(op->space, op->channel));
	op->match.tag = op->tag;
	if (twi_likely(op->stage != TWI_STAGE_HELD)) /* else it has its number already */
		op->match.order = ++peer->engine->ops->recvs;
	if (twi_unlikely(op->channel != 0))
		twi_channel_add_op(peer, op);
	if (twi_likely(!op->view && op->bytes <= inbox->claim_above)) {
		entry = twi_match_post(&inbox->match, &op->match);
		/* A message that is here already is copied out before this returns. */
		if (entry == NULL || !arrival_of(entry)->whole)
			twi_claim_lease(peer, op);
	} else {
		status = twi_claim_recv(peer, op, inbox->claim_above);
		if (status < 0) {
			twi_inbox_end(inbox, op, status, 0);
			return;
		}
		entry = twi_match_post(&inbox->match, &op->match);
	}
	if (entry != NULL) {
		twi_inbox_take(inbox, op, arrival_of(entry));
	} else if (twi_unlikely(inbox->failed != 0)) {
		twi_match_remove_posted(&inbox->match, &op->match);
		twi_inbox_end(inbox, op, inbox->failed, 0);
	} else if (twi_unlikely(op->channel != 0) && twi_inbox_is_over(inbox, op)) {
		return;
	} else {
		op->stage = TWI_STAGE_POSTED;
		op->moved = 0;
		if (inbox->ops->posted != NULL && !op->match.wild)
			inbox->ops->posted(inbox, op);
	}
}

bool twi_inbox_recv_any(struct twi_inbox *inbox, struct tow_op *op)
{
	struct twi_match_entry *entry = twi_match_meets(&inbox->match, &op->match);

	if (entry == NULL)
		return false;
	twi_match_remove_unexpected(&inbox->match, entry);
	twi_inbox_take(inbox, op, arrival_of(entry));
	return true;
}

/*
 * Gives a receive of any peer the next message of this peer. If there is none, the receive goes
 * back to its endpoint, which looks at all peers.
 */
static void return_any(struct twi_inbox *inbox, struct tow_op *op)
{
	op->tag = op->match.tag;
	op->moved = 0;
	if (op->view == TWI_VIEW_WHOLE) {
		twi_view_drop(op);
		op->data = NULL;
		op->bytes = TWI_WIRE_U63_MAX;
	}
	if (inbox->match.any != NULL && twi_inbox_recv_any(inbox, op))
		return;
	twi_claim_unlist(op);
	twi_any_again(op);
}

/* Does not settle what was kept back: other receives that come back are in no table yet. */
static void repost_one(struct twi_inbox *inbox, struct tow_op *op)
{
	struct twi_match_entry *entry;

	op->seq = 0;
	op->truncate = twi_min(op->truncate, (uint8_t)TWI_TRUNCATE_MAY);
	if (op->canceled) { /* it waits for no other message */
		twi_inbox_end(inbox, op, TOW_ECANCELED, 0);
		return;
	}
	if (twi_unlikely(op->roomless))
		twi_view_settled(op);
	if (twi_unlikely(op->match.any)) {
		return_any(inbox, op);
		return;
	}
	if (op->match.wild)
		op->tag = op->match.tag;
	entry = twi_match_post_first(&inbox->match, &op->match);
	op->stage = TWI_STAGE_POSTED;
	op->moved = 0;
	if (op->view == TWI_VIEW_WHOLE) {
		twi_view_drop(op);
		op->data = NULL;
		op->bytes = TWI_WIRE_U63_MAX;
	}
	if (entry != NULL)
		twi_inbox_take(inbox, op, arrival_of(entry));
	else if (twi_unlikely(op->channel != 0))
		(void)twi_inbox_is_over(inbox, op);
}

void twi_inbox_repost(struct twi_inbox *inbox, struct tow_op *op)
{
	repost_one(inbox, op);
	settle_wild(inbox);
}

void twi_inbox_let_go(struct twi_inbox *inbox, struct tow_op *op)
{
	twi_assert(op->match.any && op->match.held);
	twi_match_remove_posted(&inbox->match, &op->match);
	twi_inbox_repost(inbox, op);
}

/*
 * Reposts all of the list, from the oldest on. Only after that is it known which receive has what
 * was kept back.
 */
static void repost_all(struct twi_inbox *inbox, struct twi_list *ops)
{
	struct twi_list *link;

	while ((link = twi_list_first(ops)) != NULL) {
		twi_list_remove(link);
		repost_one(inbox, op_of(twi_container_of(link, struct twi_match_entry, link)));
	}
	settle_wild(inbox);
}

/* Was the channel closed here? Then it has no receives of its own, but those of any peer remain. */
static bool is_dropped(const struct twi_inbox *inbox, uint32_t context)
{
	const uint16_t channel = twi_channel_of(context);

	return channel != 0 && twi_inbox_is_dropped(inbox, channel);
}

void twi_inbox_look_again(struct twi_inbox *inbox, uint64_t tag, uint32_t context)
{
	struct twi_list again;
	struct twi_match_entry *entry;

	/* No receive of such a channel is posted, so no chain, which may be long, needs a walk. */
	if (is_dropped(inbox, context)) {
		settle_wild(inbox);
		return;
	}
	twi_list_init(&again);
	while ((entry = twi_match_take_held(&inbox->match, tag, context)) != NULL)
		twi_list_push_back(&again, &entry->link);
	repost_all(inbox, &again);
	if (inbox->match.wild)
		return;
	while ((entry = twi_match_take_posted(&inbox->match, tag, context)) != NULL) {
		struct tow_op *op = op_of(entry);

		twi_inbox_repost(inbox, op);
		if (op->stage == TWI_STAGE_POSTED)
			break;
	}
}

/*
 * Completes the take of a receive that is a view or wild. It may have to wait, or to leave the
 * message to the next one.
 */
static __attribute__((noinline)) struct tow_op *settle_posted(struct twi_inbox *inbox,
							      struct tow_op *op, uint64_t tag,
							      uint32_t context, uint64_t bytes)
{
	if (op->match.any && is_dropped(inbox, context)) {
		twi_match_put_wild(inbox->match.any, &op->match);
		return NULL;
	}
	while (op->match.wild && !bind_wild(inbox, op, tag, bytes)) {
		struct twi_match_entry *entry = twi_match_take_posted(&inbox->match, tag, context);

		if (entry == NULL)
			return NULL;
		op = op_of(entry);
	}
	if (twi_view_ready(op, bytes))
		return op;
	twi_view_hold(&inbox->match, op, bytes);
	return NULL;
}

struct tow_op *twi_inbox_take_posted(struct twi_inbox *inbox, uint64_t tag, uint32_t context,
				     uint64_t bytes)
{
	struct twi_match_entry *entry = twi_match_take_posted(&inbox->match, tag, context);
	struct tow_op *op;

	if (entry == NULL)
		return NULL;
	op = op_of(entry);
	if (twi_likely(!op->view && !op->match.wild))
		return op;
	return settle_posted(inbox, op, tag, context, bytes);
}

/* --- offers --- */

void twi_inbox_wait(struct twi_inbox *inbox, struct twi_unexpected *offer)
{
	struct twi_match_entry *entry;

	offer->match.order = offer->seq;
	twi_inbox_set_apart(inbox, &offer->match);
	entry = twi_match_arrive(&inbox->match, &offer->match);
	if (entry != NULL)
		twi_inbox_take(inbox, op_of(entry), offer);
	else if (twi_inbox_is_unwanted(inbox, offer->match.tag, twi_space_of(offer->match.context)))
		twi_inbox_credit_offer(inbox, offer);
	else
		twi_count(inbox->peer->engine->diag, TWI_C_unexpected_messages,
			  twi_space_of(offer->match.context) == TWI_SPACE_USER);
}

void twi_inbox_put_back(struct twi_inbox *inbox, struct twi_unexpected *offer)
{
	struct twi_match_entry *entry;

	offer->match.order = offer->seq;
	twi_inbox_set_apart(inbox, &offer->match);
	entry = twi_match_arrive_first(&inbox->match, &offer->match);
	if (entry != NULL)
		twi_inbox_take(inbox, op_of(entry), offer);
}

struct twi_unexpected *twi_inbox_find_offer(const struct twi_inbox *inbox, uint64_t seq)
{
	struct twi_match_entry *entry = twi_match_first_unexpected(&inbox->match);

	for (; entry != NULL; entry = twi_match_next_unexpected(&inbox->match, entry)) {
		struct twi_unexpected *arrival = arrival_of(entry);

		if (arrival->offered && arrival->seq == seq)
			return arrival;
	}
	return NULL;
}

void twi_inbox_drop_offer(struct twi_inbox *inbox, struct twi_unexpected *offer)
{
	twi_match_remove_unexpected(&inbox->match, &offer->match);
	twi_inbox_credit_offer(inbox, offer);
	settle_wild(inbox);
}
