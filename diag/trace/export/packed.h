/*
 * packed.h - bytes that grow: messages that protobuf-c has packed, one after another.
 *
 * Two messages of one type, one after another, have the same bytes as one message with the fields
 * of both. A message within another has the bytes of a field of type `bytes`. So a message that
 * grows with the trace is written in parts: small messages of its type with a few fields each. Then
 * only the bytes and one part are in memory.
 *
 * As in emit.h, the first failure (no memory) stays: later calls do nothing, and twi_packed_take
 * reports it.
 */
#ifndef TWI_PACKED_H
#define TWI_PACKED_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero is empty. */
struct twi_packed {
	uint8_t *at;
	size_t count, room;
	bool failed;
};

void twi_packed_fini(struct twi_packed *packed);
/* Empties it, but keeps its memory for the next bytes. */
void twi_packed_clear(struct twi_packed *packed);
/* Hands over the bytes, followed by a NUL. It is empty then. TOW_OK or TOW_ENOMEM. */
int twi_packed_take(struct twi_packed *packed, char **bytes_out, size_t *count_out);

/* Appends the bytes of a message. */
void twi_packed_add(struct twi_packed *packed, const ProtobufCMessage *part);

/* Makes `inner` a field of the next part of `packed`. `packed` fails if `inner` has failed. */
ProtobufCBinaryData twi_packed_field(struct twi_packed *packed, const struct twi_packed *inner);

/* For texts in messages, which have the type char * but are never written to. */
static inline char *twi_packed_text(const char *text)
{
	return (char *)(uintptr_t)text;
}

#endif
