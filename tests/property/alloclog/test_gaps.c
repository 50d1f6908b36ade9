/*
 * test_gaps.c - a log that has no room for all, against the list of all that happened.
 *
 * A program of steps goes on for many times what the log holds. Some blocks live for one step, some
 * for many; one step in a thousand takes more than the others. Outside its gaps the log must show
 * the same live blocks as the program had, each free has its allocation, what is left out is
 * counted, and the highest peak is there. Each size is given once, so that it names its block, and
 * sums of sizes name sets of them.
 */
#include "twt.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "diag/record/diag.h"
#include "memreg/alloclog/alloclog.h"
#include <towline/status.h>

#define THREADS   3
#define EVENTS    4096 /* that the log holds */
#define LIVE      400
#define OPS       120000
#define STEP_OPS  200
#define PEAK_STEP 307
#define PEAK_OP   (PEAK_STEP * STEP_OPS + STEP_OPS / 2)
#define PEAK_OPS  30
#define UNIT      ((uint64_t)64)
#define BASE      ((uint64_t)1 << 20) /* units of each block; what a size is above it names it */
#define HIGH      (1000 * BASE)       /* more than all others together */

struct op {
	uint64_t bytes; /* of its block; 0: a step */
	uint64_t live;  /* bytes, after it */
	bool alloc;
};

struct world {
	struct twi_alloclog *log;
	struct op *op;
	uint64_t count, next, live_bytes, random;
	uint64_t block[LIVE + 1];     /* bytes of the block of each place; 0: none */
	uint64_t *alloc_op, *free_op; /* by the name of the block: its op and 1 */
	pthread_mutex_t lock;
};

static const void *place_of(unsigned place)
{
	return (const void *)((uintptr_t)0x100000 + place * (uintptr_t)4096);
}

static uint64_t name_of(uint64_t bytes)
{
	return bytes / UNIT % BASE;
}

static void do_alloc(struct world *w, unsigned place, uint64_t units)
{
	uint64_t bytes = (++w->next + units) * UNIT;

	w->block[place] = bytes;
	w->live_bytes += bytes;
	w->alloc_op[name_of(bytes)] = w->count + 1;
	twi_alloclog_alloc(w->log, place_of(place), bytes, 0, TWI_SITE_NONE);
	w->op[w->count++] = (struct op){ bytes, w->live_bytes, true };
}

static void do_free(struct world *w, unsigned place)
{
	uint64_t bytes = w->block[place];
	struct twi_alloclog_begun begun = twi_alloclog_begin(w->log, place_of(place));

	begun.bytes = bytes; /* as a pool would say */
	twi_alloclog_free(w->log, place_of(place), begun, TWI_SITE_NONE);
	w->block[place] = 0;
	w->live_bytes -= bytes;
	w->free_op[name_of(bytes)] = w->count + 1;
	w->op[w->count++] = (struct op){ bytes, w->live_bytes, false };
}

/* One event more; the lock is held, so that the list has the order of the log. */
static void do_any(struct world *w)
{
	/* A quarter of the places is used rarely: their blocks live for many steps. */
	unsigned place = (unsigned)twt_random_below(&w->random, LIVE * 3 / 4);

	if (twt_random_below(&w->random, 100) == 0)
		place = LIVE * 3 / 4 + (unsigned)twt_random_below(&w->random, LIVE / 4);
	if (w->count % STEP_OPS == 0) {
		twi_alloclog_step(w->log, w->count / STEP_OPS, TWI_SITE_NONE);
		w->op[w->count++] = (struct op){ 0, w->live_bytes, false };
	} else if (w->count == PEAK_OP) {
		do_alloc(w, LIVE, HIGH);
	} else if (w->count == PEAK_OP + PEAK_OPS) {
		do_free(w, LIVE);
	} else if (w->block[place] != 0) {
		do_free(w, place);
	} else {
		do_alloc(w, place, BASE);
	}
}

static void *work(void *arg)
{
	struct world *w = arg;
	bool more = true;

	while (more) {
		pthread_mutex_lock(&w->lock);
		more = w->count < OPS;
		if (more)
			do_any(w);
		pthread_mutex_unlock(&w->lock);
	}
	return NULL;
}

/* Which op of the program an event is: its number and 1. */
static uint64_t op_of(const struct world *w, const struct twi_alloc_event *e)
{
	uint64_t name = name_of(e->bytes);

	return e->kind == TWI_ALLOC_ALLOC ? w->alloc_op[name] : w->free_op[name];
}

struct seen {
	uint64_t live, most, steps, others, gap_end, compared;
};

static void check_event(const struct world *w, const struct twi_alloc_event *e, struct seen *seen)
{
	const struct op *op;

	if (e->kind == TWI_ALLOC_GAP) {
		seen->gap_end = e->ns + e->bytes;
		return;
	}
	if (e->kind == TWI_ALLOC_STEP) {
		seen->steps++;
		return;
	}
	assert_true(op_of(w, e) > 0);
	op = &w->op[op_of(w, e) - 1];
	assert_int_equal(op->bytes, e->bytes);
	seen->others++;
	seen->live += op->alloc ? e->bytes : 0;
	seen->live -= op->alloc ? 0 : e->bytes;
	seen->most = twi_max(seen->most, seen->live);
	if (e->ns > seen->gap_end) {
		assert_int_equal(seen->live, op->live);
		seen->compared++;
	}
}

static void check_all(const struct world *w, const struct twi_alloc_trace *t)
{
	struct seen seen = { 0 };
	uint64_t most = 0, steps = 0, freed = 0, open = 0;

	for (uint64_t i = 0; i < w->count; i++) {
		most = twi_max(most, w->op[i].live);
		steps += w->op[i].bytes == 0;
	}
	for (size_t i = 0; i < t->count; i++) {
		check_event(w, &t->events[i], &seen);
		freed += t->events[i].kind == TWI_ALLOC_FREE;
		open += t->events[i].kind == TWI_ALLOC_ALLOC;
	}
	assert_true(t->gaps > 0);
	assert_int_equal(t->lost, 0);
	assert_int_equal(t->sampling_shift, 0);
	assert_int_equal(t->unknown_frees, 0);
	assert_true(t->count <= EVENTS + t->gaps);
	assert_int_equal(seen.live, w->live_bytes);
	assert_int_equal(seen.most, most);
	assert_true(t->gap_peak_bytes < most);
	assert_int_equal(seen.steps + t->left_steps, steps);
	assert_int_equal(seen.others + t->left_events, w->count - steps);
	assert_true(seen.compared > EVENTS / 4);
	assert_true(open >= freed);
}

static void run_threads(int threads)
{
	struct world w = { .random = twt_seed() };
	struct twi_alloclog_capture *capture;
	pthread_t thread[THREADS];
	struct twi_alloc_trace t;
	struct twi_diag *diag;

	twi_clock_init();
	w.op = calloc(OPS + 1, sizeof(*w.op));
	w.alloc_op = calloc(BASE, sizeof(uint64_t));
	w.free_op = calloc(BASE, sizeof(uint64_t));
	assert_true(w.op != NULL && w.alloc_op != NULL && w.free_op != NULL);
	pthread_mutex_init(&w.lock, NULL);
	assert_int_equal(twi_diag_create(&diag), TOW_OK);
	assert_int_equal(twi_alloclog_create(diag, EVENTS, &w.log), TOW_OK);
	assert_int_equal(twi_alloclog_capture_start(w.log, false, &capture), TOW_OK);
	for (int i = 0; i < threads; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, work, &w), 0);
	for (int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(twi_alloclog_capture_finish(w.log, capture, &t), TOW_OK);
	check_all(&w, &t);
	twi_alloc_trace_fini(&t);
	twi_alloclog_destroy(w.log);
	twi_diag_destroy(diag);
	pthread_mutex_destroy(&w.lock);
	free(w.op);
	free(w.alloc_op);
	free(w.free_op);
}

static void of_one_thread(void **state)
{
	(void)state;
	run_threads(1);
}

static void of_several_threads(void **state)
{
	(void)state;
	run_threads(THREADS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_one_thread),
		cmocka_unit_test(of_several_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
