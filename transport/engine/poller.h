/*
 * poller.h - how a thread moves connections: a ring of requests and completions, and the table of
 * functions behind it.
 *
 *	engine, lanes --requests--> struct twi_ring --completions--> lane->ops->completed
 *	                                  |
 *	                     uring/: an io_uring of the thread's own
 *	                     epoll/: an epoll set of the thread's own, and plain system calls
 *
 * Neither the engine nor a lane knows which poller it uses. Both pollers keep the same promises:
 *
 * - A request is named by its user data: [owner: 8 bits][the owner's: 56 bits]. An owner is a lane,
 *   as its id plus 1, or TWI_RING_PROCESSES (process.h).
 * - Nothing happens in a ring unless its thread submits or polls, which it does only while it holds
 *   the engine. Hence what a thread leaves armed is asleep until that thread drives again, and two
 *   threads never receive from one socket at once. The price is a rule for lanes (lane.h): an armed
 *   request must be harmless when it wakes late. Polls and multishot receives are harmless. A ring
 *   that is not `deferred` completes polls at any time, and lanes have it receive nothing
 *   (uring/ring.h).
 * - Sends and receives with the caller's memory are MSG_DONTWAIT: they are over once they have been
 *   submitted. Until then the memory that they point to must stay.
 * - Completions are plain memory, so the holder of the engine may reap those of any ring.
 *
 * The knob `poller` chooses one. `auto` takes io_uring where the kernel has it and lets the thread
 * use it, else epoll. The reason is in /v1/info and /v1/peers.
 */
#ifndef TWI_POLLER_H
#define TWI_POLLER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diag/base/cancel.h"
#include "diag/base/emit.h"
#include "diag/record/lane_id.h"
#include "memreg/region/region.h"
#include "memreg/region/registrar.h"

#define TWI_RING_ENTRIES      256u
#define TWI_RING_BUFFER_BYTES (64u << 10)

#define TWI_RING_PROCESSES 0xffu /* owner of the requests of process.h */

/* Flags of a completion; their values are those of io_uring. */
#define TWI_DONE_MORE        (1u << 1)  /* the request goes on and brings more completions */
#define TWI_DONE_NONEMPTY    (1u << 2)  /* the socket has more to read */
#define TWI_DONE_NOTICE      (1u << 3)  /* the kernel has let go of a zero-copy send's memory */
#define TWI_DONE_KERNEL_COPY (1u << 31) /* in the result of a notice: the kernel had copied */

struct msghdr;
struct twi_engine;
struct twi_poller;

/* The part of a thread's ring that engine and lanes see; the poller's own struct begins with it. */
struct twi_ring {
	const struct twi_poller *poller;
	struct twi_engine *engine;
	uint32_t index;               /* in engine->rings */
	uint32_t mark;                /* mark of the thread that it belongs to */
	_Atomic uint32_t sleeping;    /* its thread is in a wait, or polls its tow_fd */
	uint64_t used_ns;             /* when it was last bound, or let go */
	bool watched;                 /* its thread has a tow_fd */
	bool deferred;                /* it does nothing unless its thread enters it */
	bool registrar;               /* the pool has accepted it as a registrar */
	bool zerocopy;                /* it can send without a copy */
	bool any_memory;              /* it can do so from unregistered memory, too */
	uint64_t regions_version;     /* version of the pool's regions that it is in step with */
	const _Atomic uint64_t *have; /* by slot: generation of the region in it; NULL: no slots */
	int wake_fd;                  /* eventfd by which other threads wake it */
	int ready_fd;                 /* is readable when the ring is woken or has work to do */
	uint32_t unsubmitted;
	uint32_t notices; /* its zero-copy sends whose notification is to come */
};

/*
 * One way to move connections. A member that takes a ring is called by the ring's thread, which
 * holds the engine, unless something else is said.
 */
struct twi_poller {
	const char *name;
	/*
	 * Shows the pool's memory to the ring. A poller that registers none refuses it, with the
	 * reason.
	 */
	const struct twi_registrar *registrar;

	/*
	 * Makes the calling thread's ring. TOW_OK, TOW_ENOTSUP, TOW_ENOMEM, TOW_EPERM, TOW_ESYSTEM.
	 */
	int (*create)(struct twi_engine *engine, struct twi_ring **out);
	/*
	 * Any thread calls it: the ring's own may have ended, or gets a new ring when it needs one.
	 */
	void (*destroy)(struct twi_ring *ring);
	/*
	 * The ring stays with its thread until that ends, so the poller may do what only then saves
	 * work.
	 */
	void (*keep)(struct twi_ring *ring);

	/*
	 * Requests. False: the queue is full and cannot be emptied now; nothing was taken.
	 *
	 * poll: one completion, once one of `events` (of poll.h), an error or an end is there.
	 *
	 * receive: one completion with TWI_DONE_MORE for each piece that comes, in memory of the
	 * ring that is valid during `completed`. The last completion has the end or the failure.
	 * cancel ends such a receive, which brings its last completion.
	 *
	 * send_zerocopy: the memory is in slot `slot` of the registered regions; a ring with
	 * any_memory takes any memory. It brings two completions, the second one with
	 * TWI_DONE_NOTICE. It brings one if the first comes without TWI_DONE_MORE.
	 */
	bool (*poll)(struct twi_ring *ring, int fd, unsigned events, uint64_t user_data);
	bool (*receive)(struct twi_ring *ring, int fd, uint64_t user_data);
	bool (*cancel)(struct twi_ring *ring, int fd, uint64_t user_data);
	bool (*send)(struct twi_ring *ring, int fd, const void *data, size_t bytes, int flags,
		     uint64_t user_data);
	bool (*sendmsg)(struct twi_ring *ring, int fd, const struct msghdr *message, int flags,
			uint64_t user_data);
	bool (*recvmsg)(struct twi_ring *ring, int fd, struct msghdr *message, int flags,
			uint64_t user_data);
	bool (*send_zerocopy)(struct twi_ring *ring, int fd, const void *data, size_t bytes,
			      int slot, uint64_t user_data);

	/* Submits the requests. */
	void (*submit)(struct twi_ring *ring);
	/* Submits, looks for arrivals, reaps. Returns the number of completions. */
	unsigned (*look)(struct twi_ring *ring);
	/* Hands on the completions that are there. Any thread that holds the engine may call it. */
	unsigned (*reap)(struct twi_ring *ring);
	/* The number of completions that are there. */
	unsigned (*ready)(const struct twi_ring *ring);
	/* Would `look` find something? The ring's thread asks, and need not hold the engine. */
	bool (*has_work)(const struct twi_ring *ring);
	/*
	 * Sleeps until `look` would find something, a thread wakes the ring, or timeout_ns have
	 * passed. The ring's thread calls it, and need not hold the engine.
	 */
	void (*sleep)(struct twi_ring *ring, uint64_t timeout_ns);
	/* From now on ready_fd shows every event, as the thread has a tow_fd. */
	void (*watch)(struct twi_ring *ring);
	/*
	 * Another ring drives: arrivals need not wake the sleeping thread of this one any more.
	 * twi_ring_wake still does, and so do arrivals during a later sleep. Any thread that holds
	 * the engine may call it.
	 */
	void (*hush)(struct twi_ring *ring);
	/* Brings the ring in step with the pool's regions. */
	void (*sync)(struct twi_ring *ring);
	/*
	 * Forgets a descriptor that is about to be closed. Any thread that holds the engine may
	 * call it.
	 */
	void (*forget)(struct twi_ring *ring, int fd);

	/*
	 * State of descriptors that outlives the rings. NULL: the poller has none. gone: the
	 * descriptor is about to be closed, whether there is a ring or not. fini: the runtime
	 * closes, and has no rings any more.
	 */
	void (*gone)(struct twi_engine *engine, int fd);
	void (*fini)(struct twi_engine *engine);
};

/* Emits members of an object: which poller this runtime uses, and why. */
void twi_poller_describe(const struct twi_engine *engine, struct twi_emit *emit);

/* Makes the calling thread's ring. TOW_OK, TOW_ENOTSUP, TOW_ENOMEM, TOW_EPERM, TOW_ESYSTEM. */
int twi_ring_create(struct twi_engine *engine, struct twi_ring **out);

/* Set up and take down what all pollers share: before, and after, the poller's own part. */
int twi_ring_init(struct twi_ring *ring, const struct twi_poller *poller,
		  struct twi_engine *engine);
void twi_ring_fini(struct twi_ring *ring);

/* Makes a sleeping ring's thread look again. Any thread. */
void twi_ring_wake(struct twi_ring *ring);

/* Forgets pending wakes of a thread that polls its tow_fd. */
void twi_ring_clear(struct twi_ring *ring);

/* Takes a pending wake, if there is one. */
void twi_ring_drain(struct twi_ring *ring);

/* The descriptor is about to be closed: makes all rings forget it. The engine is held. */
void twi_ring_forget(struct twi_engine *engine, int fd);

/* Ends the pollers: the runtime closes, and has no rings any more. */
void twi_pollers_fini(struct twi_engine *engine);

/* Gives a completion to the owner that its user data names. */
void twi_ring_complete(struct twi_engine *engine, uint64_t user_data, int res, uint32_t flags,
		       const void *data);

static inline uint64_t twi_ring_tag_of(unsigned owner, uint64_t rest)
{
	return (uint64_t)owner << 56 | rest;
}

static inline uint64_t twi_ring_tag(enum twi_lane_id lane, uint64_t rest)
{
	return twi_ring_tag_of(lane + 1u, rest);
}

/* Is the region registered with this ring? */
static inline bool twi_ring_has(const struct twi_ring *ring, const struct twi_region *region)
{
	return ring->have != NULL &&
	       atomic_load_explicit(&ring->have[region->slot], memory_order_relaxed) ==
		       region->generation;
}

static inline void twi_ring_destroy(struct twi_ring *ring)
{
	ring->poller->destroy(ring);
}

static inline void twi_ring_keep(struct twi_ring *ring)
{
	ring->poller->keep(ring);
}

static inline void twi_ring_hush(struct twi_ring *ring)
{
	ring->poller->hush(ring);
}

static inline void twi_ring_submit(struct twi_ring *ring)
{
	if (ring->unsubmitted > 0)
		ring->poller->submit(ring);
}

static inline unsigned twi_ring_poll(struct twi_ring *ring)
{
	return ring->poller->look(ring);
}

/* A completion may end a connection or go on with a handshake, which closes and receives. */
static inline unsigned twi_ring_reap(struct twi_ring *ring)
{
	TWI_UNCANCELED;

	return ring->poller->reap(ring);
}

static inline unsigned twi_ring_ready(const struct twi_ring *ring)
{
	return ring->poller->ready(ring);
}

static inline bool twi_ring_has_work(const struct twi_ring *ring)
{
	return ring->poller->has_work(ring);
}

static inline void twi_ring_sleep(struct twi_ring *ring, uint64_t timeout_ns)
{
	TWI_UNCANCELED;

	ring->poller->sleep(ring, timeout_ns);
}

static inline void twi_ring_sync(struct twi_ring *ring)
{
	ring->poller->sync(ring);
}

extern const struct twi_poller twi_poller_uring;
extern const struct twi_poller twi_poller_epoll;

#endif
