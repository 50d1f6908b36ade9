/*
 * pjrt_memory.h - device memory that can be written at any place, made of PJRT buffers that cannot.
 *
 * A PJRT buffer comes into being with its content and never changes. So a piece of memory is a list
 * of pieces, each a part of a buffer; a write adds a buffer and cuts away what it covers, and a
 * buffer whose last part is gone is destroyed. What was never written has no piece.
 *
 *	[ A.0 ][  B.0   ][     C.1     ]   --write D-->   [ A.0 ][ B.0 ][   D.0   ][ C.1 ]
 *
 * A whole tensor that is written by one copy is one buffer. Only the holder of the engine comes
 * here.
 */
#ifndef TWI_PJRT_MEMORY_H
#define TWI_PJRT_MEMORY_H

#include <stdint.h>

#include <internal/list.h>

struct twi_pjrt_buffer {
	void *buffer;   /* the plugin's */
	uint64_t bytes; /* of all of it */
	unsigned parts; /* pieces that show parts of it */
};

struct twi_pjrt_piece {
	struct twi_pjrt_piece *next; /* by offset */
	uint64_t offset, bytes;      /* in the memory */
	struct twi_pjrt_buffer *buffer;
	uint64_t buffer_offset;
};

struct twi_pjrt_memory {
	struct twi_list link; /* the device's list of them */
	uint64_t bytes;
	struct twi_pjrt_piece *first;
	void (*destroy)(void *ctx, void *buffer);
	void *ctx;
};

/* What a write needs, taken before the plugin is asked, so that nothing can fail after it. */
struct twi_pjrt_room {
	struct twi_pjrt_buffer *buffer;
	struct twi_pjrt_piece *piece, *spare;
};

int twi_pjrt_room_init(struct twi_pjrt_room *room);  /* TOW_OK, TOW_ENOMEM */
void twi_pjrt_room_fini(struct twi_pjrt_room *room); /* what put has not used */

/* [offset, offset + bytes) is `buffer` from now on. */
void twi_pjrt_memory_put(struct twi_pjrt_memory *memory, struct twi_pjrt_room *room,
			 uint64_t offset, uint64_t bytes, void *buffer);

/* The piece that holds the byte at `offset`, or NULL: it was never written. */
const struct twi_pjrt_piece *twi_pjrt_memory_at(const struct twi_pjrt_memory *memory,
						uint64_t offset);

void twi_pjrt_memory_clear(struct twi_pjrt_memory *memory);

#endif
