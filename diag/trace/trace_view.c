/*
 * trace_view.c - computes the axis of trace_view.h, and sets of time.
 */
#include "diag/trace/trace_view.h"

#include <stdlib.h>

#include <internal/base.h>

#include "diag/base/error.h"

static int64_t clamp_wide(twi_wide_signed value)
{
	if (value > TWI_VIEW_MOST)
		return TWI_VIEW_MOST;
	return value < -TWI_VIEW_MOST ? -TWI_VIEW_MOST : (int64_t)value;
}

/* UNIX time at 0 of rank 0's clock, from the rank whose offset has the smallest error. */
static twi_wide_signed unix_of_zero(const struct twi_trace *trace)
{
	const struct twi_trace_rank *best = &trace->ranks[0];

	for (size_t i = 1; i < trace->rank_count; i++) {
		if (trace->ranks[i].clock_error_ns < best->clock_error_ns)
			best = &trace->ranks[i];
	}
	if (best->clock_error_ns == UINT64_MAX)
		return best->unix_ns;
	return (twi_wide_signed)best->unix_ns - best->clock_offset_ns;
}

/* Add it to a time of the rank for rank 0's time. */
static twi_wide_signed shift_of(const struct twi_trace_rank *rank, twi_wide_signed zero)
{
	return rank->clock_error_ns != UINT64_MAX ? (twi_wide_signed)rank->clock_offset_ns
						  : (twi_wide_signed)rank->unix_ns - zero;
}

int twi_view_init(const struct twi_trace *trace, struct twi_view *out)
{
	twi_wide_signed zero, first = 0, last = 0;

	*out = (struct twi_view){ .end_ns = 1 };
	if (trace->rank_count == 0)
		return TOW_OK;
	out->ranks = calloc(trace->rank_count, sizeof(*out->ranks));
	if (out->ranks == NULL)
		return twi_error(TOW_ENOMEM, "no memory to analyse a trace of %zu ranks",
				 trace->rank_count);
	out->rank_count = trace->rank_count;
	zero = unix_of_zero(trace);
	for (size_t i = 0; i < trace->rank_count; i++) {
		const struct twi_trace_rank *rank = &trace->ranks[i];
		twi_wide_signed shift = shift_of(rank, zero);

		first = i == 0 ? rank->begin_ns + shift : twi_min(first, rank->begin_ns + shift);
		last = i == 0 ? rank->end_ns + shift : twi_max(last, rank->end_ns + shift);
	}
	for (size_t i = 0; i < trace->rank_count; i++) {
		out->ranks[i].origin = (uint64_t)(first - shift_of(&trace->ranks[i], zero));
		out->ranks[i].error_ns = trace->ranks[i].clock_error_ns;
	}
	out->unix_ns = clamp_wide(first + zero);
	out->end_ns = twi_max(clamp_wide(last - first), (int64_t)1);
	return TOW_OK;
}

void twi_view_fini(struct twi_view *view)
{
	free(view->ranks);
	*view = (struct twi_view){ 0 };
}

int64_t twi_view_at(const struct twi_view *view, size_t rank, uint64_t ns)
{
	return clamp_wide((int64_t)(ns - view->ranks[rank].origin));
}

uint64_t twi_view_error(const struct twi_view *view, size_t left, size_t right)
{
	uint64_t a = view->ranks[left].error_ns, b = view->ranks[right].error_ns;

	return left == right ? 0 : a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

const struct twi_span *twi_view_next(const struct twi_trace *trace, struct twi_walk *walk)
{
	for (; walk->rank < trace->rank_count; walk->rank++, walk->thread = 0) {
		const struct twi_trace_rank *rank = &trace->ranks[walk->rank];

		for (; walk->thread < rank->thread_count; walk->thread++, walk->next = 0) {
			const struct twi_trace_thread *thread = &rank->threads[walk->thread];

			if (walk->next < thread->span_count)
				return &thread->spans[walk->next++];
		}
	}
	return NULL;
}

const char *twi_view_name(const struct twi_trace_rank *rank, const struct twi_span *span)
{
	const char *name = span->name == 0 || span->name > rank->name_count
				   ? NULL
				   : rank->names[span->name - 1];

	return name != NULL ? name : "";
}

const struct twi_trace_peer *twi_view_peer(const struct twi_trace_rank *rank,
					   const struct twi_span *span)
{
	return span->peer == 0 || span->peer > rank->peer_count ? NULL
								: &rank->peers[span->peer - 1];
}

int twi_cover_add(struct twi_cover *cover, uint64_t start, uint64_t end)
{
	if (end <= start)
		return TOW_OK;
	if (cover->count == cover->room) {
		size_t room = cover->room != 0 ? cover->room * 2 : 64;
		void *parts = reallocarray(cover->parts, room, sizeof(*cover->parts));

		if (parts == NULL)
			return twi_error(TOW_ENOMEM, "no memory to analyse %zu spans", room);
		cover->parts = parts;
		cover->room = room;
	}
	cover->parts[cover->count++] = (struct twi_cover_part){ start, end, 0 };
	return TOW_OK;
}

static int by_start(const void *a, const void *b)
{
	const struct twi_cover_part *left = a, *right = b;

	return (left->start > right->start) - (left->start < right->start);
}

void twi_cover_seal(struct twi_cover *cover)
{
	size_t kept = 0;

	if (cover->count == 0)
		return;
	qsort(cover->parts, cover->count, sizeof(*cover->parts), by_start);
	for (size_t i = 1; i < cover->count; i++) {
		struct twi_cover_part *last = &cover->parts[kept];

		if (cover->parts[i].start <= last->end)
			last->end = twi_max(last->end, cover->parts[i].end);
		else
			cover->parts[++kept] = cover->parts[i];
	}
	cover->count = kept + 1;
	cover->parts[0].before = 0;
	for (size_t i = 1; i < cover->count; i++)
		cover->parts[i].before = cover->parts[i - 1].before + cover->parts[i - 1].end -
					 cover->parts[i - 1].start;
}

/* The covered time below `at`. */
static uint64_t covered_below(const struct twi_cover *cover, uint64_t at)
{
	size_t low = 0, high = cover->count; /* parts that start below `at` */

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (cover->parts[middle].start < at)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return 0;
	return cover->parts[low - 1].before +
	       (twi_min(at, cover->parts[low - 1].end) - cover->parts[low - 1].start);
}

uint64_t twi_cover_within(const struct twi_cover *cover, uint64_t start, uint64_t end)
{
	return end > start ? covered_below(cover, end) - covered_below(cover, start) : 0;
}

void twi_cover_fini(struct twi_cover *cover)
{
	free(cover->parts);
	*cover = (struct twi_cover){ 0 };
}
