/*
 * test_alloclog.c - random allocations on several threads with the log on, against a shadow.
 *
 * Every thread notes what it allocates, and hands some blocks to the others to free. A log without
 * gaps has exactly these allocations, each with its free; one that has gaps has some of them,
 * whole: never an allocation without the free that happened, never a free without its allocation.
 * Each size is given once, so that it names its allocation.
 */
#include "twt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "diag/record/diag.h"
#include "memreg/alloclog/alloclog.h"
#include "memreg/pool/pool.h"
#include <towline/status.h>

#define THREADS    3
#define LIVE       1024
#define POOL_BYTES ((uint64_t)512 << 20)

struct shared {
	struct twi_pool *pool;
	struct twi_alloclog *log;
	_Atomic(void *) handed[16];
	bool *freed; /* by size */
	_Atomic uint64_t next_bytes;
	uint64_t sizes;
};

struct worker {
	struct shared *shared;
	uint64_t random;
	int steps;
	const char *failure;
};

/* The size stands in the block, so that whoever frees it knows which it was. */
static void *get(struct worker *w)
{
	struct shared *s = w->shared;
	uint64_t bytes = 8 + atomic_fetch_add(&s->next_bytes, 1);
	void *p;

	if (bytes >= s->sizes || twi_pool_alloc(s->pool, bytes, 0, &p) != TOW_OK)
		return NULL;
	twi_alloclog_alloc(s->log, p, bytes, 0, TWI_SITE_HERE);
	*(uint64_t *)p = bytes;
	return p;
}

static void give(struct worker *w, void *p)
{
	struct shared *s = w->shared;
	struct twi_alloclog_begun begun = twi_alloclog_begin(s->log, p);
	uint64_t bytes = *(uint64_t *)p;

	if (twi_pool_free(s->pool, p) != TOW_OK)
		w->failure = "free";
	twi_alloclog_free(s->log, p, begun, TWI_SITE_HERE);
	s->freed[bytes] = true;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	void *live[LIVE] = { 0 };

	for (int i = 0; i < w->steps; i++) {
		void **at = &live[twt_random_below(&w->random, LIVE)];
		_Atomic(void *) *hand = &w->shared->handed[twt_random_below(&w->random, 16)];

		if (*at == NULL)
			*at = get(w);
		else if (twt_random_below(&w->random, 3) == 0)
			*at = atomic_exchange(hand, *at); /* another thread frees it */
		else {
			give(w, *at);
			*at = NULL;
		}
	}
	/* Some stay live until the end of the log. */
	for (int i = 0; i < LIVE / 2; i++) {
		if (live[i] != NULL)
			give(w, live[i]);
	}
	return NULL;
}

/* Each size at most once, freed when it was; returns how many allocations there are. */
static uint64_t check(const struct shared *s, const struct twi_alloc_trace *t)
{
	bool *ended = calloc(s->sizes, sizeof(*ended)), *begun = calloc(s->sizes, sizeof(*begun));
	uint64_t allocs = 0;

	assert_non_null(ended);
	assert_non_null(begun);
	for (size_t i = 0; i < t->count; i++) {
		const struct twi_alloc_event *e = &t->events[i];

		if (e->kind == TWI_ALLOC_GAP)
			continue;
		assert_in_range(e->bytes, 8, s->sizes - 1);
		if (e->kind == TWI_ALLOC_ALLOC) {
			assert_false(begun[e->bytes]);
			begun[e->bytes] = true;
			allocs++;
		} else {
			assert_int_equal(e->kind, TWI_ALLOC_FREE);
			assert_true(begun[e->bytes] && !ended[e->bytes]);
			ended[e->bytes] = true;
		}
	}
	for (uint64_t bytes = 0; bytes < s->sizes; bytes++)
		assert_true(!begun[bytes] || ended[bytes] == s->freed[bytes]);
	free(ended);
	free(begun);
	return allocs;
}

static void run(uint64_t max_events, int steps, bool gaps)
{
	struct twi_pool_options options = { .bytes = POOL_BYTES };
	uint64_t random = twt_seed(), made, seen;
	struct shared s = { .sizes = (uint64_t)steps * THREADS + 16 };
	struct worker w[THREADS] = { 0 };
	pthread_t thread[THREADS];
	struct twi_alloclog_capture *capture;
	struct twi_alloc_trace t;

	twi_clock_init();
	s.freed = calloc(s.sizes, sizeof(*s.freed));
	assert_non_null(s.freed);
	assert_int_equal(twi_diag_create(&options.diag), TOW_OK);
	assert_int_equal(twi_pool_create(&options, &s.pool), TOW_OK);
	assert_int_equal(twi_alloclog_create(options.diag, max_events, &s.log), TOW_OK);
	assert_int_equal(twi_alloclog_capture_start(s.log, false, &capture), TOW_OK);
	for (int i = 0; i < THREADS; i++) {
		w[i] = (struct worker){ &s, twt_random(&random), steps, NULL };
		assert_int_equal(pthread_create(&thread[i], NULL, work, &w[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(thread[i], NULL);
		assert_null(w[i].failure);
	}
	assert_int_equal(twi_alloclog_capture_finish(s.log, capture, &t), TOW_OK);
	assert_int_equal(t.lost, 0);
	assert_int_equal(t.unknown_frees, 0);
	made = twi_min(atomic_load(&s.next_bytes), s.sizes - 8);
	seen = check(&s, &t);
	assert_int_equal(t.sampling_shift, 0);
	if (gaps) {
		assert_true(t.gaps > 0);
		assert_true(seen > 0 && seen < made);
	} else {
		assert_int_equal(t.gaps, 0);
		assert_int_equal(seen, made);
	}
	twi_alloc_trace_fini(&t);
	twi_alloclog_destroy(s.log);
	twi_pool_destroy(s.pool);
	twi_diag_destroy(options.diag);
	free(s.freed);
}

static void all_is_in_it(void **state)
{
	(void)state;
	run(1 << 18, 20000, false);
}

static void pairs_stay_whole(void **state)
{
	(void)state;
	run(16384, 30000, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_is_in_it),
		cmocka_unit_test(pairs_stay_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
