/*
 * trace_writer.h - captures that nobody waits for: a thread of ours that is told to capture, does
 * so for a while, and writes a file (trace_file.h).
 *
 *	a signal's handler ------------ eventfd ---.
 *	a step that was slow                       +--> the thread: capture, write, log
 *	a verdict       } claim, fill, fire -------'
 *
 * Who triggers is never kept waiting: it neither locks nor allocates, and writes to an eventfd. One
 * capture runs at a time. A signal is somebody's wish, and is served when the thread has time;
 * what triggers by itself is passed over while a capture runs, and beyond the bounds below, since
 * what is wrong once is often wrong again and again.
 */
#ifndef TWI_TRACE_WRITER_H
#define TWI_TRACE_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "diag/trace/capture/trace_file.h"

#define TWI_TRIGGERED_APART_NS 60000000000ull /* from the beginning of one to that of the next */
#define TWI_TRIGGERED_MAX      16u            /* of a runtime */

struct twi_diag;
struct twi_trace_writer;

/* All zero: none has been yet. */
struct twi_trace_bounds {
	uint64_t next_ns; /* none before */
	uint32_t begun;
};

/* Whether one may begin at now_ns, which is then counted. Pure. */
bool twi_trace_bounds_take(struct twi_trace_bounds *bounds, uint64_t now_ns);

struct twi_trace_writer_options {
	uint32_t seconds;
	const char *dir; /* must live as long; "": the working directory */
};

/* What is captured, and why. */
struct twi_trace_trigger {
	char session[TWI_TRACE_SESSION]; /* the folder of the file */
	char why[128];                   /* for the log, behind "trace of " */
	uint64_t since_ns;               /* what the rings hold from then on is of it */
};

/* TOW_OK, TOW_ENOMEM, TOW_ESYSTEM. */
int twi_trace_writer_open(struct twi_diag *diag, const struct twi_trace_writer_options *options,
			  struct twi_trace_writer **out);

/* Ends a capture that is under way and writes its file; from now on none begins. NULL is legal. */
void twi_trace_writer_stop(struct twi_trace_writer *writer);

/* Nobody triggers any more. Stops it, too. NULL is legal. */
void twi_trace_writer_close(struct twi_trace_writer *writer);

/*
 * What the caller fills and then fires, from any thread; NULL: this trigger is passed over, which
 * is counted. NULL is legal for the writer, and then nothing is counted.
 */
struct twi_trace_trigger *twi_trace_writer_claim(struct twi_trace_writer *writer);
void twi_trace_writer_fire(struct twi_trace_writer *writer);

/*
 * Where the handler of that signal writes a uint64_t of 1 for a capture of what comes. It stays
 * open until the writer is closed.
 */
int twi_trace_writer_listen(struct twi_trace_writer *writer, int signal);

#endif
