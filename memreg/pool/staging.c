/*
 * staging.c - a free list of chunks; staging.h has the concept.
 */
#include "memreg/pool/staging.h"

#include <stdlib.h>

#include "diag/base/error.h"
#include "memreg/pool/pool.h"
#include <internal/base.h>
#include <towline/status.h>

#define CHUNK_MIN 4096u

int twi_staging_init(struct twi_staging *staging, struct twi_pool *pool, uint64_t bytes)
{
	uint64_t chunk =
		twi_min((uint64_t)TWI_STAGING_CHUNK, bytes / 4 & ~(uint64_t)(CHUNK_MIN - 1));
	int status;

	*staging = (struct twi_staging){ .pool = pool };
	pthread_mutex_init(&staging->lock, NULL);
	if (chunk == 0)
		return TOW_OK;
	staging->chunk_bytes = (uint32_t)chunk;
	staging->chunks = (uint32_t)(bytes / chunk);
	staging->free = calloc(staging->chunks, sizeof(staging->free[0]));
	if (staging->free == NULL)
		return twi_error(TOW_ENOMEM, "staging: no memory for %u chunks", staging->chunks);
	status = twi_pool_alloc(pool, staging->chunks * chunk, CHUNK_MIN, &staging->memory);
	if (status < 0)
		return status;
	staging->bytes = staging->chunks * chunk;
	twi_pool_own(pool, staging->bytes, 1);
	for (uint32_t i = 0; i < staging->chunks; i++)
		staging->free[staging->free_count++] = staging->chunks - 1 - i;
	staging->least_free = staging->free_count;
	return TOW_OK;
}

void twi_staging_fini(struct twi_staging *staging)
{
	if (staging->memory != NULL) {
		twi_assert(staging->free_count == staging->chunks);
		twi_pool_own(staging->pool, staging->bytes, -1);
		twi_pool_free(staging->pool, staging->memory);
	}
	free(staging->free);
	pthread_mutex_destroy(&staging->lock);
	*staging = (struct twi_staging){ .pool = NULL };
}

void *twi_staging_acquire(struct twi_staging *staging)
{
	uint8_t *chunk = NULL;

	pthread_mutex_lock(&staging->lock);
	if (staging->free_count > 0) {
		chunk = (uint8_t *)staging->memory +
			(uint64_t)staging->free[--staging->free_count] * staging->chunk_bytes;
		staging->least_free = twi_min(staging->least_free, staging->free_count);
	}
	pthread_mutex_unlock(&staging->lock);
	return chunk;
}

void twi_staging_release(struct twi_staging *staging, void *chunk)
{
	uint64_t offset = (uint64_t)((uint8_t *)chunk - (uint8_t *)staging->memory);

	pthread_mutex_lock(&staging->lock);
	twi_assert(offset % staging->chunk_bytes == 0 && offset < staging->bytes &&
		   staging->free_count < staging->chunks);
	staging->free[staging->free_count++] = (uint32_t)(offset / staging->chunk_bytes);
	pthread_mutex_unlock(&staging->lock);
}
