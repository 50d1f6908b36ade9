/*
 * foreign_report.c - writes `foreign_groups` of /v1/coll: groups of other libraries, results of
 * their collectives by kind, the ranks that their messages waited for, and the last collectives.
 */
#include "transport/foreign/foreign.h"

#include <stdio.h>
#include <stdlib.h>

#include <towline/coll.h>

#include "diag/base/clock.h"
#include "diag/base/emit.h"
#include "transport/engine/engine.h"

#define LAST_SHOWN 32u

/* Writes a number, or null if it is not known. */
static void emit_known(struct twi_emit *emit, const char *key, uint64_t value)
{
	if (value > 0)
		twi_emit_u64(emit, key, value);
	else
		twi_emit_str(emit, key, NULL);
}

static void emit_kind(struct twi_emit *emit, enum twi_coll_kind which,
		      const struct twi_foreign_kind *kind)
{
	twi_emit_object_begin(emit, NULL);
	twi_emit_str(emit, "kind", twi_coll_kind_name(which));
	twi_emit_u64(emit, "calls", kind->calls);
	twi_emit_u64(emit, "bytes", kind->bytes);
	twi_emit_object_begin(emit, "latency_ns");
	twi_emit_u64(emit, "count", kind->ended);
	emit_known(emit, "min", kind->min_ns);
	emit_known(emit, "mean", kind->ended > 0 ? kind->sum_ns / kind->ended : 0);
	emit_known(emit, "max", kind->max_ns);
	twi_emit_object_end(emit);
	emit_known(emit, "queue_mean_ns", kind->ended > 0 ? kind->queue_ns / kind->ended : 0);
	twi_emit_object_end(emit);
}

static void emit_figures(struct twi_emit *emit, const struct twi_foreign_figures *figures)
{
	twi_emit_u64(emit, "messages", figures->messages);
	twi_emit_u64(emit, "bytes", figures->bytes);
	twi_emit_u64(emit, "device_ns", figures->device_ns);
	twi_emit_u64(emit, "peer_ns", figures->peer_ns);
	twi_emit_u64(emit, "wire_ns", figures->wire_ns);
}

static void emit_flow(struct twi_emit *emit, const struct twi_foreign_flow *flow, uint64_t now_ns)
{
	struct twi_foreign_figures recent;
	uint64_t window_ns;

	twi_foreign_recent(flow, now_ns, &recent, &window_ns);
	twi_emit_object_begin(emit, NULL);
	twi_emit_u64(emit, "peer", flow->peer);
	twi_emit_bool(emit, "sends", flow->sends);
	emit_figures(emit, &flow->all);
	twi_emit_object_begin(emit, "recent");
	twi_emit_u64(emit, "window_ns", window_ns);
	emit_figures(emit, &recent);
	twi_emit_object_end(emit);
	twi_emit_object_end(emit);
}

static void emit_row(struct twi_emit *emit, const struct twi_foreign_row *row)
{
	twi_emit_object_begin(emit, NULL);
	twi_emit_u64(emit, "seq", row->seq);
	twi_emit_str(emit, "kind", twi_coll_kind_name((enum twi_coll_kind)row->kind));
	twi_emit_str(emit, "type", row->type >= 0 ? tow_type_name((enum tow_type)row->type) : NULL);
	twi_emit_str(emit, "reduce",
		     row->reduce >= 0 ? tow_reduce_name((enum tow_reduce)row->reduce) : NULL);
	twi_emit_i64(emit, "root", row->root);
	twi_emit_u64(emit, "bytes", row->bytes);
	twi_emit_str(emit, "plan", row->plan[0] != '\0' ? row->plan : NULL);
	twi_emit_str(emit, "status", row->done_ns != 0 ? tow_status_name(row->status) : NULL);
	twi_emit_u64(emit, "start_ns", row->start_ns);
	emit_known(emit, "entered_ns", row->entered_ns);
	emit_known(emit, "done_ns", row->done_ns);
	twi_emit_object_end(emit);
}

static void emit_group(struct twi_emit *emit, const struct tow_foreign_group *group,
		       uint64_t now_ns)
{
	uint64_t first = group->begun > LAST_SHOWN ? group->begun - LAST_SHOWN + 1 : 1;
	char id[20];

	snprintf(id, sizeof(id), "%016llx", (unsigned long long)group->id);
	twi_emit_object_begin(emit, NULL);
	twi_emit_u64(emit, "group", group->series.ctx);
	twi_emit_str(emit, "name", group->name);
	twi_emit_str(emit, "id", id);
	twi_emit_u64(emit, "rank", group->series.rank);
	twi_emit_u64(emit, "size", group->series.size);
	twi_emit_u64(emit, "started", group->begun);
	twi_emit_u64(emit, "last_entered", group->series.next_seq - 1);
	twi_emit_u64(emit, "in_flight", group->series.in_flight);
	twi_emit_array_begin(emit, "kinds");
	for (unsigned i = 0; i < TWI_COLL_KINDS; i++)
		if (group->kinds[i].calls > 0)
			emit_kind(emit, (enum twi_coll_kind)i, &group->kinds[i]);
	twi_emit_array_end(emit);
	twi_emit_array_begin(emit, "peers");
	for (uint32_t i = 0; i < group->flow_count; i++)
		emit_flow(emit, &group->flows[i], now_ns);
	twi_emit_array_end(emit);
	twi_emit_array_begin(emit, "last");
	for (uint64_t seq = first; seq <= group->begun; seq++)
		emit_row(emit, &group->rows[seq % TWI_FOREIGN_ROWS]);
	twi_emit_array_end(emit);
	twi_emit_object_end(emit);
}

/* Copies the group, so that a recording thread does not wait while text is made. */
static void describe_group(struct twi_emit *emit, struct tow_foreign_group *group,
			   struct tow_foreign_group *copy)
{
	pthread_mutex_lock(&group->lock);
	*copy = *group;
	pthread_mutex_unlock(&group->lock);
	emit_group(emit, copy, twi_now_ns());
}

void twi_foreign_describe(void *arg, struct twi_emit *emit)
{
	struct tow_foreign_group *copy = malloc(sizeof(*copy));
	struct twi_engine *engine = arg;
	struct twi_list *pos, *next;

	twi_emit_array_begin(emit, "foreign_groups");
	twi_engine_enter(engine);
	twi_list_for_each_safe (pos, next, &engine->foreign_groups)
		if (copy != NULL)
			describe_group(emit, twi_container_of(pos, struct tow_foreign_group, link),
				       copy);
	twi_engine_leave(engine);
	twi_emit_array_end(emit);
	free(copy);
}
