/*
 * store_wire.h - either end of one connection to a store, without its socket.
 *
 * It turns received bytes into frames, and frames into bytes to send. First both sides prove that
 * they are of the job (auth.h, purpose "store"). Then frames go in plain form or, where the job
 * encrypts, in sealed records.
 *
 *	recv -> twi_wire_feed -> [auth] -> [unseal] -> twi_wire_next -> frame
 *	frame -> twi_wire_put -> [seal] -> out -> send
 *
 * A stranger costs only the struct. The buffers for frames are made when the other side has proved
 * itself, and grow up to what one frame needs.
 */
#ifndef TWI_STORE_WIRE_H
#define TWI_STORE_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/job/store_codec.h"
#include "transport/security/auth.h"
#include "transport/security/cipher.h"

/* Bytes that grow; free() frees `bytes`. */
struct twi_wire_buffer {
	uint8_t *bytes;
	size_t used, room;
};

struct twi_wire {
	struct twi_auth auth;
	bool ready; /* the other side has proved itself */
	bool sealed;
	struct twi_cipher seal, open;
	struct twi_wire_buffer records; /* sealed bytes of an incomplete record */
	struct twi_wire_buffer in;      /* plain bytes */
	size_t taken;                   /* bytes of `in` in frames that were returned */
	struct twi_wire_buffer out;
	size_t sent; /* bytes of `out` that were sent */
};

void twi_wire_init(struct twi_wire *wire, const struct twi_job_key *key, bool connector);
void twi_wire_fini(struct twi_wire *wire);

/* Begins the authentication: the side that sends first queues its bytes. TOW_OK, TOW_ENOMEM. */
int twi_wire_begin(struct twi_wire *wire);

/* Takes received bytes. TOW_OK; TOW_EAUTH, TOW_EPROTOCOL, TOW_ENOMEM: the connection has failed. */
int twi_wire_feed(struct twi_wire *wire, const uint8_t *bytes, size_t count);

/*
 * Returns the next frame, valid until the next call with this wire. TOW_OK, TOW_AGAIN,
 * TOW_EPROTOCOL.
 */
int twi_wire_next(struct twi_wire *wire, struct twi_store_frame *out);

/* Queues a frame; only when ready. TOW_OK, TOW_EPROTOCOL, TOW_ENOMEM. */
int twi_wire_put(struct twi_wire *wire, const struct twi_store_frame *frame);

/* out returns the bytes to send; NULL: none. sent takes how many of them were sent. */
const uint8_t *twi_wire_out(const struct twi_wire *wire, size_t *count_out);
void twi_wire_sent(struct twi_wire *wire, size_t count);

#endif
