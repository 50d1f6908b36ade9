/*
 * staging.h - a part of the pool for copies that cannot be avoided.
 *
 * A lane or a device may need payload in registered memory. Payload from elsewhere goes through
 * the staging in pieces.
 *
 *   | chunk | chunk | chunk | ...     staging_bytes of the first extent, a free list of chunks
 *
 * The runtime takes the staging from the pool when it opens, so that a full pool cannot starve it.
 * An operation that finds no free chunk stays where it is and tries again after a chunk was
 * returned. There is no queue here.
 *
 * Any thread may acquire and release, under a short lock. The data path uses the staging only for
 * bytes that are copied anyway.
 */
#ifndef TWI_STAGING_H
#define TWI_STAGING_H

#include <pthread.h>
#include <stdint.h>

#define TWI_STAGING_CHUNK (256u << 10)

struct twi_pool;

struct twi_staging {
	pthread_mutex_t lock;
	struct twi_pool *pool;
	void *memory; /* NULL: no staging */
	uint64_t bytes;
	uint32_t chunk_bytes;
	uint32_t chunks, free_count;
	uint32_t *free; /* indices of chunks */
	uint32_t least_free;
};

/*
 * Takes `bytes` from the pool (0: no staging), in chunks of TWI_STAGING_CHUNK, or smaller ones for
 * few bytes. Returns TOW_OK; TOW_ENOMEM; TOW_EEXHAUSTED. The other calls are legal even after a
 * failure.
 */
int twi_staging_init(struct twi_staging *staging, struct twi_pool *pool, uint64_t bytes);

/* Returns the memory to the pool. All chunks have been released. */
void twi_staging_fini(struct twi_staging *staging);

/* A chunk of staging->chunk_bytes. NULL: none is free now, or there is no staging. */
void *twi_staging_acquire(struct twi_staging *staging);
void twi_staging_release(struct twi_staging *staging, void *chunk);

#endif
