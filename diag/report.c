/*
 * report.c - what diag itself knows, as JSON and as OpenMetrics.
 *
 * /v1/latency has the quantiles for people and the buckets for those who want the quantiles of an
 * interval: take the difference of two readings. A quantile is the upper edge of its bucket, and a
 * bucket of /metrics counts only what certainly lies below its edge, so that neither flatters.
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

/* No quantile above the largest reading, which is known exactly. */
static void emit_quantile(struct twi_emit *e, const char *key, const struct twi_latency_sum *sum,
			  double q)
{
	uint64_t ns = twi_hist_quantile(sum->counts, q);

	twi_emit_u64(e, key, twi_min(ns, sum->max_ns));
}

static void emit_latency(struct twi_emit *e, enum twi_lane_id lane, unsigned size_class,
			 const struct twi_latency_sum *sum)
{
	uint64_t bytes_max = twi_size_class_max(size_class);

	twi_emit_object_begin(e, NULL);
	twi_emit_str(e, "lane", twi_lane_name(lane));
	twi_emit_u64(e, "bytes_min", twi_size_class_min(size_class));
	if (bytes_max == UINT64_MAX)
		twi_emit_str(e, "bytes_max", NULL);
	else
		twi_emit_u64(e, "bytes_max", bytes_max);
	twi_latency_emit(e, sum);
	twi_emit_object_end(e);
}

void twi_latency_emit(struct twi_emit *e, const struct twi_latency_sum *sum)
{
	twi_emit_u64(e, "count", sum->count);
	emit_quantile(e, "p50", sum, 0.5);
	emit_quantile(e, "p90", sum, 0.9);
	emit_quantile(e, "p99", sum, 0.99);
	emit_quantile(e, "p999", sum, 0.999);
	twi_emit_u64(e, "max", sum->max_ns);
	twi_emit_f64(e, "mean", sum->count > 0 ? (double)sum->sum_ns / (double)sum->count : 0);
	twi_emit_array_begin(e, "buckets");
	for (unsigned i = 0; i < TWI_HIST_BUCKETS; i++) {
		if (sum->counts[i] == 0)
			continue;
		twi_emit_array_begin(e, NULL);
		twi_emit_u64(e, NULL, twi_hist_upper(i));
		twi_emit_u64(e, NULL, sum->counts[i]);
		twi_emit_array_end(e);
	}
	twi_emit_array_end(e);
}

static void render_latency(struct twi_diag *diag, struct twi_emit *e)
{
	struct twi_latency_sum sum;

	twi_emit_str(e, "unit", "ns");
	twi_emit_str(e, "resolution", TWI_HIST_RESOLUTION);
	twi_emit_array_begin(e, "rpcs");
	for (unsigned lane = 0; lane < TWI_LANE_COUNT; lane++) {
		for (unsigned i = 0; i < TWI_SIZE_CLASSES; i++) {
			if (twi_latency_sum(diag, lane, i, &sum))
				emit_latency(e, lane, i, &sum);
		}
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
	{ "/v1/latency", "RPC latencies by lane and size, from start to now", render_latency },
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
	char family[96], sample[112];

	for (unsigned i = 0; i < TWI_C_COUNT; i++) {
		const struct twi_counter_info *info = twi_counter_describe(i);

		snprintf(family, sizeof(family), "towline_%s", info->name);
		snprintf(sample, sizeof(sample), "%s_total", family);
		twi_emit_metric_head(e, family, "counter", info->unit, info->help);
		twi_emit_sample_u64(e, sample, NULL, twi_counter_sum(diag, i));
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

/* Powers of 4 from 1 us, in seconds as OpenMetrics wants them written. */
static const struct {
	uint64_t ns;
	const char *le;
} edges[] = {
	{ 1000, "1e-06" },
	{ 4000, "4e-06" },
	{ 16000, "1.6e-05" },
	{ 64000, "6.4e-05" },
	{ 256000, "0.000256" },
	{ 1024000, "0.001024" },
	{ 4096000, "0.004096" },
	{ 16384000, "0.016384" },
	{ 65536000, "0.065536" },
	{ 262144000, "0.262144" },
	{ 1048576000, "1.048576" },
	{ 4194304000, "4.194304" },
	{ 16777216000, "16.777216" },
};

void twi_report_histogram(struct twi_emit *e, const char *family, const char *labels,
			  const struct twi_latency_sum *sum)
{
	uint64_t below = 0;
	char name[96], all[400];
	unsigned bucket = 0;

	snprintf(name, sizeof(name), "%s_bucket", family);
	for (unsigned i = 0; i < twi_array_count(edges); i++) {
		while (bucket < TWI_HIST_BUCKETS && twi_hist_upper(bucket) <= edges[i].ns)
			below += sum->counts[bucket++];
		snprintf(all, sizeof(all), "%s,le=\"%s\"", labels, edges[i].le);
		twi_emit_sample_u64(e, name, all, below);
	}
	snprintf(all, sizeof(all), "%s,le=\"+Inf\"", labels);
	twi_emit_sample_u64(e, name, all, sum->count);
	snprintf(name, sizeof(name), "%s_count", family);
	twi_emit_sample_u64(e, name, labels, sum->count);
	snprintf(name, sizeof(name), "%s_sum", family);
	twi_emit_sample_f64(e, name, labels, (double)sum->sum_ns / NS_PER_S);
}

static void metrics_histogram(struct twi_emit *e, const char *lane, unsigned size_class,
			      const struct twi_latency_sum *sum)
{
	uint64_t bytes_max = twi_size_class_max(size_class);
	char size[32], labels[160];

	if (bytes_max == UINT64_MAX)
		snprintf(size, sizeof(size), "+Inf");
	else
		snprintf(size, sizeof(size), "%llu", (unsigned long long)bytes_max);
	snprintf(labels, sizeof(labels), "lane=\"%s\",size=\"%s\"", lane, size);
	twi_report_histogram(e, "towline_rpc_latency_seconds", labels, sum);
}

void twi_report_metrics(struct twi_diag *diag, struct twi_emit *e)
{
	struct twi_latency_sum sum;

	twi_emit_metric_head(e, "towline_build", "info", NULL, "the version of Towline");
	twi_emit_sample_u64(e, "towline_build_info", "version=\"" TOW_VERSION "\"", 1);
	twi_emit_metric_head(e, "towline_uptime_seconds", "gauge", "seconds",
			     "time since the runtime was opened");
	twi_emit_sample_f64(e, "towline_uptime_seconds", NULL, (double)uptime_ns(diag) / NS_PER_S);
	metrics_counters(diag, e);
	metrics_reasons(diag, e);
	twi_emit_metric_head(e, "towline_rpc_latency_seconds", "histogram", "seconds",
			     "time from start to end of an RPC, by lane and largest size in bytes");
	for (unsigned lane = 0; lane < TWI_LANE_COUNT; lane++) {
		for (unsigned i = 0; i < TWI_SIZE_CLASSES; i++) {
			if (twi_latency_sum(diag, lane, i, &sum))
				metrics_histogram(e, twi_lane_name(lane), i, &sum);
		}
	}
}
