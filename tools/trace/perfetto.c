/*
 * perfetto.c - writes Perfetto's own format, which ui.perfetto.dev and its trace processor (SQL)
 * open.
 *
 *	process track (a rank) --- thread track: what blocks the thread, nested
 *	                       \-- "<thread> async" tracks: messages, calls, collectives
 *
 * Slices of one track must nest. So overlapping slices go to further tracks of the same name, which
 * the UI shows as one. A flow joins the two sides of a message. Process and thread ids are numbers
 * made here, because those of several hosts would collide.
 *
 * A trace is a list of packets. Each packet is packed alone as soon as it is made (packed.h).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/base/error.h"
#include "diag/base/hash.h"
#include "diag/record/lane_id.h"
#include "diag/trace/export/clean.h"
#include "diag/trace/export/packed.h"
#include "diag/trace/export/protobuf_lazy.h"
#include "diag/trace/export/show.h"
#include "tools/trace/formats.h"
#include <tools/trace/perfetto.pb-c.h>

/* Tracks that one thread can have. A span without a track is a point on the last one. */
#define TRACKS_MAX 128
#define DEPTH_MAX  32

/* A track, with the end times of its open slices. */
struct track {
	uint64_t uuid;
	size_t depth;
	uint64_t ends[DEPTH_MAX];
};

struct perfetto {
	struct twi_packed out;
	uint64_t next_uuid;
	uint32_t sequence;    /* of packets; one for each thread, see add_thread */
	bool begun;           /* the sequence has a packet */
	struct track *tracks; /* TRACKS_MAX for blocking spans, and as many for the others */
};

static void add_packet(struct perfetto *p, Twi__TracePacket *packet)
{
	Twi__Trace part = TWI__TRACE__INIT;

	packet->has_trusted_packet_sequence_id = 1;
	packet->trusted_packet_sequence_id = p->sequence;
	packet->has_sequence_flags = !p->begun;
	packet->sequence_flags = TWI__TRACE_PACKET__SEQUENCE_FLAGS__SEQ_INCREMENTAL_STATE_CLEARED;
	p->begun = true;
	part.n_packet = 1;
	part.packet = &packet;
	twi_packed_add(&p->out, &part.base);
}

/* Adds a track for a process (tid 0), for a thread, or for neither (pid 0). */
static uint64_t add_track(struct perfetto *p, uint64_t parent, const char *name, int32_t pid,
			  int64_t tid)
{
	Twi__TracePacket packet = TWI__TRACE_PACKET__INIT;
	Twi__TrackDescriptor track = TWI__TRACK_DESCRIPTOR__INIT;
	Twi__ProcessDescriptor process = TWI__PROCESS_DESCRIPTOR__INIT;
	Twi__ThreadDescriptor thread = TWI__THREAD_DESCRIPTOR__INIT;

	packet.track_descriptor = &track;
	track.has_uuid = 1;
	track.uuid = p->next_uuid++;
	track.has_parent_uuid = parent != 0;
	track.parent_uuid = parent;
	if (pid && tid) {
		track.thread = &thread;
		thread.has_pid = thread.has_tid = 1;
		thread.pid = pid;
		thread.tid = tid;
		thread.thread_name = twi_packed_text(name);
	} else if (pid) {
		track.process = &process;
		process.has_pid = 1;
		process.pid = pid;
		process.process_name = twi_packed_text(name);
	} else {
		track.name = twi_packed_text(name);
	}
	add_packet(p, &packet);
	return track.uuid;
}

/* More than any event needs. */
#define ANNOTATIONS_MAX 16

/* An event that is being built. Its texts must live until it is added. */
struct event {
	Twi__TracePacket packet;
	Twi__TrackEvent event;
	char *category;
	uint64_t flow;
	Twi__DebugAnnotation rows[ANNOTATIONS_MAX];
	Twi__DebugAnnotation *pointers[ANNOTATIONS_MAX];
};

static void event_init(struct event *e, uint64_t track, int64_t unix_ns, Twi__TrackEvent__Type type)
{
	twi__trace_packet__init(&e->packet);
	twi__track_event__init(&e->event);
	e->packet.has_timestamp = 1;
	e->packet.timestamp = (uint64_t)unix_ns;
	e->packet.track_event = &e->event;
	e->event.has_type = e->event.has_track_uuid = 1;
	e->event.type = type;
	e->event.track_uuid = track;
	e->event.debug_annotations = e->pointers;
}

static void event_name(struct event *e, const char *category, const char *name)
{
	e->category = twi_packed_text(category);
	e->event.n_categories = 1;
	e->event.categories = &e->category;
	e->event.name = twi_packed_text(name);
}

static void event_leave(struct event *e, uint64_t flow)
{
	e->flow = flow;
	e->event.n_flow_ids = 1;
	e->event.flow_ids = &e->flow;
}

static void event_arrive(struct event *e, uint64_t flow)
{
	e->flow = flow;
	e->event.n_terminating_flow_ids = 1;
	e->event.terminating_flow_ids = &e->flow;
}

static Twi__DebugAnnotation *next_annotation(struct event *e, const char *name)
{
	Twi__DebugAnnotation *annotation = &e->rows[e->event.n_debug_annotations];

	twi_assert(e->event.n_debug_annotations < ANNOTATIONS_MAX);
	twi__debug_annotation__init(annotation);
	annotation->name = twi_packed_text(name);
	e->pointers[e->event.n_debug_annotations++] = annotation;
	return annotation;
}

static void annotate_u64(struct event *e, const char *name, uint64_t value)
{
	Twi__DebugAnnotation *annotation = next_annotation(e, name);

	annotation->has_uint_value = 1;
	annotation->uint_value = value;
}

static void annotate_i64(struct event *e, const char *name, int64_t value)
{
	Twi__DebugAnnotation *annotation = next_annotation(e, name);

	annotation->has_int_value = 1;
	annotation->int_value = value;
}

static void annotate_nonzero(struct event *e, const char *name, uint64_t value)
{
	if (value)
		annotate_u64(e, name, value);
}

static void annotate_text(struct event *e, const char *name, const char *value)
{
	if (value != NULL)
		next_annotation(e, name)->string_value = twi_packed_text(value);
}

static void annotate_span(struct event *e, const struct twi_trace_rank *rank,
			  const struct twi_span *span)
{
	if (span->id || span->kind == TWI_SPAN_STEP) /* a step may have the number 0 */
		annotate_u64(e, "id", span->id);
	annotate_nonzero(e, span->kind == TWI_SPAN_CALL ? "server_queue_ns" : "parent",
			 span->parent);
	annotate_nonzero(e, "bytes", span->bytes);
	annotate_nonzero(e, "queue_ns", span->queue_ns);
	annotate_nonzero(e, span->kind == TWI_SPAN_COLL ? "ranks" : "wire_ns", span->wire_ns);
	annotate_nonzero(e, "match_ns", span->match_ns);
	annotate_text(e, "name", twi_show_user_name(rank, span));
	annotate_text(e, "reason", twi_show_reason(span));
	if (span->peer)
		annotate_text(e, "peer", rank->peers[span->peer - 1].name);
	if (twi_show_peer_rank(rank, span) >= 0)
		annotate_i64(e, "peer_rank", twi_show_peer_rank(rank, span));
	if (span->lane < TWI_LANE_COUNT)
		annotate_text(e, "lane", twi_lane_name((enum twi_lane_id)span->lane));
	if (span->status)
		annotate_text(e, "status", tow_status_name(span->status));
}

/* Returns a number that only the two sides of a message share. 0: there is none. */
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

/*
 * A flow always leads from the slice that begins first to the other one. A receive often begins
 * before its send. So the flow ends at a point of its own, at the end of the receive.
 */
static void add_arrival(struct perfetto *p, uint64_t track, int64_t unix_ns, uint64_t flow)
{
	struct event e;

	event_init(&e, track, unix_ns, TWI__TRACK_EVENT__TYPE__TYPE_INSTANT);
	event_name(&e, "arrival", "received");
	event_arrive(&e, flow);
	add_packet(p, &e.packet);
}

static void add_slice(struct perfetto *p, uint64_t track, const struct twi_trace_rank *rank,
		      const struct twi_span *span, int64_t unix_ns, bool point)
{
	uint64_t flow = flow_of(rank, span);
	bool sends = span->kind == TWI_SPAN_SEND || span->kind == TWI_SPAN_CALL;
	char text[TWI_SHOW_NAME_BYTES];
	struct event e;

	event_init(&e, track, (int64_t)span->start_ns + unix_ns,
		   point ? TWI__TRACK_EVENT__TYPE__TYPE_INSTANT
			 : TWI__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN);
	event_name(&e, twi_show_kind(span->kind), twi_show_name(rank, span, text, sizeof(text)));
	annotate_span(&e, rank, span);
	if (point) /* a point has no duration */
		annotate_nonzero(&e, "duration_ns", span->end_ns - span->start_ns);
	if (flow && sends)
		event_leave(&e, flow);
	else if (flow && point)
		event_arrive(&e, flow);
	add_packet(p, &e.packet);
	if (point)
		return;
	if (flow && span->kind == TWI_SPAN_RECV)
		add_arrival(p, track, (int64_t)span->end_ns + unix_ns, flow);
	event_init(&e, track, (int64_t)span->end_ns + unix_ns,
		   TWI__TRACK_EVENT__TYPE__TYPE_SLICE_END);
	if (flow && span->kind == TWI_SPAN_SERVE)
		event_arrive(&e, flow);
	add_packet(p, &e.packet);
}

/* True: the span fits on the track. It starts no earlier than all spans before it. */
static bool fits_track(struct track *track, const struct twi_span *span, bool may_nest)
{
	while (track->depth && track->ends[track->depth - 1] <= span->start_ns)
		track->depth--;
	if (track->depth == 0)
		return true;
	return may_nest && track->depth < DEPTH_MAX &&
	       track->ends[track->depth - 1] >= span->end_ns;
}

/* Returns the first track that takes the span; NULL: none does. Track 0 is the thread itself. */
static struct track *place_span(struct perfetto *p, const struct twi_span *span, uint64_t parent,
				const char *thread_name)
{
	bool blocks = twi_show_blocks(span);
	struct track *tracks = p->tracks + (blocks ? 0 : TRACKS_MAX);

	for (size_t i = 0; i < TRACKS_MAX; i++) {
		struct track *track = &tracks[i];

		if (!fits_track(track, span, blocks))
			continue;
		if (track->uuid == 0) {
			char name[80];

			snprintf(name, sizeof(name), "%s %s", thread_name,
				 blocks ? "more" : "async");
			track->uuid = add_track(p, parent, name, 0, 0);
		}
		track->ends[track->depth++] = span->end_ns;
		return track;
	}
	return NULL;
}

/* An enclosing span comes before the spans inside it. */
static int by_start(const void *a, const void *b)
{
	const struct twi_span *x = *(const struct twi_span *const *)a;
	const struct twi_span *y = *(const struct twi_span *const *)b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return (x->end_ns < y->end_ns) - (x->end_ns > y->end_ns);
}

/*
 * Writes a thread as a sequence of its own. Perfetto assigns slices of a process's tracks to the
 * thread that the same sequence described last.
 */
static int add_thread(struct perfetto *p, const struct twi_trace_rank *rank, size_t t,
		      uint64_t process, int32_t pid, int64_t tid, int64_t unix_ns)
{
	const struct twi_trace_thread *thread = &rank->threads[t];
	const struct twi_span **order = calloc(thread->span_count + 1, sizeof(*order));
	char name[64];

	if (order == NULL)
		return twi_error(TOW_ENOMEM, "no memory to write a trace");
	for (size_t i = 0; i < thread->span_count; i++)
		order[i] = &thread->spans[i];
	qsort(order, thread->span_count, sizeof(*order), by_start);
	memset(p->tracks, 0, 2 * TRACKS_MAX * sizeof(*p->tracks));
	p->sequence++;
	p->begun = false;
	snprintf(name, sizeof(name), "%s/%" PRIi64, thread->name, thread->tid);
	p->tracks[0].uuid = add_track(p, process, name, pid, tid);
	for (size_t i = 0; i < thread->span_count; i++) {
		struct track *track = place_span(p, order[i], process, name);
		struct track *last =
			&p->tracks[twi_show_blocks(order[i]) ? TRACKS_MAX - 1 : 2 * TRACKS_MAX - 1];

		add_slice(p, track != NULL ? track->uuid : last->uuid, rank, order[i], unix_ns,
			  track == NULL);
	}
	free(order);
	return TOW_OK;
}

/* Writes the unfinished spans. All have the same end, so they nest. */
static void add_unfinished(struct perfetto *p, const struct twi_trace_rank *rank, uint64_t process,
			   int64_t unix_ns)
{
	uint64_t track;
	struct event e;

	if (rank->unfinished_count == 0)
		return;
	p->sequence++;
	p->begun = false;
	track = add_track(p, process, "unfinished", 0, 0);
	for (size_t i = 0; i < rank->unfinished_count; i++) {
		const struct twi_span *span = &rank->unfinished[i];
		char text[TWI_SHOW_NAME_BYTES];

		event_init(&e, track, (int64_t)span->start_ns + unix_ns,
			   TWI__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN);
		event_name(&e, "unfinished", twi_show_name(rank, span, text, sizeof(text)));
		annotate_span(&e, rank, span);
		add_packet(p, &e.packet);
	}
	for (size_t i = 0; i < rank->unfinished_count; i++) {
		event_init(&e, track, (int64_t)rank->unfinished[i].end_ns + unix_ns,
			   TWI__TRACK_EVENT__TYPE__TYPE_SLICE_END);
		add_packet(p, &e.packet);
	}
}

/* Adds a point to the process's track, with the lost records and the clock error. */
static void add_about(struct perfetto *p, const struct twi_trace_rank *rank, uint64_t track,
		      int64_t unix_ns)
{
	uint64_t lost = 0;
	struct event e;

	for (size_t t = 0; t < rank->thread_count; t++)
		lost += rank->threads[t].lost;
	event_init(&e, track, (int64_t)rank->begin_ns + unix_ns,
		   TWI__TRACK_EVENT__TYPE__TYPE_INSTANT);
	event_name(&e, "about", "capture");
	annotate_text(&e, "job", rank->job);
	annotate_text(&e, "host", rank->host);
	annotate_i64(&e, "rank", rank->rank);
	annotate_nonzero(&e, "world", (uint64_t)rank->world);
	annotate_nonzero(&e, "pid", (uint64_t)rank->pid);
	annotate_nonzero(&e, "window_ns", rank->end_ns - rank->begin_ns);
	annotate_u64(&e, "lost", lost);
	annotate_u64(&e, "sampled_out", rank->sampled_out);
	if (rank->clock_error_ns != UINT64_MAX)
		annotate_u64(&e, "clock_error_ns", rank->clock_error_ns);
	add_packet(p, &e.packet);
}

/* States that all times are UNIX time. Otherwise Perfetto takes them for time since boot. */
static void add_clocks(struct perfetto *p, const struct twi_trace *trace)
{
	Twi__TracePacket packet = TWI__TRACE_PACKET__INIT;
	Twi__ClockSnapshot snapshot = TWI__CLOCK_SNAPSHOT__INIT;
	Twi__ClockSnapshot__Clock real = TWI__CLOCK_SNAPSHOT__CLOCK__INIT, boot;
	Twi__ClockSnapshot__Clock *clocks[] = { &real, &boot };

	if (trace->rank_count == 0)
		return;
	real.has_clock_id = real.has_timestamp = 1;
	real.timestamp = (uint64_t)twi_show_begin_ns(trace);
	boot = real;
	real.clock_id = TWI__BUILTIN_CLOCK__BUILTIN_CLOCK_REALTIME;
	boot.clock_id = TWI__BUILTIN_CLOCK__BUILTIN_CLOCK_BOOTTIME;
	snapshot.n_clocks = twi_array_count(clocks);
	snapshot.clocks = clocks;
	packet.clock_snapshot = &snapshot;
	add_packet(p, &packet);
}

/* Writes a rank. Perfetto's main thread of a process has the number of the process. */
static int add_rank(struct perfetto *p, const struct twi_trace *trace, size_t r, int64_t *tid)
{
	const struct twi_trace_rank *rank = &trace->ranks[r];
	int64_t unix_ns = twi_show_unix_ns(trace, rank);
	int status = TOW_OK;
	char name[TWI_SHOW_NAME_BYTES];
	int32_t pid = (int32_t)r + 1;
	uint64_t process;
	bool first = true;

	snprintf(name, sizeof(name), "rank %" PRIi64 " (%s, pid %" PRIi64 ")", rank->rank,
		 rank->host, rank->pid);
	process = add_track(p, 0, name, pid, 0);
	add_about(p, rank, process, unix_ns);
	for (size_t t = 0; t < rank->thread_count && status == TOW_OK; t++) {
		bool is_first = first && rank->threads[t].tid == rank->pid;

		status = add_thread(p, rank, t, process, pid, is_first ? pid : ++*tid, unix_ns);
		first = first && !is_first;
	}
	add_unfinished(p, rank, process, unix_ns);
	return status;
}

int twi_export_perfetto(const struct twi_trace *trace, char **bytes_out, size_t *count_out)
{
	struct perfetto p = { .next_uuid = 1, .sequence = 1 };
	int64_t tid = (int64_t)trace->rank_count; /* no other thread has the number of a process */
	struct twi_trace view;
	int status;

	*bytes_out = NULL;
	*count_out = 0;
	status = twi_protobuf_load();
	if (status == TOW_OK)
		status = twi_clean_make(trace, &view);
	if (status < 0)
		return status;
	p.tracks = calloc(2 * TRACKS_MAX, sizeof(*p.tracks));
	if (p.tracks == NULL)
		status = twi_error(TOW_ENOMEM, "no memory to write a trace");
	else
		add_clocks(&p, &view);
	for (size_t r = 0; r < view.rank_count && status == TOW_OK; r++)
		status = add_rank(&p, &view, r, &tid);
	if (status == TOW_OK)
		status = twi_packed_take(&p.out, bytes_out, count_out);
	twi_packed_fini(&p.out);
	free(p.tracks);
	twi_clean_fini(&view);
	return status;
}
