/*
 * op.h - an operation: one thing that the user starts, and that completes exactly once.
 *
 *	tow_*_start        twi_op_complete            tow_op_release
 *	   |                     |                          |
 *	   v                     v                          v
 *	 [idle] -> IN_FLIGHT -> (callback) -> DONE -> back in the table
 *
 * Operations live in a table of max_ops rows that is made at open, so a start allocates nothing.
 * Most programs use few rows: the memory of the others is faulted in at their first use. op_table.h
 * says how free rows are found.
 *
 * A row belongs to the holder of the engine until DONE is set, and to the user's thread after that.
 * So no read-modify-write is needed. Only the holder writes `wait.state` before DONE; its release
 * store of DONE pairs with the reader's acquire. An operation that is released before DONE is
 * marked with the engine held.
 */
#ifndef TWI_OP_H
#define TWI_OP_H

#include <stdatomic.h>
#include <stddef.h>

#include <internal/list.h>
#include <towline/endpoint.h>

#include "diag/record/site.h"
#include "memreg/pool/extent.h"
#include "transport/engine/engine_heap.h"
#include "transport/engine/waitable.h"
#include "transport/op/claim.h"
#include "transport/op/match_entry.h"
#include "transport/op/outbound.h"

struct twi_coll_record;
struct twi_engine;
struct twi_lane_ops;
struct twi_op_hooks;

enum twi_op_kind {
	TWI_OP_CONNECT,
	TWI_OP_ACCEPT,
	TWI_OP_SEND,
	TWI_OP_RECV,
	TWI_OP_COPY,
	TWI_OP_CALL /* made of the library's own messages: a call, a collective, a barrier */
};

/*
 * The table of operations of one kind, from the room that makes them. It is constant, is set when
 * the operation is made, and stays until the operation is released. So any thread that has the
 * handle may read it. Its members are called with the engine held, except where they say otherwise.
 */
struct twi_op_ops {
	enum twi_op_kind kind;
	const char *noun;        /* "send", for messages */
	uint8_t span, wait_kind; /* enum twi_span_kind; enum twi_waited: the kind of waits for it */

	/*
	 * Ends the operation early, with TOW_ECANCELED or TOW_EDEADLINE. It is not called when the
	 * operation is ending already. The operation may end after this returns, except for the
	 * deadline of a message. NULL: the operation has no deadline, and cannot be canceled.
	 */
	void (*abort)(struct tow_op *op, int status);

	/* The operation has ended with TOW_OK; called before its callback. NULL: no action. */
	void (*ended)(struct tow_op *op);

	/*
	 * The row is about to be freed, with the resources that the result has named. Not called
	 * for an embedded operation. NULL: there are none, and any thread may free the row without
	 * the engine.
	 */
	void (*release)(struct tow_op *op);

	/*
	 * A thread waits for the operation, or tests it. now_ns 0: the clock must be read. Called
	 * by any thread, without the engine. NULL: no action.
	 */
	void (*waited)(struct tow_op *op, uint64_t now_ns);

	/*
	 * Says for the log what a thread does that waits long for the operation: "waiting in a
	 * barrier". False: there is nothing to say now. Called by any thread, without the engine.
	 * NULL: never.
	 */
	bool (*waits_for)(const struct tow_op *op, char *out, size_t room);
};

/* The stage of a send or receive; session.h draws the two sequences. */
enum twi_op_stage {
	TWI_STAGE_NEW,
	TWI_STAGE_QUEUED,  /* send: waits for credit or room; receive: matched, waits for a grant */
	TWI_STAGE_OFFERED, /* send: RTS is out */
	TWI_STAGE_BULK,    /* send: granted, in the bulk queue */
	TWI_STAGE_SENT,    /* send: all bytes are out, DONE is awaited */
	TWI_STAGE_POSTED,  /* receive: in the match table */
	TWI_STAGE_FILLING, /* receive: an eager payload is arriving in pieces */
	TWI_STAGE_GRANTED, /* receive: CTS is out */
	TWI_STAGE_COMPLETING,
	TWI_STAGE_HELD,   /* its peer is not connected yet (twi_message_hold) */
	TWI_STAGE_VIEWED, /* send: the receiver has a view of its memory (awaits_view) */
};

/* Where the payload of a message is, if not at op->data. Most messages have NONE. */
enum twi_op_view {
	TWI_VIEW_NONE,
	TWI_VIEW_WHOLE, /* receive: the lane finds the memory (message.h) */
	TWI_VIEW_PARTS, /* in the parts that its lease names (parts.h) */
};

/* What a receive does with a longer message: it ends; it may take a part; it has taken a part. */
enum twi_truncate { TWI_TRUNCATE_NEVER, TWI_TRUNCATE_MAY, TWI_TRUNCATE_DONE };

/* A collective that is held back: until it is waited for (coll_batch.h), or behind others. */
enum twi_op_held { TWI_HELD_NOT, TWI_HELD_TO_FUSE, TWI_HELD_BEHIND };

/* The part of an operation that only a copy to or from a device uses (device_copy.h). */
struct twi_copy {
	struct tow_device *device;
	struct tow_device_memory *memory;
	uint64_t offset;   /* in `memory` */
	uint64_t landed;   /* bytes of the chunks that have ended with success */
	int ending;        /* below TOW_OK: the final status, and no further chunk is started */
	uint8_t direction; /* enum tow_direction */
	uint8_t in_flight; /* chunks in flight whose host memory is the user's */
	bool staged;
};

/* The part of an operation that only a collective uses: when it was waited for (coll_report.h). */
struct twi_op_stamp {
	struct twi_coll_record *record; /* NULL: no record is wanted */
	uint64_t id;                    /* of the collective in the record */
	uint64_t blocked_ns;            /* of the thread that has started it, up to that time */
	uint32_t thread;
};

/* The total time for which this thread has been blocked in waits. */
extern __thread uint64_t twi_op_blocked_ns __attribute__((tls_model("initial-exec")));

/* Bits of tow_op.wait.state. */
#define TWI_OP_USED     1u /* the row is not free */
#define TWI_OP_DONE     TWI_WAITABLE_DONE
#define TWI_OP_RELEASED 4u
#define TWI_OP_QUEUED   8u /* its result goes out through its queue (queue.h) */

/*
 * The members are in the order of use: a small message that goes at once touches only the first
 * cache lines. The members that twi_op_acquire clears are adjacent.
 */
struct tow_op {
	struct twi_match_entry match; /* of a posted receive: its entry in the match table */
	struct twi_list link;         /* on the queue that belongs to its stage */

	struct twi_waitable wait; /* its state has the bits above */
	const struct twi_op_ops *ops;
	struct twi_engine *engine;
	struct tow_peer *peer;
	uint32_t index;
	uint32_t next_free;   /* index + 1 of the next free row on the stack; 0: the last */
	uint8_t kind;         /* from its ops */
	uint8_t truncate;     /* of a receive: enum twi_truncate */
	bool embedded;        /* not of the table: it is its owner's again when `done` is called */
	_Atomic uint8_t held; /* enum twi_op_held */
	int status;

	union {
		struct twi_outbound out; /* the same members, for a lane that writes a small send */
		struct {
			void *data;
			uint64_t bytes, tag;
			uint64_t seq; /* the number of a message; 0: none yet */
			uint64_t start_ns;
			uint8_t space;    /* enum twi_space; without a message: USER, or LINK */
			uint8_t stage;    /* enum twi_op_stage */
			uint16_t channel; /* of a message; 0: the peer itself (channel.h) */
			/* `out` ends here */
			bool zerocopy;      /* part of the payload went by zero-copy send */
			bool forgotten;     /* no thread has its handle: a failure is logged */
			uint8_t view;       /* enum twi_op_view */
			bool impatient : 1; /* view: it ends if the pool has no room for it */
			bool roomless : 1;  /* view: held until there is room for result_bytes */
			bool canceled : 1;  /* asked to end early, with its payload under way */
			bool lent : 1;      /* send: unchanged while a view shows it */
			bool early : 1;     /* send: start_ns is before its real start (outbox.h) */
			bool awaits_view : 1; /* send: it ends when a view that shows it has gone */
			uint8_t unused : 2;   /* cleared too: the byte is written whole */
		};
	};
	uint64_t deadline_ns; /* engine time; UINT64_MAX: none */
	union {
		tow_op_callback done;
		struct tow_queue *queue; /* TWI_OP_QUEUED */
	};
	void *user;
	char *failure; /* status below TOW_OK: the reason (failure.h); else NULL */
	uint64_t result_bytes;
	uint64_t latency_ns;
	struct twi_list seq_link; /* send: in the session's table; roomless: on the engine's */

	struct twi_heap_node timed; /* in the engine's heap of deadlines */
	struct twi_site site;       /* the call site that started it */
	uint64_t rpc_id;            /* cleared from here on, up to stamp. Set when a message ends */
	uint64_t moved;             /* payload bytes given to the stream; failed connect: errno */
	union {
		uint64_t framed_ns;            /* send: when it left its queue (message_times.h) */
		struct tow_endpoint *endpoint; /* connect, accept, any-peer receive; NULL: closed */
	};
	uint64_t begun_ns;    /* when the first byte left, or its message was met (op_span.h) */
	uint64_t span_parent; /* the span that it is a part of, in traces */
	union {
		void *lane_state; /* of a connect, send or receive: the lane's state */
		void *owner;      /* TWI_OP_CALL: the object that it stands for */
	};
	void (*view_release)(struct tow_op *op); /* view: frees its memory; NULL: nothing to free */
	struct twi_op_stamp stamp;               /* only its `record` is cleared */

	struct twi_claim claim; /* the lease on the memory of its payload */
	union {
		void *view_state;                    /* for the code that sets view_release */
		const struct twi_lane_ops *lane_ops; /* connect */
		uint64_t dropped_bytes;              /* of a receive: TWI_TRUNCATE_DONE */
	};
	union {                             /* not set in other operations */
		struct twi_copy copy;       /* TWI_OP_COPY */
		struct twi_list on_channel; /* a message whose channel is not 0 (channel.h) */
	};
};

#define TWI_OP_OUT(member)                                                                         \
	(offsetof(struct tow_op, member) - offsetof(struct tow_op, out) ==                         \
	 offsetof(struct twi_outbound, member))
_Static_assert(TWI_OP_OUT(data) && TWI_OP_OUT(bytes) && TWI_OP_OUT(tag) && TWI_OP_OUT(seq) &&
		       TWI_OP_OUT(start_ns) && TWI_OP_OUT(space) && TWI_OP_OUT(stage) &&
		       TWI_OP_OUT(channel),
	       "what goes out has two names");

_Static_assert(sizeof(struct tow_op) % 64 == 0, "each row of the table has its lines to itself");

/*
 * Takes a row of the table and makes it ready. NULL, with the thread's error TOW_EBUSY: none is
 * free. The engine is held.
 */
struct tow_op *twi_op_acquire(struct twi_engine *engine, const struct twi_op_ops *ops,
			      const struct tow_op_options *options);
/* The same for a send without a deadline: it is `early`, and no clock is read. */
struct tow_op *twi_op_acquire_early(struct twi_engine *engine, const struct twi_op_ops *ops,
				    const struct tow_op_options *options);

/*
 * Makes an operation ready that is a part of another object. It needs a callback. When that is
 * called the operation is its owner's again, which may start it once more there, or free it.
 */
void twi_op_embed(struct tow_op *op, struct twi_engine *engine, const struct twi_op_ops *ops,
		  const struct tow_op_options *options);

/* Frees a row that was never started. The engine is held. */
void twi_op_discard(struct tow_op *op);

/*
 * Ends an operation. The holder of the engine calls this once. The callback runs later, when the
 * lanes are at rest; the operation is DONE after the callback.
 */
void twi_op_complete(struct tow_op *op, int status, uint64_t bytes);

/* Ends operations whose deadline has passed (twi_op_hooks). */
void twi_op_expire(struct twi_engine *engine, uint64_t now_ns);

/* The functions of operations that the engine calls. */
extern const struct twi_op_hooks twi_op_hooks;

/* Adds an operation with a deadline to the engine's heap; removes it. */
void twi_op_watch(struct tow_op *op);
void twi_op_unwatch(struct tow_op *op);

/*
 * Waits for an operation that this thread has made, up to the operation's deadline. If that is far,
 * the other ranks are asked before it. `why` then says what was found, behind "; "; otherwise it is
 * empty.
 */
int twi_op_wait_told(struct tow_op *op, char *why, size_t room);

/*
 * No thread will ask for the result: the row is freed when the operation completes. If its result
 * goes to a queue, the row is freed with that. The engine is held.
 */
void twi_op_forget(struct tow_op *op);

static inline bool twi_op_is_queued(const struct tow_op *op)
{
	return (atomic_load_explicit(&op->wait.state, memory_order_relaxed) & TWI_OP_QUEUED) != 0;
}

#endif
