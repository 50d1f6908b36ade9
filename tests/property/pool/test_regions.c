/*
 * test_regions.c - random registrations, lookups, late uses and unmappings against a plain
 * reference.
 *
 * The reference is a list of user regions and a number for each page, which changes with every
 * change of its mapping. A user region must be found exactly when the list has one that holds the
 * range. A cached one may be found or not, but only if no page of the range has another number than
 * when it was registered. The fake registrar sees to it that each region comes and goes once.
 */
#include "twt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "fake_registrar.h"
#include "memreg/pool/pool.h"
#include "memreg/pool/pool_impl.h"
#include "memreg/pool/pool_regions.h"
#include "memreg/user/latecache.h"

#define PAGE    ((uint64_t)4096)
#define PAGES   128
#define USERS   10
#define HOLDS   12
#define STEPS   30000
#define THREADS 4

struct user {
	uint64_t start, bytes, handle;
};

struct hold {
	const struct twi_region *region;
	uint64_t generation;
};

struct world {
	struct twi_pool *pool;
	char *at;
	uint64_t random;
	struct user user[USERS];
	struct hold hold[HOLDS];
	uint64_t page[PAGES];                     /* how often its mapping has changed */
	uint64_t cached[TWI_REGION_SLOTS][PAGES]; /* these numbers when that slot was registered */
	uint64_t generation[TWI_REGION_SLOTS];
};

static struct world world;
static struct twt_fake fake;

static uint64_t below(struct world *w, uint64_t bound)
{
	return twt_random_below(&w->random, bound);
}

static char *random_range(struct world *w, uint64_t *bytes_out)
{
	uint64_t start = below(w, PAGES * PAGE - 1);
	uint64_t most = 1 + below(w, 20) * PAGE;

	*bytes_out = 1 + below(w, most);
	if (start + *bytes_out > PAGES * PAGE)
		*bytes_out = PAGES * PAGE - start;
	return w->at + start;
}

static int holds_of(struct world *w, uint64_t handle)
{
	int count = 0;

	for (int i = 0; i < HOLDS; i++)
		count += w->hold[i].region != NULL && w->hold[i].generation == handle >> 12;
	return count;
}

static void register_or_not(struct world *w)
{
	struct user *user = &w->user[below(w, USERS)];

	if (user->handle == 0) {
		char *p = random_range(w, &user->bytes);

		user->start = (uintptr_t)p;
		assert_int_equal(
			twi_pool_register(w->pool, p, user->bytes, TWI_SITE_NONE, &user->handle),
			TOW_OK);
		return;
	}
	if (holds_of(w, user->handle) > 0) {
		assert_int_equal(twi_pool_deregister(w->pool, user->handle), TOW_EBUSY);
		return;
	}
	assert_int_equal(twi_pool_deregister(w->pool, user->handle), TOW_OK);
	assert_int_equal(twi_pool_deregister(w->pool, user->handle), TOW_EFREED);
	user->handle = 0;
}

static bool is_users(struct world *w, const char *p, uint64_t bytes)
{
	uint64_t start = (uintptr_t)p;

	for (int i = 0; i < USERS; i++) {
		const struct user *u = &w->user[i];

		if (u->handle != 0 && u->start <= start && start + bytes <= u->start + u->bytes)
			return true;
	}
	return false;
}

/* What was found is right; it is then held for a while. */
static void found(struct world *w, const struct twi_region *region, const char *p, uint64_t bytes)
{
	struct hold *hold = &w->hold[below(w, HOLDS)];
	uint64_t first = (uint64_t)(p - w->at) / PAGE;
	uint64_t last = ((uint64_t)(p - w->at) + bytes - 1) / PAGE;

	assert_true(twt_fake_knows(&fake, region, p, bytes));
	if (region->kind == TWI_REGION_USER)
		assert_true(is_users(w, p, bytes));
	else if (w->generation[region->slot] != region->generation) {
		memcpy(w->cached[region->slot], w->page, sizeof(w->page));
		w->generation[region->slot] = region->generation;
	}
	for (uint64_t i = first; region->kind == TWI_REGION_CACHED && i <= last; i++)
		assert_int_equal(w->cached[region->slot][i], w->page[i]);
	if (hold->region != NULL) {
		twi_pool_region_release(w->pool, region);
		return;
	}
	*hold = (struct hold){ region, region->generation };
}

static void look_up(struct world *w)
{
	uint64_t bytes;
	const char *p = random_range(w, &bytes);
	const struct twi_region *region = twi_pool_region_acquire(w->pool, p, bytes);

	if (is_users(w, p, bytes))
		assert_true(region != NULL && region->kind == TWI_REGION_USER);
	if (region != NULL)
		found(w, region, p, bytes);
}

static void use_late(struct world *w)
{
	uint64_t bytes;
	const char *p = random_range(w, &bytes);
	const struct twi_region *region;
	int status;

	status = twi_pool_region_late(w->pool, p, bytes, TWI_SITE_NONE, &region);
	if (status == TOW_EEXHAUSTED || status == TOW_EBUSY || status == TOW_ENOTSUP)
		return;
	assert_int_equal(status, TOW_OK);
	found(w, region, p, bytes);
}

/* Replaces some pages; user regions over them are the user's affair. */
static void remap(struct world *w)
{
	uint64_t first = below(w, PAGES), pages = 1 + below(w, 4);
	char *p = w->at + first * PAGE;

	if (first + pages > PAGES)
		return;
	assert_ptr_equal(mmap(p, pages * PAGE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 p);
	memset(p, 1, pages * PAGE);
	for (uint64_t i = first; i < first + pages; i++)
		w->page[i]++;
}

static void let_go(struct world *w, struct hold *hold)
{
	if (hold->region != NULL)
		twi_pool_region_release(w->pool, hold->region);
	hold->region = NULL;
}

static void against_a_reference(void **state)
{
	struct twi_pool_options options = { .bytes = 1 << 20,
					    .late_cache_bytes = 64 * PAGE,
					    .late_cache_entries = 8,
					    .late = &twi_latecache_ops };
	struct world *w = &world;

	(void)state;
	*w = (struct world){ .random = twt_seed() };
	memset(&fake, 0, sizeof(fake));
	assert_int_equal(twi_diag_create(&options.diag), TOW_OK);
	assert_int_equal(twi_pool_create(&options, &w->pool), TOW_OK);
	assert_int_equal(twi_pool_registrar_add(w->pool, &twt_fake_registrar, &fake), TOW_OK);
	w->at = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		     0);
	memset(w->at, 1, PAGES * PAGE);
	for (int i = 0; i < STEPS; i++) {
		switch (below(w, 8)) {
		case 0:
			register_or_not(w);
			break;
		case 1:
			if (below(w, 4) == 0)
				remap(w);
			break;
		case 2:
		case 3:
			let_go(w, &w->hold[below(w, HOLDS)]);
			break;
		case 4:
		case 5:
			use_late(w);
			break;
		default:
			look_up(w);
		}
	}
	for (int i = 0; i < HOLDS; i++)
		let_go(w, &w->hold[i]);
	for (int i = 0; i < USERS; i++) {
		if (w->user[i].handle != 0)
			assert_int_equal(twi_pool_deregister(w->pool, w->user[i].handle), TOW_OK);
	}
	assert_true(twi_counter_sum(options.diag, TWI_C_late_cache_hits) > 100);
	assert_true(twi_counter_sum(options.diag, TWI_C_late_cache_evictions) > 100);
	assert_true(twi_counter_sum(options.diag, TWI_C_late_cache_invalidations) > 100);
	assert_true(w->pool->regions.bytes[TWI_REGION_CACHED] <= 64 * PAGE);
	assert_true(w->pool->regions.count[TWI_REGION_CACHED] <= 8);
	twi_pool_destroy(w->pool);
	assert_int_equal(fake.known, 0);
	twi_diag_destroy(options.diag);
	munmap(w->at, PAGES * PAGE);
}

struct worker {
	struct twi_pool *pool;
	uint64_t random;
	char *at; /* own pages */
	const char *failure;
	struct twt_fake fake;
};

#define CHECK(worker, cond)                                                                        \
	do {                                                                                       \
		if (!(cond) && (worker)->failure == NULL)                                          \
			(worker)->failure = #cond;                                                 \
	} while (0)

/* Everything at once: user regions, late ones, unmapping, registrars and extents come and go. */
static void work_step(struct worker *w)
{
	uint64_t pages = 1 + twt_random_below(&w->random, 8), handle;
	char *p = w->at + twt_random_below(&w->random, 8) * PAGE;
	const struct twi_region *region;
	struct twi_extent extent;
	int status;

	switch (twt_random_below(&w->random, 8)) {
	case 0:
		CHECK(w, twi_pool_register(w->pool, p, pages * PAGE, TWI_SITE_NONE, &handle) ==
				 TOW_OK);
		region = twi_pool_region_acquire(w->pool, p, pages * PAGE);
		CHECK(w, region != NULL && twt_fake_knows(&fake, region, p, pages * PAGE));
		if (region != NULL)
			twi_pool_region_release(w->pool, region);
		CHECK(w, twi_pool_deregister(w->pool, handle) == TOW_OK);
		break;
	case 1:
		CHECK(w, mmap(p, pages * PAGE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p);
		memset(p, 1, pages * PAGE);
		break;
	case 2:
		if (twi_pool_registrar_add(w->pool, &twt_fake_registrar, &w->fake) == TOW_OK)
			twi_pool_registrar_remove(w->pool, &twt_fake_registrar, &w->fake);
		CHECK(w, w->fake.known == 0);
		break;
	case 3:
		extent = (struct twi_extent){ .base = w->at, .bytes = PAGE, .fd = -1 };
		CHECK(w, twi_pool_extent_announce(w->pool, &extent) == TOW_OK);
		twi_pool_extent_forget(w->pool, &extent);
		break;
	default:
		status = twi_pool_region_late(w->pool, p, pages * PAGE, TWI_SITE_NONE, &region);
		CHECK(w, status == TOW_OK || status == TOW_EEXHAUSTED || status == TOW_EBUSY ||
				 status == TOW_ENOTSUP);
		if (status == TOW_OK) {
			CHECK(w, twt_fake_knows(&fake, region, p, pages * PAGE));
			twi_pool_region_known(w->pool, region, &twt_fake_registrar, &fake);
			twi_pool_region_release(w->pool, region);
		}
	}
}

static void *work(void *arg)
{
	struct worker *w = arg;

	for (int i = 0; i < 2000 && w->failure == NULL; i++)
		work_step(w);
	return NULL;
}

static void many_threads(void **state)
{
	static struct worker w[THREADS];
	struct twi_pool_options options = { .bytes = 1 << 20,
					    .late_cache_bytes = 32 * PAGE,
					    .late_cache_entries = 6,
					    .late = &twi_latecache_ops };
	uint64_t random = twt_seed();
	pthread_t thread[THREADS];
	struct twi_pool *pool;

	(void)state;
	memset(&fake, 0, sizeof(fake));
	assert_int_equal(twi_diag_create(&options.diag), TOW_OK);
	assert_int_equal(twi_pool_create(&options, &pool), TOW_OK);
	assert_int_equal(twi_pool_registrar_add(pool, &twt_fake_registrar, &fake), TOW_OK);
	for (int i = 0; i < THREADS; i++) {
		w[i].pool = pool;
		w[i].random = twt_random(&random);
		w[i].at = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			       -1, 0);
		memset(w[i].at, 1, 16 * PAGE);
	}
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, work, &w[i]), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < THREADS; i++) {
		if (w[i].failure != NULL)
			fail_msg("thread %d: %s; %s", i, w[i].failure, tow_error_message());
	}
	twi_pool_destroy(pool);
	assert_int_equal(fake.known, 0);
	for (int i = 0; i < THREADS; i++)
		munmap(w[i].at, 16 * PAGE);
	twi_diag_destroy(options.diag);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(against_a_reference),
		cmocka_unit_test(many_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
