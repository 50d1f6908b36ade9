/*
 * trace_capture.h - all that ranks' threads do from one moment to another.
 *
 *	start --- a thread of ours moves spans from the rings to memory --- finish: a trace
 *
 * A ring holds what a busy thread does in a millisecond, so rings are read all the time while a
 * capture runs, the more often the faster they fill. What was overwritten before is counted
 * (spans_lost, and `lost` of its thread), and so is what comes when TWI_TRACE_SPANS_MAX are held.
 * Any number may run at once; each has its thread and its memory.
 */
#ifndef TWI_TRACE_CAPTURE_H
#define TWI_TRACE_CAPTURE_H

#include "diag/trace/trace.h"

#define TWI_TRACE_SPANS_MAX   (1u << 20) /* 64 MiB, and as much again when it is finished */
#define TWI_TRACE_SECONDS_MAX 60u

struct twi_trace_capture;

/* TOW_OK; TOW_ENOMEM; TOW_ESYSTEM without a thread. From now on nothing is passed over. */
int twi_trace_capture_start(struct twi_diag *diag, struct twi_trace_capture **out);

/*
 * The same, and what the rings hold already of the time from since_ns on is of it, too: spans that
 * have ended then or later. Of small messages only those are there that span_sample has chosen.
 */
int twi_trace_capture_start_since(struct twi_diag *diag, uint64_t since_ns,
				  struct twi_trace_capture **out);

/* Ends it and takes it away. out NULL: nobody wants it. TOW_OK; TOW_ENOMEM: *out is empty. */
int twi_trace_capture_finish(struct twi_trace_capture *capture, struct twi_trace *out);

/* The same, as users have traces. */
struct tow_trace;
int twi_trace_capture_take(struct twi_trace_capture *capture, struct tow_trace **out);

/*
 * /v1/trace?seconds=N&format=...: N 0: what the rings hold, and so much is passed over as always
 * is. Added and removed with the runtime.
 */
int twi_trace_source_add(struct twi_diag *diag);
void twi_trace_source_remove(struct twi_diag *diag);

#endif
