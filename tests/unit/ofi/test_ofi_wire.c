/*
 * test_ofi_wire.c - the pure parts of the ofi lane: addresses, packets, and the judgement of
 * providers. Random and hostile bytes are refused or mean what they say.
 */
#include "twt.h"

#include <string.h>

#include "transport/lanes/ofi/packet.h"
#include "transport/wire/frame.h"
#include <towline/status.h>

static uint64_t seed;

static void address_to_open(void **state)
{
	static const struct {
		const char *text, *provider, *node, *service;
	} good[] = {
		{ "", "the-knob", "", "" },
		{ "shm", "shm", "", "" },
		{ "tcp;ofi_rxm", "tcp;ofi_rxm", "", "" },
		{ "net@10.0.0.1", "net", "10.0.0.1", "" },
		{ "net@10.0.0.1:7471", "net", "10.0.0.1", "7471" },
		{ "@host:0", "the-knob", "host", "0" },
		{ "net@::1", "net", "::1", "" },
		{ "net@[::1]:80", "net", "::1", "80" },
		{ "net@[::1]", "net", "::1", "" },
	};
	static const char *const bad[] = {
		"net/00",     "net@",
		"net@:1",     "net@[::1",
		"net@[::1]x", "net@h:65536",
		"net@h:",     "net@h:1x",
		"a b",        "net\n",
		"net@[]:1",   "a-provider-whose-name-is-longer-than-any-that-there-could-ever-be",
	};
	struct twi_ofi_wish wish;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(twi_ofi_address_open(good[i].text, "the-knob", &wish), TOW_OK);
		assert_string_equal(wish.provider, good[i].provider);
		assert_string_equal(wish.node, good[i].node);
		assert_string_equal(wish.service, good[i].service);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(twi_ofi_address_open(bad[i], "", &wish), TOW_EINVAL);
		assert_non_null(strstr(tow_error_message(), "ofi://"));
	}
}

static void address_to_connect(void **state)
{
	static const char *const bad[] = { "",       "net",    "/00",     "net/",   "net/0",
					   "net/0g", "net/0A", "net/00 ", "n t/00", "net/-1" };
	char text[TOW_ADDRESS_MAX], provider[TWI_OFI_PROVIDER_MAX];
	struct twi_ofi_name name, back;
	uint64_t random = seed;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		name.count = (uint8_t)(1 + twi_min(twt_random(&random) % TWI_OFI_NAME_MAX, 53u));
		for (unsigned i = 0; i < name.count; i++)
			name.bytes[i] = (uint8_t)twt_random(&random);
		assert_int_equal(twi_ofi_address_put("tcp;ofi_rxm", &name, text), TOW_OK);
		assert_true(strlen(text) < TOW_ADDRESS_MAX);
		assert_int_equal(twi_ofi_address_connect(text + 6, provider, &back), TOW_OK);
		assert_string_equal(provider, "tcp;ofi_rxm");
		assert_int_equal(back.count, name.count);
		assert_memory_equal(back.bytes, name.bytes, name.count);
	}
	name.count = TWI_OFI_NAME_MAX;
	assert_int_equal(twi_ofi_address_put("a-provider-with-a-very-long-name", &name, text),
			 TOW_EINVAL);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(twi_ofi_address_connect(bad[i], provider, &back), TOW_EINVAL);
	memset(text, '0', sizeof(text));
	memcpy(text, "net/", 4);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(twi_ofi_address_connect(text, provider, &back), TOW_EINVAL);
}

/* Any bytes are refused, or are exactly what the fields that were read are written as. */
static void packets_at_random(void **state)
{
	uint8_t bytes[TWI_OFI_HEAD_BYTES + 2048], again[TWI_OFI_HEAD_BYTES];
	uint64_t random = seed;
	unsigned accepted = 0;

	(void)state;
	memset(bytes, 0, sizeof(bytes));
	for (int round = 0; round < 200000; round++) {
		struct twi_ofi_packet p = {
			.type = (uint8_t)(twt_random(&random) % (TWI_OFI_TYPE_END + 1)),
			.space = twt_random(&random) % 4 == 0 ? (uint8_t)(twt_random(&random) % 4)
							      : 0,
			.channel = twt_random(&random) % 4 == 0 ? (uint16_t)twt_random(&random) : 0,
			.session = twt_random(&random),
			.number = (uint32_t)twt_random(&random),
			.payload_bytes = (uint32_t)(twt_random(&random) % 1100),
			.seq = twt_random(&random) % 3 ? twt_random(&random) : 0,
			.tag = twt_random(&random) % 3 ? twt_random(&random) : 0,
			.value = twt_random(&random) % 4,
		}, out;
		uint64_t length = TWI_OFI_HEAD_BYTES + p.payload_bytes;
		const char *fault = NULL;

		if (twt_random(&random) % 8 == 0)
			p.payload_bytes =
				twt_random(&random) % 2 ? TWI_OFI_OFFER_BYTES : TWI_OFI_HELLO_BYTES;
		if (twt_random(&random) % 4 != 0)
			length = TWI_OFI_HEAD_BYTES + p.payload_bytes;
		if (p.type == TWI_OFI_AUTH && twt_random(&random) % 2 == 0)
			p.value = TWI_OFI_MAGIC;
		twi_ofi_packet_put(bytes, &p);
		if (twt_random(&random) % 4 == 0)
			bytes[twt_random(&random) % TWI_OFI_HEAD_BYTES] ^=
				(uint8_t)(1u << twt_random(&random) % 8);
		if (twi_ofi_packet_get(bytes, length, 1024, &out, &fault) != TOW_OK) {
			assert_non_null(fault);
			continue;
		}
		accepted++;
		assert_null(fault);
		assert_true(out.payload_bytes <= 1024);
		assert_int_equal(out.payload_bytes, length - TWI_OFI_HEAD_BYTES);
		twi_ofi_packet_put(again, &out);
		assert_memory_equal(bytes, again, TWI_OFI_HEAD_BYTES);
	}
	assert_true(accepted > 100);
	assert_int_equal(twi_ofi_packet_get(bytes, TWI_OFI_HEAD_BYTES - 1, 1024,
					    &(struct twi_ofi_packet){ 0 }, &(const char *){ NULL }),
			 TOW_EPROTOCOL);
}

static void payloads(void **state)
{
	uint8_t bytes[TWI_OFI_AUTH_HEAD + TWI_OFI_NAME_MAX + TWI_OFI_AUTH_MAX];
	struct twi_ofi_name name = { { 1, 2, 3 }, 3 };
	struct twi_ofi_auth auth;
	const uint8_t step[5] = "proof";
	struct twi_ofi_hello hello = { 1024, 65536, 1ull << 32 | 5, 0 }, hello_back;
	struct twi_ofi_where where = { 4096, 7, 8192, 9, 11, true, true }, where_back;
	size_t n = twi_ofi_auth_put(bytes, 42, &name, step, sizeof(step));
	uint64_t random = seed;

	(void)state;
	assert_int_equal(twi_ofi_auth_get(bytes, n, &auth), TOW_OK);
	assert_int_equal(auth.from, 42);
	assert_memory_equal(auth.name, name.bytes, 3);
	assert_int_equal(auth.auth_bytes, 5);
	assert_memory_equal(auth.auth, step, 5);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(twi_ofi_auth_get(bytes, i, &auth), TOW_EPROTOCOL);
	for (int round = 0; round < 100000; round++) {
		size_t length = twt_random(&random) % sizeof(bytes);

		for (size_t i = 0; i < TWI_OFI_AUTH_HEAD; i++)
			bytes[i] = i < 8 || (i < 12 && i != 9 && i != 11)
					   ? (uint8_t)twt_random(&random)
					   : 0;
		if (twi_ofi_auth_get(bytes, length, &auth) == TOW_OK)
			assert_true(auth.name >= bytes && auth.auth >= auth.name &&
				    auth.auth + auth.auth_bytes == bytes + length);
	}
	twi_ofi_hello_put(bytes, &hello);
	assert_int_equal(twi_ofi_hello_get(bytes, &hello_back), TOW_OK);
	assert_int_equal(hello_back.payload_max_bytes, 1024);
	assert_int_equal(hello_back.credit_bytes, 65536);
	assert_true(hello_back.features == (1ull << 32 | 5));
	assert_int_equal(hello_back.minor, TWI_OFI_MINOR);
	bytes[26] = 1; /* which no version has a use for, before the next minor one */
	assert_int_equal(twi_ofi_hello_get(bytes, &hello_back), TOW_EPROTOCOL);
	bytes[24]++;
	assert_int_equal(twi_ofi_hello_get(bytes, &hello_back), TOW_OK);
	assert_int_equal(hello_back.minor, TWI_OFI_MINOR + 1);
	bytes[20] = 2; /* required, and not offered */
	assert_int_equal(twi_ofi_hello_get(bytes, &hello_back), TOW_EPROTOCOL);
	twi_ofi_hello_put(bytes, &hello);
	bytes[0] = bytes[1] = 0; /* takes no payload at all */
	assert_int_equal(twi_ofi_hello_get(bytes, &hello_back), TOW_EPROTOCOL);
	twi_ofi_where_put(bytes, &where);
	assert_int_equal(twi_ofi_where_get(bytes, 100, &where_back), TOW_OK);
	assert_int_equal(where_back.cell, 11);
	/* a place that wraps round the end of memory */
	where.address = UINT64_MAX - 50;
	twi_ofi_where_put(bytes, &where);
	assert_int_equal(twi_ofi_where_get(bytes, 100, &where_back), TOW_EPROTOCOL);
	where = (struct twi_ofi_where){ .address = 1, .tagged = true };
	twi_ofi_where_put(bytes, &where);
	assert_int_equal(twi_ofi_where_get(bytes, 100, &where_back), TOW_EPROTOCOL);
}

static struct twi_ofi_offer offer(const char *provider)
{
	struct twi_ofi_offer offer = { .messages = true,
				       .tagged = true,
				       .read = true,
				       .ordered = true,
				       .key_bytes = 8,
				       .name_bytes = 16 };

	snprintf(offer.provider, sizeof(offer.provider), "%s", provider);
	return offer;
}

static void providers(void **state)
{
	const struct twi_ofi_bits bits = { .mode = 3, .mr_mode = 7 };
	struct twi_ofi_wish any = { .provider = "" }, named = { .provider = "tcp" };
	struct twi_ofi_offer efa = offer("efa"), verbs = offer("verbs;ofi_rxm"), o;
	struct twi_ofi_offer tcp = offer("tcp;ofi_rxm"), other = offer("something-new");
	char why[160];

	(void)state;
	assert_true(twi_ofi_judge(&efa, &any, &bits, why, sizeof(why)) >
		    twi_ofi_judge(&verbs, &any, &bits, why, sizeof(why)));
	assert_true(twi_ofi_judge(&verbs, &any, &bits, why, sizeof(why)) >
		    twi_ofi_judge(&other, &any, &bits, why, sizeof(why)));
	assert_true(twi_ofi_judge(&other, &any, &bits, why, sizeof(why)) > 0);
	/* what our own lanes do is taken by name only */
	assert_int_equal(twi_ofi_judge(&tcp, &any, &bits, why, sizeof(why)), 0);
	assert_non_null(strstr(why, "ofi_provider"));
	assert_true(twi_ofi_judge(&tcp, &named, &bits, why, sizeof(why)) > 0);
	assert_int_equal(twi_ofi_judge(&efa, &named, &bits, why, sizeof(why)), 0);
	assert_true(twi_ofi_provider_is("tcp;ofi_rxm", "tcp;ofi_rxm"));
	assert_false(twi_ofi_provider_is("tcp;ofi_rxm", "tcp;ofi_rxd"));
	assert_false(twi_ofi_provider_is("tcpx", "tcp"));
	o = efa, o.read = false;
	assert_true(twi_ofi_judge(&o, &any, &bits, why, sizeof(why)) <
		    twi_ofi_judge(&efa, &any, &bits, why, sizeof(why)));
	o = efa, o.ordered = false;
	assert_int_equal(twi_ofi_judge(&o, &any, &bits, why, sizeof(why)), 0);
	assert_non_null(strstr(why, "order"));
	o = efa, o.messages = false;
	assert_int_equal(twi_ofi_judge(&o, &any, &bits, why, sizeof(why)), 0);
	o = efa, o.mode = 4;
	assert_int_equal(twi_ofi_judge(&o, &any, &bits, why, sizeof(why)), 0);
	o = efa, o.mr_mode = 8;
	assert_int_equal(twi_ofi_judge(&o, &any, &bits, why, sizeof(why)), 0);
	o = efa, o.mode = 3, o.mr_mode = 7;
	assert_true(twi_ofi_judge(&o, &any, &bits, why, sizeof(why)) > 0);
	o = efa, o.name_bytes = TWI_OFI_NAME_MAX + 1;
	assert_int_equal(twi_ofi_judge(&o, &any, &bits, why, sizeof(why)), 0);
	o = efa, o.key_bytes = 16;
	assert_int_equal(twi_ofi_judge(&o, &any, &bits, why, sizeof(why)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(address_to_open),   cmocka_unit_test(address_to_connect),
		cmocka_unit_test(packets_at_random), cmocka_unit_test(payloads),
		cmocka_unit_test(providers),
	};

	seed = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
