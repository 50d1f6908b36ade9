/*
 * poller.h - what a thread moves connections by: a ring of requests and completions, and the table
 * of what can stand behind it.
 *
 *	engine, lanes --requests--> struct twi_ring --completions--> lane->ops->completed
 *	                                  |
 *	                     uring/: an io_uring of the thread's own
 *	                     epoll/: an epoll set of the thread's own, and plain system calls
 *
 * Neither the engine nor a lane knows which it is. Both keep the same promises:
 *
 * - A request is named by its user data: [owner: 8 bits][the owner's: 56 bits]. An owner is a
 *   lane, by its id and 1, or TWI_RING_PROCESSES (process.h).
 * - Nothing happens in a ring unless its thread submits or polls, which it does only while it holds
 *   the engine. Hence what a thread leaves armed is asleep until that thread drives again, and two
 *   threads never receive from one socket at once. The price is a rule for lanes (lane.h): what is
 *   armed must be harmless when it wakes late. Polls and multishot receives are. A ring that is not
 *   `deferred` completes polls at any time, and lanes have it receive nothing (uring/ring.h).
 * - Sends and receives into memory of the caller's are MSG_DONTWAIT: they are over once they have
 *   been submitted, and until then what they point to must stay.
 * - Completions are plain memory, so the holder of the engine may reap those of any ring.
 *
 * Which one a thread gets is the knob `poller`: by `auto`, io_uring where the kernel has it and
 * lets the thread use it, else epoll, with the reason in /v1/info and /v1/peers.
 */
#ifndef TWI_POLLER_H
#define TWI_POLLER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diag/base/emit.h"
#include "diag/record/lane_id.h"
#include "memreg/region/region.h"
#include "memreg/region/registrar.h"

#define TWI_RING_ENTRIES      256u
#define TWI_RING_BUFFER_BYTES (64u << 10)

#define TWI_RING_PROCESSES 0xffu /* owner of a request that is no lane's */

/* Flags of a completion; their values are those of io_uring. */
#define TWI_DONE_MORE        (1u << 1)  /* the request goes on and brings more completions */
#define TWI_DONE_NONEMPTY    (1u << 2)  /* the socket has more to read */
#define TWI_DONE_NOTICE      (1u << 3)  /* the kernel has let go of a zero-copy send's memory */
#define TWI_DONE_KERNEL_COPY (1u << 31) /* in such a one's result: it had copied the bytes */

struct msghdr;
struct twi_engine;
struct twi_poller;

/* What the engine and the lanes see of a thread's ring; the poller's own struct begins with it. */
struct twi_ring {
	const struct twi_poller *poller;
	struct twi_engine *engine;
	uint32_t index;               /* in engine->rings */
	uint32_t mark;                /* of the thread that it belongs to */
	_Atomic uint32_t sleeping;    /* its thread is in a wait, or polls its tow_fd */
	uint64_t used_ns;             /* when it was last bound, or let go */
	bool watched;                 /* its thread has a tow_fd */
	bool deferred;                /* it does nothing unless its thread enters it */
	bool registrar;               /* it is one of the pool's registrars, and not refused */
	bool zerocopy;                /* it can send without a copy, */
	bool any_memory;              /* and from memory that is not registered, too */
	uint64_t regions_version;     /* of the pool's regions, when this ring was last in step */
	const _Atomic uint64_t *have; /* by slot: generation of the region in it; NULL: no slots */
	int wake_fd;                  /* eventfd by which other threads wake it */
	int ready_fd;                 /* is readable when it is woken or has something to do */
	uint32_t unsubmitted;
	uint32_t notices; /* its zero-copy sends whose notification is to come */
};

/*
 * One way to move connections. Members that take a ring are called by its thread, which holds the
 * engine, unless something else is said.
 */
struct twi_poller {
	const char *name;
	/* By which the ring is shown the pool's memory; one that needs none of it says why. */
	const struct twi_registrar *registrar;

	/* The calling thread's. TOW_OK, TOW_ENOTSUP, TOW_ENOMEM, TOW_EPERM, TOW_ESYSTEM. */
	int (*create)(struct twi_engine *engine, struct twi_ring **out);
	/* Any thread: the ring's own may have ended, or gets another when it needs one. */
	void (*destroy)(struct twi_ring *ring);
	/* The ring stays its thread's until that ends: what saves work at that price is done. */
	void (*keep)(struct twi_ring *ring);

	/*
	 * Requests. False: the queue is full and cannot be emptied now; nothing was taken.
	 *
	 * poll: one completion once one of `events` (of poll.h), an error or an end is there.
	 *
	 * receive: one with TWI_DONE_MORE for each piece that comes, in memory of the ring's that
	 * is there during `completed`, until the one that has its end or failure. cancel ends such
	 * a receive, which brings its last completion.
	 *
	 * send_zerocopy: of memory in slot `slot` of the registered regions, or, for a ring that
	 * takes any memory, of any; two completions, the second one with TWI_DONE_NOTICE, unless
	 * the first comes without TWI_DONE_MORE.
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

	/* Does what was requested. */
	void (*submit)(struct twi_ring *ring);
	/* Submits, looks for what has come, reaps. Returns the number of completions. */
	unsigned (*look)(struct twi_ring *ring);
	/* Hands on the completions that are there. Any thread that holds the engine. */
	unsigned (*reap)(struct twi_ring *ring);
	/* How many those are. */
	unsigned (*ready)(const struct twi_ring *ring);
	/* Would `look` find something? Its thread asks, which need not hold the engine. */
	bool (*has_work)(const struct twi_ring *ring);
	/* Sleeps until it would, somebody wakes the ring, or timeout_ns have passed. Likewise. */
	void (*sleep)(struct twi_ring *ring, uint64_t timeout_ns);
	/* From now on ready_fd tells of everything: the thread has a tow_fd. */
	void (*watch)(struct twi_ring *ring);
	/*
	 * What comes for the ring need not wake its sleeping thread any more, for another drives;
	 * a wake still does, and so does a later sleep's arrival. Any thread that holds the engine.
	 */
	void (*hush)(struct twi_ring *ring);
	/* Brings the ring in step with the pool's regions. */
	void (*sync)(struct twi_ring *ring);
	/* The descriptor is about to be closed. Any thread that holds the engine. */
	void (*forget)(struct twi_ring *ring, int fd);

	/*
	 * What the poller knows of descriptors beside its rings, which come and go before them.
	 * NULL: nothing. gone: the descriptor is about to be closed, whether there is a ring or
	 * not. fini: the runtime closes, and has no rings any more.
	 */
	void (*gone)(struct twi_engine *engine, int fd);
	void (*fini)(struct twi_engine *engine);
};

/* Members of an object: which poller moves the connections of this runtime, and why that one. */
void twi_poller_describe(const struct twi_engine *engine, struct twi_emit *emit);

/* Makes the calling thread's ring. TOW_OK, TOW_ENOTSUP, TOW_ENOMEM, TOW_EPERM, TOW_ESYSTEM. */
int twi_ring_create(struct twi_engine *engine, struct twi_ring **out);

/* What all pollers share: set up before, and taken down behind, their own. */
int twi_ring_init(struct twi_ring *ring, const struct twi_poller *poller,
		  struct twi_engine *engine);
void twi_ring_fini(struct twi_ring *ring);

/* Makes a sleeping ring's thread look again. Any thread. */
void twi_ring_wake(struct twi_ring *ring);

/* Forgets wakes that have come: for a thread that polls its tow_fd. */
void twi_ring_clear(struct twi_ring *ring);

/* Takes a wake that has come, if one has. */
void twi_ring_drain(struct twi_ring *ring);

/* The descriptor is about to be closed: no ring may name it any more. The engine is held. */
void twi_ring_forget(struct twi_engine *engine, int fd);

/* The runtime closes, and has no rings any more. */
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

static inline unsigned twi_ring_reap(struct twi_ring *ring)
{
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
	ring->poller->sleep(ring, timeout_ns);
}

static inline void twi_ring_sync(struct twi_ring *ring)
{
	ring->poller->sync(ring);
}

extern const struct twi_poller twi_poller_uring;
extern const struct twi_poller twi_poller_epoll;

#endif
