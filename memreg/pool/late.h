/*
 * late.h - the table of functions by which the pool registers the user's memory at its first use.
 *
 * The pool gets the table with its options. memreg/user/latecache.h has the only one.
 */
#ifndef TWI_LATE_H
#define TWI_LATE_H

#include <stdbool.h>
#include <stdint.h>

#include "diag/record/site.h"

struct twi_late_ops;
struct twi_pool;
struct twi_region;

/* First member of the implementation's own structure. */
struct twi_late {
	const struct twi_late_ops *ops;
};

struct twi_late_ops {
	/* Returns NULL without memory. */
	struct twi_late *(*create)(struct twi_pool *pool, uint64_t limit_bytes,
				   uint32_t limit_entries);
	/* The pool has forgotten all cached regions before this call. */
	void (*destroy)(struct twi_late *late);

	/* Implements twi_pool_region_late. */
	int (*use)(struct twi_pool *pool, const void *p, uint64_t bytes, struct twi_site site,
		   const struct twi_region **region_out);

	/*
	 * Tests whether the memory of a cached region is unchanged. Returns TOW_OK; TOW_EFREED when
	 * it has changed; TOW_AGAIN while mappings are being changed. regions.lock is held.
	 */
	int (*check)(struct twi_pool *pool, uint64_t start, uint64_t end);

	/*
	 * Drops the least recently used cached region without holds. False: there is none.
	 * regions.lock is held.
	 */
	bool (*evict)(struct twi_pool *pool);

	/* Stops watching memory that no cached region needs. The control lock is held. */
	void (*unwatch)(struct twi_pool *pool, uint64_t start, uint64_t end);
	void (*settle)(struct twi_pool *pool);

	/* "late_cache" in /v1/info: whether memory can be watched here, or why not. */
	int (*report_add)(struct twi_pool *pool);
	void (*report_remove)(struct twi_pool *pool);
};

#endif
