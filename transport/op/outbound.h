/*
 * outbound.h - a small message that is given to a lane without an operation. The call that starts
 * it returns after the whole message has left its memory.
 */
#ifndef TWI_OUTBOUND_H
#define TWI_OUTBOUND_H

#include <stdint.h>

struct twi_outbound {
	const void *data;
	uint64_t bytes, tag;
	uint64_t seq; /* its number; set by the outbox */
	uint64_t start_ns;
	uint8_t space; /* enum twi_space */
	uint8_t stage; /* of an operation only (op.h) */
	uint16_t channel;
};

#endif
