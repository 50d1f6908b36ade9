/*
 * test_replay.c - random logs: the search against trying every size, the replay against a plain
 * loop over the same arena, a slim program against the one that it was made of, and other orders of
 * threads against what may not change.
 */
#include "twt.h"

#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "memreg/arena/arena.h"
#include "memreg/region/lease.h"
#include "memreg/sizing/replay_slim.h"
#include <towline/status.h>

#define EVENTS  400
#define LIVE    24
#define THREADS 3
#define PAGE    4096u
#define STEP    ((uint64_t)64 << 10)
#define ROUNDS  60

struct log {
	struct twi_alloc_event event[EVENTS];
	uint64_t count;
};

static void random_log(uint64_t *random, struct log *log)
{
	uint64_t live[LIVE], lives = 0, id = 0;

	log->count = 0;
	while (log->count < EVENTS) {
		struct twi_alloc_event *event = &log->event[log->count];

		*event = (struct twi_alloc_event){
			.ns = log->count * 1000 + twt_random_below(random, 1000),
			.thread = (uint32_t)twt_random_below(random, THREADS),
		};
		log->count++;
		if (lives == LIVE || (lives > 0 && twt_random_below(random, 5) < 2)) {
			uint64_t which = twt_random_below(random, lives);

			event->kind = TWI_ALLOC_FREE;
			event->id = live[which];
			live[which] = live[--lives];
			continue;
		}
		event->kind = TWI_ALLOC_ALLOC;
		event->id = live[lives++] = ++id * 77;
		event->bytes = twt_random(random) >> (44 + twt_random_below(random, 16));
		event->align_log2 = (uint8_t)(twt_random_below(random, 4) ? 0 : 6 + id % 12);
	}
}

static bool clean_at(const struct twi_replay *replay, uint64_t bytes, uint64_t reserve)
{
	struct twi_replay_pool pool = { &twi_arena_pagerun, bytes, reserve, 0 };
	struct twi_replay_result result;

	assert_int_equal(twi_replay_run(replay, &pool, TWI_REPLAY_WHOLE, &result), TOW_OK);
	return twi_replay_clean(&result);
}

static void search_against_all(void **state)
{
	uint64_t random = twt_seed(), monotone = 0;

	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t reserve = twt_random_below(&random, 3) * 300000, smallest;
		struct twi_replay_search search = { .ops = &twi_arena_pagerun,
						    .reserve_bytes = reserve,
						    .step_bytes = STEP };
		struct twi_replay_found found;
		struct twi_replay *replay;
		bool gap = false;
		struct log log;

		random_log(&random, &log);
		assert_int_equal(twi_replay_create(log.event, log.count, &replay), TOW_OK);
		assert_int_equal(twi_replay_find(replay, &search, &found), TOW_OK);
		/* What it says of its answer is so. */
		assert_true(clean_at(replay, found.bytes, reserve));
		for (uint64_t k = 1; k <= 4; k++)
			if (found.bytes >= found.lower_bytes + k * STEP)
				assert_false(clean_at(replay, found.bytes - k * STEP, reserve));
		/* 90 % as who checks it computes it: to the byte, not to the step. */
		assert_false(found.bytes / 10 * 9 >= TWI_REPLAY_POOL_MIN &&
			     clean_at(replay, found.bytes / 10 * 9, reserve));
		/* Every size that a pool can have, by pages: none below the bound fits, and unless
		 * larger ones fail again the answer is within a step of the smallest that does. */
		smallest = TWI_REPLAY_POOL_MIN;
		while (!clean_at(replay, smallest, reserve))
			smallest += PAGE;
		assert_true(smallest >= found.lower_bytes);
		assert_true(smallest <= found.bytes);
		for (uint64_t at = smallest; !gap && at < found.bytes; at += PAGE)
			gap = !clean_at(replay, at, reserve);
		assert_true(gap || found.bytes - smallest < STEP);
		monotone += !gap;
		twi_replay_destroy(replay);
	}
	/* Some logs must be so, or the bound above would never have been put to the test. */
	assert_true(monotone > 0);
}

/* The same log, played by the plainest loop there is. */
static uint64_t plain_misses(const struct log *log, uint64_t bytes)
{
	size_t room = bytes + TWI_ALIGN_MAX;
	char *at = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	void *block[EVENTS * 77 + 78] = { NULL }, *ctx;
	uint64_t missed = 0;

	assert_true(at != MAP_FAILED);
	assert_int_equal(
		twi_arena_pagerun.create(at + (TWI_ALIGN_MAX - (uintptr_t)at % TWI_ALIGN_MAX) %
							 TWI_ALIGN_MAX,
					 bytes, &ctx),
		TOW_OK);
	for (uint64_t i = 0; i < log->count; i++) {
		const struct twi_alloc_event *event = &log->event[i];
		size_t align = event->align_log2 > 6 ? (size_t)1 << event->align_log2 : 64;
		void **p = &block[event->id];

		if (event->kind == TWI_ALLOC_ALLOC) {
			missed += twi_arena_pagerun.alloc(ctx, event->bytes, align, p) != TOW_OK;
		} else if (*p != NULL) {
			struct twi_block found;

			assert_int_equal(twi_arena_pagerun.find(ctx, *p, &found), TOW_OK);
			assert_int_equal(twi_hold_free(found.hold), TWI_HOLD_ENDED);
			twi_arena_pagerun.give(ctx, *p);
		}
	}
	twi_arena_pagerun.destroy(ctx);
	munmap(at, room);
	return missed;
}

static void replay_against_plain(void **state)
{
	uint64_t random = twt_seed();

	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		struct twi_replay_pool pool = { .ops = &twi_arena_pagerun };
		struct twi_replay_result result;
		struct twi_replay *replay;
		struct log log;

		random_log(&random, &log);
		assert_int_equal(twi_replay_create(log.event, log.count, &replay), TOW_OK);
		for (int i = 1; i <= 8; i++) {
			pool.bytes = (uint64_t)i << 18;
			assert_int_equal(twi_replay_run(replay, &pool, TWI_REPLAY_WHOLE, &result),
					 TOW_OK);
			assert_int_equal(result.missed, plain_misses(&log, pool.bytes));
		}
		twi_replay_destroy(replay);
	}
}

/* Some steps in between, and blocks of all sizes: their numbers are of different lengths. */
static void add_extremes(uint64_t *random, struct log *log)
{
	static const uint64_t bytes[] = { 0, 31, 32, (UINT64_C(1) << 40), (UINT64_C(1) << 40) - 1 };

	for (uint64_t i = 0; i < log->count; i++) {
		struct twi_alloc_event *event = &log->event[i];

		if (event->kind == TWI_ALLOC_ALLOC && twt_random_below(random, 12) == 0)
			event->bytes = bytes[twt_random_below(random, 5)];
		else if (event->kind == TWI_ALLOC_FREE && twt_random_below(random, 12) == 0)
			*event =
				(struct twi_alloc_event){ .ns = event->ns, .kind = TWI_ALLOC_STEP };
	}
}

static void check_cursor(const struct twi_replay *slim, const struct twi_replay *was)
{
	struct twi_replay_cursor cursor, plain;
	struct twi_replay_event event, same;

	assert_int_equal(twi_replay_cursor_init(&cursor, slim), TOW_OK);
	assert_int_equal(twi_replay_cursor_init(&plain, was), TOW_OK);
	for (uint64_t i = 0; i < was->count; i++) {
		struct twi_replay_op op = twi_replay_at(was, i);

		assert_true(twi_replay_next(&plain, &same));
		assert_int_equal(same.kind, op.kind);
		if (op.kind == TWI_ALLOC_STEP)
			continue;
		assert_true(twi_replay_next(&cursor, &event));
		assert_int_equal(event.kind, op.kind);
		assert_int_equal(event.slot, op.slot);
		assert_int_equal(same.slot, op.slot);
		if (op.kind == TWI_ALLOC_FREE)
			continue;
		assert_int_equal(event.bytes, op.bytes);
		assert_int_equal(same.bytes, op.bytes);
		assert_int_equal(event.align_log2, op.align_log2);
		assert_int_equal(same.align_log2, op.align_log2);
	}
	assert_false(twi_replay_next(&cursor, &event) || twi_replay_next(&plain, &same));
	twi_replay_cursor_fini(&cursor);
	twi_replay_cursor_fini(&plain);
}

static void slim_against_whole(void **state)
{
	static const enum twi_replay_how how[] = { TWI_REPLAY_WHOLE, TWI_REPLAY_LOOK,
						   TWI_REPLAY_FITS };
	uint64_t random = twt_seed(), missed = 0, looked = 0;

	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		struct twi_replay_pool pool = { .ops = &twi_arena_pagerun };
		struct twi_replay *replay, *slim;
		struct log log;

		random_log(&random, &log);
		if (round % 2)
			add_extremes(&random, &log);
		assert_int_equal(twi_replay_create(log.event, log.count, &replay), TOW_OK);
		assert_int_equal(twi_replay_create(log.event, log.count, &slim), TOW_OK);
		assert_int_equal(twi_replay_slim(slim), TOW_OK);
		assert_null(slim->op);
		check_cursor(slim, replay);
		for (int i = 0; i < 24; i++) {
			struct twi_replay_result was, is;

			pool.bytes = (uint64_t)(i / 3 + 1) << 18;
			assert_int_equal(twi_replay_run(replay, &pool, how[i % 3], &was), TOW_OK);
			assert_int_equal(twi_replay_run(slim, &pool, how[i % 3], &is), TOW_OK);
			assert_memory_equal(&was, &is, sizeof(was));
			missed += is.missed;
			looked += is.allocated_bytes;
		}
		twi_replay_destroy(replay);
		twi_replay_destroy(slim);
	}
	assert_true(missed > 0 && looked > 0);
}

static uint64_t next_alloc(const struct twi_replay *replay, uint64_t from, uint32_t thread)
{
	for (; from < replay->count; from++) {
		struct twi_replay_op op = twi_replay_at(replay, from);

		if (op.thread == thread && op.kind == TWI_ALLOC_ALLOC)
			break;
	}
	return from;
}

/* No slot has two blocks at a time, and no block is freed that is not there. */
static void check_slots(const struct twi_replay *replay)
{
	uint64_t bytes[EVENTS] = { 0 }, live = 0, most = 0;

	for (uint64_t i = 0; i < replay->count; i++) {
		struct twi_replay_op op = twi_replay_at(replay, i);

		assert_true(op.slot < replay->slots && replay->slots <= EVENTS);
		if (op.kind == TWI_ALLOC_ALLOC) {
			assert_int_equal(bytes[op.slot], 0);
			bytes[op.slot] = op.bytes + 1;
			live += op.bytes;
			most = live > most ? live : most;
			continue;
		}
		assert_int_equal(bytes[op.slot], op.bytes + 1);
		bytes[op.slot] = 0;
		live -= op.bytes;
	}
	assert_true(most >= replay->peak_bytes);
}

/* Each thread does what it did, in its order, but for frees that wait for their allocation. */
static void check_varied(const struct twi_replay *was, const struct twi_replay *is)
{
	assert_int_equal(is->count, was->count);
	assert_int_equal(is->allocs, was->allocs);
	assert_int_equal(is->unmatched_frees, 0);
	assert_int_equal(is->never_freed, was->never_freed);
	assert_int_equal(is->all_rounded, was->all_rounded);
	check_slots(was);
	check_slots(is);
	for (uint32_t thread = 0; thread < THREADS; thread++) {
		uint64_t i = 0, k = 0;

		for (;; i++, k++) {
			i = next_alloc(was, i, thread);
			k = next_alloc(is, k, thread);
			assert_int_equal(i < was->count, k < is->count);
			if (i == was->count)
				break;
			assert_int_equal(twi_replay_at(was, i).bytes, twi_replay_at(is, k).bytes);
		}
	}
}

/* Each event is there once, with what it had; a thread's allocations are in their order. */
static void check_sorted(const struct twi_replay *was, const struct twi_replay *is)
{
	uint64_t last_ns[EVENTS] = { 0 };

	for (uint64_t i = 0; i < is->count; i++) {
		struct twi_replay_op op = twi_replay_at(is, i), before;

		/* Frees may have waited; all else of a thread stays in the order of its times. */
		if (op.kind != TWI_ALLOC_ALLOC)
			continue;
		assert_true(op.ns >= last_ns[op.thread]);
		last_ns[op.thread] = op.ns;
		before = twi_replay_at(was, is->order[i]);
		assert_int_equal(before.ns, op.ns);
		assert_int_equal(before.bytes, op.bytes);
	}
}

static void orders(void **state)
{
	uint64_t random = twt_seed(), moved = 0;

	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		struct twi_replay *replay, *varied, *again;
		struct log log;

		random_log(&random, &log);
		assert_int_equal(twi_replay_create(log.event, log.count, &replay), TOW_OK);
		assert_int_equal(twi_replay_vary(replay, (uint64_t)round, 50, &varied), TOW_OK);
		assert_int_equal(twi_replay_vary(replay, (uint64_t)round, 50, &again), TOW_OK);
		check_varied(replay, varied);
		assert_memory_equal(varied->order, again->order,
				    varied->count * sizeof(varied->order[0]));
		check_sorted(replay, varied);
		moved += varied->peak_bytes != replay->peak_bytes;
		twi_replay_destroy(varied);
		twi_replay_destroy(again);
		twi_replay_destroy(replay);
	}
	/* Other orders that never change anything would be no other orders. */
	assert_true(moved > 0);
}

/*
 * Stays on one CPU. The arena caches freed runs by CPU, so a thread that moves between two plays of
 * a log meets other free runs in the second, and may miss once more or once less.
 */
static int stay_here(void **state)
{
	int cpu = sched_getcpu();
	cpu_set_t one;

	(void)state;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	return cpu < 0 || sched_setaffinity(0, sizeof(one), &one) != 0;
}

/*
 * The size for other runs holds each of them on any CPUs, and a step less does not. Some logs need
 * more on other CPUs.
 */
static void others_all_fit(void **state)
{
	uint64_t random = twt_seed(), more = 0;

	(void)state;
	for (int round = 0; round < ROUNDS / 6; round++) {
		struct twi_replay_search search = { .ops = &twi_arena_pagerun,
						    .least_bytes = 16 * STEP,
						    .step_bytes = STEP };
		struct twi_replay_others how = { .count = 16, .most_bytes = UINT64_C(1) << 32 };
		struct twi_replay_result result;
		struct twi_replay_others none = { .most_bytes = UINT64_C(1) << 32 };
		uint64_t bytes, alone, missed = 0;
		struct twi_replay *replay;
		struct log log;
		bool fits;

		random_log(&random, &log);
		assert_int_equal(twi_replay_create(log.event, log.count, &replay), TOW_OK);
		assert_int_equal(twi_replay_find_others(replay, &search, &how, &bytes, &fits),
				 TOW_OK);
		assert_true(fits);
		for (uint64_t moves = 0; moves <= how.count; moves++) {
			struct twi_replay_pool pool = { &twi_arena_pagerun, bytes, 0, moves };

			assert_int_equal(twi_replay_run(replay, &pool, false, &result), TOW_OK);
			assert_true(twi_replay_clean(&result));
			pool.bytes -= STEP;
			assert_int_equal(twi_replay_run(replay, &pool, false, &result), TOW_OK);
			missed += result.missed;
		}
		assert_true(missed > 0 || bytes == search.least_bytes);
		assert_int_equal(twi_replay_find_others(replay, &search, &none, &alone, &fits),
				 TOW_OK);
		assert_true(fits && alone <= bytes);
		more += alone < bytes;
		twi_replay_destroy(replay);
	}
	assert_true(more > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(search_against_all), cmocka_unit_test(replay_against_plain),
		cmocka_unit_test(slim_against_whole), cmocka_unit_test(orders),
		cmocka_unit_test(others_all_fit),
	};

	return cmocka_run_group_tests(tests, stay_here, NULL);
}
