/*
 * test_verdict_cpu.c - late, or denied a CPU: the judge on states made by hand, at the border
 * between the two.
 */
#include "verdict_states.h"

static struct twt_vs_job job;

/* Rank 2 loses 50 of each 70 ms: 180 of 250. It wants a CPU for so long, and has one so long. */
static void late_with(uint64_t waited_ms, uint64_t ran_ms)
{
	twt_vs_healthy(&job, 4);
	twt_vs_delay(&job, 2, 16, 50);
	for (uint32_t i = 0; i < 4; i++)
		twt_vs_cpu(&job, i, 1, 20);
	twt_vs_cpu(&job, 2, waited_ms, ran_ms);
}

static void test_half_of_the_lateness(void **state)
{
	(void)state;
	late_with(100, 40); /* it explains more than half */
	twt_vs_expect(&job, TWI_CAUSE_CPU, 2);
	late_with(110, 130); /* the same, though it ran for longer than it waited */
	twt_vs_expect(&job, TWI_CAUSE_CPU, 2);
	late_with(75, 40); /* less than half: and how much is said */
	twt_vs_expect(&job, TWI_CAUSE_LATE, 2);
	assert_non_null(strstr(job.verdict.findings[0].evidence[0], "had no CPU for 30 %"));
	late_with(10, 40);
	twt_vs_expect(&job, TWI_CAUSE_LATE, 2);
}

static void test_one_look_is_enough(void **state)
{
	(void)state;
	/* So short of a CPU that it has answered once: there are points. */
	late_with(200, 30);
	job.ranks[2].first = NULL;
	twt_vs_expect(&job, TWI_CAUSE_CPU, 2);
	late_with(10, 30);
	job.ranks[2].first = NULL;
	twt_vs_expect(&job, TWI_CAUSE_LATE, 2);
}

static void test_load_that_all_have(void **state)
{
	(void)state;
	/* All are denied as much of what they want: it wants more. */
	late_with(120, 40);
	for (uint32_t i = 0; i < 4; i++)
		if (i != 2)
			twt_vs_cpu(&job, i, 60, 20);
	twt_vs_expect(&job, TWI_CAUSE_LATE, 2);
	assert_true(job.verdict.findings[0].confidence < 0.7);
	assert_non_null(strstr(job.verdict.findings[0].evidence[0], "all of its host"));
	/* And is on a CPU no longer: that all are denied one makes it late, if not it alone. */
	late_with(120, 20);
	for (uint32_t i = 0; i < 4; i++)
		if (i != 2)
			twt_vs_cpu(&job, i, 120, 20);
	twt_vs_expect(&job, TWI_CAUSE_CPU, 2);
	assert_true(job.verdict.findings[0].confidence < 0.7);
	/* But it sleeps for longer than it wants one, which the load does not make it do. */
	late_with(100, 20);
	for (uint32_t i = 0; i < 4; i++)
		if (i != 2)
			twt_vs_cpu(&job, i, 120, 20);
	twt_vs_expect(&job, TWI_CAUSE_LATE, 2);
	assert_true(job.verdict.findings[0].confidence < 0.7);
	assert_non_null(strstr(job.verdict.findings[0].evidence[0], "slept for 52 %"));
	/* It is denied more than they are. */
	late_with(200, 10);
	for (uint32_t i = 0; i < 4; i++)
		if (i != 2)
			twt_vs_cpu(&job, i, 60, 20);
	twt_vs_expect(&job, TWI_CAUSE_CPU, 2);
	/* They are on another host. */
	late_with(120, 40);
	for (uint32_t i = 0; i < 4; i++) {
		job.last[i].boot = i == 2;
		if (i != 2)
			twt_vs_cpu(&job, i, 60, 20);
	}
	twt_vs_expect(&job, TWI_CAUSE_CPU, 2);
	/* What they want is next to nothing: that says nothing of the load. */
	late_with(120, 40);
	for (uint32_t i = 0; i < 4; i++)
		if (i != 2)
			twt_vs_cpu(&job, i, 3, 1);
	twt_vs_expect(&job, TWI_CAUSE_CPU, 2);
}

/* Rank 1 was late once, by 900 ms, some time ago. */
static void test_once_for_a_cpu(void **state)
{
	struct twi_state_cpu *points = job.last[1].cpus;

	(void)state;
	twt_vs_healthy(&job, 4);
	twt_vs_delay(&job, 1, 1, 900);
	for (uint32_t i = 0; i < 4; i++)
		twt_vs_cpu(&job, i, 1, 20);
	/* It wants a CPU now, and did not then. */
	job.last[1].run_queue_ns += 200 * VS_MS;
	twt_vs_expect(&job, TWI_CAUSE_LATE, 1);
	/* It did then, and does not now. */
	job.last[1].run_queue_ns = job.first[1].run_queue_ns = 900 * VS_MS;
	for (uint32_t i = 0; i < TWI_STATE_CPUS; i++)
		points[i].run_queue_ns = points[i].at_ns < VS_NOW - 500 * VS_MS ? 0 : 900 * VS_MS;
	twt_vs_expect(&job, TWI_CAUSE_CPU, 1);
	/* Of that time nothing is known any more. */
	job.last[1].cpu_count = 0;
	twt_vs_expect(&job, TWI_CAUSE_LATE, 1);
}

static void test_missing_for_a_cpu(void **state)
{
	(void)state;
	for (unsigned starved = 0; starved < 2; starved++) {
		twt_vs_healthy(&job, 3);
		twt_vs_miss(&job, 1, 1500);
		twt_vs_cpu(&job, 1, starved ? 150 : 100, 20);
		twt_vs_expect(&job, starved ? TWI_CAUSE_CPU : TWI_CAUSE_NEVER_ENTERED, 1);
		job.ranks[1].first = NULL;
		twt_vs_expect(&job, starved ? TWI_CAUSE_CPU : TWI_CAUSE_NEVER_ENTERED, 1);
	}
}

/* Between the looks its control group was kept off the CPUs for so long. */
static void throttle(uint32_t rank, uint64_t ms)
{
	job.first[rank].throttled_ns = 7000 * VS_MS;
	job.last[rank].throttled_ns = 7000 * VS_MS + ms * VS_MS;
}

/* It is known of ten seconds ago, and the quota was used up for 15 % of the time since. */
static void test_quota_of_long_ago(void **state)
{
	(void)state;
	for (unsigned throttled = 0; throttled < 2; throttled++) {
		const uint64_t window = 10000 * VS_MS, ago = 1500 * VS_MS;
		struct twi_rank_state *last = &job.last[2];

		late_with(100, 40);
		last->run_queue_ns += window;
		job.first[2].run_queue_ns += window;
		for (uint32_t i = 1; i < TWI_STATE_CPUS; i++)
			last->cpus[i].run_queue_ns += window;
		last->cpus[0] =
			(struct twi_state_cpu){ .at_ns = last->now_ns - window,
						.run_queue_ns = last->run_queue_ns -
								ago * (throttled ? 19 : 21) / 10 };
		last->throttled_at_ns = last->cpus[0].at_ns;
		last->throttled_ns = 2 * ago;
		last->throttled_then_ns = ago;
		twt_vs_expect(&job, throttled ? TWI_CAUSE_THROTTLED : TWI_CAUSE_CPU, 2);
	}
}

static void test_late_by_its_quota(void **state)
{
	const uint64_t half = VS_GAP / VS_MS * 4 / 10 / 2; /* of the 40 % that it wanted one */

	(void)state;
	late_with(100, 40);
	throttle(2, half + 1);
	twt_vs_expect(&job, TWI_CAUSE_THROTTLED, 2);
	assert_non_null(strstr(job.verdict.findings[0].evidence[0], "used up for 20 %"));
	throttle(2, half - 1); /* others take more from it than the quota does */
	twt_vs_expect(&job, TWI_CAUSE_CPU, 2);
	throttle(2, 40 * half); /* of many CPUs together: no more than all of the time */
	twt_vs_expect(&job, TWI_CAUSE_THROTTLED, 2);
	assert_non_null(strstr(job.verdict.findings[0].evidence[0], "used up for 100 %"));
	job.ranks[2].first = NULL; /* since when is not known */
	twt_vs_expect(&job, TWI_CAUSE_CPU, 2);
	/* The looks are one, or next to each other: what is known of before says. */
	for (unsigned throttled = 0; throttled < 2; throttled++) {
		late_with(100, 40);
		throttle(2, 0);
		job.last[2].throttled_at_ns = job.first[2].now_ns - 1000 * VS_MS;
		job.last[2].throttled_then_ns = (throttled ? 6000 : 6900) * VS_MS;
		twt_vs_expect(&job, throttled ? TWI_CAUSE_THROTTLED : TWI_CAUSE_CPU, 2);
		job.ranks[2].first = NULL;
		twt_vs_expect(&job, throttled ? TWI_CAUSE_THROTTLED : TWI_CAUSE_CPU, 2);
	}
	/* Others of its group use up the quota, and it sleeps: it is not late by that. */
	late_with(10, 40);
	throttle(2, 300);
	twt_vs_expect(&job, TWI_CAUSE_LATE, 2);
	/* Another rank's quota is no reason of its. */
	late_with(100, 40);
	throttle(1, 300);
	twt_vs_expect(&job, TWI_CAUSE_CPU, 2);
	/* All are denied a CPU alike: still it is what it lacks. */
	late_with(120, 20);
	for (uint32_t i = 0; i < 4; i++)
		if (i != 2)
			twt_vs_cpu(&job, i, 120, 20);
	throttle(2, 180);
	twt_vs_expect(&job, TWI_CAUSE_THROTTLED, 2);
	assert_true(job.verdict.findings[0].confidence < 0.7);
}

static void test_missing_by_its_quota(void **state)
{
	(void)state;
	twt_vs_healthy(&job, 3);
	twt_vs_miss(&job, 1, 1500);
	twt_vs_cpu(&job, 1, 150, 20);
	throttle(1, 200);
	twt_vs_expect(&job, TWI_CAUSE_THROTTLED, 1);
	assert_non_null(strstr(job.verdict.findings[0].evidence[0], "used up for 50 %"));
	twt_vs_cpu(&job, 1, 10, 20);
	twt_vs_expect(&job, TWI_CAUSE_NEVER_ENTERED, 1);
}

/* Rank 0 waits for a message of rank 1's. */
static void test_absent_by_its_quota(void **state)
{
	(void)state;
	for (unsigned throttled = 0; throttled < 2; throttled++) {
		twt_vs_still(&job, 2);
		twt_vs_message(&job, 0, TWI_STATE_RECV, 1, 5, 4000, true);
		twt_vs_cpu(&job, 1, 200, 20);
		throttle(1, throttled ? 300 : 0);
		twt_vs_expect(&job, throttled ? TWI_CAUSE_THROTTLED : TWI_CAUSE_CPU, 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_late_by_its_quota),
		cmocka_unit_test(test_quota_of_long_ago),
		cmocka_unit_test(test_missing_by_its_quota),
		cmocka_unit_test(test_absent_by_its_quota),
		cmocka_unit_test(test_half_of_the_lateness),
		cmocka_unit_test(test_one_look_is_enough),
		cmocka_unit_test(test_load_that_all_have),
		cmocka_unit_test(test_once_for_a_cpu),
		cmocka_unit_test(test_missing_for_a_cpu),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
