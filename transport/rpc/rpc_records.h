/*
 * rpc_records.h - the records of a call, on either side, and of its stream. See rpc.h.
 */
#ifndef TWI_RPC_RECORDS_H
#define TWI_RPC_RECORDS_H

#include "transport/rpc/rpc.h"

enum twi_chunk_state { TWI_CHUNK_READY, TWI_CHUNK_OFFERED, TWI_CHUNK_MOVING, TWI_CHUNK_TAKEN };

/* A piece that has come and is not taken yet, or is being fetched. */
struct twi_chunk {
	enum twi_chunk_state state;
	struct twi_rpc_io io;
	struct tow_op *op;         /* the pull that fetches it */
	struct twi_rpc_slot *slot; /* the slot that holds it */
	void *memory;              /* or pool memory that holds it */
	uint64_t bytes, tag;
	struct tow_stream *stream;
};

struct twi_push {
	struct twi_parcel parcel;
	struct tow_op *op; /* NULL: the end of the stream, or it has ended already */
	bool busy;
	int over; /* the operation's status once a lane has let the piece go; 0: none */
};

struct tow_stream {
	struct twi_list link; /* on rpc->streams when free */
	struct twi_rpc *rpc;
	struct twi_rpc_peer *rp;
	uint64_t id;
	struct twi_call *call; /* the owner: one of these two */
	struct tow_call_in *in;
	int failed;  /* status that its operations get */
	bool closed; /* the other side reads no more */
	/* out */
	struct twi_list pushes; /* tow_op.link */
	struct twi_push push[TWI_RPC_PARCELS];
	uint64_t sent, taken_there;
	bool ending, end_sent;
	/* in */
	struct twi_list pulls;
	struct twi_chunk chunks[TWI_RPC_CHUNKS];
	unsigned chunk_head, chunk_count;
	uint64_t taken, reported;
	bool ended;
	struct twi_parcel window;
	uint8_t window_data[TWI_RPC_HEAD_BYTES];
};

enum twi_call_state {
	TWI_CALL_FREE,
	TWI_CALL_QUEUED,
	TWI_CALL_SENT,
	TWI_CALL_BODY,
	TWI_CALL_ENDED
};

/* The arguments of a call. */
struct twi_call_wish {
	uint64_t hash;
	char name[TOW_METHOD_NAME_MAX];
	const void *request;
	uint64_t request_bytes;
	void *response;
	uint64_t response_bytes;
	uint32_t flags;
	struct twi_site site;
};

struct twi_call {
	struct twi_list link; /* on rpc->calls, rp->queued or rp->active */
	struct twi_rpc *rpc;
	struct twi_rpc_peer *rp;
	enum twi_call_state state;
	uint32_t index;
	uint64_t id;
	struct tow_op *op; /* NULL: the user has released it */
	struct twi_parcel out;
	struct twi_rpc_io in;
	struct twi_rpc_slot *slot; /* the slot, when the response is a view of it */
	void *memory;              /* pool memory, when the response is a view of it */
	struct tow_stream *stream;
	struct twi_call_wish wish;
	bool cancel_due;
	bool answered;       /* by the server, also with a failure */
	bool completing;     /* it is over, and its operation ends when no lane has its memory */
	char *why;           /* it failed, where the operation ends later; or NULL */
	uint64_t arrived_ns; /* arrival of the response */
	uint64_t there_ns;   /* arrival of the request, by the server's clock */
	uint64_t unread_ns;  /* how long it lay there unread before that, at most */
	struct tow_call_result result;
	_Atomic bool ended; /* release, after `result`; pairs with the acquire in tow_call_result */
};

enum twi_serve_state {
	TWI_SERVE_FREE,
	TWI_SERVE_RECEIVING,
	TWI_SERVE_RUNNING,
	TWI_SERVE_REPLYING,
	TWI_SERVE_ENDED,
};

struct tow_call_in {
	struct twi_list link; /* on rpc->ins or rp->served */
	struct twi_rpc *rpc;
	struct twi_rpc_peer *rp;
	enum twi_serve_state state;
	uint64_t id;
	unsigned method;
	uint32_t method_generation;
	uint64_t hash; /* of the name */
	char name[TOW_METHOD_NAME_MAX];
	tow_method_handler handler;
	void *user;
	struct twi_rpc_slot *slot;
	struct twi_rpc_io body;
	struct twi_parcel out;
	const void *request;
	uint64_t bytes, held;
	uint64_t deadline_ns, arrived_ns, begun_ns, posted_ns;
	uint64_t unread_ns;    /* how long the request lay here unread, at most */
	uint64_t absent_ns;    /* twi_engine_absent when its header was read */
	_Atomic bool canceled; /* relaxed: it orders no other memory */
	_Atomic(struct tow_peer *) peer;
	bool give_up_due, reply_waits;
	int over; /* the reply's status once a lane has let its memory go; 0: none */
	struct tow_op *reply;
	int32_t code;
	const void *data;
	uint64_t reply_bytes;
	struct tow_stream *stream;
};

/*
 * The peer is about to go. Its lane has let go of all memory. What waited for that ends now, as an
 * operation that ends must have its peer.
 */
void twi_serve_let_go(struct tow_call_in *in);
void twi_calls_let_go(struct twi_rpc_peer *rp);
void twi_streams_let_go(struct twi_rpc_peer *rp);

#endif
