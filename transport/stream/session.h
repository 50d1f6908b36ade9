/*
 * session.h - the protocol between two peers, without any I/O: bytes go in, bytes come out.
 *
 * A lane owns ordered byte streams to its peer: one control stream, and 1 to TWI_BULK_MAX bulk
 * channels. It pumps them:
 *
 *	twi_outbox_send, twi_session_recv, twi_session_abort  <- operations
 *	twi_session_control_in         <- bytes that came on the control stream
 *	twi_session_control_out/sent   -> bytes to send on it
 *	twi_session_bulk_want/in       <- where the next bytes of a channel go: the user's buffer
 *	twi_session_bulk_out/sent      -> bytes to send on a channel: from the user's buffer
 *	twi_session_*_broken, *_resume <- a connection is lost; a new one takes its place
 *	twi_session_fail               <- the peer is lost
 *
 * The states of a message (docs/wire.md has the frames):
 *
 *	small:  NEW -> [QUEUED for credit or room] -> framed into the control buffer: complete
 *	large:  NEW -> [QUEUED] -> OFFERED (RTS) -> BULK (CTS came) -> SENT -> complete (DONE came)
 *	receive: POSTED -> small arrived whole: complete | FILLING while it arrives in pieces
 *	         POSTED -> RTS: [QUEUED for a grant] -> GRANTED (CTS) -> last byte: complete
 *
 * A large message is cut into slices. Each channel carries some of them, its *stripe*. A shorter
 * large message goes whole on one channel. Each stripe has its own chunks and its own commit. The
 * message is complete when all stripes are (stripe.h).
 *
 * Bounds: a message that no receive waits for uses the sender's credit. So the receiver never holds
 * more than credit_bytes for one peer. A receiver asks for at most TWI_GRANTS_MAX large messages at
 * a time, and at most TWI_READY_MAX are on their way unasked. The control buffer is bounded, and
 * part of it is reserved for control frames. A control frame that must be sent and does not fit
 * waits outside the buffer, at most once for each operation.
 *
 * A message may be taken back (canceled, past its deadline) after it was granted. Each channel
 * stays in step: the sender fills the begun chunk with zeros, and ends the stripe with an ABORT.
 * The receiver puts its receive back at the head of its tag, as if the message had never been sent.
 * So a message counts only when the commits (DATA frames with LAST) of all its stripes have come.
 * When a receive is taken back, the bytes go to a sink, and a REFUSE informs the sender.
 *
 * A connection that breaks loses nothing. Bytes of the control stream are kept until the peer
 * reports that it has them, and sent again if it has not (session_retain.c). A stripe continues
 * where the receiver reports that it stopped (session_resume.c).
 */
#ifndef TWI_SESSION_H
#define TWI_SESSION_H

#include <sys/uio.h>

#include <internal/list.h>

#include "diag/base/emit.h"
#include "diag/record/lane_id.h"
#include "transport/message/inbox.h"
#include "transport/message/outbox.h"
#include "transport/op/endpoint.h"
#include "transport/stream/grant.h"
#include "transport/stream/session_fault.h"
#include "transport/wire/frame.h"
#include "transport/wire/rule.h"

struct tow_op;
struct twi_engine;
struct twi_state_link;
struct twi_tx_chunk;

#define TWI_ANNOUNCED_MAX      64
#define TWI_TAG_BUCKETS        64
#define TWI_CONTROL_BYTES      (256u << 10) /* limit of unsent bytes */
#define TWI_CONTROL_RESERVE    (64u << 10)
#define TWI_RETAIN_BYTES       (4u << 20) /* limit of sent bytes that may not have been received */
#define TWI_RETAIN_CHUNK_BYTES (64u << 10)
#define TWI_ACK_EVERY          256
#define TWI_RECEIVED_EVERY     (4u << 10)  /* a RECEIVED is sent with an ACK after this */
#define TWI_RECEIVED_URGENT    (64u << 10) /* and without an ACK after this */
#define TWI_CHUNK_BYTES        (8u << 20)  /* most padding that a message taken back may cost */
#define TWI_STRIPE_BYTES       (1u << 20)  /* if there are several stripes, none is much shorter */
#define TWI_LONE_BYTES         (64u << 10)
#define TWI_LONE_TIMES         4u /* most, in lengths of a small message */

struct twi_announced {
	uint64_t tag, room;
	uint32_t context;
};

struct twi_session_config {
	enum twi_lane_id lane;
	uint64_t local_credit_bytes;  /* granted by this side */
	uint64_t remote_credit_bytes; /* granted to this side */
	uint32_t eager_max_bytes;     /* the smaller of both sides */
	unsigned bulk_count;          /* channels: 1 (0 means that) to TWI_BULK_MAX */
	bool checksum_all;            /* every message carries a checksum, not one of many */
	bool announce;                /* large receives are announced when they are posted */
	uint64_t stripe_bytes;        /* 0: TWI_STRIPE_BYTES; both sides must have the same */
	bool slices;                  /* each goes to a free channel; both must have the same */
	uint32_t lone_bytes;          /* session_lone.c; 0: eager_max_bytes; both the same */
};

struct twi_session {
	struct twi_engine *engine;
	struct tow_peer *peer;
	struct twi_session_config config;
	int failed;    /* status that operations get now, or 0 */
	uint8_t bye;   /* the value of the peer's BYE */
	uint8_t rule;  /* the rule that the peer broke (rule.h); 0: none */
	bool doubted;  /* `rule` was found where no status was returned: control_in does */
	bool ack_soon; /* messages that came are to be acknowledged at the lane's next turn */
	bool urgent;   /* the control buffer holds frames that must not wait */

	/* control, sending: session_retain.c. Positions count the stream's bytes. */
	uint64_t tx_acked;  /* the peer reports that it has this much */
	uint64_t tx_head;   /* sent */
	uint64_t tx_tail;   /* framed */
	uint64_t tx_handed; /* most that was ever given to the lane */
	uint64_t tx_base;   /* position of the first byte of tx_first */
	struct twi_tx_chunk *tx_first, *tx_send, *tx_last, *tx_spare;
	uint32_t tx_send_at; /* in tx_send: the first byte that is not sent */
	uint32_t tx_chunk_bytes, tx_chunks, tx_spares;
	bool control_broken, pong_owed, ping_owed;
	bool stuck; /* the peer does not read: more frames wait than there can be operations */
	struct twi_frame *owed; /* control frames that must be sent, and found no room */
	uint32_t owed_count, owed_room;
	struct twi_outbox outbox;

	/* control, receiving */
	uint8_t head[TWI_FRAME_BYTES];
	uint32_t head_fill;
	uint32_t skip_bytes; /* payload to skip, after the session has failed */
	uint64_t rx_total;   /* bytes of the control stream that have been read */
	uint64_t rx_total_reported;
	uint64_t received_ns, input_ns; /* when the last message came, and the present input */
	uint32_t acks_owed;
	struct twi_inbox inbox;
	struct twi_list matched; /* receives whose large message waits for a grant */

	/* large messages */
	struct twi_grant sends[TWI_LARGE_MAX];  /* that the peer has asked for */
	struct twi_grant grants[TWI_LARGE_MAX]; /* that this side has asked for */
	unsigned send_count, ready_sends, grant_count, ready_grants;
	unsigned early_count;
	struct twi_early early[TWI_EARLY_MAX]; /* in order of arrival */
	struct twi_bulk_channel channels[TWI_BULK_MAX];

	/* receives announced by the peer: session_announce.c */
	struct twi_announced announced[TWI_ANNOUNCED_MAX];
	unsigned announced_count;
	uint64_t lone_seqs[2];              /* the last two that went alone: session_lone.c */
	bool offers;                        /* a large message was sent: tags are tracked */
	uint64_t last_seq[TWI_TAG_BUCKETS]; /* the last message sent, by a hash of its tag */
	uint64_t large_tags; /* bit h: the last message that came with tag hash h was large */
	struct twi_session_faults faults;
};

/* What to send on the bulk stream: parts[0..count). */
struct twi_bulk_out {
	struct iovec parts[3]; /* header, payload, commit: those that are due */
	int count;
	int payload_part;        /* index of the payload in parts; -1: none */
	struct tow_op *op;       /* the owner of the payload; NULL for padding */
	struct twi_claim *claim; /* its lease on the memory of the payload */
	uint64_t payload_bytes;
	bool more; /* more bytes follow right behind */
};

/* The peer of each lane of byte streams begins with this. */
struct twi_stream_peer {
	struct tow_peer base;
	struct twi_session session;
};

/* How many large messages are on their way, in either direction. */
static inline unsigned twi_session_flows(const struct twi_session *session)
{
	return session->grant_count + session->ready_grants + session->send_count +
	       session->ready_sends;
}

/* The longest message that may go alone, if both sides have that feature. */
static inline uint32_t twi_session_lone(uint32_t eager_max_bytes)
{
	uint32_t most = twi_min(eager_max_bytes, TWI_LONE_BYTES / TWI_LONE_TIMES) * TWI_LONE_TIMES;

	return twi_max(most, eager_max_bytes);
}

/* The session of a peer of such a lane. */
static inline struct twi_session *twi_session_of(struct tow_peer *peer)
{
	return &((struct twi_stream_peer *)(void *)peer)->session;
}

/*
 * The session is part of a peer, whose memory begins as zeros (twi_peer_alloc). Of its 40 KiB, only
 * the part in use is written. TOW_OK or TOW_ENOMEM. fini releases what init took; the operations
 * have ended before.
 */
int twi_session_init(struct twi_session *session, struct twi_engine *engine, struct tow_peer *peer,
		     const struct twi_session_config *config);
void twi_session_fini(struct twi_session *session);

bool twi_session_has_words(const struct twi_session *session); /* anything to send on control? */
void twi_session_recv(struct twi_session *session, struct tow_op *op);
void twi_session_look_again(struct twi_session *session, uint64_t tag,
			    uint32_t context); /* see lane.h */

/* See abort in lane.h. */
bool twi_session_abort(struct twi_session *session, struct tow_op *op, int status, bool force);

/* State of the peer's connection (lane.h, peer_measure). */
void twi_session_measure(const struct twi_session *session, uint64_t now_ns,
			 struct twi_state_link *out);

/* TOW_OK, TOW_EPROTOCOL (message set), TOW_ENOMEM. After a failure the lane ends the peer. */
int twi_session_control_in(struct twi_session *session, const uint8_t *data, size_t bytes);
int twi_session_bulk_in(struct twi_session *session, unsigned channel, size_t bytes);

/*
 * want: where the next bytes of a channel go, in one or two parts. Together they have at least one
 * byte, and at most max_bytes and a header. Returns how many parts. 0: nothing may be received now,
 * because the channel is broken or waits for the offer of its next message. Ask again after
 * control_in. op: the owner of the payload in the first part; NULL: none.
 */
struct tow_op *twi_session_bulk_op(struct twi_session *session, unsigned channel);
int twi_session_bulk_want(struct twi_session *session, unsigned channel, uint64_t max_bytes,
			  struct iovec parts[2]);

/*
 * _out is false when there is nothing to send. Its output stays valid until _sent, which tells how
 * many bytes were sent; that may be 0. Until _sent or the next _out, the peer may have all of it,
 * and its memory may be in use. So answers of the peer about it wait until then. bulk_sent: TOW_OK;
 * TOW_EPROTOCOL (message set): one of those answers breaks the protocol.
 */
bool twi_session_control_out(struct twi_session *session, struct iovec *out);
void twi_session_control_sent(struct twi_session *session, size_t bytes);
bool twi_session_bulk_out(struct twi_session *session, unsigned channel, uint64_t max_bytes,
			  struct twi_bulk_out *out);
int twi_session_bulk_sent(struct twi_session *session, unsigned channel, size_t bytes);

/*
 * A connection is lost. Until it is resumed, nothing comes out of that stream and nothing may go
 * in. Operations are still accepted. The peer may or may not have the last output of _out without a
 * _sent; the resume record decides.
 */
void twi_session_control_broken(struct twi_session *session);
void twi_session_bulk_broken(struct twi_session *session, unsigned channel);

/*
 * The exchange over the new connection: each side writes its own record and reads the other's. Then
 * the stream goes on. put returns the bytes written, at most TWI_RESUME_MAX. resume may be called
 * with any number of bytes. TOW_AGAIN: it needs more. TOW_OK: the first *used_out bytes were the
 * record. TOW_EPROTOCOL: the record is impossible, and the peer is lost.
 */
#define TWI_RESUME_MAX (16u + TWI_LARGE_MAX * 16u)
size_t twi_session_control_resume_put(struct twi_session *session, uint8_t *out);
int twi_session_control_resume(struct twi_session *session, const uint8_t *in, size_t bytes,
			       size_t *used_out);
size_t twi_session_bulk_resume_put(struct twi_session *session, unsigned channel, uint8_t *out);
int twi_session_bulk_resume(struct twi_session *session, unsigned channel, const uint8_t *in,
			    size_t bytes, size_t *used_out);

/* Nothing of this side is unacknowledged, unsent or granted. */
bool twi_session_quiet(const struct twi_session *session);

/* Sends a PING, which the peer answers. input_ns is the time of the last input. */
void twi_session_ping(struct twi_session *session);

/*
 * ack: puts an ACK into the control buffer if one is due; true if it did. bye: puts a BYE there.
 * This side closes, or ends the session because of the rule that the peer broke.
 */
bool twi_session_ack(struct twi_session *session);
void twi_session_bye(struct twi_session *session);

/* The error of a peer whose streams have ended, with a BYE or without: TOW_EPEER. */
int twi_session_gone(const struct twi_session *session);

/*
 * Ends every operation with `status`. Later ones end so too, unless a message for them is here
 * whole.
 */
void twi_session_fail(struct twi_session *session, int status);

void twi_session_describe(const struct twi_session *session, struct twi_emit *emit);

#endif
