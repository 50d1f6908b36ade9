/*
 * outbound.h - a small message on its way to a lane. It needs no operation: all of it has left its
 * memory when the call that has started it is back.
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
	uint8_t stage; /* of an operation alone (op.h) */
	uint16_t channel;
};

#endif
