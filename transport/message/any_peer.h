/*
 * any_peer.h - receives of any peer of an endpoint.
 *
 *	endpoint->any     r4 - r9 - r12        from the oldest on, in no peer's table
 *	                   |
 *	        +----------+----------+
 *	   table of a   table of b   table of c    each looks there too, once it is wild (match.h)
 *
 * Its op->peer is NULL while it is on that list, and that of its message when it has met one. Then
 * it is as any receive of this peer, up to its end; also when the peer fails. Where its message is
 * taken back by the sender it goes back to the list, with its old number.
 *
 * A new one looks at the messages that wait at each peer, in turns, so that none is left behind;
 * that is a walk over the peers of the endpoint. One that comes back does so in the next poll, when
 * the lanes are at rest: until then it is on no list, and what comes is another's.
 *
 * One of a channel's number stands there with that context. When the channel of a peer ends, those
 * that wait go on; one that is held at this peer, as a view that has no room, goes back as well.
 *
 * The engine is held in all of it.
 */
#ifndef TWI_ANY_PEER_H
#define TWI_ANY_PEER_H

#include "transport/engine/hooks.h"

struct tow_op;

extern const struct twi_match_hooks twi_any_hooks;

/* What it had met is not to be had; it is in no table, and its claim on no list. */
void twi_any_again(struct tow_op *op);

#endif
