/*
 * cipher.c - seals and opens records. See cipher.h.
 *
 * secretstream's own start sends 24 random bytes in the clear. Here they come from the handshake,
 * together with the key, so nothing goes over the wire for them. The states for sending and for
 * receiving are the same. Both are made by init_pull, which takes the bytes instead of drawing
 * them.
 */
#include "transport/security/cipher.h"

#include <string.h>

#include <internal/base.h>
#include <towline/status.h>

#include "diag/base/error.h"
#include "transport/security/sodium_lazy.h"
#include "transport/wire/frame.h"

typedef crypto_secretstream_xchacha20poly1305_state stream_state;

#define TAG_BYTES crypto_secretstream_xchacha20poly1305_ABYTES
#define MESSAGE   crypto_secretstream_xchacha20poly1305_TAG_MESSAGE
#define REKEY     crypto_secretstream_xchacha20poly1305_TAG_REKEY

_Static_assert(sizeof(stream_state) <= sizeof(((struct twi_cipher *)0)->state), "it fits");
_Static_assert(_Alignof(stream_state) <= 16, "and lies as it must");
_Static_assert(TWI_CIPHER_OVERHEAD == 4 + TAG_BYTES, "length and tag");
_Static_assert(TWI_CIPHER_KEY_BYTES == crypto_secretstream_xchacha20poly1305_KEYBYTES +
					       crypto_secretstream_xchacha20poly1305_HEADERBYTES,
	       "key and where the nonces begin");

static stream_state *state_of(struct twi_cipher *c)
{
	return (stream_state *)(void *)c->state;
}

void twi_cipher_init(struct twi_cipher *c, const uint8_t key[TWI_CIPHER_KEY_BYTES])
{
	const int ready = twi_sodium_load();

	twi_assert(ready == TOW_OK); /* the code that has read the job's key has loaded it */
	*c = (struct twi_cipher){ 0 };
	twi_sodium.crypto_secretstream_xchacha20poly1305_init_pull(
		state_of(c), key + crypto_secretstream_xchacha20poly1305_KEYBYTES, key);
}

size_t twi_cipher_seal(struct twi_cipher *c, uint8_t *out, const void *plain, size_t bytes)
{
	uint8_t tag = MESSAGE;

	twi_assert(bytes >= 1 && bytes <= TWI_CIPHER_RECORD_MAX);
	if (++c->records == TWI_CIPHER_REKEY_RECORDS) {
		tag = REKEY;
		c->records = 0;
	}
	twi_put_le32(out, (uint32_t)(bytes + TAG_BYTES));
	twi_sodium.crypto_secretstream_xchacha20poly1305_push(state_of(c), out + 4, NULL, plain,
							      bytes, out, 4, tag);
	return bytes + TWI_CIPHER_OVERHEAD;
}

int twi_cipher_length(const uint8_t head[4], uint32_t *sealed_out)
{
	const uint32_t sealed = twi_get_le32(head);

	if (sealed <= TAG_BYTES || sealed > TWI_CIPHER_SEALED_MAX)
		return twi_error(TOW_EPROTOCOL, "an encrypted record of %u bytes: it has %u to %u",
				 sealed, (unsigned)TAG_BYTES + 1, TWI_CIPHER_SEALED_MAX);
	*sealed_out = sealed;
	return TOW_OK;
}

/* Accepts only records that twi_cipher_seal writes: no other tag, and no empty record. */
static bool open_record(struct twi_cipher *c, void *plain_out, const uint8_t *sealed, size_t bytes)
{
	uint8_t head[4], tag;

	if (c->broken || bytes <= TAG_BYTES || bytes > TWI_CIPHER_SEALED_MAX)
		return false;
	twi_put_le32(head, (uint32_t)bytes);
	return twi_sodium.crypto_secretstream_xchacha20poly1305_pull(state_of(c), plain_out, NULL,
								     &tag, sealed, bytes, head,
								     sizeof(head)) == 0 &&
	       (tag == MESSAGE || tag == REKEY);
}

int twi_cipher_open(struct twi_cipher *c, void *plain_out, const uint8_t *sealed, size_t bytes,
		    size_t *plain_bytes_out)
{
	if (!open_record(c, plain_out, sealed, bytes)) {
		c->broken = true;
		return twi_error(TOW_EAUTH, "an encrypted record is not the one that the other "
					    "side sent: it was changed, left out or repeated "
					    "on its way");
	}
	*plain_bytes_out = bytes - TAG_BYTES;
	return TOW_OK;
}

void twi_cipher_wipe(struct twi_cipher *c)
{
	explicit_bzero(c, sizeof(*c));
}
