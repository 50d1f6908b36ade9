/*
 * match_entry.h - what operations and messages that wait are matched by: a tag, and whose it is.
 * The tables of what waits are transport/message/match.h.
 */
#ifndef TWI_MATCH_ENTRY_H
#define TWI_MATCH_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "diag/record/counter.h"
#include <internal/list.h>

/* Whose tags they are, in the order of the counters of each (counter.def); two bits on the wire. */
enum twi_space {
	TWI_SPACE_USER,
	TWI_SPACE_RPC,   /* calls (rpc.h) */
	TWI_SPACE_GROUP, /* collectives and barriers */
	TWI_SPACE_LINK,  /* what the library has to say to itself: clocks, ranks, inquiries */
	TWI_SPACE_COUNT
};

/*
 * What the library says to itself is in no latency, copy, span or registration, and in no counter
 * but internal_*: they say what the user's payload costs.
 */
static inline bool twi_space_counts(uint8_t space)
{
	return space != TWI_SPACE_LINK;
}

/* Why a message that nobody had posted a receive for is copied once more. */
static inline enum twi_reason twi_space_why_kept(uint8_t space)
{
	return space == TWI_SPACE_GROUP ? TWI_R_collective_ahead : TWI_R_unexpected_arrival;
}

/*
 * A *context* is whose tags they are, and of which channel of the peer (channel.h; 0: the peer
 * itself). A message goes to receives of its context alone. Channels are the user's.
 */
static inline uint32_t twi_context_of(uint8_t space, uint16_t channel)
{
	return space | (uint32_t)channel << 8;
}

/* In place of the space: of messages that no receive takes, as their channel was closed here. */
#define TWI_SPACE_NOBODY TWI_SPACE_COUNT

static inline uint8_t twi_space_of(uint32_t context)
{
	return (uint8_t)context;
}

static inline uint16_t twi_channel_of(uint32_t context)
{
	return (uint16_t)(context >> 8);
}

/*
 * Part of a receive operation or of an unexpected message. On at most one table at a time. The
 * caller sets tag, context and order before it posts the receive or the message arrives.
 */
struct twi_match_entry {
	struct twi_list link;
	uint64_t tag;      /* of a wild receive: the bits that count, the others are 0 */
	uint64_t order;    /* a message: its number; a receive: likewise, in the whole runtime */
	uint64_t tag_mask; /* of a wild receive: which bits count */
	uint32_t context;  /* tags of two contexts never meet */
	bool held;         /* a queued receive that cannot take its message now (twi_match_hold) */
	bool wild;         /* a receive that takes more than one tag, or any peer */
	bool any;          /* a wild one of any peer */
};

#endif
