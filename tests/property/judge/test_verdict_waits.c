/*
 * test_verdict_waits.c - random jobs whose ranks wait for each other by messages, on paper: of
 * healthy ones nobody is named; a circle, a rank that does nothing and a tag that differs, planted
 * among ranks that wait for them and ranks that go on, are found, and nobody else is named.
 *
 * TOW_TEST_SEED replays. TOW_VERDICT_CASES: how many (default 3,000).
 */
#include "verdict_states.h"

static uint64_t random_state;
static struct twt_vs_job job;

static uint64_t below(uint64_t n)
{
	return twt_random_below(&random_state, n);
}

static uint8_t any_kind(void)
{
	static const uint8_t kinds[] = { TWI_STATE_SEND,    TWI_STATE_RECV, TWI_STATE_RECV,
					 TWI_STATE_CALL_OP, TWI_STATE_PUSH, TWI_STATE_PULL };

	return kinds[below(sizeof(kinds))];
}

/* Rank `rank` waits for `to`, by a thread or by polling, for long. */
static void wait_for(uint32_t rank, uint32_t to)
{
	bool thread = below(2) == 0;
	uint64_t ms = 3100 + below(60000);

	for (uint64_t i = below(3); i > 0; i--) /* of one rank, which answers none */
		twt_vs_message(&job, rank, any_kind(), to, below(100), ms + below(1000), false);
	twt_vs_message(&job, rank, any_kind(), to, below(100), ms, thread);
	if (!thread)
		twt_vs_polls(&job, rank, 1 + below(5000));
}

/* Receives that are posted long ahead, by a rank that goes on. */
static void post_ahead(uint32_t rank)
{
	for (uint64_t i = below(5); i > 0; i--)
		twt_vs_message(&job, rank, TWI_STATE_RECV, (uint32_t)below(job.size), below(100),
			       below(100000), below(4) == 0);
	for (uint64_t i = below(3); i > 0; i--)
		twt_vs_stray(&job, rank, (uint32_t)below(job.size), below(100));
	twt_vs_moves(&job, rank);
}

/* A message that this rank will receive later, of one that it does not wait for. */
static void add_stray(uint32_t rank, uint32_t to)
{
	uint32_t from = (uint32_t)below(job.size);

	if (from != to && below(3) == 0)
		twt_vs_stray(&job, rank, from, below(100));
}

/*
 * All but those in the bits of `planted` go on, wait for a moment, or wait for long, for one of the
 * former or, if `chains`, for a planted one.
 */
static void add_others(uint32_t planted, bool chains)
{
	uint32_t goal = 0;

	for (uint32_t i = 0; i < job.size; i++) {
		uint32_t before = i > 0 ? (uint32_t)below(i) : 0;

		if ((planted >> i & 1) != 0)
			continue;
		while (planted != 0 && (planted >> goal & 1) == 0)
			goal = (goal + 1) % job.size;
		switch (below(4)) {
		case 0:
			post_ahead(i);
			break;
		case 1: /* for a moment; nobody knows more of it */
			twt_vs_message(&job, i, any_kind(), (uint32_t)below(job.size), below(100),
				       below(500), true);
			break;
		default:
			if (chains && planted != 0 && below(2) == 0) {
				wait_for(i, goal);
				add_stray(i, goal);
			} else if (i > 0 && (planted >> before & 1) == 0) {
				wait_for(i, before);
				add_stray(i, before);
			} else {
				post_ahead(i);
			}
			break;
		}
	}
	for (uint32_t i = 0; i < job.size; i++)
		twt_vs_move_clock(&job, i, i == 0 ? 0 : (int64_t)below(1000000) - 500000);
}

static void check_case(uint64_t n, bool any, enum twi_cause cause, uint32_t ranks)
{
	const struct twi_verdict_finding *finding = &job.verdict.findings[0];
	uint32_t named = 0;
	char text[1024];

	twt_vs_judge(&job);
	twi_verdict_short(&job.verdict, text, sizeof(text));
	for (uint32_t i = 0; job.verdict.finding_count > 0 && i < finding->rank_count; i++)
		named |= 1u << finding->ranks[i];
	if (job.verdict.finding_count != any ||
	    (any && (finding->cause != cause || named != ranks)))
		fail_msg("case %llu of %u ranks: wanted %s of 0x%x, %u findings: %s",
			 (unsigned long long)n, job.size, any ? twi_cause_name(cause) : "nobody",
			 ranks, job.verdict.finding_count, text);
}

static void test_healthy(void **state)
{
	(void)state;
	for (uint64_t n = 0; n < twt_vs_cases(3000); n++) {
		twt_vs_still(&job, 2 + (uint32_t)below(VS_RANKS - 1));
		add_others(0, false);
		check_case(n, false, TWI_CAUSES, 0);
	}
}

/* Their waits are no longer than waits are there. */
static void test_usual(void **state)
{
	(void)state;
	for (uint64_t n = 0; n < twt_vs_cases(3000); n++) {
		uint32_t size = 2 + (uint32_t)below(VS_RANKS - 1);

		twt_vs_still(&job, size);
		for (uint32_t i = 0; i < size; i++) {
			wait_for(i, (i + 1) % size);
			job.last[i].usual_ns = (43000 + below(100000)) * VS_MS;
		}
		check_case(n, false, TWI_CAUSES, 0);
	}
}

static void test_circle(void **state)
{
	(void)state;
	for (uint64_t n = 0; n < twt_vs_cases(3000); n++) {
		uint32_t size = 2 + (uint32_t)below(VS_RANKS - 1), order[VS_RANKS], planted = 0;
		uint32_t length = 2 + (uint32_t)below(size - 1);

		twt_vs_still(&job, size);
		for (uint32_t i = 0; i < size; i++) {
			uint32_t at = (uint32_t)below(i + 1);

			order[i] = order[at];
			order[at] = i;
		}
		for (uint32_t i = 0; i < length; i++) {
			wait_for(order[i], order[(i + 1) % length]);
			add_stray(order[i], order[(i + 1) % length]);
			planted |= 1u << order[i];
		}
		add_others(planted, true);
		check_case(n, true, TWI_CAUSE_DEADLOCK, planted);
	}
}

static void test_absent(void **state)
{
	(void)state;
	for (uint64_t n = 0; n < twt_vs_cases(3000); n++) {
		uint32_t size = 3 + (uint32_t)below(VS_RANKS - 2);
		uint32_t lost = (uint32_t)below(size), waits = (lost + 1) % size;

		twt_vs_still(&job, size);
		if (below(2) == 0) /* its next receive is posted */
			twt_vs_message(&job, lost, TWI_STATE_RECV, waits, 3, below(9000), false);
		wait_for(waits, lost);
		add_stray(waits, lost);
		add_others(1u << lost | 1u << waits, true);
		/* Who waits for `waits` waits for `lost` in the end. */
		check_case(n, true, TWI_CAUSE_ABSENT, 1u << lost);
	}
}

static void test_tag(void **state)
{
	(void)state;
	for (uint64_t n = 0; n < twt_vs_cases(3000); n++) {
		uint32_t size = 2 + (uint32_t)below(VS_RANKS - 1);
		uint32_t to = (uint32_t)below(size), from = (to + 1) % size;

		twt_vs_still(&job, size);
		twt_vs_message(&job, to, TWI_STATE_RECV, from, 7, 3100 + below(9000), true);
		twt_vs_stray(&job, to, from, 8);
		if (below(2) == 0) /* by rendezvous; else it has gone on, or does nothing */
			twt_vs_message(&job, from, TWI_STATE_SEND, to, 8, 3100 + below(9000), true);
		else if (below(2) == 0)
			twt_vs_moves(&job, from);
		add_others(1u << to | 1u << from, false);
		check_case(n, true, TWI_CAUSE_OTHER_TAG, 1u << to | 1u << from);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_healthy), cmocka_unit_test(test_usual),
		cmocka_unit_test(test_circle),  cmocka_unit_test(test_absent),
		cmocka_unit_test(test_tag),
	};

	random_state = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
