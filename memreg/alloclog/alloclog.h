/*
 * alloclog.h - the recorder of the allocation log: who allocated how much, when, and for how long.
 *
 *	thread 1 --- chunk of its own   \
 *	thread 2 --- chunk of its own    >  at most max_events in all --- snapshot --- trace, file
 *	full chunks of all threads      /
 *
 * Off, a call costs one load and a predicted branch. On, a thread writes into its chunk without a
 * lock and without a cache line that others write; each few hundred events it takes the next chunk,
 * under a lock.
 *
 * Bounded: when there are no more chunks, the log thins itself. One address in two is kept from
 * then on, then one in four, and so on; a hash of the address decides, so that an allocation and
 * its free are kept or dropped together, in whatever threads they happen. Full chunks lose what is
 * no longer kept when they are needed, one at a time, so that nobody waits for more than a chunk.
 * The file says how much was kept; it is one rate for all of it. A log that could keep only a
 * handful of addresses is not thinned further: then new events are lost, and counted.
 *
 * What is stored is the address. The reader's ids are given at the snapshot, in the order of time:
 * a free is stamped before the memory is given back and an allocation after it was taken, so that
 * the free of an address never comes after the next allocation there. Where clocks of two
 * processors differ by a little, the snapshot looks 2 us ahead for the free that is missing.
 *
 * It runs while anybody wants it: from the open of the runtime (the knob), or during captures
 * (/v1/alloclog). When the last one ends, the memory goes. A log that begins in the middle begins
 * with what was live then (alloclog_held.h); by whom it was allocated, nobody knows.
 *
 * Threads: alloc, begin, free and step in any; create and destroy by one; the rest in any.
 */
#ifndef TWI_ALLOCLOG_H
#define TWI_ALLOCLOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diag/record/site.h"
#include "memreg/alloclog/alloclog_file.h"
#include <internal/base.h>

struct twi_alloclog;
struct twi_alloclog_capture;
struct twi_diag;
struct twi_pool;

/* The first member of struct twi_alloclog. */
struct twi_alloclog_gate {
	_Atomic uint32_t on;
};

/* Makes a log that is off, and /v1/alloclog. TOW_EINVAL below 1024 events; TOW_ENOMEM. */
int twi_alloclog_create(struct twi_diag *diag, uint64_t max_events, struct twi_alloclog **out);

/* The stats socket is closed and no thread records any more. NULL is legal. */
void twi_alloclog_destroy(struct twi_alloclog *log);

/*
 * Whose size, use and arena the log tells; it must outlive the log. Before the log is on, and when
 * the runtime has taken of the pool what it takes at its open: `staging`, or NULL. staging_bytes:
 * the knob.
 */
void twi_alloclog_attach(struct twi_alloclog *log, struct twi_pool *pool, uint64_t staging_bytes,
			 const void *staging);

/* On from now until twi_alloclog_destroy: the knob alloclog. TOW_ENOMEM. */
int twi_alloclog_open(struct twi_alloclog *log);

void twi_alloclog_record_alloc(struct twi_alloclog *log, const void *p, uint64_t bytes,
			       uint64_t align, struct twi_site site);
/* A free that is under way: since when, and of how much of the pool. */
struct twi_alloclog_begun {
	uint64_t ns; /* 0: the log does not keep it */
	uint64_t bytes;
};

struct twi_alloclog_begun twi_alloclog_begin_on(struct twi_alloclog *log, const void *p);
void twi_alloclog_record_free(struct twi_alloclog *log, const void *p,
			      struct twi_alloclog_begun begun, struct twi_site site);

static inline bool twi_alloclog_is_on(const struct twi_alloclog *log)
{
	const struct twi_alloclog_gate *gate = (const struct twi_alloclog_gate *)(const void *)log;

	/* Relaxed: who records looks again, with order. */
	return atomic_load_explicit(&gate->on, memory_order_relaxed) != 0;
}

/* p was allocated just now. */
static inline void twi_alloclog_alloc(struct twi_alloclog *log, const void *p, uint64_t bytes,
				      uint64_t align, struct twi_site site)
{
	if (twi_unlikely(twi_alloclog_is_on(log)))
		twi_alloclog_record_alloc(log, p, bytes, align, site);
}

/* p is about to be freed. Returns what twi_alloclog_free wants, when the free has succeeded. */
static inline struct twi_alloclog_begun twi_alloclog_begin(struct twi_alloclog *log, const void *p)
{
	struct twi_alloclog_begun none = { 0, 0 };

	return twi_unlikely(twi_alloclog_is_on(log)) ? twi_alloclog_begin_on(log, p) : none;
}

static inline void twi_alloclog_free(struct twi_alloclog *log, const void *p,
				     struct twi_alloclog_begun begun, struct twi_site site)
{
	if (twi_unlikely(begun.ns != 0))
		twi_alloclog_record_free(log, p, begun, site);
}

/* A training step begins: a mark in the log when it is on. Never sampled away. */
void twi_alloclog_step(struct twi_alloclog *log, uint64_t number, struct twi_site site);

/*
 * A capture: the log from its start to its finish. so_far: from the time when the runtime was
 * opened, where the log has been on since then. TOW_ENOMEM.
 */
int twi_alloclog_capture_start(struct twi_alloclog *log, bool so_far,
			       struct twi_alloclog_capture **out);

/* Ends the capture, whatever it returns. trace NULL: nobody wants it any more. TOW_ENOMEM. */
int twi_alloclog_capture_finish(struct twi_alloclog *log, struct twi_alloclog_capture *capture,
				struct twi_alloc_trace *trace_out);

#endif
