/*
 * chrome.c - writes Chrome's JSON, which chrome://tracing and ui.perfetto.dev open.
 *
 * A rank is a process. Spans that overlap on a thread (messages, calls, collectives) are
 * asynchronous events ("b", "e"), and the others complete events ("X"). Times are in us from the
 * earliest begin of a window. Readers store times as doubles, in which UNIX times would lose their
 * nanoseconds.
 */
#include <stdio.h>
#include <string.h>

#include "diag/base/emit.h"
#include "diag/base/error.h"
#include "diag/record/lane_id.h"
#include "diag/trace/export/show.h"
#include "tools/trace/formats.h"

struct chrome {
	struct twi_emit e;
	int64_t zero_ns; /* UNIX time of 0 */
	uint64_t next_id;
};

static void time_us(struct twi_emit *e, const char *key, int64_t ns)
{
	uint64_t size = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;

	twi_emit_raw(e, ",\"%s\":%s%llu.%03u", key, ns < 0 ? "-" : "",
		     (unsigned long long)(size / 1000), (unsigned)(size % 1000));
}

/* Writes {"ph":...,"pid":...,"tid":... and the time; the object stays open. */
static void begin_event(struct chrome *c, const char *phase, size_t rank, size_t thread,
			int64_t unix_ns)
{
	twi_emit_object_begin(&c->e, NULL);
	twi_emit_str(&c->e, "ph", phase);
	twi_emit_u64(&c->e, "pid", rank + 1);
	twi_emit_u64(&c->e, "tid", thread + 1);
	time_us(&c->e, "ts", (int64_t)((uint64_t)unix_ns - (uint64_t)c->zero_ns));
}

static void add_name(struct chrome *c, const char *what, size_t rank, size_t thread,
		     const char *name)
{
	begin_event(c, "M", rank, thread, c->zero_ns);
	twi_emit_str(&c->e, "name", what);
	twi_emit_object_begin(&c->e, "args");
	twi_emit_str(&c->e, "name", name);
	twi_emit_object_end(&c->e);
	twi_emit_object_end(&c->e);
}

static void event_args(struct chrome *c, const struct twi_trace_rank *rank,
		       const struct twi_span *span)
{
	struct twi_emit *e = &c->e;
	const char *user = twi_show_user_name(rank, span), *reason = twi_show_reason(span);

	twi_emit_object_begin(e, "args");
	/* Hexadecimal, because a reader's double holds 53 bits. */
	if (span->id) {
		char id[24];

		snprintf(id, sizeof(id), "0x%llx", (unsigned long long)span->id);
		twi_emit_str(e, "id", id);
	}
	if (span->bytes)
		twi_emit_u64(e, "bytes", span->bytes);
	if (span->queue_ns)
		twi_emit_u64(e, "queue_ns", span->queue_ns);
	if (span->kind == TWI_SPAN_CALL && span->server_queue_ns)
		twi_emit_u64(e, "server_queue_ns", span->server_queue_ns);
	if (span->wire_ns)
		twi_emit_u64(e, span->kind == TWI_SPAN_COLL ? "ranks" : "wire_ns", span->wire_ns);
	if (span->match_ns)
		twi_emit_u64(e, "match_ns", span->match_ns);
	if (user != NULL)
		twi_emit_str(e, "name", user);
	if (span->peer)
		twi_emit_str(e, "peer", rank->peers[span->peer - 1].name);
	if (span->lane < TWI_LANE_COUNT)
		twi_emit_str(e, "lane", twi_lane_name((enum twi_lane_id)span->lane));
	if (reason != NULL)
		twi_emit_str(e, "reason", reason);
	if (span->status)
		twi_emit_str(e, "status", tow_status_name(span->status));
	twi_emit_object_end(e);
}

static void span_event(struct chrome *c, const struct twi_trace_rank *rank, size_t r, size_t t,
		       const struct twi_span *span, int64_t unix_ns)
{
	int64_t start_ns = (int64_t)span->start_ns + unix_ns;
	bool blocks = twi_show_blocks(span) || span->status == TOW_AGAIN;
	char text[TWI_SHOW_NAME_BYTES];
	const char *name = twi_show_name(rank, span, text, sizeof(text));
	uint64_t id = ++c->next_id;

	begin_event(c, blocks ? "X" : "b", r, t, start_ns);
	if (blocks)
		time_us(&c->e, "dur", (int64_t)(span->end_ns - span->start_ns));
	else
		twi_emit_u64(&c->e, "id", id);
	twi_emit_str(&c->e, "cat", twi_show_kind(span->kind));
	twi_emit_str(&c->e, "name", name);
	event_args(c, rank, span);
	twi_emit_object_end(&c->e);
	if (blocks)
		return;
	begin_event(c, "e", r, t, (int64_t)span->end_ns + unix_ns);
	twi_emit_u64(&c->e, "id", id);
	twi_emit_str(&c->e, "cat", twi_show_kind(span->kind));
	twi_emit_str(&c->e, "name", name);
	twi_emit_object_end(&c->e);
}

static void rank_events(struct chrome *c, const struct twi_trace *trace, size_t r)
{
	const struct twi_trace_rank *rank = &trace->ranks[r];
	int64_t unix_ns = twi_show_unix_ns(trace, rank);
	char name[TWI_SHOW_NAME_BYTES];

	snprintf(name, sizeof(name), "rank %lld (%s, pid %lld)", (long long)rank->rank, rank->host,
		 (long long)rank->pid);
	add_name(c, "process_name", r, 0, name);
	for (size_t t = 0; t < rank->thread_count; t++) {
		const struct twi_trace_thread *thread = &rank->threads[t];

		snprintf(name, sizeof(name), "%s (%lld)", thread->name, (long long)thread->tid);
		add_name(c, "thread_name", r, t, name);
		for (size_t i = 0; i < thread->span_count; i++)
			span_event(c, rank, r, t, &thread->spans[i], unix_ns);
	}
	if (rank->unfinished_count > 0)
		add_name(c, "thread_name", r, rank->thread_count, "unfinished");
	for (size_t i = 0; i < rank->unfinished_count; i++)
		span_event(c, rank, r, rank->thread_count, &rank->unfinished[i], unix_ns);
}

int twi_export_chrome(const struct twi_trace *trace, char **bytes_out, size_t *count_out)
{
	struct chrome c = { .zero_ns = 0 };
	int status;

	*bytes_out = NULL;
	*count_out = 0;
	for (size_t r = 0; r < trace->rank_count; r++) {
		int64_t begin_ns = (int64_t)trace->ranks[r].begin_ns +
				   twi_show_unix_ns(trace, &trace->ranks[r]);

		if (r == 0 || begin_ns < c.zero_ns)
			c.zero_ns = begin_ns;
	}
	twi_emit_init(&c.e);
	twi_emit_object_begin(&c.e, NULL);
	twi_emit_str(&c.e, "displayTimeUnit", "ns");
	twi_emit_object_begin(&c.e, "otherData");
	twi_emit_i64(&c.e, "begin_unix_ns", c.zero_ns);
	twi_emit_object_end(&c.e);
	twi_emit_array_begin(&c.e, "traceEvents");
	for (size_t r = 0; r < trace->rank_count; r++)
		rank_events(&c, trace, r);
	twi_emit_array_end(&c.e);
	twi_emit_object_end(&c.e);
	*count_out = c.e.bytes;
	status = twi_emit_take(&c.e, bytes_out);
	if (status < 0) {
		*count_out = 0;
		return twi_error(status,
				 "the trace is more than %u MiB as Chrome's JSON, or memory "
				 "is short: capture fewer seconds, or use perfetto",
				 TWI_EMIT_MAX >> 20);
	}
	return TOW_OK;
}
