/*
 * cipher.h - one direction of an encrypted stream. It is made of records of libsodium's
 * secretstream (XChaCha20-Poly1305), which also authenticates their order.
 *
 *	0            4                                  4 + sealed
 *	+------------+----------------------------------+
 *	| sealed     | tag byte, ciphertext, 16 of MAC  |      sealed = plain + 17
 *	+------------+----------------------------------+
 *
 * The length is little-endian. It is not secret, but authenticated with its record. A record that
 * was changed, cut, lengthened, left out, repeated or moved does not open. No later record opens
 * either: the stream is over. A new key is derived every TWI_CIPHER_REKEY_RECORDS.
 *
 * A cipher allocates no memory and takes no lock. One thread at a time uses it.
 */
#ifndef TWI_CIPHER_H
#define TWI_CIPHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TWI_CIPHER_RECORD_MAX    (64u << 10) /* plain bytes of one record */
#define TWI_CIPHER_OVERHEAD      (4u + 17u)  /* length and tag */
#define TWI_CIPHER_SEALED_MAX    (TWI_CIPHER_RECORD_MAX + 17u)
#define TWI_CIPHER_KEY_BYTES     56u /* a key of 32 bytes, and the beginning of its nonces */
#define TWI_CIPHER_REKEY_RECORDS (1u << 14)

struct twi_cipher {
	_Alignas(16) uint8_t state[64]; /* a crypto_secretstream_xchacha20poly1305_state */
	uint32_t records;               /* records sealed with this key */
	bool broken;                    /* a record did not open */
};

/* Both ends of a direction begin with the same bytes, which must never begin another stream. */
void twi_cipher_init(struct twi_cipher *c, const uint8_t key[TWI_CIPHER_KEY_BYTES]);

/*
 * Seals 1 to TWI_CIPHER_RECORD_MAX bytes into out. There must be room for TWI_CIPHER_OVERHEAD more
 * bytes, and no overlap. Returns the bytes written, length included.
 */
size_t twi_cipher_seal(struct twi_cipher *c, uint8_t *out, const void *plain, size_t bytes);

/*
 * Reads the size of the record that follows these four bytes, tag included.
 * TOW_OK: 18 to TWI_CIPHER_SEALED_MAX. TOW_EPROTOCOL: out of range, with a message.
 */
int twi_cipher_length(const uint8_t head[4], uint32_t *sealed_out);

/*
 * Opens one whole record, without the four bytes of its length, into plain_out. There must be room
 * for bytes - 17, and no overlap. TOW_OK; TOW_EAUTH, with a message: the record is not the one that
 * the other side sealed at this position. Then plain_out is undefined, and every later call fails
 * in the same way.
 */
int twi_cipher_open(struct twi_cipher *c, void *plain_out, const uint8_t *sealed, size_t bytes,
		    size_t *plain_bytes_out);

void twi_cipher_wipe(struct twi_cipher *c);

#endif
