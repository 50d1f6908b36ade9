/*
 * test_store_codec.c - the store's frames: what is encoded is decoded, whatever is cut is asked for
 * again, and any bytes are taken or refused. And the wire under them: in pieces of any size, sealed
 * or not, what one end puts the other end gets, in order.
 */
#include "twt.h"

#include <string.h>

#include <towline/status.h>

#include "transport/job/store_wire.h"

#define ROUNDS 3000

static uint64_t rnd;

static uint32_t below(uint64_t bound)
{
	return (uint32_t)twt_random_below(&rnd, bound);
}

/* Mostly small, now and then as large as it may be. */
static uint32_t some_size(uint32_t most)
{
	switch (below(8)) {
	case 0:
		return most;
	case 1:
		return below(most + 1);
	default:
		return below(most < 64 ? most + 1 : 64);
	}
}

static uint8_t text[TWI_STORE_VALUE_MAX];

static struct twi_store_frame some_frame(void)
{
	struct twi_store_frame frame = {
		.kind = (uint8_t)(1 + below(TWI_STORE_KIND_END - 1)),
		.status = -(int32_t)below(30),
		.number = (uint32_t)twt_random(&rnd),
		.wait_ms = (uint32_t)twt_random(&rnd),
		.a = twt_random(&rnd),
		.b = twt_random(&rnd),
		.key_bytes = some_size(TWI_STORE_KEY_MAX),
		.value_bytes = some_size(TWI_STORE_VALUE_MAX),
	};

	frame.kind |= below(2) ? TWI_STORE_REPLY : 0;
	frame.key = (const char *)text + below(sizeof(text) - frame.key_bytes + 1);
	frame.value = text + below(sizeof(text) - frame.value_bytes + 1);
	return frame;
}

static void assert_same(const struct twi_store_frame *a, const struct twi_store_frame *b)
{
	assert_int_equal(a->kind, b->kind);
	assert_int_equal(a->status, b->status);
	assert_int_equal(a->number, b->number);
	assert_int_equal(a->wait_ms, b->wait_ms);
	assert_true(a->a == b->a && a->b == b->b);
	assert_int_equal(a->key_bytes, b->key_bytes);
	assert_int_equal(a->value_bytes, b->value_bytes);
	assert_memory_equal(a->key, b->key, a->key_bytes);
	assert_memory_equal(a->value, b->value, a->value_bytes);
}

static void round_trip(void **state)
{
	static uint8_t bytes[TWI_STORE_FRAME_MAX];

	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		struct twi_store_frame in = some_frame(), out;
		size_t count = twi_store_encode(&in, bytes), used = 0, cut = below(count);

		assert_true(count <= TWI_STORE_FRAME_MAX);
		assert_int_equal(twi_store_decode(bytes, cut, &out, &used), TOW_AGAIN);
		assert_int_equal(twi_store_decode(bytes, count, &out, &used), TOW_OK);
		assert_int_equal(used, count);
		assert_same(&in, &out);
	}
}

/* One bit, one length, or all of it is wrong: a frame within the bytes, or a refusal. */
static void hostile(void **state)
{
	static uint8_t bytes[TWI_STORE_FRAME_MAX];
	int refused = 0;

	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		struct twi_store_frame in = some_frame(), out;
		size_t count = twi_store_encode(&in, bytes), used = 0;
		uint8_t *copy;
		int status;

		for (uint32_t n = 1 + below(4); n > 0; n--)
			bytes[below(below(2) ? TWI_STORE_HEAD : count)] ^=
				(uint8_t)(1u << below(8));
		copy = malloc(count); /* so that a step beyond it is seen */
		assert_non_null(copy);
		memcpy(copy, bytes, count);
		status = twi_store_decode(copy, count, &out, &used);
		if (status == TOW_OK) {
			assert_true(used <= count);
			assert_true((const uint8_t *)out.key >= copy);
			assert_true(out.value + out.value_bytes <= copy + count);
			assert_true(out.key_bytes <= TWI_STORE_KEY_MAX);
			assert_true(out.value_bytes <= TWI_STORE_VALUE_MAX);
		} else {
			assert_true(status == TOW_AGAIN || status == TOW_EPROTOCOL);
			refused += status == TOW_EPROTOCOL;
		}
		free(copy);
	}
	assert_true(refused > ROUNDS / 20);
}

/* What one end has to say reaches the other, in pieces. */
static int carry(struct twi_wire *from, struct twi_wire *to)
{
	const uint8_t *out;
	size_t count;
	int status = TOW_OK;

	while (status == TOW_OK && (out = twi_wire_out(from, &count)) != NULL) {
		size_t some = 1 + below(count < 20000 ? count : 20000);

		if (some > 16384)
			some = 16384;
		if (some > count)
			some = count;
		status = twi_wire_feed(to, out, some);
		twi_wire_sent(from, some);
	}
	return status;
}

static int meet(struct twi_wire *a, struct twi_wire *b)
{
	int status = TOW_OK;

	assert_int_equal(twi_wire_begin(a), TOW_OK);
	assert_int_equal(twi_wire_begin(b), TOW_OK);
	for (int i = 0; i < 8 && status == TOW_OK && !(a->ready && b->ready); i++) {
		status = carry(a, b);
		if (status == TOW_OK)
			status = carry(b, a);
	}
	return status;
}

static void wires(void **state)
{
	(void)state;
	for (int i = 0; i < 150; i++) {
		struct twi_job_key key = { .set = i % 3 != 0, .encrypt = i % 3 == 2 };
		struct twi_wire a, b;

		for (size_t n = 0; n < sizeof(key.bytes); n++)
			key.bytes[n] = key.set ? (uint8_t)twt_random(&rnd) : 0;
		twi_wire_init(&a, &key, true);
		twi_wire_init(&b, &key, false);
		assert_int_equal(meet(&a, &b), TOW_OK);
		assert_true(a.ready && b.ready);
		assert_int_equal(a.sealed, i % 3 == 2);
		for (int n = 0; n < 10; n++) {
			struct twi_store_frame in = some_frame(), out;
			struct twi_wire *from = below(2) ? &a : &b, *to = from == &a ? &b : &a;

			assert_int_equal(twi_wire_next(to, &out), TOW_AGAIN);
			assert_int_equal(twi_wire_put(from, &in), TOW_OK);
			assert_int_equal(carry(from, to), TOW_OK);
			assert_int_equal(twi_wire_next(to, &out), TOW_OK);
			assert_same(&in, &out);
		}
		twi_wire_fini(&a);
		twi_wire_fini(&b);
	}
}

/* With another key, or none, nobody becomes a member. */
static void strangers(void **state)
{
	(void)state;
	for (int i = 0; i < 60; i++) {
		struct twi_job_key one = { .set = true }, two = { .set = i % 2 == 0 };
		struct twi_wire a, b;

		one.bytes[3] = 1;
		two.bytes[3] = two.set ? 2 : 0;
		twi_wire_init(&a, i % 4 < 2 ? &one : &two, true);
		twi_wire_init(&b, i % 4 < 2 ? &two : &one, false);
		assert_int_equal(meet(&a, &b), TOW_EAUTH);
		assert_false(a.ready && b.ready);
		twi_wire_fini(&a);
		twi_wire_fini(&b);
	}
}

/* Any bytes, as a stranger or as a member: an end, and never more memory than a frame needs. */
static void noise(void **state)
{
	static uint8_t bytes[16384];

	(void)state;
	for (int i = 0; i < 100; i++) {
		struct twi_job_key key = { .set = i % 2 != 0, .encrypt = i % 4 == 3 };
		struct twi_wire a, b;
		int status = TOW_OK;

		twi_wire_init(&a, &key, true);
		twi_wire_init(&b, &key, false);
		if (i % 3 != 0)
			assert_int_equal(meet(&a, &b), TOW_OK);
		for (int n = 0; n < 40 && status == TOW_OK; n++) {
			size_t count = 1 + below(sizeof(bytes));
			struct twi_store_frame frame;

			for (size_t at = 0; at < count; at++)
				bytes[at] = (uint8_t)twt_random(&rnd);
			if (below(2)) /* a length that may be */
				memset(bytes, 0, 3);
			status = twi_wire_feed(&b, bytes, count);
			if (status == TOW_OK && twi_wire_next(&b, &frame) == TOW_EPROTOCOL)
				status = TOW_EPROTOCOL;
			assert_true(b.in.room <= 4 * TWI_STORE_FRAME_MAX);
			assert_true(b.records.room <= 4 * TWI_STORE_FRAME_MAX);
		}
		assert_true(status < 0);
		twi_wire_fini(&a);
		twi_wire_fini(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(round_trip), cmocka_unit_test(hostile), cmocka_unit_test(wires),
		cmocka_unit_test(strangers),  cmocka_unit_test(noise),
	};

	rnd = twt_seed();
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (uint8_t)twt_random(&rnd);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
