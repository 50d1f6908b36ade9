/*
 * lone_peer.h - a peer of the loop lane without a connection, in a simulated runtime whose engine
 * the test holds: for tests that play a lane to an inbox or an outbox of their own.
 */
#ifndef TWT_LONE_PEER_H
#define TWT_LONE_PEER_H

#include "twt.h"

#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/op/endpoint.h"

void twt_lone_open(struct tow_runtime **runtime_out, struct twi_engine **engine_out,
		   struct tow_peer **peer_out);

/* Returns the status of tow_runtime_close. */
int twt_lone_close(struct tow_runtime *runtime, struct tow_peer *peer);

#endif
