/*
 * pool.c - the pool's life, its allocations and their leases. pool.h has the concept.
 *
 * Budget: find, lease, release are data path: no allocation, no system call, no lock (release takes
 * the arena's lock when it gives the memory of a freed allocation back). alloc and free take the
 * arena's lock once each. Everything else is control path.
 */
#include "memreg/pool.h"

#include <stdlib.h>

#include "diag/diag.h"
#include "diag/error.h"
#include "memreg/lease.h"
#include "memreg/pool_impl.h"
#include <internal/base.h>

static void raise_u64(_Atomic uint64_t *peak, uint64_t value)
{
	uint64_t seen = atomic_load_explicit(peak, memory_order_relaxed);

	while (seen < value &&
	       !atomic_compare_exchange_weak_explicit(peak, &seen, value, memory_order_relaxed,
						      memory_order_relaxed))
		;
}

/* Maps, populates and pins an extent in a slot of its own, and makes its arena. */
static int extent_create(struct twi_pool *pool, uint64_t bytes, bool huge_pages)
{
	uint32_t slot = atomic_load_explicit(&pool->extents.count, memory_order_relaxed);
	struct twi_extent *extent = calloc(1, sizeof(*extent));
	int status;

	if (!extent)
		return twi_error(TOW_ENOMEM, "pool: no memory for the extent's description");
	status = twi_extent_map(bytes, huge_pages, extent);
	if (status != TOW_OK)
		goto failed_map;
	extent->slot = slot;
	status = twi_extent_populate(extent, 0);
	if (status != TOW_OK)
		goto failed;
	status = twi_extent_pin(extent);
	if (status != TOW_OK && pool->strict)
		goto failed;
	if (status != TOW_OK)
		twi_log(pool->diag, 2, "pool is not locked in memory: %s; mend it: %s",
			extent->pin_reason, extent->pin_mend);
	if (extent->reason[0])
		twi_log(pool->diag, 3, "pool on %s pages: %s; mend it: %s",
			twi_page_kind_name(extent->kind), extent->reason, extent->mend);
	status = pool->ops->create(extent->base, extent->bytes, &pool->arena[slot]);
	if (status != TOW_OK) {
		status = twi_error(status, "pool: no memory for the side table of %llu bytes",
				   (unsigned long long)extent->bytes);
		goto failed;
	}
	extent->region = (struct twi_region){
		.base = extent->base,
		.bytes = extent->bytes,
		.generation = ++pool->region_generation,
		.slot = pool->next_slot,
		.slots = (uint32_t)((extent->bytes + TWI_REGION_PIECE - 1) >>
				    TWI_REGION_PIECE_SHIFT),
		.kind = TWI_REGION_EXTENT,
		.fd = extent->fd,
	};
	pool->next_slot += extent->region.slots;
	pool->extents.extent[slot] = extent;
	/* Release: pairs with the acquire in twi_pool_find. */
	atomic_store_explicit(&pool->extents.count, slot + 1, memory_order_release);
	return TOW_OK;
failed:
	twi_extent_unmap(extent);
failed_map:
	free(extent);
	return status;
}

int twi_pool_create(const struct twi_pool_options *options, struct twi_pool **out)
{
	struct twi_pool *pool;
	int status;

	if (!out)
		return twi_error(TOW_EINVAL, "pool: out is NULL");
	*out = NULL;
	if (!options || !options->diag)
		return twi_error(TOW_EINVAL, "pool: %s is NULL",
				 options ? "options.diag" : "options");
	pool = calloc(1, sizeof(*pool));
	if (!pool)
		return twi_error(TOW_ENOMEM, "pool: no memory for its description");
	pool->ops = twi_arena_choose();
	pool->diag = options->diag;
	pool->asked_bytes = options->bytes;
	pool->strict = options->strict;
	pthread_mutex_init(&pool->control, NULL);
	status = extent_create(pool, options->bytes, options->huge_pages);
	if (status == TOW_OK)
		status = twi_pool_report_add(pool);
	if (status != TOW_OK) {
		twi_pool_destroy(pool);
		return status;
	}
	*out = pool;
	return TOW_OK;
}

void twi_pool_destroy(struct twi_pool *pool)
{
	uint32_t count;

	if (!pool)
		return;
	twi_pool_report_remove(pool);
	twi_pool_registrars_clear(pool);
	count = atomic_load_explicit(&pool->extents.count, memory_order_relaxed);
	for (uint32_t i = 0; i < count; i++) {
		pool->ops->destroy(pool->arena[i]);
		twi_extent_unmap(pool->extents.extent[i]);
		free(pool->extents.extent[i]);
	}
	pthread_mutex_destroy(&pool->control);
	free(pool);
}

void twi_pool_seal(struct twi_pool *pool)
{
	atomic_store_explicit(&pool->sealed, true, memory_order_relaxed);
}

/*
 * Counts a request without room, remembers what would have been enough, and says so. Enough is the
 * pool with room added at its end for all requests refused since the last free: then they fit
 * however the rest is fragmented. (One that is repeated meanwhile counts again: rather too much
 * than too little.)
 */
static int exhausted(struct twi_pool *pool, size_t bytes, size_t align)
{
	struct twi_pool_stats stats;
	struct twi_arena_stats last;
	uint64_t need, refused, enough;
	uint32_t count = atomic_load_explicit(&pool->extents.count, memory_order_acquire);

	twi_count(pool->diag, TWI_C_pool_exhausted, 1);
	atomic_fetch_add_explicit(&pool->exhausted, 1, memory_order_relaxed);
	if (bytes > (size_t)INT64_MAX)
		return twi_error(TOW_EEXHAUSTED, "pool: %zu bytes are more than any pool can have",
				 bytes);
	twi_pool_stats(pool, &stats);
	pool->ops->stats(pool->arena[count - 1], &last);
	need = twi_align_up(bytes, 4096) + (align > 4096 ? align - 4096 : 0);
	refused =
		need + atomic_fetch_add_explicit(&pool->refused_bytes, need, memory_order_relaxed);
	enough = stats.mapped + refused - twi_min(last.last_free_bytes, refused);
	enough = twi_align_up(enough, TWI_HUGE_BYTES);
	raise_u64(&pool->demand_bytes, stats.allocated + refused);
	raise_u64(&pool->enough_bytes, enough);
	return twi_error(TOW_EEXHAUSTED,
			 "pool: no room for %zu bytes: %llu of %llu bytes are free, the largest "
			 "block has %llu; premap_memory_bytes=%lluMiB would have been enough "
			 "for all that was refused since the last free",
			 bytes, (unsigned long long)stats.free, (unsigned long long)stats.mapped,
			 (unsigned long long)stats.largest_free, (unsigned long long)enough >> 20);
}

int twi_pool_alloc(struct twi_pool *pool, size_t bytes, size_t align, void **out)
{
	uint32_t count = atomic_load_explicit(&pool->extents.count, memory_order_acquire);

	*out = NULL;
	align = align ? align : TWI_ALIGN_DEFAULT;
	if (!twi_is_power_of_two(align) || align > TWI_ALIGN_MAX)
		return twi_error(TOW_EINVAL,
				 "pool: align = %zu is not a power of two up to 2097152, nor 0",
				 align);
	for (uint32_t i = 0; i < count; i++) {
		if (pool->ops->alloc(pool->arena[i], bytes, align, out) == TOW_OK) {
			twi_count(pool->diag, TWI_C_pool_allocs, 1);
			return TOW_OK;
		}
	}
	return exhausted(pool, bytes, align);
}

static int not_in_pool(const void *p)
{
	return twi_error(TOW_EFOREIGN, "pool: %p is not in this pool", p);
}

static int not_allocated(const void *p)
{
	return twi_error(TOW_EFREED, "pool: %p is not allocated now, or was freed before", p);
}

int twi_pool_free(struct twi_pool *pool, void *memory)
{
	const struct twi_extent *extent;
	struct twi_block block;
	int outcome;

	if (!memory)
		return TOW_OK;
	extent = twi_pool_find(pool, memory, 1);
	if (!extent)
		return not_in_pool(memory);
	if ((uintptr_t)memory % TWI_ALIGN_DEFAULT)
		return twi_error(TOW_EFOREIGN, "pool: %p is no start of an allocation", memory);
	if (pool->ops->find(pool->arena[extent->slot], memory, &block) != TOW_OK)
		return not_allocated(memory);
	if (block.base != memory)
		return twi_error(TOW_EFOREIGN,
				 "pool: %p lies %llu bytes inside the allocation at %p", memory,
				 (unsigned long long)((char *)memory - (char *)block.base),
				 block.base);
	outcome = twi_hold_free(block.hold);
	if (outcome == TOW_EFREED)
		return not_allocated(memory);
	if (outcome == TWI_HOLD_ENDED)
		pool->ops->give(pool->arena[extent->slot], memory);
	twi_count(pool->diag, TWI_C_pool_frees, 1);
	/* There is room again: what was refused may fit now. */
	if (atomic_load_explicit(&pool->refused_bytes, memory_order_relaxed) != 0)
		atomic_store_explicit(&pool->refused_bytes, 0, memory_order_relaxed);
	return TOW_OK;
}

static void count_leased(struct twi_pool *pool, int64_t bytes)
{
	int64_t now =
		atomic_fetch_add_explicit(&pool->leased_bytes, bytes, memory_order_relaxed) + bytes;
	int64_t peak = atomic_load_explicit(&pool->leased_peak_bytes, memory_order_relaxed);

	while (now > peak &&
	       !atomic_compare_exchange_weak_explicit(&pool->leased_peak_bytes, &peak, now,
						      memory_order_relaxed, memory_order_relaxed))
		;
}

int twi_pool_lease(struct twi_pool *pool, const void *p)
{
	const struct twi_extent *extent = twi_pool_find(pool, p, 1);
	struct twi_block block;
	int outcome;

	if (!extent)
		return not_in_pool(p);
	if (pool->ops->find(pool->arena[extent->slot], p, &block) != TOW_OK)
		return not_allocated(p);
	outcome = twi_hold_lease(block.hold);
	if (outcome == TOW_EFREED)
		return not_allocated(p);
	if (outcome == TOW_EBUSY)
		return twi_error(TOW_EBUSY, "pool: %p has too many leases", p);
	if (outcome == TWI_HOLD_FIRST)
		count_leased(pool, (int64_t)block.bytes);
	return TOW_OK;
}

void twi_pool_release(struct twi_pool *pool, const void *p)
{
	const struct twi_extent *extent = twi_pool_find(pool, p, 1);
	struct twi_block block;
	int outcome;

	/* A release without its lease is our own mistake: the memory may be in use by someone else.
	 */
	twi_assert(extent != NULL);
	twi_assert(pool->ops->find(pool->arena[extent->slot], p, &block) == TOW_OK);
	outcome = twi_hold_release(block.hold);
	twi_assert(outcome != TOW_EINVAL);
	if (outcome != TOW_OK)
		count_leased(pool, -(int64_t)block.bytes);
	if (outcome == TWI_HOLD_ENDED)
		pool->ops->give(pool->arena[extent->slot], block.base);
}
