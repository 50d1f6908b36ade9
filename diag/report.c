/*
 * report.c - what diag itself knows, as JSON and as OpenMetrics.
 */
#include "diag/report.h"

#include <stdio.h>
#include <unistd.h>

#include <internal/base.h>
#include <towline/version.h>

#include "diag/analysis.h"
#include "diag/diag.h"
#include "diag/emit.h"
#include "diag/site_report.h"

#define NS_PER_S 1e9

static void render_counters(struct twi_diag *diag, struct twi_emit *e)
{
	twi_emit_object_begin(e, "counters");
	for (unsigned i = 0; i < TWI_C_COUNT; i++)
		twi_emit_u64(e, twi_counter_describe(i)->name, twi_counter_sum(diag, i));
	twi_emit_object_end(e);
	twi_emit_array_begin(e, "reasons");
	for (unsigned i = 0; i < TWI_R_COUNT; i++) {
		const struct twi_reason_info *info = twi_reason_describe(i);
		struct twi_reason_sum sum;

		twi_reason_sum(diag, i, &sum);
		twi_emit_object_begin(e, NULL);
		twi_emit_str(e, "name", info->name);
		twi_emit_str(e, "kind", info->kind);
		twi_emit_u64(e, "count", sum.count);
		twi_emit_u64(e, "bytes", sum.bytes);
		twi_emit_u64(e, "ns", sum.ns);
		twi_emit_str(e, "help", info->help);
		twi_emit_str(e, "cure", info->cure);
		twi_emit_object_end(e);
	}
	twi_emit_array_end(e);
}

struct log_walk {
	struct twi_emit *e;
	uint64_t start_ns;
};

static void emit_log_line(void *arg, uint64_t ns, int level, const char *text)
{
	static const char *const levels[] = { "none", "error", "warning", "info" };
	const struct log_walk *walk = arg;

	twi_emit_object_begin(walk->e, NULL);
	twi_emit_u64(walk->e, "at_ns", ns - twi_min(ns, walk->start_ns));
	twi_emit_str(walk->e, "level",
		     level >= 0 && level < (int)twi_array_count(levels) ? levels[level] : "info");
	twi_emit_str(walk->e, "text", text);
	twi_emit_object_end(walk->e);
}

static uint64_t uptime_ns(const struct twi_diag *diag)
{
	uint64_t now = twi_now_ns(), start = twi_diag_start_ns(diag);

	return now - twi_min(now, start);
}

static void render_info(struct twi_diag *diag, struct twi_emit *e)
{
	struct log_walk walk = { e, twi_diag_start_ns(diag) };

	twi_emit_str(e, "version", TOW_VERSION);
	twi_emit_i64(e, "pid", getpid());
	twi_emit_u64(e, "uptime_ns", uptime_ns(diag));
	twi_emit_array_begin(e, "log");
	twi_log_read(diag, emit_log_line, &walk);
	twi_emit_array_end(e);
}

static const struct twi_report reports[] = {
	{ "/v1/info", "Who this is: version, process, knobs, kernel, log", render_info },
	{ "/v1/counters", "All counters, and the reasons of copies and late registrations",
	  render_counters },
	{ "/v1/latency", "RPC latencies by lane, size, peer and part, and the worst RPCs",
	  twi_latency_report },
	{ "/v1/copies", "Copies that need not be: why, from where, what they cost, the cure",
	  twi_site_report_copies },
	{ "/v1/registrations", "Registrations after the seal: why, from where, cost, the cure",
	  twi_site_report_registrations },
	{ "/v1/timeline", "The last seconds over time, from this rank's spans, and what was found",
	  twi_analysis_timeline },
	{ "/v1/slack", "Slack, stall and required bandwidth of the last seconds' collectives",
	  twi_analysis_slack },
};

size_t twi_report_count(void)
{
	return twi_array_count(reports);
}

const struct twi_report *twi_report_at(size_t index)
{
	return &reports[index];
}

static void metrics_counters(struct twi_diag *diag, struct twi_emit *e)
{
	static const struct {
		const char *family, *sample;
	} names[TWI_C_COUNT] = {
#define TWI_COUNTER(name, unit, help) { "towline_" #name, "towline_" #name "_total" },
#include "diag/counter.def"
#undef TWI_COUNTER
	};

	for (unsigned i = 0; i < TWI_C_COUNT; i++) {
		const struct twi_counter_info *info = twi_counter_describe(i);

		twi_emit_metric_head(e, names[i].family, "counter", info->unit, info->help);
		twi_emit_sample_u64(e, names[i].sample, NULL, twi_counter_sum(diag, i));
	}
}

static void reason_labels(char *out, size_t bytes, unsigned reason)
{
	const struct twi_reason_info *info = twi_reason_describe(reason);

	snprintf(out, bytes, "reason=\"%s\",kind=\"%s\"", info->name, info->kind);
}

static void metrics_reasons(struct twi_diag *diag, struct twi_emit *e)
{
	struct twi_reason_sum sums[TWI_R_COUNT];
	char labels[160];

	for (unsigned i = 0; i < TWI_R_COUNT; i++)
		twi_reason_sum(diag, i, &sums[i]);
	twi_emit_metric_head(e, "towline_reasons", "counter", NULL,
			     "fallback copies and late registrations, by reason");
	for (unsigned i = 0; i < TWI_R_COUNT; i++) {
		reason_labels(labels, sizeof(labels), i);
		twi_emit_sample_u64(e, "towline_reasons_total", labels, sums[i].count);
	}
	twi_emit_metric_head(e, "towline_reason_bytes", "counter", "bytes",
			     "bytes copied or registered late, by reason");
	for (unsigned i = 0; i < TWI_R_COUNT; i++) {
		reason_labels(labels, sizeof(labels), i);
		twi_emit_sample_u64(e, "towline_reason_bytes_total", labels, sums[i].bytes);
	}
	twi_emit_metric_head(e, "towline_reason_seconds", "counter", "seconds",
			     "time spent copying or registering late, by reason");
	for (unsigned i = 0; i < TWI_R_COUNT; i++) {
		reason_labels(labels, sizeof(labels), i);
		twi_emit_sample_f64(e, "towline_reason_seconds_total", labels,
				    (double)sums[i].ns / NS_PER_S);
	}
}

void twi_report_metrics(struct twi_diag *diag, struct twi_emit *e)
{
	twi_emit_metric_head(e, "towline_build", "info", NULL, "the version of Towline");
	twi_emit_sample_u64(e, "towline_build_info", "version=\"" TOW_VERSION "\"", 1);
	twi_emit_metric_head(e, "towline_uptime_seconds", "gauge", "seconds",
			     "time since the runtime was opened");
	twi_emit_sample_f64(e, "towline_uptime_seconds", NULL, (double)uptime_ns(diag) / NS_PER_S);
	metrics_counters(diag, e);
	metrics_reasons(diag, e);
	twi_latency_metrics(diag, e);
}
