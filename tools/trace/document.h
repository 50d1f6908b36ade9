/*
 * document.h - a trace as a tool has it: read from an XSpace, put together with those of other
 * ranks, and written in any format. It knows no runtime.
 *
 * Statuses are those of <towline/status.h>; tow_error_message says what was wrong.
 */
#ifndef TRACE_DOCUMENT_H
#define TRACE_DOCUMENT_H

#include <stddef.h>
#include <stdint.h>

struct trace_document;

enum trace_format {
	TRACE_XSPACE,   /* XProf, TensorBoard, jax.profiler; the only one that is read */
	TRACE_PERFETTO, /* ui.perfetto.dev and its trace processor */
	TRACE_CHROME,   /* chrome://tracing */
	TRACE_JSON,     /* the analysis, as /v1/timeline and /v1/slack */
	TRACE_HTML      /* the analysis, as a page that needs nothing else */
};

/* "xspace", "perfetto", "chrome", "json", "html"; TOW_EINVAL for another name. */
int trace_format_from_name(const char *name, enum trace_format *out);

/*
 * Reads `count` bytes of an XSpace that Towline wrote, which stay the caller's. TOW_EINVAL says why
 * they are none; TOW_ENOTSUP in a build without protobuf-c; TOW_ENOMEM.
 */
int trace_document_load(const void *bytes, size_t count, struct trace_document **out);

/*
 * Moves the ranks of `from` to `into`; `from` is empty after it, and still to be released.
 * TOW_EINVAL when a rank is in both: nothing is moved then; TOW_ENOMEM.
 */
int trace_document_merge(struct trace_document *into, struct trace_document *from);

/* *bytes_out go to free(). TOW_EINVAL for an unknown format; TOW_ENOTSUP; TOW_ENOMEM. */
int trace_document_write(const struct trace_document *document, enum trace_format format,
			 char **bytes_out, size_t *count_out);

/* What a document holds of one rank. Texts are the document's. */
struct trace_rank_info {
	const char *host;        /* where it ran */
	const char *job;         /* of which job */
	int64_t rank;            /* in the job; -1: a process without one */
	int64_t world;           /* ranks of the job; 0: not known */
	uint64_t spans;          /* records of it */
	uint64_t unfinished;     /* what was under way when its window ended */
	uint64_t lost;           /* records that were overwritten before they were read */
	uint64_t window_ns;      /* length of its window */
	int64_t clock_offset_ns; /* what brings its times to rank 0's clock */
	uint64_t clock_error_ns; /* how wrong that can be; UINT64_MAX: not known */
};

/* Rank `index`, from 0, in the order of their ranks. TOW_EINVAL for an index past the end. */
int trace_document_rank(const struct trace_document *document, size_t index,
			struct trace_rank_info *out);

/* NULL is legal. */
void trace_document_release(struct trace_document *document);

#endif
