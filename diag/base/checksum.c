/*
 * checksum.c - crc32c and crc32 by ISA-L. See checksum.h.
 */
#include "diag/base/checksum.h"

#include <isa-l/crc.h>

#include <internal/base.h>

uint32_t twi_checksum(uint32_t so_far, const void *data, size_t bytes)
{
	unsigned char *at = (unsigned char *)(uintptr_t)data; /* ISA-L only reads it */
	uint32_t crc = ~so_far;

	while (bytes > 0) {
		size_t n = twi_min(bytes, (size_t)1 << 30);

		crc = crc32_iscsi(at, (int)n, crc);
		at += n;
		bytes -= n;
	}
	return ~crc;
}

uint32_t twi_crc32(uint32_t so_far, const void *data, size_t bytes)
{
	return crc32_gzip_refl(so_far, data, bytes);
}
