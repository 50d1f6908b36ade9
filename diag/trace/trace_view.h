/*
 * trace_view.h - gives analyses names, durations, and one axis of time for all ranks of a trace.
 *
 *	rank's clock --- + shift ---> the axis: ns since the earliest begin_ns of all ranks
 *
 * The axis is rank 0's clock. UNIX time puts a rank on the axis if its offset from rank 0 is
 * unknown. Its error is then UINT64_MAX, and no comparison with another rank is valid.
 *
 * A trace may come from an untrusted file with any times. So differences are computed without
 * overflow, and positions on the axis are limited to +-TWI_VIEW_MOST.
 */
#ifndef TWI_TRACE_VIEW_H
#define TWI_TRACE_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diag/trace/trace.h"

/* For products and sums that may exceed 64 bits. */
__extension__ typedef unsigned __int128 twi_wide;
__extension__ typedef __int128 twi_wide_signed;

#define TWI_VIEW_MOST (INT64_MAX / 4)

struct twi_view_rank {
	uint64_t origin; /* its clock's reading at 0 of the axis, modulo 2^64 */
	uint64_t error_ns;
};

struct twi_view {
	int64_t unix_ns; /* at 0 of the axis */
	int64_t end_ns;  /* the latest end_ns of all ranks; at least 1 */
	size_t rank_count;
	struct twi_view_rank *ranks;
};

/* TOW_OK or TOW_ENOMEM. */
int twi_view_init(const struct twi_trace *trace, struct twi_view *out);
void twi_view_fini(struct twi_view *view);

/* The position on the axis of a time of the rank. */
int64_t twi_view_at(const struct twi_view *view, size_t rank, uint64_t ns);

/* The largest error between positions of two ranks on the axis; UINT64_MAX: unknown. */
uint64_t twi_view_error(const struct twi_view *view, size_t left, size_t right);

static inline uint64_t twi_span_ns(const struct twi_span *span)
{
	return span->end_ns > span->start_ns ? span->end_ns - span->start_ns : 0;
}

/* The first `ns` of a span, but no more than the span has. */
static inline uint64_t twi_span_part(const struct twi_span *span, uint64_t ns)
{
	uint64_t all = twi_span_ns(span);

	return ns < all ? ns : all;
}

/*
 * The duration of a COLL's start call. A span cannot hold more than 4 s, so the end of a longer
 * call is unknown. Then the whole span counts, as time that is not certain is not slack.
 */
static inline uint64_t twi_span_called(const struct twi_span *span)
{
	return twi_span_part(span, span->queue_ns == UINT32_MAX ? UINT64_MAX : span->queue_ns);
}

/* Walks over all spans of all ranks. Start with a walk that is all zero. */
struct twi_walk {
	size_t rank, thread, next;
};
const struct twi_span *twi_view_next(const struct twi_trace *trace, struct twi_walk *walk);

/* The name that the user gave it; "" where there is none. */
const char *twi_view_name(const struct twi_trace_rank *rank, const struct twi_span *span);

/* NULL: there is no peer, or it is unknown. */
const struct twi_trace_peer *twi_view_peer(const struct twi_trace_rank *rank,
					   const struct twi_span *span);

/* Is it a thread's wait for the network? */
static inline bool twi_view_is_wait(const struct twi_span *span)
{
	return span->kind == TWI_SPAN_WAIT &&
	       (span->detail == TWI_SPAN_COLL || span->detail == TWI_SPAN_SEND ||
		span->detail == TWI_SPAN_RECV || span->detail == TWI_SPAN_CALL ||
		span->detail == TWI_SPAN_SERVE);
}

/* --- sets of time: the union of many intervals --- */

struct twi_cover_part {
	uint64_t start, end;
	uint64_t before; /* time in the parts before this one */
};

/* All zero is an empty set. After `seal`, its parts are disjoint and in order. */
struct twi_cover {
	size_t count, room;
	struct twi_cover_part *parts;
};

int twi_cover_add(struct twi_cover *cover, uint64_t start, uint64_t end);
void twi_cover_seal(struct twi_cover *cover);
/* The part of [start, end) that is covered. */
uint64_t twi_cover_within(const struct twi_cover *cover, uint64_t start, uint64_t end);
void twi_cover_fini(struct twi_cover *cover);

#endif
