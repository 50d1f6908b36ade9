/*
 * document.h - a trace in a tool: read from an XSpace, merged with those of other ranks, and
 * written in any format. It needs no runtime.
 *
 * Statuses are those of <towline/status.h>; tow_error_message has the reason.
 */
#ifndef TRACE_DOCUMENT_H
#define TRACE_DOCUMENT_H

#include <stddef.h>
#include <stdint.h>

struct trace_document;

enum trace_format {
	TRACE_XSPACE,   /* XProf, TensorBoard, jax.profiler; the only format that is read */
	TRACE_PERFETTO, /* ui.perfetto.dev and its trace processor */
	TRACE_CHROME,   /* chrome://tracing */
	TRACE_JSON,     /* the analysis, as /v1/timeline and /v1/slack */
	TRACE_HTML      /* the analysis, as a self-contained page */
};

/* Names: "xspace", "perfetto", "chrome", "json", "html". TOW_EINVAL: another name. */
int trace_format_from_name(const char *name, enum trace_format *out);

/*
 * Reads `count` bytes of an XSpace of Towline; the bytes stay the caller's. TOW_EINVAL: they are
 * none, and the message has the reason; TOW_ENOTSUP: a build without protobuf-c; TOW_ENOMEM.
 */
int trace_document_load(const void *bytes, size_t count, struct trace_document **out);

/*
 * Moves the ranks of `from` to `into`. `from` is empty then, and the caller still releases it.
 * TOW_EINVAL: a rank is in both, and nothing is moved; TOW_ENOMEM.
 */
int trace_document_merge(struct trace_document *into, struct trace_document *from);

/* The caller frees *bytes_out with free(). TOW_EINVAL: unknown format; TOW_ENOTSUP; TOW_ENOMEM. */
int trace_document_write(const struct trace_document *document, enum trace_format format,
			 char **bytes_out, size_t *count_out);

/* The facts about one rank of a document, which owns the texts. */
struct trace_rank_info {
	const char *host;        /* the host of the rank */
	const char *job;         /* the job of the rank */
	int64_t rank;            /* in the job; -1: a process without one */
	int64_t world;           /* number of ranks of the job; 0: unknown */
	uint64_t spans;          /* number of its records */
	uint64_t unfinished;     /* number of spans that were open at the end of its window */
	uint64_t lost;           /* records that were overwritten before they were read */
	uint64_t window_ns;      /* length of its window */
	int64_t clock_offset_ns; /* is added to its times to get those of rank 0's clock */
	uint64_t clock_error_ns; /* largest error of that; UINT64_MAX: unknown */
};

/* Rank `index`, from 0, in the order of ranks. TOW_EINVAL: the index is past the end. */
int trace_document_rank(const struct trace_document *document, size_t index,
			struct trace_rank_info *out);

/* NULL is allowed. */
void trace_document_release(struct trace_document *document);

#endif
