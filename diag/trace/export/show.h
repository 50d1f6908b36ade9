/*
 * show.h - what all formats show alike: one time axis, and names.
 */
#ifndef TWI_SHOW_H
#define TWI_SHOW_H

#include <stddef.h>
#include <stdint.h>

#include "diag/trace/trace.h"

#define TWI_SHOW_NAME_BYTES 160

/*
 * Add it to a time of this rank for UNIX time, on one axis for all ranks. The axis is the UNIX time
 * of the first rank whose clock offset to rank 0 is known. For a rank with an unknown offset, the
 * UNIX time of its own host is used.
 */
int64_t twi_show_unix_ns(const struct twi_trace *trace, const struct twi_trace_rank *rank);

/* The UNIX time of the earliest moment in the trace. */
int64_t twi_show_begin_ns(const struct twi_trace *trace);

/*
 * XSpaces count time from their own beginning; the plane Task Environment has its UNIX time. The
 * reason is that XProf computes in picoseconds, and 63 bits hold 106 days of them. The first gives
 * a rank's shift, the second shifts a time.
 */
int64_t twi_show_shift_ns(const struct twi_trace *trace, const struct twi_trace_rank *rank);
int64_t twi_show_at(uint64_t ns, int64_t shift_ns);

/* "MegaScale: ..." where XProf knows a name, else the user's name or the kind with its detail. */
const char *twi_show_name(const struct twi_trace_rank *rank, const struct twi_span *span, char *out,
			  size_t out_size);

/* The user's name for it; NULL: none. */
const char *twi_show_user_name(const struct twi_trace_rank *rank, const struct twi_span *span);

/* The rank at the other end; -1: unknown. */
int64_t twi_show_peer_rank(const struct twi_trace_rank *rank, const struct twi_span *span);

/* Does it block its thread, so that it lies within its neighbours on that thread? */
int twi_show_blocks(const struct twi_span *span);

/* A reason such as "unexpected_arrival"; NULL: it has none. */
const char *twi_show_reason(const struct twi_span *span);

/* "send", for enum twi_span_kind; "all-reduce", for enum twi_coll_kind. */
const char *twi_show_kind(unsigned kind);
const char *twi_show_coll_name(unsigned kind);

#endif
