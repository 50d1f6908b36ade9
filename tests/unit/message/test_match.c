/*
 * Matching by tag: order within a tag, no order between tags, coming back, cancels, walks,
 * teardown, and that the hash spreads the tags that people use.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "transport/message/match.h"

static struct twi_match match;

static int set_up(void **state)
{
	(void)state;
	twi_match_init(&match);
	return 0;
}

static void test_empty(void **state)
{
	(void)state;
	assert_null(twi_match_take_posted(&match, 0, 0));
	assert_null(twi_match_take_unexpected(&match, 0, 0));
	assert_null(twi_match_first_posted(&match));
	assert_null(twi_match_first_unexpected(&match));
}

static void test_receive_first(void **state)
{
	struct twi_match_entry recv = { .tag = 5 }, message = { .tag = 5 };

	(void)state;
	assert_null(twi_match_post(&match, &recv));
	assert_int_equal(match.posted_count, 1);
	assert_ptr_equal(twi_match_first_posted(&match), &recv);
	assert_ptr_equal(twi_match_arrive(&match, &message), &recv);
	assert_int_equal(match.posted_count, 0);
	assert_int_equal(match.unexpected_count, 0);
}

static void test_message_first(void **state)
{
	struct twi_match_entry recv = { .tag = 5 }, message = { .tag = 5 };

	(void)state;
	assert_null(twi_match_arrive(&match, &message));
	assert_int_equal(match.unexpected_count, 1);
	assert_ptr_equal(twi_match_first_unexpected(&match), &message);
	assert_ptr_equal(twi_match_post(&match, &recv), &message);
	assert_int_equal(match.unexpected_count, 0);
	assert_int_equal(match.posted_count, 0);
}

static void test_other_tags_do_not_match(void **state)
{
	struct twi_match_entry recv = { .tag = 5 }, message = { .tag = 5 + (1ull << 63) };

	(void)state;
	assert_null(twi_match_post(&match, &recv));
	assert_null(twi_match_arrive(&match, &message));
	assert_null(twi_match_take_posted(&match, 6, 0));
	assert_null(twi_match_take_unexpected(&match, 5, 0));
	assert_int_equal(match.posted_count, 1);
	assert_int_equal(match.unexpected_count, 1);
}

/* A tag other than `tag` that lies in the same bucket. */
static uint64_t colliding(uint64_t tag)
{
	uint64_t other = tag + 1;

	while (twi_match_hash(other, 0) != twi_match_hash(tag, 0))
		other++;
	return other;
}

static void test_order_within_a_tag(void **state)
{
	const uint64_t tag = 9, other = colliding(9);
	struct twi_match_entry recv[6], message = { .tag = tag };

	(void)state;
	for (size_t i = 0; i < 6; i++) {
		recv[i] = (struct twi_match_entry){ .tag = i % 2 ? tag : other };
		assert_null(twi_match_post(&match, &recv[i]));
	}
	assert_ptr_equal(twi_match_take_posted(&match, tag, 0), &recv[1]);
	assert_ptr_equal(twi_match_arrive(&match, &message), &recv[3]);
	assert_ptr_equal(twi_match_take_posted(&match, other, 0), &recv[0]);
	assert_ptr_equal(twi_match_take_posted(&match, tag, 0), &recv[5]);
	assert_null(twi_match_take_posted(&match, tag, 0));
	assert_ptr_equal(twi_match_take_posted(&match, other, 0), &recv[2]);
	assert_ptr_equal(twi_match_take_posted(&match, other, 0), &recv[4]);
	assert_int_equal(match.posted_count, 0);
}

static void test_cancel(void **state)
{
	struct twi_match_entry a = { .tag = 1 }, b = { .tag = 1 }, m = { .tag = 1 };
	struct twi_match_entry fresh = { .tag = 1 };

	(void)state;
	assert_null(twi_match_post(&match, &a));
	assert_null(twi_match_post(&match, &b));
	assert_true(twi_match_remove_posted(&match, &a));
	assert_false(twi_match_remove_posted(&match, &a));
	assert_ptr_equal(twi_match_arrive(&match, &m), &b);
	assert_false(twi_match_remove_posted(&match, &b));
	assert_false(twi_match_remove_unexpected(&match, &m)); /* matched: never queued */
	assert_null(twi_match_arrive(&match, &m));
	assert_ptr_equal(twi_match_post(&match, &fresh), &m);
	assert_false(twi_match_remove_posted(&match, &fresh)); /* likewise */
	assert_null(twi_match_arrive(&match, &m));
	assert_true(twi_match_remove_unexpected(&match, &m));
	assert_false(twi_match_remove_unexpected(&match, &m));
	assert_null(twi_match_post(&match, &a));
	assert_int_equal(match.posted_count, 1);
	assert_int_equal(match.unexpected_count, 0);
}

/* Posts or lets arrive: the two sides of every case below. */
static struct twi_match_entry *come(bool receive, bool first, struct twi_match_entry *entry)
{
	if (receive)
		return first ? twi_match_post_first(&match, entry) : twi_match_post(&match, entry);
	return first ? twi_match_arrive_first(&match, entry) : twi_match_arrive(&match, entry);
}

static struct twi_match_entry *take(bool receive, uint64_t tag)
{
	return receive ? twi_match_take_posted(&match, tag, 0)
		       : twi_match_take_unexpected(&match, tag, 0);
}

/* One that comes back overtakes its own tag and nobody else, and matches like any other. */
static void check_first(bool receive)
{
	const uint64_t tag = 9, other = colliding(9);
	struct twi_match_entry a = { .tag = tag }, b = { .tag = other }, c = { .tag = tag };
	struct twi_match_entry meets = { .tag = tag };

	assert_null(come(receive, false, &a));
	assert_null(come(receive, false, &b));
	assert_ptr_equal(take(receive, tag), &a);
	assert_null(come(receive, false, &c));
	assert_null(come(receive, true, &a));
	assert_int_equal(match.posted_count + match.unexpected_count, 3);
	assert_ptr_equal(come(!receive, false, &meets), &a);
	assert_ptr_equal(come(!receive, true, &meets), &c);
	assert_null(take(receive, tag));
	assert_ptr_equal(take(receive, other), &b);
	assert_null(come(receive, true, &a)); /* nobody there to stand in front of */
	assert_true(receive ? twi_match_remove_posted(&match, &a)
			    : twi_match_remove_unexpected(&match, &a));
	assert_int_equal(match.posted_count + match.unexpected_count, 0);
}

static void test_first(void **state)
{
	(void)state;
	check_first(true);
	check_first(false);
}

/* Every tenth goes while the walk stands on it; the walk must still see each of the rest once. */
static void test_walk(void **state)
{
	struct twi_match_entry recv[300], message[300], *entry, *next;
	unsigned int seen = 0;

	(void)state;
	for (size_t i = 0; i < 300; i++) {
		recv[i] = (struct twi_match_entry){ .tag = i / 2 };
		message[i] = (struct twi_match_entry){ .tag = 1000 + i / 2 };
		assert_null(twi_match_post(&match, &recv[i]));
		assert_null(twi_match_arrive(&match, &message[i]));
	}
	for (entry = twi_match_first_unexpected(&match); entry != NULL; entry = next, seen++) {
		next = twi_match_next_unexpected(&match, entry);
		assert_true(entry >= message && entry < message + 300);
		if ((entry - message) % 10 == 0)
			assert_true(twi_match_remove_unexpected(&match, entry));
	}
	assert_int_equal(seen, 300);
	assert_int_equal(match.unexpected_count, 270);
	for (; (entry = twi_match_first_posted(&match)) != NULL; seen++)
		assert_true(twi_match_remove_posted(&match, entry));
	assert_int_equal(seen, 600);
	assert_null(twi_match_first_posted(&match));
}

static void test_teardown(void **state)
{
	struct twi_match_entry recv[300], message[300], *entry;
	unsigned int gone = 0;

	(void)state;
	for (size_t i = 0; i < 300; i++) {
		recv[i] = (struct twi_match_entry){ .tag = i * 3 };
		message[i] = (struct twi_match_entry){ .tag = i * 3 + 1 };
		assert_null(twi_match_post(&match, &recv[i]));
		assert_null(twi_match_arrive(&match, &message[i]));
	}
	for (; (entry = twi_match_first_posted(&match)) != NULL; gone++)
		assert_true(twi_match_remove_posted(&match, entry));
	assert_int_equal(gone, 300);
	for (; (entry = twi_match_first_unexpected(&match)) != NULL; gone++)
		assert_true(twi_match_remove_unexpected(&match, entry));
	assert_int_equal(gone, 600);
	assert_int_equal(match.posted_count, 0);
	assert_int_equal(match.unexpected_count, 0);
}

/* 1024 tags in 256 buckets: 4 each on the average; chance alone makes a fullest bucket of 12. */
static void check_spread(uint64_t step, uint64_t base)
{
	uint8_t count[TWI_MATCH_BUCKETS] = { 0 };

	for (uint64_t i = 0; i < 1024; i++) {
		const uint32_t bucket = twi_match_hash(base + i * step, 0);

		assert_true(bucket < TWI_MATCH_BUCKETS);
		assert_true(++count[bucket] <= 20);
	}
}

static void test_hash_spreads(void **state)
{
	(void)state;
	for (unsigned int shift = 0; shift <= 54; shift++) {
		check_spread(1ull << shift, 0);
		check_spread(1ull << shift, 0x0123456789abcdefull);
	}
	check_spread(3, 0);
	check_spread(1000, 7);
	check_spread(0x100000001ull, 0);
	/* Steps that one multiplication by the golden ratio puts into a handful of buckets. */
	for (uint64_t a = 1597, b = 2584; b < 1ull << 40;) {
		const uint64_t next = a + b;

		check_spread(next, 0);
		a = b;
		b = next;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_empty, set_up),
		cmocka_unit_test_setup(test_receive_first, set_up),
		cmocka_unit_test_setup(test_message_first, set_up),
		cmocka_unit_test_setup(test_other_tags_do_not_match, set_up),
		cmocka_unit_test_setup(test_order_within_a_tag, set_up),
		cmocka_unit_test_setup(test_cancel, set_up),
		cmocka_unit_test_setup(test_first, set_up),
		cmocka_unit_test_setup(test_walk, set_up),
		cmocka_unit_test_setup(test_teardown, set_up),
		cmocka_unit_test(test_hash_spreads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
