/*
 * trace.h - a trace: what ranks did in a window of time, as data. Capturing, merging, analysing,
 * and writing or reading other tools' formats all work on this struct.
 *
 *	struct twi_trace --- ranks[] --- threads[] --- spans[] by start
 *	                             \-- unfinished[] by start
 *	                             \-- peers[], names[]
 *
 * `spans` have ended. Operations that were under way when the window ended are in `unfinished`, so
 * that no analysis takes them for finished ones. Their spans end with the window and have the
 * status TOW_AGAIN.
 *
 * The trace owns all of it, as plain memory. A file from outside is checked when it is read: an
 * index out of bounds is refused there, and not checked again later.
 */
#ifndef TWI_TRACE_H
#define TWI_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diag/record/span.h"

struct twi_diag;

struct twi_trace_peer {
	char *name;
	int64_t rank; /* in the job; -1: unknown */
};

struct twi_trace_thread {
	int64_t tid;
	char name[16];
	uint64_t lost; /* spans that were overwritten before they were read */
	size_t span_count;
	struct twi_span *spans;
};

struct twi_trace_rank {
	char *host, *job;
	int64_t rank;  /* in the job */
	int64_t world; /* ranks of the job; 0: unknown */
	int64_t pid;
	uint64_t begin_ns, end_ns; /* the window; all times are of the rank's own clock */
	int64_t unix_ns;           /* add it to such a time for UNIX time */
	/* Add the offset to such a time for rank 0's time; the error is its largest. An error of
	 * UINT64_MAX: the offset is unknown, and UNIX time aligns the ranks. */
	int64_t clock_offset_ns;
	uint64_t clock_error_ns;
	uint64_t sampled_out;
	size_t thread_count, unfinished_count, peer_count, name_count;
	struct twi_trace_thread *threads;
	struct twi_span *unfinished;
	struct twi_trace_peer *peers; /* at span.peer - 1 */
	char **names;                 /* at span.name - 1 */
};

struct twi_trace {
	size_t rank_count;
	struct twi_trace_rank *ranks; /* by rank */
};

/* All zero is an empty trace. */
void twi_trace_fini(struct twi_trace *trace);

/* The rank that traces describe. Until it is set: rank -1 of no job, with only its own clock. */
struct twi_trace_about {
	const char *job; /* copied */
	int64_t rank, world;
	/* Gives the offset from this rank's times to rank 0's, if known. Runs in any thread. */
	bool (*clock)(void *arg, int64_t *offset_ns_out, uint64_t *error_ns_out);
	/* Compares that clock anew. `wait`: returns when that is done, or after some ms. */
	void (*compare)(void *arg, bool wait);
	/*
	 * Writes up to `room` spans of operations under way, without end and status. Returns how
	 * many there are. NULL: unknown. Runs in any thread.
	 */
	size_t (*unfinished)(void *arg, struct twi_span *out, size_t room);
	void *arg;
};

/* May be called repeatedly. Pass clock = NULL before freeing arg. TOW_OK or TOW_ENOMEM. */
int twi_trace_identify(struct twi_diag *diag, const struct twi_trace_about *about);

/*
 * Reads one rank's trace: the spans in its rings that end at begin_ns or later. `lost` of a thread
 * counts those overwritten since then, at worst TWI_SPAN_ROWS too many. sampled_out counts from the
 * runtime's start. TOW_OK, or TOW_ENOMEM with `out` empty.
 */
int twi_trace_read(struct twi_diag *diag, uint64_t begin_ns, struct twi_trace *out);

/* Reads everything that the rings hold, and the operations under way. */
int twi_trace_read_all(struct twi_diag *diag, struct twi_trace *out);

/* At most so many unfinished spans are kept; the others count as lost (spans_lost). */
#define TWI_TRACE_UNFINISHED_MAX 4096u

#endif
