/*
 * test_verdict_forming.c - what is said of a job that is not whole, by a rank that waits for it:
 * who has not come, as far as rank 0's store says, or rank 0 itself, where that is not there.
 */
#include "verdict_states.h"

#include <towline/status.h>

#include "diag/base/emit.h"

static struct twt_vs_job job;

/* Rank 1 of four, which has met nobody yet, has waited for so long. */
static void wait_for(uint64_t ms)
{
	twt_vs_still(&job, 1);
	job.ranks[0].rank = job.first[0].rank = job.last[0].rank = 1;
	job.what.me = 1;
	job.what.world = 4;
	job.what.forming = (struct twi_verdict_forming){ .rank = 1,
							 .size = 4,
							 .since_ns = VS_NOW - ms * VS_MS };
	snprintf(job.what.forming.store, sizeof(job.what.forming.store), "10.0.0.1:29400");
}

static void store_says(uint32_t missing, uint32_t first)
{
	job.what.forming.missing = missing;
	job.what.forming.rank_count = missing < TWI_FORMING_RANKS ? missing : TWI_FORMING_RANKS;
	for (uint32_t i = 0; i < job.what.forming.rank_count; i++)
		job.what.forming.ranks[i] = first + i;
}

/* The state in the document, and how many are missing. */
static void must_be(const char *state, uint32_t missing)
{
	struct twi_emit emit;
	char *text, words[64];

	twt_vs_judge(&job);
	assert_int_equal(job.verdict.missing, missing);
	twi_emit_init(&emit);
	twi_emit_object_begin(&emit, NULL);
	twi_verdict_emit(&job.verdict, &job.what, &emit);
	twi_emit_object_end(&emit);
	assert_int_equal(twi_emit_take(&emit, &text), TOW_OK);
	snprintf(words, sizeof(words), "\"state\":\"%s\"", state);
	if (strstr(text, words) == NULL)
		fail_msg("%s is not in: %.200s", words, text);
	free(text);
	twi_emit_fini(&emit);
}

static void must_say(uint32_t at, const char *words)
{
	assert_true(at < job.verdict.findings[0].evidence_count);
	if (strstr(job.verdict.findings[0].evidence[at], words) == NULL)
		fail_msg("\"%s\" is not in: %s", words, job.verdict.findings[0].evidence[at]);
}

static void absent(void **state)
{
	(void)state;
	wait_for(6000);
	must_be("forming", 3); /* the store has said nothing yet */
	assert_int_equal(job.verdict.finding_count, 0);
	store_says(1, 3);
	must_be("forming", 1);
	twt_vs_expect(&job, TWI_CAUSE_NOT_COME, 3);
	assert_true(job.verdict.findings[0].confidence > 0.9);
	must_say(0,
		 "rank 1 has waited for 6.0 s for it to open the group; 3 of 4 ranks have come to "
		 "rank 0's store at 10.0.0.1:29400");
	assert_int_equal(job.verdict.findings[0].evidence_count, 1);
	store_says(2, 2);
	must_be("forming", 2);
	twt_vs_expect_ranks(&job, TWI_CAUSE_NOT_COME, 1 << 2 | 1 << 3);
	must_say(0, "for them to open the group; 2 of 4");
	/* Who tried and was refused is in the store's words. */
	job.what.forming.refused = 7;
	snprintf(job.what.forming.text, sizeof(job.what.forming.text),
		 "7 connections were refused");
	must_be("forming", 2);
	must_say(1, "7 connections were refused");
}

/* Processes of a launcher do not start in one moment: nobody is accused for that. */
static void patience(void **state)
{
	(void)state;
	wait_for(1900);
	store_says(1, 3);
	must_be("forming", 1);
	assert_int_equal(job.verdict.finding_count, 0);
	snprintf(job.what.forming.unreached, sizeof(job.what.forming.unreached), "ECONNREFUSED");
	must_be("forming", 3);
	assert_int_equal(job.verdict.finding_count, 0);
}

static void no_store(void **state)
{
	(void)state;
	wait_for(3000);
	snprintf(job.what.forming.unreached, sizeof(job.what.forming.unreached), "ECONNREFUSED");
	must_be("forming", 3);
	twt_vs_expect(&job, TWI_CAUSE_NOT_COME, 0);
	assert_true(job.verdict.findings[0].confidence < 0.7);
	must_say(0, "rank 0's store at 10.0.0.1:29400: ECONNREFUSED; rank 0 has not started, or");
	/* Rank 0 has come, whatever it hears of its own store. */
	job.what.forming.rank = 0;
	must_be("forming", 3);
	assert_int_equal(job.verdict.finding_count, 0);
}

/* Of many the first are named, and the others counted. */
static void many(void **state)
{
	(void)state;
	wait_for(10000);
	job.what.world = job.what.forming.size = 1024;
	store_says(1000, 24);
	must_be("forming", 1000);
	assert_int_equal(job.verdict.findings[0].rank_count, TWI_FINDING_RANKS);
	assert_int_equal(job.verdict.findings[0].ranks[15], 39);
	must_say(0, "24 of 1024 ranks have come");
	must_say(1, "984 more have not come");
	/* A store that says more than there can be is not believed. */
	job.what.forming.missing = 1024;
	must_be("forming", 1023);
	assert_int_equal(job.verdict.finding_count, 0);
}

/* Its launcher speaks of four ranks, and it has met none: it is not called healthy. */
static void alone(void **state)
{
	(void)state;
	wait_for(0);
	job.what.forming = (struct twi_verdict_forming){ 0 };
	must_be("forming", 3);
	assert_int_equal(job.verdict.finding_count, 0);
	job.what.world = 1;
	must_be("healthy", 0);
	/* One that is whole is as it was. */
	twt_vs_healthy(&job, 4);
	job.what.world = 4;
	must_be("healthy", 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(absent), cmocka_unit_test(patience), cmocka_unit_test(no_store),
		cmocka_unit_test(many),   cmocka_unit_test(alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
