/*
 * endpoint.h - endpoints, peers, and asynchronous tagged messages between them.
 *
 *   endpoint   where this process can be reached on one lane
 *   peer       one connection to another endpoint; messages between two peers keep their order
 *   operation  one thing started: a connect, an accept, a send, a receive. It completes exactly
 *              once, with one status, and is given back with tow_op_release.
 *
 * A receive is matched by (peer, tag): the first message with that tag goes to the first receive
 * posted for it. Messages that nobody has posted for yet wait at the receiver, bounded by
 * credit_bytes, beyond which they wait at the sender.
 *
 * Whoever waits drives: the engine runs inside tow_op_test, tow_op_wait and tow_progress; while no
 * thread of the caller's is in one of them, a thread of the library's does it (knob background).
 */
#ifndef TOWLINE_ENDPOINT_H
#define TOWLINE_ENDPOINT_H

#include <stddef.h>
#include <stdint.h>

#include <towline/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tow_endpoint;
struct tow_peer;
struct tow_op;
struct tow_channel;
struct tow_queue;

#define TOW_ADDRESS_MAX 128        /* bytes of an address with its final NUL */
#define TOW_FOREVER     UINT64_MAX /* of a timeout: as long as it takes */

/* How an operation went. */
struct tow_result {
	size_t size;     /* sizeof(struct tow_result) of the caller */
	int status;      /* TOW_OK, TOW_COPIED or a failure */
	uint64_t bytes;  /* payload moved: for a receive the message's length, or what had room */
	uint64_t tag;    /* of the message */
	uint64_t rpc_id; /* the message's id, the same on both sides of one connection; 0: none */
	uint64_t latency_ns;    /* from start to completion on this side */
	struct tow_peer *peer;  /* connect, accept: the new peer; else the operation's; or NULL */
	void *user;             /* of struct tow_op_options */
	const void *data;       /* receive: where the message lies; a view: until its release */
	const char *message;    /* status below TOW_OK: why, until the release; else NULL */
	uint64_t dropped_bytes; /* of the message, for want of room (TOW_OP_TRUNCATE); else 0 */
	struct tow_op *op;      /* of tow_queue_take: still to be released (queue.h); else NULL */
};

/* The initial value of struct tow_result. */
#define TOW_RESULT_INIT                                                                            \
	{                                                                                          \
		TOW_MEMBER(size, sizeof(struct tow_result)), TOW_MEMBER(status, 0),                \
			TOW_MEMBER(bytes, 0), TOW_MEMBER(tag, 0), TOW_MEMBER(rpc_id, 0),           \
			TOW_MEMBER(latency_ns, 0), TOW_MEMBER(peer, NULL), TOW_MEMBER(user, NULL), \
			TOW_MEMBER(data, NULL), TOW_MEMBER(message, NULL),                         \
			TOW_MEMBER(dropped_bytes, 0), TOW_MEMBER(op, NULL)                         \
	}

/*
 * Called once when the operation completes, by whichever thread drives the runtime then: one of the
 * caller's inside a call, or the library's own (knob background; it blocks all signals). Callbacks
 * of one runtime never run at the same time. It may start, test, cancel and release operations; it
 * must not wait and must not close the runtime. It must return: neither longjmp nor an exception of
 * C++ may leave it. `result` has all that tow_op_result would tell: the operation itself is in
 * flight for every call, and every thread, until the callback has returned.
 */
typedef void (*tow_op_callback)(struct tow_op *op, const struct tow_result *result);

/*
 * Flags of struct tow_op_options.
 *
 * TOW_OP_AT_ONCE: the start may find the operation complete: a send of a small message
 * (eager_max_bytes) that goes now, or a receive whose small message is here, if options->result is
 * set. Over tcp a send of up to four times eager_max_bytes, and 64 KiB, may be complete as well,
 * while no other large message is on its way to the peer: it is copied then as a small one is, and
 * its sender is not told if the receiver's buffer is too small. Then *op_out is NULL and the start
 * returns the operation's status, which is not negative; *options->result, if set, is the
 * operation's result, with a latency of 0; there is nothing to wait for or to release, no callback
 * runs, and the memory is the caller's again. That is faster
 * than an operation, and a leave, not an order: the library may give an operation all the same,
 * which is as any other, and leaves *options->result as it is. Without the flag a start that
 * succeeds always gives one. Sends and receives of a peer and of its channels make use of it;
 * receives of any peer, views and other starts do not. A start whose result goes to a queue and
 * which has no op_out does not, either: nobody could tell.
 *
 * TOW_OP_TRUNCATE is for receives; every other start refuses it with TOW_EINVAL. The receive takes
 * what fits of a longer message and drops the rest, instead of ending with TOW_ETRUNCATED: it
 * completes with TOW_OK, result.bytes is what was put into memory, and result.dropped_bytes the
 * rest. Its sender completes as if all of it had been received. The checksum of a large message of
 * which a part is dropped is not compared. A view takes any length, so the flag says nothing there.
 *
 * TOW_OP_LEND is for sends, replies and pieces of a stream; every other start refuses it with
 * TOW_EINVAL. The sender promises that nobody writes to the memory before the receiver is through
 * with it, and not only until the operation completes; it may free the memory at any time. Over
 * shm a view of a large message of pool memory is then the sender's own bytes, and nothing is
 * copied. Without the flag such a view is a copy in the receiver's pool, as it is over the other
 * lanes, where the flag says nothing.
 */
#define TOW_OP_AT_ONCE  1u
#define TOW_OP_TRUNCATE 2u
#define TOW_OP_LEND     4u

/* How to start an operation. NULL in its place means TOW_OP_OPTIONS_INIT. */
struct tow_op_options {
	size_t size;          /* sizeof(struct tow_op_options) of the caller */
	uint64_t timeout_ns;  /* from now; TOW_FOREVER: none. Past it the status is TOW_EDEADLINE */
	tow_op_callback done; /* or NULL */
	void *user;           /* handed back in the result */
	uint64_t flags;       /* a sum of TOW_OP_... */
	struct tow_channel *channel; /* of the peer; NULL: the peer's own (channel.h) */
	struct tow_queue *queue;     /* where the result goes; NULL: nowhere (queue.h) */
	struct tow_result
		*result; /* filled where there is no operation (TOW_OP_AT_ONCE); or NULL */
};

/* The initial value of struct tow_op_options. */
#define TOW_OP_OPTIONS_INIT                                                                        \
	{                                                                                          \
		TOW_MEMBER(size, sizeof(struct tow_op_options)),                                   \
			TOW_MEMBER(timeout_ns, TOW_FOREVER), TOW_MEMBER(done, NULL),               \
			TOW_MEMBER(user, NULL), TOW_MEMBER(flags, 0), TOW_MEMBER(channel, NULL),   \
			TOW_MEMBER(queue, NULL), TOW_MEMBER(result, NULL)                          \
	}

/*
 * Opens an endpoint that can be connected to and can connect. `address` is "tcp://HOST:PORT" (port
 * 0: any free one; an IPv6 host stands in brackets), "shm://NAME" (this host; "*": any free name),
 * "ofi://" or "ofi://PROVIDER" (libfabric), "loop://NAME" (this process only), or "tow://" or
 * "tow://HOST" (every lane that is there; TCP at HOST, else at the interfaces that the knob
 * allows): a connect from such an endpoint to the address of another takes the best lane that both
 * have and that works, and /v1/peers says which and why.
 * Ownership: *endpoint_out is the caller's until tow_endpoint_close.
 * Copies: none.
 * Blocks: while a host name is looked up (not for numbers), with the first endpoint or device while
 * the library's own thread starts, and over shm while other processes open theirs, for 2 s at most.
 * Threads: any.
 * Returns: TOW_OK; TOW_EINVAL for an address of another form; TOW_EBUSY when the address is in use,
 * or another process has locked the directory of the shm lane for 2 s; TOW_ENOMEM; TOW_EPERM;
 * TOW_ESYSTEM; TOW_EFORKED.
 */
int tow_endpoint_open(struct tow_runtime *runtime, const char *address,
		      struct tow_endpoint **endpoint_out);

/*
 * The address that others connect to, with the real port, as text of at most TOW_ADDRESS_MAX bytes.
 * Ownership: address_out is the caller's, of at least address_size bytes.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: TOW_OK; TOW_EINVAL for a NULL argument or a too small address_size.
 */
int tow_endpoint_address(struct tow_endpoint *endpoint, char *address_out, size_t address_size);

/*
 * Closes an endpoint: accepts in flight and receives of any of its peers (match.h) complete with
 * TOW_ECLOSED, its peers stay. Later calls with the endpoint get TOW_ECLOSED, also in the callbacks
 * of those operations (tow_runtime_close says for how long).
 * Ownership: takes the endpoint.
 * Copies: none.
 * Blocks: never.
 * Threads: any, also while others are inside calls with it.
 * Returns: TOW_OK; TOW_EINVAL; TOW_ECLOSED; TOW_EFORKED.
 */
int tow_endpoint_close(struct tow_endpoint *endpoint);

/*
 * Starts to connect to another endpoint. The peer stands in the result; it is ready for messages.
 * Ownership: *op_out is the caller's until tow_op_release; the peer in the result is the caller's
 * until tow_peer_close.
 * Copies: none.
 * Blocks: while a host name is looked up; not for numbers.
 * Threads: any.
 * Returns: TOW_OK when started; TOW_EINVAL; TOW_ECLOSED; TOW_EBUSY when max_ops operations exist,
 * or the process has no descriptor left; TOW_ENOMEM; TOW_ESYSTEM; TOW_EFORKED. The operation ends
 * with TOW_OK, TOW_EREFUSED (nobody listens there, or as many peers as may be wait there to be
 * accepted: try again later; or the knob require of a side does not allow it), TOW_EPEER,
 * TOW_EPROTOCOL, TOW_EDEADLINE (its own or connect_timeout_ns), TOW_EBUSY (as above), TOW_ECANCELED
 * or TOW_ECLOSED.
 */
int tow_connect_start(struct tow_endpoint *endpoint, const char *address,
		      const struct tow_op_options *options, struct tow_op **op_out);

/*
 * Starts to accept one peer. Peers that come while no accept is started wait, up to 64; further
 * ones are refused, and their connects end with TOW_EREFUSED.
 * Ownership, Copies, Threads: as tow_connect_start.
 * Blocks: never.
 * Returns: TOW_OK when started; TOW_EINVAL; TOW_ECLOSED; TOW_EBUSY; TOW_ENOMEM; TOW_EFORKED. The
 * operation ends with TOW_OK, TOW_EDEADLINE, TOW_ECANCELED or TOW_ECLOSED; peers that fail theirs
 * are counted and are not reported here.
 */
int tow_accept_start(struct tow_endpoint *endpoint, const struct tow_op_options *options,
		     struct tow_op **op_out);

/*
 * Closes a peer: operations in flight on it complete with TOW_ECLOSED; over ofi a large send of
 * memory outside the pool does so when the other side has said that it does not read it any more,
 * after a second at the latest. Small messages whose sends are complete already are still delivered
 * when the connection allows it; later calls with the peer get TOW_ECLOSED, also in the callbacks
 * of those operations (tow_runtime_close says for how long).
 * Ownership: takes the peer.
 * Copies: none.
 * Blocks: never.
 * Threads: any, also while others are inside calls with it.
 * Returns: TOW_OK; TOW_EINVAL; TOW_ECLOSED; TOW_EFORKED.
 */
int tow_peer_close(struct tow_peer *peer);

/*
 * Starts to send `bytes` (0 is legal) from `data` with `tag`. Up to eager_max_bytes (with
 * TOW_OP_AT_ONCE sometimes more) the message is copied into the connection's buffer and the
 * operation is complete at once; larger ones are read in place when the receiver has posted for
 * them, and `data` must stay unchanged until completion.
 * Of a larger one whose memory cannot be read (or, at the receiver, written: unmapped, protected,
 * beyond the end of its file) the send and the receive that has met it end with TOW_EFAULT; the
 * message names address and range at the side whose memory it is. A small one is copied by the
 * thread that starts it, or moves it, as memcpy would: there such memory ends the process.
 * Ownership: data stays the caller's; *op_out is the caller's until tow_op_release. op_out may be
 * NULL: then there is nothing to release, and a failure is counted and logged. It is set to NULL
 * where the send was complete at once and TOW_OP_AT_ONCE has allowed that. Memory of the pool may
 * be freed as soon as this has returned.
 * Copies: eager: one, by design. Larger: none in the library, but one through the pool's staging
 * where the lane needs registered memory and this cannot be registered (docs/copies.md).
 * Blocks: while memory that is not registered is pinned, at its first use on a lane where that pays
 * (late_cache_bytes); else never.
 * Threads: any.
 * Returns: TOW_OK when started; TOW_EINVAL; TOW_ECLOSED: the peer was closed, or the runtime is
 * being closed; TOW_EBUSY when max_ops operations exist, or the peer holds back more than
 * peer_lease_bytes of freed memory (earlier sends must end first); TOW_EFORKED. The operation ends
 * with TOW_OK, TOW_EPEER, TOW_ETRUNCATED (the receiver's buffer is too small), TOW_EPROTOCOL,
 * TOW_EDEADLINE, TOW_ECANCELED, TOW_ECLOSED, TOW_EFAULT, TOW_EZEROCOPY (its memory is not
 * registered and require_zero_copy is set) or TOW_EEXHAUSTED (it needs staging, and staging_bytes
 * is 0). Over shm all operations with a peer end with TOW_EBUSY or TOW_ENOMEM when its pool has
 * grown and this process has no descriptor or address space left for that; the connection is over.
 */
int tow_send_start(struct tow_peer *peer, const void *data, uint64_t bytes, uint64_t tag,
		   const struct tow_op_options *options, struct tow_op **op_out);

/*
 * Starts to receive the next message with `tag` into `data`, of room for `bytes`. A shorter message
 * is legal; result.bytes says how long it was. A longer one ends with TOW_ETRUNCATED and is
 * dropped, unless TOW_OP_TRUNCATE is set.
 * Ownership: data stays the caller's, and is the library's to write until completion; *op_out is
 * the caller's until tow_op_release; it may be NULL where options->queue is set, or options->done,
 * and the handle that the callback gets is valid within it alone.
 * Copies: eager: one, by design; two when the message came before. Larger: as tow_send_start.
 * Blocks: as tow_send_start.
 * Threads: any.
 * Returns: as tow_send_start, without the bound of peer_lease_bytes.
 */
int tow_recv_start(struct tow_peer *peer, void *data, uint64_t bytes, uint64_t tag,
		   const struct tow_op_options *options, struct tow_op **op_out);

/*
 * Starts to receive the next message with `tag`, of any length, without a buffer: the result's
 * `data` and `bytes` say where it lies. The bytes are read only, and stay until tow_view_release.
 * Ownership: *op_out and the view are the caller's until tow_view_release (or tow_op_release), at
 * the latest until tow_runtime_close.
 * Copies: on the shm lane none for a large one of pool memory that its sender lends (TOW_OP_LEND),
 * at any size: the bytes are the sender's, whose operation is complete but whose memory stays
 * leased until the release, so that the sender may free it meanwhile. All else is received into
 * memory of the pool: on the shm lane one copy, on the others none for a large message and one for
 * a small one; while the pool has no room for it the operation waits, and so do its sender and what
 * else was started for this tag, until there is room, its deadline or a cancel, which leave the
 * message to the next receive. Where the knob exhaust says so, the pool grows or takes memory
 * outside: when no view has found room for exhaust_wait_ns, and at once for a message that is
 * longer than the pool.
 * Blocks: never; but whoever drives the runtime when the pool grows makes the extent, at about
 * 0.5 ms a MiB.
 * Threads: any.
 * Returns: as tow_recv_start; the operation ends with TOW_EEXHAUSTED where the message is longer
 * than the pool can ever have room for (premap_limit_bytes; with exhaust=wait or fail: as it is),
 * or the peer has failed and the pool has no room; the message is not lost then, either.
 */
int tow_recv_view_start(struct tow_peer *peer, uint64_t tag, const struct tow_op_options *options,
			struct tow_op **op_out);

/*
 * Gives a view back, and its operation with it. NULL is legal and does nothing.
 * Ownership: takes the operation.
 * Copies: none.
 * Blocks: never.
 * Threads: any, once.
 * Returns: TOW_OK; TOW_EINVAL for a handle that is not one in use, or not a view's; TOW_EFORKED.
 */
int tow_view_release(struct tow_op *op);

/*
 * Looks whether an operation has completed, and drives the runtime once if not.
 * Ownership: none passes.
 * Copies: as the operations it moves.
 * Blocks: never, but for at most 100 ms as it tells of a failure, where a group has just broken:
 * until the file of the flight recorder is written (docs/verdict.md; the knob flight_dir). In a
 * loop of calls in vain that does nothing else for 20 us, one may yield the core, or sleep for some
 * 50 us where another program keeps the core busy (docs/performance.md).
 * Threads: any.
 * Returns: TOW_AGAIN while it is in flight; then its status, as often as asked; TOW_EINVAL for
 * NULL; TOW_EFORKED.
 */
int tow_op_test(struct tow_op *op);

/*
 * Waits until an operation has completed, driving the runtime meanwhile, or until timeout_ns from
 * now have passed. Polls for spin_ns, then sleeps. The operation goes on after a timeout of the
 * wait. Of several threads that wait, one drives, and the others sleep until theirs is done.
 * Ownership: none passes.
 * Copies: as the operations it moves.
 * Blocks: until completion or timeout_ns; TOW_FOREVER waits as long as it takes.
 * Threads: any number of them; not from a callback.
 * Returns: the operation's status; TOW_ETIMEDOUT when timeout_ns passed first: the message names
 * the operation (of 2 s and more also why it waits, as far as the other ranks know:
 * docs/verdict.md); TOW_EINVAL for NULL or from a callback; TOW_EFORKED.
 */
int tow_op_wait(struct tow_op *op, uint64_t timeout_ns);

/*
 * Waits until all of `count` operations have completed, or until timeout_ns from now have passed.
 * Entries that are NULL are passed over. The operations stay the caller's, to be released.
 * Ownership: none passes.
 * Copies: as the operations it moves.
 * Blocks: until all have completed, at most timeout_ns; TOW_FOREVER waits as long as it takes.
 * Threads: any; not from a callback.
 * Returns: TOW_OK when all have ended well (TOW_COPIED is); the status of the first one in the
 * array that failed, with its message, when all have ended; TOW_ETIMEDOUT naming one that goes on;
 * TOW_EINVAL for NULL or from a callback; TOW_EFORKED.
 */
int tow_wait_all(struct tow_op *const *ops, size_t count, uint64_t timeout_ns);

/*
 * Waits until one of `count` operations of one runtime has completed, or until timeout_ns from now
 * have passed; *index_out is its place in the array. Entries that are NULL are passed over, so a
 * caller that sets to NULL what it has dealt with gets the others one after another; where several
 * have completed it is the first of them in the array. The operation is still to be released.
 * Ownership: none passes.
 * Copies: as the operations it moves.
 * Blocks: until one has completed, at most timeout_ns; TOW_FOREVER waits as long as it takes. It
 * polls for spin_ns, then sleeps, as tow_op_wait.
 * Threads: any number of them, also with the same operations; not from a callback.
 * Returns: the status of the operation that has completed, with its message if it failed; where
 * *index_out is SIZE_MAX it is the call that has failed: TOW_ETIMEDOUT when timeout_ns passed first
 * (the message is as that of tow_op_wait); TOW_EINVAL where no entry is an operation, for NULL, an
 * operation that was released, operations of two runtimes, or from a callback; TOW_ENOMEM (with
 * more than 32 operations alone); TOW_EFORKED.
 */
int tow_wait_any(struct tow_op *const *ops, size_t count, uint64_t timeout_ns, size_t *index_out);

/*
 * Asks an operation to end early. It then completes with TOW_ECANCELED, unless it has completed or
 * cannot be stopped any more (the payload is on its way), in which case it completes as it would
 * have.
 * Ownership: none passes; the operation is still to be released.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: TOW_OK when asked (when another thread is driving, that one carries it out); TOW_EINVAL;
 * TOW_EFORKED.
 */
int tow_op_cancel(struct tow_op *op);

/*
 * How a completed operation went. A failed one has a message, however many have failed since.
 * Ownership: *result_out is the caller's, its size set by the caller. Its message stays until
 * tow_op_release; that of a callback, for an operation without a handle, until the callback
 * returns.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: TOW_OK; TOW_AGAIN while it is in flight, or its callback runs; TOW_EINVAL; TOW_EFORKED.
 */
int tow_op_result(struct tow_op *op, struct tow_result *result_out);

/*
 * Gives an operation back. One that is in flight goes on, with nobody to ask; its callback still
 * runs. NULL is legal and does nothing. One whose result goes to a queue is the queue's to give
 * back, and refused (queue.h).
 * Ownership: takes the operation.
 * Copies: none.
 * Blocks: never.
 * Threads: any, once.
 * Returns: TOW_OK; TOW_EINVAL for a handle that is not one in use; TOW_EFORKED.
 */
int tow_op_release(struct tow_op *op);

#ifdef __cplusplus
}
#endif
#endif
