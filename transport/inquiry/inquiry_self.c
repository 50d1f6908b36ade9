/*
 * inquiry_self.c - makes this rank's state when it is requested.
 *
 * Nothing of it is maintained in between, except the records of collectives and waits.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "diag/base/cgroup.h"
#include "diag/base/hash.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "memreg/pool/pool.h"
#include "transport/coll/coll_report.h"
#include "transport/coll/coll_run.h"
#include "transport/engine/engine.h"
#include "transport/engine/engine_drive.h"
#include "transport/foreign/foreign.h"
#include "transport/inquiry/inquiry.h"
#include "transport/job/group.h"
#include "transport/op/endpoint.h"

#define FRESH_NS       50000000ull
#define COLL_GROUPS    (TWI_STATE_GROUPS - 2u) /* the rest is for barriers */
#define FOREIGN_GROUPS (TWI_STATE_GROUPS - 1u) /* and groups of other libraries */
#define THREADS_MAX    256u

static bool add_thread(const char *tid, struct twi_rank_state *out)
{
	uint64_t ran, waited;

	if (!twi_cpu_read(tid, &ran, &waited))
		return false;
	out->on_cpu_ns += ran;
	out->run_queue_ns += waited;
	return true;
}

/*
 * Adds the times of the thread that waits for collectives: it comes late to them when it gets no
 * CPU. If there is none, adds all threads, though the library's own and others may run for other
 * reasons.
 */
static void add_threads(const struct twi_engine *engine, struct twi_rank_state *out)
{
	const struct dirent *entry;
	unsigned count = 0;
	char tid[16];
	DIR *tasks;

	snprintf(tid, sizeof(tid), "%d", engine->cpu_log.thread);
	if (engine->cpu_log.thread != 0 && add_thread(tid, out)) {
		out->thread = (uint32_t)engine->cpu_log.thread;
		twi_cpu_log_tell(&engine->cpu_log, out);
		return;
	}
	tasks = opendir("/proc/self/task");
	while (tasks != NULL && count++ < THREADS_MAX && (entry = readdir(tasks)) != NULL) {
		if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9')
			add_thread(entry->d_name, out);
	}
	if (tasks != NULL)
		closedir(tasks);
}

/* Adds views whose message has arrived but that have no memory for it, from the engine's list. */
static void add_roomless(const struct twi_engine *engine, struct twi_rank_state *out)
{
	const struct twi_list *roomless = &engine->parts[TWI_PART_VIEWS].items;
	const struct tow_op *first;
	uint32_t count = 0;

	for (const struct twi_list *at = roomless->next; at != roomless; at = at->next)
		count++;
	if (count == 0)
		return;
	if (out->pool_waiters == 0 || engine->room.since_ns < out->pool_since_ns) {
		first = twi_container_of(roomless->next, struct tow_op, seq_link);
		out->pool_since_ns = engine->room.since_ns;
		out->pool_wanted_bytes = first->result_bytes;
	}
	out->pool_waiters += count;
}

static void add_pool(const struct twi_engine *engine, struct twi_rank_state *out)
{
	struct twi_pool_stats stats;

	twi_pool_stats(engine->pool, &stats);
	out->pool_bytes = stats.mapped;
	out->pool_free_bytes = stats.free;
	out->pool_wait_ns = twi_counter_sum(engine->diag, TWI_C_pool_wait_ns);
	out->pool_overflows = twi_counter_sum(engine->diag, TWI_C_pool_overflow_allocs);
	out->pool_overflow_bytes = twi_counter_sum(engine->diag, TWI_C_pool_overflow_bytes);
	out->pool_waiters = atomic_load_explicit(&engine->room.waiters, memory_order_relaxed);
	out->pool_since_ns =
		atomic_load_explicit(&engine->room.waiter_since_ns, memory_order_relaxed);
	out->pool_wanted_bytes =
		atomic_load_explicit(&engine->room.waiter_bytes, memory_order_relaxed);
	add_roomless(engine, out);
}

/*
 * Adds the last calls, newest first. A call with number next_seq was refused, as the group has
 * failed.
 */
static void add_past(const struct twi_series *series, struct twi_state_group *out)
{
	for (uint64_t seq = series->next_seq; seq > 0 && out->past_count < TWI_STATE_PAST; seq--) {
		const struct twi_state_past *past = &series->past[seq % TWI_STATE_PAST];

		if (past->seq == seq)
			out->past[out->past_count++] = *past;
	}
	for (uint32_t i = 1; i <= TWI_STATE_HEADS && i <= series->head_count; i++)
		out->heads[out->head_count++] =
			series->heads[(series->head_count - i) % TWI_STATE_HEADS];
	out->long_count = twi_series_longs(series, out->longs);
}

/* Returns the name of a collective that has ended; NULL: none is known. */
static const char *ended_name(const struct twi_engine *engine, uint32_t ctx, uint64_t seq)
{
	const struct twi_coll_log *log = engine->coll_log;

	for (uint32_t i = 0; log != NULL && i < TWI_COLL_RECORDS; i++) {
		const struct twi_coll_record *record = &log->rows[i];

		if (record->named && record->ctx == ctx && record->seq == seq)
			return record->name;
	}
	return NULL;
}

/* Returns the user's name of collective `seq`; NULL: it has none. */
static const char *name_of(const struct twi_engine *engine, uint32_t ctx, uint64_t seq)
{
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &engine->coll_groups) {
		struct twi_coll_group *coll = twi_container_of(pos, struct twi_coll_group, all);
		const struct twi_coll_run *run =
			coll->ctx == ctx ? twi_coll_run_of(coll, seq) : NULL;

		if (run != NULL)
			return run->name[0] != '\0' ? run->name : NULL;
	}
	return ended_name(engine, ctx, seq);
}

static uint32_t hash_of(const char *name)
{
	return (uint32_t)twi_hash_spread(twi_hash_text(name)) | 1;
}

/*
 * Adds the names of the last calls. Ranks with different names at one number have made different
 * numbers of calls.
 */
static void add_call_names(const struct twi_engine *engine, struct twi_state_group *out)
{
	const struct twi_coll_log *log = engine->coll_log;

	for (uint32_t i = 0; log != NULL && i < TWI_COLL_RECORDS; i++) {
		const struct twi_coll_record *record = &log->rows[i];

		if (!record->named || record->ctx != out->ctx)
			continue;
		for (uint32_t k = 0; k < out->past_count; k++)
			if (out->past[k].seq == record->seq)
				out->past[k].name = hash_of(record->name);
	}
}

/* Adds the group's label, and the name of the call that a thread may wait in. */
static void add_names(const struct twi_engine *engine, const struct twi_series *series,
		      struct twi_state_group *out)
{
	uint64_t seq = series->broken_seq;
	const char *name = NULL;

	twi_label_read(engine->diag, series->ctx & ~TWI_STATE_BARRIERS, out->label);
	add_call_names(engine, out);
	if (seq == 0 && series->in_flight > 0)
		seq = series->finished + 1;
	if (seq > 0 && !twi_series_is_barriers(series))
		name = name_of(engine, series->ctx, seq);
	if (name == NULL)
		return;
	out->call_seq = seq;
	snprintf(out->call, sizeof(out->call), "%s", name);
}

/* True when for all groups with bursts it is known which callers have waited in them. */
static bool waits_known(const struct twi_engine *engine)
{
	struct twi_list *pos, *next;
	bool any = false;

	twi_list_for_each_safe (pos, next, &engine->series) {
		const struct twi_series *series = twi_container_of(pos, struct twi_series, link);

		if (twi_series_is_barriers(series) || series->head_count == 0)
			continue;
		if (!twi_series_measured(series))
			return false;
		any = true;
	}
	return any;
}

static void add_one(const struct twi_engine *engine, const struct twi_series *series, uint32_t room,
		    struct twi_rank_state *out)
{
	struct twi_state_group *group;

	if (out->group_count >= room) {
		out->cut |= series->next_seq > 1;
		return;
	}
	group = &out->groups[out->group_count++];
	*group = (struct twi_state_group){ .ctx = series->ctx,
					   .rank = series->rank,
					   .size = series->size,
					   .broken = series->broken,
					   .in_flight = series->in_flight,
					   .last_seq = series->next_seq - 1,
					   .broken_seq = series->broken_seq };
	snprintf(group->why, sizeof(group->why), "%.*s", (int)sizeof(group->why) - 1, series->why);
	add_past(series, group);
	add_names(engine, series, group);
}

/* Returns the order of a series: with calls under way, with calls before, without calls. */
static unsigned turn_of(const struct twi_series *series)
{
	return series->in_flight > 0 ? 0 : series->next_seq > 1 ? 1 : 2;
}

/* Adds series, those in use first. Collectives get at most COLL_GROUPS rows: two are for others. */
static void add_series(const struct twi_engine *engine, bool barriers, uint32_t room,
		       struct twi_rank_state *out)
{
	for (unsigned turn = 0; turn < 3; turn++) {
		struct twi_list *pos, *next;

		twi_list_for_each_safe (pos, next, &engine->series) {
			const struct twi_series *series =
				twi_container_of(pos, struct twi_series, link);

			if (twi_series_is_barriers(series) == barriers && turn_of(series) == turn)
				add_one(engine, series, room, out);
		}
	}
}

/* --- connections --- */

static void look_at(const struct twi_slot *slot, uint32_t rank, uint64_t now_ns, char *fabric,
		    struct twi_state_link *out)
{
	struct tow_peer *peer = slot->peer;

	*out = (struct twi_state_link){
		.rank = rank,
		.lane = (uint8_t)peer->lane->ops->id,
		.flags = slot->lost ? TWI_LINK_LOST : TWI_LINK_UP,
		.carried_out = twi_carried_tell(&peer->carried_out, now_ns),
		.carried_in = twi_carried_tell(&peer->carried_in, now_ns),
		.called = peer->called,
	};
	if (peer->said_bye)
		out->flags |= TWI_LINK_BYE;
	if (peer->lane->ops->peer_measure != NULL)
		peer->lane->ops->peer_measure(peer, out, fabric);
}

/* Returns how important a link is for the report. */
static uint64_t link_trouble(const struct twi_state_link *link)
{
	return (uint64_t)((link->flags & (TWI_LINK_BROKEN | TWI_LINK_LOST)) != 0) << 63 |
	       (uint64_t)(link->backoffs > 0) << 62 |
	       (uint64_t)((link->flags & (TWI_LINK_NO_CREDIT | TWI_LINK_HOLDS)) != 0) << 61 |
	       (uint64_t)(link->retransmits > 0) << 60 | (link->busy_us & ~(15ull << 60));
}

/* Keeps the links with the most trouble, in that order. */
static void add_link(const struct twi_state_link *link, struct twi_rank_state *out)
{
	uint32_t at = out->link_count;

	if (at == TWI_STATE_LINKS && link_trouble(&out->links[at - 1]) >= link_trouble(link))
		return;
	if (at < TWI_STATE_LINKS)
		out->link_count++;
	else
		at--;
	for (; at > 0 && link_trouble(&out->links[at - 1]) < link_trouble(link); at--)
		out->links[at] = out->links[at - 1];
	out->links[at] = *link;
}

static void add_links(const struct twi_ranks *ranks, struct twi_rank_state *out)
{
	for (uint32_t i = 0; ranks != NULL && i < ranks->size; i++) {
		struct twi_state_link link;

		if (ranks->slots[i].state != TWI_SLOT_UP || ranks->slots[i].peer == NULL)
			continue;
		look_at(&ranks->slots[i], i, out->now_ns, out->fabric, &link);
		add_link(&link, out);
	}
}

/* Adds streams of the links with the most trouble, as the links are in that order. */
static void add_streams(const struct twi_ranks *ranks, struct twi_rank_state *out)
{
	for (uint32_t i = 0; i < out->link_count; i++) {
		uint32_t rank = out->links[i].rank, count = 0;
		struct tow_peer *peer = ranks->slots[rank].peer;
		struct twi_state_stream *rows = &out->streams[out->stream_count];

		if (peer->lane->ops->peer_streams != NULL)
			count = peer->lane->ops->peer_streams(
				peer, rows, TWI_STATE_STREAMS - out->stream_count);
		for (uint32_t k = 0; k < count; k++)
			rows[k].rank = rank;
		out->stream_count += count;
	}
}

/* --- connections that are not made yet --- */

/* True when dial `a` goes first: an operation waits for it, or else it began before the other. */
static bool goes_before(const struct twi_state_dial *a, const struct twi_state_dial *b)
{
	return a->wanted != b->wanted ? a->wanted > b->wanted : a->since_ns < b->since_ns;
}

static void add_dial(const struct twi_state_dial *dial, struct twi_rank_state *out)
{
	uint32_t at = out->dial_count;

	if (at == TWI_STATE_DIALS && !goes_before(dial, &out->dials[at - 1]))
		return;
	if (at < TWI_STATE_DIALS)
		out->dial_count++;
	else
		at--;
	for (; at > 0 && goes_before(dial, &out->dials[at - 1]); at--)
		out->dials[at] = out->dials[at - 1];
	out->dials[at] = *dial;
}

static void add_dials(const struct twi_ranks *ranks, struct twi_rank_state *out)
{
	for (uint32_t i = 0; ranks != NULL && i < ranks->size; i++) {
		struct twi_state_dial dial;

		if (i != ranks->rank && twi_tries_tell(ranks, i, out->now_ns, &dial))
			add_dial(&dial, out);
	}
}

/* Returns the job of this runtime, if it has met any rank of it. */
static struct twi_ranks *ranks_of(const struct twi_engine *engine)
{
	const struct twi_list *pos = twi_list_first(&engine->coll_groups);

	if (pos != NULL)
		return twi_container_of(pos, struct twi_coll_group, all)->ranks;
	pos = twi_list_first(&engine->inquiry->lines);
	return pos != NULL ? twi_container_of(pos, struct twi_inquiry_line, link)->ear.ranks : NULL;
}

const struct twi_rank_state *twi_inquiry_self(struct twi_inquiry *inquiry)
{
	struct twi_engine *engine = inquiry->engine;
	const struct twi_ranks *ranks = ranks_of(engine);
	uint64_t now = twi_engine_clock(engine);
	struct twi_rank_state *out = inquiry->own;

	twi_assert_held(engine);
	if (out != NULL && now - inquiry->own_ns < FRESH_NS)
		return out;
	if (out == NULL)
		out = inquiry->own = malloc(sizeof(*out));
	if (out == NULL)
		return NULL;
	twi_clock_steer();
	inquiry->own_ns = now;
	*out = (struct twi_rank_state){
		.rank = ranks != NULL ? ranks->rank : engine->knobs.rank,
		.world = ranks != NULL ? ranks->size : 1,
		.boot = inquiry->engine->self.boot,
		.pid_namespace = inquiry->engine->self.pid_namespace,
		.pid = inquiry->engine->self.pid,
		.pid_start = inquiry->engine->self.pid_start,
		.time_namespace = inquiry->engine->self.time_namespace,
		.now_ns = now,
		.lost = atomic_load_explicit(&engine->diag->lost, memory_order_relaxed),
		.step = twi_step_number(&inquiry->engine->step),
	};
	gethostname(out->host, sizeof(out->host) - 1);
	add_threads(engine, out);
	twi_cgroup_throttled("", &out->throttled_ns);
	add_pool(engine, out);
	add_series(engine, false, COLL_GROUPS, out);
	twi_foreign_tell(engine, now, FOREIGN_GROUPS, out);
	add_series(engine, true, TWI_STATE_GROUPS, out);
	twi_inquiry_waits(engine, ranks, out);
	if (waits_known(engine))
		out->tells |= TWI_TELLS_WAITED;
	add_links(ranks, out);
	add_streams(ranks, out);
	add_dials(ranks, out);
	twi_held_tell(&inquiry->held, now, out);
	return out;
}
