/*
 * test_netns_link.c - verified traffic between two processes in two network namespaces over links
 * as they are: with delay, loss, a capped rate, all of it, and a peer that is stopped for a while.
 * The connections live; nothing is lost, doubled or changed, and every status is right.
 *
 * TOW_TEST_SEED replays sizes, contents, withdrawals and losses (not the kernel's timing).
 */
#include "netlab_side.h"

#define LIMIT (60 * NL_SECOND)

static uint64_t seed;

/* Both sides' counts fit each other; what they did is printed. */
static void judge(const struct nl_world *world, const struct nl_job *job, bool in_time)
{
	const struct nl_count *a = &job->count[0], *b = &job->count[1];

	for (int side = 0; side < 2; side++) {
		if (job->count[side].failure[0] != '\0')
			printf("%s\n", job->count[side].failure);
	}
	if (!in_time || world->status[0] != 0 || world->status[1] != 0)
		fail_msg("the sides ended with %#x and %#x", world->status[0], world->status[1]);
	assert_int_equal(a->sent, b->received);
	assert_int_equal(b->sent, a->received);
	assert_int_equal(a->sent_bytes, b->received_bytes);
	assert_int_equal(b->sent_bytes, a->received_bytes);
	assert_int_equal(a->sent + a->withdrawn, job->plan.messages);
	assert_int_equal(b->sent + b->withdrawn, job->plan.messages);
	assert_true(a->pings > 0);
	printf("%llu and %llu messages of %llu KiB arrived, %llu and %llu were taken back, "
	       "%llu answers; packets passed %llu, lost %llu, for want of room %llu\n",
	       (unsigned long long)a->sent, (unsigned long long)b->sent,
	       (unsigned long long)(a->sent_bytes + b->sent_bytes) >> 10,
	       (unsigned long long)a->withdrawn, (unsigned long long)b->withdrawn,
	       (unsigned long long)a->pings,
	       (unsigned long long)(world->link.queue[0].passed + world->link.queue[1].passed),
	       (unsigned long long)(world->link.queue[0].lost + world->link.queue[1].lost),
	       (unsigned long long)(world->link.queue[0].full + world->link.queue[1].full));
}

static void run(struct nl_job *job, struct nl_shape shape, nl_script script, void *arg)
{
	struct nl_world world;
	bool in_time;

	if (!nl_world_open(&world, job->plan.seed, nl_run_side, job))
		fail_msg("%s", world.reason);
	world.link.shape = shape;
	in_time = nl_world_run(&world, LIMIT, script, arg);
	nl_world_close(&world);
	judge(&world, job, in_time);
	nl_job_close(job);
}

static void test_clean(void **state)
{
	(void)state;
	run(nl_job_open(seed), (struct nl_shape){ 0 }, NULL, NULL);
}

static void test_delay(void **state)
{
	struct nl_job *job = nl_job_open(seed + 1);

	(void)state;
	job->plan.messages = 200;
	run(job, (struct nl_shape){ .delay_ns = 5 * NL_MS, .jitter_ns = NL_MS }, NULL, NULL);
}

static void test_loss_of_1_percent(void **state)
{
	struct nl_job *job = nl_job_open(seed + 2);

	(void)state;
	run(job, (struct nl_shape){ .loss_ppm = 10000 }, NULL, NULL);
}

static void test_loss_of_5_percent(void **state)
{
	struct nl_job *job = nl_job_open(seed + 3);

	(void)state;
	job->plan.messages = 60;
	job->plan.largest = 256 << 10;
	run(job, (struct nl_shape){ .loss_ppm = 50000 }, NULL, NULL);
}

static void test_rate(void **state)
{
	struct nl_job *job = nl_job_open(seed + 4);

	(void)state;
	job->plan.messages = 120;
	run(job, (struct nl_shape){ .bytes_per_second = 12500000, .delay_ns = NL_MS / 5 }, NULL,
	    NULL);
}

static void test_all_of_it(void **state)
{
	struct nl_job *job = nl_job_open(seed + 5);

	(void)state;
	job->plan.messages = 60;
	job->plan.largest = 256 << 10;
	run(job,
	    (struct nl_shape){ .bytes_per_second = 12500000,
			       .delay_ns = 2 * NL_MS,
			       .jitter_ns = NL_MS,
			       .loss_ppm = 10000 },
	    NULL, NULL);
}

struct stopping {
	struct nl_job *job;
	int side;
	uint64_t stopped_ns, going_ns;
};

/* Stops a side for a second once traffic flows; its kernel goes on to answer for it. */
static void stop_for_a_while(struct nl_world *world, uint64_t elapsed_ns, void *arg)
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
		struct stopping stopping = { .job = nl_job_open(seed + 6 + (uint64_t)side),
					     .side = side };

		(void)state;
		/* A deadline of a stopped side passes while it is stopped; that is no news here. */
		stopping.job->plan.withdrawn_ppt = 0;
		run(stopping.job, (struct nl_shape){ .delay_ns = NL_MS }, stop_for_a_while,
		    &stopping);
		assert_true(stopping.going_ns != 0);
	}
}

static int probe_side(int side, void *arg)
{
	(void)side;
	(void)arg;
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clean),
		cmocka_unit_test(test_delay),
		cmocka_unit_test(test_loss_of_1_percent),
		cmocka_unit_test(test_loss_of_5_percent),
		cmocka_unit_test(test_rate),
		cmocka_unit_test(test_all_of_it),
		cmocka_unit_test(test_stopped_peer),
	};
	struct nl_world world;

	if (!nl_world_open(&world, 1, probe_side, NULL)) {
		printf("skipped: no network namespaces here: %s\n", world.reason);
		return 77;
	}
	nl_world_run(&world, 5 * NL_SECOND, NULL, NULL);
	nl_world_close(&world);
	seed = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
