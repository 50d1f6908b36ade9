/*
 * jemalloc_bins.c - reads the bins of jemalloc; jemalloc_bins.h has the concept.
 */
#include <stdio.h>

#include "memreg/arena/jemalloc_api.h"
#include "memreg/arena/jemalloc_bins.h"
#include "memreg/arena/runs.h"
#include <internal/base.h>

bool twi_je_bins_read(struct twi_je_bins *bins)
{
	unsigned count;
	size_t bytes = sizeof(count), size, slab, from = 0;
	char name[48];

	if (mallctl("arenas.nbins", &count, &bytes, NULL, 0))
		return false;
	for (unsigned i = 0; i < count; i++) {
		bytes = sizeof(size);
		snprintf(name, sizeof(name), "arenas.bin.%u.size", i);
		if (mallctl(name, &size, &bytes, NULL, 0))
			return false;
		bytes = sizeof(slab);
		snprintf(name, sizeof(name), "arenas.bin.%u.slab_size", i);
		if (mallctl(name, &slab, &bytes, NULL, 0))
			return false;
		if (size % TWI_JE_UNIT_BYTES || size > TWI_JE_SMALL_MAX)
			continue;
		bins->slab_bytes = twi_max(bins->slab_bytes, slab);
		while (from <= size >> TWI_JE_UNIT_SHIFT)
			bins->by_units[from++] = (uint16_t)size;
	}
	return from > 1;
}

uint32_t twi_je_bins_small(const struct twi_je_bins *bins, uint64_t bytes, uint64_t align)
{
	uint32_t size;

	if (bytes > TWI_JE_SMALL_MAX || align > TWI_PAGE_BYTES)
		return 0;
	size = bins->by_units[(bytes + TWI_JE_UNIT_BYTES - 1) >> TWI_JE_UNIT_SHIFT];
	while (size && (size & (align - 1)))
		size = size < TWI_JE_SMALL_MAX ? bins->by_units[(size >> TWI_JE_UNIT_SHIFT) + 1]
					       : 0;
	return size % TWI_PAGE_BYTES ? size : 0;
}
