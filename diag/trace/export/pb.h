/*
 * pb.h - bytes that grow: messages of protocol buffers, written field by field.
 *
 * As emit.h does for text: the first failure (no memory) sticks, later calls do nothing, and
 * twi_pb_take reports it. A message within a message is written into bytes of its own first, as
 * its length stands before it.
 */
#ifndef TWI_PB_H
#define TWI_PB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero is an empty one. */
struct twi_pb {
	uint8_t *at;
	size_t count, room;
	bool failed;
};

void twi_pb_fini(struct twi_pb *w);
/* Empties it, and keeps its memory for what comes next. */
void twi_pb_clear(struct twi_pb *w);
/* Hands the bytes over, a NUL behind them; w is empty then. TOW_OK or TOW_ENOMEM. */
int twi_pb_take(struct twi_pb *w, char **bytes_out, size_t *count_out);

/* `count` bytes of room at the end, for the caller to fill; NULL after a failure. */
uint8_t *twi_pb_room(struct twi_pb *w, size_t count);

void twi_pb_u64(struct twi_pb *w, uint32_t field, uint64_t value);
void twi_pb_fixed64(struct twi_pb *w, uint32_t field, uint64_t value);
void twi_pb_bytes(struct twi_pb *w, uint32_t field, const void *bytes, size_t count);
void twi_pb_text(struct twi_pb *w, uint32_t field, const char *text);
/* The head of a field of `count` bytes that the caller writes next. */
void twi_pb_head(struct twi_pb *w, uint32_t field, size_t count);

static inline void twi_pb_nested(struct twi_pb *w, uint32_t field, const struct twi_pb *inner)
{
	if (inner->failed)
		w->failed = true;
	else
		twi_pb_bytes(w, field, inner->at, inner->count);
}

#endif
