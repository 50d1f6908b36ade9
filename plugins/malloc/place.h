/*
 * place.h - which allocations go to the pool, and those that are there.
 *
 * Nothing is placed before a runtime is attached, by a thread that is inside Towline, or in a
 * forked child. What cannot be placed is the next allocator's, for whatever reason.
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
 * New memory for the program, or NULL: the next allocator is to give it. errno stays as it is.
 * caller: where the call came from; what Towline itself asks for is not placed.
 */
void *twm_place_large(size_t bytes, size_t align, const void *caller);
/* Would it be tried at all? */
bool twm_would_place(size_t bytes, const void *caller);

/* Is it a placed block? Then it is given back. For memory that begins on a page. */
bool twm_unplace_page(void *memory);

/* How long the placed block is; 0: it is none. */
size_t twm_placed_bytes(const void *memory);

/* Nothing shorter is placed now; SIZE_MAX: nothing is. */
extern atomic_size_t twm_least;

static inline void *twm_place(size_t bytes, size_t align, const void *caller)
{
	/* acquire: pairs with the store in twm_attach */
	return __builtin_expect(bytes < atomic_load_explicit(&twm_least, memory_order_acquire), 1)
		       ? NULL
		       : twm_place_large(bytes, align, caller);
}

/* Other allocators' memory hardly ever begins on a page. */
static inline bool twm_may_be_placed(const void *memory)
{
	return __builtin_expect((uintptr_t)memory % TWM_PAGE == 0, 0);
}

static inline bool twm_unplace(void *memory)
{
	return twm_may_be_placed(memory) && twm_unplace_page(memory);
}

/* The pool that new blocks come from. False: there is one already. */
bool twm_attach(struct tow_runtime *runtime);
/* No new ones come from it when this returns; what is placed there stays. False: it was not it. */
bool twm_detach(const struct tow_runtime *runtime);

/* This thread enters Towline, and comes back: what the library allocates is not placed. */
void twm_enter(void);
void twm_leave(void);

/* The table's lock, for the two halves of a fork; child: in the new process. */
void twm_lock(void);
void twm_unlock(void);
void twm_forked(void);

#endif
