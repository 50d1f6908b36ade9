/*
 * test_verdict_flows.c - messages of other libraries, in states made by hand: a slow link, a slow
 * device, what spreads from them and names nobody; and names of communicators in evidence.
 */
#include "twt.h"

#include "verdict_states.h"

#define CTX   (TWI_STATE_FOREIGN | 77u)
#define RANKS 4u
#define COUNT 200u /* messages in the window */
#define BYTES 524288u

static struct twt_vs_job job;

/* Rank r of the ring sends to r + 1. All times are of one message. */
static struct twi_state_flow *flow_at(uint32_t rank, bool sends)
{
	return &job.last[rank].flows[sends ? 0 : 1];
}

static void take(uint32_t rank, bool sends, uint64_t device_us, uint64_t peer_us, uint64_t wire_us)
{
	struct twi_state_flow *flow = flow_at(rank, sends);

	flow->device_ns = COUNT * device_us * 1000;
	flow->peer_ns = COUNT * peer_us * 1000;
	flow->wire_ns = COUNT * wire_us * 1000;
}

/* A job whose only group is another library's, in which the ranks stand backwards. */
static void healthy(void)
{
	twt_vs_healthy(&job, RANKS);
	for (uint32_t i = 0; i < RANKS; i++) {
		struct twi_rank_state *states[2] = { &job.first[i], &job.last[i] };

		for (unsigned k = 0; k < 2; k++) {
			states[k]->groups[0].ctx = CTX;
			states[k]->groups[0].rank = RANKS - 1 - i;
			snprintf(states[k]->groups[0].name, TWI_STATE_NAME, "dp_0");
		}
		states[1]->flow_count = 2;
		for (unsigned k = 0; k < 2; k++)
			states[1]->flows[k] = (struct twi_state_flow){
				.ctx = CTX,
				.peer = (RANKS - 1 - i + (k == 0 ? 1 : RANKS - 1)) % RANKS,
				.sends = k == 0,
				.window_ns = 2000 * VS_MS,
				.messages = COUNT,
				.bytes = (uint64_t)COUNT * BYTES
			};
		take(i, true, 300, 40, 100);
		take(i, false, 30, 0, 400);
	}
}

static void nobody(void)
{
	twt_vs_judge(&job);
	assert_int_equal(job.verdict.finding_count, 0);
}

static void healthy_names_nobody(void **state)
{
	(void)state;
	healthy();
	nobody();
	for (uint32_t i = 0; i < RANKS; i++) { /* all alike, if slow */
		take(i, true, 300, 40, 9000);
		take(i, false, 8000, 0, 400);
	}
	nobody();
}

/* Rank 1 of the job, 2 of the group, sends to 3 of the group: rank 0 of the job. */
static void slow_link(void **state)
{
	(void)state;
	healthy();
	take(1, true, 100, 40, 8000);
	twt_vs_expect_link(&job, TWI_CAUSE_SLOW_LINK, 1, 0);
	assert_non_null(strstr(job.verdict.findings[0].evidence[0], "communicator"));
	assert_non_null(strstr(job.verdict.findings[0].evidence[0], "dp_0"));
	/* What spreads from it: its sender's device is stopped by full buffers, and so on. */
	take(1, false, 7900, 0, 200);
	take(2, true, 100, 7800, 100);
	take(2, false, 7700, 0, 200);
	take(0, false, 30, 0, 8000);
	twt_vs_expect_link(&job, TWI_CAUSE_SLOW_LINK, 1, 0);
}

/* Rank 0 comes 20 ms late; until then what rank 1 has sent to it is on its way. */
static void late_receiver(void **state)
{
	(void)state;
	healthy();
	twt_vs_delay(&job, 0, 16, 20);
	take(1, true, 100, 40, 16000);
	twt_vs_expect(&job, TWI_CAUSE_LATE, 0);
	take(1, true, 100, 40, 60000); /* more than that explains */
	twt_vs_judge(&job);
	assert_int_equal(job.verdict.finding_count, 2);
	assert_int_equal(job.verdict.findings[0].cause, TWI_CAUSE_LATE);
	assert_int_equal(job.verdict.findings[1].cause, TWI_CAUSE_SLOW_LINK);
	healthy();
	twt_vs_delay(&job, 3, 16, 20); /* another one comes late */
	take(1, true, 100, 40, 16000);
	twt_vs_judge(&job);
	assert_int_equal(job.verdict.finding_count, 2);
}

static void slow_device(void **state)
{
	(void)state;
	healthy();
	take(2, false, 8000, 0, 100);
	twt_vs_expect(&job, TWI_CAUSE_DEVICE, 2);
	assert_non_null(strstr(job.verdict.findings[0].evidence[0], "dp_0"));
	/* Who sends to it waits for it; the device of that one is stopped. */
	take(3, true, 100, 7900, 100);
	take(3, false, 7800, 0, 100);
	twt_vs_expect(&job, TWI_CAUSE_DEVICE, 2);
}

/* Too few, too seldom, too short, less than four times, larger messages: nobody. */
static void bounds(void **state)
{
	(void)state;
	healthy();
	take(1, true, 0, 0, 8000);
	flow_at(1, true)->messages = 3;
	nobody();
	healthy();
	flow_at(1, true)->messages = 20;
	flow_at(1, true)->bytes = 20ull * BYTES;
	flow_at(1, true)->wire_ns = 20 * 8 * VS_MS; /* 8 % of two seconds */
	nobody();
	flow_at(1, true)->window_ns = 700 * VS_MS; /* 23 % */
	twt_vs_expect_link(&job, TWI_CAUSE_SLOW_LINK, 1, 0);
	healthy();
	for (uint32_t i = 0; i < RANKS; i++)
		take(i, true, 0, 0, i == 1 ? 450 : 10);
	flow_at(1, true)->window_ns = VS_MS;
	nobody();
	healthy();
	for (uint32_t i = 0; i < RANKS; i++)
		take(i, true, 0, 0, i == 1 ? 3900 : 1000);
	nobody();
	take(1, true, 0, 0, 4100);
	twt_vs_expect_link(&job, TWI_CAUSE_SLOW_LINK, 1, 0);
	flow_at(1, true)->bytes *= 4; /* its messages are larger, its rate is as the others' */
	nobody();
	healthy();
	for (uint32_t i = 1; i < RANKS; i++)
		job.last[i].flow_count = 0; /* with nobody to compare it with */
	take(0, true, 0, 0, 8000);
	nobody();
}

/* A rank that comes late has its messages waiting for its device, too: it is late. */
static void late_comes_first(void **state)
{
	(void)state;
	healthy();
	twt_vs_delay(&job, 2, 10, 15);
	take(2, false, 8000, 0, 100);
	twt_vs_expect(&job, TWI_CAUSE_LATE, 2);
	assert_non_null(strstr(job.verdict.findings[0].evidence[0], "of communicator dp_0"));
}

/* Two processes, of which each is two ranks: they are compared, and links are found. */
static void several_ranks_of_one(void **state)
{
	(void)state;
	healthy();
	job.what.rank_count = 2;
	for (uint32_t i = 0; i < 2; i++) {
		job.last[i].groups[0].local_count = 2;
		job.last[i].groups[0].locals[0] = job.last[i].groups[0].rank;
		job.last[i].groups[0].locals[1] = job.last[i].groups[0].rank - 2;
		flow_at(i, true)->peer = i; /* a rank of the other process, not its first */
	}
	nobody();
	take(1, true, 0, 0, 8000);
	twt_vs_expect_link(&job, TWI_CAUSE_SLOW_LINK, 1, 0);
	take(1, true, 0, 0, 100);
	twt_vs_delay(&job, 1, 10, 15);
	twt_vs_expect(&job, TWI_CAUSE_LATE, 1);
	job.last[1].groups[0].local_count = 1; /* one is not known: nobody is judged */
	nobody();
	job.what.rank_count = 1; /* all of them in one process: nobody to compare it with */
	job.last[0].groups[0].local_count = 4;
	nobody();
}

static void missing_is_named(void **state)
{
	(void)state;
	healthy();
	for (uint32_t i = 0; i < RANKS; i++) {
		struct twi_rank_state *states[2] = { &job.first[i], &job.last[i] };

		for (unsigned k = 0; k < 2; k++) {
			twt_vs_past(&states[k]->groups[0], i == 3 ? 80 : 81,
				    VS_NOW - 4000 * VS_MS - (i == 3 ? VS_STEP : 0));
			if (i != 3)
				states[k]->groups[0].past[0].done_ns = 0;
		}
	}
	twt_vs_expect(&job, TWI_CAUSE_NEVER_ENTERED, 3);
	assert_non_null(
		strstr(job.verdict.findings[0].evidence[0], "collective 81 of communicator dp_0"));
}

/* Whatever ranks say: no trap, and no group of ours is judged by messages. */
static void hostile(void **state)
{
	uint64_t seed = twt_seed();

	(void)state;
	for (unsigned turn = 0; turn < 2000; turn++) {
		healthy();
		for (uint32_t i = 0; i < RANKS; i++) {
			job.last[i].flow_count = TWI_STATE_FLOWS;
			for (uint32_t k = 0; k < TWI_STATE_FLOWS; k++) {
				uint64_t *words = (uint64_t *)&job.last[i].flows[k].window_ns;

				job.last[i].flows[k].ctx =
					twt_random(&seed) % 2 ? CTX : (uint32_t)twt_random(&seed);
				job.last[i].flows[k].peer = (uint32_t)twt_random(&seed);
				for (unsigned w = 0; w < 6; w++)
					words[w] = twt_random(&seed) >> twt_random(&seed) % 64;
			}
		}
		twt_vs_judge(&job);
	}
	healthy();
	take(1, true, 0, 0, 8000);
	for (uint32_t i = 0; i < RANKS; i++) {
		job.last[i].groups[0].ctx = 0;
		job.first[i].groups[0].ctx = 0;
		job.last[i].flows[0].ctx = job.last[i].flows[1].ctx = 0;
	}
	nobody();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(healthy_names_nobody),
		cmocka_unit_test(slow_link),
		cmocka_unit_test(late_receiver),
		cmocka_unit_test(slow_device),
		cmocka_unit_test(bounds),
		cmocka_unit_test(late_comes_first),
		cmocka_unit_test(missing_is_named),
		cmocka_unit_test(hostile),
		cmocka_unit_test(several_ranks_of_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
