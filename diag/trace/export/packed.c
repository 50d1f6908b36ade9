/* packed.c - see packed.h. */
#include "diag/trace/export/packed.h"

#include <stdlib.h>

#include "diag/base/error.h"

void twi_packed_fini(struct twi_packed *packed)
{
	free(packed->at);
	*packed = (struct twi_packed){ 0 };
}

void twi_packed_clear(struct twi_packed *packed)
{
	packed->count = 0;
}

/* Adds `count` bytes at the end and returns their address; NULL after a failure. */
static uint8_t *take_room(struct twi_packed *packed, size_t count)
{
	if (packed->failed)
		return NULL;
	if (packed->room - packed->count < count) {
		size_t room = packed->room + packed->room / 2 + count + 256;
		uint8_t *grown = realloc(packed->at, room);

		if (grown == NULL) {
			packed->failed = true;
			return NULL;
		}
		packed->at = grown;
		packed->room = room;
	}
	packed->count += count;
	return packed->at + packed->count - count;
}

int twi_packed_take(struct twi_packed *packed, char **bytes_out, size_t *count_out)
{
	uint8_t *end = take_room(packed, 1);

	*bytes_out = NULL;
	*count_out = 0;
	if (end == NULL) {
		twi_packed_fini(packed);
		return twi_error(TOW_ENOMEM, "no memory to write a trace");
	}
	*end = 0;
	*bytes_out = (char *)packed->at;
	*count_out = packed->count - 1;
	*packed = (struct twi_packed){ 0 };
	return TOW_OK;
}

void twi_packed_add(struct twi_packed *packed, const ProtobufCMessage *part)
{
	uint8_t *at = take_room(packed, protobuf_c_message_get_packed_size(part));

	if (at != NULL)
		protobuf_c_message_pack(part, at);
}

ProtobufCBinaryData twi_packed_field(struct twi_packed *packed, const struct twi_packed *inner)
{
	packed->failed = packed->failed || inner->failed;
	return (ProtobufCBinaryData){ .len = inner->count, .data = inner->at };
}
