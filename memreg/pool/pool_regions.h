/*
 * pool_regions.h - registered memory of the pool: what transports and devices ask.
 *
 * Any thread may call; none of it is data path except acquire, release and version. acquire costs
 * nothing while there is no user memory registered (one load), 0.1 us for a user region and 1 us
 * for a cached one, whose memory must be vouched for.
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
 * Registers memory of the user's with all registrars, or with none. TOW_EINVAL: NULL, no bytes, not
 * mapped all through, or in the pool; TOW_EEXHAUSTED: no slots left; else the registrar's failure.
 */
int twi_pool_register(struct twi_pool *pool, void *base, uint64_t bytes, struct twi_site site,
		      uint64_t *handle_out);

/* TOW_EINVAL for no handle at all; TOW_EFREED; TOW_EBUSY while somebody holds the region. */
int twi_pool_deregister(struct twi_pool *pool, uint64_t handle);

/*
 * The region, the user's or a cached one, that holds all of [p, p + bytes), with one hold more;
 * NULL: there is none, or its memory is just being changed. Never registers.
 */
const struct twi_region *twi_pool_region_acquire(struct twi_pool *pool, const void *p,
						 uint64_t bytes);

/*
 * The same, but registers where it may. TOW_ENOTSUP: there is no late cache, the memory cannot be
 * watched, or nobody is there to register it with; TOW_EEXHAUSTED: the cache's limits; TOW_EBUSY:
 * mappings are being changed all the time; TOW_ENOMEM, TOW_EPERM: pinning is refused; or the
 * registrar's failure.
 */
int twi_pool_region_late(struct twi_pool *pool, const void *p, uint64_t bytes, struct twi_site site,
			 const struct twi_region **region_out);

/* One hold more for who has one. */
void twi_pool_region_hold(struct twi_pool *pool, const struct twi_region *region);

/* Ends one hold. */
void twi_pool_region_release(struct twi_pool *pool, const struct twi_region *region);

/* Grows with every region that comes or goes, extents too. Lock-free. */
uint64_t twi_pool_regions_version(const struct twi_pool *pool);

/* Where that number stands, as long as the pool does: for who looks at it with every call. */
const _Atomic uint64_t *twi_pool_regions_clock(const struct twi_pool *pool);

/*
 * Visits every region that may be in use: the live ones, extents too, and those that are held. The
 * control lock is held meanwhile.
 */
void twi_pool_regions_each(struct twi_pool *pool,
			   void (*visit)(void *arg, const struct twi_region *region), void *arg);

/* Has that registrar been told of the region (which is live or held)? A short lock. */
bool twi_pool_region_known(struct twi_pool *pool, const struct twi_region *region,
			   const struct twi_registrar *registrar, void *ctx);

/* Lets registrars forget what was dropped. One load when there is nothing; never waits. */
void twi_pool_regions_settle(struct twi_pool *pool);

/*
 * Gives an extent slots (extent->region) and tells all registrars of it, or none. It is to be
 * published after that. forget undoes it.
 */
int twi_pool_extent_announce(struct twi_pool *pool, struct twi_extent *extent);
void twi_pool_extent_forget(struct twi_pool *pool, struct twi_extent *extent);

/* For the pool. */
int twi_pool_regions_init(struct twi_pool *pool, const struct twi_pool_options *options);
void twi_pool_regions_fini(struct twi_pool *pool);
void twi_pool_regions_describe(struct twi_pool *pool, struct twi_emit *e);

/* For the late cache. The control lock is held: registrars forget all that is dead. */
void twi_pool_settle_held(struct twi_pool *pool);

/*
 * With one hold more: TOW_OK; TOW_AGAIN: mappings are being changed now; TOW_EFREED: there is none.
 * No message.
 */
int twi_pool_region_find(struct twi_pool *pool, uint64_t start, uint64_t end,
			 struct twi_region_entry **entry_out);

#endif
