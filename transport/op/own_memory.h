/*
 * own_memory.h - memory of the pool that the library takes for itself while a job runs: for
 * collectives, calls and views. It stands in the allocation log with a tag of its own, so that who
 * sizes a pool by a log knows of it.
 *
 * The engine is held, or nobody else has the runtime any more.
 */
#ifndef TWI_OWN_MEMORY_H
#define TWI_OWN_MEMORY_H

#include <stddef.h>

#include "diag/record/site.h"

struct twi_engine;

/* As twi_pool_alloc_at, for an operation that `site` has started. */
int twi_own_take(struct twi_engine *engine, size_t bytes, size_t align, struct twi_site site,
		 void **out);

/* As twi_pool_try: where there is room, and without counting a failure. */
int twi_own_try(struct twi_engine *engine, size_t bytes, size_t align, void **out);

/* As twi_own_try; but where a full pool gets more by its policy, it does. */
int twi_own_need(struct twi_engine *engine, size_t bytes, size_t align, struct twi_site site,
		 void **out);

/* What any of them has taken. NULL is legal. */
void twi_own_give(struct twi_engine *engine, void *memory);

#endif
