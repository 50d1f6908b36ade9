/*
 * checksum.h - crc32c of payload, to find bytes that changed on their way; crc32 of files.
 *
 * The polynomial of the first is Castagnoli's, as in iSCSI (RFC 3720, 12.1). ISA-L computes both,
 * with the processor's own instructions where there are some.
 */
#ifndef TWI_CHECKSUM_H
#define TWI_CHECKSUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diag/base/hash.h"

#define TWI_CHECKSUM_EVERY 1024u /* of as many messages one is checked */

/* Whether it is message `seq`: one of so many, without a step that a program's own could meet. */
static inline bool twi_checksum_chosen(uint64_t seq)
{
	return twi_hash_spread(seq) < UINT64_MAX / TWI_CHECKSUM_EVERY;
}

/* Of `bytes` at `data`, behind what has the checksum `so_far` (0 at the beginning). */
uint32_t twi_checksum(uint32_t so_far, const void *data, size_t bytes);

/* The same by the polynomial of Ethernet, zip and zlib (RFC 1952, 8), for files. */
uint32_t twi_crc32(uint32_t so_far, const void *data, size_t bytes);

#endif
