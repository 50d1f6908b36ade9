/*
 * span_ring.h - inside of the rings of spans, for those who write them and those who read them.
 *
 *	rows ... | n - 1 | n: being written | n + 1 - ROWS ...
 *	                   head = n, reserved = n + 1
 *
 * The writer moves `reserved` before it touches a row and `head` after it. A reader copies rows
 * below head and then looks at `reserved`: rows that lie more than a ring behind it may have been
 * touched meanwhile, and are thrown away. Words are stored with release and loaded with acquire (on
 * x86 plain moves), so that whoever has seen a word of a row also sees that it was reserved.
 *
 * A ring goes to the next thread with its block. Its last owners are kept, so that what a thread
 * did before it ended is not put down to the next one.
 */
#ifndef TWI_SPAN_RING_H
#define TWI_SPAN_RING_H

#include <pthread.h>

#include "diag/record/span.h"

#define TWI_SPAN_WORDS  (sizeof(struct twi_span) / sizeof(uint64_t))
#define TWI_SPAN_OWNERS 8u
#define TWI_SPAN_LAPS   16u

struct twi_span_owner {
	uint64_t first; /* number of its first span */
	int64_t tid;
	char name[16];
};

struct twi_span_ring {
	_Atomic uint64_t head, reserved;
	/* When row k * TWI_SPAN_ROWS was written, at k % TWI_SPAN_LAPS: how much is lost since. */
	_Atomic uint64_t laps[TWI_SPAN_LAPS];
	/* Under the table's lock. Number i is at i % TWI_SPAN_OWNERS. */
	uint64_t owner_count;
	struct twi_span_owner owners[TWI_SPAN_OWNERS];
	_Alignas(64) _Atomic uint64_t rows[TWI_SPAN_ROWS][TWI_SPAN_WORDS];
};

struct twi_span_peer_row {
	char *name;
	int64_t rank;
	uint32_t next; /* of the same hash; 0: none */
};

#define TWI_SPAN_PEER_SLOTS 1024u

/* What the rings of a diag have in common. */
struct twi_span_table {
	pthread_mutex_t lock; /* of all that follows; held for short */
	uint32_t peer_count, peer_room;
	struct twi_span_peer_row *peers; /* peer n is at n - 1 */
	uint32_t slots[TWI_SPAN_PEER_SLOTS];
	uint32_t sample, captures;
	char *job;
	int64_t rank, world;
	bool (*clock)(void *arg, int64_t *offset_ns_out, uint64_t *error_ns_out);
	void (*compare)(void *arg, bool wait);
	size_t (*unfinished)(void *arg, struct twi_span *out, size_t room);
	void *clock_arg; /* of all three */
};

struct twi_span_table *twi_span_table_create(void);
void twi_span_table_destroy(struct twi_span_table *table); /* NULL is legal */

/* The calling thread owns the block, and what it will write to its ring, if it has one. */
void twi_span_ring_adopt(struct twi_diag *diag, struct twi_diag_block *block);

void twi_span_ring_free(struct twi_diag_block *block);

/*
 * Copies spans from number *cursor on, at most `room`, and moves the cursor behind the last: those
 * copied are the ones before it. Returns how many; *lost_out: how many had been overwritten.
 */
size_t twi_span_ring_read(const struct twi_span_ring *ring, uint64_t *cursor, struct twi_span *out,
			  size_t room, uint64_t *lost_out);

/* How many spans are written. */
uint64_t twi_span_ring_head(const struct twi_span_ring *ring);

/* At most how many of the spans before number `first` ended at begin_ns or later. */
uint64_t twi_span_ring_since(const struct twi_span_ring *ring, uint64_t first, uint64_t begin_ns);

#endif
