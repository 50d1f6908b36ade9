/*
 * pool_place.h - memory of the pool for a program's own allocators, up to a share of the pool.
 */
#ifndef TWI_POOL_PLACE_H
#define TWI_POOL_PLACE_H

#include <stddef.h>
#include <stdint.h>

struct twi_pool;

/*
 * Allocates from free memory, while at most most_bytes are placed. Returns TOW_OK; TOW_EEXHAUSTED;
 * TOW_EBUSY when the share is used up; TOW_EINVAL. Only TOW_EINVAL sets a message. Any thread may
 * call it. Free the memory with twi_pool_free.
 */
int twi_pool_place(struct twi_pool *pool, size_t bytes, size_t align, uint64_t most_bytes,
		   void **out);

#endif
