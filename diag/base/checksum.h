/*
 * checksum.h - crc32c of payload, to find bytes that changed on their way.
 *
 * The polynomial is Castagnoli's, as in iSCSI (RFC 3720, 12.1). ISA-L computes it, with the
 * processor's own instruction where there is one.
 */
#ifndef TWI_CHECKSUM_H
#define TWI_CHECKSUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TWI_CHECKSUM_EVERY 1024u /* of as many messages one is checked */

/* Of `bytes` at `data`, behind what has the checksum `so_far` (0 at the beginning). */
uint32_t twi_checksum(uint32_t so_far, const void *data, size_t bytes);

#endif
