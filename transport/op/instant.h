/*
 * instant.h - a receive that ends within the call that starts it: it takes a small message that has
 * arrived already, and needs no operation. If there is no such message, an operation waits for it.
 */
#ifndef TWI_INSTANT_H
#define TWI_INSTANT_H

#include <stdbool.h>
#include <stdint.h>

#include "diag/record/site.h"

struct twi_instant {
	void *data;
	uint64_t bytes; /* the size of the buffer */
	uint64_t tag, mask;
	struct twi_site site;
	uint32_t context; /* a context of the user's space (match_entry.h) */
	bool truncate;    /* it takes as much of a longer message as fits */
	bool taken;       /* a message was taken, and these are set: */
	uint64_t message_tag, message_bytes;
	uint64_t seq; /* the message's number */
};

#endif
