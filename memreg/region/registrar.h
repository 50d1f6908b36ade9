/*
 * registrar.h - whoever must know a piece of memory before it can be used for DMA.
 *
 * The io_uring instance, a libfabric domain and a device live above the pool, so the pool cannot
 * call them by name: each hands it this table. Both functions are called with the pool's control
 * lock held, never on the data path, and must not call back into the pool.
 */
#ifndef TWI_REGISTRAR_H
#define TWI_REGISTRAR_H

#include "memreg/region/region.h"

struct twi_registrar {
	const char *name; /* static: it stands in messages and in /v1/pool */
	/*
	 * Makes the region known, wholly or not at all. Returns TOW_OK or a failure with its
	 * message (twi_error). TOW_EPERM and TOW_ENOMEM mean that pinning is not permitted or not
	 * affordable: the pool then goes on without, unless it is strict.
	 */
	int (*add)(void *ctx, const struct twi_region *region);
	/* Forgets a region that add has accepted. Cannot fail. */
	void (*remove)(void *ctx, const struct twi_region *region);
};

#endif
