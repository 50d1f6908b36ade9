/*
 * place.h - the pool for memory of a program that does not know of it: what an allocator that
 * stands in for the program's own asks, such as plugins/malloc (docs/malloc.md).
 *
 * Memory that is placed is pool memory like any other. It differs in what is done where there is
 * none: the pool never grows for it, nobody waits, and it takes no more than the share of the pool
 * that the knob place_share says, so that the runtime keeps room for its own. Whoever asks then
 * goes to the allocator that it stands in for.
 */
#ifndef TOWLINE_PLACE_H
#define TOWLINE_PLACE_H

#include <stddef.h>
#include <stdint.h>

#include <towline/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Allocates `bytes` from what is free in the pool now, at a multiple of `align` (as tow_alloc). The
 * memory is not cleared. What was placed and what was refused is in /v1/pool and in the counters
 * placed_allocs, placed_alloc_bytes, place_refused_full and place_refused_share.
 * Ownership: *memory_out is the caller's until tow_free.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: TOW_OK; TOW_EEXHAUSTED: no room is free; TOW_EBUSY: with it more than place_share would
 * be placed; TOW_EINVAL for an alignment that is none or a NULL argument; TOW_ECLOSED; TOW_EFORKED.
 * *memory_out is NULL after a failure, which leaves no message where there is no room.
 */
int tow_place(struct tow_runtime *runtime, size_t bytes, size_t align, void **memory_out);

/*
 * The size from which memory is worth to be placed: the knob place_least_bytes. tow_place takes
 * smaller ones, too. UINT64_MAX for NULL or a runtime that was closed.
 * Ownership: none.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 */
uint64_t tow_place_least(struct tow_runtime *runtime);

#ifdef __cplusplus
}
#endif
#endif
