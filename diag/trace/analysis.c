/*
 * analysis.c - the analysis of any trace, as JSON.
 */
#include "diag/trace/analysis.h"

#include <towline/status.h>

#include "diag/base/emit.h"
#include "diag/trace/slack.h"
#include "diag/trace/timeline.h"

int twi_analysis_json(const struct twi_trace *trace, char **bytes_out, size_t *count_out)
{
	struct twi_emit e;

	twi_emit_init(&e);
	twi_emit_object_begin(&e, NULL);
	twi_emit_object_begin(&e, "timeline");
	twi_timeline_json(trace, &e);
	twi_emit_object_end(&e);
	twi_emit_object_begin(&e, "slack");
	twi_slack_json(trace, &e);
	twi_emit_object_end(&e);
	twi_emit_object_end(&e);
	twi_emit_raw(&e, "\n");
	*count_out = e.bytes;
	return twi_emit_take(&e, bytes_out);
}
