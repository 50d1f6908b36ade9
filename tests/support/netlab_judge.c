/* netlab_judge.c - what a run between two namespaces must come to. */
#include "netlab_judge.h"

/* Both have lost each other: what arrived was sent, and nothing waited for its deadline. */
static void twt_nl_judge_gone(const struct twt_nl_job *job)
{
	for (int side = 0; side < 2; side++) {
		const struct twt_nl_count *here = &job->count[side], *there = &job->count[!side];

		assert_true(here->gone_ns != 0 && here->lost_after_gone > 0);
		assert_true(here->received <= job->plan.messages && here->received > 0);
		assert_true(here->sent + here->withdrawn <= job->plan.messages);
		assert_true(there->connected_ns < here->gone_ns);
		printf("side %d: %llu sent, %llu received, then %llu operations of the lost peer\n",
		       side, (unsigned long long)here->sent, (unsigned long long)here->received,
		       (unsigned long long)here->lost_after_gone);
	}
}

/* Both sides' counts fit each other; what they did is printed. */
static void twt_nl_judge_counts(const struct twt_nl_world *world, const struct twt_nl_job *job,
				bool in_time)
{
	const struct twt_nl_count *a = &job->count[0], *b = &job->count[1];

	for (int side = 0; side < 2; side++) {
		if (job->count[side].failure[0] != '\0')
			printf("%s\n", job->count[side].failure);
	}
	if (!in_time || world->status[0] != 0 || world->status[1] != 0)
		fail_msg("the sides ended with %#x and %#x", world->status[0], world->status[1]);
	if (job->plan.may_go) {
		twt_nl_judge_gone(job);
		return;
	}
	assert_int_equal(a->sent, b->received);
	assert_int_equal(b->sent, a->received);
	assert_int_equal(a->sent_bytes, b->received_bytes);
	assert_int_equal(b->sent_bytes, a->received_bytes);
	assert_int_equal(a->sent + a->withdrawn, job->plan.messages);
	assert_int_equal(b->sent + b->withdrawn, job->plan.messages);
	assert_true(a->pings > 0);
	printf("%llu and %llu messages of %llu KiB arrived, %llu and %llu were taken back, "
	       "%llu answers; packets passed %llu, lost %llu, for want of room %llu; %llu resets\n",
	       (unsigned long long)a->sent, (unsigned long long)b->sent,
	       (unsigned long long)(a->sent_bytes + b->sent_bytes) >> 10,
	       (unsigned long long)a->withdrawn, (unsigned long long)b->withdrawn,
	       (unsigned long long)a->pings,
	       (unsigned long long)(world->link.queue[0].passed + world->link.queue[1].passed),
	       (unsigned long long)(world->link.queue[0].lost + world->link.queue[1].lost),
	       (unsigned long long)(world->link.queue[0].full + world->link.queue[1].full),
	       (unsigned long long)world->link.resets);
}

void twt_nl_test(struct twt_nl_job *job, struct twt_nl_shape shape, twt_nl_script script, void *arg)
{
	struct twt_nl_world world;
	bool in_time;

	if (!twt_nl_world_open(&world, job->plan.seed, twt_nl_run_side, job))
		fail_msg("%s", world.reason);
	world.link.shape = shape;
	in_time = twt_nl_world_run(&world, NL_LIMIT, script, arg);
	twt_nl_world_close(&world);
	twt_nl_judge_counts(&world, job, in_time);
	twt_nl_job_close(job);
}

static int twt_nl_nothing(int side, void *arg)
{
	(void)side;
	(void)arg;
	return 0;
}

bool twt_nl_possible(void)
{
	struct twt_nl_world world;

	if (!twt_nl_world_open(&world, 1, twt_nl_nothing, NULL)) {
		printf("skipped: no network namespaces here: %s\n", world.reason);
		return false;
	}
	twt_nl_world_run(&world, 5 * NL_SECOND, NULL, NULL);
	twt_nl_world_close(&world);
	return true;
}
