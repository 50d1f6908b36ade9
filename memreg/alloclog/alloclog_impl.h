/*
 * alloclog_impl.h - struct twi_alloclog, for the files that implement it: alloclog.c (recording),
 * alloclog_keep.c (what is kept when there is no room for all), alloclog_capture.c (on and off,
 * snapshots, /v1/alloclog).
 *
 * Locks, outermost first:
 *	control  on and off, users, base
 *	rings    (of the process, in alloclog.c) lists of logs and rings, owners of rings
 *	keep     windows, and what has been popped of the chunks of rings
 *	chunks   the table of chunks, the free ones, the lists of the rings' chunks
 *
 * A thread that records is marked busy in its ring and takes no more than `keep` and `chunks`; who
 * switches off waits for it, holding the first two.
 */
#ifndef TWI_ALLOCLOG_IMPL_H
#define TWI_ALLOCLOG_IMPL_H

#include <pthread.h>

#include "diag/base/hash.h"
#include "memreg/alloclog/alloclog.h"
#include "memreg/alloclog/alloclog_held.h"
#include "memreg/alloclog/alloclog_keep.h"
#include "memreg/alloclog/alloclog_pair.h"

/* Of a ring, whose thread fills it; of a window; or free. Who writes an event releases count. */
struct twi_alloclog_chunk {
	_Atomic uint32_t count;
	uint32_t popped;                 /* of a ring's: so many are in windows already */
	struct twi_alloclog_chunk *next; /* newer, of the same ring or window */
	struct twi_alloclog_rec rec[];
};

/* What a thread has of a log. It stays when the thread ends, for the next one. */
struct twi_alloclog_ring {
	_Alignas(64) _Atomic uint32_t busy;
	uint32_t skip; /* events to lose before a chunk is asked for again */
	struct twi_alloclog_chunk *chunk, *oldest; /* that is filled; of all that it has */
	struct twi_alloclog_chunk *popping;        /* the oldest; of who pops, under keep */
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
	_Atomic(struct twi_alloclog_ring *) rings;
	_Atomic uint64_t lost; /* by threads that got no ring */

	_Alignas(64) pthread_mutex_t chunks_lock;
	struct twi_alloclog_chunk **chunks, *free;
	uint32_t chunk_count, free_count;

	pthread_mutex_t keep_lock;
	struct twi_alloclog_keeper keeper;

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

/* A chunk that nobody uses, empty; NULL: there is none. */
struct twi_alloclog_chunk *twi_alloclog_take_chunk(struct twi_alloclog *log);

/* How many chunks may be had. */
uint32_t twi_alloclog_room(struct twi_alloclog *log);

/* The chunk that is popped next; NULL: none. Frees those that are done with. keep is held. */
struct twi_alloclog_chunk *twi_alloclog_oldest(struct twi_alloclog *log,
					       struct twi_alloclog_ring *ring);

/* Frees the chunks of the window behind its records. keep is held. */
void twi_alloclog_trim_window(struct twi_alloclog *log, struct twi_alloclog_window *window);

/* Switch on and off; `control` is held. */
int twi_alloclog_on(struct twi_alloclog *log);
void twi_alloclog_off(struct twi_alloclog *log);

/* Events lost so far, by all threads. */
uint64_t twi_alloclog_lost(struct twi_alloclog *log);

/* /v1/alloclog, and the log's members of /v1/info. */
int twi_alloclog_sources_add(struct twi_alloclog *log);
void twi_alloclog_sources_remove(struct twi_alloclog *log);

#endif
