/*
 * timeline_json.c - writes a trace's timeline as the document /v1/timeline. Values over time are
 * arrays with one number for each bin.
 */
#include <stdio.h>

#include <internal/base.h>
#include <towline/status.h>

#include "diag/base/emit.h"
#include "diag/record/counter.h"
#include "diag/trace/findings.h"
#include "diag/trace/slack.h"
#include "diag/trace/timeline.h"
#include "diag/trace/unfinished.h"

/* Writes the array `key`: `value` for every bin. `value` refers to the current one as `bin`. */
#define EMIT_BINS(e, key, value)                                                                   \
	do {                                                                                       \
		twi_emit_array_begin(e, key);                                                      \
		for (size_t i_ = 0; i_ < TWI_TIMELINE_BINS; i_++) {                                \
			const struct twi_timeline_bin *bin = &t->bins[i_];                         \
			twi_emit_u64(e, NULL, (uint64_t)(value));                                  \
		}                                                                                  \
		twi_emit_array_end(e);                                                             \
	} while (0)

/* A mean as a whole number: of bytes that a trace claims it may be too large for one. */
static uint64_t whole_of(double mean)
{
	if (!(mean > 0))
		return 0;
	return mean < 0x1p64 ? (uint64_t)mean : UINT64_MAX;
}

static void emit_quantiles(struct twi_emit *e, const struct twi_timeline_quantiles *q)
{
	twi_emit_u64(e, "count", q->count);
	twi_emit_u64(e, "bytes", q->bytes);
	twi_emit_u64(e, "sum_ns", q->sum_ns);
	twi_emit_u64(e, "p50_ns", q->p50_ns);
	twi_emit_u64(e, "p99_ns", q->p99_ns);
	twi_emit_u64(e, "max_ns", q->max_ns);
}

static void emit_transfers(struct twi_emit *e, const struct twi_timeline *t)
{
	twi_emit_object_begin(e, "transfers");
	twi_emit_u64(e, "count", t->transfer_count);
	twi_emit_u64(e, "bytes", t->transfer_bytes);
	twi_emit_array_begin(e, "classes");
	for (unsigned c = 0; c < TWI_SIZE_CLASSES; c++) {
		if (t->classes[c].count == 0)
			continue;
		twi_emit_object_begin(e, NULL);
		twi_emit_u64(e, "bytes_min", twi_size_class_min(c));
		if (twi_size_class_max(c) == UINT64_MAX)
			twi_emit_str(e, "bytes_max", NULL);
		else
			twi_emit_u64(e, "bytes_max", twi_size_class_max(c));
		emit_quantiles(e, &t->classes[c]);
		twi_emit_object_begin(e, "bins");
		EMIT_BINS(e, "count", bin->latency[c].count);
		EMIT_BINS(e, "p50_ns", bin->latency[c].p50_ns);
		EMIT_BINS(e, "p99_ns", bin->latency[c].p99_ns);
		EMIT_BINS(e, "max_ns", bin->latency[c].max_ns);
		twi_emit_object_end(e);
		twi_emit_object_end(e);
	}
	twi_emit_array_end(e);
	twi_emit_array_begin(e, "sizes");
	for (unsigned i = 0; i < TWI_TIMELINE_SIZES; i++) {
		if (t->sizes[i] == 0)
			continue;
		twi_emit_object_begin(e, NULL);
		twi_emit_u64(e, "bytes_max", 1ull << i);
		twi_emit_u64(e, "count", t->sizes[i]);
		twi_emit_object_end(e);
	}
	twi_emit_array_end(e);
	twi_emit_object_end(e);
	twi_emit_object_begin(e, "in_flight");
	twi_emit_array_begin(e, "mean");
	for (size_t i = 0; i < TWI_TIMELINE_BINS; i++)
		twi_emit_f64(e, NULL, (double)whole_of(t->bins[i].flight_mean * 1000) / 1000);
	twi_emit_array_end(e);
	EMIT_BINS(e, "max", bin->flight_max);
	EMIT_BINS(e, "bytes_mean", whole_of(bin->flight_bytes_mean));
	EMIT_BINS(e, "bytes_max", bin->flight_bytes_max);
	twi_emit_object_end(e);
}

static void emit_flows(struct twi_emit *e, const char *key, const struct twi_timeline_flow *bins,
		       bool sent)
{
	twi_emit_array_begin(e, key);
	for (size_t i = 0; i < TWI_TIMELINE_BINS; i++)
		twi_emit_u64(e, NULL, sent ? bins[i].tx_bytes : bins[i].rx_bytes);
	twi_emit_array_end(e);
}

static void emit_link(struct twi_emit *e, const struct twi_timeline *t,
		      const struct twi_trace *trace, unsigned path)
{
	const struct twi_timeline_link *link = &t->links[path];
	size_t shown = twi_min(t->rank_count, (size_t)TWI_TIMELINE_RANKS);

	twi_emit_object_begin(e, NULL);
	twi_emit_str(e, "path", twi_timeline_path_name(path));
	twi_emit_u64(e, "limit_bits_per_second", link->limit_bps);
	twi_emit_bool(e, "limit_given", link->limit_given);
	twi_emit_u64(e, "sent_bytes", link->total.tx_bytes);
	twi_emit_u64(e, "received_bytes", link->total.rx_bytes);
	twi_emit_array_begin(e, "ranks");
	for (size_t r = 0; r < shown; r++) {
		twi_emit_object_begin(e, NULL);
		twi_emit_i64(e, "rank", trace->ranks[r].rank);
		emit_flows(e, "sent_bytes", &link->bins[r * TWI_TIMELINE_BINS], true);
		emit_flows(e, "received_bytes", &link->bins[r * TWI_TIMELINE_BINS], false);
		twi_emit_object_end(e);
	}
	twi_emit_array_end(e);
	twi_emit_u64(e, "ranks_left_out", t->rank_count - shown);
	twi_emit_object_end(e);
}

static void emit_end(struct twi_emit *e, const char *key, int64_t rank)
{
	if (rank >= 0)
		twi_emit_i64(e, key, rank);
	else
		twi_emit_str(e, key, NULL);
}

static void emit_pairs(struct twi_emit *e, const struct twi_timeline *t)
{
	size_t shown = twi_min(t->pair_count, (size_t)TWI_TIMELINE_PAIRS);

	twi_emit_array_begin(e, "pairs");
	for (size_t i = 0; i < shown; i++) {
		const struct twi_timeline_pair *pair = &t->pairs[i];
		char name[128];

		twi_findings_pair(pair, name, sizeof(name));
		twi_emit_object_begin(e, NULL);
		emit_end(e, "from", pair->from);
		emit_end(e, "to", pair->to);
		twi_emit_str(e, "text", name);
		twi_emit_bool(e, "slow", pair->slow);
		emit_quantiles(e, &pair->latency);
		twi_emit_bool(e, "received", pair->received);
		twi_emit_u64(e, "waited_ns", pair->waited_ns);
		twi_emit_u64(e, "typical_ns", pair->typical_ns);
		twi_emit_u64(e, "usual_ns", pair->usual_ns);
		twi_emit_u64(e, "best_bits_per_second", pair->best_bps);
		twi_emit_object_end(e);
	}
	twi_emit_array_end(e);
	twi_emit_u64(e, "pairs_left_out", t->pair_count - shown);
}

static void emit_regions(struct twi_emit *e, const struct twi_timeline *t,
			 const struct twi_trace *trace)
{
	size_t shown = twi_min(t->region_count, (size_t)TWI_TIMELINE_REGIONS);

	twi_emit_array_begin(e, "bandwidth_bound");
	for (size_t i = 0; i < shown; i++) {
		const struct twi_timeline_region *region = &t->regions[i];

		twi_emit_object_begin(e, NULL);
		twi_emit_i64(e, "rank", trace->ranks[region->rank].rank);
		twi_emit_str(e, "path", twi_timeline_path_name(region->path));
		twi_emit_i64(e, "start_ns", region->start_ns);
		twi_emit_i64(e, "end_ns", region->end_ns);
		twi_emit_u64(e, "bytes", region->bytes);
		twi_emit_u64(e, "waited_ns", region->waited_ns);
		twi_emit_object_end(e);
	}
	twi_emit_array_end(e);
	twi_emit_u64(e, "bandwidth_bound_left_out", t->region_count - shown);
}

static void emit_split(struct twi_emit *e, const struct twi_timeline_split *split)
{
	twi_emit_u64(e, "step_ns", split->step_ns);
	twi_emit_u64(e, "compute_ns", split->compute_ns);
	twi_emit_u64(e, "hidden_ns", split->hidden_ns);
	twi_emit_u64(e, "exposed_ns", split->exposed_ns);
}

static void emit_steps(struct twi_emit *e, const struct twi_timeline *t,
		       const struct twi_trace *trace)
{
	size_t shown = twi_min(t->step_count, (size_t)TWI_TIMELINE_STEPS);

	twi_emit_u64(e, "steps_left_out", t->step_count - shown);
	twi_emit_array_begin(e, "steps");
	for (size_t i = t->step_count - shown; i < t->step_count; i++) {
		const struct twi_timeline_step *step = &t->steps[i];

		twi_emit_object_begin(e, NULL);
		twi_emit_u64(e, "step", step->number);
		twi_emit_u64(e, "ranks", step->ranks);
		twi_emit_i64(e, "start_ns", step->start_ns);
		emit_split(e, &step->mean);
		twi_emit_u64(e, "max_ns", step->max_ns);
		twi_emit_i64(e, "slowest_rank", trace->ranks[step->slowest].rank);
		twi_emit_u64(e, "late_ns", step->late_ns);
		twi_emit_object_end(e);
	}
	twi_emit_array_end(e);
}

static void emit_rank(struct twi_emit *e, const struct twi_timeline *t,
		      const struct twi_trace *trace, size_t r)
{
	const struct twi_timeline_rank *rank = &t->ranks[r];
	const struct twi_trace_rank *from = &trace->ranks[r];

	twi_emit_object_begin(e, NULL);
	twi_emit_i64(e, "rank", from->rank);
	twi_emit_str(e, "host", from->host);
	if (from->clock_error_ns == UINT64_MAX)
		twi_emit_str(e, "clock_error_ns", NULL);
	else
		twi_emit_u64(e, "clock_error_ns", from->clock_error_ns);
	twi_emit_u64(e, "steps", rank->steps);
	emit_split(e, &rank->sum);
	twi_emit_u64(e, "slowest_steps", rank->slowest_steps);
	twi_emit_u64(e, "slowest_ns", rank->slowest_ns);
	twi_emit_u64(e, "last_count", rank->last_count);
	twi_emit_u64(e, "last_ns", rank->last_ns);
	twi_emit_u64(e, "last_max_ns", rank->last_max_ns);
	twi_emit_u64(e, "waited_for_last_ns", rank->others_ns);
	twi_emit_u64(e, "copies", rank->copies);
	twi_emit_u64(e, "copy_bytes", rank->copy_bytes);
	twi_emit_u64(e, "copy_ns", rank->copy_ns);
	twi_emit_u64(e, "late_registrations", rank->late);
	twi_emit_u64(e, "late_ns", rank->late_ns);
	twi_emit_u64(e, "sent_bytes", rank->flow.tx_bytes);
	twi_emit_u64(e, "received_bytes", rank->flow.rx_bytes);
	twi_emit_u64(e, "spans", rank->spans);
	twi_emit_u64(e, "spans_lost", rank->lost);
	twi_emit_u64(e, "spans_sampled_out", rank->sampled_out);
	twi_emit_object_end(e);
}

static void emit_ranks(struct twi_emit *e, const struct twi_timeline *t,
		       const struct twi_trace *trace)
{
	size_t shown = twi_min(t->rank_count, (size_t)TWI_TIMELINE_RANKS);

	twi_emit_array_begin(e, "ranks");
	for (size_t r = 0; r < shown; r++)
		emit_rank(e, t, trace, r);
	twi_emit_array_end(e);
	twi_emit_u64(e, "ranks_left_out", t->rank_count - shown);
	twi_emit_object_begin(e, "came_last");
	twi_emit_u64(e, "judged", t->entries.judged);
	twi_emit_u64(e, "told", t->entries.told);
	twi_emit_u64(e, "ranks_missing", t->entries.partial);
	twi_emit_u64(e, "clocks_unknown", t->entries.unknown);
	twi_emit_object_end(e);
}

static void emit_reasons(struct twi_emit *e, const struct twi_timeline *t)
{
	twi_emit_object_begin(e, "copies");
	EMIT_BINS(e, "count", bin->copies);
	EMIT_BINS(e, "bytes", bin->copy_bytes);
	EMIT_BINS(e, "ns", bin->copy_ns);
	twi_emit_object_end(e);
	twi_emit_object_begin(e, "late_registrations");
	EMIT_BINS(e, "count", bin->late);
	EMIT_BINS(e, "bytes", bin->late_bytes);
	EMIT_BINS(e, "ns", bin->late_ns);
	twi_emit_object_end(e);
	twi_emit_array_begin(e, "reasons");
	for (unsigned i = 0; i < TWI_R_COUNT; i++) {
		const struct twi_timeline_reason *reason = &t->reasons[i];
		const struct twi_reason_info *info = twi_reason_describe(i);

		if (reason->count == 0)
			continue;
		twi_emit_object_begin(e, NULL);
		twi_emit_str(e, "name", info->name);
		twi_emit_str(e, "kind", info->kind);
		twi_emit_u64(e, "count", reason->count);
		twi_emit_u64(e, "bytes", reason->bytes);
		twi_emit_u64(e, "ns", reason->ns);
		twi_emit_u64(e, "max_ns", reason->max_ns);
		twi_emit_str(e, "help", info->help);
		twi_emit_str(e, "cure", info->cure);
		twi_emit_object_end(e);
	}
	twi_emit_array_end(e);
}

static void emit_kinds(struct twi_emit *e, const struct twi_timeline *t)
{
	twi_emit_array_begin(e, "spans");
	for (unsigned i = 0; i < TWI_SPAN_KINDS; i++) {
		if (t->kinds[i].count == 0)
			continue;
		twi_emit_object_begin(e, NULL);
		twi_emit_str(e, "kind", twi_span_kind_name(i));
		emit_quantiles(e, &t->kinds[i]);
		twi_emit_u64(e, "failed", t->failed[i]);
		twi_emit_object_end(e);
	}
	twi_emit_array_end(e);
}

void twi_timeline_emit(const struct twi_timeline *t, const struct twi_trace *trace,
		       struct twi_emit *e)
{
	twi_emit_i64(e, "unix_ns", t->view.unix_ns);
	twi_emit_i64(e, "end_ns", t->view.end_ns);
	twi_emit_u64(e, "bin_ns", t->bin_ns);
	twi_emit_u64(e, "bins", TWI_TIMELINE_BINS);
	emit_transfers(e, t);
	twi_emit_array_begin(e, "links");
	for (unsigned path = 0; path < TWI_PATHS; path++) {
		if (t->links[path].used)
			emit_link(e, t, trace, path);
	}
	twi_emit_array_end(e);
	emit_pairs(e, t);
	emit_regions(e, t, trace);
	emit_steps(e, t, trace);
	emit_ranks(e, t, trace);
	emit_reasons(e, t);
	emit_kinds(e, t);
	twi_unfinished_emit(trace, e);
}

void twi_timeline_json(const struct twi_trace *trace, struct twi_emit *e)
{
	struct twi_timeline timeline;
	struct twi_findings findings;
	struct twi_slack slack;

	if (twi_slack_make(trace, &slack) < 0) {
		e->status = TOW_ENOMEM;
		return;
	}
	if (twi_timeline_make(trace, 0, &timeline) < 0) {
		e->status = TOW_ENOMEM;
	} else {
		twi_findings_make(trace, &timeline, &slack, &findings);
		twi_findings_emit(&findings, e);
		twi_timeline_emit(&timeline, trace, e);
		twi_timeline_fini(&timeline);
	}
	twi_slack_fini(&slack);
}
