/*
 * credit.h - two accounts of one thing: what a receiver allows its sender to have on its way or
 * waiting, and what of it is used. Each message costs as much as its frame (twi_frame_cost), an
 * offer as one without payload, from its going until its receiver gives it back. A peer has one
 * pair of accounts, each of its channels another.
 *
 *	sender     used - returned <= bytes       used grows by each message
 *	receiver   charged - given <= bytes       given grows by each that was received
 *	returned follows given, as the receiver tells: when a quarter of all has come together.
 */
#ifndef TWI_CREDIT_H
#define TWI_CREDIT_H

#include <stdbool.h>
#include <stdint.h>

/* All but the first since the start. */
struct twi_credit_out {
	uint64_t bytes;
	uint64_t used, returned;
};

struct twi_credit_in {
	uint64_t bytes;
	uint64_t charged, given;
	uint64_t told; /* of what was given, to the sender */
};

/* May a message that costs so much go? */
static inline bool twi_credit_has(const struct twi_credit_out *credit, uint64_t cost)
{
	return credit->used - credit->returned + cost <= credit->bytes;
}

/* May one have come? */
static inline bool twi_credit_allows(const struct twi_credit_in *credit, uint64_t cost)
{
	return credit->charged - credit->given + cost <= credit->bytes;
}

/* Should the sender be told of what was given? */
static inline bool twi_credit_is_due(const struct twi_credit_in *credit)
{
	return credit->given - credit->told >= credit->bytes / 4;
}

#endif
