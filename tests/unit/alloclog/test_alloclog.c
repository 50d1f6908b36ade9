/* test_alloclog.c - the recorder and its pairing: order, thinning, loss, on and off. */
#include "twt.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "diag/record/registry.h"
#include "memreg/alloclog/alloclog.h"
#include "memreg/alloclog/alloclog_impl.h"
#include "memreg/pool/pool.h"

struct fixture {
	struct twi_diag *diag;
	struct twi_alloclog *log;
};

static int setup(void **state)
{
	static struct fixture f;

	twi_clock_init();
	*state = &f;
	return twi_diag_create(&f.diag) < 0 ? -1 : twi_alloclog_create(f.diag, 1024, &f.log);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	twi_alloclog_destroy(f->log);
	twi_diag_destroy(f->diag);
	return 0;
}

static const struct twi_site here = { .caller = (void *)(uintptr_t)0x1234, .tag = 9 };

/* As tow_alloc and tow_free do, on addresses that nothing stands behind. */
static void log_alloc(struct twi_alloclog *log, uint64_t address, uint64_t bytes)
{
	twi_alloclog_alloc(log, (void *)(uintptr_t)address, bytes, 0, here);
}

static void log_free(struct twi_alloclog *log, uint64_t address)
{
	const void *p = (void *)(uintptr_t)address;

	twi_alloclog_free(log, p, twi_alloclog_begin(log, p), TWI_SITE_NONE);
}

static void records_pairs(void **state)
{
	struct fixture *f = *state;
	struct twi_alloclog_capture *capture;
	struct twi_alloc_trace t;

	log_alloc(f->log, 0x1000, 1); /* off: not in it */
	assert_int_equal(twi_alloclog_capture_start(f->log, false, &capture), TOW_OK);
	log_free(f->log, 0x1000);
	twi_alloclog_alloc(f->log, (void *)0x2000, 5000, 4096, here);
	log_alloc(f->log, 0x1000, 70);
	twi_alloclog_step(f->log, 12, here);
	log_free(f->log, 0x2000);
	assert_int_equal(twi_alloclog_capture_finish(f->log, capture, &t), TOW_OK);
	assert_false(twi_alloclog_is_on(f->log));
	assert_int_equal(t.count, 5);
	assert_int_equal(t.unknown_frees, 1);
	assert_int_equal(t.events[0].kind, TWI_ALLOC_FREE);
	assert_int_equal(t.events[0].id, 0);
	assert_int_equal(t.events[1].id, 1);
	assert_int_equal(t.events[1].bytes, 5000);
	assert_int_equal(t.events[1].align_log2, 12);
	assert_int_equal(t.events[1].caller, 0x1234);
	assert_int_equal(t.events[1].tag, 9);
	assert_int_equal(t.events[1].thread, gettid());
	assert_int_equal(t.events[2].id, 2);
	assert_int_equal(t.events[2].align_log2, 6);
	assert_int_equal(t.events[3].kind, TWI_ALLOC_STEP);
	assert_int_equal(t.events[3].id, 12);
	assert_int_equal(t.events[4].kind, TWI_ALLOC_FREE);
	assert_int_equal(t.events[4].id, 1);
	assert_int_equal(t.events[4].bytes, 5000);
	assert_int_equal(t.lost, 0);
	assert_int_equal(t.sampling_shift, 0);
	assert_int_equal(twi_counter_sum(f->diag, TWI_C_alloclog_events), 5);
	twi_alloc_trace_fini(&t);
}

/* Each capture sees its own time; the log is off and its memory gone after the last. */
static void captures_overlap(void **state)
{
	struct fixture *f = *state;
	struct twi_alloclog_capture *first, *second;
	struct twi_alloc_trace t;

	assert_int_equal(twi_alloclog_capture_start(f->log, false, &first), TOW_OK);
	log_alloc(f->log, 0x1000, 1);
	assert_int_equal(twi_alloclog_capture_start(f->log, true, &second), TOW_OK);
	log_alloc(f->log, 0x2000, 2);
	assert_int_equal(twi_alloclog_capture_finish(f->log, first, &t), TOW_OK);
	assert_int_equal(t.count, 2);
	twi_alloc_trace_fini(&t);
	assert_true(twi_alloclog_is_on(f->log));
	assert_int_equal(twi_alloclog_capture_finish(f->log, second, &t), TOW_OK);
	assert_int_equal(t.count, 1);
	assert_int_equal(t.events[0].bytes, 2);
	assert_false(t.from_open);
	twi_alloc_trace_fini(&t);
	assert_null(f->log->chunks);
	assert_int_equal(twi_alloclog_capture_start(f->log, false, &first), TOW_OK);
	assert_int_equal(twi_alloclog_capture_finish(f->log, first, NULL), TOW_OK);
	assert_false(twi_alloclog_is_on(f->log));
}

static void from_open(void **state)
{
	struct fixture *f = *state;
	struct twi_pool_options options = { .bytes = 4 << 20, .diag = f->diag };
	struct twi_alloclog_capture *capture;
	struct twi_alloc_trace t;
	struct twi_pool *pool;
	void *p;

	assert_int_equal(twi_pool_create(&options, &pool), TOW_OK);
	assert_int_equal(twi_pool_alloc(pool, 1000, 0, &p), TOW_OK);
	twi_alloclog_attach(f->log, pool, 0, NULL);
	assert_int_equal(twi_alloclog_open(f->log), TOW_OK);
	assert_int_equal(twi_alloclog_open(f->log), TOW_OK);
	log_alloc(f->log, 0x1000, 1);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(twi_alloclog_capture_start(f->log, true, &capture), TOW_OK);
		assert_int_equal(twi_alloclog_capture_finish(f->log, capture, &t), TOW_OK);
		assert_int_equal(t.count, 1);
		assert_true(t.from_open);
		assert_int_equal(t.live_bytes_at_start, 1000);
		assert_int_equal(t.live_allocations_at_start, 1);
		assert_int_equal(t.taken_bytes_at_start, 1024);
		assert_int_equal(t.taken_peak_bytes, 1024);
		assert_int_equal(t.pool_bytes, 4 << 20);
		assert_true(t.page_bytes >= 4096);
		twi_alloc_trace_fini(&t);
	}
	/* destroyed while it is on */
	twi_alloclog_destroy(f->log);
	f->log = NULL;
	twi_pool_destroy(pool);
}

/* More live blocks than the log has room for: thinned, the rate is that of the addresses. */
static void is_thinned(void **state)
{
	struct fixture *f = *state;
	struct twi_alloclog_capture *capture;
	struct twi_alloc_trace t;
	size_t allocs = 0, steps = 0;

	assert_int_equal(twi_alloclog_capture_start(f->log, false, &capture), TOW_OK);
	for (uint64_t i = 0; i < 16000; i++) {
		log_alloc(f->log, 0x100000 + i * 4096, i);
		if (i % 1000 == 0)
			twi_alloclog_step(f->log, i, here);
	}
	assert_int_equal(twi_alloclog_capture_finish(f->log, capture, &t), TOW_OK);
	assert_int_equal(t.lost, 0);
	assert_int_equal(t.unknown_frees, 0);
	assert_true(t.count <= 1024);
	assert_in_range(t.sampling_shift, 4, 6); /* 16000 events into 1024 */
	for (size_t i = 0; i < t.count; i++) {
		allocs += t.events[i].kind == TWI_ALLOC_ALLOC;
		steps += t.events[i].kind == TWI_ALLOC_STEP;
	}
	assert_in_range(allocs << t.sampling_shift, 8000, 32000);
	assert_int_equal(steps + t.left_steps, 16);
	twi_alloc_trace_fini(&t);
}

/* One block again and again: what is left out is counted, and nothing is lost. */
static void leaves_out_and_counts(void **state)
{
	struct fixture *f = *state;
	struct twi_alloclog_capture *capture;
	struct twi_alloc_trace t;

	assert_int_equal(twi_alloclog_capture_start(f->log, false, &capture), TOW_OK);
	for (int i = 0; i < 3000; i++) {
		log_alloc(f->log, 0x1000, 10);
		log_free(f->log, 0x1000);
	}
	assert_int_equal(twi_alloclog_capture_finish(f->log, capture, &t), TOW_OK);
	assert_int_equal(t.sampling_shift, 0);
	assert_int_equal(t.lost, 0);
	assert_true(t.gaps > 0);
	assert_int_equal(t.count - t.gaps + t.left_events, 6000);
	assert_int_equal(twi_counter_sum(f->diag, TWI_C_alloclog_events), 6000);
	twi_alloc_trace_fini(&t);
}

/* Each block lives for many windows: gaps are joined until a block ends in the gap it began in. */
static void joins_long_lives(void **state)
{
	struct fixture *f = *state;
	struct twi_alloclog_capture *capture;
	uint64_t live = 20000, pairs = 200000;
	struct twi_alloc_trace t;

	twi_alloclog_destroy(f->log);
	assert_int_equal(twi_alloclog_create(f->diag, 1 << 17, &f->log), TOW_OK);
	assert_int_equal(twi_alloclog_capture_start(f->log, false, &capture), TOW_OK);
	for (uint64_t i = 0; i < pairs; i++) {
		if (i >= live)
			log_free(f->log, 0x100000 + i % live * 4096);
		log_alloc(f->log, 0x100000 + i % live * 4096, 64);
	}
	assert_int_equal(twi_alloclog_capture_finish(f->log, capture, &t), TOW_OK);
	assert_int_equal(t.sampling_shift, 0);
	assert_int_equal(t.lost, 0);
	assert_int_equal(t.count - t.gaps + t.left_events, 2 * pairs - live);
	twi_alloc_trace_fini(&t);
}

/* More than the coarsest rate can hold. */
static void loses_and_counts(void **state)
{
	struct fixture *f = *state;
	struct twi_alloclog_capture *capture;
	struct twi_alloc_trace t;

	assert_int_equal(twi_alloclog_capture_start(f->log, false, &capture), TOW_OK);
	for (uint64_t i = 0; i < 3000000; i++)
		log_alloc(f->log, 0x100000 + i * 64, 64);
	assert_int_equal(twi_alloclog_capture_finish(f->log, capture, &t), TOW_OK);
	assert_true(t.lost > 0);
	assert_true(t.count <= 1024);
	assert_int_equal(twi_counter_sum(f->diag, TWI_C_alloclog_lost), t.lost);
	twi_alloc_trace_fini(&t);
}

#define REC(time, at, kind, size)                                                                  \
	{                                                                                          \
		.ns = (time), .address = (at), .what = (uint64_t)(kind) << 62 | (size)             \
	}

/* What is expected of the nth event: kind, id, ns. */
static void expect_events(struct twi_alloclog_rec *recs, size_t count, const uint64_t (*wanted)[3],
			  size_t wanted_count)
{
	struct twi_alloc_trace t = { .start_monotonic_ns = 100, .duration_ns = 1000000 };
	char *bytes;
	size_t size;

	assert_int_equal(twi_alloclog_pair(recs, count, &t), TOW_OK);
	assert_int_equal(t.count, wanted_count);
	for (size_t i = 0; i < wanted_count; i++) {
		assert_int_equal(t.events[i].kind, wanted[i][0]);
		assert_int_equal(t.events[i].id, wanted[i][1]);
		assert_int_equal(t.events[i].ns, wanted[i][2]);
	}
	assert_int_equal(twi_alloclog_encode(&t, &bytes, &size), TOW_OK);
	free(bytes);
	twi_alloc_trace_fini(&t);
}

/* One address from hand to hand in one tick, and a free whose clock is late. */
static void pairs_in_one_tick(void **state)
{
	struct twi_alloclog_rec recs[] = {
		REC(500, 64, TWI_ALLOC_FREE, 0),   REC(500, 64, TWI_ALLOC_ALLOC, 1),
		REC(500, 64, TWI_ALLOC_FREE, 0),   REC(500, 64, TWI_ALLOC_ALLOC, 2),
		REC(700, 128, TWI_ALLOC_ALLOC, 3), REC(800, 128, TWI_ALLOC_ALLOC, 4),
		REC(900, 128, TWI_ALLOC_FREE, 0),  REC(5000, 128, TWI_ALLOC_FREE, 0),
	};
	static const uint64_t wanted[][3] = {
		{ TWI_ALLOC_ALLOC, 1, 400 }, { TWI_ALLOC_FREE, 1, 400 },
		{ TWI_ALLOC_ALLOC, 2, 400 }, { TWI_ALLOC_FREE, 2, 400 },
		{ TWI_ALLOC_ALLOC, 3, 600 }, { TWI_ALLOC_FREE, 3, 700 },
		{ TWI_ALLOC_ALLOC, 4, 700 }, { TWI_ALLOC_FREE, 4, 4900 },
	};

	(void)state;
	expect_events(recs, 8, wanted, 8);
}

/* A free that was lost is made up when its address is given out again. */
static void lost_frees_are_made_up(void **state)
{
	struct twi_alloclog_rec recs[] = {
		REC(200, 64, TWI_ALLOC_ALLOC, 1),
		REC(300, 64, TWI_ALLOC_ALLOC, 2),
		REC(90000, 64, TWI_ALLOC_FREE, 0),
		REC(90001, 64, TWI_ALLOC_FREE, 0),
	};
	static const uint64_t wanted[][3] = {
		{ TWI_ALLOC_ALLOC, 1, 100 },  { TWI_ALLOC_FREE, 1, 200 },
		{ TWI_ALLOC_ALLOC, 2, 200 },  { TWI_ALLOC_FREE, 2, 89900 },
		{ TWI_ALLOC_FREE, 0, 89901 },
	};

	(void)state;
	expect_events(recs, 4, wanted, 5);
}

/* Live addresses come and go in all orders: the table of them against a plain array. */
static void pairs_many(void **state)
{
	uint64_t random = twt_seed(), live[200] = { 0 };
	size_t count = 20000;
	struct twi_alloclog_rec *recs = calloc(count, sizeof(*recs));
	struct twi_alloc_trace t = { .duration_ns = count };
	uint64_t *wanted = calloc(count, sizeof(*wanted)), next = 0;

	(void)state;
	assert_non_null(recs);
	assert_non_null(wanted);
	for (size_t i = 0; i < count; i++) {
		size_t k = twt_random_below(&random, 200);
		unsigned kind = live[k] != 0 ? TWI_ALLOC_FREE : TWI_ALLOC_ALLOC;

		recs[i] = (struct twi_alloclog_rec)REC(i, k << 26, kind, 0);
		wanted[i] = live[k] != 0 ? live[k] : ++next;
		live[k] = live[k] != 0 ? 0 : next;
	}
	assert_int_equal(twi_alloclog_pair(recs, count, &t), TOW_OK);
	assert_int_equal(t.count, count);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(t.events[i].id, wanted[i]);
	twi_alloc_trace_fini(&t);
	free(recs);
	free(wanted);
}

struct churn {
	struct twi_alloclog *log;
	uint64_t base;
	_Atomic bool stop;
};

static void *churn(void *arg)
{
	struct churn *c = arg;

	for (uint64_t i = 0; !atomic_load_explicit(&c->stop, memory_order_relaxed); i++) {
		log_alloc(c->log, c->base + i % 100 * 64, 64);
		log_free(c->log, c->base + i % 100 * 64);
	}
	return NULL;
}

/* On and off, on and off, while threads record; what is read is a legal log each time. */
static void switches_under_load(void **state)
{
	struct fixture *f = *state;
	struct churn churns[3] = { 0 };
	pthread_t threads[3];

	for (int i = 0; i < 3; i++) {
		churns[i].log = f->log;
		churns[i].base = (uint64_t)(i + 1) << 32;
		assert_int_equal(pthread_create(&threads[i], NULL, churn, &churns[i]), 0);
	}
	for (int i = 0; i < 300; i++) {
		struct twi_alloclog_capture *capture;
		struct twi_alloc_trace t;
		char *bytes;
		size_t count;

		assert_int_equal(twi_alloclog_capture_start(f->log, false, &capture), TOW_OK);
		assert_int_equal(twi_alloclog_capture_finish(f->log, capture, &t), TOW_OK);
		assert_int_equal(twi_alloclog_encode(&t, &bytes, &count), TOW_OK);
		twi_alloc_trace_fini(&t);
		free(bytes);
	}
	for (int i = 0; i < 3; i++) {
		atomic_store(&churns[i].stop, true);
		pthread_join(threads[i], NULL);
	}
	assert_false(twi_alloclog_is_on(f->log));
}

/* Threads that end leave their rings to those that come. */
static void rings_are_used_again(void **state)
{
	struct fixture *f = *state;
	struct twi_alloclog_capture *capture;
	struct twi_alloclog_ring *ring;
	struct twi_alloc_trace t;
	unsigned rings = 0;

	assert_int_equal(twi_alloclog_capture_start(f->log, false, &capture), TOW_OK);
	for (uint64_t i = 0; i < 20; i++) {
		struct churn c = { .log = f->log, .base = i << 32 };
		pthread_t thread;

		assert_int_equal(pthread_create(&thread, NULL, churn, &c), 0);
		while (twi_counter_sum(f->diag, TWI_C_alloclog_events) +
			       twi_counter_sum(f->diag, TWI_C_alloclog_lost) <
		       (i + 1) * 10)
			sched_yield();
		atomic_store(&c.stop, true);
		pthread_join(thread, NULL);
	}
	for (ring = f->log->rings; ring != NULL; ring = ring->next)
		rings++;
	assert_int_equal(rings, 1);
	assert_int_equal(twi_alloclog_capture_finish(f->log, capture, &t), TOW_OK);
	twi_alloc_trace_fini(&t);
}

static void refuses(void **state)
{
	struct fixture *f = *state;
	struct twi_alloclog *log;

	assert_int_equal(twi_alloclog_create(f->diag, 1023, &log), TOW_EINVAL);
	assert_null(log);
	assert_non_null(strstr(tow_error_message(), "alloclog_events"));
	assert_int_equal(twi_alloclog_create(f->diag, (1 << 26) + 1, &log), TOW_EINVAL);
	twi_alloclog_destroy(NULL);
}

/* What is freed while it is leased is in the log as freed when the last lease ends. */
static void leased_frees(void **state)
{
	struct fixture *f = *state;
	struct twi_pool_options options = { .bytes = 4 << 20, .diag = f->diag };
	struct twi_alloclog_capture *capture;
	struct twi_alloc_trace t;
	struct twi_pool *pool;
	bool leased;
	void *p;

	assert_int_equal(twi_pool_create(&options, &pool), TOW_OK);
	twi_alloclog_attach(f->log, pool, 0, NULL);
	assert_int_equal(twi_alloclog_capture_start(f->log, false, &capture), TOW_OK);
	assert_int_equal(twi_pool_alloc(pool, 9000, 0, &p), TOW_OK);
	assert_int_equal(twi_pool_lease(pool, p), TOW_OK);
	twi_alloclog_alloc(f->log, p, 9000, 0, here);
	assert_int_equal(twi_pool_free_at(pool, p, &leased), TOW_OK);
	assert_true(leased);
	twi_alloclog_step(f->log, 1, here);
	twi_pool_release(pool, p);
	assert_int_equal(twi_alloclog_capture_finish(f->log, capture, &t), TOW_OK);
	assert_int_equal(t.count, 3);
	assert_int_equal(t.events[1].kind, TWI_ALLOC_STEP);
	assert_int_equal(t.events[2].kind, TWI_ALLOC_FREE);
	assert_int_equal(t.events[2].id, t.events[0].id);
	assert_int_equal(t.events[2].tag, TWI_ALLOC_TAG_LIBRARY);
	twi_alloc_trace_fini(&t);
	/* Allocated before the log: it is the first event, with what it took of the pool. */
	assert_int_equal(twi_pool_alloc(pool, 9000, 0, &p), TOW_OK);
	assert_int_equal(twi_pool_lease(pool, p), TOW_OK);
	assert_int_equal(twi_alloclog_capture_start(f->log, false, &capture), TOW_OK);
	assert_int_equal(twi_pool_free(pool, p), TOW_OK);
	twi_pool_release(pool, p);
	assert_int_equal(twi_alloclog_capture_finish(f->log, capture, &t), TOW_OK);
	assert_int_equal(t.count, 2);
	assert_int_equal(t.events[0].bytes, 3 * 4096);
	assert_int_equal(t.events[0].tag, TWI_ALLOC_TAG_EARLIER);
	assert_int_equal(t.events[1].id, 1);
	assert_int_equal(t.events[1].tag, TWI_ALLOC_TAG_LIBRARY);
	twi_alloc_trace_fini(&t);
	twi_alloclog_destroy(f->log);
	f->log = NULL;
	twi_pool_destroy(pool);
}

#define EARLIER 40

/*
 * What was live when a capture begins is its first events, each freed by its id; not what the
 * library has had since the open, nor what was freed before. A block that was allocated during the
 * walk counts once, with its own event.
 */
static void begins_with_the_live(void **state)
{
	struct fixture *f = *state;
	struct twi_pool_options options = { .bytes = 8 << 20, .diag = f->diag };
	struct twi_alloclog_capture *capture;
	struct twi_alloc_trace t;
	struct twi_pool *pool;
	uint64_t bytes = 0;
	void *own, *p[EARLIER], *late;

	assert_int_equal(twi_pool_create(&options, &pool), TOW_OK);
	assert_int_equal(twi_pool_alloc(pool, 1 << 20, 4096, &own), TOW_OK);
	twi_pool_own(pool, 1 << 20, 1);
	twi_alloclog_attach(f->log, pool, 0, own);
	for (int i = 0; i < EARLIER; i++)
		assert_int_equal(twi_pool_alloc(pool, 100 << i % 11, i % 4 ? 0 : 65536, &p[i]),
				 TOW_OK);
	assert_int_equal(twi_pool_free(pool, p[7]), TOW_OK);
	assert_int_equal(twi_alloclog_capture_start(f->log, false, &capture), TOW_OK);
	assert_int_equal(twi_pool_alloc(pool, 5000, 0, &late), TOW_OK);
	twi_alloclog_alloc(f->log, late, 5000, 0, here);
	assert_int_equal(capture->held.count, EARLIER - 1);
	/* As if the walk had lasted until now. */
	twi_alloclog_held_fini(&capture->held);
	twi_alloclog_held_list(&capture->held, pool, own, EARLIER);
	assert_int_equal(capture->held.count, EARLIER);
	twi_alloclog_free(f->log, p[20], twi_alloclog_begin(f->log, p[20]), here);
	assert_int_equal(twi_pool_free(pool, p[20]), TOW_OK);
	assert_int_equal(twi_alloclog_capture_finish(f->log, capture, &t), TOW_OK);
	assert_int_equal(t.count, EARLIER + 1);
	for (int i = 0; i < EARLIER - 1; i++) {
		assert_int_equal(t.events[i].kind, TWI_ALLOC_ALLOC);
		assert_int_equal(t.events[i].tag, TWI_ALLOC_TAG_EARLIER);
		assert_int_equal(t.events[i].id, i + 1);
		assert_true(t.events[i].align_log2 == 6 || t.events[i].align_log2 == 16);
		assert_int_equal(t.events[i].bytes % 64, 0);
		bytes += t.events[i].bytes;
	}
	assert_int_equal(t.events[EARLIER - 1].bytes, 5000);
	assert_int_equal(t.events[EARLIER].kind, TWI_ALLOC_FREE);
	assert_in_range(t.events[EARLIER].id, 1, EARLIER - 1);
	assert_int_equal(t.events[EARLIER].bytes, twi_align_up(100 << 20 % 11, 4096));
	assert_int_equal(t.live_allocations_at_start, 0);
	assert_int_equal(t.taken_bytes_at_start, 0);
	assert_true(t.spread_bytes >= bytes);
	assert_true(t.spread_bytes <= (4 << 20));
	twi_alloc_trace_fini(&t);
	/* With more than there is room for, the sums have it. */
	assert_int_equal(twi_alloclog_capture_start(f->log, false, &capture), TOW_OK);
	twi_alloclog_held_fini(&capture->held);
	twi_alloclog_held_list(&capture->held, pool, own, EARLIER - 2);
	assert_int_equal(twi_alloclog_capture_finish(f->log, capture, &t), TOW_OK);
	assert_int_equal(t.count, 0);
	assert_int_equal(t.live_allocations_at_start, EARLIER - 1);
	twi_alloc_trace_fini(&t);
	twi_alloclog_destroy(f->log);
	f->log = NULL;
	twi_pool_destroy(pool);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(records_pairs),
		TEST(captures_overlap),
		TEST(from_open),
		TEST(leased_frees),
		TEST(begins_with_the_live),
		TEST(is_thinned),
		TEST(leaves_out_and_counts),
		TEST(joins_long_lives),
		TEST(loses_and_counts),
		TEST(switches_under_load),
		TEST(rings_are_used_again),
		TEST(refuses),
		cmocka_unit_test(pairs_in_one_tick),
		cmocka_unit_test(lost_frees_are_made_up),
		cmocka_unit_test(pairs_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
