/*
 * test_verdict.c - the judge, on states made by hand: each cause, its healthy twin, and what is
 * said of it.
 */
#include "verdict_states.h"

#include <towline/status.h>

#include "diag/base/emit.h"

static struct twt_vs_job job;

static void test_healthy(void **state)
{
	(void)state;
	for (uint32_t size = 1; size <= VS_RANKS; size++) {
		twt_vs_healthy(&job, size);
		twt_vs_judge(&job);
		assert_int_equal(job.verdict.finding_count, 0);
		assert_false(job.verdict.stuck);
		assert_int_equal(job.verdict.answered, size);
	}
}

static void test_never_entered(void **state)
{
	(void)state;
	twt_vs_healthy(&job, 4);
	twt_vs_miss(&job, 2, 3000);
	twt_vs_expect(&job, TWI_CAUSE_NEVER_ENTERED, 2);
	assert_true(job.verdict.stuck);
	assert_true(job.verdict.findings[0].confidence > 0.9);
	/* A moment is nothing; neither is a wait no longer than steps usually are. */
	twt_vs_healthy(&job, 4);
	twt_vs_miss(&job, 2, 100);
	twt_vs_judge(&job);
	assert_int_equal(job.verdict.finding_count, 0);
}

static void test_two_never_entered(void **state)
{
	(void)state;
	twt_vs_healthy(&job, 4);
	twt_vs_miss(&job, 2, 3000);
	twt_vs_stay_out(&job, 1, 80, 3020);
	job.first[1].wait_count = job.last[1].wait_count = 0;
	twt_vs_judge(&job);
	assert_int_equal(job.verdict.finding_count, 1);
	assert_int_equal(job.verdict.findings[0].rank_count, 2);
}

static void test_group_broken_by_deadline(void **state)
{
	(void)state;
	twt_vs_healthy(&job, 3);
	twt_vs_miss(&job, 1, 3000);
	for (uint32_t i = 0; i < 3; i++) {
		job.last[i].groups[0].broken = TOW_EDEADLINE;
		job.last[i].groups[0].broken_seq = 81;
		job.last[i].groups[0].past[0].done_ns = VS_NOW - 10 * VS_MS;
		job.last[i].wait_count = 0;
	}
	twt_vs_expect(&job, TWI_CAUSE_NEVER_ENTERED, 1);
}

static void test_other_operation(void **state)
{
	(void)state;
	twt_vs_healthy(&job, 4);
	for (uint32_t i = 0; i < 4; i++)
		twt_vs_wait_in(&job, i, 81, 1000);
	job.first[3].groups[0].past[0].signature = job.last[3].groups[0].past[0].signature = 5;
	twt_vs_expect(&job, TWI_CAUSE_OTHER_OPERATION, 3);
	/* The group has found it out itself: nobody waits any more. */
	twt_vs_healthy(&job, 4);
	for (uint32_t i = 0; i < 4; i++) {
		job.last[i].groups[0].broken = TOW_EMISMATCH;
		job.last[i].groups[0].broken_seq = 80;
	}
	job.last[1].groups[0].past[0].signature = 5;
	twt_vs_expect(&job, TWI_CAUSE_OTHER_OPERATION, 1);
	/* One against one: both are named, less surely. */
	twt_vs_healthy(&job, 2);
	job.last[0].groups[0].broken = job.last[1].groups[0].broken = TOW_EMISMATCH;
	job.last[0].groups[0].broken_seq = job.last[1].groups[0].broken_seq = 80;
	job.last[1].groups[0].past[0].signature = 5;
	twt_vs_judge(&job);
	assert_int_equal(job.verdict.findings[0].rank_count, 2);
	assert_true(job.verdict.findings[0].confidence < 0.7);
}

/* All have done with collective 80, and wait for one in barrier 5. */
static void miss_barrier(uint32_t size, uint32_t missing)
{
	twt_vs_healthy(&job, size);
	for (uint32_t i = 0; i < size; i++) {
		twt_vs_stay_out(&job, i, 80, 3100);
		if (i == missing)
			twt_vs_barriers(&job, i, 4, 0);
		else
			twt_vs_barriers(&job, i, 5, 3000);
	}
}

static void test_barrier(void **state)
{
	(void)state;
	miss_barrier(4, 2);
	twt_vs_expect(&job, TWI_CAUSE_NEVER_ENTERED, 2);
	assert_true(job.verdict.stuck);
	assert_non_null(
		strstr(job.verdict.findings[0].evidence[0], "not entered barrier 5 of group 0"));
	/* Never in any. */
	miss_barrier(4, 2);
	for (unsigned i = 0; i < 2; i++) {
		struct twi_rank_state *at = i == 0 ? &job.first[2] : &job.last[2];

		at->groups[1].last_seq = at->groups[1].past_count = 0;
	}
	twt_vs_expect(&job, TWI_CAUSE_NEVER_ENTERED, 2);
	/* Its deadline has passed, and nobody waits any more. */
	miss_barrier(3, 1);
	for (uint32_t i = 0; i < 3; i += 2) {
		job.last[i].groups[1].broken = TOW_EDEADLINE;
		job.last[i].groups[1].broken_seq = 5;
		job.last[i].groups[1].past[0].done_ns = VS_NOW - 10 * VS_MS;
		job.last[i].wait_count = 0;
	}
	twt_vs_expect(&job, TWI_CAUSE_NEVER_ENTERED, 1);
}

static void test_barrier_or_collective(void **state)
{
	(void)state;
	/* It waits in a collective for those who wait for it in a barrier. */
	miss_barrier(4, 2);
	twt_vs_wait_in(&job, 2, 81, 3000);
	twt_vs_expect(&job, TWI_CAUSE_OTHER_OPERATION, 2);
	/* The other way around. */
	twt_vs_healthy(&job, 4);
	twt_vs_miss(&job, 1, 3000);
	for (uint32_t i = 0; i < 4; i++)
		if (i != 1)
			twt_vs_barriers(&job, i, 4, 0);
	twt_vs_barriers(&job, 1, 5, 3000);
	twt_vs_expect(&job, TWI_CAUSE_OTHER_OPERATION, 1);
	/* One against one: both, less surely. */
	miss_barrier(2, 1);
	twt_vs_wait_in(&job, 1, 81, 3000);
	twt_vs_judge(&job);
	assert_int_equal(job.verdict.finding_count, 1);
	assert_int_equal(job.verdict.findings[0].rank_count, 2);
	assert_true(job.verdict.findings[0].confidence < 0.7);
}

static void test_waits_in_a_circle(void **state)
{
	(void)state;
	twt_vs_healthy(&job, 3);
	twt_vs_miss(&job, 2, 3000);
	job.last[2].wait_count = 1;
	job.last[2].waits[0] = (struct twi_state_wait){ .kind = TWI_STATE_RECV,
							.stage = TWI_STATE_POSTED,
							.rank = 0,
							.tag = 9,
							.since_ns = VS_NOW - 3000 * VS_MS };
	twt_vs_expect_ranks(&job, TWI_CAUSE_DEADLOCK, 1 << 0 | 1 << 2);
	assert_non_null(strstr(job.verdict.findings[0].evidence[0],
			       "rank 0 has waited for 3.0 s in collective 81 of group 0, which "
			       "rank 2 has not entered; rank 2 has waited for 3.0 s to receive tag "
			       "9 from rank 0"));
	/* It waits for one that is in nobody's way: that one is to be looked at, not this. */
	job.last[2].waits[0].rank = TWI_STATE_NO_RANK;
	twt_vs_judge(&job);
	assert_int_equal(job.verdict.finding_count, 0);
	assert_true(job.verdict.stuck);
}

static void test_stopped_dead_silent(void **state)
{
	(void)state;
	twt_vs_healthy(&job, 4);
	twt_vs_miss(&job, 1, 3000);
	twt_vs_silent(&job, 1);
	job.ranks[1].process = TWI_PROCESS_STOPPED;
	job.ranks[1].process_state = 'T';
	twt_vs_expect(&job, TWI_CAUSE_STOPPED, 1);
	job.ranks[1].process = TWI_PROCESS_GONE;
	twt_vs_expect(&job, TWI_CAUSE_DEAD, 1);
	/* On another host: the kernel there acknowledges, and nobody answers. */
	job.ranks[1].process = TWI_PROCESS_UNKNOWN;
	twt_vs_expect(&job, TWI_CAUSE_STOPPED, 1);
	assert_true(job.verdict.findings[0].confidence < 0.8);
	job.ranks[1].process = TWI_PROCESS_RUNS;
	twt_vs_expect(&job, TWI_CAUSE_SILENT, 1);
	/* Who has gone in order is missed by nobody. */
	twt_vs_healthy(&job, 4);
	twt_vs_silent(&job, 1);
	job.ranks[1].process = TWI_PROCESS_GONE;
	job.ranks[1].lost = job.ranks[1].bye = true;
	twt_vs_judge(&job);
	assert_int_equal(job.verdict.finding_count, 0);
	assert_int_equal(job.verdict.unknown, 0);
}

static void test_silent_over_libfabric(void **state)
{
	struct twi_state_link *link;
	const char *said;

	(void)state;
	twt_vs_healthy(&job, 3);
	twt_vs_miss(&job, 1, 3000);
	twt_vs_silent(&job, 1);
	job.ranks[1].process = TWI_PROCESS_RUNS;
	link = twt_vs_link(&job.last[2], 1);
	link->flags = TWI_LINK_UP | TWI_LINK_FABRIC;
	link->pending_ops = 3;
	link->unacked_bytes = 4711;
	link->silent_ns = 2500 * VS_MS;
	strcpy(job.last[2].fabric, "tcp;ofi_rxm, domain eth0");
	twt_vs_expect(&job, TWI_CAUSE_SILENT, 1);
	assert_int_equal(job.verdict.findings[0].evidence_count, 2);
	said = job.verdict.findings[0].evidence[1];
	assert_non_null(strstr(said, "(tcp;ofi_rxm, domain eth0): it received from it 2.5 s ago, 3 "
				     "operations of 4711 bytes"));
	assert_non_null(strstr(said, "no TCP_INFO"));
}

static void test_silent_and_nobody_waits(void **state)
{
	(void)state;
	twt_vs_healthy(&job, 4);
	twt_vs_silent(&job, 3);
	twt_vs_judge(&job);
	assert_int_equal(job.verdict.finding_count, 0);
	assert_int_equal(job.verdict.unknown, 1);
}

static void stick(struct twi_state_link *link, uint32_t heard)
{
	link->stuck_ns = 2000 * VS_MS;
	link->backoffs = 3;
	link->heard_segments = heard;
}

static void test_link(void **state)
{
	(void)state;
	/* Seen from the side that sends and hears. */
	twt_vs_healthy(&job, 2);
	twt_vs_miss(&job, 1, 3000);
	twt_vs_silent(&job, 1);
	stick(twt_vs_link(&job.last[0], 1), 4);
	job.ranks[1].process = TWI_PROCESS_RUNS;
	twt_vs_expect_link(&job, TWI_CAUSE_LINK, 0, 1);
	/* From the side that hears nothing. */
	stick(twt_vs_link(&job.last[0], 1), 0);
	twt_vs_expect_link(&job, TWI_CAUSE_LINK, 1, 0);
	assert_true(job.verdict.findings[0].confidence < 0.8);
	/* From a third that hears both. */
	twt_vs_healthy(&job, 3);
	stick(twt_vs_link(&job.last[0], 1), 4);
	stick(twt_vs_link(&job.last[1], 0), 0);
	twt_vs_expect_link(&job, TWI_CAUSE_LINK, 0, 1);
}

/* Nothing has come for a moment: the other side may have had nothing to say. */
static void test_link_too_soon(void **state)
{
	(void)state;
	twt_vs_healthy(&job, 2);
	twt_vs_miss(&job, 1, 3000);
	twt_vs_silent(&job, 1);
	job.ranks[1].process = TWI_PROCESS_RUNS;
	stick(twt_vs_link(&job.last[0], 1), 0);
	twt_vs_link(&job.last[0], 1)->stuck_ns = 1200 * VS_MS;
	twt_vs_expect(&job, TWI_CAUSE_SILENT, 1);
	twt_vs_link(&job.last[0], 1)->stuck_ns = 1400 * VS_MS;
	twt_vs_expect_link(&job, TWI_CAUSE_LINK, 1, 0);
}

/* Of two streams one gets nothing through: not the path as such, whatever all together show. */
static void test_mtu(void **state)
{
	(void)state;
	twt_vs_healthy(&job, 3);
	twt_vs_link(&job.last[1], 2)->flags |= TWI_LINK_STREAM_STUCK;
	twt_vs_expect_link(&job, TWI_CAUSE_MTU, 1, 2);
	stick(twt_vs_link(&job.last[1], 2), 4);
	twt_vs_link(&job.last[2], 1)->retransmits = 40;
	twt_vs_expect_link(&job, TWI_CAUSE_MTU, 1, 2);
}

/* Rank 0 has no connection to it, and gets none; others do, and hear nothing. */
static void test_takes_no_connection(void **state)
{
	(void)state;
	twt_vs_healthy(&job, 4);
	twt_vs_miss(&job, 3, 4000);
	twt_vs_silent(&job, 3);
	job.ranks[3].asked = false;
	job.ranks[3].dialed = true;
	twt_vs_link(&job.last[0], 3)->flags = 0;
	for (uint32_t i = 1; i < 3; i++)
		twt_vs_link(&job.last[i], 3)->silent_ns = 3000 * VS_MS;
	twt_vs_expect(&job, TWI_CAUSE_STOPPED, 3);
	assert_true(job.verdict.findings[0].confidence < 0.8);
	/* One of them has heard of it: only the way from here is closed. */
	twt_vs_link(&job.last[2], 3)->silent_ns = 900 * VS_MS;
	twt_vs_judge(&job);
	assert_int_equal(job.verdict.finding_count, 0);
	assert_int_equal(job.verdict.unknown, 1);
}

static void test_packet_loss(void **state)
{
	struct twi_state_link *link;

	(void)state;
	twt_vs_healthy(&job, 3);
	link = twt_vs_link(&job.last[1], 2);
	link->retransmits = 40;
	twt_vs_expect_link(&job, TWI_CAUSE_PACKET_LOSS, 1, 2);
	link->spurious = 38; /* they had come all the same */
	twt_vs_judge(&job);
	assert_int_equal(job.verdict.finding_count, 0);
}

static void test_pool(void **state)
{
	(void)state;
	twt_vs_healthy(&job, 3);
	twt_vs_miss(&job, 1, 3000);
	job.last[1].pool_waiters = 1;
	job.last[1].pool_since_ns = VS_NOW - 2900 * VS_MS;
	twt_vs_expect(&job, TWI_CAUSE_POOL, 1);
	/* Nobody waits for that rank. */
	twt_vs_healthy(&job, 3);
	job.last[1].pool_waiters = 2;
	job.last[1].pool_since_ns = VS_NOW - 2900 * VS_MS;
	twt_vs_judge(&job);
	assert_int_equal(job.verdict.finding_count, 0);
	job.last[1].pool_since_ns = VS_NOW - 3100 * VS_MS;
	twt_vs_expect(&job, TWI_CAUSE_POOL, 1);
	/* It does not wait, but takes memory from outside; a little of that is nothing. */
	twt_vs_healthy(&job, 3);
	job.last[1].pool_overflows = 60;
	job.last[1].pool_overflow_bytes = 60 << 20;
	twt_vs_judge(&job);
	twt_vs_expect(&job, TWI_CAUSE_POOL, 1);
	job.last[1].pool_overflow_bytes = 60 << 16;
	twt_vs_judge(&job);
	assert_int_equal(job.verdict.finding_count, 0);
}

static void test_device(void **state)
{
	(void)state;
	twt_vs_healthy(&job, 3);
	twt_vs_miss(&job, 1, 3000);
	job.last[1].copies = 1;
	job.last[1].copy_since_ns = VS_NOW - 2900 * VS_MS;
	job.last[1].wait_count = 1;
	job.last[1].waits[0] = (struct twi_state_wait){ .kind = TWI_STATE_COPY,
							.rank = TWI_STATE_NO_RANK,
							.since_ns = VS_NOW - 2900 * VS_MS };
	twt_vs_expect(&job, TWI_CAUSE_DEVICE, 1);
}

static void test_credit(void **state)
{
	(void)state;
	twt_vs_healthy(&job, 2);
	for (unsigned i = 0; i < 2; i++) {
		struct twi_rank_state *at = i == 0 ? &job.first[0] : &job.last[0];

		twt_vs_link(at, 1)->flags |= TWI_LINK_NO_CREDIT;
		twt_vs_link(at, 1)->waiting_sends = 3;
		at->wait_count = 1;
		at->waits[0] = (struct twi_state_wait){ .kind = 2,
							.rank = 1,
							.since_ns = VS_NOW - 2000 * VS_MS };
	}
	twt_vs_expect(&job, TWI_CAUSE_CREDIT, 1);
	twt_vs_link(&job.first[0], 1)->flags &= ~TWI_LINK_NO_CREDIT; /* it moves */
	twt_vs_judge(&job);
	assert_int_equal(job.verdict.finding_count, 0);
}

/* Who does not receive cannot be answered by whom it leaves without credit. */
static void test_credit_seen_by_the_holder(void **state)
{
	(void)state;
	twt_vs_healthy(&job, 3);
	twt_vs_silent(&job, 2);
	twt_vs_link(&job.first[0], 2)->flags |= TWI_LINK_HOLDS;
	twt_vs_link(&job.last[0], 2)->flags |= TWI_LINK_HOLDS;
	twt_vs_expect(&job, TWI_CAUSE_CREDIT, 0);
	assert_int_equal(job.verdict.unknown, 1);
	/* It has received some meanwhile. */
	twt_vs_link(&job.last[0], 2)->flags &= ~TWI_LINK_HOLDS;
	twt_vs_judge(&job);
	assert_int_equal(job.verdict.finding_count, 0);
	/* All answer: that much is under way for a moment. */
	twt_vs_healthy(&job, 3);
	twt_vs_link(&job.first[0], 2)->flags |= TWI_LINK_HOLDS;
	twt_vs_link(&job.last[0], 2)->flags |= TWI_LINK_HOLDS;
	twt_vs_judge(&job);
	assert_int_equal(job.verdict.finding_count, 0);
}

static void test_tcp_buffers(void **state)
{
	struct twi_state_link *link;

	(void)state;
	twt_vs_healthy(&job, 3);
	link = twt_vs_link(&job.last[0], 2);
	link->busy_us += 300000;
	link->rwnd_limited_us = 280000;
	twt_vs_link(&job.last[2], 0)->receive_buffer = 4608;
	twt_vs_expect(&job, TWI_CAUSE_TCP_BUFFERS, 2);
	/* The same with a buffer as it should be: somebody just does not read. */
	twt_vs_link(&job.last[2], 0)->receive_buffer = 1 << 20;
	twt_vs_judge(&job);
	assert_int_equal(job.verdict.finding_count, 0);
	link->rwnd_limited_us = 0;
	link->sndbuf_limited_us = 290000;
	link->send_buffer = 4608;
	twt_vs_expect(&job, TWI_CAUSE_TCP_BUFFERS, 0);
}

static void test_late(void **state)
{
	(void)state;
	twt_vs_healthy(&job, 4);
	twt_vs_delay(&job, 2, 16, 50);
	twt_vs_expect(&job, TWI_CAUSE_LATE, 2);
	assert_false(job.verdict.stuck);
	/* Since a while. */
	twt_vs_healthy(&job, 4);
	twt_vs_delay(&job, 2, 7, 50);
	twt_vs_expect(&job, TWI_CAUSE_LATE, 2);
	/* Too little to matter. */
	twt_vs_healthy(&job, 4);
	twt_vs_delay(&job, 2, 16, 1);
	twt_vs_judge(&job);
	assert_int_equal(job.verdict.finding_count, 0);
	/* Once, by much. */
	twt_vs_healthy(&job, 4);
	twt_vs_delay(&job, 1, 1, 900);
	twt_vs_expect(&job, TWI_CAUSE_LATE, 1);
}

static void test_late_for_a_cpu(void **state)
{
	(void)state;
	twt_vs_healthy(&job, 4);
	twt_vs_delay(&job, 2, 16, 50);
	job.last[2].run_queue_ns = job.first[2].run_queue_ns + 300 * VS_MS;
	twt_vs_expect(&job, TWI_CAUSE_CPU, 2);
	/* It has not come yet, and wants to. */
	twt_vs_healthy(&job, 3);
	twt_vs_miss(&job, 1, 1500);
	job.last[1].run_queue_ns = job.first[1].run_queue_ns + 350 * VS_MS;
	twt_vs_expect(&job, TWI_CAUSE_CPU, 1);
}

static void test_late_and_missing(void **state)
{
	(void)state;
	twt_vs_healthy(&job, 3);
	twt_vs_miss(&job, 1, 1500);
	for (uint32_t i = 0; i < 3; i++) {
		struct twi_state_group *group = &job.last[i].groups[0];

		for (uint32_t k = i == 1 ? 0 : 1; k < TWI_STATE_PAST; k++) {
			uint64_t ago = (80 - group->past[k].seq) * 600 * VS_MS;

			group->past[k].start_ns =
				VS_NOW - 1600 * VS_MS - ago - (i != 1) * 590 * VS_MS;
			group->past[k].done_ns = VS_NOW - 1600 * VS_MS - ago + VS_MS;
		}
	}
	twt_vs_expect(&job, TWI_CAUSE_LATE, 1);
}

static void test_confidence(void **state)
{
	double sure;

	(void)state;
	twt_vs_healthy(&job, 4);
	twt_vs_miss(&job, 2, 3000);
	twt_vs_judge(&job);
	sure = job.verdict.findings[0].confidence;
	job.last[1].lost = 5;
	twt_vs_judge(&job);
	assert_true(job.verdict.telemetry_lost);
	assert_true(job.verdict.findings[0].confidence < sure);
	job.last[1].lost = 0;
	twt_vs_silent(&job, 3);
	job.ranks[3].asked = false;
	twt_vs_judge(&job);
	assert_int_equal(job.verdict.unknown, 1);
	assert_true(job.verdict.findings[0].confidence < sure);
}

static void test_words(void **state)
{
	struct twi_emit emit;
	char text[512];

	(void)state;
	twt_vs_healthy(&job, 3);
	twt_vs_judge(&job);
	twi_verdict_short(&job.verdict, text, sizeof(text));
	assert_string_equal(text, "");
	twt_vs_miss(&job, 2, 3000);
	twt_vs_judge(&job);
	twi_verdict_short(&job.verdict, text, sizeof(text));
	assert_non_null(strstr(text, "rank 2: never_entered"));
	assert_non_null(strstr(text, "collective 81 of group 0"));
	twi_verdict_short(&job.verdict, text, 16); /* cut, and ended */
	assert_int_equal(strlen(text), 15);
	twi_emit_init(&emit);
	twi_emit_object_begin(&emit, NULL);
	twi_verdict_emit(&job.verdict, &job.what, &emit);
	twi_emit_object_end(&emit);
	assert_non_null(strstr(emit.text, "\"cause\":\"never_entered\""));
	assert_non_null(strstr(emit.text, "\"state\":\"stuck\""));
	twi_emit_fini(&emit);
	twi_verdict_text(&job.verdict, &emit);
	assert_non_null(strstr(emit.text, "towline: verdict: stuck; 3 of 3 ranks answered"));
	twi_emit_fini(&emit);
	for (unsigned i = 0; i < TWI_CAUSES; i++) {
		assert_true(strlen(twi_cause_name((enum twi_cause)i)) > 0);
		assert_true(strlen(twi_cause_cure((enum twi_cause)i)) > 0);
	}
}

/* What other ranks say of themselves is shown on a terminal, and not obeyed by it. */
static void test_clean_text(void **state)
{
	static struct twi_verdict verdict = { .finding_count = 1, .ranks = 2, .answered = 2 };
	struct twi_verdict_finding *finding = &verdict.findings[0];
	struct twi_emit emit;

	(void)state;
	finding->rank_count = finding->evidence_count = 1;
	snprintf(finding->evidence[0], sizeof(finding->evidence[0]),
		 "host a\x1b[2J\nrank 0: all is well\xc2\x9b");
	twi_emit_init(&emit);
	twi_verdict_text(&verdict, &emit);
	assert_non_null(strstr(emit.text, "host a\\x1b[2J\\x0arank 0: all is well\\xc2\\x9b\n"));
	assert_null(strchr(emit.text, 0x1b));
	twi_emit_fini(&emit);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clean_text),
		cmocka_unit_test(test_healthy),
		cmocka_unit_test(test_never_entered),
		cmocka_unit_test(test_two_never_entered),
		cmocka_unit_test(test_group_broken_by_deadline),
		cmocka_unit_test(test_other_operation),
		cmocka_unit_test(test_barrier),
		cmocka_unit_test(test_barrier_or_collective),
		cmocka_unit_test(test_waits_in_a_circle),
		cmocka_unit_test(test_stopped_dead_silent),
		cmocka_unit_test(test_silent_over_libfabric),
		cmocka_unit_test(test_silent_and_nobody_waits),
		cmocka_unit_test(test_link),
		cmocka_unit_test(test_link_too_soon),
		cmocka_unit_test(test_mtu),
		cmocka_unit_test(test_takes_no_connection),
		cmocka_unit_test(test_packet_loss),
		cmocka_unit_test(test_pool),
		cmocka_unit_test(test_device),
		cmocka_unit_test(test_credit),
		cmocka_unit_test(test_credit_seen_by_the_holder),
		cmocka_unit_test(test_tcp_buffers),
		cmocka_unit_test(test_late),
		cmocka_unit_test(test_late_for_a_cpu),
		cmocka_unit_test(test_late_and_missing),
		cmocka_unit_test(test_confidence),
		cmocka_unit_test(test_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
