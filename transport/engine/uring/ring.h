/*
 * ring.h - a poller: one thread's io_uring, with its receive buffers and the registered pool.
 *
 *	thread A: ring A ----+                          +-- completion queue: memory that any holder
 *	thread B: ring B ----+--- the same sockets      |   of the engine may read
 *	                                                +-- submissions, task work: only thread A
 *
 * A ring with SINGLE_ISSUER and DEFER_TASKRUN does nothing unless its thread enters it. That thread
 * enters it only while it holds the engine, as poller.h promises.
 *
 * A kernel without DEFER_TASKRUN (before 6.1) moves a ring whenever its thread enters the kernel
 * for any reason, while another thread may hold the engine. Polls do no harm even then. A receive
 * into a buffer would: another ring could receive what follows it in the stream before it is
 * reaped. Such plain rings have no buffers, so lanes arm polls alone, and the holder of the engine
 * reads.
 */
#ifndef TWI_URING_RING_H
#define TWI_URING_RING_H

#include <liburing.h>
#include <stdbool.h>
#include <stdint.h>

#include "transport/engine/poller.h"

#define TWI_URING_CQ_ENTRIES   4096u
#define TWI_URING_BUFFERS      16u
#define TWI_URING_BUFFER_GROUP 1

struct twi_uring {
	struct twi_ring base;
	struct io_uring uring;
	bool table; /* it has a table of registered buffers */
	_Atomic uint64_t
		have[TWI_REGION_SLOTS]; /* generation of the region in each slot; 0: none */
	struct io_uring_buf_ring *buffers;
	uint8_t *buffer_memory;
	struct twi_uring *next_closing; /* ring_closer.h */
};

static inline struct twi_uring *twi_uring_of(struct twi_ring *ring)
{
	return (struct twi_uring *)(void *)ring;
}

/* Makes rings as on kernels without DEFER_TASKRUN. Set by tests, before a runtime is opened. */
extern bool twi_uring_plain;

/*
 * liburing maps and unmaps rings by system calls of its own, which TSan does not see. A ring may
 * get the addresses of one that another runtime has closed. The kernel has ordered the two, and
 * this tells TSan so. It is called before a ring is unmapped, and after one is mapped. (To map it
 * once more through libc, with MAP_FIXED, would say so, too, but Linux refuses that for a ring.)
 */
#ifdef __SANITIZE_THREAD__
void twi_uring_order_mappings(void);
#else
static inline void twi_uring_order_mappings(void)
{
}
#endif

/*
 * ring_regions.c: registers regions with a ring, which is the registrar's ctx. Only a ring's own
 * thread can register with it. An `add` by another thread is left to sync, which the ring's thread
 * calls when it drives again. Until then sends of that region are plain.
 */
extern const struct twi_registrar twi_uring_registrar;

/* Brings the calling thread's ring in step with the pool's regions. */
void twi_uring_sync(struct twi_ring *ring);

#endif
