/*
 * document.c - implements trace documents with the functions of formats.h.
 */
#include "tools/trace/document.h"

#include <stdlib.h>
#include <string.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "diag/trace/analysis.h"
#include "diag/trace/export/export.h"
#include "tools/trace/document_trace.h"
#include "tools/trace/formats.h"

struct trace_document {
	struct twi_trace trace;
};

typedef int (*write_fn)(const struct twi_trace *trace, char **bytes_out, size_t *count_out);

static const struct format {
	const char *name;
	write_fn write;
} formats[] = {
	[TRACE_XSPACE] = { "xspace", twi_export_xspace },
	[TRACE_PERFETTO] = { "perfetto", twi_export_perfetto },
	[TRACE_CHROME] = { "chrome", twi_export_chrome },
	[TRACE_JSON] = { "json", twi_analysis_json },
	[TRACE_HTML] = { "html", twi_report_html },
};

int trace_format_from_name(const char *name, enum trace_format *out)
{
	for (size_t i = 0; i < twi_array_count(formats); i++) {
		if (strcmp(name, formats[i].name) == 0) {
			*out = (enum trace_format)i;
			return TOW_OK;
		}
	}
	return twi_error(TOW_EINVAL,
			 "format: \"%s\" is none of xspace, perfetto, chrome, json, html", name);
}

int trace_document_load(const void *bytes, size_t count, struct trace_document **out)
{
	struct trace_document *document = calloc(1, sizeof(*document));
	int status;

	*out = NULL;
	if (document == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a trace");
	status = twi_import_xspace(bytes, count, &document->trace);
	if (status < 0) {
		free(document);
		return status;
	}
	*out = document;
	return TOW_OK;
}

int trace_document_merge(struct trace_document *into, struct trace_document *from)
{
	if (into == from)
		return twi_error(TOW_EINVAL, "a trace cannot be merged into itself");
	return twi_trace_merge(&into->trace, &from->trace);
}

int trace_document_write(const struct trace_document *document, enum trace_format format,
			 char **bytes_out, size_t *count_out)
{
	if ((size_t)format >= twi_array_count(formats))
		return twi_error(TOW_EINVAL, "format: %d is no trace format", (int)format);
	return formats[format].write(&document->trace, bytes_out, count_out);
}

int trace_document_rank(const struct trace_document *document, size_t index,
			struct trace_rank_info *out)
{
	const struct twi_trace_rank *rank;

	if (index >= document->trace.rank_count)
		return twi_error(TOW_EINVAL, "the trace has %zu ranks, so none of index %zu",
				 document->trace.rank_count, index);
	rank = &document->trace.ranks[index];
	*out = (struct trace_rank_info){ .host = rank->host,
					 .job = rank->job,
					 .rank = rank->rank,
					 .world = rank->world,
					 .unfinished = rank->unfinished_count,
					 .window_ns = rank->end_ns - rank->begin_ns,
					 .clock_offset_ns = rank->clock_offset_ns,
					 .clock_error_ns = rank->clock_error_ns };
	for (size_t t = 0; t < rank->thread_count; t++) {
		out->spans += rank->threads[t].span_count;
		out->lost += rank->threads[t].lost;
	}
	return TOW_OK;
}

const struct twi_trace *trace_document_trace(const struct trace_document *document)
{
	return &document->trace;
}

void trace_document_release(struct trace_document *document)
{
	if (document != NULL)
		twi_trace_fini(&document->trace);
	free(document);
}
