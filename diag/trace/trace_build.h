/*
 * trace_build.h - the parts of which one rank's trace is made, for those who read the rings: at
 * once (trace_read.c), or again and again while a capture runs.
 */
#ifndef TWI_TRACE_BUILD_H
#define TWI_TRACE_BUILD_H

#include "diag/trace/trace.h"

struct twi_span_ring;

/* Host, job, clocks, peers and names; times and threads are left. TOW_ENOMEM without a message. */
int twi_trace_describe(struct twi_diag *diag, struct twi_trace_rank *rank);

/*
 * Has this rank's clock compared with rank 0's: where a capture begins, and, waiting for it, where
 * it ends. A comparison is the better the younger it is, and two of them show the rate.
 */
void twi_trace_compare_clocks(struct twi_diag *diag, bool wait);

/*
 * Asks what is under way, and then, once the rank's names are there and its end_ns is known, makes
 * of it what is unfinished. TOW_ENOMEM without a message.
 */
int twi_trace_ask_unfinished(struct twi_diag *diag, struct twi_trace_rank *rank);
int twi_trace_end_unfinished(struct twi_diag *diag, struct twi_trace_rank *rank);

/*
 * Adds threads: one for each that owned the ring. numbers[i] is the number in the ring of spans[i],
 * rising. TOW_ENOMEM without a message.
 */
int twi_trace_add_spans(struct twi_diag *diag, struct twi_trace_rank *rank,
			const struct twi_span_ring *ring, struct twi_span *spans,
			const uint64_t *numbers, size_t count, uint64_t lost);

/* Its collectives are told by name and group (trace_names.c). TOW_ENOMEM without a message. */
int twi_trace_name_spans(struct twi_diag *diag, struct twi_trace_rank *rank,
			 struct twi_trace_thread *thread);

#endif
