/*
 * group_over.h - messages of collectives and barriers that nobody receives any more.
 *
 * A rank may send messages of a collective long before another has begun it. They wait there, and
 * hold credit of the connection. If that rank never begins the collective, as its group is broken
 * or closed, they are dropped, so that all other messages of the connection go on.
 */
#ifndef TWI_GROUP_OVER_H
#define TWI_GROUP_OVER_H

#include "transport/job/group.h"

/* Whose messages are dropped from now on: of a group's collectives, or of its barriers. */
enum twi_over { TWI_OVER_COLLS, TWI_OVER_BARRIERS };

/*
 * None of a group's is received any more: drops what has come from its members, and what will come.
 * The engine is held.
 */
void twi_group_over(struct twi_ranks *ranks, uint32_t ctx, enum twi_over what,
		    const uint32_t *members, uint32_t size);

/* Is a message with that tag one of those? (twi_group_hooks) */
bool twi_group_is_over(const struct tow_peer *peer, uint64_t tag, uint8_t space);

#endif
