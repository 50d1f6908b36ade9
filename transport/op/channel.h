/*
 * channel.h - what the user holds of a message channel (towline/channel.h). What is kept of its
 * messages is the peer's (message/channel.h), and found by its number.
 */
#ifndef TWI_OP_CHANNEL_H
#define TWI_OP_CHANNEL_H

#include <stdint.h>

#include <towline/channel.h>

#include "transport/engine/handle.h"

struct twi_engine;

#define TWI_CHANNEL_GROUPS 32768u /* from here on: of the messages of groups, by their numbers */

struct tow_channel {
	struct twi_handle handle;
	struct twi_engine *engine;
	struct tow_peer *peer; /* of an open one */
	uint16_t number;
};

_Static_assert(offsetof(struct tow_channel, engine) + sizeof(void *) <= TWI_HANDLE_LINE_BYTES,
	       "calls read the engine while the handle may be closed");

#endif
