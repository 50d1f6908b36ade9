/*
 * coll_cut.h - how the payload of a collective is cut into pieces (coll_pipeline.h), and which ones
 * are.
 */
#ifndef TWI_COLL_CUT_H
#define TWI_COLL_CUT_H

#include "transport/coll/coll_run.h"

struct twi_plan_row;

/* Default of the knob coll_segment_bytes (diag/knob/knob.def), which all ranks must have alike. */
#define TWI_COLL_SEGMENT_BYTES (1ull << 20)

/* The same at all ranks. */
struct twi_coll_cut {
	uint32_t parts;  /* parts of an input */
	uint64_t part;   /* bytes of a part, of the longest one if they differ */
	uint64_t column; /* bytes of a part in one piece */
	uint64_t steps;
};

/* Pieces may be halved so often where a pool has no room for their ring. */
#define TWI_COLL_HALVED_MAX 6u

struct twi_coll_cut twi_coll_cut_of(const struct twi_coll_run *run);

/* Bytes of a part of that rank in piece `k`. */
uint64_t twi_coll_cut_bytes(const struct twi_coll_run *run, const struct twi_coll_cut *cut,
			    uint32_t rank, uint64_t k);

/* Bytes of the ring: places for two pieces, or for the only one. */
uint64_t twi_coll_cut_ring(const struct twi_coll_cut *cut);

/* Whether such calls go by pieces when a rank asks for it; the same at all ranks. */
bool twi_coll_cut_may(const struct twi_coll_group *coll, const struct twi_coll_call *call,
		      const struct twi_plan_row *row);

/* Whether that is faster than to stage all. Else a rank asks only if its pool has no room. */
bool twi_coll_cut_pays(const struct twi_coll_group *coll, const struct twi_coll_call *call);

#endif
