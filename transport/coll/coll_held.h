/*
 * coll_held.h - collectives that wait until one of those before them has ended.
 *
 *	start --> [held] [held] [held] --> begins, when fewer than TOW_COLL_IN_FLIGHT are in flight
 *
 * A group has a slot of memory, a bit and a place in the flight recorder for each collective in
 * flight, so there is a bound on those, and on what a rank can be ahead of another. What a program
 * starts beyond it is kept here in its order, with its arguments. It has no seq until it begins, so
 * to other ranks this one is late and nothing else; its buffers are not touched. The bound of what
 * is held is max_ops, since each has the operation of its caller.
 *
 * What is held ends early with its group alone: a rank that left one out would be out of step. So a
 * held one that is canceled, or whose deadline passes, breaks the group as one in flight does.
 *
 * Everything runs with the engine held.
 */
#ifndef TWI_COLL_HELD_H
#define TWI_COLL_HELD_H

#include "transport/coll/coll.h"

/* Keeps a checked call, behind those that are held; as twi_coll_start. */
int twi_coll_hold(struct twi_coll_group *coll, const struct twi_coll_call *call, struct tow_op *op);

/* Whether one may begin now. */
static inline bool twi_coll_held_may_go(const struct twi_coll_group *coll)
{
	return coll->held_n > 0 && coll->state == TWI_COLL_READY &&
	       coll->series.in_flight < TOW_COLL_IN_FLIGHT;
}

/* Begins what may begin; how many have. The group is active when there may be some. */
unsigned twi_coll_held_go(struct twi_coll_group *coll);

/* The group is broken: what is held ends with its `why`. */
void twi_coll_held_fail(struct twi_coll_group *coll, int status);

/* Whether the operation is held, and which collective it waits for first. */
bool twi_coll_held_waits(const struct tow_op *op, uint32_t *ctx_out, uint64_t *seq_out);

void twi_coll_held_free(struct twi_coll_group *coll);

#endif
