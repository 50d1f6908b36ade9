/*
 * test_store_gathers.c - gathers of the job's store: replies that are lost, come in parts, or are
 * asked for again when other members have gone on; and members that disagree.
 */
#include "twt.h"

#include <string.h>

#include <towline/status.h>

#include "store_rig.h"

static void gathers(void **state)
{
	struct twi_store *store = twt_store_make();
	uint32_t c[TWT_STORE_RANKS];

	(void)state;
	for (uint32_t i = 0; i < TWT_STORE_RANKS; i++)
		c[i] = twt_store_member(store, i);
	for (uint32_t generation = 0; generation < 3; generation++) {
		assert_int_equal(twt_store_ask(store, c[2],
					       twt_store_gather("g", 2, 3, generation, "two"), 1),
				 0);
		assert_int_equal(twt_store_ask(store, c[0],
					       twt_store_gather("g", 0, 3, generation, "old"), 1),
				 0);
		twt_store_take(c[0], 0);
		/* It comes back over a new connection, and gives anew: that counts once. */
		twi_store_leave(store, c[0], 1);
		c[0] = twt_store_member(store, 0);
		assert_int_equal(twt_store_ask(store, c[0],
					       twt_store_gather("g", 0, 3, generation, "zero"), 1),
				 0);
		twt_store_take(c[0], 0);
		assert_int_equal(
			twt_store_ask(store, c[1], twt_store_gather("g", 1, 3, generation, ""), 1),
			0);
		for (uint32_t i = 0; i < 3; i++)
			assert_string_equal(twt_store_texts(twt_store_take(c[i], 1)), "zero  two ");
		/* Whoever has not had the reply asks again, and what it says now is not heard. */
		assert_int_equal(twt_store_ask(store, c[1],
					       twt_store_gather("g", 1, 3, generation, "late"), 1),
				 0);
		assert_string_equal(twt_store_texts(twt_store_take(c[1], 1)), "zero  two ");
	}
	/* Behind others that have gone on: nobody has those values any more. */
	assert_int_equal(twt_store_ask(store, c[1], twt_store_gather("g", 1, 3, 0, ""), 1), TOW_OK);
	assert_int_equal(twt_store_take(c[1], 1)->status, TOW_EMISMATCH);
	assert_non_null(strstr(twt_store_replies[c[1]].text, "rank 1 is at number 0 of 'g'"));
	assert_true(twi_store_failed(store));
	twi_store_destroy(store);
}

/* Others have gone on to the next gather while a member asks again for what it has not had. */
static void gather_before(void **state)
{
	struct twi_store *store = twt_store_make();
	uint32_t c[3], late;
	struct twi_store_frame old;

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		c[i] = twt_store_member(store, i);
	for (uint32_t generation = 0; generation < 4; generation++) {
		for (uint32_t i = 0; i < 3; i++)
			twt_store_ask(store, c[i], twt_store_gather("g", i, 3, generation, "first"),
				      1);
		assert_string_equal(twt_store_texts(twt_store_take(c[2], 1)), "first first first ");
		twt_store_take(c[0], 1);
		old = twt_store_gather("g", 0, 3, generation, "first");
		twt_store_replies[c[1]].count = 0; /* its reply is lost */
		generation++;
		twt_store_ask(store, c[0], twt_store_gather("g", 0, 3, generation, "next"), 1);
		twt_store_ask(store, c[2], twt_store_gather("g", 2, 3, generation, "next"), 1);
		twi_store_leave(store, c[1], 1);
		c[1] = twt_store_member(store, 1);
		for (int times = 0; times < 2; times++) {
			twt_store_ask(store, c[1],
				      twt_store_gather("g", 1, 3, generation - 1, "again"), 1);
			assert_string_equal(twt_store_texts(twt_store_take(c[1], 1)),
					    "first first first ");
		}
		/* What comes late over a connection that broke has no effect. */
		late = twi_store_enter(store);
		assert_true(late < TWT_STORE_CLIENTS);
		twt_store_hello(store, late, 0, TWT_STORE_RANKS, 100, "job", TWI_STORE_VERSION, 2);
		twt_store_take(late, 1);
		twt_store_ask(store, late, old, 1);
		assert_int_equal(twt_store_take(late, 1)->status, TOW_ECANCELED);
		twi_store_leave(store, late, 1);
		twt_store_take(c[0], 0);
		twt_store_ask(store, c[1], twt_store_gather("g", 1, 3, generation, "next"), 1);
		for (uint32_t i = 0; i < 3; i++)
			assert_string_equal(twt_store_texts(twt_store_take(c[i], 1)),
					    "next next next ");
	}
	assert_false(twi_store_failed(store));
	twt_store_ask(store, c[0], twt_store_gather("g", 0, 3, 4, ""), 1);
	twt_store_ask(store, c[1], twt_store_gather("g", 0, 3, 3, ""), 1);
	assert_int_equal(twt_store_take(c[1], 1)->status, TOW_EMISMATCH);
	assert_non_null(strstr(twt_store_replies[c[1]].text, "claim to be member 0 of 'g'"));
	twi_store_destroy(store);
}

/* More than one reply holds: the rest is asked for from an index on. */
static void long_gather(void **state)
{
	struct twi_store *store = twt_store_make();
	uint32_t c[TWT_STORE_RANKS], from = 0, seen = 0;
	char big[TWI_STORE_GATHERED_MAX + 2];

	(void)state;
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	c[0] = twt_store_member(store, 0);
	assert_int_equal(twt_store_ask(store, c[0], twt_store_gather("g", 0, 1, 0, big), 1),
			 TOW_EPROTOCOL);
	big[sizeof(big) - 2] = '\0';
	for (uint32_t i = 1; i < TWT_STORE_RANKS; i++) {
		c[i] = twt_store_member(store, i);
		assert_int_equal(twt_store_ask(store, c[i],
					       twt_store_gather("g", i, TWT_STORE_RANKS, 0, big),
					       1),
				 TOW_OK);
	}
	assert_int_equal(
		twt_store_ask(store, c[0], twt_store_gather("g", 0, TWT_STORE_RANKS, 0, big), 1),
		TOW_OK);
	do {
		struct twi_store_frame frame = twt_store_gather("g", 0, TWT_STORE_RANKS, 0, big);

		frame.b = twi_store_pair(0, from);
		twt_store_replies[c[0]].count = 0;
		assert_int_equal(twt_store_ask(store, c[0], frame, 1), TOW_OK);
		seen += twt_store_take(c[0], 1)->bytes / (TWI_STORE_GATHERED_MAX + 2);
		from = (uint32_t)twt_store_replies[c[0]].a;
	} while (from != 0);
	assert_int_equal(seen, TWT_STORE_RANKS);
	twi_store_destroy(store);
}

static void gather_mismatches(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct twi_store *store = twt_store_make();
		uint32_t a = twt_store_member(store, 0), b = twt_store_member(store, 1);

		twt_store_ask(store, a, twt_store_gather("g", 0, 3, 0, ""), 1);
		assert_int_equal(
			twt_store_ask(store, b,
				      twt_store_gather("g", i == 0 ? 1 : 0, i == 0 ? 4 : 3, 0, ""),
				      1),
			TOW_OK);
		assert_int_equal(twt_store_take(a, 1)->status, TOW_EMISMATCH);
		assert_non_null(
			strstr(twt_store_take(b, 1)->text, i == 0 ? "has 4 members, other ranks say"
								  : "claim to be member 0 of 'g'"));
		twi_store_destroy(store);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gathers),
		cmocka_unit_test(gather_before),
		cmocka_unit_test(long_gather),
		cmocka_unit_test(gather_mismatches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
