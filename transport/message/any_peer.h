/*
 * any_peer.h - receives of any peer of an endpoint.
 *
 *	endpoint->any     r4 - r9 - r12        oldest first, in no peer's table
 *	                   |
 *	        +----------+----------+
 *	   table of a   table of b   table of c    each looks there too, once it is wild (match.h)
 *
 * While such a receive is on that list, its op->peer is NULL. When it has met a message, op->peer
 * is the peer of that message. From then on it is like any receive of this peer, up to its end,
 * also when the peer fails. If the sender takes the message back, the receive returns to the list
 * with its old number.
 *
 * A new receive looks at the messages that wait at each peer of the endpoint. It takes the peers in
 * turns, so that no peer is left behind. A receive that comes back looks in the next poll, when the
 * lanes are at rest. Until then it is on no list, and messages that come go to other receives.
 *
 * A receive of a channel number stands on the list with that context. When the channel of one peer
 * ends, receives that wait go on. A receive that is held at this peer, as a view without room,
 * returns to the list as well.
 *
 * The engine is held in all calls.
 */
#ifndef TWI_ANY_PEER_H
#define TWI_ANY_PEER_H

#include "transport/engine/hooks.h"

struct tow_op;

extern const struct twi_match_hooks twi_any_hooks;

/* The receive has lost its message: it waits again. It is in no table, and its lease on no list. */
void twi_any_again(struct tow_op *op);

#endif
