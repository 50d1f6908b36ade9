/*
 * message.h - starts messages from within the library, and receives whose memory the lane finds.
 *
 * A *view* is a receive without a buffer: it completes with op->data at the bytes of the message,
 * wherever they are. A lane that can hand over the sender's own memory (shm) does so. The other
 * lanes take pool memory for the message when they know its length (twi_view_room).
 *
 * The code that sets op->data also sets op->view_release, which is called once, when the user gives
 * the view back. The engine is held then, and the peer may have gone long before. view_release may
 * read op->view_state and op->moved, which a complete receive does not need otherwise. So these
 * members are always passed on together (twi_view_pass).
 */
#ifndef TWI_MESSAGE_H
#define TWI_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "diag/record/site.h"
#include "transport/op/op.h"

struct twi_parts;

/* The operation tables of messages, for rooms that do not use twi_message_start. */
extern const struct twi_op_ops twi_send_ops, twi_recv_ops, twi_view_ops;

/* Asks the lane to end a send or receive (lane.h, abort). True when the operation has completed. */
bool twi_message_abort(struct tow_op *op, int status, bool force);

struct twi_message {
	enum twi_op_kind kind; /* TWI_OP_SEND or TWI_OP_RECV */
	bool view;             /* TWI_OP_RECV; bytes is the longest message that it takes */
	bool lent;             /* TWI_OP_SEND; as TOW_OP_LEND */
	bool awaits_view;      /* lent: it ends when a view that shows it has gone */
	bool waits;            /* TWI_OP_SEND; blocking: a large one needs an operation */
	bool impatient;        /* of a view: it ends if the pool has no room for it */
	uint8_t space;         /* enum twi_space */
	uint16_t channel;      /* of a receive: the channel's number; 0: the options may name one */
	struct tow_op *op;     /* NULL: a row of the table; else this embedded operation */
	void *data;
	uint64_t bytes;
	uint64_t tag;
	struct twi_site site;
	uint64_t parent; /* the span that it is a part of, in traces; 0: none */
};

/*
 * Does what tow_send_start and the like do, and returns their statuses. Callable with the engine
 * held (in a callback) and without.
 */
int twi_message_start(struct tow_peer *peer, const struct twi_message *message,
		      const struct tow_op_options *options, struct tow_op **op_out);

/*
 * The same for a receive of all tags that have the same bits as its tag, where `mask` has a 1. The
 * engine is held, and the peer's table is wild (message/match.h).
 */
int twi_message_start_wild(struct tow_peer *peer, const struct twi_message *message, uint64_t mask,
			   const struct tow_op_options *options, struct tow_op **op_out);

/*
 * The same for a message of parts (parts.h); message->bytes is their sum. With mask NULL it has one
 * tag. After TOW_OK the operation owns the parts, or has freed them; otherwise the caller does.
 */
int twi_message_start_parts(struct tow_peer *peer, const struct twi_message *message,
			    const uint64_t *mask, struct twi_parts *parts,
			    const struct tow_op_options *options, struct tow_op **op_out);

/*
 * The same for a receive of any peer of the endpoint, on message->channel. Its op->peer is NULL
 * until it has met a message. With parts NULL it has one piece of memory, or is a view. The engine
 * is held.
 */
int twi_message_start_any(struct tow_endpoint *endpoint, const struct twi_message *message,
			  uint64_t mask, struct twi_parts *parts,
			  const struct tow_op_options *options, struct tow_op **op_out);

/*
 * The same for a message whose peer is not connected yet. The message waits at the end of `held`,
 * by op->match.link, and op->owner names what it waits for. With mask NULL it has one tag, or is a
 * send. A receive is ordered among the receives of any peer from now on.
 *
 * twi_message_attach: the peer is connected. The message leaves its list, and starts.
 */
int twi_message_hold(struct twi_engine *engine, const struct twi_message *message,
		     const uint64_t *mask, struct twi_parts *parts,
		     const struct tow_op_options *options, struct twi_list *held, void *owner,
		     struct tow_op **op_out);
void twi_message_attach(struct tow_op *op, struct tow_peer *peer);

/* Ends a receive of any peer that has met no message, or a message that is held. */
void twi_message_end_any(struct tow_op *op, int status);

/*
 * Ends an operation with this status after its lane has taken in the data that was under way for
 * it. That data may have ended the operation. It may also have made the operation look at all peers
 * again; then this ends it. True: the operation is over.
 */
bool twi_message_is_over(struct tow_op *op, int status);

/*
 * Gives a view whose message is matched pool memory for its `bytes`, and sets data, bytes and
 * view_release. TOW_OK; TOW_EEXHAUSTED and the like: the operation cannot have its message. The
 * engine is held.
 */
int twi_view_room(struct tow_op *op, uint64_t bytes);

/*
 * Whether a receive can take its message of `bytes` now. A view takes its room here, and
 * twi_view_room finds that room afterwards.
 *
 * False: the caller calls twi_view_hold (message/waiting.h), which puts the view back into the
 * lane's match table, in front and held. The lane queues the message there as if no receive waited
 * for it. From then on the engine looks for room at intervals, and the lane looks again (lane.h).
 * So no message is lost, and the sender waits: for credit, or for the request for its large
 * message. A view that is longer than the pool can become ends with TOW_EEXHAUSTED; its message
 * waits for another receive.
 */
bool twi_view_ready(struct tow_op *op, uint64_t bytes);

/* The part of twi_view_hold beside the match table: the view waits for room for `bytes`. */
void twi_view_wait(struct tow_op *op, uint64_t bytes);

/* An operation that has ended no longer looks for room. */
void twi_view_settled(struct tow_op *op);

/* Moves the view that a complete operation holds to another one, which then gives it back. */
void twi_view_pass(struct tow_op *to, struct tow_op *from);

/* Gives back the view of an operation, if it has one. The engine is held. */
void twi_view_drop(struct tow_op *op);

/* A user's message that has come, or is offered, and that no receive takes (message/waiting.c). */
struct twi_unreceived {
	uint64_t seq, tag, bytes;
	uint16_t channel;
};

/* Writes at most `room` of the peer's such messages. Returns how many. The engine is held. */
uint32_t twi_message_unreceived(const struct tow_peer *peer, struct twi_unreceived *out,
				uint32_t room);

#endif
