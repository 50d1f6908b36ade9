/*
 * inbox_fill.c - small messages that come, whole or in parts. See inbox.h.
 */
#include <stdlib.h>

#include "diag/base/checksum.h"
#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/message/channel.h"
#include "transport/message/inbox.h"
#include "transport/message/inbox_over.h"
#include "transport/op/message.h"
#include "transport/op/op_span.h"
#include "transport/op/parts.h"
#include "transport/op/path.h"
#include "transport/wire/frame.h"

struct twi_kept *twi_inbox_keep(struct twi_inbox *inbox, const struct twi_inbound *in)
{
	struct twi_kept *kept = malloc(sizeof(*kept) + in->bytes);

	if (kept == NULL) {
		twi_error(TOW_ENOMEM, "no memory for an unexpected message of %llu bytes",
			  (unsigned long long)in->bytes);
		return NULL;
	}
	kept->arrival = (struct twi_unexpected){
		.match = { .tag = in->tag,
			   .context = twi_context_of(in->space, in->channel),
			   .order = in->seq },
		.seq = in->seq,
		.bytes = in->bytes,
	};
	inbox->kept_bytes += in->bytes;
	return kept;
}

static void count_unexpected(struct twi_inbox *inbox, const struct twi_inbound *in)
{
	if (in->space == TWI_SPACE_USER)
		twi_count_two(inbox->peer->engine->diag, TWI_C_unexpected_messages, 1,
			      TWI_C_unexpected_bytes, in->bytes);
}

static int keep_small(struct twi_inbox *inbox, const struct twi_inbound *in)
{
	struct twi_kept *kept;

	if (in->channel == 0 && twi_inbox_is_unwanted(inbox, in->tag, in->space)) {
		twi_inbox_give(inbox, 0, in->bytes);
		return TOW_OK;
	}
	kept = twi_inbox_keep(inbox, in);
	if (kept == NULL)
		return TOW_ENOMEM;
	twi_path_copy_small(inbox->peer->engine, in->space, kept->data, in->payload, in->bytes);
	if (twi_unlikely(in->summed))
		kept->arrival.corrupt =
			!twi_inbox_same_sum(inbox, in->sum, twi_checksum(0, kept->data, in->bytes));
	kept->arrival.whole = true;
	count_unexpected(inbox, in);
	twi_match_arrive(&inbox->match, &kept->arrival.match);
	return TOW_OK;
}

/* The receive has parts. This is a function of its own to keep the fast path short. */
static __attribute__((noinline)) void scatter_small(struct twi_inbox *inbox, struct tow_op *op,
						    const struct twi_inbound *in)
{
	const struct twi_engine *engine = inbox->peer->engine;
	uint64_t fits = twi_min(in->bytes, op->bytes);

	twi_path_scatter_small(engine, op->claim.parts, 0, in->payload, fits);
	if (in->summed &&
	    !twi_inbox_same_sum(inbox, in->sum,
				fits == in->bytes ? twi_op_checksum(op, 0, 0, in->bytes)
						  : twi_checksum(0, in->payload, in->bytes)))
		twi_inbox_corrupt(inbox, op, in->bytes);
	else
		twi_inbox_received(inbox, op, in->bytes);
}

static void deliver_small(struct twi_inbox *inbox, struct tow_op *op, const struct twi_inbound *in)
{
	uint64_t fits;

	op->seq = in->seq;
	twi_inbox_give(inbox, in->channel, in->bytes);
	if (twi_unlikely(op->view || in->bytes > op->bytes)) {
		if (twi_inbox_room(inbox, op, in->bytes) < 0)
			return;
		if (twi_op_in_parts(op)) {
			scatter_small(inbox, op, in);
			return;
		}
	}
	fits = twi_min(in->bytes, op->bytes);
	twi_path_copy_small(inbox->peer->engine, in->space, op->data, in->payload, fits);
	if (twi_unlikely(in->summed) &&
	    !twi_inbox_same_sum(
		    inbox, in->sum,
		    twi_checksum(0, fits == in->bytes ? op->data : in->payload, in->bytes)))
		twi_inbox_corrupt(inbox, op, in->bytes);
	else
		twi_inbox_received(inbox, op, in->bytes);
}

int twi_inbox_small(struct twi_inbox *inbox, const struct twi_inbound *in)
{
	struct tow_op *op;

	if (twi_unlikely(in->channel != 0))
		return twi_inbox_small_on_channel(inbox, in);
	op = twi_inbox_take_posted(inbox, in->tag, in->space, in->bytes);
	if (twi_likely(op != NULL))
		deliver_small(inbox, op, in);
	else if (inbox->instant == NULL || !twi_inbox_is_for_instant(inbox, in))
		return keep_small(inbox, in);
	else if (!twi_inbox_catch(inbox, in))
		return TOW_AGAIN;
	return TOW_OK;
}

int twi_inbox_small_on_channel(struct twi_inbox *inbox, const struct twi_inbound *in)
{
	struct tow_op *op;

	if (in->channel == TWI_CHANNEL_CONTROL)
		return twi_channels_received(inbox->peer, in, inbox->rule);
	if (twi_inbox_is_dropped(inbox, in->channel))
		return TOW_OK;
	op = twi_inbox_take_posted(inbox, in->tag, twi_context_of(in->space, in->channel),
				   in->bytes);
	if (op != NULL)
		deliver_small(inbox, op, in);
	else if (inbox->instant == NULL || !twi_inbox_is_for_instant(inbox, in))
		return keep_small(inbox, in);
	else if (!twi_inbox_catch(inbox, in))
		return TOW_AGAIN;
	return TOW_OK;
}

/* --- messages that come in parts --- */

static void filling_end(struct twi_inbox *inbox)
{
	struct twi_filling *filling = &inbox->filling;
	struct twi_unexpected *kept = filling->kept;
	struct tow_op *op = filling->op;
	bool corrupt = twi_unlikely(filling->summed) && filling->at != NULL &&
		       !twi_inbox_same_sum(inbox, filling->sent_sum, filling->sum);

	filling->op = NULL;
	filling->kept = NULL;
	filling->at = NULL;
	if (kept != NULL) {
		kept->whole = true;
		kept->corrupt = corrupt;
		if (kept->waiter != NULL)
			twi_inbox_deliver(inbox, kept->waiter,
					  twi_container_of(kept, struct twi_kept, arrival));
		return;
	}
	twi_inbox_give(inbox, filling->channel, filling->bytes);
	if (op == NULL)
		return;
	if (filling->bytes > op->bytes && !op->truncate)
		twi_inbox_end(inbox, op, TOW_ETRUNCATED, filling->bytes);
	else if (twi_unlikely(corrupt))
		twi_inbox_corrupt(inbox, op, filling->bytes);
	else
		twi_inbox_received(inbox, op, filling->bytes);
}

/* The channel was closed here, or the group is over: the message is dropped. */
static void begin_dropped(struct twi_inbox *inbox, const struct twi_inbound *in)
{
	inbox->filling = (struct twi_filling){ .seq = in->seq,
					       .bytes = in->bytes,
					       .left = in->bytes,
					       .channel = in->channel,
					       .space = in->space };
}

int twi_inbox_begin(struct twi_inbox *inbox, const struct twi_inbound *in)
{
	const uint32_t context = twi_context_of(in->space, in->channel);
	struct twi_filling *filling = &inbox->filling;
	struct tow_op *op;
	struct twi_kept *kept = NULL;
	uint64_t room = in->bytes;
	uint8_t *at = NULL;

	twi_assert_hot(filling->left == 0);
	if (twi_unlikely(in->channel == TWI_CHANNEL_CONTROL))
		return twi_channels_received(inbox->peer, in, inbox->rule); /* it has no payload */
	if (twi_unlikely(in->channel != 0) && twi_inbox_is_dropped(inbox, in->channel)) {
		begin_dropped(inbox, in);
		return TOW_OK;
	}
	op = twi_inbox_take_posted(inbox, in->tag, context, in->bytes);
	if (op == NULL && in->channel == 0 && twi_inbox_is_unwanted(inbox, in->tag, in->space)) {
		begin_dropped(inbox, in);
		if (in->bytes == 0)
			filling_end(inbox);
		return TOW_OK;
	}
	if (op == NULL) {
		kept = twi_inbox_keep(inbox, in);
		if (kept == NULL)
			return TOW_ENOMEM;
		at = kept->data;
		count_unexpected(inbox, in);
		twi_match_arrive(&inbox->match, &kept->arrival.match);
	} else {
		int status = twi_likely(!op->view) ? TOW_OK : twi_view_room(op, in->bytes);
		uint64_t run = in->bytes;

		op->seq = in->seq;
		if (twi_unlikely(status < 0)) { /* the payload is dropped */
			twi_inbox_end(inbox, op, status, in->bytes);
			op = NULL;
		} else {
			op->stage = TWI_STAGE_FILLING;
			twi_op_begun(op);
			if (in->bytes <= op->bytes || twi_inbox_cut(op, in->bytes) == TOW_OK)
				at = twi_op_at(op, 0, &run);
			room = at != NULL ? twi_min(room, op->bytes) : 0;
		}
	}
	*filling = (struct twi_filling){ .op = op,
					 .kept = kept != NULL ? &kept->arrival : NULL,
					 .at = at,
					 .room = room,
					 .seq = in->seq,
					 .bytes = in->bytes,
					 .left = in->bytes,
					 .sent_sum = in->sum,
					 .channel = in->channel,
					 .space = in->space,
					 .summed = in->summed };
	if (in->bytes == 0)
		filling_end(inbox);
	return TOW_OK;
}

/* Takes the next bytes of a message whose receive has parts. */
static void fill_parts(struct twi_inbox *inbox, const uint8_t *data, size_t bytes)
{
	struct twi_filling *filling = &inbox->filling;
	size_t fits = twi_min(bytes, (size_t)filling->room);

	if (filling->at == NULL)
		return;
	twi_path_scatter_small(inbox->peer->engine, filling->op->claim.parts,
			       filling->bytes - filling->left, data, fits);
	if (twi_unlikely(filling->summed))
		filling->sum = twi_checksum(filling->sum, data, bytes);
	filling->room -= fits;
}

size_t twi_inbox_fill(struct twi_inbox *inbox, const uint8_t *data, size_t bytes)
{
	struct twi_filling *filling = &inbox->filling;
	size_t n = twi_min(bytes, (size_t)filling->left);

	if (filling->op != NULL && twi_op_in_parts(filling->op)) {
		fill_parts(inbox, data, n);
	} else if (filling->at != NULL && n > 0) {
		size_t fits = twi_min(n, (size_t)filling->room);

		twi_path_copy_small(inbox->peer->engine, filling->space, filling->at, data, fits);
		if (twi_unlikely(filling->summed)) {
			filling->sum = twi_checksum(filling->sum, filling->at, fits);
			filling->sum = twi_checksum(filling->sum, data + fits, n - fits);
		}
		filling->at += fits;
		filling->room -= fits;
	}
	filling->left -= n;
	if (filling->left == 0)
		filling_end(inbox);
	return n;
}

void twi_inbox_leave_filling(struct twi_inbox *inbox, struct tow_op *op)
{
	struct twi_filling *filling = &inbox->filling;
	struct twi_match_entry *other;

	if (filling->op == op) {
		const struct twi_inbound in = { .seq = op->seq,
						.tag = op->tag,
						.bytes = filling->bytes,
						.channel = op->channel,
						.space = op->space };
		uint64_t got = filling->bytes - filling->left;
		struct twi_kept *kept = twi_inbox_keep(inbox, &in);

		op->seq = 0;
		filling->op = NULL;
		filling->at = NULL;
		if (kept == NULL)
			return; /* the message is lost */
		if (twi_op_in_parts(op))
			twi_path_gather(inbox->peer->engine, TWI_R_unexpected_arrival, kept->data,
					op->claim.parts, 0, got, op->site);
		else
			twi_path_copy_fallback(inbox->peer->engine, twi_space_why_kept(op->space),
					       kept->data, op->data, got, op->site);
		filling->kept = &kept->arrival;
		filling->at = kept->data + got;
		filling->room = filling->left;
	}
	filling->kept->waiter = NULL;
	twi_inbox_set_apart(inbox, &filling->kept->match);
	other = twi_match_arrive_first(&inbox->match, &filling->kept->match);
	if (other != NULL)
		twi_inbox_take(inbox, twi_container_of(other, struct tow_op, match), filling->kept);
}
