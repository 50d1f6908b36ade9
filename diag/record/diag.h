/*
 * diag.h - what a runtime records about itself: counters, reasons, latencies, a log.
 *
 *	struct twi_diag --- block of thread 1 --- block of thread 2 --- ...
 *	                    counters, reasons, call sites,
 *	                    histograms by lane and size class
 *	                    ring of spans (span.h)
 *
 * Each thread writes only its own block (a plain load and store, no lock, no shared cache line) and
 * a reader sums all of them. A thread finds its block through a small table in thread-local memory,
 * keyed by the number of the diag, which is never used again. When a thread ends, its block stays,
 * so that sums stay right, and the next new thread takes it over. So memory grows with the largest
 * number of threads at one time, not with time.
 *
 * Budget: twi_count 3 ns, twi_latency_record 10 ns, twi_copy_record 20 ns. Only a thread's first
 * record allocates.
 */
#ifndef TWI_DIAG_H
#define TWI_DIAG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <internal/base.h>
#include <towline/runtime.h>

#include "diag/base/clock.h"
#include "diag/record/counter.h"
#include "diag/record/hist.h"
#include "diag/record/label.h"
#include "diag/record/lane_id.h"
#include "diag/record/site.h"

#define TWI_LOG_LINES 64
#define TWI_LOG_BYTES 256

struct twi_latencies;
struct twi_registry;
struct twi_span_ring;
struct twi_span_table;

/* Latencies of one lane and size class, of one thread. */
struct twi_latency {
	_Atomic uint64_t sum_ns;
	_Atomic uint64_t max_ns;
	_Atomic uint64_t bytes; /* sum over the messages, if these are latencies of messages */
	_Atomic uint64_t steps; /* bit i: the i-th TWI_HIST_SUB of counts[] are not all 0 */
	_Atomic uint64_t counts[TWI_HIST_BUCKETS];
};

struct twi_reason_cell {
	_Atomic uint64_t count, bytes, ns;
};

/*
 * A span of the program that a thread has open on a runtime (step.c). These are not thread-local,
 * because all thread-local memory of the library must fit what the loader keeps for libraries
 * opened late.
 */
#define TWI_OPEN_SPANS 32
struct twi_open_span {
	uint64_t id, parent, start_ns;
	uint32_t name;
};

struct twi_diag_block {
	_Alignas(64) _Atomic uint64_t counters[TWI_C_COUNT];
	struct twi_reason_cell reasons[TWI_R_COUNT];
	struct twi_latency *_Atomic latencies[TWI_LANE_COUNT][TWI_SIZE_CLASSES];
	struct twi_sites sites;
	struct twi_span_ring *_Atomic spans; /* release, with the readers' acquire */
	uint32_t spans_pass;                 /* small copies and registrations to pass over */
	uint32_t open_count, opened;         /* spans open now, and ever by this block's threads */
	struct twi_open_span open[TWI_OPEN_SPANS];
	_Atomic uint64_t held; /* allocations that these threads took, less those they gave back */
	struct twi_diag_block *next;
	uint64_t owner; /* 0: its thread has ended */
};

struct twi_diag {
	uint32_t id; /* never 0 */
	uint64_t start_ns;
	struct twi_registry *registry;
	struct twi_latencies *latencies; /* by peer and part (latency.h) */
	struct twi_diag_block
		*_Atomic blocks; /* grows at the head; release, with the readers' acquire */
	_Atomic uint64_t lost;   /* records for which there was no block */
	_Atomic uint64_t held;   /* as in a block, for threads that have none */
	_Atomic int log_level;
	_Atomic uint32_t span_mask; /* a small message has a span if (n & mask) == 0 */
	struct twi_span_table *spans;
	struct twi_log *log;
	struct twi_labels labels; /* names of groups */
	struct twi_diag *next;    /* on the list of all */
};

/* The blocks that this thread used last. */
#define TWI_DIAG_BLOCKS 4
struct twi_diag_block_cache {
	struct twi_diag_block *block[TWI_DIAG_BLOCKS];
	uint32_t id[TWI_DIAG_BLOCKS]; /* 0: none */
};
/*
 * Initial-exec, because a call to find it would cost more than the record itself. The alignment is
 * explicit, because a compiler would choose one that wastes static TLS.
 */
extern __thread struct twi_diag_block_cache twi_diag_block_cache
	__attribute__((tls_model("initial-exec"), aligned(8)));

int twi_diag_create(struct twi_diag **out);
void twi_diag_destroy(struct twi_diag *diag);

static inline struct twi_registry *twi_diag_registry(const struct twi_diag *diag)
{
	return diag->registry;
}

static inline uint64_t twi_diag_start_ns(const struct twi_diag *diag)
{
	return diag->start_ns;
}

/* Allocations that the user holds (twi_diag_hold). The caller knows that none is made now. */
uint64_t twi_diag_held(struct twi_diag *diag);

/* This thread's block, found or made. NULL: there is no memory, and the loss is counted. */
struct twi_diag_block *twi_diag_block_find(struct twi_diag *diag);

static inline struct twi_diag_block *twi_diag_block_of(struct twi_diag *diag)
{
	uint32_t place = diag->id % TWI_DIAG_BLOCKS;

	return twi_likely(twi_diag_block_cache.id[place] == diag->id)
		       ? twi_diag_block_cache.block[place]
		       : twi_diag_block_find(diag);
}

/* Only the owning thread writes, so that no read-modify-write is needed. */
static inline void twi_cell_add(_Atomic uint64_t *cell, uint64_t n)
{
	atomic_store_explicit(cell, atomic_load_explicit(cell, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

/* The pool's user has taken an allocation (1) or given one back (-1). Counted in every build. */
static inline void twi_diag_hold(struct twi_diag *diag, int64_t by)
{
	struct twi_diag_block *block = twi_diag_block_of(diag);

	if (twi_likely(block != NULL))
		twi_cell_add(&block->held, (uint64_t)by);
	else
		atomic_fetch_add_explicit(&diag->held, (uint64_t)by, memory_order_relaxed);
}

static inline void twi_count(struct twi_diag *diag, enum twi_counter counter, uint64_t n)
{
#ifndef TWI_NO_DIAGNOSTICS
	struct twi_diag_block *block = twi_diag_block_of(diag);

	if (twi_likely(block != NULL))
		twi_cell_add(&block->counters[counter], n);
#else
	(void)diag, (void)counter, (void)n;
#endif
}

/* Adds to two counters, such as events and their bytes, with one costly search for the block. */
static inline void twi_count_two(struct twi_diag *diag, enum twi_counter one, uint64_t n,
				 enum twi_counter two, uint64_t m)
{
#ifndef TWI_NO_DIAGNOSTICS
	struct twi_diag_block *block = twi_diag_block_of(diag);

	if (twi_unlikely(block == NULL))
		return;
	twi_cell_add(&block->counters[one], n);
	twi_cell_add(&block->counters[two], m);
#else
	(void)diag, (void)one, (void)n, (void)two, (void)m;
#endif
}

/* Adds one reading. The caller is the only thread that writes this histogram now. */
void twi_latency_add(struct twi_latency *latency, uint64_t ns);

/* Records an RPC that ended after `latency_ns`. Its peer and parts are not known (latency.h). */
void twi_latency_record(struct twi_diag *diag, enum twi_lane_id lane, uint64_t bytes,
			uint64_t latency_ns);

/* Records a copy that the lane's design does not need; a registration after the seal. */
void twi_copy_record(struct twi_diag *diag, enum twi_reason reason, uint64_t bytes, uint64_t ns,
		     struct twi_site site);
void twi_late_record(struct twi_diag *diag, enum twi_reason reason, uint64_t bytes, uint64_t ns,
		     struct twi_site site);

/* Reading: sums over all threads, including those that have ended. */
struct twi_reason_sum {
	uint64_t count, bytes, ns;
};

struct twi_latency_sum {
	uint64_t count, sum_ns, max_ns, bytes;
	uint64_t counts[TWI_HIST_BUCKETS];
};

uint64_t twi_counter_sum(struct twi_diag *diag, enum twi_counter counter);
void twi_reason_sum(struct twi_diag *diag, enum twi_reason reason, struct twi_reason_sum *out);

/* Reads one histogram. False: nothing was recorded. */
bool twi_latency_read(const struct twi_latency *latency, struct twi_latency_sum *out);

void twi_latency_sum_add(struct twi_latency_sum *into, const struct twi_latency_sum *from);

/* Adds `from` to `into`. The caller is the only thread that writes `into` now. */
void twi_latency_merge(struct twi_latency *into, const struct twi_latency *from);

/* Sums what threads have recorded without a peer, which latency.h does not have. */
bool twi_latency_sum_blocks(struct twi_diag *diag, enum twi_lane_id lane, unsigned size_class,
			    struct twi_latency_sum *out);

/* Sums all records. False: nothing was recorded there. */
bool twi_latency_sum(struct twi_diag *diag, enum twi_lane_id lane, unsigned size_class,
		     struct twi_latency_sum *out);

/*
 * Writes a line to the runtime's log; /v1/info shows the last TWI_LOG_LINES. Levels: 1 error, 2
 * warning, 3 information; lines above the log level are dropped. Of lines that are alike, one in
 * ten seconds is also shown where twi_log_open says. A thread of the log does that (log_out.h), so
 * any thread may log, whatever locks it holds.
 */
void twi_log(struct twi_diag *diag, int level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void twi_diag_log_level(struct twi_diag *diag, int level);

/*
 * Sets where lines go besides /v1/info. `where` is the knob log; callback may be NULL. Before this
 * call lines go nowhere. TOW_OK; TOW_EINVAL or TOW_ESYSTEM, naming a file that cannot be used.
 */
int twi_log_open(struct twi_diag *diag, const char *where, tow_log_callback callback, void *user);

/* Sets the rank that lines name; -1: none. */
void twi_log_rank(struct twi_diag *diag, int64_t rank);

/* Whether the calling thread is the log's own, within the callback. */
bool twi_log_is_thread(struct twi_diag *diag);
void twi_log_read(struct twi_diag *diag,
		  void (*line)(void *arg, uint64_t ns, int level, const char *text), void *arg);

#endif
