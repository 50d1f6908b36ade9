/* test_store.c - what the job's store answers: values, sums, deadlines, and ranks that disagree. */
#include "twt.h"

#include <string.h>

#include <towline/status.h>

#include "store_rig.h"

#define SECOND 1000000000ull

static uint64_t again; /* when whoever lingers looks anew */

static int set(struct twi_store *store, uint32_t client, const char *key, const char *value)
{
	struct twi_store_frame frame = twt_store_request(TWI_STORE_KIND_SET, key);

	frame.value = (const uint8_t *)value;
	frame.value_bytes = (uint32_t)strlen(value);
	return twt_store_ask(store, client, frame, 1);
}

static void values(void **state)
{
	struct twi_store *store = twt_store_make();
	uint32_t a = twt_store_member(store, 0), b = twt_store_member(store, 1);
	uint64_t before = twi_store_bytes(store);

	(void)state;
	assert_int_equal(twt_store_ask(store, b, twt_store_request(TWI_STORE_KIND_GET, "k"), 1),
			 TOW_OK);
	twt_store_take(b, 0); /* it waits */
	assert_int_equal(set(store, a, "other", "x"), TOW_OK);
	twt_store_take(b, 0);
	assert_int_equal(set(store, a, "k", "value"), TOW_OK);
	twt_store_take(a, 2);
	assert_string_equal(twt_store_take(b, 1)->text, "value");
	assert_int_equal(set(store, a, "k", "longer value"), TOW_OK);
	twt_store_take(a, 1);
	assert_int_equal(twt_store_ask(store, b, twt_store_request(TWI_STORE_KIND_GET, "k"), 1),
			 TOW_OK);
	assert_string_equal(twt_store_take(b, 1)->text, "longer value");
	assert_int_equal(set(store, a, "empty", ""), TOW_OK);
	twt_store_take(a, 1);
	assert_int_equal(twt_store_ask(store, b, twt_store_request(TWI_STORE_KIND_GET, "empty"), 1),
			 TOW_OK);
	assert_int_equal(twt_store_take(b, 1)->bytes, 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(
			twt_store_ask(store, a, twt_store_request(TWI_STORE_KIND_DELETE, "k"), 1),
			TOW_OK);
		assert_int_equal(twt_store_take(a, 1)->a, i == 0);
	}
	twt_store_ask(store, a, twt_store_request(TWI_STORE_KIND_DELETE, "empty"), 1);
	twt_store_ask(store, a, twt_store_request(TWI_STORE_KIND_DELETE, "other"), 1);
	twt_store_take(a, 2);
	assert_int_equal(twi_store_bytes(store), before);
	twi_store_destroy(store);
}

static void sums(void **state)
{
	struct twi_store *store = twt_store_make();
	uint32_t a = twt_store_member(store, 0), b = twt_store_member(store, 1);
	struct twi_store_frame add = twt_store_request(TWI_STORE_KIND_ADD, "n");

	(void)state;
	add.a = 5;
	assert_int_equal(twt_store_ask(store, a, add, 1), TOW_OK);
	assert_int_equal(twt_store_take(a, 1)->a, 5);
	/* The reply was lost: the same request over another connection is not added again. */
	twi_store_leave(store, a, 1);
	a = twt_store_member(store, 0);
	assert_int_equal(twt_store_ask(store, a, add, 1), TOW_OK);
	assert_int_equal(twt_store_take(a, 1)->a, 5);
	add = twt_store_request(TWI_STORE_KIND_ADD, "n");
	add.a = (uint64_t)-7;
	assert_int_equal(twt_store_ask(store, b, add, 1), TOW_OK);
	assert_int_equal((int64_t)twt_store_take(b, 1)->a, -2);
	set(store, a, "text", "abc");
	twt_store_take(a, 1);
	add = twt_store_request(TWI_STORE_KIND_ADD, "text");
	assert_int_equal(twt_store_ask(store, a, add, 1), TOW_OK);
	assert_int_equal(twt_store_take(a, 1)->status, TOW_EINVAL);
	twi_store_destroy(store);
}

static void mismatches(void **state)
{
	static const struct {
		uint32_t rank, world;
		uint64_t instance;
		const char *job;
		uint32_t version, restarts;
		const char *text;
	} rows[] = {
		{ 3, 8, 1, "job", 1, 2, "rank 3 says world_size 8, rank 0 says 4" },
		{ 3, 4, 1, "jib", 1, 2, "rank 3 says job 'jib', rank 0 says 'job'" },
		{ 3, 4, 1, "job", 9, 2, "rank 3 speaks version 9" },
		{ 3, 4, 1, "job", 1, 3, "rank 3 says restart 3 of the job, rank 0 says 2" },
		{ 4, 4, 1, "job", 1, 2, "to be rank 4, and rank 0 says world_size 4" },
		{ 1, 4, 1, "job", 1, 2, "two processes claim to be rank 1 of 4" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct twi_store *store = twt_store_make();
		uint32_t a = twt_store_member(store, 0), b = twt_store_member(store, 1),
			 c = twi_store_enter(store);

		assert_int_equal(twt_store_ask(store, a, twt_store_gather("open", 0, 2, 0, "a"), 1),
				 TOW_OK);
		assert_int_equal(set(store, b, "k", "v"), TOW_OK);
		assert_int_equal(twt_store_take(b, 1)->status, TOW_OK);
		twt_store_take(a, 0);
		/* Who disagrees is told why, and is to be closed; who waits goes on waiting. */
		assert_int_equal(twt_store_hello(store, c, rows[i].rank, rows[i].world,
						 rows[i].instance, rows[i].job, rows[i].version,
						 rows[i].restarts),
				 TOW_EMISMATCH);
		assert_int_equal(twt_store_take(c, 1)->status, TOW_EMISMATCH);
		if (strstr(twt_store_replies[c].text, rows[i].text) == NULL)
			fail_msg("'%s' is not in: %s", rows[i].text, twt_store_replies[c].text);
		assert_false(twi_store_is_member(store, c));
		twi_store_leave(store, c, 1);
		twt_store_take(a, 0);
		assert_false(twi_store_failed(store));
		assert_int_equal(twt_store_ask(store, b, twt_store_gather("open", 1, 2, 0, "b"), 1),
				 TOW_OK);
		assert_string_equal(twt_store_texts(twt_store_take(a, 1)), "a b ");
		assert_string_equal(twt_store_texts(twt_store_take(b, 1)), "a b ");
		/* Nor is anybody missed who never was a rank. */
		assert_true(twi_store_expire(store, 100 * SECOND) == UINT64_MAX);
		assert_false(twi_store_failed(store));
		twi_store_destroy(store);
	}
}

/* Whatever a stranger calls its job, it is said in printable ASCII, and in one line. */
static void hostile_names(void **state)
{
	struct twi_store *store = twt_store_make();
	uint32_t a = twt_store_member(store, 0), c = twi_store_enter(store);

	(void)state;
	assert_int_equal(twt_store_hello(store, c, 1, TWT_STORE_RANKS, 1,
					 "x\x1b]0;name\x07\nrank 0: all is well\x9b",
					 TWI_STORE_VERSION, 2),
			 TOW_EMISMATCH);
	assert_non_null(strstr(twt_store_take(c, 1)->text,
			       "'x\\x1b]0;name\\x07\\x0arank 0: all is well\\x9b'"));
	/* So are the keys that one who came in asks for. */
	twt_store_ask(store, a, twt_store_request(TWI_STORE_KIND_GET, "k\x1b[2J\n"), SECOND);
	twi_store_expire(store, 10 * SECOND);
	assert_non_null(strstr(twt_store_take(a, 1)->text, "'k\\x1b[2J\\x0a'"));
	twi_store_destroy(store);
}

/* Who only says that it is a rank neither is missed when it goes nor keeps that rank out. */
static void impostors(void **state)
{
	struct twi_store *store = twt_store_make();
	uint32_t a = twt_store_member(store, 0), b, c = twi_store_enter(store),
		 d = twi_store_enter(store);
	struct twi_store_frame open = twt_store_gather("open", 0, 2, 0, "a");

	(void)state;
	open.wait_ms = 1000000;
	assert_int_equal(twt_store_ask(store, a, open, 1), TOW_OK);
	for (int i = 0; i < 2; i++) {
		uint32_t client = i == 0 ? c : d;

		assert_int_equal(twt_store_hello(store, client, 1, TWT_STORE_RANKS, 7 + (uint64_t)i,
						 "job", TWI_STORE_VERSION, 2),
				 TOW_OK);
		assert_int_equal(twt_store_take(client, 1)->status, TOW_OK);
		assert_false(twi_store_is_member(store, client));
	}
	assert_int_equal(twt_store_ask(store, d, twt_store_request(TWI_STORE_KIND_BYE, ""), 1),
			 TOW_OK);
	twt_store_take(d, 1);
	twi_store_leave(store, d, SECOND);
	assert_false(twi_store_is_done(store, 9 * SECOND, &again));
	assert_true(twi_store_expire(store, SECOND + TWI_STORE_GRACE_NS) != 0);
	assert_false(twi_store_failed(store));
	twt_store_take(a, 0);
	b = twt_store_member(store, 1);
	assert_int_equal(twt_store_ask(store, b, twt_store_gather("open", 1, 2, 0, "b"), 1),
			 TOW_OK);
	assert_string_equal(twt_store_texts(twt_store_take(a, 1)), "a b ");
	twt_store_take(b, 1);
	/* The rank is there now: the other one is refused when it asks for something. */
	assert_int_equal(set(store, c, "k", "v"), TOW_EMISMATCH);
	assert_non_null(
		strstr(twt_store_take(c, 1)->text, "two processes claim to be rank 1 of 4"));
	twi_store_leave(store, c, SECOND);
	twi_store_expire(store, 100 * SECOND);
	assert_false(twi_store_failed(store));
	twi_store_destroy(store);
}

/*
 * A process that comes as a rank which has left, or has gone, is of a later start of the job: it is
 * to come again. So is not one that comes while the rank is there.
 */
static void later_starts(void **state)
{
	static const struct {
		bool leaves, goes;
		int status;
		const char *text;
	} rows[] = {
		{ false, false, TOW_EMISMATCH, "two processes claim to be rank 1 of 4" },
		{ true, false, TOW_EREFUSED, "an earlier start of the job, which rank 1 has left" },
		{ true, true, TOW_EREFUSED, "an earlier start of the job, which rank 1 has left" },
		{ false, true, TOW_EREFUSED, "an earlier start of the job, which rank 1 has left" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct twi_store *store = twt_store_make();
		uint32_t b = twt_store_member(store, 1), c = twi_store_enter(store);

		assert_int_equal(set(store, b, "k", "v"), TOW_OK);
		twt_store_take(b, 1);
		if (rows[i].leaves)
			twt_store_ask(store, b, twt_store_request(TWI_STORE_KIND_BYE, ""), 1);
		if (rows[i].goes)
			twi_store_leave(store, b, 1);
		assert_int_equal(twt_store_hello(store, c, 1, 4, 7, "job", 1, 2), rows[i].status);
		assert_int_equal(twt_store_take(c, 1)->status, rows[i].status);
		assert_non_null(strstr(twt_store_replies[c].text, rows[i].text));
		assert_false(twi_store_is_member(store, c));
		twi_store_destroy(store);
	}
}

static void deadlines(void **state)
{
	struct twi_store *store = twt_store_make();
	uint32_t a = twt_store_member(store, 0), b = twt_store_member(store, 1);

	(void)state;
	assert_true(twi_store_expire(store, SECOND) == UINT64_MAX);
	twt_store_ask(store, a, twt_store_gather("open", 0, TWT_STORE_RANKS, 0, "a"), SECOND);
	twt_store_ask(store, b, twt_store_request(TWI_STORE_KIND_GET, "never"), SECOND + 5);
	assert_true(twi_store_expire(store, SECOND) == 2 * SECOND);
	twt_store_take(a, 0);
	twi_store_refused(store, "of its key");
	assert_true(twi_store_expire(store, 2 * SECOND) == 2 * SECOND + 5);
	assert_int_equal(twt_store_take(a, 1)->status, TOW_EDEADLINE);
	assert_non_null(strstr(twt_store_replies[a].text,
			       "3 of 4 ranks have not come to 'open' in 1000 ms: "
			       "1, 2, 3"));
	assert_non_null(strstr(twt_store_replies[a].text,
			       "1 connections were refused, the last because of its key"));
	twi_store_expire(store, 3 * SECOND);
	assert_int_equal(twt_store_take(b, 1)->status, TOW_EDEADLINE);
	assert_non_null(strstr(twt_store_replies[b].text, "'never'"));
	twi_store_destroy(store);
}

static void lost_ranks(void **state)
{
	struct twi_store *store = twt_store_make();
	uint32_t a = twt_store_member(store, 0), b = twt_store_member(store, 1), d;

	(void)state;
	twt_store_ask(store, a, twt_store_gather("g", 0, 2, 0, ""), SECOND);
	/* A second connection of the same rank: it is there as long as one of them is. */
	d = twt_store_member(store, 1);
	twi_store_leave(store, d, SECOND);
	assert_true(twi_store_expire(store, SECOND + 1) == 2 * SECOND);
	twi_store_leave(store, b, SECOND);
	b = twt_store_member(store, 1); /* back in time */
	twi_store_expire(store, SECOND + 1);
	twt_store_take(a, 0);
	twt_store_ask(store, b, twt_store_request(TWI_STORE_KIND_BYE, ""), SECOND);
	twt_store_take(b, 1);
	d = twt_store_member(store, 3);
	twt_store_ask(store, d, twt_store_request(TWI_STORE_KIND_BYE, ""), SECOND);
	twt_store_take(d, 1);
	twi_store_leave(store, b, SECOND); /* it has said goodbye: that is no loss */
	twi_store_expire(store, 2 * SECOND - 1);
	assert_false(twi_store_failed(store));
	d = twt_store_member(store, 2);
	twi_store_leave(store, d, SECOND);
	assert_true(twi_store_expire(store, SECOND + 1) == 2 * SECOND);
	assert_false(twi_store_is_done(store, 9 * SECOND, &again)); /* a is there */
	twi_store_expire(store, SECOND + TWI_STORE_GRACE_NS);
	assert_true(twi_store_failed(store));
	assert_int_equal(twt_store_take(a, 1)->status, TOW_EPEER);
	assert_non_null(strstr(twt_store_replies[a].text, "rank 2 has gone"));
	assert_false(twi_store_is_done(store, SECOND + TWI_STORE_REST_NS - 1, &again));
	assert_true(again == SECOND + TWI_STORE_REST_NS);
	assert_true(twi_store_is_done(store, again, &again));
	twi_store_destroy(store);
}

static void out_of_order(void **state)
{
	struct twi_store *store = twt_store_make();
	uint32_t a, stranger = twi_store_enter(store);

	(void)state;
	assert_int_equal(set(store, stranger, "k", "v"), TOW_EPROTOCOL);
	a = twt_store_member(store, 0);
	assert_int_equal(twt_store_hello(store, a, 0, TWT_STORE_RANKS, 100, "job", 1, 2),
			 TOW_EPROTOCOL);
	twt_store_ask(store, a, twt_store_request(TWI_STORE_KIND_GET, "x"), 1);
	assert_int_equal(twt_store_ask(store, a, twt_store_request(TWI_STORE_KIND_GET, "y"), 1),
			 TOW_EPROTOCOL);
	twi_store_leave(store, a, 1);
	a = twt_store_member(store, 0);
	assert_int_equal(twt_store_ask(store, a,
				       twt_store_request(TWI_STORE_KIND_GET | TWI_STORE_REPLY, "x"),
				       1),
			 TOW_EPROTOCOL);
	assert_int_equal(twt_store_ask(store, a, twt_store_gather("g", 0, 0, 0, ""), 1),
			 TOW_EPROTOCOL);
	assert_int_equal(
		twt_store_ask(store, a, twt_store_gather("g", 0, TWT_STORE_RANKS + 1, 0, ""), 1),
		TOW_EPROTOCOL);
	assert_int_equal(twt_store_ask(store, a, twt_store_gather("g", 2, 2, 0, ""), 1),
			 TOW_EPROTOCOL);
	twi_store_destroy(store);
}

static void bounds(void **state)
{
	struct twi_store *store = twt_store_make();
	uint32_t a = twt_store_member(store, 0), made = 1;
	struct twi_store_frame frame;
	static uint8_t big[TWI_STORE_VALUE_MAX];
	char key[32];
	int i;

	(void)state;
	for (i = 0; i < 2000; i++) {
		snprintf(key, sizeof(key), "key %d", i);
		frame = twt_store_request(TWI_STORE_KIND_SET, key);
		frame.value = big;
		frame.value_bytes = sizeof(big);
		assert_int_equal(twt_store_ask(store, a, frame, 1), TOW_OK);
		if (twt_store_take(a, 1)->status != TOW_OK)
			break;
	}
	assert_int_equal(twt_store_replies[a].status, TOW_EBUSY);
	assert_in_range(i, 1000, 1100);
	assert_true(twi_store_bytes(store) <=
		    TWI_STORE_TOTAL_MAX + TWT_STORE_RANKS * TWI_STORE_RANK_BYTES);
	/* Small keys alone are bounded, too. */
	for (i = 0; i < 2000000; i++) {
		snprintf(key, sizeof(key), "small %d", i);
		assert_int_equal(set(store, a, key, ""), TOW_OK);
		if (twt_store_take(a, 1)->status != TOW_OK)
			break;
	}
	assert_int_equal(twt_store_replies[a].status, TOW_EBUSY);
	twt_store_ask(store, a, twt_store_request(TWI_STORE_KIND_DELETE, "key 0"), 1);
	twt_store_take(a, 1);
	set(store, a, "small again", "x");
	assert_int_equal(twt_store_take(a, 1)->status, TOW_OK);
	while (twi_store_enter(store) != UINT32_MAX)
		made++;
	assert_int_equal(made, TWT_STORE_CLIENTS);
	twi_store_destroy(store);
}

static struct {
	int count;
	uint64_t waited_ns;
	char missing[64];
} lateness;

static void on_late(void *arg, const char *key, const char *missing, uint64_t waited_ns)
{
	(void)arg;
	assert_string_equal(key, "late");
	lateness.count++;
	lateness.waited_ns = waited_ns;
	snprintf(lateness.missing, sizeof(lateness.missing), "%s", missing);
}

/* Whoever gives to a gather of three. */
static int give_late(struct twi_store *store, uint32_t client, uint32_t index, uint64_t now)
{
	struct twi_store_frame frame = twt_store_request(TWI_STORE_KIND_GATHER, "late");

	frame.wait_ms = 1000000;
	frame.a = twi_store_pair(index, 3);
	return twt_store_ask(store, client, frame, now);
}

/* Who waits in a gather is told of when it is late: then after three, nine times that long. */
static void late_members(void **state)
{
	const uint64_t late = 5000000000ull;
	const struct twi_store_config config = { .world_size = TWT_STORE_RANKS,
						 .restarts = 2,
						 .clients_max = TWT_STORE_CLIENTS,
						 .session = 42,
						 .job = "job",
						 .reply = twt_store_keep,
						 .late = on_late,
						 .late_ns = late };
	struct twi_store *store;
	uint32_t a, b, c;

	(void)state;
	memset(&lateness, 0, sizeof(lateness));
	memset(twt_store_replies, 0, sizeof(twt_store_replies));
	assert_int_equal(twi_store_create(&config, &store), TOW_OK);
	a = twt_store_member(store, 0);
	b = twt_store_member(store, 1);
	c = twt_store_member(store, 2);
	assert_int_equal(give_late(store, b, 1, 1000), TOW_OK);
	assert_int_equal(twi_store_expire(store, 1000), 1000 + late);
	assert_int_equal(twi_store_expire(store, 999 + late), 1000 + late);
	assert_int_equal(lateness.count, 0);
	assert_int_equal(twi_store_expire(store, 1000 + late), 1000 + 3 * late);
	assert_int_equal(lateness.count, 1);
	assert_int_equal(lateness.waited_ns, late);
	assert_string_equal(lateness.missing, "0, 2");
	/* one comes, the other does not */
	assert_int_equal(give_late(store, a, 0, 1000 + 2 * late), TOW_OK);
	assert_int_equal(twi_store_expire(store, 1000 + 3 * late), 1000 + 9 * late);
	assert_int_equal(lateness.count, 2);
	assert_string_equal(lateness.missing, "2");
	assert_int_equal(give_late(store, c, 2, 1000 + 4 * late), TOW_OK);
	assert_int_equal(twi_store_expire(store, 1000 + 100 * late), UINT64_MAX);
	assert_int_equal(lateness.count, 2);
	twi_store_destroy(store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values),       cmocka_unit_test(sums),
		cmocka_unit_test(mismatches),   cmocka_unit_test(deadlines),
		cmocka_unit_test(lost_ranks),   cmocka_unit_test(out_of_order),
		cmocka_unit_test(bounds),       cmocka_unit_test(hostile_names),
		cmocka_unit_test(impostors),    cmocka_unit_test(later_starts),
		cmocka_unit_test(late_members),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
