/*
 * perfetto.c - Perfetto's own format, which ui.perfetto.dev and its trace processor (SQL) open.
 *
 *	process track (a rank) --- thread track: what blocks the thread, nested
 *	                       \-- "<thread> async" tracks: messages, calls, collectives
 *
 * Slices of one track must nest. So what overlaps goes to further tracks of the same name, which
 * the UI shows as one. A message's two sides are joined by a flow. Process and thread ids are
 * numbers of ours: those of several hosts would collide. Numbers of fields are Perfetto's,
 * protos/perfetto/trace.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/base/error.h"
#include "diag/base/hash.h"
#include "diag/record/lane_id.h"
#include "diag/trace/export/clean.h"
#include "diag/trace/export/pb.h"
#include "diag/trace/export/show.h"
#include "tools/trace/formats.h"

enum { TRACE_PACKET = 1 };
enum {
	PACKET_CLOCKS = 6,
	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE = 10,
	PACKET_EVENT = 11,
	PACKET_FLAGS = 13,
	PACKET_TRACK = 60
};
enum { TRACK_UUID = 1, TRACK_NAME = 2, TRACK_PROCESS = 3, TRACK_THREAD = 4, TRACK_PARENT = 5 };
enum { PROCESS_PID = 1, PROCESS_NAME = 6, THREAD_PID = 1, THREAD_TID = 2, THREAD_NAME = 5 };
enum {
	EVENT_NOTES = 4,
	EVENT_TYPE = 9,
	EVENT_TRACK = 11,
	EVENT_CATEGORIES = 22,
	EVENT_NAME = 23,
	EVENT_FLOWS = 47,
	EVENT_FLOWS_END = 48
};
enum { TYPE_BEGIN = 1, TYPE_END = 2, TYPE_INSTANT = 3 };
enum { NOTE_UINT = 3, NOTE_INT = 4, NOTE_TEXT = 6, NOTE_NAME = 10 };
enum { CLOCKS_CLOCK = 1, CLOCK_ID = 1, CLOCK_AT = 2, CLOCK_UNIX = 1, CLOCK_BOOT = 6 };
enum { SEQUENCE_CLEARED = 1 };

/* Tracks that one thread can take; what does not fit is a point on the last. */
#define LANES_MAX 128
#define DEPTH_MAX 32

/* A track while slices are laid on it: when those that are open end. */
struct lane {
	uint64_t uuid;
	size_t depth;
	uint64_t ends[DEPTH_MAX];
};

struct perfetto {
	struct twi_pb out, packet, event, note;
	uint64_t next_uuid;
	uint64_t sequence;  /* of packets: one for each thread, see add_thread */
	bool begun;         /* this sequence */
	struct lane *lanes; /* LANES_MAX of what blocks, and as many of what does not */
};

static void packet_end(struct perfetto *p)
{
	twi_pb_u64(&p->packet, PACKET_SEQUENCE, p->sequence);
	if (!p->begun)
		twi_pb_u64(&p->packet, PACKET_FLAGS, SEQUENCE_CLEARED);
	p->begun = true;
	twi_pb_nested(&p->out, TRACE_PACKET, &p->packet);
	twi_pb_clear(&p->packet);
}

/* A track that is a process (tid 0), a thread, or (pid 0) neither. */
static uint64_t add_track(struct perfetto *p, uint64_t parent, const char *name, uint64_t pid,
			  uint64_t tid)
{
	uint64_t uuid = p->next_uuid++;

	twi_pb_clear(&p->event);
	twi_pb_u64(&p->event, TRACK_UUID, uuid);
	if (parent)
		twi_pb_u64(&p->event, TRACK_PARENT, parent);
	twi_pb_clear(&p->note);
	if (pid && tid) {
		twi_pb_u64(&p->note, THREAD_PID, pid);
		twi_pb_u64(&p->note, THREAD_TID, tid);
		twi_pb_text(&p->note, THREAD_NAME, name);
		twi_pb_nested(&p->event, TRACK_THREAD, &p->note);
	} else if (pid) {
		twi_pb_u64(&p->note, PROCESS_PID, pid);
		twi_pb_text(&p->note, PROCESS_NAME, name);
		twi_pb_nested(&p->event, TRACK_PROCESS, &p->note);
	} else {
		twi_pb_text(&p->event, TRACK_NAME, name);
	}
	twi_pb_nested(&p->packet, PACKET_TRACK, &p->event);
	packet_end(p);
	return uuid;
}

static void note_number(struct perfetto *p, const char *name, uint32_t type, uint64_t value)
{
	twi_pb_clear(&p->note);
	twi_pb_text(&p->note, NOTE_NAME, name);
	twi_pb_u64(&p->note, type, value);
	twi_pb_nested(&p->event, EVENT_NOTES, &p->note);
}

static void note_u64(struct perfetto *p, const char *name, uint64_t value)
{
	if (value)
		note_number(p, name, NOTE_UINT, value);
}

static void note_text(struct perfetto *p, const char *name, const char *value)
{
	if (value == NULL)
		return;
	twi_pb_clear(&p->note);
	twi_pb_text(&p->note, NOTE_NAME, name);
	twi_pb_text(&p->note, NOTE_TEXT, value);
	twi_pb_nested(&p->event, EVENT_NOTES, &p->note);
}

static void note_span(struct perfetto *p, const struct twi_trace_rank *rank,
		      const struct twi_span *span)
{
	if (span->id || span->kind == TWI_SPAN_STEP) /* there may be a step 0 */
		note_number(p, "id", NOTE_UINT, span->id);
	note_u64(p, "parent", span->parent);
	note_u64(p, "bytes", span->bytes);
	note_u64(p, "queue_ns", span->queue_ns);
	note_u64(p, span->kind == TWI_SPAN_COLL ? "ranks" : "wire_ns", span->wire_ns);
	note_u64(p, "match_ns", span->match_ns);
	note_text(p, "name", twi_show_user_name(rank, span));
	note_text(p, "reason", twi_show_reason(span));
	if (span->peer)
		note_text(p, "peer", rank->peers[span->peer - 1].name);
	if (twi_show_peer_rank(rank, span) >= 0)
		note_number(p, "peer_rank", NOTE_INT, (uint64_t)twi_show_peer_rank(rank, span));
	if (span->lane < TWI_LANE_COUNT)
		note_text(p, "lane", twi_lane_name((enum twi_lane_id)span->lane));
	if (span->status)
		note_text(p, "status", tow_status_name(span->status));
}

/* Of a message, the same on both sides and no other's; 0: it has none. */
static uint64_t flow_of(const struct twi_trace_rank *rank, const struct twi_span *span)
{
	bool from_here = span->kind == TWI_SPAN_SEND || span->kind == TWI_SPAN_CALL;
	bool to_here = span->kind == TWI_SPAN_RECV || span->kind == TWI_SPAN_SERVE;
	bool is_call = span->kind == TWI_SPAN_CALL || span->kind == TWI_SPAN_SERVE;
	int64_t peer = twi_show_peer_rank(rank, span);
	uint64_t hash = TWI_HASH_BASIS, words[4];

	if ((!from_here && !to_here) || peer < 0 || rank->rank < 0)
		return 0;
	words[0] = (uint64_t)(from_here ? rank->rank : peer);
	words[1] = (uint64_t)(from_here ? peer : rank->rank);
	words[2] = span->id;
	words[3] = is_call;
	for (size_t i = 0; i < twi_array_count(words); i++)
		hash = twi_hash_mix(hash, words[i]);
	return hash ? hash : 1;
}

static void event_begin(struct perfetto *p, uint64_t track, int64_t unix_ns, unsigned type)
{
	twi_pb_u64(&p->packet, PACKET_TIMESTAMP, (uint64_t)unix_ns);
	twi_pb_clear(&p->event);
	twi_pb_u64(&p->event, EVENT_TYPE, type);
	twi_pb_u64(&p->event, EVENT_TRACK, track);
}

static void event_end(struct perfetto *p)
{
	twi_pb_nested(&p->packet, PACKET_EVENT, &p->event);
	packet_end(p);
}

/*
 * A flow leads from the slice that begins first to the other, whatever else is said of it, and a
 * receive is often posted before its send. So it comes to a point of its own within the receive,
 * where that ends.
 */
static void add_arrival(struct perfetto *p, uint64_t track, int64_t unix_ns, uint64_t flow)
{
	event_begin(p, track, unix_ns, TYPE_INSTANT);
	twi_pb_text(&p->event, EVENT_CATEGORIES, "arrival");
	twi_pb_text(&p->event, EVENT_NAME, "received");
	twi_pb_fixed64(&p->event, EVENT_FLOWS_END, flow);
	event_end(p);
}

static void add_slice(struct perfetto *p, uint64_t track, const struct twi_trace_rank *rank,
		      const struct twi_span *span, int64_t unix_ns, bool point)
{
	uint64_t flow = flow_of(rank, span);
	bool sends = span->kind == TWI_SPAN_SEND || span->kind == TWI_SPAN_CALL;
	char text[TWI_SHOW_NAME_BYTES];

	event_begin(p, track, (int64_t)span->start_ns + unix_ns, point ? TYPE_INSTANT : TYPE_BEGIN);
	twi_pb_text(&p->event, EVENT_CATEGORIES, twi_show_kind(span->kind));
	twi_pb_text(&p->event, EVENT_NAME, twi_show_name(rank, span, text, sizeof(text)));
	note_span(p, rank, span);
	if (point) /* a point tells none */
		note_u64(p, "duration_ns", span->end_ns - span->start_ns);
	if (flow && (sends || point))
		twi_pb_fixed64(&p->event, sends ? EVENT_FLOWS : EVENT_FLOWS_END, flow);
	event_end(p);
	if (point)
		return;
	if (flow && span->kind == TWI_SPAN_RECV)
		add_arrival(p, track, (int64_t)span->end_ns + unix_ns, flow);
	event_begin(p, track, (int64_t)span->end_ns + unix_ns, TYPE_END);
	if (flow && span->kind == TWI_SPAN_SERVE)
		twi_pb_fixed64(&p->event, EVENT_FLOWS_END, flow);
	event_end(p);
}

/* Whether a span that starts no earlier than all before it can be laid on a lane. */
static bool fits_lane(struct lane *lane, const struct twi_span *span, bool may_nest)
{
	while (lane->depth && lane->ends[lane->depth - 1] <= span->start_ns)
		lane->depth--;
	if (lane->depth == 0)
		return true;
	return may_nest && lane->depth < DEPTH_MAX && lane->ends[lane->depth - 1] >= span->end_ns;
}

/* The first lane that takes it; NULL: none does. Lane 0 of what blocks is the thread itself. */
static struct lane *place_span(struct perfetto *p, const struct twi_span *span, uint64_t parent,
			       const char *thread_name)
{
	bool blocks = twi_show_blocks(span);
	struct lane *lanes = p->lanes + (blocks ? 0 : LANES_MAX);

	for (size_t i = 0; i < LANES_MAX; i++) {
		struct lane *lane = &lanes[i];

		if (!fits_lane(lane, span, blocks))
			continue;
		if (lane->uuid == 0) {
			char name[80];

			snprintf(name, sizeof(name), "%s %s", thread_name,
				 blocks ? "more" : "async");
			lane->uuid = add_track(p, parent, name, 0, 0);
		}
		lane->ends[lane->depth++] = span->end_ns;
		return lane;
	}
	return NULL;
}

/* What is around another comes before it. */
static int by_start(const void *a, const void *b)
{
	const struct twi_span *x = *(const struct twi_span *const *)a;
	const struct twi_span *y = *(const struct twi_span *const *)b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return (x->end_ns < y->end_ns) - (x->end_ns > y->end_ns);
}

/* Perfetto takes slices of a process's tracks to be of the thread that the same sequence of packets
 * told of last. */
static int add_thread(struct perfetto *p, const struct twi_trace_rank *rank, size_t t,
		      uint64_t process, uint64_t pid, uint64_t tid, int64_t unix_ns)
{
	const struct twi_trace_thread *thread = &rank->threads[t];
	const struct twi_span **order = calloc(thread->span_count + 1, sizeof(*order));
	char name[64];

	if (order == NULL)
		return twi_error(TOW_ENOMEM, "no memory to write a trace");
	for (size_t i = 0; i < thread->span_count; i++)
		order[i] = &thread->spans[i];
	qsort(order, thread->span_count, sizeof(*order), by_start);
	memset(p->lanes, 0, 2 * LANES_MAX * sizeof(*p->lanes));
	p->sequence++;
	p->begun = false;
	snprintf(name, sizeof(name), "%s/%" PRIi64, thread->name, thread->tid);
	p->lanes[0].uuid = add_track(p, process, name, pid, tid);
	for (size_t i = 0; i < thread->span_count; i++) {
		struct lane *lane = place_span(p, order[i], process, name);
		struct lane *last =
			&p->lanes[twi_show_blocks(order[i]) ? LANES_MAX - 1 : 2 * LANES_MAX - 1];

		add_slice(p, lane != NULL ? lane->uuid : last->uuid, rank, order[i], unix_ns,
			  lane == NULL);
	}
	free(order);
	return TOW_OK;
}

/* What was not seen, and how wrong the times can be: a point on the process's own track. */
static void add_about(struct perfetto *p, const struct twi_trace_rank *rank, uint64_t track,
		      int64_t unix_ns)
{
	uint64_t lost = 0;

	for (size_t t = 0; t < rank->thread_count; t++)
		lost += rank->threads[t].lost;
	event_begin(p, track, (int64_t)rank->begin_ns + unix_ns, TYPE_INSTANT);
	twi_pb_text(&p->event, EVENT_CATEGORIES, "about");
	twi_pb_text(&p->event, EVENT_NAME, "capture");
	note_text(p, "job", rank->job);
	note_text(p, "host", rank->host);
	note_number(p, "rank", NOTE_INT, (uint64_t)rank->rank);
	note_u64(p, "world", (uint64_t)rank->world);
	note_u64(p, "pid", (uint64_t)rank->pid);
	note_u64(p, "window_ns", rank->end_ns - rank->begin_ns);
	note_number(p, "lost", NOTE_UINT, lost);
	note_number(p, "sampled_out", NOTE_UINT, rank->sampled_out);
	if (rank->clock_error_ns != UINT64_MAX)
		note_number(p, "clock_error_ns", NOTE_UINT, rank->clock_error_ns);
	event_end(p);
}

/* All times are UNIX time. Perfetto takes them for time since boot where it is not told. */
static void add_clocks(struct perfetto *p, const struct twi_trace *trace)
{
	static const uint64_t clocks[] = { CLOCK_UNIX, CLOCK_BOOT };

	if (trace->rank_count == 0)
		return;
	twi_pb_clear(&p->event);
	for (size_t i = 0; i < twi_array_count(clocks); i++) {
		twi_pb_clear(&p->note);
		twi_pb_u64(&p->note, CLOCK_ID, clocks[i]);
		twi_pb_u64(&p->note, CLOCK_AT, (uint64_t)twi_show_begin_ns(trace));
		twi_pb_nested(&p->event, CLOCKS_CLOCK, &p->note);
	}
	twi_pb_nested(&p->packet, PACKET_CLOCKS, &p->event);
	packet_end(p);
}

/* The thread that Perfetto takes for the process's first has the process's number. */
static int add_rank(struct perfetto *p, const struct twi_trace *trace, size_t r, uint64_t *tid)
{
	const struct twi_trace_rank *rank = &trace->ranks[r];
	int64_t unix_ns = twi_show_unix_ns(trace, rank);
	int status = TOW_OK;
	char name[TWI_SHOW_NAME_BYTES];
	uint64_t process;
	bool first = true;

	snprintf(name, sizeof(name), "rank %" PRIi64 " (%s, pid %" PRIi64 ")", rank->rank,
		 rank->host, rank->pid);
	process = add_track(p, 0, name, r + 1, 0);
	add_about(p, rank, process, unix_ns);
	for (size_t t = 0; t < rank->thread_count && status == TOW_OK; t++) {
		bool is_first = first && rank->threads[t].tid == rank->pid;

		status = add_thread(p, rank, t, process, r + 1, is_first ? r + 1 : ++*tid, unix_ns);
		first = first && !is_first;
	}
	return status;
}

int twi_export_perfetto(const struct twi_trace *trace, char **bytes_out, size_t *count_out)
{
	struct perfetto p = { .next_uuid = 1, .sequence = 1 };
	uint64_t tid = trace->rank_count; /* no other thread has the number of a process */
	struct twi_trace view;
	int status;

	*bytes_out = NULL;
	*count_out = 0;
	status = twi_clean_make(trace, &view);
	if (status < 0)
		return status;
	p.lanes = calloc(2 * LANES_MAX, sizeof(*p.lanes));
	if (p.lanes == NULL)
		status = twi_error(TOW_ENOMEM, "no memory to write a trace");
	else
		add_clocks(&p, &view);
	for (size_t r = 0; r < view.rank_count && status == TOW_OK; r++)
		status = add_rank(&p, &view, r, &tid);
	if (p.packet.failed || p.event.failed || p.note.failed)
		p.out.failed = true;
	if (status == TOW_OK)
		status = twi_pb_take(&p.out, bytes_out, count_out);
	twi_pb_fini(&p.out);
	twi_pb_fini(&p.packet);
	twi_pb_fini(&p.event);
	twi_pb_fini(&p.note);
	free(p.lanes);
	twi_clean_fini(&view);
	return status;
}
