/*
 * alloclog_impl.h - struct twi_alloclog, for the files that implement it.
 *
 *   alloclog.c          recording
 *   alloclog_keep.c     what to keep when there is no room for everything
 *   alloclog_capture.c  on and off, snapshots, /v1/alloclog
 *
 * Locks, outermost first:
 *	control  on and off, users, base
 *	rings    (of the process, in alloclog.c) lists of logs and rings, owners of rings
 *	keep     windows, and the popped part of the rings' chunks
 *	chunks   the table of chunks, the free ones, the lists of the rings' chunks
 *
 * A thread that records marks its ring busy, then takes only `keep` and `chunks`. The thread that
 * switches off holds `control` and `rings` while it waits for busy rings.
 */
#ifndef TWI_ALLOCLOG_IMPL_H
#define TWI_ALLOCLOG_IMPL_H

#include <pthread.h>

#include "diag/base/hash.h"
#include "memreg/alloclog/alloclog.h"
#include "memreg/alloclog/alloclog_held.h"
#include "memreg/alloclog/alloclog_keep.h"
#include "memreg/alloclog/alloclog_pair.h"

/* A chunk of a ring, whose thread fills it; or of a window; or free. A new event releases count. */
struct twi_alloclog_chunk {
	_Atomic uint32_t count;
	uint32_t popped;                 /* in a ring: number of records that are in windows */
	struct twi_alloclog_chunk *next; /* newer, of the same ring or window */
	struct twi_alloclog_rec rec[];
};

/* A thread's part of a log. After the thread has ended, another thread uses it. */
struct twi_alloclog_ring {
	_Alignas(64) _Atomic uint32_t busy;
	uint32_t skip; /* events to lose before the thread asks for a chunk again */
	struct twi_alloclog_chunk *chunk, *oldest; /* being filled; first of its list */
	struct twi_alloclog_chunk *popping;        /* the oldest, as popping sees it; under keep */
	_Atomic uint64_t lost;
	struct twi_alloclog_ring *next;
	uint64_t owner; /* 0: its thread has ended */
	uint32_t tid;   /* the kernel's number of the owner */
};

/* A capture: since when it wants the log, and the state of the pool at that time. */
struct twi_alloclog_capture {
	uint64_t since_ns, realtime_ns, lost_before;
	uint64_t live_bytes, live_allocations, taken_bytes;
	struct twi_alloclog_held held;
	bool from_open;
};

struct twi_alloclog {
	_Alignas(64) struct twi_alloclog_gate gate; /* first: twi_alloclog_is_on reads it there */
	_Atomic uint32_t shift;                     /* one address in 2^shift is kept */
	_Atomic uint64_t salt;                      /* so that the next log keeps other addresses */
	uint64_t id;                                /* never used again in this process */
	uint32_t chunk_events, chunks_max;
	struct twi_diag *diag;
	struct twi_pool *pool;
	uint64_t own_bytes, own_allocations; /* the library's own part of the pool at the open */
	const void *own;                     /* the largest of these blocks: the staging */
	uint64_t staging_bytes;              /* the knob */
	struct twi_alloclog *next;           /* in the list of all logs */
	_Atomic(struct twi_alloclog_ring *) rings;
	_Atomic uint64_t lost; /* events of threads that got no ring */

	_Alignas(64) pthread_mutex_t chunks_lock;
	struct twi_alloclog_chunk **chunks, *free;
	uint32_t chunk_count, free_count;

	pthread_mutex_t keep_lock;
	struct twi_alloclog_keeper keeper;

	pthread_mutex_t control;
	unsigned users;
	bool opened; /* on since twi_alloclog_open; base is valid */
	struct twi_alloclog_capture base;
};

/* True when the log keeps events at this address. */
static inline bool twi_alloclog_keeps(uint64_t address, uint32_t shift, uint64_t salt)
{
	return shift == 0 || twi_hash_spread((address >> 6) ^ salt) >> (64 - shift) == 0;
}

/* An empty chunk that the caller gets; NULL: there is none. */
struct twi_alloclog_chunk *twi_alloclog_take_chunk(struct twi_alloclog *log);

/* The number of chunks that can still be taken. */
uint32_t twi_alloclog_room(struct twi_alloclog *log);

/* The next chunk to pop from; NULL: none. Frees fully popped chunks. keep is held. */
struct twi_alloclog_chunk *twi_alloclog_oldest(struct twi_alloclog *log,
					       struct twi_alloclog_ring *ring);

/* Frees the window's chunks behind its last record. keep is held. */
void twi_alloclog_trim_window(struct twi_alloclog *log, struct twi_alloclog_window *window);

/* Switch the log on and off. `control` is held. */
int twi_alloclog_on(struct twi_alloclog *log);
void twi_alloclog_off(struct twi_alloclog *log);

/* Events that all threads have lost so far. */
uint64_t twi_alloclog_lost(struct twi_alloclog *log);

/* Add and remove /v1/alloclog, and the log's members of /v1/info. */
int twi_alloclog_sources_add(struct twi_alloclog *log);
void twi_alloclog_sources_remove(struct twi_alloclog *log);

#endif
