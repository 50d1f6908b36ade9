/*
 * pool_regions.h - the pool's registered memory, as transports and devices use it.
 *
 * Any thread may call these functions. Only acquire, release and version are data path. acquire
 * costs one load while no user memory is registered. It costs 0.1 us for a user region, and 1 us
 * for a cached region, because it must check that the memory is unchanged.
 */
#ifndef TWI_POOL_REGIONS_H
#define TWI_POOL_REGIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "diag/record/site.h"
#include "memreg/region/region.h"
#include "memreg/region/registrar.h"

struct twi_emit;
struct twi_extent;
struct twi_pool;
struct twi_pool_options;
struct twi_region_entry;

/*
 * Registers the user's memory with all registrars, or with none. Returns TOW_EINVAL for NULL, no
 * bytes, memory with unmapped parts, or memory in the pool; TOW_EEXHAUSTED when no slots are left;
 * else the registrar's failure.
 */
int twi_pool_register(struct twi_pool *pool, void *base, uint64_t bytes, struct twi_site site,
		      uint64_t *handle_out);

/* TOW_EINVAL for an impossible handle; TOW_EFREED; TOW_EBUSY while the region has holds. */
int twi_pool_deregister(struct twi_pool *pool, uint64_t handle);

/*
 * Returns the user or cached region that contains [p, p + bytes), with one more hold. NULL: there
 * is none, or its memory is being changed now. Never registers.
 */
const struct twi_region *twi_pool_region_acquire(struct twi_pool *pool, const void *p,
						 uint64_t bytes);

/*
 * Like twi_pool_region_acquire, but registers the memory if necessary. Returns TOW_ENOTSUP when
 * there is no late cache, the memory cannot be watched, or no registrar is there. TOW_EEXHAUSTED:
 * the limits of the cache are reached. TOW_EBUSY: mappings change all the time. TOW_ENOMEM,
 * TOW_EPERM: pinning is refused. Else the registrar's failure.
 */
int twi_pool_region_late(struct twi_pool *pool, const void *p, uint64_t bytes, struct twi_site site,
			 const struct twi_region **region_out);

/* Adds a hold for a caller that has one. */
void twi_pool_region_hold(struct twi_pool *pool, const struct twi_region *region);

/* Ends one hold. */
void twi_pool_region_release(struct twi_pool *pool, const struct twi_region *region);

/* A number that grows with every region that is added or removed, extents included. Lock-free. */
uint64_t twi_pool_regions_version(const struct twi_pool *pool);

/* The address of that number, valid as long as the pool, for a caller that reads it often. */
const _Atomic uint64_t *twi_pool_regions_clock(const struct twi_pool *pool);

/*
 * Visits every region that may be in use: the live ones, extents included, and those with holds.
 * The control lock is held meanwhile.
 */
void twi_pool_regions_each(struct twi_pool *pool,
			   void (*visit)(void *arg, const struct twi_region *region), void *arg);

/* True when the registrar knows the region, which is live or held. Takes a short lock. */
bool twi_pool_region_known(struct twi_pool *pool, const struct twi_region *region,
			   const struct twi_registrar *registrar, void *ctx);

/* Lets registrars forget dropped regions. Costs one load when there is none; never waits. */
void twi_pool_regions_settle(struct twi_pool *pool);

/*
 * announce gives an extent its slots (extent->region) and gives it to all registrars, or to none.
 * The caller publishes the extent afterwards. forget undoes announce.
 */
int twi_pool_extent_announce(struct twi_pool *pool, struct twi_extent *extent);
void twi_pool_extent_forget(struct twi_pool *pool, struct twi_extent *extent);

/* For the pool. */
int twi_pool_regions_init(struct twi_pool *pool, const struct twi_pool_options *options);
void twi_pool_regions_fini(struct twi_pool *pool);
void twi_pool_regions_describe(struct twi_pool *pool, struct twi_emit *e);

/* For the late cache: lets registrars forget all dead regions. The control lock is held. */
void twi_pool_settle_held(struct twi_pool *pool);

/*
 * Finds the region around [start, end) and adds a hold. TOW_OK; TOW_AGAIN while mappings are being
 * changed; TOW_EFREED when there is none. Sets no message.
 */
int twi_pool_region_find(struct twi_pool *pool, uint64_t start, uint64_t end,
			 struct twi_region_entry **entry_out);

#endif
