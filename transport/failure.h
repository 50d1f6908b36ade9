/*
 * failure.h - why operations have failed: the messages of the last of them.
 *
 * An operation may end in any thread that drives, most often in the library's own; whoever waits
 * for it, or tests it, wants the message. So it is kept here when the operation ends, and becomes
 * the message of each thread that is told the failed status, callbacks included.
 *
 * Budget: nothing unless an operation fails. The lock is taken then, and by who asks about it.
 */
#ifndef TWI_FAILURE_H
#define TWI_FAILURE_H

#include <pthread.h>
#include <stdint.h>

#include "diag/error.h"

#define TWI_FAILURES 64u

struct tow_op;

struct twi_failures {
	pthread_mutex_t lock;
	uint64_t last; /* number of the youngest; they count from 1 */
	struct {
		uint64_t number;
		char text[TWI_ERROR_BYTES];
	} rows[TWI_FAILURES];
};

void twi_failures_init(struct twi_failures *failures);
void twi_failures_fini(struct twi_failures *failures);

/*
 * `op` ends with op->status, a failure. The thread's message is what happened, if it was set with
 * that status since this thread took the engine or polled last; else why its peer ended, if it has
 * with that status; else one is made of what the operation is. The engine is held.
 */
void twi_failure_keep(struct tow_op *op);

/* Makes the message of `op`, which has failed, the calling thread's. Returns its status. */
int twi_failure_recall(const struct tow_op *op);

#endif
