/*
 * test_foreign_state.c - what a rank tells others of groups of other libraries: arrivals, messages
 * of the last seconds, signatures, and a process that is several ranks.
 */
#include "twt.h"

#include <towline/towline.h>

#include "foreign_group.h"
#include "pair.h"

#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/foreign/foreign.h"

static struct tow_runtime *runtime;

static int setup(void **state)
{
	(void)state;
	return twt_fg_runtime(&runtime);
}

static int teardown(void **state)
{
	(void)state;
	tow_runtime_close(runtime);
	return 0;
}

/* What is recent is of the last seconds: older buckets go, by the times that messages have. */
static void recent_figures(void **state)
{
	struct tow_foreign_group *group = twt_fg_open(runtime, "recent", 10, 0, 2);
	const uint64_t t0 = 100000 * FG_MS, bucket = TWI_FOREIGN_BUCKET_NS;
	struct tow_foreign_message message = twt_fg_sent(1, 1);
	struct twi_foreign_figures recent;
	uint64_t window;

	(void)state;
	message.end_ns = t0;
	TWT_OK(tow_foreign_message(group, &message));
	message.end_ns = t0 + bucket / 2;
	TWT_OK(tow_foreign_message(group, &message));
	twi_foreign_recent(&group->flows[0], t0 + bucket / 2, &recent, &window);
	assert_int_equal(recent.messages, 2);
	assert_int_equal(window, bucket / 2);
	message.end_ns = t0 + bucket + 1;
	TWT_OK(tow_foreign_message(group, &message));
	twi_foreign_recent(&group->flows[0], t0 + bucket + 1, &recent, &window);
	assert_int_equal(recent.messages, 3);
	assert_int_equal(recent.wire_ns, 3 * FG_MS);
	assert_int_equal(window, bucket);
	twi_foreign_recent(&group->flows[0], t0 + 4 * bucket, &recent, &window);
	assert_int_equal(recent.messages, 0);
	message.end_ns = t0 + 4 * bucket;
	TWT_OK(tow_foreign_message(group, &message));
	twi_foreign_recent(&group->flows[0], t0 + 4 * bucket, &recent, &window);
	assert_int_equal(recent.messages, 1);
	assert_int_equal(group->flows[0].all.messages, 4);
	tow_foreign_close(group);
}

/* What others are told: arrivals, also where they came out of order, and messages. */
static void state_of_rank(void **state)
{
	struct tow_foreign_group *group = twt_fg_open(runtime, "told", 12, 1, 4);
	struct tow_foreign_group *unused = twt_fg_open(runtime, "unused", 13, 1, 4);
	struct twi_engine *engine = twi_runtime_engine(runtime);
	uint64_t now = tow_foreign_clock(), seq;
	static struct twi_rank_state told;
	struct tow_foreign_coll coll = twt_fg_all_reduce(64, now - 90 * FG_MS);
	struct tow_foreign_message message = twt_fg_sent(2, 5);

	(void)state;
	for (int i = 0; i < 20; i++)
		TWT_OK(tow_foreign_coll_begin(group, &coll, &seq));
	for (seq = 1; seq <= 17; seq++)
		TWT_OK(tow_foreign_coll_enter(group, seq, now - 80 * FG_MS + seq));
	TWT_OK(tow_foreign_coll_enter(group, 19, now - 10 * FG_MS));
	TWT_OK(tow_foreign_coll_enter(group, 18, now - 9 * FG_MS));
	TWT_OK(tow_foreign_coll_end(group, 18, now, TOW_EPEER));
	TWT_OK(tow_foreign_message(group, &message));
	twi_engine_enter(engine);
	told = (struct twi_rank_state){ 0 };
	twi_foreign_tell(engine, tow_foreign_clock(), 1, &told);
	twi_engine_leave(engine);
	assert_int_equal(told.group_count, 1);
	assert_string_equal(told.groups[0].name, "told");
	assert_int_equal(told.groups[0].ctx & (TWI_STATE_FOREIGN | TWI_STATE_BARRIERS),
			 TWI_STATE_FOREIGN);
	assert_int_equal(told.groups[0].rank, 1);
	assert_int_equal(told.groups[0].last_seq, 19);
	assert_int_equal(told.groups[0].past_count, TWI_STATE_PAST);
	for (unsigned i = 0; i < TWI_STATE_PAST; i++)
		assert_int_equal(told.groups[0].past[i].seq, 19 - i);
	assert_int_equal(told.groups[0].past[0].start_ns, now - 10 * FG_MS);
	assert_int_equal(told.groups[0].past[0].done_ns, 0);
	assert_int_equal(told.groups[0].past[1].done_ns, now);
	assert_int_equal(told.groups[0].past[1].status, TOW_EPEER);
	assert_int_equal(told.flow_count, 1);
	assert_int_equal(told.flows[0].peer, 2);
	assert_int_equal(told.flows[0].wire_ns, 5 * FG_MS);
	twi_engine_enter(engine);
	told = (struct twi_rank_state){ 0 };
	twi_foreign_tell(engine, tow_foreign_clock() + 10 * TWI_FOREIGN_BUCKET_NS, 1, &told);
	twi_engine_leave(engine);
	assert_int_equal(told.flow_count, 0); /* nothing came lately */
	twi_engine_enter(engine);
	told = (struct twi_rank_state){ 0 };
	twi_foreign_tell(engine, tow_foreign_clock(), 6, &told);
	twi_engine_leave(engine);
	assert_int_equal(told.group_count, 2); /* the latest in use first */
	assert_string_equal(told.groups[0].name, "told");
	assert_string_equal(told.groups[1].name, "unused");
	tow_foreign_close(unused);
	tow_foreign_close(group);
}

static struct twi_rank_state *tell(uint32_t room)
{
	struct twi_engine *engine = twi_runtime_engine(runtime);
	static struct twi_rank_state told;

	twi_engine_enter(engine);
	told = (struct twi_rank_state){ 0 };
	twi_foreign_tell(engine, tow_foreign_clock(), room, &told);
	twi_engine_leave(engine);
	return &told;
}

/* Groups whose newest collectives began at the same time, and groups that have none. */
static void same_times(void **state)
{
	struct tow_foreign_group *groups[4];
	struct tow_foreign_coll coll = twt_fg_all_reduce(64, 100);
	const struct twi_rank_state *told;
	uint64_t seq;

	(void)state;
	for (uint64_t i = 0; i < 4; i++) {
		groups[i] = twt_fg_open(runtime, "same", 40 + i, 0, 2);
		if (i >= 2)
			continue;
		TWT_OK(tow_foreign_coll_begin(groups[i], &coll, &seq));
		TWT_OK(tow_foreign_coll_enter(groups[i], seq, 100));
	}
	told = tell(6);
	assert_int_equal(told->group_count, 4);
	assert_false(told->cut);
	for (uint64_t i = 0; i < 4; i++)
		assert_non_null(twi_rank_state_group(told, groups[i]->series.ctx));
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(told->groups[i].last_seq, i < 2);
	told = tell(1);
	assert_int_equal(told->group_count, 1);
	assert_true(told->cut);
	told = tell(2);
	assert_int_equal(told->group_count, 2);
	assert_false(told->cut); /* the others were never in use */
	for (unsigned i = 0; i < 4; i++)
		tow_foreign_close(groups[i]);
}

/* A process that is two ranks of a group is told as one: the last of them counts. */
static void two_ranks_of_one(void **state)
{
	struct tow_foreign_group *a = twt_fg_open(runtime, "both", 30, 2, 4),
				 *b = twt_fg_open(runtime, "both", 30, 0, 4);
	struct twi_engine *engine = twi_runtime_engine(runtime);
	struct tow_foreign_message message = twt_fg_sent(1, 5);
	struct tow_foreign_coll coll = twt_fg_all_reduce(64, 1);
	static struct twi_rank_state told;
	uint64_t seq;

	(void)state;
	for (uint64_t i = 1; i <= 4; i++) {
		TWT_OK(tow_foreign_coll_begin(a, &coll, &seq));
		TWT_OK(tow_foreign_coll_begin(b, &coll, &seq));
		TWT_OK(tow_foreign_coll_enter(a, seq, 100 * i));
		if (i < 4)
			TWT_OK(tow_foreign_coll_enter(b, seq, 100 * i + 50));
		TWT_OK(tow_foreign_coll_end(a, seq, 100 * i + 60, TOW_OK));
		if (i < 3)
			TWT_OK(tow_foreign_coll_end(b, seq, 100 * i + 55, TOW_OK));
	}
	TWT_OK(tow_foreign_message(b, &message));
	message.peer = 3;
	TWT_OK(tow_foreign_message(a, &message));
	twi_engine_enter(engine);
	told = (struct twi_rank_state){ 0 };
	twi_foreign_tell(engine, tow_foreign_clock(), 6, &told);
	twi_engine_leave(engine);
	assert_int_equal(told.group_count, 1);
	assert_int_equal(twi_state_group_covers(&told.groups[0]), 2);
	assert_true(twi_state_group_has(&told.groups[0], 0));
	assert_true(twi_state_group_has(&told.groups[0], 2));
	assert_false(twi_state_group_has(&told.groups[0], 1));
	assert_int_equal(told.groups[0].last_seq, 3); /* the fourth is entered by one alone */
	assert_int_equal(told.groups[0].past_count, 3);
	assert_int_equal(told.groups[0].past[0].start_ns, 350);
	assert_int_equal(told.groups[0].past[0].done_ns, 0);
	assert_int_equal(told.groups[0].past[1].done_ns, 260);
	assert_int_equal(told.flow_count, 2);
	tow_foreign_close(b);
	tow_foreign_close(a);
}

/* Of two ranks in this process one fails, or calls something else: that is told of either. */
static void two_ranks_that_differ(void **state)
{
	struct tow_foreign_group *both[2] = { twt_fg_open(runtime, "both", 31, 2, 4),
					      twt_fg_open(runtime, "both", 31, 0, 4) };
	struct tow_foreign_coll coll;
	const struct twi_rank_state *told;
	uint64_t seq, usual = 0;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		for (unsigned at = 1; at <= 5; at++) {
			/* The first rank fails in 2 and differs in 4, the other in 3 and 5. */
			coll = twt_fg_all_reduce(at == 4 + i ? 65 : 64, 100);
			TWT_OK(tow_foreign_coll_begin(both[i], &coll, &seq));
			TWT_OK(tow_foreign_coll_enter(both[i], seq, 100));
			TWT_OK(tow_foreign_coll_end(both[i], seq, 200,
						    at == 2 + i ? TOW_EPEER : TOW_OK));
		}
		usual = both[i]->series.past[1].signature;
	}
	told = tell(6);
	assert_int_equal(told->group_count, 1);
	assert_int_equal(told->groups[0].past_count, 5);
	for (unsigned at = 1; at <= 5; at++) {
		const struct twi_state_past *past = twi_state_group_past(&told->groups[0], at);

		assert_int_equal(past->status, at == 2 || at == 3 ? TOW_EPEER : TOW_OK);
		assert_int_equal(past->signature == usual, at <= 3);
		for (unsigned i = 0; i < 2 && at > 3; i++)
			assert_true(past->signature != both[i]->series.past[at].signature);
	}
	for (unsigned i = 0; i < 2; i++)
		tow_foreign_close(both[i]);
}

/* Ranks agree by kind, type, operator, root and bytes; of kinds with counts not by bytes. */
static void signatures(void **state)
{
	struct tow_foreign_group *group = twt_fg_open(runtime, "signed", 14, 0, 2);
	struct tow_foreign_coll coll = twt_fg_all_reduce(64, 0);
	uint64_t seq, first;

	(void)state;
#define SIGN()                                                                                     \
	(tow_foreign_coll_begin(group, &coll, &seq), tow_foreign_coll_enter(group, seq, 0),        \
	 group->series.past[seq % TWI_STATE_PAST].signature)
	first = SIGN();
	assert_true(first != 0);
	assert_true(SIGN() == first);
	coll.bytes = 65;
	assert_true(SIGN() != first);
	coll = twt_fg_all_reduce(64, 0);
	coll.type = TOW_F64;
	assert_true(SIGN() != first);
	coll = twt_fg_all_reduce(64, 0);
	coll.root = 1;
	assert_true(SIGN() != first);
	coll.kind = TOW_FOREIGN_ALL_TO_ALL_V;
	first = SIGN();
	coll.bytes = 99;
	assert_true(SIGN() == first);
	tow_foreign_close(group);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(recent_figures),
		cmocka_unit_test(state_of_rank),
		cmocka_unit_test(same_times),
		cmocka_unit_test(two_ranks_of_one),
		cmocka_unit_test(two_ranks_that_differ),
		cmocka_unit_test(signatures),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
