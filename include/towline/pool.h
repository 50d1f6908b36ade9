/*
 * pool.h - memory that is mapped, faulted in, pinned and registered before the first step.
 *
 * Payload in the pool moves without a copy and without a registration. Memory from elsewhere works
 * too; what that costs is counted by reason.
 */
#ifndef TOWLINE_POOL_H
#define TOWLINE_POOL_H

#include <stddef.h>
#include <stdint.h>

#include <towline/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Allocates `bytes` from the pool at a multiple of `align` (a power of two up to 2 MiB; 0 means
 * 64). Zero bytes get a valid pointer of their own. The memory is not cleared. Where the pool has
 * no room it does as the knob exhaust says: it grows by an extent (up to premap_limit_bytes), takes
 * memory outside the pool (which lanes and devices may have to copy), waits, or fails; with
 * require_zero_copy it neither grows nor goes outside.
 * Ownership: *memory_out is the caller's until tow_free, also when the runtime is closed before.
 * Copies: none.
 * Blocks: not while there is room; else, with exhaust=grow, while the extent is mapped, faulted in
 * and registered (about 0.5 ms a MiB), with exhaust=wait up to exhaust_wait_ns, driving the runtime
 * meanwhile so that leases can end (not from a callback, which gets its answer at once).
 * Threads: any.
 * Returns: TOW_OK; TOW_EINVAL for an alignment that is none or a NULL argument; TOW_EEXHAUSTED,
 * with a message that says how much is free, the largest block, and the premap_memory_bytes that
 * would have been enough, and why the policy could not help; TOW_EFORKED. *memory_out is NULL after
 * a failure.
 */
int tow_alloc(struct tow_runtime *runtime, size_t bytes, size_t align, void **memory_out);

/*
 * Gives memory back. NULL is legal and does nothing. Memory that is in flight may be freed: it is
 * used again only when the kernel has let go of it. After tow_runtime_close, and while it runs, the
 * memory is as good as before: it is freed with the runtime that it came from, whose pointer is
 * known as long as there is such memory. The last of it unmaps the pool.
 * Ownership: takes the memory.
 * Copies: none.
 * Blocks: never; the last free after tow_runtime_close, while the kernel unmaps the pool.
 * Threads: any, also while another thread closes the runtime.
 * Returns: TOW_OK; TOW_EFOREIGN for a pointer that tow_alloc of this runtime cannot have returned;
 * TOW_EFREED for one that is not allocated now (a double free); TOW_ECLOSED when the runtime is
 * closed and nothing of its pool is left; TOW_EINVAL; TOW_EFORKED. A failing call changes nothing.
 */
int tow_free(struct tow_runtime *runtime, void *memory);

/*
 * Registers memory of the caller's own, from any mapping that can be pinned, so that its payload
 * moves as the pool's does. Memory may be registered more than once, and overlap; each handle
 * stands for itself. It must stay mapped until it is deregistered: what is mapped there later is
 * not registered, and sending it would send what was there before. After tow_runtime_seal it counts
 * as late.
 * Ownership: the memory stays the caller's; *handle_out is to be given to tow_mem_deregister, or
 * ends with tow_runtime_close.
 * Copies: none.
 * Blocks: while the system pins the pages (20 to 30 ms for 1 GiB).
 * Threads: any.
 * Returns: TOW_OK; TOW_EINVAL for NULL, 0 bytes, memory that is not mapped all through, memory of
 * the pool, which is registered already, or memory that io_uring cannot pin (it is read-only, or a
 * shared mapping of a file on a disk; it can be sent all the same); TOW_EEXHAUSTED when too much
 * is registered at once; TOW_ENOMEM or TOW_EPERM when pinning it is not permitted (the message
 * names the limit), which is so for all memory where the pool itself could not be pinned;
 * TOW_ESYSTEM; TOW_EFORKED. *handle_out is 0 after a failure, and nothing is registered. A thread
 * that drives pins at once; where only others do, each does when it drives next, and what it cannot
 * pin then goes by plain sends, as the log says.
 */
int tow_mem_register(struct tow_runtime *runtime, void *memory, size_t bytes, uint64_t *handle_out);

/*
 * Ends a registration. The memory may be unmapped after that.
 * Ownership: takes the handle.
 * Copies: none.
 * Blocks: while the system unpins the pages.
 * Threads: any.
 * Returns: TOW_OK; TOW_EBUSY while operations use the memory, or the kernel does after a zero-copy
 * send (the thread that sent is told, when it drives); TOW_EFREED for a handle that was given back
 * before or is another runtime's; TOW_EINVAL for what is no handle; TOW_EFORKED. A failing call
 * changes nothing.
 */
int tow_mem_deregister(struct tow_runtime *runtime, uint64_t handle);

#ifdef __cplusplus
}
#endif
#endif
