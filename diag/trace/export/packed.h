/*
 * packed.h - bytes that grow: messages as protobuf-c packs them, one behind the other.
 *
 * The bytes of two messages of one type are, one behind the other, a message with the fields of
 * both; and a message within another has the bytes of a field of type `bytes`. So a message that
 * grows with the trace is written in parts: small messages of its type, each of which has a field
 * or a few of it. What is in memory then is the bytes and one part.
 *
 * As emit.h does for text: the first failure (no memory) sticks, later calls do nothing, and
 * twi_packed_take reports it.
 */
#ifndef TWI_PACKED_H
#define TWI_PACKED_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero is an empty one. */
struct twi_packed {
	uint8_t *at;
	size_t count, room;
	bool failed;
};

void twi_packed_fini(struct twi_packed *packed);
/* Empties it, and keeps its memory for what comes next. */
void twi_packed_clear(struct twi_packed *packed);
/* Hands the bytes over, a NUL behind them; it is empty then. TOW_OK or TOW_ENOMEM. */
int twi_packed_take(struct twi_packed *packed, char **bytes_out, size_t *count_out);

/* Appends the bytes of a message. */
void twi_packed_add(struct twi_packed *packed, const ProtobufCMessage *part);

/* All of `inner` as a field of the next part of `packed`, which has failed if `inner` has. */
ProtobufCBinaryData twi_packed_field(struct twi_packed *packed, const struct twi_packed *inner);

/* Messages do not write to their texts, but have them as char *. */
static inline char *twi_packed_text(const char *text)
{
	return (char *)(uintptr_t)text;
}

#endif
