/*
 * outbox.h - the messages of one peer on their way out, whatever lane they go by: their numbers and
 * their order, the credit they use, which of them carry a checksum and which are timed, sends that
 * are taken back. The lane writes them, and moves the bytes of large ones.
 *
 *	              twi_outbox_send
 *	                     |       no credit, or no room
 *	                     +-------------------------------> queued, in order
 *	   ops->small        |        ops->offer                   | twi_outbox_drain
 *	        +------------+------------+ <----------------------+
 *	        v                         v
 *	      ended            OFFERED, found by its number: the lane's, until it ends
 *
 * The engine is held in all of it.
 */
#ifndef TWI_OUTBOX_H
#define TWI_OUTBOX_H

#include "diag/base/checksum.h"
#include "diag/record/diag.h"
#include "diag/record/span.h"
#include "transport/message/credit.h"
#include "transport/op/endpoint.h"
#include "transport/op/op.h"
#include "transport/op/outbound.h"
#include "transport/wire/frame.h"

#define TWI_OUTBOX_BUCKETS   64u
#define TWI_OUTBOX_TIMES_MAX 65536u        /* messages that are timed, and not acknowledged yet */
#define TWI_OUTBOX_SUM_MAX   (64ull << 20) /* sampled up to this: more would take long */
#define TWI_CREDIT_MAX       (1ull << 30)  /* of what a peer grants, this much is used */

struct twi_outbox;
struct twi_emit;

/* What a lane does for its outbox; what may be NULL says so. */
struct twi_outbox_ops {
	/*
	 * Writes a small message, all of which has left out->data then; or the offer of a large
	 * one, whose number is op->seq. False: there is no room now, and nothing was done.
	 */
	bool (*small)(struct twi_outbox *outbox, const struct twi_outbound *out);
	bool (*offer)(struct twi_outbox *outbox, struct tow_op *op);

	/* Does one that is longer than small ones go as they do now? NULL: never. */
	bool (*alone)(struct twi_outbox *outbox, const struct twi_outbound *out);

	/*
	 * A send is queued, or (op NULL) a control message of channels: the lane is to drain when
	 * there is room. NULL: it does without being told.
	 */
	void (*waits)(struct twi_outbox *outbox, struct tow_op *op);

	/* TOW_OK, or why a large message cannot go. NULL: twi_claim_need says it. */
	int (*claim)(struct twi_outbox *outbox, struct tow_op *op);

	/*
	 * As the lane's abort (lane.h), of a send whose stage says that it is offered or further:
	 * the lane ends it with twi_outbox_end.
	 */
	bool (*take_back)(struct twi_outbox *outbox, struct tow_op *op, int status, bool force);

	/* The peer has gone. False: others have the memory of this send, and the lane ends it with
	 * `status` when they let go. NULL: that does not happen. */
	bool (*lost)(struct twi_outbox *outbox, struct tow_op *op, int status);

	/* A send ends that has op->lane_state, which may go. NULL: none has. */
	void (*forget)(struct twi_outbox *outbox, struct tow_op *op);
};

/* Of a small message that is timed: until the other side says that it is there. */
struct twi_outbox_time {
	uint64_t seq, start_ns, queue_ns;
	uint32_t bytes;
	uint8_t space;
};

/* The credit is the peer's own; sends on its channels have theirs, and are queued there. */
struct twi_outbox {
	struct tow_peer *peer;
	const struct twi_outbox_ops *ops;
	int failed;           /* status that sends get now, or 0 */
	bool checksum_all;    /* every message carries a checksum, not one of many */
	bool hears;           /* the other side says what has come: small ones are timed here */
	bool owes_credit;     /* the other side is to be told of credit by a control message */
	uint32_t eager_bytes; /* up to this a message is small */
	uint32_t timed_every_ns;
	uint64_t timed_ns; /* when the last small send that is timed was started */
	uint64_t seq_sent, seq_acked;
	struct twi_credit_out credit;
	uint64_t starved_since_ns; /* sends wait for credit since then; 0: none does */
	uint64_t starved_ns;       /* for how long they did before, all together */
	struct twi_list queued;    /* sends that wait for credit or room, in order */
	struct twi_list by_seq[TWI_OUTBOX_BUCKETS];
	struct twi_outbox_time *times; /* a ring, oldest first */
	uint32_t times_first, times_count, times_room;
};

/* What differs between lanes, and what the other side has said. */
struct twi_outbox_config {
	uint64_t credit_bytes;   /* that the other side has granted */
	uint64_t eager_bytes;    /* what both sides want; the credit may make it less */
	uint32_t timed_every_ns; /* of small messages that come in bursts one in this is timed */
	bool checksum_all, hears;
};

/* It must not be moved from init on. The ops are there before the other side has said anything. */
void twi_outbox_init(struct twi_outbox *outbox, struct tow_peer *peer,
		     const struct twi_outbox_ops *ops);
void twi_outbox_configure(struct twi_outbox *outbox, const struct twi_outbox_config *config);
void twi_outbox_fini(struct twi_outbox *outbox);

/* The peer has gone: what waits or is on its way ends so, and what is started later. */
void twi_outbox_fail(struct twi_outbox *outbox, int status);

/*
 * A small message goes now, or it does not and nothing was done: the peer has gone, others wait,
 * there is no credit or no room, the message is large, or one that is to have a span.
 */
bool twi_outbox_at_once(struct twi_outbox *outbox, struct twi_outbound *out);

/*
 * Starts one; it may end in here. An early one (op.h) began after its start_ns. It gets the time
 * before it is written where that is told to anybody, or it cannot go yet; otherwise behind it,
 * when the other side has the message.
 */
void twi_outbox_send(struct twi_outbox *outbox, struct tow_op *op);

/*
 * Credit or room has come: of what waits so many go, those of the peer and those of each channel in
 * order, and in turns. Control messages go first. Returns how many did.
 */
unsigned twi_outbox_drain(struct twi_outbox *outbox, unsigned most);

/* Does anything wait to be drained, for credit or for room? */
bool twi_outbox_waits(const struct twi_outbox *outbox);

/*
 * Of that the send for which there is credit, so that it goes as soon as there is room, or NULL:
 * there is none. owes: control messages wait for room.
 */
const struct tow_op *twi_outbox_next(const struct twi_outbox *outbox);
bool twi_outbox_owes(const struct twi_outbox *outbox);

/* Sends a control message (channel.h). False: there is no room. */
bool twi_outbox_control(struct twi_outbox *outbox, uint64_t tag);

/* lane.h, abort: of a send. */
bool twi_outbox_abort(struct twi_outbox *outbox, struct tow_op *op, int status, bool force);

/* Is any offered, or on its way? One of them by its number, or NULL. */
bool twi_outbox_has_large(const struct twi_outbox *outbox);
struct tow_op *twi_outbox_find(const struct twi_outbox *outbox, uint64_t seq);

/*
 * A large message has arrived, of which the other side has kept the news for kept_ns: it is counted
 * and timed. match_ns: message_times.h. Its end is another step.
 */
void twi_outbox_arrived(struct twi_outbox *outbox, const struct tow_op *op, uint64_t kept_ns,
			uint64_t match_ns);

/* A send ends. */
void twi_outbox_end(struct twi_outbox *outbox, struct tow_op *op, int status, uint64_t bytes);

/*
 * The other side has all messages up to seq, and has given back so much credit since the start.
 * TOW_EPROTOCOL: *rule is set, if it was 0. The lane drains.
 */
int twi_outbox_acked(struct twi_outbox *outbox, uint64_t seq, uint64_t credit_returned,
		     uint64_t kept_ns, uint8_t *rule);

/* The first that waits, of the peer or of a channel, does so for credit. */
bool twi_outbox_no_credit(const struct twi_outbox *outbox);

/* For how long sends of the peer or of a channel have waited for credit, so far. */
uint64_t twi_outbox_starved_ns(const struct twi_outbox *outbox, uint64_t now_ns);

/* How many wait, up to some. */
uint32_t twi_outbox_waiting(const struct twi_outbox *outbox);

/* --- between outbox.c and outbox_channel.c --- */

/* A send starts on a channel, which is open; drain where there are channels. */
void twi_outbox_send_on_channel(struct twi_outbox *outbox, struct tow_op *op);
unsigned twi_outbox_drain_channels(struct twi_outbox *outbox, unsigned most);

/*
 * A send is counted, and a large one has its memory claimed; it has ended so if `status` is below
 * TOW_OK, or the claim fails: false. put: it goes now; false: there is no credit or no room. queue:
 * it waits there for that.
 */
bool twi_outbox_begin(struct twi_outbox *outbox, struct tow_op *op, int status);
bool twi_outbox_put(struct twi_outbox *outbox, struct twi_credit_out *credit, struct tow_op *op);
void twi_outbox_queue(struct twi_outbox *outbox, struct twi_list *queued, struct tow_op *op);

/* --- what there is to say, and checksums --- */

/* Members of one object of /v1/peers: what is not acknowledged, and the credit. */
void twi_outbox_describe(const struct twi_outbox *outbox, struct twi_emit *emit);

/* Whether message seq carries a checksum: one of many, or all. */
static inline bool twi_outbox_sums(const struct twi_outbox *outbox, uint64_t seq)
{
	return twi_unlikely(outbox->checksum_all) || twi_unlikely(twi_checksum_chosen(seq));
}

/* The checksum of a small message, if it carries one. */
static inline bool twi_outbox_sum(const struct twi_outbox *outbox, const struct twi_outbound *out,
				  uint32_t *sum_out)
{
	if (!twi_outbox_sums(outbox, out->seq))
		return false;
	*sum_out = twi_checksum(0, out->data, out->bytes);
	return true;
}

/*
 * The same of a large one, where the offer carries it: not of what is too long to be summed at
 * once, nor of what cannot be read, of which whoever moves it says what is wrong.
 */
bool twi_outbox_sum_offer(const struct twi_outbox *outbox, const struct tow_op *op,
			  uint32_t *sum_out);

/*
 * Which small messages are timed: all, but of those that come in bursts one in timed_every_ns,
 * where not everything is recorded. To count each costs 3 % of their rate, and more where that is
 * high.
 */
static inline bool twi_outbox_is_due(const struct twi_outbox *outbox,
				     const struct twi_outbound *out)
{
#ifndef TWI_NO_DIAGNOSTICS
	return (twi_unlikely(out->start_ns - outbox->timed_ns >= outbox->timed_every_ns) ||
		twi_unlikely(twi_span_all(outbox->peer->engine->diag))) &&
	       twi_space_counts(out->space);
#else
	(void)outbox, (void)out;
	return false;
#endif
}

/* The same, and the next are timed from this one on. */
static inline bool twi_outbox_times(struct twi_outbox *outbox, const struct twi_outbound *out)
{
	if (!twi_outbox_is_due(outbox, out))
		return false;
	outbox->timed_ns = out->start_ns;
	return true;
}

#endif
