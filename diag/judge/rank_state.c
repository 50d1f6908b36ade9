/*
 * rank_state.c - encodes and decodes states. One walk over the members serves both directions, so
 * they cannot differ. Numbers are little-endian; a text is its length in one byte, then its bytes.
 */
#include "diag/judge/rank_state.h"

#include <string.h>

#include <internal/base.h>

#define MAGIC 0x53524f54u /* "TORS" */

struct walk {
	uint8_t *out;      /* NULL: reading */
	const uint8_t *in; /* NULL: writing */
	size_t at, bytes;
	bool bad;
};

static uint64_t walk_number(struct walk *w, uint64_t value, unsigned bytes)
{
	uint64_t read = 0;

	if (w->bad || w->bytes - w->at < bytes) {
		w->bad = true;
		return w->out != NULL ? value : 0; /* the value that is encoded does not change */
	}
	for (unsigned i = 0; i < bytes; i++) {
		if (w->out != NULL)
			w->out[w->at + i] = (uint8_t)(value >> 8 * i);
		else
			read |= (uint64_t)w->in[w->at + i] << 8 * i;
	}
	w->at += bytes;
	return w->out != NULL ? value : read;
}

static void walk_u64(struct walk *w, uint64_t *value)
{
	*value = walk_number(w, *value, 8);
}

static void walk_u32(struct walk *w, uint32_t *value)
{
	*value = (uint32_t)walk_number(w, *value, 4);
}

static void walk_u8(struct walk *w, uint8_t *value)
{
	*value = (uint8_t)walk_number(w, *value, 1);
}

/* The number of rows that follow: at most `most`. */
static void walk_count(struct walk *w, uint32_t *value, uint32_t most)
{
	walk_u32(w, value);
	if (*value <= most)
		return;
	w->bad = true;
	*value = 0;
}

static void walk_text(struct walk *w, char *value, size_t room)
{
	uint8_t bytes = w->out != NULL ? (uint8_t)strnlen(value, room - 1) : 0;

	walk_u8(w, &bytes);
	if (w->bad || bytes >= room) {
		w->bad = true;
		return;
	}
	for (unsigned i = 0; i < bytes; i++) {
		uint8_t byte = (uint8_t)value[i];

		walk_u8(w, &byte);
		if (w->in != NULL)
			value[i] = byte >= ' ' && byte < 0x7f ? (char)byte : '?';
	}
	if (w->in != NULL)
		value[bytes] = '\0';
}

static void walk_past(struct walk *w, struct twi_state_past *past)
{
	uint8_t status = (uint8_t)past->status;

	walk_u64(w, &past->seq);
	walk_u64(w, &past->signature);
	walk_u64(w, &past->bytes);
	walk_u64(w, &past->start_ns);
	walk_u64(w, &past->done_ns);
	walk_u8(w, &past->kind);
	walk_u8(w, &past->type);
	walk_u8(w, &status);
	past->status = (int8_t)status;
}

static void walk_group(struct walk *w, struct twi_state_group *group)
{
	uint32_t broken = (uint32_t)group->broken;
	uint8_t reserved = 0;

	walk_u32(w, &group->ctx);
	walk_u32(w, &group->rank);
	walk_u32(w, &group->size);
	walk_u8(w, &reserved);
	walk_u32(w, &broken);
	group->broken = (int32_t)broken;
	walk_u32(w, &group->in_flight);
	walk_u64(w, &group->last_seq);
	walk_u64(w, &group->broken_seq);
	walk_text(w, group->why, sizeof(group->why));
	walk_count(w, &group->past_count, TWI_STATE_PAST);
	for (uint32_t i = 0; !w->bad && i < group->past_count; i++)
		walk_past(w, &group->past[i]);
}

static void walk_wait(struct walk *w, struct twi_state_wait *wait)
{
	walk_u8(w, &wait->kind);
	walk_u8(w, &wait->stage);
	walk_u32(w, &wait->ctx);
	walk_u32(w, &wait->rank);
	walk_u64(w, &wait->seq);
	walk_u64(w, &wait->tag);
	walk_u64(w, &wait->bytes);
	walk_u64(w, &wait->moved);
	walk_u64(w, &wait->since_ns);
}

static void walk_link(struct walk *w, struct twi_state_link *link)
{
	walk_u32(w, &link->rank);
	walk_u32(w, &link->flags);
	walk_u8(w, &link->lane);
	walk_u64(w, &link->unsent_bytes);
	walk_u64(w, &link->unacked_bytes);
	walk_u32(w, &link->waiting_sends);
	walk_u32(w, &link->pending_ops);
	walk_u64(w, &link->silent_ns);
	walk_u64(w, &link->stuck_ns);
	walk_u32(w, &link->heard_segments);
	walk_u32(w, &link->backoffs);
	walk_u32(w, &link->retransmits);
	walk_u32(w, &link->spurious);
	walk_u32(w, &link->segments_out);
	walk_u32(w, &link->segments_in);
	walk_u32(w, &link->rtt_us);
	walk_u32(w, &link->send_window);
	walk_u32(w, &link->send_buffer);
	walk_u32(w, &link->receive_buffer);
	walk_u64(w, &link->busy_us);
	walk_u64(w, &link->rwnd_limited_us);
	walk_u64(w, &link->sndbuf_limited_us);
}

static void walk_self(struct walk *w, struct twi_rank_state *state)
{
	uint8_t cut = state->cut;

	walk_u32(w, &state->rank);
	walk_u32(w, &state->world);
	walk_text(w, state->host, sizeof(state->host));
	walk_text(w, state->fabric, sizeof(state->fabric));
	walk_u64(w, &state->boot);
	walk_u64(w, &state->pid_namespace);
	walk_u64(w, &state->pid);
	walk_u64(w, &state->pid_start);
	walk_u64(w, &state->now_ns);
	walk_u64(w, &state->step);
	walk_u64(w, &state->on_cpu_ns);
	walk_u64(w, &state->run_queue_ns);
	walk_u32(w, &state->thread);
	walk_count(w, &state->cpu_count, TWI_STATE_CPUS);
	for (uint32_t i = 0; !w->bad && i < state->cpu_count; i++) {
		walk_u64(w, &state->cpus[i].at_ns);
		walk_u64(w, &state->cpus[i].on_cpu_ns);
		walk_u64(w, &state->cpus[i].run_queue_ns);
	}
	walk_u32(w, &state->waiters);
	walk_u64(w, &state->pool_bytes);
	walk_u64(w, &state->pool_free_bytes);
	walk_u64(w, &state->pool_wait_ns);
	walk_u32(w, &state->pool_waiters);
	walk_u64(w, &state->pool_since_ns);
	walk_u64(w, &state->pool_wanted_bytes);
	walk_u32(w, &state->copies);
	walk_u64(w, &state->copy_since_ns);
	walk_u64(w, &state->lost);
	walk_u8(w, &cut);
	state->cut = cut != 0;
}

static void walk_flow(struct walk *w, struct twi_state_flow *flow)
{
	walk_u32(w, &flow->ctx);
	walk_u32(w, &flow->peer);
	walk_u8(w, &flow->sends);
	walk_u64(w, &flow->window_ns);
	walk_u64(w, &flow->messages);
	walk_u64(w, &flow->bytes);
	walk_u64(w, &flow->device_ns);
	walk_u64(w, &flow->peer_ns);
	walk_u64(w, &flow->wire_ns);
}

/* Names of groups and of a call of each, in the order of the groups; messages of foreign groups. */
static void walk_foreign(struct walk *w, struct twi_rank_state *state)
{
	for (uint32_t i = 0; !w->bad && i < state->group_count; i++) {
		struct twi_state_group *group = &state->groups[i];

		walk_text(w, group->name, sizeof(group->name));
		walk_text(w, group->label, sizeof(group->label));
		walk_u64(w, &group->call_seq);
		walk_text(w, group->call, sizeof(group->call));
		walk_count(w, &group->local_count, TWI_STATE_LOCALS);
		for (uint32_t k = 0; !w->bad && k < group->local_count; k++)
			walk_u32(w, &group->locals[k]);
	}
	walk_count(w, &state->flow_count, TWI_STATE_FLOWS);
	for (uint32_t i = 0; !w->bad && i < state->flow_count; i++)
		walk_flow(w, &state->flows[i]);
}

static void walk_head(struct walk *w, struct twi_state_head *head)
{
	walk_u64(w, &head->seq);
	walk_u64(w, &head->start_ns);
	walk_u64(w, &head->idle_ns);
	walk_u8(w, &head->waited);
}

/* The heads are in the order of the groups. */
static void walk_heads(struct walk *w, struct twi_rank_state *state)
{
	walk_u64(w, &state->time_namespace);
	for (uint32_t i = 0; !w->bad && i < state->group_count; i++) {
		struct twi_state_group *group = &state->groups[i];

		walk_count(w, &group->head_count, TWI_STATE_HEADS);
		for (uint32_t k = 0; !w->bad && k < group->head_count; k++)
			walk_head(w, &group->heads[k]);
	}
}

/* Messages under way, beside the waits of threads, and what shows whether anything goes on. */
static void walk_messages(struct walk *w, struct twi_rank_state *state)
{
	walk_u8(w, &state->tells);
	walk_u64(w, &state->ended);
	walk_u64(w, &state->polls);
	walk_u64(w, &state->usual_ns);
	walk_u64(w, &state->throttled_ns);
	walk_count(w, &state->message_count, TWI_STATE_MESSAGES);
	walk_count(w, &state->stray_count, TWI_STATE_STRAYS);
	for (uint32_t i = 0; !w->bad && i < state->message_count; i++)
		walk_wait(w, &state->messages[i]);
	for (uint32_t i = 0; !w->bad && i < state->stray_count; i++) {
		walk_u32(w, &state->strays[i].rank);
		walk_u32(w, &state->strays[i].channel);
		walk_u64(w, &state->strays[i].seq);
		walk_u64(w, &state->strays[i].tag);
		walk_u64(w, &state->strays[i].bytes);
	}
}

static void walk_waited(struct walk *w, struct twi_state_waited *waited)
{
	walk_u64(w, &waited->window_ns);
	for (uint32_t i = 0; i < TWI_WAITED_KINDS; i++)
		walk_u64(w, &waited->ns[i]);
	walk_u32(w, &waited->waits);
	walk_u32(w, &waited->steps);
	walk_u64(w, &waited->step_ns);
	walk_u64(w, &waited->major_faults);
	walk_u64(w, &waited->read_bytes);
	walk_count(w, &waited->awaited_count, TWI_STATE_AWAITED);
	for (uint32_t i = 0; !w->bad && i < waited->awaited_count; i++) {
		walk_u32(w, &waited->awaited[i].rank);
		walk_u64(w, &waited->awaited[i].ns);
	}
}

static void walk_carried(struct walk *w, struct twi_state_carried *carried)
{
	walk_u32(w, &carried->window_ms);
	walk_u32(w, &carried->messages);
	walk_u64(w, &carried->bytes);
	walk_u64(w, &carried->wire_ns);
}

/* The figures of links are in the order of the links. */
static void walk_waits(struct walk *w, struct twi_rank_state *state)
{
	walk_u64(w, &state->throttled_at_ns);
	walk_u64(w, &state->throttled_then_ns);
	walk_waited(w, &state->lately);
	walk_waited(w, &state->longer);
	for (uint32_t i = 0; !w->bad && i < state->link_count; i++) {
		walk_carried(w, &state->links[i].carried_out);
		walk_carried(w, &state->links[i].carried_in);
		walk_u64(w, &state->links[i].called.total_ns);
		walk_u64(w, &state->links[i].called.wire_ns);
	}
}

/* Long bursts are in the order of the groups, credit is in the order of the links. */
static void walk_longs(struct walk *w, struct twi_rank_state *state)
{
	walk_u64(w, &state->pool_overflows);
	walk_u64(w, &state->pool_overflow_bytes);
	for (uint32_t i = 0; !w->bad && i < state->group_count; i++) {
		struct twi_state_group *group = &state->groups[i];

		for (uint32_t k = 0; !w->bad && k < group->past_count; k++)
			walk_u32(w, &group->past[k].name);
		walk_count(w, &group->long_count, TWI_STATE_LONGS);
		for (uint32_t k = 0; !w->bad && k < group->long_count; k++)
			walk_head(w, &group->longs[k]);
	}
	for (uint32_t i = 0; !w->bad && i < state->link_count; i++)
		walk_u64(w, &state->links[i].starved_ns);
}

static void walk_dials(struct walk *w, struct twi_rank_state *state)
{
	walk_count(w, &state->dial_count, TWI_STATE_DIALS);
	for (uint32_t i = 0; !w->bad && i < state->dial_count; i++) {
		struct twi_state_dial *dial = &state->dials[i];

		walk_u32(w, &dial->rank);
		walk_u8(w, &dial->lane);
		walk_u8(w, &dial->wanted);
		walk_u32(w, &dial->attempts);
		walk_u64(w, &dial->since_ns);
		walk_u64(w, &dial->syn_ns);
		walk_u32(w, &dial->syns);
		walk_u64(w, &dial->failed_ns);
		walk_u32(w, &dial->error);
		walk_text(w, dial->address, sizeof(dial->address));
	}
}

static void walk_streams(struct walk *w, struct twi_rank_state *state)
{
	walk_count(w, &state->stream_count, TWI_STATE_STREAMS);
	for (uint32_t i = 0; !w->bad && i < state->stream_count; i++) {
		struct twi_state_stream *stream = &state->streams[i];

		walk_u32(w, &stream->rank);
		walk_u8(w, &stream->stream);
		walk_u64(w, &stream->acked_bytes);
		walk_u64(w, &stream->busy_us);
		walk_u64(w, &stream->rwnd_limited_us);
		walk_text(w, stream->from_if, sizeof(stream->from_if));
		walk_text(w, stream->way, sizeof(stream->way));
	}
}

static void walk_held(struct walk *w, struct twi_rank_state *state)
{
	walk_count(w, &state->held_count, TWI_STATE_HELD);
	for (uint32_t i = 0; !w->bad && i < state->held_count; i++) {
		state->held[i].times = (uint16_t)walk_number(w, state->held[i].times, 2);
		state->held[i].ms = (uint16_t)walk_number(w, state->held[i].ms, 2);
	}
}

static void walk_state(struct walk *w, struct twi_rank_state *state, uint32_t form)
{
	uint32_t magic = MAGIC;

	walk_u32(w, &magic);
	walk_u32(w, &form);
	if (magic != MAGIC || form < TWI_STATE_FORM_BARE || form > TWI_STATE_FORM_HELD)
		w->bad = true;
	walk_self(w, state);
	walk_count(w, &state->group_count, TWI_STATE_GROUPS);
	walk_count(w, &state->wait_count, TWI_STATE_WAITS);
	walk_count(w, &state->link_count, TWI_STATE_LINKS);
	for (uint32_t i = 0; !w->bad && i < state->group_count; i++)
		walk_group(w, &state->groups[i]);
	for (uint32_t i = 0; !w->bad && i < state->wait_count; i++)
		walk_wait(w, &state->waits[i]);
	for (uint32_t i = 0; !w->bad && i < state->link_count; i++)
		walk_link(w, &state->links[i]);
	if (form >= TWI_STATE_FORM_NAMED)
		walk_foreign(w, state);
	if (form >= TWI_STATE_FORM_HEADS)
		walk_heads(w, state);
	if (form >= TWI_STATE_FORM_MESSAGES)
		walk_messages(w, state);
	if (form >= TWI_STATE_FORM_WAITED)
		walk_waits(w, state);
	if (form >= TWI_STATE_FORM_LONGS) {
		walk_longs(w, state);
		walk_dials(w, state);
		walk_streams(w, state);
	}
	if (form >= TWI_STATE_FORM_HELD)
		walk_held(w, state);
}

size_t twi_rank_state_encode(struct twi_rank_state *state, enum twi_state_form form, uint8_t *out,
			     size_t room)
{
	struct walk w = { .out = out, .bytes = room };

	walk_state(&w, state, form);
	return w.bad ? 0 : w.at;
}

bool twi_rank_state_decode(const uint8_t *in, size_t bytes, struct twi_rank_state *out)
{
	struct walk w = { .in = in, .bytes = bytes };

	*out = (struct twi_rank_state){ 0 };
	walk_state(&w, out, 0);
	return !w.bad && w.at == bytes;
}

const char *twi_wait_kind_name(uint8_t kind)
{
	switch (kind) {
#define ROW(id, number, name)                                                                      \
	case TWI_STATE_##id:                                                                       \
		return name;
		TWI_STATE_KIND_MAP(ROW)
#undef ROW
	default:
		return "other";
	}
}

const char *twi_waited_name(enum twi_waited kind)
{
	static const char *const names[TWI_WAITED_KINDS] = {
#define ROW(id, name) [TWI_WAITED_##id] = name,
		TWI_WAITED_MAP(ROW)
#undef ROW
	};

	return (unsigned)kind < TWI_WAITED_KINDS ? names[kind] : "unknown";
}

const struct twi_state_link *twi_rank_state_link(const struct twi_rank_state *state, uint32_t rank)
{
	for (uint32_t i = 0; state != NULL && i < state->link_count; i++) {
		if (state->links[i].rank == rank)
			return &state->links[i];
	}
	return NULL;
}

const struct twi_state_group *twi_rank_state_group(const struct twi_rank_state *state, uint32_t ctx)
{
	for (uint32_t i = 0; state != NULL && i < state->group_count; i++) {
		if (state->groups[i].ctx == ctx)
			return &state->groups[i];
	}
	return NULL;
}

uint32_t twi_state_group_covers(const struct twi_state_group *group)
{
	return twi_max(group->local_count, 1u);
}

bool twi_state_group_has(const struct twi_state_group *group, uint32_t rank)
{
	for (uint32_t i = 0; i < group->local_count; i++)
		if (group->locals[i] == rank)
			return true;
	return group->rank == rank;
}

const struct twi_state_past *twi_state_group_past(const struct twi_state_group *group, uint64_t seq)
{
	for (uint32_t i = 0; group != NULL && i < group->past_count; i++) {
		if (group->past[i].seq == seq)
			return &group->past[i];
	}
	return NULL;
}

const struct twi_state_head *twi_state_group_head(const struct twi_state_group *group, uint64_t seq)
{
	for (uint32_t i = 0; group != NULL && i < group->head_count; i++) {
		if (group->heads[i].seq == seq)
			return &group->heads[i];
	}
	for (uint32_t i = 0; group != NULL && i < group->long_count; i++) {
		if (group->longs[i].seq == seq)
			return &group->longs[i];
	}
	return NULL;
}
