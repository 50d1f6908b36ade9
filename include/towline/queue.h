/*
 * queue.h - a queue of completions with one descriptor, for threads that hold a lock of their own.
 *
 * Declared so that programs and later versions agree on the shape; this library refuses each call
 * by name with TOW_ENOTSUP (docs/abi.md).
 *
 * An operation that is started with options->queue puts its result there when it completes, and
 * nothing else runs: no callback under the engine, and no thread of the caller's has to wait for
 * one operation in particular. Any thread may sleep on the descriptor and take results.
 */
#ifndef TOWLINE_QUEUE_H
#define TOWLINE_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include <towline/endpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tow_queue;

/*
 * Opens a queue of at most `room` results. An operation needs a free place when it is started, so
 * the queue never overflows: beyond it starts return TOW_EBUSY.
 * Ownership: *queue_out is the caller's until tow_queue_close.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: TOW_ENOTSUP in this version; later TOW_OK, TOW_EINVAL, TOW_ENOMEM, TOW_ESYSTEM,
 * TOW_EFORKED.
 */
int tow_queue_open(struct tow_runtime *runtime, uint32_t room, struct tow_queue **queue_out);

/*
 * A descriptor that polls readable while the queue has a result.
 * Ownership: the queue's, until tow_queue_close.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: TOW_ENOTSUP in this version; later TOW_OK, TOW_EINVAL, TOW_EFORKED.
 */
int tow_queue_fd(struct tow_queue *queue, int *fd_out);

/*
 * Takes at most `room` results, in the order of their completion, and releases their operations.
 * Ownership: results_out is the caller's, the size of each element set by the caller.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: TOW_ENOTSUP in this version; later TOW_OK, TOW_AGAIN when there is none, TOW_EINVAL,
 * TOW_EFORKED; the number in *count_out.
 */
int tow_queue_take(struct tow_queue *queue, struct tow_result *results_out, size_t room,
		   size_t *count_out);

/*
 * Closes a queue. Operations that are to complete there go on, and nobody is told.
 * Ownership: takes the queue.
 * Copies: none.
 * Blocks: never.
 * Threads: any, once.
 * Returns: TOW_ENOTSUP in this version; later TOW_OK, TOW_EINVAL, TOW_EFORKED.
 */
int tow_queue_close(struct tow_queue *queue);

#ifdef __cplusplus
}
#endif
#endif
