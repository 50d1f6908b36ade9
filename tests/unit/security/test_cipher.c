/*
 * test_cipher.c - records that arrive as they were sealed, at every size, and none that was
 * changed, cut, lengthened, left out, repeated or put at another place.
 */
#include "twt.h"

#include <string.h>

#include <towline/towline.h>

#include "transport/security/cipher.h"
#include "transport/wire/frame.h"

#define RECORD 300u

static uint8_t key[TWI_CIPHER_KEY_BYTES];
static struct twi_cipher sender, receiver;
static uint8_t plain[TWI_CIPHER_RECORD_MAX], opened[TWI_CIPHER_RECORD_MAX];
static uint8_t wire[TWI_CIPHER_RECORD_MAX + TWI_CIPHER_OVERHEAD];

static int set_up(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(key); i++)
		key[i] = (uint8_t)(i * 11 + 1);
	for (size_t i = 0; i < sizeof(plain); i++)
		plain[i] = (uint8_t)(i * 7 + i / 255);
	twi_cipher_init(&sender, key);
	twi_cipher_init(&receiver, key);
	return 0;
}

/* Opens what lies in `at`, a record with its length. */
static int open_at(struct twi_cipher *c, const uint8_t *at, size_t *bytes_out)
{
	uint32_t sealed;
	int status = twi_cipher_length(at, &sealed);

	return status == TOW_OK ? twi_cipher_open(c, opened, at + 4, sealed, bytes_out) : status;
}

static void test_sizes(void **state)
{
	static const size_t sizes[] = { 1, 2, 15, 16, 17, 63, 64, 65, 1500, 65535, 65536 };

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t bytes = 0;

		assert_int_equal(twi_cipher_seal(&sender, wire, plain, sizes[i]),
				 sizes[i] + TWI_CIPHER_OVERHEAD);
		assert_int_equal(open_at(&receiver, wire, &bytes), TOW_OK);
		assert_int_equal(bytes, sizes[i]);
		assert_memory_equal(opened, plain, bytes);
	}
}

static void test_lengths(void **state)
{
	static const struct {
		uint32_t length;
		int status;
	} rows[] = {
		{ 0, TOW_EPROTOCOL },
		{ 17, TOW_EPROTOCOL },
		{ 18, TOW_OK },
		{ TWI_CIPHER_SEALED_MAX, TOW_OK },
		{ TWI_CIPHER_SEALED_MAX + 1, TOW_EPROTOCOL },
		{ UINT32_MAX, TOW_EPROTOCOL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint8_t head[4];
		uint32_t sealed = 1;

		twi_put_le32(head, rows[i].length);
		assert_int_equal(twi_cipher_length(head, &sealed), rows[i].status);
		assert_int_equal(sealed, rows[i].status == TOW_OK ? rows[i].length : 1);
	}
}

/* Each bit of a record with its length; and a stream that failed once does not open any more. */
static void test_every_bit(void **state)
{
	const size_t whole = RECORD + TWI_CIPHER_OVERHEAD;
	size_t bytes = 0;

	(void)state;
	twi_cipher_seal(&sender, wire, plain, RECORD);
	for (size_t bit = 0; bit < whole * 8; bit++) {
		twi_cipher_init(&receiver, key);
		wire[bit / 8] ^= (uint8_t)(1u << bit % 8);
		/* what lies behind the record in the buffer can be read by a longer length */
		assert_true(open_at(&receiver, wire, &bytes) < 0);
		wire[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	assert_int_equal(open_at(&receiver, wire, &bytes), TOW_EAUTH);
	twi_cipher_init(&receiver, key);
	assert_int_equal(open_at(&receiver, wire, &bytes), TOW_OK);
}

static void test_cut_and_lengthened(void **state)
{
	size_t bytes = 0;

	(void)state;
	twi_cipher_seal(&sender, wire, plain, RECORD);
	for (size_t sealed = 0; sealed <= RECORD + 40; sealed++) {
		twi_cipher_init(&receiver, key);
		assert_int_equal(twi_cipher_open(&receiver, opened, wire + 4, sealed, &bytes),
				 sealed == RECORD + 17 ? TOW_OK : TOW_EAUTH);
	}
	twi_cipher_init(&receiver, key);
	assert_int_equal(twi_cipher_open(&receiver, opened, wire + 4, SIZE_MAX, &bytes), TOW_EAUTH);
}

/* Four records of one stream: only their own order opens. */
static void test_order(void **state)
{
	static uint8_t records[4][RECORD + TWI_CIPHER_OVERHEAD];
	size_t bytes = 0;
	unsigned whole = 0;

	(void)state;
	for (int i = 0; i < 4; i++)
		twi_cipher_seal(&sender, records[i], plain, RECORD);
	for (unsigned order = 0; order < 256; order++) {
		unsigned place = 0;

		twi_cipher_init(&receiver, key);
		while (place < 4 &&
		       open_at(&receiver, records[order >> 2 * place & 3], &bytes) == 0)
			assert_int_equal(order >> 2 * place & 3, place), place++;
		whole += place == 4;
	}
	assert_int_equal(whole, 1);
}

/* A stream begun from another key, or from the other direction's. */
static void test_other_stream(void **state)
{
	size_t bytes = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(key); i++) {
		uint8_t other[sizeof(key)];

		memcpy(other, key, sizeof(key));
		other[i] ^= 0x10;
		twi_cipher_init(&sender, key);
		twi_cipher_init(&receiver, other);
		twi_cipher_seal(&sender, wire, plain, RECORD);
		assert_int_equal(open_at(&receiver, wire, &bytes), TOW_EAUTH);
	}
}

/* Over two changes of the key; a record from before one does not open behind it. */
static void test_rekey(void **state)
{
	uint8_t before[TWI_CIPHER_KEY_BYTES], first[1 + TWI_CIPHER_OVERHEAD];
	size_t bytes = 0;

	(void)state;
	memcpy(before, sender.state, 32);
	for (uint32_t i = 0; i < 2 * TWI_CIPHER_REKEY_RECORDS + 3; i++) {
		plain[0] = (uint8_t)i;
		twi_cipher_seal(&sender, wire, plain, 1);
		if (i == 0)
			memcpy(first, wire, sizeof(first));
		assert_int_equal(open_at(&receiver, wire, &bytes), TOW_OK);
		assert_int_equal(opened[0], (uint8_t)i);
		if (i == TWI_CIPHER_REKEY_RECORDS - 2)
			assert_memory_equal(before, sender.state, 32);
	}
	assert_memory_not_equal(before, sender.state, 32);
	assert_memory_equal(sender.state, receiver.state, 32);
	assert_int_equal(open_at(&receiver, first, &bytes), TOW_EAUTH);
	twi_cipher_wipe(&sender);
	for (size_t i = 0; i < sizeof(sender.state); i++)
		assert_int_equal(sender.state[i], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_sizes, set_up),
		cmocka_unit_test_setup(test_lengths, set_up),
		cmocka_unit_test_setup(test_every_bit, set_up),
		cmocka_unit_test_setup(test_cut_and_lengthened, set_up),
		cmocka_unit_test_setup(test_order, set_up),
		cmocka_unit_test_setup(test_other_stream, set_up),
		cmocka_unit_test_setup(test_rekey, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
