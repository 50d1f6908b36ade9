/*
 * foreign.c - groups of other libraries, their collectives and messages. See foreign.h.
 *
 * Budget of begin, enter, end and message: one uncontended lock, some forty stores, one span, no
 * allocation, and the clock only if the caller gives no time.
 */
#include "transport/foreign/foreign.h"

#include <stdio.h>
#include <string.h>

#include <towline/coll.h>

#include "diag/base/cancel.h"
#include "diag/base/clock.h"
#include "diag/base/error.h"
#include "diag/base/hash.h"
#include "diag/base/sized.h"
#include "diag/record/counter.h"
#include "diag/record/span.h"
#include "diag/record/tag.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/op/op_span.h"

#define FOREIGN_SPAN_ID (1ull << 63) /* no message of this library has such an id */
#define PEER_TEXT       (TOW_FOREIGN_NAME_MAX + 16)

/* The public list of kinds has the numbers of the internal one. */
#define ASSERT_KIND(name, text)                                                                    \
	_Static_assert((int)TOW_FOREIGN_##name == (int)TWI_COLL_##name, "the same numbers");
TWI_COLL_MAP(ASSERT_KIND)
#undef ASSERT_KIND
_Static_assert((int)TOW_FOREIGN_KINDS == (int)TWI_COLL_KINDS, "the same kinds");
_Static_assert(TOW_FOREIGN_NAME_MAX == TWI_STATE_NAME, "a state has room for the name");

TOW_PUBLIC uint64_t tow_foreign_clock(void)
{
	return twi_now_ns();
}

static int check_group(const struct tow_foreign_group *group, const char *call)
{
	int status = twi_handle_check(group, TWI_HANDLE_FOREIGN, call);

	if (twi_unlikely(status < 0))
		return status;
	if (twi_unlikely(twi_engine_forked(group->engine)))
		return twi_error(TOW_EFORKED, "%s: this process is a forked child", call);
	return TOW_OK;
}

/* --- open, close --- */

/* The same at all ranks, and the number of no group of this library. */
static uint32_t group_number(uint64_t id)
{
	return TWI_STATE_FOREIGN | (uint32_t)(twi_hash_word(id) >> 34);
}

static void keep_name(struct tow_foreign_group *group, const char *name)
{
	size_t n = 0;

	for (; name != NULL && name[n] != '\0' && n + 1 < sizeof(group->name); n++)
		group->name[n] = name[n] >= ' ' && name[n] < 0x7f ? name[n] : '?';
	if (n == 0)
		snprintf(group->name, sizeof(group->name), "%016llx",
			 (unsigned long long)group->id);
	group->tag = twi_tag_name(group->name);
}

/* Whether the group can be opened beside those that are open: TOW_OK, or why not. Engine held. */
static int check_others(struct twi_engine *engine, const struct tow_foreign_options *options)
{
	struct twi_list *pos, *next;
	uint32_t count = 0;

	twi_list_for_each_safe (pos, next, &engine->foreign_groups) {
		const struct tow_foreign_group *other =
			twi_container_of(pos, struct tow_foreign_group, link);

		if (other->id == options->id && other->series.rank == options->rank)
			return twi_error(TOW_EINVAL,
					 "tow_foreign_open: rank %u of the group %016llx is open "
					 "already",
					 options->rank, (unsigned long long)options->id);
		count++;
	}
	if (count >= TOW_FOREIGN_GROUPS)
		return twi_error(TOW_EEXHAUSTED, "tow_foreign_open: %u groups are open", count);
	return TOW_OK;
}

static void group_free(struct tow_foreign_group *group)
{
	pthread_mutex_destroy(&group->lock);
	twi_handle_free(&group->handle, true);
}

TOW_PUBLIC int tow_foreign_open(struct tow_runtime *runtime,
				const struct tow_foreign_options *options,
				struct tow_foreign_group **group_out)
{
	TWI_UNCANCELED;
	int status = twi_runtime_check(runtime, "tow_foreign_open");
	struct tow_foreign_options room;
	struct tow_foreign_group *group;
	struct twi_engine *engine;

	if (group_out != NULL)
		*group_out = NULL;
	if (status < 0)
		return status;
	if (options == NULL || group_out == NULL)
		return twi_error(TOW_EINVAL, "tow_foreign_open: options and group_out are needed");
	if (TWI_SIZED_IN(tow_foreign_options, "tow_foreign_open", options, &room) < 0)
		return TOW_EINVAL;
	if (options->rank >= options->ranks)
		return twi_error(TOW_EINVAL, "tow_foreign_open: rank %u of %u ranks", options->rank,
				 options->ranks);
	group = twi_handle_alloc(TWI_HANDLE_FOREIGN, sizeof(*group));
	if (group == NULL)
		return twi_error(TOW_ENOMEM, "tow_foreign_open: no memory for a group");
	engine = twi_runtime_engine(runtime);
	group->engine = engine;
	group->id = options->id;
	pthread_mutex_init(&group->lock, NULL);
	keep_name(group, options->name);
	group->series = (struct twi_series){ .ctx = group_number(options->id),
					     .rank = options->rank,
					     .size = options->ranks,
					     .next_seq = 1,
					     .why = "" };
	twi_engine_enter(engine);
	status = check_others(engine, options);
	if (status == TOW_OK)
		twi_list_push_back(&engine->foreign_groups, &group->link);
	twi_engine_leave(engine);
	if (status < 0) {
		twi_handle_close(&group->handle);
		pthread_mutex_destroy(&group->lock);
		twi_handle_free(&group->handle, false);
		return status;
	}
	*group_out = group;
	return TOW_OK;
}

TOW_PUBLIC void tow_foreign_close(struct tow_foreign_group *group)
{
	TWI_UNCANCELED;
	struct twi_engine *engine;

	if (group == NULL || check_group(group, "tow_foreign_close") < 0)
		return;
	engine = group->engine;
	twi_engine_enter(engine);
	if (twi_handle_is(group, TWI_HANDLE_FOREIGN)) {
		twi_handle_close(&group->handle);
		twi_list_remove(&group->link);
		group_free(group);
	}
	twi_engine_leave(engine);
}

void twi_foreign_close_all(struct twi_engine *engine)
{
	struct twi_list *pos;

	twi_engine_enter(engine);
	while ((pos = twi_list_first(&engine->foreign_groups)) != NULL) {
		struct tow_foreign_group *group =
			twi_container_of(pos, struct tow_foreign_group, link);

		twi_handle_close(&group->handle);
		twi_list_remove(pos);
		group_free(group);
	}
	twi_engine_leave(engine);
}

/* --- collectives; functions that find or change rows need the group's lock --- */

static struct twi_foreign_row *row_of(struct tow_foreign_group *group, uint64_t seq)
{
	struct twi_foreign_row *row = &group->rows[seq % TWI_FOREIGN_ROWS];

	return row->seq == seq ? row : NULL;
}

/* Hashes what all ranks must agree on. In kinds with counts, the bytes of ranks may differ. */
static uint64_t signature_of(const struct twi_foreign_row *row)
{
	bool same = row->kind != TWI_COLL_ALL_GATHER_V && row->kind != TWI_COLL_ALL_TO_ALL_V &&
		    row->kind != TWI_COLL_GATHER && row->kind != TWI_COLL_SCATTER &&
		    row->kind != TWI_COLL_PERMUTE && row->kind != TWI_COLL_SEND_RECEIVE;
	const uint64_t parts[] = { row->kind, (uint64_t)row->type, (uint64_t)row->reduce,
				   (uint64_t)row->root, same ? row->bytes : 0 };
	uint64_t hash = TWI_HASH_BASIS;

	for (unsigned i = 0; i < twi_array_count(parts); i++)
		hash = twi_hash_mix(hash, parts[i]);
	return hash | 1; /* 0 means "none" */
}

/* Enters the collective: from here on other ranks see that this rank is in it. */
static void enter_row(struct tow_foreign_group *group, struct twi_foreign_row *row, uint64_t at_ns)
{
	struct twi_series *series = &group->series;
	struct twi_state_past *past = twi_series_past(series, row->seq);

	if (row->entered_ns != 0)
		return;
	row->entered_ns = twi_max(at_ns, row->start_ns);
	series->next_seq = twi_max(series->next_seq, row->seq + 1);
	if (past->seq >= row->seq)
		return;
	*past = (struct twi_state_past){ .seq = row->seq,
					 .signature = signature_of(row),
					 .bytes = row->bytes,
					 .start_ns = row->entered_ns,
					 .kind = row->kind,
					 .type = (uint8_t)row->type };
}

static void measure_row(struct twi_foreign_kind *kind, const struct twi_foreign_row *row)
{
	uint64_t ns = row->done_ns - row->entered_ns;

	kind->min_ns = kind->ended == 0 ? ns : twi_min(kind->min_ns, ns);
	kind->max_ns = twi_max(kind->max_ns, ns);
	kind->sum_ns += ns;
	kind->queue_ns += row->entered_ns - row->start_ns;
	kind->ended++;
}

static void end_row(struct tow_foreign_group *group, struct twi_foreign_row *row, uint64_t at_ns,
		    int status)
{
	struct twi_state_past *past = twi_series_past(&group->series, row->seq);

	enter_row(group, row, row->start_ns);
	row->done_ns = twi_max(at_ns, row->entered_ns);
	row->status = status;
	group->series.in_flight--;
	if (past->seq == row->seq) {
		past->done_ns = row->done_ns;
		past->status = (int8_t)status;
	}
	if (status >= 0)
		measure_row(&group->kinds[row->kind], row);
}

struct twi_span twi_foreign_span(const struct tow_foreign_group *group,
				 const struct twi_foreign_row *row)
{
	return (struct twi_span){
		.start_ns = row->start_ns,
		.end_ns = row->done_ns,
		.id = (uint64_t)group->series.ctx << 32 | (row->seq & UINT32_MAX),
		.parent = row->step,
		.bytes = row->bytes,
		.queue_ns = twi_span_between(row->start_ns, row->entered_ns),
		.ranks = group->series.size,
		.name = group->tag,
		.kind = TWI_SPAN_COLL,
		.lane = TWI_SPAN_NO_LANE,
		.detail = row->kind,
		.status = (int8_t)row->status,
	};
}

static void record_coll(const struct tow_foreign_group *group, const struct twi_foreign_row *row)
{
	const struct twi_span span = twi_foreign_span(group, row);

	twi_span_record(group->engine->diag, &span);
}

static int check_coll(const struct tow_foreign_coll *coll)
{
	if (coll->kind < 0 || coll->kind >= TOW_FOREIGN_KINDS)
		return twi_error(TOW_EINVAL,
				 "tow_foreign_coll_begin: kind %d is not a "
				 "collective",
				 coll->kind);
	if (coll->type < -1 || coll->type >= TOW_TYPE_COUNT)
		return twi_error(TOW_EINVAL,
				 "tow_foreign_coll_begin: type %d is not a "
				 "data type",
				 coll->type);
	if (coll->reduce < -1 || coll->reduce >= TOW_REDUCE_COUNT)
		return twi_error(TOW_EINVAL,
				 "tow_foreign_coll_begin: operator %d is not a "
				 "reduction",
				 coll->reduce);
	return TOW_OK;
}

/* The row of the next collective. The one that it replaces has ended long ago, or is given up. */
static struct twi_foreign_row *begin_row(struct tow_foreign_group *group,
					 const struct tow_foreign_coll *coll)
{
	uint64_t seq = group->begun + 1;
	struct twi_foreign_row *row = &group->rows[seq % TWI_FOREIGN_ROWS];

	if (row->seq != 0 && row->done_ns == 0) {
		group->series.in_flight--;
		twi_count(group->engine->diag, TWI_C_foreign_late, 1);
	}
	*row = (struct twi_foreign_row){ .seq = seq,
					 .bytes = coll->bytes,
					 .start_ns = coll->start_ns,
					 .root = coll->root,
					 .kind = (uint8_t)coll->kind,
					 .type = (int8_t)coll->type,
					 .reduce = (int8_t)coll->reduce };
	row->step = twi_step_number(&group->engine->step);
	snprintf(row->plan, sizeof(row->plan), "%s", coll->plan != NULL ? coll->plan : "");
	group->begun = seq;
	group->series.in_flight++;
	group->kinds[row->kind].calls++;
	group->kinds[row->kind].bytes += row->bytes;
	return row;
}

TOW_PUBLIC int tow_foreign_coll_begin(struct tow_foreign_group *group,
				      const struct tow_foreign_coll *coll, uint64_t *seq_out)
{
	int status = check_group(group, "tow_foreign_coll_begin");
	struct tow_foreign_coll room;
	struct twi_foreign_row *row;

	if (status < 0)
		return status;
	if (coll == NULL || seq_out == NULL)
		return twi_error(TOW_EINVAL, "tow_foreign_coll_begin: coll and seq_out are needed");
	if (TWI_SIZED_IN(tow_foreign_coll, "tow_foreign_coll_begin", coll, &room) < 0 ||
	    check_coll(coll) < 0)
		return TOW_EINVAL;
	pthread_mutex_lock(&group->lock);
	row = begin_row(group, coll);
	if (row->start_ns == 0)
		row->start_ns = twi_now_ns();
	*seq_out = row->seq;
	pthread_mutex_unlock(&group->lock);
	twi_count(group->engine->diag, TWI_C_foreign_colls, 1);
	return TOW_OK;
}

/* Checks that the collective was begun. */
static int check_seq(const struct tow_foreign_group *group, uint64_t seq, const char *call)
{
	if (seq == 0 || seq > group->begun)
		return twi_error(TOW_EINVAL, "%s: collective %llu was not begun", call,
				 (unsigned long long)seq);
	return TOW_OK;
}

TOW_PUBLIC int tow_foreign_coll_enter(struct tow_foreign_group *group, uint64_t seq, uint64_t at_ns)
{
	int status = check_group(group, "tow_foreign_coll_enter");
	struct twi_foreign_row *row;

	if (status < 0)
		return status;
	pthread_mutex_lock(&group->lock);
	status = check_seq(group, seq, "tow_foreign_coll_enter");
	row = status == TOW_OK ? row_of(group, seq) : NULL;
	if (row != NULL && row->entered_ns == 0)
		enter_row(group, row, at_ns != 0 ? at_ns : twi_now_ns());
	pthread_mutex_unlock(&group->lock);
	return status;
}

TOW_PUBLIC int tow_foreign_coll_end(struct tow_foreign_group *group, uint64_t seq, uint64_t at_ns,
				    int status)
{
	int checked = check_group(group, "tow_foreign_coll_end");
	struct twi_foreign_row *row, ended = { 0 };

	if (checked < 0)
		return checked;
	if (status > 0 || status < INT8_MIN)
		return twi_error(TOW_EINVAL, "tow_foreign_coll_end: %d is no status", status);
	pthread_mutex_lock(&group->lock);
	checked = check_seq(group, seq, "tow_foreign_coll_end");
	row = checked == TOW_OK ? row_of(group, seq) : NULL;
	if (row != NULL && row->done_ns == 0) {
		end_row(group, row, at_ns != 0 ? at_ns : twi_now_ns(), status);
		ended = *row;
	}
	pthread_mutex_unlock(&group->lock);
	if (ended.seq != 0)
		record_coll(group, &ended);
	return checked;
}

/* --- messages --- */

/* The flow of a peer and direction. NULL: the group has too many flows. */
static struct twi_foreign_flow *flow_of(struct tow_foreign_group *group, uint32_t peer, bool sends)
{
	struct twi_foreign_flow *flow = &group->flows[group->flow_last];
	char text[PEER_TEXT];

	if (group->flow_count > 0 && flow->peer == peer && flow->sends == sends)
		return flow;
	for (uint32_t i = 0; i < group->flow_count; i++) {
		flow = &group->flows[i];
		if (flow->peer == peer && flow->sends == sends) {
			group->flow_last = i;
			return flow;
		}
	}
	if (group->flow_count == TOW_FOREIGN_PEERS)
		return NULL;
	snprintf(text, sizeof(text), "%s/%u", group->name, peer);
	group->flow_last = group->flow_count++;
	flow = &group->flows[group->flow_last];
	flow->peer = peer;
	flow->sends = sends;
	flow->span_peer = twi_span_peer(group->engine->diag, text, -1);
	return flow;
}

static void add_figures(struct twi_foreign_figures *sum, const struct tow_foreign_message *message)
{
	sum->messages++;
	sum->bytes += message->bytes;
	sum->device_ns += message->device_ns;
	sum->peer_ns += message->peer_ns;
	sum->wire_ns += message->wire_ns;
}

static void add_message(struct twi_foreign_flow *flow, const struct tow_foreign_message *message,
			uint64_t end_ns)
{
	uint64_t age = end_ns > flow->bucket_ns ? end_ns - flow->bucket_ns : 0;

	if (age >= TWI_FOREIGN_BUCKET_NS) {
		flow->before = age < 2 * TWI_FOREIGN_BUCKET_NS ? flow->now
							       : (struct twi_foreign_figures){ 0 };
		flow->now = (struct twi_foreign_figures){ 0 };
		flow->bucket_ns = end_ns;
	}
	add_figures(&flow->all, message);
	add_figures(&flow->now, message);
}

void twi_foreign_recent(const struct twi_foreign_flow *flow, uint64_t now_ns,
			struct twi_foreign_figures *out, uint64_t *window_ns_out)
{
	uint64_t age = now_ns > flow->bucket_ns ? now_ns - flow->bucket_ns : 0;

	*out = (struct twi_foreign_figures){ 0 };
	*window_ns_out = age;
	if (age >= 2 * TWI_FOREIGN_BUCKET_NS)
		return; /* no message came lately */
	*out = flow->now;
	if (flow->before.messages == 0)
		return;
	out->messages += flow->before.messages;
	out->bytes += flow->before.bytes;
	out->device_ns += flow->before.device_ns;
	out->peer_ns += flow->before.peer_ns;
	out->wire_ns += flow->before.wire_ns;
	*window_ns_out += TWI_FOREIGN_BUCKET_NS;
}

static void record_message(const struct tow_foreign_group *group,
			   const struct tow_foreign_message *message, uint64_t end_ns,
			   uint64_t number, uint32_t span_peer)
{
	const uint64_t held = message->sends != 0 ? message->device_ns + message->peer_ns : 0;
	const struct twi_span span = {
		.start_ns = message->start_ns,
		.end_ns = twi_max(end_ns, message->start_ns),
		.id = FOREIGN_SPAN_ID | (uint64_t)group->series.ctx << 32 | (number & UINT32_MAX),
		.parent = message->seq == 0
				  ? 0
				  : (uint64_t)group->series.ctx << 32 | (message->seq & UINT32_MAX),
		.bytes = message->bytes,
		.queue_ns = twi_span_ns(held),
		.wire_ns = twi_span_ns(message->wire_ns),
		.match_ns = twi_span_ns(message->sends != 0 ? 0 : message->device_ns),
		.name = group->tag,
		.peer = span_peer,
		.kind = message->sends != 0 ? TWI_SPAN_SEND : TWI_SPAN_RECV,
		.lane = TWI_SPAN_NO_LANE,
		.detail = 3,
	};

	twi_span_record(group->engine->diag, &span);
}

TOW_PUBLIC int tow_foreign_message(struct tow_foreign_group *group,
				   const struct tow_foreign_message *message)
{
	int status = check_group(group, "tow_foreign_message");
	uint64_t end_ns, number;
	struct tow_foreign_message room;
	struct twi_foreign_flow *flow;
	uint32_t span_peer = 0;

	if (status < 0)
		return status;
	if (message == NULL)
		return twi_error(TOW_EINVAL, "tow_foreign_message: message is needed");
	if (TWI_SIZED_IN(tow_foreign_message, "tow_foreign_message", message, &room) < 0)
		return TOW_EINVAL;
	if (message->peer >= group->series.size || message->peer == group->series.rank)
		return twi_error(TOW_EINVAL,
				 "tow_foreign_message: peer %u is not another rank of the group "
				 "of %u",
				 message->peer, group->series.size);
	end_ns = message->end_ns != 0 ? message->end_ns : twi_now_ns();
	pthread_mutex_lock(&group->lock);
	number = ++group->messages;
	flow = flow_of(group, message->peer, message->sends != 0);
	if (flow != NULL) {
		add_message(flow, message, end_ns);
		span_peer = flow->span_peer;
	}
	pthread_mutex_unlock(&group->lock);
	twi_count(group->engine->diag, TWI_C_foreign_messages, 1);
	if (flow == NULL)
		twi_count(group->engine->diag, TWI_C_foreign_peers_left_out, 1);
	if (twi_span_chosen(group->engine->diag, message->bytes, number))
		record_message(group, message, end_ns, number, span_peer);
	return TOW_OK;
}
