/*
 * test_auto_address.c - tow:// addresses of random parts come back as they were; random and changed
 * texts are refused or are exactly what writing them again gives; nothing is read out of bounds.
 */
#include "twt.h"

#include <string.h>

#include <towline/status.h>

#include "transport/lanes/auto/auto_address.h"

#define ROUNDS 20000

static void random_name(uint64_t *random, char *out, uint64_t max)
{
	uint64_t bytes = twt_random_below(random, max);

	for (uint64_t i = 0; i < bytes; i++)
		out[i] = "abcXYZ019-_."[twt_random_below(random, 12)];
	out[bytes] = '\0';
}

static void random_bytes(uint64_t *random, void *out, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		((uint8_t *)out)[i] = (uint8_t)twt_random(random);
}

static void make(uint64_t *random, struct twi_auto_address *out)
{
	*out = (struct twi_auto_address){ .host = twt_random(random) };
	random_name(random, out->parts[TWI_LANE_SHM].name, 28);
	if (twt_random_below(random, 4) == 0)
		random_name(random, out->parts[TWI_LANE_LOOP].name, 10);
	out->parts[TWI_LANE_TCP].in4_count =
		(uint8_t)twt_random_below(random, TWI_AUTO_IN4_MAX + 1);
	out->parts[TWI_LANE_TCP].in6_count =
		(uint8_t)twt_random_below(random, TWI_AUTO_IN6_MAX + 1);
	out->parts[TWI_LANE_TCP].in4_port = (uint16_t)(1 + twt_random_below(random, 65535));
	out->parts[TWI_LANE_TCP].in6_port = (uint16_t)(1 + twt_random_below(random, 65535));
	random_bytes(random, out->parts[TWI_LANE_TCP].in4, sizeof(out->parts[TWI_LANE_TCP].in4));
	random_bytes(random, out->parts[TWI_LANE_TCP].in6, sizeof(out->parts[TWI_LANE_TCP].in6));
	out->parts[TWI_LANE_OFI].raw_bytes =
		(uint8_t)twt_random_below(random, TWI_AUTO_RAW_MAX + 1);
	random_bytes(random, out->parts[TWI_LANE_OFI].raw, sizeof(out->parts[TWI_LANE_OFI].raw));
	do
		random_name(random, out->parts[TWI_LANE_OFI].name, TWI_AUTO_NAME_MAX);
	while (out->parts[TWI_LANE_OFI].name[0] == '\0');
}

/* What is not there has no content either. */
static void normal(struct twi_auto_address *address)
{
	for (unsigned i = address->parts[TWI_LANE_TCP].in4_count; i < TWI_AUTO_IN4_MAX; i++)
		memset(address->parts[TWI_LANE_TCP].in4[i], 0, 4);
	for (unsigned i = address->parts[TWI_LANE_TCP].in6_count; i < TWI_AUTO_IN6_MAX; i++)
		memset(address->parts[TWI_LANE_TCP].in6[i], 0, 16);
	memset(address->parts[TWI_LANE_OFI].raw + address->parts[TWI_LANE_OFI].raw_bytes, 0,
	       TWI_AUTO_RAW_MAX - address->parts[TWI_LANE_OFI].raw_bytes);
	if (address->parts[TWI_LANE_TCP].in4_count == 0)
		address->parts[TWI_LANE_TCP].in4_port = 0;
	if (address->parts[TWI_LANE_TCP].in6_count == 0)
		address->parts[TWI_LANE_TCP].in6_port = 0;
	if (address->parts[TWI_LANE_OFI].raw_bytes == 0)
		memset(address->parts[TWI_LANE_OFI].name, 0,
		       sizeof(address->parts[TWI_LANE_OFI].name));
}

static void test_round_trip(void **state)
{
	uint64_t random = twt_seed();

	(void)state;
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct twi_auto_address put, got;
		char text[TOW_ADDRESS_MAX];

		make(&random, &put);
		assert_int_equal(twi_auto_address_put(&put, text), TOW_OK);
		assert_int_equal(twi_auto_address_get(text + 6, &got), TOW_OK);
		normal(&put);
		assert_int_equal(got.host, put.host);
		assert_string_equal(got.parts[TWI_LANE_SHM].name, put.parts[TWI_LANE_SHM].name);
		assert_string_equal(got.parts[TWI_LANE_LOOP].name, put.parts[TWI_LANE_LOOP].name);
		assert_int_equal(got.parts[TWI_LANE_TCP].in4_count,
				 put.parts[TWI_LANE_TCP].in4_count);
		assert_int_equal(got.parts[TWI_LANE_TCP].in4_port,
				 put.parts[TWI_LANE_TCP].in4_port);
		assert_memory_equal(got.parts[TWI_LANE_TCP].in4, put.parts[TWI_LANE_TCP].in4,
				    sizeof(put.parts[TWI_LANE_TCP].in4));
		assert_int_equal(got.parts[TWI_LANE_TCP].in6_count,
				 put.parts[TWI_LANE_TCP].in6_count);
		assert_int_equal(got.parts[TWI_LANE_TCP].in6_port,
				 put.parts[TWI_LANE_TCP].in6_port);
		assert_memory_equal(got.parts[TWI_LANE_TCP].in6, put.parts[TWI_LANE_TCP].in6,
				    sizeof(put.parts[TWI_LANE_TCP].in6));
		assert_int_equal(got.parts[TWI_LANE_OFI].raw_bytes,
				 put.parts[TWI_LANE_OFI].raw_bytes);
		assert_string_equal(got.parts[TWI_LANE_OFI].name, put.parts[TWI_LANE_OFI].name);
		assert_memory_equal(got.parts[TWI_LANE_OFI].raw, put.parts[TWI_LANE_OFI].raw,
				    sizeof(put.parts[TWI_LANE_OFI].raw));
	}
}

/* A change of any character is found, but for one in 65,536 that the checksum lets through. */
static void test_changed(void **state)
{
	static const char any[] = "ABCxyz019-_ /:=\x80";
	uint64_t random = twt_seed();
	unsigned through = 0;

	(void)state;
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct twi_auto_address put, got;
		char text[TOW_ADDRESS_MAX], changed[TOW_ADDRESS_MAX];
		size_t bytes, at;

		make(&random, &put);
		assert_int_equal(twi_auto_address_put(&put, text), TOW_OK);
		strcpy(changed, text);
		bytes = strlen(changed + 6);
		at = 6 + twt_random_below(&random, bytes);
		if (twt_random_below(&random, 4) == 0)
			changed[at] = '\0';
		else
			changed[at] = any[twt_random_below(&random, sizeof(any) - 1)];
		if (strcmp(changed, text) == 0)
			continue;
		through += twi_auto_address_get(changed + 6, &got) == TOW_OK;
	}
	assert_true(through <= 8);
}

static void test_noise(void **state)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	uint64_t random = twt_seed();

	(void)state;
	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t bytes = twt_random_below(&random, 400);
		struct twi_auto_address got;
		char *text = malloc(bytes + 1); /* its end is the end of its memory */

		for (uint64_t j = 0; j < bytes; j++)
			text[j] = digits[twt_random_below(&random, 64)];
		text[bytes] = '\0';
		if (twi_auto_address_get(text, &got) == TOW_OK)
			assert_true(bytes <= 120);
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_changed),
		cmocka_unit_test(test_noise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
