/*
 * slack_json.c - writes the slack of a trace as the document /v1/slack.
 */
#include <stdlib.h>

#include <internal/base.h>
#include <towline/status.h>

#include "diag/base/emit.h"
#include "diag/record/coll_kind.h"
#include "diag/trace/slack.h"

static void emit_required(struct twi_emit *e, const char *key, uint64_t bps)
{
	if (bps == TWI_SLACK_UNBOUNDED)
		twi_emit_str(e, key, NULL);
	else
		twi_emit_u64(e, key, bps);
}

static void emit_stat(struct twi_emit *e, const char *key, const struct twi_slack_stat *stat)
{
	twi_emit_object_begin(e, key);
	emit_required(e, "mean", stat->mean);
	emit_required(e, "p50", stat->p50);
	emit_required(e, "p99", stat->p99);
	emit_required(e, "max", stat->max);
	twi_emit_object_end(e);
}

static void emit_group(struct twi_emit *e, const struct twi_slack_group *group)
{
	twi_emit_object_begin(e, NULL);
	twi_emit_u64(e, "group", group->context);
	twi_emit_str(e, "kind", twi_coll_kind_name((enum twi_coll_kind)group->kind));
	twi_emit_str(e, "name", group->name[0] != '\0' ? group->name : NULL);
	twi_emit_u64(e, "ranks", group->ranks);
	twi_emit_u64(e, "seen_ranks", group->seen_ranks);
	twi_emit_u64(e, "occurrences", group->occurrences);
	twi_emit_u64(e, "waited", group->waited);
	twi_emit_u64(e, "bytes", group->bytes);
	if (group->sized)
		twi_emit_u64(e, "network_bytes", group->wire_bytes);
	else
		twi_emit_str(e, "network_bytes", NULL);
	twi_emit_u64(e, "stall_total_ns", group->stall_total_ns);
	emit_required(e, "required_bits_per_second", group->required_bps);
	emit_stat(e, "slack_ns", &group->slack);
	emit_stat(e, "stall_ns", &group->stall);
	emit_stat(e, "observed_ns", &group->observed);
	emit_stat(e, "start_call_ns", &group->send);
	emit_stat(e, "wait_ns", &group->wait);
	emit_stat(e, "required", &group->required);
	twi_emit_object_end(e);
}

static int rows_by_stall(const void *a, const void *b)
{
	const struct twi_slack_row *left = *(const struct twi_slack_row *const *)a;
	const struct twi_slack_row *right = *(const struct twi_slack_row *const *)b;
	uint64_t l = left->send_ns + left->wait_ns, r = right->send_ns + right->wait_ns;

	if (l != r)
		return l > r ? -1 : 1;
	return (left > right) - (left < right);
}

static void emit_row(struct twi_emit *e, const struct twi_trace *trace,
		     const struct twi_slack_row *row)
{
	const struct twi_trace_rank *rank = &trace->ranks[row->rank];

	twi_emit_object_begin(e, NULL);
	twi_emit_i64(e, "rank", rank->rank);
	twi_emit_u64(e, "group", row->id >> 32);
	twi_emit_u64(e, "seq", row->id & UINT32_MAX);
	twi_emit_str(e, "kind", twi_coll_kind_name((enum twi_coll_kind)row->kind));
	twi_emit_str(e, "name", row->name[0] != '\0' ? row->name : NULL);
	twi_emit_u64(e, "bytes", row->bytes);
	twi_emit_u64(e, "at_ns", row->start_ns - twi_min(rank->begin_ns, row->start_ns));
	twi_emit_u64(e, "slack_ns", row->slack_ns);
	twi_emit_u64(e, "stall_ns", row->send_ns + row->wait_ns);
	twi_emit_u64(e, "observed_ns", row->observed_ns);
	emit_required(e, "required_bits_per_second", row->required_bps);
	twi_emit_object_end(e);
}

static void emit_worst(struct twi_emit *e, const struct twi_slack *slack,
		       const struct twi_trace *trace)
{
	const struct twi_slack_row **order = calloc(slack->row_count + 1, sizeof(*order));

	if (order == NULL) {
		e->status = TOW_ENOMEM;
		return;
	}
	for (size_t i = 0; i < slack->row_count; i++)
		order[i] = &slack->rows[i];
	qsort(order, slack->row_count, sizeof(*order), rows_by_stall);
	twi_emit_array_begin(e, "worst");
	for (size_t i = 0; i < twi_min(slack->row_count, (size_t)TWI_SLACK_WORST); i++)
		emit_row(e, trace, order[i]);
	twi_emit_array_end(e);
	free(order);
}

void twi_slack_emit(const struct twi_slack *slack, const struct twi_trace *trace,
		    struct twi_emit *e)
{
	size_t shown = twi_min(slack->group_count, (size_t)TWI_SLACK_GROUPS);

	twi_emit_u64(e, "ranks", trace->rank_count);
	twi_emit_u64(e, "collectives", slack->row_count);
	twi_emit_array_begin(e, "groups");
	for (size_t i = 0; i < shown; i++)
		emit_group(e, &slack->groups[i]);
	twi_emit_array_end(e);
	twi_emit_u64(e, "groups_left_out", slack->group_count - shown);
	emit_worst(e, slack, trace);
}

void twi_slack_json(const struct twi_trace *trace, struct twi_emit *e)
{
	struct twi_slack slack;

	if (twi_slack_make(trace, &slack) < 0) {
		e->status = TOW_ENOMEM;
		return;
	}
	twi_slack_emit(&slack, trace, e);
	twi_slack_fini(&slack);
}
