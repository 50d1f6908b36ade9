/*
 * test_capture_trigger.c - captures on trigger, in jobs of real ranks: a step that is slow, and a
 * verdict that names somebody. Who comes later finds the trace of the fault; healthy jobs write
 * none.
 *
 * TOW_TEST_SEED replays.
 */
#include "coll_job.h"

#include <jansson.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "beside.h"
#include "diag/trace/export/export.h"
#include "trace_files.h"
#include "verdict_ask.h"

#define RANKS   3
#define PERCENT "1000" /* a busy machine may make a step some times as long */
#define USUAL   30000  /* us, less than a third of it jitter */
#define SLOW    1500000
#define HANGS   4000000 /* longer than the capture of a second goes on */
#define STALLED 175000  /* us: a usual step that takes so long was held up by the machine */
#define TRIES   5
#define KNOWN   12 /* steps before the slow one, at least */
#define SPANS   256
#define COUNT   32768 /* 128 KiB: of smaller ones span_sample chooses some before a capture */

struct plan {
	uint64_t seed;
	int rank, step; /* whose is slow, and which; step 0: none */
	bool knob;
	bool ends; /* with the slow step, long before its capture would */
};

/* Shared by the ranks: the machine has stood still in a usual step, so this run says nothing. */
static _Atomic bool *stalled;

static char dir[64];
static struct twt_trace_file files[TWT_TRACE_FILES];
static uint64_t random_state;

static void begin_folder(const char *seconds)
{
	snprintf(dir, sizeof(dir), "/tmp/twt-trigger-XXXXXX");
	assert_non_null(mkdtemp(dir));
	setenv("TOW_TRACE_DIR", dir, 1);
	setenv("TOW_TRACE_SECONDS", seconds, 1);
	setenv("TOW_LOG_LEVEL", "3", 1);
}

/* One of /v1/counters; -1: there is none. */
static long long counter_of(struct twt_job *job, const char *name)
{
	json_t *document, *value;
	long long counted = -1;
	char *text;

	twt_must(tow_stats_get(job->runtime, "/v1/counters", &text) == TOW_OK);
	document = json_loads(text, 0, NULL);
	twt_must(document != NULL);
	value = json_object_get(json_object_get(document, "counters"), name);
	value = value != NULL ? value : json_object_get(document, name);
	if (json_is_integer(value))
		counted = (long long)json_integer_value(value);
	json_decref(document);
	tow_stats_release(text);
	return counted;
}

/* The log says why, and where it is. */
static void check_log(struct twt_job *job, int step)
{
	char *text, why[64], where[64];

	snprintf(why, sizeof(why), "trace of step %d, which took ", step);
	snprintf(where, sizeof(where), "/plugins/profile/step_%d/", step);
	twt_must(tow_stats_get(job->runtime, "/v1/info", &text) == TOW_OK);
	twt_must(strstr(text, why) != NULL && strstr(text, where) != NULL);
	tow_stats_release(text);
}

/*
 * The slow step is followed by one that hangs while the capture runs, and ends after it: it is slow
 * as well, and less than a minute later.
 */
static void play_steps(struct twt_job *job, const void *arg)
{
	const struct plan *plan = arg;
	uint64_t jitter = plan->seed + (uint64_t)job->rank;
	int last = plan->step > 0 ? plan->step + 3 : 2 * KNOWN;
	bool triggers = plan->knob && plan->step > 0;

	for (int n = 1; n <= (plan->ends ? plan->step : last); n++) {
		bool usual = plan->step == 0 || n < plan->step || n > plan->step + 1;
		uint64_t began = twt_job_now();

		twt_must(tow_step_begin(job->runtime, (uint64_t)n) == TOW_OK);
		usleep(USUAL + (useconds_t)twt_random_below(&jitter, USUAL / 3));
		if (job->rank == plan->rank && plan->step > 0 && n == plan->step)
			usleep(SLOW);
		if (job->rank == plan->rank && plan->step > 0 && n == plan->step + 1)
			usleep(HANGS);
		twt_job_sum(job, job->group, COUNT);
		twt_must(tow_step_end(job->runtime, (uint64_t)n) == TOW_OK);
		if (usual && twt_job_now() - began > STALLED * UINT64_C(1000))
			atomic_store(stalled, true);
	}
	twt_job_sum(job, job->group, COUNT); /* all know whether any was held up */
	if (plan->ends || atomic_load(stalled))
		return;
	twt_must(counter_of(job, "triggered_captures") == triggers);
	twt_must(counter_of(job, "triggers_passed_over") == triggers);
	if (triggers)
		check_log(job, plan->step);
}

/* The slow step is in it, with the steps just before; of a rank that waits, for what it does. */
static void check_file(const struct plan *plan, const struct twt_trace_file *file)
{
	const struct twi_span *steps[SPANS], *colls[SPANS], *slow = NULL;
	const struct twi_trace_rank *rank;
	size_t count, coll_count, hangs = 0;
	struct twi_trace trace;
	char session[32];

	snprintf(session, sizeof(session), "step_%d", plan->step);
	assert_string_equal(file->session, session);
	twt_trace_file_read(file, &trace);
	rank = &trace.ranks[0];
	count = twt_trace_spans_of(&trace, TWI_SPAN_STEP, steps, SPANS);
	coll_count = twt_trace_spans_of(&trace, TWI_SPAN_COLL, colls, SPANS);
	assert_true(count >= 1 && count <= SPANS);
	for (size_t i = 0; i < count; i++) {
		assert_true((int)steps[i]->id + 5 >= plan->step);
		assert_true((int)steps[i]->id <= plan->step + 3);
		if ((int)steps[i]->id == plan->step)
			slow = steps[i];
	}
	assert_non_null(slow);
	assert_true(slow->end_ns - slow->start_ns >= (uint64_t)SLOW * 1000);
	assert_true(rank->begin_ns <= slow->start_ns && rank->end_ns > slow->end_ns);
	assert_true(coll_count >= 1);
	for (size_t i = 0; i < rank->unfinished_count; i++)
		hangs += rank->unfinished[i].kind == TWI_SPAN_COLL;
	if (!plan->ends && rank->rank != plan->rank)
		assert_int_equal(hangs, 1);
	twi_trace_fini(&trace);
}

/* Until a run in which no usual step was held up; that the machine lets none through fails. */
static void run_steps(const char *lane, struct plan *plan)
{
	stalled = mmap(NULL, sizeof(*stalled), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	assert_true(stalled != MAP_FAILED);
	setenv("TOW_TRACE_ON_SLOW_STEP", plan->knob ? PERCENT : "0", 1);
	for (int i = 0; i < TRIES; i++) {
		atomic_store(stalled, false);
		begin_folder(plan->ends ? "60" : "1");
		plan->seed = twt_random(&random_state);
		twt_job_run(lane, RANKS, 0, play_steps, plan, NULL);
		if (!atomic_load(stalled))
			break;
		printf("try %d: the machine stood still\n", i);
		twt_trace_files_remove(dir);
	}
	unsetenv("TOW_TRACE_ON_SLOW_STEP");
	assert_false(atomic_load(stalled));
}

static void check_slow_step(const char *lane, bool ends)
{
	struct plan plan = {
		.ends = ends,
		.rank = (int)twt_random_below(&random_state, RANKS),
		.step = KNOWN + (int)twt_random_below(&random_state, 20),
		.knob = true,
	};
	unsigned seen = 0;

	run_steps(lane, &plan);
	assert_int_equal(twt_trace_files(dir, files), RANKS);
	for (unsigned i = 0; i < RANKS; i++) {
		const char *end = strrchr(files[i].name, '-');

		seen |= end != NULL ? 1u << (end[1] - '0') : 0;
		check_file(&plan, &files[i]);
	}
	assert_int_equal(seen, (1u << RANKS) - 1);
	twt_trace_files_remove(dir);
}

static void slow_step(void **state)
{
	(void)state;
	check_slow_step("tcp", false);
}

static void slow_step_shm(void **state)
{
	(void)state;
	check_slow_step("shm", false);
}

static void slow_step_at_the_end(void **state)
{
	(void)state;
	check_slow_step("tcp", true);
}

static void healthy_steps(void **state)
{
	struct plan plan = { .knob = true };

	(void)state;
	run_steps("tcp", &plan);
	assert_int_equal(twt_trace_files(dir, files), 0);
	twt_trace_files_remove(dir);
}

static void knob_off(void **state)
{
	struct plan plan = { .step = KNOWN };

	(void)state;
	run_steps("shm", &plan);
	assert_int_equal(twt_trace_files(dir, files), 0);
	twt_trace_files_remove(dir);
}

static void wrong_knobs(void **state)
{
	static const struct {
		int64_t step, verdict;
		const char *says;
	} wrong[] = {
		{ 1, 0, "trace_on_slow_step = 1 is not valid" },
		{ 100, 0, "use 0, or more than 100 percent of the median step" },
		{ 10001, 0, "trace_on_slow_step=10001 (option) is not valid" },
		{ 0, 2, "trace_on_verdict=2 (option) is not valid: it is 0 or 1" },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct tow_options options = TOW_OPTIONS_INIT;
		struct tow_runtime *runtime;

		options.premap_memory_bytes = 4 << 20;
		options.trace_on_slow_step = wrong[i].step;
		options.trace_on_verdict = wrong[i].verdict;
		assert_int_equal(tow_runtime_open(&options, &runtime), TOW_EINVAL);
		assert_non_null(strstr(tow_error_message(), wrong[i].says));
	}
}

/* --- verdicts --- */

static struct twt_vj_asked asked[VJ_RANKS];

/* Until the rank that looks has a row which names the planted fault. */
static bool await_finding(const struct twt_vj_job *job)
{
	for (int turn = 0; turn < 300; turn++) {
		bool found = false;
		json_t *document, *rows;

		twt_vj_ask(job, 1, "/v1/verdicts", asked);
		document = twt_vj_document(&asked[0]);
		rows = json_object_get(document, "rows");
		for (size_t i = 0; i < json_array_size(rows); i++) {
			const json_t *findings =
				json_object_get(json_array_get(rows, i), "findings");

			for (size_t k = 0; k < json_array_size(findings); k++)
				found |= twt_vj_is_planted(job, json_array_get(findings, k));
		}
		json_decref(document);
		if (found)
			return true;
		usleep(200000);
	}
	return false;
}

static struct twt_vj_job begin_late(unsigned untraced)
{
	struct twt_vj_job job = {
		.fault = VJ_LATE, .size = 3, .victim = 2, .memory = true, .untraced = untraced
	};

	job.seed = twt_random(&random_state);
	begin_folder("1");
	setenv("TOW_VERDICT_INTERVAL_NS", "1s", 1);
	setenv("TOW_TRACE_ON_VERDICT", "1", 1);
	setenv("TOW_TRACE_ON_SLOW_STEP", "10000", 1); /* so all of them could capture */
	twt_vj_begin(&job);
	unsetenv("TOW_TRACE_ON_SLOW_STEP");
	unsetenv("TOW_TRACE_ON_VERDICT");
	assert_true(twt_vj_reached(&job, VJ_STEPS));
	assert_true(twt_vj_plant(&job));
	return job;
}

/* All whose knob is on, in one folder; each file has what the job did meanwhile. */
static void check_verdict(unsigned untraced, size_t count)
{
	struct twt_vj_job job = begin_late(untraced);
	size_t there = twt_trace_files_await(dir, count, files);
	const struct twi_span *colls[1];
	unsigned seen = 0;

	usleep(300000); /* for one that should not come */
	there = there == count ? twt_trace_files(dir, files) : there;
	assert_true(await_finding(&job));
	assert_true(twt_vj_end(&job));
	assert_int_equal(there, count);
	for (size_t i = 0; i < count; i++) {
		const char *end = strrchr(files[i].name, '-');
		struct twi_trace trace;

		assert_int_equal(strncmp(files[i].session, "verdict_20", 10), 0);
		assert_string_equal(files[i].session, files[0].session);
		twt_trace_file_read(&files[i], &trace);
		assert_true(twt_trace_spans_of(&trace, TWI_SPAN_COLL, colls, 1) > 0);
		seen |= end != NULL ? 1u << (end[1] - '0') : 0;
		twi_trace_fini(&trace);
	}
	assert_int_equal(seen, 7u & ~untraced);
	twt_trace_files_remove(dir);
}

static void verdict_all_ranks(void **state)
{
	(void)state;
	check_verdict(0, 3);
}

/* A rank is asked by another one, and its own knob decides. */
static void verdict_but_one(void **state)
{
	(void)state;
	check_verdict(1u << (1 + twt_random_below(&random_state, 2)), 2);
}

static void verdict_knob_off(void **state)
{
	struct twt_vj_job job;

	(void)state;
	job = begin_late(7);
	assert_true(await_finding(&job));
	usleep(1500000);
	assert_int_equal(twt_trace_files(dir, files), 0);
	assert_true(twt_vj_end(&job));
	twt_trace_files_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slow_step),         cmocka_unit_test(slow_step_shm),
		cmocka_unit_test(healthy_steps),     cmocka_unit_test(slow_step_at_the_end),
		cmocka_unit_test(knob_off),          cmocka_unit_test(wrong_knobs),
		cmocka_unit_test(verdict_all_ranks), cmocka_unit_test(verdict_but_one),
		cmocka_unit_test(verdict_knob_off),
	};

	if (twi_xspace_ready() < 0) {
		printf("skipped: without protobuf-c there is no XSpace\n");
		return 77;
	}
	random_state = twt_seed();
	return twt_beside_tests(tests, sizeof(tests) / sizeof(tests[0]), 1, 4);
}
