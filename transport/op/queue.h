/*
 * queue.h - a queue of completions: a ring of operations that have ended, and one descriptor.
 *
 *	start                 the engine's holder           any threads
 *	  | a place is taken     | ends one                    | take
 *	  v                      v                             v
 *	[started] ----------> slots[tail++] ------------> slots[head++] -> result; the row goes back
 *	                         | empty before: a write        | empty now: a read
 *	                         +----------> eventfd <---------+
 *
 * One thread at a time puts, since it holds the engine; takers move `head` by compare-and-swap and
 * need no engine. What is started and not taken has a place, so nobody ever finds the ring full.
 * The slots were read before `head` moves, so a place is free as soon as it has.
 *
 * The descriptor costs a write and a read each time the ring fills and empties, whatever comes in
 * between. A writer looks whether the ring was emptied meanwhile, and a reader looks whether
 * something has come: so at rest it is readable if and only if there is a result (settle_fd in
 * queue.c).
 *
 * An operation of a queue has the bit TWI_OP_QUEUED until it is taken: it is the queue's to give
 * back.
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
	struct twi_list link; /* of the engine's */
	int fd;               /* an eventfd */
	uint32_t room;        /* slots */
	/* Places taken, ever, and results put: the holder of the engine writes both. */
	_Alignas(64) uint64_t started;
	_Atomic uint64_t tail;
	/* Results taken: any thread. */
	_Alignas(64) _Atomic uint64_t head;
	_Atomic uint32_t
		told; /* the descriptor was written to since it was read last, or will be */
	_Atomic(struct tow_op *) slots[];
};

_Static_assert(offsetof(struct tow_queue, engine) + sizeof(void *) <= TWI_HANDLE_LINE_BYTES,
	       "calls read the engine while the handle may be closed");

/* Whether `queue`, of options of `call`, is open, of this runtime, and `done` is not set, too. */
int twi_queue_check(const struct tow_queue *queue, const struct twi_engine *engine,
		    tow_op_callback done, const char *call);

/*
 * `op`, which was made ready and not started, takes a place; false, with the thread's error
 * TOW_EBUSY: there is none. One whose queue was closed since it was checked is nobody's. The
 * engine is held.
 */
bool twi_queue_join(struct tow_queue *queue, struct tow_op *op);

/* It is not started after all. The engine is held. */
void twi_queue_leave(struct tow_op *op);

/* It has ended. The engine is held. */
void twi_queue_put(struct tow_op *op);

/* The runtime goes, and its queues with it. */
void twi_queues_end(struct twi_engine *engine);

/* --- in op.c --- */

/* Its queue goes: it is forgotten, or goes back if it has ended. The engine is held. */
void twi_op_orphan(struct tow_op *op);

/*
 * The result of one that has ended, whose queue has given it to the calling thread alone. The row
 * goes back, but for one that has something which is the user's until the release: out->op. The
 * engine need not be held.
 */
void twi_op_take(struct tow_op *op, struct tow_result *out);

#endif
