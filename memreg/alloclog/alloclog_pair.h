/*
 * alloclog_pair.h - from what threads have stored to events with ids. Pure: no clock, no lock.
 */
#ifndef TWI_ALLOCLOG_PAIR_H
#define TWI_ALLOCLOG_PAIR_H

#include <stddef.h>
#include <stdint.h>

#include "memreg/alloclog/alloclog_file.h"

/* How far two processors' clocks are taken to differ at most. */
#define TWI_ALLOCLOG_SKEW_NS 2000

#define TWI_ALLOCLOG_BYTES_BITS 46
#define TWI_ALLOCLOG_SLACK_BITS 10 /* above these, in units of 64 bytes: no arena wastes more */
#define TWI_ALLOCLOG_ALIGN_BIT  56
#define TWI_ALLOCLOG_UNIT       64u
#define TWI_ALLOCLOG_GAP        1u /* what, without a kind */

struct twi_alloclog_rec {
	uint64_t ns;
	uint64_t address; /* of a step: its number */
	/*
	 * Bytes: asked for, of a free what it gives back. From bit 46 what an allocation took of
	 * the pool beside whole units, from bit 56 log2 of the alignment, from bit 62 the kind.
	 * A gap, from ns on: GAP; address: its steps; caller: its events; thread and tag: its
	 * length, low half first.
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

/* What an allocation took of the pool. */
static inline uint64_t twi_alloclog_rec_taken(const struct twi_alloclog_rec *rec)
{
	uint64_t slack = rec->what >> TWI_ALLOCLOG_BYTES_BITS &
			 (((uint64_t)1 << TWI_ALLOCLOG_SLACK_BITS) - 1);

	return ((twi_alloclog_rec_bytes(rec) + TWI_ALLOCLOG_UNIT - 1) / TWI_ALLOCLOG_UNIT + slack) *
	       TWI_ALLOCLOG_UNIT;
}

/*
 * Sorts `recs` and writes their events to trace, times counted from trace->start_monotonic_ns;
 * what is earlier counts as of then. An allocation at an address that is live means that the free
 * before it was lost: it is made up, at that moment, so that sums stay right. TOW_ENOMEM.
 */
int twi_alloclog_pair(struct twi_alloclog_rec *recs, size_t count, struct twi_alloc_trace *trace);

#endif
