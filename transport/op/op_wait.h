/*
 * op_wait.h - what the calls that wait for operations, or test them, have in common.
 */
#ifndef TWI_OP_WAIT_H
#define TWI_OP_WAIT_H

#include "transport/engine/engine.h"
#include "transport/engine/engine_drive.h"
#include "transport/op/op.h"

/* A handle that is in use, as far as its row tells. */
static inline bool twi_op_valid(const struct tow_op *op)
{
	uint32_t state;

	if (op == NULL)
		return false;
	state = atomic_load_explicit(&op->wait.state, memory_order_relaxed);
	return (state & (TWI_OP_USED | TWI_OP_RELEASED)) == TWI_OP_USED;
}

/* acquire: pairs with the release in publish; the result is read after it */
static inline bool twi_op_is_done(const struct tow_op *op)
{
	return (atomic_load_explicit(&op->wait.state, memory_order_acquire) & TWI_OP_DONE) != 0;
}

/* It is waited for, or tested. `now_ns` 0: the clock is to be read. */
static inline void twi_op_waited(struct tow_op *op, uint64_t now_ns)
{
	if (twi_unlikely(op->ops->waited != NULL))
		op->ops->waited(op, now_ns);
}

/* The error of `call` with a handle that is none. */
int twi_op_refuse(const char *call);

/* The status of one that is done, whose message becomes the calling thread's. */
int twi_op_tell(const struct tow_op *op);

/*
 * The calling thread has been blocked from `since_ns` until the operation ended: the clock need not
 * be read again. Returns the operation's status, whose message becomes the thread's.
 */
int twi_op_end_wait(const struct tow_op *op, uint64_t since_ns);

/* The calling thread was blocked for `ns` until it ended; a short wait is not worth counting. */
void twi_op_note_wait(const struct tow_op *op, uint64_t ns);

/*
 * Waits as twi_engine_wait. What has `waits_for` and takes longer than the knob log_wait_ns is told
 * of in the log meanwhile (op_late.c).
 */
int twi_op_wait_late(struct tow_op *op, uint64_t now_ns, uint64_t until_ns);

static inline int twi_op_wait_until(struct tow_op *op, uint64_t now_ns, uint64_t until_ns)
{
	if (twi_likely(op->ops->waits_for == NULL))
		return twi_engine_wait(op->engine, &op->wait, now_ns, until_ns);
	return twi_op_wait_late(op, now_ns, until_ns);
}

/* A wait for an operation that goes on is over, by `status`. Returns the engine's time. */
uint64_t twi_op_end_in_vain(const struct tow_op *op, uint64_t since_ns, int status);

#endif
