/*
 * test_store_slices.c - a member waits for others in slices: what the store says of who is missing
 * after each of them, as text and as a list, and lists that are none. And a rank of several clients
 * repeats what it has added.
 */
#include "twt.h"

#include <string.h>

#include <towline/status.h>

#include "transport/job/store.h"

#define RANKS  40
#define SECOND 1000000000ull

static struct {
	int count; /* since last asked for */
	int status;
	uint64_t a, b;
	uint32_t bytes;
	uint8_t value[TWI_STORE_VALUE_MAX];
} reply;

static void on_reply(void *arg, uint32_t client, const struct twi_store_frame *frame)
{
	(void)arg;
	(void)client;
	reply.count++;
	reply.status = frame->status;
	reply.a = frame->a;
	reply.b = frame->b;
	reply.bytes = frame->value_bytes;
	if (frame->value_bytes > 0)
		memcpy(reply.value, frame->value, frame->value_bytes);
}

static struct twi_store *make(void)
{
	const struct twi_store_config config = {
		.world_size = RANKS, .clients_max = RANKS, .job = "job", .reply = on_reply
	};
	struct twi_store *store;

	assert_int_equal(twi_store_create(&config, &store), TOW_OK);
	return store;
}

static uint32_t greet(struct twi_store *store, uint32_t rank)
{
	uint32_t client = twi_store_enter(store);
	uint8_t hello[TWI_STORE_HELLO];
	const struct twi_store_frame frame = { .kind = TWI_STORE_KIND_HELLO,
					       .number = 1,
					       .key = "job",
					       .key_bytes = 3,
					       .a = twi_store_pair(rank, RANKS),
					       .b = 100 + rank,
					       .value = hello,
					       .value_bytes = sizeof(hello) };

	twi_store_hello_put(hello, TWI_STORE_VERSION, 0);
	assert_int_equal(twi_store_request(store, client, &frame, 1), TOW_OK);
	assert_int_equal(reply.status, TOW_OK);
	assert_true((reply.b & TWI_STORE_CAN_SLICE) != 0);
	reply.count = 0;
	return client;
}

static void give(struct twi_store *store, uint32_t client, uint32_t index, uint32_t wait_ms,
		 uint64_t now)
{
	const struct twi_store_frame frame = { .kind = TWI_STORE_KIND_GATHER,
					       .number = 2,
					       .key = "open",
					       .key_bytes = 4,
					       .wait_ms = wait_ms,
					       .a = twi_store_pair(index, RANKS),
					       .value = (const uint8_t *)"x",
					       .value_bytes = 1 };

	assert_int_equal(twi_store_request(store, client, &frame, now), TOW_OK);
}

static struct twi_store_frame replied(void)
{
	return (struct twi_store_frame){ .value = reply.value, .value_bytes = reply.bytes };
}

/* The time of a slice is over: so many are missing, the first of them is that one. */
static void must_miss(struct twi_store *store, uint64_t now, uint32_t missing, uint16_t first,
		      const char *words)
{
	uint16_t absent[TWI_STORE_ABSENT_MAX];
	const struct twi_store_frame frame = { .value = reply.value };
	struct twi_store_frame whole = frame;
	uint32_t listed = missing < TWI_STORE_ABSENT_MAX ? missing : TWI_STORE_ABSENT_MAX;

	twi_store_expire(store, now);
	assert_int_equal(reply.count, 1);
	reply.count = 0;
	assert_int_equal(reply.status, TOW_EDEADLINE);
	assert_int_equal(reply.a, missing);
	whole = replied();
	assert_int_equal(twi_store_absent_take(&whole, RANKS, absent), listed);
	assert_int_equal(absent[0], first);
	if (strstr((const char *)reply.value, words) == NULL)
		fail_msg("'%s' is not in: %s", words, (const char *)reply.value);
}

/* Each slice says who is missing then, and for how long all of them together have taken. */
static void slices(void **state)
{
	struct twi_store *store = make();
	uint32_t clients[RANKS];

	(void)state;
	for (uint32_t i = 0; i < RANKS; i++)
		clients[i] = greet(store, i);
	give(store, clients[0], 0, 1000, SECOND);
	must_miss(store, 2 * SECOND, RANKS - 1, 1,
		  "39 of 40 ranks have not come to 'open' in 1000 ms");
	twi_store_refused(store, "of its key");
	for (uint32_t i = 1; i < RANKS - 1; i++)
		give(store, clients[i], i, 1000000, 2 * SECOND);
	give(store, clients[0], 0, 500, 2 * SECOND + SECOND / 10);
	must_miss(store, 3 * SECOND, 1, RANKS - 1,
		  "1 of 40 ranks have not come to 'open' in 1600 ms: 39;");
	assert_int_equal(reply.b, 1);
	assert_non_null(strstr((const char *)reply.value, "the last because of its key"));
	/* The last one comes: they who wait are answered, and who waits in slices as it asks. */
	give(store, clients[RANKS - 1], RANKS - 1, 1000, 4 * SECOND);
	assert_int_equal(reply.count, RANKS - 1);
	reply.count = 0;
	give(store, clients[0], 0, 1000, 4 * SECOND);
	assert_int_equal(reply.count, 1);
	assert_int_equal(reply.status, TOW_OK);
	twi_store_destroy(store);
}

/* What comes over the wire may be anything. */
static void lists(void **state)
{
	static const uint16_t good[] = { 1, 5, 6 }, twice[] = { 1, 5, 5 }, back[] = { 5, 1 };
	uint16_t many[TWI_STORE_ABSENT_MAX + 1], out[TWI_STORE_ABSENT_MAX];
	uint8_t room[128];
	struct twi_store_frame frame = { .value = room };

	(void)state;
	assert_int_equal(twi_store_absent_take(&frame, 8, out), 0);
	frame.value_bytes = (uint32_t)twi_store_absent_put(room, sizeof(room), "why", good, 3);
	assert_string_equal((const char *)room, "why");
	assert_int_equal(twi_store_absent_take(&frame, 8, out), 3);
	assert_int_equal(out[2], 6);
	assert_int_equal(twi_store_absent_take(&frame, 6, out), 0); /* there is no member 6 */
	for (uint32_t cut = 0; cut < frame.value_bytes; cut++) {
		const struct twi_store_frame part = { .value = room, .value_bytes = cut };

		assert_true(twi_store_absent_take(&part, 8, out) < 3);
	}
	frame.value_bytes = (uint32_t)twi_store_absent_put(room, sizeof(room), "why", twice, 3);
	assert_int_equal(twi_store_absent_take(&frame, 8, out), 0);
	frame.value_bytes = (uint32_t)twi_store_absent_put(room, sizeof(room), "why", back, 2);
	assert_int_equal(twi_store_absent_take(&frame, 8, out), 0);
	/* The text is cut, not the list, and not more than there is room for. */
	frame.value_bytes = (uint32_t)twi_store_absent_put(room, 12, "a long text", good, 3);
	assert_int_equal(frame.value_bytes, 12);
	assert_int_equal(twi_store_absent_take(&frame, 8, out), 3);
	assert_int_equal(twi_store_absent_put(room, 6, "why", good, 3), 0);
	for (uint16_t i = 0; i < TWI_STORE_ABSENT_MAX + 1; i++)
		many[i] = i;
	frame.value_bytes = (uint32_t)twi_store_absent_put(room, sizeof(room), "", many,
							   TWI_STORE_ABSENT_MAX + 1);
	assert_int_equal(twi_store_absent_take(&frame, 40, out), TWI_STORE_ABSENT_MAX);
	memset(room + frame.value_bytes, 0xff, 2); /* one more than there may be */
	frame.value_bytes += 2;
	assert_int_equal(twi_store_absent_take(&frame, 65536, out), 0);
}

static uint64_t add_one(struct twi_store *store, uint32_t client, const char *key, uint32_t number)
{
	const struct twi_store_frame frame = {
		.kind = TWI_STORE_KIND_ADD, .number = number, .key = key, .key_bytes = 1, .a = 1
	};

	assert_int_equal(twi_store_request(store, client, &frame, 1), TOW_OK);
	assert_int_equal(reply.status, TOW_OK);
	return reply.a;
}

/* A repeated ADD is known again after others of the rank's clients, whose numbers are others. */
static void repeated_adds(void **state)
{
	struct twi_store *store = make();
	uint32_t one = greet(store, 3), other = greet(store, 3);

	(void)state;
	assert_int_equal(add_one(store, one, "n", 10), 1);
	for (uint32_t i = 1; i < 8; i++) {
		assert_int_equal(add_one(store, other, "m", 10 + i), i);
		assert_int_equal(add_one(store, one, "n", 10), 1);
	}
	assert_int_equal(add_one(store, one, "n", 20), 2);
	twi_store_destroy(store);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(slices), cmocka_unit_test(lists),
					    cmocka_unit_test(repeated_adds) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
