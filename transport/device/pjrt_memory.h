/*
 * pjrt_memory.h - device memory that can be written at any offset, made of immutable PJRT buffers.
 *
 * A PJRT buffer is created with its content and never changes. So a memory is a list of pieces,
 * each a part of a buffer. A write adds a buffer and cuts away what it covers. A buffer whose last
 * part is gone is destroyed. Bytes that were never written have no piece.
 *
 *	[ A.0 ][  B.0   ][     C.1     ]   --write D-->   [ A.0 ][ B.0 ][   D.0   ][ C.1 ]
 *
 * A whole tensor that is written by one copy is one buffer. The holder of the engine reads and
 * writes a memory. Any thread may clear it when no copy uses it.
 */
#ifndef TWI_PJRT_MEMORY_H
#define TWI_PJRT_MEMORY_H

#include <stdint.h>

#include <internal/list.h>

struct twi_pjrt_buffer {
	void *buffer;   /* the plugin's object */
	uint64_t bytes; /* of the whole buffer */
	unsigned parts; /* number of pieces that use it */
};

struct twi_pjrt_piece {
	struct twi_pjrt_piece *next; /* sorted by offset */
	uint64_t offset, bytes;      /* of the memory */
	struct twi_pjrt_buffer *buffer;
	uint64_t buffer_offset;
};

struct twi_pjrt_memory {
	struct twi_list link; /* on the device's list of memories */
	uint64_t bytes;
	struct twi_pjrt_piece *first;
	void (*destroy)(void *ctx, void *buffer);
	void *ctx;
};

/* Records for a write, allocated before the plugin is called, so that nothing can fail later. */
struct twi_pjrt_room {
	struct twi_pjrt_buffer *buffer;
	struct twi_pjrt_piece *piece, *spare;
};

int twi_pjrt_room_init(struct twi_pjrt_room *room);  /* TOW_OK, TOW_ENOMEM */
void twi_pjrt_room_fini(struct twi_pjrt_room *room); /* frees what put has not used */

/* Makes `buffer` the content of [offset, offset + bytes). */
void twi_pjrt_memory_put(struct twi_pjrt_memory *memory, struct twi_pjrt_room *room,
			 uint64_t offset, uint64_t bytes, void *buffer);

/* The piece that holds the byte at `offset`, or NULL if the byte was never written. */
const struct twi_pjrt_piece *twi_pjrt_memory_at(const struct twi_pjrt_memory *memory,
						uint64_t offset);

void twi_pjrt_memory_clear(struct twi_pjrt_memory *memory);

#endif
