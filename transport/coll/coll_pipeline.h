/*
 * coll_pipeline.h - collectives of one host on memory outside the pool, a piece at a time.
 *
 * Other ranks cannot see such memory. It is not copied into the pool as a whole before the
 * collective, and out of the pool afterwards. Instead each rank copies its input ahead, piece by
 * piece, into a ring of two places in the pool. Each rank writes its own result directly where it
 * belongs.
 *
 *	step    0         1                    2                        k
 *	        copy 0    copy 1, work on 0    copy 2, work on 1  ...  work on k - 1
 *	      ^         ^                    ^
 *	      no rank goes on before all have come: what they copied is there, and what stood in
 *	      that place before has been read by all
 *
 * What a rank does with the pieces k of all ranks depends on the kind: it reduces them, or takes
 * its part of each. The order of operands is that of plan_local.c, so the results are bitwise the
 * same.
 *
 * All ranks do this when one of them has such memory; each says so at the first meeting
 * (coll_local.h). The call, and so the plan, is the same either way. A rank with its input in the
 * pool shows the input itself; so does one that has copied all of it there before it hears of the
 * others. There is an exception: in place, the result may overwrite input that others still read.
 * Such input goes through a ring, too. If the pool has no room for that, the result waits aside, in
 * the heap, until all have read.
 */
#ifndef TWI_COLL_PIPELINE_H
#define TWI_COLL_PIPELINE_H

#include "transport/coll/coll_run.h"

/*
 * This rank asks for it, and takes its ring. TOW_AGAIN: it waits for room. TOW_EEXHAUSTED: there is
 * none even for the smallest pieces.
 */
int twi_coll_pipeline_ask(struct twi_coll_run *run);

/* After the first meeting: begins the pipeline if a rank asks for it. Then turns run it. */
bool twi_coll_pipeline_begins(struct twi_coll_run *run);

/*
 * Goes on as far as possible; to be called again after TOW_AGAIN. TOW_OK: the result is there, and
 * no rank reads this rank's memory any more. Else a failure.
 */
int twi_coll_pipeline_turn(struct twi_coll_run *run);

#endif
