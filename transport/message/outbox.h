/*
 * outbox.h - the outgoing messages of one peer, on any lane. It numbers them, keeps their order,
 * accounts their credit, chooses which carry a checksum or are timed, and takes sends back. The
 * lane writes them, and moves the bytes of large ones.
 *
 *	              twi_outbox_send
 *	                     |       no credit, or no room
 *	                     +-------------------------------> queued, in order
 *	   ops->small        |        ops->offer                   | twi_outbox_drain
 *	        +------------+------------+ <----------------------+
 *	        v                         v
 *	      ended            OFFERED, found by its number: the lane's, until it ends
 *
 * The engine is held in all calls.
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
#define TWI_OUTBOX_TIMES_MAX 65536u        /* timed messages without an acknowledgement yet */
#define TWI_OUTBOX_SUM_MAX   (64ull << 20) /* limit of sampled checksums: more would take long */
#define TWI_CREDIT_MAX       (1ull << 30)  /* most that is used of the credit that a peer grants */

struct twi_outbox;
struct twi_emit;

/* What a lane does for its outbox. A member may be NULL where its comment says so. */
struct twi_outbox_ops {
	/*
	 * small: writes a small message; then all of it has left out->data. offer: writes the offer
	 * of a large message, whose number is op->seq. False: there is no room now, and nothing was
	 * done.
	 */
	bool (*small)(struct twi_outbox *outbox, const struct twi_outbound *out);
	bool (*offer)(struct twi_outbox *outbox, struct tow_op *op);

	/* May a message above eager_bytes go as a small one now? NULL: never. */
	bool (*alone)(struct twi_outbox *outbox, const struct twi_outbound *out);

	/*
	 * A send is queued, or (op NULL) a control message of channels: the lane is to drain when
	 * there is room. NULL: the lane drains without this notice.
	 */
	void (*waits)(struct twi_outbox *outbox, struct tow_op *op);

	/* TOW_OK, or why a large message cannot go. NULL: twi_claim_need decides. */
	int (*claim)(struct twi_outbox *outbox, struct tow_op *op);

	/*
	 * As the lane's abort (lane.h), for a send that is offered or further by its stage. The
	 * lane ends it with twi_outbox_end.
	 */
	bool (*take_back)(struct twi_outbox *outbox, struct tow_op *op, int status, bool force);

	/*
	 * The peer is lost. False: others use the memory of this send, and the lane ends it with
	 * `status` when they let go. NULL: that does not happen.
	 */
	bool (*lost)(struct twi_outbox *outbox, struct tow_op *op, int status);

	/* A send with op->lane_state ends: frees that state. NULL: no send has one. */
	void (*forget)(struct twi_outbox *outbox, struct tow_op *op);
};

/* A small message that is timed, until the other side acknowledges it. */
struct twi_outbox_time {
	uint64_t seq, start_ns, queue_ns;
	uint32_t bytes;
	uint8_t space;
};

/* The credit is the peer's own. Sends on its channels use theirs, and are queued there. */
struct twi_outbox {
	struct tow_peer *peer;
	const struct twi_outbox_ops *ops;
	int failed;           /* status that sends get now, or 0 */
	bool checksum_all;    /* every message carries a checksum, not one of many */
	bool hears;           /* the other side acknowledges: small messages are timed here */
	bool owes_credit;     /* a control message has to report credit to the other side */
	uint32_t eager_bytes; /* a message up to this size is small */
	uint32_t timed_every_ns;
	uint64_t timed_ns; /* when the last timed small send was started */
	uint64_t seq_sent, seq_acked;
	struct twi_credit_out credit;
	uint64_t starved_since_ns; /* sends wait for credit since then; 0: none does */
	uint64_t starved_ns;       /* total time of earlier waits */
	struct twi_list queued;    /* sends that wait for credit or room, in order */
	struct twi_list by_seq[TWI_OUTBOX_BUCKETS];
	struct twi_outbox_time *times; /* a ring, oldest first */
	uint32_t times_first, times_count, times_room;
};

/* What differs between lanes, and what the other side has sent at the start. */
struct twi_outbox_config {
	uint64_t credit_bytes;   /* granted by the other side */
	uint64_t eager_bytes;    /* what both sides want; the credit may make it less */
	uint32_t timed_every_ns; /* of small messages in a burst, one in this time is timed */
	bool checksum_all, hears;
};

/*
 * The outbox must not be moved after init. init: sets the ops, before anything has come from the
 * other side. configure: sets the rest.
 */
void twi_outbox_init(struct twi_outbox *outbox, struct tow_peer *peer,
		     const struct twi_outbox_ops *ops);
void twi_outbox_configure(struct twi_outbox *outbox, const struct twi_outbox_config *config);
void twi_outbox_fini(struct twi_outbox *outbox);

/* The peer is lost: sends that wait or are in flight end with `status`, and later ones too. */
void twi_outbox_fail(struct twi_outbox *outbox, int status);

/*
 * Sends a small message now. False: nothing was done. The peer is lost, other sends wait, there is
 * no credit or room, the message is large, or it is to have a span.
 */
bool twi_outbox_at_once(struct twi_outbox *outbox, struct twi_outbound *out);

/*
 * Starts a send; it may end in this call. An early one (op.h) began after its start_ns. It gets the
 * time before it is written if it has a span, is timed, or cannot go yet. Otherwise it gets the
 * time after the lane has written it.
 */
void twi_outbox_send(struct twi_outbox *outbox, struct tow_op *op);

/*
 * Credit or room has come: sends up to `most` messages that wait. The peer and its channels take
 * turns, and each sends in order. Control messages go first. Returns how many were sent.
 */
unsigned twi_outbox_drain(struct twi_outbox *outbox, unsigned most);

/* Does any message wait for credit or for room? */
bool twi_outbox_waits(const struct twi_outbox *outbox);

/*
 * next: the first send that has credit, so that it goes as soon as there is room. NULL: there is
 * none. owes: do control messages wait for room?
 */
const struct tow_op *twi_outbox_next(const struct twi_outbox *outbox);
bool twi_outbox_owes(const struct twi_outbox *outbox);

/* Sends a control message (channel.h). False: there is no room. */
bool twi_outbox_control(struct twi_outbox *outbox, uint64_t tag);

/* The lane's abort (lane.h) for a send. */
bool twi_outbox_abort(struct twi_outbox *outbox, struct tow_op *op, int status, bool force);

/* has_large: is any large send offered or in flight? find: the one of that number, or NULL. */
bool twi_outbox_has_large(const struct twi_outbox *outbox);
struct tow_op *twi_outbox_find(const struct twi_outbox *outbox, uint64_t seq);

/*
 * Counts and times a large message that has arrived. The other side held its report back for
 * kept_ns. match_ns: message_times.h. The send ends in another step.
 */
void twi_outbox_arrived(struct twi_outbox *outbox, const struct tow_op *op, uint64_t kept_ns,
			uint64_t match_ns);

/* Ends a send. */
void twi_outbox_end(struct twi_outbox *outbox, struct tow_op *op, int status, uint64_t bytes);

/*
 * The other side has all messages up to seq, and has given back so much credit since the start.
 * TOW_EPROTOCOL: *rule is set, if it was 0. The caller drains afterwards.
 */
int twi_outbox_acked(struct twi_outbox *outbox, uint64_t seq, uint64_t credit_returned,
		     uint64_t kept_ns, uint8_t *rule);

/* Do sends wait, and does the first send of each queue, the peer's or a channel's, lack credit? */
bool twi_outbox_no_credit(const struct twi_outbox *outbox);

/* For how long sends of the peer or of its channels have waited for credit, so far. */
uint64_t twi_outbox_starved_ns(const struct twi_outbox *outbox, uint64_t now_ns);

/* How many sends of the peer and of its channels wait, up to a limit. */
uint32_t twi_outbox_waiting(const struct twi_outbox *outbox);

/* --- between outbox.c and outbox_channel.c --- */

/*
 * send_on_channel: starts a send on a channel. drain_channels: the drain of a peer that has
 * channels or credit to report.
 */
void twi_outbox_send_on_channel(struct twi_outbox *outbox, struct tow_op *op);
unsigned twi_outbox_drain_channels(struct twi_outbox *outbox, unsigned most);

/*
 * begin: counts a send, and gets the lease of a large one. False: `status` is below TOW_OK or the
 * lease failed, and the send has ended so. put: sends it now; false: there is no credit or no room.
 * queue: the send waits in `queued` for that.
 */
bool twi_outbox_begin(struct twi_outbox *outbox, struct tow_op *op, int status);
bool twi_outbox_put(struct twi_outbox *outbox, struct twi_credit_out *credit, struct tow_op *op);
void twi_outbox_queue(struct twi_outbox *outbox, struct twi_list *queued, struct tow_op *op);

/* --- state for /v1/peers, and checksums --- */

/* Members of one object of /v1/peers: messages without acknowledgement, and the credit. */
void twi_outbox_describe(const struct twi_outbox *outbox, struct twi_emit *emit);

/* Does message seq carry a checksum? One of many does, or all do. */
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
 * The checksum of a large message, if its offer carries one. False also for a message that is too
 * long to be summed at once, and for memory that cannot be read. The part that moves such memory
 * reports the fault.
 */
bool twi_outbox_sum_offer(const struct twi_outbox *outbox, const struct tow_op *op,
			  uint32_t *sum_out);

/*
 * Is this small message timed? All are, but in a burst only one in timed_every_ns, unless
 * everything is recorded. To count each message of a burst costs 3 % of the message rate, and more
 * at high rates.
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

/* The same; if it is timed, the interval of the next one begins here. */
static inline bool twi_outbox_times(struct twi_outbox *outbox, const struct twi_outbound *out)
{
	if (!twi_outbox_is_due(outbox, out))
		return false;
	outbox->timed_ns = out->start_ns;
	return true;
}

#endif
