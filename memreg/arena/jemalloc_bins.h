/*
 * jemalloc_bins.h - the small block sizes of this process's jemalloc, and the choice among them.
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
	/* The smallest bin for a request of this many units; 0: none. */
	uint16_t by_units[TWI_JE_SMALL_MAX / TWI_JE_UNIT_BYTES + 1];
	size_t slab_bytes; /* the largest slab of any bin */
};

/* Reads the bins from jemalloc. False: they do not fit these tables. */
bool twi_je_bins_read(struct twi_je_bins *bins);

/* Bytes of the bin for a request; 0: use a run. A slab's blocks lie at multiples of their size. */
uint32_t twi_je_bins_small(const struct twi_je_bins *bins, uint64_t bytes, uint64_t align);

#endif
