/*
 * coll_batch.h - calls that are held back, so that small all-reduces can be fused.
 *
 *	start, start, start            issue                      done
 *	  [held] [held] [held] ---> fused: one run on one ---> [out] [out] [out]
 *	                            buffer of the pool
 *
 * A group holds calls back between tow_coll_batch_begin and _end (all of them, `open`), or with the
 * knob combine (small all-reduces). They are issued in their order; neighbours that are alike
 * become one all-reduce, in place, in a buffer where each has its own part at a cache line. Its
 * operation is the library's own; those of the users are watched by nobody meanwhile: they share
 * the earliest deadline, and the end.
 *
 * All ranks must fuse alike. The counts of the parts are in the signature, so one that does not is
 * found out as any other that makes another call.
 *
 * Everything runs with the engine held, but where said.
 */
#ifndef TWI_COLL_BATCH_H
#define TWI_COLL_BATCH_H

#include "transport/coll/coll.h"

struct twi_coll_batch;

/* What tow_coll_batch_begin and _end do. */
int twi_coll_batch_open(struct twi_coll_group *coll);
int twi_coll_batch_close(struct twi_coll_group *coll);

/* A checked call of a group that holds calls back: as twi_coll_start. */
int twi_coll_batch_add(struct twi_coll_group *coll, const struct twi_coll_call *call,
		       struct tow_op *op);

/* Issues what is held. Failures come as the operations' status. */
void twi_coll_batch_issue(struct twi_coll_group *coll);

/* The same for all groups that hold calls back by the knob. The engine is not held. */
void twi_coll_batch_issue_all(struct twi_engine *engine);

/* Somebody waits for this operation, which was held back by the knob. The engine is not held. */
void twi_coll_batch_wanted(struct tow_op *op);

/* The group is broken: what is held ends with its `why`. */
void twi_coll_batch_fail(struct twi_coll_group *coll, int status);

/* How many calls are held back. */
uint32_t twi_coll_batch_held(const struct twi_coll_group *coll);
/* Whether fused ones are on their way to their callbacks. */
bool twi_coll_batch_busy(const struct twi_coll_group *coll);
void twi_coll_batch_free(struct twi_coll_group *coll);

/*
 * A fused one that was held back is about to begin: its buffer is filled, of which the call is
 * told. TOW_OK, TOW_EEXHAUSTED, TOW_ENOMEM.
 */
int twi_coll_batch_fill(struct tow_op *op, struct twi_coll_call *call);
/* It could not begin, with the thread's message: its parts end. */
void twi_coll_batch_refuse(struct tow_op *op, int status);

/* The fused one that an operation is a part of; NULL: it is of none. The engine is held. */
const struct tow_op *twi_coll_batch_of(const struct tow_op *op);

/* Calls `each` for the operations that a fused one, `op`, stands for, with their bytes. */
void twi_coll_batch_parts(struct tow_op *op, void (*each)(void *arg, struct tow_op *op), void *arg);

#endif
