/*
 * late.h - what registers memory of the user's at its first use, as the pool sees it: a table,
 * which the pool is given with its options. There is one, of memreg/user/latecache.h.
 */
#ifndef TWI_LATE_H
#define TWI_LATE_H

#include <stdbool.h>
#include <stdint.h>

#include "diag/record/site.h"

struct twi_late_ops;
struct twi_pool;
struct twi_region;

/* Its own structure begins with this. */
struct twi_late {
	const struct twi_late_ops *ops;
};

struct twi_late_ops {
	/* NULL: no memory. */
	struct twi_late *(*create)(struct twi_pool *pool, uint64_t limit_bytes,
				   uint32_t limit_entries);
	/* All cached regions are forgotten already. */
	void (*destroy)(struct twi_late *late);

	/* twi_pool_region_late. */
	int (*use)(struct twi_pool *pool, const void *p, uint64_t bytes, struct twi_site site,
		   const struct twi_region **region_out);

	/*
	 * Whether the memory of a cached region is what it was: TOW_OK; TOW_EFREED; TOW_AGAIN:
	 * mappings are being changed now. regions.lock is held.
	 */
	int (*check)(struct twi_pool *pool, uint64_t start, uint64_t end);

	/*
	 * Drops the cached region used longest ago. False: there is none that nobody holds.
	 * regions.lock is held.
	 */
	bool (*evict)(struct twi_pool *pool);

	/* Ends the watching of what no cached region needs any more. The control lock is held. */
	void (*unwatch)(struct twi_pool *pool, uint64_t start, uint64_t end);
	void (*settle)(struct twi_pool *pool);

	/* "late_cache" in /v1/info: whether memory can be watched here, or why not. */
	int (*report_add)(struct twi_pool *pool);
	void (*report_remove)(struct twi_pool *pool);
};

#endif
