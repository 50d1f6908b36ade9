/*
 * test_verdict_ways.c - connections that do not come about, and streams that are slower than the
 * others of their connection, by states made by hand, and their healthy twins.
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
			    "s: its SYNs are not answered (3 sent again), though rank 0 receives "
			    "from rank 3");
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

/* --- streams --- */

/* A stream of rank `from`'s to `to` by rail `rail`: between the looks so much, in so many ms. */
static void add_stream(uint32_t from, uint32_t to, unsigned rail, uint64_t kib, uint64_t busy_ms)
{
	struct twi_rank_state *first = &job.first[from], *last = &job.last[from];
	struct twi_state_stream *row = &last->streams[last->stream_count];

	*row = (struct twi_state_stream){ .rank = to,
					  .stream = (uint8_t)last->stream_count++,
					  .acked_bytes = 5000 << 10,
					  .busy_us = 800000 };
	snprintf(row->from_if, sizeof(row->from_if), "eth%u", rail);
	snprintf(row->way, sizeof(row->way), "10.89.%u.%u -> 10.89.%u.%u", rail, from + 1, rail,
		 to + 1);
	first->streams[first->stream_count++] = *row;
	row->acked_bytes += kib << 10;
	row->busy_us += busy_ms * 1000;
}

/* Two ranks wait for each other for 70 % of their time, and tell of steps. */
static void make_rails(void)
{
	twt_vs_healthy(&job, 2);
	for (uint32_t i = 0; i < 2; i++) {
		job.last[i].longer = (struct twi_state_waited){ .window_ns = 10000 * VS_MS,
								.waits = 100,
								.steps = 50,
								.step_ns = 9900 * VS_MS,
								.awaited_count = 1 };
		job.last[i].longer.ns[TWI_WAITED_RECV] = 7000 * VS_MS;
		job.last[i].longer.awaited[0].rank = 1 - i;
		job.last[i].longer.awaited[0].ns = 7000 * VS_MS;
	}
}

static void test_rail(void **state)
{
	(void)state;
	make_rails();
	add_stream(0, 1, 0, 1440, 36);
	add_stream(0, 1, 1, 1440, 392);
	twt_vs_judge(&job);
	twt_vs_expect_link(&job, TWI_CAUSE_SLOW_LINK, 0, 1);
	assert_string_equal(
		job.verdict.findings[0].evidence[0],
		"of the 2 streams from rank 0 to rank 1, the one over eth1 10.89.1.1 -> 10.89.1.2 "
		"carries 3.8 MB/s and was busy for 98 % of the time; the others carry 41.0 MB/s "
		"and were idle for 91 %: messages wait for it; check that interface's speed and "
		"errors (ethtool -S "
		"eth1), or leave it out (interfaces=^eth1)");
	/* Nobody tells of steps, but the other side waits for this rank meanwhile. */
	job.last[0].longer.steps = job.last[1].longer.steps = 0;
	twt_vs_judge(&job);
	twt_vs_expect_link(&job, TWI_CAUSE_SLOW_LINK, 0, 1);
	/* It waits for somebody else, or for nobody. */
	job.last[1].longer.awaited[0].ns = 1000 * VS_MS;
	expect_nobody();
	/* The job does not wait. */
	make_rails();
	add_stream(0, 1, 0, 1440, 36);
	add_stream(0, 1, 1, 1440, 392);
	for (uint32_t i = 0; i < 2; i++) {
		job.last[i].longer.ns[TWI_WAITED_RECV] = 1000 * VS_MS;
		job.last[i].longer.awaited[0].ns = 1000 * VS_MS;
	}
	expect_nobody();
	/* Of four, two go by the slow one. */
	make_rails();
	for (unsigned i = 0; i < 4; i++)
		add_stream(1, 0, i % 2, 720, i % 2 == 0 ? 20 : 390);
	twt_vs_judge(&job);
	twt_vs_expect_link(&job, TWI_CAUSE_SLOW_LINK, 1, 0);
}

static void test_equal_rails(void **state)
{
	(void)state;
	/* As fast as each other, both busy, and both not. */
	for (uint64_t busy = 30; busy < 400; busy += 300) {
		make_rails();
		add_stream(0, 1, 0, 1440, busy);
		add_stream(0, 1, 1, 1440, busy + 60);
		expect_nobody();
	}
	/* Three times as slow. */
	make_rails();
	add_stream(0, 1, 0, 1440, 130);
	add_stream(0, 1, 1, 1440, 390);
	expect_nobody();
	/* One has less to carry, and so less in a time, while its acknowledgements come late. */
	make_rails();
	add_stream(0, 1, 0, 4000, 350);
	add_stream(0, 1, 1, 100, 300);
	expect_nobody();
	/* Streams of one way share it, and by chance one gets less. */
	make_rails();
	add_stream(0, 1, 0, 1440, 36);
	add_stream(0, 1, 0, 1440, 392);
	expect_nobody();
	/* The rail gets another stream through. */
	make_rails();
	add_stream(0, 1, 0, 1440, 36);
	add_stream(0, 1, 1, 1440, 40);
	add_stream(0, 1, 1, 1440, 392);
	expect_nobody();
	/* The other side has no room for what that stream brings. */
	make_rails();
	add_stream(0, 1, 0, 1440, 36);
	add_stream(0, 1, 1, 1440, 392);
	job.last[0].streams[1].rwnd_limited_us = 300000;
	expect_nobody();
	/* It is another connection since the first look. */
	make_rails();
	add_stream(0, 1, 0, 1440, 36);
	add_stream(0, 1, 1, 1440, 392);
	job.first[0].streams[1].way[4] = 'x';
	expect_nobody();
	/* The others have carried next to nothing. */
	make_rails();
	add_stream(0, 1, 0, 60, 1);
	add_stream(0, 1, 1, 1440, 392);
	expect_nobody();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pair),        cmocka_unit_test(test_end),
		cmocka_unit_test(test_failed),      cmocka_unit_test(test_rail),
		cmocka_unit_test(test_equal_rails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
