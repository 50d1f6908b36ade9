/*
 * alloclog_keep.h - which events a full log keeps: whole windows of time.
 *
 *	rings --pop, by time--> open window --> | w | gap | w | w | gap | w | w |
 *	                                         first       highest       latest
 *
 * A window has some thousand consecutive events of all threads. It ends at the begin of a step if
 * possible. Each window knows the peak of the pool's taken bytes. When room is short, the window
 * with the lowest peak is dropped. The first and the latest windows are never dropped.
 *
 * Adjacent dropped windows form a gap. A gap loses exactly the allocations that were also freed in
 * it. Two kinds of events stay in it, with their times: allocations that outlive the gap, and frees
 * of older allocations. So the events outside gaps meet the live blocks of the program. Each
 * free has its allocation. Both are on the same side of every gap, or are kept.
 *
 * A pair is an allocation and the next event at its address, if that is a free. Two allocations in
 * a row show that a free came late into its ring; no pair is made there. Otherwise no event can be
 * missing between an allocation and its free. Popping takes only records from 2 us or more before
 * the look at the rings. The freeing thread got the block from the thread that had recorded its
 * allocation.
 *
 * A thread that asks for a chunk when few are left does this work, for some thousand records at a
 * time.
 */
#ifndef TWI_ALLOCLOG_KEEP_H
#define TWI_ALLOCLOG_KEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memreg/alloclog/alloclog_match.h"
#include "memreg/alloclog/alloclog_pair.h"

struct twi_alloclog;
struct twi_alloclog_chunk;
struct twi_alloclog_ring;

struct twi_alloclog_window {
	struct twi_alloclog_chunk *first, *last;
	uint64_t *paired; /* a bit for each record whose partner is also here; NULL: dropped */
	uint32_t count, chunks, shift;
	uint64_t begin_ns, end_ns, peak_bytes;
	uint64_t steps;                   /* steps that begin in it */
	uint64_t left_events, left_steps; /* dropped */
};

struct twi_alloclog_keeper {
	struct twi_alloclog_window *window; /* by time; lies in `windows` */
	uint32_t count;
	bool is_open; /* the last window takes more records */
	uint64_t taken_bytes, gap_peak_bytes;
	struct twi_alloclog_match open, other; /* for the open window; for joining two gaps */
	struct twi_alloclog_ring **active;     /* rings with records to pop; lies in `rings` */
	uint32_t actives;
	struct twi_alloclog_area windows, rings, marks;
};

/* Frees some chunks if few are left. Any recording thread may call it, holding no lock. */
void twi_alloclog_keep(struct twi_alloclog *log);

/* Copies the kept records and the gaps of that time. Returns their number. keep_lock is held. */
size_t twi_alloclog_kept(const struct twi_alloclog *log, uint64_t since_ns, uint64_t until_ns,
			 struct twi_alloclog_rec *out, size_t room);

/* Frees all memory of the keeper except the chunks. */
void twi_alloclog_keeper_fini(struct twi_alloclog_keeper *keeper);

#endif
