/*
 * queue.h - a queue of completions: a ring of operations that have ended, and one descriptor.
 *
 *	start                 the engine's holder           any threads
 *	  | a slot is reserved   | ends one                    | take
 *	  v                      v                             v
 *	[started] ----------> slots[tail++] ------------> slots[head++] -> result; the row is freed
 *	                         | empty before: a write        | empty now: a read
 *	                         +----------> eventfd <---------+
 *
 * Only the holder of the engine puts, so puts do not race. Takers move `head` by compare-and-swap
 * and need no engine. Each operation that is started and not taken has a slot, so the ring is never
 * found full. Takers read the slots before they move `head`, so a slot is free as soon as `head`
 * has moved.
 *
 * The descriptor costs one write and one read each time the ring fills and empties, for any number
 * of results in between. A writer checks whether the ring was emptied meanwhile, and a reader
 * checks whether a result has come. So at rest the descriptor is readable if and only if there is a
 * result (update_fd in queue.c).
 *
 * An operation of a queue has the bit TWI_OP_QUEUED until it is taken. Until then only the queue
 * may free it.
 */
#ifndef TWI_OP_QUEUE_H
#define TWI_OP_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <internal/list.h>
#include <towline/queue.h>

#include "transport/engine/handle.h"

struct twi_engine;

struct tow_queue {
	struct twi_handle handle;
	struct twi_engine *engine;
	struct twi_list link; /* on the engine's list */
	int fd;               /* an eventfd */
	uint32_t room;        /* slots */
	/* Slots reserved, and results put, since the open: the holder of the engine writes both. */
	_Alignas(64) uint64_t started;
	_Atomic uint64_t tail;
	/* Results taken since the open: any thread writes it. */
	_Alignas(64) _Atomic uint64_t head;
	_Atomic uint32_t
		told; /* the descriptor was written to since it was read last, or will be */
	_Atomic(struct tow_op *) slots[];
};

_Static_assert(offsetof(struct tow_queue, engine) + sizeof(void *) <= TWI_HANDLE_LINE_BYTES,
	       "calls read the engine while the handle may be closed");

/* Whether `queue`, of the options of `call`, is open and of this runtime, and `done` is NULL. */
int twi_queue_check(const struct tow_queue *queue, const struct twi_engine *engine,
		    tow_op_callback done, const char *call);

/*
 * Reserves a slot for `op`, which is ready and not started. False, with the thread's error
 * TOW_EBUSY: there is none. If the queue was closed since it was checked, `op` is forgotten. The
 * engine is held.
 */
bool twi_queue_join(struct tow_queue *queue, struct tow_op *op);

/* Gives the slot back: the operation is not started after all. The engine is held. */
void twi_queue_leave(struct tow_op *op);

/* Puts an operation that has ended. The engine is held. */
void twi_queue_put(struct tow_op *op);

/* Closes all queues when the runtime closes. */
void twi_queues_end(struct twi_engine *engine);

/* --- in op.c --- */

/* The operation's queue closes: forgets the operation, or frees it if it has ended. Engine held. */
void twi_op_orphan(struct tow_op *op);

/*
 * Writes the result of an operation that has ended, which its queue has given to the calling thread
 * alone, and frees the row. If the user must still release something, the row is kept, and
 * out->op is its handle. The engine need not be held.
 */
void twi_op_take(struct tow_op *op, struct tow_result *out);

#endif
