/*
 * pjrt_memory.c - the pieces of a device memory that is made of PJRT buffers. See pjrt_memory.h.
 */
#include "transport/device/pjrt_memory.h"

#include <stdlib.h>

#include "diag/base/error.h"
#include <towline/status.h>

int twi_pjrt_room_init(struct twi_pjrt_room *room)
{
	room->buffer = calloc(1, sizeof(*room->buffer));
	room->piece = calloc(1, sizeof(*room->piece));
	room->spare = calloc(1, sizeof(*room->spare));
	if (room->buffer != NULL && room->piece != NULL && room->spare != NULL)
		return TOW_OK;
	twi_pjrt_room_fini(room);
	return twi_error(TOW_ENOMEM, "device pjrt: no memory to note a buffer");
}

void twi_pjrt_room_fini(struct twi_pjrt_room *room)
{
	free(room->buffer);
	free(room->piece);
	free(room->spare);
	*room = (struct twi_pjrt_room){ 0 };
}

static uint64_t end_of(const struct twi_pjrt_piece *piece)
{
	return piece->offset + piece->bytes;
}

static void drop_part(struct twi_pjrt_memory *memory, struct twi_pjrt_buffer *buffer)
{
	if (--buffer->parts > 0)
		return;
	memory->destroy(memory->ctx, buffer->buffer);
	free(buffer);
}

static void drop_piece(struct twi_pjrt_memory *memory, struct twi_pjrt_piece **at)
{
	struct twi_pjrt_piece *piece = *at;

	*at = piece->next;
	drop_part(memory, piece->buffer);
	free(piece);
}

/* Cuts `piece` short at `offset`. Its part from `end` on becomes a piece of its own, the spare. */
static void split_piece(struct twi_pjrt_piece *piece, struct twi_pjrt_room *room, uint64_t offset,
			uint64_t end)
{
	if (end_of(piece) > end) {
		struct twi_pjrt_piece *tail = room->spare;

		room->spare = NULL;
		*tail = (struct twi_pjrt_piece){
			.next = piece->next,
			.offset = end,
			.bytes = end_of(piece) - end,
			.buffer = piece->buffer,
			.buffer_offset = piece->buffer_offset + (end - piece->offset),
		};
		tail->buffer->parts++;
		piece->next = tail;
	}
	piece->bytes = offset - piece->offset;
}

void twi_pjrt_memory_put(struct twi_pjrt_memory *memory, struct twi_pjrt_room *room,
			 uint64_t offset, uint64_t bytes, void *buffer)
{
	struct twi_pjrt_piece **at = &memory->first, *piece = room->piece;
	uint64_t end = offset + bytes;

	while (*at != NULL && end_of(*at) <= offset)
		at = &(*at)->next;
	if (*at != NULL && (*at)->offset < offset) {
		split_piece(*at, room, offset, end);
		at = &(*at)->next;
	}
	while (*at != NULL && end_of(*at) <= end)
		drop_piece(memory, at);
	if (*at != NULL && (*at)->offset < end) {
		uint64_t covered = end - (*at)->offset;

		(*at)->offset += covered;
		(*at)->bytes -= covered;
		(*at)->buffer_offset += covered;
	}
	*room->buffer = (struct twi_pjrt_buffer){ buffer, bytes, 1 };
	*piece = (struct twi_pjrt_piece){ *at, offset, bytes, room->buffer, 0 };
	*at = piece;
	room->buffer = NULL;
	room->piece = NULL;
}

const struct twi_pjrt_piece *twi_pjrt_memory_at(const struct twi_pjrt_memory *memory,
						uint64_t offset)
{
	const struct twi_pjrt_piece *piece = memory->first;

	while (piece != NULL && end_of(piece) <= offset)
		piece = piece->next;
	return piece != NULL && piece->offset <= offset ? piece : NULL;
}

void twi_pjrt_memory_clear(struct twi_pjrt_memory *memory)
{
	while (memory->first != NULL)
		drop_piece(memory, &memory->first);
}
