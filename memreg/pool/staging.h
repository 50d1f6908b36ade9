/*
 * staging.h - the part of the pool that is kept for copies that cannot be avoided: payload that a
 * lane or device needs in registered memory, and that lies elsewhere, goes through it in pieces.
 *
 *   | chunk | chunk | chunk | ...     staging_bytes of the first extent, a free list of chunks
 *
 * It is taken from the pool when the runtime opens, so that a full pool cannot starve it. Whoever
 * finds no chunk free waits for one (its operation stays where it is) and is told by the return of
 * others: there is no queue here.
 *
 * Any thread may acquire and release; a short lock. The data path comes here only for bytes that
 * are copied anyway.
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
	void *memory; /* NULL: there is none */
	uint64_t bytes;
	uint32_t chunk_bytes;
	uint32_t chunks, free_count;
	uint32_t *free; /* indices of chunks */
	uint32_t least_free;
};

/*
 * Takes `bytes` (0: none) from the pool, in chunks of TWI_STAGING_CHUNK, or less where bytes are
 * few. TOW_OK; TOW_ENOMEM; TOW_EEXHAUSTED. staging is ready for the other calls even after a
 * failure.
 */
int twi_staging_init(struct twi_staging *staging, struct twi_pool *pool, uint64_t bytes);

/* Gives the memory back to the pool; nobody holds a chunk any more. */
void twi_staging_fini(struct twi_staging *staging);

/* A chunk of staging->chunk_bytes, or NULL: none is free now, or there is no staging at all. */
void *twi_staging_acquire(struct twi_staging *staging);
void twi_staging_release(struct twi_staging *staging, void *chunk);

#endif
