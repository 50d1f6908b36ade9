/*
 * flight.c - emits the flight recorder. See flight.h.
 */
#include "transport/inquiry/flight.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <towline/towline.h>

#include "diag/base/emit.h"
#include "diag/base/error.h"
#include "diag/base/place.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "diag/record/tag.h"
#include "diag/trace/trace.h"
#include "transport/coll/coll_report.h"
#include "transport/engine/engine.h"
#include "transport/job/group_barrier.h"
#include "transport/op/channel.h"
#include "transport/op/endpoint.h"
#include "transport/op/op_table.h"

#define VERSION     "2.10" /* PyTorch's version of the fields */
#define MESSAGES    256u   /* most messages under way, and most that have ended */
#define OPS_SCANNED 65536u
/* The process group, for PyTorch's tools, of all messages. */
#define MESSAGES_GROUP "messages"
#define TEXT           (TOW_GROUP_LABEL_MAX + 24)

uint64_t twi_flight_unix_offset(const struct twi_engine *engine)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec -
	       twi_engine_clock(engine);
}

static const char *torch_type(uint8_t type)
{
	switch (type) {
	case TOW_F32:
		return "Float";
	case TOW_F64:
		return "Double";
	case TOW_C64:
		return "ComplexFloat";
	case TOW_C128:
		return "ComplexDouble";
	case TOW_F16:
		return "Half";
	case TOW_BF16:
		return "BFloat16";
	case TOW_F8E4M3:
		return "Float8_e4m3fn";
	case TOW_F8E5M2:
		return "Float8_e5m2";
	case TOW_S8:
		return "Char";
	case TOW_S16:
		return "Short";
	case TOW_S32:
		return "Int";
	case TOW_S64:
		return "Long";
	case TOW_U8:
		return "Byte";
	case TOW_U16:
		return "UInt16";
	case TOW_U32:
		return "UInt32";
	case TOW_U64:
		return "UInt64";
	default:
		return "Bool";
	}
}

static void emit_time(struct twi_emit *emit, const char *key, uint64_t ns, uint64_t offset)
{
	if (ns > 0)
		twi_emit_u64(emit, key, ns + offset);
	else
		twi_emit_str(emit, key, NULL);
}

static void emit_list(struct twi_emit *emit, const char *key, uint64_t count)
{
	twi_emit_array_begin(emit, key);
	twi_emit_array_begin(emit, NULL);
	twi_emit_u64(emit, NULL, count);
	twi_emit_array_end(emit);
	twi_emit_array_end(emit);
}

static void emit_type(struct twi_emit *emit, const char *key, const char *type)
{
	twi_emit_array_begin(emit, key);
	twi_emit_str(emit, NULL, type);
	twi_emit_array_end(emit);
}

struct entry {
	uint64_t record_id, seq, op_id, count;
	uint64_t created_ns, started_ns, done_ns;
	uint32_t ctx;
	bool p2p, ended;
	const char *kind, *type, *status, *user_name;
	const void *caller;
	uint64_t timeout_ns;
	int64_t me, peer; /* for a message: ranks in the job; -1: not known */
	bool grouped;     /* it is a message of the group ctx */
};

static void emit_frames(const struct entry *entry, struct twi_emit *emit)
{
	struct twi_place place;
	char text[512];

	twi_emit_array_begin(emit, "frames");
	if (entry->caller != NULL) {
		twi_place_find(entry->caller, &place);
		twi_place_text(&place, text, sizeof(text));
		twi_emit_object_begin(emit, NULL);
		twi_emit_str(emit, "name", text);
		twi_emit_str(emit, "filename", place.found ? place.module : "");
		twi_emit_u64(emit, "line", 0);
		twi_emit_object_end(emit);
	}
	twi_emit_array_end(emit);
}

/* The barriers of a group have numbers of their own, so they are a group of their own for tools. */
static void name_group(struct twi_diag *diag, uint32_t ctx, char name[24], char text[TEXT])
{
	bool barriers = (ctx & TWI_STATE_BARRIERS) != 0;
	char label[TOW_GROUP_LABEL_MAX];

	ctx &= ~TWI_STATE_BARRIERS;
	snprintf(name, 24, "%u%s", ctx, barriers ? ".barriers" : "");
	if (twi_label_read(diag, ctx, label)[0] != '\0')
		snprintf(text, TEXT, "%s%s", barriers ? "barriers of " : "", label);
	else
		snprintf(text, TEXT, "%sgroup %u", barriers ? "barriers of " : "", ctx);
}

/*
 * Emits "towline:all_reduce". For a message the name is as PyTorch's analyzer reads it:
 * "towline:send 0->1", "towline:recv 1<-0", or "towline:recv 1<-?".
 */
static void emit_name(const struct entry *entry, struct twi_emit *emit)
{
	char text[TEXT], peer[24] = "?";

	snprintf(text, sizeof(text), "towline:%s", entry->kind);
	for (char *at = text; *at != '\0'; at++) {
		if (*at == '-')
			*at = '_';
	}
	if (entry->p2p && entry->me >= 0) {
		size_t used = strlen(text);

		if (entry->peer >= 0)
			snprintf(peer, sizeof(peer), "%lld", (long long)entry->peer);
		snprintf(text + used, sizeof(text) - used, " %lld%s%s", (long long)entry->me,
			 strcmp(entry->kind, "send") == 0 ? "->" : "<-", peer);
	}
	twi_emit_str(emit, "profiling_name", text);
}

/* Messages are a process group of their own, as they have no order among collectives. */
static void emit_group(struct twi_diag *diag, const struct entry *entry, struct twi_emit *emit)
{
	char text[TEXT], name[24];

	name_group(diag, entry->ctx, name, text);
	if (!entry->p2p || entry->grouped)
		twi_emit_u64(emit, "pg_id", entry->ctx);
	else
		twi_emit_str(emit, "pg_id", NULL);
	twi_emit_array_begin(emit, "process_group");
	twi_emit_str(emit, NULL, entry->p2p ? MESSAGES_GROUP : name);
	twi_emit_str(emit, NULL, entry->p2p ? MESSAGES_GROUP : text);
	twi_emit_array_end(emit);
	if (entry->grouped)
		twi_emit_str(emit, "group", text);
}

static void emit_entry(struct twi_diag *diag, const struct entry *entry, uint64_t offset,
		       struct twi_emit *emit)
{
	twi_emit_object_begin(emit, NULL);
	twi_emit_u64(emit, "record_id", entry->record_id);
	emit_group(diag, entry, emit);
	twi_emit_u64(emit, "collective_seq_id", entry->p2p ? 0 : entry->seq);
	twi_emit_u64(emit, "p2p_seq_id", entry->p2p ? entry->seq : 0);
	twi_emit_u64(emit, "op_id", entry->op_id);
	emit_name(entry, emit);
	if (entry->user_name != NULL)
		twi_emit_str(emit, "name", entry->user_name);
	emit_time(emit, "time_created_ns", entry->created_ns, offset);
	emit_list(emit, "input_sizes", entry->count);
	emit_type(emit, "input_dtypes", entry->type);
	emit_list(emit, "output_sizes", entry->count);
	emit_type(emit, "output_dtypes", entry->type);
	twi_emit_str(emit, "state",
		     entry->ended            ? "completed"
		     : entry->started_ns > 0 ? "started"
					     : "scheduled");
	if (entry->status != NULL)
		twi_emit_str(emit, "status", entry->status);
	emit_time(emit, "time_discovered_started_ns", entry->started_ns, offset);
	emit_time(emit, "time_discovered_completed_ns", entry->done_ns, offset);
	if (entry->ended && entry->done_ns >= entry->created_ns)
		twi_emit_f64(emit, "duration_ms",
			     (double)(entry->done_ns - entry->created_ns) / 1e6);
	else
		twi_emit_str(emit, "duration_ms", NULL);
	twi_emit_bool(emit, "retired", entry->ended);
	twi_emit_u64(emit, "timeout_ms", entry->timeout_ns / 1000000);
	twi_emit_bool(emit, "is_p2p", entry->p2p);
	if (entry->p2p && entry->peer >= 0)
		twi_emit_i64(emit, "peer_rank", entry->peer);
	emit_frames(entry, emit);
	twi_emit_object_end(emit);
}

/* Returns the run under way of a record; NULL: there is none. */
static const struct twi_coll_run *run_of(const struct twi_engine *engine,
					 const struct twi_coll_record *record)
{
	struct twi_list *group, *next_group, *pos, *next;

	twi_list_for_each_safe (group, next_group, &engine->coll_groups) {
		const struct twi_coll_group *coll =
			twi_container_of(group, struct twi_coll_group, all);

		if (coll->ctx != record->ctx)
			continue;
		twi_list_for_each_safe (pos, next, &coll->runs) {
			const struct twi_coll_run *run =
				twi_container_of(pos, struct twi_coll_run, link);

			if (run->op != NULL && run->op->stamp.record == record &&
			    run->op->stamp.id == record->id)
				return run;
		}
	}
	return NULL;
}

static void emit_record(const struct twi_engine *engine, const struct twi_coll_record *record,
			uint64_t offset, struct twi_emit *emit)
{
	const struct twi_coll_run *run = record->ended ? NULL : run_of(engine, record);
	uint64_t bytes = record->bytes, width = tow_type_bytes((enum tow_type)record->type);
	struct entry entry = {
		.record_id = record->id,
		.seq = record->seq,
		.op_id = record->id,
		.created_ns = record->start_ns,
		.started_ns = record->moving_ns,
		.done_ns = record->done_ns,
		.ctx = record->ctx,
		.ended = record->ended,
		.kind = twi_coll_kind_name((enum twi_coll_kind)record->kind),
		.type = torch_type(record->type),
		.status = record->ended ? tow_status_name(record->status) : NULL,
		.user_name = record->named ? record->name : NULL,
		.timeout_ns = engine->knobs.coll_timeout_ns,
	};

	if (run != NULL) {
		entry.seq = run->seq;
		entry.started_ns = run->moving_ns;
		entry.caller = run->site.caller;
		bytes = twi_max(run->entry->in_bytes, run->entry->out_bytes);
	}
	entry.count = width > 0 ? bytes / width : bytes;
	emit_entry(engine->diag, &entry, offset, emit);
}

/* Emits the last barriers of a group. */
static void emit_barriers(struct twi_diag *diag, const struct twi_series *series, uint64_t offset,
			  struct twi_emit *emit)
{
	const struct twi_barrier_log *log =
		twi_container_of(series, const struct twi_barrier_log, series);
	uint64_t next = series->next_seq;

	for (uint64_t seq = next > TWI_STATE_PAST ? next - TWI_STATE_PAST : 1; seq < next; seq++) {
		const struct twi_state_past *past = &series->past[seq % TWI_STATE_PAST];
		bool ended = past->done_ns > 0;

		emit_entry(diag,
			   &(struct entry){ .record_id = seq,
					    .seq = seq,
					    .op_id = seq,
					    .created_ns = past->start_ns,
					    .started_ns = past->start_ns,
					    .done_ns = past->done_ns,
					    .ctx = series->ctx,
					    .ended = ended,
					    .kind = "barrier",
					    .type = "Byte",
					    .status = ended ? tow_status_name(past->status) : NULL,
					    .caller = ended ? NULL
							    : log->callers[seq % TWI_STATE_PAST] },
			   offset, emit);
	}
}

static void emit_all_barriers(const struct twi_engine *engine, uint64_t offset,
			      struct twi_emit *emit)
{
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &engine->series) {
		const struct twi_series *series = twi_container_of(pos, struct twi_series, link);

		if (twi_series_is_barriers(series))
			emit_barriers(engine->diag, series, offset, emit);
	}
}

/* Returns the job, if this runtime is in a group of it; else NULL. */
static const struct twi_ranks *ranks_of(const struct twi_engine *engine)
{
	const struct twi_list *pos = twi_list_first(&engine->coll_groups);

	return pos != NULL ? twi_container_of(pos, struct twi_coll_group, all)->ranks : NULL;
}

static int64_t rank_of(const struct twi_engine *engine)
{
	const struct twi_ranks *ranks = ranks_of(engine);

	return ranks != NULL ? (int64_t)ranks->rank : engine->knobs.rank;
}

static void emit_message(const struct twi_engine *engine, const struct tow_op *op, uint32_t row,
			 uint64_t offset, struct twi_emit *emit)
{
	struct entry entry = { .record_id = row,
			       .seq = op->seq,
			       .op_id = op->tag,
			       .count = op->bytes,
			       .created_ns = op->start_ns,
			       .started_ns = op->moved > 0 ? op->start_ns : 0,
			       .p2p = true,
			       .kind = op->kind == TWI_OP_SEND ? "send" : "recv",
			       .type = "Byte",
			       .user_name = twi_tag_text(op->site.tag),
			       .caller = op->site.caller,
			       .me = rank_of(engine),
			       .peer = -1 };

	entry.grouped = op->channel >= TWI_CHANNEL_GROUPS;
	if (entry.grouped)
		entry.ctx = op->channel - TWI_CHANNEL_GROUPS;
	if (op->stage == TWI_STAGE_HELD)
		entry.peer = ((const struct twi_slot *)op->owner)->rank;
	else if (op->peer != NULL)
		entry.peer = op->peer->job_rank;
	emit_entry(engine->diag, &entry, offset, emit);
}

/* Emits the user's messages under way. */
static void emit_messages(const struct twi_engine *engine, uint64_t offset, struct twi_emit *emit)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < twi_min(engine->ops->made, OPS_SCANNED) && count < MESSAGES; i++) {
		const struct tow_op *op = &engine->ops->rows[i];
		uint32_t state = atomic_load_explicit(&op->wait.state, memory_order_relaxed);

		if ((state & (TWI_OP_USED | TWI_OP_DONE)) != TWI_OP_USED ||
		    (op->kind != TWI_OP_SEND && op->kind != TWI_OP_RECV) ||
		    op->space != TWI_SPACE_USER)
			continue;
		count++;
		emit_message(engine, op, i, offset, emit);
	}
}

/* The latest messages that have ended, from the rings of spans. */
struct ended {
	const struct twi_span *spans[MESSAGES];
	uint32_t count;
};

/* Keeps a span, in order of its end, if it is among the latest. */
static void keep_ended(struct ended *ended, const struct twi_span *span)
{
	uint32_t at = ended->count;

	if (at == MESSAGES && span->end_ns <= ended->spans[0]->end_ns)
		return;
	if (at == MESSAGES) {
		for (at = 0; at + 1 < MESSAGES; at++)
			ended->spans[at] = ended->spans[at + 1];
	} else {
		ended->count++;
	}
	for (; at > 0 && ended->spans[at - 1]->end_ns > span->end_ns; at--)
		ended->spans[at] = ended->spans[at - 1];
	ended->spans[at] = span;
}

static void choose_ended(const struct twi_trace_rank *rank, struct ended *ended)
{
	for (size_t t = 0; t < rank->thread_count; t++) {
		const struct twi_trace_thread *thread = &rank->threads[t];

		for (size_t i = 0; i < thread->span_count; i++) {
			const struct twi_span *span = &thread->spans[i];

			if ((span->kind == TWI_SPAN_SEND || span->kind == TWI_SPAN_RECV) &&
			    span->detail == TWI_SPACE_USER)
				keep_ended(ended, span);
		}
	}
}

static int64_t peer_of(const struct twi_trace_rank *trace, const struct twi_span *span)
{
	bool known = span->peer > 0 && span->peer <= trace->peer_count;

	return known ? trace->peers[span->peer - 1].rank : -1;
}

static void emit_ended(const struct twi_engine *engine, const struct twi_trace_rank *trace,
		       const struct ended *ended, uint64_t offset, struct twi_emit *emit)
{
	for (uint32_t i = 0; i < ended->count; i++) {
		const struct twi_span *span = ended->spans[i];

		emit_entry(engine->diag,
			   &(struct entry){ .record_id = i,
					    .seq = span->id,
					    .op_id = span->id,
					    .count = span->bytes,
					    .created_ns = span->start_ns,
					    .started_ns = span->start_ns + span->queue_ns,
					    .done_ns = span->end_ns,
					    .p2p = true,
					    .ended = true,
					    .kind = span->kind == TWI_SPAN_SEND ? "send" : "recv",
					    .type = "Byte",
					    .status = tow_status_name(span->status),
					    .user_name = twi_tag_text(span->name),
					    .me = rank_of(engine),
					    .peer = peer_of(trace, span) },
			   offset, emit);
	}
}

/* Emits a group; members NULL: all ranks below size. */
static void emit_config(const char *name, const char *text, const uint32_t *members, uint32_t size,
			struct twi_emit *emit)
{
	struct twi_emit ranks = { 0 };

	twi_emit_object_begin(emit, name);
	twi_emit_str(emit, "name", name);
	twi_emit_str(emit, "desc", text);
	for (uint32_t i = 0; i < size; i++)
		twi_emit_raw(&ranks, "%s%u", i > 0 ? ", " : "[", members != NULL ? members[i] : i);
	twi_emit_raw(&ranks, "]");
	twi_emit_str(emit, "ranks", ranks.text != NULL ? ranks.text : "[]");
	twi_emit_fini(&ranks);
	twi_emit_object_end(emit);
}

static void emit_members(struct twi_diag *diag, const struct twi_series *series,
			 struct twi_emit *emit)
{
	char name[24], text[TEXT];

	name_group(diag, series->ctx, name, text);
	emit_config(name, text, series->members, series->size, emit);
}

static void emit_status(struct twi_diag *diag, const struct twi_series *series,
			struct twi_emit *emit)
{
	char name[24], text[TEXT];

	name_group(diag, series->ctx, name, text);
	twi_emit_object_begin(emit, name);
	twi_emit_u64(emit, "last_enqueued_collective", series->next_seq - 1);
	twi_emit_u64(emit, "last_started_collective", series->next_seq - 1);
	twi_emit_u64(emit, "last_completed_collective", series->finished);
	twi_emit_object_end(emit);
}

/* Emits all series; of barriers only those with calls. */
static void emit_groups(const struct twi_engine *engine, bool status, struct twi_emit *emit)
{
	struct twi_list *pos, *next;

	twi_emit_object_begin(emit, status ? "pg_status" : "pg_config");
	twi_list_for_each_safe (pos, next, &engine->series) {
		const struct twi_series *series = twi_container_of(pos, struct twi_series, link);

		if (twi_series_is_barriers(series) && series->next_seq == 1)
			continue;
		if (status)
			emit_status(engine->diag, series, emit);
		else
			emit_members(engine->diag, series, emit);
	}
	if (!status && ranks_of(engine) != NULL)
		emit_config(MESSAGES_GROUP, MESSAGES_GROUP, NULL, ranks_of(engine)->size, emit);
	twi_emit_object_end(emit);
}

void twi_flight_emit(struct twi_engine *engine, struct twi_emit *emit)
{
	const struct twi_coll_log *log;
	uint64_t offset = twi_flight_unix_offset(engine), first;
	struct ended ended = { .count = 0 };
	struct twi_trace trace = { 0 };

	/* Without memory, messages that have ended are left out. */
	if (twi_trace_read(engine->diag, 0, &trace) == TOW_OK && trace.rank_count > 0)
		choose_ended(&trace.ranks[0], &ended);
	twi_engine_enter(engine);
	log = engine->coll_log;
	twi_emit_str(emit, "version", VERSION);
	twi_emit_str(emit, "comm_lib_version", tow_version());
	twi_emit_i64(emit, "rank", engine->knobs.rank);
	emit_groups(engine, false, emit);
	emit_groups(engine, true, emit);
	twi_emit_array_begin(emit, "entries");
	first = log != NULL && log->last > TWI_COLL_RECORDS ? log->last - TWI_COLL_RECORDS + 1 : 1;
	for (uint64_t id = first; log != NULL && id <= log->last; id++) {
		const struct twi_coll_record *record = &log->rows[id % TWI_COLL_RECORDS];

		if (record->id == id)
			emit_record(engine, record, offset, emit);
	}
	emit_all_barriers(engine, offset, emit);
	if (ended.count > 0)
		emit_ended(engine, &trace.ranks[0], &ended, offset, emit);
	emit_messages(engine, offset, emit);
	twi_emit_array_end(emit);
	twi_engine_leave(engine);
	twi_trace_fini(&trace);
}

void twi_flight_describe(void *arg, struct twi_emit *emit)
{
	twi_flight_emit(arg, emit);
}
