/*
 * test_at_once.c - TOW_OP_AT_ONCE on every lane: a small send gives no operation where it goes in
 * the call, one where it must wait, is large or is to have a span; a receive gives none where its
 * small message is here; no callback runs without an operation; and nobody gets a NULL who has not
 * asked for it.
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

/* Of the words that are sent here; whether they come as they were is asked for each. */
#define WORDS 40u

static int take_one(void *data, uint64_t bytes, uint64_t flags, uint64_t mask,
		    struct tow_result *result, struct tow_op **op_out)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_match match = TOW_MATCH_INIT;
	const struct tow_part part = { .data = data, .bytes = bytes };

	options.flags = flags;
	options.result = result;
	options.done = on_done;
	options.user = &pair;
	*op_out = (struct tow_op *)&pair;
	if (mask == UINT64_MAX)
		return tow_recv_start(pair.peer[1], data, bytes, 3, &options, op_out);
	match.peer = pair.peer[1];
	match.tag = 3;
	match.tag_mask = mask;
	return tow_recv_match_start(pair.endpoint[1], &match, &part, 1, &options, op_out);
}

/* The next word, with an operation or without: the caller sees no difference but in the handle. */
static bool hear_word(uint64_t number, uint64_t room, uint64_t flags, uint64_t mask)
{
	uint8_t in[sizeof(uint64_t) + 1] = { 0 };
	struct tow_result result = TOW_RESULT_INIT;
	uint64_t fits = twi_min(room, sizeof(number));
	struct tow_op *op;

	called = 0;
	TWT_OK(take_one(in, room, flags, mask, &result, &op));
	if (op != NULL) {
		assert_int_equal(result.bytes, 0); /* it was left as it is */
		result = twt_lane_finish(&pair, op);
		assert_int_equal(called, 1);
	} else {
		assert_int_equal(called, 0);
		assert_int_equal(result.latency_ns, 0);
	}
	assert_int_equal(result.size, sizeof(result));
	assert_int_equal(result.status, TOW_OK);
	assert_int_equal(result.bytes, fits);
	assert_int_equal(result.dropped_bytes, sizeof(number) - fits);
	assert_int_equal(result.tag, 3);
	assert_ptr_equal(result.peer, pair.peer[1]);
	assert_ptr_equal(result.user, &pair);
	assert_ptr_equal(result.data, in);
	assert_int_not_equal(result.rpc_id, 0);
	assert_memory_equal(in, &number, fits);
	assert_int_equal(in[fits], 0);
	return op == NULL;
}

static void send_words(void)
{
	for (uint64_t i = 0; i < WORDS; i++)
		TWT_OK(tow_op_release(send_one(&i, sizeof(i), false, false)));
}

static unsigned hear_words(uint64_t room, uint64_t flags, uint64_t mask)
{
	unsigned without = 0;

	for (uint64_t i = 0; i < WORDS; i++)
		without += hear_word(i, room, flags, mask);
	return without;
}

static void all_come(void)
{
	struct tow_match match = TOW_MATCH_INIT;
	struct tow_result result = TOW_RESULT_INIT;
	struct tow_op *mark;

	match.peer = pair.peer[1];
	match.tag = 4; /* behind the words */
	TWT_OK(tow_send_start(pair.peer[0], NULL, 0, 4, NULL, NULL));
	for (int i = 0; i < 10000 && tow_probe(pair.endpoint[1], &match, &result) != TOW_OK; i++)
		twt_lane_drive(&pair, 1000000);
	TWT_OK(tow_recv_start(pair.peer[1], NULL, 0, 4, NULL, &mark));
	assert_int_equal(twt_lane_finish(&pair, mark).status, TOW_OK);
}

static void receives_at_once(void)
{
	const uint64_t once = TOW_OP_AT_ONCE, part = TOW_OP_AT_ONCE | TOW_OP_TRUNCATE;

	send_words();
	all_come();
	assert_in_range(hear_words(sizeof(uint64_t), once, UINT64_MAX), WORDS / 2, WORDS);
	send_words();
	all_come();
	assert_in_range(hear_words(5, part, UINT64_MAX), WORDS / 2, WORDS);
	send_words(); /* from here on the table is one of masks */
	all_come();
	assert_in_range(hear_words(sizeof(uint64_t), once, ~1ull), WORDS / 2, WORDS);
	send_words();
	all_come();
	assert_int_equal(hear_words(sizeof(uint64_t), 0, UINT64_MAX), 0);
	send_words(); /* nobody has looked for them: they are on their way */
	(void)hear_words(sizeof(uint64_t), once, UINT64_MAX);
}

/* A small message that comes behind a large one, both while a receive looks, is the second. */
static void behind_large(void)
{
	static uint8_t large[LARGE], in[2][LARGE];
	const uint64_t word = 7;

	for (int round = 0; round < 10; round++) {
		struct tow_result result[2] = { TOW_RESULT_INIT, TOW_RESULT_INIT };
		struct tow_op *sent = send_one(large, LARGE, false, true), *op[2];

		TWT_OK(tow_op_release(send_one(&word, sizeof(word), false, true)));
		for (int i = 0; i < 2; i++)
			TWT_OK(take_one(in[i], LARGE, TOW_OP_AT_ONCE, UINT64_MAX, &result[i],
					&op[i]));
		for (int i = 0; i < 2; i++)
			if (op[i] != NULL)
				result[i] = twt_lane_finish(&pair, op[i]);
		assert_int_equal(result[0].bytes, LARGE);
		assert_int_equal(result[1].bytes, sizeof(word));
		assert_int_equal(twt_lane_finish(&pair, sent).status, TOW_OK);
	}
}

static void test_lane(void **state)
{
	twt_lane_init(&pair, *state);
	if (!twt_lane_open(&pair))
		skip();
	twt_lane_join(&pair);
	some_at_once();
	none_at_once();
	behind_large();
	receives_at_once();
	behind_large(); /* in a table of masks, too */
	full();
	gone();
	twt_lane_close(&pair);
}

int main(void)
{
	return twt_lane_main(test_lane);
}
