/*
 * op.h - an operation: one thing started by the user, which completes exactly once.
 *
 *	tow_*_start        twi_op_complete            tow_op_release
 *	   |                     |                          |
 *	   v                     v                          v
 *	 [idle] -> IN_FLIGHT -> (callback) -> DONE -> back in the table
 *
 * Operations live in a table of max_ops rows that is made at open: starting one allocates nothing.
 * Most programs use a few: the pages of the others are faulted in by the first that needs them.
 * Free rows are two stacks: the holder of the engine has one to itself; a thread that releases a
 * completed operation pushes it onto the other, which the holder empties when its own is empty.
 *
 * A row belongs to the holder of the engine until DONE is set, and to the user's thread after it.
 * So no read-modify-write is needed: only the holder writes `wait.state` before DONE (release pairs
 * with the acquire of the reader), and one that is released earlier is marked under the engine.
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
	TWI_OP_CALL /* made of messages of the library's own: a call, a collective, a barrier */
};

/*
 * What an operation is to the room that has made it: a constant table, which is set when the
 * operation is made and stays until it is released, so any thread that has its handle may read it.
 * Members are called with the engine held, except where said.
 */
struct twi_op_ops {
	enum twi_op_kind kind;
	const char *noun;        /* "send", for messages */
	uint8_t span, wait_kind; /* enum twi_span_kind; enum twi_waited: of waits for it */

	/*
	 * Ends it before its time, by TOW_ECANCELED or TOW_EDEADLINE; not when it is ending
	 * already. It may end later than this returns, but for the deadline of a message. NULL: it
	 * has none, and nobody can cancel it.
	 */
	void (*abort)(struct tow_op *op, int status);

	/* It has ended with TOW_OK: before its callback. NULL: nothing is to be done. */
	void (*ended)(struct tow_op *op);

	/*
	 * Its row goes back, and with it what the result has named. Not for an operation that is
	 * embedded. NULL: there is nothing, and any thread may put the row back without the engine.
	 */
	void (*release)(struct tow_op *op);

	/*
	 * A thread waits for it, or tests it; now_ns 0: the clock is to be read. Any thread,
	 * without the engine. NULL: nobody wants to know.
	 */
	void (*waited)(struct tow_op *op, uint64_t now_ns);

	/* What a thread that waits for it for long does, in words for the log: "waiting in a
	 * barrier". False: nothing, this time. Any thread, without the engine. NULL: never. */
	bool (*waits_for)(const struct tow_op *op, char *out, size_t room);
};

/* Where a send or receive stands; session.h draws the two ways. */
enum twi_op_stage {
	TWI_STAGE_NEW,
	TWI_STAGE_QUEUED,  /* send: waits for credit or room; receive: matched, waits for a grant */
	TWI_STAGE_OFFERED, /* send: RTS is out */
	TWI_STAGE_BULK,    /* send: granted, in the bulk queue */
	TWI_STAGE_SENT,    /* send: all bytes are out, DONE awaited */
	TWI_STAGE_POSTED,  /* receive: in the match table */
	TWI_STAGE_FILLING, /* receive: an eager payload is arriving in pieces */
	TWI_STAGE_GRANTED, /* receive: CTS is out */
	TWI_STAGE_COMPLETING,
	TWI_STAGE_HELD, /* its peer is not there yet (twi_message_hold) */
};

/* Where the payload of a message lies, if not at op->data; others than NONE are unlikely. */
enum twi_op_view {
	TWI_VIEW_NONE,
	TWI_VIEW_WHOLE, /* receive: the lane finds the memory (message.h) */
	TWI_VIEW_PARTS, /* in the parts that its claim has (parts.h) */
};

/* What a receive does with a longer message: it ends, or it takes a part; it has taken one. */
enum twi_truncate { TWI_TRUNCATE_NEVER, TWI_TRUNCATE_MAY, TWI_TRUNCATE_DONE };

/* A collective that is held back: until it is waited for (coll_batch.h); behind others. */
enum twi_op_held { TWI_HELD_NOT, TWI_HELD_TO_FUSE, TWI_HELD_BEHIND };

/* The part of an operation that only a copy to or from a device has (device_copy.h). */
struct twi_copy {
	struct tow_device *device;
	struct tow_device_memory *memory;
	uint64_t offset;   /* in memory */
	uint64_t landed;   /* bytes of chunks that have ended well */
	int ending;        /* below TOW_OK: no chunk is started any more, and this is the status */
	uint8_t direction; /* enum tow_direction */
	uint8_t in_flight; /* chunks whose host memory is the user's */
	bool staged;
};

/* The part of an operation that only a collective has: when it was waited for (coll_report.h). */
struct twi_op_stamp {
	struct twi_coll_record *record; /* NULL: nobody wants to know */
	uint64_t id;                    /* of the collective in it */
	uint64_t blocked_ns;            /* of the thread that has started it, by then */
	uint32_t thread;
};

/* How long this thread has been blocked in waits, in all. */
extern __thread uint64_t twi_op_blocked_ns __attribute__((tls_model("initial-exec")));

/* Bits of tow_op.wait.state. */
#define TWI_OP_USED     1u /* not in the free stack */
#define TWI_OP_DONE     TWI_WAITABLE_DONE
#define TWI_OP_RELEASED 4u
#define TWI_OP_QUEUED   8u /* its result is its queue's to give (queue.h) */

/*
 * In the order of use: a small message that goes at once touches the first lines only, and what
 * twi_op_acquire clears lies together.
 */
struct tow_op {
	struct twi_match_entry match; /* receive, posted: its place in the match table */
	struct twi_list link;         /* on the queue that its stage names */

	struct twi_waitable wait; /* of its state the bits above */
	const struct twi_op_ops *ops;
	struct twi_engine *engine;
	struct tow_peer *peer;
	uint32_t index;
	uint32_t next_free; /* index + 1, on the stack of free rows; 0: the last */
	uint8_t kind;       /* of its ops */
	uint8_t truncate;   /* receive: enum twi_truncate */
	bool embedded; /* not of the table: its owner's, who has it back when `done` is called */
	_Atomic uint8_t held; /* enum twi_op_held */
	int status;

	union {
		struct twi_outbound out; /* the same, for a lane that writes a small send */
		struct {
			void *data;
			uint64_t bytes, tag;
			uint64_t seq; /* of a message; 0: it has none yet */
			uint64_t start_ns;
			uint8_t space;    /* enum twi_space; of no message: USER, or LINK */
			uint8_t stage;    /* enum twi_op_stage */
			uint16_t channel; /* of a message; 0: the peer itself (channel.h) */
			/* from here on where `out` has nothing */
			bool zerocopy;      /* part of the payload went by zero-copy send */
			bool forgotten;     /* nobody has its handle: a failure is logged */
			uint8_t view;       /* enum twi_op_view */
			bool impatient : 1; /* view: it ends where the pool has no room for it */
			bool roomless : 1;  /* view: held until then; result_bytes is how long */
			bool canceled : 1;  /* asked to end early, as its payload was on the way */
			bool lent : 1;      /* send: nobody writes to it while a view shows it */
			bool early : 1; /* send: start_ns is a time before its start (outbox.h) */
			uint8_t unused : 3; /* cleared as well: the byte is written whole */
		};
	};
	uint64_t deadline_ns; /* engine time; UINT64_MAX: none */
	union {
		tow_op_callback done;
		struct tow_queue *queue; /* TWI_OP_QUEUED */
	};
	void *user;
	char *failure; /* status below TOW_OK: why (failure.h); else NULL */
	uint64_t result_bytes;
	uint64_t latency_ns;
	struct twi_list seq_link; /* send: in the session's table; roomless: on the engine's */

	struct twi_heap_node timed; /* among the engine's deadlines */
	struct twi_site site;       /* of the call that started it */
	uint64_t rpc_id;            /* from here on cleared, to stamp. Set when a message ends */
	uint64_t moved; /* payload bytes handed to the stream; of a connect that failed: errno */
	union {
		uint64_t framed_ns;            /* send: it left its queue (message_times.h) */
		struct tow_endpoint *endpoint; /* connect, accept, any peer's; NULL: closed */
	};
	uint64_t begun_ns;    /* the first byte left, or was met (op_span.h) */
	uint64_t span_parent; /* what it is a part of, in traces */
	union {
		void *lane_state; /* connect, send, receive: the lane's */
		void *owner;      /* TWI_OP_CALL: what it stands for */
	};
	void (*view_release)(struct tow_op *op); /* view: gives the memory back; NULL: nothing to */
	struct twi_op_stamp stamp;               /* of it the record */

	struct twi_claim claim; /* on the memory of its payload */
	union {
		void *view_state;                    /* of whoever set view_release */
		const struct twi_lane_ops *lane_ops; /* connect */
		uint64_t dropped_bytes;              /* receive: TWI_TRUNCATE_DONE */
	};
	union {                             /* else not set */
		struct twi_copy copy;       /* TWI_OP_COPY */
		struct twi_list on_channel; /* of a message whose channel is not 0 (channel.h) */
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

/* A row of the table made ready, or NULL and the thread's error TOW_EBUSY. The engine is held. */
struct tow_op *twi_op_acquire(struct twi_engine *engine, const struct twi_op_ops *ops,
			      const struct tow_op_options *options);
/* The same for a send that has no deadline: no clock is read, it is `early`. */
struct tow_op *twi_op_acquire_early(struct twi_engine *engine, const struct twi_op_ops *ops,
				    const struct tow_op_options *options);

/*
 * Makes an operation ready that is part of something else. It needs a callback, and is its owner's
 * again when that is called: it may be started once more there, or freed.
 */
void twi_op_embed(struct tow_op *op, struct twi_engine *engine, const struct twi_op_ops *ops,
		  const struct tow_op_options *options);

/* Puts a row back that was never started. The engine is held. */
void twi_op_discard(struct tow_op *op);

/*
 * Ends an operation; only for the holder of the engine, once. The callback runs later, when the
 * lanes are at rest; the operation is DONE after it.
 */
void twi_op_complete(struct tow_op *op, int status, uint64_t bytes);

/* Ends operations whose deadline has passed (twi_op_hooks). */
void twi_op_expire(struct twi_engine *engine, uint64_t now_ns);

/* What the engine asks of operations. */
extern const struct twi_op_hooks twi_op_hooks;

/* Puts an operation with a deadline among the engine's, and takes it away. */
void twi_op_watch(struct tow_op *op);
void twi_op_unwatch(struct tow_op *op);

/*
 * Waits for an operation of this thread's own that has a deadline. Where that is long, the other
 * ranks are asked before it, and `why` says what is found, behind "; "; else it is empty.
 */
int twi_op_wait_told(struct tow_op *op, char *why, size_t room);

/*
 * Nobody will ask: the row goes back by itself when the operation completes, or with its result
 * where that goes to a queue. The engine is held.
 */
void twi_op_forget(struct tow_op *op);

static inline bool twi_op_is_queued(const struct tow_op *op)
{
	return (atomic_load_explicit(&op->wait.state, memory_order_relaxed) & TWI_OP_QUEUED) != 0;
}

#endif
