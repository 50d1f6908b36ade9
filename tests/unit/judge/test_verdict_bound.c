/*
 * test_verdict_bound.c - how much of their time ranks are blocked, by states made by hand: slow or
 * healthy, who all others wait for, slow links, storage, and what it costs.
 */
#include "verdict_states.h"

#include "diag/base/emit.h"
#include "diag/record/lane_id.h"

static struct twt_vs_job job;

/* Of the last ten seconds rank `rank` was blocked for `percent`, for that, in steps. */
static struct twi_state_waited *set_blocked(uint32_t rank, enum twi_waited kind, unsigned percent)
{
	struct twi_state_waited *waited = &job.last[rank].longer;

	*waited = (struct twi_state_waited){
		.window_ns = 10000 * VS_MS, .waits = 100, .steps = 50, .step_ns = 9900 * VS_MS
	};
	waited->ns[kind] = percent * 100 * VS_MS;
	return waited;
}

static void set_awaited(uint32_t rank, enum twi_waited kind, unsigned percent, uint32_t peer)
{
	struct twi_state_waited *waited = set_blocked(rank, kind, percent);

	waited->awaited_count = 1;
	waited->awaited[0].rank = peer;
	waited->awaited[0].ns = waited->ns[kind];
}

static const char *state_name(void)
{
	return twi_verdict_state_name(job.verdict.stuck,
				      job.verdict.finding_count > 0 || job.verdict.waits.slow);
}

static void expect_nobody(const char *state)
{
	twt_vs_judge(&job);
	if (job.verdict.finding_count > 0)
		fail_msg("%s", job.verdict.findings[0].evidence[0]);
	assert_string_equal(state_name(), state);
}

static void test_share(void **state)
{
	char text[512];

	(void)state;
	twt_vs_healthy(&job, 3);
	expect_nobody("healthy"); /* of none is anything known */
	assert_int_equal(job.verdict.waits.ranks, 0);
	for (uint32_t i = 0; i < 3; i++)
		set_blocked(i, TWI_WAITED_COLL, 19);
	expect_nobody("healthy");
	for (uint32_t i = 0; i < 3; i++)
		set_blocked(i, TWI_WAITED_COLL, 83);
	expect_nobody("slow");
	assert_non_null(job.verdict.waits.mend);
	assert_non_null(strstr(job.verdict.waits.says, "83 % for collectives"));
	twi_verdict_short(&job.verdict, text, sizeof(text));
	assert_non_null(strstr(text, "nobody is named: ranks are blocked for 83 % of their time"));
	/* One that has less to do than the others makes no job slow, and one that waits for nobody
	 * none healthy. */
	for (uint32_t i = 0; i < 3; i++)
		set_blocked(i, TWI_WAITED_COLL, i == 0 ? 95 : 5);
	expect_nobody("healthy");
	for (uint32_t i = 0; i < 3; i++)
		set_blocked(i, i == 1 ? TWI_WAITED_SEND : TWI_WAITED_COLL, i == 0 ? 0 : 25);
	expect_nobody("slow");
	assert_true(job.verdict.waits.share > 0.24 && job.verdict.waits.share < 0.26);
	assert_non_null(strstr(job.verdict.waits.says, "12 % for collectives, 12 % for sends"));
	/* The last seconds count, where enough is known of them. */
	for (uint32_t i = 0; i < 3; i++) {
		set_blocked(i, TWI_WAITED_COLL, 5);
		job.last[i].lately =
			(struct twi_state_waited){ .window_ns = 2000 * VS_MS, .waits = 9 };
		job.last[i].lately.ns[TWI_WAITED_COLL] = 1000 * VS_MS;
	}
	expect_nobody("slow");
	for (uint32_t i = 0; i < 3; i++)
		job.last[i].lately.waits = 7;
	expect_nobody("healthy");
}

/* Who waits to receive may have nothing to do, unless it tells of steps, or calls collectives. */
static void test_idle(void **state)
{
	(void)state;
	twt_vs_healthy(&job, 3);
	for (uint32_t i = 0; i < 3; i++)
		set_awaited(i, TWI_WAITED_RECV, 95, (i + 1) % 3);
	expect_nobody("slow");
	for (uint32_t i = 0; i < 3; i++)
		job.last[i].longer.steps = 0;
	expect_nobody("healthy");
	for (uint32_t i = 0; i < 3; i++)
		job.last[i].longer.ns[TWI_WAITED_COLL] = VS_MS;
	expect_nobody("slow");
	for (uint32_t i = 0; i < 3; i++)
		set_blocked(i, TWI_WAITED_COPY, 95);
	expect_nobody("healthy");
}

/* Stages 0 -> 1 -> 2 <- 3: the third takes longest. */
static void make_stages(void)
{
	twt_vs_healthy(&job, 4);
	set_awaited(0, TWI_WAITED_RECV, 75, 1);
	set_awaited(1, TWI_WAITED_SEND, 70, 2);
	set_awaited(2, TWI_WAITED_RECV, 12, 3);
	set_awaited(3, TWI_WAITED_RECV, 72, 2);
}

static void test_stage(void **state)
{
	(void)state;
	make_stages();
	twt_vs_judge(&job);
	twt_vs_expect(&job, TWI_CAUSE_SLOW_STAGE, 2);
	assert_non_null(strstr(job.verdict.findings[0].evidence[0],
			       "rank 0 waited for rank 1 for 75 % of 10 s, rank 1 waited for rank "
			       "2 for 70 %"));
	/* It wants a CPU, and has none: that is told. */
	twt_vs_cpu(&job, 2, 200, 20);
	twt_vs_judge(&job);
	twt_vs_expect(&job, TWI_CAUSE_CPU, 2);
	/* It waits as they do. */
	make_stages();
	set_awaited(2, TWI_WAITED_RECV, 30, 3);
	expect_nobody("slow");
	/* Two of them wait for each other, and not for it. */
	make_stages();
	set_awaited(0, TWI_WAITED_RECV, 75, 1);
	set_awaited(1, TWI_WAITED_RECV, 75, 0);
	expect_nobody("slow");
	/* Two wait for nobody. */
	make_stages();
	set_awaited(3, TWI_WAITED_RECV, 1, 2);
	expect_nobody("slow");
	/* One has not answered. */
	make_stages();
	twt_vs_silent(&job, 3);
	expect_nobody("slow");
	/* The way from it is what takes long. */
	make_stages();
	twt_vs_link(&job.last[2], 3)->busy_us += 380000;
	twt_vs_link(&job.last[2], 3)->carried_out =
		(struct twi_state_carried){ 4000, 3, 3 << 20, 3900 * VS_MS };
	expect_nobody("slow");
	/* Something is lost on it, or between others. */
	make_stages();
	twt_vs_link(&job.last[0], 1)->retransmits = 1;
	expect_nobody("slow");
	/* It waits as they do, by receives that count for nothing, as there are no steps. */
	make_stages();
	for (uint32_t i = 0; i < 4; i++) {
		set_awaited(i, TWI_WAITED_SEND, 70, 2);
		job.last[i].longer.steps = 0;
	}
	set_awaited(2, TWI_WAITED_RECV, 60, 1);
	job.last[2].longer.steps = 0;
	expect_nobody("slow");
	make_stages();
	twt_vs_link(&job.last[2], 3)->busy_us += 380000;
	twt_vs_link(&job.last[2], 3)->carried_out =
		(struct twi_state_carried){ 4000, 3, 3 << 20, 3900 * VS_MS };
	/* TCP alone says so, as it acknowledges late. */
	twt_vs_link(&job.last[2], 3)->carried_out.wire_ns = 40 * VS_MS;
	twt_vs_judge(&job);
	twt_vs_expect(&job, TWI_CAUSE_SLOW_STAGE, 2);
}

/* Rank `from` has sent to `to`, as the one side of it knows, without steps. */
static void add_way(uint32_t from, uint32_t to, bool sender_knows)
{
	const struct twi_state_carried carried = { 4000, 2, 2 << 10, VS_MS };

	if (sender_knows)
		twt_vs_link(&job.last[from], to)->carried_out = carried;
	else
		twt_vs_link(&job.last[to], from)->carried_in = carried;
}

/* All but rank 2 wait for the rank below them, no one tells of steps, and no messages are known. */
static void make_waiting(uint32_t size)
{
	twt_vs_healthy(&job, size);
	for (uint32_t i = 0; i < size; i++) {
		set_awaited(i, TWI_WAITED_RECV, i == 2 ? 1 : 70, (i + size - 1) % size);
		job.last[i].longer.steps = 0;
	}
	for (uint32_t i = 0; i < size; i++)
		for (uint32_t k = 0; k < job.last[i].link_count; k++)
			job.last[i].links[k].carried_in = job.last[i].links[k].carried_out =
				(struct twi_state_carried){ 0 };
}

/* Receives count without steps where what is late comes back to who is late. */
static void test_rounds(void **state)
{
	(void)state;
	for (uint32_t size = 3; size <= 4; size++) {
		make_waiting(size);
		for (uint32_t i = 0; i < size; i++)
			add_way(i, (i + 1) % size, i % 2 == 0);
		twt_vs_judge(&job);
		twt_vs_expect(&job, TWI_CAUSE_SLOW_STAGE, 2);
		/* One message is the start of something, or its end. */
		twt_vs_link(&job.last[2], (size + 2 - 1) % size)->carried_in.messages = 1;
		twt_vs_link(&job.last[1], 2)->carried_out.messages = 1;
		expect_nobody("healthy");
	}
	/* Of the start there were two, and they are far fewer than others. */
	make_waiting(4);
	for (uint32_t i = 0; i < 4; i++) {
		add_way(i, (i + 1) % 4, true);
		twt_vs_link(&job.last[i], (i + 1) % 4)->carried_out.messages = i == 3 ? 2 : 65;
	}
	expect_nobody("healthy");
	twt_vs_link(&job.last[3], 0)->carried_out.messages = 3;
	twt_vs_judge(&job);
	twt_vs_expect(&job, TWI_CAUSE_SLOW_STAGE, 2);
	/* A pipeline: its last stage may wait for something to do. */
	make_waiting(4);
	for (uint32_t i = 0; i < 3; i++)
		add_way(i, i + 1, true);
	expect_nobody("healthy");
	/* A server and its clients. */
	make_waiting(4);
	for (uint32_t i = 1; i < 4; i++) {
		add_way(0, i, true);
		add_way(i, 0, false);
	}
	expect_nobody("healthy");
	/* Two servers, and two clients that have nothing to ask. */
	make_waiting(4);
	for (uint32_t i = 0; i < 4; i++) {
		add_way(i, (i + 1) % 4, true);
		add_way(i, (i + 3) % 4, false);
	}
	set_awaited(0, TWI_WAITED_RECV, 1, 1);
	job.last[0].longer.steps = 0;
	expect_nobody("healthy");
	/* One of the two has something to ask, or is neighbour to two. */
	set_awaited(0, TWI_WAITED_RECV, 70, 3);
	job.last[0].longer.steps = 0;
	twt_vs_judge(&job);
	twt_vs_expect(&job, TWI_CAUSE_SLOW_STAGE, 2);
}

/* Messages that are on their way for long are there for a rank, where the way is memory. */
static void test_memory(void **state)
{
	(void)state;
	for (unsigned memory = 0; memory < 2; memory++) {
		make_stages();
		twt_vs_link(&job.last[2], 3)->flags &= (uint32_t)~TWI_LINK_TCP;
		twt_vs_link(&job.last[2], 3)->lane = memory ? TWI_LANE_SHM : TWI_LANE_OFI;
		twt_vs_link(&job.last[2], 3)->carried_out =
			(struct twi_state_carried){ 4000, 3, 3 << 20, 3900 * VS_MS };
		if (!memory) {
			expect_nobody("slow");
			continue;
		}
		twt_vs_judge(&job);
		twt_vs_expect(&job, TWI_CAUSE_SLOW_STAGE, 2);
	}
}

/* Those who send to it have no credit at times: more of it may be all that is missing. */
static void test_credit(void **state)
{
	(void)state;
	twt_vs_healthy(&job, 3);
	for (uint32_t i = 1; i < 3; i++)
		set_awaited(i, TWI_WAITED_SEND, 60, 0);
	twt_vs_judge(&job);
	twt_vs_expect(&job, TWI_CAUSE_SLOW_STAGE, 0);
	twt_vs_link(&job.first[2], 0)->flags |= TWI_LINK_NO_CREDIT;
	twt_vs_judge(&job);
	twt_vs_expect(&job, TWI_CAUSE_CREDIT, 0);
}

/* Steps of a job in which ranks 1 and 2 compute, then send much at once to rank 0. */
static void make_flow(unsigned starved_ms)
{
	twt_vs_healthy(&job, 3);
	for (uint32_t i = 1; i < 3; i++) {
		set_awaited(i, TWI_WAITED_SEND, 45, 0);
		twt_vs_link(&job.last[i], 0)->starved_ns = starved_ms * VS_MS;
	}
	set_awaited(0, TWI_WAITED_RECV, 40, 1); /* while they compute */
}

/* None has waited for long in either look, but all do again and again. */
static void test_starved_sends(void **state)
{
	(void)state;
	make_flow((unsigned)(VS_GAP / VS_MS * 40 / 100));
	twt_vs_judge(&job);
	twt_vs_expect(&job, TWI_CAUSE_CREDIT, 0);
	/* They had credit for most of that: something else is slow. */
	make_flow((unsigned)(VS_GAP / VS_MS * 15 / 100));
	expect_nobody("slow");
	/* It cannot send what it has received on itself. */
	make_flow((unsigned)(VS_GAP / VS_MS * 40 / 100));
	set_awaited(0, TWI_WAITED_SEND, 40, 2);
	expect_nobody("slow");
	/* They hardly wait. */
	make_flow((unsigned)(VS_GAP / VS_MS * 15 / 100));
	for (uint32_t i = 1; i < 3; i++)
		set_awaited(i, TWI_WAITED_SEND, 16, 0);
	set_awaited(0, TWI_WAITED_RECV, 10, 1);
	expect_nobody("healthy");
}

static void set_called(uint32_t client, uint64_t total_ms, uint64_t wire_ms)
{
	twt_vs_link(&job.last[client], 0)->called =
		(struct twi_state_called){ total_ms * VS_MS, wire_ms * VS_MS };
}

static void test_server(void **state)
{
	(void)state;
	twt_vs_healthy(&job, 3);
	for (uint32_t i = 1; i < 3; i++) {
		set_awaited(i, TWI_WAITED_CALL, 60, 0);
		set_called(i, 240, 20);
	}
	twt_vs_judge(&job);
	twt_vs_expect(&job, TWI_CAUSE_SLOW_SERVER, 0);
	/* It sits in a wait for its end; that is no matter. */
	set_blocked(0, TWI_WAITED_RECV, 99);
	twt_vs_judge(&job);
	twt_vs_expect(&job, TWI_CAUSE_SLOW_SERVER, 0);
	/* One of the clients waits for something else. */
	set_awaited(2, TWI_WAITED_RECV, 60, 1);
	expect_nobody("slow");
	set_awaited(2, TWI_WAITED_CALL, 60, 0);
	/* The way there and back takes most of it. */
	set_called(1, 240, 200);
	set_called(2, 240, 200);
	expect_nobody("slow");
	assert_non_null(strstr(job.verdict.waits.mend, "towdoctor --peer"));
	assert_non_null(strstr(job.verdict.waits.says, "what calls took 83 % was on the wire"));
	/* The server takes most of it, and not both wait for it alone. */
	set_called(1, 240, 20);
	set_called(2, 240, 20);
	set_awaited(2, TWI_WAITED_CALL, 60, 1);
	expect_nobody("slow");
	assert_non_null(strstr(job.verdict.waits.mend, "/v1/rpc where calls spend their time"));
}

/* Rank 1's link to rank 2 carries a message in 40 ms; the others take 1 ms for as much. */
static void make_link(void)
{
	twt_vs_healthy(&job, 3);
	for (uint32_t i = 0; i < 3; i++) {
		set_blocked(i, TWI_WAITED_COLL, 70);
		for (uint32_t k = 0; k < 3; k++) {
			struct twi_state_link *link = twt_vs_link(&job.last[i], k);
			uint64_t ms = i == 1 && k == 2 ? 40 : 1;

			if (k == i)
				continue;
			link->carried_out =
				(struct twi_state_carried){ 4000, 50, 50 << 20, 50 * ms * VS_MS };
			link->busy_us = twt_vs_link(&job.first[i], k)->busy_us + ms * 9000;
		}
	}
}

static void test_link(void **state)
{
	(void)state;
	make_link();
	twt_vs_judge(&job);
	twt_vs_expect_link(&job, TWI_CAUSE_SLOW_LINK, 1, 2);
	/* By the times of its receiver: the same. */
	make_link();
	twt_vs_link(&job.last[2], 1)->carried_in = twt_vs_link(&job.last[1], 2)->carried_out;
	twt_vs_link(&job.last[1], 2)->carried_out = (struct twi_state_carried){ 0 };
	twt_vs_judge(&job);
	twt_vs_expect_link(&job, TWI_CAUSE_SLOW_LINK, 1, 2);
	/* TCP does not know of it: the receiver has not looked. */
	twt_vs_link(&job.last[1], 2)->busy_us = twt_vs_link(&job.first[1], 2)->busy_us + 4000;
	expect_nobody("slow");
	/* It is the only one between two hosts: those within one are no measure. */
	make_link();
	job.last[2].boot = job.first[2].boot = 77;
	for (uint32_t i = 0; i < 2; i++) {
		twt_vs_link(&job.last[i], 2)->carried_out.wire_ns = 2000 * VS_MS;
		twt_vs_link(&job.last[2], i)->carried_out.wire_ns = 2000 * VS_MS;
	}
	expect_nobody("slow");
	/* The job does not wait: it is no matter. */
	make_link();
	for (uint32_t i = 0; i < 3; i++)
		set_blocked(i, TWI_WAITED_COLL, 10);
	expect_nobody("healthy");
}

/* It comes late, and reads from storage meanwhile, as no other does. */
static void test_input(void **state)
{
	(void)state;
	twt_vs_healthy(&job, 3);
	twt_vs_delay(&job, 1, TWI_STATE_PAST, 100);
	for (uint32_t i = 0; i < 3; i++) {
		set_blocked(i, TWI_WAITED_COLL, i == 1 ? 1 : 45);
		twt_vs_cpu(&job, i, 5, 15);
	}
	twt_vs_judge(&job);
	twt_vs_expect(&job, TWI_CAUSE_LATE, 1);
	job.last[1].longer.read_bytes = 300000000;
	twt_vs_judge(&job);
	twt_vs_expect(&job, TWI_CAUSE_INPUT, 1);
	assert_non_null(strstr(job.verdict.findings[0].evidence[0], "30.0 MB/s from storage"));
	job.last[1].longer.read_bytes = 0;
	job.last[1].longer.major_faults = 3000;
	twt_vs_judge(&job);
	twt_vs_expect(&job, TWI_CAUSE_INPUT, 1);
	/* They all do: it is not that. */
	for (uint32_t i = 0; i < 3; i++)
		job.last[i].longer.major_faults = 3000;
	twt_vs_judge(&job);
	twt_vs_expect(&job, TWI_CAUSE_LATE, 1);
}

/* 100 ms of each 100 + VS_STEP are lost by it. */
static void test_savings(void **state)
{
	const double all = (double)(100 * VS_MS + VS_STEP);
	const struct twi_verdict_finding *finding = &job.verdict.findings[0];

	(void)state;
	twt_vs_healthy(&job, 3);
	twt_vs_delay(&job, 1, TWI_STATE_PAST, 100);
	set_blocked(1, TWI_WAITED_COLL, 1);
	twt_vs_judge(&job);
	twt_vs_expect(&job, TWI_CAUSE_LATE, 1);
	assert_true(finding->saves > 0.95 * 100 * VS_MS / all);
	assert_true(finding->saves < 1.05 * 100 * VS_MS / all);
	assert_int_equal(finding->step_ns, 198 * VS_MS);
	assert_non_null(strstr(finding->evidence[1], "a step takes 198.0 ms; without that"));
	/* Without steps the share alone is known. */
	job.last[1].longer.steps = 0;
	twt_vs_judge(&job);
	assert_true(finding->saves > 0);
	assert_int_equal(finding->step_ns, 0);
	assert_int_equal(finding->evidence_count, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_share),         cmocka_unit_test(test_idle),
		cmocka_unit_test(test_stage),         cmocka_unit_test(test_credit),
		cmocka_unit_test(test_starved_sends), cmocka_unit_test(test_server),
		cmocka_unit_test(test_link),          cmocka_unit_test(test_input),
		cmocka_unit_test(test_savings),       cmocka_unit_test(test_rounds),
		cmocka_unit_test(test_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
