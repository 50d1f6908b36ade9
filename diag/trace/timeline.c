/*
 * timeline.c - combines the parts of timeline.h, and computes what one pass over the spans gives.
 */
#include "diag/trace/timeline.h"

#include <stdlib.h>

#include <internal/base.h>

#include "diag/base/error.h"

const char *twi_timeline_path_name(enum twi_timeline_path path)
{
	return path == TWI_PATH_NETWORK ? "network" : "host";
}

void twi_timeline_quantiles(uint64_t *values, size_t count, struct twi_timeline_quantiles *out)
{
	twi_wide sum = 0;

	out->count = count;
	if (count == 0)
		return;
	for (size_t i = 0; i < count; i++)
		sum += values[i];
	out->sum_ns = sum > UINT64_MAX ? UINT64_MAX : (uint64_t)sum;
	out->p50_ns = values[(count + 1) / 2 - 1];
	out->p99_ns = values[count - count / 100 - 1];
	out->max_ns = values[count - 1];
}

uint64_t twi_timeline_bin_of(const struct twi_timeline *timeline, int64_t at)
{
	uint64_t bin = at > 0 ? (uint64_t)at / timeline->bin_ns : 0;

	return twi_min(bin, (uint64_t)TWI_TIMELINE_BINS - 1);
}

static int values_ascend(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

static size_t span_total(const struct twi_trace *trace)
{
	struct twi_walk walk = { 0 };
	size_t total = 0;

	while (twi_view_next(trace, &walk) != NULL)
		total++;
	return total;
}

static int make_kinds(const struct twi_trace *trace, struct twi_timeline *out)
{
	uint64_t *values = calloc(span_total(trace) + 1, sizeof(*values));

	if (values == NULL)
		return twi_error(TOW_ENOMEM, "no memory to analyse %zu spans", span_total(trace));
	for (unsigned kind = 0; kind < TWI_SPAN_KINDS; kind++) {
		struct twi_walk walk = { 0 };
		const struct twi_span *span;
		size_t count = 0;

		while ((span = twi_view_next(trace, &walk)) != NULL) {
			if (span->kind != kind)
				continue;
			values[count++] = twi_span_ns(span);
			out->kinds[kind].bytes += span->bytes;
			out->failed[kind] += span->status < 0;
		}
		qsort(values, count, sizeof(*values), values_ascend);
		twi_timeline_quantiles(values, count, &out->kinds[kind]);
	}
	free(values);
	return TOW_OK;
}

/* Adds a fallback copy or a late registration. */
static void add_reason(struct twi_timeline *out, size_t r, const struct twi_span *span)
{
	struct twi_timeline_bin *bin =
		&out->bins[twi_timeline_bin_of(out, twi_view_at(&out->view, r, span->end_ns))];
	struct twi_timeline_reason *reason;
	uint64_t ns = twi_span_ns(span);

	if (span->detail >= TWI_R_COUNT)
		return;
	reason = &out->reasons[span->detail];
	reason->count++;
	reason->bytes += span->bytes;
	reason->ns += ns;
	reason->max_ns = twi_max(reason->max_ns, ns);
	if (span->kind == TWI_SPAN_COPY) {
		bin->copies++;
		bin->copy_bytes += span->bytes;
		bin->copy_ns += ns;
		out->ranks[r].copies++;
		out->ranks[r].copy_bytes += span->bytes;
		out->ranks[r].copy_ns += ns;
	} else {
		bin->late++;
		bin->late_bytes += span->bytes;
		bin->late_ns += ns;
		out->ranks[r].late++;
		out->ranks[r].late_ns += ns;
	}
}

static void make_reasons(const struct twi_trace *trace, struct twi_timeline *out)
{
	struct twi_walk walk = { 0 };
	const struct twi_span *span;

	while ((span = twi_view_next(trace, &walk)) != NULL) {
		if (span->kind == TWI_SPAN_COPY || span->kind == TWI_SPAN_REGISTER)
			add_reason(out, walk.rank, span);
	}
	for (size_t r = 0; r < trace->rank_count; r++) {
		const struct twi_trace_rank *rank = &trace->ranks[r];

		out->ranks[r].sampled_out = rank->sampled_out;
		for (size_t k = 0; k < rank->thread_count; k++) {
			out->ranks[r].spans += rank->threads[k].span_count;
			out->ranks[r].lost += rank->threads[k].lost;
		}
	}
}

int twi_timeline_make(const struct twi_trace *trace, uint64_t limit_bps, struct twi_timeline *out)
{
	int status;

	*out = (struct twi_timeline){ 0 };
	status = twi_view_init(trace, &out->view);
	if (status < 0)
		return status;
	out->bin_ns = ((uint64_t)out->view.end_ns + TWI_TIMELINE_BINS - 1) / TWI_TIMELINE_BINS;
	out->rank_count = trace->rank_count;
	out->ranks = calloc(trace->rank_count + 1, sizeof(*out->ranks));
	if (out->ranks == NULL)
		status = twi_error(TOW_ENOMEM, "no memory to analyse a trace of %zu ranks",
				   trace->rank_count);
	if (status == TOW_OK)
		status = make_kinds(trace, out);
	if (status == TOW_OK) {
		make_reasons(trace, out);
		status = twi_timeline_transfers(trace, out);
	}
	if (status == TOW_OK)
		status = twi_timeline_links(trace, limit_bps, out);
	if (status == TOW_OK)
		status = twi_timeline_steps(trace, out);
	if (status == TOW_OK)
		status = twi_timeline_entries(trace, out);
	if (status < 0)
		twi_timeline_fini(out);
	return status;
}

void twi_timeline_fini(struct twi_timeline *timeline)
{
	for (unsigned i = 0; i < TWI_PATHS; i++)
		free(timeline->links[i].bins);
	free(timeline->pairs);
	free(timeline->regions);
	free(timeline->steps);
	free(timeline->ranks);
	twi_view_fini(&timeline->view);
	*timeline = (struct twi_timeline){ 0 };
}
