/*
 * hooks.h - what lower rooms ask of rooms above them. A runtime has its hooks from its opening on,
 * all from transport/runtime_hooks.c. They never change, so any thread may read them. A hook is
 * called with the engine held unless something else is said.
 */
#ifndef TWI_HOOKS_H
#define TWI_HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tow_group;
struct tow_op;
struct tow_peer;
struct twi_engine;
struct twi_barrier_word;
struct twi_ranks;

/* op/: operations. The engine knows only its lists of them, and how they are waited for. */
struct twi_op_hooks {
	/* Runs the callbacks of engine->callbacks. True when there were any. */
	bool (*run_callbacks)(struct twi_engine *engine);
	/* Ends the operations of engine->timed whose time has passed, and sets next_expiry_ns. */
	void (*expire)(struct twi_engine *engine, uint64_t now_ns);
	/* The operations that have a row and go on. Views count until they are given back. */
	uint32_t (*in_flight)(const struct twi_engine *engine);
};

/* message/: receives from any peer of an endpoint; channels. */
struct twi_match_hooks {
	void (*post)(struct tow_op *op);      /* a receive is started */
	void (*join)(struct tow_peer *peer);  /* the user has the peer: it is the endpoint's now */
	void (*leave)(struct tow_peer *peer); /* the peer is not the endpoint's any more */
	void (*close)(struct tow_peer *peer); /* the user is done with it */
};

#define TWI_INQUIRY_ROUND 950000000ull /* ns, from the questions to the verdict */

/* inquiry/: questions to the other ranks about their state. */
struct twi_inquiry_hooks {
	/* Begins a round, if none is fresh. Returns when it can be judged; 0: not at all. */
	uint64_t (*begin)(struct twi_engine *engine);
	/* The verdict in one line, behind `prefix`; "" for none. The engine need not be held. */
	void (*brief)(struct twi_engine *engine, const char *prefix, char *out, size_t room);
	/* Something has failed: the flight recorder is to keep what it knows of it. */
	void (*failed)(struct twi_engine *engine);
	/* Waits until that has been kept, 100 ms at most; with the engine held it does not wait. */
	void (*settle)(struct twi_engine *engine);
	/*
	 * An operation failed because its rank is gone: appends to `text` what more is known of
	 * that. The engine is held.
	 */
	void (*suffered)(const struct tow_op *op, char *text, size_t room);
};

/* rpc/: messages between the library and the library at the other side of a peer. */
struct twi_link_hooks {
	void (*up)(struct tow_peer *peer);     /* the user has the peer, or it is a rank's */
	void (*detach)(struct tow_peer *peer); /* the peer is about to be freed */
	void (*ask)(struct tow_peer *peer, uint64_t now_ns); /* peer->link_due_ns has passed */
};

/* coll/: groups that may have collectives. */
struct twi_coll_hooks {
	/* A group is there. Ranks that never call a collective must be known, too. */
	void (*group_begin)(struct tow_group *group);
	/* A group ends. False: its collectives under way have not ended yet. */
	bool (*group_end)(struct tow_group *group);
	/* Sends a word on a barrier to a rank of the job, and connects first. */
	void (*say_barrier)(struct twi_ranks *ranks, uint32_t job_rank,
			    const struct twi_barrier_word *word);
};

/* coll/ and inquiry/: messages of the library's own between ranks. */
struct twi_rank_hooks {
	/* A rank is connected. TOW_OK, or TOW_ENOMEM: the connection is of no use. */
	int (*up)(struct twi_ranks *ranks, uint32_t rank, struct tow_peer *peer);
	/* The ranks are freed: nothing may name them any more. */
	void (*end)(struct twi_ranks *ranks);
};

/* tracing.c. The engine need not be held. */
struct twi_trace_hooks {
	/*
	 * The process knows its rank in the job now. TOW_OK or TOW_ENOMEM. The engine is not held.
	 */
	int (*rank)(struct twi_engine *engine, int64_t rank, int64_t world);
	/*
	 * A look has found at unix_s what the one before had not: begins a capture, where the knob
	 * says so. `what` is for the log. It never waits.
	 */
	void (*found)(struct twi_engine *engine, uint64_t unix_s, const char *what);
};

/* job/: the messages of groups. */
struct twi_group_hooks {
	/* The other side has opened the channel of a group, which this side has not. */
	void (*opened)(struct tow_peer *peer, uint16_t number);
	/*
	 * Writes why an operation on the channel of a group has ended. False: the group is not the
	 * reason.
	 */
	bool (*why)(const struct tow_op *op, char *out, size_t room);
	/* A message of a collective or a barrier has come: does nobody receive it any more? */
	bool (*over)(const struct tow_peer *peer, uint64_t tag, uint8_t space);
};

#define TWI_RANK_HOOKS 2u

struct twi_hooks {
	const struct twi_op_hooks *op;
	const struct twi_match_hooks *match;
	const struct twi_inquiry_hooks *inquiry;
	const struct twi_link_hooks *link;
	const struct twi_coll_hooks *coll;
	const struct twi_group_hooks *group;
	const struct twi_rank_hooks *ranks[TWI_RANK_HOOKS];
	const struct twi_trace_hooks *trace;
};

extern const struct twi_hooks twi_runtime_hooks;

#endif
