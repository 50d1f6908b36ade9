/*
 * match_entry.h - what waiting operations and messages are matched by: a tag, and its context. The
 * tables of waiting operations and messages are in transport/message/match.h.
 */
#ifndef TWI_MATCH_ENTRY_H
#define TWI_MATCH_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "diag/record/counter.h"
#include <internal/list.h>

/* Tag spaces, in the order of the counters of each (counter.def). A space has two wire bits. */
enum twi_space {
	TWI_SPACE_USER,
	TWI_SPACE_RPC,   /* calls (rpc.h) */
	TWI_SPACE_GROUP, /* collectives and barriers */
	TWI_SPACE_LINK,  /* the library's own messages: clocks, ranks, inquiries */
	TWI_SPACE_COUNT
};

/*
 * Whether messages of the space are counted. The library's own messages are in no latency, copy,
 * span or registration, and in no counter but internal_*. Those figures say what the user's payload
 * costs.
 */
static inline bool twi_space_counts(uint8_t space)
{
	return space != TWI_SPACE_LINK;
}

/* The reason for one more copy of a message that arrives before its receive is posted. */
static inline enum twi_reason twi_space_why_kept(uint8_t space)
{
	return space == TWI_SPACE_GROUP ? TWI_R_collective_ahead : TWI_R_unexpected_arrival;
}

/*
 * The *context* of a tag is its space, and the channel of the peer (channel.h; 0: the peer itself).
 * A message goes only to receives of its context. Only the user's space has channels.
 */
static inline uint32_t twi_context_of(uint8_t space, uint16_t channel)
{
	return space | (uint32_t)channel << 8;
}

/* Stands in place of the space, in messages that no receive takes: their channel is closed here. */
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
 * The part of a receive operation, or of an unexpected message, that is in at most one table at a
 * time. The caller sets tag, context and order before it posts the receive or the message arrives.
 */
struct twi_match_entry {
	struct twi_list link;
	uint64_t tag;      /* of a wild receive: the bits that count; the others are 0 */
	uint64_t order;    /* of a message: its number; of a receive: its number in the runtime */
	uint64_t tag_mask; /* of a wild receive: the mask of the bits that count */
	uint32_t context;  /* tags of two contexts never meet */
	bool held;         /* a queued receive that cannot take its message now (twi_match_hold) */
	bool wild;         /* a receive that takes more than one tag, or any peer */
	bool any;          /* a wild receive of any peer */
};

#endif
