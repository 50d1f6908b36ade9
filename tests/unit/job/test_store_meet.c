/*
 * test_store_meet.c - members that make a group by themselves, at the store: who waits for whom,
 * what is answered, who is told of what, and that nothing of it stays.
 */
#include "twt.h"

#include <string.h>

#include <towline/status.h>

#include "transport/job/store_meet.h"

#define RANKS   6
#define CLIENTS 24
#define SECOND  1000000000ull
#define NONE    1 /* no answer */

static struct {
	int count, status;
	uint64_t a;
	char text[512];
} replies[CLIENTS];
static char late_text[300];

static void on_reply(void *arg, uint32_t client, const struct twi_store_frame *frame)
{
	(void)arg;
	replies[client].count++;
	replies[client].status = frame->status;
	replies[client].a = frame->a;
	snprintf(replies[client].text, sizeof(replies[client].text), "%.*s",
		 (int)frame->value_bytes, frame->value == NULL ? "" : (const char *)frame->value);
}

static void on_late(void *arg, const char *key, const char *missing, uint64_t waited_ns)
{
	(void)arg;
	(void)waited_ns;
	snprintf(late_text, sizeof(late_text), "%s: %s", key, missing);
}

static struct twi_store *make(void)
{
	const struct twi_store_config config = { .world_size = RANKS,
						 .clients_max = CLIENTS,
						 .session = 42,
						 .job = "job",
						 .reply = on_reply,
						 .late = on_late,
						 .late_ns = SECOND / 2 };
	struct twi_store *store;

	memset(replies, 0, sizeof(replies));
	late_text[0] = '\0';
	assert_int_equal(twi_store_create(&config, &store), TOW_OK);
	return store;
}

static uint32_t number = 0;

static int ask(struct twi_store *store, uint32_t client, struct twi_store_frame frame,
	       uint64_t now_ns)
{
	frame.number = ++number;
	return twi_store_request(store, client, &frame, now_ns);
}

static int greet(struct twi_store *store, uint32_t client, uint32_t rank)
{
	uint8_t value[TWI_STORE_HELLO];

	twi_store_hello_put(value, TWI_STORE_VERSION, 0);
	return ask(store, client,
		   (struct twi_store_frame){ .kind = TWI_STORE_KIND_HELLO,
					     .key = "job",
					     .key_bytes = 3,
					     .a = twi_store_pair(rank, RANKS),
					     .b = 100 + rank,
					     .value = value,
					     .value_bytes = sizeof(value) },
		   1);
}

static int take(uint32_t client)
{
	int status = replies[client].count == 0 ? NONE : replies[client].status;

	assert_true(replies[client].count <= 1);
	replies[client].count = 0;
	return status;
}

static uint32_t member(struct twi_store *store, uint32_t rank)
{
	uint32_t client = twi_store_enter(store);

	assert_true(client < CLIENTS);
	assert_int_equal(greet(store, client, rank), TOW_OK);
	assert_int_equal(take(client), TOW_OK);
	assert_int_equal(ask(store, client,
			     (struct twi_store_frame){
				     .kind = TWI_STORE_KIND_DELETE, .key = "no", .key_bytes = 2 },
			     1),
			 TOW_OK);
	assert_int_equal(take(client), TOW_OK);
	return client;
}

/* `list`: digits, the ranks in the order of the new group. */
static struct twi_store_frame meeting(const char *key, const char *list, uint32_t rank,
				      uint8_t value[256])
{
	uint32_t ranks[64], count = (uint32_t)strlen(list), index = 0;

	for (uint32_t i = 0; i < count; i++) {
		ranks[i] = (uint32_t)(list[i] - '0');
		if (ranks[i] == rank)
			index = i;
	}
	return (struct twi_store_frame){ .kind = TWI_STORE_KIND_MEET,
					 .wait_ms = 1000,
					 .key = key,
					 .key_bytes = (uint32_t)strlen(key),
					 .a = twi_store_pair(index, count),
					 .value = value,
					 .value_bytes = (uint32_t)twi_store_list_put(
						 value, 256, ranks, count) };
}

static int meet(struct twi_store *store, uint32_t client, const char *key, const char *list,
		uint32_t rank, uint64_t now_ns)
{
	uint8_t value[256];

	return ask(store, client, meeting(key, list, rank, value), now_ns);
}

/* All are answered with one new number when the last has come, and not before. */
static void members(void **state)
{
	struct twi_store *store = make();
	uint32_t c[RANKS];
	uint64_t first;

	(void)state;
	for (uint32_t i = 0; i < RANKS; i++)
		c[i] = member(store, i);
	meet(store, c[4], "0:", "142", 4, 1);
	meet(store, c[1], "0:", "142", 1, 1);
	assert_int_equal(take(c[4]), NONE);
	meet(store, c[2], "0:", "142", 2, 1);
	first = replies[c[2]].a;
	assert_int_equal(first, 1);
	for (uint32_t i = 0; i < RANKS; i++)
		assert_int_equal(take(c[i]), i == 1 || i == 2 || i == 4 ? TOW_OK : NONE);
	assert_true(replies[c[1]].a == first && replies[c[4]].a == first);
	/* Other parents, names and lists are other groups, at one time. */
	meet(store, c[1], "7:", "12", 1, 1);
	meet(store, c[2], "0:x", "12", 2, 1);
	meet(store, c[3], "0:", "34", 3, 1);
	meet(store, c[5], "0:", "5", 5, 1);
	assert_int_equal(take(c[5]), TOW_OK);
	assert_int_equal(replies[c[5]].a, 2);
	assert_int_equal(take(c[1]), NONE);
	assert_int_equal(take(c[2]), NONE);
	assert_int_equal(take(c[3]), NONE);
	twi_store_destroy(store);
}

/* Two threads of each of two ranks: two groups, whichever comes first. */
static void threads(void **state)
{
	struct twi_store *store = make();
	uint32_t a[2], b[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		a[i] = member(store, 0);
		b[i] = member(store, 1);
	}
	meet(store, a[0], "0:", "01", 0, 1);
	meet(store, a[1], "0:", "01", 0, 1);
	assert_int_equal(take(a[1]), NONE);
	meet(store, b[1], "0:", "01", 1, 1);
	assert_int_equal(take(a[1]), NONE);
	assert_true(take(a[0]) == TOW_OK && take(b[1]) == TOW_OK);
	assert_true(replies[a[0]].a == replies[b[1]].a);
	meet(store, b[0], "0:", "01", 1, 1);
	assert_true(take(a[1]) == TOW_OK && take(b[0]) == TOW_OK);
	assert_true(replies[a[1]].a == replies[b[0]].a && replies[a[1]].a != replies[a[0]].a);
	twi_store_destroy(store);
}

static void must_mismatch(uint32_t client, const char *one, const char *other)
{
	assert_int_equal(take(client), TOW_EMISMATCH);
	assert_non_null(strstr(replies[client].text, one));
	assert_non_null(strstr(replies[client].text, other));
}

static void disagree(void **state)
{
	struct twi_store *store = make();
	uint32_t a = member(store, 0), b = member(store, 1), c = member(store, 2);

	(void)state;
	/* The same ranks in another order. */
	meet(store, a, "0:", "012", 0, 1);
	meet(store, b, "0:", "021", 1, 1);
	must_mismatch(a, "rank 1 of the job lists 0, 2, 1", "lists 0-2");
	must_mismatch(b, "rank 1 of the job lists 0, 2, 1", "lists 0-2");
	/* The third comes later, and is told, once; then all come again, and agree. */
	meet(store, c, "0:", "012", 2, 1);
	must_mismatch(c, "rank 1 of the job lists 0, 2, 1", "lists 0-2");
	meet(store, c, "0:", "012", 2, 1);
	meet(store, a, "0:", "012", 0, 1);
	assert_true(take(a) == NONE && take(c) == NONE);
	meet(store, b, "0:", "012", 1, 1);
	assert_true(take(a) == TOW_OK && take(b) == TOW_OK && take(c) == TOW_OK);
	/* Of one name. */
	meet(store, a, "0:x", "01", 0, 1);
	meet(store, b, "0:x", "012", 1, 1);
	must_mismatch(a, "a group 'x': rank 1 of the job lists 0-2",
		      "rank 0 of the job lists 0, 1");
	must_mismatch(b, "a group 'x': rank 1 of the job lists 0-2",
		      "rank 0 of the job lists 0, 1");
	/* A chain of pairs of one name is none: nobody waits for one that waits for it. */
	meet(store, c, "0:pair", "12", 2, 1);
	meet(store, a, "0:pair", "01", 0, 1);
	meet(store, b, "0:pair", "01", 1, 1);
	assert_true(take(a) == TOW_OK && take(b) == TOW_OK && take(c) == NONE);
	meet(store, b, "0:pair", "12", 1, 1);
	assert_true(take(b) == TOW_OK && take(c) == TOW_OK);
	assert_int_equal(twi_store_failed(store), false);
	twi_store_destroy(store);
}

/* Without a name threads may be on their way: it is told when a time is over, to both. */
static void disagree_late(void **state)
{
	struct twi_store *store = make();
	uint32_t a = member(store, 0), b = member(store, 1), b2 = member(store, 1),
		 a2 = member(store, 0);

	(void)state;
	meet(store, a, "0:", "01", 0, 1);
	meet(store, b, "0:", "012", 1, 2);
	assert_true(take(a) == NONE && take(b) == NONE);
	/* The other thread of rank 1 comes: that was no disagreement. */
	meet(store, b2, "0:", "01", 1, 3);
	assert_true(take(a) == TOW_OK && take(b2) == TOW_OK && take(b) == NONE);
	meet(store, a2, "0:", "01", 0, 4);
	twi_store_expire(store, SECOND + 2);
	must_mismatch(b, "rank 1 of the job lists 0-2", "rank 0 of the job lists 0, 1");
	assert_int_equal(take(a2), NONE);
	twi_store_expire(store, SECOND + 4);
	must_mismatch(a2, "rank 1 of the job lists 0-2", "rank 0 of the job lists 0, 1");
	/* A rank that waits in both is no sign: its threads do. */
	meet(store, a, "0:", "01", 0, SECOND);
	meet(store, a2, "0:", "012", 0, SECOND);
	meet(store, b, "0:", "012", 1, SECOND);
	twi_store_expire(store, 2 * SECOND);
	assert_int_equal(take(a), TOW_EDEADLINE);
	twi_store_destroy(store);
}

/* Who does not come is named, to who waits and in the log; whose time is over waits no more. */
static void absent(void **state)
{
	struct twi_store *store = make();
	uint32_t a = member(store, 0), c = member(store, 2), e = member(store, 4);
	uint64_t before = twi_store_bytes(store);

	(void)state;
	meet(store, a, "0:late", "024315", 0, SECOND);
	meet(store, c, "0:late", "024315", 2, SECOND + SECOND / 4);
	assert_true(twi_store_expire(store, SECOND + 1) == SECOND + SECOND / 2);
	assert_string_equal(late_text, "");
	twi_store_expire(store, SECOND + SECOND / 2);
	assert_string_equal(late_text, "meet: 4, 3, 1, 5");
	twi_store_expire(store, 2 * SECOND);
	assert_int_equal(take(a), TOW_EDEADLINE);
	assert_string_equal(replies[a].text,
			    "4 of 6 members have not come to make the group 'late' in "
			    "1000 ms: rank 4, 3, 1, 5 of the job");
	/* Who has given up has come. */
	twi_store_expire(store, 2 * SECOND + SECOND / 4);
	assert_int_equal(take(c), TOW_EDEADLINE);
	assert_non_null(strstr(replies[c].text, "4 of 6 members have not come"));
	assert_true(twi_store_bytes(store) == before);
	meet(store, a, "0:", "02", 0, SECOND);
	twi_store_expire(store, 2 * SECOND);
	assert_int_equal(take(a), TOW_EDEADLINE);
	meet(store, a, "0:", "024", 0, SECOND);
	meet(store, c, "0:", "024", 2, SECOND + 1);
	meet(store, e, "0:x", "04", 4, SECOND);
	twi_store_expire(store, 2 * SECOND);
	assert_true(take(a) == TOW_EDEADLINE && take(e) == TOW_EDEADLINE);
	meet(store, e, "0:", "024", 4, SECOND + 1);
	twi_store_expire(store, 2 * SECOND + 1);
	assert_true(take(c) == TOW_EDEADLINE && take(e) == TOW_EDEADLINE);
	assert_string_equal(replies[c].text,
			    "1 of 3 members waited for the group and have given up "
			    "in 1000 ms: rank 0 of the job");
	assert_true(twi_store_bytes(store) == before);
	/* Rank 0 comes again: with rank 4 alone it is not complete. */
	meet(store, e, "0:", "04", 4, SECOND);
	twi_store_expire(store, 2 * SECOND);
	assert_int_equal(take(e), TOW_EDEADLINE);
	meet(store, a, "0:", "04", 0, 2 * SECOND);
	assert_int_equal(take(a), NONE);
	meet(store, e, "0:", "04", 4, 2 * SECOND);
	assert_true(take(a) == TOW_OK && take(e) == TOW_OK);
	twi_store_destroy(store);
}

/* Whoever is listed and has gone ends it; others meet without it, though the store has failed. */
static void gone(void **state)
{
	struct twi_store *store = make();
	uint32_t c[RANKS], again;

	(void)state;
	for (uint32_t i = 0; i < RANKS; i++)
		c[i] = member(store, i);
	meet(store, c[0], "0:", "03", 0, SECOND);
	meet(store, c[1], "0:", "12", 1, SECOND);
	twi_store_leave(store, c[3], SECOND);
	twi_store_expire(store, SECOND);
	assert_true(take(c[0]) == NONE && take(c[1]) == NONE);
	twi_store_expire(store, 2 * SECOND);
	assert_true(take(c[0]) == TOW_EDEADLINE && take(c[1]) == TOW_EDEADLINE);
	meet(store, c[0], "0:", "03", 0, SECOND + TWI_STORE_GRACE_NS - 1);
	meet(store, c[1], "0:", "12", 1, SECOND + TWI_STORE_GRACE_NS - 1);
	assert_true(take(c[0]) == NONE && take(c[1]) == NONE);
	twi_store_expire(store, SECOND + TWI_STORE_GRACE_NS);
	assert_int_equal(take(c[0]), TOW_EPEER);
	assert_non_null(
		strstr(replies[c[0]].text, "rank 3 of the job, which belongs to the group"));
	assert_true(twi_store_failed(store));
	again = twi_store_enter(store);
	assert_int_equal(greet(store, again, 2), TOW_OK);
	assert_int_equal(take(again), TOW_OK);
	meet(store, again, "0:", "12", 2, 9 * SECOND);
	/* Rank 1 waits on: its group is another one than rank 3's. */
	assert_true(take(again) == TOW_OK && take(c[1]) == TOW_OK);
	meet(store, c[1], "0:", "13", 1, 9 * SECOND);
	assert_int_equal(take(c[1]), TOW_EPEER);
	/* Who says goodbye comes no more, either. */
	meet(store, c[1], "0:", "14", 1, 9 * SECOND);
	ask(store, c[4], (struct twi_store_frame){ .kind = TWI_STORE_KIND_BYE }, 9 * SECOND);
	twi_store_expire(store, 9 * SECOND);
	assert_int_equal(take(c[1]), TOW_EPEER);
	assert_non_null(strstr(replies[c[1]].text, "rank 4 of the job, which belongs to the group, "
						   "has left the job"));
	twi_store_destroy(store);
}

/* A request that comes again over another connection is the same one, before and after the end. */
static void repeated(void **state)
{
	struct twi_store *store = make();
	uint32_t a = member(store, 0), again = member(store, 0), b = member(store, 1);
	uint8_t value[256];
	struct twi_store_frame frame = meeting("0:", "01", 0, value);
	uint64_t made;

	(void)state;
	frame.number = 1000000;
	assert_int_equal(twi_store_request(store, a, &frame, 1), TOW_OK);
	assert_int_equal(twi_store_request(store, again, &frame, 1), TOW_OK);
	assert_int_equal(take(again), NONE);
	meet(store, b, "0:", "01", 1, 1);
	twi_store_leave(store, a, 1); /* it is missed later than that */
	assert_true(take(again) == TOW_OK && take(b) == TOW_OK && take(a) == NONE);
	made = replies[again].a;
	twi_store_leave(store, again, 1);
	a = member(store, 0);
	assert_int_equal(twi_store_request(store, a, &frame, 2), TOW_OK);
	assert_int_equal(take(a), TOW_OK);
	assert_true(replies[a].a == made);
	/* The same words with another number are another request. */
	frame.number++;
	assert_int_equal(twi_store_request(store, a, &frame, 2), TOW_OK);
	assert_int_equal(take(a), NONE);
	twi_store_destroy(store);
}

/* Ten thousand groups leave no more than some hundred do, and after a while nothing. */
static void nothing_stays(void **state)
{
	struct twi_store *store = make();
	uint32_t a = member(store, 0), b = member(store, 1);
	uint64_t most = 0, before, bytes;
	char key[32];

	(void)state;
	meet(store, a, "0:", "0", 0, 1); /* the counter of groups stays */
	take(a);
	twi_store_expire(store, 1 + TWI_STORE_KEEP_NS);
	before = twi_store_bytes(store);
	for (int i = 0; i < 10000; i++) {
		snprintf(key, sizeof(key), "%d:name %d", i % 7, i);
		meet(store, a, key, "01", 0, SECOND);
		meet(store, b, key, "01", 1, SECOND);
		assert_true(take(a) == TOW_OK && take(b) == TOW_OK);
		bytes = twi_store_bytes(store) - before;
		most = bytes > most ? bytes : most;
	}
	assert_true(most < 2048ull * TWI_STORE_MADE_MAX);
	assert_true(twi_store_expire(store, SECOND) == SECOND + TWI_STORE_KEEP_NS);
	twi_store_expire(store, SECOND + TWI_STORE_KEEP_NS);
	assert_true(twi_store_bytes(store) == before);
	twi_store_destroy(store);
}

/* The gathers of splits go when they are deleted, when nobody can be at them any more. */
static void deleted_gathers(void **state)
{
	struct twi_store *store = make();
	uint32_t a = member(store, 0), b = member(store, 1);
	struct twi_store_frame gather = { .kind = TWI_STORE_KIND_GATHER,
					  .wait_ms = 1000,
					  .key = "split:1",
					  .key_bytes = 7,
					  .value = (const uint8_t *)"v",
					  .value_bytes = 1 };
	struct twi_store_frame delete = { .kind = TWI_STORE_KIND_DELETE,
					  .key = "split:1",
					  .key_bytes = 7 };
	uint64_t before = twi_store_bytes(store);

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		gather.a = twi_store_pair(i, 2);
		ask(store, i == 0 ? a : b, gather, SECOND);
	}
	assert_true(take(a) == TOW_OK && take(b) == TOW_OK);
	ask(store, a, delete, SECOND);
	assert_int_equal(take(a), TOW_OK);
	ask(store, b, gather, SECOND); /* its answer was lost */
	assert_int_equal(take(b), TOW_OK);
	twi_store_expire(store, SECOND + TWI_STORE_KEEP_NS - 1);
	assert_true(twi_store_bytes(store) > before);
	twi_store_expire(store, SECOND + TWI_STORE_KEEP_NS);
	assert_true(twi_store_bytes(store) == before);
	twi_store_destroy(store);
}

/* What no library of ours says costs the connection, and nobody else anything. */
static void hostile(void **state)
{
	struct twi_store *store = make();
	uint32_t a = member(store, 0), b = member(store, 1);
	uint8_t value[256];
	struct twi_store_frame frame;
	uint64_t before;

	(void)state;
	meet(store, b, "0:", "01", 1, 1);
	before = twi_store_bytes(store);
	assert_int_equal(meet(store, a, "0:", "1", 0, 1), TOW_EPROTOCOL);  /* another one's rank */
	assert_int_equal(meet(store, a, "0:", "00", 0, 1), TOW_EPROTOCOL); /* twice */
	assert_int_equal(meet(store, a, "0:", "09", 0, 1), TOW_EPROTOCOL); /* no rank */
	frame = meeting("0:", "01", 0, value);
	frame.a = twi_store_pair(2, 2);
	assert_int_equal(ask(store, a, frame, 1), TOW_EPROTOCOL);
	frame.a = twi_store_pair(0, 0);
	assert_int_equal(ask(store, a, frame, 1), TOW_EPROTOCOL);
	frame.a = twi_store_pair(0, UINT32_MAX);
	assert_int_equal(ask(store, a, frame, 1), TOW_EPROTOCOL);
	frame.a = twi_store_pair(0, 3); /* more than the list */
	assert_int_equal(ask(store, a, frame, 1), TOW_EPROTOCOL);
	frame.a = twi_store_pair(0, 1); /* fewer */
	assert_int_equal(ask(store, a, frame, 1), TOW_EPROTOCOL);
	frame = meeting("0:", "01", 0, value);
	frame.value_bytes--;
	assert_int_equal(ask(store, a, frame, 1), TOW_EPROTOCOL);
	assert_true(twi_store_bytes(store) == before);
	assert_true(take(a) == NONE && take(b) == NONE);
	meet(store, a, "0:", "01", 0, 1);
	assert_true(take(a) == TOW_OK && take(b) == TOW_OK);
	twi_store_destroy(store);
}

/* Lists travel as runs, in any order. */
static void lists(void **state)
{
	uint64_t random = twt_seed();
	static uint32_t ranks[5000];
	static uint16_t back[5000];
	static uint8_t bytes[20000];

	(void)state;
	for (int turn = 0; turn < 200; turn++) {
		uint32_t count = 1 + (uint32_t)(twt_random(&random) % 5000), at = 0;
		size_t used;

		while (at < count) {
			uint32_t run = 1 + (uint32_t)(twt_random(&random) % 100);
			uint32_t first = (uint32_t)(twt_random(&random) % (65536 - run));

			for (uint32_t i = 0; i < run && at < count; i++)
				ranks[at++] = first + i;
		}
		used = twi_store_list_put(bytes, sizeof(bytes), ranks, count);
		assert_true(used > 0 && used % 4 == 0);
		assert_true(twi_store_list_take(bytes, used, back, count));
		for (uint32_t i = 0; i < count; i++)
			assert_int_equal(back[i], ranks[i]);
		assert_false(twi_store_list_take(bytes, used, back, count - 1));
		assert_int_equal(twi_store_list_put(bytes, used - 1, ranks, count), 0);
	}
	/* The last rank of all, and one beyond. */
	ranks[0] = 65534;
	ranks[1] = 65535;
	assert_int_equal(twi_store_list_put(bytes, sizeof(bytes), ranks, 2), 4);
	assert_true(twi_store_list_take(bytes, 4, back, 2) && back[1] == 65535);
	bytes[2] = 2;
	assert_false(twi_store_list_take(bytes, 4, back, 3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members),         cmocka_unit_test(threads),
		cmocka_unit_test(disagree),        cmocka_unit_test(disagree_late),
		cmocka_unit_test(absent),          cmocka_unit_test(gone),
		cmocka_unit_test(repeated),        cmocka_unit_test(nothing_stays),
		cmocka_unit_test(deleted_gathers), cmocka_unit_test(hostile),
		cmocka_unit_test(lists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
