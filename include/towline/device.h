/*
 * device.h - accelerators: their memory, and asynchronous copies between it and host memory.
 *
 *   device    one accelerator, opened by a spec: "cuda:0", "pjrt:/path/plugin.so", "fake", "none"
 *   memory    a piece of the device's own memory
 *   copy      an operation like any other (endpoint.h): test it, wait for it, cancel it
 *
 * A device that is opened before tow_runtime_seal has the pool mapped for DMA by then: a copy
 * between it and memory of tow_alloc goes straight. So does memory that is registered
 * (tow_mem_register). Other host memory is registered at its first use or goes through the pool's
 * staging part in pieces; either is counted, and refused where require_zero_copy is set.
 * docs/devices.md says what each kind of device can do and what has been run.
 */
#ifndef TOWLINE_DEVICE_H
#define TOWLINE_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include <towline/endpoint.h>
#include <towline/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tow_device;
struct tow_device_memory;

/* Which way tow_device_copy_start copies. */
enum tow_direction { TOW_TO_DEVICE = 0, TOW_FROM_DEVICE = 1 };

/* What is known of a device. */
struct tow_device_info {
	size_t size;                  /* sizeof(struct tow_device_info) of the caller */
	const char *kind;             /* "cuda", "pjrt", "fake", "none" */
	const char *name;             /* as its driver calls it */
	uint64_t memory_bytes;        /* of the device; 0: not known */
	uint64_t allocated_bytes;     /* by tow_device_alloc, now */
	uint64_t mapped_bytes;        /* of host memory, for DMA */
	uint64_t copies;              /* that have ended, with whatever status */
	uint64_t to_bytes;            /* copied to the device */
	uint64_t from_bytes;          /* copied from it */
	uint64_t staged_bytes;        /* of both: what had to go through the staging part */
	uint64_t in_flight;           /* pieces on their way now */
	const char *unmapped_because; /* why the pool is not mapped for it; "" when it is */
};

/* The initial value of struct tow_device_info. */
#define TOW_DEVICE_INFO_INIT                                                                       \
	{                                                                                          \
		TOW_MEMBER(size, sizeof(struct tow_device_info)), TOW_MEMBER(kind, NULL),          \
			TOW_MEMBER(name, NULL), TOW_MEMBER(memory_bytes, 0),                       \
			TOW_MEMBER(allocated_bytes, 0), TOW_MEMBER(mapped_bytes, 0),               \
			TOW_MEMBER(copies, 0), TOW_MEMBER(to_bytes, 0), TOW_MEMBER(from_bytes, 0), \
			TOW_MEMBER(staged_bytes, 0), TOW_MEMBER(in_flight, 0),                     \
			TOW_MEMBER(unmapped_because, NULL)                                         \
	}

/*
 * Opens a device. The spec is "cuda[:N][,lib=FILE]", "pjrt:FILE[,device=N]", "fake[:...]" or
 * "none"; docs/devices.md has all of it. Its driver is loaded now, so that the library needs none.
 * Where it cannot map the pool it is opened all the same; tow_device_info and /v1/devices say why.
 * Ownership: *device_out is the caller's until tow_device_close or tow_runtime_close.
 * Copies: none.
 * Blocks: while the driver starts and the pool is mapped, seconds are possible; with the first
 * endpoint or device also while the library's own thread starts.
 * Threads: any; not from a callback.
 * Returns: TOW_OK; TOW_EINVAL for a spec of another form; TOW_ENOTSUP when there is no such device
 * or driver, with what is missing; TOW_EDEVICE; TOW_ENOMEM; TOW_EPERM with strict_premap;
 * TOW_EFORKED. *device_out is NULL after a failure.
 */
int tow_device_open(struct tow_runtime *runtime, const char *spec, struct tow_device **device_out);

/*
 * Closes a device: copies in flight complete with TOW_ECLOSED, its memory is freed, the pool is
 * unmapped for it.
 * Ownership: takes the device and all its memory.
 * Copies: none.
 * Blocks: until what is in flight has ended, at most a second; a device that does not answer within
 * it is given up.
 * Threads: any, once; not from a callback.
 * Returns: TOW_OK; TOW_EINVAL; TOW_EFORKED.
 */
int tow_device_close(struct tow_device *device);

/*
 * What is known of a device.
 * Ownership: *info_out is the caller's, its size set by the caller; the texts are the device's.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: TOW_OK; TOW_EINVAL; TOW_EFORKED.
 */
int tow_device_info(struct tow_device *device, struct tow_device_info *info_out);

/*
 * Allocates `bytes` (not 0) of the device's memory; its content is undefined.
 * Ownership: *memory_out is the caller's until tow_device_free or tow_device_close.
 * Copies: none.
 * Blocks: as the driver does.
 * Threads: any.
 * Returns: TOW_OK; TOW_EINVAL; TOW_ENOMEM when the device has no room; TOW_ENOTSUP; TOW_EDEVICE;
 * TOW_EFORKED. *memory_out is NULL after a failure.
 */
int tow_device_alloc(struct tow_device *device, uint64_t bytes,
		     struct tow_device_memory **memory_out);

/*
 * Frees memory of a device. NULL is legal and does nothing.
 * Ownership: takes the memory.
 * Copies: none.
 * Blocks: as the driver does.
 * Threads: any, once.
 * Returns: TOW_OK; TOW_EBUSY while a copy with it is in flight, and then nothing is changed;
 * TOW_EINVAL; TOW_EFORKED.
 */
int tow_device_free(struct tow_device_memory *memory);

/*
 * Starts to copy `bytes` between device_memory and host_memory; 0 is legal. In device_memory they
 * begin at device_offset. Large copies are cut into pieces, several of them in flight. Copies of
 * one direction are carried out in the order in which they were started; between directions there
 * is no order: wait for the one before starting the other. host_memory must stay unchanged
 * (TOW_TO_DEVICE) or unread (TOW_FROM_DEVICE) until completion; memory of tow_alloc may be freed
 * before, and is used again only when the device has let go of it.
 * Ownership: host_memory stays the caller's; *op_out is the caller's until tow_op_release.
 * Copies: none where host_memory is mapped for the device; else one, through the staging part,
 * counted by reason device_unmapped. Larger memory that is not registered may be registered now
 * (late_cache_bytes), which is counted.
 * Blocks: never, but for the staging copy or that registration.
 * Threads: any.
 * Returns: TOW_OK when started; TOW_EINVAL; TOW_EBUSY when max_ops operations exist; TOW_EFREED for
 * host memory of the pool that is not allocated; where host_memory is not mapped: TOW_EZEROCOPY
 * with require_zero_copy, TOW_EEXHAUSTED when staging_bytes is 0, TOW_ENOTSUP when the device maps
 * no staging either; TOW_EFORKED. The operation ends with TOW_OK; TOW_COPIED when it was staged;
 * TOW_EDEVICE; TOW_EDEADLINE; TOW_ECANCELED; TOW_ECLOSED. After one of the last four the content of
 * the target is undefined.
 */
int tow_device_copy_start(struct tow_device *device, enum tow_direction direction,
			  struct tow_device_memory *device_memory, uint64_t device_offset,
			  void *host_memory, uint64_t bytes, const struct tow_op_options *options,
			  struct tow_op **op_out);

#ifdef __cplusplus
}
#endif
#endif
