/*
 * region.h - a piece of memory that registrars know: an extent of the pool, or the user's memory.
 *
 * A registrar with a table of buffers (io_uring) uses the slots [slot, slot + slots) for a region.
 * Each slot has one TWI_REGION_PIECE; the last piece may be shorter. No two regions share a
 * slot at the same time. A `generation` is never used again. By it a registrar can tell this region
 * from an earlier one in the same slot.
 */
#ifndef TWI_REGION_H
#define TWI_REGION_H

#include <stddef.h>
#include <stdint.h>

#define TWI_REGION_PIECE_SHIFT 30 /* a registered buffer of io_uring spans at most 1 GiB */
#define TWI_REGION_PIECE       (1ull << TWI_REGION_PIECE_SHIFT)
#define TWI_REGION_SLOTS       4096u

enum twi_region_kind {
	TWI_REGION_EXTENT, /* an extent of the pool */
	TWI_REGION_USER,   /* registered by tow_mem_register */
	TWI_REGION_CACHED, /* registered at its first use */
};

struct twi_region {
	void *base;
	uint64_t bytes;
	uint64_t generation; /* number of the registration; never 0 */
	uint32_t slot, slots;
	enum twi_region_kind kind;
	int fd; /* memfd behind an extent, else -1 */
};

#endif
