/*
 * test_crossed.c - two ranks that dial each other at the same moment: one of the two connections
 * goes again, which is no loss and no failure, and nobody is warned.
 */
#include "coll_job.h"

#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"

#define STARTS 6

static uint64_t counter(const struct twt_job *job, enum twi_counter id)
{
	return twi_counter_sum(twi_runtime_engine(job->runtime)->diag, id);
}

static void play_crossed(struct twt_job *job, const void *plan)
{
	struct tow_op *op;
	char text[512];

	(void)plan;
	twt_job_mark(job, 1);
	twt_must(twt_job_reached(3, 1));
	twt_must(tow_group_connect_start(job->group, (uint32_t)!job->rank, NULL, &op) == TOW_OK);
	twt_must(twt_job_end(job, op, text) == TOW_OK);
	twt_must(tow_group_barrier(job->group, TWT_JOB_WAIT_NS) == TOW_OK);
	/* The second connection's end may come after the barrier. */
	for (int i = 0; i < 20; i++) {
		tow_progress(job->runtime);
		usleep(5000);
	}
	twt_must(counter(job, TWI_C_peers_lost) == 0);
	twt_must(counter(job, TWI_C_ops_failed) == 0);
	twt_job_mark(job, 2); /* who closes is lost to the other */
	twt_must(twt_job_reached(3, 2));
}

static void test_crossed(void **state)
{
	(void)state;
	for (int i = 0; i < STARTS; i++) {
		twt_job_run("tcp", 2, 0, play_crossed, NULL, NULL);
		twt_job_run("shm", 2, 0, play_crossed, NULL, NULL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_crossed) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
