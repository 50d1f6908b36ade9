/*
 * channel.h - the message channels of a peer: rows of messages that have credit and an end of their
 * own, and share the peer's connection and its numbers of messages.
 *
 *	this side opens it     OPEN, credit -->
 *	                                      <-- OPEN, credit: messages may go
 *	messages, CREDIT                     <-->
 *	this side closes it           CLOSE -->   its operations there end with TOW_EPEER
 *	                                      <-- CLOSE, when it is closed there as well, or at once
 *	                                          if nobody has opened it there
 *	                   the number is free again at both sides
 *
 * OPEN, CREDIT and CLOSE are *control messages*: small messages without payload, of the library's
 * own space and of channel TWI_CHANNEL_CONTROL, whose tag says what and of which channel. They come
 * in order with all others, on every lane, and cost no credit, so no channel holds them up. Where a
 * lane has no room for one it waits here, at most one of each kind for each channel.
 *
 * Nothing is sent on a channel before the other side has opened it. So what was sent to it has a
 * place, and what it takes is bounded by its credit.
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
	TWI_CHANNEL_OPEN = 1, /* with its credit */
	TWI_CHANNEL_CREDIT,   /* so much more is given back; also of the peer itself, number 0 */
	TWI_CHANNEL_CLOSE,
	TWI_CHANNEL_KINDS
};

/* What a control message says: its tag, of which the value has the upper 40 bits. */
struct twi_channel_control {
	enum twi_channel_kind kind;
	uint16_t number;
	uint64_t value; /* bytes of credit; CLOSE: 0 */
};

#define TWI_CHANNEL_VALUE_MAX ((1ull << 40) - 1)

uint64_t twi_channel_control_put(const struct twi_channel_control *control);

/* False: no side that keeps to docs/wire.md says that. */
bool twi_channel_control_get(uint64_t tag, struct twi_channel_control *out);

/* What of one channel is still to be said, in this order. */
#define TWI_OWES_REPLY  1u /* the CLOSE that answers one, before anything that is newer */
#define TWI_OWES_OPEN   2u
#define TWI_OWES_CREDIT 4u
#define TWI_OWES_CLOSE  8u

/* One number at one peer, while either side has it open. */
struct twi_channel {
	struct twi_list link;   /* in its bucket */
	struct twi_list owing;  /* on channels->owing: `owes` is not 0 */
	struct twi_list turn;   /* on channels->turns: sends are queued */
	struct twi_list queued; /* they wait for credit or room, in order */
	struct twi_list ending; /* of the engine's part: `ended`, and operations are still to end */
	struct tow_peer *peer;
	struct tow_channel *user; /* open here; else NULL */
	uint16_t number;
	uint8_t owes;
	bool theirs;  /* open at the other side */
	bool ended;   /* the other side has closed it since it was opened here */
	bool closing; /* closed here, and the other side has not said CLOSE since */
	bool leaving; /* being closed here: what is read meanwhile frees no record */
	struct twi_credit_out out;
	struct twi_credit_in in;
};

/* Channels whose numbers fall into it; and the operations in flight on them, oldest first. */
struct twi_channel_bucket {
	struct twi_list channels, ops;
};

/* All of a peer; made with the first. */
struct twi_channels {
	struct twi_channel_bucket *buckets;
	uint32_t bucket_count; /* a power of two */
	uint32_t count, open;  /* all; those that are open here */
	struct twi_list owing, turns;
};

/* Where channels of that number are. */
struct twi_channel_bucket *twi_channel_bucket(const struct twi_channels *channels, uint16_t number);

/* The channel of that number, or NULL. */
struct twi_channel *twi_channel_find(const struct tow_peer *peer, uint16_t number);

/*
 * Opens a channel here: *user is its handle, open. TOW_OK; TOW_EBUSY: it is open, or the other side
 * has not closed it yet; TOW_ENOMEM.
 */
int twi_channel_open(struct tow_peer *peer, struct tow_channel *user);

/* Closes it here: what is in flight on it ends with TOW_ECLOSED. `user` is the caller's again. */
void twi_channel_close(struct tow_channel *user);

/*
 * What tow_channel_open and tow_channel_close do, for any number, with the engine held. `call` is
 * named in messages. drop: the handle goes, too. tell_lane comes behind them, unless a lane is
 * being read, which sends what was said by itself: one that was not asked to send has work now.
 */
int twi_channel_make(struct tow_peer *peer, uint16_t number, const char *call,
		     struct tow_channel **out);
void twi_channel_drop(struct tow_channel *user);
void twi_channel_tell_lane(struct tow_peer *peer, uint16_t number);

/* The other side has it open. */
bool twi_channel_is_theirs(const struct tow_peer *peer, uint16_t number);

/* Calls `each`, which may open that channel, with numbers of groups that they alone have open. */
void twi_channels_each_group(struct tow_peer *peer,
			     void (*each)(struct tow_peer *peer, uint16_t number));

/*
 * A control message has come. TOW_OK; TOW_ENOMEM; TOW_EPROTOCOL: *rule is set, if it was 0. Sends
 * that may go now do.
 */
int twi_channels_received(struct tow_peer *peer, const struct twi_inbound *in, uint8_t *rule);

/* Says what is owed, as far as there is room. Returns how many messages that were. */
unsigned twi_channels_flush(struct tow_peer *peer);

/* The peer's own credit was given back, on a lane that has no other way to say so (credit_due). */
void twi_channels_return_credit(struct tow_peer *peer);

/* May messages of that channel come? Of one that was closed here they come, and are dropped. */
bool twi_channel_is_open(const struct twi_channel *channel);

/*
 * TOW_OK, or with what operations on it end, and the thread's message says why: TOW_ECLOSED, it was
 * closed here; TOW_EPEER, by the other side.
 */
int twi_channel_status(const struct tow_peer *peer, uint16_t number);

/* --- its operations (channel_ops.c) --- */

/* Which of those in flight end: sends; receives; or receives that have met no message. */
enum twi_channel_ending { TWI_END_SENDS, TWI_END_RECEIVES, TWI_END_POSTED };

/*
 * A message of a channel has this peer from now on: it is among the channel's operations until it
 * completes, or is a receive of any peer once more (drop).
 */
void twi_channel_add_op(struct tow_peer *peer, struct tow_op *op);
void twi_channel_drop_op(struct tow_op *op);

/* The peer has another table: these operations go to their buckets there. */
void twi_channel_move_ops(struct twi_list *ops, const struct twi_channels *to);

/* Ends operations of the channel, at the cost of those; the thread's message says why. */
void twi_channel_end_ops(struct tow_peer *peer, uint16_t number, int status,
			 enum twi_channel_ending which);

/* --- the end of the peer --- */

/* The peer has gone: nothing is owed to it any more. */
void twi_channels_fail(struct tow_peer *peer);

/* The user is done with the peer: all handles of its channels are closed. */
void twi_channels_leave(struct tow_peer *peer);

/* Frees all; their operations have ended. */
void twi_channels_fini(struct tow_peer *peer);

/* A member of one object of /v1/peers: how many are open here. */
void twi_channels_describe(const struct tow_peer *peer, struct twi_emit *emit);

#endif
