/*
 * inbox.h - the messages of one peer on their way in, whatever lane they come by: which receive
 * each one meets, what is kept while nobody has posted for it, receives that are taken back. The
 * lane brings messages, and moves the bytes of large ones.
 *
 *	small   all of it is there
 *	offer   its bytes are with the sender yet; its row is the lane's
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
 * The engine is held in all of it.
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

/* A message that waits for a receive: one that is kept, or an offer, of which the lane has more. */
struct twi_unexpected {
	union {
		struct twi_match_entry match;
		struct twi_match_message aged; /* the same, in a table that is wild */
	};
	uint64_t seq, bytes;
	struct tow_op *waiter; /* a receive has met one that is still coming: it is in no table */
	bool offered;          /* its bytes are with the sender */
	bool whole;            /* kept: all bytes are here, */
	bool corrupt;          /* and they are not what was sent */
	bool credited;         /* no credit is to be given back for it, or it has been */
};

/* A small message: where the lane has it, if it has all of it. */
struct twi_inbound {
	const uint8_t *payload;
	uint64_t seq, tag, bytes;
	uint32_t sum; /* what its sender has computed, if it is `summed` */
	uint16_t channel;
	uint8_t space;
	bool summed;
};

/* The message that comes in parts: to its receive, or it is kept, or it is dropped. */
struct twi_filling {
	struct tow_op *op;
	struct twi_unexpected *kept;
	uint8_t *at;               /* where its next byte goes; NULL: nowhere */
	uint64_t room;             /* as many go there; the rest is dropped */
	uint64_t seq, bytes, left; /* left 0: there is none */
	uint32_t told, sum;        /* what its sender has computed, what has come so far */
	uint16_t channel;
	uint8_t space;
	bool summed;
};

/* What a lane does for its inbox; what may be NULL says so. */
struct twi_inbox_ops {
	/* Would a view of this offer show the sender's own bytes? NULL: never. */
	bool (*in_place)(const struct twi_unexpected *offer);

	/*
	 * A receive has met an offer, and either has room for it, or is a view in place, or takes
	 * what it has room for (op->truncate) and the lane drops the rest; op->seq is set, and
	 * neither is in a table any more.
	 */
	void (*matched)(struct twi_inbox *inbox, struct tow_op *op, struct twi_unexpected *offer);

	/* A receive that cannot have the offer: that is refused, and the receive ends so. */
	void (*refuse)(struct twi_inbox *inbox, struct tow_op *op, struct twi_unexpected *offer,
		       int status);

	/* An offer that can never be fetched is in no table any more: its row may go. */
	void (*forget)(struct twi_inbox *inbox, struct twi_unexpected *offer);

	/* A receive waits. NULL: nobody wants to know. */
	void (*posted)(struct twi_inbox *inbox, struct tow_op *op);

	/* The sender should be told of the peer's own credit that was given back. */
	void (*credit_due)(struct twi_inbox *inbox);
};

/* The credit is the peer's own; its channels have theirs (channel.h). */
struct twi_inbox {
	struct tow_peer *peer;
	const struct twi_inbox_ops *ops;
	int failed;            /* status that receives get now, or 0 */
	uint64_t claim_above;  /* a receive of more than these bytes needs its memory claimed */
	uint64_t seq_received; /* the number of the last message that came, or was offered */
	struct twi_credit_in credit;
	uint8_t *rule;               /* the lane's: which the peer has broken, 0: none */
	uint64_t kept_bytes;         /* payload */
	struct twi_instant *instant; /* takes what comes, while the lane looks for it; else NULL */
	struct twi_filling filling;
	struct twi_match match;
};

/* It must not be moved from here on. */
void twi_inbox_init(struct twi_inbox *inbox, struct tow_peer *peer, const struct twi_inbox_ops *ops,
		    uint64_t credit_bytes, uint64_t claim_above, uint8_t *rule);

/* Frees what is kept, and forgets offers. */
void twi_inbox_fini(struct twi_inbox *inbox);

/*
 * The peer has gone: receives that wait end so, offers are forgotten. Later receives end so as
 * well, but for messages that are whole. filling.left goes on saying what the lane has to skip.
 */
void twi_inbox_fail(struct twi_inbox *inbox, int status);

/* --- receives --- */

/* Starts one; it may end in here. */
void twi_inbox_recv(struct twi_inbox *inbox, struct tow_op *op);

/* One of any peer takes a message that waits here. False: there is none for it. */
bool twi_inbox_recv_any(struct twi_inbox *inbox, struct tow_op *op);

/*
 * A receive without an operation (op/instant.h) takes what is kept. TOW_OK; TOW_AGAIN: nothing for
 * it is here, and the next that comes may be its own; TOW_EBUSY: it needs an operation.
 */
int twi_inbox_instant(struct twi_inbox *inbox, struct twi_instant *instant);

/* There is room for a view with this tag again, or it has been taken back. */
void twi_inbox_look_again(struct twi_inbox *inbox, uint64_t tag, uint32_t context);

/*
 * A receive that waits for its message ends so; with `force` also one whose message is coming in
 * parts, which is kept then. False: it goes on, or is the lane's.
 */
bool twi_inbox_withdraw(struct twi_inbox *inbox, struct tow_op *op, int status, bool force);

/* What the receive had met is not to be had: it waits for the next message. */
void twi_inbox_repost(struct twi_inbox *inbox, struct tow_op *op);

/* The same for one of any peer that is held here: its channel has ended. */
void twi_inbox_let_go(struct twi_inbox *inbox, struct tow_op *op);

/*
 * A receive ends, which is on no list of the lane's: `bytes` of its message are there, or it is so
 * long. received: a message of `bytes`, of which a truncating receive has what it has room for.
 * corrupt: all of it is there, and is not what was sent.
 */
void twi_inbox_end(struct twi_inbox *inbox, struct tow_op *op, int status, uint64_t bytes);
void twi_inbox_received(struct twi_inbox *inbox, struct tow_op *op, uint64_t bytes);
void twi_inbox_corrupt(struct twi_inbox *inbox, struct tow_op *op, uint64_t bytes);

/*
 * What tow_probe does, for any number of a channel: looks for a message that waits, drives the
 * engine once if there is none, and looks again.
 */
int twi_probe(struct tow_endpoint *endpoint, const struct tow_match *match, struct tow_result *out);

/* --- messages --- */

/*
 * The next message must have the next number, and be of a channel that is open and has credit for
 * it. `cost_bytes`: what of it comes as a small one. TOW_EPROTOCOL: *inbox->rule is set, if it was
 * 0. put_off: the one that was admitted last is brought again.
 */
static inline int twi_inbox_admit(struct twi_inbox *inbox, uint64_t seq, uint32_t cost_bytes,
				  uint8_t space, uint16_t channel);
void twi_inbox_put_off(struct twi_inbox *inbox, const struct twi_inbound *in);

/*
 * A small message, all of it, that was admitted. TOW_OK; TOW_ENOMEM; TOW_EPROTOCOL: it is a control
 * message (channel.h) that says what cannot be; TOW_AGAIN: inbox->instant is to have it, and needs
 * an operation for that. Nothing was done then.
 */
int twi_inbox_small(struct twi_inbox *inbox, const struct twi_inbound *in);

/* A small message that comes in parts begins; no other does. As twi_inbox_small. */
int twi_inbox_begin(struct twi_inbox *inbox, const struct twi_inbound *in);

/* Its next bytes. Returns how many were its own. */
size_t twi_inbox_fill(struct twi_inbox *inbox, const uint8_t *data, size_t bytes);

/* The receive that takes a message of `bytes` now, in no table any more; NULL: it is to wait. */
struct tow_op *twi_inbox_take_posted(struct twi_inbox *inbox, uint64_t tag, uint32_t context,
				     uint64_t bytes);

/* An offer, whose row says its tag, context, seq and bytes, meets a receive taken for it. */
void twi_inbox_meet(struct twi_inbox *inbox, struct tow_op *op, struct twi_unexpected *offer);

/* Puts it where its receive will find it. */
void twi_inbox_wait(struct twi_inbox *inbox, struct twi_unexpected *offer);

/* The receive that had met it is gone: it waits again, in front, and may meet another at once. */
void twi_inbox_put_back(struct twi_inbox *inbox, struct twi_unexpected *offer);

/* One that waits, by its number, or NULL; walks all that wait. */
struct twi_unexpected *twi_inbox_find_offer(const struct twi_inbox *inbox, uint64_t seq);

/* Its sender has taken it back: it waits no longer. The row is the lane's to free. */
void twi_inbox_drop_offer(struct twi_inbox *inbox, struct twi_unexpected *offer);

/* Credit for a message of so much payload on that channel is given back. */
static inline void twi_inbox_give(struct twi_inbox *inbox, uint16_t channel,
				  uint64_t payload_bytes);

/*
 * A channel was closed here: what is kept of it is freed. forget: and at the other side, which has
 * taken its offers back: those that still wait go.
 */
void twi_inbox_drop_channel(struct twi_inbox *inbox, uint16_t channel);
void twi_inbox_forget_channel(struct twi_inbox *inbox, uint16_t channel);

/* Counts a comparison of checksums. */
bool twi_inbox_same_sum(const struct twi_inbox *inbox, uint32_t told, uint32_t sum);

/* --- between inbox.c, inbox_fill.c, inbox_channel.c and instant.c --- */

/* What comes on a channel; was it closed here; a posted receive ends if nothing comes there. */
int twi_inbox_small_on_channel(struct twi_inbox *inbox, const struct twi_inbound *in);
bool twi_inbox_is_dropped(const struct twi_inbox *inbox, uint16_t channel);
bool twi_inbox_is_over(struct twi_inbox *inbox, struct tow_op *op);

/*
 * A message that is in no table, and is to wait: if its channel was closed here no receive takes it
 * any more, one of any peer neither. It waits for the sender to take it back.
 */
void twi_inbox_set_apart(const struct twi_inbox *inbox, struct twi_match_entry *message);

/* admit and give, where the message is a channel's, or breaks a rule. */
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

/*
 * Nobody has posted for it: has inbox->instant to take it? catch: it does. False: nothing was done,
 * it needs an operation.
 */
bool twi_inbox_is_for_instant(struct twi_inbox *inbox, const struct twi_inbound *in);
bool twi_inbox_catch(struct twi_inbox *inbox, const struct twi_inbound *in);

/* A message that is kept. */
struct twi_kept {
	struct twi_unexpected arrival;
	uint8_t data[];
};

/* Room for it, counted. NULL: no memory, or no credit. */
struct twi_kept *twi_inbox_keep(struct twi_inbox *inbox, const struct twi_inbound *in);

/* All of it is here, and `op` takes it; or `op` takes what waits, however it comes. */
void twi_inbox_deliver(struct twi_inbox *inbox, struct tow_op *op, struct twi_kept *parcel);
void twi_inbox_take(struct twi_inbox *inbox, struct tow_op *op, struct twi_unexpected *arrival);

/* TOW_OK: the receive has room for a message of `bytes`, or takes a part; else it has ended. */
int twi_inbox_room(struct twi_inbox *inbox, struct tow_op *op, uint64_t bytes);

/* The message is longer than its receive has room for: TOW_OK where that takes a part. */
int twi_inbox_cut(struct tow_op *op, uint64_t bytes);

/* The receive of the message that is coming is gone: that goes on coming, kept, in front. */
void twi_inbox_leave_filling(struct twi_inbox *inbox, struct tow_op *op);

#endif
