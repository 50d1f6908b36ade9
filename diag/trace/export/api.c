/* api.c - traces for users: include/towline/trace.h. */
#include <stdlib.h>
#include <string.h>

#include <towline/trace.h>

#include "diag/base/error.h"
#include "diag/base/sized.h"
#include "diag/trace/analysis.h"
#include "diag/trace/export/export.h"

static const char *const format_names[] = {
	[TOW_TRACE_XSPACE] = "xspace", [TOW_TRACE_PERFETTO] = "perfetto",
	[TOW_TRACE_CHROME] = "chrome", [TOW_TRACE_JSON] = "json",
	[TOW_TRACE_HTML] = "html",
};

TOW_PUBLIC int tow_trace_format_from_name(const char *name, enum tow_trace_format *format_out)
{
	for (size_t i = 0; name && i < twi_array_count(format_names); i++) {
		if (strcmp(name, format_names[i]) == 0) {
			*format_out = (enum tow_trace_format)i;
			return TOW_OK;
		}
	}
	return twi_error(TOW_EINVAL,
			 "format: \"%s\" is none of xspace, perfetto, chrome, json, html",
			 name ? name : "(null)");
}

const char *twi_trace_mime(enum tow_trace_format format)
{
	switch (format) {
	case TOW_TRACE_CHROME:
	case TOW_TRACE_JSON:
		return "application/json";
	case TOW_TRACE_HTML:
		return "text/html; charset=utf-8";
	default:
		return "application/octet-stream";
	}
}

int twi_trace_encode(const struct twi_trace *trace, enum tow_trace_format format, char **bytes_out,
		     size_t *count_out)
{
	switch (format) {
	case TOW_TRACE_XSPACE:
		return twi_export_xspace(trace, bytes_out, count_out);
	case TOW_TRACE_PERFETTO:
		return twi_export_perfetto(trace, bytes_out, count_out);
	case TOW_TRACE_CHROME:
		return twi_export_chrome(trace, bytes_out, count_out);
	case TOW_TRACE_JSON:
		return twi_analysis_json(trace, bytes_out, count_out);
	case TOW_TRACE_HTML:
		return twi_report_html(trace, bytes_out, count_out);
	}
	return twi_error(TOW_EINVAL, "format: %d is no trace format", (int)format);
}

TOW_PUBLIC int tow_trace_load(const void *bytes, size_t count, struct tow_trace **trace_out)
{
	struct tow_trace *trace;
	int status;

	if (trace_out == NULL || (bytes == NULL && count != 0))
		return twi_error(TOW_EINVAL, "tow_trace_load: NULL argument");
	*trace_out = NULL;
	trace = calloc(1, sizeof(*trace));
	if (trace == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a trace");
	status = twi_import_xspace(bytes, count, &trace->trace);
	if (status < 0) {
		free(trace);
		return status;
	}
	*trace_out = trace;
	return TOW_OK;
}

TOW_PUBLIC int tow_trace_merge(struct tow_trace *into, struct tow_trace *from)
{
	if (into == NULL || from == NULL || into == from)
		return twi_error(TOW_EINVAL, "tow_trace_merge: two traces are needed");
	return twi_trace_merge(&into->trace, &from->trace);
}

TOW_PUBLIC int tow_trace_encode(const struct tow_trace *trace, enum tow_trace_format format,
				void **bytes_out, size_t *count_out)
{
	char *bytes = NULL;
	int status;

	if (trace == NULL || bytes_out == NULL || count_out == NULL)
		return twi_error(TOW_EINVAL, "tow_trace_encode: NULL argument");
	status = twi_trace_encode(&trace->trace, format, &bytes, count_out);
	*bytes_out = bytes;
	return status;
}

TOW_PUBLIC int tow_trace_rank_info(const struct tow_trace *trace, size_t index,
				   struct tow_trace_rank_info *row_out)
{
	const struct twi_trace_rank *rank;
	struct tow_trace_rank_info row = TOW_TRACE_RANK_INFO_INIT;

	if (trace == NULL)
		return twi_error(TOW_EINVAL, "tow_trace_rank_info: trace is NULL");
	if (index >= trace->trace.rank_count)
		return twi_error(TOW_EINVAL, "the trace has %zu ranks, so none of index %zu",
				 trace->trace.rank_count, index);
	rank = &trace->trace.ranks[index];
	row.host = rank->host;
	row.job = rank->job;
	row.rank = rank->rank;
	row.world = rank->world;
	row.seconds_ns = rank->end_ns - rank->begin_ns;
	row.clock_offset_ns = rank->clock_offset_ns;
	row.clock_error_ns = rank->clock_error_ns;
	for (size_t t = 0; t < rank->thread_count; t++) {
		row.spans += rank->threads[t].span_count;
		row.lost += rank->threads[t].lost;
	}
	return TWI_SIZED_OUT(tow_trace_rank_info, "tow_trace_rank_info", &row, row_out);
}

TOW_PUBLIC void tow_trace_release(struct tow_trace *trace)
{
	if (trace)
		twi_trace_fini(&trace->trace);
	free(trace);
}

TOW_PUBLIC void tow_trace_bytes_release(void *bytes)
{
	free(bytes);
}
