/*
 * remote.h - one-sided reads and writes of memory that another process has exported.
 *
 * Declared so that programs and later versions agree on the shape; this library refuses each call
 * by name with TOW_ENOTSUP (docs/abi.md).
 *
 * The owner of memory exports a range and gets a descriptor of 32 bytes, which it sends to whom it
 * likes by a message of its own. Whoever has the descriptor can read or write the range while the
 * export lasts, without the owner doing anything. A descriptor names the export by a random key and
 * a generation, so one that is forged, or older than the memory's last export, is refused.
 */
#ifndef TOWLINE_REMOTE_H
#define TOWLINE_REMOTE_H

#include <stddef.h>
#include <stdint.h>

#include <towline/endpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TOW_REMOTE_READ  1u /* others may read it */
#define TOW_REMOTE_WRITE 2u /* others may write it */

/* Names exported memory to other processes; the bytes may be copied and sent as they are. */
struct tow_remote_memory {
	uint64_t key;        /* random; who does not know it can do nothing */
	uint64_t generation; /* of the export; never used again */
	uint64_t bytes;      /* length of the range */
	uint64_t reserved;   /* 0 */
};

/*
 * Exports `bytes` of memory for reading, writing or both (`access`, a sum of TOW_REMOTE_...).
 * Ownership: the memory stays the caller's, and must stay mapped until tow_mem_unexport;
 * *remote_out is the caller's.
 * Copies: none.
 * Blocks: as tow_mem_register for memory outside the pool.
 * Threads: any.
 * Returns: TOW_ENOTSUP in this version; later TOW_OK, TOW_EINVAL, TOW_EFREED for memory of the pool
 * that is not allocated, TOW_EBUSY, TOW_ENOMEM, TOW_EFORKED.
 */
int tow_mem_export(struct tow_runtime *runtime, void *memory, uint64_t bytes, uint32_t access,
		   struct tow_remote_memory *remote_out);

/*
 * Ends an export. When it has returned, no other process touches the memory through it.
 * Ownership: takes the export.
 * Copies: none.
 * Blocks: until accesses on their way have ended.
 * Threads: any.
 * Returns: TOW_ENOTSUP in this version; later TOW_OK, TOW_EFREED for one that has ended,
 * TOW_EINVAL, TOW_EFORKED.
 */
int tow_mem_unexport(struct tow_runtime *runtime, const struct tow_remote_memory *remote);

/*
 * Starts to read `bytes` from `offset` of exported memory of the peer's process into `data`.
 * Ownership: data stays the caller's, and is the library's to write until completion; remote is
 * only read; *op_out is the caller's until tow_op_release.
 * Copies: none where the lane can read memory of others; else as tow_recv_start.
 * Blocks: as tow_send_start.
 * Threads: any.
 * Returns: TOW_ENOTSUP in this version; later as tow_recv_start; the operation may end with
 * TOW_EFREED when the export has ended, and TOW_EPERM when it is not for reading.
 */
int tow_read_start(struct tow_peer *peer, void *data, uint64_t bytes,
		   const struct tow_remote_memory *remote, uint64_t offset,
		   const struct tow_op_options *options, struct tow_op **op_out);

/*
 * Starts to write `bytes` of `data` to `offset` of exported memory of the peer's process. Completed
 * means that the bytes can be seen there.
 * Ownership: data stays the caller's, unchanged until completion; remote is only read; *op_out is
 * the caller's until tow_op_release.
 * Copies: none where the lane can write memory of others; else as tow_send_start.
 * Blocks: as tow_send_start.
 * Threads: any.
 * Returns: TOW_ENOTSUP in this version; later as tow_read_start.
 */
int tow_write_start(struct tow_peer *peer, const void *data, uint64_t bytes,
		    const struct tow_remote_memory *remote, uint64_t offset,
		    const struct tow_op_options *options, struct tow_op **op_out);

#ifdef __cplusplus
}
#endif
#endif
