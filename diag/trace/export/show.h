/*
 * show.h - what every format shows of a trace alike: one time axis, and names.
 */
#ifndef TWI_SHOW_H
#define TWI_SHOW_H

#include <stddef.h>
#include <stdint.h>

#include "diag/trace/trace.h"

#define TWI_SHOW_NAME_BYTES 160

/*
 * What added to a time of this rank makes UNIX time, on one axis for all ranks: that of the first
 * one whose clock's distance to rank 0's is known. A rank of which it is not known is put by the
 * UNIX time of its own host.
 */
int64_t twi_show_unix_ns(const struct twi_trace *trace, const struct twi_trace_rank *rank);

/* UNIX time of the earliest that the trace holds. */
int64_t twi_show_begin_ns(const struct twi_trace *trace);

/*
 * XSpaces count from their own beginning (the plane Task Environment has its UNIX time): XProf
 * reckons in picoseconds, of which 63 bits hold 106 days. The shift of a rank, and a time of it.
 */
int64_t twi_show_shift_ns(const struct twi_trace *trace, const struct twi_trace_rank *rank);
int64_t twi_show_at(uint64_t ns, int64_t shift_ns);

/* "MegaScale: ..." where XProf knows a name for it, the user's name, or the kind and what of it. */
const char *twi_show_name(const struct twi_trace_rank *rank, const struct twi_span *span, char *out,
			  size_t out_size);

/* What the user calls it; NULL: nothing. */
const char *twi_show_user_name(const struct twi_trace_rank *rank, const struct twi_span *span);

/* The rank at the other end, -1 when it is not known. */
int64_t twi_show_peer_rank(const struct twi_trace_rank *rank, const struct twi_span *span);

/* Whether it blocks its thread, so that it lies within what is around it on that thread. */
int twi_show_blocks(const struct twi_span *span);

/* "unexpected_arrival"; NULL when it has none. */
const char *twi_show_reason(const struct twi_span *span);

/* "send", of enum twi_span_kind; "all-reduce", of enum twi_coll_kind. */
const char *twi_show_kind(unsigned kind);
const char *twi_show_coll_name(unsigned kind);

#endif
