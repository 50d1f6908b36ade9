/*
 * checksum.h - crc32c of payload, to find bytes that changed in transit; crc32 of files.
 *
 * crc32c uses Castagnoli's polynomial, as iSCSI does (RFC 3720, 12.1). ISA-L computes both, with
 * the processor's own instructions where it has them.
 */
#ifndef TWI_CHECKSUM_H
#define TWI_CHECKSUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diag/base/hash.h"

#define TWI_CHECKSUM_EVERY 1024u /* one of so many messages is checked */

/*
 * Is message `seq` one of those that are checked? They have no fixed distance, so the choice cannot
 * fall in step with a pattern of the program.
 */
static inline bool twi_checksum_chosen(uint64_t seq)
{
	return twi_hash_spread(seq) < UINT64_MAX / TWI_CHECKSUM_EVERY;
}

/* Continues the checksum `so_far` (0 at the beginning) over `bytes` at `data`. */
uint32_t twi_checksum(uint32_t so_far, const void *data, size_t bytes);

/* The same for crc32, by the polynomial of Ethernet, zip and zlib (RFC 1952, 8). For files. */
uint32_t twi_crc32(uint32_t so_far, const void *data, size_t bytes);

#endif
