/*
 * instant.c - receives without an operation. They take a kept message, or one that comes while the
 * lane looks for it.
 *
 * Such a receive cannot take a large message, one that is to have a span, or one that differs from
 * what was sent. That message is left where it is, for the operation that follows.
 */
#include <stdlib.h>

#include "diag/base/checksum.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "diag/record/span.h"
#include "transport/engine/held_count.h"
#include "transport/message/inbox.h"
#include "transport/op/path.h"

/* May the message be taken without an operation? Not if it has a span: the operation times that. */
static bool message_fits_instant(const struct twi_inbox *inbox, const struct twi_instant *instant,
				 uint64_t bytes, uint64_t seq)
{
	if (bytes > instant->bytes && !instant->truncate)
		return false;
#ifndef TWI_NO_DIAGNOSTICS
	return !twi_span_chosen(inbox->peer->engine->diag, bytes, seq);
#else
	(void)inbox, (void)seq;
	return true;
#endif
}

static void instant_fill(struct twi_inbox *inbox, struct twi_instant *instant, uint64_t tag,
			 uint64_t bytes, uint64_t seq)
{
	struct twi_engine *engine = inbox->peer->engine;

	instant->taken = true;
	instant->message_tag = tag;
	instant->message_bytes = bytes;
	instant->seq = seq;
	twi_held_count_two(engine, TWI_C_recvs, 1, TWI_C_ops_completed, 1);
	twi_held_count(engine, TWI_C_recv_bytes, twi_min(bytes, instant->bytes));
}

/*
 * Does the next message for this receive belong to an older receive? If there are wild receives,
 * any of them may be that one.
 */
static bool is_behind(struct twi_match *match, const struct twi_instant *instant)
{
	const uint64_t tag = instant->tag;
	const uint32_t context = instant->context;

	if (!twi_match_awaited(match))
		return false;
	return match->wild ||
	       twi_match_find(&match->posted[twi_match_hash(tag, context)], tag, context) != NULL;
}

/* The entry that this receive would have in the match table. */
static struct twi_match_entry entry_of(const struct twi_instant *instant)
{
	return (struct twi_match_entry){
		.tag = instant->tag,
		.tag_mask = instant->mask,
		.order = UINT64_MAX, /* it is the youngest */
		.context = instant->context,
		.wild = instant->mask != UINT64_MAX,
	};
}

int twi_inbox_instant(struct twi_inbox *inbox, struct twi_instant *instant)
{
	const struct twi_match_entry recv = entry_of(instant);
	struct twi_unexpected *arrival;
	struct twi_match_entry *entry;
	struct twi_kept *kept;

	if (twi_unlikely(!twi_match_calm(&inbox->match)))
		return TOW_EBUSY;
	entry = twi_match_meets(&inbox->match, &recv);
	if (twi_likely(entry == NULL))
		return is_behind(&inbox->match, instant) ? TOW_EBUSY : TOW_AGAIN;
	arrival = twi_container_of(entry, struct twi_unexpected, match);
	if (arrival->offered || !arrival->whole || arrival->corrupt ||
	    !message_fits_instant(inbox, instant, arrival->bytes, arrival->seq))
		return TOW_EBUSY;
	kept = twi_container_of(arrival, struct twi_kept, arrival);
	twi_match_drop_message(&inbox->match, entry);
	inbox->kept_bytes -= arrival->bytes;
	twi_inbox_give(inbox, twi_channel_of(instant->context), arrival->bytes);
	twi_path_copy_fallback(inbox->peer->engine, TWI_R_unexpected_arrival, instant->data,
			       kept->data, twi_min(arrival->bytes, instant->bytes), instant->site);
	instant_fill(inbox, instant, entry->tag, arrival->bytes, arrival->seq);
	free(kept);
	return TOW_OK;
}

/* Does an older message wait that the receive takes? It may have come while the lane looked. */
static bool is_overtaking(struct twi_inbox *inbox)
{
	const struct twi_match_entry recv = entry_of(inbox->instant);

	return twi_match_meets(&inbox->match, &recv) != NULL;
}

bool twi_inbox_is_for_instant(struct twi_inbox *inbox, const struct twi_inbound *in)
{
	const struct twi_instant *instant = inbox->instant;

	return !instant->taken && twi_context_of(in->space, in->channel) == instant->context &&
	       (in->tag & instant->mask) == instant->tag && twi_match_calm(&inbox->match) &&
	       (inbox->match.unexpected_count == 0 || !is_overtaking(inbox));
}

bool twi_inbox_catch(struct twi_inbox *inbox, const struct twi_inbound *in)
{
	struct twi_instant *instant = inbox->instant;

	if (!message_fits_instant(inbox, instant, in->bytes, in->seq))
		return false;
	if (twi_unlikely(in->summed) &&
	    !twi_inbox_same_sum(inbox, in->sum, twi_checksum(0, in->payload, in->bytes)))
		return false;
	twi_inbox_give(inbox, in->channel, in->bytes);
	twi_path_copy_small(inbox->peer->engine, in->space, instant->data, in->payload,
			    twi_min(in->bytes, instant->bytes));
	instant_fill(inbox, instant, in->tag, in->bytes, in->seq);
	return true;
}
