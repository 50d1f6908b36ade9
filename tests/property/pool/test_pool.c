/*
 * test_pool.c - random allocations, frees and leases against a shadow of them.
 *
 * Each block is filled with a mark of its own, at its ends and on a few pages, and checked before
 * it goes: an overlap, or memory that goes back while it is leased, shows as a foreign mark. What
 * comes out must be aligned and inside the pool; what is free after all are freed must be one
 * block. Several threads share a pool; each has its own blocks, so that a mark tells whose error it
 * is.
 */
#include "twt.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "diag/record/diag.h"
#include "memreg/arena/arena.h"
#include "memreg/pool/pool.h"
#include <towline/status.h>

#define BLOCKS      300
#define POOL_BYTES  ((uint64_t)48 << 20)
#define MARK_STRIDE 4096

struct block {
	uint64_t *p;
	uint64_t bytes, mark;
	int leases;
	bool freed;
};

struct worker {
	struct twi_pool *pool;
	uint64_t random;
	int steps;
	const char *failure; /* cmocka's asserts belong to the main thread */
	struct block block[BLOCKS];
};

#define CHECK(worker, cond)                                                                        \
	do {                                                                                       \
		if (!(cond) && (worker)->failure == NULL)                                          \
			(worker)->failure = #cond;                                                 \
	} while (0)

static uint64_t random_bytes(uint64_t *random)
{
	/* All magnitudes alike: 0 to 1 MiB, now and then 4 MiB. */
	unsigned bits = (unsigned)twt_random_below(random, 22);

	if (twt_random_below(random, 50) == 0)
		bits = 22;
	return twt_random(random) & (((uint64_t)1 << bits) - 1);
}

static void mark(struct block *b)
{
	for (uint64_t i = 0; i + 8 <= b->bytes; i += MARK_STRIDE)
		b->p[i / 8] = b->mark;
	if (b->bytes >= 8)
		b->p[b->bytes / 8 - 1] = b->mark;
}

static bool marked(const struct block *b)
{
	for (uint64_t i = 0; i + 8 <= b->bytes; i += MARK_STRIDE)
		if (b->p[i / 8] != b->mark)
			return false;
	return b->bytes < 8 || b->p[b->bytes / 8 - 1] == b->mark;
}

static void do_alloc(struct worker *w, struct block *b)
{
	uint64_t bytes = random_bytes(&w->random);
	uint64_t align = (uint64_t)1 << twt_random_below(&w->random, 22);
	void *p;
	int status;

	if (twt_random_below(&w->random, 4))
		align = 0;
	status = twi_pool_alloc(w->pool, bytes, align, &p);
	if (status == TOW_EEXHAUSTED)
		return;
	CHECK(w, status == TOW_OK);
	CHECK(w, (uintptr_t)p % (align ? align : 64) == 0);
	CHECK(w, twi_pool_find(w->pool, p, bytes) != NULL);
	*b = (struct block){ .p = p, .bytes = bytes, .mark = twt_random(&w->random) };
	mark(b);
}

static void *any_byte(struct worker *w, struct block *b)
{
	return (char *)b->p + (b->bytes ? twt_random_below(&w->random, b->bytes) : 0);
}

/* A block goes when it is freed and nobody leases it. */
static void settle(struct block *b)
{
	if (b->freed && b->leases == 0)
		b->p = NULL;
}

static void step(struct worker *w)
{
	struct block *b = &w->block[twt_random_below(&w->random, BLOCKS)];

	if (b->p == NULL) {
		do_alloc(w, b);
		return;
	}
	CHECK(w, marked(b));
	switch (twt_random_below(&w->random, 4)) {
	case 0:
		CHECK(w,
		      twi_pool_lease(w->pool, any_byte(w, b)) == (b->freed ? TOW_EFREED : TOW_OK));
		b->leases += !b->freed;
		break;
	case 1:
		if (b->leases) {
			b->leases--;
			twi_pool_release(w->pool, any_byte(w, b));
		}
		break;
	case 2:
		if (b->bytes > 64)
			CHECK(w, twi_pool_free(w->pool, (char *)b->p + 64) == TOW_EFOREIGN);
		break;
	default:
		CHECK(w, twi_pool_free(w->pool, b->p) == (b->freed ? TOW_EFREED : TOW_OK));
		b->freed = true;
	}
	settle(b);
}

static void *work(void *arg)
{
	struct worker *w = arg;

	for (int i = 0; i < w->steps && w->failure == NULL; i++)
		step(w);
	for (int i = 0; i < BLOCKS; i++) {
		struct block *b = &w->block[i];

		if (b->p == NULL)
			continue;
		CHECK(w, marked(b));
		if (!b->freed)
			CHECK(w, twi_pool_free(w->pool, b->p) == TOW_OK);
		for (; b->leases; b->leases--)
			twi_pool_release(w->pool, any_byte(w, b));
	}
	return NULL;
}

static void run(int threads, int steps)
{
	struct twi_pool_options options = { .bytes = POOL_BYTES };
	uint64_t random = twt_seed();
	struct twi_pool_stats stats;
	struct worker *w = calloc((size_t)threads, sizeof(*w));
	pthread_t thread[8];
	struct twi_pool *pool;

	assert_int_equal(twi_diag_create(&options.diag), TOW_OK);
	assert_int_equal(twi_pool_create(&options, &pool), TOW_OK);
	for (int i = 0; i < threads; i++) {
		w[i].pool = pool;
		w[i].random = twt_random(&random);
		w[i].steps = steps;
		assert_int_equal(pthread_create(&thread[i], NULL, work, &w[i]), 0);
	}
	for (int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < threads; i++)
		if (w[i].failure != NULL)
			fail_msg("thread %d: %s", i, w[i].failure);
	twi_pool_stats(pool, &stats);
	assert_int_equal(stats.allocated, 0);
	assert_int_equal(stats.waste, 0);
	assert_int_equal(stats.leased, 0);
	assert_int_equal(stats.free, POOL_BYTES);
	assert_int_equal(stats.largest_free, POOL_BYTES);
	twi_pool_destroy(pool);
	twi_diag_destroy(options.diag);
	free(w);
}

static void one_thread(void **state)
{
	(void)state;
	run(1, 200000);
}

static void four_threads(void **state)
{
	(void)state;
	run(4, 60000);
}

struct handoff {
	struct twi_pool *pool;
	_Atomic(char *) slot[16];
	_Atomic bool stop;
};

/* Takes over blocks that another thread leased and freed, and ends their leases. */
static void *releaser(void *arg)
{
	struct handoff *h = arg;
	bool stop = false, idle = false;

	while (!stop || !idle) {
		stop = atomic_load(&h->stop);
		idle = true;
		for (int i = 0; i < 16; i++) {
			char *p = atomic_exchange(&h->slot[i], NULL);

			if (p != NULL) {
				idle = false;
				twi_pool_release(h->pool, p + 10);
			}
		}
	}
	return NULL;
}

/* Frees race the last release: each block must go back exactly once. */
static void free_races_release(void **state)
{
	struct twi_pool_options options = { .bytes = 4 << 20 };
	struct handoff h = { 0 };
	struct twi_pool_stats stats;
	pthread_t thread;
	void *p;

	(void)state;
	assert_int_equal(twi_diag_create(&options.diag), TOW_OK);
	assert_int_equal(twi_pool_create(&options, &h.pool), TOW_OK);
	assert_int_equal(pthread_create(&thread, NULL, releaser, &h), 0);
	for (int i = 0; i < 50000; i++) {
		char *none = NULL;

		if (atomic_load(&h.slot[i % 16]) != NULL)
			continue;
		assert_int_equal(twi_pool_alloc(h.pool, i % 2 ? 100 : 8192, 0, &p), TOW_OK);
		assert_int_equal(twi_pool_lease(h.pool, p), TOW_OK);
		assert_true(atomic_compare_exchange_strong(&h.slot[i % 16], &none, p));
		assert_int_equal(twi_pool_free(h.pool, p), TOW_OK);
	}
	atomic_store(&h.stop, true);
	pthread_join(thread, NULL);
	twi_pool_stats(h.pool, &stats);
	assert_int_equal(stats.largest_free, 4 << 20);
	assert_int_equal(stats.leased, 0);
	twi_pool_destroy(h.pool);
	twi_diag_destroy(options.diag);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_thread),
		cmocka_unit_test(four_threads),
		cmocka_unit_test(free_races_release),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
