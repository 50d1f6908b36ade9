/*
 * op_wait.h - the common part of the calls that wait for operations, or test them.
 */
#ifndef TWI_OP_WAIT_H
#define TWI_OP_WAIT_H

#include "transport/engine/engine.h"
#include "transport/engine/engine_drive.h"
#include "transport/op/op.h"

/* Whether the handle is in use, as far as its row shows. */
static inline bool twi_op_valid(const struct tow_op *op)
{
	uint32_t state;

	if (op == NULL)
		return false;
	state = atomic_load_explicit(&op->wait.state, memory_order_relaxed);
	return (state & (TWI_OP_USED | TWI_OP_RELEASED)) == TWI_OP_USED;
}

/* acquire: pairs with the release in publish_op; the result is read after it */
static inline bool twi_op_is_done(const struct tow_op *op)
{
	return (atomic_load_explicit(&op->wait.state, memory_order_acquire) & TWI_OP_DONE) != 0;
}

/* A thread waits for the operation, or tests it. `now_ns` 0: the clock must be read. */
static inline void twi_op_waited(struct tow_op *op, uint64_t now_ns)
{
	if (twi_unlikely(op->ops->waited != NULL))
		op->ops->waited(op, now_ns);
}

/* Sets the error of `call` for a handle that is not in use. */
int twi_op_refuse(const char *call);

/* Returns the status of an operation that is done; its message becomes the calling thread's. */
int twi_op_tell(const struct tow_op *op);

/*
 * The operation is done, and the call did not wait: counts how long the thread polled (polled.h).
 * Returns as twi_op_tell.
 */
int twi_op_end_test(const struct tow_op *op);

/*
 * The calling thread was blocked from `since_ns` until the operation ended, so the clock need not
 * be read again. Returns the operation's status, whose message becomes the thread's.
 */
int twi_op_end_wait(const struct tow_op *op, uint64_t since_ns);

/* Counts that the thread was blocked for `ns` until the operation ended, if that is long. */
void twi_op_note_wait(const struct tow_op *op, uint64_t ns);

/*
 * Waits as twi_engine_wait does. If the operation has `waits_for`, and the wait takes longer than
 * the knob log_wait_ns, the log reports it meanwhile (op_late.c).
 */
int twi_op_wait_late(struct tow_op *op, uint64_t now_ns, uint64_t until_ns);

static inline int twi_op_wait_until(struct tow_op *op, uint64_t now_ns, uint64_t until_ns)
{
	if (twi_likely(op->ops->waits_for == NULL))
		return twi_engine_wait(op->engine, &op->wait, now_ns, until_ns);
	return twi_op_wait_late(op, now_ns, until_ns);
}

/* Ends a wait with `status` while the operation goes on. Returns the engine's time. */
uint64_t twi_op_end_in_vain(const struct tow_op *op, uint64_t since_ns, int status);

#endif
