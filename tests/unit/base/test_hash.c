/*
 * test_hash.c - hashes and checksums against values that others have published, or that travel.
 */
#include "twt.h"

#include <string.h>

#include "diag/base/checksum.h"
#include "diag/base/hash.h"

/* The test vectors of FNV-1a in RFC 9923. */
static void fnv_as_published(void **state)
{
	(void)state;
	assert_true(twi_hash_text("") == 0xcbf29ce484222325ull);
	assert_true(twi_hash_text("a") == 0xaf63dc4c8601ec8cull);
	assert_true(twi_hash_text("foobar") == 0x85944171f73967e8ull);
	assert_true(twi_hash_bytes("foobar!", 6) == 0x85944171f73967e8ull);
	assert_true(twi_hash_bytes("\xff", 1) == twi_hash_text("\xff")); /* char may be signed */
}

static void random_as_published(void **state)
{
	uint64_t stream = 1234567;

	(void)state;
	assert_true(twi_hash_random(&stream) == 6457827717110365317ull);
	assert_true(twi_hash_random(&stream) == 3203168211198807973ull);
}

/* Signatures of collectives are compared between ranks, perhaps of two versions. */
static void series_as_it_travels(void **state)
{
	uint64_t hash = 0x746f776c696e65ull;

	(void)state;
	hash = twi_hash_mix(hash, 1);
	hash = twi_hash_mix(hash, 2);
	hash = twi_hash_mix(hash, UINT64_MAX);
	assert_true(hash == 0x4224313a2af6c55cull);
	assert_true(twi_hash_mix(twi_hash_mix(0, 1), 2) != twi_hash_mix(twi_hash_mix(0, 2), 1));
}

/* "123456789" is what catalogues of checksums give the value of. */
static void crcs_as_published(void **state)
{
	(void)state;
	assert_int_equal(twi_crc32(0, "123456789", 9), 0xcbf43926);
	assert_int_equal(twi_crc32(twi_crc32(0, "1234", 4), "56789", 5), 0xcbf43926);
	assert_int_equal(twi_crc32(0, "", 0), 0);
	assert_int_equal(twi_checksum(0, "123456789", 9), 0xe3069283);
	assert_int_equal(twi_checksum(twi_checksum(0, "1234", 4), "56789", 5), 0xe3069283);
}

/* About one message in TWI_CHECKSUM_EVERY, also of those that a program sends every so often. */
static void samples_meet_every_step(void **state)
{
	(void)state;
	for (uint64_t step = 1; step <= 1u << 16; step = 2 * step + 1) {
		unsigned chosen = 0;

		for (uint64_t i = 1; i <= 64 * TWI_CHECKSUM_EVERY; i++)
			chosen += twi_checksum_chosen(i * step);
		assert_in_range(chosen, 16, 256);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fnv_as_published),        cmocka_unit_test(random_as_published),
		cmocka_unit_test(series_as_it_travels),    cmocka_unit_test(crcs_as_published),
		cmocka_unit_test(samples_meet_every_step),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
