/*
 * test_at_once.c - TOW_OP_AT_ONCE on every lane: a small send gives no operation where it goes in
 * the call, one where it must wait, is large or is to have a span; no callback runs without an
 * operation; and nobody gets a NULL who has not asked for it.
 */
#include "twt.h"

#include <string.h>

#include "lane_pair.h"

#include "diag/record/counter.h"
#include "diag/record/diag.h"

#define MANY  400u
#define LARGE 100000u
#define ALL   100000u /* messages that no lane holds at once */

static struct twt_lane_pair pair;
static unsigned called;

static void on_done(struct tow_op *op, const struct tow_result *result)
{
	(void)op, (void)result;
	called++;
}

static struct tow_op *send_one(const void *data, uint64_t bytes, bool callback, bool at_once)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_op *op = (struct tow_op *)&pair; /* it is written in any case */

	options.flags = at_once ? TOW_OP_AT_ONCE : 0;
	options.done = callback ? on_done : NULL;
	TWT_OK(tow_send_start(pair.peer[0], data, bytes, 3, &options, &op));
	assert_ptr_not_equal(op, &pair);
	return op;
}

/* The next message is this number. */
static void must_hear(uint64_t number, uint64_t bytes)
{
	uint8_t in[LARGE];
	struct tow_result result;
	struct tow_op *op;

	TWT_OK(tow_recv_start(pair.peer[1], in, sizeof(in), 3, NULL, &op));
	result = twt_lane_finish(&pair, op);
	assert_int_equal(result.status, TOW_OK);
	assert_int_equal(result.bytes, bytes);
	assert_memory_equal(in, &number, sizeof(number));
}

static uint64_t counted(enum twi_counter id)
{
	return twi_counter_sum(twi_runtime_engine(pair.runtime[0])->diag, id);
}

/* Some of them have spans, and so operations: one in so many. */
static void some_at_once(void)
{
	unsigned without = 0, with = 0;
	uint64_t sends = counted(TWI_C_sends), completed = counted(TWI_C_ops_completed);

	called = 0;
	for (uint64_t i = 0; i < MANY; i++) {
		struct tow_op *op = send_one(&i, sizeof(i), true, true);

		if (op == NULL) {
			without++;
		} else {
			with++;
			assert_int_equal(twt_lane_finish(&pair, op).status, TOW_OK);
		}
		must_hear(i, sizeof(i));
	}
	assert_int_equal(called, with);
	assert_in_range(without, MANY * 9 / 10, MANY);
	assert_int_equal(counted(TWI_C_sends) - sends, MANY);
	assert_true(counted(TWI_C_ops_completed) - completed >= MANY);
}

/* Without the flag, and large ones with it. */
static void none_at_once(void)
{
	static uint8_t large[LARGE];

	for (uint64_t i = 0; i < 20; i++) {
		bool small = i % 2 == 0;
		struct tow_op *op;

		memcpy(large, &i, sizeof(i));
		op = send_one(large, small ? sizeof(i) : LARGE, false, !small);
		assert_non_null(op);
		must_hear(i, small ? sizeof(i) : LARGE);
		assert_int_equal(twt_lane_finish(&pair, op).status, TOW_OK);
	}
}

/* Nobody receives: what finds no room waits, as an operation, and is in order with all others. */
static void full(void)
{
	static uint64_t words[ALL + 2]; /* who waits has not left its memory */
	struct tow_op *waits = NULL;
	uint64_t sent = 0;

	while (waits == NULL && sent < ALL) {
		words[sent] = sent;
		waits = send_one(&words[sent++], sizeof(words[0]), false, true);
		if (waits != NULL && tow_op_test(waits) != TOW_AGAIN) {
			TWT_OK(tow_op_release(waits)); /* it has a span */
			waits = NULL;
		}
	}
	assert_non_null(waits);
	words[sent] = sent;
	TWT_OK(tow_op_release(send_one(&words[sent++], sizeof(words[0]), false, true)));
	for (uint64_t i = 0; i < sent; i++)
		must_hear(i, sizeof(i));
	assert_int_equal(twt_lane_finish(&pair, waits).status, TOW_OK);
}

/* One that has gone is told by an operation, or at the call. */
static void gone(void)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	uint64_t word = 0;
	struct tow_op *op;
	int status = TOW_OK;

	options.flags = TOW_OP_AT_ONCE;
	TWT_OK(tow_peer_close(pair.peer[1]));
	pair.peer[1] = NULL;
	for (int i = 0; i < 2000 && status == TOW_OK; i++) {
		TWT_OK(tow_send_start(pair.peer[0], &word, sizeof(word), 3, &options, &op));
		if (op != NULL)
			status = twt_lane_finish(&pair, op).status;
		twt_lane_drive(&pair, 1000000);
	}
	assert_int_equal(status, TOW_EPEER);
}

static void test_lane(void **state)
{
	twt_lane_init(&pair, *state);
	if (!twt_lane_open(&pair))
		skip();
	twt_lane_join(&pair);
	some_at_once();
	none_at_once();
	full();
	gone();
	twt_lane_close(&pair);
}

int main(void)
{
	struct CMUnitTest tests[TWT_LANE_ROWS];

	for (size_t i = 0; i < TWT_LANE_ROWS; i++)
		tests[i] = (struct CMUnitTest){ twt_lane_rows[i].name, test_lane, NULL, NULL,
						(void *)(uintptr_t)&twt_lane_rows[i] };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
