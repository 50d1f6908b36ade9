/*
 * report.c - writes diag's own figures as JSON and as OpenMetrics.
 */
#include "diag/serve/report.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <internal/base.h>
#include <towline/version.h>

#include "diag/base/emit.h"
#include "diag/record/diag.h"
#include "diag/record/site_report.h"
#include "diag/record/span.h"
#include "diag/trace/analysis.h"

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
	twi_emit_u64(e, "captures", twi_span_captures(diag));
	twi_emit_array_begin(e, "log");
	twi_log_read(diag, emit_log_line, &walk);
	twi_emit_array_end(e);
}

static const struct twi_report reports[] = {
	{ "/v1/info", "This runtime: version, process, knobs, kernel, log", render_info },
	{ "/v1/counters", "All counters, and the reasons of copies and late registrations",
	  render_counters },
	{ "/v1/latency", "RPC latencies by lane, size, peer and part, and the worst RPCs",
	  twi_latency_report },
	{ "/v1/copies", "Fallback copies: why, from where, what they cost, the cure",
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

/* Does the name end with _unit, so that the format wants a UNIT line? */
static inline bool is_named_for(const char *name, size_t name_bytes, const char *unit,
				size_t unit_bytes)
{
	return name_bytes > unit_bytes && name[name_bytes - unit_bytes - 1] == '_' &&
	       memcmp(name + name_bytes - unit_bytes, unit, unit_bytes) == 0;
}

static inline bool is_of_time(const char *unit)
{
	return unit[0] == 'n' && unit[1] == 's' && unit[2] == '\0';
}

/* Prometheus' base unit of time is the second: wait_ns is towline_wait_seconds_total. */
static void metrics_time(const char *name, const char *help, uint64_t ns, struct twi_emit *e)
{
	char family[96], sample[112];

	snprintf(family, sizeof(family), "towline_%.*s_seconds",
		 (int)(strlen(name) - strlen("_ns")), name);
	snprintf(sample, sizeof(sample), "%s_total", family);
	twi_emit_metric_head(e, family, "counter", "seconds", help);
	twi_emit_sample_seconds(e, sample, NULL, ns);
}

/*
 * Writes what twi_emit_metric_head and twi_emit_sample_u64 would write. But the compiler joins the
 * constant text, which is half of /metrics. (test_emit compares both.)
 */
static void metrics_counters(struct twi_diag *diag, struct twi_emit *e)
{
#define PUT(text) twi_emit_put(e, text, sizeof(text) - 1)
#define TWI_COUNTER(name, unit, lanes, help)                                                       \
	if (is_of_time(#unit)) {                                                                   \
		metrics_time(#name, help, twi_counter_sum(diag, TWI_C_##name), e);                 \
	} else {                                                                                   \
		PUT("# TYPE towline_" #name " counter\n");                                         \
		if (is_named_for(#name, sizeof(#name) - 1, #unit, sizeof(#unit) - 1))              \
			PUT("# UNIT towline_" #name " " #unit "\n");                               \
		PUT("# HELP towline_" #name " " help "\ntowline_" #name "_total ");                \
		twi_emit_number(e, twi_counter_sum(diag, TWI_C_##name));                           \
		PUT("\n");                                                                         \
	}
#include "diag/record/counter.def"
#undef TWI_COUNTER
#undef PUT
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
		twi_emit_sample_seconds(e, "towline_reason_seconds_total", labels, sums[i].ns);
	}
}

void twi_report_metrics(struct twi_diag *diag, struct twi_emit *e)
{
	twi_emit_metric_head(e, "towline_build", "info", NULL, "the version of Towline");
	twi_emit_sample_u64(e, "towline_build_info", "version=\"" TOW_VERSION "\"", 1);
	twi_emit_metric_head(e, "towline_uptime_seconds", "gauge", "seconds",
			     "time since the runtime was opened");
	twi_emit_sample_seconds(e, "towline_uptime_seconds", NULL, uptime_ns(diag));
	metrics_counters(diag, e);
	metrics_reasons(diag, e);
	twi_latency_metrics(diag, e);
}
