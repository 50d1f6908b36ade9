/*
 * coll_batch.h - holds calls back, so that small all-reduces can be fused.
 *
 *	start, start, start            issue                      done
 *	  [held] [held] [held] ---> fused: one run on one ---> [out] [out] [out]
 *	                            buffer of the pool
 *
 * A group holds calls back between tow_coll_batch_begin and _end (all calls; `open`), or with the
 * knob combine (small all-reduces). They are issued in their order. Neighbours that are alike
 * become one in-place all-reduce on a buffer, in which each part begins at a cache line. The
 * operation of the fused call is the library's own. It has the earliest deadline of the users'
 * operations, which are not watched meanwhile and end with it.
 *
 * All ranks must fuse the same calls. The counts of the parts are in the signature, so a rank that
 * fuses others is found like any rank that makes another call.
 *
 * Everything runs with the engine held, unless a comment says otherwise.
 */
#ifndef TWI_COLL_BATCH_H
#define TWI_COLL_BATCH_H

#include "transport/coll/coll.h"

struct twi_coll_batch;

/* Implement tow_coll_batch_begin and _end. */
int twi_coll_batch_open(struct twi_coll_group *coll);
int twi_coll_batch_close(struct twi_coll_group *coll);

/* Like twi_coll_start, for a group that holds calls back. */
int twi_coll_batch_add(struct twi_coll_group *coll, const struct twi_coll_call *call,
		       struct tow_op *op);

/* Issues the calls that are held. Failures become the status of the operations. */
void twi_coll_batch_issue(struct twi_coll_group *coll);

/* The same for all groups that hold calls back by the knob. The engine is not held. */
void twi_coll_batch_issue_all(struct twi_engine *engine);

/* A thread waits for this operation, held back by the knob: issues it. The engine is not held. */
void twi_coll_batch_wanted(struct tow_op *op);

/* The group is broken: the held calls end with its `why`. */
void twi_coll_batch_fail(struct twi_coll_group *coll, int status);

/* How many calls are held back. */
uint32_t twi_coll_batch_held(const struct twi_coll_group *coll);
/* Whether fused calls have not completed yet. */
bool twi_coll_batch_busy(const struct twi_coll_group *coll);
void twi_coll_batch_free(struct twi_coll_group *coll);

/*
 * Fills the buffer of a fused call that is about to begin, and sets `in` and `out` of the call.
 * Returns TOW_OK, TOW_EEXHAUSTED or TOW_ENOMEM.
 */
int twi_coll_batch_fill(struct tow_op *op, struct twi_coll_call *call);
/* A fused call could not begin: its parts end with the status and the thread's message. */
void twi_coll_batch_refuse(struct tow_op *op, int status);

/* The operation of the fused call that this one is a part of. NULL: none. The engine is held. */
const struct tow_op *twi_coll_batch_of(const struct tow_op *op);

/* Calls `each` for the users' operations in the fused call `op`. */
void twi_coll_batch_parts(struct tow_op *op, void (*each)(void *arg, struct tow_op *op), void *arg);

#endif
