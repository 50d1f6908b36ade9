/*
 * channel.h - the user's handle of a message channel (towline/channel.h). The messages of the
 * channel are kept by the peer (message/channel.h), which finds them by the channel's number.
 */
#ifndef TWI_OP_CHANNEL_H
#define TWI_OP_CHANNEL_H

#include <stdint.h>

#include <towline/channel.h>

#include "transport/engine/handle.h"

struct twi_engine;

#define TWI_CHANNEL_GROUPS 32768u /* from this number on, a channel carries a group's messages */

struct tow_channel {
	struct twi_handle handle;
	struct twi_engine *engine;
	struct tow_peer *peer; /* of an open channel */
	uint16_t number;
};

_Static_assert(offsetof(struct tow_channel, engine) + sizeof(void *) <= TWI_HANDLE_LINE_BYTES,
	       "calls read the engine while the handle may be closed");

#endif
