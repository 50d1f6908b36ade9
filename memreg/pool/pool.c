/*
 * pool.c - creates and destroys the pool, allocates, and leases. pool.h has the concept.
 *
 * Budget: find, lease and release are data path, without allocation, system call or lock. Only a
 * release that returns freed memory takes the arena's lock. alloc and free take it unless the front
 * cache serves them. Everything else is control path.
 */
#include "memreg/pool/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "memreg/pool/pool_impl.h"
#include "memreg/pool/pool_regions.h"
#include "memreg/region/lease.h"
#include <internal/base.h>

/* Logs what the new extent lacks. */
static void log_extent(struct twi_pool *pool, const struct twi_extent *extent)
{
	for (int kind = TWI_PAGES_KINDS - 1; kind > TWI_PAGES_BASE; kind--)
		if (extent->step[kind].reason[0])
			twi_log(pool->diag, 3, "pool on %s pages: %s; mend it: %s",
				twi_page_kind_name(extent->kind), extent->step[kind].reason,
				extent->step[kind].mend);
	if (extent->numa_reason[0])
		twi_log(pool->diag, 2, "pool: %s; mend it: %s", extent->numa_reason,
			extent->numa_mend);
}

/* Makes the arena of a mapped extent and announces the extent. A failure undoes both. */
static int begin_extent(struct twi_pool *pool, struct twi_extent *extent)
{
	int status;

	if (!extent->mlocked && pool->strict)
		return twi_error(extent->pin_status, "pool: %s; mend it: %s", extent->pin_reason,
				 extent->pin_mend);
	if (!extent->mlocked)
		twi_log(pool->diag, 2, "pool is not locked in memory: %s; mend it: %s",
			extent->pin_reason, extent->pin_mend);
	log_extent(pool, extent);
	status = pool->ops->create(extent->base, extent->bytes, &pool->arena[extent->slot]);
	if (status < 0)
		return twi_error(status, "pool: no memory for the side table of %llu bytes",
				 (unsigned long long)extent->bytes);
	status = twi_pool_extent_announce(pool, extent);
	if (status < 0)
		pool->ops->destroy(pool->arena[extent->slot]);
	return status;
}

int twi_pool_extent_create(struct twi_pool *pool, const struct twi_extent_options *options)
{
	uint32_t slot = atomic_load_explicit(&pool->extents.count, memory_order_relaxed);
	struct twi_extent *extent = calloc(1, sizeof(*extent));
	int status;

	if (extent == NULL)
		return twi_error(TOW_ENOMEM, "pool: no memory for the extent's description");
	status = twi_extent_open(options, extent);
	if (status == TOW_OK) {
		extent->slot = slot;
		status = begin_extent(pool, extent);
		if (status < 0)
			twi_extent_unmap(extent);
	}
	if (status < 0) {
		free(extent);
		return status;
	}
	pool->extents.extent[slot] = extent;
	/* Release: pairs with the acquire in twi_pool_find. */
	atomic_store_explicit(&pool->extents.count, slot + 1, memory_order_release);
	return TOW_OK;
}

static void init_room(struct twi_pool *pool)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&pool->room, &attr);
	pthread_condattr_destroy(&attr);
}

int twi_pool_create(const struct twi_pool_options *options, struct twi_pool **out)
{
	struct twi_extent_options first;
	struct twi_pool *pool;
	int status;

	if (out == NULL)
		return twi_error(TOW_EINVAL, "pool: out is NULL");
	*out = NULL;
	if (options == NULL || options->diag == NULL)
		return twi_error(TOW_EINVAL, "pool: %s is NULL",
				 options != NULL ? "options.diag" : "options");
	pool = calloc(1, sizeof(*pool));
	if (pool == NULL)
		return twi_error(TOW_ENOMEM, "pool: no memory for its description");
	pool->ops = twi_arena_choose();
	pool->diag = options->diag;
	pool->asked_bytes = options->bytes;
	pool->strict = options->strict;
	pool->exhaust = options->exhaust;
	pool->require_zero_copy = options->require_zero_copy;
	atomic_init(&pool->spare_bytes, UINT64_MAX);
	pool->limit_bytes = options->limit_bytes != 0 ? options->limit_bytes : 4 * options->bytes;
	pthread_mutex_init(&pool->control, NULL);
	pthread_mutex_init(&pool->growing, NULL);
	pthread_mutex_init(&pool->room_lock, NULL);
	init_room(pool);
	twi_overflow_init(&pool->overflow);
	if (options->numa != NULL)
		snprintf(pool->numa, sizeof(pool->numa), "%s", options->numa);
	pool->pages = (struct twi_extent_options){
		.best = options->huge_pages ? TWI_PAGES_HUGETLB_1G : TWI_PAGES_BASE,
		.numa = pool->numa,
		.diag = options->diag,
	};
	first = pool->pages;
	first.bytes = options->bytes;
	first.progress = options->progress;
	first.progress_user = options->progress_user;
	status = twi_pool_regions_init(pool, options);
	if (status == TOW_OK)
		status = twi_pool_extent_create(pool, &first);
	if (status == TOW_OK)
		status = twi_pool_report_add(pool);
	if (status < 0) {
		twi_pool_destroy(pool);
		return status;
	}
	*out = pool;
	return TOW_OK;
}

/* Ends everything but the memory. */
static void end_services(struct twi_pool *pool)
{
	if (pool->detached)
		return;
	twi_pool_report_remove(pool);
	twi_pool_registrars_clear(pool);
	twi_pool_regions_fini(pool);
	pool->detached = true;
}

void twi_pool_detach(struct twi_pool *pool)
{
	uint32_t count = atomic_load_explicit(&pool->extents.count, memory_order_relaxed);

	end_services(pool);
	atomic_store_explicit(&pool->returns, NULL, memory_order_relaxed);
	for (uint32_t i = 0; i < count; i++)
		twi_extent_release(pool->extents.extent[i]);
}

void twi_pool_destroy(struct twi_pool *pool)
{
	uint32_t count;

	if (pool == NULL)
		return;
	end_services(pool);
	count = atomic_load_explicit(&pool->extents.count, memory_order_relaxed);
	for (uint32_t i = 0; i < count; i++) {
		pool->ops->destroy(pool->arena[i]);
		twi_extent_unmap(pool->extents.extent[i]);
		free(pool->extents.extent[i]);
	}
	twi_overflow_fini(&pool->overflow);
	pthread_cond_destroy(&pool->room);
	pthread_mutex_destroy(&pool->room_lock);
	pthread_mutex_destroy(&pool->growing);
	pthread_mutex_destroy(&pool->control);
	free(pool);
}

void twi_pool_seal(struct twi_pool *pool)
{
	atomic_store_explicit(&pool->sealed, true, memory_order_relaxed);
}

bool twi_pool_sealed(const struct twi_pool *pool)
{
	return atomic_load_explicit(&pool->sealed, memory_order_relaxed);
}

bool twi_pool_extents_alloc(struct twi_pool *pool, size_t bytes, size_t align, void **out)
{
	/* Acquire: pairs with the release that publishes an extent. */
	uint32_t count = atomic_load_explicit(&pool->extents.count, memory_order_acquire);

	for (uint32_t i = 0; i < count; i++) {
		if (pool->ops->alloc(pool->arena[i], bytes, align, out) == TOW_OK)
			return true;
	}
	return false;
}

int twi_pool_alloc_at(struct twi_pool *pool, size_t bytes, size_t align, struct twi_site site,
		      void **out)
{
	int status = TOW_OK;

	*out = NULL;
	align = align ? align : TWI_ALIGN_DEFAULT;
	if (!twi_is_power_of_two(align) || align > TWI_ALIGN_MAX)
		return twi_error(TOW_EINVAL,
				 "pool: align = %zu is not a power of two up to 2097152, nor 0",
				 align);
	if (twi_unlikely(!twi_pool_extents_alloc(pool, bytes, align, out)))
		status = twi_pool_exhausted(pool, bytes, align, site, out);
	if (twi_likely(status == TOW_OK))
		twi_count(pool->diag, TWI_C_pool_allocs, 1);
	return status;
}

int twi_pool_try(struct twi_pool *pool, size_t bytes, size_t align, void **out)
{
	if (!twi_pool_extents_alloc(pool, bytes, align ? align : TWI_ALIGN_DEFAULT, out))
		return TOW_EEXHAUSTED;
	twi_count(pool->diag, TWI_C_pool_allocs, 1);
	return TOW_OK;
}

uint64_t twi_pool_bytes_at(struct twi_pool *pool, const void *p)
{
	const struct twi_extent *extent = twi_pool_find(pool, p, 1);
	struct twi_block block;

	if (extent == NULL || pool->ops->find(pool->arena[extent->slot], p, &block) < 0)
		return 0;
	return block.base == p ? block.bytes : 0;
}

/* Visits one extent. False: the visitor has ended the walk. */
static bool visit_extent(struct twi_pool *pool, uint32_t slot, twi_pool_visit *visit, void *arg)
{
	const struct twi_extent *extent = pool->extents.extent[slot];
	char *at = extent->base, *end = at + extent->bytes;
	struct twi_block block;
	uint8_t align_log2;

	while (at < end && pool->ops->next(pool->arena[slot], at, &block, &align_log2) == TOW_OK) {
		if (!visit(arg, &block, align_log2))
			return false;
		at = twi_max(at + TWI_ALIGN_DEFAULT, (char *)block.base + block.bytes);
	}
	return true;
}

void twi_pool_each(struct twi_pool *pool, twi_pool_visit *visit, void *arg)
{
	/* Acquire: pairs with the release that publishes an extent. */
	uint32_t count = atomic_load_explicit(&pool->extents.count, memory_order_acquire);

	for (uint32_t i = 0; i < count && visit_extent(pool, i, visit, arg); i++)
		;
}

void twi_pool_own(struct twi_pool *pool, uint64_t bytes, int count)
{
	/* For count -1 the sums wrap around, as they should. */
	atomic_fetch_add_explicit(&pool->own_bytes, count > 0 ? bytes : 0 - bytes,
				  memory_order_relaxed);
	atomic_fetch_add_explicit(&pool->own_allocations, (uint64_t)(int64_t)count,
				  memory_order_relaxed);
}

bool twi_pool_waits(const struct twi_pool *pool)
{
	return pool->exhaust == TWI_EXHAUST_WAIT;
}

static int not_in_pool(const void *p)
{
	return twi_error(TOW_EFOREIGN, "pool: %p is not in this pool", p);
}

static int not_allocated(const void *p)
{
	return twi_error(TOW_EFREED, "pool: %p is not allocated now, or was freed before", p);
}

/* Reports free memory: resets the sum of refused requests, and wakes the waiters. */
static void tell_room(struct twi_pool *pool)
{
	if (atomic_load_explicit(&pool->refused_bytes, memory_order_relaxed) != 0)
		atomic_store_explicit(&pool->refused_bytes, 0, memory_order_relaxed);
	/* A waiter that this load misses looks again by itself after a slice of its time. */
	if (twi_likely(atomic_load_explicit(&pool->room_waiters, memory_order_relaxed) == 0))
		return;
	pthread_mutex_lock(&pool->room_lock);
	pthread_cond_broadcast(&pool->room);
	pthread_mutex_unlock(&pool->room_lock);
}

static int freed_status(struct twi_pool *pool, int outcome, uint64_t bytes)
{
	if (outcome == TWI_HOLD_DEFERRED) {
		twi_count(pool->diag, TWI_C_deferred_frees, 1);
		atomic_fetch_add_explicit(&pool->deferred_bytes, bytes, memory_order_relaxed);
	}
	twi_count(pool->diag, TWI_C_pool_frees, 1);
	tell_room(pool);
	return TOW_OK;
}

static int end_overflow(struct twi_pool *pool, void *memory)
{
	int outcome = twi_overflow_free(&pool->overflow, memory);

	if (outcome == TOW_EFOREIGN)
		return not_in_pool(memory);
	if (outcome == TOW_EFREED)
		return not_allocated(memory);
	/* Memory outside the pool is not counted as deferred. */
	return TWI_HOLD_ENDED;
}

/* Ends the owner's use. TWI_HOLD_ENDED, TWI_HOLD_DEFERRED with the bytes, or a failure. */
static int end_allocation(struct twi_pool *pool, void *memory, uint64_t *bytes_out)
{
	const struct twi_extent *extent = twi_pool_find(pool, memory, 1);
	struct twi_block block;
	bool placed;
	int outcome;

	*bytes_out = 0;
	if (extent == NULL)
		return end_overflow(pool, memory);
	if ((uintptr_t)memory % TWI_ALIGN_DEFAULT)
		return twi_error(TOW_EFOREIGN,
				 "pool: %p is not the start of an "
				 "allocation",
				 memory);
	if (pool->ops->find(pool->arena[extent->slot], memory, &block) < 0)
		return not_allocated(memory);
	if (block.base != memory)
		return twi_error(TOW_EFOREIGN,
				 "pool: %p lies %llu bytes inside the allocation at %p", memory,
				 (unsigned long long)((char *)memory - (char *)block.base),
				 block.base);
	placed = (atomic_load_explicit(block.hold, memory_order_relaxed) & TWI_HOLD_PLACED) != 0;
	outcome = twi_hold_free(block.hold);
	if (outcome == TOW_EFREED)
		return not_allocated(memory);
	if (twi_unlikely(placed)) /* only this call freed it, so only this call counts it */
		atomic_fetch_sub_explicit(&pool->placed_bytes, block.bytes, memory_order_relaxed);
	if (outcome == TWI_HOLD_ENDED)
		pool->ops->give(pool->arena[extent->slot], memory);
	*bytes_out = block.bytes;
	return outcome;
}

int twi_pool_free_at(struct twi_pool *pool, void *memory, bool *leased_out)
{
	uint64_t bytes;
	int outcome;

	*leased_out = false;
	if (memory == NULL)
		return TOW_OK;
	outcome = end_allocation(pool, memory, &bytes);
	*leased_out = outcome == TWI_HOLD_DEFERRED;
	return outcome < 0 ? outcome : freed_status(pool, outcome, bytes);
}

int twi_pool_free(struct twi_pool *pool, void *memory)
{
	bool leased;

	return twi_pool_free_at(pool, memory, &leased);
}

void twi_pool_on_return(struct twi_pool *pool, twi_pool_returns *returns, void *user)
{
	if (user != NULL)
		pool->returns_user = user;
	atomic_store_explicit(&pool->returns, returns, memory_order_release);
}

int twi_pool_free_detached(struct twi_pool *pool, void *memory)
{
	uint64_t bytes;
	int outcome = end_allocation(pool, memory, &bytes);

	return outcome < 0 ? outcome : TOW_OK;
}

void twi_pool_wait_room(struct twi_pool *pool, uint64_t timeout_ns)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until); /* unlike the time of day, it cannot be set */
	timeout_ns += (uint64_t)until.tv_nsec;
	until.tv_sec += (time_t)(timeout_ns / 1000000000u);
	until.tv_nsec = (long)(timeout_ns % 1000000000u);
	pthread_mutex_lock(&pool->room_lock);
	atomic_fetch_add_explicit(&pool->room_waiters, 1, memory_order_relaxed);
	pthread_cond_timedwait(&pool->room, &pool->room_lock, &until);
	atomic_fetch_sub_explicit(&pool->room_waiters, 1, memory_order_relaxed);
	pthread_mutex_unlock(&pool->room_lock);
}

static void count_leased(struct twi_pool *pool, int64_t bytes)
{
	int64_t now =
		atomic_fetch_add_explicit(&pool->leased_bytes, bytes, memory_order_relaxed) + bytes;
	int64_t peak = atomic_load_explicit(&pool->leased_peak_bytes, memory_order_relaxed);

	twi_assert_hot(now >= 0);
	while (now > peak &&
	       !atomic_compare_exchange_weak_explicit(&pool->leased_peak_bytes, &peak, now,
						      memory_order_relaxed, memory_order_relaxed))
		;
}

/* Turns a hold word's outcome into a status; TOW_EFREED and TOW_EBUSY get their messages. */
static int leased_status(struct twi_pool *pool, const void *p, int outcome, uint64_t bytes)
{
	if (outcome == TOW_EFREED)
		return not_allocated(p);
	if (outcome == TOW_EBUSY)
		return twi_error(TOW_EBUSY, "pool: %p has too many leases", p);
	if (outcome == TWI_HOLD_FIRST)
		count_leased(pool, (int64_t)bytes);
	return TOW_OK;
}

int twi_pool_lease(struct twi_pool *pool, const void *p)
{
	const struct twi_extent *extent = twi_pool_find(pool, p, 1);
	struct twi_block block;
	uint64_t bytes = 0;
	int outcome;

	if (extent != NULL)
		return twi_pool_lease_block(pool, extent, p, &block);
	outcome = twi_overflow_lease(&pool->overflow, p, &bytes);
	return outcome == TOW_EFOREIGN ? not_in_pool(p) : leased_status(pool, p, outcome, bytes);
}

int twi_pool_lease_block(struct twi_pool *pool, const struct twi_extent *extent, const void *p,
			 struct twi_block *block_out)
{
	if (pool->ops->find(pool->arena[extent->slot], p, block_out) < 0)
		return not_allocated(p);
	return leased_status(pool, p, twi_hold_lease(block_out->hold), block_out->bytes);
}

int twi_pool_lease_again(struct twi_pool *pool, const void *p)
{
	const struct twi_extent *extent = twi_pool_find(pool, p, 1);
	struct twi_block block;
	uint64_t bytes;

	if (extent == NULL)
		return twi_overflow_lease_again(&pool->overflow, p, &bytes);
	twi_assert(pool->ops->find(pool->arena[extent->slot], p, &block) == TOW_OK);
	return twi_hold_lease_again(block.hold);
}

void twi_pool_release_block(struct twi_pool *pool, const struct twi_block *block)
{
	int outcome = twi_hold_release(block->hold);
	twi_pool_returns *returns;

	/* A release without a lease is a bug of the library: the memory may be in use elsewhere. */
	twi_assert(outcome != TOW_EINVAL);
	if (outcome == TOW_OK)
		return;
	count_leased(pool, -(int64_t)block->bytes);
	if (twi_likely(outcome != TWI_HOLD_ENDED))
		return;
	atomic_fetch_sub_explicit(&pool->deferred_bytes, block->bytes, memory_order_relaxed);
	returns = atomic_load_explicit(&pool->returns, memory_order_acquire);
	if (returns != NULL)
		returns(pool->returns_user, block->base, block->bytes);
	pool->ops->give(pool->arena[twi_pool_find(pool, block->base, 1)->slot], block->base);
	tell_room(pool);
}

void twi_pool_release(struct twi_pool *pool, const void *p)
{
	const struct twi_extent *extent = twi_pool_find(pool, p, 1);
	struct twi_block block;
	uint64_t bytes;
	int outcome;

	if (extent != NULL) {
		twi_assert(pool->ops->find(pool->arena[extent->slot], p, &block) == TOW_OK);
		twi_pool_release_block(pool, &block);
		return;
	}
	outcome = twi_overflow_release(&pool->overflow, p, &bytes);
	twi_assert(outcome != TOW_EINVAL && outcome != TOW_EFOREIGN);
	if (outcome == TWI_HOLD_LAST || outcome == TWI_HOLD_ENDED)
		count_leased(pool, -(int64_t)bytes);
}

bool twi_pool_overflow(struct twi_pool *pool, const void *p, uint64_t bytes)
{
	void *base;

	return twi_overflow_find(&pool->overflow, p, bytes, &base);
}

bool twi_pool_freed(struct twi_pool *pool, const void *p)
{
	const struct twi_extent *extent = twi_pool_find(pool, p, 1);
	struct twi_block block;

	if (extent == NULL || pool->ops->find(pool->arena[extent->slot], p, &block) < 0)
		return false;
	return (atomic_load_explicit(block.hold, memory_order_relaxed) & TWI_HOLD_FREED) != 0;
}

uint64_t twi_pool_deferred(const struct twi_pool *pool)
{
	return atomic_load_explicit(&pool->deferred_bytes, memory_order_relaxed);
}
