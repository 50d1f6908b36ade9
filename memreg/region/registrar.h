/*
 * registrar.h - the table of a registrar, which must know memory before it is used for DMA.
 *
 * The io_uring instance, a libfabric domain and a device live above the pool, so the pool cannot
 * call them by name. Each of them gives the pool this table. The pool calls both functions with its
 * control lock held, never on the data path. They must not call back into the pool.
 */
#ifndef TWI_REGISTRAR_H
#define TWI_REGISTRAR_H

#include "memreg/region/region.h"

struct twi_registrar {
	const char *name; /* static: messages and /v1/pool contain it */
	/*
	 * Registers all of the region or none of it. Returns TOW_OK, or a failure with its message
	 * (twi_error). TOW_EPERM and TOW_ENOMEM: pinning is not permitted, or there is too little
	 * memory. The pool then works without this registrar, unless it is strict.
	 */
	int (*add)(void *ctx, const struct twi_region *region);
	/* Forgets a region that add has registered. Cannot fail. */
	void (*remove)(void *ctx, const struct twi_region *region);
};

#endif
