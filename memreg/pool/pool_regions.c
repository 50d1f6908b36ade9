/*
 * pool_regions.c - registers, finds and holds memory, and removes regions.
 *
 * Invariant: a thread that adds or removes regions holds the control lock. So a registrar that is
 * added meanwhile learns of all regions. Only the watching thread makes entries DEAD without it.
 */
#include "memreg/pool/pool_regions.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "diag/base/emit.h"
#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "memreg/pool/pool_impl.h"
#include <internal/base.h>

#define RESIDENCY_BYTES 4096

int twi_pool_regions_init(struct twi_pool *pool, const struct twi_pool_options *options)
{
	const struct twi_late_ops *ops = options->late;
	int status = twi_regions_init(&pool->regions);

	if (status < 0 || ops == NULL)
		return status;
	pool->late = ops->create(pool, options->late_cache_bytes, options->late_cache_entries);
	return pool->late != NULL ? TOW_OK : twi_error(TOW_ENOMEM, "late cache: no memory for it");
}

void twi_pool_regions_fini(struct twi_pool *pool)
{
	struct twi_regions *regions = &pool->regions;
	struct twi_region_entry *entry;

	if (regions->entry == NULL || regions->order == NULL) {
		twi_regions_fini(regions);
		return;
	}
	pthread_mutex_lock(&pool->control);
	for (uint32_t slot = 0;; slot = entry->region.slot + 1) {
		pthread_mutex_lock(&regions->lock);
		entry = twi_regions_next(regions, slot);
		/* Remaining holds end here. */
		while (entry != NULL && entry->holds > 0)
			twi_regions_release(regions, entry);
		if (entry != NULL)
			twi_regions_withdraw(regions, entry);
		pthread_mutex_unlock(&regions->lock);
		if (entry == NULL)
			break;
	}
	twi_pool_settle_held(pool);
	pthread_mutex_unlock(&pool->control);
	if (pool->late != NULL)
		pool->late->ops->destroy(pool->late);
	twi_regions_fini(regions);
}

void twi_pool_settle_held(struct twi_pool *pool)
{
	struct twi_regions *regions = &pool->regions;
	struct twi_region_entry *entry;

	for (;;) {
		pthread_mutex_lock(&regions->lock);
		entry = twi_regions_next_dead(regions);
		pthread_mutex_unlock(&regions->lock);
		if (entry == NULL)
			break;
		twi_pool_forget(pool, &entry->region);
		if (entry->region.kind == TWI_REGION_CACHED)
			pool->late->ops->unwatch(pool, twi_region_start(entry),
						 twi_region_end(entry));
		pthread_mutex_lock(&regions->lock);
		twi_regions_give(regions, entry);
		pthread_mutex_unlock(&regions->lock);
	}
	if (pool->late != NULL)
		pool->late->ops->settle(pool);
}

void twi_pool_regions_settle(struct twi_pool *pool)
{
	if (twi_likely(atomic_load_explicit(&pool->regions.dead_count, memory_order_relaxed) == 0))
		return;
	/* The thread that holds the lock now settles, or a later caller does. */
	if (pthread_mutex_trylock(&pool->control) != 0)
		return;
	twi_pool_settle_held(pool);
	pthread_mutex_unlock(&pool->control);
}

/* Takes an entry with slots of its own, evicting cached regions. regions.lock is held. */
static struct twi_region_entry *take_entry(struct twi_pool *pool, enum twi_region_kind kind,
					   void *base, uint64_t bytes, int fd)
{
	struct twi_regions *regions = &pool->regions;
	struct twi_region_entry *entry;

	while ((entry = twi_regions_take(regions, kind, base, bytes, fd)) == NULL &&
	       pool->late != NULL && pool->late->ops->evict(pool)) {
		pthread_mutex_unlock(&regions->lock);
		twi_pool_settle_held(pool);
		pthread_mutex_lock(&regions->lock);
	}
	return entry;
}

/* Takes an entry, announces it to the registrars and publishes it. The control lock is held. */
static int add_region(struct twi_pool *pool, enum twi_region_kind kind, void *base, uint64_t bytes,
		      int fd, uint64_t *ns_out, struct twi_region_entry **entry_out)
{
	struct twi_regions *regions = &pool->regions;
	struct twi_region_entry *entry;
	int status;

	pthread_mutex_lock(&regions->lock);
	entry = take_entry(pool, kind, base, bytes, fd);
	pthread_mutex_unlock(&regions->lock);
	if (entry == NULL)
		return twi_error(TOW_EEXHAUSTED,
				 "pool: no slots left for %llu bytes: %u pieces of up to 1 GiB can "
				 "be registered at once; deregister some",
				 (unsigned long long)bytes, TWI_REGION_SLOTS);
	status = twi_pool_announce(pool, &entry->region, ns_out);
	pthread_mutex_lock(&regions->lock);
	if (status == TOW_OK)
		twi_regions_publish(regions, entry);
	else
		twi_regions_withdraw(regions, entry);
	pthread_mutex_unlock(&regions->lock);
	*entry_out = entry;
	return status;
}

int twi_pool_extent_announce(struct twi_pool *pool, struct twi_extent *extent)
{
	struct twi_region_entry *entry;
	uint64_t ns = 0;
	int status;

	pthread_mutex_lock(&pool->control);
	status = add_region(pool, TWI_REGION_EXTENT, extent->base, extent->bytes, extent->fd, &ns,
			    &entry);
	if (status == TOW_OK)
		extent->region = entry->region;
	twi_pool_settle_held(pool);
	pthread_mutex_unlock(&pool->control);
	return status;
}

void twi_pool_extent_forget(struct twi_pool *pool, struct twi_extent *extent)
{
	struct twi_regions *regions = &pool->regions;
	struct twi_region_entry *entry = &regions->entry[extent->region.slot];

	pthread_mutex_lock(&pool->control);
	pthread_mutex_lock(&regions->lock);
	twi_assert(entry->region.generation == extent->region.generation);
	twi_regions_withdraw(regions, entry);
	pthread_mutex_unlock(&regions->lock);
	twi_pool_settle_held(pool);
	pthread_mutex_unlock(&pool->control);
}

/* True when every page is mapped. mincore reports that, and changes nothing. */
static bool is_mapped(uint64_t start, uint64_t end)
{
	unsigned char seen[RESIDENCY_BYTES];
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	for (start &= ~(page - 1); start < end; start += page * sizeof(seen)) {
		uint64_t bytes = twi_min(end - start, page * sizeof(seen));

		if (mincore((void *)(uintptr_t)start, bytes, seen) != 0 && errno == ENOMEM)
			return false;
	}
	return true;
}

static bool in_pool(const struct twi_pool *pool, uint64_t start, uint64_t end)
{
	uint32_t count = atomic_load_explicit(&pool->extents.count, memory_order_acquire);

	for (uint32_t i = 0; i < count; i++) {
		const struct twi_extent *extent = pool->extents.extent[i];
		uint64_t base = (uintptr_t)extent->base;

		if (base < end && start < base + extent->bytes)
			return true;
	}
	return false;
}

static int check_range(struct twi_pool *pool, void *base, uint64_t bytes)
{
	uint64_t start = (uintptr_t)base, end = start + bytes;

	if (base == NULL)
		return twi_error(TOW_EINVAL, "register: memory is NULL");
	if (bytes == 0)
		return twi_error(TOW_EINVAL, "register: bytes = 0");
	if (end < start || end > (uint64_t)INTPTR_MAX)
		return twi_error(TOW_EINVAL, "register: bytes = %llu reaches beyond all memory",
				 (unsigned long long)bytes);
	if (!is_mapped(start, end))
		return twi_error(TOW_EINVAL,
				 "register: not all of the %llu bytes at %p are mapped memory",
				 (unsigned long long)bytes, base);
	if (in_pool(pool, start, end))
		return twi_error(TOW_EINVAL,
				 "register: %p is in the pool, which is registered already", base);
	return TOW_OK;
}

/* Adds to a pinning failure the limit that most often causes it. */
static int not_pinned(int status, uint64_t bytes)
{
	char limit[64], mend[128];

	if (status != TOW_ENOMEM && status != TOW_EPERM)
		return status;
	twi_memlock_describe(limit, sizeof(limit), mend, sizeof(mend));
	return twi_error(status, "register: %llu bytes: %.240s; %s; mend it: %s",
			 (unsigned long long)bytes, tow_error_message(), limit, mend);
}

int twi_pool_register(struct twi_pool *pool, void *base, uint64_t bytes, struct twi_site site,
		      uint64_t *handle_out)
{
	struct twi_region_entry *entry = NULL;
	uint64_t ns = 0;
	int status;

	*handle_out = 0;
	status = check_range(pool, base, bytes);
	if (status < 0)
		return status;
	pthread_mutex_lock(&pool->control);
	status = twi_pool_pinning(pool);
	if (status == TOW_OK) {
		status = add_region(pool, TWI_REGION_USER, base, bytes, -1, &ns, &entry);
		if (status < 0)
			status = not_pinned(status, bytes);
	}
	if (status == TOW_OK)
		*handle_out = twi_regions_handle(entry);
	twi_pool_settle_held(pool);
	pthread_mutex_unlock(&pool->control);
	if (status < 0)
		return status;
	twi_count(pool->diag, TWI_C_mem_registers, 1);
	if (atomic_load_explicit(&pool->sealed, memory_order_relaxed))
		twi_late_record(pool->diag, TWI_R_late_register, bytes, ns, site);
	return TOW_OK;
}

int twi_pool_deregister(struct twi_pool *pool, uint64_t handle)
{
	struct twi_regions *regions = &pool->regions;
	struct twi_region_entry *entry;
	uint32_t holds = 0;
	int status;

	pthread_mutex_lock(&pool->control);
	pthread_mutex_lock(&regions->lock);
	status = twi_regions_by_handle(regions, handle, &entry);
	if (status == TOW_OK) {
		holds = entry->holds;
		if (holds == 0)
			twi_regions_withdraw(regions, entry);
	}
	pthread_mutex_unlock(&regions->lock);
	if (status == TOW_OK && holds == 0)
		twi_pool_settle_held(pool);
	pthread_mutex_unlock(&pool->control);
	if (status == TOW_EINVAL)
		return twi_error(status, "deregister: 0x%llx is not a handle",
				 (unsigned long long)handle);
	if (status < 0)
		return twi_error(status,
				 "deregister: nothing is registered under 0x%llx in this runtime, "
				 "or not any more",
				 (unsigned long long)handle);
	if (holds > 0)
		return twi_error(TOW_EBUSY,
				 "deregister: %u operations are still using the memory, or the "
				 "kernel after a zero-copy send; wait for them, or drive "
				 "(tow_progress) and try again",
				 holds);
	twi_count(pool->diag, TWI_C_mem_deregisters, 1);
	return TOW_OK;
}

int twi_pool_region_find(struct twi_pool *pool, uint64_t start, uint64_t end,
			 struct twi_region_entry **entry_out)
{
	struct twi_regions *regions = &pool->regions;
	struct twi_region_entry *entry;
	int status = TOW_EFREED;
	bool cached = false;

	*entry_out = NULL;
	pthread_mutex_lock(&regions->lock);
	entry = twi_regions_find(regions, start, end);
	if (entry != NULL) {
		cached = entry->region.kind == TWI_REGION_CACHED;
		status = cached ? pool->late->ops->check(pool, start, end) : TOW_OK;
		if (status == TOW_OK)
			twi_regions_hold(regions, *entry_out = entry);
		else if (status == TOW_EFREED)
			twi_regions_withdraw(regions, entry);
	}
	pthread_mutex_unlock(&regions->lock);
	if (cached && status == TOW_OK)
		twi_count(pool->diag, TWI_C_late_cache_hits, 1);
	if (cached && status == TOW_EFREED)
		twi_count(pool->diag, TWI_C_late_cache_invalidations, 1);
	return status;
}

int twi_pool_region_late(struct twi_pool *pool, const void *p, uint64_t bytes, struct twi_site site,
			 const struct twi_region **region_out)
{
	*region_out = NULL;
	if (pool->late == NULL)
		return twi_error(TOW_ENOTSUP, "late cache: this pool has none");
	return pool->late->ops->use(pool, p, bytes, site, region_out);
}

const struct twi_region *twi_pool_region_acquire(struct twi_pool *pool, const void *p,
						 uint64_t bytes)
{
	uint64_t start = (uintptr_t)p, end = start + bytes;
	struct twi_region_entry *entry;

	twi_pool_regions_settle(pool);
	/* Acquire: pairs with the release by the thread that registered the memory. */
	if (atomic_load_explicit(&pool->regions.findable, memory_order_acquire) == 0 ||
	    end <= start)
		return NULL;
	if (twi_pool_region_find(pool, start, end, &entry) != TOW_OK) /* TOW_AGAIN, too */
		return NULL;
	return &entry->region;
}

void twi_pool_region_hold(struct twi_pool *pool, const struct twi_region *region)
{
	struct twi_regions *regions = &pool->regions;
	struct twi_region_entry *entry = &regions->entry[region->slot];

	pthread_mutex_lock(&regions->lock);
	twi_assert(&entry->region == region && entry->holds > 0);
	twi_regions_hold(regions, entry);
	pthread_mutex_unlock(&regions->lock);
}

void twi_pool_region_release(struct twi_pool *pool, const struct twi_region *region)
{
	struct twi_regions *regions = &pool->regions;
	struct twi_region_entry *entry = &regions->entry[region->slot];

	pthread_mutex_lock(&regions->lock);
	twi_assert(&entry->region == region);
	twi_regions_release(regions, entry);
	pthread_mutex_unlock(&regions->lock);
	twi_pool_regions_settle(pool);
}

const _Atomic uint64_t *twi_pool_regions_clock(const struct twi_pool *pool)
{
	return &pool->regions.version;
}

uint64_t twi_pool_regions_version(const struct twi_pool *pool)
{
	return atomic_load_explicit(&pool->regions.version, memory_order_acquire);
}

void twi_pool_regions_each(struct twi_pool *pool,
			   void (*visit)(void *arg, const struct twi_region *region), void *arg)
{
	struct twi_regions *regions = &pool->regions;
	struct twi_region_entry *entry;
	bool usable;

	pthread_mutex_lock(&pool->control);
	for (uint32_t slot = 0;; slot = entry->region.slot + 1) {
		pthread_mutex_lock(&regions->lock);
		entry = twi_regions_next(regions, slot);
		usable = entry != NULL && (entry->state == TWI_REGION_LIVE || entry->holds > 0);
		pthread_mutex_unlock(&regions->lock);
		if (entry == NULL)
			break;
		if (usable)
			visit(arg, &entry->region);
	}
	pthread_mutex_unlock(&pool->control);
}

void twi_pool_regions_describe(struct twi_pool *pool, struct twi_emit *e)
{
	static const char *const names[] = { "extents", "user", "cached" };
	struct twi_regions *regions = &pool->regions;
	uint32_t count[3];
	uint64_t bytes[3];

	pthread_mutex_lock(&regions->lock);
	for (int i = 0; i < 3; i++) {
		count[i] = regions->count[i];
		bytes[i] = regions->bytes[i];
	}
	pthread_mutex_unlock(&regions->lock);
	twi_emit_object_begin(e, "regions");
	for (int i = 0; i < 3; i++) {
		twi_emit_object_begin(e, names[i]);
		twi_emit_u64(e, "count", count[i]);
		twi_emit_u64(e, "bytes", bytes[i]);
		twi_emit_object_end(e);
	}
	twi_emit_object_end(e);
}
