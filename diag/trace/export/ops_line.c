/*
 * ops_line.c - see ops_line.h. It walks over the times by their starts; times that have begun are
 * in a heap by their ends.
 */
#include "diag/trace/export/ops_line.h"

#include <stdlib.h>

#include <internal/base.h>
#include <towline/status.h>

#include "diag/base/error.h"

/*
 * The gap between two ops. XProf truncates times to nanoseconds and subtracts them as unsigned
 * numbers. So without a gap, a slack of zero sometimes became 500 years.
 */
#define GAP_NS 2u

struct line {
	struct twi_op_time *times; /* by start */
	size_t *heap, heap_count;  /* times that have begun; the first has the line */
	size_t *over, over_count;  /* collectives that are over but not on the line yet */
	uint64_t since_ns;         /* the start of the piece that is not on the line yet */
	struct twi_ops_rank *rank;
	bool failed;
};

static void add_op(struct line *line, enum twi_op_what what, const struct twi_op_time *time,
		   uint64_t start_ns, uint64_t end_ns)
{
	struct twi_ops_rank *rank = line->rank;

	if (rank->op_count == rank->op_room) {
		size_t room = rank->op_room * 2 + 64;
		struct twi_op *ops = realloc(rank->ops, room * sizeof(*ops));

		if (ops == NULL) {
			line->failed = true;
			return;
		}
		rank->ops = ops;
		rank->op_room = room;
	}
	rank->ops[rank->op_count++] = (struct twi_op){ .start_ns = start_ns,
						       .end_ns = end_ns,
						       .rendezvous = time->rendezvous,
						       .what = (uint8_t)what };
}

/* Adds a piece of a start call. The first one is `send`, even if it takes no time. */
static void add_call(struct line *line, const struct twi_op_time *time, uint64_t from_ns,
		     uint64_t to_ns)
{
	if (!time->said->sent) {
		time->said->sent = true;
		add_op(line, TWI_OP_SEND, time, from_ns, to_ns);
		add_op(line, TWI_OP_RECV, time, to_ns, to_ns);
	} else if (from_ns < to_ns) {
		add_op(line, time->said->send_done ? TWI_OP_WAIT : TWI_OP_SEND_DONE, time, from_ns,
		       to_ns);
		time->said->send_done = true;
	}
}

/* Adds a piece of the time that has the line. */
static void add_piece(struct line *line, const struct twi_op_time *time, uint64_t from_ns,
		      uint64_t to_ns)
{
	if (time->kind == TWI_OP_TIME_CALL) {
		add_call(line, time, from_ns, to_ns);
	} else if (from_ns == to_ns) {
		return;
	} else if (time->kind == TWI_OP_TIME_OTHER) {
		add_op(line, TWI_OP_SEND_DONE, time, from_ns, to_ns);
	} else if (time->kind == TWI_OP_TIME_OTHERS) {
		add_op(line, TWI_OP_RECV_DONE, time, from_ns, to_ns);
	} else {
		add_op(line, time->said->send_done ? TWI_OP_WAIT : TWI_OP_SEND_DONE, time, from_ns,
		       to_ns);
		time->said->send_done = true;
	}
}

/* Adds a time's last piece. For the last wait it ends the collective, even if it takes no time. */
static void add_last_piece(struct line *line, const struct twi_op_time *time, uint64_t from_ns,
			   uint64_t to_ns)
{
	if (time->kind < TWI_OP_TIME_LAST) {
		add_piece(line, time, from_ns, to_ns);
		return;
	}
	if (!time->said->send_done)
		add_op(line, TWI_OP_SEND_DONE, time, from_ns, from_ns);
	add_op(line, TWI_OP_RECV_DONE, time, from_ns, to_ns);
}

/* --- the heap --- */

/* Has a the line before b? If both end together, a last wait comes last. */
static bool is_before(const struct line *line, size_t a, size_t b)
{
	const struct twi_op_time *x = &line->times[a], *y = &line->times[b];

	if (x->end_ns != y->end_ns)
		return x->end_ns < y->end_ns;
	return x->kind != y->kind ? x->kind < y->kind : a < b;
}

static void swap_slots(size_t *a, size_t *b)
{
	size_t kept = *a;

	*a = *b;
	*b = kept;
}

static void heap_push(struct line *line, size_t time)
{
	size_t at = line->heap_count++;

	line->heap[at] = time;
	while (at > 0 && is_before(line, line->heap[at], line->heap[(at - 1) / 2])) {
		swap_slots(&line->heap[at], &line->heap[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
}

static void heap_pop(struct line *line)
{
	size_t at = 0;

	line->heap[0] = line->heap[--line->heap_count];
	for (;;) {
		size_t child = 2 * at + 1;

		if (child >= line->heap_count)
			return;
		if (child + 1 < line->heap_count &&
		    is_before(line, line->heap[child + 1], line->heap[child]))
			child++;
		if (!is_before(line, line->heap[child], line->heap[at]))
			return;
		swap_slots(&line->heap[child], &line->heap[at]);
		at = child;
	}
}

/* --- the walk --- */

static void add_over(struct line *line)
{
	for (size_t i = 0; i < line->over_count; i++)
		add_last_piece(line, &line->times[line->over[i]], line->since_ns, line->since_ns);
	line->over_count = 0;
}

/* Ends the present piece of the line at at_ns. */
static void cut_line(struct line *line, uint64_t at_ns)
{
	if (line->heap_count > 0)
		add_piece(line, &line->times[line->heap[0]], line->since_ns, at_ns);
	line->since_ns = at_ns;
	add_over(line);
}

static void end_first(struct line *line)
{
	const struct twi_op_time *time = &line->times[line->heap[0]];

	add_last_piece(line, time, line->since_ns, time->end_ns);
	line->since_ns = time->end_ns;
	heap_pop(line);
	add_over(line);
}

/* Adds a time without length. The end of a collective without waits does not cut other pieces. */
static void begin_empty(struct line *line, size_t index)
{
	const struct twi_op_time *time = &line->times[index];

	if (time->kind == TWI_OP_TIME_OVER)
		line->over[line->over_count++] = index;
	if (time->kind != TWI_OP_TIME_OVER || line->heap_count == 0)
		cut_line(line, time->start_ns);
	if (time->kind != TWI_OP_TIME_OVER)
		add_last_piece(line, time, time->start_ns, time->start_ns);
}

/* Adds a time. A call that does not get the line at once shows its start as a point. */
static void begin_time(struct line *line, size_t index)
{
	const struct twi_op_time *time = &line->times[index];
	bool is_first = line->heap_count == 0 || is_before(line, index, line->heap[0]);

	if (is_first || time->kind == TWI_OP_TIME_CALL)
		cut_line(line, time->start_ns);
	if (!is_first && time->kind == TWI_OP_TIME_CALL)
		add_call(line, time, time->start_ns, time->start_ns);
	heap_push(line, index);
}

static int times_by_start(const void *a, const void *b)
{
	const struct twi_op_time *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return (x->rendezvous > y->rendezvous) - (x->rendezvous < y->rendezvous);
}

/* Ends each op GAP_NS before the next one that takes time or ends a collective. */
static void leave_gaps(struct twi_ops_rank *rank)
{
	uint64_t next_ns = UINT64_MAX;

	for (size_t i = rank->op_count; i-- > 0;) {
		struct twi_op *op = &rank->ops[i];

		if (op->start_ns == op->end_ns && op->what != TWI_OP_RECV_DONE)
			continue;
		if (next_ns - op->end_ns < GAP_NS)
			op->end_ns = next_ns - twi_min(next_ns - op->start_ns, (uint64_t)GAP_NS);
		next_ns = op->start_ns;
	}
}

int twi_ops_line(struct twi_op_time *times, size_t count, struct twi_ops_rank *rank)
{
	struct line line = { .times = times, .rank = rank };

	line.heap = calloc(2 * count + 1, sizeof(*line.heap));
	if (line.heap == NULL)
		return twi_error(TOW_ENOMEM, "no memory to write a trace");
	line.over = line.heap + count;
	qsort(times, count, sizeof(*times), times_by_start);
	for (size_t i = 0; i < count || line.heap_count > 0;) {
		if (line.heap_count > 0 &&
		    (i == count || times[line.heap[0]].end_ns <= times[i].start_ns))
			end_first(&line);
		else if (times[i].start_ns == times[i].end_ns)
			begin_empty(&line, i++);
		else
			begin_time(&line, i++);
	}
	free(line.heap);
	if (line.failed)
		return twi_error(TOW_ENOMEM, "no memory to write a trace");
	leave_gaps(rank);
	return TOW_OK;
}
