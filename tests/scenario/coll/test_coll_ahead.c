/*
 * test_coll_ahead.c - a rank that comes to a collective after its message has: the copy that this
 * costs has a reason of its own. A program posts no receives for collectives, so it must not be
 * told to do so.
 */
#include "coll_job.h"

#include <jansson.h>
#include <towline/coll.h>

#define BYTES 64

static uint64_t reason_count(struct twt_job *job, const char *name)
{
	json_t *counters, *row;
	uint64_t count = UINT64_MAX;
	char *text;
	size_t i;

	twt_must(tow_stats_get(job->runtime, "/v1/counters", &text) == TOW_OK);
	counters = json_loads(text, 0, NULL);
	tow_stats_release(text);
	json_array_foreach(json_object_get(counters, "reasons"), i, row)
	{
		if (strcmp(json_string_value(json_object_get(row, "name")), name) == 0)
			count = (uint64_t)json_integer_value(json_object_get(row, "count"));
	}
	json_decref(counters);
	twt_must(count != UINT64_MAX);
	return count;
}

static struct tow_op *broadcast_begin(struct twt_job *job, unsigned char *data)
{
	struct tow_op *op;

	twt_must(tow_coll_broadcast_start(job->group, data, BYTES, TOW_U8, 0, NULL, &op) == TOW_OK);
	return op;
}

/* The root's message is ahead of a plain one, for which the other rank waits first. */
static void play(struct twt_job *job, const void *plan)
{
	struct tow_peer *peer;
	struct tow_op *op, *spread = NULL;
	unsigned char *data;
	char text[512], word = 1;
	uint64_t before;

	(void)plan;
	twt_must(tow_alloc(job->runtime, BYTES, 0, (void **)&data) == TOW_OK);
	twt_must(tow_group_connect(job->group, 1 - (uint32_t)job->rank, TWT_JOB_WAIT_NS, &peer) ==
		 TOW_OK);
	/* It is there before the message is, which follows a collective of both. */
	if (job->rank == 1)
		twt_must(tow_recv_start(peer, &word, 1, 5, NULL, &op) == TOW_OK);
	twt_job_sum(job, job->group, 1);
	before = reason_count(job, "collective_ahead");
	if (job->rank == 0) {
		memset(data, 7, BYTES);
		spread = broadcast_begin(job, data);
		twt_must(tow_send_start(peer, &word, 1, 5, NULL, &op) == TOW_OK);
	}
	twt_must(twt_job_end(job, op, text) == TOW_OK);
	if (job->rank == 1)
		spread = broadcast_begin(job, data);
	twt_must(twt_job_end(job, spread, text) == TOW_OK);
	if (job->rank == 1) {
		twt_must(data[0] == 7 && data[BYTES - 1] == 7);
		twt_must(reason_count(job, "collective_ahead") > before);
	}
	twt_must(reason_count(job, "unexpected_arrival") == 0);
	twt_job_sum(job, job->group, 1);
	twt_must(tow_free(job->runtime, data) == TOW_OK);
}

static void counted_apart(void **state)
{
	(void)state;
	twt_job_run("tcp", 2, 0, play, NULL, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counted_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
