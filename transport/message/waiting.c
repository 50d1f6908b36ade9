/*
 * waiting.c - see waiting.h.
 */
#include "transport/message/waiting.h"

#include "transport/message/inbox.h"
#include "transport/op/message.h"

#define UNRECEIVED_SCANNED 64u /* most messages that are examined */

void twi_view_hold(struct twi_match *match, struct tow_op *op, uint64_t bytes)
{
	twi_view_wait(op, bytes);
	twi_match_hold(match, &op->match);
}

static void describe_spaces(const char *const names[TWI_SPACE_COUNT],
			    const uint64_t others[TWI_SPACE_COUNT], uint64_t all,
			    struct twi_emit *emit)
{
	for (unsigned space = TWI_SPACE_USER + 1; space < TWI_SPACE_COUNT; space++)
		all -= twi_min(others[space], all);
	twi_emit_u64(emit, names[TWI_SPACE_USER], all);
	for (unsigned space = TWI_SPACE_USER + 1; space < TWI_SPACE_COUNT; space++)
		twi_emit_u64(emit, names[space], others[space]);
}

void twi_peer_messages_describe(const struct tow_peer *peer, uint64_t sent, uint64_t received,
				const struct twi_match *match, struct twi_emit *emit)
{
	static const char *const out[TWI_SPACE_COUNT] = { "messages_sent", "call_messages_sent",
							  "coll_messages_sent",
							  "internal_messages_sent" };
	static const char *const in[TWI_SPACE_COUNT] = { "messages_received",
							 "call_messages_received",
							 "coll_messages_received",
							 "internal_messages_received" };

	describe_spaces(out, peer->sent, sent, emit);
	describe_spaces(in, peer->received, received, emit);
	twi_emit_u64(emit, "unexpected_messages",
		     twi_match_count_unexpected(match, TWI_SPACE_USER));
	twi_emit_u64(emit, "receives_posted", twi_match_count_posted(match, TWI_SPACE_USER));
}

uint32_t twi_message_unreceived(const struct tow_peer *peer, struct twi_unreceived *out,
				uint32_t room)
{
	const struct twi_match *match = peer->inbox != NULL ? &peer->inbox->match : NULL;
	const struct twi_match_entry *entry =
		match != NULL ? twi_match_first_unexpected(match) : NULL;
	uint32_t count = 0;

	twi_assert_held(peer->engine);
	for (uint32_t i = 0; entry != NULL && i < UNRECEIVED_SCANNED && count < room; i++) {
		const struct twi_unexpected *message =
			twi_container_of(entry, struct twi_unexpected, match);

		if (twi_space_of(entry->context) == TWI_SPACE_USER)
			out[count++] = (struct twi_unreceived){
				.seq = message->seq,
				.tag = entry->tag,
				.bytes = message->bytes,
				.channel = twi_channel_of(entry->context),
			};
		entry = twi_match_next_unexpected(match, entry);
	}
	return count;
}
