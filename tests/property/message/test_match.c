/*
 * Matching against a plain list that is walked from its oldest entry. Few tags, so that they meet
 * often; every kind of tag, so that buckets collide. TOW_TEST_SEED replays a run.
 */
#include "twt.h"

#include <string.h>

#include "transport/message/match.h"

#define ENTRIES 512
#define ROUNDS  20
#define STEPS   20000

static uint64_t seed, rng;

static uint64_t rnd(void)
{
	return twt_random(&rng);
}

/* The plain twin: entries in order of coming, those that came back before all others. */
struct plain {
	struct twi_match_entry *entry[ENTRIES];
	size_t count;
};

static void plain_remove_at(struct plain *list, size_t at)
{
	list->count--;
	memmove(&list->entry[at], &list->entry[at + 1],
		(list->count - at) * sizeof(list->entry[0]));
}

static struct twi_match_entry *plain_take(struct plain *list, uint64_t tag)
{
	for (size_t i = 0; i < list->count; i++) {
		struct twi_match_entry *entry = list->entry[i];

		if (entry->tag == tag) {
			plain_remove_at(list, i);
			return entry;
		}
	}
	return NULL;
}

static bool plain_remove(struct plain *list, const struct twi_match_entry *entry)
{
	for (size_t i = 0; i < list->count; i++) {
		if (list->entry[i] == entry) {
			plain_remove_at(list, i);
			return true;
		}
	}
	return false;
}

static void plain_add(struct plain *list, struct twi_match_entry *entry, bool first)
{
	const size_t at = first ? 0 : list->count;

	memmove(&list->entry[at + 1], &list->entry[at],
		(list->count - at) * sizeof(list->entry[0]));
	list->entry[at] = entry;
	list->count++;
}

static struct twi_match match;
static struct plain posted, unexpected;
static struct twi_match_entry pool[ENTRIES];
static struct twi_match_entry *spare[ENTRIES];
static size_t spares;
static uint64_t tags[64];
static size_t tag_count;

static void start_round(void)
{
	const unsigned int shift = rnd() % 58;

	twi_match_init(&match);
	posted.count = unexpected.count = 0;
	spares = ENTRIES;
	for (size_t i = 0; i < ENTRIES; i++) {
		spare[i] = &pool[i];
		twi_list_init(&pool[i].link);
	}
	tag_count = 1 + rnd() % twi_array_count(tags);
	for (size_t i = 0; i < tag_count; i++)
		tags[i] = rnd() % 4 ? (uint64_t)i << shift : rnd();
	/* Two that are sure to share a bucket. */
	if (tag_count > 1)
		for (tags[1] = rnd(); twi_match_hash(tags[1], 0) != twi_match_hash(tags[0], 0);)
			tags[1]++;
}

static struct twi_match_entry *come(bool receive, bool first, struct twi_match_entry *entry)
{
	if (receive)
		return first ? twi_match_post_first(&match, entry) : twi_match_post(&match, entry);
	return first ? twi_match_arrive_first(&match, entry) : twi_match_arrive(&match, entry);
}

/* One comes on `mine`: a receive, or a message, with or without a record of its own. */
static void step_come(bool receive)
{
	struct plain *mine = receive ? &posted : &unexpected;
	struct plain *other = receive ? &unexpected : &posted;
	const uint64_t tag = tags[rnd() % tag_count];
	const bool first = rnd() % 4 == 0;
	struct twi_match_entry *expect, *got, *entry;

	expect = plain_take(other, tag);
	if (rnd() % 4 == 0) {
		got = receive ? twi_match_take_unexpected(&match, tag, 0)
			      : twi_match_take_posted(&match, tag, 0);
		assert_ptr_equal(got, expect);
	} else {
		if (expect == NULL && !spares)
			return;
		/* One that matches at once is given back at once: any record will do. */
		entry = spares ? spare[--spares] : expect;
		if (entry == expect) {
			got = receive ? twi_match_take_unexpected(&match, tag, 0)
				      : twi_match_take_posted(&match, tag, 0);
			assert_ptr_equal(got, expect);
			spare[spares++] = got;
			return;
		}
		entry->tag = tag;
		got = come(receive, first, entry);
		assert_ptr_equal(got, expect);
		if (got != NULL)
			spare[spares++] = entry;
		else
			plain_add(mine, entry, first);
	}
	if (got != NULL)
		spare[spares++] = got;
}

/* Any record at all is canceled: queued here, queued there, or not queued. */
static void step_cancel(void)
{
	struct twi_match_entry *entry = &pool[rnd() % ENTRIES];

	if (plain_remove(&posted, entry)) {
		assert_true(twi_match_remove_posted(&match, entry));
		spare[spares++] = entry;
	} else if (plain_remove(&unexpected, entry)) {
		assert_true(twi_match_remove_unexpected(&match, entry));
		spare[spares++] = entry;
	} else {
		assert_false(twi_match_remove_posted(&match, entry));
		assert_false(twi_match_remove_unexpected(&match, entry));
	}
}

/*
 * A walk meets what the plain list has, each once and in the order of its tag. Some entries are
 * removed while the walk stands on them.
 */
static void step_walk(void)
{
	struct plain left = unexpected;
	struct twi_match_entry *entry, *next;

	for (entry = twi_match_first_unexpected(&match); entry != NULL; entry = next) {
		next = twi_match_next_unexpected(&match, entry);
		assert_ptr_equal(plain_take(&left, entry->tag), entry);
		if (rnd() % 16)
			continue;
		assert_true(plain_remove(&unexpected, entry));
		assert_true(twi_match_remove_unexpected(&match, entry));
		spare[spares++] = entry;
	}
	assert_int_equal(left.count, 0);
}

static void finish_round(void)
{
	struct twi_match_entry *entry;

	while ((entry = twi_match_first_posted(&match)) != NULL) {
		assert_true(plain_remove(&posted, entry));
		assert_true(twi_match_remove_posted(&match, entry));
	}
	while ((entry = twi_match_first_unexpected(&match)) != NULL) {
		assert_true(plain_remove(&unexpected, entry));
		assert_true(twi_match_remove_unexpected(&match, entry));
	}
	assert_int_equal(posted.count, 0);
	assert_int_equal(unexpected.count, 0);
}

static void test_against_plain_list(void **state)
{
	(void)state;
	rng = seed;
	for (int round = 0; round < ROUNDS; round++) {
		/* Leaning to one side fills its table; in the balance both stay short. */
		const unsigned int lean = 20 + rnd() % 60;

		start_round();
		for (int step = 0; step < STEPS; step++) {
			if (rnd() % 256 == 0)
				step_walk();
			else if (rnd() % 8 == 0)
				step_cancel();
			else
				step_come(rnd() % 100 < lean);
			assert_int_equal(match.posted_count, posted.count);
			assert_int_equal(match.unexpected_count, unexpected.count);
			assert_int_equal(posted.count + unexpected.count + spares, ENTRIES);
		}
		finish_round();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_against_plain_list),
	};

	seed = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
