/* inbox_over.c - drops messages that nobody receives. See inbox_over.h. */
#include "transport/message/inbox_over.h"

#include <stdlib.h>

#include "transport/engine/engine.h"

bool twi_inbox_is_unwanted(const struct twi_inbox *inbox, uint64_t tag, uint8_t space)
{
	return (space == TWI_SPACE_GROUP || space == TWI_SPACE_LINK) &&
	       inbox->peer->engine->hooks.group->over(inbox->peer, tag, space);
}

static void drop_kept(struct twi_inbox *inbox, struct twi_unexpected *arrival)
{
	twi_match_remove_unexpected(&inbox->match, &arrival->match);
	inbox->kept_bytes -= arrival->bytes;
	if (inbox->filling.kept == arrival) { /* the rest is dropped as it comes, then its credit */
		inbox->filling.kept = NULL;
		inbox->filling.at = NULL;
	} else {
		twi_inbox_give(inbox, 0, arrival->bytes);
	}
	free(twi_container_of(arrival, struct twi_kept, arrival));
}

void twi_inbox_drop_over(struct twi_inbox *inbox)
{
	struct twi_match_entry *entry = twi_match_first_unexpected(&inbox->match), *next;

	for (; entry != NULL; entry = next) {
		struct twi_unexpected *arrival =
			twi_container_of(entry, struct twi_unexpected, match);

		next = twi_match_next_unexpected(&inbox->match, entry);
		if (twi_channel_of(entry->context) != 0 ||
		    !twi_inbox_is_unwanted(inbox, entry->tag, twi_space_of(entry->context)))
			continue;
		if (!arrival->offered)
			drop_kept(inbox, arrival);
		else
			twi_inbox_credit_offer(inbox, arrival);
	}
}

void twi_inbox_credit_offer(struct twi_inbox *inbox, struct twi_unexpected *offer)
{
	if (offer->credited)
		return;
	offer->credited = true;
	twi_inbox_give(inbox, twi_channel_of(offer->match.context), 0);
}
