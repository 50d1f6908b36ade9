/*
 * coll_pipeline.h - collectives of one host on memory outside the pool, a piece at a time.
 *
 * Other ranks cannot see such memory. Instead of all of it before the collective, and out of the
 * pool afterwards, each rank copies its input a piece ahead into a ring of two places in the pool;
 * and each rank alone writes its own result, where it belongs.
 *
 *	step    0         1                    2                        k
 *	        copy 0    copy 1, work on 0    copy 2, work on 1  ...  work on k - 1
 *	      ^         ^                    ^
 *	      no rank goes on before all have come: what they copied is there, and what stood in
 *	      that place before has been read by all
 *
 * What a rank does with the pieces k of all ranks depends on the kind: it reduces them, or takes
 * its part of each. The order of operands is that of plan_local.c, so results are bitwise the same.
 *
 * All ranks do this when one of them has such memory, which they say with their first meeting
 * (coll_local.h); the call, and so the plan, is the same either way. Whose input lies in the pool
 * shows it as it is; but in place, where its own result would overwrite what others still read.
 */
#ifndef TWI_COLL_PIPELINE_H
#define TWI_COLL_PIPELINE_H

#include "transport/coll/coll_run.h"

struct twi_plan_row;

/* Whether calls of this entry go so where a rank asks for it; the same at all ranks. */
bool twi_coll_pipeline_fits(const struct twi_coll_group *coll, const struct twi_coll_call *call,
			    const struct twi_plan_row *row);

/* All have met for the first time: does one of them ask for it? Then the run goes on with turns. */
bool twi_coll_pipeline_asked(const struct twi_coll_run *run);

/*
 * Does what can be done, and is to be called again on TOW_AGAIN. TOW_OK: the result is there, and
 * nobody reads anything of this rank any more. Else a failure.
 */
int twi_coll_pipeline_turn(struct twi_coll_run *run);

#endif
