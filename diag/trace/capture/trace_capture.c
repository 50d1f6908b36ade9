/*
 * trace_capture.c - the thread that empties the rings, and the spans that it has gathered.
 */
#include "diag/trace/capture/trace_capture.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "diag/base/error.h"
#include "diag/base/thread.h"
#include "diag/record/span_ring.h"
#include "diag/trace/trace_build.h"

#define PIECE     512u     /* spans copied at once */
#define NAP_NS    200000u  /* when rings fill fast */
#define LONG_NAP  2000000u /* when they do not */
#define FULL_ROWS (TWI_SPAN_ROWS / 16)

/* The spans from one ring. */
struct part {
	const struct twi_span_ring *ring;
	uint64_t cursor, lost;
	size_t count, room;
	struct twi_span *spans;
	uint64_t *numbers;
};

struct twi_trace_capture {
	struct twi_diag *diag;
	uint64_t begin_ns, sampled_out;
	uint64_t since_ns; /* spans that ended before are left out; 0: none are */
	size_t part_count, part_room, span_count;
	struct part *parts;
	pthread_t thread;
	_Atomic bool stopping;
};

/* Adds a new ring. NULL: no memory; the next turn tries it again. */
static struct part *add_part(struct twi_trace_capture *capture, const struct twi_span_ring *ring)
{
	if (capture->part_count == capture->part_room) {
		size_t room = twi_max((size_t)8, 2 * capture->part_room);
		struct part *grown = realloc(capture->parts, room * sizeof(*grown));

		if (grown == NULL)
			return NULL;
		capture->parts = grown;
		capture->part_room = room;
	}
	capture->parts[capture->part_count] = (struct part){ .ring = ring };
	return &capture->parts[capture->part_count++];
}

static struct part *find_part(struct twi_trace_capture *capture, const struct twi_span_ring *ring)
{
	for (size_t i = 0; i < capture->part_count; i++) {
		if (capture->parts[i].ring == ring)
			return &capture->parts[i];
	}
	return add_part(capture, ring);
}

/* Makes room for `count` more spans. False: there is no memory, or the capture is full. */
static bool make_room(struct twi_trace_capture *capture, struct part *part, size_t count)
{
	size_t room = twi_max(part->count + count, 2 * part->room);
	struct twi_span *spans;
	uint64_t *numbers;

	if (capture->span_count + count > TWI_TRACE_SPANS_MAX)
		return false;
	if (part->count + count <= part->room)
		return true;
	spans = realloc(part->spans, room * sizeof(*spans));
	if (spans == NULL)
		return false;
	part->spans = spans;
	numbers = realloc(part->numbers, room * sizeof(*numbers));
	if (numbers == NULL)
		return false;
	part->numbers = numbers;
	part->room = room;
	return true;
}

static void keep_spans(struct twi_trace_capture *capture, struct part *part,
		       const struct twi_span *spans, size_t count)
{
	uint64_t first = part->cursor - count;

	if (!make_room(capture, part, count)) {
		part->lost += count;
		return;
	}
	for (size_t i = 0; i < count; i++) {
		if (spans[i].end_ns < capture->since_ns)
			continue;
		part->spans[part->count] = spans[i];
		part->numbers[part->count++] = first + i;
		capture->span_count++;
	}
}

/* Empties one ring up to its present head; returns how many spans that were. */
static uint64_t drain_ring(struct twi_trace_capture *capture, struct part *part)
{
	uint64_t begin = part->cursor, end = twi_span_ring_head(part->ring);
	struct twi_span piece[PIECE];

	while (part->cursor < end) {
		uint64_t lost;
		size_t count = twi_span_ring_read(part->ring, &part->cursor, piece, PIECE, &lost);

		part->lost += lost;
		keep_spans(capture, part, piece, count);
	}
	return part->cursor - begin;
}

/* Empties each ring once; returns the largest count. */
static uint64_t drain_rings(struct twi_trace_capture *capture)
{
	const struct twi_diag_block *block =
		atomic_load_explicit(&capture->diag->blocks, memory_order_acquire);
	uint64_t most = 0;

	for (; block != NULL; block = block->next) {
		const struct twi_span_ring *ring =
			atomic_load_explicit(&block->spans, memory_order_acquire);
		struct part *part = ring != NULL ? find_part(capture, ring) : NULL;

		if (part != NULL)
			most = twi_max(most, drain_ring(capture, part));
	}
	return most;
}

static void *capture_work(void *arg)
{
	struct twi_trace_capture *capture = arg;

	while (!atomic_load_explicit(&capture->stopping, memory_order_relaxed)) {
		uint64_t most = drain_rings(capture);
		struct timespec nap = { .tv_nsec = most > FULL_ROWS ? NAP_NS : LONG_NAP };

		if (most < TWI_SPAN_ROWS / 2)
			nanosleep(&nap, NULL);
	}
	return NULL;
}

/* Sets where reading begins: after the spans in the ring now, or at the oldest that it has kept. */
static void place_cursor(const struct twi_trace_capture *capture, struct part *part)
{
	uint64_t head = twi_span_ring_head(part->ring), cursor, lost;
	struct twi_span oldest;

	part->cursor = head;
	if (capture->since_ns == 0 || head == 0)
		return;
	part->cursor = head - twi_min(head, (uint64_t)TWI_SPAN_ROWS);
	cursor = part->cursor;
	if (twi_span_ring_read(part->ring, &cursor, &oldest, 1, &lost) == 1 &&
	    oldest.end_ns >= capture->since_ns)
		part->lost = twi_span_ring_since(part->ring, part->cursor, capture->since_ns);
}

static bool place_cursors(struct twi_trace_capture *capture)
{
	const struct twi_diag_block *block =
		atomic_load_explicit(&capture->diag->blocks, memory_order_acquire);

	for (; block != NULL; block = block->next) {
		const struct twi_span_ring *ring =
			atomic_load_explicit(&block->spans, memory_order_acquire);
		struct part *part = ring != NULL ? add_part(capture, ring) : NULL;

		if (part != NULL)
			place_cursor(capture, part);
		else if (ring != NULL)
			return false;
	}
	return true;
}

static void free_capture(struct twi_trace_capture *capture)
{
	for (size_t i = 0; i < capture->part_count; i++) {
		free(capture->parts[i].spans);
		free(capture->parts[i].numbers);
	}
	free(capture->parts);
	free(capture);
}

int twi_trace_capture_start_since(struct twi_diag *diag, uint64_t since_ns,
				  struct twi_trace_capture **out)
{
	struct twi_trace_capture *capture = calloc(1, sizeof(*capture));
	int err;

	*out = NULL;
	if (capture == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a capture of a trace");
	capture->diag = diag;
	twi_clock_steer();
	twi_trace_compare_clocks(diag, false);
	capture->begin_ns = twi_now_ns();
	if (since_ns != 0) {
		capture->since_ns = twi_max(since_ns, diag->start_ns);
		capture->begin_ns = twi_min(capture->since_ns, capture->begin_ns);
	}
	if (!place_cursors(capture)) {
		free_capture(capture);
		return twi_error(TOW_ENOMEM, "no memory for a capture of a trace");
	}
	twi_span_capture(diag, true);
	capture->sampled_out = twi_counter_sum(diag, TWI_C_spans_sampled_out);
	err = twi_thread_start(&capture->thread, NULL, 0, capture_work, capture);
	if (err != 0) {
		twi_span_capture(diag, false);
		free_capture(capture);
		return twi_error_errno(TOW_ESYSTEM, err, "a thread for a capture of a trace");
	}
	*out = capture;
	return TOW_OK;
}

int twi_trace_capture_start(struct twi_diag *diag, struct twi_trace_capture **out)
{
	return twi_trace_capture_start_since(diag, 0, out);
}

static int build_rank(const struct twi_trace_capture *capture, struct twi_trace_rank *rank)
{
	struct twi_diag *diag = capture->diag;
	int status = twi_trace_ask_unfinished(diag, rank);

	rank->begin_ns = capture->begin_ns;
	rank->end_ns = twi_now_ns();
	twi_trace_compare_clocks(diag, true);
	rank->sampled_out = twi_counter_sum(diag, TWI_C_spans_sampled_out) - capture->sampled_out;
	if (status == TOW_OK)
		status = twi_trace_describe(diag, rank);
	if (status == TOW_OK)
		status = twi_trace_end_unfinished(diag, rank);
	for (size_t i = 0; i < capture->part_count && status == TOW_OK; i++) {
		const struct part *part = &capture->parts[i];

		status = twi_trace_add_spans(diag, rank, part->ring, part->spans, part->numbers,
					     part->count, part->lost);
	}
	return status;
}

int twi_trace_capture_finish(struct twi_trace_capture *capture, struct twi_trace *out)
{
	struct twi_trace_rank *rank = out != NULL ? calloc(1, sizeof(*rank)) : NULL;
	int status = TOW_OK;

	atomic_store_explicit(&capture->stopping, true, memory_order_relaxed);
	pthread_join(capture->thread, NULL);
	drain_rings(capture);
	twi_span_capture(capture->diag, false);
	for (size_t i = 0; i < capture->part_count; i++)
		twi_count(capture->diag, TWI_C_spans_lost, capture->parts[i].lost);
	if (out != NULL) {
		*out = (struct twi_trace){ .rank_count = rank != NULL, .ranks = rank };
		status = rank != NULL ? build_rank(capture, rank) : TOW_ENOMEM;
		if (status < 0) {
			twi_trace_fini(out);
			status = twi_error(TOW_ENOMEM, "no memory for a trace");
		}
	}
	free_capture(capture);
	return status;
}
