/*
 * region.h - a piece of memory that registrars are told about: an extent of the pool, or memory of
 * the user's.
 *
 * A registrar that keeps a table of buffers (io_uring) gives a region the slots [slot, slot +
 * slots): one for each TWI_REGION_PIECE of it, the last one shorter. No two regions that live at
 * once share a slot. `generation` is never used again, so what a registrar noted for a slot can be
 * told from what was there before.
 */
#ifndef TWI_REGION_H
#define TWI_REGION_H

#include <stddef.h>
#include <stdint.h>

#define TWI_REGION_PIECE_SHIFT 30 /* a registered buffer of io_uring spans at most 1 GiB */
#define TWI_REGION_PIECE       (1ull << TWI_REGION_PIECE_SHIFT)
#define TWI_REGION_SLOTS       4096u

enum twi_region_kind {
	TWI_REGION_EXTENT, /* of the pool */
	TWI_REGION_USER,   /* tow_mem_register */
	TWI_REGION_CACHED, /* registered at its first use */
};

struct twi_region {
	void *base;
	uint64_t bytes;
	uint64_t generation; /* of the registration; never 0 */
	uint32_t slot, slots;
	enum twi_region_kind kind;
	int fd; /* memfd behind an extent, else -1 */
};

#endif
