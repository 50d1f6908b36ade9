/*
 * test_netns_link.c - verified traffic between two processes in two network namespaces over links
 * as they are: with delay, loss, a capped rate, all of it, and a peer that is stopped for a while.
 * The connections live; nothing is lost, doubled or changed, and every status is right.
 *
 * TOW_TEST_SEED replays sizes, contents, withdrawals and losses (not the kernel's timing).
 */
#include "netlab_judge.h"

static uint64_t seed;

static void test_clean(void **state)
{
	(void)state;
	twt_nl_test(twt_nl_job_open(seed), (struct twt_nl_shape){ 0 }, NULL, NULL);
}

static void test_delay(void **state)
{
	struct twt_nl_job *job = twt_nl_job_open(seed + 1);

	(void)state;
	job->plan.messages = 200;
	twt_nl_test(job, (struct twt_nl_shape){ .delay_ns = 5 * NL_MS, .jitter_ns = NL_MS }, NULL,
		    NULL);
}

static void test_loss_of_1_percent(void **state)
{
	struct twt_nl_job *job = twt_nl_job_open(seed + 2);

	(void)state;
	twt_nl_test(job, (struct twt_nl_shape){ .loss_ppm = 10000 }, NULL, NULL);
}

static void test_loss_of_5_percent(void **state)
{
	struct twt_nl_job *job = twt_nl_job_open(seed + 3);

	(void)state;
	job->plan.messages = 60;
	job->plan.largest = 256 << 10;
	twt_nl_test(job, (struct twt_nl_shape){ .loss_ppm = 50000 }, NULL, NULL);
}

static void test_rate(void **state)
{
	struct twt_nl_job *job = twt_nl_job_open(seed + 4);

	(void)state;
	job->plan.messages = 120;
	twt_nl_test(job,
		    (struct twt_nl_shape){ .bytes_per_second = 12500000, .delay_ns = NL_MS / 5 },
		    NULL, NULL);
}

static void test_all_of_it(void **state)
{
	struct twt_nl_job *job = twt_nl_job_open(seed + 5);

	(void)state;
	job->plan.messages = 60;
	job->plan.largest = 256 << 10;
	twt_nl_test(job,
		    (struct twt_nl_shape){ .bytes_per_second = 12500000,
					   .delay_ns = 2 * NL_MS,
					   .jitter_ns = NL_MS,
					   .loss_ppm = 10000 },
		    NULL, NULL);
}

/*
 * The kernel sends from the program's memory, and sends again what was lost. Sends that end by
 * their deadline meanwhile give it back: what is written there then must not arrive in their name.
 */
static void test_zerocopy_and_loss(void **state)
{
	struct twt_nl_job *job = twt_nl_job_open(seed + 8);

	(void)state;
	job->plan.options.zerocopy = "always";
	job->plan.messages = 300;
	job->plan.withdrawn_ppt = 900;
	twt_nl_test(job, (struct twt_nl_shape){ .delay_ns = NL_MS, .loss_ppm = 50000 }, NULL, NULL);
}

/* Between two hosts the words of `require` are met that are not within one. */
static void test_required(void **state)
{
	struct twt_nl_job *job = twt_nl_job_open(seed + 9);

	(void)state;
	job->plan.options.require = "lane:tcp,zero_copy,iface:ib0|tow0";
	job->plan.messages = 60;
	twt_nl_test(job, (struct twt_nl_shape){ 0 }, NULL, NULL);
}

struct stopping {
	struct twt_nl_job *job;
	int side;
	uint64_t stopped_ns, going_ns;
};

/* Stops a side for a second once traffic flows; its kernel goes on to answer for it. */
static void stop_for_a_while(struct twt_nl_world *world, uint64_t elapsed_ns, void *arg)
{
	struct stopping *stopping = arg;
	pid_t pid = world->child[stopping->side];

	if (stopping->stopped_ns == 0 && stopping->job->count[0].received > 20 && pid != 0) {
		kill(pid, SIGSTOP);
		stopping->stopped_ns = elapsed_ns;
	} else if (stopping->stopped_ns != 0 && stopping->going_ns == 0 &&
		   elapsed_ns - stopping->stopped_ns > NL_SECOND) {
		kill(pid, SIGCONT);
		stopping->going_ns = elapsed_ns;
	}
}

static void test_stopped_peer(void **state)
{
	for (int side = 0; side < 2; side++) {
		struct stopping stopping = { .job = twt_nl_job_open(seed + 6 + (uint64_t)side),
					     .side = side };

		(void)state;
		/* A deadline of a stopped side passes while it is stopped; that is no news here. */
		stopping.job->plan.withdrawn_ppt = 0;
		twt_nl_test(stopping.job, (struct twt_nl_shape){ .delay_ns = NL_MS },
			    stop_for_a_while, &stopping);
		assert_true(stopping.going_ns != 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clean),
		cmocka_unit_test(test_delay),
		cmocka_unit_test(test_loss_of_1_percent),
		cmocka_unit_test(test_loss_of_5_percent),
		cmocka_unit_test(test_zerocopy_and_loss),
		cmocka_unit_test(test_required),
		cmocka_unit_test(test_rate),
		cmocka_unit_test(test_all_of_it),
		cmocka_unit_test(test_stopped_peer),
	};

	if (!twt_nl_possible())
		return 77;
	seed = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
