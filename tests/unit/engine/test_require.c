/*
 * test_require.c - the words of the knob `require`: which there are, what each asks of a
 * connection, what it asks of a lane before there is one, and how a wrong one is named.
 */
#include "twt.h"

#include <arpa/inet.h>
#include <string.h>

#include <towline/status.h>

#include "diag/base/error.h"
#include "transport/engine/require.h"
#include "transport/lanes/lane.h"

static const struct twi_way plain = { .lane = TWI_LANE_TCP, .iface = "eth0" };

static void says(const char *text, const char *part)
{
	if (strstr(text, part) == NULL)
		fail_msg("'%s' does not say '%s'", text, part);
}

static void test_words(void **state)
{
	static const char *const good[] = { "",
					    "zero_copy",
					    "lane:tcp",
					    "lane:ofi|shm,iface:ib0|ib1,encrypted,zero_copy",
					    "lane:loop,lane:tcp",
					    "iface:mlx5_0" };
	static const struct {
		const char *knob, *named;
	} bad[] = {
		{ "fast", "'fast' is none of zero_copy, lane:NAME, iface:NAME, encrypted" },
		{ "lane", "'lane' is none of" },
		{ "lane:", "'lane:' is none of" },
		{ "zero_copy:yes", "'zero_copy:yes' is none of" },
		{ "zero_copy,,encrypted", "'' is none of" },
		{ "zero_copy,Encrypted", "'Encrypted' is none of" },
		{ "lane:tcp|tpc", "'lane:tcp|tpc': 'tpc' is none of loop, tcp, shm, ofi" },
		{ "lane:tow", "'tow' is none of loop, tcp" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_int_equal(twi_require_check(good[i]), TOW_OK);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(twi_require_check(bad[i].knob), TOW_EINVAL);
		says(tow_error_message(), bad[i].named);
	}
}

/* One change of a plain connection, and what it is then refused for; NULL: it is not. */
static void asks(const char *knob, const struct twi_way *way, const char *refused)
{
	char why[TWI_REQUIRE_WHY] = "";

	if (twi_require_meets(knob, way, why) != (refused == NULL))
		fail_msg("%s: %s", knob, why);
	if (refused != NULL)
		says(why, refused);
}

static void test_connections(void **state)
{
	struct twi_way way = plain;

	(void)state;
	asks("", &way, NULL);
	asks("lane:tcp", &way, NULL);
	asks("lane:ofi|tcp,iface:ib0|eth0", &way, NULL);
	asks("lane:ofi|shm", &way, "require=lane:ofi|shm: this is lane tcp");
	asks("iface:ib0", &way, "require=iface:ib0: it goes over eth0");
	asks("iface:eth", &way, "it goes over eth0");
	asks("lane:tcp,encrypted", &way, "require=encrypted: it is not encrypted");
	strcpy(way.also, "mlx5_0");
	asks("iface:mlx5_0", &way, NULL);
	asks("iface:ib0", &way, "it goes over eth0 of mlx5_0");
	way.iface[0] = way.also[0] = '\0';
	asks("iface:eth0", &way, "no interface is known to carry it");
	way.encrypted = true;
	asks("encrypted", &way, NULL);
	asks("zero_copy", &way, NULL);
	way.copied = "encrypted payload is copied";
	asks("encrypted,zero_copy", &way, "require=zero_copy: encrypted payload is copied");
}

/* What a lane can never be is known before it is tried; what a handshake tells is left open. */
static void test_lanes(void **state)
{
	static const struct {
		const char *knob;
		enum twi_lane_id lane;
		const char *refused;
	} cases[] = {
		{ "encrypted", TWI_LANE_TCP, NULL },
		{ "encrypted", TWI_LANE_SHM, "require=encrypted: it does not encrypt" },
		{ "encrypted", TWI_LANE_OFI, "it does not encrypt" },
		{ "iface:eth0", TWI_LANE_TCP, NULL },
		{ "iface:eth0", TWI_LANE_OFI, NULL },
		{ "iface:eth0", TWI_LANE_SHM, "require=iface:eth0: it goes over no interface" },
		{ "zero_copy", TWI_LANE_TCP, NULL },
		{ "zero_copy", TWI_LANE_SHM, NULL },
		{ "zero_copy", TWI_LANE_LOOP, TWI_REQUIRE_LOOP },
		{ "lane:ofi", TWI_LANE_SHM, "require=lane:ofi: this is lane shm" },
		{ "lane:ofi|shm", TWI_LANE_SHM, NULL },
	};
	static const struct twi_lane_ops *const ops[TWI_LANE_COUNT] = {
#define TWI_LANE(id, name, ...) [TWI_LANE_##id] = &twi_lane_##name,
#include "diag/record/lane.def"
#undef TWI_LANE
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char why[TWI_REQUIRE_WHY] = "";

		if (twi_require_lane(cases[i].knob, ops[cases[i].lane], why) !=
		    (cases[i].refused == NULL))
			fail_msg("%s of %s: %s", cases[i].knob, ops[cases[i].lane]->scheme, why);
		if (cases[i].refused != NULL)
			says(why, cases[i].refused);
	}
	assert_true(twi_require_names_iface("lane:tcp,iface:lo"));
	assert_false(twi_require_names_iface("lane:tcp"));
	assert_true(twi_require_said("require=encrypted: it is not"));
	assert_false(twi_require_said("connect to tcp://127.0.0.1:1"));
}

static void test_interface(void **state)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(7) };
	char name[TWI_IFACE_BYTES];

	(void)state;
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	twi_iface_of((const struct sockaddr *)&at, name);
	assert_string_equal(name, "lo");
	at.sin_addr.s_addr = inet_addr("192.0.2.77"); /* of documents alone */
	twi_iface_of((const struct sockaddr *)&at, name);
	assert_string_equal(name, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_connections),
		cmocka_unit_test(test_lanes),
		cmocka_unit_test(test_interface),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
