/* test_replay_groups.c - who has what: at the peak, of what stays and grows, and over time. */
#include "twt.h"

#include "memreg/sizing/replay_groups.h"
#include <towline/status.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MADE(number, size, name, place)                                                            \
	{                                                                                          \
		.kind = TWI_ALLOC_ALLOC, .id = (number), .bytes = (size), .tag = (name),           \
		.caller = (place)                                                                  \
	}
#define GONE(number)                                                                               \
	{                                                                                          \
		.kind = TWI_ALLOC_FREE, .id = (number), .tag = 9, .caller = 99                     \
	}
#define STEP                                                                                       \
	{                                                                                          \
		.kind = TWI_ALLOC_STEP                                                             \
	}

/* A tag that equals an address is another thing: programs that are not relocated have such. */
static void tells_tags_from_places(void **state)
{
	static const struct twi_alloc_event events[] = {
		MADE(1, 4000, 1, 0x10), MADE(2, 300, 1, 0x20),   MADE(3, 20, 2, 0x10),
		MADE(4, 1, 0, 0x10),    MADE(5, 10000, 3, 0x30), GONE(5),
		MADE(6, 50, 0, 2),      MADE(7, 9000, 0, 0),
	};
	struct twi_replay_group group[8];
	struct twi_replay *replay;
	uint32_t count;

	(void)state;
	assert_int_equal(twi_replay_create(events, COUNT(events), &replay), TOW_OK);
	replay->peak_op = COUNT(events) - 1; /* that nothing is live of the block of 10000 */
	assert_int_equal(twi_replay_groups(replay, TWI_REPLAY_BY_TAG, group, 8, &count), TOW_OK);
	assert_int_equal(count, 5);
	assert_true(group[0].tag == 0 && group[0].caller == 0 && group[0].bytes == 9000);
	assert_true(group[1].tag == 1 && group[1].caller == 0 && group[1].bytes == 4300);
	assert_int_equal(group[1].allocations, 2);
	assert_true(group[2].tag == 0 && group[2].caller == 2 && group[2].bytes == 50);
	assert_true(group[3].tag == 2 && group[3].bytes == 20);
	assert_true(group[4].tag == 0 && group[4].caller == 0x10 && group[4].bytes == 1);
	assert_int_equal(twi_replay_groups(replay, TWI_REPLAY_BY_CALLER, group, 8, &count), TOW_OK);
	assert_int_equal(count, 4);
	assert_true(group[1].caller == 0x10 && group[1].tag == 0 && group[1].bytes == 4021);
	assert_int_equal(group[1].allocations, 3);
	assert_true(group[2].caller == 0x20 && group[2].bytes == 300);
	assert_int_equal(twi_replay_groups(replay, TWI_REPLAY_BY_BOTH, group, 3, &count), TOW_OK);
	assert_int_equal(count, 3);
	assert_true(group[1].tag == 1 && group[1].caller == 0x10 && group[1].bytes == 4000);
	assert_true(group[2].caller == TWI_REPLAY_REST && group[2].bytes == 371);
	assert_int_equal(group[2].allocations, 4);
	twi_replay_destroy(replay);
}

/* A little that grows each step is the leak, not the much that the last step has under way. */
static void finds_what_grows(void **state)
{
	static const struct twi_alloc_event events[] = {
		MADE(1, 70000, 1, 0x10),
		STEP,
		MADE(2, 100, 2, 0x20),
		MADE(3, 5000, 3, 0x30),
		GONE(3),
		STEP,
		MADE(4, 100, 2, 0x20),
		MADE(5, 5000, 3, 0x30),
		GONE(5),
		STEP,
		MADE(6, 100, 2, 0x20),
		MADE(7, 5000, 3, 0x30),
		GONE(7),
		STEP,
		MADE(8, 5000, 3, 0x30),
	};
	struct twi_replay_leaks leaks;
	struct twi_replay *replay;

	(void)state;
	assert_int_equal(twi_replay_create(events, COUNT(events), &replay), TOW_OK);
	assert_int_equal(replay->step_growth_bytes, 100);
	assert_int_equal(twi_replay_leaks(replay, &leaks), TOW_OK);
	assert_true(leaks.grown.tag == 2 && leaks.grown.caller == 0x20);
	assert_int_equal(leaks.grown.bytes, 200);
	assert_int_equal(leaks.grown.allocations, 2);
	assert_true(leaks.left.tag == 3 && leaks.left.caller == 0x30);
	assert_int_equal(leaks.left.bytes, 5000);
	assert_int_equal(leaks.left.allocations, 1);
	twi_replay_destroy(replay);
}

/* Where nothing of the second half stays, it is the most of what stays; of nothing, nothing. */
static void finds_what_stays(void **state)
{
	static const struct twi_alloc_event events[] = {
		MADE(1, 700, 1, 0x10),
		MADE(2, 900, 2, 0x20),
		GONE(2),
		MADE(3, 900, 2, 0x20),
		GONE(3),
	};
	struct twi_replay_leaks leaks;
	struct twi_replay *replay;

	(void)state;
	assert_int_equal(twi_replay_create(events, COUNT(events), &replay), TOW_OK);
	assert_int_equal(twi_replay_leaks(replay, &leaks), TOW_OK);
	assert_true(leaks.left.tag == 1 && leaks.left.bytes == 700);
	assert_int_equal(leaks.grown.bytes, 0);
	twi_replay_destroy(replay);
	assert_int_equal(twi_replay_create(events + 1, 2, &replay), TOW_OK);
	assert_int_equal(twi_replay_leaks(replay, &leaks), TOW_OK);
	assert_int_equal(leaks.left.bytes, 0);
	twi_replay_destroy(replay);
}

/* A bin has what was live when most was, also of what came and went within it. */
static void draws_the_time(void **state)
{
	static const struct twi_alloc_event events[] = {
		{ .kind = TWI_ALLOC_ALLOC, .id = 1, .bytes = 10, .tag = 1, .ns = 1000 },
		{ .kind = TWI_ALLOC_ALLOC, .id = 2, .bytes = 500, .tag = 2, .ns = 1210 },
		{ .kind = TWI_ALLOC_FREE, .id = 2, .ns = 1220 },
		{ .kind = TWI_ALLOC_ALLOC, .id = 3, .bytes = 30, .tag = 1, .ns = 1500 },
		{ .kind = TWI_ALLOC_FREE, .id = 1, .ns = 1999 },
	};
	static const uint64_t wanted[10][2] = { { 0, 10 }, { 0, 10 }, { 500, 10 }, { 0, 10 },
						{ 0, 10 }, { 0, 40 }, { 0, 40 },   { 0, 40 },
						{ 0, 40 }, { 0, 40 } };
	struct twi_replay_timeline line;
	struct twi_replay *replay;

	(void)state;
	assert_int_equal(twi_replay_create(events, COUNT(events), &replay), TOW_OK);
	assert_int_equal(twi_replay_timeline_init(&line, replay, 10), TOW_OK);
	assert_int_equal(line.count, 2);
	assert_true(line.series[0].tag == 2 && line.series[0].bytes == 500);
	assert_true(line.series[1].tag == 1 && line.series[1].bytes == 40);
	assert_int_equal(line.begin_ns, 1000);
	assert_int_equal(line.end_ns, 1999);
	assert_int_equal(line.peak_ns, 1210);
	for (uint32_t i = 0; i < 10; i++) {
		const uint64_t *bin = twi_replay_timeline_bin(&line, i);

		assert_true(bin[0] == wanted[i][0] && bin[1] == wanted[i][1] && bin[2] == 0);
	}
	twi_replay_timeline_fini(&line);
	twi_replay_destroy(replay);
}

/* Tags past the eight largest are in the last series, and no byte is missing. */
static void draws_the_rest_together(void **state)
{
	struct twi_alloc_event events[20] = { { .ns = 0 } };
	struct twi_replay_timeline line;
	struct twi_replay *replay;
	const uint64_t *bin;

	(void)state;
	for (uint32_t i = 0; i < 20; i++)
		events[i] = (struct twi_alloc_event){
			.kind = TWI_ALLOC_ALLOC, .id = i + 1, .bytes = 100 + i, .tag = i + 1
		};
	assert_int_equal(twi_replay_create(events, 20, &replay), TOW_OK);
	assert_int_equal(twi_replay_timeline_init(&line, replay, 4), TOW_OK);
	assert_int_equal(line.count, TWI_REPLAY_SERIES);
	bin = twi_replay_timeline_bin(&line, 3);
	for (uint32_t i = 0; i < TWI_REPLAY_SERIES; i++) {
		assert_int_equal(line.series[i].tag, 20 - i);
		assert_int_equal(bin[i], 119 - i);
	}
	assert_int_equal(bin[TWI_REPLAY_SERIES], 12 * 100 + 66);
	twi_replay_timeline_fini(&line);
	twi_replay_destroy(replay);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tells_tags_from_places),  cmocka_unit_test(finds_what_grows),
		cmocka_unit_test(finds_what_stays),        cmocka_unit_test(draws_the_time),
		cmocka_unit_test(draws_the_rest_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
