/*
 * test_auth.c - who is let in, who is not, and what each side is told: keys, versions, purposes,
 * reflection, replay, downgrade, and everything that is no greeting at all.
 */
#include "auth_pair.h"

#define FLAGS   10
#define PURPOSE 16
#define NONCE   32
#define PUBLIC  64

static struct twt_auth_pair pair;

static void open_pair(unsigned connector, unsigned acceptor)
{
	struct twi_job_key a = twt_job_key(connector, 7), b = twt_job_key(acceptor, 7);

	twt_auth_open(&pair, &a, &b);
}

static void expect_message(const char *text)
{
	if (strstr(tow_error_message(), text) == NULL)
		fail_msg("'%s' is not in '%s'", text, tow_error_message());
}

/* Both say what they have; the receiver's stream behind its last message is left alone. */
static void test_members(void **state)
{
	static const unsigned how[] = { 0, KEYED, ENCRYPTED };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		for (unsigned k = 0; k < 3; k++) {
			const bool mixed = (how[i] == 0) != (how[k] == 0);
			const int expected = mixed ? TOW_EAUTH : TOW_OK;

			open_pair(how[i], how[k]);
			twt_auth_run(&pair, 1000);
			assert_int_equal(pair.status[0], expected);
			assert_int_equal(pair.status[1], expected);
			for (int side = 0; side < 2; side++) {
				assert_int_equal(twi_auth_done(&pair.auth[side]), !mixed);
				assert_int_equal(
					twi_auth_encrypts(&pair.auth[side]),
					!mixed && (how[i] == ENCRYPTED || how[k] == ENCRYPTED));
				assert_int_equal(pair.wire[side].said,
						 mixed || how[i] == 0 ? 96 : 96 + 40);
			}
		}
	}
}

/* A stranger hears nothing from an acceptor before it has shown a whole greeting. */
static void test_silence(void **state)
{
	(void)state;
	open_pair(KEYED, KEYED);
	twt_auth_speak(&pair, 1);
	assert_int_equal(pair.wire[1].said, 0);
	twt_auth_speak(&pair, 0);
	for (int i = 0; i < 95; i++) {
		assert_true(twt_auth_hear(&pair, 1, 1));
		twt_auth_speak(&pair, 1);
		assert_int_equal(pair.wire[1].said, 0);
	}
	assert_true(twt_auth_hear(&pair, 1, 1));
	twt_auth_speak(&pair, 1);
	assert_int_equal(pair.wire[1].said, 96);
	/* ... and the greeting has no ephemeral key where nobody wants encryption */
	for (int i = 0; i < 32; i++)
		assert_int_equal(pair.wire[1].bytes[PUBLIC + i], 0);
}

static void test_wrong_key(void **state)
{
	struct twi_job_key a = twt_job_key(KEYED, 7), b = twt_job_key(ENCRYPTED, 8);

	(void)state;
	twt_auth_open(&pair, &a, &b);
	twt_auth_run(&pair, 1000);
	assert_int_equal(pair.status[0], TOW_EAUTH);
	expect_message("another job key: TOW_JOB_KEY");
	assert_int_equal(pair.status[1], TOW_EAUTH);
	/* the refusal is told, and holds no MAC */
	assert_int_equal(pair.wire[1].said, 96 + 40);
	assert_int_equal(pair.wire[1].bytes[96], 2);
	for (int i = 1; i < 40; i++)
		assert_int_equal(pair.wire[1].bytes[96 + i], 0);
	/* and stays: what is said later changes nothing */
	{
		size_t used = 9;

		assert_int_equal(twi_auth_in(&pair.auth[1], pair.wire[0].bytes, 96, &used),
				 TOW_EAUTH);
		assert_int_equal(used, 0);
		assert_false(twi_auth_done(&pair.auth[1]) || twi_auth_encrypts(&pair.auth[1]));
	}
}

/* Each side says which line is missing, and where. */
static void test_one_key(void **state)
{
	(void)state;
	open_pair(KEYED, 0);
	twt_auth_speak(&pair, 0);
	twt_auth_hear(&pair, 1, 1000);
	assert_int_equal(pair.status[1], TOW_EAUTH);
	expect_message("this one has none: set TOW_JOB_KEY or job_key_file");
	twt_auth_speak(&pair, 1);
	twt_auth_hear(&pair, 0, 1000);
	assert_int_equal(pair.status[0], TOW_EAUTH);
	expect_message("the other one has none: set TOW_JOB_KEY or job_key_file there");
	twt_auth_speak(&pair, 0);
	assert_int_equal(pair.wire[0].said, 96); /* no proof to one that needs none */
}

/* A connector's greeting, and what an acceptor says to it once `change` has been at it. */
static int greet_with(size_t at, const void *change, size_t bytes)
{
	open_pair(KEYED, KEYED);
	twt_auth_speak(&pair, 0);
	memcpy(pair.wire[0].bytes + at, change, bytes);
	twt_auth_hear(&pair, 1, 1000);
	return pair.status[1];
}

static void test_versions(void **state)
{
	static const uint8_t next[2] = { 3, 0 };
	/* the header of a HELLO and its body, of the version that had no greeting */
	static const uint8_t old[96] = {
		[0] = 1, [4] = 64, [32] = 'T', 'O', 'W', 'L', 'I', 'N', 'E', [40] = 1,
	};
	size_t used;

	(void)state;
	assert_int_equal(greet_with(8, next, 2), TOW_EPROTOCOL);
	expect_message("version 3");
	expect_message("version 2");
	/* it is told ours, whatever it makes of it */
	twt_auth_speak(&pair, 1);
	assert_int_equal(pair.wire[1].said, 96);
	pair.wire[1].bytes[8] = 9;
	twt_auth_hear(&pair, 0, 1000);
	assert_int_equal(pair.status[0], TOW_EPROTOCOL);
	expect_message("version 9");
	for (size_t step = 1; step <= sizeof(old); step += 5) {
		int status = TOW_AGAIN;

		open_pair(KEYED, 0);
		for (size_t at = 0; status == TOW_AGAIN; at += used) {
			assert_true(at < sizeof(old));
			status = twi_auth_in(&pair.auth[1], old + at,
					     at + step < sizeof(old) ? step : sizeof(old) - at,
					     &used);
		}
		assert_int_equal(status, TOW_EPROTOCOL);
		expect_message("version 1");
		expect_message("version 2");
	}
}

static void test_illegal_greetings(void **state)
{
	static const struct {
		size_t at, bytes;
		const char *change, *message;
	} rows[] = {
		{ 0, 1, "G", "not a greeting" },
		{ 7, 1, "\1", "not a greeting" },
		{ FLAGS, 1, "\2", "flags" },
		{ FLAGS, 1, "\5", "flags" },
		{ FLAGS, 2, "\1\200", "flags" },
		{ 12, 1, "\1", "flags" },
		{ PURPOSE, 6, "store", "for store there and for tcp here" },
		{ PURPOSE, 4, "\33[2J", "for something else there" },
		{ PURPOSE, 16, "aaaaaaaaaaaaaaaa", "for something else there" },
	};
	uint8_t zero[32] = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(greet_with(rows[i].at, rows[i].change, rows[i].bytes),
				 TOW_EPROTOCOL);
		expect_message(rows[i].message);
	}
	assert_int_equal(greet_with(PUBLIC, zero, 32), TOW_EPROTOCOL);
	expect_message("without an ephemeral key");
	assert_int_equal(greet_with(FLAGS, zero, 1), TOW_EAUTH);
	/* what is not ours is refused at its first byte */
	open_pair(0, 0);
	{
		size_t used;

		assert_int_equal(twi_auth_in(&pair.auth[1], (const uint8_t *)"GET /", 5, &used),
				 TOW_EPROTOCOL);
		expect_message("not a greeting");
		twt_auth_speak(&pair, 1);
		assert_int_equal(pair.wire[1].said, 0);
	}
}

/* Everything that a side says comes back to it: neither lets itself in. */
static void test_reflection(void **state)
{
	struct twi_job_key key = twt_job_key(ENCRYPTED, 7);
	struct twi_auth other;
	uint8_t out[TWI_AUTH_OUT_MAX];
	size_t used, bytes;

	(void)state;
	open_pair(ENCRYPTED, ENCRYPTED);
	twt_auth_speak(&pair, 0);
	assert_int_equal(twi_auth_in(&pair.auth[0], pair.wire[0].bytes, 96, &used), TOW_EAUTH);
	expect_message("the greeting of this side back");
	/* through another connection of the same acceptor: its proof is not a connector's */
	open_pair(ENCRYPTED, ENCRYPTED);
	twt_auth_run(&pair, 1000);
	twi_auth_start(&other, &key, false, "tcp");
	assert_int_equal(twi_auth_in(&other, pair.wire[1].bytes, 96, &used), TOW_AGAIN);
	bytes = twi_auth_out(&other, out);
	assert_int_equal(bytes, 96);
	assert_int_equal(twi_auth_in(&other, pair.wire[1].bytes + 96, 40, &used), TOW_EAUTH);
	/* a connector whose own proof is given back to it */
	open_pair(ENCRYPTED, ENCRYPTED);
	twt_auth_speak(&pair, 0);
	twt_auth_hear(&pair, 1, 1000);
	twt_auth_speak(&pair, 1);
	twt_auth_hear(&pair, 0, 1000);
	twt_auth_speak(&pair, 0);
	assert_int_equal(twi_auth_in(&pair.auth[0], pair.wire[0].bytes + 96, 40, &used), TOW_EAUTH);
}

/* A whole exchange that was listened to lets nobody in, as either side. */
static void test_replay(void **state)
{
	struct twi_job_key key = twt_job_key(KEYED, 7);
	struct twi_auth again;
	size_t used;

	(void)state;
	open_pair(KEYED, KEYED);
	twt_auth_run(&pair, 1000);
	assert_int_equal(pair.status[1], TOW_OK);
	twi_auth_start(&again, &key, false, "tcp");
	assert_int_equal(twi_auth_in(&again, pair.wire[0].bytes, 96 + 40, &used), TOW_EAUTH);
	twi_auth_start(&again, &key, true, "tcp");
	assert_int_equal(twi_auth_in(&again, pair.wire[1].bytes, 96 + 40, &used), TOW_EAUTH);
}

/* One in the middle takes the wish for encryption out of both greetings. */
static void test_downgrade(void **state)
{
	(void)state;
	open_pair(ENCRYPTED, ENCRYPTED);
	twt_auth_speak(&pair, 0);
	pair.wire[0].bytes[FLAGS] = 1;
	twt_auth_hear(&pair, 1, 1000);
	twt_auth_speak(&pair, 1);
	pair.wire[1].bytes[FLAGS] = 1;
	twt_auth_run(&pair, 1000);
	assert_int_equal(pair.status[0], TOW_EAUTH);
	assert_int_equal(pair.status[1], TOW_EAUTH);
	/* only of one: the other side would speak in the clear to one that listens for ciphers */
	open_pair(ENCRYPTED, KEYED);
	twt_auth_speak(&pair, 0);
	pair.wire[0].bytes[FLAGS] = 1;
	twt_auth_run(&pair, 1000);
	assert_int_not_equal(pair.status[0], TOW_OK);
	assert_int_not_equal(pair.status[1], TOW_OK);
}

/* An ephemeral key of small order would make keys that anyone can compute. */
static void test_small_order(void **state)
{
	(void)state;
	open_pair(KEYED, ENCRYPTED);
	twt_auth_speak(&pair, 0);
	memset(pair.wire[0].bytes + PUBLIC, 0, 32);
	pair.wire[0].bytes[PUBLIC] = 1;
	memcpy(pair.auth[0].greetings[0] + PUBLIC, pair.wire[0].bytes + PUBLIC, 32);
	twt_auth_run(&pair, 1000);
	assert_int_equal(pair.status[1], TOW_EAUTH);
	assert_false(twi_auth_done(&pair.auth[1]));
}

/* Both sides have the same two ciphers, and a second exchange has others. */
static void test_ciphers(void **state)
{
	struct twi_cipher send[2], receive[2];
	uint8_t sealed[2][64], plain[64];
	size_t bytes = 0;

	(void)state;
	for (int round = 0; round < 2; round++) {
		open_pair(KEYED, ENCRYPTED);
		twt_auth_run(&pair, 1000);
		assert_int_equal(pair.status[0] | pair.status[1], TOW_OK);
		twi_auth_ciphers(&pair.auth[0], &send[0], &receive[0]);
		twi_auth_ciphers(&pair.auth[1], &send[1], &receive[1]);
		for (int side = 0; side < 2; side++) {
			assert_int_equal(twi_cipher_seal(&send[side], sealed[side], "hello", 5),
					 26);
			assert_int_equal(twi_cipher_open(&receive[!side], plain, sealed[side] + 4,
							 22, &bytes),
					 TOW_OK);
			assert_int_equal(bytes, 5);
			assert_memory_equal(plain, "hello", 5);
		}
		assert_memory_not_equal(sealed[0], sealed[1], 26);
		/* nothing secret is left in the exchange */
		for (size_t i = 0; i < sizeof(pair.auth[0].keys[0]); i++)
			assert_int_equal(pair.auth[0].keys[0][i] | pair.auth[0].keys[1][i], 0);
		for (size_t i = 0; i < 32; i++)
			assert_int_equal(pair.auth[0].key[i] | pair.auth[0].secret[i], 0);
	}
	/* what one side sealed does not open as the other's */
	twi_cipher_seal(&send[0], sealed[0], "hello", 5);
	assert_int_equal(twi_cipher_open(&receive[0], plain, sealed[0] + 4, 22, &bytes), TOW_EAUTH);
}

static void test_not_started(void **state)
{
	struct twi_auth auth;
	uint8_t out[TWI_AUTH_OUT_MAX];
	size_t used;

	(void)state;
	memset(&auth, 0, sizeof(auth));
	assert_int_equal(twi_auth_out(&auth, out), 0);
	assert_false(twi_auth_done(&auth));
	assert_int_equal(twi_auth_in(&auth, out, 0, &used), TOW_EPROTOCOL);
	open_pair(KEYED, KEYED);
	twi_auth_wipe(&pair.auth[0]);
	assert_int_equal(twi_auth_in(&pair.auth[0], out, 0, &used), TOW_EPROTOCOL);
}

/* What follows the last message belongs to whoever comes next. */
static void test_rest(void **state)
{
	struct twi_job_key key = twt_job_key(0, 0);
	uint8_t bytes[200];
	size_t used;

	(void)state;
	open_pair(0, 0);
	twt_auth_speak(&pair, 0);
	memcpy(bytes, pair.wire[0].bytes, 96);
	memset(bytes + 96, 'x', 104);
	twi_auth_start(&pair.auth[1], &key, false, "tcp");
	assert_int_equal(twi_auth_in(&pair.auth[1], bytes, 200, &used), TOW_OK);
	assert_int_equal(used, 96);
	assert_int_equal(twi_auth_in(&pair.auth[1], bytes, 200, &used), TOW_OK);
	assert_int_equal(used, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_members),    cmocka_unit_test(test_silence),
		cmocka_unit_test(test_wrong_key),  cmocka_unit_test(test_one_key),
		cmocka_unit_test(test_versions),   cmocka_unit_test(test_illegal_greetings),
		cmocka_unit_test(test_reflection), cmocka_unit_test(test_replay),
		cmocka_unit_test(test_downgrade),  cmocka_unit_test(test_small_order),
		cmocka_unit_test(test_ciphers),    cmocka_unit_test(test_not_started),
		cmocka_unit_test(test_rest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
