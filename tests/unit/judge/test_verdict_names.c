/*
 * test_verdict_names.c - what people call groups and operations, in what the judge says.
 */
#include "verdict_states.h"

static struct twt_vs_job job;

static void must_say(const char *words)
{
	if (strstr(job.verdict.findings[0].evidence[0], words) == NULL)
		fail_msg("\"%s\" is not in: %s", words, job.verdict.findings[0].evidence[0]);
}

static void name_call(uint32_t rank, const char *label, uint64_t seq, const char *name)
{
	struct twi_state_group *group = &job.last[rank].groups[0];

	snprintf(group->label, sizeof(group->label), "%s", label);
	snprintf(group->call, sizeof(group->call), "%s", name);
	group->call_seq = seq;
}

/* What people call the group and the operation is in the evidence, as far as it is known. */
static void names(void **state)
{
	(void)state;
	twt_vs_healthy(&job, 4);
	twt_vs_miss(&job, 2, 3000);
	for (uint32_t i = 0; i < 4; i++)
		name_call(i, "", 0, "");
	/* Who is asked need not be who knows the label. */
	name_call(3, "default_pg", 0, "");
	name_call(0, "", 81, "all_reduce");
	twt_vs_expect(&job, TWI_CAUSE_NEVER_ENTERED, 2);
	must_say("not entered collective 81 of group 0 \"default_pg\" (");
	must_say(" \"all_reduce\"), in which rank 0 has waited");
	/* The name of another call is none of this one. */
	name_call(0, "", 80, "broadcast");
	twt_vs_expect(&job, TWI_CAUSE_NEVER_ENTERED, 2);
	assert_null(strstr(job.verdict.findings[0].evidence[0], "broadcast"));
	/* Ranks disagree: each has its own. */
	twt_vs_healthy(&job, 4);
	for (uint32_t i = 0; i < 4; i++) {
		twt_vs_wait_in(&job, i, 81, 1000);
		name_call(i, "MPI_COMM_WORLD", 81, i == 3 ? "MPI_Bcast" : "MPI_Allreduce");
	}
	job.first[3].groups[0].past[0].signature = job.last[3].groups[0].past[0].signature = 5;
	twt_vs_expect(&job, TWI_CAUSE_OTHER_OPERATION, 3);
	must_say("collective 81 of group 0 \"MPI_COMM_WORLD\" is ");
	must_say(" \"MPI_Bcast\" of ");
	must_say(" \"MPI_Allreduce\" of ");
	/* Of the longest names nothing is cut. */
	twt_vs_healthy(&job, 4);
	twt_vs_miss(&job, 2, 3000);
	memset(job.last[0].groups[0].label, 'l', TWI_STATE_LABEL - 1);
	memset(job.last[0].groups[0].call, 'n', TWI_STATE_CALL - 1);
	job.last[0].groups[0].call_seq = 81;
	twt_vs_expect(&job, TWI_CAUSE_NEVER_ENTERED, 2);
	must_say("waits in no call of the library");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(names) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
