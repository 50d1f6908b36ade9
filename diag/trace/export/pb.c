/* pb.c - messages of protocol buffers, field by field. */
#include "diag/trace/export/pb.h"

#include <stdlib.h>
#include <string.h>

#include "diag/base/error.h"

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2 };

void twi_pb_fini(struct twi_pb *w)
{
	free(w->at);
	*w = (struct twi_pb){ 0 };
}

void twi_pb_clear(struct twi_pb *w)
{
	w->count = 0;
}

int twi_pb_take(struct twi_pb *w, char **bytes_out, size_t *count_out)
{
	uint8_t *end = twi_pb_room(w, 1);

	*bytes_out = NULL;
	*count_out = 0;
	if (end == NULL) {
		twi_pb_fini(w);
		return twi_error(TOW_ENOMEM, "no memory to write a trace");
	}
	*end = 0;
	*bytes_out = (char *)w->at;
	*count_out = w->count - 1;
	*w = (struct twi_pb){ 0 };
	return TOW_OK;
}

uint8_t *twi_pb_room(struct twi_pb *w, size_t count)
{
	if (w->failed)
		return NULL;
	if (w->room - w->count < count) {
		size_t room = w->room + w->room / 2 + count + 256;
		uint8_t *grown = realloc(w->at, room);

		if (grown == NULL) {
			w->failed = true;
			return NULL;
		}
		w->at = grown;
		w->room = room;
	}
	w->count += count;
	return w->at + w->count - count;
}

static void put_varint(struct twi_pb *w, uint64_t value)
{
	uint8_t bytes[10], *at;
	size_t count = 0;

	do {
		bytes[count++] = (uint8_t)(value | (value > 127 ? 128 : 0));
		value >>= 7;
	} while (value);
	at = twi_pb_room(w, count);
	if (at != NULL)
		memcpy(at, bytes, count);
}

void twi_pb_u64(struct twi_pb *w, uint32_t field, uint64_t value)
{
	put_varint(w, (uint64_t)field << 3 | WIRE_VARINT);
	put_varint(w, value);
}

void twi_pb_fixed64(struct twi_pb *w, uint32_t field, uint64_t value)
{
	uint8_t *at;

	put_varint(w, (uint64_t)field << 3 | WIRE_FIXED64);
	at = twi_pb_room(w, 8);
	for (size_t i = 0; at != NULL && i < 8; i++)
		at[i] = (uint8_t)(value >> (8 * i));
}

void twi_pb_head(struct twi_pb *w, uint32_t field, size_t count)
{
	put_varint(w, (uint64_t)field << 3 | WIRE_BYTES);
	put_varint(w, count);
}

void twi_pb_bytes(struct twi_pb *w, uint32_t field, const void *bytes, size_t count)
{
	uint8_t *at;

	twi_pb_head(w, field, count);
	at = twi_pb_room(w, count);
	if (at != NULL && count)
		memcpy(at, bytes, count);
}

void twi_pb_text(struct twi_pb *w, uint32_t field, const char *text)
{
	twi_pb_bytes(w, field, text, strlen(text));
}
