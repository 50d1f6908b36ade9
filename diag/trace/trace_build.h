/*
 * trace_build.h - builds one rank's trace from parts, for readers of the rings. trace_read.c reads
 * them at once; a capture reads them repeatedly while it runs.
 */
#ifndef TWI_TRACE_BUILD_H
#define TWI_TRACE_BUILD_H

#include "diag/trace/trace.h"

struct twi_span_ring;

/* Fills host, job, clocks, peers and names, but not times and threads. TOW_ENOMEM: no message. */
int twi_trace_describe(struct twi_diag *diag, struct twi_trace_rank *rank);

/*
 * Compares this rank's clock with rank 0's. A capture calls it at its begin, and at its end with
 * `wait`. A recent comparison is more exact than an old one, and two of them show the clocks' rate.
 */
void twi_trace_compare_clocks(struct twi_diag *diag, bool wait);

/*
 * The first asks for the operations under way. The second completes their spans, once the rank has
 * its names and end_ns. TOW_ENOMEM: no message.
 */
int twi_trace_ask_unfinished(struct twi_diag *diag, struct twi_trace_rank *rank);
int twi_trace_end_unfinished(struct twi_diag *diag, struct twi_trace_rank *rank);

/*
 * Adds a thread for each owner that the ring has had. numbers[i] is the number of spans[i] in the
 * ring, and rises. TOW_ENOMEM: no message.
 */
int twi_trace_add_spans(struct twi_diag *diag, struct twi_trace_rank *rank,
			const struct twi_span_ring *ring, struct twi_span *spans,
			const uint64_t *numbers, size_t count, uint64_t lost);

/* Names the thread's collectives after name and group (trace_names.c). TOW_ENOMEM: no message. */
int twi_trace_name_spans(struct twi_diag *diag, struct twi_trace_rank *rank,
			 struct twi_trace_thread *thread);

#endif
