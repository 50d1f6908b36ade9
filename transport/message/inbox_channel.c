/*
 * inbox_channel.c - the part of an inbox for channels (channel.h): which messages may come, and
 * what happens to waiting messages when a channel is closed.
 */
#include <stdlib.h>

#include "diag/base/error.h"
#include "transport/message/channel.h"
#include "transport/message/inbox.h"
#include "transport/wire/frame.h"
#include "transport/wire/rule.h"

static int break_rule(const struct twi_inbox *inbox, enum twi_rule which)
{
	if (*inbox->rule == 0)
		*inbox->rule = (uint8_t)which;
	return TOW_EPROTOCOL;
}

/* The credit account for messages of that channel. NULL: the channel is not open here. */
static struct twi_credit_in *account_of(struct twi_inbox *inbox, uint16_t number)
{
	struct twi_channel *channel;

	if (number == 0)
		return &inbox->credit;
	channel = twi_channel_find(inbox->peer, number);
	return twi_channel_is_open(channel) ? &channel->in : NULL;
}

int twi_inbox_admit_slowly(struct twi_inbox *inbox, uint64_t seq, uint32_t cost_bytes,
			   uint8_t space, uint16_t channel)
{
	const uint64_t cost = channel == TWI_CHANNEL_CONTROL ? 0 : twi_frame_cost(cost_bytes);
	const char *address = inbox->peer->address;
	struct twi_credit_in *credit =
		account_of(inbox, channel == TWI_CHANNEL_CONTROL ? 0 : channel);

	if (credit == NULL) {
		twi_rule_error(address, TWI_RULE_CHANNEL,
			       "sent a message of channel %u, which is not open", channel);
		return break_rule(inbox, TWI_RULE_CHANNEL);
	}
	if (seq != inbox->seq_received + 1) {
		twi_rule_error(address, TWI_RULE_MESSAGE_ORDER, "sent message %llu after %llu",
			       (unsigned long long)seq, (unsigned long long)inbox->seq_received);
		return break_rule(inbox, TWI_RULE_MESSAGE_ORDER);
	}
	if (!twi_credit_allows(credit, cost)) {
		twi_rule_error(address, TWI_RULE_CREDIT, "sent more than its credit of %llu bytes",
			       (unsigned long long)credit->bytes);
		return break_rule(inbox, TWI_RULE_CREDIT);
	}
	credit->charged += cost;
	inbox->seq_received = seq;
	twi_peer_received(inbox->peer, space);
	return TOW_OK;
}

void twi_inbox_put_off(struct twi_inbox *inbox, const struct twi_inbound *in)
{
	struct twi_credit_in *credit = account_of(inbox, in->channel);

	twi_assert(in->space == TWI_SPACE_USER && credit != NULL);
	credit->charged -= twi_frame_cost((uint32_t)in->bytes);
	inbox->seq_received--;
}

bool twi_inbox_is_dropped(const struct twi_inbox *inbox, uint16_t channel)
{
	const struct twi_channel *known = twi_channel_find(inbox->peer, channel);

	return known == NULL || known->user == NULL;
}

void twi_inbox_set_apart(const struct twi_inbox *inbox, struct twi_match_entry *message)
{
	const uint16_t channel = twi_channel_of(message->context);

	if (twi_unlikely(channel != 0) && twi_inbox_is_dropped(inbox, channel))
		message->context = twi_context_of(TWI_SPACE_NOBODY, channel);
}

bool twi_inbox_is_over(struct twi_inbox *inbox, struct tow_op *op)
{
	int status = twi_channel_status(inbox->peer, op->channel);

	if (status == TOW_OK)
		return false;
	twi_match_remove_posted(&inbox->match, &op->match);
	twi_inbox_end(inbox, op, status, 0);
	return true;
}

static struct twi_unexpected *arrival_of(struct twi_match_entry *entry)
{
	return twi_container_of(entry, struct twi_unexpected, match);
}

/* The message is in no table any more. */
static void free_kept(struct twi_inbox *inbox, struct twi_unexpected *arrival)
{
	if (inbox->filling.kept == arrival) { /* the rest of it is dropped as it comes */
		inbox->filling.kept = NULL;
		inbox->filling.at = NULL;
	}
	inbox->kept_bytes -= arrival->bytes;
	free(twi_container_of(arrival, struct twi_kept, arrival));
}

static void drop_arrivals(struct twi_inbox *inbox, uint16_t channel, bool offers_too)
{
	struct twi_match_entry *entry = twi_match_first_unexpected(&inbox->match), *next;

	for (; entry != NULL; entry = next) {
		struct twi_unexpected *arrival = arrival_of(entry);

		next = twi_match_next_unexpected(&inbox->match, entry);
		if (twi_channel_of(entry->context) != channel ||
		    (!offers_too && twi_space_of(entry->context) == TWI_SPACE_NOBODY))
			continue;
		twi_match_remove_unexpected(&inbox->match, entry);
		if (!arrival->offered)
			free_kept(inbox, arrival);
		else if (offers_too)
			inbox->ops->forget(inbox, arrival);
		else
			twi_inbox_put_back(inbox, arrival); /* set apart from now on */
	}
}

void twi_inbox_drop_channel(struct twi_inbox *inbox, uint16_t channel)
{
	drop_arrivals(inbox, channel, false);
}

void twi_inbox_forget_channel(struct twi_inbox *inbox, uint16_t channel)
{
	drop_arrivals(inbox, channel, true);
}
