/*
 * queue.h - a queue of completions with one descriptor, for threads that hold a lock of their own.
 *
 * An operation that is started with options->queue puts its result there when it completes, and
 * nothing else runs: no callback under the engine, and no thread of the caller's has to wait for
 * one operation in particular. Any thread may sleep on the descriptor and take results. Every start
 * that takes struct tow_op_options, tow_call_options or tow_coll_options knows it.
 *
 *	struct pollfd fd = { .events = POLLIN };
 *	struct tow_result results[16] = { TOW_RESULT_INIT };
 *	size_t count;
 *
 *	for (size_t i = 0; i < 16; i++)
 *		results[i].size = sizeof(results[i]);
 *	tow_queue_open(runtime, 256, &queue);
 *	tow_queue_fd(queue, &fd.fd);
 *	options.queue = queue;
 *	options.user = request;
 *	tow_recv_start(peer, data, bytes, tag, &options, NULL);
 *	while (poll(&fd, 1, -1) == 1)
 *		while (tow_queue_take(queue, results, 16, &count) == TOW_OK)
 *			for (size_t i = 0; i < count; i++) {
 *				finish(results[i].user, &results[i]);
 *				tow_op_release(results[i].op);
 *			}
 *
 * The handle. op_out may be NULL in every such start, since the result comes all the same and
 * `user` says whose it is. A handle is for tow_op_cancel, and for looking, until the result is
 * taken. The operation is its queue's: tow_op_release and tow_view_release refuse it with
 * TOW_EINVAL until then, and taking gives it back. What the user needs longer is left to him in
 * result.op: a view and its bytes, a call (tow_call_result), a failure with its message. It is to
 * be released then; NULL, which tow_op_release takes, where there is nothing. Do not wait for one
 * whose result another thread may take meanwhile.
 *
 * Other options. `done` is refused beside `queue`. With TOW_OP_AT_ONCE an operation that completes
 * in the start is told there: *op_out is NULL, nothing comes by the queue, and it needs no place.
 * Where op_out is NULL nobody could tell, so the flag says nothing there.
 *
 * Who drives. Operations complete while somebody drives the runtime. With the knob `background`,
 * which is its initial value, the library's own thread does where no thread of the caller's does,
 * and one that only sleeps on the descriptor and takes is served. With background=0 it is whoever
 * waits, tests or progresses, and each tow_queue_take that finds nothing: a thread that is to sleep
 * polls the descriptor of tow_fd too, and calls tow_progress when that is readable. Calls that the
 * knob `combine` holds back go when somebody calls tow_flush.
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
 * Opens a queue of at most `room` results, or max_ops if that is less. An operation takes a place
 * when it is started and leaves it when its result is taken, so the queue never overflows: beyond
 * it starts return TOW_EBUSY.
 * Ownership: *queue_out is the caller's until tow_queue_close, at the latest until
 * tow_runtime_close, which closes it; results that were not taken by then are dropped.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: TOW_OK; TOW_EINVAL, also for a room of 0; TOW_ECLOSED; TOW_ENOMEM; TOW_ESYSTEM when the
 * process has no descriptor left; TOW_EFORKED.
 */
int tow_queue_open(struct tow_runtime *runtime, uint32_t room, struct tow_queue **queue_out);

/*
 * A descriptor that polls readable while the queue has a result, for poll, select, epoll and their
 * like, by any number of threads; level-triggered. It is not to be read or written. While another
 * thread takes it may be readable a moment too long: then tow_queue_take says TOW_AGAIN.
 * Ownership: the queue's, until tow_queue_close.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: TOW_OK; TOW_EINVAL; TOW_ECLOSED; TOW_EFORKED.
 */
int tow_queue_fd(struct tow_queue *queue, int *fd_out);

/*
 * Takes at most `room` results, in the order of their completion, and releases their operations
 * but those in result.op (above). Finds it none, and the library has no thread of its own, it
 * drives the runtime once and looks again, as tow_op_test does.
 * Ownership: results_out is the caller's, the size of each element set by the caller, to the same;
 * what stands in result.op is the caller's until tow_op_release.
 * Copies: none; where it drives, as the operations it moves.
 * Blocks: never, but as tow_op_test does where it tells of a failure, or is called in vain again
 * and again.
 * Threads: any number of them; each result goes to one.
 * Returns: TOW_OK, and how many in *count_out; TOW_AGAIN when there is none, and 0; TOW_EINVAL,
 * also for a size of a header whose struct tow_result had no `op`; TOW_ECLOSED; TOW_ENOMEM and
 * TOW_ESYSTEM where it drives; TOW_EFORKED.
 */
int tow_queue_take(struct tow_queue *queue, struct tow_result *results_out, size_t room,
		   size_t *count_out);

/*
 * Closes a queue. Operations that are to complete there go on as if they were released, and nobody
 * is told; results that were not taken are dropped with their views. Whoever must know when their
 * memory is free again cancels and takes first.
 * Ownership: takes the queue, and its descriptor.
 * Copies: none.
 * Blocks: never.
 * Threads: any, once; while others start operations, but not while they take.
 * Returns: TOW_OK; TOW_EINVAL; TOW_ECLOSED when it was closed before, or its runtime was;
 * TOW_EFORKED.
 */
int tow_queue_close(struct tow_queue *queue);

#ifdef __cplusplus
}
#endif
#endif
