/*
 * group_handshake.h - a connection that no slot has yet: one that is dialed, or that of an unknown
 * *guest*.
 *
 * Both ends of it exchange control messages: who dials says which rank of which job it is, and the
 * other end answers (group_link.c). All functions are called with the engine held.
 */
#ifndef TWI_GROUP_HANDSHAKE_H
#define TWI_GROUP_HANDSHAKE_H

#include <stdbool.h>
#include <stdint.h>

#include <towline/endpoint.h>

#include "transport/job/group.h"

struct twi_handshake {
	struct twi_list link; /* on ranks->handshakes */
	struct twi_ranks *ranks;
	struct tow_peer *peer;
	struct tow_op *op; /* operation under way */
	uint32_t rank;     /* the rank that is dialed; of a guest: ranks->size */
	uint8_t in[TWI_GROUP_WHO_BYTES];
};

/* A handshake on the list of the ranks, which it uses until its end. NULL: no memory. */
struct twi_handshake *twi_handshake_begin(struct twi_ranks *ranks, uint32_t rank);

/* Ends a handshake. Its connection stays open only if it is a slot's now (close false). */
void twi_handshake_end(struct twi_handshake *handshake, bool close);

/* Starts a receive on the handshake's connection, which ends in `done`. */
int twi_handshake_receive(struct twi_handshake *handshake, uint64_t tag, uint64_t timeout_ns,
			  tow_op_callback done);

/* Sends a control message. It has memory of its own, as the send may outlive the handshake. */
int twi_handshake_send(struct twi_handshake *handshake, uint64_t tag, const uint32_t *words,
		       unsigned count);

/* Releases a handshake's operation that has ended. False: the ranks are closing. */
bool twi_handshake_release(struct twi_handshake *handshake, struct tow_op *op);

#endif
