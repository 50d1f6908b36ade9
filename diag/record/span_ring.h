/*
 * span_ring.h - the inside of the rings of spans, for the code that writes or reads them.
 *
 *	rows ... | n - 1 | n: being written | n + 1 - ROWS ...
 *	                   head = n, reserved = n + 1
 *
 * The writer moves `reserved` before it touches a row and `head` after it. A reader copies rows
 * below `head` and then looks at `reserved`. Rows that lie more than a ring behind `reserved` may
 * have been touched meanwhile, and are thrown away. Words are stored with release and loaded with
 * acquire (on x86 plain moves). So a reader that has seen a word of a row also sees that the row
 * was reserved.
 *
 * A ring goes to the next thread with its block. Its last owners are kept, so that the spans of a
 * thread that has ended are not taken for those of the next thread.
 */
#ifndef TWI_SPAN_RING_H
#define TWI_SPAN_RING_H

#include <pthread.h>

#include "diag/record/span.h"

#define TWI_SPAN_WORDS  (sizeof(struct twi_span) / sizeof(uint64_t))
#define TWI_SPAN_OWNERS 8u
#define TWI_SPAN_LAPS   16u

struct twi_span_owner {
	uint64_t first; /* number of the first span of this owner */
	int64_t tid;
	char name[16];
};

struct twi_span_ring {
	_Atomic uint64_t head, reserved;
	/* End of span k * TWI_SPAN_ROWS, at k % TWI_SPAN_LAPS: how many have been lost since. */
	_Atomic uint64_t laps[TWI_SPAN_LAPS];
	/* Under the table's lock. Owner i is at i % TWI_SPAN_OWNERS. */
	uint64_t owner_count;
	struct twi_span_owner owners[TWI_SPAN_OWNERS];
	_Alignas(64) _Atomic uint64_t rows[TWI_SPAN_ROWS][TWI_SPAN_WORDS];
};

struct twi_span_peer_row {
	char *name;
	int64_t rank;
	uint32_t next; /* next peer of the same hash; 0: none */
};

#define TWI_SPAN_PEER_SLOTS 1024u

/* What all rings of a diag share. */
struct twi_span_table {
	pthread_mutex_t lock; /* of all that follows; held for a short time */
	uint32_t peer_count, peer_room;
	struct twi_span_peer_row *peers; /* peer n is at n - 1 */
	uint32_t slots[TWI_SPAN_PEER_SLOTS];
	uint32_t sample, captures;
	char *job;
	int64_t rank, world;
	bool (*clock)(void *arg, int64_t *offset_ns_out, uint64_t *error_ns_out);
	void (*compare)(void *arg, bool wait);
	size_t (*unfinished)(void *arg, struct twi_span *out, size_t room);
	void *clock_arg; /* of all three functions */
};

struct twi_span_table *twi_span_table_create(void);
void twi_span_table_destroy(struct twi_span_table *table); /* NULL is legal */

/* Makes the calling thread the owner of the block, and of later spans in its ring if it has one. */
void twi_span_ring_adopt(struct twi_diag *diag, struct twi_diag_block *block);

void twi_span_ring_free(struct twi_diag_block *block);

/*
 * Copies at most `room` spans from number *cursor on, and moves the cursor behind the last one. The
 * copied spans are those just before the cursor. Returns how many; *lost_out: how many had been
 * overwritten.
 */
size_t twi_span_ring_read(const struct twi_span_ring *ring, uint64_t *cursor, struct twi_span *out,
			  size_t room, uint64_t *lost_out);

/* How many spans have been written. */
uint64_t twi_span_ring_head(const struct twi_span_ring *ring);

/* Upper bound of how many of the spans before number `first` ended at begin_ns or later. */
uint64_t twi_span_ring_since(const struct twi_span_ring *ring, uint64_t first, uint64_t begin_ns);

#endif
