/*
 * engine.h - the waiting thread drives: the engine is held by one thread at a time, which moves the
 * lanes.
 *
 * Any call that touches a lane takes the engine for its time: one compare-and-swap when nobody has
 * it. A thread that waits for an operation keeps it and polls, gives way whenever another thread
 * asks for it (wanted), and gives it back before it sleeps. There is no other lock on the data
 * path.
 *
 *	T1: tow_op_wait          T2: tow_send_start       the library's (background.h)
 *	 |  hold, poll, poll      |  wanted++              |  asleep, or looks once in a while
 *	 |  wanted? give way ---> |  hold: frame, submit   |
 *	 |  hold again <--------- |  give back             |
 *	 |  done: computes -------+----------------------> |  nobody has driven for a tick:
 *	 |                                                 |  hold, poll until idle, arm, sleep
 *
 * Every thread that drives has a ring of its own (poller.h), because an io_uring with DEFER_TASKRUN
 * belongs to one thread. When the engine changes hands, the new holder first reaps what the others'
 * rings have posted (their completion queues are plain memory) and then has the lanes arm its own
 * ring.
 *
 * Under the simulator it has a virtual clock: instead of sleeping it jumps to the next deadline.
 *
 * Files: engine.c takes and gives; engine_ring.c binds rings to threads; engine_drive.h is for who
 * polls and waits, engine_drive.c polls, spins and sleeps; engine_wait.c says which waiter does;
 * engine_fd.c serves tow_fd; engine_thread.c knows threads; engine_heap.c keeps deadlines;
 * engine_away.c knows how long nobody polled; background.c is the library's own thread.
 */
#ifndef TWI_ENGINE_H
#define TWI_ENGINE_H

#include <stdatomic.h>

#include <internal/list.h>
#include <towline/runtime.h>

#include "diag/base/clock.h"
#include "diag/knob/knob.h"
#include "diag/record/lane_id.h"
#include "memreg/pool/staging.h"
#include "transport/engine/cpu_log.h"
#include "transport/engine/engine_away.h"
#include "transport/engine/engine_fd.h"
#include "transport/engine/engine_heap.h"
#include "transport/engine/engine_slice.h"
#include "transport/engine/engine_thread.h"
#include "transport/engine/hooks.h"
#include "transport/engine/long_ops.h"
#include "transport/engine/part.h"
#include "transport/engine/process.h"
#include "transport/engine/room.h"
#include "transport/engine/step.h"
#include "transport/engine/told.h"
#include "transport/engine/wait_log.h"
#include "transport/security/job_key.h"
#include "transport/wire/feature.h"

#define TWI_ENGINE_SINK_BYTES (64u << 10)
#define TWI_RINGS_MAX         16                  /* of the callers' threads */
#define TWI_RINGS_KEPT        8                   /* of them: taken from no thread that lives */
#define TWI_RING_BACKGROUND   TWI_RINGS_MAX       /* the library's own thread has one more */
#define TWI_RING_SLOTS        (TWI_RINGS_MAX + 1) /* all of them */
#define TWI_LANE_AUTO         TWI_LANE_COUNT      /* tow://: moves nothing itself (auto.h) */
#define TWI_LANE_SLOTS        (TWI_LANE_COUNT + 1)

struct twi_alloclog;
struct twi_bpf;
struct twi_coll_account;
struct twi_coll_log;
struct twi_coll_region;
struct twi_coll_table;
struct twi_diag;
struct twi_diag_block;
struct twi_epoll_notices;
struct twi_background;
struct twi_inquiry;
struct twi_lane;
struct twi_latency;
struct twi_op_table;
struct twi_pool;
struct twi_ring;
struct twi_rpc;
struct twi_trace_writer;
struct twi_uring_closer;
struct twi_wait;
struct twi_engine {
	/* What threads that want the engine look at. */
	_Alignas(64) _Atomic uint32_t held; /* 0 free, else the holder's thread mark */
	_Atomic uint32_t wanted;            /* threads that ask for it, */
	_Atomic uint32_t parked;            /* and those of them that may sleep until it is free */
	_Atomic uint32_t sleepers;          /* threads asleep in a wait, and those with a tow_fd */
	_Atomic uint32_t background_asleep; /* enum twi_background_sleep */
	_Atomic uint32_t lingerers;       /* waiters that yield until they sleep (engine_wait.h) */
	_Atomic int32_t linger_pays;      /* negative: it does not */
	_Atomic uint64_t linger_again_ns; /* not before */

	/* What the holder writes in every call: together, as it goes from core to core with it. */
	_Alignas(64) uint32_t depth; /* of the holder's calls: more than one in a callback */
	bool in_callback;
	bool corked;              /* several messages are being started: lanes wait for the flush */
	bool armed_since_enter;   /* this holder left something that a sleeper must take on */
	_Atomic uint32_t waiters; /* callers within a wait, asleep or not: the holder writes */
	_Atomic uint32_t watchers; /* rings with a tow_fd: likewise */
	_Atomic uint64_t drives;   /* polls by whomever: likewise */
	_Atomic uint64_t waits;    /* that have begun: likewise */
	uint32_t any_waits;        /* for more than one operation: whoever completes one notes it */
	struct twi_ring *ring;     /* of the thread that drives now */
	struct twi_ring *last_ring;   /* the last holder's: it may have unreaped completions */
	struct twi_ring *armed_ring;  /* in which the lanes have armed what they wait for */
	struct twi_diag_block *block; /* the holder's (held_count.h), found for... */
	uint32_t block_mark;          /* ...the thread of this mark */
	uint64_t now_ns;  /* read at most once a call or poll; 0: not read in this one */
	uint64_t seen_ns; /* the last of these readings */
	uint64_t turn_ns; /* read just before the poll that comes next; 0: not read */
	struct twi_away away;

	struct twi_list callbacks; /* operations whose callback is due (hooks.h) */
	uint64_t next_expiry_ns;
	uint64_t alarm_ns;                 /* when whoever went to sleep last looks by itself */
	_Atomic(struct twi_wait *) driver; /* of those who wait: the one that polls */
	_Atomic(struct twi_wait *) sentry; /* likewise: the one asleep where all is armed */
	uint64_t left_ns;  /* when a driver went though others waited; 0: one has come since */
	uint64_t pause_ns; /* for how long there was none then, the last time */
	struct twi_slices slices;
	struct twi_heap timed;          /* operations with a deadline (hooks.h) */
	uint64_t crowded_until_ns;      /* more want to run than there are cores: spinners yield */
	uint64_t hogged_until_ns;       /* somebody else keeps the core for long: waiters sleep */
	uint64_t crowd_hogged_until_ns; /* likewise, while more ranks than cores wait */
	uint64_t probe_at_ns;           /* when to find out whether that is so */
	uint32_t turns;                 /* of spinning waiters */
	uint32_t notices;               /* zero-copy sends whose notification is to come */
	uint32_t read_directly;         /* connections that whoever polls reads by itself */
	struct twi_op_table *ops;       /* op/op_table.h */

	/* What seldom changes. */
	_Alignas(64) bool virtual_clock;
	bool failing;          /* the runtime is closing: nothing new is taken */
	bool plain_rings;      /* there is one that is not deferred (uring/ring.h) */
	bool remote_barriers;  /* giving the engine back needs no fence */
	uint32_t memory_peers; /* peers of lanes that are memory_polled */
	uint32_t lane_count;   /* those of lanes[] that are there, TWI_LANE_AUTO excepted */
	struct twi_lane *moving[TWI_LANE_COUNT]; /* they, closely packed for the poll */
	struct twi_lane *lanes[TWI_LANE_SLOTS];
	struct twi_diag *diag;
	struct twi_bpf *bpf; /* NULL without a stats socket */
	struct twi_pool *pool;
	const _Atomic uint64_t *regions_clock; /* the version of its regions */
	_Atomic(struct twi_rpc *) rpc;         /* calls; NULL until the first use (rpc.h) */
	uint64_t fork_generation;
	uint64_t binding; /* unique in this process; new when a ring was taken from a live thread */
	uint64_t take_again_ns;                /* when the next may be taken */
	struct twi_hooks hooks;                /* of rooms above; never changed after opening */
	struct twi_list polled;                /* parts with items (part.h) */
	struct twi_part parts[TWI_PART_COUNT]; /* by enum twi_part_id */
	uint64_t coll_messages, coll_work;    /* that they have started; bytes reduced and copied */
	struct twi_coll_table *coll_table;    /* NULL: none */
	struct twi_list coll_groups;          /* all that can have collectives */
	struct twi_list series;               /* of calls of groups (job/series.h) */
	struct twi_list foreign_groups;       /* of other libraries (foreign/foreign.h) */
	struct twi_list formings;             /* jobs that are not whole (job/forming.h) */
	struct twi_list coll_batches;         /* those that hold calls back (coll/coll_batch.h) */
	struct twi_coll_region *coll_regions; /* of a job that has ended (coll/coll_kept.h) */
	_Atomic bool colls_held;              /* there are some */
	struct twi_coll_log *coll_log;  /* the last collectives (coll/coll_report.h), or NULL */
	_Atomic uint32_t device_signal; /* a device has news that nobody has looked at yet */
	struct twi_knobs knobs;
	struct twi_job_key job_key;   /* of the secret that knobs.job_key does not show any more */
	struct twi_features features; /* what its lanes may offer, and require */
	char poller_refusal[256]; /* why there is no io_uring; "": there is, or none was wanted */
	struct twi_epoll_notices *epoll_notices; /* of zero-copy sends; NULL: none were made */
	struct twi_uring_closer *uring_closer; /* NULL: none was closed yet (uring/ring_closer.h) */
	_Atomic uint32_t rings_closing;
	struct twi_ring *rings[TWI_RING_SLOTS];
	struct twi_life *lives[TWI_RING_SLOTS]; /* of the threads that the rings belong to */
	struct twi_fd fds[TWI_RING_SLOTS];
	struct twi_background *background; /* NULL: none (yet) */
	_Atomic uint32_t background_mark;  /* of its thread (engine_thread.h); 0: none (yet) */
	_Atomic bool backed;               /* it is there, and drives where nobody else does */
	struct twi_inquiry *inquiry;       /* NULL: none */
	struct twi_identity self;          /* this process */
	struct twi_processes processes;    /* those of peers */
	struct twi_list waiting;           /* struct twi_wait */
	struct twi_room room;              /* in the pool: who waits for it */
	struct twi_wait_log wait_log;      /* of the thread that waits; likewise: */
	struct twi_cpu_log cpu_log;
	struct twi_told told;         /* the thread that the library's own tells of ends */
	struct twi_long_ops long_ops; /* that have taken long */
	uint64_t own_polls;           /* of drives: the library's own */
	struct twi_list queues;       /* of completions (op/queue.h) */
	struct twi_list endpoints;
	struct twi_list peers;
	struct twi_staging staging; /* part of the pool */
	struct twi_alloclog *alloclog;
	struct twi_latency *notify_lag; /* of zero-copy sends: completion to notification */
	uint64_t virtual_ns;
	struct twi_step step;
	struct twi_trace_writer *trace_writer;         /* NULL: no knob asks for one (tracing.h) */
	struct twi_coll_account *_Atomic coll_account; /* of all (coll/coll_account.h), or NULL */
	_Atomic int64_t job_rank;                      /* -1: not found out (tracing.h) */
	/* Where bytes go that nobody wants. Never read; not touched until there are some. */
	uint8_t sink[TWI_ENGINE_SINK_BYTES];
};

/* Does the calling thread hold the engine? It does within a callback, too. Any thread may ask. */
static inline bool twi_engine_held(const struct twi_engine *engine)
{
	return atomic_load_explicit(&engine->held, memory_order_relaxed) == twi_thread_mark();
}
/* Stands at the head of what is for the holder alone; asked in builds with TWI_DEBUG (base.h). */
#define twi_assert_held(engine) twi_assert_hot(twi_engine_held(engine))

/* The engine's time, read now. */
static inline uint64_t twi_engine_clock(const struct twi_engine *engine)
{
	return twi_unlikely(engine->virtual_clock) ? engine->virtual_ns : twi_now_ns();
}

/*
 * The engine's time. To the thread that holds the engine it stands still within a call, a poll, a
 * callback: one reading serves all that happens there. Others have it read.
 */
static inline uint64_t twi_engine_now(const struct twi_engine *engine)
{
	struct twi_engine *mine = (struct twi_engine *)(uintptr_t)engine;

	if (twi_unlikely(engine->virtual_clock ||
			 atomic_load_explicit(&mine->held, memory_order_relaxed) !=
				 twi_thread_mark()))
		return twi_engine_clock(engine);
	if (engine->now_ns == 0) {
		mine->seen_ns = mine->now_ns = twi_now_ns();
		twi_clock_keep(mine->now_ns);
	}
	return engine->now_ns;
}

/* The same, where the engine is known to be held. */
static inline uint64_t twi_engine_batch_now(struct twi_engine *engine)
{
	if (twi_unlikely(engine->virtual_clock))
		return engine->virtual_ns;
	if (engine->now_ns == 0) {
		engine->seen_ns = engine->now_ns = twi_now_ns();
		twi_clock_keep(engine->now_ns);
	}
	return engine->now_ns;
}

/* The last reading of a holder's, from before now: where a clock costs more than its news. */
static inline uint64_t twi_engine_seen(const struct twi_engine *engine)
{
	return twi_unlikely(engine->virtual_clock) ? engine->virtual_ns : engine->seen_ns;
}

/* Is a thread in a wait? The engine is held. */
static inline bool twi_engine_waited(const struct twi_engine *engine)
{
	/* relaxed: the holder alone writes it */
	return atomic_load_explicit(&engine->driver, memory_order_relaxed) != NULL ||
	       !twi_list_empty(&engine->waiting);
}

/* Do waiters linger (engine_wait.h)? Any thread may ask. */
static inline bool twi_engine_shared(const struct twi_engine *engine)
{
	return atomic_load_explicit(&engine->lingerers, memory_order_relaxed) > 0;
}

/* A counter that only the holder of the engine writes, and others read. */
#define twi_engine_count(cell, n)                                                                  \
	atomic_store_explicit(&(cell), atomic_load_explicit(&(cell), memory_order_relaxed) + (n),  \
			      memory_order_relaxed)

/* True when the calling thread is inside a completion callback of this engine. */
bool twi_engine_in_callback(struct twi_engine *engine);

/* Is this a forked child of the process that opened the runtime? */
static inline bool twi_engine_forked(const struct twi_engine *engine)
{
	return twi_unlikely(engine->fork_generation != twi_fork_generation());
}

/* Takes the engine, and asks its holder to give way. In a callback the thread holds it already. */
void twi_engine_enter(struct twi_engine *engine);
bool twi_engine_try_enter(struct twi_engine *engine);

/* Gives the engine back; runs callbacks that are due first. */
void twi_engine_leave(struct twi_engine *engine);

/*
 * Binds the calling thread's ring to the engine, making one when the thread has none. The engine is
 * held. TOW_OK; TOW_EBUSY, without a message, when other threads use all rings right now: what
 * this one starts is moved by them, or by the library's own; TOW_ENOMEM; TOW_ESYSTEM.
 */
int twi_engine_bind_ring(struct twi_engine *engine);

/* Sends what is held back, acknowledgements too. */
void twi_engine_flush(struct twi_engine *engine);

#endif
