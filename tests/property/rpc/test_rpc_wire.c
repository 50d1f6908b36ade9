/*
 * test_rpc_wire.c - headers of calls: encode then decode is the identity, and of random bytes only
 * what can be encoded again is accepted.
 */
#include "twt.h"

#include "transport/rpc/rpc_wire.h"

#define ROUNDS 200000

static uint64_t random_state;

static uint64_t any(void)
{
	uint64_t bits = twt_random_below(&random_state, 65);

	return bits == 64 ? twt_random(&random_state)
			  : twt_random(&random_state) & ((1ull << bits) - 1);
}

static struct twi_rpc_head random_head(void)
{
	struct twi_rpc_head head = {
		.type = (uint8_t)(1 + twt_random_below(&random_state, 6)),
		.id = any(),
		.a = any(),
		.b = any(),
		.c = any(),
	};

	if (head.type == TWI_RPC_RESPONSE) {
		head.status = (int32_t)any();
		head.code = (int32_t)any();
		head.unread = (uint16_t)any();
	} else {
		head.method = any();
	}
	if (head.type == TWI_RPC_REQUEST)
		head.flags = (uint8_t)twt_random_below(&random_state, 2);
	if (head.type == TWI_RPC_CHUNK || head.type == TWI_RPC_WINDOW)
		head.flags = (uint8_t)(twt_random_below(&random_state, 2) * TWI_RPC_TO_SERVER);
	if (head.type > TWI_RPC_CHUNK)
		return head;
	if (twt_random_below(&random_state, 2) == 0) {
		head.bytes = head.inline_bytes = (uint32_t)any() >> 4;
	} else {
		head.bytes = 1 + any() % TWI_RPC_BODY_MAX;
		head.tag = 1 + any() / 2;
	}
	if (head.type == TWI_RPC_CHUNK && head.bytes == 0)
		head.flags |= TWI_RPC_END;
	return head;
}

static void test_identity(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		struct twi_rpc_head head = random_head(), back;
		uint8_t wire[TWI_RPC_HEAD_BYTES], again[TWI_RPC_HEAD_BYTES];

		twi_rpc_head_put(wire, &head);
		assert_null(twi_rpc_head_get(wire, TWI_RPC_HEAD_BYTES + (uint64_t)head.inline_bytes,
					     &back));
		twi_rpc_head_put(again, &back);
		assert_memory_equal(wire, again, sizeof(wire));
		assert_true(back.id == head.id && back.bytes == head.bytes && back.a == head.a &&
			    back.status == head.status && back.method == head.method &&
			    back.unread == head.unread);
	}
}

/* A good header with some of its bytes changed, and a length that may be another. */
static void test_hostile(void **state)
{
	int accepted = 0;

	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		struct twi_rpc_head head = random_head(), back;
		uint8_t wire[TWI_RPC_HEAD_BYTES], again[TWI_RPC_HEAD_BYTES];
		uint64_t bytes = TWI_RPC_HEAD_BYTES + (uint64_t)head.inline_bytes;

		twi_rpc_head_put(wire, &head);
		for (uint64_t n = twt_random_below(&random_state, 4); n > 0; n--)
			wire[twt_random_below(&random_state, sizeof(wire))] =
				(uint8_t)twt_random(&random_state);
		if (twt_random_below(&random_state, 4) == 0)
			bytes = any() % 100000;
		if (twi_rpc_head_get(wire, bytes, &back) != NULL)
			continue;
		accepted++;
		assert_true(bytes == TWI_RPC_HEAD_BYTES + (uint64_t)back.inline_bytes);
		assert_true(back.tag == 0 ? back.bytes == back.inline_bytes : back.bytes > 0);
		assert_true(back.bytes <= TWI_RPC_BODY_MAX);
		twi_rpc_head_put(again, &back);
		assert_memory_equal(wire, again, sizeof(wire));
	}
	assert_in_range(accepted, ROUNDS / 20, ROUNDS);
}

/* Every code is of one time; times become the code below them, within 1/2048, in order. */
static void test_unread(void **state)
{
	uint64_t last = 0;

	(void)state;
	for (uint32_t code = 0; code <= UINT16_MAX; code++) {
		uint64_t ns = twi_rpc_unread_get((uint16_t)code);

		assert_int_equal(twi_rpc_unread_put(ns), code);
		assert_true(code == 0 || ns > last);
		last = ns;
	}
	assert_true(last == 4095ull << 30);
	assert_int_equal(twi_rpc_unread_put(UINT64_MAX), UINT16_MAX);
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t ns = any() % last, back = twi_rpc_unread_get(twi_rpc_unread_put(ns));

		assert_true(back <= ns && ns - back <= ns / 2048);
	}
}

static void test_hash(void **state)
{
	(void)state;
	assert_true(twi_rpc_hash("") == 0xcbf29ce484222325ull);
	assert_true(twi_rpc_hash("a") == 0xaf63dc4c8601ec8cull); /* of the published test vectors */
	assert_true(twi_rpc_hash("foobar") == 0x85944171f73967e8ull);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_identity),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_unread),
		cmocka_unit_test(test_hash),
	};

	random_state = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
