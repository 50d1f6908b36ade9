/*
 * test_netns_breaks.c - verified traffic between two namespaces over a link that breaks: a
 * partition that heals, connections that are reset every 100 ms, a bulk stream cut in the middle of
 * a large message, a host that vanishes without a FIN, and one that hangs for too long. Either the
 * peers go on and nothing was lost, doubled or changed, or every operation ends with TOW_EPEER.
 *
 * TOW_NETNS_PARTITION_MS (3000) is how long the partition lasts, TOW_NETNS_HUGE_MIB (64) the size
 * of the message that is cut, TOW_NETNS_RESET_MS (100) how often connections are reset, and
 * TOW_NETNS_MESSAGES (300) how many go each way meanwhile. TOW_TEST_SEED replays the traffic.
 */
#include "netlab_judge.h"

static uint64_t seed;

static uint64_t setting(const char *name, uint64_t usual)
{
	const char *text = getenv(name);

	return text != NULL ? strtoull(text, NULL, 0) : usual;
}

/* What a script knows of its run. */
struct breaks {
	struct twt_nl_job *job;
	uint64_t from_ns, for_ns; /* a partition or a stop */
	uint64_t next_ns, every_ns;
	uint64_t cut_ns; /* when all was cut for good */
	int side;
	bool done;
};

/* Enough has come that everything is in use. */
static bool under_way(const struct breaks *b)
{
	return b->job->count[0].received > 20 && b->job->count[1].received > 20;
}

static void partition(struct twt_nl_world *world, uint64_t elapsed_ns, void *arg)
{
	struct breaks *b = arg;

	if (b->from_ns == 0 && under_way(b)) {
		b->from_ns = elapsed_ns;
		world->link.shape.cut = true;
	} else if (world->link.shape.cut && elapsed_ns - b->from_ns > b->for_ns) {
		world->link.shape.cut = false;
		b->done = true;
	}
}

static void test_partition(void **state)
{
	struct breaks b = { .job = twt_nl_job_open(seed),
			    .for_ns = setting("TOW_NETNS_PARTITION_MS", 3000) * NL_MS };

	(void)state;
	/* What is hurried or canceled meanwhile would be most of it, and is told late. */
	b.job->plan.withdrawn_ppt = 0;
	twt_nl_test(b.job, (struct twt_nl_shape){ .delay_ns = NL_MS / 2 }, partition, &b);
	assert_true(b.done);
}

static void reset_often(struct twt_nl_world *world, uint64_t elapsed_ns, void *arg)
{
	struct breaks *b = arg;

	if (!under_way(b) || elapsed_ns < b->next_ns)
		return;
	b->next_ns = elapsed_ns + b->every_ns;
	twt_nl_link_reset(&world->link);
}

static void resets(const char *key, int64_t bulk_streams, uint32_t withdrawn_ppt)
{
	struct breaks b = { .job = twt_nl_job_open(seed + (uint64_t)bulk_streams),
			    .every_ns = setting("TOW_NETNS_RESET_MS", 100) * NL_MS };
	struct twt_nl_plan *plan = &b.job->plan;

	plan->messages = (uint32_t)setting("TOW_NETNS_MESSAGES", 300);
	plan->withdrawn_ppt = withdrawn_ppt;
	plan->options.job_key = key;
	plan->options.encrypt = key != NULL;
	plan->options.bulk_streams = bulk_streams;
	twt_nl_test(b.job,
		    (struct twt_nl_shape){ .delay_ns = NL_MS / 5, .bytes_per_second = 20u << 20 },
		    reset_often, &b);
	assert_true(b.next_ns > b.every_ns);
}

static void test_resets(void **state)
{
	(void)state;
	resets(NULL, 1, 0);
}

static void test_resets_and_withdrawals(void **state)
{
	(void)state;
	resets(NULL, 2, 150);
}

static void test_resets_encrypted(void **state)
{
	(void)state;
	resets("a secret of this test alone", 4, 150);
}

/* The connection that has carried half of the message ends there. */
static void arm_cut(struct twt_nl_world *world, uint64_t elapsed_ns, void *arg)
{
	struct breaks *b = arg;

	(void)elapsed_ns;
	if (!b->done && b->job->count[0].connected_ns != 0) {
		world->link.cut_flow_at = b->job->plan.huge / 2;
		b->done = true;
	}
}

static void test_cut_in_the_middle(void **state)
{
	struct breaks b = { .job = twt_nl_job_open(seed + 10) };
	struct twt_nl_plan *plan = &b.job->plan;

	(void)state;
	plan->huge = setting("TOW_NETNS_HUGE_MIB", 64) << 20;
	plan->messages = 20;
	plan->options.premap_memory_bytes += (int64_t)(2 * plan->huge);
	twt_nl_test(b.job, (struct twt_nl_shape){ 0 }, arm_cut, &b);
	assert_true(b.done);
}

static void vanish(struct twt_nl_world *world, uint64_t elapsed_ns, void *arg)
{
	struct breaks *b = arg;

	if (b->cut_ns == 0 && under_way(b)) {
		b->cut_ns = elapsed_ns;
		world->link.shape.cut = true;
	}
}

/* No FIN, no RST, nothing: whoever waits hears of it by the silence, long before its deadlines. */
static void test_vanished_host(void **state)
{
	struct breaks b = { .job = twt_nl_job_open(seed + 11) };
	struct twt_nl_plan *plan = &b.job->plan;

	(void)state;
	plan->may_go = true;
	plan->messages = 100000;
	plan->options.peer_timeout_ns = NL_SECOND;
	plan->options.heartbeat_ns = 200 * NL_MS;
	twt_nl_test(b.job, (struct twt_nl_shape){ .delay_ns = NL_MS }, vanish, &b);
	assert_true(b.cut_ns != 0);
}

static void hang(struct twt_nl_world *world, uint64_t elapsed_ns, void *arg)
{
	struct breaks *b = arg;
	pid_t pid = world->child[b->side];

	if (b->from_ns == 0 && under_way(b) && pid != 0) {
		kill(pid, SIGSTOP);
		b->from_ns = elapsed_ns;
	} else if (b->from_ns != 0 && !b->done && elapsed_ns - b->from_ns > b->for_ns) {
		kill(pid, SIGCONT);
		b->done = true;
	}
}

/* Its kernel answers for it; it does not, for longer than anyone waits. */
static void test_hung_process(void **state)
{
	for (int side = 0; side < 2; side++) {
		struct breaks b = { .job = twt_nl_job_open(seed + 12),
				    .side = side,
				    .for_ns = 3 * NL_SECOND };
		struct twt_nl_plan *plan = &b.job->plan;

		(void)state;
		plan->may_go = true;
		plan->messages = 100000;
		plan->options.peer_timeout_ns = NL_SECOND;
		plan->options.heartbeat_ns = 200 * NL_MS;
		twt_nl_test(b.job, (struct twt_nl_shape){ .delay_ns = NL_MS }, hang, &b);
		assert_true(b.done);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_partition),
		cmocka_unit_test(test_resets),
		cmocka_unit_test(test_resets_and_withdrawals),
		cmocka_unit_test(test_resets_encrypted),
		cmocka_unit_test(test_cut_in_the_middle),
		cmocka_unit_test(test_vanished_host),
		cmocka_unit_test(test_hung_process),
	};

	if (!twt_nl_possible())
		return 77;
	seed = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
