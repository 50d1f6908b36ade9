/*
 * Fuzzes what a stranger can reach: the handshake, the HELLO behind it, and encrypted records. The
 * input is one byte of circumstances, one of how the rest is cut into pieces, and then a stream:
 *
 *   bits 0-1  what we have: 0 no key, 1 a key, 2 and 3 a key, and we want encryption
 *   bit 2     we are the connector
 *   bit 3     the stream is of encrypted records: a length of four bytes, and so many bytes
 *   bit 4     (with 3) the input is what we seal first; the records that come out are read back
 *             with the byte at the place that the second byte says changed by it
 *
 * Nobody without the key gets in; an open exchange uses exactly a greeting and takes only the one
 * encoding of it; a record that was touched does not open.
 */
#include <stdlib.h>
#include <string.h>

#include "transport/security/auth.h"
#include "transport/wire/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect_true(bool truth)
{
	if (!truth)
		abort();
}

static struct twi_job_key key_of(uint8_t how)
{
	struct twi_job_key key = { .set = (how & 3) != 0, .encrypt = (how & 2) != 0 };

	if (key.set)
		memset(key.bytes, 0x5a, sizeof(key.bytes));
	return key;
}

/* What follows a handshake that has ended well. */
static void read_hello(const uint8_t *data, size_t size, bool from_acceptor)
{
	struct twi_frame_limits limits = { .control = true };
	enum twi_frame_fault fault;
	struct twi_frame frame;
	struct twi_hello hello;

	if (size < TWI_FRAME_BYTES || twi_frame_get(data, &limits, &frame, &fault) < 0)
		return;
	expect_true(frame.type == TWI_FRAME_HELLO && frame.payload_bytes == TWI_HELLO_BYTES);
	if (size >= TWI_FRAME_BYTES + TWI_HELLO_BYTES)
		twi_hello_get(data + TWI_FRAME_BYTES, from_acceptor, &hello, &fault);
}

/* What was let in without a key said one greeting, and said it in the only way there is. */
static void check_open_greeting(const uint8_t *data, const struct twi_auth *auth)
{
	static const uint8_t zero[32];

	expect_true(twi_get_le64(data) == TWI_AUTH_MAGIC &&
		    twi_get_le64(data + 8) == TWI_AUTH_VERSION);
	expect_true(memcmp(data + 16, auth->purpose, sizeof(auth->purpose)) == 0);
	expect_true(memcmp(data + 64, zero, sizeof(zero)) == 0);
}

static void shake_hands(uint8_t how, uint8_t cut, const uint8_t *data, size_t size)
{
	const struct twi_job_key key = key_of(how);
	const uint8_t *at = data;
	size_t left = size, used = 0, said;
	uint8_t out[TWI_AUTH_OUT_MAX];
	struct twi_auth auth;
	int status = TOW_AGAIN;

	twi_auth_start(&auth, &key, (how & 4) != 0, "tcp");
	said = twi_auth_out(&auth, out);
	expect_true(said == ((how & 4) != 0 ? TWI_AUTH_GREETING_BYTES : 0));
	while (status == TOW_AGAIN && left > 0) {
		status = twi_auth_in(&auth, at, twi_min(left, (size_t)cut + 1), &used);
		expect_true(used <= left && (status != TOW_AGAIN || used > 0));
		at += used;
		left -= used;
		said += twi_auth_out(&auth, out);
	}
	expect_true(said <= TWI_AUTH_GREETING_BYTES + TWI_AUTH_PROOF_BYTES);
	expect_true(twi_auth_done(&auth) == (status == TOW_OK) && !twi_auth_encrypts(&auth));
	expect_true(status == TOW_OK || status == TOW_AGAIN || status == TOW_EAUTH ||
		    status == TOW_EPROTOCOL);
	if (status != TOW_OK)
		return;
	expect_true(!key.set && size - left == TWI_AUTH_GREETING_BYTES);
	check_open_greeting(data, &auth);
	read_hello(at, left, (how & 4) != 0);
}

static uint8_t stream[1 << 17], opened[TWI_CIPHER_RECORD_MAX];

static void start_cipher(struct twi_cipher *c)
{
	static const uint8_t key[TWI_CIPHER_KEY_BYTES] = { 1, 2, 3 };

	twi_cipher_init(c, key);
}

/* Reads records; `touched` is the first byte that may not be opened. Returns the bytes opened. */
static size_t read_records(const uint8_t *data, size_t size, size_t touched)
{
	struct twi_cipher c;
	size_t at = 0, total = 0, bytes;
	uint32_t sealed;

	start_cipher(&c);
	while (size - at >= 4 && twi_cipher_length(data + at, &sealed) == TOW_OK) {
		expect_true(sealed > 17 && sealed <= TWI_CIPHER_SEALED_MAX);
		if (sealed > size - at - 4)
			break;
		if (twi_cipher_open(&c, opened, data + at + 4, sealed, &bytes) < 0) {
			expect_true(twi_cipher_open(&c, opened, data + at + 4, sealed, &bytes) ==
				    TOW_EAUTH);
			break;
		}
		at += 4 + sealed;
		total += bytes;
		expect_true(bytes == sealed - 17 && at <= touched);
	}
	return total;
}

/* Seals the input in records of `cut` + 1 bytes, changes one byte of it, and reads it back. */
static void seal_and_touch(uint8_t cut, const uint8_t *data, size_t size)
{
	struct twi_cipher c;
	size_t said = 0, touched;

	start_cipher(&c);
	size = twi_min(size, (size_t)5000);
	for (size_t at = 0; at < size; at += (size_t)cut + 1)
		said += twi_cipher_seal(&c, stream + said, data + at,
					twi_min((size_t)cut + 1, size - at));
	if (said == 0)
		return;
	expect_true(read_records(stream, said, said) == size);
	touched = (data[0] * 256u + data[size - 1]) % said;
	stream[touched] ^= (uint8_t)(cut | 1);
	expect_true(read_records(stream, said, touched) < size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return 0;
	if ((data[0] & 24) == 24)
		seal_and_touch(data[1], data + 2, size - 2);
	else if ((data[0] & 8) != 0)
		read_records(data + 2, size - 2, 0);
	else
		shake_hands(data[0], data[1], data + 2, size - 2);
	return 0;
}
