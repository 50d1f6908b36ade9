/*
 * store_wire.h - one connection to a store, either end, without its socket: bytes in, frames out,
 * and the other way round. First both sides prove that they are of the job (auth.h, purpose
 * "store"); then frames go as they are, or, where the job encrypts, in sealed records.
 *
 *	recv -> twi_wire_feed -> [auth] -> [unseal] -> twi_wire_next -> frame
 *	frame -> twi_wire_put -> [seal] -> out -> send
 *
 * A stranger costs the struct alone: buffers are made when the other side has proved itself, and
 * grow up to what one frame needs.
 */
#ifndef TWI_STORE_WIRE_H
#define TWI_STORE_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/job/store_codec.h"
#include "transport/security/auth.h"
#include "transport/security/cipher.h"

/* Bytes that grow; free() is the end of `bytes`. */
struct twi_wire_buffer {
	uint8_t *bytes;
	size_t used, room;
};

struct twi_wire {
	struct twi_auth auth;
	bool ready; /* the other side is a member */
	bool sealed;
	struct twi_cipher seal, open;
	struct twi_wire_buffer records; /* sealed bytes that are not a whole record yet */
	struct twi_wire_buffer in;      /* plain bytes */
	size_t taken;                   /* of `in`, by frames that were handed out */
	struct twi_wire_buffer out;
	size_t sent; /* of `out` */
};

void twi_wire_init(struct twi_wire *wire, const struct twi_job_key *key, bool connector);
void twi_wire_fini(struct twi_wire *wire);

/* Begins: whoever has something to say first queues it. TOW_OK, TOW_ENOMEM. */
int twi_wire_begin(struct twi_wire *wire);

/* Bytes that have come. TOW_OK; TOW_EAUTH, TOW_EPROTOCOL, TOW_ENOMEM: the connection is over. */
int twi_wire_feed(struct twi_wire *wire, const uint8_t *bytes, size_t count);

/*
 * The next frame, valid until the next call with this wire. TOW_OK, TOW_AGAIN, TOW_EPROTOCOL.
 */
int twi_wire_next(struct twi_wire *wire, struct twi_store_frame *out);

/* Queues a frame; only when ready. TOW_OK, TOW_ENOMEM. */
int twi_wire_put(struct twi_wire *wire, const struct twi_store_frame *frame);

/* What is to be sent; NULL: nothing. Then how much of it was. */
const uint8_t *twi_wire_out(const struct twi_wire *wire, size_t *count_out);
void twi_wire_sent(struct twi_wire *wire, size_t count);

#endif
