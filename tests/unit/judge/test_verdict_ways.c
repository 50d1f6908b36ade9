/*
 * test_verdict_ways.c - connections that do not come about, by states made by hand, and their
 * healthy twins: the way is named where somebody hears the rank, or nobody knows it.
 */
#include "verdict_states.h"

#include <errno.h>

static struct twt_vs_job job;

/* Rank `from` has no connection to `to`, and tries since `ms`; its SYN was sent again so often. */
static struct twi_state_dial *dial(uint32_t from, uint32_t to, uint64_t ms, uint32_t syns)
{
	struct twi_rank_state *last = &job.last[from];
	struct twi_state_dial *out = &last->dials[last->dial_count++];
	struct twi_state_link *link = twt_vs_link(last, to);

	if (link != NULL)
		*link = last->links[--last->link_count];
	*out = (struct twi_state_dial){ .rank = to,
					.wanted = 1,
					.attempts = 1,
					.since_ns = last->now_ns - ms * VS_MS,
					.syn_ns = last->now_ns - ms * VS_MS,
					.syns = syns,
					.address = "tcp://10.88.0.4:4711" };
	return out;
}

static void expect_nobody(void)
{
	twt_vs_judge(&job);
	if (job.verdict.finding_count > 0)
		fail_msg("%s", job.verdict.findings[0].evidence[0]);
}

static void make_pair(uint64_t ms, uint32_t syns)
{
	twt_vs_healthy(&job, 4);
	dial(2, 3, ms, syns);
	dial(3, 2, ms, syns);
}

/* Both try; a third, which both have answered, says so. */
static void test_pair(void **state)
{
	const struct twi_verdict_finding *finding = &job.verdict.findings[0];

	(void)state;
	make_pair(6200, 3);
	twt_vs_judge(&job);
	assert_int_equal(job.verdict.finding_count, 1);
	assert_int_equal(finding->cause, TWI_CAUSE_LINK);
	assert_int_equal(finding->rank_count, 0);
	assert_int_equal(finding->link_count, 2);
	assert_int_equal(finding->links[0].from, 2);
	assert_int_equal(finding->links[0].to, 3);
	assert_int_equal(finding->links[1].from, 3);
	assert_string_equal(finding->evidence[0],
			    "rank 2 has tried to connect to rank 3 at tcp://10.88.0.4:4711 for 6.2 "
			    "s: its SYNs are not answered (3 sent again), though rank 0 hears rank "
			    "3");
	/* The floor, and what a busy machine does: the first SYN was lost, or none was sent. */
	make_pair(1900, 1);
	expect_nobody();
	make_pair(6200, 0);
	expect_nobody();
	make_pair(6200, 3);
	for (uint32_t i = 2; i < 4; i++)
		job.last[i].dials[0].syn_ns = job.last[i].now_ns - 300 * VS_MS;
	expect_nobody();
	/* The SYN was answered: the other process is what takes long. */
	make_pair(6200, 0);
	job.last[2].dials[0].syn_ns = job.last[3].dials[0].syn_ns = 0;
	expect_nobody();
	/* Nobody wants it, but a look at the job. */
	make_pair(6200, 3);
	job.last[2].dials[0].wanted = job.last[3].dials[0].wanted = 0;
	expect_nobody();
}

/* Who asks is one end, and has no answer from the other. */
static void test_end(void **state)
{
	(void)state;
	make_pair(6200, 3);
	twt_vs_silent(&job, 3);
	job.ranks[3].asked = false;
	job.ranks[3].dialed = true;
	twt_vs_judge(&job);
	twt_vs_expect_link(&job, TWI_CAUSE_LINK, 2, 3);
	assert_true(job.verdict.findings[0].confidence > 0.9);
	/* Nobody else knows it: its host may have gone. */
	for (uint32_t i = 0; i < 2; i++) {
		struct twi_state_link *link = twt_vs_link(&job.last[i], 3);

		*link = job.last[i].links[--job.last[i].link_count];
	}
	twt_vs_judge(&job);
	twt_vs_expect_link(&job, TWI_CAUSE_LINK, 2, 3);
	assert_true(job.verdict.findings[0].confidence < 0.75);
	assert_non_null(strstr(job.verdict.findings[0].evidence[0], "its host may have gone"));
	/* Its process is stopped, of this host: that is told, and not the way. */
	job.ranks[3].process = TWI_PROCESS_STOPPED;
	twt_vs_judge(&job);
	twt_vs_expect(&job, TWI_CAUSE_STOPPED, 3);
}

/* The kernel has said no, or has given up. */
static void test_failed(void **state)
{
	static const uint32_t errors[] = { ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, ETIMEDOUT };
	struct twi_state_dial *at;

	(void)state;
	for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		twt_vs_healthy(&job, 4);
		at = dial(1, 3, 5000, 0);
		at->syn_ns = 0;
		at->failed_ns = job.last[1].now_ns - 4000 * VS_MS;
		at->error = errors[i];
		at->attempts = 6;
		twt_vs_judge(&job);
		twt_vs_expect_link(&job, TWI_CAUSE_LINK, 1, 3);
		assert_non_null(strstr(job.verdict.findings[0].evidence[0],
				       "tried 6 times until 4.0 s ago: "));
		/* By a rank that nobody hears any more: it may have ended. */
		twt_vs_silent(&job, 3);
		job.ranks[3].asked = false;
		for (uint32_t k = 0; k < 4; k++)
			job.last[k].link_count = 0;
		expect_nobody();
	}
	/* It has failed by other words: it takes no more peers. */
	twt_vs_healthy(&job, 4);
	at = dial(1, 3, 5000, 0);
	at->syn_ns = 0;
	at->failed_ns = job.last[1].now_ns - 4000 * VS_MS;
	expect_nobody();
	/* Long ago. */
	at->error = ECONNREFUSED;
	at->failed_ns = job.last[1].now_ns - 31000 * VS_MS;
	expect_nobody();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pair),
		cmocka_unit_test(test_end),
		cmocka_unit_test(test_failed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
