/*
 * foreign_tell.c - what a rank says of groups of other libraries when it is asked how it is: those
 * whose last collective began latest, and of their messages the flows that waited most.
 */
#include "transport/foreign/foreign.h"

#include <stdio.h>

#include "transport/engine/engine.h"

static void tell_past(struct tow_foreign_group *group, struct twi_state_group *out)
{
	struct twi_series *series = &group->series;

	for (uint64_t i = 1; i <= TWI_STATE_PAST && i < series->next_seq; i++) {
		const struct twi_state_past *past = twi_series_past(series, series->next_seq - i);

		if (past->seq == series->next_seq - i) /* one may not have been entered yet */
			out->past[out->past_count++] = *past;
	}
}

static void tell_group(struct tow_foreign_group *group, struct twi_state_group *out)
{
	const struct twi_series *series = &group->series;

	*out = (struct twi_state_group){ .ctx = series->ctx,
					 .rank = series->rank,
					 .size = series->size,
					 .in_flight = series->in_flight,
					 .last_seq = series->next_seq - 1 };
	snprintf(out->name, sizeof(out->name), "%s", group->name);
	tell_past(group, out);
}

static uint64_t flow_waited(const struct twi_state_flow *flow)
{
	return flow->device_ns + flow->peer_ns + flow->wire_ns;
}

/* Keeps those that waited most, in that order. */
static void add_flow(const struct twi_state_flow *flow, struct twi_rank_state *out)
{
	uint32_t at = out->flow_count;

	if (at == TWI_STATE_FLOWS && flow_waited(&out->flows[at - 1]) >= flow_waited(flow))
		return;
	if (at < TWI_STATE_FLOWS)
		out->flow_count++;
	else
		at--;
	for (; at > 0 && flow_waited(&out->flows[at - 1]) < flow_waited(flow); at--)
		out->flows[at] = out->flows[at - 1];
	out->flows[at] = *flow;
}

static void tell_flows(const struct tow_foreign_group *group, uint64_t now_ns,
		       struct twi_rank_state *out)
{
	for (uint32_t i = 0; i < group->flow_count; i++) {
		const struct twi_foreign_flow *flow = &group->flows[i];
		struct twi_foreign_figures recent;
		struct twi_state_flow row = { .ctx = group->series.ctx,
					      .peer = flow->peer,
					      .sends = flow->sends };

		twi_foreign_recent(flow, now_ns, &recent, &row.window_ns);
		if (recent.messages == 0)
			continue;
		row.messages = recent.messages;
		row.bytes = recent.bytes;
		row.device_ns = recent.device_ns;
		row.peer_ns = recent.peer_ns;
		row.wire_ns = recent.wire_ns;
		add_flow(&row, out);
	}
}

/* When its newest collective was entered, 0: none was. The group's lock is held. */
static uint64_t newest_of(struct tow_foreign_group *group)
{
	const struct twi_state_past *past =
		twi_series_past(&group->series, group->series.next_seq - 1);

	return group->series.next_seq > 1 ? past->start_ns : 0;
}

/* Of those that were in use before `below`, the latest. */
static struct tow_foreign_group *next_newest(struct twi_engine *engine, uint64_t below,
					     uint64_t *newest_out)
{
	struct tow_foreign_group *found = NULL;
	struct twi_list *pos, *next;

	*newest_out = 0;
	twi_list_for_each_safe (pos, next, &engine->foreign_groups) {
		struct tow_foreign_group *group =
			twi_container_of(pos, struct tow_foreign_group, link);
		uint64_t newest;

		pthread_mutex_lock(&group->lock);
		newest = newest_of(group);
		pthread_mutex_unlock(&group->lock);
		if (newest >= below || (found != NULL && newest <= *newest_out))
			continue;
		found = group;
		*newest_out = newest;
	}
	return found;
}

void twi_foreign_tell(struct twi_engine *engine, uint64_t now_ns, uint32_t room,
		      struct twi_rank_state *out)
{
	uint64_t below = UINT64_MAX;
	struct tow_foreign_group *group;

	twi_assert_held(engine);
	while ((group = next_newest(engine, below, &below)) != NULL) {
		if (out->group_count >= room) {
			out->cut |= below > 0;
			return;
		}
		pthread_mutex_lock(&group->lock);
		tell_group(group, &out->groups[out->group_count++]);
		tell_flows(group, now_ns, out);
		pthread_mutex_unlock(&group->lock);
		if (below == 0)
			return; /* the others are not in use either */
	}
}
