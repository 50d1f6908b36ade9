/*
 * credit.h - credit: how much a receiver allows its sender to have in flight or waiting, and how
 * much of that is used.
 *
 * Each message costs as much as its frame (twi_frame_cost). An offer costs as much as a frame
 * without payload. The cost is held from the time of sending until the receiver gives it back. A
 * peer has one pair of accounts, and each of its channels has its own pair.
 *
 *	sender     used - returned <= bytes       used grows by each message
 *	receiver   charged - given <= bytes       charged grows by each message that comes,
 *	                                          given by each that a receive has taken
 *	returned follows given: the receiver reports when a quarter of `bytes` has come together.
 */
#ifndef TWI_CREDIT_H
#define TWI_CREDIT_H

#include <stdbool.h>
#include <stdint.h>

/* `bytes` is the limit; all other members are totals since the start. */
struct twi_credit_out {
	uint64_t bytes;
	uint64_t used, returned;
};

struct twi_credit_in {
	uint64_t bytes;
	uint64_t charged, given;
	uint64_t reported; /* how much of `given` was reported to the sender */
};

/* Is there credit to send a message of this cost? */
static inline bool twi_credit_has(const struct twi_credit_out *credit, uint64_t cost)
{
	return credit->used - credit->returned + cost <= credit->bytes;
}

/* Does the credit that was granted allow a message of this cost to come? */
static inline bool twi_credit_allows(const struct twi_credit_in *credit, uint64_t cost)
{
	return credit->charged - credit->given + cost <= credit->bytes;
}

/* Should the sender get a report of what was given? */
static inline bool twi_credit_is_due(const struct twi_credit_in *credit)
{
	return credit->given - credit->reported >= credit->bytes / 4;
}

#endif
