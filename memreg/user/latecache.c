/*
 * latecache.c - registers, keeps and drops memory at its first use; latecache.h has the concept.
 */
#include "memreg/user/latecache.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "diag/base/emit.h"
#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "diag/record/registry.h"
#include "memreg/pool/pool_impl.h"
#include "memreg/pool/pool_regions.h"
#include <internal/base.h>

#define AGAIN_TRIES 200
#define AGAIN_NS    20000
#define INFO_PATH   "/v1/info"

struct twi_latecache *twi_latecache_of(const struct twi_pool *pool)
{
	return twi_container_of(pool->late, struct twi_latecache, late);
}

/* The watching thread reports changed memory. regions.lock is held. */
static void range_changed(void *arg, uint64_t start, uint64_t end)
{
	struct twi_pool *pool = arg;
	struct twi_region_entry *entry;

	while ((entry = twi_regions_overlap(&pool->regions, start, end)) != NULL) {
		twi_regions_withdraw(&pool->regions, entry);
		atomic_fetch_add_explicit(&twi_latecache_of(pool)->invalidations, 1,
					  memory_order_relaxed);
	}
}

static struct twi_late *cache_create(struct twi_pool *pool, uint64_t limit_bytes,
				     uint32_t limit_entries)
{
	struct twi_latecache *cache = calloc(1, sizeof(*cache));

	if (cache == NULL)
		return NULL;
	cache->late.ops = &twi_latecache_ops;
	cache->limit_bytes = limit_bytes;
	cache->limit_entries = limit_entries;
	cache->watch.fd = cache->watch.maps_fd = cache->watch.stop_fd = -1;
	cache->watch.lock = &pool->regions.lock;
	cache->watch.changed = range_changed;
	cache->watch.arg = pool;
	return &cache->late;
}

static void cache_destroy(struct twi_late *late)
{
	struct twi_latecache *cache = twi_container_of(late, struct twi_latecache, late);

	twi_watch_stop(&cache->watch);
	free(cache);
}

static bool cache_evict(struct twi_pool *pool)
{
	struct twi_regions *regions = &pool->regions;
	uint16_t slot = regions->lru.first;

	while (slot != TWI_NO_SLOT && regions->entry[slot].holds > 0)
		slot = regions->entry[slot].after;
	if (slot == TWI_NO_SLOT)
		return false;
	twi_regions_withdraw(regions, &regions->entry[slot]);
	twi_count(pool->diag, TWI_C_late_cache_evictions, 1);
	return true;
}

static void cache_unwatch(struct twi_pool *pool, uint64_t start, uint64_t end)
{
	struct twi_regions *regions = &pool->regions;

	if (!twi_latecache_of(pool)->watch.running)
		return;
	while (start < end) {
		struct twi_region_entry *entry;
		uint64_t stop = end, next = end;

		pthread_mutex_lock(&regions->lock);
		entry = twi_regions_overlap(regions, start, end);
		if (entry != NULL) {
			stop = twi_region_start(entry);
			next = twi_region_end(entry);
		}
		pthread_mutex_unlock(&regions->lock);
		if (stop > start)
			twi_watch_remove(&twi_latecache_of(pool)->watch, start, stop);
		start = next;
	}
}

static void cache_settle(struct twi_pool *pool)
{
	struct twi_latecache *cache = twi_latecache_of(pool);
	struct twi_regions *regions = &pool->regions;
	uint64_t lost = atomic_exchange_explicit(&cache->invalidations, 0, memory_order_relaxed);
	uint64_t start, end;
	bool moved;

	if (lost > 0)
		twi_count(pool->diag, TWI_C_late_cache_invalidations, lost);
	for (;;) {
		pthread_mutex_lock(&regions->lock);
		moved = twi_watch_moved(&cache->watch, &start, &end);
		pthread_mutex_unlock(&regions->lock);
		if (!moved)
			break;
		cache_unwatch(pool, start, end);
	}
}

static int cache_check(struct twi_pool *pool, uint64_t start, uint64_t end)
{
	return twi_watch_check(&twi_latecache_of(pool)->watch, start, end);
}

/* True when memory can be watched here. The control lock is held. */
static bool able_to_watch(struct twi_pool *pool, bool start)
{
	struct twi_latecache *cache = twi_latecache_of(pool);

	if (!cache->tried || (start && cache->able && !cache->watch.running)) {
		cache->able = twi_watch_start(&cache->watch) == TOW_OK;
		cache->tried = true;
		if (!start)
			twi_watch_stop(&cache->watch);
		if (!cache->able)
			twi_log(pool->diag, 2,
				"late cache: no memory is registered at its first use: %s; mend "
				"it: %s",
				cache->watch.reason, cache->watch.mend);
	}
	return cache->able;
}

/* Evicts cached regions until the limits allow `bytes` more. regions.lock is held. */
static bool make_room(struct twi_pool *pool, uint64_t bytes)
{
	struct twi_regions *regions = &pool->regions;
	const struct twi_latecache *cache = twi_latecache_of(pool);

	while (regions->bytes[TWI_REGION_CACHED] + bytes > cache->limit_bytes ||
	       regions->count[TWI_REGION_CACHED] >= cache->limit_entries) {
		if (!cache_evict(pool))
			return false;
	}
	return true;
}

/* Takes an entry with one hold, evicting others as needed. *once_out: it serves only this use. */
static struct twi_region_entry *take_entry(struct twi_pool *pool, uint64_t start, uint64_t end,
					   bool *once_out)
{
	struct twi_regions *regions = &pool->regions;
	struct twi_region_entry *entry = NULL, *other;
	bool room;

	pthread_mutex_lock(&regions->lock);
	/* The new region contains their pages, or replaces their registration. */
	while ((other = twi_regions_overlap(regions, start, end)) != NULL)
		twi_regions_withdraw(regions, other);
	do {
		room = make_room(pool, end - start);
		if (!room)
			break;
		pthread_mutex_unlock(&regions->lock);
		/* Settles first, so that pinned memory never exceeds the limits. */
		twi_pool_settle_held(pool);
		pthread_mutex_lock(&regions->lock);
		entry = twi_regions_take(regions, TWI_REGION_CACHED, (void *)(uintptr_t)start,
					 end - start, -1);
	} while (entry == NULL && cache_evict(pool));
	if (entry != NULL) {
		twi_regions_hold(regions, entry);
		*once_out = twi_watch_unsettled(&twi_latecache_of(pool)->watch, start, end);
	}
	pthread_mutex_unlock(&regions->lock);
	return entry;
}

/* Registers [start, end), which are whole pages. The control lock is held. */
static int add_range(struct twi_pool *pool, uint64_t start, uint64_t end, uint64_t *ns_out,
		     struct twi_region_entry **entry_out)
{
	struct twi_regions *regions = &pool->regions;
	bool once = false;
	struct twi_region_entry *entry = take_entry(pool, start, end, &once);
	int status;

	if (entry == NULL)
		return twi_error(TOW_EEXHAUSTED,
				 "late cache: no room for %llu bytes (late_cache_bytes = %llu, "
				 "late_cache_entries = %u, the rest is in use)",
				 (unsigned long long)(end - start),
				 (unsigned long long)twi_latecache_of(pool)->limit_bytes,
				 twi_latecache_of(pool)->limit_entries);
	/* Watches first: from now on a change makes the entry DEAD, even while it is announced. */
	status = twi_watch_add(&twi_latecache_of(pool)->watch, start, end);
	if (status == TOW_OK)
		status = twi_pool_announce(pool, &entry->region, ns_out);
	pthread_mutex_lock(&regions->lock);
	if (status == TOW_OK && !once && entry->state == TWI_REGION_PENDING)
		twi_regions_publish(regions, entry);
	else
		twi_regions_withdraw(regions, entry);
	if (status < 0)
		twi_regions_release(regions, entry);
	pthread_mutex_unlock(&regions->lock);
	*entry_out = entry;
	return status;
}

/* Widens the range by the cached regions that it touches, if the limit allows it. */
static void widen_range(struct twi_pool *pool, uint64_t *start, uint64_t *end)
{
	struct twi_regions *regions = &pool->regions;
	struct twi_region_entry *entry;
	uint64_t low = *start, high = *end;

	pthread_mutex_lock(&regions->lock);
	for (uint64_t at = low; (entry = twi_regions_overlap(regions, at, *end)) != NULL;) {
		low = twi_min(low, twi_region_start(entry));
		high = twi_max(high, twi_region_end(entry));
		at = twi_region_end(entry);
		if (at >= *end)
			break;
	}
	pthread_mutex_unlock(&regions->lock);
	if (high - low <= twi_latecache_of(pool)->limit_bytes) {
		*start = low;
		*end = high;
	}
}

static int late_held(struct twi_pool *pool, uint64_t start, uint64_t end, uint64_t *ns_out,
		     struct twi_region_entry **entry_out)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t low = start & ~(page - 1), high = twi_align_up(end, page);
	uint64_t own_low = low, own_high = high;
	bool anyone = false;
	int status;

	twi_count(pool->diag, TWI_C_late_cache_misses, 1);
	if (high - low > twi_latecache_of(pool)->limit_bytes)
		return twi_error(TOW_EEXHAUSTED,
				 "late cache: %llu bytes are more than late_cache_bytes = %llu",
				 (unsigned long long)(high - low),
				 (unsigned long long)twi_latecache_of(pool)->limit_bytes);
	for (const struct twi_registration *r = pool->registrations; r != NULL; r = r->next)
		anyone |= r->registered;
	if (!anyone)
		return twi_error(TOW_ENOTSUP, "late cache: no lane or device needs registered "
					      "memory");
	if (!able_to_watch(pool, true))
		return twi_error(TOW_ENOTSUP, "late cache: %s; mend it: %s",
				 twi_latecache_of(pool)->watch.reason,
				 twi_latecache_of(pool)->watch.mend);
	widen_range(pool, &low, &high);
	status = add_range(pool, low, high, ns_out, entry_out);
	/* A neighbouring region may have caused the failure. */
	if (status < 0 && (low != own_low || high != own_high))
		status = add_range(pool, own_low, own_high, ns_out, entry_out);
	return status;
}

/* Like twi_pool_region_find, but waits a moment while mappings are being changed. */
static int find_patiently(struct twi_pool *pool, uint64_t start, uint64_t end,
			  struct twi_region_entry **entry_out)
{
	const struct timespec moment = { .tv_nsec = AGAIN_NS };
	int status = twi_pool_region_find(pool, start, end, entry_out);

	for (int i = 0; status == TOW_AGAIN && i < AGAIN_TRIES; i++) {
		nanosleep(&moment, NULL);
		status = twi_pool_region_find(pool, start, end, entry_out);
	}
	return status;
}

static int cache_use(struct twi_pool *pool, const void *p, uint64_t bytes, struct twi_site site,
		     const struct twi_region **region_out)
{
	uint64_t start = (uintptr_t)p, end = start + bytes, ns = 0;
	struct twi_region_entry *entry = NULL;
	bool late = false;
	int status;

	if (p == NULL || end <= start || end > (uint64_t)INTPTR_MAX)
		return twi_error(TOW_EINVAL,
				 "late cache: %llu bytes at %p are not a range of "
				 "memory",
				 (unsigned long long)bytes, p);
	status = find_patiently(pool, start, end, &entry);
	if (status == TOW_EFREED) {
		pthread_mutex_lock(&pool->control);
		/* Another thread may have registered it meanwhile. */
		status = twi_pool_region_find(pool, start, end, &entry);
		if (status == TOW_EFREED) {
			status = late_held(pool, start, end, &ns, &entry);
			late = status == TOW_OK;
		}
		twi_pool_settle_held(pool);
		pthread_mutex_unlock(&pool->control);
	}
	if (status == TOW_AGAIN)
		return twi_error(TOW_EBUSY,
				 "late cache: other threads change the mappings of memory in the "
				 "cache all the time");
	if (status != TOW_OK)
		return status;
	if (late)
		twi_late_record(pool->diag, TWI_R_late_user_memory, entry->region.bytes, ns, site);
	*region_out = &entry->region;
	return TOW_OK;
}

static void describe_cache(void *arg, struct twi_emit *e)
{
	struct twi_pool *pool = arg;
	struct twi_latecache *cache = twi_latecache_of(pool);
	bool watched;

	pthread_mutex_lock(&pool->control);
	watched = able_to_watch(pool, false);
	twi_emit_object_begin(e, "late_cache");
	twi_emit_u64(e, "limit_bytes", cache->limit_bytes);
	twi_emit_u64(e, "limit_entries", cache->limit_entries);
	twi_emit_bool(e, "watched", watched);
	twi_emit_bool(e, "running", cache->watch.running);
	twi_emit_str(e, "reason", cache->watch.reason);
	twi_emit_str(e, "mend", cache->watch.mend);
	twi_emit_object_end(e);
	pthread_mutex_unlock(&pool->control);
}

static int report_add(struct twi_pool *pool)
{
	struct twi_source source = { .path = INFO_PATH,
				     .help = "Whether memory of the user's can be watched here",
				     .snapshot = describe_cache,
				     .arg = pool };

	return twi_registry_add(pool->diag, &source);
}

static void report_remove(struct twi_pool *pool)
{
	twi_registry_remove(pool->diag, INFO_PATH, pool);
}

const struct twi_late_ops twi_latecache_ops = {
	.create = cache_create,
	.destroy = cache_destroy,
	.use = cache_use,
	.check = cache_check,
	.evict = cache_evict,
	.unwatch = cache_unwatch,
	.settle = cache_settle,
	.report_add = report_add,
	.report_remove = report_remove,
};
