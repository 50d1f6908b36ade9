/*
 * test_auth.c - laws of the handshake and of the cipher, for any keys, pieces and tampering:
 *
 *  - in whatever pieces the bytes come, both sides end as if they had come at once;
 *  - no bit of anything that is said can be changed without the side that hears it, or the other
 *    one, refusing: never are both let in;
 *  - nothing of another exchange, side or purpose stands in for what is due;
 *  - an encrypted stream in random pieces gives back its bytes, or ends where it was touched.
 */
#include "auth_pair.h"

#include "diag/record/lane_id.h"
#include "transport/wire/frame.h"

#define ROUNDS 300

static uint64_t seed, rng;

static uint64_t below(uint64_t bound)
{
	return twt_random_below(&rng, bound);
}

static struct twi_job_key random_key(void)
{
	static const unsigned how[] = { 0, KEYED, ENCRYPTED };

	return twt_job_key(how[below(3)], (uint8_t)below(3));
}

/* Both ends' verdict by their keys alone. */
static int verdict(const struct twi_job_key *a, const struct twi_job_key *b)
{
	return a->set == b->set && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0 ? TOW_OK
										     : TOW_EAUTH;
}

static void test_pieces(void **state)
{
	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		struct twi_job_key a = random_key(), b = random_key();
		struct twt_auth_pair pair;
		bool moved = true;

		twt_auth_open(&pair, &a, &b);
		while (moved) {
			const int first = (int)below(2);

			twt_auth_speak(&pair, (int)below(2));
			moved = twt_auth_hear(&pair, first, 1 + below(100));
			moved |= twt_auth_hear(&pair, !first, 1 + below(100));
			if (!moved) {
				twt_auth_speak(&pair, 0);
				twt_auth_speak(&pair, 1);
				moved = twt_auth_hear(&pair, first, 1 + below(100));
				moved |= twt_auth_hear(&pair, !first, 1 + below(100));
			}
		}
		assert_int_equal(pair.status[0], verdict(&a, &b));
		assert_int_equal(pair.status[1], verdict(&a, &b));
		assert_int_equal(twi_auth_encrypts(&pair.auth[0]),
				 twi_auth_encrypts(&pair.auth[1]));
	}
}

/*
 * Runs an exchange in which bit `bit` of what `who` says is flipped on its way; returns whether
 * both ends were let in.
 */
static bool both_in_with_bit(unsigned how, int who, size_t bit)
{
	const struct twi_job_key key = twt_job_key(how, 1);
	struct twt_auth_pair pair;
	bool moved = true, flipped = false;

	twt_auth_open(&pair, &key, &key);
	while (moved) {
		twt_auth_speak(&pair, 0);
		twt_auth_speak(&pair, 1);
		if (!flipped && pair.wire[who].said > bit / 8) {
			pair.wire[who].bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
			flipped = true;
		}
		moved = twt_auth_hear(&pair, 1, 1000);
		moved |= twt_auth_hear(&pair, 0, 1000);
	}
	assert_true(flipped);
	/* The acceptor proves last, so a bit of its proof is all that it cannot know of. */
	if (who == 0 || bit < 96 * 8)
		assert_int_not_equal(pair.status[1], TOW_OK);
	return pair.status[0] == TOW_OK && pair.status[1] == TOW_OK;
}

static void test_every_bit(void **state)
{
	static const unsigned how[] = { KEYED, ENCRYPTED };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		for (int who = 0; who < 2; who++) {
			for (size_t bit = 0; bit < (96 + 40) * 8; bit++)
				assert_false(both_in_with_bit(how[i], who, bit));
		}
	}
}

/* A few whole exchanges; any greeting and any proof of them, of either side, put together anew. */
static void test_spliced(void **state)
{
	const struct twi_job_key key = twt_job_key(ENCRYPTED, 1);
	struct twt_auth_pair old[3];

	(void)state;
	for (int i = 0; i < 3; i++) {
		twt_auth_open(&old[i], &key, &key);
		twt_auth_run(&old[i], 1000);
		assert_int_equal(old[i].status[0] | old[i].status[1], TOW_OK);
	}
	for (int round = 0; round < ROUNDS; round++) {
		const struct twt_said *greeting = &old[below(3)].wire[below(2)];
		const struct twt_said *proof = &old[below(3)].wire[below(2)];
		struct twi_auth auth;
		uint8_t out[TWI_AUTH_OUT_MAX];
		size_t used;
		int status;

		twi_auth_start(&auth, &key, below(2) == 0, "tcp");
		twi_auth_out(&auth, out);
		status = twi_auth_in(&auth, greeting->bytes, 96, &used);
		if (status == TOW_AGAIN)
			status = twi_auth_in(&auth, proof->bytes + 96, 40, &used);
		assert_int_equal(status, TOW_EAUTH);
	}
}

/* The proof of one purpose, relayed to an acceptor of another whose greeting is made to fit. */
static void test_purposes(void **state)
{
	const char *purposes[TWI_LANE_COUNT + 1];
	const struct twi_job_key key = twt_job_key(KEYED, 1);

	(void)state;
	for (unsigned lane = 0; lane < TWI_LANE_COUNT; lane++)
		purposes[lane] = twi_lane_name((enum twi_lane_id)lane);
	purposes[TWI_LANE_COUNT] = "store";
	for (unsigned a = 0; a <= TWI_LANE_COUNT; a++) {
		for (unsigned b = 0; b <= TWI_LANE_COUNT; b++) {
			struct twi_auth connector, acceptor;
			uint8_t said[TWI_AUTH_OUT_MAX];
			size_t bytes, used;
			int status;

			twi_auth_start(&connector, &key, true, purposes[a]);
			twi_auth_start(&acceptor, &key, false, purposes[b]);
			bytes = twi_auth_out(&connector, said);
			memset(said + 16, 0, 16);
			memcpy(said + 16, purposes[b], strlen(purposes[b]));
			assert_int_equal(twi_auth_in(&acceptor, said, bytes, &used), TOW_AGAIN);
			bytes = twi_auth_out(&acceptor, said);
			memset(said + 16, 0, 16);
			memcpy(said + 16, purposes[a], strlen(purposes[a]));
			assert_int_equal(twi_auth_in(&connector, said, bytes, &used), TOW_AGAIN);
			bytes = twi_auth_out(&connector, said);
			status = twi_auth_in(&acceptor, said, bytes, &used);
			assert_int_equal(status, a == b ? TOW_OK : TOW_EAUTH);
		}
	}
}

/* Random garbage of any length, in any state: refused or waited for, never let in. */
static void test_garbage(void **state)
{
	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		const struct twi_job_key key = twt_job_key(below(2) ? KEYED : ENCRYPTED, 1);
		struct twt_auth_pair pair;
		const int who = (int)below(2);
		uint8_t garbage[200];
		size_t used;

		for (size_t i = 0; i < sizeof(garbage); i++)
			garbage[i] = (uint8_t)below(256);
		twt_auth_open(&pair, &key, &key);
		for (uint64_t turns = below(4); turns > 0; turns--) {
			twt_auth_speak(&pair, 0);
			twt_auth_speak(&pair, 1);
			twt_auth_hear(&pair, (int)(turns & 1), below(2) ? 50 : 1000);
		}
		if (pair.status[who] != TOW_AGAIN)
			continue;
		pair.status[who] =
			twi_auth_in(&pair.auth[who], garbage, 1 + below(sizeof(garbage)), &used);
		assert_int_not_equal(pair.status[who], TOW_OK);
	}
}

/* What one side sealed, in records of any size, heard in pieces of any size. */
static void test_stream(void **state)
{
	static uint8_t plain[200000], wire[400000], heard[TWI_CIPHER_RECORD_MAX];
	uint8_t key[TWI_CIPHER_KEY_BYTES];

	(void)state;
	for (int round = 0; round < ROUNDS / 10; round++) {
		const bool touch = below(2) != 0;
		struct twi_cipher sender, receiver;
		size_t said = 0, at = 0, came = 0, touched, bytes;
		uint32_t sealed;

		for (size_t i = 0; i < sizeof(key); i++)
			key[i] = (uint8_t)below(256);
		for (size_t i = 0; i < sizeof(plain); i++)
			plain[i] = (uint8_t)below(256);
		twi_cipher_init(&sender, key);
		twi_cipher_init(&receiver, key);
		while (at < sizeof(plain)) {
			bytes = 1 + below(below(4) ? 3000 : TWI_CIPHER_RECORD_MAX);
			bytes = twi_min(bytes, sizeof(plain) - at);
			said += twi_cipher_seal(&sender, wire + said, plain + at, bytes);
			at += bytes;
		}
		touched = touch ? below(said) : said;
		if (touch)
			wire[touched] ^= (uint8_t)(1 + below(255));
		for (at = 0; at < said; at += 4 + sealed) {
			if (twi_cipher_length(wire + at, &sealed) < 0 || sealed > said - at - 4 ||
			    twi_cipher_open(&receiver, heard, wire + at + 4, sealed, &bytes) < 0)
				break;
			assert_true(at + 4 + sealed <= touched);
			assert_memory_equal(heard, plain + came, bytes);
			came += bytes;
		}
		assert_int_equal(touch, came < sizeof(plain));
	}
}

static int seed_rng(void **state)
{
	(void)state;
	rng = seed;
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_pieces, seed_rng),
		cmocka_unit_test_setup(test_every_bit, seed_rng),
		cmocka_unit_test_setup(test_spliced, seed_rng),
		cmocka_unit_test_setup(test_purposes, seed_rng),
		cmocka_unit_test_setup(test_garbage, seed_rng),
		cmocka_unit_test_setup(test_stream, seed_rng),
	};

	seed = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
