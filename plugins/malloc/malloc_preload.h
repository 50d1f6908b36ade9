/*
 * malloc_preload.h - the calls that a program may make to the malloc preload, where it is loaded.
 * Declare them as weak symbols, and call one only where its address is not NULL.
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
 * Places large allocations in the pool of this runtime from now on. The preload attaches the first
 * runtime that tow_runtime_open opens. This call is for a runtime whose opening the preload does
 * not see. A copy of Towline that is linked into the program opens such a runtime. So does a
 * program that takes tow_runtime_open from the library itself with dlsym.
 * Ownership: the runtime stays the caller's.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: TOW_OK; TOW_EBUSY: a runtime is attached already; TOW_EINVAL for NULL.
 */
int towline_malloc_attach(struct tow_runtime *runtime);

/*
 * Detaches the runtime: after the return, no allocation is placed in its pool. Memory that is
 * placed there stays, and may be freed.
 * Ownership: none passes.
 * Copies: none.
 * Blocks: for the length of an allocation.
 * Threads: any.
 */
void towline_malloc_detach(struct tow_runtime *runtime);

/*
 * Returns the length in bytes of the placed block that begins at `memory`, which malloc or one of
 * its family has returned. 0: the block was not placed.
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
