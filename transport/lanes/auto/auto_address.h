/*
 * auto_address.h - the address of an endpoint that has all lanes, as text. It has everything by
 * which one process can be reached, in at most TOW_ADDRESS_MAX - 1 characters. Pure.
 *
 *	tow://  base64url of:
 *	  u8 version (1) | u64 host | parts | u16: low half of the crc32c of all before it
 *	a part: u8 type | u8 bytes | bytes, of the form of its lane (lane.def has both)
 *	  NAME   the endpoint's name
 *	  INET   u16 port, 1 to 4 addresses of 4 bytes; in the next type: 1 or 2 of 16 bytes
 *	  RAW    u8 length, provider, raw name
 *
 * Numbers are big-endian. Each type stands there at most once. An unknown type is skipped, so that
 * later versions of this library can add some. Anything else out of order is refused, as an address
 * comes from users and files.
 */
#ifndef TWI_AUTO_ADDRESS_H
#define TWI_AUTO_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#include <towline/endpoint.h>

#include "diag/record/lane_id.h"

#define TWI_AUTO_VERSION   1
#define TWI_AUTO_NAME_MAX  32 /* bytes of a name or a provider, with its NUL */
#define TWI_AUTO_IN4_MAX   4
#define TWI_AUTO_IN6_MAX   2
#define TWI_AUTO_RAW_MAX   64
#define TWI_AUTO_BYTES_MAX 90 /* bytes that base64 makes 120 characters of */

/* How the process is reached by one lane: the members of the lane's form, the others are 0. */
struct twi_auto_part {
	char name[TWI_AUTO_NAME_MAX]; /* NAME: "": not at all; RAW: the provider */
	uint8_t in4_count, in6_count; /* INET: both 0: not at all */
	uint16_t in4_port, in6_port;
	uint8_t in4[TWI_AUTO_IN4_MAX][4];
	uint8_t in6[TWI_AUTO_IN6_MAX][16];
	uint8_t raw_bytes; /* RAW: 0: not at all */
	uint8_t raw[TWI_AUTO_RAW_MAX];
};

struct twi_auto_address {
	uint64_t host; /* equal: one kernel */
	struct twi_auto_part parts[TWI_LANE_COUNT];
};

/* Does the address say how the process is reached by this lane? */
bool twi_auto_address_has(const struct twi_auto_address *address, enum twi_lane_id lane);

/*
 * Writes the text, with its scheme. What does not fit is left out, and removed from *address: first
 * the further addresses of each family, then raw names, then IPv6. TOW_OK; TOW_EINVAL: not even the
 * names fit.
 */
int twi_auto_address_put(struct twi_auto_address *address, char out[TOW_ADDRESS_MAX]);

/* Reads what follows "tow://". TOW_OK; TOW_EINVAL, naming what is wrong. */
int twi_auto_address_get(const char *text, struct twi_auto_address *out);

#endif
