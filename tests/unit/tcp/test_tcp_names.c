/*
 * test_tcp_names.c - addresses of the tcp lane: text, numbers, the record of addresses for a peer;
 * which interfaces may be used, and which ways to a peer there are.
 */
#include "twt.h"

#include <arpa/inet.h>
#include <string.h>

#include <towline/status.h>

#include "diag/base/words.h"
#include "transport/lanes/tcp/tcp_rails.h"

static struct twi_tcp_address at(const char *text)
{
	struct twi_tcp_address address;

	assert_int_equal(twi_tcp_parse(text, &address), TOW_OK);
	return address;
}

static void round_trip(const char *text, const char *shown)
{
	struct twi_tcp_address address = at(text);
	char out[TOW_ADDRESS_MAX];

	twi_tcp_format(&address, out);
	assert_string_equal(out, shown);
}

static void test_text(void **state)
{
	static const char *const bad[] = {
		"",        "1.2.3.4", "1.2.3.4:", "1.2.3.4:x",  "1.2.3.4:-1",    ":80",
		"[::1:80", "[]:80",   "[::1]80",  "1.2.3.4: 1", "1.2.3.4:99999", "host.name:1"
	};
	struct twi_tcp_address address;
	char out[TOW_ADDRESS_MAX], longest[300];

	(void)state;
	round_trip("1.2.3.4:80", "tcp://1.2.3.4:80");
	round_trip("[::1]:0", "tcp://[::1]:0");
	round_trip("[2001:db8::7]:65535", "tcp://[2001:db8::7]:65535");
	round_trip("[fe80::1%lo]:9", "tcp://[fe80::1%lo]:9");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(twi_tcp_parse(bad[i], &address), TOW_EINVAL);
	memset(longest, '1', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(twi_tcp_parse(longest, &address), TOW_EINVAL);
	assert_int_equal(twi_tcp_resolve(longest, false, out), TOW_EINVAL);
	assert_int_equal(twi_tcp_resolve("1.2.3.4:5", false, out), TOW_OK);
	assert_string_equal(out, "1.2.3.4:5");
	assert_int_equal(twi_tcp_resolve("localhost:5", true, out), TOW_OK);
	assert_int_equal(twi_tcp_parse(out, &address), TOW_OK);
	assert_true(twi_tcp_loopback(&address));
}

static void test_kinds(void **state)
{
	struct twi_tcp_address a = at("[::ffff:10.1.2.3]:7"), b = at("10.1.2.3:8");

	(void)state;
	assert_false(twi_tcp_same_host(&a, &b));
	twi_tcp_normalize(&a);
	assert_int_equal(twi_tcp_port(&a), 7);
	assert_true(twi_tcp_same_host(&a, &b));
	a = at("0.0.0.0:1");
	assert_true(twi_tcp_wildcard(&a));
	a = at("[::]:1");
	assert_true(twi_tcp_wildcard(&a));
	a = at("127.3.4.5:1");
	assert_true(twi_tcp_loopback(&a) && !twi_tcp_wildcard(&a));
	a = at("169.254.3.4:1");
	assert_true(twi_tcp_link_local(&a));
	a = at("[fe80::4]:1");
	assert_true(twi_tcp_link_local(&a));
}

static void test_told(void **state)
{
	struct twi_tcp_advertised advertised = { .count = 3 }, back;
	uint8_t bytes[TWI_TCP_ADVERTISED_BYTES], copy[TWI_TCP_ADVERTISED_BYTES];

	(void)state;
	advertised.rows[0] = at("10.1.2.3:4000");
	advertised.rows[1] = at("[2001:db8::1]:4001");
	advertised.rows[2] = at("192.168.0.1:1");
	twi_tcp_advertised_put(bytes, &advertised);
	assert_int_equal(twi_tcp_advertised_get(bytes, false, &back), TOW_OK);
	assert_int_equal(back.count, 3);
	for (unsigned i = 0; i < 3; i++) {
		assert_true(twi_tcp_same_host(&advertised.rows[i], &back.rows[i]));
		assert_int_equal(twi_tcp_port(&advertised.rows[i]), twi_tcp_port(&back.rows[i]));
	}
	/* Any reserved byte that is not zero, and any count too many. */
	for (size_t i = 1; i < sizeof(bytes); i++) {
		if (i >= 4 && i < 4 + 3 * 18)
			continue;
		memcpy(copy, bytes, sizeof(copy));
		copy[i] = 1;
		assert_int_equal(twi_tcp_advertised_get(copy, false, &back), TOW_EPROTOCOL);
	}
	for (unsigned count = 4; count < 256; count++) {
		memcpy(copy, bytes, sizeof(copy));
		copy[0] = (uint8_t)count; /* the fourth row has no port */
		assert_int_equal(twi_tcp_advertised_get(copy, false, &back), TOW_EPROTOCOL);
	}
	copy[0] = 0; /* rows that do not count are zero */
	assert_int_equal(twi_tcp_advertised_get(copy, false, &back), TOW_EPROTOCOL);
}

static void refuse_row(const char *text, bool local, int status)
{
	struct twi_tcp_advertised advertised = { .count = 1 }, back;
	uint8_t bytes[TWI_TCP_ADVERTISED_BYTES];

	advertised.rows[0] = at(text);
	twi_tcp_advertised_put(bytes, &advertised);
	assert_int_equal(twi_tcp_advertised_get(bytes, local, &back), status);
}

static void test_told_that_is_nowhere(void **state)
{
	(void)state;
	refuse_row("127.0.0.1:80", false, TOW_EPROTOCOL);
	refuse_row("127.0.0.1:80", true, TOW_OK);
	refuse_row("[fe80::1]:80", false, TOW_EPROTOCOL);
	refuse_row("0.0.0.0:80", true, TOW_EPROTOCOL);
	refuse_row("224.0.0.1:80", true, TOW_EPROTOCOL);
	refuse_row("255.255.255.255:80", true, TOW_EPROTOCOL);
	refuse_row("[ff02::1]:80", true, TOW_EPROTOCOL);
	refuse_row("10.0.0.1:0", true, TOW_EPROTOCOL);
}

static void test_knob(void **state)
{
	(void)state;
	assert_true(twi_words_allow("", "eth0"));
	assert_true(twi_words_allow("eth0,eth1", "eth1"));
	assert_false(twi_words_allow("eth0,eth1", "eth"));
	assert_false(twi_words_allow("eth0,eth1", "eth10"));
	assert_false(twi_words_allow("^eth0,eth1", "eth0"));
	assert_true(twi_words_allow("^eth0,eth1", "eth2"));
	assert_int_equal(twi_tcp_interfaces_check(""), TOW_OK);
	assert_int_equal(twi_tcp_interfaces_check("lo"), TOW_OK);
	assert_int_equal(twi_tcp_interfaces_check("^lo,nothere"), TOW_OK);
	assert_int_equal(twi_tcp_interfaces_check("nothere"), TOW_EINVAL);
	assert_int_equal(twi_tcp_interfaces_check("^"), TOW_EINVAL);
	assert_int_equal(twi_tcp_interfaces_check("lo,,lo"), TOW_EINVAL);
}

static void add_row(struct twi_tcp_interfaces *have, const char *name, const char *text,
		    unsigned prefix)
{
	struct twi_tcp_interface *row = &have->rows[have->count++];

	snprintf(row->name, sizeof(row->name), "%s", name);
	row->address = at(text);
	row->prefix = prefix;
}

static const struct twi_tcp_interfaces *host(void)
{
	static struct twi_tcp_interfaces have;

	have.count = 0;
	add_row(&have, "lo", "127.0.0.1:0", 8);
	add_row(&have, "eth0", "10.0.0.5:0", 24);
	add_row(&have, "eth1", "10.0.1.5:0", 24);
	add_row(&have, "eth2", "[2001:db8::5]:0", 64);
	return &have;
}

static void expect(const struct twi_tcp_rails *rails, unsigned i, const char *name,
		   const char *remote)
{
	char text[TOW_ADDRESS_MAX];

	assert_true(i < rails->count);
	assert_string_equal(rails->rows[i].name, name);
	twi_tcp_format(&rails->rows[i].remote, text);
	assert_string_equal(text + strlen("tcp://"), remote);
	assert_int_equal(rails->rows[i].local.bytes != 0, name[0] != '\0');
}

static void test_rails(void **state)
{
	struct twi_tcp_address dialed = at("10.0.0.9:4000");
	struct twi_tcp_advertised advertised = { 0 }, none = { 0 };
	struct twi_tcp_rails rails;

	(void)state;
	twi_tcp_rails_choose("", host(), &dialed, &none, &rails);
	assert_int_equal(rails.count, 1);
	expect(&rails, 0, "", "10.0.0.9:4000");
	/* What was told and lies in one of our subnets is one more way; what does not is not. */
	advertised.count = 4;
	advertised.rows[0] = dialed;
	advertised.rows[1] = at("10.0.1.9:4000");
	advertised.rows[2] = at("192.168.7.7:4000");
	advertised.rows[3] = at("[2001:db8::9]:4000");
	twi_tcp_rails_choose("", host(), &dialed, &advertised, &rails);
	assert_int_equal(rails.count, 3);
	expect(&rails, 1, "eth1", "10.0.1.9:4000");
	expect(&rails, 2, "eth2", "[2001:db8::9]:4000");
}

static void test_rails_of_a_knob(void **state)
{
	struct twi_tcp_address dialed = at("10.0.0.9:4000"), far = at("172.16.0.1:4000");
	struct twi_tcp_address lo = at("127.0.0.1:4000");
	struct twi_tcp_advertised none = { 0 };
	struct twi_tcp_interfaces have = { 0 };
	struct twi_tcp_rails rails;

	(void)state;
	add_row(&have, "eth0", "10.0.0.5:0", 24);
	add_row(&have, "eth1", "10.0.1.5:0", 24);
	twi_tcp_rails_choose("eth0,eth1", &have, &dialed, &none, &rails);
	assert_int_equal(rails.count, 1);
	expect(&rails, 0, "eth0", "10.0.0.9:4000");
	twi_tcp_rails_choose("eth0,eth1", &have, &far, &none, &rails);
	assert_int_equal(rails.count, 2);
	expect(&rails, 0, "eth0", "172.16.0.1:4000");
	expect(&rails, 1, "eth1", "172.16.0.1:4000");
	twi_tcp_rails_choose("eth0,eth1", &have, &lo, &none, &rails);
	assert_int_equal(rails.count, 1);
	expect(&rails, 0, "", "127.0.0.1:4000");
	have.count = 0;
	twi_tcp_rails_choose("eth0,eth1", &have, &far, &none, &rails);
	assert_int_equal(rails.count, 1); /* none is left: the connect's error tells */
}

static void test_tell(void **state)
{
	struct twi_tcp_address any = at("0.0.0.0:4000"), any6 = at("[::]:4000");
	struct twi_tcp_address one = at("10.0.0.5:4000"), lo = at("127.0.0.1:4000");
	struct twi_tcp_address here = at("10.0.1.5:33333"), here_lo = at("127.0.0.1:33333");
	struct twi_tcp_advertised advertised;

	(void)state;
	twi_tcp_tell(host(), &one, &here, &advertised);
	assert_int_equal(advertised.count, 1);
	twi_tcp_tell(host(), &lo, &here,
		     &advertised); /* only good on this host, and the peer is not */
	assert_int_equal(advertised.count, 0);
	twi_tcp_tell(host(), &lo, &here_lo, &advertised);
	assert_int_equal(advertised.count, 1);
	twi_tcp_tell(host(), &any, &here, &advertised);
	assert_int_equal(advertised.count, 2);
	assert_true(twi_tcp_same_host(&advertised.rows[0], &here)); /* the way it came first */
	assert_true(twi_tcp_same_host(&advertised.rows[1], &one));
	assert_int_equal(twi_tcp_port(&advertised.rows[0]), 4000);
	twi_tcp_tell(host(), &any6, &here, &advertised);
	assert_int_equal(advertised.count, 3);
	twi_tcp_tell(host(), &any, &here_lo, &advertised);
	assert_int_equal(advertised.count, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_told),
		cmocka_unit_test(test_told_that_is_nowhere),
		cmocka_unit_test(test_knob),
		cmocka_unit_test(test_rails),
		cmocka_unit_test(test_rails_of_a_knob),
		cmocka_unit_test(test_tell),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
