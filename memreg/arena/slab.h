/*
 * slab.h - slots of one small size in a run of a few pages: the small half of the page-run
 * provider.
 *
 *   run of pages in the pool   | slot 0 | slot 1 | slot 2 | ... at most 64 |
 *   struct twi_slab outside    free bit, hold word and slack of each
 *
 * Sizes are multiples of 64, so every slot has cache lines of its own. A slab is in the list of its
 * class while it has a free slot. The last empty slab of a class is kept until twi_slabs_trim, so
 * that one allocation made and freed again and again does not build a slab each time.
 *
 * Descriptors come in chunks from the heap and are used again, never given back before fini: a
 * lock-free reader with an old pointer then still reads a descriptor.
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
	struct twi_slab *empty[TWI_SLAB_CLASSES]; /* the one that is kept, also in partial */
	struct twi_list spare;                    /* descriptors */
	struct twi_slab_chunk *chunks;
};

void twi_slabs_init(struct twi_slabs *slabs, struct twi_runs *runs);
void twi_slabs_fini(struct twi_slabs *slabs);

/* The smallest class whose slots hold `bytes` and are aligned to `align`; -1: none, take a run. */
int twi_slab_class(uint64_t bytes, uint64_t align);
uint32_t twi_slab_class_bytes(int class);

/* A slot, as its slab and number; NULL when there is no room for a slab or its descriptor. */
struct twi_slab *twi_slabs_take(struct twi_slabs *slabs, int class, uint32_t *slot_out);
void twi_slabs_give(struct twi_slabs *slabs, struct twi_slab *slab, uint32_t slot);

/* Gives the pages of empty slabs back. */
void twi_slabs_trim(struct twi_slabs *slabs);

#endif
