/*
 * failure.h - why an operation has failed: a text that its row keeps until it is released.
 *
 * An operation may end in any thread that drives, most often in the library's own. The thread that
 * waits for the operation, or tests it, wants the message. So the text is kept here when the
 * operation ends, and its result points to it. It also becomes the message of each thread that gets
 * the failed status, also in a callback. Nothing changes the text meanwhile, so it needs no lock.
 * There are at most max_ops texts.
 *
 * Budget: nothing unless an operation fails, then one allocation of the text's length. If that
 * allocation fails, the text is that of the status.
 */
#ifndef TWI_FAILURE_H
#define TWI_FAILURE_H

#include <stdlib.h>

#include "transport/op/op.h"

/*
 * `op` ends with op->status, a failure. Its text is the first of these that exists:
 * - the thread's message, if it was set with that status since this thread took the engine, or
 *   polled last;
 * - the message with which its peer ended, if that has the same status;
 * - a text made of the operation's properties.
 * The engine is held.
 */
void twi_failure_keep(struct tow_op *op);

/*
 * `op` is going to end with `status`, but cannot end yet: keeps the thread's message, if it is of
 * that status, before another one takes its place. The engine is held.
 */
void twi_failure_note(struct tow_op *op, int status);

/* The text of `op`, which has failed. It lives as long as the row. */
const char *twi_failure_text(const struct tow_op *op);

/*
 * Makes the text the calling thread's message. Returns the operation's status. Before that, the
 * record of the failure is written, or 100 ms have passed (hooks.h, settle).
 */
int twi_failure_recall(const struct tow_op *op);

/* Counts the failure. */
void twi_failure_count(const struct tow_op *op, int status);

/* Logs the failure of an operation that no thread has the handle of, or takes the result of. */
void twi_failure_tell(const struct tow_op *op, int status);

/* Frees the text: the row is released. */
static inline void twi_failure_drop(struct tow_op *op)
{
	if (twi_unlikely(op->failure != NULL)) {
		free(op->failure);
		op->failure = NULL;
	}
}

#endif
