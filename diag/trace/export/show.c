/* show.c - see show.h. */
#include "diag/trace/export/show.h"

#include <stdio.h>

#include <towline/status.h>

#include "diag/record/coll_kind.h"
#include "diag/record/counter.h"

const char *twi_show_kind(unsigned kind)
{
	static const char *const names[] = {
#define SHOW_KIND(id, name) name,
		TWI_SPAN_MAP(SHOW_KIND)
#undef SHOW_KIND
	};

	return kind < twi_array_count(names) ? names[kind] : "?";
}

const char *twi_show_coll_name(unsigned kind)
{
	return kind < TWI_COLL_KINDS ? twi_coll_kind_name((enum twi_coll_kind)kind) : "collective";
}

int64_t twi_show_unix_ns(const struct twi_trace *trace, const struct twi_trace_rank *rank)
{
	for (size_t i = 0; i < trace->rank_count && rank->clock_error_ns != UINT64_MAX; i++) {
		const struct twi_trace_rank *first = &trace->ranks[i];

		if (first->clock_error_ns != UINT64_MAX)
			return rank->clock_offset_ns + (first->unix_ns - first->clock_offset_ns);
	}
	return rank->unix_ns;
}

int64_t twi_show_begin_ns(const struct twi_trace *trace)
{
	int64_t begin_ns = 0;

	for (size_t r = 0; r < trace->rank_count; r++) {
		const struct twi_trace_rank *rank = &trace->ranks[r];
		uint64_t first_ns = rank->begin_ns;
		int64_t at_ns;

		for (size_t t = 0; t < rank->thread_count; t++)
			if (rank->threads[t].span_count)
				first_ns = twi_min(first_ns, rank->threads[t].spans[0].start_ns);
		if (rank->unfinished_count > 0)
			first_ns = twi_min(first_ns, rank->unfinished[0].start_ns);
		at_ns = (int64_t)first_ns + twi_show_unix_ns(trace, rank);
		if (r == 0 || at_ns < begin_ns)
			begin_ns = at_ns;
	}
	return begin_ns;
}

/* Computed unsigned: the difference of two clocks may be larger than a signed time. */
int64_t twi_show_shift_ns(const struct twi_trace *trace, const struct twi_trace_rank *rank)
{
	return (int64_t)((uint64_t)twi_show_unix_ns(trace, rank) -
			 (uint64_t)twi_show_begin_ns(trace));
}

int64_t twi_show_at(uint64_t ns, int64_t shift_ns)
{
	uint64_t at_ns = ns + (uint64_t)shift_ns;

	return at_ns > INT64_MAX ? INT64_MAX : (int64_t)at_ns;
}

const char *twi_show_user_name(const struct twi_trace_rank *rank, const struct twi_span *span)
{
	return span->name ? rank->names[span->name - 1] : NULL;
}

int64_t twi_show_peer_rank(const struct twi_trace_rank *rank, const struct twi_span *span)
{
	return span->peer ? rank->peers[span->peer - 1].rank : -1;
}

const char *twi_show_reason(const struct twi_span *span)
{
	if (span->kind != TWI_SPAN_COPY && span->kind != TWI_SPAN_REGISTER)
		return NULL;
	return span->detail < TWI_R_COUNT ? twi_reason_describe((enum twi_reason)span->detail)->name
					  : NULL;
}

int twi_show_blocks(const struct twi_span *span)
{
	switch (span->kind) {
	case TWI_SPAN_WAIT:
	case TWI_SPAN_COPY:
	case TWI_SPAN_REGISTER:
	case TWI_SPAN_STEP:
	case TWI_SPAN_USER:
		return 1;
	default:
		return 0;
	}
}

static const char *wait_text(const struct twi_span *span, char *out, size_t out_size)
{
	snprintf(out, out_size, "tow_op_wait (%s)", twi_show_kind(span->detail));
	return out;
}

const char *twi_show_name(const struct twi_trace_rank *rank, const struct twi_span *span, char *out,
			  size_t out_size)
{
	const char *user = twi_show_user_name(rank, span);
	char kind[48];

	/* It has not ended. A search for messages or collectives must not find it. */
	if (span->status == TOW_AGAIN) {
		snprintf(out, out_size, "%s unfinished%s%s",
			 span->kind == TWI_SPAN_COLL   ? twi_show_coll_name(span->detail)
			 : span->kind == TWI_SPAN_WAIT ? wait_text(span, kind, sizeof(kind))
						       : twi_show_kind(span->kind),
			 user != NULL ? " " : "", user != NULL ? user : "");
		return out;
	}
	/* It failed and moved nothing. A search for messages must not find it. */
	if (span->status < 0 && (span->kind == TWI_SPAN_SEND || span->kind == TWI_SPAN_RECV)) {
		snprintf(out, out_size, "%s failed%s%s", twi_show_kind(span->kind),
			 user != NULL ? " " : "", user != NULL ? user : "");
		return out;
	}
	switch (span->kind) {
	case TWI_SPAN_SEND:
		return "MegaScale: Communication Transport Send";
	case TWI_SPAN_RECV:
		return "MegaScale: Communication Transport Receive";
	case TWI_SPAN_DELIVERY:
		return "MegaScale: Send Finished";
	case TWI_SPAN_COPY:
		return "MegaScale: Memory Copy";
	case TWI_SPAN_REGISTER:
		return "MapDmaBuffer";
	case TWI_SPAN_DEVICE:
		return span->detail ? "MegaScale: Device to Host Action"
				    : "MegaScale: Host to Device Action";
	case TWI_SPAN_STEP:
	case TWI_SPAN_USER:
		return user != NULL ? user : twi_show_kind(span->kind);
	case TWI_SPAN_COLL:
		snprintf(out, out_size, "%s%s%s", twi_show_coll_name(span->detail),
			 user != NULL ? " " : "", user != NULL ? user : "");
		return out;
	case TWI_SPAN_WAIT:
		return wait_text(span, out, out_size);
	default:
		snprintf(out, out_size, "%s%s%s", twi_show_kind(span->kind),
			 user != NULL ? " " : "", user != NULL ? user : "");
		return out;
	}
}
