/*
 * auth.h - do both ends of a new connection know the job's key? Pure: bytes in, bytes out, a struct
 * of fixed size, no memory, no clock, no socket. docs/security.md draws the bytes and says what
 * they protect from.
 *
 *	connector                                              acceptor
 *	   | greeting: version, flags, purpose, nonce, X25519     |
 *	   | ---------------------------------------------------> |
 *	   |         greeting: version, flags, purpose, nonce, .. |
 *	   | <--------------------------------------------------- |   open: both are done here
 *	   | proof: MAC(key, "connector", both greetings)         |
 *	   | ---------------------------------------------------> |
 *	   |          proof: MAC(key, "acceptor", both greetings) |
 *	   | <--------------------------------------------------- |
 *
 * The acceptor is silent until a whole legal greeting has come, and makes no MAC for anyone who has
 * not shown one: a stranger gets a nonce from it and nothing else. Both proofs are over both
 * greetings, which hold the roles by their order, the purpose, the flags and a fresh nonce of each
 * side: a message that is replayed, reflected, taken from another purpose or changed on its way
 * fits no proof.
 *
 * Use: send what twi_auth_out gives, feed what comes to twi_auth_in, again and again. Also after a
 * refusal there may be bytes to send: they tell the other side why.
 */
#ifndef TWI_AUTH_H
#define TWI_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/security/cipher.h"
#include "transport/security/job_key.h"

/* Of the protocol as a whole, of which the greeting is the first word; version 1 had none. */
#define TWI_AUTH_VERSION 2

#define TWI_AUTH_MAGIC          0x0048545541574f54ull /* "TOWAUTH\0" as it lies on the wire */
#define TWI_AUTH_GREETING_BYTES 96
#define TWI_AUTH_PROOF_BYTES    40
#define TWI_AUTH_PURPOSE_BYTES  16  /* with at least one zero at the end */
#define TWI_AUTH_OUT_MAX        256 /* the most that one step has to send */

/* The flags of a greeting. */
#define TWI_AUTH_KEYED   0x1u /* has a job key */
#define TWI_AUTH_ENCRYPT 0x2u /* wants what follows encrypted; only with KEYED */

struct twi_auth {
	uint8_t state; /* of auth.c; 0: not started */
	bool connector;
	bool keyed;
	bool encrypt;  /* this side wants it */
	bool encrypts; /* it will be; valid once the other's greeting is there */
	int status;    /* why it was refused */
	char purpose[TWI_AUTH_PURPOSE_BYTES];
	uint8_t key[TWI_JOB_KEY_BYTES];
	uint8_t secret[32];                            /* of our ephemeral X25519 pair */
	uint8_t greetings[2][TWI_AUTH_GREETING_BYTES]; /* the connector's, the acceptor's */
	uint8_t in[TWI_AUTH_GREETING_BYTES];           /* the message that is coming */
	uint8_t out[TWI_AUTH_OUT_MAX];
	uint16_t in_bytes, out_bytes;
	uint8_t keys[2][TWI_CIPHER_KEY_BYTES]; /* of what the connector, the acceptor says */
};

/*
 * Begins the exchange at one end. `purpose` ("tcp", "shm", "ofi", "store") is what the connection
 * is for; both ends must mean the same. The key is copied; one that is not set makes an open
 * exchange.
 */
void twi_auth_start(struct twi_auth *auth, const struct twi_job_key *key, bool connector,
		    const char *purpose);

/* Takes away the bytes to send now and returns how many: 0 is none. Ask again after every _in. */
size_t twi_auth_out(struct twi_auth *auth, uint8_t out[TWI_AUTH_OUT_MAX]);

/*
 * Takes bytes that came and says in *used_out how many of them were of the exchange.
 * TOW_AGAIN: all were, and more is needed. TOW_OK: the other side is a member (and, in an open
 * exchange, an equal); send what _out has, then go on with what follows the used bytes.
 * TOW_EAUTH, TOW_EPROTOCOL: refused, with a message; send what _out has, then close.
 */
int twi_auth_in(struct twi_auth *auth, const uint8_t *data, size_t bytes, size_t *used_out);

/* Has _in said TOW_OK? */
bool twi_auth_done(const struct twi_auth *auth);

/* Is it done, have both a key, and does one of them want encryption? */
bool twi_auth_encrypts(const struct twi_auth *auth);

/* Makes the two ciphers of an exchange that is done and encrypts. Once: the keys are wiped. */
void twi_auth_ciphers(struct twi_auth *auth, struct twi_cipher *send, struct twi_cipher *receive);

/* Forgets everything, as when the connection goes before the exchange is done. */
void twi_auth_wipe(struct twi_auth *auth);

#endif
