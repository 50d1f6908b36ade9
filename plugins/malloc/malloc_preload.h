/*
 * malloc_preload.h - what a program may ask the preload, where it is loaded. Weak symbols tell
 * whether it is: declare them so, and call one only where it is not NULL.
 */
#ifndef TOWLINE_MALLOC_PRELOAD_H
#define TOWLINE_MALLOC_PRELOAD_H

#include <stddef.h>

#include <towline/runtime.h>
#include <towline/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Places large allocations in this runtime's pool from now on. The first runtime that
 * tow_runtime_open opens is attached by itself. This is for one whose opening the preload does not
 * see: by a copy of Towline that is linked into the program, or by dlsym in the library itself.
 * Ownership: the runtime stays the caller's.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: TOW_OK; TOW_EBUSY: one is attached already; TOW_EINVAL for NULL.
 */
int towline_malloc_attach(struct tow_runtime *runtime);

/*
 * Ends the placing: nothing is placed any more when this returns. What is placed there stays, and
 * may be freed.
 * Ownership: none passes.
 * Copies: none.
 * Blocks: for the length of an allocation.
 * Threads: any.
 */
void towline_malloc_detach(struct tow_runtime *runtime);

/*
 * How many bytes lie in the pool from `memory` on, which malloc or one of its family has returned;
 * 0: it was not placed.
 * Ownership: none.
 * Copies: none.
 * Blocks: never for long; takes a lock for memory that begins on a page.
 * Threads: any.
 */
size_t towline_malloc_placed(const void *memory);

#ifdef __cplusplus
}
#endif

#endif
