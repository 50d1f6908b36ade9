/*
 * xspace_megascale.c - writes the plane of MegaScale's own trace for XProf's Megascale Viewer:
 * what each rank had under way, and which parts of it went over the network.
 *
 *	graph_key  device_1<rank's index, 5 digits>_gid_<rendezvous>$0^i0     a track
 *	events     named as the key before `$`: a collective, or a separate message
 *	           DeviceToHost, HostToDevice: when the data is handed over and back
 *	           NetworkSend END, NetworkReceive END: the end of a message
 *
 * XProf matches devices to TPUs by the order of their numbers, so every rank must have an event
 * here. Operations under way at once are on different tracks. A collective has its own rendezvous
 * (ops.h), and messages are laid on as many tracks as they need.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/trace/export/xspace.h"
#include "diag/trace/trace_view.h"

/* Tracks for a rank's messages. Messages beyond that overlap on the last one. */
#define LANES_MAX 64u
#define KEY_BYTES (TWI_RENDEZVOUS_BYTES + 48)

/* An item on a track: a collective, one of its messages, or a separate message. */
struct item {
	uint32_t track;
	const struct twi_span *span;
	bool is_part;
};

struct scale {
	const struct twi_ops *ops;
	const struct twi_deliveries *deliveries;
	const struct twi_trace_rank *rank;
	size_t index; /* of the rank */
	int64_t shift_ns;
	struct twi_plane plane;
	struct item *items;
	size_t count;
	uint64_t lanes[LANES_MAX];
	int64_t line;
	char key[KEY_BYTES], name[KEY_BYTES];
};

static bool is_message(const struct twi_span *span)
{
	return (span->kind == TWI_SPAN_SEND || span->kind == TWI_SPAN_RECV) && span->status >= 0;
}

/* The first free lane for a message. Spans must come by start. */
static uint32_t lane_of(struct scale *s, const struct twi_span *span)
{
	uint32_t lane = 0;

	while (lane < LANES_MAX - 1 && s->lanes[lane] > span->start_ns)
		lane++;
	s->lanes[lane] = twi_max(s->lanes[lane], span->end_ns);
	return lane;
}

static int by_start(const void *a, const void *b)
{
	const struct twi_span *x = ((const struct item *)a)->span;
	const struct twi_span *y = ((const struct item *)b)->span;

	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

/* By track and start; a collective comes before its messages. */
static int by_track(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	if (x->track != y->track)
		return x->track < y->track ? -1 : 1;
	if (x->span->start_ns != y->span->start_ns)
		return x->span->start_ns < y->span->start_ns ? -1 : 1;
	return x->is_part - y->is_part;
}

/* Gathers the messages. Their tracks are found later, when they are in order. */
static bool gather_spans(struct scale *s)
{
	size_t room = 0;

	for (size_t t = 0; t < s->rank->thread_count; t++)
		room += s->rank->threads[t].span_count;
	s->items = calloc(room + 1, sizeof(*s->items));
	for (size_t t = 0; s->items != NULL && t < s->rank->thread_count; t++) {
		const struct twi_trace_thread *thread = &s->rank->threads[t];

		for (size_t i = 0; i < thread->span_count; i++)
			if (is_message(&thread->spans[i]))
				s->items[s->count++].span = &thread->spans[i];
	}
	return s->items != NULL;
}

static void place_spans(struct scale *s)
{
	const struct twi_ops_rank *own = &s->ops->ranks[s->index];
	size_t messages = s->count;

	qsort(s->items, s->count, sizeof(*s->items), by_start);
	for (size_t i = 0; i < messages; i++) {
		struct item *item = &s->items[i];
		const struct twi_op_coll *coll = NULL;

		if (item->span->parent)
			coll = twi_ops_coll(own, item->span->parent, item->span->start_ns);
		item->is_part = coll != NULL && coll->rendezvous;
		item->track = item->is_part ? coll->rendezvous
					    : TWI_RENDEZVOUS_MAX + 1 + lane_of(s, item->span);
	}
	for (size_t i = 0; i < own->coll_count; i++)
		if (own->colls[i].rendezvous)
			s->items[s->count++] = (struct item){ .track = own->colls[i].rendezvous,
							      .span = own->colls[i].span };
	qsort(s->items, s->count, sizeof(*s->items), by_track);
}

static void name_track(struct scale *s, const char *rendezvous)
{
	snprintf(s->name, sizeof(s->name), "device_1%05zu_gid_%s", s->index % 100000, rendezvous);
	snprintf(s->key, sizeof(s->key), "device_1%05zu_gid_%s$0^i0", s->index % 100000,
		 rendezvous);
}

static void add_event(struct scale *s, const char *what, uint64_t start_ns, uint64_t took_ns,
		      struct twi_stats *stats)
{
	struct twi_event_name name = { .name = what };

	twi_stats_text(stats, TWI_STAT_GRAPH_KEY, s->key);
	twi_stats_i64(stats, TWI_STAT_LOCAL_DEVICE, (int64_t)s->index);
	twi_plane_event(&s->plane, twi_plane_event_name(&s->plane, &name),
			twi_show_at(start_ns, s->shift_ns), took_ns, stats);
}

/* Adds a point such as "DeviceToHost START". */
static void add_action(struct scale *s, const char *type, const char *end, uint64_t at_ns,
		       struct twi_stats *stats)
{
	char what[48];

	snprintf(what, sizeof(what), "%s %s", type, end);
	twi_stats_text(stats, TWI_STAT_ACTION_TYPE, type);
	twi_stats_text(stats, TWI_STAT_START_END, end);
	add_event(s, what, at_ns, 0, stats);
}

static void add_transfer(struct scale *s, const char *type, const char *end, uint64_t at_ns)
{
	struct twi_stats stats;

	stats.count = 0;
	twi_stats_i64(&stats, TWI_STAT_ACTION_INDEX, 0);
	add_action(s, type, end, at_ns, &stats);
}

/* Hands over when the start call ends, and back where the collective ends. Both are just within the
 * collective, as XProf takes a point at its end for the next one's. */
static void add_collective(struct scale *s, const struct twi_span *span)
{
	uint64_t took_ns = span->end_ns - span->start_ns;
	uint64_t last_ns = span->end_ns - (took_ns > 0);
	struct twi_stats stats;

	stats.count = 0;
	twi_stats_i64(&stats, TWI_STAT_INPUT_SIZE, (int64_t)span->bytes);
	twi_stats_i64(&stats, TWI_STAT_LAUNCH_ID, (int64_t)(span->id & UINT32_MAX));
	twi_stats_text(&stats, TWI_STAT_COLLECTIVE_TYPE, twi_show_coll_name(span->detail));
	add_event(s, s->name, span->start_ns, took_ns, &stats);
	add_transfer(s, "DeviceToHost", "START", span->start_ns);
	add_transfer(s, "DeviceToHost", "END",
		     span->start_ns + twi_min(last_ns - span->start_ns, (uint64_t)span->queue_ns));
	add_transfer(s, "HostToDevice", "START", last_ns);
	add_transfer(s, "HostToDevice", "END", last_ns);
}

/* The time from the first byte to the last. A small message comes all at once: then it is the time
 * on the way, if its sender is in the trace. */
static uint64_t wire_of(const struct scale *s, const struct twi_span *span)
{
	uint64_t took_ns = twi_span_ns(span);
	const struct twi_span *delivery;

	if (span->wire_ns)
		return twi_min(took_ns, (uint64_t)span->wire_ns);
	if (span->kind == TWI_SPAN_SEND)
		return took_ns;
	delivery = twi_delivery_of(s->deliveries, s->rank, span);
	return delivery != NULL ? delivery->wire_ns : took_ns - twi_span_part(span, span->queue_ns);
}

static void add_message(struct scale *s, const struct twi_span *span, int64_t index)
{
	bool sends = span->kind == TWI_SPAN_SEND;
	uint64_t wire_ns = wire_of(s, span);
	int64_t peer = twi_show_peer_rank(s->rank, span);
	struct twi_stats stats;
	char sizes[80];

	stats.count = 0;
	twi_stats_i64(&stats, TWI_STAT_ACTION_INDEX, index);
	twi_stats_i64(&stats, TWI_STAT_ACTION_DURATION, (int64_t)wire_ns);
	if (peer >= 0) {
		snprintf(sizes, sizeof(sizes), "s%lld->%lldd|$c0=%lld",
			 (long long)(sends ? s->rank->rank : peer),
			 (long long)(sends ? peer : s->rank->rank),
			 (long long)(span->bytes & INT64_MAX));
		twi_stats_text(&stats, TWI_STAT_BUFFER_SIZES, sizes);
	}
	if (!sends)
		twi_stats_u64(&stats, TWI_STAT_TRANSPORT_LATENCY,
			      wire_ns < 1000 ? 1 : (wire_ns + 500) / 1000);
	add_action(s, sends ? "NetworkSend" : "NetworkReceive", "END", span->end_ns, &stats);
}

static void add_own_message(struct scale *s, const struct twi_span *span)
{
	struct twi_stats stats;

	stats.count = 0;
	twi_stats_i64(&stats, TWI_STAT_INPUT_SIZE, (int64_t)span->bytes);
	twi_stats_text(&stats, TWI_STAT_COLLECTIVE_TYPE, twi_show_kind(span->kind));
	add_event(s, s->name, span->start_ns, span->end_ns - span->start_ns, &stats);
}

static void line_begin(struct scale *s, uint64_t start_ns, const char *rendezvous)
{
	char name[KEY_BYTES];

	name_track(s, rendezvous);
	snprintf(name, sizeof(name), "rank %lld %s", (long long)s->rank->rank, rendezvous);
	twi_plane_line_begin(&s->plane, ++s->line, name, NULL, twi_show_at(start_ns, s->shift_ns));
}

/* Writes all items of one track, from `first`; returns the first of the next track. */
static size_t add_track(struct scale *s, size_t first)
{
	uint32_t track = s->items[first].track;
	char name[32];
	int64_t index = 0;
	size_t i;

	snprintf(name, sizeof(name), "messages_%u", track - TWI_RENDEZVOUS_MAX);
	line_begin(s, s->items[first].span->start_ns,
		   track <= TWI_RENDEZVOUS_MAX ? s->ops->rendezvous[track].name : name);
	for (i = first; i < s->count && s->items[i].track == track; i++) {
		const struct item *item = &s->items[i];

		if (!is_message(item->span)) {
			add_collective(s, item->span);
			index = 0;
			continue;
		}
		if (!item->is_part)
			add_own_message(s, item->span);
		add_message(s, item->span, index++);
	}
	twi_plane_line_end(&s->plane);
	return i;
}

/* A rank with nothing to show still needs its number. */
static void add_nothing(struct scale *s)
{
	struct twi_stats stats;

	stats.count = 0;
	line_begin(s, s->rank->begin_ns, "nothing_0");
	add_event(s, s->name, s->rank->begin_ns, 0, &stats);
	twi_plane_line_end(&s->plane);
}

static void add_rank(struct scale *s, const struct twi_trace *trace)
{
	size_t room;

	s->count = 0;
	memset(s->lanes, 0, sizeof(s->lanes));
	s->rank = &trace->ranks[s->index];
	s->shift_ns = twi_show_shift_ns(trace, s->rank);
	if (!gather_spans(s)) {
		s->plane.out.failed = true;
		return;
	}
	room = s->count + s->ops->ranks[s->index].coll_count;
	if (room) {
		struct item *items = realloc(s->items, room * sizeof(*items));

		if (items == NULL)
			s->plane.out.failed = true;
		else
			s->items = items;
		if (items != NULL)
			place_spans(s);
	}
	for (size_t i = 0; i < s->count && !s->plane.out.failed;)
		i = add_track(s, i);
	if (s->count == 0)
		add_nothing(s);
	free(s->items);
	s->items = NULL;
}

void twi_xspace_megascale(const struct twi_trace *trace, const struct twi_ops *ops,
			  const struct twi_deliveries *deliveries, struct twi_packed *space)
{
	struct scale s = { .ops = ops, .deliveries = deliveries };

	twi_plane_init(&s.plane, 3, "/device:CUSTOM:Megascale Trace");
	for (s.index = 0; s.index < trace->rank_count; s.index++)
		add_rank(&s, trace);
	twi_plane_end(&s.plane, space);
	twi_plane_fini(&s.plane);
}
