/*
 * trace_writer.h - captures that no client waits for: a thread of ours gets a trigger, captures for
 * a while, and writes a file (trace_file.h).
 *
 *	a signal's handler ------------ eventfd ---.
 *	a step that was slow                       +--> the thread: capture, write, log
 *	a verdict       } claim, fill, fire -------'
 *
 * The triggering thread never waits: it does not lock or allocate, and only writes to an eventfd.
 * One capture runs at a time. A signal is a user's request, and is served when the thread has time.
 * An automatic trigger is skipped while another one waits or is served. It is also skipped beyond
 * the bounds below, as what is wrong once is often wrong many times.
 */
#ifndef TWI_TRACE_WRITER_H
#define TWI_TRACE_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "diag/trace/capture/trace_file.h"

#define TWI_TRIGGERED_APART_NS 60000000000ull /* from one begin to the next */
#define TWI_TRIGGERED_MAX      16u            /* for each runtime */

struct twi_diag;
struct twi_trace_writer;

/* All zero: no capture has begun. */
struct twi_trace_bounds {
	uint64_t next_ns; /* the earliest next begin */
	uint32_t begun;
};

/* May a capture begin at now_ns? If so, it is counted. Pure. */
bool twi_trace_bounds_take(struct twi_trace_bounds *bounds, uint64_t now_ns);

struct twi_trace_writer_options {
	uint32_t seconds;
	const char *dir; /* outlives the writer; "": the working directory */
};

/* What to capture, and why. */
struct twi_trace_trigger {
	char session[TWI_TRACE_SESSION]; /* the folder of the file */
	char why[128];                   /* for the log, after "trace of " */
	uint64_t since_ns;               /* older spans from then on belong to it */
};

/* TOW_OK, TOW_ENOMEM, TOW_ESYSTEM. */
int twi_trace_writer_open(struct twi_diag *diag, const struct twi_trace_writer_options *options,
			  struct twi_trace_writer **out);

/* Ends a running capture and writes its file. From now on none begins. NULL is legal. */
void twi_trace_writer_stop(struct twi_trace_writer *writer);

/* Stops it, too. No thread may trigger any more. NULL is legal. */
void twi_trace_writer_close(struct twi_trace_writer *writer);

/*
 * The trigger that the caller fills and then fires, from any thread. NULL: this trigger is skipped,
 * and counted as such. A writer of NULL is legal and counts nothing.
 */
struct twi_trace_trigger *twi_trace_writer_claim(struct twi_trace_writer *writer);
void twi_trace_writer_fire(struct twi_trace_writer *writer);

/*
 * The descriptor to which that signal's handler writes a uint64_t of 1 for a capture of what
 * follows. It stays open until the writer is closed.
 */
int twi_trace_writer_listen(struct twi_trace_writer *writer, int signal);

#endif
