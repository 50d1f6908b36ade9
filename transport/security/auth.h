/*
 * auth.h - the handshake that shows both ends of a new connection that the other one knows the
 * job's key.
 *
 * The code is pure: bytes in, bytes out, a struct of fixed size, no memory, no clock, no socket.
 * docs/security.md draws the bytes and says what they protect from.
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
 * The acceptor sends nothing until a whole legal greeting has come, and no MAC before it has seen
 * the connector's. A stranger gets a greeting with a nonce from it, and at most a refusal.
 *
 * Both proofs are over both greetings. Their order gives the roles, and they hold the purpose, the
 * flags and a fresh nonce of each side. So a message that is replayed, reflected, taken from
 * another purpose or changed on its way fits no proof.
 *
 * Use: send the bytes of twi_auth_out, and pass each received byte to twi_auth_in, repeatedly.
 * There may be bytes to send after a refusal too: they tell the other side why.
 */
#ifndef TWI_AUTH_H
#define TWI_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/security/cipher.h"
#include "transport/security/job_key.h"

/* The version of the whole protocol, which begins with the greeting; version 1 had no greeting. */
#define TWI_AUTH_VERSION 2

#define TWI_AUTH_MAGIC          0x0048545541574f54ull /* "TOWAUTH\0" in wire order */
#define TWI_AUTH_GREETING_BYTES 96
#define TWI_AUTH_PROOF_BYTES    40
#define TWI_AUTH_PURPOSE_BYTES  16  /* with at least one zero at the end */
#define TWI_AUTH_OUT_MAX        256 /* the most that one step has to send */

/* The flags of a greeting. */
#define TWI_AUTH_KEYED   0x1u /* the side has a job key */
#define TWI_AUTH_ENCRYPT 0x2u /* the side wants encryption; only with KEYED */

struct twi_auth {
	uint8_t state; /* enum auth_state of auth.c; 0: not started */
	bool connector;
	bool keyed;
	bool encrypt;  /* this side wants it */
	bool encrypts; /* the stream will be encrypted; valid once the other greeting is here */
	int status;    /* why it was refused */
	char purpose[TWI_AUTH_PURPOSE_BYTES];
	uint8_t key[TWI_JOB_KEY_BYTES];
	uint8_t secret[32];                            /* of this side's ephemeral X25519 pair */
	uint8_t greetings[2][TWI_AUTH_GREETING_BYTES]; /* the connector's, the acceptor's */
	uint8_t in[TWI_AUTH_GREETING_BYTES];           /* the message that is arriving */
	uint8_t out[TWI_AUTH_OUT_MAX];
	uint16_t in_bytes, out_bytes;
	uint8_t keys[2][TWI_CIPHER_KEY_BYTES]; /* for the connector's stream, for the acceptor's */
};

/*
 * Begins the exchange at one end. `purpose` ("tcp", "shm", "ofi", "store") is the use of the
 * connection, and must be the same at both ends. The key is copied. A key that is not set makes an
 * open exchange.
 */
void twi_auth_start(struct twi_auth *auth, const struct twi_job_key *key, bool connector,
		    const char *purpose);

/* Moves the bytes to send now to `out`. Returns how many, or 0. Call this after every _in. */
size_t twi_auth_out(struct twi_auth *auth, uint8_t out[TWI_AUTH_OUT_MAX]);

/*
 * Takes received bytes, and sets *used_out to the number that belonged to the exchange.
 * TOW_AGAIN: all did, and more are needed. TOW_OK: the other side is a member (in an open exchange:
 * has no key either); send the bytes of _out, then go on with the bytes behind the used ones.
 * TOW_EAUTH, TOW_EPROTOCOL: refused, with a message; send the bytes of _out, then close.
 */
int twi_auth_in(struct twi_auth *auth, const uint8_t *data, size_t bytes, size_t *used_out);

/* Whether _in has returned TOW_OK. */
bool twi_auth_done(const struct twi_auth *auth);

/* Whether the exchange is done, both sides have a key, and one of them wants encryption. */
bool twi_auth_encrypts(const struct twi_auth *auth);

/* Makes the two ciphers of an exchange that is done and encrypts. Only once: it wipes the keys. */
void twi_auth_ciphers(struct twi_auth *auth, struct twi_cipher *send, struct twi_cipher *receive);

/* Wipes everything, also when the connection ends before the exchange is done. */
void twi_auth_wipe(struct twi_auth *auth);

#endif
