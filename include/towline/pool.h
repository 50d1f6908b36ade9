/*
 * pool.h - memory that is mapped, faulted in, pinned and registered before the first step.
 *
 * Payload in the pool moves without a copy and without a registration. Memory from elsewhere works
 * too; what that costs is counted by reason.
 */
#ifndef TOWLINE_POOL_H
#define TOWLINE_POOL_H

#include <stddef.h>

#include <towline/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Allocates `bytes` from the pool at a multiple of `align` (a power of two up to 2 MiB; 0 means
 * 64). Zero bytes get a valid pointer of their own. The memory is not cleared. Ownership:
 * *memory_out is the caller's until tow_free or tow_runtime_close. Copies: none. Blocks: never.
 * Threads: any. Returns: TOW_OK; TOW_EINVAL for an alignment that is none or a NULL argument;
 * TOW_EEXHAUSTED, with a message that says how much is free, the largest block, and the
 * premap_memory_bytes that would have been enough; TOW_EFORKED. *memory_out is NULL after a
 * failure.
 */
int tow_alloc(struct tow_runtime *runtime, size_t bytes, size_t align, void **memory_out);

/*
 * Gives memory back. NULL is legal and does nothing. Memory that is in flight may be freed: it is
 * used again only when the kernel has let go of it.
 * Ownership: takes the memory. Copies: none. Blocks: never. Threads: any.
 * Returns: TOW_OK; TOW_EFOREIGN for a pointer that tow_alloc of this runtime cannot have returned;
 * TOW_EFREED for one that is not allocated now (a double free); TOW_EINVAL; TOW_EFORKED. A failing
 * call changes nothing.
 */
int tow_free(struct tow_runtime *runtime, void *memory);

#ifdef __cplusplus
}
#endif
#endif
