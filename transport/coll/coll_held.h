/*
 * coll_held.h - collectives that wait until an earlier one has ended.
 *
 *	start --> [held] [held] [held] --> begins, when fewer than TOW_COLL_IN_FLIGHT are in flight
 *
 * A group has a slot of memory, a bit and a row of the flight recorder for each collective in
 * flight. So their number is bounded, and so is how far a rank can be ahead of another. Calls
 * beyond the bound are kept here in their order, with their arguments. Such a call has no seq until
 * it begins, so to other ranks this rank is only late. Its buffers are not touched. At most max_ops
 * are held, since each has the operation of its caller.
 *
 * A held call ends early only together with its group: a rank that left one out would be out of
 * step. So a held call that is canceled, or whose deadline passes, breaks the group like one in
 * flight.
 *
 * Everything runs with the engine held.
 */
#ifndef TWI_COLL_HELD_H
#define TWI_COLL_HELD_H

#include "transport/coll/coll.h"

/* Holds a checked call, behind those that are held already. Returns as twi_coll_start. */
int twi_coll_hold(struct twi_coll_group *coll, const struct twi_coll_call *call, struct tow_op *op);

/* Whether a held call may begin now. */
static inline bool twi_coll_held_may_go(const struct twi_coll_group *coll)
{
	return coll->held_n > 0 && coll->state == TWI_COLL_READY &&
	       coll->series.in_flight < TOW_COLL_IN_FLIGHT;
}

/* Begins the calls that may begin; returns how many. The group is active while one may begin. */
unsigned twi_coll_held_go(struct twi_coll_group *coll);

/* The group is broken: the held calls end with its `why`. */
void twi_coll_held_fail(struct twi_coll_group *coll, int status);

/* Whether the operation is held, and the collective that it waits for first. */
bool twi_coll_held_waits(const struct tow_op *op, uint32_t *ctx_out, uint64_t *seq_out);

void twi_coll_held_free(struct twi_coll_group *coll);

#endif
