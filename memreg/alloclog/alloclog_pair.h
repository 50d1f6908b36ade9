/*
 * alloclog_pair.h - turns the records of threads into events with ids. Pure: no clock, no lock.
 */
#ifndef TWI_ALLOCLOG_PAIR_H
#define TWI_ALLOCLOG_PAIR_H

#include <stddef.h>
#include <stdint.h>

#include "memreg/alloclog/alloclog_file.h"

/* The largest expected difference between two processors' clocks. */
#define TWI_ALLOCLOG_SKEW_NS 2000

#define TWI_ALLOCLOG_BYTES_BITS 46
#define TWI_ALLOCLOG_SLACK_BITS 10 /* above these, in units of 64 bytes; no arena wastes more */
#define TWI_ALLOCLOG_ALIGN_BIT  56
#define TWI_ALLOCLOG_UNIT       64u
#define TWI_ALLOCLOG_GAP        1u /* `what` of a gap, which has no kind */

struct twi_alloclog_rec {
	uint64_t ns;
	uint64_t address; /* in a step: its number */
	/*
	 * From bit 0: bytes requested; in a free, bytes returned to the pool. From bit 46: what an
	 * allocation took of the pool beyond whole units. From bit 56: log2 of the alignment. From
	 * bit 62: the kind. In a gap, `what` is GAP, `ns` its begin, `address` its steps, and
	 * `caller` its events. `thread` and `tag` are the low and high half of its length in ns.
	 */
	uint64_t what;
	uint64_t caller;
	uint32_t thread, tag;
};

static inline unsigned twi_alloclog_rec_kind(const struct twi_alloclog_rec *rec)
{
	return (unsigned)(rec->what >> 62);
}

static inline uint64_t twi_alloclog_rec_bytes(const struct twi_alloclog_rec *rec)
{
	return rec->what & (((uint64_t)1 << TWI_ALLOCLOG_BYTES_BITS) - 1);
}

/* Bytes that an allocation took of the pool. */
static inline uint64_t twi_alloclog_rec_taken(const struct twi_alloclog_rec *rec)
{
	uint64_t slack = rec->what >> TWI_ALLOCLOG_BYTES_BITS &
			 (((uint64_t)1 << TWI_ALLOCLOG_SLACK_BITS) - 1);

	return ((twi_alloclog_rec_bytes(rec) + TWI_ALLOCLOG_UNIT - 1) / TWI_ALLOCLOG_UNIT + slack) *
	       TWI_ALLOCLOG_UNIT;
}

/*
 * Sorts `recs` and writes their events to the trace, with times from trace->start_monotonic_ns on.
 * Earlier times count as that time. An allocation at a live address shows that the free before it
 * was lost. The free is then inserted at that moment, so that sums stay right. TOW_ENOMEM.
 */
int twi_alloclog_pair(struct twi_alloclog_rec *recs, size_t count, struct twi_alloc_trace *trace);

#endif
