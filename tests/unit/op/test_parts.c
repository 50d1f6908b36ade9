/*
 * test_parts.c - the record of a message of parts: what is joined and what is not, its bounds,
 * where each byte lies, no memory; and what every lane does with parts that are freed at once, that
 * it may not copy, or has no staging for.
 */
#include "twt.h"

#include <errno.h>
#include <string.h>

#include <towline/match.h>

#include "lane_pair.h"

#include "diag/record/diag.h"
#include "transport/message/inbox.h"
#include "transport/op/message.h"
#include "transport/op/parts.h"

#define PAGE  4096u
#define LARGE (400u << 10)
#define SMALL 24u

static struct twt_lane_pair pair;

#ifndef TWT_SANITIZED /* sanitizers keep malloc for themselves */
extern void *__libc_malloc(size_t bytes);

static unsigned malloc_fails; /* the nth from now */

void *malloc(size_t bytes)
{
	if (malloc_fails > 0 && --malloc_fails == 0) {
		errno = ENOMEM;
		return NULL;
	}
	return __libc_malloc(bytes);
}
#endif

static struct twi_pool *pool(void)
{
	return twi_runtime_engine(pair.runtime[0])->pool;
}

static int set_up(void **state)
{
	(void)state;
	twt_lane_init(&pair, &twt_lane_rows[0]);
	pair.options[0].exhaust = "copy";
	assert_true(twt_lane_open(&pair));
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	twt_lane_close(&pair);
	return 0;
}

/* How many runs are left: 0 none, 1 one in *whole. */
static unsigned joined(const struct tow_part *given, uint32_t count, struct tow_part *whole)
{
	struct twi_parts *parts;
	unsigned left;

	assert_int_equal(twi_parts_create("call", pool(), given, count, whole, &parts), TOW_OK);
	if (parts == NULL)
		return whole->bytes > 0;
	left = parts->count;
	twi_parts_destroy(parts);
	return left;
}

static unsigned joined_two(void *a, uint64_t bytes, uint64_t more)
{
	const struct tow_part two[2] = { { a, bytes }, { (uint8_t *)a + bytes, more } };
	struct tow_part whole;
	unsigned left = joined(two, 2, &whole);

	if (left == 1) {
		assert_ptr_equal(whole.data, a);
		assert_int_equal(whole.bytes, bytes + more);
	}
	return left;
}

static void joining(void **state)
{
	static uint8_t plain[2 * PAGE];
	const struct tow_part apart[3] = { { plain, 8 }, { plain + 9, 8 }, { plain + 17, 8 } };
	const struct tow_part back[2] = { { plain + 8, 8 }, { plain, 8 } };
	const struct tow_part empty[3] = { { NULL, 0 }, { plain, 0 }, { plain + 8, 0 } };
	const struct tow_part few[4] = {
		{ NULL, 0 }, { plain, 8 }, { plain, 0 }, { plain + 8, 8 }
	};
	struct tow_part whole;

	(void)state;
	assert_int_equal(joined_two(plain, 100, 200), 1);
	assert_int_equal(joined(apart, 3, &whole), 2);
	assert_int_equal(joined(back, 2, &whole), 2);
	assert_int_equal(joined(empty, 3, &whole), 0);
	assert_int_equal(joined(NULL, 0, &whole), 0);
	assert_int_equal(joined(few, 4, &whole), 1);
	assert_ptr_equal(whole.data, plain);
	assert_int_equal(whole.bytes, 16);
}

/* Two allocations that touch stay two: each has a lease of its own. */
static void joining_pool(void **state)
{
	void *blocks[16];
	unsigned touching = 0;

	(void)state;
	for (unsigned i = 0; i < 16; i++)
		TWT_OK(tow_alloc(pair.runtime[0], 64 << 10, 0, &blocks[i]));
	assert_int_equal(joined_two(blocks[0], 1000, 2000), 1);
	for (unsigned i = 0; i < 16; i++) {
		for (unsigned j = 0; j < 16; j++) {
			if ((uint8_t *)blocks[i] + (64 << 10) != blocks[j])
				continue;
			touching++;
			assert_int_equal(joined_two(blocks[i], 64 << 10, 64 << 10), 2);
		}
	}
	assert_true(touching > 0);
	for (unsigned i = 0; i < 16; i++)
		TWT_OK(tow_free(pair.runtime[0], blocks[i]));
}

/* Regions that touch stay two, as do one that is registered and one that is not. */
static void joining_registered(void **state)
{
	uint8_t *pages = aligned_alloc(PAGE, 4 * PAGE);
	uint64_t first, second, third;

	(void)state;
	assert_non_null(pages);
	memset(pages, 0, 4 * PAGE);
	TWT_OK(tow_mem_register(pair.runtime[0], pages, PAGE, &first));
	assert_int_equal(joined_two(pages, PAGE, PAGE), 2);
	TWT_OK(tow_mem_register(pair.runtime[0], pages + PAGE, PAGE, &second));
	assert_int_equal(joined_two(pages, PAGE, PAGE), 2);
	assert_int_equal(joined_two(pages, 100, 200), 1);
	TWT_OK(tow_mem_register(pair.runtime[0], pages + 2 * PAGE, 2 * PAGE, &third));
	assert_int_equal(joined_two(pages + 2 * PAGE, PAGE, PAGE), 1);
	TWT_OK(tow_mem_deregister(pair.runtime[0], first));
	TWT_OK(tow_mem_deregister(pair.runtime[0], second));
	TWT_OK(tow_mem_deregister(pair.runtime[0], third));
	free(pages);
}

static void joining_outside(void **state)
{
	void *outside;

	(void)state;
	TWT_OK(tow_alloc(pair.runtime[0], 8 << 20, 0, &outside)); /* more than the pool has */
	assert_null(twi_pool_find(pool(), outside, 1));
	assert_int_equal(joined_two(outside, 1000, 2000), 1);
	assert_int_equal(joined_two((uint8_t *)outside + (8 << 20) - PAGE, PAGE, PAGE), 2);
	TWT_OK(tow_free(pair.runtime[0], outside));
}

static void refused(const struct tow_part *given, uint32_t count, int status, const char *why)
{
	struct twi_parts *parts = (struct twi_parts *)(void *)&pair;
	struct tow_part whole;

	assert_int_equal(twi_parts_create("the_call", pool(), given, count, &whole, &parts),
			 status);
	assert_null(parts);
	assert_non_null(strstr(tow_error_message(), "the_call"));
	assert_non_null(strstr(tow_error_message(), why));
}

static void bounds(void **state)
{
	static struct tow_part many[TOW_PARTS_MAX + 1];
	static uint8_t memory[2 * (TOW_PARTS_MAX + 1)];
	struct tow_part whole,
		large[3] = { { memory, INT64_MAX - 5 }, { memory, 5 }, { memory, 1 } };

	(void)state;
	for (uint32_t i = 0; i <= TOW_PARTS_MAX; i++)
		many[i] = (struct tow_part){ memory + 2 * i, 1 };
	refused(many, TOW_PARTS_MAX + 1, TOW_EINVAL, "the most is TOW_PARTS_MAX, 1024");
	assert_int_equal(joined(many, TOW_PARTS_MAX, &whole), TOW_PARTS_MAX);
	refused(NULL, 2, TOW_EINVAL, "parts is NULL");
	refused(large, 3, TOW_EINVAL, "part 2 of 1 bytes");
	assert_int_equal(joined(large, 2, &whole), 2);
	large[0].bytes = UINT64_MAX;
	refused(large, 2, TOW_EINVAL, "part 0");
	many[7].data = NULL;
	refused(many, 9, TOW_EINVAL, "the data of part 7 is NULL");
}

static void no_memory(void **state)
{
	(void)state;
#ifdef TWT_SANITIZED
	skip();
#else
	static uint8_t memory[64];
	const struct tow_part two[2] = { { memory, 8 }, { memory + 16, 8 } };
	struct tow_part whole;
	struct twi_parts *parts;
	struct tow_op *op = NULL;

	malloc_fails = 1;
	assert_int_equal(twi_parts_create("call", pool(), two, 2, &whole, &parts), TOW_ENOMEM);
	assert_null(parts);
	twt_lane_join(&pair);
	for (unsigned nth = 1; nth <= 2; nth++) { /* the record, and what it is gathered in */
		malloc_fails = nth;
		assert_int_equal(tow_send_parts_start(pair.peer[0], two, 2, 1, NULL, &op),
				 TOW_ENOMEM);
		assert_null(op);
	}
	malloc_fails = 0;
	TWT_OK(tow_send_parts_start(pair.peer[0], two, 2, 1, NULL, &op));
	assert_int_equal(twt_lane_finish(&pair, op).status, TOW_OK);
#endif
}

/* Each byte is found, in any order, with what lies behind it. */
static void finding(void **state)
{
	static uint8_t memory[4000];
	struct tow_part given[40], whole;
	struct twi_parts *parts;
	uint64_t seed = twt_seed(), at = 0;

	(void)state;
	for (unsigned i = 0; i < 40; i++) {
		given[i] = (struct tow_part){ memory + (39 - i) * 100,
					      1 + twt_random_below(&seed, 99) };
		for (unsigned j = 0; j < given[i].bytes; j++)
			memory[(39 - i) * 100 + j] = (uint8_t)at++;
	}
	assert_int_equal(twi_parts_create("call", pool(), given, 40, &whole, &parts), TOW_OK);
	assert_int_equal(parts->bytes, at);
	for (unsigned i = 0; i < 20000; i++) {
		uint64_t byte = i < at ? i : twt_random_below(&seed, at), run = at - byte;
		const uint8_t *found = twi_parts_at(parts, byte, &run);

		assert_int_equal(*found, (uint8_t)byte);
		assert_in_range(run, 1, 99);
		assert_int_equal(found[run - 1], (uint8_t)(byte + run - 1));
		if (byte + run < at) /* it ends where its part does */
			assert_int_equal(found[run], 0);
	}
	twi_parts_destroy(parts);
}

/*
 * A small message that comes in pieces is kept when its receive ends half way: what has come is
 * gathered out of the parts again, and the next receive gets all of it.
 */
static void left_half_way(void **state)
{
	static uint8_t memory[400], row[100];
	const struct tow_part two[2] = { { memory + 200, 30 }, { memory, 70 } };
	const struct twi_inbound in = { .seq = 1, .tag = 5, .bytes = sizeof(row) };
	struct tow_match match = TOW_MATCH_INIT;
	struct twi_engine *engine;
	struct twi_inbox *inbox;
	struct tow_op *op;

	(void)state;
	twt_lane_join(&pair);
	for (unsigned i = 0; i < sizeof(row); i++)
		row[i] = (uint8_t)(i + 1);
	match.peer = pair.peer[1];
	match.tag = 5;
	inbox = pair.peer[1]->inbox;
	engine = pair.peer[1]->engine;
	for (unsigned ends = 0; ends < 2; ends++) {
		memset(memory, 0, sizeof(memory));
		TWT_OK(tow_recv_match_start(pair.endpoint[1], &match, two, 2, NULL, &op));
		twi_engine_enter(engine);
		if (ends == 0) {
			struct twi_inbound next = in;

			next.seq = inbox->seq_received + 1;
			TWT_OK(twi_inbox_admit(inbox, next.seq, sizeof(row), 0, 0));
			TWT_OK(twi_inbox_begin(inbox, &next));
			assert_int_equal(twi_inbox_fill(inbox, row, 41), 41);
			assert_true(twi_message_abort(op, TOW_EDEADLINE, true));
			assert_int_equal(twi_inbox_fill(inbox, row + 41, 59), 59);
		}
		twi_engine_leave(engine);
		assert_int_equal(twt_lane_finish(&pair, op).status,
				 ends == 0 ? TOW_EDEADLINE : TOW_OK);
	}
	assert_memory_equal(memory + 200, row, 30);
	assert_memory_equal(memory, row + 30, 70);
}

/* --- over every lane --- */

struct two {
	void *memory[2];
	struct tow_part parts[2];
};

static void two_make(struct two *two, int side, uint64_t bytes)
{
	for (int i = 0; i < 2; i++) {
		TWT_OK(tow_alloc(pair.runtime[side], bytes + 64, 0, &two->memory[i]));
		memset(two->memory[i], 0x30 + i, bytes);
		two->parts[i] = (struct tow_part){ two->memory[i], bytes };
	}
}

static void two_free(struct two *two, int side)
{
	TWT_OK(tow_free(pair.runtime[side], two->memory[0]));
	TWT_OK(tow_free(pair.runtime[side], two->memory[1]));
}

/* The pool's memory is given back while its message is under way: it is leased until the end. */
static void freed_at_once(uint64_t bytes)
{
	uint64_t at_rest = twt_lane_in_use(&pair);
	uint8_t *in = malloc(2 * bytes);
	struct tow_op *send, *recv;
	struct tow_result result;
	struct two out;

	two_make(&out, 0, bytes);
	TWT_OK(tow_send_parts_start(pair.peer[0], out.parts, 2, 0, NULL, &send));
	two_free(&out, 0);
	if (bytes == LARGE)
		assert_true(twt_lane_in_use(&pair) >= at_rest + 2ull * LARGE);
	TWT_OK(tow_recv_start(pair.peer[1], in, 2 * bytes, 0, NULL, &recv));
	result = twt_lane_finish(&pair, recv);
	assert_int_equal(result.status, TOW_OK);
	assert_int_equal(twt_lane_finish(&pair, send).status, TOW_OK);
	for (uint64_t i = 0; i < 2 * bytes; i++)
		assert_int_equal(in[i], i < bytes ? 0x30 : 0x31);
	free(in);
	twt_lane_settle(&pair, at_rest, "freed at once");
}

static uint64_t copied(int side, enum twi_reason reason)
{
	struct twi_reason_sum sum;

	twi_reason_sum(twi_runtime_engine(pair.runtime[side])->diag, reason, &sum);
	return sum.bytes;
}

/* What is copied for being in parts, by lane, is what docs/copies.md says. */
static void copies(void)
{
	const bool shm = strcmp(pair.lane->name, "shm") == 0 || strcmp(pair.lane->name, "tow") == 0;
	const bool ofi = strncmp(pair.lane->name, "ofi", 3) == 0;
	struct tow_match match = TOW_MATCH_INIT;
	struct tow_op *send, *recv;
	struct two out, in;
	uint64_t before[3];

	two_make(&out, 0, LARGE);
	two_make(&in, 1, LARGE);
	match.peer = pair.peer[1];
	before[0] = copied(0, TWI_R_parts_send);
	before[1] = copied(1, TWI_R_parts_recv);
	before[2] = copied(0, TWI_R_parts_small);
	TWT_OK(tow_recv_match_start(pair.endpoint[1], &match, in.parts, 2, NULL, &recv));
	TWT_OK(tow_send_parts_start(pair.peer[0], out.parts, 2, 0, NULL, &send));
	assert_int_equal(twt_lane_finish(&pair, recv).status, TOW_OK);
	assert_int_equal(twt_lane_finish(&pair, send).status, TOW_OK);
	assert_memory_equal(in.memory[0], out.memory[0], LARGE);
	assert_memory_equal(in.memory[1], out.memory[1], LARGE);
	assert_int_equal(copied(0, TWI_R_parts_send) - before[0], shm || ofi ? 2 * LARGE : 0);
	assert_int_equal(copied(1, TWI_R_parts_recv) - before[1], ofi ? 2 * LARGE : 0);
	assert_int_equal(copied(0, TWI_R_parts_small), before[2]);
	two_free(&out, 0);
	two_free(&in, 1);
	freed_at_once(SMALL);
	assert_int_equal(copied(0, TWI_R_parts_small) - before[2], 2 * SMALL);
}

static void over_lanes(void **state)
{
	(void)state;
	for (unsigned i = 0; i < TWT_LANE_ROWS; i++) {
		twt_lane_init(&pair, &twt_lane_rows[i]);
		if (!twt_lane_open(&pair))
			continue;
		twt_lane_join(&pair);
		freed_at_once(SMALL);
		freed_at_once(LARGE);
		copies();
		twt_lane_close(&pair);
	}
}

/* The message that it has met is taken back: it has its parts for the next one, and no more. */
static void posted_again(void **state)
{
	enum { ROOM = 1 << 20, WHOLE = 4 << 20, EDGE = 64 };
	uint8_t *row = malloc(WHOLE), *in = malloc(2 * (ROOM + EDGE));
	const struct tow_part two[2] = { { in + ROOM + EDGE, ROOM }, { in, ROOM } };
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_match match = TOW_MATCH_INIT;
	struct tow_op *recv, *send;
	struct tow_result result;

	(void)state;
	twt_lane_init(&pair, &twt_lane_rows[TWT_LANE_ROW_SHM]);
	assert_true(twt_lane_open(&pair));
	twt_lane_join(&pair);
	for (unsigned i = 0; i < WHOLE; i++)
		row[i] = (uint8_t)(i * 7 >> 3);
	memset(in, 0xa5, 2 * (ROOM + EDGE));
	match.peer = pair.peer[1];
	options.flags = TOW_OP_TRUNCATE;
	TWT_OK(tow_recv_match_start(pair.endpoint[1], &match, two, 2, &options, &recv));
	TWT_OK(tow_send_start(pair.peer[0], row, WHOLE, 0, NULL, &send));
	while (recv->stage == TWI_STAGE_POSTED)
		tow_progress(pair.runtime[1]); /* some of it is copied in each round */
	TWT_OK(tow_op_cancel(send));
	assert_int_equal(twt_lane_finish(&pair, send).status, TOW_ECANCELED);
	twt_lane_drive(&pair, 1000000);
	assert_int_equal(recv->stage, TWI_STAGE_POSTED);
	TWT_OK(tow_send_start(pair.peer[0], row, WHOLE, 0, NULL, &send));
	result = twt_lane_finish(&pair, recv);
	assert_int_equal(result.bytes, 2 * ROOM);
	assert_int_equal(result.dropped_bytes, WHOLE - 2 * ROOM);
	assert_int_equal(twt_lane_finish(&pair, send).status, TOW_OK);
	assert_memory_equal(in + ROOM + EDGE, row, ROOM);
	assert_memory_equal(in, row + ROOM, ROOM);
	for (unsigned i = 0; i < EDGE; i++)
		assert_true(in[ROOM + i] == 0xa5 && in[2 * ROOM + EDGE + i] == 0xa5);
	twt_lane_close(&pair);
	free(row);
	free(in);
}

static int send_status(uint64_t bytes)
{
	struct tow_result result;
	struct tow_op *op;
	struct two out;

	two_make(&out, 0, bytes);
	TWT_OK(tow_send_parts_start(pair.peer[0], out.parts, 2, 0, NULL, &op));
	two_free(&out, 0);
	twt_lane_drive(&pair, 1000000);
	TWT_OK(tow_op_cancel(op));
	result = twt_lane_finish(&pair, op);
	return result.status;
}

/* A lane that would copy may not, or cannot; one that gathers does not care. */
static void strict_lane(const struct twt_lane_row *lane, bool gathers)
{
	for (int staging = 1; staging >= 0; staging--) {
		twt_lane_init(&pair, lane);
		pair.options[0].require_zero_copy = staging;
		if (staging == 0)
			pair.options[0].staging_bytes = 0;
		assert_true(twt_lane_open(&pair));
		twt_lane_join(&pair);
		assert_int_equal(send_status(LARGE), gathers       ? TOW_ECANCELED
						     : staging > 0 ? TOW_EZEROCOPY
								   : TOW_EEXHAUSTED);
		assert_int_equal(send_status(SMALL), TOW_OK);
		twt_lane_close(&pair);
	}
}

static void strict(void **state)
{
	(void)state;
	strict_lane(&twt_lane_rows[0], true);
	strict_lane(&twt_lane_rows[TWT_LANE_ROW_SHM], false);
}

int main(void)
{
#define WITH_TCP(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		WITH_TCP(joining),
		WITH_TCP(joining_pool),
		WITH_TCP(joining_registered),
		WITH_TCP(joining_outside),
		WITH_TCP(bounds),
		WITH_TCP(no_memory),
		WITH_TCP(finding),
		WITH_TCP(left_half_way),
		cmocka_unit_test(over_lanes),
		cmocka_unit_test(posted_again),
		cmocka_unit_test(strict),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
