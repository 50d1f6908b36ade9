/*
 * channel.h - the message channels of a peer: streams of messages with credit and an end of their
 * own. They share the peer's connection and its message numbers.
 *
 *	this side opens it     OPEN, credit -->
 *	                                      <-- OPEN, credit: messages may be sent
 *	messages, CREDIT                     <-->
 *	this side closes it           CLOSE -->   its operations there end with TOW_EPEER
 *	                                      <-- CLOSE, when it is closed there as well, or at once
 *	                                          if it is not open there
 *	                   the number is free again at both sides
 *
 * OPEN, CREDIT and CLOSE are *control messages*: small messages without payload, of the library's
 * own space, on channel TWI_CHANNEL_CONTROL. The tag holds the kind, the channel's number and a
 * value. Control messages come in order with all others, on every lane. They cost no credit, so no
 * channel holds them up. When a lane has no room for one, it waits here, at most one of each kind
 * for each channel.
 *
 * Nothing is sent on a channel before the other side has opened it. So each message finds a
 * channel, and its credit limits the memory that its messages take.
 */
#ifndef TWI_CHANNEL_H
#define TWI_CHANNEL_H

#include <internal/list.h>

#include "transport/message/credit.h"
#include "transport/op/channel.h"
#include "transport/op/endpoint.h"

struct twi_emit;
struct twi_inbound;

#define TWI_CHANNEL_CONTROL 65535u /* channel of control messages; the user's are below it */

enum twi_channel_kind {
	TWI_CHANNEL_OPEN = 1, /* opened, with this credit */
	TWI_CHANNEL_CREDIT,   /* so much credit is given back; number 0: the peer's own */
	TWI_CHANNEL_CLOSE,
	TWI_CHANNEL_KINDS
};

/* The content of a control message. The tag holds it, with `value` in the upper 40 bits. */
struct twi_channel_control {
	enum twi_channel_kind kind;
	uint16_t number;
	uint64_t value; /* bytes of credit; CLOSE: 0 */
};

#define TWI_CHANNEL_VALUE_MAX ((1ull << 40) - 1)

uint64_t twi_channel_control_put(const struct twi_channel_control *control);

/* False: this tag breaks the protocol (docs/wire.md). */
bool twi_channel_control_get(uint64_t tag, struct twi_channel_control *out);

/* Control messages of one channel that are still to be sent, in this order. */
#define TWI_OWES_REPLY  1u /* the CLOSE that answers a CLOSE, before anything newer */
#define TWI_OWES_OPEN   2u
#define TWI_OWES_CREDIT 4u
#define TWI_OWES_CLOSE  8u

/* One channel number at one peer, while either side has it open. */
struct twi_channel {
	struct twi_list link;   /* in its bucket */
	struct twi_list owing;  /* in channels->owing while `owes` is not 0 */
	struct twi_list turn;   /* in channels->turns while sends are queued, or were a drain ago */
	struct twi_list queued; /* sends that wait for credit or room, in order */
	struct twi_list ending; /* in the engine's part: `ended`, and operations must still end */
	struct tow_peer *peer;
	struct tow_channel *user; /* the handle while it is open here; else NULL */
	uint16_t number;
	uint8_t owes;
	bool theirs;  /* open at the other side */
	bool ended;   /* the other side has closed it since it was opened here */
	bool closing; /* closed here, and no CLOSE has come since */
	bool leaving; /* twi_channel_close runs: a CLOSE that is read meanwhile frees no record */
	struct twi_credit_out out;
	struct twi_credit_in in;
};

/* One bucket: its channels, and the operations in flight on them, oldest first. */
struct twi_channel_bucket {
	struct twi_list channels, ops;
};

/* All channels of a peer; made with the first one. */
struct twi_channels {
	struct twi_channel_bucket *buckets;
	uint32_t bucket_count; /* a power of two */
	uint32_t count, open;  /* all channels; those that are open here */
	struct twi_list owing, turns;
};

/* The bucket of that number. */
struct twi_channel_bucket *twi_channel_bucket(const struct twi_channels *channels, uint16_t number);

/* The channel of that number, or NULL. */
struct twi_channel *twi_channel_find(const struct tow_peer *peer, uint16_t number);

/*
 * Opens a channel here with the open handle *user. TOW_OK; TOW_EBUSY: it is open already, or the
 * other side has not closed it yet; TOW_ENOMEM.
 */
int twi_channel_open(struct tow_peer *peer, struct tow_channel *user);

/*
 * Closes the channel here: its operations in flight end with TOW_ECLOSED. `user` belongs to the
 * caller again.
 */
void twi_channel_close(struct tow_channel *user);

/*
 * make and drop do what tow_channel_open and tow_channel_close do, for any number, with the engine
 * held. `call` is named in messages. drop also frees the handle.
 *
 * tell_lane must follow each of them: the lane was not asked to send, and has work now. It is not
 * needed while a lane is being read, because that lane then sends by itself.
 */
int twi_channel_make(struct tow_peer *peer, uint16_t number, const char *call,
		     struct tow_channel **out);
void twi_channel_drop(struct tow_channel *user);
void twi_channel_tell_lane(struct tow_peer *peer, uint16_t number);

/* Does the other side have it open? */
bool twi_channel_is_theirs(const struct tow_peer *peer, uint16_t number);

/*
 * Calls `each` with the number of each group channel that only the other side has open. `each` may
 * open that channel.
 */
void twi_channels_each_group(struct tow_peer *peer,
			     void (*each)(struct tow_peer *peer, uint16_t number));

/*
 * Handles a control message that has come. Sends that may go now do. TOW_OK; TOW_ENOMEM;
 * TOW_EPROTOCOL: *rule is set, if it was 0.
 */
int twi_channels_received(struct tow_peer *peer, const struct twi_inbound *in, uint8_t *rule);

/* Sends the control messages that wait, as far as there is room. Returns how many were sent. */
unsigned twi_channels_flush(struct tow_peer *peer);

/*
 * Reports the peer's own credit that was given back, on a lane that has no other way to report it
 * (credit_due).
 */
void twi_channels_return_credit(struct tow_peer *peer);

/*
 * May messages of that channel come? On a channel that was closed here they come, and are dropped.
 */
bool twi_channel_is_open(const struct twi_channel *channel);

/*
 * TOW_OK, or the status with which operations on the channel end; then the thread's message says
 * why. TOW_ECLOSED: it was closed here; TOW_EPEER: the other side has closed it.
 */
int twi_channel_status(const struct tow_peer *peer, uint16_t number);

/* --- its operations (channel_ops.c) --- */

/* Which operations in flight end: sends; receives; or receives that have met no message. */
enum twi_channel_ending { TWI_END_SENDS, TWI_END_RECEIVES, TWI_END_POSTED };

/*
 * add: a message of a channel has this peer from now on. It stays among the channel's operations
 * until it completes. drop: it leaves them, because it is a receive of any peer again.
 */
void twi_channel_add_op(struct tow_peer *peer, struct tow_op *op);
void twi_channel_drop_op(struct tow_op *op);

/* Moves the operations to their buckets in another table of the peer. */
void twi_channel_move_ops(struct twi_list *ops, const struct twi_channels *to);

/*
 * Ends operations of the channel. The cost depends on their number alone. The thread's message says
 * why.
 */
void twi_channel_end_ops(struct tow_peer *peer, uint16_t number, int status,
			 enum twi_channel_ending which);

/* --- the end of the peer --- */

/* The peer is lost: no control message waits for it any more. */
void twi_channels_fail(struct tow_peer *peer);

/* The user has closed the peer: all handles of its channels are closed. */
void twi_channels_leave(struct tow_peer *peer);

/* Frees all channels; their operations have ended. */
void twi_channels_fini(struct tow_peer *peer);

/* A member of one object of /v1/peers: how many channels are open here. */
void twi_channels_describe(const struct tow_peer *peer, struct twi_emit *emit);

#endif
