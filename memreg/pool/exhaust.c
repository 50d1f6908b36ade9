/*
 * exhaust.c - handles an allocation that finds the pool full, by the policy of the pool.
 *
 *   fail   TOW_EEXHAUSTED, with the size that would have been enough
 *   wait   the same here; tow_alloc waits and asks again
 *   grow   one more extent, of at least a quarter of the mapped bytes, up to limit_bytes; mapping,
 *          faulting in and registering happen now, as a late registration
 *   copy   memory outside the pool; pool and overflow together have at most limit_bytes
 *
 * Each policy counts a request without room, and recommended_premap_memory_bytes tells how large
 * the pool should have been. With require_zero_copy, grow and copy fail and say so.
 */
#include <string.h>

#include "diag/base/cancel.h"
#include "diag/base/clock.h"
#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "memreg/pool/pool_impl.h"
#include <internal/base.h>
#include <towline/status.h>

const char *twi_exhaust_name(enum twi_exhaust exhaust)
{
#define WORD(id, word) [id] = (word),
	static const char *const names[] = { TWI_EXHAUST_MAP(WORD) };
#undef WORD

	return names[exhaust];
}

static void raise_u64(_Atomic uint64_t *peak, uint64_t value)
{
	uint64_t seen = atomic_load_explicit(peak, memory_order_relaxed);

	while (seen < value &&
	       !atomic_compare_exchange_weak_explicit(peak, &seen, value, memory_order_relaxed,
						      memory_order_relaxed))
		;
}

/*
 * Counts a request without room, and returns the pool size that would have been enough. That is the
 * pool with room at its end for all requests refused since the last free. There they fit, however
 * fragmented the rest is. A repeated request counts again, so the result may be too large.
 */
static uint64_t note_refused(struct twi_pool *pool, size_t bytes, size_t align,
			     struct twi_pool_stats *stats)
{
	uint32_t count = atomic_load_explicit(&pool->extents.count, memory_order_acquire);
	struct twi_arena_stats last;
	uint64_t need, refused, enough;

	twi_pool_stats(pool, stats);
	pool->ops->stats(pool->arena[count - 1], &last);
	need = twi_align_up(bytes, 4096) + (align > 4096 ? align - 4096 : 0);
	refused =
		need + atomic_fetch_add_explicit(&pool->refused_bytes, need, memory_order_relaxed);
	enough = stats->mapped + stats->overflow + refused - twi_min(last.last_free_bytes, refused);
	enough = twi_align_up(enough, TWI_HUGE_BYTES);
	raise_u64(&pool->demand_bytes, stats->allocated + stats->overflow + refused);
	raise_u64(&pool->enough_bytes, enough);
	return enough;
}

static void lower_u64(_Atomic uint64_t *least, uint64_t value)
{
	uint64_t seen = atomic_load_explicit(least, memory_order_relaxed);

	while (seen > value &&
	       !atomic_compare_exchange_weak_explicit(least, &seen, value, memory_order_relaxed,
						      memory_order_relaxed))
		;
}

/* Records that the pool should have been larger by a request that is met elsewhere. */
static void note_demand(struct twi_pool *pool, size_t bytes)
{
	struct twi_pool_stats stats;
	struct twi_arena_stats first;

	twi_pool_stats(pool, &stats);
	pool->ops->stats(pool->arena[0], &first);
	lower_u64(&pool->spare_bytes, first.last_free_bytes);
	raise_u64(&pool->demand_bytes, stats.allocated + stats.overflow + bytes);
}

static int fail_exhausted(struct twi_pool *pool, size_t bytes, size_t align, const char *why)
{
	struct twi_pool_stats stats;
	uint64_t enough = note_refused(pool, bytes, align, &stats);

	return twi_error(TOW_EEXHAUSTED,
			 "pool: no room for %zu bytes: %llu of %llu bytes are free, the largest "
			 "block has %llu; premap_memory_bytes=%lluMiB would have been enough "
			 "for all that was refused since the last free%s%s",
			 bytes, (unsigned long long)stats.free, (unsigned long long)stats.mapped,
			 (unsigned long long)stats.largest_free, (unsigned long long)enough >> 20,
			 *why != '\0' ? "; " : "", why);
}

static uint64_t mapped_bytes(const struct twi_pool *pool)
{
	uint32_t count = atomic_load_explicit(&pool->extents.count, memory_order_acquire);
	uint64_t mapped = 0;

	for (uint32_t i = 0; i < count; i++)
		mapped += pool->extents.extent[i]->bytes;
	return mapped;
}

bool twi_pool_degrades(const struct twi_pool *pool)
{
	return !pool->require_zero_copy &&
	       (pool->exhaust == TWI_EXHAUST_GROW || pool->exhaust == TWI_EXHAUST_COPY);
}

uint64_t twi_pool_longest(const struct twi_pool *pool)
{
	uint32_t count = atomic_load_explicit(&pool->extents.count, memory_order_acquire);
	uint64_t longest = 0;

	for (uint32_t i = 0; i < count; i++)
		longest = twi_max(longest, pool->extents.extent[i]->bytes);
	return longest;
}

uint64_t twi_pool_growth_left(const struct twi_pool *pool)
{
	uint64_t mapped = mapped_bytes(pool);
	uint32_t count = atomic_load_explicit(&pool->extents.count, memory_order_relaxed);

	if (!twi_pool_degrades(pool) || pool->limit_bytes <= mapped ||
	    (pool->exhaust == TWI_EXHAUST_GROW && count == TWI_EXTENTS_MAX))
		return 0;
	return pool->limit_bytes - mapped;
}

/* Size of the next extent, for a request of `bytes`. 0: the limit does not allow it. */
static uint64_t growth_bytes(const struct twi_pool *pool, size_t bytes, size_t align)
{
	uint64_t mapped = mapped_bytes(pool);
	/* An arena may round a request up to the next of four classes in each power of two. */
	uint64_t least = twi_align_up(bytes + align, TWI_HUGE_BYTES);
	uint64_t want = twi_max(twi_align_up(least + bytes / 4, TWI_HUGE_BYTES),
				twi_align_up(mapped / 4, TWI_HUGE_BYTES));

	if (mapped >= pool->limit_bytes || pool->limit_bytes - mapped < least)
		return 0;
	return twi_min(want, (pool->limit_bytes - mapped) & ~(uint64_t)(TWI_HUGE_BYTES - 1));
}

static int grow_once(struct twi_pool *pool, size_t bytes, size_t align, struct twi_site site)
{
	uint64_t size = growth_bytes(pool, bytes, align), start = twi_now_ns(), ns;
	struct twi_extent_options options = pool->pages;
	struct twi_extent *extent;
	uint32_t count;
	int status;

	if (size == 0)
		return fail_exhausted(
			pool, bytes, align,
			"and premap_limit_bytes does not allow the pool to grow so far");
	if (atomic_load_explicit(&pool->extents.count, memory_order_relaxed) == TWI_EXTENTS_MAX)
		return fail_exhausted(pool, bytes, align,
				      "and the pool has grown 15 times already");
	options.bytes = size;
	status = twi_pool_extent_create(pool, &options);
	if (status < 0)
		return fail_exhausted(pool, bytes, align, tow_error_message());
	ns = twi_now_ns() - start;
	count = atomic_load_explicit(&pool->extents.count, memory_order_relaxed);
	extent = pool->extents.extent[count - 1];
	twi_count(pool->diag, TWI_C_pool_grown, 1);
	twi_count(pool->diag, TWI_C_pool_grown_bytes, extent->bytes);
	twi_late_record(pool->diag, TWI_R_late_extent, extent->bytes, ns, site);
	twi_log(pool->diag, 2,
		"pool was full and has grown by %llu MiB in %llu us; so far "
		"premap_memory_bytes=%lluMiB would have been enough",
		(unsigned long long)extent->bytes >> 20, (unsigned long long)ns / 1000,
		(unsigned long long)mapped_bytes(pool) >> 20);
	return TOW_OK;
}

static int grow_pool(struct twi_pool *pool, size_t bytes, size_t align, struct twi_site site,
		     void **out)
{
	int status = TOW_OK;

	pthread_mutex_lock(&pool->growing);
	/* Another thread may have made room meanwhile. */
	if (!twi_pool_extents_alloc(pool, bytes, align, out)) {
		note_demand(pool, bytes);
		status = grow_once(pool, bytes, align, site);
		if (status == TOW_OK && !twi_pool_extents_alloc(pool, bytes, align, out))
			status = fail_exhausted(pool, bytes, align,
						"even though the pool has just grown");
	}
	pthread_mutex_unlock(&pool->growing);
	return status;
}

static int go_outside(struct twi_pool *pool, size_t bytes, size_t align, void **out)
{
	uint64_t mapped = mapped_bytes(pool);
	uint64_t limit = pool->limit_bytes > mapped ? pool->limit_bytes - mapped : 0;
	int status;

	note_demand(pool, bytes);
	status = twi_overflow_alloc(&pool->overflow, bytes, align, limit, out);

	if (status == TOW_EEXHAUSTED)
		return fail_exhausted(
			pool, bytes, align,
			"and premap_limit_bytes does not allow more outside the pool");
	if (status < 0)
		return fail_exhausted(pool, bytes, align,
				      "and the system has no memory for it either");
	twi_count(pool->diag, TWI_C_pool_overflow_allocs, 1);
	twi_count(pool->diag, TWI_C_pool_overflow_bytes, bytes);
	return TOW_OK;
}

static int pool_exhausted(struct twi_pool *pool, size_t bytes, size_t align, struct twi_site site,
			  void **out)
{
	bool degrades = pool->exhaust == TWI_EXHAUST_GROW || pool->exhaust == TWI_EXHAUST_COPY;

	twi_count(pool->diag, TWI_C_pool_exhausted, 1);
	atomic_fetch_add_explicit(&pool->exhausted, 1, memory_order_relaxed);
	if (bytes > (size_t)INT64_MAX / 4)
		return twi_error(TOW_EEXHAUSTED, "pool: %zu bytes are more than any pool can have",
				 bytes);
	if (degrades && pool->require_zero_copy) {
		twi_count(pool->diag, TWI_C_zero_copy_refusals, 1);
		return fail_exhausted(pool, bytes, align,
				      "require_zero_copy forbids late registrations and "
				      "fallback copies");
	}
	if (pool->exhaust == TWI_EXHAUST_GROW)
		return grow_pool(pool, bytes, align, site, out);
	if (pool->exhaust == TWI_EXHAUST_COPY)
		return go_outside(pool, bytes, align, out);
	return fail_exhausted(pool, bytes, align, "");
}

int twi_pool_exhausted(struct twi_pool *pool, size_t bytes, size_t align, struct twi_site site,
		       void **out)
{
	TWI_UNCANCELED;
	struct twi_error_kept kept;

	/* Messages on the way, such as missing huge pages, are no failure of this call. */
	twi_error_keep(&kept);
	return twi_error_settle(&kept, pool_exhausted(pool, bytes, align, site, out));
}
