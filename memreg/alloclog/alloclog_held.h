/*
 * alloclog_held.h - the pool's live allocations when a capture begins, as first events of the log.
 *
 *   log on --> list: one walk over the pool, without a lock, while others allocate and free
 *          --> snapshot: drops what was not live then, by the events --> records
 *
 * Blocks begin and end while the walk lasts. The log is on, so each such allocation has an event. A
 * block whose first event is an allocation was not live at the begin. A block that is freed before
 * the walk reaches it is missing in the list; its free has no id.
 */
#ifndef TWI_ALLOCLOG_HELD_H
#define TWI_ALLOCLOG_HELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct twi_alloclog_rec;
struct twi_pool;

struct twi_alloclog_block {
	uint64_t address, bytes; /* bytes: what the block takes of the pool */
	uint8_t align_log2;
	uint64_t first_ns; /* time of its first event during the walk; 0: no event */
	bool came;         /* the first event is an allocation */
};

struct twi_alloclog_held {
	struct twi_alloclog_block *block; /* sorted by address */
	size_t count, room;
	uint64_t until_ns; /* the end of the walk */
	const void *own;   /* the library's own block since the open, which is left out */
};

/*
 * Lists the live allocations of the pool, at most `most`. With more of them, or without memory, the
 * list is empty. The log then has only their sum.
 */
void twi_alloclog_held_list(struct twi_alloclog_held *held, struct twi_pool *pool, const void *own,
			    size_t most);
void twi_alloclog_held_fini(struct twi_alloclog_held *held);

/*
 * Writes an allocation at `since_ns` for each block that was live then, behind the `count` records
 * of the capture. `recs` has room for held->count more. Returns the number written; *bytes_out
 * is what they take of the pool.
 */
size_t twi_alloclog_held_records(struct twi_alloclog_held *held, struct twi_alloclog_rec *recs,
				 size_t count, uint64_t since_ns, uint64_t *bytes_out);

#endif
