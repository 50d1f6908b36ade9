/* test_replay.c - compiling logs: what is counted, what is refused; one replay by hand. */
#include "twt.h"

#include <string.h>

#include "memreg/arena/arena.h"
#include "memreg/sizing/replay_groups.h"
#include <towline/status.h>

#define MIB ((uint64_t)1 << 20)
#define ALLOC(n, b)                                                                                \
	{                                                                                          \
		.kind = TWI_ALLOC_ALLOC, .id = (n), .bytes = (b)                                   \
	}
#define FREE(n)                                                                                    \
	{                                                                                          \
		.kind = TWI_ALLOC_FREE, .id = (n)                                                  \
	}
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void counts(void **state)
{
	static const struct twi_alloc_event events[] = {
		{ .kind = TWI_ALLOC_ALLOC, .id = 9, .bytes = 100, .tag = 3, .thread = 1 },
		{ .kind = TWI_ALLOC_ALLOC, .id = 7, .bytes = 0, .caller = 77, .thread = 2 },
		{ .kind = TWI_ALLOC_STEP },
		{ .kind = TWI_ALLOC_FREE, .id = 9, .thread = 2 },
		{ .kind = TWI_ALLOC_FREE, .id = 1234, .thread = 2 },
		{ .kind = TWI_ALLOC_ALLOC, .id = 9, .bytes = 10, .tag = 4, .thread = 1 },
		{ .kind = TWI_ALLOC_ALLOC, .id = 8, .bytes = 5000, .tag = 4, .thread = 1 },
	};
	struct twi_replay_group group[3] = { { 0 } };
	struct twi_replay *replay;
	uint32_t count;

	(void)state;
	assert_int_equal(twi_replay_create(events, COUNT(events), &replay), TOW_OK);
	assert_int_equal(replay->allocs, 4);
	assert_int_equal(replay->steps, 1);
	assert_int_equal(replay->threads, 2);
	assert_int_equal(replay->unmatched_frees, 1);
	assert_int_equal(replay->never_freed, 3);
	assert_int_equal(replay->peak_bytes, 5010);
	assert_int_equal(replay->peak_rounded, 64 + 64 + 5056);
	assert_int_equal(replay->largest_bytes, 5000);
	assert_int_equal(twi_replay_groups(replay, TWI_REPLAY_BY_TAG, group, 3, &count), TOW_OK);
	assert_int_equal(count, 2);
	assert_int_equal(group[0].tag, 4);
	assert_int_equal(group[0].bytes, 5010);
	assert_int_equal(group[0].allocations, 2);
	assert_int_equal(group[1].tag, 0);
	assert_int_equal(group[1].caller, 77);
	twi_replay_destroy(replay);
}

static void refuses(void **state)
{
	static const struct {
		struct twi_alloc_event event[2];
		const char *words;
	} bad[] = {
		{ { ALLOC(1, 64), { .kind = 9 } }, "event 1: there is no such kind of event (9)" },
		{ { ALLOC(1, 64), ALLOC(1, 64) }, "event 1: its id is live already (1)" },
		{ { ALLOC(1, 64), ALLOC(2, UINT64_MAX) }, "event 1: " },
		{ { ALLOC(1, 64), { .kind = TWI_ALLOC_ALLOC, .id = 2, .align_log2 = 40 } },
		  "event 1: an alignment" },
		{ { FREE(1), FREE(1) }, "no allocation" },
	};
	struct twi_replay *replay;

	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++) {
		assert_int_equal(twi_replay_create(bad[i].event, 2, &replay), TOW_EINVAL);
		assert_null(replay);
		assert_non_null(strstr(tow_error_message(), bad[i].words));
	}
	assert_int_equal(twi_replay_create(NULL, 0, &replay), TOW_EINVAL);
	twi_replay_destroy(NULL);
}

/* 1 MiB of pool, a quarter taken beforehand: 512 KiB fits once, and again when it is freed. */
static void runs(void **state)
{
	static const struct twi_alloc_event events[] = {
		ALLOC(1, MIB / 2), ALLOC(2, MIB / 2), FREE(1), FREE(2), ALLOC(3, MIB / 2),
	};
	struct twi_replay_pool pool = { &twi_arena_pagerun, MIB, MIB / 4, 0 };
	struct twi_replay_result result;
	struct twi_replay *replay;

	(void)state;
	assert_int_equal(twi_replay_create(events, COUNT(events), &replay), TOW_OK);
	assert_int_equal(twi_replay_run(replay, &pool, TWI_REPLAY_LOOK, &result), TOW_OK);
	assert_true(result.reserve_fits);
	assert_int_equal(result.missed, 1);
	assert_int_equal(result.missed_bytes, MIB / 2);
	assert_false(twi_replay_clean(&result));
	pool.bytes = 2 * MIB;
	assert_int_equal(twi_replay_run(replay, &pool, TWI_REPLAY_LOOK, &result), TOW_OK);
	assert_true(twi_replay_clean(&result));
	assert_int_equal(result.allocated_bytes, MIB + MIB / 4);
	assert_int_equal(result.free_bytes, MIB - MIB / 4);
	pool.reserve_bytes = 3 * MIB;
	assert_int_equal(twi_replay_run(replay, &pool, TWI_REPLAY_WHOLE, &result), TOW_OK);
	assert_false(result.reserve_fits);
	assert_false(twi_replay_clean(&result));
	twi_replay_destroy(replay);
}

static void finds(void **state)
{
	static const struct twi_alloc_event events[] = { ALLOC(1, 3 * MIB), ALLOC(2, 3 * MIB),
							 FREE(1) };
	struct twi_replay_search search = { .ops = &twi_arena_pagerun, .reserve_bytes = MIB };
	struct twi_replay_found found;
	struct twi_replay *replay;

	(void)state;
	assert_int_equal(twi_replay_create(events, COUNT(events), &replay), TOW_OK);
	assert_int_equal(twi_replay_find(replay, &search, &found), TOW_OK);
	assert_int_equal(found.bytes, 7 * MIB);
	assert_int_equal(found.step_bytes, twi_replay_step(7 * MIB));
	assert_int_equal(found.above_missed, 0);
	search.step_bytes = 2 * MIB;
	assert_int_equal(twi_replay_find(replay, &search, &found), TOW_OK);
	/* 90 % of 8 MiB fits, so that is not the answer, though it is the one on the grid. */
	assert_int_equal(found.bytes, 7 * MIB);
	search.least_bytes = 11 * MIB;
	assert_int_equal(twi_replay_find(replay, &search, &found), TOW_OK);
	assert_int_equal(found.bytes, 11 * MIB);
	/* On pages of 2 MiB a pool of 7 is one of 8, and so is one of 6 and a bit. */
	search.least_bytes = 0;
	search.page_bytes = 2 * MIB;
	assert_int_equal(twi_replay_find(replay, &search, &found), TOW_OK);
	assert_true(found.bytes > 6 * MIB && found.bytes <= 8 * MIB);
	twi_replay_destroy(replay);
}

/* Bursts of two threads that have just not met in the log, and do in other runs. */
static void others(void **state)
{
	enum { BURSTS = 20 };
	struct twi_alloc_event events[4 * BURSTS];
	struct twi_replay_search search = { .ops = &twi_arena_pagerun,
					    .least_bytes = 3 * MIB,
					    .step_bytes = MIB };
	struct twi_replay_others how = { .count = 32, .permille = 50, .most_bytes = 20 * MIB };
	struct twi_replay *replay;
	uint64_t bytes;
	bool fits;

	(void)state;
	for (uint64_t i = 0; i < 2 * BURSTS; i++) {
		struct twi_alloc_event *event = &events[2 * i];

		event[0] = (struct twi_alloc_event)ALLOC(i + 1, 3 * MIB);
		event[1] = (struct twi_alloc_event)FREE(i + 1);
		event[0].ns = i * 1000000;
		event[1].ns = i * 1000000 + 900000;
		event[0].thread = event[1].thread = i % 2;
	}
	assert_int_equal(twi_replay_create(events, COUNT(events), &replay), TOW_OK);
	assert_int_equal(twi_replay_find_others(replay, &search, &how, &bytes, &fits), TOW_OK);
	assert_true(fits);
	assert_int_equal(bytes, 6 * MIB);
	how.most_bytes = 5 * MIB;
	assert_int_equal(twi_replay_find_others(replay, &search, &how, &bytes, &fits), TOW_OK);
	assert_false(fits);
	assert_true(bytes <= 5 * MIB);
	/* As it was recorded, and nothing else. */
	how.count = 0;
	assert_int_equal(twi_replay_find_others(replay, &search, &how, &bytes, &fits), TOW_OK);
	assert_true(fits);
	assert_int_equal(bytes, 3 * MIB);
	twi_replay_destroy(replay);
}

static void steps(void **state)
{
	(void)state;
	assert_int_equal(twi_replay_step(1000 * MIB), 2 * MIB);
	assert_int_equal(twi_replay_step(64 * MIB), 2 * MIB);
	assert_int_equal(twi_replay_step(32 * MIB), MIB);
	assert_int_equal(twi_replay_step(0), 64 << 10);
}

/* What is packed comes out as it was put in: sizes, alignments, and times hours apart. */
static void keeps_events(void **state)
{
	static const uint64_t bytes[] = { 0, 1, 4097, (uint64_t)1 << 40 };
	struct twi_replay_builder *builder;
	struct twi_replay *replay;

	(void)state;
	assert_int_equal(twi_replay_begin(&builder), TOW_OK);
	for (uint64_t i = 0; i < 5000; i++) {
		struct twi_alloc_event event = { .ns = i << 33,
						 .id = i,
						 .bytes = bytes[i % 4],
						 .caller = i % 7 + 1,
						 .thread = (uint32_t)(i % 3) << 20,
						 .kind = TWI_ALLOC_ALLOC,
						 .align_log2 = (uint8_t)(i % 22) };

		assert_int_equal(twi_replay_add(builder, &event), TOW_OK);
		event.kind = TWI_ALLOC_FREE;
		assert_int_equal(twi_replay_add(builder, &event), TOW_OK);
	}
	assert_int_equal(twi_replay_end(builder, &replay), TOW_OK);
	assert_int_equal(replay->slots, 1);
	assert_int_equal(replay->threads, 3);
	for (uint64_t i = 0; i < 10000; i++) {
		struct twi_replay_op op = twi_replay_at(replay, i);
		uint64_t k = i / 2;

		assert_int_equal(op.kind, i % 2 ? TWI_ALLOC_FREE : TWI_ALLOC_ALLOC);
		assert_int_equal(op.bytes, bytes[k % 4]);
		assert_int_equal(op.thread, k % 3 << 20);
		assert_true(op.ns >> 33 == k || (op.ns >> 33) + 1 == k);
		if (i % 2 == 0) {
			assert_int_equal(op.caller, k % 7 + 1);
			assert_int_equal(op.align_log2, k % 22 > 6 ? k % 22 : 6);
		}
	}
	twi_replay_destroy(replay);
}

/* A second free is told from a free of what never was, until there are too many to remember. */
static void tells_frees(void **state)
{
	struct twi_replay_builder *builder;
	struct twi_replay *replay;

	(void)state;
	assert_int_equal(twi_replay_begin(&builder), TOW_OK);
	for (uint64_t i = 0; i < 900000; i++) {
		struct twi_alloc_event event = { .id = i, .bytes = 64, .kind = TWI_ALLOC_ALLOC };

		assert_int_equal(twi_replay_add(builder, &event), TOW_OK);
		event.kind = TWI_ALLOC_FREE;
		assert_int_equal(twi_replay_add(builder, &event), TOW_OK);
		if (i == 7 || i == 899999)
			assert_int_equal(twi_replay_add(builder, &event), TOW_OK);
		event.id = UINT64_MAX - i;
		if (i == 9)
			assert_int_equal(twi_replay_add(builder, &event), TOW_OK);
	}
	assert_int_equal(twi_replay_end(builder, &replay), TOW_OK);
	assert_int_equal(replay->unmatched_frees, 3);
	assert_int_equal(replay->double_frees, 2);
	assert_int_equal(replay->never_freed, 0);
	twi_replay_destroy(replay);
}

/* More threads and groups than there are numbers for: the rest are one group, none is lost. */
static void bounds_groups(void **state)
{
	struct twi_replay_group group[3] = { { 0 } };
	struct twi_replay_builder *builder;
	struct twi_replay *replay;
	uint32_t count;

	(void)state;
	assert_int_equal(twi_replay_begin(&builder), TOW_OK);
	for (uint32_t i = 0; i < 140000; i++) {
		struct twi_alloc_event event = {
			.id = i, .bytes = 100, .thread = i, .tag = i + 1, .kind = TWI_ALLOC_ALLOC
		};

		assert_int_equal(twi_replay_add(builder, &event), TOW_OK);
	}
	assert_int_equal(twi_replay_end(builder, &replay), TOW_OK);
	assert_int_equal(replay->peak_bytes, 14000000);
	assert_true(replay->threads > 130000);
	assert_int_equal(twi_replay_groups(replay, TWI_REPLAY_BY_TAG, group, 3, &count), TOW_OK);
	assert_int_equal(count, 3);
	assert_int_equal(group[0].caller, TWI_REPLAY_REST);
	assert_int_equal(group[0].tag, 0);
	assert_int_equal(group[0].bytes + group[1].bytes + group[2].bytes, 14000000);
	twi_replay_destroy(replay);
}

/* 64 bytes more are live after each step; of that a fiftieth part was there before the half. */
static void finds_leaks(void **state)
{
	struct twi_replay_builder *builder;
	struct twi_replay *replay;

	(void)state;
	assert_int_equal(twi_replay_begin(&builder), TOW_OK);
	for (uint32_t i = 0; i < 100; i++) {
		struct twi_alloc_event event = { .id = i, .kind = TWI_ALLOC_STEP };

		assert_int_equal(twi_replay_add(builder, &event), TOW_OK);
		event = (struct twi_alloc_event){ .id = i, .bytes = 64, .kind = TWI_ALLOC_ALLOC };
		event.thread = i % 2;
		assert_int_equal(twi_replay_add(builder, &event), TOW_OK);
	}
	assert_int_equal(twi_replay_end(builder, &replay), TOW_OK);
	assert_int_equal(replay->step_growth_bytes, 64);
	assert_int_equal(replay->never_freed_bytes, 6400);
	assert_int_equal(replay->late_bytes, 3200);
	assert_int_equal(replay->apart_rounded, 6400);
	twi_replay_destroy(replay);
}

/* Many pools at once are as one after the other, whether the log is worth threads or not. */
static void runs_each(void **state)
{
	(void)state;
	for (uint64_t events = 1000; events <= 40000; events *= 40) {
		struct twi_replay_pool pool[8];
		struct twi_replay_result each[8], one;
		struct twi_replay_builder *builder;
		struct twi_replay *replay;

		assert_int_equal(twi_replay_begin(&builder), TOW_OK);
		for (uint64_t i = 0; i < events; i++) {
			struct twi_alloc_event event = { .id = i,
							 .bytes = i % 97 * 1000,
							 .kind = TWI_ALLOC_ALLOC };

			assert_int_equal(twi_replay_add(builder, &event), TOW_OK);
			event.kind = TWI_ALLOC_FREE;
			event.id = i - 40;
			if (i >= 40)
				assert_int_equal(twi_replay_add(builder, &event), TOW_OK);
		}
		assert_int_equal(twi_replay_end(builder, &replay), TOW_OK);
		for (uint64_t i = 0; i < 8; i++)
			pool[i] = (struct twi_replay_pool){ &twi_arena_pagerun, (i + 1) * MIB / 2,
							    0, 0 };
		assert_int_equal(twi_replay_run_each(replay, pool, 8, TWI_REPLAY_WHOLE, each),
				 TOW_OK);
		for (uint64_t i = 0; i < 8; i++) {
			assert_int_equal(twi_replay_run(replay, &pool[i], TWI_REPLAY_WHOLE, &one),
					 TOW_OK);
			assert_int_equal(each[i].missed, one.missed);
			assert_int_equal(each[i].missed_bytes, one.missed_bytes);
			assert_int_equal(twi_replay_run(replay, &pool[i], TWI_REPLAY_FITS, &one),
					 TOW_OK);
			assert_int_equal(one.missed, each[i].missed > 0);
		}
		assert_true(each[0].missed > 0 && each[7].missed == 0);
		twi_replay_destroy(replay);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts),      cmocka_unit_test(refuses),
		cmocka_unit_test(runs),        cmocka_unit_test(finds),
		cmocka_unit_test(steps),       cmocka_unit_test(keeps_events),
		cmocka_unit_test(tells_frees), cmocka_unit_test(bounds_groups),
		cmocka_unit_test(finds_leaks), cmocka_unit_test(runs_each),
		cmocka_unit_test(others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
