/*
 * pool_place.h - memory of the pool that allocators of a program's take, up to a share of it.
 */
#ifndef TWI_POOL_PLACE_H
#define TWI_POOL_PLACE_H

#include <stddef.h>
#include <stdint.h>

struct twi_pool;

/*
 * From what is free, while no more than most_bytes are placed. TOW_OK; TOW_EEXHAUSTED; TOW_EBUSY:
 * the share is used up, neither with a message; TOW_EINVAL. By any thread. twi_pool_free.
 */
int twi_pool_place(struct twi_pool *pool, size_t bytes, size_t align, uint64_t most_bytes,
		   void **out);

#endif
