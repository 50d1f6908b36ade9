/*
 * stuck.h - the operation in which a thread is stuck, so that another thread can cancel it.
 *
 *	twt_stuck_set(op);      before the wait
 *	twt_stuck_set(NULL);    after it: nobody cancels the operation from then on
 *	tow_op_release(op);
 */
#ifndef TWT_STUCK_H
#define TWT_STUCK_H

struct tow_op;

void twt_stuck_set(struct tow_op *op);

/* Cancels it, if there is one. */
void twt_stuck_cancel(void);

#endif
