/*
 * inbox.h - the incoming messages of one peer, on any lane. It matches them with receives, and
 * keeps those that no receive waits for. The lane brings messages, and moves the bytes of large
 * ones.
 *
 *	small   all of it is there
 *	offer   its bytes are still with the sender; the lane owns its row
 *
 *	   twi_inbox_small           twi_inbox_wait
 *	          |                        |
 *	          +------> match.h <-------+
 *	          |        |     |         |
 *	   posted |        |     |         | posted
 *	          v        v     v         v
 *	     copied,     kept,  waits    ops->matched: the lane fetches it,
 *	     ended      a copy           or twi_inbox_put_back
 *
 * The engine is held in all calls.
 */
#ifndef TWI_INBOX_H
#define TWI_INBOX_H

#include "transport/message/credit.h"
#include "transport/message/match.h"
#include "transport/op/endpoint.h"
#include "transport/op/instant.h"
#include "transport/op/op.h"
#include "transport/wire/frame.h"

struct tow_match;
struct twi_inbox;

/* A message that waits for a receive: a kept one, or an offer, which is part of the lane's row. */
struct twi_unexpected {
	union {
		struct twi_match_entry match;
		struct twi_match_message aged; /* the same, in a table that is wild */
	};
	uint64_t seq, bytes;
	struct tow_op *waiter; /* receive that met it as it came; in no table then */
	bool offered;          /* its bytes are with the sender */
	bool whole;            /* kept: all bytes are here */
	bool corrupt;          /* they differ from what was sent */
	bool credited;         /* its credit was given back, or none is due */
};

/* A small message; the payload lies where the lane has it, if all of it is there. */
struct twi_inbound {
	const uint8_t *payload;
	uint64_t seq, tag, bytes;
	uint32_t sum; /* the sender's checksum, if `summed` */
	uint16_t channel;
	uint8_t space;
	bool summed;
};

/* The message that is coming in parts. Its bytes go to its receive, are kept, or are dropped. */
struct twi_filling {
	struct tow_op *op;
	struct twi_unexpected *kept;
	uint8_t *at;               /* where its next byte goes; NULL: nowhere */
	uint64_t room;             /* how many bytes go there; the rest is dropped */
	uint64_t seq, bytes, left; /* left 0: no message */
	uint32_t sent_sum, sum;    /* checksums: of the sender, of what has come so far */
	uint16_t channel;
	uint8_t space;
	bool summed;
};

/* What a lane does for its inbox. A member may be NULL where its comment says so. */
struct twi_inbox_ops {
	/* Would a view of this offer show the sender's own bytes? NULL: never. */
	bool (*in_place)(const struct twi_unexpected *offer);

	/*
	 * A receive has met an offer. It has room for the message, or is a view in place. Or it
	 * takes what it has room for (op->truncate), and the lane drops the rest. op->seq is set,
	 * and neither is in a table any more.
	 */
	void (*matched)(struct twi_inbox *inbox, struct tow_op *op, struct twi_unexpected *offer);

	/* The receive cannot have the offer: refuses it, and ends the receive with `status`. */
	void (*refuse)(struct twi_inbox *inbox, struct tow_op *op, struct twi_unexpected *offer,
		       int status);

	/* An offer that can never be fetched is in no table any more: the lane may free its row. */
	void (*forget)(struct twi_inbox *inbox, struct twi_unexpected *offer);

	/* A receive waits. NULL: the lane needs no notice. */
	void (*posted)(struct twi_inbox *inbox, struct tow_op *op);

	/* The peer's own credit was given back: the lane should report it to the sender. */
	void (*credit_due)(struct twi_inbox *inbox);
};

/* The credit is the peer's own; its channels have their own (channel.h). */
struct twi_inbox {
	struct tow_peer *peer;
	const struct twi_inbox_ops *ops;
	int failed;            /* status that receives get now, or 0 */
	uint64_t claim_above;  /* a receive of more bytes needs a lease on its memory */
	uint64_t seq_received; /* number of the last message that came or was offered */
	struct twi_credit_in credit;
	uint8_t *rule;               /* the lane's: the rule that the peer broke; 0: none */
	uint64_t kept_bytes;         /* payload of kept messages */
	struct twi_instant *instant; /* takes a message while the lane looks for one; else NULL */
	struct twi_filling filling;
	struct twi_match match;
};

/* The inbox must not be moved from here on. */
void twi_inbox_init(struct twi_inbox *inbox, struct tow_peer *peer, const struct twi_inbox_ops *ops,
		    uint64_t credit_bytes, uint64_t claim_above, uint8_t *rule);

/* Frees kept messages, and forgets offers. */
void twi_inbox_fini(struct twi_inbox *inbox);

/*
 * The peer is lost. Receives that wait end with `status`, also later ones unless a whole message is
 * here for them. Offers are forgotten. filling.left still says what the lane has to skip.
 */
void twi_inbox_fail(struct twi_inbox *inbox, int status);

/* --- receives --- */

/* Starts a receive; it may end in this call. */
void twi_inbox_recv(struct twi_inbox *inbox, struct tow_op *op);

/* A receive of any peer takes a message that waits here. False: there is none for it. */
bool twi_inbox_recv_any(struct twi_inbox *inbox, struct tow_op *op);

/*
 * A receive without an operation (op/instant.h) takes a kept message. TOW_OK; TOW_AGAIN: no message
 * for it is here, and the next that comes may be its own; TOW_EBUSY: it needs an operation.
 */
int twi_inbox_instant(struct twi_inbox *inbox, struct twi_instant *instant);

/* There is room again for a view with this tag, or that view has been taken back. */
void twi_inbox_look_again(struct twi_inbox *inbox, uint64_t tag, uint32_t context);

/*
 * Ends a receive that waits for its message with `status`. With `force`, also one whose message is
 * coming in parts; that is kept then. False: the receive goes on, or the lane has it.
 */
bool twi_inbox_withdraw(struct twi_inbox *inbox, struct tow_op *op, int status, bool force);

/* The receive has lost the message that it had met: it waits for the next one. */
void twi_inbox_repost(struct twi_inbox *inbox, struct tow_op *op);

/* The same for a receive of any peer that is held here: its channel has ended. */
void twi_inbox_let_go(struct twi_inbox *inbox, struct tow_op *op);

/*
 * Ends a receive that is on no list of the lane. end: `bytes` of its message are there, or the
 * message is so long. received: a message of `bytes` is there; a truncating receive has what fits.
 * corrupt: all of the message is there, and differs from what was sent.
 */
void twi_inbox_end(struct twi_inbox *inbox, struct tow_op *op, int status, uint64_t bytes);
void twi_inbox_received(struct twi_inbox *inbox, struct tow_op *op, uint64_t bytes);
void twi_inbox_corrupt(struct twi_inbox *inbox, struct tow_op *op, uint64_t bytes);

/*
 * Does what tow_probe does, for any channel number: looks for a message that waits. If there is
 * none, drives the engine once and looks again.
 */
int twi_probe(struct tow_endpoint *endpoint, const struct tow_match *match, struct tow_result *out);

/* --- messages --- */

/*
 * admit: checks that the next message has the next number, and that its channel is open and has
 * credit for it. `cost_bytes`: how much of it comes as a small message. TOW_EPROTOCOL: *inbox->rule
 * is set, if it was 0. put_off: undoes the last admit, because that message will be brought again.
 */
static inline int twi_inbox_admit(struct twi_inbox *inbox, uint64_t seq, uint32_t cost_bytes,
				  uint8_t space, uint16_t channel);
void twi_inbox_put_off(struct twi_inbox *inbox, const struct twi_inbound *in);

/*
 * Takes a whole small message that was admitted. TOW_OK; TOW_ENOMEM. TOW_EPROTOCOL: it is a control
 * message (channel.h) that breaks the protocol. TOW_AGAIN: inbox->instant is to have it, but needs
 * an operation for that, and nothing was done.
 */
int twi_inbox_small(struct twi_inbox *inbox, const struct twi_inbound *in);

/* Begins a small message that comes in parts; only one comes at a time. As twi_inbox_small. */
int twi_inbox_begin(struct twi_inbox *inbox, const struct twi_inbound *in);

/* Takes the next bytes. Returns how many of them belong to that message. */
size_t twi_inbox_fill(struct twi_inbox *inbox, const uint8_t *data, size_t bytes);

/* Takes the receive for a message of `bytes` out of its table; NULL: the message has to wait. */
struct tow_op *twi_inbox_take_posted(struct twi_inbox *inbox, uint64_t tag, uint32_t context,
				     uint64_t bytes);

/* An offer, whose row has tag, context, seq and bytes, meets a receive that was taken for it. */
void twi_inbox_meet(struct twi_inbox *inbox, struct tow_op *op, struct twi_unexpected *offer);

/* Puts an offer into the table, where its receive will find it. */
void twi_inbox_wait(struct twi_inbox *inbox, struct twi_unexpected *offer);

/* The offer has lost its receive: it waits again, in front, and may meet another one at once. */
void twi_inbox_put_back(struct twi_inbox *inbox, struct twi_unexpected *offer);

/* The offer of that number, if it waits, or NULL. Walks all that wait. */
struct twi_unexpected *twi_inbox_find_offer(const struct twi_inbox *inbox, uint64_t seq);

/* The sender has taken the offer back: it waits no longer. The lane frees the row. */
void twi_inbox_drop_offer(struct twi_inbox *inbox, struct twi_unexpected *offer);

/* Gives back the credit for a message with so much payload on that channel. */
static inline void twi_inbox_give(struct twi_inbox *inbox, uint16_t channel,
				  uint64_t payload_bytes);

/*
 * drop: a channel was closed here, so its kept messages are freed. forget: it was closed at the
 * other side too, which has taken its offers back, so offers that still wait are forgotten.
 */
void twi_inbox_drop_channel(struct twi_inbox *inbox, uint16_t channel);
void twi_inbox_forget_channel(struct twi_inbox *inbox, uint16_t channel);

/* Are the checksums equal? Counts the comparison. */
bool twi_inbox_same_sum(const struct twi_inbox *inbox, uint32_t sent_sum, uint32_t sum);

/* --- between inbox.c, inbox_fill.c, inbox_channel.c and instant.c --- */

/*
 * What comes on a channel. is_dropped: it was closed here. is_over: ends a posted receive if its
 * channel has ended.
 */
int twi_inbox_small_on_channel(struct twi_inbox *inbox, const struct twi_inbound *in);
bool twi_inbox_is_dropped(const struct twi_inbox *inbox, uint16_t channel);
bool twi_inbox_is_over(struct twi_inbox *inbox, struct tow_op *op);

/*
 * For a message in no table that has to wait. If its channel was closed here, no receive takes it
 * any more, not even one of any peer. It waits until the sender takes it back.
 */
void twi_inbox_set_apart(const struct twi_inbox *inbox, struct twi_match_entry *message);

/* admit and give for messages that are on a channel or break a rule. */
int twi_inbox_admit_slowly(struct twi_inbox *inbox, uint64_t seq, uint32_t cost_bytes,
			   uint8_t space, uint16_t channel);
void twi_channel_give(struct tow_peer *peer, uint16_t number, uint64_t payload_bytes);

static inline int twi_inbox_admit(struct twi_inbox *inbox, uint64_t seq, uint32_t cost_bytes,
				  uint8_t space, uint16_t channel)
{
	uint64_t cost = twi_frame_cost(cost_bytes);

	if (twi_unlikely(seq != inbox->seq_received + 1 || channel != 0 ||
			 !twi_credit_allows(&inbox->credit, cost)))
		return twi_inbox_admit_slowly(inbox, seq, cost_bytes, space, channel);
	inbox->credit.charged += cost;
	inbox->seq_received = seq;
	twi_peer_received(inbox->peer, space);
	return TOW_OK;
}

static inline void twi_inbox_give(struct twi_inbox *inbox, uint16_t channel, uint64_t payload_bytes)
{
	struct twi_credit_in *credit = &inbox->credit;

	if (twi_unlikely(channel != 0)) {
		twi_channel_give(inbox->peer, channel, payload_bytes);
		return;
	}
	credit->given += twi_frame_cost((uint32_t)payload_bytes);
	twi_assert_hot(credit->given <= credit->charged);
	if (twi_unlikely(twi_credit_is_due(credit)))
		inbox->ops->credit_due(inbox);
}

/* No receive waits: may inbox->instant take it? catch: it does; false: it needs an operation. */
bool twi_inbox_is_for_instant(struct twi_inbox *inbox, const struct twi_inbound *in);
bool twi_inbox_catch(struct twi_inbox *inbox, const struct twi_inbound *in);

/* A message that is kept. */
struct twi_kept {
	struct twi_unexpected arrival;
	uint8_t data[];
};

/* Makes room for a message, and counts its bytes. NULL: no memory. */
struct twi_kept *twi_inbox_keep(struct twi_inbox *inbox, const struct twi_inbound *in);

/* `op` takes a message. deliver: all of it is here. take: it waits, kept or offered. */
void twi_inbox_deliver(struct twi_inbox *inbox, struct tow_op *op, struct twi_kept *kept);
void twi_inbox_take(struct twi_inbox *inbox, struct tow_op *op, struct twi_unexpected *arrival);

/* TOW_OK: the receive has room for `bytes`, or takes a part of them. Else it has ended. */
int twi_inbox_room(struct twi_inbox *inbox, struct tow_op *op, uint64_t bytes);

/* The message is longer than the receive's room. TOW_OK: the receive takes a part. */
int twi_inbox_cut(struct tow_op *op, uint64_t bytes);

/* The message that is coming has lost its receive: it goes on coming, kept, in front. */
void twi_inbox_leave_filling(struct twi_inbox *inbox, struct tow_op *op);

#endif
