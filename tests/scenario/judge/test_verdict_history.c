/*
 * test_verdict_history.c - one rank of a job looks by itself: a fault that was there for a while is
 * known of later, by /v1/verdicts, /metrics and towstat; where that rank hangs, the next one looks.
 *
 * TOW_TEST_SEED replays.
 */
#include "beside.h"
#include "command.h"
#include "verdict_ask.h"

#define INTERVAL "1s"
#define TURNS    150 /* of 200 ms */

static struct twt_vj_asked asked[VJ_RANKS];
static struct twt_command command;
static char line[512];
static uint64_t seed;

static json_t *history_of(const struct twt_vj_job *job, int rank)
{
	twt_vj_ask(job, 1u << rank, "/v1/verdicts", asked);
	return twt_vj_document(&asked[rank]);
}

/* The index of the newest row that names the planted fault alone; -1: none does. */
static int planted_row(const struct twt_vj_job *job, const json_t *document)
{
	const json_t *rows = json_object_get(document, "rows");

	for (size_t i = json_array_size(rows); i-- > 0;) {
		const json_t *findings = json_object_get(json_array_get(rows, i), "findings");

		if (json_array_size(findings) == 1 &&
		    twt_vj_is_planted(job, json_array_get(findings, 0)))
			return (int)i;
	}
	return -1;
}

/* Until the rank has a row that names it, with `newer` rows behind it at least. */
static bool await_row(const struct twt_vj_job *job, int rank, int newer)
{
	json_t *document = NULL;

	for (int turn = 0; turn < TURNS; turn++) {
		int at;

		json_decref(document);
		document = history_of(job, rank);
		at = planted_row(job, document);
		if (at >= 0 &&
		    at + newer < (int)json_array_size(json_object_get(document, "rows"))) {
			json_decref(document);
			return true;
		}
		usleep(200000);
	}
	print_error("%s is not in the history of rank %d: %s\n", twt_vj_names[job->fault], rank,
		    document != NULL ? json_dumps(document, JSON_COMPACT) : "no document");
	json_decref(document);
	return false;
}

static void begin(struct twt_vj_job *job)
{
	twt_vj_begin(job);
	assert_true(twt_vj_reached(job, VJ_STEPS));
	assert_true(twt_vj_plant(job));
}

/* -1: it tells none. */
static long long looks_of(const struct twt_vj_job *job, int rank)
{
	json_t *document = history_of(job, rank), *looks = json_object_get(document, "looks");
	long long count = looks != NULL ? (long long)json_integer_value(looks) : -1;

	json_decref(document);
	return count;
}

static void late_rank(void **state)
{
	struct twt_vj_job job = {
		.fault = VJ_LATE, .size = 3, .victim = 2, .seed = seed, .memory = true
	};
	bool right;

	(void)state;
	begin(&job);
	right = await_row(&job, 0, 0);
	assert_int_equal(looks_of(&job, 1), 0); /* they are asked, and do not ask */
	assert_int_equal(looks_of(&job, 2), 0);
	twt_vj_ask(&job, 1, "/metrics", asked);
	assert_non_null(
		strstr(asked[0].text, "\ntowline_verdict{cause=\"late\",culprit_rank=\"2\"} 0."));
	snprintf(line, sizeof(line),
		 "TOW_STATS_DIR=%s @/tools/towstat/towstat verdict %s --since 10m", job.dir,
		 job.name);
	twt_command(line, &command);
	twt_command_expect(&command, 3, "rank 2: late, comes late", 1);
	twt_command_expect(&command, 3, "mend: see what that rank does between", 1);
	assert_true(twt_vj_end(&job));
	assert_true(right);
}

/* It is stopped for a while: in the history that has an end, and something else comes behind it. */
static void stopped_rank(void **state)
{
	struct twt_vj_job job = { .fault = VJ_STOPPED, .size = 3, .victim = 1, .seed = seed };
	bool seen, over;

	(void)state;
	begin(&job);
	seen = await_row(&job, 0, 0);
	kill(job.pids[job.victim], SIGCONT);
	over = await_row(&job, 0, 1);
	assert_true(twt_vj_end(&job));
	assert_true(seen && over);
}

/* The rank that looks is stopped itself: the next one misses it, and looks until it is back. */
static void stopped_looker(void **state)
{
	struct twt_vj_job job = {
		.fault = VJ_STOPPED, .size = 3, .victim = 0, .seed = seed, .memory = true
	};
	bool seen, back = false;
	long long looks;

	(void)state;
	begin(&job);
	seen = await_row(&job, 1, 0);
	kill(job.pids[job.victim], SIGCONT);
	looks = looks_of(&job, 0);
	for (int turn = 0; turn < TURNS && !back; turn++) {
		usleep(200000);
		back = looks_of(&job, 0) > looks;
	}
	assert_true(twt_vj_end(&job));
	assert_true(seen && back);
}

static void nobody_looks(void **state)
{
	struct twt_vj_job job = { .fault = VJ_HEALTHY, .size = 3, .seed = seed, .memory = true };

	(void)state;
	setenv("TOW_VERDICT_INTERVAL_NS", "0", 1);
	begin(&job);
	setenv("TOW_VERDICT_INTERVAL_NS", INTERVAL, 1);
	for (int i = 0; i < job.size; i++) {
		json_t *document = history_of(&job, i);

		assert_int_equal(json_integer_value(json_object_get(document, "interval_ns")), 0);
		assert_null(json_object_get(document, "rows"));
		json_decref(document);
	}
	snprintf(line, sizeof(line),
		 "TOW_STATS_DIR=%s @/tools/towstat/towstat verdict %s --since 600", job.dir,
		 job.name);
	twt_command(line, &command);
	twt_command_expect(&command, 5, "no rank has asked for a verdict in the last 600 s", 1);
	assert_true(twt_vj_end(&job));
}

static void wrong_times(void **state)
{
	static const char *const wrong[] = { "0", "-1m", "10x", "m", "10mm", "nan", "1e9d", "''" };

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(line, sizeof(line), "@/tools/towstat/towstat verdict --since %s",
			 wrong[i]);
		twt_command(line, &command);
		twt_command_expect(&command, 2, "--since is a time such as 90s, 10m or 2h", 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(late_rank),      cmocka_unit_test(stopped_rank),
		cmocka_unit_test(stopped_looker), cmocka_unit_test(nobody_looks),
		cmocka_unit_test(wrong_times),
	};

	seed = twt_seed();
	setenv("TOW_VERDICT_INTERVAL_NS", INTERVAL, 1);
	return twt_beside_tests(tests, sizeof(tests) / sizeof(tests[0]), 1, 2);
}
