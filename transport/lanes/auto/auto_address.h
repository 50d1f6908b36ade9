/*
 * auto_address.h - the address of an endpoint that has all lanes, as text: everything by which one
 * process can be reached, in at most TOW_ADDRESS_MAX - 1 characters. Pure.
 *
 *	tow://  base64url of:
 *	  u8 version (1) | u64 host | parts | u16: low half of the crc32c of all before it
 *	a part: u8 type | u8 bytes | bytes
 *	  1 shm    the endpoint's name                    4 ofi   u8 length, provider, raw name
 *	  2 tcp4   u16 port, 1 to 4 addresses of 4 bytes  5 loop  the endpoint's name
 *	  3 tcp6   u16 port, 1 or 2 addresses of 16 bytes
 *
 * Numbers are big-endian. Each type stands there at most once; an unknown one is skipped, so that
 * later versions of this library can add some. Anything else out of order is refused: an address
 * comes from users and files.
 */
#ifndef TWI_AUTO_ADDRESS_H
#define TWI_AUTO_ADDRESS_H

#include <stdint.h>

#include <towline/endpoint.h>

#define TWI_AUTO_VERSION      1
#define TWI_AUTO_NAME_MAX     32 /* bytes of a name on the shm or loop lane, with its NUL */
#define TWI_AUTO_TCP4_MAX     4
#define TWI_AUTO_TCP6_MAX     2
#define TWI_AUTO_PROVIDER_MAX 32 /* with its NUL */
#define TWI_AUTO_OFI_MAX      64
#define TWI_AUTO_RAW_MAX      90 /* bytes that base64 makes 120 characters of */

struct twi_auto_address {
	uint64_t host;                  /* equal: one kernel */
	char shm[TWI_AUTO_NAME_MAX];    /* "": none */
	char loop[TWI_AUTO_NAME_MAX];   /* likewise */
	uint8_t tcp4_count, tcp6_count; /* 0: none */
	uint16_t tcp4_port, tcp6_port;
	uint8_t tcp4[TWI_AUTO_TCP4_MAX][4];
	uint8_t tcp6[TWI_AUTO_TCP6_MAX][16];
	char ofi_provider[TWI_AUTO_PROVIDER_MAX];
	uint8_t ofi_bytes; /* 0: none */
	uint8_t ofi[TWI_AUTO_OFI_MAX];
};

/*
 * Writes the text, with its scheme. What does not fit is left out, and taken out of *address: the
 * further addresses of each family first, then ofi, then IPv6. TOW_OK; TOW_EINVAL: not even a name
 * fits.
 */
int twi_auto_address_put(struct twi_auto_address *address, char out[TOW_ADDRESS_MAX]);

/* Reads what follows "tow://". TOW_OK; TOW_EINVAL, naming what is wrong. */
int twi_auto_address_get(const char *text, struct twi_auto_address *out);

#endif
