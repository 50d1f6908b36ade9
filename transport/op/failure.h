/*
 * failure.h - why an operation has failed: a text that its row has until it is released.
 *
 * An operation may end in any thread that drives, most often in the library's own; the thread that
 * waits for it, or tests it, wants the message. So it is kept here when the operation ends, stands
 * in its result, and becomes the message of each thread that is told the failed status, callbacks
 * included. Nothing changes it meanwhile, so it needs no lock, and there are at most max_ops.
 *
 * Budget: nothing unless an operation fails; then one allocation of the text's length. Where there
 * is no memory for it, the text is that of the status.
 */
#ifndef TWI_FAILURE_H
#define TWI_FAILURE_H

#include <stdlib.h>

#include "transport/op/op.h"

/*
 * `op` ends with op->status, a failure. The thread's message is what happened, if it was set with
 * that status since this thread took the engine or polled last; else why its peer ended, if it has
 * with that status; else one is made of what the operation is. The engine is held.
 */
void twi_failure_keep(struct tow_op *op);

/* The text of `op`, which has failed. It stays as long as the row. */
const char *twi_failure_text(const struct tow_op *op);

/*
 * Makes it the calling thread's message. Returns the operation's status. What is to be kept of a
 * failure is kept by then, or 100 ms are over (hooks.h, settle).
 */
int twi_failure_recall(const struct tow_op *op);

/* It is counted. */
void twi_failure_count(const struct tow_op *op, int status);

/* Nobody has its handle, and nobody takes its result: the log says so. */
void twi_failure_tell(const struct tow_op *op, int status);

/* The row goes back. */
static inline void twi_failure_drop(struct tow_op *op)
{
	if (twi_unlikely(op->failure != NULL)) {
		free(op->failure);
		op->failure = NULL;
	}
}

#endif
