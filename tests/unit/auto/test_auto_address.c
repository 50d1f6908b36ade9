/*
 * test_auto_address.c - tow:// addresses: what is written is read, what does not fit is left out in
 * order, and whatever is not one is refused by name.
 */
#include "twt.h"

#include <string.h>

#include <towline/status.h>

#include "diag/base/checksum.h"
#include "transport/lanes/auto/auto_address.h"
#include "transport/lanes/auto/auto_host.h"

static struct twi_auto_address full(void)
{
	struct twi_auto_address address = { .host = 0x0123456789abcdefull,
					    .parts[TWI_LANE_TCP].in4_count = TWI_AUTO_IN4_MAX,
					    .parts[TWI_LANE_TCP].in4_port = 40000,
					    .parts[TWI_LANE_TCP].in6_count = TWI_AUTO_IN6_MAX,
					    .parts[TWI_LANE_TCP].in6_port = 50000,
					    .parts[TWI_LANE_OFI].raw_bytes = 32 };

	strcpy(address.parts[TWI_LANE_SHM].name, "12ab-0011223344556677");
	strcpy(address.parts[TWI_LANE_OFI].name, "efa");
	for (unsigned i = 0; i < sizeof(address.parts[TWI_LANE_TCP].in4); i++)
		((uint8_t *)address.parts[TWI_LANE_TCP].in4)[i] = (uint8_t)(i + 1);
	for (unsigned i = 0; i < sizeof(address.parts[TWI_LANE_TCP].in6); i++)
		((uint8_t *)address.parts[TWI_LANE_TCP].in6)[i] = (uint8_t)(0x20 + i);
	for (unsigned i = 0; i < address.parts[TWI_LANE_OFI].raw_bytes; i++)
		address.parts[TWI_LANE_OFI].raw[i] = (uint8_t)(0xf0 - i);
	return address;
}

static void read_back(const struct twi_auto_address *put, const char *text)
{
	struct twi_auto_address got;

	assert_true(strlen(text) < TOW_ADDRESS_MAX);
	assert_memory_equal(text, "tow://", 6);
	assert_int_equal(twi_auto_address_get(text + 6, &got), TOW_OK);
	assert_int_equal(got.host, put->host);
	assert_string_equal(got.parts[TWI_LANE_SHM].name, put->parts[TWI_LANE_SHM].name);
	assert_string_equal(got.parts[TWI_LANE_LOOP].name, put->parts[TWI_LANE_LOOP].name);
	assert_int_equal(got.parts[TWI_LANE_TCP].in4_count, put->parts[TWI_LANE_TCP].in4_count);
	assert_memory_equal(got.parts[TWI_LANE_TCP].in4, put->parts[TWI_LANE_TCP].in4,
			    4u * put->parts[TWI_LANE_TCP].in4_count);
	assert_int_equal(got.parts[TWI_LANE_TCP].in6_count, put->parts[TWI_LANE_TCP].in6_count);
	assert_memory_equal(got.parts[TWI_LANE_TCP].in6, put->parts[TWI_LANE_TCP].in6,
			    16u * put->parts[TWI_LANE_TCP].in6_count);
	if (put->parts[TWI_LANE_TCP].in4_count > 0)
		assert_int_equal(got.parts[TWI_LANE_TCP].in4_port,
				 put->parts[TWI_LANE_TCP].in4_port);
	if (put->parts[TWI_LANE_TCP].in6_count > 0)
		assert_int_equal(got.parts[TWI_LANE_TCP].in6_port,
				 put->parts[TWI_LANE_TCP].in6_port);
	assert_int_equal(got.parts[TWI_LANE_OFI].raw_bytes, put->parts[TWI_LANE_OFI].raw_bytes);
	assert_memory_equal(got.parts[TWI_LANE_OFI].raw, put->parts[TWI_LANE_OFI].raw,
			    put->parts[TWI_LANE_OFI].raw_bytes);
	if (put->parts[TWI_LANE_OFI].raw_bytes > 0)
		assert_string_equal(got.parts[TWI_LANE_OFI].name, put->parts[TWI_LANE_OFI].name);
}

static void test_round_trip(void **state)
{
	struct twi_auto_address address = full();
	char text[TOW_ADDRESS_MAX];

	(void)state;
	address.parts[TWI_LANE_TCP].in4_count = 2;
	address.parts[TWI_LANE_TCP].in6_count = 0;
	address.parts[TWI_LANE_OFI].raw_bytes = 16;
	assert_int_equal(twi_auto_address_put(&address, text), TOW_OK);
	assert_int_equal(address.parts[TWI_LANE_TCP].in4_count, 2); /* all of it fits */
	assert_int_equal(address.parts[TWI_LANE_OFI].raw_bytes, 16);
	read_back(&address, text);
}

/* Further addresses go first, the one of each family and the names stay. */
static void test_what_does_not_fit(void **state)
{
	struct twi_auto_address address = full();
	char text[TOW_ADDRESS_MAX];

	(void)state;
	assert_int_equal(twi_auto_address_put(&address, text), TOW_OK);
	assert_int_equal(address.parts[TWI_LANE_TCP].in4_count, 1);
	assert_int_equal(address.parts[TWI_LANE_TCP].in6_count, 1);
	assert_int_equal(address.parts[TWI_LANE_OFI].raw_bytes, 0);
	assert_string_equal(address.parts[TWI_LANE_SHM].name, "12ab-0011223344556677");
	read_back(&address, text);

	address = full();
	address.parts[TWI_LANE_TCP].in6_count = 0;
	assert_int_equal(twi_auto_address_put(&address, text), TOW_OK);
	assert_int_equal(address.parts[TWI_LANE_OFI].raw_bytes, 32);
	assert_true(address.parts[TWI_LANE_TCP].in4_count >= 1);
	read_back(&address, text);

	memset(address.parts[TWI_LANE_SHM].name, 'a', TWI_AUTO_NAME_MAX - 1);
	memset(address.parts[TWI_LANE_LOOP].name, 'b', TWI_AUTO_NAME_MAX - 1);
	address.parts[TWI_LANE_SHM].name[TWI_AUTO_NAME_MAX - 1] = '\0';
	address.parts[TWI_LANE_LOOP].name[TWI_AUTO_NAME_MAX - 1] = '\0';
	address.parts[TWI_LANE_TCP].in4_count = 0;
	address.parts[TWI_LANE_TCP].in6_count = 1;
	assert_int_equal(twi_auto_address_put(&address, text), TOW_EINVAL);
}

static void refused(const char *text, const char *because)
{
	struct twi_auto_address got;

	assert_int_equal(twi_auto_address_get(text, &got), TOW_EINVAL);
	if (strstr(tow_error_message(), because) == NULL)
		fail_msg("'%s' does not say '%s'", tow_error_message(), because);
}

/* base64url of raw bytes, with the checksum behind them. */
static const char *of(const uint8_t *bytes, size_t count)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	static char text[200];
	uint32_t crc = twi_checksum(0, bytes, count);
	uint8_t raw[100];
	unsigned bits = 0, have = 0, n = 0;

	memcpy(raw, bytes, count);
	raw[count] = (uint8_t)(crc >> 8);
	raw[count + 1] = (uint8_t)crc;
	for (size_t i = 0; i < count + 2; i++) {
		bits = (bits << 8 | raw[i]) & 0xffff;
		for (have += 8; have >= 6; have -= 6)
			text[n++] = digits[bits >> (have - 6) & 63];
	}
	if (have > 0)
		text[n++] = digits[bits << (6 - have) & 63];
	text[n] = '\0';
	return text;
}

#define HEAD 1, 0, 0, 0, 0, 0, 0, 0, 7

static void test_refused(void **state)
{
	const uint8_t version[] = { 2, 0, 0, 0, 0, 0, 0, 0, 7 };
	const uint8_t cut[] = { HEAD, 1, 5, 'a' }, half[] = { HEAD, 1 };
	const uint8_t empty[] = { HEAD, 1, 0 }, slash[] = { HEAD, 1, 2, '/', 'a' };
	const uint8_t port[] = { HEAD, 2, 6, 0, 0, 10, 0, 0, 1 };
	const uint8_t length[] = { HEAD, 2, 5, 1, 1, 10, 0, 0 };
	const uint8_t many[] = { HEAD, 2, 22, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2,
				 3,    3, 3,  3, 4, 4, 4, 4, 5, 5, 5, 5 };
	const uint8_t twice[] = { HEAD, 1, 1, 'a', 1, 1, 'b' };
	const uint8_t ofi[] = { HEAD, 4, 3, 9, 'e', 'f' };
	const uint8_t no_name[] = { HEAD, 4, 2, 0, 1 }, no_bytes[] = { HEAD, 4, 2, 1, 'e' };
	char text[TOW_ADDRESS_MAX];
	struct twi_auto_address address = full();

	(void)state;
	refused("", "too short");
	refused("AAAA", "too short");
	refused("not an address", "other than A-Z");
	refused("10.0.0.1:4000", "other than A-Z");
	refused(of(version, sizeof(version)), "another version");
	refused(of(cut, sizeof(cut)), "is cut");
	refused(of(half, sizeof(half)), "is cut");
	refused(of(empty, sizeof(empty)), "length");
	refused(of(slash, sizeof(slash)), "character");
	refused(of(port, sizeof(port)), "port is 0");
	refused(of(length, sizeof(length)), "wrong length");
	refused(of(many, sizeof(many)), "wrong length");
	refused(of(twice, sizeof(twice)), "twice");
	refused(of(ofi, sizeof(ofi)), "wrong length");
	refused(of(no_name, sizeof(no_name)), "wrong length");
	refused(of(no_bytes, sizeof(no_bytes)), "wrong length");
	assert_int_equal(twi_auto_address_put(&address, text), TOW_OK);
	strcat(text, "AAAAAA");
	text[TOW_ADDRESS_MAX - 1] = '\0';
	refused(text + 6, "it");
}

/* What a later version adds is skipped. */
static void test_unknown_part(void **state)
{
	const uint8_t later[] = { HEAD, 200, 3, 1, 2, 3, 1, 1, 'a' };
	struct twi_auto_address got;

	(void)state;
	assert_int_equal(twi_auto_address_get(of(later, sizeof(later)), &got), TOW_OK);
	assert_int_equal(got.host, 7);
	assert_string_equal(got.parts[TWI_LANE_SHM].name, "a");
}

static void test_host(void **state)
{
	char out[TOW_ADDRESS_MAX];
	struct twi_auto_hosts hosts;

	(void)state;
	assert_int_equal(twi_auto_host_id(), twi_auto_host_id());
	assert_true(twi_auto_interface_allowed("", "eth0"));
	assert_true(twi_auto_interface_allowed("ib0,eth0", "eth0"));
	assert_false(twi_auto_interface_allowed("ib0,eth01", "eth0"));
	assert_false(twi_auto_interface_allowed("^ib0,eth0", "eth0"));
	assert_true(twi_auto_interface_allowed("^ib0", "eth0"));
	twi_auto_hosts_read("lo", &hosts);
	assert_true(hosts.count4 + hosts.count6 > 0);
	twi_auto_hosts_read("none-such", &hosts);
	assert_int_equal(hosts.count4 + hosts.count6, 0);
	assert_int_equal(twi_auto_resolve_host("", out), TOW_OK);
	assert_string_equal(out, "");
	assert_int_equal(twi_auto_resolve_host("127.0.0.1", out), TOW_OK);
	assert_string_equal(out, "127.0.0.1");
	assert_int_equal(twi_auto_resolve_host("[::1]", out), TOW_OK);
	assert_string_equal(out, "::1");
	assert_int_equal(twi_auto_resolve_host("0.0.0.0", out), TOW_OK);
	assert_string_equal(out, ""); /* all of this host's, as where none is named */
	assert_int_equal(twi_auto_resolve_host("[::]", out), TOW_OK);
	assert_string_equal(out, "");
	assert_int_equal(twi_auto_resolve_host("127.0.0.1:80", out), TOW_EINVAL);
	assert_int_equal(twi_auto_resolve_host("no such host", out), TOW_EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip), cmocka_unit_test(test_what_does_not_fit),
		cmocka_unit_test(test_refused),    cmocka_unit_test(test_unknown_part),
		cmocka_unit_test(test_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
