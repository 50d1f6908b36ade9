/*
 * timeline_steps.c - computes how the time of steps divides, which ranks held steps up, and which
 * came last to collectives.
 *
 * Steps are judged by durations alone, each from one clock. If ranks wait for each other in every
 * step, the rank that computes longest waits least. Without its excess, the step would be shorter
 * by as much. Collectives are judged by when ranks came, on the axis. They count only where the
 * last rank is later than both clocks' errors.
 */
#include <stdlib.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "diag/trace/timeline.h"

struct step_row {
	uint64_t number;
	size_t rank;
	int64_t start;
	struct twi_timeline_split split;
};

struct step_rows {
	struct step_row *rows;
	size_t count;
	uint64_t *values;
};

/* What was in flight at a rank, in any thread. A receive counts from its match on. */
static int flying_of(const struct twi_trace_rank *rank, struct twi_cover *flying)
{
	int status = TOW_OK;

	*flying = (struct twi_cover){ 0 };
	for (size_t t = 0; t < rank->thread_count; t++) {
		for (size_t k = 0; k < rank->threads[t].span_count && status == TOW_OK; k++) {
			const struct twi_span *span = &rank->threads[t].spans[k];
			uint64_t idle = span->kind == TWI_SPAN_RECV
						? twi_span_part(span, span->queue_ns)
						: 0;

			if (span->kind == TWI_SPAN_SEND || span->kind == TWI_SPAN_RECV ||
			    span->kind == TWI_SPAN_CALL || span->kind == TWI_SPAN_COLL)
				status = twi_cover_add(flying, span->start_ns + idle, span->end_ns);
		}
	}
	return status;
}

static int waits_of(const struct twi_trace_thread *thread, struct twi_cover *waits,
		    struct twi_cover *flying)
{
	int status = TOW_OK;

	*waits = (struct twi_cover){ 0 };
	for (size_t k = 0; k < thread->span_count && status == TOW_OK; k++) {
		const struct twi_span *span = &thread->spans[k];

		if (!twi_view_is_wait(span))
			continue;
		status = twi_cover_add(waits, span->start_ns, span->end_ns);
		if (status == TOW_OK)
			status = twi_cover_add(flying, span->start_ns, span->end_ns);
	}
	twi_cover_seal(waits);
	return status;
}

static void split_step(const struct twi_span *step, const struct twi_cover *waits,
		       const struct twi_cover *flying, struct twi_timeline_split *out)
{
	uint64_t end = step->start_ns + twi_span_ns(step);
	uint64_t busy = twi_cover_within(flying, step->start_ns, end);

	out->step_ns = end - step->start_ns;
	out->exposed_ns = twi_cover_within(waits, step->start_ns, end);
	out->hidden_ns = busy - twi_min(busy, out->exposed_ns);
	out->compute_ns = out->step_ns - out->exposed_ns - out->hidden_ns;
}

static int add_thread(const struct twi_trace *trace, struct twi_timeline *out, size_t r,
		      const struct twi_trace_thread *thread, struct step_rows *all)
{
	struct twi_cover waits = { 0 }, flying = { 0 };
	bool any = false;
	int status;

	for (size_t k = 0; k < thread->span_count && !any; k++)
		any = thread->spans[k].kind == TWI_SPAN_STEP;
	if (!any)
		return TOW_OK;
	status = flying_of(&trace->ranks[r], &flying);
	if (status == TOW_OK)
		status = waits_of(thread, &waits, &flying);
	twi_cover_seal(&flying);
	for (size_t k = 0; k < thread->span_count && status == TOW_OK; k++) {
		const struct twi_span *span = &thread->spans[k];
		struct step_row *row = &all->rows[all->count];

		if (span->kind != TWI_SPAN_STEP)
			continue;
		row->number = span->id;
		row->rank = r;
		row->start = twi_view_at(&out->view, r, span->start_ns);
		split_step(span, &waits, &flying, &row->split);
		all->count++;
	}
	twi_cover_fini(&waits);
	twi_cover_fini(&flying);
	return status;
}

static int by_number(const void *a, const void *b)
{
	const struct step_row *left = a, *right = b;

	if (left->number != right->number)
		return left->number < right->number ? -1 : 1;
	if (left->rank != right->rank)
		return left->rank < right->rank ? -1 : 1;
	return (left->start > right->start) - (left->start < right->start);
}

static int values_ascend(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

static void add_split(struct twi_timeline_split *into, const struct twi_timeline_split *from)
{
	into->step_ns += from->step_ns;
	into->compute_ns += from->compute_ns;
	into->hidden_ns += from->hidden_ns;
	into->exposed_ns += from->exposed_ns;
}

/* A rank's own share of the step: the time in which it did not wait. */
static uint64_t own_ns(const struct twi_timeline_split *part)
{
	return part->step_ns - part->exposed_ns;
}

static void find_slowest(const struct step_row *rows, size_t count, uint64_t *values,
			 struct twi_timeline *out, struct twi_timeline_step *step)
{
	size_t worst = 0, others = 0;
	uint64_t median, longest;

	for (size_t i = 1; i < count; i++) {
		if (own_ns(&rows[i].split) > own_ns(&rows[worst].split))
			worst = i;
	}
	step->slowest = rows[worst].rank;
	for (size_t i = 0; i < count; i++) {
		if (i != worst)
			values[others++] = own_ns(&rows[i].split);
	}
	if (others == 0)
		return;
	qsort(values, others, sizeof(*values), values_ascend);
	median = values[(others + 1) / 2 - 1];
	longest = own_ns(&rows[worst].split);
	if ((longest - median) / TWI_TIMELINE_STRAGGLE_PERCENT < rows[worst].split.step_ns / 100 ||
	    longest == median)
		return;
	step->late_ns = longest - median;
	out->ranks[step->slowest].slowest_steps++;
	out->ranks[step->slowest].slowest_ns += step->late_ns;
}

static void make_step(const struct step_row *rows, size_t count, uint64_t *values,
		      struct twi_timeline *out)
{
	struct twi_timeline_step *step = &out->steps[out->step_count++];
	struct twi_timeline_split *mean = &step->mean;

	*step = (struct twi_timeline_step){ .number = rows[0].number,
					    .ranks = count,
					    .start_ns = rows[0].start };
	for (size_t i = 0; i < count; i++) {
		add_split(mean, &rows[i].split);
		add_split(&out->ranks[rows[i].rank].sum, &rows[i].split);
		out->ranks[rows[i].rank].steps++;
		step->max_ns = twi_max(step->max_ns, rows[i].split.step_ns);
		step->start_ns = twi_min(step->start_ns, rows[i].start);
	}
	mean->step_ns /= count;
	mean->hidden_ns /= count;
	mean->exposed_ns /= count;
	mean->compute_ns = mean->step_ns - mean->hidden_ns - mean->exposed_ns;
	find_slowest(rows, count, values, out, step);
}

int twi_timeline_steps(const struct twi_trace *trace, struct twi_timeline *out)
{
	size_t steps = out->kinds[TWI_SPAN_STEP].count;
	struct step_rows all = { calloc(steps + 1, sizeof(*all.rows)), 0,
				 calloc(steps + 1, sizeof(*all.values)) };
	int status = TOW_OK;

	out->steps = calloc(steps + 1, sizeof(*out->steps));
	if (all.rows == NULL || all.values == NULL || out->steps == NULL)
		status = twi_error(TOW_ENOMEM, "no memory to analyse %zu steps", steps);
	for (size_t r = 0; r < trace->rank_count && status == TOW_OK; r++) {
		for (size_t t = 0; t < trace->ranks[r].thread_count && status == TOW_OK; t++)
			status = add_thread(trace, out, r, &trace->ranks[r].threads[t], &all);
	}
	if (status == TOW_OK && all.count > 0)
		qsort(all.rows, all.count, sizeof(*all.rows), by_number);
	for (size_t i = 0, next; status == TOW_OK && i < all.count; i = next) {
		for (next = i + 1; next < all.count; next++) {
			if (all.rows[next].number != all.rows[i].number)
				break;
		}
		make_step(&all.rows[i], next - i, all.values, out);
	}
	free(all.rows);
	free(all.values);
	return status;
}

/* --- which rank came last to a collective --- */

struct entry {
	uint64_t id;
	int64_t at;
	size_t rank;
	uint32_t ranks;
};

static int by_id(const void *a, const void *b)
{
	const struct entry *left = a, *right = b;

	if (left->id != right->id)
		return left->id < right->id ? -1 : 1;
	if (left->at != right->at)
		return left->at < right->at ? -1 : 1;
	return (left->rank > right->rank) - (left->rank < right->rank);
}

/* Judges one collective. The last rank is at the end of `entries`. */
static void judge_collective(const struct entry *entries, size_t count, struct twi_timeline *out)
{
	const struct entry *last = &entries[count - 1], *before;
	struct twi_timeline_rank *rank = &out->ranks[last->rank];
	uint64_t late = UINT64_MAX, early = 0, error;

	if (count != last->ranks || count < 2) {
		out->entries.partial += last->ranks > 1;
		return;
	}
	for (before = entries; before < last; before++) {
		error = twi_view_error(&out->view, last->rank, before->rank);
		if (error == UINT64_MAX) {
			out->entries.unknown++;
			return;
		}
		/* Later than every other rank for certain by the least of these differences. */
		early = (uint64_t)(last->at - before->at);
		late = twi_min(late, early - twi_min(early, error));
	}
	out->entries.judged++;
	if (late == 0)
		return;
	out->entries.told++;
	rank->last_count++;
	rank->last_ns += late;
	rank->last_max_ns = twi_max(rank->last_max_ns, late);
}

/*
 * How long a rank's threads waited while the last rank of a collective had not come: the overlap of
 * both sets of time. It is the sum of both less their union.
 */
static int find_others(const struct twi_trace_rank *rank, struct twi_timeline_rank *out)
{
	struct twi_cover waits = { 0 }, early = { 0 }, either = { 0 };
	int status = TOW_OK;

	for (size_t t = 0; t < rank->thread_count; t++) {
		for (size_t k = 0; k < rank->threads[t].span_count && status == TOW_OK; k++) {
			const struct twi_span *span = &rank->threads[t].spans[k];
			bool wait = twi_view_is_wait(span);
			uint64_t end = wait ? span->end_ns
					    : span->start_ns + twi_span_part(span, span->match_ns);

			if (!wait && span->kind != TWI_SPAN_COLL)
				continue;
			status = twi_cover_add(wait ? &waits : &early, span->start_ns, end);
			if (status == TOW_OK)
				status = twi_cover_add(&either, span->start_ns, end);
		}
	}
	twi_cover_seal(&waits);
	twi_cover_seal(&early);
	twi_cover_seal(&either);
	out->others_ns = twi_cover_within(&waits, 0, UINT64_MAX) +
			 twi_cover_within(&early, 0, UINT64_MAX) -
			 twi_cover_within(&either, 0, UINT64_MAX);
	twi_cover_fini(&waits);
	twi_cover_fini(&early);
	twi_cover_fini(&either);
	return status;
}

int twi_timeline_entries(const struct twi_trace *trace, struct twi_timeline *out)
{
	size_t colls = out->kinds[TWI_SPAN_COLL].count, count = 0;
	struct entry *entries = calloc(colls + 1, sizeof(*entries));
	struct twi_walk walk = { 0 };
	const struct twi_span *span;
	int status = TOW_OK;

	if (entries == NULL)
		return twi_error(TOW_ENOMEM, "no memory to analyse %zu collectives", colls);
	while ((span = twi_view_next(trace, &walk)) != NULL) {
		if (span->kind == TWI_SPAN_COLL)
			entries[count++] =
				(struct entry){ span->id,
						twi_view_at(&out->view, walk.rank, span->start_ns),
						walk.rank, span->ranks };
	}
	qsort(entries, count, sizeof(*entries), by_id);
	for (size_t i = 0, next; i < count; i = next) {
		for (next = i + 1; next < count && entries[next].id == entries[i].id; next++)
			;
		judge_collective(&entries[i], next - i, out);
	}
	free(entries);
	for (size_t r = 0; r < trace->rank_count && status == TOW_OK; r++)
		status = find_others(&trace->ranks[r], &out->ranks[r]);
	return status;
}
