/*
 * cipher.h - one direction of an encrypted stream: records of libsodium's secretstream
 * (XChaCha20-Poly1305), whose order is part of what is authenticated.
 *
 *	0            4                                  4 + sealed
 *	+------------+----------------------------------+
 *	| sealed     | tag byte, ciphertext, 16 of MAC  |      sealed = plain + 17
 *	+------------+----------------------------------+
 *
 * The length is little-endian and not secret, but authenticated with its record. A record that was
 * changed, cut, lengthened, left out, repeated, or put at another place does not open, and nothing
 * does after it: the stream is over. A new key is derived every TWI_CIPHER_REKEY_RECORDS.
 *
 * No memory, no locks. Each is used by one thread at a time.
 */
#ifndef TWI_CIPHER_H
#define TWI_CIPHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TWI_CIPHER_RECORD_MAX    (64u << 10) /* plain bytes of one record */
#define TWI_CIPHER_OVERHEAD      (4u + 17u)  /* length and tag */
#define TWI_CIPHER_SEALED_MAX    (TWI_CIPHER_RECORD_MAX + 17u)
#define TWI_CIPHER_KEY_BYTES     56u /* a key of 32 bytes and where its nonces begin */
#define TWI_CIPHER_REKEY_RECORDS (1u << 14)

struct twi_cipher {
	_Alignas(16) uint8_t state[64]; /* a crypto_secretstream_xchacha20poly1305_state */
	uint32_t records;               /* sealed with this key */
	bool broken;                    /* a record did not open */
};

/* Both ends of a direction begin from the same bytes, which must never begin another stream. */
void twi_cipher_init(struct twi_cipher *c, const uint8_t key[TWI_CIPHER_KEY_BYTES]);

/*
 * Seals 1 to TWI_CIPHER_RECORD_MAX bytes into out, which has room for TWI_CIPHER_OVERHEAD more and
 * does not overlap them. Returns the bytes written, length included.
 */
size_t twi_cipher_seal(struct twi_cipher *c, uint8_t *out, const void *plain, size_t bytes);

/*
 * Of the record that follows these four bytes: how many bytes, tag included.
 * TOW_OK: 18 to TWI_CIPHER_SEALED_MAX. TOW_EPROTOCOL: out of range, with a message.
 */
int twi_cipher_length(const uint8_t head[4], uint32_t *sealed_out);

/*
 * Opens one whole record (without its four bytes of length) into plain_out, which has room for
 * bytes - 17 and does not overlap it. TOW_OK; TOW_EAUTH, with a message: it is not what the other
 * side sealed at this place, plain_out is undefined, and every later call says the same.
 */
int twi_cipher_open(struct twi_cipher *c, void *plain_out, const uint8_t *sealed, size_t bytes,
		    size_t *plain_bytes_out);

void twi_cipher_wipe(struct twi_cipher *c);

#endif
