/*
 * session.h - the protocol between two peers, without any I/O: bytes go in, bytes come out.
 *
 * A lane owns two ordered byte streams to its peer, control and bulk, and pumps them:
 *
 *	twi_session_send/recv/abort  <- operations
 *	twi_session_control_in       <- bytes that came on the control stream
 *	twi_session_control_out/sent -> bytes to send on it
 *	twi_session_bulk_want/in     <- where the next bytes of the bulk stream go: straight into
 *the user's buffer twi_session_bulk_out/sent    -> bytes to send on it: straight from the user's
 *buffer twi_session_fail             <- the streams have ended
 *
 * The life of a message (docs/wire.md has the frames):
 *
 *	small:  NEW -> [QUEUED for credit or room] -> framed into the control buffer: complete
 *	large:  NEW -> [QUEUED] -> OFFERED (RTS) -> BULK (CTS came) -> SENT -> complete (DONE came)
 *	receive: POSTED -> small arrived whole: complete | FILLING while it arrives in pieces
 *	         POSTED -> RTS: [QUEUED for a grant] -> GRANTED (CTS) -> last byte: complete
 *
 * Bounds: what nobody has posted for costs the sender credit, so the receiver never holds more than
 * credit_bytes for one peer; at most TWI_GRANTS_MAX large messages are on their way to one
 *receiver; the control buffer is fixed, with a reserve that only control frames may use; what must
 *be said and does not fit there waits outside it, at most once for each operation.
 *
 * A message that is taken back (canceled, past its deadline) after it was granted leaves the bulk
 * stream in step: the sender fills the chunk it has begun with zeros and ends it with an ABORT; the
 * receiver puts its receive back at the head of its tag, as if the message had never been sent. So
 *a message counts only when its commit (a DATA frame with LAST and no payload) has come. A receive
 *that is taken back lets the bytes fall into a sink and tells the sender with REFUSE.
 */
#ifndef TWI_SESSION_H
#define TWI_SESSION_H

#include <sys/uio.h>

#include <internal/list.h>

#include "diag/emit.h"
#include "diag/lane_id.h"
#include "transport/frame.h"
#include "transport/match.h"

struct tow_op;
struct tow_peer;
struct twi_engine;

#define TWI_GRANTS_MAX      64
#define TWI_SEQ_BUCKETS     64
#define TWI_CONTROL_BYTES   (256u << 10)
#define TWI_CONTROL_RESERVE (64u << 10)
#define TWI_ACK_EVERY       256
#define TWI_CREDIT_MAX      (1ull << 30) /* of what a peer grants, this much is used */
#define TWI_CHUNK_BYTES     (8u << 20)   /* what a message taken back may cost in padding */

/* One large message that this side has asked for. */
struct twi_grant {
	struct tow_op *op; /* NULL: nobody wants it any more, the bytes are dropped */
	uint64_t seq;
	uint64_t tag;
	uint64_t bytes;
	uint64_t got;
	bool used;
};

/* A message for which no receive is posted. */
struct twi_unexpected {
	struct twi_match_entry match;
	uint64_t seq;
	uint64_t bytes;
	bool offered;          /* RTS: there is no payload here */
	bool credited;         /* its credit was given back before */
	bool whole;            /* all payload has arrived */
	struct tow_op *waiter; /* matched while the payload was still arriving */
	uint8_t data[];
};

struct twi_timing {
	uint64_t start_ns; /* 0: a large message, timed by its operation */
	uint64_t bytes;
};

struct twi_session_config {
	enum twi_lane_id lane;
	bool connector;
	uint64_t local_credit_bytes;  /* what we grant */
	uint64_t remote_credit_bytes; /* what we may use */
	uint32_t eager_max_bytes;     /* the smaller of both sides */
	unsigned bulk_count;          /* channels: 1 (0 means that) to TWI_BULK_MAX */
	bool checksum_all;            /* every message carries a checksum, not one of many */
};

struct twi_session {
	struct twi_engine *engine;
	struct tow_peer *peer;
	struct twi_session_config config;
	uint32_t eager_max_bytes; /* what this side sends small: fits the buffer and the credit */
	int failed;               /* status that operations get now, or 0 */
	bool peer_said_bye;
	bool urgent; /* the control buffer holds something that must not wait */

	/* control, sending */
	uint8_t *tx;
	uint32_t tx_head, tx_tail;
	struct twi_frame *owed; /* control frames that must be said, for which there was no room */
	uint32_t owed_count, owed_room;
	bool stuck; /* the peer does not read: more is owed than there can be operations */
	uint64_t seq_sent;
	uint64_t seq_acked;
	uint64_t credit_used;     /* since the start */
	uint64_t credit_returned; /* by the peer, since the start */
	struct twi_timing *timings;
	uint32_t timings_mask;
	struct twi_list queued; /* sends that wait for credit or room, in order */
	struct twi_list by_seq[TWI_SEQ_BUCKETS];

	/* control, receiving */
	uint8_t head[TWI_FRAME_BYTES];
	uint32_t head_fill;
	uint32_t rx_left; /* payload bytes of the present eager message still to come */
	uint8_t *rx_at;   /* where they go; NULL: dropped */
	struct tow_op *rx_op;
	struct twi_unexpected *rx_unexpected;
	uint64_t rx_bytes;
	uint64_t seq_received;
	uint64_t received_ns;    /* when seq_received came */
	uint64_t input_ns;       /* when the bytes that are being read came */
	uint64_t credit_charged; /* by the peer's messages, since the start */
	uint64_t credit_given;   /* back, since the start */
	uint64_t credit_told;
	uint32_t acks_owed;
	uint64_t unexpected_bytes; /* held now */
	struct twi_match match;
	struct twi_list matched; /* receives whose large message waits for a grant */

	/* bulk, sending */
	struct twi_list bulk; /* sends that were granted, in order */
	unsigned bulk_count;  /* of them and of aborts, granted by the peer */
	uint64_t aborts[TWI_GRANTS_MAX];
	unsigned abort_count;
	struct tow_op *out_op; /* whose chunk is on its way */
	int out_refusal;       /* the receiver does not want the rest of it */
	uint64_t out_seq;
	uint64_t out_left; /* payload bytes of the chunk */
	uint64_t out_offset;
	bool out_padding; /* the operation was taken back: the rest of the chunk is zeros */
	uint8_t out_head[TWI_FRAME_BYTES];
	uint8_t out_tail[TWI_FRAME_BYTES]; /* the commit, behind the last byte of the message */
	uint32_t out_head_left, out_tail_left;

	/* bulk, receiving */
	struct twi_grant grants[TWI_GRANTS_MAX];
	unsigned grant_count;
	uint8_t in_head[TWI_FRAME_BYTES];
	uint32_t in_fill;
	struct twi_grant *in_grant;
	uint64_t in_left;
};

/* What to send on the bulk stream: parts[0..count). */
struct twi_bulk_out {
	struct iovec parts[3]; /* header, payload, commit: those that are due */
	int count;
	int payload_part;  /* index of the payload in parts, -1: none */
	struct tow_op *op; /* whose payload it is; NULL for padding */
	uint64_t payload_bytes;
};

/* TOW_OK or TOW_ENOMEM. fini releases what init took; the operations have ended before. */
int twi_session_init(struct twi_session *session, struct twi_engine *engine, struct tow_peer *peer,
		     const struct twi_session_config *config);
void twi_session_fini(struct twi_session *session);

void twi_session_send(struct twi_session *session, struct tow_op *op);
void twi_session_recv(struct twi_session *session, struct tow_op *op);

/* lane.h says what abort means. */
bool twi_session_abort(struct twi_session *session, struct tow_op *op, int status, bool force);

/* TOW_OK, TOW_EPROTOCOL (message set), TOW_ENOMEM. After a failure the lane ends the peer. */
int twi_session_control_in(struct twi_session *session, const uint8_t *data, size_t bytes);
int twi_session_bulk_in(struct twi_session *session, unsigned channel, size_t bytes);

/*
 * Where the next bytes of a channel go: one or two parts, together at least one byte long and at
 * most max_bytes and a header. Returns how many parts; 0: nothing may be received now (the offer of
 * what comes next is still on its way, or the channel is broken): ask again after control_in.
 * _op: whose payload the first part is; NULL: none.
 */
struct tow_op *twi_session_bulk_op(struct twi_session *session, unsigned channel);
int twi_session_bulk_want(struct twi_session *session, unsigned channel, uint64_t max_bytes,
			  struct iovec parts[2]);

/* False when there is nothing to send. What is returned stays valid until _sent. */
bool twi_session_control_out(struct twi_session *session, struct iovec *out);
void twi_session_control_sent(struct twi_session *session, size_t bytes);
bool twi_session_bulk_out(struct twi_session *session, unsigned channel, uint64_t max_bytes,
			  struct twi_bulk_out *out);
void twi_session_bulk_sent(struct twi_session *session, unsigned channel, size_t bytes);

/*
 * A connection has gone. Until it is resumed nothing comes out of that stream and nothing may go
 * in, while operations go on to be taken. What the lane was given by _out counts as not sent unless
 * _sent said otherwise before.
 */
void twi_session_control_broken(struct twi_session *session);
void twi_session_bulk_broken(struct twi_session *session, unsigned channel);

/*
 * The exchange over the new connection: each side writes its own record and reads the other's; then
 * the stream goes on. put returns the bytes written, at most TWI_RESUME_MAX. resume may be called
 * with any number of bytes: TOW_AGAIN, more is needed; TOW_OK, *used_out of them were the record;
 * TOW_EPROTOCOL, the record is impossible and the peer is lost.
 */
#define TWI_RESUME_MAX (16u + 64u * 16u)
size_t twi_session_control_resume_put(struct twi_session *session, uint8_t *out);
int twi_session_control_resume(struct twi_session *session, const uint8_t *in, size_t bytes,
			       size_t *used_out);
size_t twi_session_bulk_resume_put(struct twi_session *session, unsigned channel, uint8_t *out);
int twi_session_bulk_resume(struct twi_session *session, unsigned channel, const uint8_t *in,
			    size_t bytes, size_t *used_out);

/* Nothing of ours is unacknowledged, unsent or granted. */
bool twi_session_quiet(const struct twi_session *session);

/* Asks the peer for a sign of life: a control frame that is answered. input_ns says when any came.
 */
void twi_session_ping(struct twi_session *session);

/* Puts an ACK into the control buffer if one is owed. True when it did. */
bool twi_session_ack(struct twi_session *session);

/* Puts a BYE into the control buffer: this side closes in order. */
void twi_session_bye(struct twi_session *session);

/* Ends every operation with `status`; later ones get it too, after what has arrived whole. */
void twi_session_fail(struct twi_session *session, int status);

void twi_session_describe(const struct twi_session *session, struct twi_emit *emit);

/* The id of message `seq`, sent by this side or by the other: the same number on both. */
uint64_t twi_session_rpc_id(const struct twi_session *session, uint64_t seq, bool sent);

/* Between the files of the session. */
uint8_t *twi_session_room(struct twi_session *session, uint32_t bytes, bool control);
bool twi_session_put(struct twi_session *session, uint8_t type, uint64_t seq, uint64_t tag,
		     uint64_t value);
void twi_session_owe(struct twi_session *session, uint8_t type, uint64_t seq, uint64_t value);
void twi_session_drain(struct twi_session *session);
void twi_session_grant(struct twi_session *session);
int twi_session_granted(struct twi_session *session, const struct twi_frame *frame);
int twi_session_done(struct twi_session *session, const struct twi_frame *frame);
int twi_session_refused(struct twi_session *session, const struct twi_frame *frame);
int twi_session_acked(struct twi_session *session, const struct twi_frame *frame);
void twi_session_received(struct twi_session *session, struct tow_op *op, uint64_t bytes);
void twi_session_repost(struct twi_session *session, struct tow_op *op);
void twi_session_matched(struct twi_session *session, struct tow_op *op, uint64_t seq,
			 uint64_t bytes);
struct tow_op *twi_session_find(struct twi_session *session, uint64_t seq);
void twi_session_op_end(struct twi_session *session, struct tow_op *op, int status, uint64_t bytes);
struct twi_grant *twi_session_grant_find(struct twi_session *session, uint64_t seq);
void twi_session_grant_free(struct twi_session *session, struct twi_grant *grant);
bool twi_session_abort_recv(struct twi_session *session, struct tow_op *op, int status, bool force);

#endif
