/*
 * perf_report.c - results as a table, as the baselines' plain lines, or as one JSON document.
 *
 * Each result is printed when it is there, so that a run that is stopped still shows its first
 * part; the JSON document is complete only at its end, and says so in "verified".
 */
#include <inttypes.h>
#include <stdio.h>

#include "bench/perf/perf.h"

static unsigned int printed;

static void plain_line(const struct perf_options *options, const struct perf_result *r,
		       const char *metric, double value)
{
	printf("%s %s %s %" PRIu64 " %s %.6g\n", options->peer, options->path, perf_op_names[r->op],
	       r->bytes, metric, value);
}

static void plain_result(const struct perf_options *options, const struct perf_result *r)
{
	if (perf_is_latency(r->op)) {
		plain_line(options, r, "p50_us", r->p50_us);
		plain_line(options, r, "p99_us", r->p99_us);
		plain_line(options, r, "avg_us", r->avg_us);
	} else if (r->op == PERF_RATE) {
		plain_line(options, r, "Mmsgps", r->mmsgps);
	} else {
		plain_line(options, r, "MBps", r->mbps);
		plain_line(options, r, "cpu_s_per_GiB", r->cpu_s_per_gib);
	}
}

static void json_result(const struct perf_result *r)
{
	printf("%s\n  {\"op\": \"%s\", \"bytes\": %" PRIu64, printed != 0 ? "," : "",
	       perf_op_names[r->op], r->bytes);
	if (perf_is_latency(r->op))
		printf(", \"p50_us\": %.6g, \"p99_us\": %.6g, \"avg_us\": %.6g}", r->p50_us,
		       r->p99_us, r->avg_us);
	else if (r->op == PERF_RATE)
		printf(", \"Mmsgps\": %.6g}", r->mmsgps);
	else
		printf(", \"MBps\": %.6g, \"cpu_s_per_GiB\": %.6g}", r->mbps, r->cpu_s_per_gib);
}

static void table_result(const struct perf_result *r)
{
	static enum perf_op last = PERF_OP_COUNT;

	if (r->op != last && perf_is_latency(r->op))
		printf("\n%-10s %10s %12s %12s %12s\n", "op", "bytes", "p50 us", "p99 us",
		       "mean us");
	else if (r->op != last && r->op == PERF_RATE)
		printf("\n%-10s %10s %12s\n", "op", "bytes", "Mmsg/s");
	else if (r->op != last)
		printf("\n%-10s %10s %12s %12s\n", "op", "bytes", "MB/s", "CPU s/GiB");
	last = r->op;
	printf("%-10s %10" PRIu64, perf_op_names[r->op], r->bytes);
	if (perf_is_latency(r->op))
		printf(" %12.2f %12.2f %12.2f\n", r->p50_us, r->p99_us, r->avg_us);
	else if (r->op == PERF_RATE)
		printf(" %12.3f\n", r->mmsgps);
	else
		printf(" %12.1f %12.3f\n", r->mbps, r->cpu_s_per_gib);
}

/* A name for a JSON string: what would end or escape it becomes '?'. */
static void json_name(const char *key, const char *name)
{
	printf("\"%s\": \"", key);
	for (; *name != '\0'; name++)
		putchar(*name < ' ' || *name == '"' || *name == '\\' ? '?' : *name);
	printf("\", ");
}

void perf_report_begin(const struct perf_options *options)
{
	if (options->format == PERF_JSON) {
		putchar('{');
		json_name("peer", options->peer);
		json_name("path", options->path);
		json_name("version", tow_version());
		printf("\"pinned\": %s,\n \"results\": [", options->pin ? "true" : "false");
	} else if (options->format == PERF_TABLE) {
		printf("%s %s, %s, %s; latency is half a round trip, MB is 10^6 bytes\n",
		       options->peer, tow_version(), options->path,
		       options->pin ? "rank r on CPU r" : "not pinned");
	}
	fflush(stdout);
}

void perf_report_result(const struct perf_options *options, const struct perf_result *result)
{
	if (options->format == PERF_PLAIN)
		plain_result(options, result);
	else if (options->format == PERF_JSON)
		json_result(result);
	else
		table_result(result);
	printed++;
	fflush(stdout);
}

void perf_report_end(const struct perf_options *options, bool complete)
{
	if (options->format == PERF_JSON)
		printf("\n ],\n \"verified\": %s}\n", complete ? "true" : "false");
	else if (options->format == PERF_TABLE && complete)
		printf("\npayload verified in all %u measurements\n", printed);
	fflush(stdout);
}

/* The library's own documents; on stderr where stdout is for a program to read. */
int perf_report_stats(const struct perf_side *side)
{
	static const char *const paths[] = { "/v1/latency", "/v1/counters" };
	FILE *out = side->options->format == PERF_TABLE ? stdout : stderr;

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		char *text = NULL;
		int rc = tow_stats_get(side->runtime, paths[i], &text);

		if (rc < 0)
			return perf_failed(side, paths[i], rc);
		fprintf(out, "\n%s\n%s\n", paths[i], text);
		tow_stats_release(text);
	}
	return 0;
}
