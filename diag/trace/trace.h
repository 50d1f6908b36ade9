/*
 * trace.h - a trace: what ranks did in a window of time, as data. What is captured, merged, written
 * in the formats of other tools, read back from one, and analysed is always this.
 *
 *	struct twi_trace --- ranks[] --- threads[] --- spans[] by start
 *	                             \-- unfinished[] by start
 *	                             \-- peers[], names[]
 *
 * Spans have ended. What was under way when the window ended stands apart from them, so that no
 * analysis takes it for something that has happened: a span that ends with the window, of status
 * TOW_AGAIN.
 *
 * All of it is owned by the trace and plain memory. A trace of a stranger's file is checked when it
 * is read: indexes that lead nowhere are refused there, and not looked for later.
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
	size_t thread_count, unfinished_count, peer_count, name_count;
	struct twi_trace_thread *threads;
	struct twi_span *unfinished;
	struct twi_trace_peer *peers; /* span.peer - 1 */
	char **names;                 /* span.name - 1 */
};

struct twi_trace {
	size_t rank_count;
	struct twi_trace_rank *ranks; /* by rank */
};

/* All zero is an empty one. */
void twi_trace_fini(struct twi_trace *trace);

/* Of whom traces tell; until it is said: rank -1 of no job, and no clock but its own. */
struct twi_trace_about {
	const char *job; /* copied */
	int64_t rank, world;
	/* What brings this rank's times to rank 0's, if that is known. Runs in any thread. */
	bool (*clock)(void *arg, int64_t *offset_ns_out, uint64_t *error_ns_out);
	/* Compares that clock anew; `wait`: returns when it is, or some ms are over. */
	void (*compare)(void *arg, bool wait);
	/*
	 * What is under way: writes up to `room` of them, without their end and status, and returns
	 * how many there are. NULL: nobody knows. Likewise.
	 */
	size_t (*unfinished)(void *arg, struct twi_span *out, size_t room);
	void *arg;
};

/* May be called repeatedly. Pass clock = NULL before freeing arg. TOW_OK or TOW_ENOMEM. */
int twi_trace_identify(struct twi_diag *diag, const struct twi_trace_about *about);

/*
 * One rank's: the spans in its rings that end at begin_ns or later. What has been overwritten since
 * then is in `lost` of its thread, at worst TWI_SPAN_ROWS too many; sampled_out is of the runtime's
 * whole life. TOW_OK or TOW_ENOMEM; out is then empty.
 */
int twi_trace_read(struct twi_diag *diag, uint64_t begin_ns, struct twi_trace *out);

/* The same of all that the rings hold, with what is under way. */
int twi_trace_read_all(struct twi_diag *diag, struct twi_trace *out);

/* What is told of it, at most; more is counted as lost (spans_lost). */
#define TWI_TRACE_UNFINISHED_MAX 4096u

#endif
