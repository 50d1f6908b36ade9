/*
 * coll_report.c - writes the document /v1/coll: groups, plans and their reasons, times, the last
 * collectives.
 *
 * What a plan moves is not counted while it runs. The plan shows it, and twi_coll_add_up computes
 * it for each report.
 */
#include "transport/coll/coll_report.h"

#include "diag/base/emit.h"
#include "diag/base/error.h"
#include "diag/record/latency_report.h"
#include "transport/coll/coll_account.h"
#include "transport/coll/coll_batch.h"
#include "transport/engine/engine.h"
#include "transport/job/group.h"
#include "transport/op/endpoint.h"

static const char *state_name(enum twi_coll_group_state state)
{
	switch (state) {
	case TWI_COLL_NEW:
		return "new";
	case TWI_COLL_SETTING_UP:
		return "setting up";
	case TWI_COLL_READY:
		return "ready";
	default:
		return "broken";
	}
}

/* --- what one call of an entry moves, at this rank --- */

static void emit_lanes(struct twi_emit *emit, const struct twi_coll_traffic *sum)
{
	twi_emit_array_begin(emit, "lanes");
	for (unsigned i = 0; i <= TWI_LANE_COUNT; i++) {
		if (sum->sent[i] + sum->received[i] == 0)
			continue;
		twi_emit_object_begin(emit, NULL);
		twi_emit_str(emit, "lane",
			     i < TWI_LANE_COUNT ? twi_lane_name((enum twi_lane_id)i) : "unknown");
		twi_emit_u64(emit, "sent_bytes", sum->sent[i]);
		twi_emit_u64(emit, "received_bytes", sum->received[i]);
		twi_emit_object_end(emit);
	}
	twi_emit_array_end(emit);
}

/* Traffic of one call at this rank; only the fallback copies are of all calls. */
static void emit_traffic(struct twi_emit *emit, const struct twi_coll_group *coll,
			 const struct twi_coll_entry *entry)
{
	const struct {
		const char *reason;
		uint64_t bytes;
	} copies[] = { { "unregistered_send", entry->staged_in_bytes },
		       { "unregistered_recv", entry->staged_out_bytes } };
	struct twi_coll_traffic sum;

	twi_coll_add_up(coll, entry->plan, &sum);
	twi_emit_u64(emit, "messages_sent", sum.sends);
	twi_emit_u64(emit, "messages_received", sum.recvs);
	emit_lanes(emit, &sum);
	twi_emit_u64(emit, "in_place_read_bytes", sum.read);
	twi_emit_u64(emit, "in_place_written_bytes", sum.written);
	twi_emit_u64(emit, "reduced_bytes", sum.reduced);
	twi_emit_u64(emit, "copied_bytes", sum.copied);
	twi_emit_array_begin(emit, "fallback_copies");
	for (unsigned i = 0; i < twi_array_count(copies); i++) {
		if (copies[i].bytes == 0)
			continue;
		twi_emit_object_begin(emit, NULL);
		twi_emit_str(emit, "reason", copies[i].reason);
		twi_emit_u64(emit, "bytes", copies[i].bytes);
		twi_emit_object_end(emit);
	}
	twi_emit_array_end(emit);
}

/* --- groups --- */

/* A number; null where there is none, or where it is not known. */
static void emit_known(struct twi_emit *emit, const char *key, bool known, uint64_t value)
{
	if (known)
		twi_emit_u64(emit, key, value);
	else
		twi_emit_str(emit, key, NULL);
}

static void emit_spread(struct twi_emit *emit, const char *key,
			const struct twi_coll_spread *spread)
{
	bool any = spread->count > 0;

	twi_emit_object_begin(emit, key);
	twi_emit_u64(emit, "count", spread->count);
	emit_known(emit, "min", any, spread->min_ns);
	emit_known(emit, "mean", any, any ? spread->sum_ns / spread->count : 0);
	emit_known(emit, "max", any, spread->max_ns);
	twi_emit_object_end(emit);
}

static void emit_entry(struct twi_emit *emit, const struct twi_coll_group *coll,
		       const struct twi_coll_entry *entry)
{
	const struct twi_coll_call *call = &entry->call;

	twi_emit_object_begin(emit, NULL);
	twi_emit_str(emit, "kind", twi_coll_kind_name(call->kind));
	twi_emit_str(emit, "type", tow_type_name(call->type));
	if (twi_coll_kind_reduces(call->kind))
		twi_emit_str(emit, "reduce", tow_reduce_name(call->reduce));
	twi_emit_u64(emit, "count", call->count);
	twi_emit_u64(emit, "bytes", twi_max(entry->in_bytes, entry->out_bytes));
	twi_emit_u64(emit, "root", call->root);
	twi_emit_i64(emit, "priority", call->priority);
	twi_emit_bool(emit, "in_place", call->in_place);
	twi_emit_bool(emit, "combined", call->parts != 0);
	twi_emit_str(emit, "plan", entry->plan->name);
	twi_emit_str(emit, "why", entry->why);
	twi_emit_u64(emit, "calls", entry->calls);
	emit_traffic(emit, coll, entry);
	emit_spread(emit, "latency_ns", &entry->latency);
	emit_spread(emit, "skew_ns", &entry->skew);
	twi_emit_object_end(emit);
}

static void emit_sum(struct twi_emit *emit, const char *key, const struct twi_latency_sum *sum)
{
	if (sum->count == 0)
		return;
	twi_emit_object_begin(emit, key);
	twi_latency_emit(emit, sum);
	twi_emit_object_end(emit);
}

/* Sums up the group's times of a kind over all lanes. False: there are none. */
static bool sum_kind(const struct twi_coll_group *coll, unsigned kind,
		     struct twi_latency_sum *latency, struct twi_latency_sum *skew)
{
	struct twi_latency_sum one;

	*latency = *skew = (struct twi_latency_sum){ 0 };
	for (const struct twi_coll_times *times = coll->times; times != NULL;
	     times = times->next_own) {
		if (atomic_load_explicit(&times->key, memory_order_relaxed) / TWI_COLL_WAYS != kind)
			continue;
		if (twi_latency_read(&times->latency, &one))
			twi_latency_sum_add(latency, &one);
		if (twi_latency_read(&times->skew, &one))
			twi_latency_sum_add(skew, &one);
	}
	return latency->count > 0;
}

static void emit_kinds(struct twi_emit *emit, const struct twi_coll_group *coll)
{
	struct twi_latency_sum latency, skew;

	twi_emit_array_begin(emit, "kinds");
	for (unsigned i = 0; i < TWI_COLL_KINDS; i++) {
		if (!sum_kind(coll, i, &latency, &skew))
			continue;
		twi_emit_object_begin(emit, NULL);
		twi_emit_str(emit, "kind", twi_coll_kind_name((enum twi_coll_kind)i));
		emit_sum(emit, "latency_ns", &latency);
		emit_sum(emit, "skew_ns", &skew);
		twi_emit_object_end(emit);
	}
	twi_emit_array_end(emit);
}

static void emit_ranks(struct twi_emit *emit, const char *key, const uint32_t *ranks,
		       uint32_t count)
{
	twi_emit_array_begin(emit, key);
	for (uint32_t i = 0; ranks != NULL && i < count; i++)
		twi_emit_u64(emit, NULL, ranks[i]);
	twi_emit_array_end(emit);
}

/* How many collectives of each kind have begun; a fused call counts once. */
static void emit_begun(struct twi_emit *emit, const struct twi_coll_group *coll)
{
	uint64_t begun[TWI_COLL_KINDS];
	const struct twi_list *pos;

	for (unsigned i = 0; i < TWI_COLL_KINDS; i++)
		begun[i] = coll->dropped[i];
	for (pos = coll->ages.next; pos != &coll->ages; pos = pos->next) {
		const struct twi_coll_entry *entry =
			twi_container_of(pos, struct twi_coll_entry, age);

		begun[entry->call.kind] += entry->calls;
	}
	twi_emit_object_begin(emit, "begun");
	for (unsigned i = 0; i < TWI_COLL_KINDS; i++) {
		if (begun[i] > 0)
			twi_emit_u64(emit, twi_coll_kind_name((enum twi_coll_kind)i), begun[i]);
	}
	twi_emit_object_end(emit);
}

/* Which ranks share memory: known once the group is set up, with its first collective. */
static void emit_hosts(struct twi_emit *emit, const struct twi_coll_group *coll)
{
	emit_ranks(emit, "hosts", coll->hosts_n > 0 ? coll->hosts : NULL, coll->size);
	emit_ranks(emit, "local_ranks", coll->local_ranks, coll->local_ranks_n);
	twi_emit_bool(emit, "shares_memory", coll->locals_n > 0);
	twi_emit_str(emit, "shares_memory_why_not",
		     coll->locals_n == 0 && coll->share_why[0] != '\0' ? coll->share_why : NULL);
	twi_emit_bool(emit, "peers_write", coll->locals_n > 0 && coll->peers_write);
	twi_emit_str(emit, "peers_write_why_not",
		     coll->locals_n > 0 && !coll->peers_write ? coll->write_why : NULL);
}

static void emit_group(struct twi_emit *emit, const struct twi_coll_group *coll)
{
	char label[TOW_GROUP_LABEL_MAX];
	struct twi_list *pos, *next;

	twi_label_read(coll->engine->diag, coll->ctx, label);
	twi_emit_object_begin(emit, NULL);
	twi_emit_u64(emit, "group", coll->ctx);
	twi_emit_str(emit, "label", label[0] != '\0' ? label : NULL);
	twi_emit_u64(emit, "rank", coll->rank);
	twi_emit_u64(emit, "size", coll->size);
	twi_emit_str(emit, "state", state_name(coll->state));
	twi_emit_str(emit, "broken",
		     coll->state == TWI_COLL_BROKEN ? tow_status_name(coll->series.broken) : NULL);
	twi_emit_str(emit, "broken_why", coll->state == TWI_COLL_BROKEN ? coll->why : NULL);
	emit_ranks(emit, "members", coll->members, coll->size);
	twi_emit_u64(emit, "started", coll->series.next_seq - 1);
	emit_begun(emit, coll);
	twi_emit_u64(emit, "in_flight", coll->series.in_flight);
	twi_emit_u64(emit, "held_back", twi_coll_batch_held(coll));
	twi_emit_u64(emit, "held_behind", coll->held_n);
	emit_hosts(emit, coll);
	twi_emit_array_begin(emit, "entries");
	twi_list_for_each_safe (pos, next, &coll->ages)
		emit_entry(emit, coll, twi_container_of(pos, struct twi_coll_entry, age));
	twi_emit_array_end(emit);
	emit_kinds(emit, coll);
	twi_emit_object_end(emit);
}

/* --- the last ones --- */

static void emit_record(struct twi_emit *emit, const struct twi_coll_record *record)
{
	uint64_t waited, slack, start = record->start_ns;
	bool was_waited = twi_coll_record_word(record, &record->waited, &waited);
	bool slack_known = twi_coll_record_word(record, &record->slack, &slack);

	twi_emit_object_begin(emit, NULL);
	twi_emit_u64(emit, "group", record->ctx);
	emit_known(emit, "seq", record->seq > 0, record->seq);
	twi_emit_str(emit, "name", record->named ? record->name : NULL);
	twi_emit_str(emit, "kind", twi_coll_kind_name((enum twi_coll_kind)record->kind));
	twi_emit_str(emit, "type", tow_type_name((enum tow_type)record->type));
	if (twi_coll_kind_reduces((enum twi_coll_kind)record->kind))
		twi_emit_str(emit, "reduce", tow_reduce_name((enum tow_reduce)record->reduce));
	emit_known(emit, "bytes", record->plan != NULL, record->bytes);
	twi_emit_str(emit, "plan", record->plan);
	twi_emit_bool(emit, "combined", record->combined);
	twi_emit_str(emit, "status", record->ended ? tow_status_name(record->status) : NULL);
	twi_emit_u64(emit, "start_ns", start);
	emit_known(emit, "moving_ns", record->moving_ns > 0, record->moving_ns);
	emit_known(emit, "entered_ns", record->entered_ns > 0, record->entered_ns);
	emit_known(emit, "wait_ns", was_waited, start + waited);
	emit_known(emit, "done_ns", record->ended, record->done_ns);
	emit_known(emit, "skew_ns", record->entered_ns > 0,
		   record->entered_ns - twi_min(start, record->entered_ns));
	emit_known(emit, "slack_ns", slack_known, slack);
	twi_emit_object_end(emit);
}

static void emit_last(struct twi_emit *emit, const struct twi_coll_log *log)
{
	uint64_t first =
		log != NULL && log->last > TWI_COLL_RECORDS ? log->last - TWI_COLL_RECORDS + 1 : 1;

	twi_emit_array_begin(emit, "last");
	for (uint64_t id = first; log != NULL && id <= log->last; id++) {
		const struct twi_coll_record *record = &log->rows[id % TWI_COLL_RECORDS];

		if (record->id == id)
			emit_record(emit, record);
	}
	twi_emit_array_end(emit);
}

void twi_coll_describe(void *arg, struct twi_emit *emit)
{
	struct twi_engine *engine = arg;
	struct twi_list *pos, *next;

	twi_engine_enter(engine);
	twi_emit_u64(emit, "now_ns", twi_engine_clock(engine));
	twi_emit_array_begin(emit, "groups");
	twi_list_for_each_safe (pos, next, &engine->coll_groups)
		emit_group(emit, twi_container_of(pos, struct twi_coll_group, all));
	twi_emit_array_end(emit);
	emit_last(emit, engine->coll_log);
	twi_coll_account_emit(atomic_load_explicit(&engine->coll_account, memory_order_relaxed),
			      emit);
	twi_engine_leave(engine);
}
