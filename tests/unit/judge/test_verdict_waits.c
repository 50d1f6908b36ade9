/*
 * test_verdict_waits.c - ranks that wait for each other by messages, and for one that does nothing,
 * on states made by hand: each case, and its healthy twins.
 */
#include "verdict_states.h"

#define SEND TWI_STATE_SEND
#define RECV TWI_STATE_RECV

static struct twt_vs_job job;

static void expect_nobody(void)
{
	char text[1024];

	twt_vs_judge(&job);
	twi_verdict_short(&job.verdict, text, sizeof(text));
	if (job.verdict.finding_count > 0)
		fail_msg("nobody should be named: %s", text);
}

static void expect_words(const char *words)
{
	const struct twi_verdict_finding *finding = &job.verdict.findings[0];

	for (uint32_t i = 0; i < finding->evidence_count; i++)
		if (strstr(finding->evidence[i], words) != NULL)
			return;
	fail_msg("'%s' is not said: %s", words, finding->evidence[0]);
}

/* Each receives from the one before it, and nobody has sent. */
static void receive_first(uint32_t size, uint64_t ms, bool thread)
{
	twt_vs_still(&job, size);
	for (uint32_t i = 0; i < size; i++)
		twt_vs_message(&job, i, RECV, (i + size - 1) % size, 7, ms, thread);
}

static void test_circle(void **state)
{
	(void)state;
	for (uint32_t size = 2; size <= VS_RANKS; size++) {
		receive_first(size, 4100, true);
		twt_vs_expect_ranks(&job, TWI_CAUSE_DEADLOCK, (1u << size) - 1);
		assert_true(job.verdict.stuck);
		assert_true(job.verdict.findings[0].confidence > 0.9);
		expect_words("has waited for 4.1 s to receive tag 7 from rank 1");
		/* Just begun, or something goes on. */
		receive_first(size, 500, true);
		expect_nobody();
		receive_first(size, 4100, true);
		twt_vs_moves(&job, size - 1);
		expect_nobody();
		/* One of them does not wait any more. */
		receive_first(size, 4100, true);
		twt_vs_message(&job, 0, RECV, TWI_STATE_NO_RANK, 8, 4100, true);
		expect_nobody();
	}
	receive_first(2, 4100, true);
	twt_vs_judge(&job);
	assert_string_equal(job.verdict.findings[0].evidence[0],
			    "rank 0 has waited for 4.1 s to receive tag 7 from rank 1; rank 1 has "
			    "waited for 4.1 s to receive tag 7 from rank 0");
}

/* Who waits for them is no part of the circle; another circle is. */
static void test_circles(void **state)
{
	(void)state;
	receive_first(2, 4000, true);
	twt_vs_still(&job, 7);
	twt_vs_message(&job, 0, RECV, 1, 7, 4000, true);
	twt_vs_message(&job, 1, SEND, 0, 6, 4000, true);
	twt_vs_message(&job, 2, RECV, 1, 7, 4000, true);
	twt_vs_message(&job, 3, RECV, 2, 7, 4000, true);
	twt_vs_expect_ranks(&job, TWI_CAUSE_DEADLOCK, 3);
	expect_words("rank 1 has waited for 4.0 s to send tag 6, 4096 bytes, to rank 0");
	for (uint32_t i = 4; i < 7; i++)
		twt_vs_message(&job, i, RECV, i == 6 ? 4 : i + 1, 9, 5000, true);
	twt_vs_expect_ranks(&job, TWI_CAUSE_DEADLOCK, 0x73);
}

/* As long as it usually takes there is as long as it may take. */
static void test_usual(void **state)
{
	(void)state;
	receive_first(2, 4000, true);
	job.last[0].usual_ns = job.last[1].usual_ns = 3000 * VS_MS;
	expect_nobody();
	job.last[0].usual_ns = job.last[1].usual_ns = 2000 * VS_MS;
	twt_vs_expect_ranks(&job, TWI_CAUSE_DEADLOCK, 3);
	/* Nothing is known of it yet. */
	receive_first(2, 2000, true);
	job.first[0].ended = job.first[1].ended = job.last[0].ended = job.last[1].ended = 2;
	expect_nobody();
	receive_first(2, 4000, true);
	job.first[0].ended = job.first[1].ended = job.last[0].ended = job.last[1].ended = 2;
	twt_vs_expect_ranks(&job, TWI_CAUSE_DEADLOCK, 3);
}

/* By test or progress, and by callbacks, which may as well be receives that are posted ahead. */
static void test_without_threads(void **state)
{
	(void)state;
	receive_first(3, 4000, false);
	for (uint32_t i = 0; i < 3; i++)
		twt_vs_polls(&job, i, 30);
	twt_vs_expect_ranks(&job, TWI_CAUSE_DEADLOCK, 7);
	expect_words("4.0 s (it polls) to receive");
	receive_first(3, 2500, false);
	for (uint32_t i = 0; i < 3; i++)
		twt_vs_polls(&job, i, 30);
	expect_nobody();
	receive_first(3, 4000, false);
	twt_vs_expect_ranks(&job, TWI_CAUSE_DEADLOCK, 7);
	expect_words("4.0 s (in no call) to receive");
	assert_true(job.verdict.findings[0].confidence < 0.7);
	/* A rank that computes is not in their way; one that polls and does nothing else is. */
	receive_first(3, 4000, false);
	job.last[1].on_cpu_ns = job.first[1].on_cpu_ns + 300 * VS_MS;
	twt_vs_polls(&job, 1, 30);
	expect_nobody();
	for (uint32_t i = 0; i < 3; i++)
		twt_vs_polls(&job, i, 100000);
	twt_vs_expect_ranks(&job, TWI_CAUSE_DEADLOCK, 7);
	/* Nothing is known of what is usual. */
	receive_first(2, 4000, false);
	job.first[0].ended = job.last[0].ended = 3;
	job.first[1].ended = job.last[1].ended = 3;
	expect_nobody();
}

/* Who has messages under way, and is in no call, may do something else: it is the one to ask. */
static void test_half_without_thread(void **state)
{
	(void)state;
	twt_vs_still(&job, 3);
	twt_vs_message(&job, 0, RECV, 1, 7, 4000, true);
	twt_vs_message(&job, 1, RECV, 0, 7, 4000, false);
	twt_vs_expect_ranks(&job, TWI_CAUSE_ABSENT, 1 << 1);
	expect_words("which is in no call of the library");
	twt_vs_message(&job, 2, RECV, 1, 7, 3000, true);
	twt_vs_expect_ranks(&job, TWI_CAUSE_ABSENT, 1 << 1);
}

static void test_tag(void **state)
{
	(void)state;
	/* Eager: the sender has gone on, and does nothing. */
	twt_vs_still(&job, 3);
	twt_vs_message(&job, 0, RECV, 1, 7, 4000, true);
	twt_vs_stray(&job, 0, 1, 8);
	twt_vs_expect_ranks(&job, TWI_CAUSE_OTHER_TAG, 3);
	expect_words("rank 0 has waited for 4.0 s to receive tag 7 from rank 1; a message of that "
		     "rank with tag "
		     "8, 512 bytes, has come, and no receive takes it");
	/* The sender goes on; what it has sent lies there all the same. */
	twt_vs_moves(&job, 1);
	twt_vs_expect_ranks(&job, TWI_CAUSE_OTHER_TAG, 3);
	job.last[1].ended = job.first[1].ended;
	/* It has come between the looks: it may be received any moment. */
	job.first[0].stray_count = 0;
	twt_vs_expect_ranks(&job, TWI_CAUSE_ABSENT, 1 << 1);
	/* By rendezvous: the sender waits, in a circle with the receiver. */
	twt_vs_still(&job, 3);
	twt_vs_message(&job, 0, RECV, 1, 7, 4000, true);
	twt_vs_message(&job, 1, SEND, 0, 8, 4000, true);
	twt_vs_stray(&job, 0, 1, 8);
	twt_vs_expect_ranks(&job, TWI_CAUSE_OTHER_TAG, 3);
	/* Of another channel; of another rank it is nothing. */
	job.first[0].strays[0].channel = job.last[0].strays[0].channel = 3;
	twt_vs_expect_ranks(&job, TWI_CAUSE_OTHER_TAG, 3);
	expect_words("it came by another channel");
	job.first[0].strays[0].rank = job.last[0].strays[0].rank = 2;
	twt_vs_expect_ranks(&job, TWI_CAUSE_DEADLOCK, 3);
	/* What is waited for lies there, too. */
	twt_vs_still(&job, 3);
	twt_vs_message(&job, 0, RECV, 1, 7, 4000, true);
	twt_vs_stray(&job, 0, 1, 8);
	twt_vs_stray(&job, 0, 1, 7);
	twt_vs_expect_ranks(&job, TWI_CAUSE_ABSENT, 1 << 1);
	/* It is to be a view, for which there is no room. */
	job.last[0].pool_waiters = 1;
	job.last[0].pool_since_ns = VS_NOW - 3900 * VS_MS;
	twt_vs_expect_ranks(&job, TWI_CAUSE_POOL, 1);
}

/* What it waits for waits itself, for credit that messages of other tags use. */
static void test_tag_behind_credit(void **state)
{
	(void)state;
	twt_vs_still(&job, 3);
	twt_vs_message(&job, 0, RECV, 1, 7, 4000, true);
	twt_vs_message(&job, 1, SEND, 0, 8, 4000, false);
	twt_vs_stray(&job, 0, 1, 8);
	twt_vs_link(&job.first[1], 0)->flags |= TWI_LINK_NO_CREDIT;
	twt_vs_link(&job.last[1], 0)->flags |= TWI_LINK_NO_CREDIT;
	/* All that it sends is told, and what is waited for is not among it. */
	twt_vs_expect_ranks(&job, TWI_CAUSE_OTHER_TAG, 3);
	twt_vs_message(&job, 1, SEND, 0, 7, 4000, false);
	for (uint32_t i = 0; i < job.last[1].message_count; i++)
		job.last[1].messages[i].stage = TWI_STATE_QUEUED;
	twt_vs_expect_ranks(&job, TWI_CAUSE_CREDIT, 1 << 0);
	expect_words(
		"rank 0 has waited for 4.0 s to receive tag 7 from rank 1, which has no credit "
		"to send to it: it holds messages that no receive takes, one with tag 8");
	/* It has credit: then it goes, and something else is wrong. */
	twt_vs_link(&job.first[1], 0)->flags &= ~TWI_LINK_NO_CREDIT;
	twt_vs_expect_ranks(&job, TWI_CAUSE_OTHER_TAG, 3);
}

/* The last of a chain that waits for another is the one that hangs. */
static void test_chain(void **state)
{
	(void)state;
	twt_vs_still(&job, 5);
	for (uint32_t i = 4; i > 1; i--)
		twt_vs_message(&job, i, RECV, i - 1, 30 + i, 3000 + i, true);
	twt_vs_message(&job, 0, SEND, 1, 77, 3000, true);
	twt_vs_expect_ranks(&job, TWI_CAUSE_ABSENT, 1 << 1);
	assert_true(job.verdict.stuck);
	expect_words("which is in no call of the library, and has nothing under way");
	/* It has posted its next receive already. */
	twt_vs_message(&job, 1, RECV, 0, 30, 3000, false);
	twt_vs_expect_ranks(&job, TWI_CAUSE_ABSENT, 1 << 1);
	/* It goes on: nobody hangs as far as is known. */
	twt_vs_moves(&job, 1);
	expect_nobody();
	/* Nobody knows what it does. */
	twt_vs_still(&job, 3);
	twt_vs_message(&job, 2, RECV, 1, 7, 4000, true);
	twt_vs_silent(&job, 1);
	twt_vs_judge(&job);
	for (uint32_t i = 0; i < job.verdict.finding_count; i++)
		assert_int_not_equal(job.verdict.findings[i].cause, TWI_CAUSE_ABSENT);
}

static void test_end_has_a_cause(void **state)
{
	(void)state;
	twt_vs_still(&job, 3);
	twt_vs_message(&job, 2, RECV, 1, 7, 4000, true);
	job.last[1].pool_waiters = 1;
	job.last[1].pool_since_ns = VS_NOW - 3900 * VS_MS;
	twt_vs_expect_ranks(&job, TWI_CAUSE_POOL, 1 << 1);
	twt_vs_still(&job, 3);
	twt_vs_message(&job, 2, RECV, 1, 7, 4000, true);
	job.last[1].run_queue_ns = job.first[1].run_queue_ns + 350 * VS_MS;
	twt_vs_expect_ranks(&job, TWI_CAUSE_CPU, 1 << 1);
	/* What has been sent does not get there. */
	twt_vs_still(&job, 3);
	twt_vs_message(&job, 2, RECV, 1, 7, 4000, true);
	twt_vs_link(&job.last[1], 2)->stuck_ns = 2000 * VS_MS;
	expect_nobody();
}

/* A rank in a collective that waits for one that waits for its message. */
static void test_with_collective(void **state)
{
	(void)state;
	twt_vs_healthy(&job, 4);
	twt_vs_miss(&job, 3, 3000);
	twt_vs_message(&job, 3, RECV, 1, 7, 3000, true);
	job.first[3].tells = job.last[3].tells = 1;
	twt_vs_expect_ranks(&job, TWI_CAUSE_DEADLOCK, 1 << 1 | 1 << 3);
	expect_words("in collective 81 of group 0, which rank 3 has not entered");
	/* What it waits for is another's to send, which does something else. */
	twt_vs_healthy(&job, 4);
	twt_vs_miss(&job, 3, 3000);
	twt_vs_stay_out(&job, 1, 80, 3020);
	job.first[1].wait_count = job.last[1].wait_count = 0;
	job.first[1].waiters = job.last[1].waiters = 0;
	twt_vs_message(&job, 3, RECV, 1, 7, 3000, true);
	twt_vs_expect(&job, TWI_CAUSE_NEVER_ENTERED, 1);
}

static void test_calls(void **state)
{
	static const struct {
		uint8_t kind;
		const char *words;
	} rows[] = { { TWI_STATE_CALL_OP,
		       "for the answer to a call of rank 1, which is in no call" },
		     { TWI_STATE_PUSH, "for rank 1 to read from a stream, which" },
		     { TWI_STATE_PULL, "for rank 1 to write to a stream, which" } };

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		twt_vs_still(&job, 2);
		twt_vs_message(&job, 0, rows[i].kind, 1, 0, 4000, true);
		twt_vs_expect_ranks(&job, TWI_CAUSE_ABSENT, 1 << 1);
		expect_words(rows[i].words);
		/* Of a call with a stream, by callbacks. */
		twt_vs_still(&job, 2);
		twt_vs_message(&job, 0, TWI_STATE_CALL_OP, 1, 0, 4000, false);
		twt_vs_message(&job, 0, rows[i].kind, 1, 0, 3500, false);
		twt_vs_expect_ranks(&job, TWI_CAUSE_ABSENT, 1 << 1);
		expect_words(rows[i].words);
	}
}

/* Messages that wait for credit are the receiver's to receive, if it does not wait itself. */
static void test_credit(void **state)
{
	(void)state;
	twt_vs_still(&job, 3);
	for (uint32_t i = 0; i < 2; i++) {
		twt_vs_message(&job, i, SEND, i + 1, 7, 4000, true);
		job.first[i].waits[0].stage = job.last[i].waits[0].stage = TWI_STATE_QUEUED;
		twt_vs_link(&job.first[i], i + 1)->flags |= TWI_LINK_NO_CREDIT;
		twt_vs_link(&job.last[i], i + 1)->flags |= TWI_LINK_NO_CREDIT;
	}
	twt_vs_expect_ranks(&job, TWI_CAUSE_CREDIT, 1 << 2);
}

/* Several operations, of which the first that ends is enough. */
static void test_first_of_several(void **state)
{
	(void)state;
	twt_vs_still(&job, 4);
	twt_vs_message(&job, 0, RECV, 1, 7, 4000, true);
	twt_vs_message(&job, 0, RECV, 2, 7, 4000, true);
	expect_nobody();
	twt_vs_message(&job, 1, RECV, 0, 7, 4000, true);
	expect_nobody();
	twt_vs_message(&job, 2, RECV, 0, 7, 4000, true);
	twt_vs_expect_ranks(&job, TWI_CAUSE_DEADLOCK, 3);
	/* A server's receives, of which only some of those clients do nothing. */
	twt_vs_still(&job, 4);
	for (uint32_t i = 1; i < 4; i++)
		twt_vs_message(&job, 0, RECV, i, 7, 60000, false);
	twt_vs_polls(&job, 0, 20);
	expect_nobody();
}

/* A thread that serves has waited for longer than the one that hangs. */
static void test_threads(void **state)
{
	(void)state;
	twt_vs_still(&job, 3);
	twt_vs_message(&job, 0, RECV, 2, 1, 60000, true);
	twt_vs_message(&job, 0, RECV, 1, 7, 4000, true);
	twt_vs_expect_ranks(&job, TWI_CAUSE_ABSENT, 1 << 1);
	/* One waits, and another computes. */
	job.last[0].on_cpu_ns = job.first[0].on_cpu_ns + 300 * VS_MS;
	expect_nobody();
}

/* Where there may be more than a state has room for. */
static void test_many(void **state)
{
	(void)state;
	for (uint32_t to = 1; to < 3; to++) {
		twt_vs_still(&job, 3);
		for (uint32_t i = 0; i < TWI_STATE_MESSAGES; i++)
			twt_vs_message(&job, 0, RECV, i < 4 ? 1 : to, i, 5000, false);
		twt_vs_polls(&job, 0, 10);
		twt_vs_message(&job, 1, RECV, 0, 7, 4000, true);
		twt_vs_message(&job, 2, RECV, 0, 7, 4000, true);
		if (to == 1)
			twt_vs_expect_ranks(&job, TWI_CAUSE_DEADLOCK, 3);
		else
			expect_nobody();
	}
}

/* By callbacks, from one to the next: the last of them, if all have waited for long. */
static void test_callbacks(void **state)
{
	(void)state;
	for (uint64_t ms = 4000; ms >= 2000; ms -= 2000) {
		twt_vs_still(&job, 3);
		twt_vs_message(&job, 2, RECV, 1, 7, 4000, false);
		twt_vs_message(&job, 1, RECV, 0, 7, ms, false);
		if (ms > 3000)
			twt_vs_expect_ranks(&job, TWI_CAUSE_ABSENT, 1 << 0);
		else
			expect_nobody();
	}
}

/* A thread of each sits in a receive, as one that serves does, while the others go on: no hang. */
static void test_service_threads(void **state)
{
	(void)state;
	twt_vs_healthy(&job, 3);
	for (uint32_t i = 0; i < 3; i++)
		twt_vs_message(&job, i, TWI_STATE_RECV, (i + 1) % 3, 1000, 60000, true);
	twt_vs_judge(&job);
	assert_int_equal(job.verdict.finding_count, 0);
	assert_false(job.verdict.stuck);
	/* Of messages alone: what ends tells. */
	twt_vs_still(&job, 3);
	for (uint32_t i = 0; i < 3; i++) {
		twt_vs_message(&job, i, TWI_STATE_RECV, (i + 1) % 3, 1000, 60000, true);
		twt_vs_moves(&job, i);
	}
	twt_vs_judge(&job);
	assert_int_equal(job.verdict.finding_count, 0);
	assert_false(job.verdict.stuck);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_service_threads),
		cmocka_unit_test(test_circle),
		cmocka_unit_test(test_circles),
		cmocka_unit_test(test_usual),
		cmocka_unit_test(test_without_threads),
		cmocka_unit_test(test_half_without_thread),
		cmocka_unit_test(test_tag),
		cmocka_unit_test(test_tag_behind_credit),
		cmocka_unit_test(test_chain),
		cmocka_unit_test(test_end_has_a_cause),
		cmocka_unit_test(test_with_collective),
		cmocka_unit_test(test_calls),
		cmocka_unit_test(test_credit),
		cmocka_unit_test(test_first_of_several),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_callbacks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
