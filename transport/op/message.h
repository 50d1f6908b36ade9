/*
 * message.h - starting messages from within the library, and receives whose memory the lane finds.
 *
 * A *view* is a receive without a buffer: it completes with op->data at the message's bytes, where
 * they lie. A lane that can hand over the sender's own memory (shm) does; every other one takes
 * memory of the pool for the message when it knows its length (twi_view_room). Either way the code
 * that sets op->data sets op->view_release, which is called once, when the user gives the view
 * back: the engine is held then, and the peer may have gone long before. It may read op->view_state
 * and op->moved, which a complete receive has no other use for; so all of them pass on together
 * (twi_view_pass).
 */
#ifndef TWI_MESSAGE_H
#define TWI_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "diag/record/site.h"
#include "transport/op/op.h"

struct twi_parts;

/* The tables of messages, for rooms that make operations without twi_message_start. */
extern const struct twi_op_ops twi_send_ops, twi_recv_ops, twi_view_ops;

/* Asks the lane to end a send or receive (lane.h, abort). True when it has completed. */
bool twi_message_abort(struct tow_op *op, int status, bool force);

struct twi_message {
	enum twi_op_kind kind; /* TWI_OP_SEND or TWI_OP_RECV */
	bool view;             /* TWI_OP_RECV; bytes is the longest message that is taken */
	bool lent;             /* TWI_OP_SEND; as TOW_OP_LEND */
	bool waits;        /* TWI_OP_SEND; its start is over when the receiver has a large one */
	bool impatient;    /* of a view: it is to end where the pool has no room for it */
	uint8_t space;     /* enum twi_space */
	uint16_t channel;  /* by its number, of a receive; 0: the options may name one */
	struct tow_op *op; /* NULL: one of the table; else this one, embedded (op.h) */
	void *data;
	uint64_t bytes;
	uint64_t tag;
	struct twi_site site;
	uint64_t parent; /* what it is a part of, in traces; 0: none */
};

/*
 * What tow_send_start and its like do. Callable with the engine held (in a callback) and without.
 * The statuses are theirs; so are the operations'.
 */
int twi_message_start(struct tow_peer *peer, const struct twi_message *message,
		      const struct tow_op_options *options, struct tow_op **op_out);

/*
 * The same for a receive of more than one tag: those of which the bits of `mask` are those of its
 * tag. The engine is held, and the peer's table is wild (message/match.h).
 */
int twi_message_start_wild(struct tow_peer *peer, const struct twi_message *message, uint64_t mask,
			   const struct tow_op_options *options, struct tow_op **op_out);

/*
 * The same for a message of parts (parts.h), whose bytes are the message's; mask NULL: of one tag.
 * After TOW_OK they are the operation's, or have gone; else the caller's still.
 */
int twi_message_start_parts(struct tow_peer *peer, const struct twi_message *message,
			    const uint64_t *mask, struct twi_parts *parts,
			    const struct tow_op_options *options, struct tow_op **op_out);

/*
 * The same for a receive of any peer of the endpoint, of message->channel: its op->peer is NULL
 * until it has met a message. parts NULL: it has one piece of memory, or is a view. The engine is
 * held.
 */
int twi_message_start_any(struct tow_endpoint *endpoint, const struct twi_message *message,
			  uint64_t mask, struct twi_parts *parts,
			  const struct tow_op_options *options, struct tow_op **op_out);

/*
 * The same for a message whose peer is not there yet: it waits at the end of `held`, by
 * op->match.link, with op->owner for who is waited for. mask NULL: it is of one tag, or a send. A
 * receive has its place among those of any peer from now on. attach: the peer is there, the message
 * is in no list any more, and goes.
 */
int twi_message_hold(struct twi_engine *engine, const struct twi_message *message,
		     const uint64_t *mask, struct twi_parts *parts,
		     const struct tow_op_options *options, struct twi_list *held, void *owner,
		     struct tow_op **op_out);
void twi_message_attach(struct tow_op *op, struct tow_peer *peer);

/* Ends a receive of any peer which has met no message, or a message that is held. */
void twi_message_end_any(struct tow_op *op, int status);

/*
 * An operation that is to end so, once its lane has let what was under way come in: that may have
 * ended it, or sent it back to look at all peers, where it ends now. True: it is over.
 */
bool twi_message_is_over(struct tow_op *op, int status);

/*
 * Gives a view whose message has been matched memory of the pool for its `bytes`: sets data, bytes
 * and view_release. TOW_OK; TOW_EEXHAUSTED and the like: the operation cannot have its message. The
 * engine is held.
 */
int twi_view_room(struct tow_op *op, uint64_t bytes);

/*
 * Whether a receive can take its message of `bytes` now: a view takes its room here, which
 * twi_view_room then finds. False: twi_view_hold (message/waiting.h) puts it back into the lane's
 * match table, in front and held, and the lane lets the message queue there as if nobody waited for
 * it. Then the engine looks for room now and then, and the lane looks again (lane.h). So nothing is
 * lost, and the sender waits: for credit, or for its large message to be asked for. One that is
 * longer than the pool can become ends with TOW_EEXHAUSTED; its message waits for another receive.
 */
bool twi_view_ready(struct tow_op *op, uint64_t bytes);

/* It waits for room for a message of `bytes`: what twi_view_hold does beside the match table. */
void twi_view_wait(struct tow_op *op, uint64_t bytes);

/* An operation that has ended looks for room no more. */
void twi_view_settled(struct tow_op *op);

/* What the view of a complete operation holds becomes another's, which then gives it back. */
void twi_view_pass(struct tow_op *to, struct tow_op *from);

/* The view of an operation, if it has one, goes back. The engine is held. */
void twi_view_drop(struct tow_op *op);

/* One of the user's that has come, or is offered, and that no receive takes (message/waiting.c). */
struct twi_unreceived {
	uint64_t seq, tag, bytes;
	uint16_t channel;
};

/* Some of those of the peer, at most `room`. Returns how many. The engine is held. */
uint32_t twi_message_unreceived(const struct tow_peer *peer, struct twi_unreceived *out,
				uint32_t room);

#endif
