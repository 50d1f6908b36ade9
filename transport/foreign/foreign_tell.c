/*
 * foreign_tell.c - reports groups of other libraries in the state of a rank: the groups whose last
 * collective began latest, and the message flows that waited most.
 */
#include "transport/foreign/foreign.h"

#include <stdio.h>

#include "diag/base/hash.h"
#include "transport/engine/engine.h"

static void report_past(struct tow_foreign_group *group, struct twi_state_group *out)
{
	struct twi_series *series = &group->series;

	for (uint64_t i = 1; i <= TWI_STATE_PAST && i < series->next_seq; i++) {
		const struct twi_state_past *past = twi_series_past(series, series->next_seq - i);

		if (past->seq == series->next_seq - i) /* it may not be entered yet */
			out->past[out->past_count++] = *past;
	}
}

/* A signature that no rank of another process has. */
static uint64_t sign_apart(uint64_t a, uint64_t b, uint32_t rank)
{
	return twi_hash_mix(twi_hash_mix(a, b), rank) | 1; /* 0 means "none" */
}

/*
 * Merges another rank of the same group in this process. A collective counts as entered if all of
 * them have entered it, and the last of them gives the time. A failure of any of them counts. If
 * they called different things, the row agrees with no rank of another process. The other group's
 * lock is held.
 */
static void merge_past(struct tow_foreign_group *group, struct twi_state_group *out)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < out->past_count; i++) {
		struct twi_state_past past = out->past[i];
		const struct twi_state_past *other = twi_series_past(&group->series, past.seq);

		if (other->seq != past.seq)
			continue;
		past.start_ns = twi_max(past.start_ns, other->start_ns);
		past.done_ns = past.done_ns == 0 || other->done_ns == 0
				       ? 0
				       : twi_max(past.done_ns, other->done_ns);
		if (past.status >= 0)
			past.status = other->status;
		if (past.signature != other->signature)
			past.signature = sign_apart(past.signature, other->signature, out->rank);
		out->past[kept++] = past;
	}
	out->past_count = kept;
	out->last_seq = twi_min(out->last_seq, group->series.next_seq - 1);
	out->in_flight = twi_max(out->in_flight, group->series.in_flight);
	if (out->local_count < TWI_STATE_LOCALS)
		out->locals[out->local_count++] = group->series.rank;
}

static void report_group(struct tow_foreign_group *group, struct twi_state_group *out)
{
	const struct twi_series *series = &group->series;

	*out = (struct twi_state_group){ .ctx = series->ctx,
					 .rank = series->rank,
					 .size = series->size,
					 .in_flight = series->in_flight,
					 .last_seq = series->next_seq - 1 };
	snprintf(out->name, sizeof(out->name), "%s", group->name);
	out->locals[out->local_count++] = series->rank;
	report_past(group, out);
}

static uint64_t flow_waited(const struct twi_state_flow *flow)
{
	return flow->device_ns + flow->peer_ns + flow->wire_ns;
}

/* Adds a flow: keeps the flows that waited most, in that order. */
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

static void report_flows(const struct tow_foreign_group *group, uint64_t now_ns,
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

/* When the group's newest collective was entered; 0: none was. The group's lock is held. */
static uint64_t newest_of(struct tow_foreign_group *group)
{
	const struct twi_state_past *past =
		twi_series_past(&group->series, group->series.next_seq - 1);

	return group->series.next_seq > 1 ? past->start_ns : 0;
}

static bool is_reported(const struct twi_rank_state *out, const struct tow_foreign_group *group)
{
	return twi_rank_state_group(out, group->series.ctx) != NULL;
}

/* The group that was in use last, of the groups that are not in `out` yet. */
static struct tow_foreign_group *
next_by_last_use(struct twi_engine *engine, const struct twi_rank_state *out, uint64_t *newest_out)
{
	struct tow_foreign_group *found = NULL;
	struct twi_list *pos, *next;

	*newest_out = 0;
	twi_list_for_each_safe (pos, next, &engine->foreign_groups) {
		struct tow_foreign_group *group =
			twi_container_of(pos, struct tow_foreign_group, link);
		uint64_t newest;

		if (is_reported(out, group))
			continue;
		pthread_mutex_lock(&group->lock);
		newest = newest_of(group);
		pthread_mutex_unlock(&group->lock);
		if (found != NULL && newest <= *newest_out)
			continue;
		found = group;
		*newest_out = newest;
	}
	return found;
}

/* Reports a group, together with all groups of this process that are other ranks of it. */
static void report_all_of(struct twi_engine *engine, struct tow_foreign_group *first,
			  uint64_t now_ns, struct twi_rank_state *out)
{
	struct twi_state_group *row = &out->groups[out->group_count++];
	struct twi_list *pos, *next;

	pthread_mutex_lock(&first->lock);
	report_group(first, row);
	report_flows(first, now_ns, out);
	pthread_mutex_unlock(&first->lock);
	twi_list_for_each_safe (pos, next, &engine->foreign_groups) {
		struct tow_foreign_group *other =
			twi_container_of(pos, struct tow_foreign_group, link);

		if (other == first || other->series.ctx != first->series.ctx)
			continue;
		pthread_mutex_lock(&other->lock);
		merge_past(other, row);
		report_flows(other, now_ns, out);
		pthread_mutex_unlock(&other->lock);
	}
}

void twi_foreign_tell(struct twi_engine *engine, uint64_t now_ns, uint32_t room,
		      struct twi_rank_state *out)
{
	struct tow_foreign_group *group;
	uint64_t newest;

	twi_assert_held(engine);
	while ((group = next_by_last_use(engine, out, &newest)) != NULL) {
		if (out->group_count >= room) {
			out->cut |= newest > 0;
			return;
		}
		report_all_of(engine, group, now_ns, out);
	}
}

size_t twi_foreign_begun(struct twi_engine *engine, struct twi_span *out, size_t room, size_t count)
{
	struct twi_list *pos, *next;

	twi_assert_held(engine);
	twi_list_for_each_safe (pos, next, &engine->foreign_groups) {
		struct tow_foreign_group *group =
			twi_container_of(pos, struct tow_foreign_group, link);

		pthread_mutex_lock(&group->lock);
		for (unsigned i = 0; i < TWI_FOREIGN_ROWS; i++) {
			const struct twi_foreign_row *row = &group->rows[i];

			if (row->seq == 0 || row->done_ns != 0)
				continue;
			if (count < room)
				out[count] = twi_foreign_span(group, row);
			count++;
		}
		pthread_mutex_unlock(&group->lock);
	}
	return count;
}
