/*
 * perf_report.c - prints results as a table, as the baselines' plain lines, or as one JSON
 * document.
 *
 * Each result is printed as soon as it is there, so that a stopped run still shows its first part.
 * The JSON document is complete only at its end, which "verified" says.
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

/* Prints whole numbers of messages, and two digits of a second, as iperf3 does. */
static void table_interval(const struct perf_intervals *of, const struct perf_interval *row)
{
	const bool timed = row->mean_us > 0;

	if (of->count == 0)
		printf("\n%-10s %10s %19s %12s %12s %12s %12s\n", "op", "bytes", "interval s",
		       "MB/s", "msg/s", "mean us", "max us");
	printf("%-10s %10" PRIu64 " %8.2f - %8.2f %12.1f %12.0f", perf_op_names[of->op], of->bytes,
	       row->from_s, row->to_s, row->mbps, row->msgps);
	if (timed)
		printf(" %12.2f %12.2f\n", row->mean_us, row->max_us);
	else
		printf(" %12s %12s\n", "-", "-");
}

static void plain_interval(const struct perf_options *options, const struct perf_intervals *of,
			   const struct perf_interval *row)
{
	printf("#interval %s %s %" PRIu64 " %.3f %.3f MBps %.6g msgps %.6g", options->path,
	       perf_op_names[of->op], of->bytes, row->from_s, row->to_s, row->mbps, row->msgps);
	if (row->mean_us > 0)
		printf(" mean_us %.6g max_us %.6g", row->mean_us, row->max_us);
	putchar('\n');
}

void perf_report_interval(const struct perf_options *options, const struct perf_intervals *of,
			  const struct perf_interval *row)
{
	if (options->format == PERF_TABLE)
		table_interval(of, row);
	else if (options->format == PERF_PLAIN)
		plain_interval(options, of, row);
	fflush(stdout);
}

static void json_intervals(const struct perf_intervals *all)
{
	for (size_t i = 0; i < all->count; i++) {
		const struct perf_interval *row = &all->rows[i];

		printf("%s\n    {\"from_s\": %.6f, \"to_s\": %.6f, \"messages\": %" PRIu64
		       ", \"MBps\": %.6g, \"msgps\": %.6g",
		       i == 0 ? ", \"intervals\": [" : ",", row->from_s, row->to_s, row->messages,
		       row->mbps, row->msgps);
		if (row->mean_us > 0)
			printf(", \"mean_us\": %.6g, \"max_us\": %.6g", row->mean_us, row->max_us);
		putchar('}');
	}
	if (all->count > 0)
		putchar(']');
}

static void json_result(const struct perf_result *r)
{
	printf("%s\n  {\"op\": \"%s\", \"bytes\": %" PRIu64, printed != 0 ? "," : "",
	       perf_op_names[r->op], r->bytes);
	if (perf_is_latency(r->op))
		printf(", \"p50_us\": %.6g, \"p99_us\": %.6g, \"avg_us\": %.6g", r->p50_us,
		       r->p99_us, r->avg_us);
	else if (r->op == PERF_RATE)
		printf(", \"Mmsgps\": %.6g", r->mmsgps);
	else
		printf(", \"MBps\": %.6g, \"cpu_s_per_GiB\": %.6g", r->mbps, r->cpu_s_per_gib);
	json_intervals(r->intervals);
	putchar('}');
}

static void table_result(const struct perf_result *r)
{
	static enum perf_op last = PERF_OP_COUNT;

	if (r->intervals->count > 0)
		last = PERF_OP_COUNT; /* the lines of intervals stand between */
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

/* Prints a name as a JSON string. Characters that would end or escape the string become '?'. */
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

/* Prints the library's own documents, on stderr when a program may read stdout. */
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
