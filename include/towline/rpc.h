/*
 * rpc.h - calls: a request to a method of the peer, and its answer.
 *
 *	client                               server
 *	  tow_call_start -- request -->        handler(call)       in a thread that drives
 *	        |                                |   answers now, or keeps `call` and answers later
 *	   operation ends <-- response --      tow_reply_start     from any thread
 *
 * Calls go both ways on one peer and share its lane with messages; their tags are apart. A body up
 * to eager_max_bytes goes with its header through the connection's buffer. A larger one is read in
 * place from the memory it was started with, straight into memory of the other side's pool (a
 * request; a response that is taken as a view) or into the caller's buffer (a response).
 *
 * Deadlines travel: the server sees how long the client will wait. A call that is canceled or past
 * its deadline ends on the client when no lane uses its memory any more, which is at once on most
 * (docs/rpc.md, "Calls that end early"). The server is told; what it answers is dropped.
 *
 * Bounds. A runtime has up to 512 calls at once as a client and as many as a server (fewer where
 * eager_max_bytes is above 64 KiB). To one peer TOW_CALL_WINDOW are on their way; further ones wait
 * at the client, in order (that is the queue part of their latency). Beyond the limits of a method,
 * and when its table is full, a server answers TOW_EBUSY without having read the body.
 *
 * Streams: a call that is started with TOW_CALL_STREAM has a stream of pieces in each direction
 * beside request and response, for bodies too large or too early to be there in one piece.
 *
 * /v1/rpc has the latencies by method and peer, in four parts: queue (started to on the wire), wire
 * (there and back without the server), match (arrived to handler begun), serve (begun to answered).
 */
#ifndef TOWLINE_RPC_H
#define TOWLINE_RPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <towline/endpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tow_call_in; /* a call that this side serves, from its handler to its answer */
struct tow_stream;  /* the pieces of one call, both directions */

#define TOW_METHODS_MAX     64  /* of one runtime */
#define TOW_METHOD_NAME_MAX 64  /* bytes of a name with its final NUL */
#define TOW_CALL_TEXT_MAX   128 /* bytes of the text of a failure with its final NUL */
#define TOW_CALL_WINDOW     128 /* calls on their way to one peer */

/*
 * Serves one call. It runs inside a call of some thread that drives the runtime, so it must not
 * wait and should be short: what takes time keeps `call` and answers from another thread. It must
 * answer each call once.
 */
typedef void (*tow_method_handler)(struct tow_call_in *call, void *user);

/* How a method is served. NULL in its place means TOW_METHOD_OPTIONS_INIT. */
struct tow_method_options {
	size_t size;                /* sizeof(struct tow_method_options) of the caller */
	uint32_t in_service;        /* calls at once, of all peers; 0: as many as there can be */
	uint32_t in_service_peer;   /* of one peer; 0: TOW_CALL_WINDOW */
	uint64_t request_bytes_max; /* a longer request is answered with TOW_EINVAL */
	uint64_t held_bytes_max;    /* of the pool, for requests of all peers; beyond: TOW_EBUSY */
};

/* The initial value of struct tow_method_options. */
#define TOW_METHOD_OPTIONS_INIT                                                                    \
	{                                                                                          \
		TOW_MEMBER(size, sizeof(struct tow_method_options)), TOW_MEMBER(in_service, 0),    \
			TOW_MEMBER(in_service_peer, 0),                                            \
			TOW_MEMBER(request_bytes_max, (uint64_t)1 << 30),                          \
			TOW_MEMBER(held_bytes_max, UINT64_MAX)                                     \
	}

/*
 * Makes a method callable by every peer of the runtime. On the wire a name is its 64-bit hash.
 * Ownership: name and options are copied; user stays the caller's, until tow_method_deregister has
 * returned and every call of the method is answered.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: TOW_OK; TOW_EINVAL for a NULL argument or a name that is empty, has other than printable
 * ASCII or is longer than TOW_METHOD_NAME_MAX - 1; TOW_EBUSY for a name that is registered, that
 * has the hash of one that is, or where there are TOW_METHODS_MAX; TOW_ENOMEM; TOW_EFORKED.
 */
int tow_method_register(struct tow_runtime *runtime, const char *name, tow_method_handler handler,
			void *user, const struct tow_method_options *options);

/*
 * Ends a method: later calls get TOW_ENOTSUP; those in service go on, with their handles.
 * Ownership: none passes.
 * Copies: none.
 * Blocks: while another thread runs a handler.
 * Threads: any.
 * Returns: TOW_OK; TOW_EINVAL when there is none of that name; TOW_EFORKED.
 */
int tow_method_deregister(struct tow_runtime *runtime, const char *name);

/* Flags of struct tow_call_options. */
#define TOW_CALL_VIEW   1u /* the response is taken as a view: tow_result.data until the release */
#define TOW_CALL_STREAM 2u /* with a stream */
/*
 * The caller does not write to the request while a handler may look at it, even if the call ends
 * early, at its deadline or by tow_op_cancel. It may free it.
 */
#define TOW_CALL_LEND 4u

/* How to start a call. NULL in its place means TOW_CALL_OPTIONS_INIT. */
struct tow_call_options {
	size_t size;          /* sizeof(struct tow_call_options) of the caller */
	uint64_t timeout_ns;  /* from now; TOW_FOREVER: none */
	tow_op_callback done; /* or NULL */
	void *user;           /* handed back in the result */
	uint32_t flags;
	struct tow_queue *queue; /* where the result goes; NULL: nowhere (queue.h) */
};

/* The initial value of struct tow_call_options. */
#define TOW_CALL_OPTIONS_INIT                                                                      \
	{                                                                                          \
		TOW_MEMBER(size, sizeof(struct tow_call_options)),                                 \
			TOW_MEMBER(timeout_ns, TOW_FOREVER), TOW_MEMBER(done, NULL),               \
			TOW_MEMBER(user, NULL), TOW_MEMBER(flags, 0), TOW_MEMBER(queue, NULL)      \
	}

/* How a call went. Times that are not known are 0, one_way_error_ns is then UINT64_MAX. */
struct tow_call_result {
	size_t size;                  /* sizeof(struct tow_call_result) of the caller */
	int status;                   /* of the call, as below */
	int32_t code;                 /* TOW_EREMOTE: what the handler said */
	char text[TOW_CALL_TEXT_MAX]; /* TOW_EREMOTE: likewise; other failures of the server: why */
	uint64_t bytes;               /* of the response */
	const void *data;             /* where it lies */
	uint64_t total_ns;
	uint64_t queue_ns; /* started to on the wire */
	uint64_t wire_ns;  /* there and back, without all that the server took; bodies included */
	uint64_t match_ns; /* arrived to handler begun */
	uint64_t serve_ns; /* handler begun to answered */
	/*
	 * The two parts of wire_ns by both clocks; each is within one_way_error_ns of the truth,
	 * that of the request but for what server_queue_ns is wrong by.
	 */
	int64_t request_one_way_ns, response_one_way_ns;
	uint64_t one_way_error_ns;
	/*
	 * The request was at the server, whose thread was in other handlers or elsewhere and did
	 * not read it: part of neither wire_ns nor match_ns. An estimate (docs/rpc.md); 0 from a
	 * server that does not tell.
	 */
	uint64_t server_queue_ns;
};

/* The initial value of struct tow_call_result. */
#define TOW_CALL_RESULT_INIT                                                                       \
	{                                                                                          \
		TOW_MEMBER(size, sizeof(struct tow_call_result)), TOW_MEMBER(status, 0),           \
			TOW_MEMBER(code, 0), TOW_MEMBER(text, ""), TOW_MEMBER(bytes, 0),           \
			TOW_MEMBER(data, NULL), TOW_MEMBER(total_ns, 0), TOW_MEMBER(queue_ns, 0),  \
			TOW_MEMBER(wire_ns, 0), TOW_MEMBER(match_ns, 0), TOW_MEMBER(serve_ns, 0),  \
			TOW_MEMBER(request_one_way_ns, 0), TOW_MEMBER(response_one_way_ns, 0),     \
			TOW_MEMBER(one_way_error_ns, 0), TOW_MEMBER(server_queue_ns, 0)            \
	}

/*
 * Starts a call of `method` at the peer. The response goes to `response`, of room for
 * `response_bytes`, or with TOW_CALL_VIEW to where the lane has it. The operation ends when the
 * response is there: tow_result has its bytes, tow_call_result everything.
 * Ownership: request stays the caller's, unchanged until completion (up to eager_max_bytes: until
 * this returns); response is the library's to write until completion; *op_out is the caller's until
 * tow_op_release, which also ends a view. Over shm a handler reads a large request of pool memory
 * in place if the call has no deadline or is started with TOW_CALL_LEND. Canceled without that
 * flag, it ends when the handler has answered.
 * Copies: up to eager_max_bytes two of the request, one of a response into a buffer; larger: as
 * tow_send_start and tow_recv_start, and over shm one more of a request of pool memory whose call
 * has a deadline and no TOW_CALL_LEND.
 * Blocks: as tow_send_start.
 * Threads: any.
 * Returns: TOW_OK when started; TOW_EINVAL; TOW_EBUSY when as many calls exist as the runtime can
 * have, or max_ops operations, or as tow_send_start; TOW_ENOMEM; TOW_ENOTSUP for a peer to which
 * there is no link; TOW_EFORKED. The operation ends with TOW_OK; TOW_EREMOTE (the handler failed);
 * TOW_ENOTSUP (no such method); TOW_EBUSY, TOW_EINVAL, TOW_EEXHAUSTED (the server could not take
 * it; the text says why); TOW_EREFUSED (the other side has no memory for calls); TOW_ETRUNCATED
 * (the response is longer than response_bytes); TOW_EDEADLINE; TOW_ECANCELED (tow_op_cancel; or the
 * server's reply was); TOW_EPEER; TOW_ECLOSED; TOW_EPROTOCOL.
 */
int tow_call_start(struct tow_peer *peer, const char *method, const void *request,
		   uint64_t request_bytes, void *response, uint64_t response_bytes,
		   const struct tow_call_options *options, struct tow_op **op_out);

/*
 * tow_call_start, tow_op_wait and tow_call_result in one, with a response into a buffer.
 * *result_out may be NULL.
 * Ownership: nothing is kept.
 * Copies: as tow_call_start with a deadline of timeout_ns.
 * Blocks: until the call has ended, at most timeout_ns.
 * Threads: any; not from a callback or handler.
 * Returns: as tow_call_start, or how the call ended.
 */
int tow_call(struct tow_peer *peer, const char *method, const void *request, uint64_t request_bytes,
	     void *response, uint64_t response_bytes, uint64_t timeout_ns,
	     struct tow_call_result *result_out);

/*
 * How a call that has ended went. Also from its completion callback.
 * Ownership: *result_out is the caller's, its size set by the caller; data as in tow_call_start.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: TOW_OK; TOW_AGAIN while it is in flight; TOW_EINVAL for an operation that is no call;
 * TOW_EFORKED.
 */
int tow_call_result(struct tow_op *op, struct tow_call_result *result_out);

/*
 * The request of a call in service.
 * Ownership: the library's, unchanged until the call is answered and readable until the reply has
 * completed.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: the bytes, or NULL for a request of none; their number in *bytes_out.
 */
const void *tow_call_request(const struct tow_call_in *call, uint64_t *bytes_out);

/*
 * The peer that calls.
 * Ownership: the peer's owner's.
 * Copies: none.
 * Blocks: never.
 * Threads: any, while the peer is not closed.
 * Returns: the peer; NULL when it has gone.
 */
struct tow_peer *tow_call_peer(const struct tow_call_in *call);

/*
 * How long the client still waits, reckoned from the arrival of its request.
 * Ownership: none.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: nanoseconds; 0 when it does not wait any more; TOW_FOREVER when it has no deadline.
 */
uint64_t tow_call_remaining_ns(const struct tow_call_in *call);

/*
 * Whether nobody wants the answer any more: canceled, past its deadline, or the peer has gone. It
 * must be answered all the same, with anything.
 * Ownership: none.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 */
bool tow_call_canceled(const struct tow_call_in *call);

/*
 * Answers a call, once. code 0: the response is `bytes` at `data`. Another code: the call has
 * failed; data is a text for people, of which TOW_CALL_TEXT_MAX - 1 bytes are sent. With op_out
 * NULL the operation is given back by itself when it ends.
 * Ownership: takes the call when started; data stays the caller's, unchanged until completion (up
 * to eager_max_bytes, and a text: until this returns); memory of the pool may be freed at once.
 * Copies: up to eager_max_bytes: two; larger: as tow_send_start, and one more where a client views
 * it over shm and options->flags has no TOW_OP_LEND.
 * Blocks: as tow_send_start.
 * Threads: any, also from the handler.
 * Returns: TOW_OK when started; then the call's handle, its request and stream end with the
 * operation. Else the call is as before: TOW_EINVAL, also for a call that was answered; TOW_EBUSY
 * as tow_send_start; TOW_EFORKED. The operation ends with TOW_OK (the client has all of it, or it
 * is in the connection's buffer); TOW_ECANCELED (nobody wants it any more); TOW_EDEADLINE;
 * TOW_EPEER; TOW_ECLOSED.
 */
int tow_reply_start(struct tow_call_in *call, int32_t code, const void *data, uint64_t bytes,
		    const struct tow_op_options *options, struct tow_op **op_out);

/*
 * The stream of a call that was started with TOW_CALL_STREAM: on the client from its operation, on
 * the server from the call in service.
 * Ownership: the call's: on the client until tow_op_release, on the server until the reply has
 * completed.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: the stream, NULL for a call without.
 */
struct tow_stream *tow_call_stream(struct tow_op *op);

/*
 * The stream of a call that this side serves; tow_call_stream is for the client.
 * Ownership: the call's, until the reply has completed.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: the stream, NULL for a call without.
 */
struct tow_stream *tow_call_in_stream(struct tow_call_in *call);

/*
 * Starts to give the next piece to the other side. Pieces arrive in the order in which they were
 * started. At most 8 are with the other side and not yet taken; further ones wait here, and a piece
 * above eager_max_bytes is read only when the other side pulls it: so a slow reader slows the
 * writer down, and neither needs memory for it.
 * Ownership: data stays the caller's, unchanged until completion.
 * Copies: as tow_call_start, and one more where the other side views it over shm and
 * options->flags has no TOW_OP_LEND.
 * Blocks: as tow_send_start.
 * Threads: any.
 * Returns: TOW_OK when started; TOW_EINVAL for 0 bytes or after tow_stream_end; TOW_EBUSY;
 * TOW_EFORKED. The operation ends with TOW_OK; TOW_ECLOSED when the call has ended before; else as
 * the call did; a piece that is canceled or past its deadline when it is on its way ends the call
 * with the same status.
 */
int tow_stream_push_start(struct tow_stream *stream, const void *data, uint64_t bytes,
			  const struct tow_op_options *options, struct tow_op **op_out);

/*
 * Starts to take the next piece into `data`, of room for `bytes`; with data NULL as a view, in
 * tow_result.data until tow_op_release. tow_result.bytes is its length; 0: the other side has ended
 * its direction, and no piece comes any more. A piece that is too long ends with TOW_ETRUNCATED and
 * is dropped.
 * Ownership, Copies, Blocks: as tow_recv_start.
 * Threads: any; pieces go to pulls in the order in which these were started, but a small one may be
 * there before a large one ahead of it.
 * Returns: TOW_OK when started; TOW_EINVAL; TOW_EBUSY; TOW_EFORKED. The operation ends as that of
 * tow_stream_push_start.
 */
int tow_stream_pull_start(struct tow_stream *stream, void *data, uint64_t bytes,
			  const struct tow_op_options *options, struct tow_op **op_out);

/*
 * Says that no piece follows in this direction, behind those that were started. A reply says it,
 * too.
 * Ownership: none passes.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: TOW_OK, also when it was said before; TOW_EINVAL for NULL; TOW_EFORKED.
 */
int tow_stream_end(struct tow_stream *stream);

/*
 * Breaks both directions off: the call ends with TOW_ECANCELED on both sides. The server must still
 * answer it.
 * Ownership: none passes.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: TOW_OK, also when it had ended; TOW_EINVAL for NULL; TOW_EFORKED.
 */
int tow_stream_abort(struct tow_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
