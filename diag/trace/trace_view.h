/*
 * trace_view.h - how analyses look at a trace: names, durations, and one axis of time.
 *
 *	rank's clock --- + shift ---> the axis: ns since the earliest begin_ns of all ranks
 *
 * The axis is rank 0's clock. A rank whose offset from it is not known is put on it by UNIX time;
 * its error is then UINT64_MAX, and nothing that compares it with another rank may be claimed.
 *
 * A trace may come from a stranger's file: its times may be anything. So differences are taken
 * without overflow and places on the axis are held within +-TWI_VIEW_MOST.
 */
#ifndef TWI_TRACE_VIEW_H
#define TWI_TRACE_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diag/trace/trace.h"

/* Products and sums that 64 bits may not hold. */
__extension__ typedef unsigned __int128 twi_wide;
__extension__ typedef __int128 twi_wide_signed;

#define TWI_VIEW_MOST (INT64_MAX / 4)

struct twi_view_rank {
	uint64_t origin; /* the reading of its clock at 0 of the axis, modulo 2^64 */
	uint64_t error_ns;
};

struct twi_view {
	int64_t unix_ns; /* of 0 of the axis */
	int64_t end_ns;  /* the latest end_ns of all ranks; at least 1 */
	size_t rank_count;
	struct twi_view_rank *ranks;
};

/* TOW_OK or TOW_ENOMEM. */
int twi_view_init(const struct twi_trace *trace, struct twi_view *out);
void twi_view_fini(struct twi_view *view);

/* Where a time of the rank lies on the axis. */
int64_t twi_view_at(const struct twi_view *view, size_t rank, uint64_t ns);

/* What two ranks' places on the axis can be wrong by against each other; UINT64_MAX: not known. */
uint64_t twi_view_error(const struct twi_view *view, size_t left, size_t right);

static inline uint64_t twi_span_ns(const struct twi_span *span)
{
	return span->end_ns > span->start_ns ? span->end_ns - span->start_ns : 0;
}

/* The first `ns` of a span that it says were something else, no more than it has. */
static inline uint64_t twi_span_part(const struct twi_span *span, uint64_t ns)
{
	uint64_t all = twi_span_ns(span);

	return ns < all ? ns : all;
}

/*
 * What the start call of a COLL took. Of one that took longer than a span can say (4 s) it is not
 * known when it was over: it is told as all of it, as time that nobody can count on is no slack.
 */
static inline uint64_t twi_span_called(const struct twi_span *span)
{
	return twi_span_part(span, span->queue_ns == UINT32_MAX ? UINT64_MAX : span->queue_ns);
}

/* All spans of all ranks, one after the other: start with a walk that is all zero. */
struct twi_walk {
	size_t rank, thread, next;
};
const struct twi_span *twi_view_next(const struct twi_trace *trace, struct twi_walk *walk);

/* The user's name for it, "" where there is none. */
const char *twi_view_name(const struct twi_trace_rank *rank, const struct twi_span *span);

/* NULL: none, or not known. */
const struct twi_trace_peer *twi_view_peer(const struct twi_trace_rank *rank,
					   const struct twi_span *span);

/* Whether it is a thread that waits for the network. */
static inline bool twi_view_is_wait(const struct twi_span *span)
{
	return span->kind == TWI_SPAN_WAIT &&
	       (span->detail == TWI_SPAN_COLL || span->detail == TWI_SPAN_SEND ||
		span->detail == TWI_SPAN_RECV || span->detail == TWI_SPAN_CALL ||
		span->detail == TWI_SPAN_SERVE);
}

/* --- sets of time: what is covered by any of many intervals --- */

struct twi_cover_part {
	uint64_t start, end;
	uint64_t before; /* covered by the parts before this one */
};

/* All zero is an empty one. After `seal` its parts are apart and in order. */
struct twi_cover {
	size_t count, room;
	struct twi_cover_part *parts;
};

int twi_cover_add(struct twi_cover *cover, uint64_t start, uint64_t end);
void twi_cover_seal(struct twi_cover *cover);
/* How much of [start, end) is covered. */
uint64_t twi_cover_within(const struct twi_cover *cover, uint64_t start, uint64_t end);
void twi_cover_fini(struct twi_cover *cover);

#endif
