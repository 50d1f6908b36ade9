/* xspace_host.c - writes what threads did (plane /host:CPU) and the ranks (plane Towline). */
#include <stdio.h>
#include <stdlib.h>

#include <towline/status.h>

#include "diag/record/lane_id.h"
#include "diag/trace/export/xspace.h"
#include "diag/trace/trace_view.h"

/* XProf finds nothing unless events have this name among their names, even without an event. */
#define HOST_ALWAYS "MegaScale: Communication Transport Receive"

/* The line of what was unfinished at the end. */
#define UNFINISHED "Unfinished"

/* Adds all members of a span, which reading back needs. Zeros are left out. */
static void own_stats(const struct twi_span *span, struct twi_stats *s)
{
	const struct {
		enum twi_stat stat;
		uint64_t value;
	} rows[] = {
		{ TWI_STAT_ID, span->id },
		{ span->kind == TWI_SPAN_CALL ? TWI_STAT_SERVER_QUEUE : TWI_STAT_PARENT,
		  span->parent },
		{ TWI_STAT_BYTES, span->bytes },
		{ TWI_STAT_QUEUE, span->queue_ns },
		{ span->kind == TWI_SPAN_COLL ? TWI_STAT_RANKS : TWI_STAT_WIRE, span->wire_ns },
		{ TWI_STAT_MATCH, span->match_ns },
		{ TWI_STAT_NAME, span->name },
		{ TWI_STAT_PEER, span->peer },
		{ TWI_STAT_DETAIL, span->detail },
	};

	twi_stats_u64(s, TWI_STAT_KIND, span->kind);
	twi_stats_u64(s, TWI_STAT_START, span->start_ns);
	twi_stats_u64(s, TWI_STAT_TOOK, span->end_ns - span->start_ns);
	for (size_t i = 0; i < twi_array_count(rows); i++)
		if (rows[i].value)
			twi_stats_u64(s, rows[i].stat, rows[i].value);
	if (span->lane != TWI_SPAN_NO_LANE)
		twi_stats_u64(s, TWI_STAT_LANE, span->lane);
	if (span->status)
		twi_stats_i64(s, TWI_STAT_STATUS, span->status);
}

/*
 * The duration of a message, which MegaScale gives for a receive. It is the time on the way, as the
 * sender counts it for /v1/latency. If that is not in the trace, it begins when the receive was
 * matched, which is when this rank first learned of the message. The receive itself may have been
 * posted long before, which says nothing about the message.
 */
static uint64_t message_ns(const struct twi_span *span, const struct twi_span *delivery)
{
	if (span->kind != TWI_SPAN_RECV)
		return twi_span_ns(span);
	return delivery != NULL ? twi_span_ns(delivery)
				: twi_span_ns(span) - twi_span_part(span, span->queue_ns);
}

/* Names a message as MegaScale's own runtime does. Each rank is a slice of one device here. */
static void dcn_stats(const struct twi_trace_rank *rank, const struct twi_span *span,
		      const struct twi_span *delivery, struct twi_stats *s)
{
	bool sends = span->kind == TWI_SPAN_SEND ||
		     (span->kind == TWI_SPAN_DELIVERY && span->detail == 0);
	int64_t peer = twi_show_peer_rank(rank, span);
	int64_t from = sends ? rank->rank : peer, to = sends ? peer : rank->rank;
	uint64_t took_ns = message_ns(span, delivery);
	const char *name = twi_show_user_name(rank, span);

	twi_stats_text(s, TWI_STAT_DCN_LABEL,
		       name != NULL   ? name
		       : span->parent ? "collective"
				      : "message");
	twi_stats_i64(s, TWI_STAT_DCN_SOURCE_SLICE, from);
	twi_stats_i64(s, TWI_STAT_DCN_SOURCE_DEVICE, from);
	twi_stats_i64(s, TWI_STAT_DCN_DESTINATION_SLICE, to);
	twi_stats_i64(s, TWI_STAT_DCN_DESTINATION_DEVICE, to);
	twi_stats_i64(s, TWI_STAT_DCN_CHUNK, 0);
	twi_stats_i64(s, TWI_STAT_DCN_LOOP, 0);
	twi_stats_i64(s, TWI_STAT_PAYLOAD, (int64_t)span->bytes);
	/* 0 would mean that the clocks are wrong. */
	twi_stats_i64(s, TWI_STAT_DURATION_US,
		      (int64_t)(took_ns < 1000 ? 1 : (took_ns + 500) / 1000));
	if (delivery != NULL)
		twi_stats_u64(s, TWI_STAT_LATENCY, took_ns);
}

static void host_span(struct twi_plane *plane, const struct twi_trace_rank *rank,
		      const struct twi_deliveries *deliveries, const struct twi_span *span,
		      int64_t shift_ns)
{
	char text[TWI_SHOW_NAME_BYTES];
	struct twi_event_name name = { .name = twi_show_name(rank, span, text, sizeof(text)) };
	struct twi_stats stats;
	int64_t end_ns = twi_show_at(span->end_ns, shift_ns);
	uint64_t took_ns = span->end_ns - span->start_ns;

	stats.count = 0;
	own_stats(span, &stats);
	if (span->status == TOW_AGAIN)
		twi_stats_i64(&stats, TWI_STAT_UNFINISHED, 1);
	else if (span->kind == TWI_SPAN_SEND || span->kind == TWI_SPAN_DELIVERY)
		dcn_stats(rank, span, NULL, &stats);
	else if (span->kind == TWI_SPAN_RECV)
		dcn_stats(rank, span, twi_delivery_of(deliveries, rank, span), &stats);
	else if (span->kind == TWI_SPAN_STEP)
		twi_stats_i64(&stats, TWI_STAT_STEP_NUM, (int64_t)span->id);
	else if (!twi_show_blocks(span))
		twi_stats_i64(&stats, TWI_STAT_DURATION_US, (int64_t)(took_ns / 1000));
	twi_stats_text(&stats, TWI_STAT_REASON, twi_show_reason(span));
	if (span->lane < TWI_LANE_COUNT)
		twi_stats_text(&stats, TWI_STAT_LANE_TEXT,
			       twi_lane_name((enum twi_lane_id)span->lane));
	if (span->peer)
		twi_stats_text(&stats, TWI_STAT_PEER_TEXT, rank->peers[span->peer - 1].name);
	/* A span that does not block its thread overlaps others. MegaScale shows it as a point at
	 * its end, with the duration as a stat; so does this. */
	if (!twi_show_blocks(span) && span->status != TOW_AGAIN)
		took_ns = 0;
	twi_plane_event(plane, twi_plane_event_name(plane, &name), end_ns - (int64_t)took_ns,
			took_ns, &stats);
}

/* A line cannot begin after its first event. */
static int64_t line_start_ns(const struct twi_trace_rank *rank, int64_t shift_ns)
{
	uint64_t first = rank->begin_ns;

	for (size_t t = 0; t < rank->thread_count; t++)
		if (rank->threads[t].span_count)
			first = twi_min(first, rank->threads[t].spans[0].start_ns);
	if (rank->unfinished_count > 0)
		first = twi_min(first, rank->unfinished[0].start_ns);
	return twi_show_at(first, shift_ns);
}

/* All unfinished spans end together. So they are nested, and are slices whatever their kind. */
static void host_unfinished(struct twi_plane *plane, const struct twi_trace_rank *rank,
			    const struct twi_deliveries *deliveries, int64_t line, int64_t shift_ns)
{
	char name[64];

	snprintf(name, sizeof(name), UNFINISHED "/%lld", (long long)rank->rank);
	twi_plane_line_begin(plane, line, name, name, line_start_ns(rank, shift_ns));
	for (size_t i = 0; i < rank->unfinished_count; i++)
		host_span(plane, rank, deliveries, &rank->unfinished[i], shift_ns);
	twi_plane_line_end(plane);
}

void twi_xspace_host(const struct twi_trace *trace, const struct twi_deliveries *deliveries,
		     struct twi_packed *space)
{
	struct twi_event_name always = { .name = HOST_ALWAYS };
	struct twi_plane plane;
	int64_t line = 0;

	twi_plane_init(&plane, 1, TWI_XSPACE_HOST_PLANE);
	twi_plane_event_name(&plane, &always);
	for (size_t r = 0; r < trace->rank_count; r++) {
		const struct twi_trace_rank *rank = &trace->ranks[r];
		int64_t shift_ns = twi_show_shift_ns(trace, rank);

		for (size_t t = 0; t < rank->thread_count; t++) {
			const struct twi_trace_thread *thread = &rank->threads[t];
			char name[64], shown[64];

			snprintf(name, sizeof(name), "MegascaleEM2_Worker/%lld/%lld",
				 (long long)rank->rank, (long long)thread->tid);
			snprintf(shown, sizeof(shown), "MegascaleEM2_Worker rank %lld %s/%lld",
				 (long long)rank->rank, thread->name, (long long)thread->tid);
			twi_plane_line_begin(&plane, ++line, name, shown,
					     line_start_ns(rank, shift_ns));
			for (size_t i = 0; i < thread->span_count; i++)
				host_span(&plane, rank, deliveries, &thread->spans[i], shift_ns);
			twi_plane_line_end(&plane);
		}
		if (rank->unfinished_count > 0)
			host_unfinished(&plane, rank, deliveries, ++line, shift_ns);
	}
	twi_plane_end(&plane, space);
	twi_plane_fini(&plane);
}

static void add_line(Twi__TraceThread *thread, int64_t *line, struct twi_packed *out)
{
	Twi__TraceRank part = TWI__TRACE_RANK__INIT;

	thread->line = ++*line;
	part.n_threads = 1;
	part.threads = &thread;
	twi_packed_add(out, &part.base);
}

/* Adds one rank's threads, its unfinished line, and its peers. */
static void add_rows(const struct twi_trace_rank *rank, int64_t *line, struct twi_packed *out)
{
	for (size_t t = 0; t < rank->thread_count; t++) {
		Twi__TraceThread thread = TWI__TRACE_THREAD__INIT;

		thread.tid = rank->threads[t].tid;
		thread.name = twi_packed_text(rank->threads[t].name);
		thread.lost = rank->threads[t].lost;
		add_line(&thread, line, out);
	}
	if (rank->unfinished_count > 0) {
		Twi__TraceThread thread = TWI__TRACE_THREAD__INIT;

		thread.name = twi_packed_text(UNFINISHED);
		thread.unfinished = 1;
		add_line(&thread, line, out);
	}
	for (size_t p = 0; p < rank->peer_count; p++) {
		Twi__TraceRank part = TWI__TRACE_RANK__INIT;
		Twi__TracePeer peer = TWI__TRACE_PEER__INIT, *peers = &peer;

		peer.name = rank->peers[p].name;
		peer.rank = rank->peers[p].rank;
		part.n_peers = 1;
		part.peers = &peers;
		twi_packed_add(out, &part.base);
	}
}

static void add_rank(const struct twi_trace_rank *rank, int64_t *line, struct twi_packed *out)
{
	Twi__TraceRank head = TWI__TRACE_RANK__INIT;

	head.host = rank->host;
	head.job = rank->job;
	head.rank = rank->rank;
	head.world = rank->world;
	head.pid = rank->pid;
	head.begin_ns = rank->begin_ns;
	head.end_ns = rank->end_ns;
	head.unix_ns = rank->unix_ns;
	head.clock_offset_ns = rank->clock_offset_ns;
	head.clock_error_ns = rank->clock_error_ns;
	head.sampled_out = rank->sampled_out;
	head.n_names = rank->name_count;
	head.names = rank->names;
	twi_packed_add(out, &head.base);
	add_rows(rank, line, out);
}

void twi_xspace_ranks(const struct twi_trace *trace, struct twi_packed *space)
{
	struct twi_plane plane;
	struct twi_packed row = { 0 };
	int64_t line = 0;

	twi_plane_init(&plane, 2, TWI_XSPACE_RANKS_PLANE);
	for (size_t r = 0; r < trace->rank_count; r++) {
		struct twi_stats stats;

		stats.count = 0;
		twi_packed_clear(&row);
		add_rank(&trace->ranks[r], &line, &row);
		plane.out.failed = plane.out.failed || row.failed;
		twi_stats_bytes(&stats, TWI_STAT_TRACE_RANK, &row);
		twi_plane_stat(&plane, &stats);
	}
	twi_plane_end(&plane, space);
	twi_plane_fini(&plane);
	twi_packed_fini(&row);
}

void twi_xspace_time(const struct twi_trace *trace, struct twi_packed *space)
{
	uint64_t begin_ns = (uint64_t)twi_show_begin_ns(trace), took_ns = 0;
	struct twi_plane plane;
	struct twi_stats stats;

	for (size_t r = 0; r < trace->rank_count; r++) {
		const struct twi_trace_rank *rank = &trace->ranks[r];
		int64_t shift_ns = twi_show_shift_ns(trace, rank);

		took_ns = twi_max(took_ns, (uint64_t)twi_show_at(rank->end_ns, shift_ns));
	}
	twi_plane_init(&plane, 5, "Task Environment");
	stats.count = 0;
	twi_stats_u64(&stats, TWI_STAT_BEGIN, begin_ns);
	twi_stats_u64(&stats, TWI_STAT_END, begin_ns + took_ns);
	twi_plane_stat(&plane, &stats);
	twi_plane_end(&plane, space);
	twi_plane_fini(&plane);
}
