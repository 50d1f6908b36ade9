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

#define TWI_ALLOCLOG_BYTES_BITS 56

struct twi_alloclog_rec {
	uint64_t ns;
	uint64_t address; /* of a step: its number */
	uint64_t what;    /* bytes, from bit 56 log2 of the alignment, from bit 62 the kind */
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

/*
 * Sorts `recs` and writes their events to trace, times counted from trace->start_monotonic_ns;
 * what is earlier counts as of then. An allocation at an address that is live means that the free
 * before it was lost: it is made up, at that moment, so that sums stay right. TOW_ENOMEM.
 */
int twi_alloclog_pair(struct twi_alloclog_rec *recs, size_t count, struct twi_alloc_trace *trace);

#endif
