/*
 * slab.h - slots of one small size in a run of a few pages, for the page-run provider.
 *
 *   run of pages in the pool   | slot 0 | slot 1 | slot 2 | ... at most 64 |
 *   struct twi_slab outside    free bit, hold word and slack of each
 *
 * Sizes are multiples of 64, so no two slots share a cache line. A slab is in the list of its class
 * while it has a free slot. The last empty slab of a class is kept until twi_slabs_trim. So a
 * program that allocates and frees one block repeatedly does not build a slab each time.
 *
 * Descriptors come from the heap in chunks. They are reused, and freed only by fini. So a lock-free
 * reader with an old pointer still reads a descriptor.
 */
#ifndef TWI_SLAB_H
#define TWI_SLAB_H

#include <stdatomic.h>
#include <stdint.h>

#include "memreg/arena/runs.h"
#include <internal/list.h>

#define TWI_SLAB_SLOTS   64
#define TWI_SLAB_CLASSES 10
#define TWI_SLAB_MAX     2048 /* bytes of the largest slot */
#define TWI_SLAB_UNIT    64

struct twi_slab {
	_Alignas(64) _Atomic uint32_t hold[TWI_SLAB_SLOTS];
	uint16_t slack[TWI_SLAB_SLOTS];
	uint64_t free; /* a bit for each free slot */
	_Atomic uint32_t page;
	_Atomic uint32_t slot_bytes;
	uint32_t class, slots;
	struct twi_list link;
};

struct twi_slab_chunk;

struct twi_slabs {
	struct twi_runs *runs;
	struct twi_list partial[TWI_SLAB_CLASSES];
	struct twi_slab *empty[TWI_SLAB_CLASSES]; /* the empty slab that is kept, also in partial */
	struct twi_list spare;                    /* unused descriptors */
	struct twi_slab_chunk *chunks;
};

void twi_slabs_init(struct twi_slabs *slabs, struct twi_runs *runs);
void twi_slabs_fini(struct twi_slabs *slabs);

/* The smallest class with slots of `bytes`, aligned to `align`; -1: use a run. */
int twi_slab_class(uint64_t bytes, uint64_t align);
uint32_t twi_slab_class_bytes(int class);

/* Takes a slot: its slab and number. NULL: no room for a slab or its descriptor. */
struct twi_slab *twi_slabs_take(struct twi_slabs *slabs, int class, uint32_t *slot_out);
void twi_slabs_give(struct twi_slabs *slabs, struct twi_slab *slab, uint32_t slot);

/* Returns the pages of empty slabs. */
void twi_slabs_trim(struct twi_slabs *slabs);

#endif
