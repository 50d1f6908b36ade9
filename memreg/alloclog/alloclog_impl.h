/*
 * alloclog_impl.h - struct twi_alloclog, for the files that implement it: alloclog.c (recording),
 * alloclog_capture.c (on and off, snapshots, /v1/alloclog).
 *
 * Locks, outermost first:
 *	control  on and off, users, base
 *	rings    (of the process, in alloclog.c) lists of logs and rings, owners of rings
 *	chunks   the table of chunks, which of them are sealed, thinning
 *
 * A thread that records is marked busy in its ring and takes no more than `chunks`; who switches
 * off waits for it, holding the other two.
 */
#ifndef TWI_ALLOCLOG_IMPL_H
#define TWI_ALLOCLOG_IMPL_H

#include <pthread.h>

#include "diag/base/hash.h"
#include "memreg/alloclog/alloclog.h"
#include "memreg/alloclog/alloclog_held.h"
#include "memreg/alloclog/alloclog_pair.h"

/* Its thread fills it until it is sealed; count is released by who writes an event. */
struct twi_alloclog_chunk {
	_Atomic uint32_t count;
	uint32_t shift; /* it was thinned to this */
	bool sealed;
	struct twi_alloclog_rec rec[];
};

/* What a thread has of a log. It stays when the thread ends, for the next one. */
struct twi_alloclog_ring {
	_Alignas(64) _Atomic uint32_t busy;
	uint32_t skip; /* events to lose before a chunk is asked for again */
	struct twi_alloclog_chunk *chunk;
	_Atomic uint64_t lost;
	struct twi_alloclog_ring *next;
	uint64_t owner; /* 0: its thread has ended */
	uint32_t tid;   /* the kernel's number of the owner */
};

/* From when on a capture wants the log, and what was true then. */
struct twi_alloclog_capture {
	uint64_t since_ns, realtime_ns, lost_before;
	uint64_t live_bytes, live_allocations, taken_bytes;
	struct twi_alloclog_held held;
	bool from_open;
};

struct twi_alloclog {
	_Alignas(64) struct twi_alloclog_gate gate; /* first: twi_alloclog_is_on knows it there */
	_Atomic uint32_t shift;                     /* what is kept: one address in 2^shift */
	_Atomic uint64_t salt;                      /* so that the next log keeps others */
	uint64_t id;                                /* never used again in this process */
	uint32_t chunk_events, chunks_max;
	struct twi_diag *diag;
	struct twi_pool *pool;
	uint64_t own_bytes, own_allocations; /* of the pool, since the open */
	const void *own;                     /* the largest of them: the staging */
	uint64_t staging_bytes;              /* the knob */
	struct twi_alloclog *next;           /* on the list of all */
	struct twi_alloclog_ring *rings;
	_Atomic uint64_t lost; /* by threads that got no ring */

	_Alignas(64) pthread_mutex_t chunks_lock;
	struct twi_alloclog_chunk **chunks;
	uint32_t chunk_count, cursor; /* cursor: the next to be thinned */

	pthread_mutex_t control;
	unsigned users;
	bool opened; /* base is the log's since the open */
	struct twi_alloclog_capture base;
};

/* Whether the log keeps what happens at this address. */
static inline bool twi_alloclog_keeps(uint64_t address, uint32_t shift, uint64_t salt)
{
	return shift == 0 || twi_hash_spread((address >> 6) ^ salt) >> (64 - shift) == 0;
}

/* Switch on and off; `control` is held. */
int twi_alloclog_on(struct twi_alloclog *log);
void twi_alloclog_off(struct twi_alloclog *log);

/* Events lost so far, by all threads. */
uint64_t twi_alloclog_lost(struct twi_alloclog *log);

/* /v1/alloclog, and the log's members of /v1/info. */
int twi_alloclog_sources_add(struct twi_alloclog *log);
void twi_alloclog_sources_remove(struct twi_alloclog *log);

#endif
