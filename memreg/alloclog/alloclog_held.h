/*
 * alloclog_held.h - what was live when a capture began: a list of the pool's allocations, which
 * becomes the first events of the log.
 *
 *   log on --> list: one walk over the pool, without a lock, while others allocate and free
 *          --> snapshot: what the events say was not live then is struck out --> records
 *
 * The walk takes a moment, in which blocks come and go. Whoever allocates then has an event, for
 * the log is on: a block whose first event is an allocation was not live at the begin. What is
 * freed before the walk gets there is missing in the list, and has a free without an id.
 */
#ifndef TWI_ALLOCLOG_HELD_H
#define TWI_ALLOCLOG_HELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct twi_alloclog_rec;
struct twi_pool;

struct twi_alloclog_block {
	uint64_t address, bytes; /* what it takes of the pool */
	uint8_t align_log2;
	uint64_t first_ns; /* of its first event during the walk; 0: it had none */
	bool came;         /* that event is an allocation */
};

struct twi_alloclog_held {
	struct twi_alloclog_block *block; /* by address */
	size_t count, room;
	uint64_t until_ns; /* the end of the walk */
	const void *own;   /* of the library since the open: it is left out */
};

/*
 * Lists what is live in the pool now, at most `most` blocks. With more, or without memory, the list
 * is empty: then the log has their sum alone.
 */
void twi_alloclog_held_list(struct twi_alloclog_held *held, struct twi_pool *pool, const void *own,
			    size_t most);
void twi_alloclog_held_fini(struct twi_alloclog_held *held);

/*
 * Writes an allocation at `since_ns` for each block that was live then, behind the `count` records
 * of the capture: there is room for held->count. Returns how many, and what they take of the pool.
 */
size_t twi_alloclog_held_records(struct twi_alloclog_held *held, struct twi_alloclog_rec *recs,
				 size_t count, uint64_t since_ns, uint64_t *bytes_out);

#endif
