/*
 * trace.h - what ranks did in a window of time, for the tools that show it.
 *
 * Every runtime records what its threads do: messages, calls, collectives, waits, copies,
 * registrations, steps (docs/traces.md). A trace is such records of one or more ranks. It comes
 * from the stats socket (/v1/trace?seconds=N&format=xspace), is put together with those of other
 * ranks, and is written for XProf, Perfetto, Chrome, or as a page. XSpace is the format that keeps
 * all of it and is read back; the program towtrace does all this from a command line.
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

enum tow_trace_format {
	TOW_TRACE_XSPACE = 0,   /* XProf, TensorBoard, jax.profiler; read back by tow_trace_load */
	TOW_TRACE_PERFETTO = 1, /* ui.perfetto.dev and its trace processor */
	TOW_TRACE_CHROME = 2,   /* chrome://tracing */
	TOW_TRACE_JSON = 3,     /* the analysis, as /v1/timeline */
	TOW_TRACE_HTML = 4      /* the analysis, as a page that needs nothing else */
};

/*
 * The format of that name: "xspace", "perfetto", "chrome", "json", "html".
 * Ownership: none.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: TOW_OK; TOW_EINVAL for another name, or NULL.
 */
int tow_trace_format_from_name(const char *name, enum tow_trace_format *format_out);

/*
 * From now on everything is recorded and kept, small messages too, up to 1,048,576 spans; what came
 * beyond is counted. One such recording at a time; captures of the stats socket are apart from it.
 * Ownership: none passes.
 * Copies: no payload.
 * Blocks: never for long; starts a thread.
 * Threads: any.
 * Returns: TOW_OK; TOW_EBUSY when it was begun already; TOW_EINVAL for NULL; TOW_ENOMEM;
 * TOW_ESYSTEM; TOW_EFORKED.
 */
int tow_trace_begin(struct tow_runtime *runtime);

/*
 * What has happened since tow_trace_begin: the trace of this rank.
 * Ownership: *trace_out is the caller's, for tow_trace_release.
 * Copies: no payload.
 * Blocks: for some milliseconds, by the size.
 * Threads: any; not from a completion callback.
 * Returns: TOW_OK; TOW_EINVAL for NULL, in a callback, or when nothing is being recorded;
 * TOW_ENOMEM, and the recording is over; TOW_EFORKED.
 */
int tow_trace_end(struct tow_runtime *runtime, struct tow_trace **trace_out);

/*
 * Reads `count` bytes of an XSpace that Towline wrote.
 * Ownership: bytes stay the caller's; *trace_out is the caller's, for tow_trace_release.
 * Copies: no payload.
 * Blocks: never; takes time by the size.
 * Threads: any.
 * Returns: TOW_OK; TOW_EINVAL for bytes that are no XSpace of Towline's, with what is wrong; in a
 * build without protobuf-c TOW_ENOTSUP; TOW_ENOMEM.
 */
int tow_trace_load(const void *bytes, size_t count, struct tow_trace **trace_out);

/*
 * Moves the ranks of `from` to `into`; `from` is empty after it, and still to be released.
 * Ownership: both stay the caller's.
 * Copies: none.
 * Blocks: never.
 * Threads: any; one at a time for each trace.
 * Returns: TOW_OK; TOW_EINVAL when a rank is in both (nothing is moved); TOW_ENOMEM.
 */
int tow_trace_merge(struct tow_trace *into, struct tow_trace *from);

/*
 * Writes the trace in a format.
 * Ownership: *bytes_out are the caller's, for tow_trace_bytes_release.
 * Copies: no payload.
 * Blocks: never; takes time by the size.
 * Threads: any; not while the trace is changed.
 * Returns: TOW_OK; TOW_EINVAL for an unknown format; TOW_ENOTSUP for one that this build cannot
 * write, with the reason; TOW_ENOMEM.
 */
int tow_trace_encode(const struct tow_trace *trace, enum tow_trace_format format, void **bytes_out,
		     size_t *count_out);

/* What a trace holds of one rank. Texts are the trace's. */
struct tow_trace_rank_info {
	size_t size;             /* sizeof(struct tow_trace_rank_info) of the caller */
	const char *host;        /* where it ran */
	const char *job;         /* of which job */
	int64_t rank;            /* in the job; -1: a process without one */
	int64_t world;           /* ranks of the job; 0: not known */
	uint64_t spans;          /* records of it */
	uint64_t lost;           /* records that were overwritten before they were read */
	uint64_t seconds_ns;     /* length of its window */
	int64_t clock_offset_ns; /* what brings its times to rank 0's clock */
	uint64_t clock_error_ns; /* how wrong that can be; UINT64_MAX: not known */
};

/* The initial value of struct tow_trace_rank_info. */
#define TOW_TRACE_RANK_INFO_INIT                                                                   \
	{                                                                                          \
		TOW_MEMBER(size, sizeof(struct tow_trace_rank_info)), TOW_MEMBER(host, NULL),      \
			TOW_MEMBER(job, NULL), TOW_MEMBER(rank, 0), TOW_MEMBER(world, 0),          \
			TOW_MEMBER(spans, 0), TOW_MEMBER(lost, 0), TOW_MEMBER(seconds_ns, 0),      \
			TOW_MEMBER(clock_offset_ns, 0), TOW_MEMBER(clock_error_ns, 0)              \
	}

/*
 * Rank `index` of a trace, from 0, in the order of their ranks.
 * Ownership: texts are the trace's, until it is merged into another or released; *row_out is the
 * caller's, its size set by the caller.
 * Copies: none.
 * Blocks: never.
 * Threads: any; not while the trace is changed.
 * Returns: TOW_OK; TOW_EINVAL for an index past the end or a NULL row_out or one whose size no
 * header has.
 */
int tow_trace_rank_info(const struct tow_trace *trace, size_t index,
			struct tow_trace_rank_info *row_out);

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
