/* api.c - traces for users (include/towline/trace.h). */
#include <stdlib.h>

#include <towline/trace.h>

#include "diag/base/cancel.h"
#include "diag/base/error.h"
#include "diag/trace/analysis.h"
#include "diag/trace/export/export.h"

int twi_trace_encode(const struct twi_trace *trace, enum tow_trace_format format, char **bytes_out,
		     size_t *count_out)
{
	switch (format) {
	case TOW_TRACE_XSPACE:
		return twi_export_xspace(trace, bytes_out, count_out);
	case TOW_TRACE_JSON:
		return twi_analysis_json(trace, bytes_out, count_out);
	}
	return twi_error(TOW_EINVAL,
			 "format: %d is no trace format of the library; write the XSpace, of which "
			 "towtrace convert makes the others",
			 (int)format);
}

TOW_PUBLIC int tow_trace_encode(const struct tow_trace *trace, enum tow_trace_format format,
				void **bytes_out, size_t *count_out)
{
	TWI_UNCANCELED;
	char *bytes = NULL;
	int status;

	if (trace == NULL || bytes_out == NULL || count_out == NULL)
		return twi_error(TOW_EINVAL, "tow_trace_encode: NULL argument");
	status = twi_trace_encode(&trace->trace, format, &bytes, count_out);
	*bytes_out = bytes;
	return status;
}

TOW_PUBLIC void tow_trace_release(struct tow_trace *trace)
{
	if (trace != NULL)
		twi_trace_fini(&trace->trace);
	free(trace);
}

TOW_PUBLIC void tow_trace_bytes_release(void *bytes)
{
	free(bytes);
}
