/*
 * test_coll_labels.c - what people call a group, in everything that a rank says of it: documents,
 * traces, deadlines, waits, aborts, groups made of it. Over each lane.
 */
#include "beside.h"
#include "coll_job.h"
#include "lane_pair.h"

#define AT_ONCE 4
#define RANKS   3
#define COUNT   40000u /* of f32: small ones have no span, as a rule */

static void must_say(const struct twt_job *job, const char *text, const char *words)
{
	if (strstr(text, words) == NULL) {
		fprintf(stderr, "'%s' is not in: %s\n", words, text);
		twt_must(false);
	}
}

static void must_be(const struct twt_job *job, const struct tow_group *group, const char *label)
{
	char text[TOW_GROUP_LABEL_MAX] = "untouched";

	twt_must(tow_group_label(group, text) == TOW_OK);
	twt_must(strcmp(text, label) == 0);
}

static void must_tell(const struct twt_job *job, const char *path, const char *words)
{
	char *text;

	twt_must(tow_stats_get(job->runtime, path, &text) == TOW_OK);
	must_say(job, text, words);
	tow_stats_release(text);
}

static struct tow_group *make(const struct twt_job *job)
{
	static const uint32_t ranks[RANKS] = { 0, 1, 2 };
	struct tow_group *group;

	must_be(job, job->group, "");
	twt_must(tow_group_create(job->group, ranks, RANKS, "the \t first name", TWT_JOB_WAIT_NS,
				  &group) == TOW_OK);
	must_be(job, group, "the  first name");
	twt_must(tow_group_set_label(group, "") == TOW_EINVAL);
	must_say(job, tow_error_message(), "tow_group_set_label: the label is empty");
	twt_must(tow_group_set_label(NULL, "dp") == TOW_EINVAL);
	twt_must(tow_group_label(group, NULL) == TOW_EINVAL);
	must_be(job, group, "the  first name");
	twt_must(tow_group_set_label(group, NULL) == TOW_OK);
	must_be(job, group, "");
	twt_must(tow_group_set_label(group, "dp") == TOW_OK);
	must_be(job, group, "dp");
	must_be(job, job->group, "");
	return group;
}

static int reduce(const struct twt_job *job, struct tow_group *group, const char *name,
		  uint64_t timeout_ns, char text[512])
{
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
	struct tow_op *op;
	void *data;
	int status;

	options.name = name;
	options.timeout_ns = timeout_ns;
	twt_must(tow_alloc(job->runtime, COUNT * 4, 64, &data) == TOW_OK);
	memset(data, 0, COUNT * 4);
	status = tow_coll_all_reduce_start(group, data, data, COUNT, TOW_F32, TOW_SUM, &options,
					   &op);
	if (status == TOW_OK)
		status = twt_job_end(job, op, text);
	else /* the other's abort was faster */
		snprintf(text, 512, "%s", tow_error_message());
	twt_must(tow_free(job->runtime, data) == TOW_OK);
	return status;
}

/* A receive that nobody sends for: what it waits for is in the text of the wait. */
static void wait_for_nothing(const struct twt_job *job, struct tow_group *group)
{
	uint32_t after = (tow_group_rank(group) + 1) % RANKS;
	struct tow_op *op;
	char data[8];

	twt_must(tow_group_recv_start(group, after, data, sizeof(data), 7, NULL, &op) == TOW_OK);
	twt_must(tow_op_wait(op, 1000000) == TOW_ETIMEDOUT);
	must_say(job, tow_error_message(), "the receive of tag 0x7 in group ");
	must_say(job, tow_error_message(), " \"dp\" is not done");
	must_tell(job, "/v1/flight", "\"dp\"");
	twt_must(tow_op_cancel(op) == TOW_OK);
	(void)tow_op_wait(op, TWT_JOB_WAIT_NS);
	twt_must(tow_op_release(op) == TOW_OK);
}

static void abort_it(const struct twt_job *job, struct tow_group *group)
{
	char text[512] = "";

	twt_job_meet(job, 3);
	if (job->rank == 0)
		twt_must(tow_group_abort(group, "enough") == TOW_OK);
	else
		twt_must(reduce(job, group, "last", TWT_JOB_WAIT_NS, text) == TOW_EABORTED);
	if (job->rank != 0)
		must_say(job, text, "rank 0 has aborted the group \"dp\": enough");
	twt_must(tow_group_barrier(group, TWT_JOB_WAIT_NS) == TOW_EABORTED);
	must_say(job, tow_error_message(), "rank 0 has aborted the group \"dp\": enough");
}

static void play(struct twt_job *job, const void *arg)
{
	struct tow_group *group = make(job), *shrunk;
	char text[512] = "", label[TOW_GROUP_LABEL_MAX];

	(void)arg;
	twt_must(reduce(job, group, "grads", TWT_JOB_WAIT_NS, text) == TOW_OK);
	must_tell(job, "/v1/coll", "\"label\":\"dp\"");
	must_tell(job, "/v1/coll", "\"name\":\"grads\"");
	must_tell(job, "/v1/slack", "\"name\":\"grads of dp\"");
	wait_for_nothing(job, group);
	twt_job_meet(job, 1);
	if (job->rank != 2) { /* whose text is the other's names the group once, too */
		twt_must(reduce(job, group, "late", 300000000, text) == TOW_EDEADLINE);
		must_say(job, text, "rank 2 never entered");
		must_say(job, text, ", named late");
		must_say(job, text, " \"dp\")");
		twt_must(strstr(strstr(text, "\"dp\"") + 1, "\"dp\"") == NULL);
		must_tell(job, "/v1/coll", "\"broken_why\":\"");
	}
	twt_job_meet(job, 2);
	twt_must(tow_group_shrink(group, TWT_JOB_WAIT_NS, &shrunk) == TOW_OK);
	must_be(job, shrunk, "dp");
	abort_it(job, shrunk);
	twt_must(tow_group_close(shrunk) == TOW_OK);
	twt_must(tow_group_label(shrunk, label) == TOW_ECLOSED);
	twt_must(tow_group_set_label(shrunk, "late") == TOW_ECLOSED);
	twt_must(tow_group_close(group) == TOW_OK);
	must_tell(job, "/v1/slack", "\"name\":\"grads of dp\""); /* of a group that was */
	twt_job_sum(job, job->group, 100);
}

static void run(size_t which)
{
	if (twt_job_addresses[which] != NULL) /* else this build or system has not got the lane */
		twt_job_run(twt_job_addresses[which], RANKS, 0, play, NULL, NULL);
}

static void all_lanes(void **state)
{
	(void)state;
	twt_beside(TWT_JOB_ADDRESSES, AT_ONCE, run);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(all_lanes) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
