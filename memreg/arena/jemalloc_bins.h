/*
 * jemalloc_bins.h - the sizes of small blocks that this process's jemalloc has, and which of them a
 * request gets.
 */
#ifndef TWI_JEMALLOC_BINS_H
#define TWI_JEMALLOC_BINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TWI_JE_UNIT_SHIFT 6
#define TWI_JE_UNIT_BYTES ((uint64_t)1 << TWI_JE_UNIT_SHIFT)
#define TWI_JE_SMALL_MAX  14336u /* jemalloc's largest bin with pages of 4 KiB */

struct twi_je_bins {
	/* The smallest bin of so many units; 0: none. */
	uint16_t by_units[TWI_JE_SMALL_MAX / TWI_JE_UNIT_BYTES + 1];
	size_t slab_bytes; /* the largest slab of any bin */
};

/* Asks jemalloc. False when its bins are not what these tables can hold. */
bool twi_je_bins_read(struct twi_je_bins *bins);

/* The bin for a request, in bytes; 0: none, take a run. Blocks of a slab lie at its multiples. */
uint32_t twi_je_bins_small(const struct twi_je_bins *bins, uint64_t bytes, uint64_t align);

#endif
