/*
 * test_polled.c - how long a thread is blocked that does not wait: it tests, progresses until it is
 * called back, or takes from a queue; over each lane, at once again, with a short sleep between
 * two calls, with work, which is none of it, and with waits. What is expected is counted by the
 * test itself, in times of its own CPU, so that a busy machine changes nothing.
 */
#include "twt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "lane_pair.h"
#include "transport/op/op_wait.h"

#define LONG_NS  60000000u /* of each kind of polling */
#define WORK_NS  3000000u
#define NAP_US   100
#define NAP_MOST 1500000u  /* a sleep that took longer need not be counted */
#define LOST_NS  40000000u /* a CPU lost for so long may look like work: what was before is lost */

enum way { TESTS, PROGRESSES, TAKES, WAYS };
enum between { NOTHING, NAPS, WORKS, BETWEENS };

static const char *const way_names[WAYS] = { "tests", "progresses", "takes" };
static const char *const between_names[BETWEENS] = { "nothing", "naps", "work" };

static struct twt_lane_pair pair;
static struct tow_queue *queue;
static struct tow_op *op;
static atomic_bool called;
static char word[8];

static uint64_t cpu_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * TWT_SECOND + (uint64_t)now.tv_nsec;
}

static uint64_t blocked_ns(void)
{
	return twi_counter_sum(twi_runtime_engine(pair.runtime[1])->diag, TWI_C_wait_ns);
}

static void note_call(struct tow_op *ended, const struct tow_result *result)
{
	struct tow_result again = TOW_RESULT_INIT;

	assert_int_equal(result->status, TOW_OK);
	/* It is in flight until this returns (endpoint.h). */
	assert_int_equal(tow_op_result(ended, &again), TOW_AGAIN);
	called = true;
}

static void start_receive(enum way way)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;

	called = false;
	options.done = way == PROGRESSES ? note_call : NULL;
	options.queue = way == TAKES ? queue : NULL;
	TWT_OK(tow_recv_start(pair.peer[1], word, sizeof(word), 1, &options,
			      way == TAKES ? NULL : &op));
}

/* Whether it has come, by one call. */
static bool has_come(enum way way)
{
	struct tow_result result = { .size = sizeof(result) };
	size_t count = 0;
	int status = TOW_OK;

	if (way == TESTS)
		status = tow_op_test(op);
	else if (way == PROGRESSES)
		tow_progress(pair.runtime[1]);
	else
		status = tow_queue_take(queue, &result, 1, &count);
	if (status != TOW_AGAIN)
		TWT_OK(status);
	return way == TESTS ? status != TOW_AGAIN : way == PROGRESSES ? called : count == 1;
}

/* What the polling counts for at least, and at most. */
struct expected {
	uint64_t least_ns, most_ns;
};

static void poll_for_long(enum way way, enum between between, struct expected *out)
{
	uint64_t begun = twi_now_ns(), cpu = cpu_now(), naps = 0, worked = 0;

	while (twi_now_ns() - begun < LONG_NS) {
		uint64_t from = twi_now_ns(), cpu_from = cpu_now(), took;

		assert_false(has_come(way));
		if (between == NAPS) {
			usleep(NAP_US);
			took = twi_now_ns() - from;
			naps += took < NAP_MOST ? took : 0;
		}
		while (between == WORKS && cpu_now() - cpu_from < WORK_NS)
			;
		worked += between == WORKS ? cpu_now() - cpu_from : 0;
		if (twi_now_ns() - from > LOST_NS) {
			cpu = cpu_now();
			naps = 0;
		}
	}
	out->least_ns = (between == NOTHING ? cpu_now() - cpu : between == NAPS ? naps : 0) / 2;
	out->most_ns = twi_now_ns() - begun - worked;
}

/* Polls in vain, and sends what ends it. *begun_out: when. Returns the send. */
static struct tow_op *poll_and_send(enum way way, enum between between, struct expected *out,
				    uint64_t *begun_out)
{
	struct tow_op *sent;

	start_receive(way);
	poll_for_long(way, between, out);
	*begun_out = twi_now_ns();
	TWT_OK(tow_send_start(pair.peer[0], "1234567", 8, 1, NULL, &sent));
	return sent;
}

static void expect_blocked(enum way way, enum between between)
{
	struct expected expected;
	uint64_t before = blocked_ns(), begun, blocked;
	struct tow_op *sent = poll_and_send(way, between, &expected, &begun);

	while (!has_come(way))
		tow_progress(pair.runtime[0]);
	blocked = blocked_ns() - before;
	expected.most_ns += twi_now_ns() - begun;
	if (twi_now_ns() - begun > LOST_NS)
		expected.least_ns = 0;
	if (blocked < expected.least_ns || blocked > expected.most_ns)
		fail_msg("%s: who %s, with %s between, was blocked for %.1f ms, not %.1f to %.1f",
			 pair.lane->name, way_names[way], between_names[between],
			 (double)blocked / 1e6, (double)expected.least_ns / 1e6,
			 (double)expected.most_ns / 1e6);
	if (way != TAKES)
		TWT_OK(tow_op_release(op));
	assert_true(twt_lane_finish(&pair, sent).status >= 0);
}

static void test_lane(void **state)
{
	twt_lane_init(&pair, *state);
	if (!twt_lane_open(&pair))
		skip();
	twt_lane_join(&pair);
	TWT_OK(tow_queue_open(pair.runtime[1], 4, &queue));
	for (enum way way = 0; way < WAYS; way++)
		for (enum between between = 0; between < BETWEENS; between++)
			expect_blocked(way, between);
	TWT_OK(tow_queue_close(queue));
	twt_lane_close(&pair);
}

/* The end is learned of by a wait that has nothing to wait for. */
static int learn(bool any)
{
	size_t at;

	return any ? tow_wait_any(&op, 1, TOW_FOREVER, &at) : tow_op_wait(op, TOW_FOREVER);
}

/* Returns false if less was counted: a thread that loses its CPU for long seems to work. */
static bool is_counted(bool any)
{
	struct expected expected;
	uint64_t before = blocked_ns(), begun, blocked;
	struct tow_op *sent = poll_and_send(TESTS, NOTHING, &expected, &begun);

	while (!twi_op_is_done(op)) {
		tow_progress(pair.runtime[0]);
		tow_progress(pair.runtime[1]);
	}
	TWT_OK(learn(any));
	blocked = blocked_ns() - before;
	expected.most_ns += twi_now_ns() - begun;
	assert_true(blocked <= expected.most_ns);
	TWT_OK(tow_op_release(op));
	assert_true(twt_lane_finish(&pair, sent).status >= 0);
	return blocked >= expected.least_ns;
}

static void expect_counted(bool any)
{
	for (unsigned i = 0; i < 10; i++) {
		if (is_counted(any))
			return;
	}
	fail_msg("polling before a wait %sis not counted", any ? "for any " : "");
}

/* Polling and short waits in turns: none of the time counts twice. */
static void expect_once(void)
{
	uint64_t before = blocked_ns(), begun = twi_now_ns(), blocked, most;
	struct tow_op *sent;

	start_receive(TESTS);
	while (twi_now_ns() - begun < LONG_NS) {
		assert_false(has_come(TESTS));
		assert_int_equal(tow_op_wait(op, WORK_NS / 3), TOW_ETIMEDOUT);
	}
	TWT_OK(tow_send_start(pair.peer[0], "1234567", 8, 1, NULL, &sent));
	while (!has_come(TESTS))
		tow_progress(pair.runtime[0]);
	blocked = blocked_ns() - before;
	most = twi_now_ns() - begun;
	if (blocked > most)
		fail_msg("polling and waits in turns: blocked for %.1f ms of %.1f",
			 (double)blocked / 1e6, (double)most / 1e6);
	TWT_OK(tow_op_release(op));
	assert_true(twt_lane_finish(&pair, sent).status >= 0);
}

static void test_waits(void **state)
{
	twt_lane_init(&pair, *state);
	assert_true(twt_lane_open(&pair));
	twt_lane_join(&pair);
	expect_counted(false);
	expect_counted(true);
	expect_once();
	twt_lane_close(&pair);
}

static void *drive_on(void *over)
{
	while (!atomic_load((atomic_bool *)over))
		tow_progress(pair.runtime[1]);
	return NULL;
}

/* Who only drives for others, and began before them, is not the thread that is followed. */
static void test_helper(void **state)
{
	struct twi_engine *engine;
	struct expected expected;
	struct tow_op *sent;
	atomic_bool over = false;
	pthread_t helper;
	int followed = 0;

	twt_lane_init(&pair, *state);
	assert_true(twt_lane_open(&pair));
	twt_lane_join(&pair);
	engine = twi_runtime_engine(pair.runtime[1]);
	assert_int_equal(pthread_create(&helper, NULL, drive_on, &over), 0);
	for (unsigned i = 0; i < 100 && followed != gettid(); i++) {
		start_receive(TESTS);
		poll_for_long(TESTS, NAPS, &expected);
		TWT_OK(tow_send_start(pair.peer[0], "1234567", 8, 1, NULL, &sent));
		while (!has_come(TESTS))
			tow_progress(pair.runtime[0]);
		TWT_OK(tow_op_release(op));
		assert_true(twt_lane_finish(&pair, sent).status >= 0);
		twi_engine_enter(engine);
		followed = engine->cpu_log.thread;
		twi_engine_leave(engine);
	}
	assert_int_equal(followed, gettid());
	atomic_store(&over, true);
	pthread_join(helper, NULL);
	twt_lane_close(&pair);
}

int main(void)
{
	struct CMUnitTest tests[TWT_LANE_ROWS + 2];
	size_t count = 0;

	for (size_t i = 0; i < TWT_LANE_ROWS; i++) {
		/* The clock of the simulator stands still. */
		if (strcmp(twt_lane_rows[i].name, "loop") == 0)
			continue;
		tests[count++] = (struct CMUnitTest){ twt_lane_rows[i].name, test_lane, NULL, NULL,
						      (void *)(uintptr_t)&twt_lane_rows[i] };
	}
	tests[count++] = (struct CMUnitTest){ "a helper", test_helper, NULL, NULL,
					      (void *)(uintptr_t)&twt_lane_rows[0] };
	tests[count++] = (struct CMUnitTest){ "waits", test_waits, NULL, NULL,
					      (void *)(uintptr_t)&twt_lane_rows[0] };
	return _cmocka_run_group_tests("polled", tests, count, NULL, NULL);
}
