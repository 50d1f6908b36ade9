/* test_token.c - tokens: what is one, who has it, and how fast one may guess. */
#include "twt.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "diag/serve/listen_tcp.h"
#include "diag/serve/token.h"

#define GOOD "0123456789abcdef"

static void has_rules(void **state)
{
	struct twi_token token;
	char text[200];

	(void)state;
	assert_int_equal(twi_token_load(GOOD, "", &token), TOW_OK);
	assert_string_equal(token.text, GOOD);
	assert_int_equal(twi_token_load("0123456789abcde", "", &token), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "stats_token"));
	assert_null(strstr(tow_error_message(), "0123456789abcde")); /* it is a secret */
	assert_int_equal(twi_token_load("0123456789abcde ", "", &token), TOW_EINVAL);
	assert_int_equal(twi_token_load("0123456789abcde%", "", &token), TOW_EINVAL);
	memset(text, 'a', sizeof(text));
	text[TWI_TOKEN_MAX] = '\0';
	assert_int_equal(twi_token_load(text, "", &token), TOW_OK);
	assert_true(twi_token_same(&token, text));
	text[TWI_TOKEN_MAX] = 'a';
	text[TWI_TOKEN_MAX + 1] = '\0';
	assert_false(twi_token_same(&token, text));
	assert_int_equal(twi_token_load(text, "", &token), TOW_EINVAL);
	assert_int_equal(twi_token_load("", "", &token), TOW_EINVAL);
	assert_int_equal(twi_token_load(NULL, NULL, &token), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "stats_token_file"));
}

static void is_compared_whole(void **state)
{
	struct twi_token token;

	(void)state;
	assert_int_equal(twi_token_load(GOOD, "", &token), TOW_OK);
	assert_true(twi_token_same(&token, GOOD));
	assert_false(twi_token_same(&token, NULL));
	assert_false(twi_token_same(&token, ""));
	assert_false(twi_token_same(&token, "0123456789abcde"));
	assert_false(twi_token_same(&token, GOOD "0"));
	assert_false(twi_token_same(&token, "0123456789abcdeF"));
	assert_false(twi_token_same(&token, "1123456789abcdef"));
	assert_string_equal(twi_token_bearer("Bearer  x"), "x");
	assert_string_equal(twi_token_bearer("bearer x"), "x");
	assert_null(twi_token_bearer("Basic x"));
	assert_null(twi_token_bearer("Bearer"));
	assert_null(twi_token_bearer(NULL));
}

static void comes_from_a_file(void **state)
{
	char dir[] = "/tmp/twt-token-XXXXXX", path[64], link_path[64];
	struct twi_token token;
	FILE *file;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/token", dir);
	snprintf(link_path, sizeof(link_path), "%s/link", dir);
	assert_int_equal(twi_token_load("", path, &token), TOW_ESYSTEM);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(GOOD "\r\n", file);
	fclose(file);
	assert_int_equal(chmod(path, 0644), 0);
	assert_int_equal(twi_token_load("", path, &token), TOW_EPERM);
	assert_non_null(strstr(tow_error_message(), "chmod 600"));
	assert_int_equal(chmod(path, 0600), 0);
	assert_int_equal(twi_token_load("", path, &token), TOW_OK);
	assert_string_equal(token.text, GOOD);
	assert_int_equal(symlink(path, link_path), 0);
	assert_int_equal(twi_token_load("", link_path, &token), TOW_EPERM);
	assert_int_equal(unlink(link_path), 0);
	assert_int_equal(truncate(path, 100000), 0);
	assert_int_equal(twi_token_load("", path, &token), TOW_EINVAL);
	assert_int_equal(truncate(path, 0), 0);
	assert_int_equal(twi_token_load("", path, &token), TOW_EINVAL);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0); /* nobody waits for a writer */
	assert_int_equal(twi_token_load("", path, &token), TOW_EPERM);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(twi_token_load("", dir, &token), TOW_EPERM);
	assert_int_equal(rmdir(dir), 0);
}

static void guessing_is_slow(void **state)
{
	struct twi_throttle throttle = { 0 };
	const uint8_t one[16] = { 1 }, two[16] = { 2 };
	uint64_t now = 5000000000u;

	(void)state;
	for (unsigned i = 0; i < TWI_THROTTLE_BURST; i++) {
		assert_false(twi_throttle_refuses(&throttle, one, now));
		twi_throttle_wrong(&throttle, one, now);
	}
	assert_true(twi_throttle_refuses(&throttle, one, now));
	assert_true(twi_throttle_refuses(&throttle, one, now + TWI_THROTTLE_REFILL_NS - 1));
	assert_false(twi_throttle_refuses(&throttle, two, now));
	assert_false(twi_throttle_refuses(&throttle, one, now + TWI_THROTTLE_REFILL_NS));
	twi_throttle_wrong(&throttle, one, now + TWI_THROTTLE_REFILL_NS);
	assert_true(twi_throttle_refuses(&throttle, one, now + TWI_THROTTLE_REFILL_NS));
	/* an hour later there are no more than at first */
	now += 3600 * TWI_THROTTLE_REFILL_NS;
	for (unsigned i = 0; i < TWI_THROTTLE_BURST; i++) {
		assert_false(twi_throttle_refuses(&throttle, one, now));
		twi_throttle_wrong(&throttle, one, now);
	}
	assert_true(twi_throttle_refuses(&throttle, one, now));
}

/* The newest addresses are remembered. */
static void addresses_have_a_bound(void **state)
{
	struct twi_throttle throttle = { 0 };
	uint8_t address[16] = { 0 };

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		address[3] = (uint8_t)i;
		for (unsigned j = 0; j < TWI_THROTTLE_BURST; j++)
			twi_throttle_wrong(&throttle, address, 1000 + i);
		assert_true(twi_throttle_refuses(&throttle, address, 1000 + i));
	}
	address[3] = 99 - TWI_THROTTLE_ADDRESSES + 1;
	assert_true(twi_throttle_refuses(&throttle, address, 1100));
	address[3]--;
	assert_false(twi_throttle_refuses(&throttle, address, 1100));
}

static void addresses_are_read(void **state)
{
	static const struct {
		const char *text;
		int family;
		uint16_t port;
		bool loopback;
	} good[] = {
		{ "9400", AF_INET, 9400, true },
		{ "0", AF_INET, 0, true },
		{ "127.0.0.1:65535", AF_INET, 65535, true },
		{ "localhost:1", AF_INET, 1, true },
		{ "0.0.0.0:80", AF_INET, 80, false },
		{ "[::1]:7", AF_INET6, 7, true },
		{ "[::]:7", AF_INET6, 7, false },
	};
	static const char *const bad[] = {
		"",           ":",          "x",           ":80",          "65536",
		"-1",         "127.0.0.1:", "127.0.0.1:x", "127.0.0.1: 1", "host.example:80",
		"::1",        "[::1]",      "[::1:7",      "[]:7",         "127.1:80:80",
		"1.2.3.4.5:1"
	};
	struct sockaddr_storage address;
	socklen_t bytes;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		const struct sockaddr_in *v4 = (const void *)&address;
		const struct sockaddr_in6 *v6 = (const void *)&address;

		assert_int_equal(twi_listen_tcp_parse(good[i].text, &address, &bytes), TOW_OK);
		assert_int_equal(address.ss_family, good[i].family);
		if (good[i].family == AF_INET) {
			assert_int_equal(ntohs(v4->sin_port), good[i].port);
			assert_int_equal(v4->sin_addr.s_addr == htonl(INADDR_LOOPBACK),
					 good[i].loopback);
		} else {
			assert_int_equal(ntohs(v6->sin6_port), good[i].port);
			assert_int_equal(IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) != 0,
					 good[i].loopback);
		}
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (twi_listen_tcp_parse(bad[i], &address, &bytes) != TOW_EINVAL)
			fail_msg("'%s' is an address", bad[i]);
	}
}

static void is_decoded(void **state)
{
	char out[TWI_TOKEN_PARAM_BYTES], text[600];

	(void)state;
	assert_null(twi_token_param(NULL, out));
	assert_string_equal(twi_token_param("a%7Eb%7e%2d", out), "a~b~-");
	assert_string_equal(twi_token_param("%", out), "%");
	assert_string_equal(twi_token_param("a%4", out), "a%4");
	assert_string_equal(twi_token_param("%zz%00", out), "%zz%00");
	memset(text, 'a', sizeof(text));
	text[599] = '\0';
	assert_int_equal(strlen(twi_token_param(text, out)), TWI_TOKEN_MAX + 1);
	for (size_t i = 0; i + 3 < sizeof(text); i += 3)
		memcpy(text + i, "%61", 3);
	text[597] = '\0';
	assert_int_equal(strlen(twi_token_param(text, out)), TWI_TOKEN_MAX + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(has_rules),          cmocka_unit_test(is_decoded),
		cmocka_unit_test(is_compared_whole),  cmocka_unit_test(comes_from_a_file),
		cmocka_unit_test(guessing_is_slow),   cmocka_unit_test(addresses_have_a_bound),
		cmocka_unit_test(addresses_are_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
