/*
 * alloclog.h - records the allocation log: who allocated how much, when, and for how long.
 *
 *	thread 1 --- chunk of its own   \
 *	thread 2 --- chunk of its own    >  at most max_events in all --- snapshot --- trace, file
 *	full chunks of all threads      /
 *
 * While the log is off, a call costs one load and a predicted branch. While it is on, a thread
 * writes into its own chunk, without a lock and without a cache line that others write. After
 * some hundred events it takes the next chunk, under a lock.
 *
 * The memory is bounded. When few chunks are free, the log keeps some windows of time and drops
 * others (alloclog_keep.h). When no window can be dropped, the log thins itself: it keeps one
 * address in two, then one in four, and so on. A hash of the address decides, so that an allocation
 * and its free are kept or dropped together, in whatever threads they happen. The file contains the
 * rate, which is the same for all of it. A log that would keep only a few addresses is not thinned
 * further. New events are then lost, and counted.
 *
 * A record has the address. The snapshot gives the ids for readers, in the order of time. A free is
 * stamped before the memory is returned, and an allocation after it was taken. So the free of an
 * address never follows the next allocation there. The clocks of two processors may differ a
 * little, so the snapshot looks 2 us ahead for a missing free.
 *
 * The log is on while it has a user: from the open of the runtime (the knob), or during captures
 * (/v1/alloclog). When the last user ends, the memory is freed. A log that begins later begins with
 * the live allocations of that moment (alloclog_held.h), whose callers are unknown.
 *
 * Threads: one thread creates and destroys. Any thread may call the other functions.
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

/* Makes a log that is off, and /v1/alloclog. TOW_EINVAL: max_events out of range; TOW_ENOMEM. */
int twi_alloclog_create(struct twi_diag *diag, uint64_t max_events, struct twi_alloclog **out);

/* The stats socket is closed, and no thread records any more. NULL is legal. */
void twi_alloclog_destroy(struct twi_alloclog *log);

/*
 * Sets the pool whose size, use and arena the log contains. The pool must outlive the log. Call it
 * before the log is on, and after the runtime has taken its own memory from the pool: `staging`, or
 * NULL. staging_bytes is the knob.
 */
void twi_alloclog_attach(struct twi_alloclog *log, struct twi_pool *pool, uint64_t staging_bytes,
			 const void *staging);

/* Turns the log on until twi_alloclog_destroy, for the knob alloclog. TOW_ENOMEM. */
int twi_alloclog_open(struct twi_alloclog *log);

void twi_alloclog_record_alloc(struct twi_alloclog *log, const void *p, uint64_t bytes,
			       uint64_t align, struct twi_site site);
/* A free in progress: when it began, and how many bytes of the pool it frees. */
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

	/* Relaxed: a thread that records reads it again, with order. */
	return atomic_load_explicit(&gate->on, memory_order_relaxed) != 0;
}

/* Records that p was allocated just now. */
static inline void twi_alloclog_alloc(struct twi_alloclog *log, const void *p, uint64_t bytes,
				      uint64_t align, struct twi_site site)
{
	if (twi_unlikely(twi_alloclog_is_on(log)))
		twi_alloclog_record_alloc(log, p, bytes, align, site);
}

/* Called before p is freed. After a successful free, pass the result to twi_alloclog_free. */
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

/* Records the begin of a training step, while the log is on. Sampling never drops it. */
void twi_alloclog_step(struct twi_alloclog *log, uint64_t number, struct twi_site site);

/*
 * Starts a capture: the log from here to its finish. With so_far it begins when the runtime was
 * opened, if the log has been on since then. TOW_ENOMEM.
 */
int twi_alloclog_capture_start(struct twi_alloclog *log, bool so_far,
			       struct twi_alloclog_capture **out);

/* Ends the capture, whatever it returns. trace_out NULL: the trace is not wanted. TOW_ENOMEM. */
int twi_alloclog_capture_finish(struct twi_alloclog *log, struct twi_alloclog_capture *capture,
				struct twi_alloc_trace *trace_out);

#endif
