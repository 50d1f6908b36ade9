/*
 * trace.h - what a rank did in a window of time, for the tools that show it.
 *
 * Every runtime records what its threads do: messages, calls, collectives, waits, copies,
 * registrations, steps (docs/traces.md). A trace is such records of this rank. The library writes
 * it as XSpace, which keeps all of it, and as the analysis in JSON; the stats socket answers the
 * same (/v1/trace?seconds=N&format=xspace). The program towtrace reads XSpaces: it puts those of
 * several ranks together and writes them for Perfetto, for Chrome, or as a page.
 */
#ifndef TOWLINE_TRACE_H
#define TOWLINE_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include <towline/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tow_trace;

/* The format in which tow_trace_encode writes a trace. */
enum tow_trace_format {
	TOW_TRACE_XSPACE = 0, /* XProf, TensorBoard, jax.profiler; what towtrace reads */
	TOW_TRACE_JSON = 1    /* the analysis, as /v1/timeline and /v1/slack */
};

/*
 * Begins a trace: from now on everything is recorded and kept, small messages too, up to 1,048,576
 * spans; what came beyond is counted. One such recording at a time; captures of the stats socket
 * are apart from it.
 * Ownership: none passes.
 * Copies: no payload.
 * Blocks: never for long; starts a thread.
 * Threads: any.
 * Returns: TOW_OK; TOW_EBUSY when it was begun already; TOW_EINVAL for NULL; TOW_ENOMEM;
 * TOW_ESYSTEM; TOW_EFORKED.
 */
int tow_trace_begin(struct tow_runtime *runtime);

/*
 * Ends the recording, and gives the trace of this rank: what has happened since tow_trace_begin.
 * Ownership: *trace_out is the caller's, for tow_trace_release.
 * Copies: no payload.
 * Blocks: for some milliseconds, by the size.
 * Threads: any; not from a completion callback.
 * Returns: TOW_OK; TOW_EINVAL for NULL, in a callback, or when nothing is being recorded;
 * TOW_ENOMEM, and the recording is over; TOW_EFORKED.
 */
int tow_trace_end(struct tow_runtime *runtime, struct tow_trace **trace_out);

/*
 * Writes the trace in a format.
 * Ownership: *bytes_out are the caller's, for tow_trace_bytes_release.
 * Copies: no payload.
 * Blocks: never; takes time by the size.
 * Threads: any; not while the trace is changed.
 * Returns: TOW_OK; TOW_EINVAL for NULL or an unknown format; TOW_ENOTSUP for one that this build
 * cannot write, with the reason; TOW_ENOMEM.
 */
int tow_trace_encode(const struct tow_trace *trace, enum tow_trace_format format, void **bytes_out,
		     size_t *count_out);

/*
 * Frees a trace. NULL is legal.
 * Ownership: takes the trace.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 */
void tow_trace_release(struct tow_trace *trace);

/*
 * Frees what tow_trace_encode gave. NULL is legal.
 * Ownership: takes the bytes.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 */
void tow_trace_bytes_release(void *bytes);

#ifdef __cplusplus
}
#endif
#endif
