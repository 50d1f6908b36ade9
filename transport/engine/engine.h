/*
 * engine.h - the engine: one thread at a time holds it, and moves the lanes.
 *
 * A call that touches a lane takes the engine while it runs: one compare-and-swap when it is free.
 * A thread that waits keeps the engine and polls. It gives way whenever another thread asks
 * (`wanted`), and gives the engine back before it sleeps. The data path has no other lock.
 *
 *	T1: tow_op_wait          T2: tow_send_start       the library's (background.h)
 *	 |  hold, poll, poll      |  wanted++              |  asleep, or looks once in a while
 *	 |  wanted? give way ---> |  hold: frame, submit   |
 *	 |  hold again <--------- |  give back             |
 *	 |  done: computes -------+----------------------> |  no thread has driven for a tick:
 *	 |                                                 |  hold, poll until idle, arm, sleep
 *
 * Each thread that drives has a ring of its own (poller.h), because an io_uring with DEFER_TASKRUN
 * belongs to one thread. When the engine changes hands, the new holder first reaps what the other
 * threads' rings have posted: their completion queues are plain memory. Then it has the lanes arm
 * its own ring.
 *
 * Under the simulator a virtual clock jumps to the next deadline where a thread would sleep.
 *
 * Files: engine.c takes the engine and gives it back; engine_ring.c binds rings to threads.
 * engine_drive.h is for threads that poll and wait; engine_drive.c polls, spins and sleeps;
 * engine_wait.c chooses the waiter that polls; engine_fd.c serves tow_fd; engine_thread.c knows
 * threads. engine_heap.c keeps deadlines; engine_away.c knows how long no thread polled.
 * background.c is the library's own thread.
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
#include "transport/engine/handoff.h"
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
#define TWI_RINGS_MAX         16                  /* rings of the callers' threads */
#define TWI_RINGS_KEPT        8                   /* of these, never taken from a living thread */
#define TWI_RING_BACKGROUND   TWI_RINGS_MAX       /* slot of the library's own thread */
#define TWI_RING_SLOTS        (TWI_RINGS_MAX + 1) /* all rings */
#define TWI_LANE_AUTO         TWI_LANE_COUNT      /* tow://, which moves no bytes itself (auto.h) */
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
	/* Read by threads that want the engine. */
	_Alignas(64) _Atomic uint32_t held; /* 0: free; else the thread mark of the holder */
	_Atomic uint32_t wanted;            /* threads that ask for it, */
	_Atomic uint32_t parked;            /* and those of them that may sleep until it is free */
	_Atomic uint32_t sleepers;          /* threads asleep in a wait, and those with a tow_fd */
	_Atomic uint32_t background_asleep; /* enum twi_background_sleep */
	_Atomic uint32_t lingerers;       /* waiters that yield before they sleep (engine_wait.h) */
	_Atomic int32_t linger_pays;      /* negative: lingering does not pay */
	_Atomic uint64_t linger_again_ns; /* no lingering before this time */

	/* Written by the holder in every call: together, as they go to its core with it. */
	_Alignas(64) uint32_t depth; /* nested calls of the holder; above 1 in a callback */
	bool in_callback;
	bool corked;              /* several messages are being started: lanes wait for the flush */
	bool armed_since_enter;   /* the holder leaves work for a sleeper */
	_Atomic uint32_t waiters; /* threads in a wait, asleep or not; the holder writes */
	_Atomic uint32_t watchers;    /* rings with a tow_fd; the holder writes */
	_Atomic uint64_t drives;      /* polls by any thread; the holder writes */
	_Atomic uint64_t waits;       /* waits begun so far; the holder writes */
	uint32_t any_waits;           /* waits for more than one operation */
	struct twi_ring *ring;        /* ring of the holder; NULL: not bound */
	struct twi_ring *last_ring;   /* ring of the last holder; may have unreaped completions */
	struct twi_ring *armed_ring;  /* ring in which the lanes have armed their requests */
	struct twi_diag_block *block; /* counters of the holder (held_count.h) */
	uint32_t block_mark;          /* mark of the thread that `block` belongs to */
	uint64_t now_ns;              /* time of this call or poll; 0: the clock is not read yet */
	uint64_t seen_ns;             /* the last of these readings */
	uint64_t turn_ns;             /* reading for the poll that comes next; 0: none */
	struct twi_away away;

	struct twi_list callbacks; /* operations whose callback is due (hooks.h) */
	uint64_t next_expiry_ns;
	uint64_t alarm_ns;                 /* when the last sleeper wakes by itself */
	_Atomic(struct twi_wait *) driver; /* the waiter that polls */
	_Atomic(struct twi_wait *) sentry; /* the waiter asleep on the ring where all is armed */
	struct twi_handoff handoff;
	struct twi_slices slices;
	struct twi_heap timed;          /* operations with a deadline (hooks.h) */
	uint64_t crowded_until_ns;      /* more threads than cores want to run: spinners yield */
	uint64_t hogged_until_ns;       /* another program keeps the core: waiters sleep */
	uint64_t crowd_hogged_until_ns; /* the same while more ranks than cores wait */
	uint64_t probe_at_ns;           /* when a spinner next measures that */
	uint32_t turns;                 /* turns of spinning waiters */
	uint32_t notices;               /* zero-copy sends whose notification is to come */
	uint32_t read_directly;         /* connections that the polling thread reads itself */
	struct twi_op_table *ops;       /* op/op_table.h */

	/* Fields that seldom change. */
	_Alignas(64) bool virtual_clock;
	bool failing;          /* the runtime is closing: new work is refused */
	bool plain_rings;      /* some ring is not deferred (uring/ring.h) */
	bool remote_barriers;  /* giving the engine back needs no fence */
	uint32_t memory_peers; /* peers of lanes that are memory_polled */
	uint32_t lane_count;   /* lanes in moving[]: those in use, TWI_LANE_AUTO excepted */
	struct twi_lane *moving[TWI_LANE_COUNT]; /* the lanes to poll, without gaps */
	struct twi_lane *lanes[TWI_LANE_SLOTS];
	struct twi_diag *diag;
	struct twi_bpf *bpf; /* NULL without a stats socket */
	struct twi_pool *pool;
	const _Atomic uint64_t *regions_clock; /* version of the pool's regions */
	_Atomic(struct twi_rpc *) rpc;         /* of calls (rpc.h); NULL until the first use */
	uint64_t fork_generation;
	uint64_t binding; /* unique in this process; new when a ring was taken from a live thread */
	uint64_t take_again_ns;                /* when a ring may next be taken from a thread */
	struct twi_hooks hooks;                /* calls to rooms above; fixed at opening */
	struct twi_list polled;                /* parts with items (part.h) */
	struct twi_part parts[TWI_PART_COUNT]; /* by enum twi_part_id */
	uint64_t coll_messages, coll_work;     /* messages started; bytes reduced and copied */
	uint32_t piece_cost, pieces_read, pieces_around; /* of collectives (op/path.h) */
	struct twi_coll_table *coll_table;               /* NULL: none */
	struct twi_list coll_groups;                     /* groups that can have collectives */
	struct twi_list series;               /* series of groups' calls (job/series.h) */
	struct twi_list foreign_groups;       /* groups of other libraries (foreign/foreign.h) */
	struct twi_list formings;             /* groups that wait for all ranks (job/forming.h) */
	struct twi_list coll_batches;         /* batches that hold calls back (coll/coll_batch.h) */
	struct twi_coll_region *coll_regions; /* regions of an ended job (coll/coll_kept.h) */
	_Atomic bool colls_held;              /* coll_batches is not empty */
	struct twi_coll_log *coll_log;  /* the last collectives (coll/coll_report.h), or NULL */
	_Atomic uint32_t device_signal; /* a device has news that no thread has looked at yet */
	struct twi_knobs knobs;
	struct twi_job_key job_key;   /* made of the secret, which knobs.job_key no longer shows */
	struct twi_features features; /* features that its lanes may offer, and require */
	char poller_refusal[256]; /* why there is no io_uring; "": there is, or none is wanted */
	struct twi_epoll_notices *epoll_notices; /* notices of zero-copy sends; NULL: none yet */
	struct twi_uring_closer *uring_closer; /* NULL: no ring closed yet (uring/ring_closer.h) */
	_Atomic uint32_t rings_closing;
	struct twi_ring *rings[TWI_RING_SLOTS];
	struct twi_thread_record *ring_threads[TWI_RING_SLOTS]; /* the owner of each ring */
	struct twi_fd fds[TWI_RING_SLOTS];
	struct twi_background *background; /* NULL: none (yet) */
	_Atomic uint32_t background_mark;  /* mark of its thread (engine_thread.h); 0: none (yet) */
	_Atomic bool backed;               /* it is there, and drives while no caller does */
	struct twi_inquiry *inquiry;       /* NULL: none */
	struct twi_identity self;          /* this process */
	struct twi_processes processes;    /* processes of peers */
	struct twi_list waiting;           /* struct twi_wait */
	struct twi_room room;              /* views and threads that wait for pool memory */
	struct twi_wait_log wait_log;      /* waits of the thread that is followed */
	struct twi_cpu_log cpu_log;
	struct twi_told told;         /* the thread that learns of ends from the library's thread */
	struct twi_long_ops long_ops; /* operations that have taken long */
	uint64_t own_polls;           /* polls of the library's thread, a part of drives */
	struct twi_list queues;       /* completion queues (op/queue.h) */
	struct twi_list endpoints;
	struct twi_list peers;
	struct twi_staging staging; /* staging memory, a part of the pool */
	struct twi_alloclog *alloclog;
	struct twi_latency *notify_lag; /* zero-copy sends: completion to notification */
	uint64_t virtual_ns;
	struct twi_step step;
	struct twi_trace_writer *trace_writer;         /* NULL: no knob asks for one (tracing.h) */
	struct twi_coll_account *_Atomic coll_account; /* coll/coll_account.h, or NULL */
	_Atomic int64_t job_rank;                      /* -1: not known yet (tracing.h) */
	/* Receives bytes that are thrown away. Never read; not touched until there are some. */
	uint8_t sink[TWI_ENGINE_SINK_BYTES];
};

/* Does the calling thread hold the engine? It does within a callback, too. Any thread may ask. */
static inline bool twi_engine_held(const struct twi_engine *engine)
{
	return atomic_load_explicit(&engine->held, memory_order_relaxed) == twi_thread_mark();
}
/* Asserts that the calling thread holds the engine; checked in builds with TWI_DEBUG (base.h). */
#define twi_assert_held(engine) twi_assert_hot(twi_engine_held(engine))

/* The engine's time, read now. */
static inline uint64_t twi_engine_clock(const struct twi_engine *engine)
{
	return twi_unlikely(engine->virtual_clock) ? engine->virtual_ns : twi_now_ns();
}

/*
 * The engine's time. For the holder it stands still within a call, a poll or a callback: one
 * reading serves all that happens there. For other threads the clock is read.
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

/* The same for a caller that holds the engine. */
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

/* The last reading of a holder: for code to which a new one is not worth its cost. */
static inline uint64_t twi_engine_seen(const struct twi_engine *engine)
{
	return twi_unlikely(engine->virtual_clock) ? engine->virtual_ns : engine->seen_ns;
}

/* Is a thread in a wait? The engine is held. */
static inline bool twi_engine_waited(const struct twi_engine *engine)
{
	/* relaxed: only the holder writes it */
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
 * Binds the calling thread's ring to the engine, and makes one when the thread has none. The engine
 * is held. Returns TOW_OK, TOW_ENOMEM, TOW_ESYSTEM, or TOW_EBUSY without a message: other threads
 * use all rings now. Then those threads, or the library's own, move what this one starts.
 */
int twi_engine_bind_ring(struct twi_engine *engine);

/* Sends what is held back, acknowledgements too. */
void twi_engine_flush(struct twi_engine *engine);

#endif
