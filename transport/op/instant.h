/*
 * instant.h - a receive that is over when the call that starts it is back: it takes a small message
 * that is here, and needs no operation. What has none for it waits as an operation does.
 */
#ifndef TWI_INSTANT_H
#define TWI_INSTANT_H

#include <stdbool.h>
#include <stdint.h>

#include "diag/record/site.h"

struct twi_instant {
	void *data;
	uint64_t bytes; /* of room */
	uint64_t tag, mask;
	struct twi_site site;
	uint32_t context; /* of the user's space (match_entry.h) */
	bool truncate;    /* it takes what fits of a longer message */
	bool taken;       /* what follows is set: */
	uint64_t message_tag, message_bytes;
	uint64_t seq; /* the message's number */
};

#endif
