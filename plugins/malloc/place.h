/*
 * place.h - places large allocations in the pool, and finds the blocks that are placed.
 *
 * Nothing is placed before a runtime is attached, by a thread that is inside Towline, or in a
 * forked child. The next allocator serves each allocation that is not placed, whatever the reason.
 */
#ifndef TWM_PLACE_H
#define TWM_PLACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <towline/runtime.h>

#include "plugins/malloc/blocks.h"

#define TWM_PUBLIC __attribute__((visibility("default")))

/*
 * Returns new memory for the program. NULL: the next allocator has to serve the request. errno
 * stays as it is.
 * caller: return address of the allocation. Allocations of Towline itself are not placed.
 */
void *twm_place_large(size_t bytes, size_t align, const void *caller);
/* True: twm_place_large would try to place such an allocation. */
bool twm_would_place(size_t bytes, const void *caller);

/* Frees a placed block. False: `memory` is none. `memory` begins on a page. */
bool twm_unplace_page(void *memory);

/* Returns the length of the placed block; 0: `memory` is none. */
size_t twm_placed_bytes(const void *memory);

/* The smallest allocation that is placed now; SIZE_MAX: none is. */
extern atomic_size_t twm_least;

static inline void *twm_place(size_t bytes, size_t align, const void *caller)
{
	/* acquire: pairs with the store in twm_attach */
	return __builtin_expect(bytes < atomic_load_explicit(&twm_least, memory_order_acquire), 1)
		       ? NULL
		       : twm_place_large(bytes, align, caller);
}

/* Memory of other allocators hardly ever begins on a page. */
static inline bool twm_may_be_placed(const void *memory)
{
	return __builtin_expect((uintptr_t)memory % TWM_PAGE == 0, 0);
}

static inline bool twm_unplace(void *memory)
{
	return twm_may_be_placed(memory) && twm_unplace_page(memory);
}

/* Makes this the runtime whose pool gets new blocks. False: another one is attached. */
bool twm_attach(struct tow_runtime *runtime);
/*
 * Detaches a runtime. After the return, no block is placed in its pool; placed blocks stay. False:
 * the runtime was not attached.
 */
bool twm_detach(const struct tow_runtime *runtime);

/* This thread enters Towline, or leaves it. Allocations of the library are not placed. */
void twm_enter(void);
void twm_leave(void);

/* The lock of the table, which a fork holds. twm_forked: called in the child. */
void twm_lock(void);
void twm_unlock(void);
void twm_forked(void);

#endif
