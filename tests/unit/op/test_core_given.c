/*
 * test_core_given.c - a thread that tests, progresses or takes from a queue in a tight loop gives
 * its core away: it yields, with each call where another thread takes the core for a moment, and
 * sleeps instead where one keeps it. A thread that works between its calls is left alone. The
 * program's own sched_yield and nanosleep say what was called, and play the other thread.
 */
#include "twt.h"

#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lane_pair.h"

#define SLOW_NS  25000u   /* from here on, two calls do not follow each other directly */
#define TAKEN_NS 100000u  /* for so long another thread has the core that yields soon */
#define KEPT_NS  3000000u /* and one that computes */
#define CALLS    30u
#define LONG_NS  (TWT_SECOND / 5)
#define MOST_NS  (30 * TWT_SECOND)

#define FORGOTTEN_NS (TWT_SECOND / 20)

enum way { TESTS, PROGRESSES, TAKES, WAYS };

static struct twt_lane_pair pair;
static struct tow_queue *queue;
static struct tow_op *op;
static char word[8];
static _Thread_local bool looks;
static uint64_t taken_ns;
static unsigned yields, sleeps;

static void spin(uint64_t ns)
{
	for (uint64_t from = twi_now_ns(); twi_now_ns() - from < ns;)
		;
}

__attribute__((visibility("default"))) int sched_yield(void)
{
	if (!looks)
		return (int)syscall(SYS_sched_yield);
	yields++;
	spin(taken_ns);
	return 0;
}

__attribute__((visibility("default"))) int nanosleep(const struct timespec *time,
						     struct timespec *left)
{
	sleeps += looks;
	return (int)syscall(SYS_nanosleep, time, left);
}

static void call_in_vain(enum way way)
{
	struct tow_result result = { .size = sizeof(result) };
	size_t count = 0;

	looks = true;
	if (way == TESTS)
		assert_int_equal(tow_op_test(op), TOW_AGAIN);
	else if (way == PROGRESSES)
		(void)tow_progress(pair.runtime[1]);
	else
		assert_int_equal(tow_queue_take(queue, &result, 1, &count), TOW_AGAIN);
	looks = false;
}

static void begin(uint64_t other_ns)
{
	usleep(1000); /* what follows does not follow directly */
	taken_ns = other_ns;
	yields = sleeps = 0;
}

/* Nobody else wants the core: now and then a yield finds out. */
static bool play_lone(enum way way)
{
	unsigned calls = 0;

	begin(0);
	for (uint64_t from = twi_now_ns(); yields < 5 && twi_now_ns() - from < LONG_NS; calls++)
		call_in_vain(way);
	return yields == 5 && calls > 10 && sleeps == 0;
}

/* Another thread takes it, and gives it back soon: each call yields, but the first ones. */
static bool play_shared(enum way way)
{
	unsigned before;

	begin(TAKEN_NS);
	for (uint64_t from = twi_now_ns(); yields == 0 && twi_now_ns() - from < LONG_NS;)
		call_in_vain(way);
	before = yields;
	for (unsigned i = 0; i < CALLS; i++)
		call_in_vain(way);
	return yields - before == CALLS;
}

/*
 * Another thread keeps it: a yield cost a whole slice, so there are sleeps instead. The longer it
 * goes on, the more seldom a yield asks whether it still does.
 */
static bool play_kept(enum way way)
{
	begin(KEPT_NS);
	for (uint64_t from = twi_now_ns(); sleeps < 20 && twi_now_ns() - from < LONG_NS;)
		call_in_vain(way);
	return sleeps == 20 && yields < sleeps;
}

/* The thread works: it needs its core itself. */
static bool play_busy(enum way way)
{
	begin(TAKEN_NS);
	for (unsigned i = 0; i < CALLS; i++) {
		call_in_vain(way);
		spin(SLOW_NS);
	}
	assert_int_equal(yields, 0);
	assert_int_equal(sleeps, 0);
	return true;
}

/*
 * A thread that really loses its core for a while takes that for another thread's doing. So each
 * play is tried until it goes undisturbed.
 */
static void play(bool (*what)(enum way), enum way way)
{
	uint64_t from = twi_now_ns();

	while (!what(way)) {
		assert_true(twi_now_ns() - from < MOST_NS);
		/* What one that kept the core has left behind is forgotten. */
		taken_ns = 0;
		for (uint64_t since = twi_now_ns(); twi_now_ns() - since < FORGOTTEN_NS;)
			call_in_vain(way);
	}
}

static void test_lane(void **state)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;

	twt_lane_init(&pair, *state);
	if (!twt_lane_open(&pair))
		skip();
	twt_lane_join(&pair);
	TWT_OK(tow_queue_open(pair.runtime[1], 4, &queue));
	TWT_OK(tow_recv_start(pair.peer[1], word, sizeof(word), 1, &options, &op));
	for (enum way way = 0; way < WAYS; way++) {
		play(play_lone, way);
		play(play_shared, way);
		play(play_busy, way);
		play(play_kept, way);
	}
	TWT_OK(tow_op_cancel(op));
	(void)twt_lane_finish(&pair, op);
	TWT_OK(tow_queue_close(queue));
	twt_lane_close(&pair);
}

int main(void)
{
	struct CMUnitTest tests[TWT_LANE_ROWS];
	size_t count = 0;

	for (size_t i = 0; i < TWT_LANE_ROWS; i++) {
		/* The clock of the simulator stands still. */
		if (strcmp(twt_lane_rows[i].name, "loop") != 0)
			tests[count++] =
				(struct CMUnitTest){ twt_lane_rows[i].name, test_lane, NULL, NULL,
						     (void *)(uintptr_t)&twt_lane_rows[i] };
	}
	return _cmocka_run_group_tests("core given", tests, count, NULL, NULL);
}
