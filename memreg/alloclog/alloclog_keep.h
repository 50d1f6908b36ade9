/*
 * alloclog_keep.h - what a log keeps when it has no room for all: whole windows of time.
 *
 *	rings --pop, by time--> open window --> | w | gap | w | w | gap | w | w |
 *	                                         first       highest       latest
 *
 * A window is some thousand events that follow one another, of all threads; it ends where a step
 * begins when it can. For each the most is known that was taken of the pool in it. When room is
 * short, the window whose peak is the lowest is dropped; the first and the latest never are.
 *
 * Dropped windows side by side are a gap. A gap has lost exactly those allocations that were freed
 * in the same gap. What was allocated in it and lived on, and what was freed in it and is older,
 * stays with its own time. So whatever happens outside gaps meets the same live blocks as in the
 * program, each free has its allocation, and both stand on the same side of every gap or are kept.
 *
 * A pair is known by its address: an allocation, and the next event there, which is a free. Two
 * allocations at one address show that a free came late into its ring; nothing is paired there.
 * Nothing else can be missing between an allocation and its free, as only records that are older
 * than the moment before the rings were looked at are popped: who frees a block has it from who
 * has recorded its allocation.
 *
 * Who asks for a chunk when few are left does the work: at most some thousand records at a time.
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
	uint64_t *paired; /* a bit for each record whose other half is here, too; NULL: dropped */
	uint32_t count, chunks, shift;
	uint64_t begin_ns, end_ns, peak_bytes;
	uint64_t steps;                   /* that begin in it */
	uint64_t left_events, left_steps; /* dropped */
};

struct twi_alloclog_keeper {
	struct twi_alloclog_window *window; /* by time; in `windows` */
	uint32_t count;
	bool is_open; /* the last one takes more */
	uint64_t taken_bytes, gap_peak_bytes;
	struct twi_alloclog_match open, other; /* of the open window; of two gaps that are joined */
	struct twi_alloclog_ring **active;     /* rings that have something to pop; in `rings` */
	uint32_t actives;
	struct twi_alloclog_area windows, rings, marks;
};

/* Makes room for some chunks where few are left. Any thread that records; no lock is held. */
void twi_alloclog_keep(struct twi_alloclog *log);

/* All that is kept from since_ns to until_ns, and its gaps; keep_lock is held. How many. */
size_t twi_alloclog_kept(const struct twi_alloclog *log, uint64_t since_ns, uint64_t until_ns,
			 struct twi_alloclog_rec *out, size_t room);

/* Frees what it has but the chunks. */
void twi_alloclog_keeper_fini(struct twi_alloclog_keeper *keeper);

#endif
