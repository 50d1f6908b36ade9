/*
 * test_verdict_held.c - the judge on states made by hand of ranks whose process is held from
 * outside: it is named, and neither a link of its nor anybody who waits for it.
 */
#include "verdict_states.h"

#include "diag/judge/verdict_parts.h"

static struct twt_vs_job job;

/* Of each of the last `seconds` it was held for so long, so often; the next has just begun. */
static void held(struct twi_rank_state *state, uint32_t seconds, uint16_t times, uint16_t ms)
{
	memset(state->held, 0, sizeof(state->held));
	state->held_count = seconds > 0 ? seconds + 1 : 0;
	for (uint32_t i = 1; i <= seconds; i++)
		state->held[i] = (struct twi_state_held){ times, ms };
}

static void test_named(void **state)
{
	(void)state;
	twt_vs_healthy(&job, 4);
	held(&job.last[2], 5, 2, 200);
	twt_vs_expect(&job, TWI_CAUSE_HELD, 2);
	/* For little of the time, or of unknown length: nobody. */
	twt_vs_healthy(&job, 4);
	held(&job.last[2], 5, 1, 50);
	twt_vs_judge(&job);
	assert_int_equal(job.verdict.finding_count, 0);
	held(&job.last[2], 1, 1, 0);
	twt_vs_judge(&job);
	assert_int_equal(job.verdict.finding_count, 0);
}

static void test_late(void **state)
{
	(void)state;
	/* It loses 50 of each 70 ms, and is held for as much of that time, and before, or not. */
	twt_vs_healthy(&job, 4);
	twt_vs_delay(&job, 2, 16, 50);
	twt_vs_expect(&job, TWI_CAUSE_LATE, 2);
	held(&job.last[2], 2, 10, 700);
	twt_vs_expect(&job, TWI_CAUSE_HELD, 2);
	/* Another is: it is named as well, and this one is late. */
	held(&job.last[2], 0, 0, 0);
	held(&job.last[1], 5, 2, 200);
	twt_vs_judge(&job);
	assert_int_equal(job.verdict.finding_count, 2);
}

/* Messages from 0 to 1 are on their way for 40 ms each; on the other links for 0.1 ms. */
static void slow_messages(void)
{
	twt_vs_healthy(&job, 4);
	for (uint32_t i = 0; i < 4; i++) {
		struct twi_rank_state *last = &job.last[i], *first = &job.first[i];

		last->lately = (struct twi_state_waited){ .window_ns = 2000000000ull,
							  .waits = 100,
							  .ns[TWI_WAITED_SEND] = 1200000000ull };
		for (uint32_t to = 0; to < 4; to++) {
			struct twi_state_link *link;

			if (to == i)
				continue;
			link = twt_vs_link(last, to);
			link->flags |= TWI_LINK_UP | TWI_LINK_TCP;
			link->carried_out =
				(struct twi_state_carried){ 2000, 40, 4000000, 40 * 100000ull };
			if (i == 0 && to == 1)
				link->carried_out.wire_ns = 40 * 40000000ull;
			*twt_vs_link(first, to) = *link;
			link->busy_us += i == 0 && to == 1 ? 300000 : 1000;
		}
	}
}

static void test_links(void **state)
{
	(void)state;
	slow_messages();
	twt_vs_expect_link(&job, TWI_CAUSE_SLOW_LINK, 0, 1);
	/* One of its ends was held: for much, for some, or for nobody knows how long. */
	slow_messages();
	held(&job.last[1], 5, 2, 300);
	twt_vs_expect(&job, TWI_CAUSE_HELD, 1);
	for (uint32_t end = 0; end < 2; end++) {
		slow_messages();
		held(&job.last[end], 3, 1, 60);
		twt_vs_judge(&job);
		assert_int_equal(job.verdict.finding_count, 0);
		assert_true(job.verdict.waits.slow);
		held(&job.last[end], 4, 0, 0);
		job.last[end].held[3].times = 1;
		twt_vs_judge(&job);
		assert_int_equal(job.verdict.finding_count, 0);
		/* Long ago: that is another thing. */
		job.last[end].held[3].times = 0;
		job.last[end].held_count = 9;
		job.last[end].held[8] = (struct twi_state_held){ 1, 900 };
		twt_vs_expect_link(&job, TWI_CAUSE_SLOW_LINK, 0, 1);
	}
	/* A third one was. */
	slow_messages();
	held(&job.last[3], 1, 1, 30);
	twt_vs_expect_link(&job, TWI_CAUSE_SLOW_LINK, 0, 1);
}

static void test_hostile(void **state)
{
	struct twi_held got;

	(void)state;
	twt_vs_healthy(&job, 4);
	held(&job.last[2], TWI_STATE_HELD - 1, UINT16_MAX, UINT16_MAX);
	got = twi_judge_held(&job.ranks[2], 0, UINT64_MAX);
	assert_int_equal(got.times, (TWI_STATE_HELD - 1) * UINT16_MAX);
	assert_true(got.ns <= got.window_ns);
	job.last[2].now_ns = 0;
	got = twi_judge_held(&job.ranks[2], 0, UINT64_MAX);
	assert_int_equal(got.ns, 0);
	job.last[2].now_ns = UINT64_MAX;
	got = twi_judge_held(&job.ranks[2], 0, UINT64_MAX);
	assert_true(got.ns <= got.window_ns);
	twt_vs_judge(&job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_named),
		cmocka_unit_test(test_late),
		cmocka_unit_test(test_links),
		cmocka_unit_test(test_hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
