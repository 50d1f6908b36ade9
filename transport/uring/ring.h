/*
 * ring.h - one thread's io_uring, with its receive buffers and the registered pool.
 *
 *	thread A: ring A ----+                          +-- completion queue: memory that any holder
 *	thread B: ring B ----+--- the same sockets      |   of the engine may read
 *	                                                +-- submissions, task work: only thread A
 *
 * A ring with SINGLE_ISSUER and DEFER_TASKRUN does nothing unless its thread enters it, and its
 *thread enters it only while it holds the engine. Hence what a thread leaves armed in its ring is
 *asleep until that thread drives again, and two threads never receive from one socket at once. The
 *price is a rule for lanes (lane.h): what is armed must be harmless when it wakes late. Allowed are
 *polls, multishot accepts, and multishot receives into this ring's own buffers.
 *
 * user data of a request: [lane id + 1: 8 bits][the lane's: 56 bits]; 0: nobody wants the
 *completion.
 */
#ifndef TWI_RING_H
#define TWI_RING_H

#include <liburing.h>
#include <stdbool.h>
#include <stdint.h>

#include "memreg/registrar.h"
#include "transport/lane.h"

#define TWI_RING_ENTRIES      256u
#define TWI_RING_CQ_ENTRIES   4096u
#define TWI_RING_BUFFERS      16u
#define TWI_RING_BUFFER_BYTES (64u << 10)
#define TWI_RING_BUFFER_GROUP 1

struct twi_engine;

struct twi_ring {
	struct io_uring uring;
	struct twi_engine *engine;
	uint32_t index;            /* in engine->rings */
	uint32_t mark;             /* of the thread that it belongs to */
	_Atomic uint32_t orphaned; /* its thread has ended */
	_Atomic uint32_t sleeping; /* its thread is in a wait, or polls its tow_fd */
	bool watched;              /* its thread has a tow_fd */
	bool deferred;             /* DEFER_TASKRUN */
	bool registrar;            /* it is one of the pool's registrars */
	bool table;                /* it has a table of registered buffers */
	uint64_t regions_version;  /* of the pool's regions, when this ring was last in step */
	_Atomic uint64_t
		have[TWI_REGION_SLOTS]; /* generation of the region in each slot; 0: none */
	bool zerocopy;                  /* SEND_ZC is there */
	unsigned setup_flags;
	int wake_fd; /* eventfd: signalled by the kernel while asleep or watched, and by wakes */
	uint32_t unsubmitted;
	uint32_t notices; /* its zero-copy sends whose notification is to come */
	struct io_uring_buf_ring *buffers;
	uint8_t *buffer_memory;
};

/* Makes the calling thread's ring. TOW_OK, TOW_ENOTSUP, TOW_ENOMEM, TOW_EPERM, TOW_ESYSTEM. */
int twi_ring_create(struct twi_engine *engine, struct twi_ring **out);
void twi_ring_destroy(struct twi_ring *ring);

/*
 * The registrar table by which regions are registered; its ctx is the ring. Only a ring's own
 * thread can register with it, so `add` from another thread is kept for twi_ring_sync, which the
 * thread calls when it drives again; until then sends of that region go plainly.
 */
extern const struct twi_registrar twi_ring_registrar;

/* Brings the calling thread's ring in step with the pool's regions. */
void twi_ring_sync(struct twi_ring *ring);

static inline bool twi_ring_has(const struct twi_ring *ring, const struct twi_region *region)
{
	return atomic_load_explicit(&ring->have[region->slot], memory_order_relaxed) ==
	       region->generation;
}

/* A cleared request; submits the ones before it when the queue is full. NULL only when that fails.
 */
struct io_uring_sqe *twi_ring_sqe(struct twi_ring *ring);

/* Hands what is prepared to the kernel, in one system call when there is anything. */
void twi_ring_submit(struct twi_ring *ring);

/* Submits, lets deferred work run if there is any, reaps. Returns the number of completions. */
unsigned twi_ring_poll(struct twi_ring *ring);

/* Reaps what is in the completion queue already; for another thread's ring. */
unsigned twi_ring_reap(struct twi_ring *ring);

/* Is there something in it? Its sleeper asks, who does not hold the engine: who does may be reaping
 * it now. */
bool twi_ring_has_work(const struct twi_ring *ring);

/*
 * Sleeps until the ring has something, somebody wakes it, or timeout_ns have passed. It sleeps on
 * the ring's eventfd: a poll of the ring's own descriptor is not woken by deferred work (seen
 * on 6.18).
 */
void twi_ring_sleep(struct twi_ring *ring, uint64_t timeout_ns);

/* Makes a sleeping ring's thread look again. */
void twi_ring_wake(struct twi_ring *ring);

/* Forgets wakes that have come: for a thread that polls its tow_fd. */
void twi_ring_clear(struct twi_ring *ring);

static inline uint64_t twi_ring_tag(enum twi_lane_id lane, uint64_t rest)
{
	return (uint64_t)(lane + 1) << 56 | rest;
}

/* Does a functional test of what the lane cannot do without, on a socket pair. */
int twi_ring_probe(struct twi_ring *ring);

#endif
