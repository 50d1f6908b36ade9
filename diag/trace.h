/*
 * trace.h - a trace: what ranks did in a window of time, as data. What is captured, merged, written
 * in the formats of other tools, read back from one, and analysed is always this.
 *
 *	struct twi_trace --- ranks[] --- threads[] --- spans[] by start
 *	                             \-- peers[], names[]
 *
 * All of it is owned by the trace and plain memory. A trace of a stranger's file is checked when it
 * is read: indexes that lead nowhere are refused there, and not looked for later.
 */
#ifndef TWI_TRACE_H
#define TWI_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "diag/span.h"

struct twi_diag;

struct twi_trace_peer {
	char *name;
	int64_t rank; /* in the job; -1: not known */
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
	int64_t world; /* ranks of the job; 0: not known */
	int64_t pid;
	uint64_t begin_ns, end_ns; /* the window, by the rank's own clock, as all its times */
	int64_t unix_ns;           /* what added to such a time makes UNIX time */
	/* What added to such a time makes rank 0's, and how wrong that can be. error UINT64_MAX:
	 * not known, and then UNIX time is what ranks are put together by. */
	int64_t clock_offset_ns;
	uint64_t clock_error_ns;
	uint64_t sampled_out;
	size_t thread_count, peer_count, name_count;
	struct twi_trace_thread *threads;
	struct twi_trace_peer *peers; /* span.peer - 1 */
	char **names;                 /* span.name - 1 */
};

struct twi_trace {
	size_t rank_count;
	struct twi_trace_rank *ranks; /* by rank */
};

/* All zero is an empty one. */
void twi_trace_fini(struct twi_trace *trace);

/*
 * One rank's: the spans in its rings that end at begin_ns or later. TOW_OK or TOW_ENOMEM; out is
 * then empty.
 */
int twi_trace_read(struct twi_diag *diag, uint64_t begin_ns, struct twi_trace *out);

/* Moves the ranks of `from` to `into`. TOW_EINVAL: a rank is in both; TOW_ENOMEM. */
int twi_trace_merge(struct twi_trace *into, struct twi_trace *from);

#endif
