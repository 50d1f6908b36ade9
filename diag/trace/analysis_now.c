/*
 * analysis_now.c - the analyses of what the rings of a runtime hold now.
 */
#include "diag/trace/analysis.h"

#include <internal/base.h>
#include <towline/status.h>

#include "diag/base/emit.h"
#include "diag/record/diag.h"
#include "diag/trace/slack.h"
#include "diag/trace/timeline.h"

/* The earliest time from which all rings have all their spans; `begin_ns` or later. */
static uint64_t whole_from(const struct twi_trace_rank *rank, uint64_t begin_ns)
{
	for (size_t t = 0; t < rank->thread_count; t++) {
		const struct twi_trace_thread *thread = &rank->threads[t];
		uint64_t first = UINT64_MAX; /* the first to end, as a ring is in order of ends */

		for (size_t i = 0; thread->lost > 0 && i < thread->span_count; i++)
			first = twi_min(first, thread->spans[i].end_ns);
		if (first != UINT64_MAX)
			begin_ns = twi_max(begin_ns, first);
	}
	return begin_ns;
}

static int read_now(struct twi_diag *diag, struct twi_trace *out)
{
	uint64_t now = twi_now_ns(), begin = now - twi_min(now, (uint64_t)TWI_ANALYSIS_NS);
	int status = twi_trace_read(diag, twi_max(begin, twi_diag_start_ns(diag)), out);

	if (status == TOW_OK && out->rank_count > 0) {
		struct twi_trace_rank *rank = &out->ranks[0];

		rank->begin_ns = twi_min(whole_from(rank, rank->begin_ns), rank->end_ns);
	}
	return status;
}

void twi_analysis_timeline(struct twi_diag *diag, struct twi_emit *e)
{
	struct twi_trace trace;

	if (read_now(diag, &trace) < 0) {
		e->status = TOW_ENOMEM;
		return;
	}
	twi_timeline_json(&trace, e);
	twi_trace_fini(&trace);
}

void twi_analysis_slack(struct twi_diag *diag, struct twi_emit *e)
{
	struct twi_trace trace;

	if (read_now(diag, &trace) < 0) {
		e->status = TOW_ENOMEM;
		return;
	}
	twi_slack_json(&trace, e);
	twi_trace_fini(&trace);
}
