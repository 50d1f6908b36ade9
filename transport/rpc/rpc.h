/*
 * rpc.h - calls, made of messages of TWI_SPACE_RPC. <towline/rpc.h> defines calls, and rpc_wire.h
 * the format of the messages.
 *
 *	rpc.c               the tables of a runtime; methods
 *	rpc_peer.c          what calls need of one peer: its inbox, the opening, its end
 *	rpc_parcel.c        sending: a header, and a body inline or behind it
 *	rpc_call.c          the client's side of a call         struct twi_call
 *	rpc_start.c         its public calls
 *	rpc_serve.c         the server's side                   struct tow_call_in
 *	rpc_stream.c        pieces, in both directions          struct tow_stream
 *	rpc_stream_start.c  its public calls
 *	rpc_failure.c       texts of failures
 *	rpc_stats.c         latencies by method and peer
 *	rpc_span.c          spans
 *	rpc_usual.c         how long a request waited at the server
 *	rpc_link.c          the link: clocks, identities, OPEN
 *
 * Start: the first call to a peer posts receives for its inbox and sends OPEN on the link. The
 * other side does the same in answer. A side that has received OPEN may send. Everything but large
 * bodies comes through the inbox, in order. The inbox never waits: it refuses what it cannot take.
 * So a full side still reads answers, and two full sides do not block each other. At least one slot
 * of every peer is always posted.
 *
 * Large bodies are offered by rendezvous: a separate body is longer than any small message. So a
 * sender can take a body back without a trace. A side that does not want one only informs the
 * sender:
 *
 *	client ends a call early   CANCEL    server takes back what it offered, forgets what it
 *	                                     awaited
 *	server answers             RESPONSE  client takes back what it still offers of request,
 *	                                     pieces
 *	server cannot go on        GIVE_UP   client ends the call; what it awaited is forgotten
 *
 * Memory: tables that the first use allocates, whose pages are touched as they are needed; bodies
 * are in the pool. Nothing else is allocated. All state belongs to the holder of the engine, except
 * what is marked atomic.
 */
#ifndef TWI_RPC_H
#define TWI_RPC_H

#include <stdatomic.h>

#include <towline/rpc.h>

#include "diag/record/diag.h"
#include "diag/record/latency.h"
#include "transport/op/message.h"
#include "transport/rpc/rpc_link.h"
#include "transport/rpc/rpc_usual.h"
#include "transport/rpc/rpc_wire.h"

#define TWI_RPC_RECORDS       512u
#define TWI_RPC_RECORDS_MIN   16u
#define TWI_RPC_BUFFERS_BYTES (64u << 20) /* bound for one table */
#define TWI_RPC_INLINE_MIN    4032u
#define TWI_RPC_STREAMS       64u
#define TWI_RPC_CHUNKS        8u /* pieces of a stream that the reader has and has not taken */
#define TWI_RPC_PARCELS       2u /* pieces of a stream on their way */
#define TWI_RPC_POSTED_MIN    4u
#define TWI_RPC_POSTED_MAX    64u
#define TWI_RPC_ROWS          64u
#define TWI_RPC_INBOX_TAG     0u

struct tow_call_in;
struct tow_stream;
struct twi_call;
struct twi_call_wish;
struct twi_rpc;
struct twi_rpc_row;
struct twi_rpc_peer;

/* A receive of an inbox, and its message. */
struct twi_rpc_slot {
	struct twi_list link; /* on rpc->slots or rp->inbox */
	struct twi_rpc_io io;
	struct twi_rpc_peer *rp;
	bool own; /* the peer's own slot, which no other peer gets */
	bool read_due;
	int status;
	uint64_t bytes, arrived_ns;
	uint64_t unread_ns; /* how much earlier it may have come, at most */
	uint8_t *data;
};

/* A payload descriptor that is sent. `done` is called when it is not busy, and for a view's end. */
struct twi_parcel {
	struct twi_rpc_io head, body;
	struct twi_rpc_peer *rp;
	uint8_t *data;    /* the header, and an inline body */
	bool lent;        /* the body's memory is lent, as with TOW_OP_LEND */
	bool awaits_view; /* lent: the body is done when a view that shows it has gone */
	uint64_t sent_ns; /* when the header was on the wire; 0: not yet */
	int status;       /* of the part that failed first */
	void (*done)(struct twi_parcel *parcel);
	void *owner;
};

struct twi_rpc_method {
	uint64_t hash; /* 0: free */
	char name[TOW_METHOD_NAME_MAX];
	tow_method_handler handler;
	void *user;
	struct tow_method_options options;
	uint32_t in_service;
	uint64_t held_bytes;
	/* of this row: calls of an earlier generation belong to another method */
	uint32_t generation;
};

enum twi_rpc_refusal {
	TWI_REFUSAL_METHOD,
	TWI_REFUSAL_FULL,
	TWI_REFUSAL_METHOD_FULL,
	TWI_REFUSAL_TOO_LONG,
	TWI_REFUSAL_HELD,
	TWI_REFUSAL_POOL,
	TWI_REFUSAL_LATE,
	TWI_REFUSAL_BROKEN,
};

struct twi_refused {
	uint64_t id;
	enum twi_rpc_refusal why;
	uint64_t have, limit; /* the value with this request, and its limit */
};

/* State of calls for one peer. It is freed when nothing of it is under way. */
struct twi_rpc_peer {
	struct twi_list link; /* on rpc->peers */
	struct twi_rpc *rpc;
	struct twi_engine *engine;
	struct tow_peer *peer;       /* NULL: the peer has gone */
	struct twi_link *link_state; /* likewise */
	uint64_t peer_id;
	char address[TOW_ADDRESS_MAX];
	int dead;   /* below TOW_OK: the status that calls end with */
	bool ready; /* OPEN was received */
	bool declined;
	uint32_t inline_max, window;
	uint64_t next_tag;
	unsigned holds; /* calls, served calls, slots and streams in use */
	/* client */
	struct twi_list queued, active; /* twi_call.link */
	unsigned in_flight;
	struct twi_rpc_usual usual;
	/* server */
	struct twi_list served; /* tow_call_in.link */
	unsigned serving;
	uint16_t in_service[TOW_METHODS_MAX];
	struct twi_refused refused[TOW_CALL_WINDOW];
	unsigned refused_head, refused_count;
	struct twi_parcel spare; /* for sending refusals */
	uint8_t spare_data[TWI_RPC_HEAD_BYTES + TOW_CALL_TEXT_MAX];
	/* inbox */
	struct twi_list inbox; /* twi_rpc_slot.link, in the order in which they were posted */
	unsigned posted, post_target;
	struct twi_rpc_slot own;
};

struct twi_rpc {
	struct twi_engine *engine;
	uint32_t inline_max, records;
	struct twi_rpc_method methods[TOW_METHODS_MAX];
	struct twi_list peers;
	struct twi_list calls, ins, slots, streams; /* the free rows */
	struct twi_call *call_rows;
	struct tow_call_in *in_rows;
	struct twi_rpc_slot *slot_rows;
	struct tow_stream *stream_rows;
	uint8_t *buffers;
	struct twi_rpc_row *rows;  /* TWI_RPC_ROWS rows, and one more for all others */
	pthread_mutex_t rows_lock; /* guards the owners of rows; counting needs no lock */
	uint64_t refused;          /* calls that this side has refused */
	uint64_t dropped;          /* answers and pieces that had no receiver any more */
};

/* The engine is held in all calls below, unless they say otherwise. */

/* rpc.c. of: makes the tables at the first use. NULL: no memory. */
struct twi_rpc *twi_rpc_of(struct twi_engine *engine);
/* The lanes are closed, and no thread is in a call any more. The engine is not held. */
void twi_rpc_destroy(struct twi_engine *engine);
struct twi_rpc_method *twi_rpc_method_find(struct twi_rpc *rpc, uint64_t hash);

/* rpc_peer.c. of: for a peer that is up; the first use opens it. NULL: the error message is set. */
struct twi_rpc_peer *twi_rpc_peer_of(struct tow_peer *peer);
void twi_rpc_opened(struct twi_link *link, uint64_t inline_bytes, uint64_t window);
void twi_rpc_reopen(struct twi_rpc_peer *rp);
void twi_rpc_lost(struct twi_rpc_peer *rp, int status);
void twi_rpc_detach(struct twi_rpc_peer *rp);
void twi_rpc_peer_settle(struct twi_rpc_peer *rp); /* frees it when nothing of it is in use */
void twi_rpc_slot_release(struct twi_rpc_slot *slot);

/* Whether a received slot may be kept, because another one can take its place. */
bool twi_rpc_may_keep(const struct twi_rpc_peer *rp);

/*
 * Copies bytes out of a slot that cannot be kept into memory of the pool. NULL: the pool is full.
 */
void *twi_rpc_keep_copy(struct twi_rpc_peer *rp, const void *data, uint64_t bytes);

/* Whether both sides report how long requests lay unread. */
static inline bool twi_rpc_tells_unread(const struct tow_peer *peer)
{
	return (peer->features & TWI_FEATURE_BIT(call_unread)) != 0;
}

/* Counts and logs a message that breaks the protocol. */
void twi_rpc_broken(struct twi_rpc_peer *rp, const char *why);

/*
 * rpc_parcel.c. Sends `data` inline if it fits, else as a body of its own. Fills in bytes, tag and
 * inline_bytes of the header. TOW_OK: done will be called. A failure: nothing has begun.
 */
int twi_parcel_send(struct twi_parcel *parcel, struct twi_rpc_peer *rp, struct twi_rpc_head *head,
		    const void *data, uint64_t bytes, struct twi_site site);

/* Copies a small payload that must wait to where it will be sent from. Returns its place. */
const void *twi_parcel_keep(struct twi_parcel *parcel, const struct twi_rpc *rpc, const void *data,
			    uint64_t bytes);
/*
 * Takes the body back. The header is still sent: it is in the descriptor's own memory, and an inbox
 * must receive all messages, in order. Returns true if the lane may touch the body until `done`.
 */
bool twi_parcel_abort(struct twi_parcel *parcel);
/* Whether it is under way; not if a view of the body is all that is left. */
static inline bool twi_parcel_busy(const struct twi_parcel *parcel)
{
	return parcel->head.busy || (parcel->body.busy && !twi_rpc_io_viewed(&parcel->body));
}

/* rpc_call.c. begin: takes `op`, or fails. */
int twi_call_begin(struct tow_peer *peer, const struct twi_call_wish *wish, struct tow_op *op);
extern const struct twi_op_ops twi_call_ops;
uint64_t twi_rpc_call_id(const struct tow_op *op); /* of an operation with these ops */
void twi_call_pump(struct twi_rpc_peer *rp);
void twi_call_end(struct twi_call *call, int status, bool tell);
void twi_call_settle(struct twi_call *call);
struct twi_call *twi_call_find(struct twi_rpc_peer *rp, uint64_t id);
bool twi_call_answered(struct twi_rpc_peer *rp, struct twi_rpc_slot *slot,
		       const struct twi_rpc_head *head, uint64_t arrived_ns);
void twi_call_given_up(struct twi_rpc_peer *rp, uint64_t id);

/* rpc_serve.c. True: the slot is kept. */
bool twi_serve_request(struct twi_rpc_peer *rp, struct twi_rpc_slot *slot,
		       const struct twi_rpc_head *head);
void twi_serve_canceled(struct twi_rpc_peer *rp, uint64_t id);
void twi_serve_lost(struct tow_call_in *in, int status);
/* no answer will come: informs the client */
void twi_serve_break(struct tow_call_in *in, int status);
void twi_serve_settle(struct tow_call_in *in);
void twi_serve_drained(struct tow_call_in *in); /* its stream has nothing left to send */
struct tow_call_in *twi_serve_find(struct twi_rpc_peer *rp, uint64_t id);
void twi_serve_refusals(struct twi_rpc_peer *rp);

/* rpc_stream.c */
struct tow_stream *twi_stream_acquire(struct twi_rpc_peer *rp, uint64_t id, struct twi_call *call,
				      struct tow_call_in *in);
bool twi_stream_chunk(struct twi_rpc_peer *rp, struct twi_rpc_slot *slot,
		      const struct twi_rpc_head *head);
void twi_stream_window(struct twi_rpc_peer *rp, const struct twi_rpc_head *head);
void twi_stream_fail(struct tow_stream *stream, int status);
void twi_stream_close(
	struct tow_stream *stream); /* the call was answered: pushes end, pulls go on */
void twi_stream_pump_out(struct tow_stream *stream);               /* sends what may be sent */
void twi_stream_pump_in(struct tow_stream *stream);                /* gives pieces to pulls */
void twi_stream_break_call(struct tow_stream *stream, int status); /* the call cannot go on */
void twi_stream_settle_owner(struct tow_stream *stream);
bool twi_stream_drained(const struct tow_stream *stream); /* nothing waits to be sent */
bool twi_stream_release(struct tow_stream *stream);       /* false: something is under way */

/* rpc_stats.c. The parts are those of latency.h, and two one-way times. */
enum twi_rpc_part { TWI_RPC_THERE = TWI_LATENCY_PARTS, TWI_RPC_BACK, TWI_RPC_PARTS };

/*
 * rpc_span.c. Records the span of one side of a call; fills in peer, lane and name. The sampling of
 * small calls depends on their number, which both sides know.
 */
struct twi_span;
void twi_rpc_span(struct twi_rpc_peer *rp, const char *method, struct twi_span *span);
/* Writes spans of the calls under way, of both sides, from out[count] on. Returns the new count,
 * which may exceed `room`. */
size_t twi_rpc_begun(const struct twi_engine *engine, struct twi_span *out, size_t room,
		     size_t count);

/* Parts of twi_rpc_of and twi_rpc_destroy. */
int twi_rpc_stats_init(struct twi_rpc *rpc);
void twi_rpc_stats_fini(struct twi_rpc *rpc);
/* Counts a call of `name` that has ended, on one side. Parts that are not known are UINT64_MAX. */
void twi_rpc_stats_record(struct twi_rpc_peer *rp, uint64_t hash, const char *name, bool client,
			  bool failed, const uint64_t parts[TWI_RPC_PARTS]);
void twi_rpc_stats_peer_gone(struct twi_rpc *rpc);
/* Pages; `arg` is the engine. describe takes the engine itself, metrics does not need it. */
void twi_rpc_describe(void *arg, struct twi_emit *emit);
void twi_rpc_metrics(void *arg, struct twi_emit *emit);

#endif
