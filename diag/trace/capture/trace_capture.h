/*
 * trace_capture.h - captures all that a rank's threads do from one moment to another.
 *
 *	start --- a thread of ours moves spans from the rings to memory --- finish: a trace
 *
 * A busy thread fills a ring within a millisecond. So a capture reads the rings all the time, and
 * more often when they fill faster. Spans that were overwritten before that are counted
 * (spans_lost, and `lost` of their thread). Spans beyond TWI_TRACE_SPANS_MAX count as lost, too.
 * Any number of captures may run at once; each has its own thread and memory.
 */
#ifndef TWI_TRACE_CAPTURE_H
#define TWI_TRACE_CAPTURE_H

#include "diag/trace/trace.h"

#define TWI_TRACE_SPANS_MAX   (1u << 20) /* 64 MiB, and as much again when it finishes */
#define TWI_TRACE_SECONDS_MAX 60u

struct twi_trace_capture;

/* TOW_OK; TOW_ENOMEM; TOW_ESYSTEM: no thread. From now on no span is sampled out. */
int twi_trace_capture_start(struct twi_diag *diag, struct twi_trace_capture **out);

/*
 * Starts a capture that also takes older spans from the rings: those that have ended at since_ns or
 * later. Among older small messages, it has only those that span_sample has chosen.
 */
int twi_trace_capture_start_since(struct twi_diag *diag, uint64_t since_ns,
				  struct twi_trace_capture **out);

/* Ends and frees it. out NULL: the trace is dropped. TOW_OK, or TOW_ENOMEM with *out empty. */
int twi_trace_capture_finish(struct twi_trace_capture *capture, struct twi_trace *out);

/* Does the same, with a trace for users. */
struct tow_trace;
int twi_trace_capture_take(struct twi_trace_capture *capture, struct tow_trace **out);

/*
 * /v1/trace?seconds=N&format=...: N = 0 gives what the rings hold, sampled as always. The runtime
 * adds it when it opens, and removes it when it closes.
 */
int twi_trace_source_add(struct twi_diag *diag);
void twi_trace_source_remove(struct twi_diag *diag);

#endif
