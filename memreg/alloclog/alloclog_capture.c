/*
 * alloclog_capture.c - the users of the log, and their snapshots.
 *
 * A snapshot is a copy of the chunks, thinned to one rate, in the order of time. This file also
 * serves /v1/alloclog.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "diag/base/clock.h"
#include "diag/base/emit.h"
#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "diag/record/registry.h"
#include "memreg/alloclog/alloclog_impl.h"
#include "memreg/alloclog/alloclog_names.h"
#include "memreg/pool/pool_impl.h"

#define PATH            "/v1/alloclog"
#define SECONDS_MAX     60
#define SECONDS_DEFAULT 1
#define NS_PER_S        1000000000u

static uint64_t realtime_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* Stores the present state, for a capture that begins now. The log is on. */
static void begin_now(struct twi_alloclog *log, struct twi_alloclog_capture *out)
{
	struct twi_pool_stats stats = { 0 };

	*out = (struct twi_alloclog_capture){ .since_ns = twi_now_ns(),
					      .realtime_ns = realtime_ns(),
					      .lost_before = twi_alloclog_lost(log) };
	if (log->pool != NULL)
		twi_pool_stats(log->pool, &stats);
	/* The memory that every runtime takes at its open is counted separately. */
	out->live_bytes = stats.allocated - twi_min(stats.waste + log->own_bytes, stats.allocated);
	out->taken_bytes = stats.allocated - twi_min(log->own_bytes, stats.allocated);
	out->live_allocations =
		stats.allocations - twi_min(log->own_allocations, stats.allocations);
}

/* Adds a user, and switches the log on for the first one. `control` is held. */
static int capture_use(struct twi_alloclog *log)
{
	int status = log->users == 0 ? twi_alloclog_on(log) : TOW_OK;
	struct twi_pool_stats stats = { 0 };

	if (status == TOW_OK && log->users == 0 && log->pool != NULL) {
		twi_pool_stats(log->pool, &stats);
		pthread_mutex_lock(&log->keep_lock);
		log->keeper.taken_bytes =
			stats.allocated - twi_min(log->own_bytes, stats.allocated);
		pthread_mutex_unlock(&log->keep_lock);
	}
	if (status == TOW_OK)
		log->users++;
	return status;
}

static void capture_unuse(struct twi_alloclog *log)
{
	if (--log->users == 0)
		twi_alloclog_off(log);
}

/* Records the free of memory whose last lease has ended after its owner freed it. */
static void note_return(void *arg, void *memory, uint64_t bytes)
{
	struct twi_alloclog *log = arg;
	struct twi_alloclog_begun begun;
	/* The peer determines the time, so the event counts as the library's own. */
	struct twi_site site = { .tag = TWI_ALLOC_TAG_LIBRARY };

	if (twi_likely(!twi_alloclog_is_on(log)))
		return;
	begun = twi_alloclog_begin(log, memory);
	begun.bytes = bytes; /* begin found no block: the hold word says free already */
	twi_alloclog_free(log, memory, begun, site);
}

void twi_alloclog_attach(struct twi_alloclog *log, struct twi_pool *pool, uint64_t staging_bytes,
			 const void *staging)
{
	struct twi_pool_stats stats;

	twi_pool_stats(pool, &stats);
	log->pool = pool;
	log->staging_bytes = staging_bytes;
	log->own = staging;
	log->own_bytes = stats.own;
	log->own_allocations = stats.own_allocations;
	twi_pool_on_return(pool, note_return, log);
}

int twi_alloclog_open(struct twi_alloclog *log)
{
	int status = TOW_OK;

	pthread_mutex_lock(&log->control);
	if (!log->opened)
		status = capture_use(log);
	if (status == TOW_OK && !log->opened) {
		log->opened = true;
		begin_now(log, &log->base);
		log->base.from_open = true;
	}
	pthread_mutex_unlock(&log->control);
	return status;
}

int twi_alloclog_capture_start(struct twi_alloclog *log, bool so_far,
			       struct twi_alloclog_capture **out)
{
	struct twi_alloclog_capture *capture = calloc(1, sizeof(*capture));
	int status;

	*out = NULL;
	if (capture == NULL)
		return twi_error(TOW_ENOMEM, "no memory to capture allocations");
	pthread_mutex_lock(&log->control);
	status = capture_use(log);
	if (status == TOW_OK && so_far && log->opened)
		*capture = log->base;
	else if (status == TOW_OK)
		begin_now(log, capture);
	pthread_mutex_unlock(&log->control);
	if (status == TOW_OK && !capture->from_open && log->pool != NULL)
		twi_alloclog_held_list(&capture->held, log->pool, log->own,
				       (size_t)log->chunks_max * log->chunk_events);
	if (status < 0) {
		free(capture);
		return status;
	}
	*out = capture;
	return TOW_OK;
}

static uint32_t chunk_count(struct twi_alloclog *log)
{
	uint32_t count;

	pthread_mutex_lock(&log->chunks_lock);
	count = log->chunk_count;
	pthread_mutex_unlock(&log->chunks_lock);
	return count;
}

/* Copies a ring's records from `since_ns` to `until_ns` that are in no window. Returns how many. */
static size_t copy_ring(struct twi_alloclog *log, struct twi_alloclog_ring *ring, uint64_t since_ns,
			uint64_t until_ns, struct twi_alloclog_rec *out, size_t room)
{
	const struct twi_alloclog_chunk *chunk = twi_alloclog_oldest(log, ring);
	size_t copied = 0;

	while (chunk != NULL) {
		/* Acquire: pairs with the release of the thread that writes into the chunk. */
		uint32_t count = atomic_load_explicit(&chunk->count, memory_order_acquire);

		for (uint32_t i = chunk->popped; i < count && copied < room; i++) {
			if (chunk->rec[i].ns >= since_ns && chunk->rec[i].ns <= until_ns)
				out[copied++] = chunk->rec[i];
		}
		pthread_mutex_lock(&log->chunks_lock);
		chunk = chunk->next;
		pthread_mutex_unlock(&log->chunks_lock);
	}
	return copied;
}

/* Copies rings and windows. Each record is in one of them; keep_lock is held, so that none moves
 * from a ring to a window. */
static size_t copy_kept(struct twi_alloclog *log, uint64_t since_ns, uint64_t until_ns,
			struct twi_alloclog_rec *out, size_t room)
{
	struct twi_alloclog_ring *ring = atomic_load_explicit(&log->rings, memory_order_acquire);
	size_t copied = twi_alloclog_kept(log, since_ns, until_ns, out, room);

	for (; ring != NULL; ring = ring->next)
		copied += copy_ring(log, ring, since_ns, until_ns, out + copied, room - copied);
	return copied;
}

/*
 * Copies all records of the capture's time, and its gaps. Records that were kept at different rates
 * are all thinned to the latest rate.
 */
static struct twi_alloclog_rec *copy_all(struct twi_alloclog *log,
					 const struct twi_alloclog_capture *capture,
					 uint64_t until_ns, size_t *count_out,
					 struct twi_alloc_trace *trace)
{
	uint64_t salt = atomic_load_explicit(&log->salt, memory_order_relaxed);
	size_t copied = 0, kept = 0, room;
	struct twi_alloclog_rec *recs;

	pthread_mutex_lock(&log->keep_lock);
	room = (size_t)chunk_count(log) * log->chunk_events + log->keeper.count;
	/* The additional room is for the blocks that were live at the begin. */
	recs = calloc(room + capture->held.count + 1, sizeof(*recs));
	if (recs != NULL)
		copied = copy_kept(log, capture->since_ns, until_ns, recs, room);
	trace->gap_peak_bytes = log->keeper.gap_peak_bytes;
	trace->sampling_shift = atomic_load_explicit(&log->shift, memory_order_relaxed);
	pthread_mutex_unlock(&log->keep_lock);
	for (size_t i = 0; i < copied; i++) {
		if (twi_alloclog_rec_kind(&recs[i]) == TWI_ALLOC_STEP ||
		    recs[i].what == TWI_ALLOCLOG_GAP ||
		    twi_alloclog_keeps(recs[i].address, trace->sampling_shift, salt))
			recs[kept++] = recs[i];
	}
	*count_out = kept;
	return recs;
}

/*
 * Adds the blocks that were live at the begin as first events, and subtracts them from the sums. A
 * thinned log keeps only the sums, because it has one address in many.
 */
static size_t add_held(struct twi_alloclog_capture *capture, struct twi_alloclog_rec *recs,
		       size_t count, struct twi_alloc_trace *out)
{
	uint64_t bytes;
	size_t added;

	if (out->sampling_shift != 0)
		return 0;
	added = twi_alloclog_held_records(&capture->held, recs, count, capture->since_ns, &bytes);
	out->taken_bytes_at_start -= twi_min(bytes, out->taken_bytes_at_start);
	out->live_bytes_at_start -= twi_min(bytes, out->live_bytes_at_start);
	out->live_bytes_at_start = twi_min(out->live_bytes_at_start, out->taken_bytes_at_start);
	out->live_allocations_at_start -= twi_min(added, out->live_allocations_at_start);
	return added;
}

static int capture_snapshot(struct twi_alloclog *log, struct twi_alloclog_capture *capture,
			    struct twi_alloc_trace *out)
{
	uint64_t now = twi_now_ns();
	struct twi_pool_stats stats = { 0 };
	struct twi_alloclog_rec *recs;
	size_t count;
	int status;

	*out = (struct twi_alloc_trace){
		.start_realtime_ns = capture->realtime_ns,
		.start_monotonic_ns = capture->since_ns,
		.duration_ns = now - capture->since_ns,
		.live_bytes_at_start = capture->live_bytes,
		.live_allocations_at_start = capture->live_allocations,
		.taken_bytes_at_start = capture->taken_bytes,
		.pid = (uint32_t)getpid(),
		.from_open = capture->from_open,
	};
	recs = copy_all(log, capture, now, &count, out);
	if (recs == NULL)
		return twi_error(TOW_ENOMEM, "no memory for the captured allocations");
	count += add_held(capture, recs, count, out);
	out->lost = twi_alloclog_lost(log) - capture->lost_before;
	if (log->pool != NULL) {
		twi_pool_stats(log->pool, &stats);
		out->pool_bytes = stats.mapped;
		out->taken_peak_bytes =
			stats.allocated_peak - twi_min(log->own_bytes, stats.allocated_peak);
		out->spread_bytes = stats.spread - twi_min(log->own_bytes, stats.spread);
		out->page_bytes = log->pool->extents.extent[0]->page_bytes;
		out->staging_bytes = log->staging_bytes;
		snprintf(out->arena, sizeof(out->arena), "%s", log->pool->ops->name);
	}
	status = twi_alloclog_pair(recs, count, out);
	free(recs);
	if (status == TOW_OK && twi_alloclog_names_make(out) < 0) {
		twi_alloc_trace_fini(out);
		status = TOW_ENOMEM;
	}
	return status;
}

int twi_alloclog_capture_finish(struct twi_alloclog *log, struct twi_alloclog_capture *capture,
				struct twi_alloc_trace *trace_out)
{
	int status = trace_out != NULL ? capture_snapshot(log, capture, trace_out) : TOW_OK;

	pthread_mutex_lock(&log->control);
	capture_unuse(log);
	pthread_mutex_unlock(&log->control);
	twi_alloclog_held_fini(&capture->held);
	free(capture);
	return status;
}

/* Without seconds, or with 0, the capture is the log so far, if it is on since the open. */
static int capture_start(void *arg, int64_t seconds, void **session_out, uint64_t *wait_ns_out)
{
	struct twi_alloclog *log = arg;
	struct twi_alloclog_capture *capture;
	bool opened;
	int status;

	pthread_mutex_lock(&log->control);
	opened = log->opened;
	pthread_mutex_unlock(&log->control);
	if (seconds < 0)
		seconds = opened ? 0 : SECONDS_DEFAULT;
	status = twi_alloclog_capture_start(log, seconds == 0, &capture);
	*session_out = capture;
	*wait_ns_out = (uint64_t)seconds * NS_PER_S;
	return status;
}

static int capture_finish(void *arg, void *session, char **bytes_out, size_t *count_out)
{
	struct twi_alloc_trace trace = { 0 };
	int status = twi_alloclog_capture_finish(arg, session, bytes_out != NULL ? &trace : NULL);

	if (status == TOW_OK && bytes_out != NULL)
		status = twi_alloclog_encode(&trace, bytes_out, count_out);
	twi_alloc_trace_fini(&trace);
	return status;
}

static void describe_log(void *arg, struct twi_emit *e)
{
	struct twi_alloclog *log = arg;

	twi_emit_object_begin(e, "alloclog");
	twi_emit_bool(e, "on", twi_alloclog_is_on(log));
	pthread_mutex_lock(&log->control);
	twi_emit_bool(e, "from_open", log->opened);
	twi_emit_u64(e, "users", log->users);
	pthread_mutex_unlock(&log->control);
	twi_emit_u64(e, "kept_of_addresses_1_in",
		     (uint64_t)1 << atomic_load_explicit(&log->shift, memory_order_relaxed));
	twi_emit_u64(e, "memory_bytes",
		     (uint64_t)chunk_count(log) * log->chunk_events *
			     sizeof(struct twi_alloclog_rec));
	twi_emit_object_end(e);
}

int twi_alloclog_sources_add(struct twi_alloclog *log)
{
	const struct twi_capture capture = {
		.path = PATH,
		.help = "a log of allocations, ?seconds=N (docs/alloclog.md); tow-alloclog reads "
			"it",
		.content_type = "application/octet-stream",
		.seconds_max = SECONDS_MAX,
		.start = capture_start,
		.finish = capture_finish,
		.arg = log,
	};
	const struct twi_source info = { "/v1/info", "the allocation log", describe_log, log };
	int status = twi_registry_capture(log->diag, &capture);

	return status == TOW_OK ? twi_registry_add(log->diag, &info) : status;
}

void twi_alloclog_sources_remove(struct twi_alloclog *log)
{
	twi_registry_capture_remove(log->diag, PATH, log);
	twi_registry_remove(log->diag, "/v1/info", log);
}
