/*
 * own_memory.h - pool memory that the library takes for itself while a job runs: for collectives,
 * calls and views. The allocation log lists it with a tag of its own, so that a pool that is sized
 * by a log has room for it.
 *
 * The engine is held, or no other thread uses the runtime any more.
 */
#ifndef TWI_OWN_MEMORY_H
#define TWI_OWN_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "diag/record/site.h"

struct twi_engine;

/* As twi_pool_alloc_at, for an operation that was started at `site`. */
int twi_own_take(struct twi_engine *engine, size_t bytes, size_t align, struct twi_site site,
		 void **out);

/* As twi_own_take, of memory that peers of the host can see, whatever the policy of a full pool. */
int twi_own_share(struct twi_engine *engine, size_t bytes, size_t align, struct twi_site site,
		  void **out);

/* Memory of the pool, or of the heap. */
struct twi_own_any {
	void *memory; /* NULL: none */
	bool heap;
};

/*
 * As twi_own_take, but if the pool has no room, it takes memory of the heap, unless zero-copy is
 * required. Messages take that too, at the price of a copy.
 */
int twi_own_take_any(struct twi_engine *engine, size_t bytes, size_t align, struct twi_site site,
		     struct twi_own_any *out);

/* Frees it, and sets it to none. */
void twi_own_give_any(struct twi_engine *engine, struct twi_own_any *any);

/* As twi_pool_try: succeeds only if there is room, and counts no failure. */
int twi_own_try(struct twi_engine *engine, size_t bytes, size_t align, void **out);

/* As twi_own_try, but a full pool gets more memory if its policy allows that. */
int twi_own_need(struct twi_engine *engine, size_t bytes, size_t align, struct twi_site site,
		 void **out);

/* Frees memory of any of them. NULL is legal. */
void twi_own_give(struct twi_engine *engine, void *memory);

#endif
