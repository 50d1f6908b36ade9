/*
 * waiting.h - the match table of a lane: views that wait for room, and the figures of /v1/peers.
 */
#ifndef TWI_WAITING_H
#define TWI_WAITING_H

#include "diag/base/emit.h"
#include "transport/message/match.h"
#include "transport/op/endpoint.h"

/* Puts a matched view back, in front and held, as the pool has no room for it (twi_view_ready). */
void twi_view_hold(struct twi_match *match, struct tow_op *op, uint64_t bytes);

/*
 * Members of one object of /v1/peers: messages by space, of `sent` and `received` in all; and how
 * many of the user's messages and receives wait.
 */
void twi_peer_messages_describe(const struct tow_peer *peer, uint64_t sent, uint64_t received,
				const struct twi_match *match, struct twi_emit *emit);

#endif
