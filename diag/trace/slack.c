/*
 * slack.c - computes what slack.h defines, with integers.
 *
 * The time that a rank's threads spent on the network is a set of time (trace_view.h). Calls on one
 * thread do not overlap, so there the measure is the sum of durations, as in XProf. With several
 * threads, no nanosecond counts twice.
 */
#include "diag/trace/slack.h"

#include <stdlib.h>
#include <string.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "diag/record/coll_kind.h"
#include "diag/trace/trace_view.h"

struct wait {
	uint64_t id, start_ns, end_ns;
};

/* The spans of one rank. */
struct gather {
	struct twi_cover network;
	struct wait *waits; /* for collectives, sorted by id and start */
	size_t wait_count;
};

bool twi_slack_wire_bytes(unsigned kind, uint64_t ranks, uint64_t bytes, uint64_t *out)
{
	twi_wide g = ranks, r = bytes, wire = 0;
	bool sized = true;

	switch (kind) {
	case TWI_COLL_PERMUTE:
	case TWI_COLL_SEND_RECEIVE:
		wire = r;
		break;
	case TWI_COLL_REDUCE_SCATTER:
	case TWI_COLL_ALL_GATHER:
	case TWI_COLL_ALL_GATHER_V:
	case TWI_COLL_ALL_TO_ALL:
	case TWI_COLL_ALL_TO_ALL_V:
		wire = g > 0 ? (g - 1) * r / g : 0;
		break;
	case TWI_COLL_ALL_REDUCE:
		wire = g > 0 ? 2 * (g - 1) * r / g : 0;
		break;
	default:
		sized = false;
	}
	*out = wire > UINT64_MAX ? UINT64_MAX : (uint64_t)wire;
	return sized;
}

uint64_t twi_slack_required(uint64_t bytes, uint64_t ns)
{
	twi_wide bits = (twi_wide)bytes * 8 * 1000000000u;

	if (bytes == 0)
		return 0;
	if (ns == 0)
		return TWI_SLACK_UNBOUNDED;
	bits /= ns;
	return bits >= TWI_SLACK_UNBOUNDED ? TWI_SLACK_UNBOUNDED - 1 : (uint64_t)bits;
}

static int waits_by_id(const void *a, const void *b)
{
	const struct wait *left = a, *right = b;

	if (left->id != right->id)
		return left->id < right->id ? -1 : 1;
	return (left->start_ns > right->start_ns) - (left->start_ns < right->start_ns);
}

static int gather_span(struct gather *g, const struct twi_span *span)
{
	if (span->kind == TWI_SPAN_COLL)
		return twi_cover_add(&g->network, span->start_ns,
				     span->start_ns + twi_span_called(span));
	if (!twi_view_is_wait(span))
		return TOW_OK;
	if (span->detail == TWI_SPAN_COLL)
		g->waits[g->wait_count++] = (struct wait){ span->id, span->start_ns,
							   twi_max(span->start_ns, span->end_ns) };
	return twi_cover_add(&g->network, span->start_ns, span->end_ns);
}

static int gather_rank(const struct twi_trace_rank *rank, struct gather *g)
{
	size_t spans = 0;
	int status = TOW_OK;

	*g = (struct gather){ 0 };
	for (size_t i = 0; i < rank->thread_count; i++)
		spans += rank->threads[i].span_count;
	g->waits = calloc(spans + 1, sizeof(*g->waits));
	if (g->waits == NULL)
		return twi_error(TOW_ENOMEM, "no memory to analyse %zu spans", spans);
	for (size_t i = 0; i < rank->thread_count; i++) {
		for (size_t k = 0; k < rank->threads[i].span_count && status == TOW_OK; k++)
			status = gather_span(g, &rank->threads[i].spans[k]);
	}
	twi_cover_seal(&g->network);
	qsort(g->waits, g->wait_count, sizeof(*g->waits), waits_by_id);
	return status;
}

static void gather_fini(struct gather *g)
{
	twi_cover_fini(&g->network);
	free(g->waits);
}

/* The first wait for the collective `id`; wait_count when there is none. */
static size_t find_wait(const struct gather *g, uint64_t id)
{
	size_t low = 0, high = g->wait_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (g->waits[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < g->wait_count && g->waits[low].id == id ? low : g->wait_count;
}

static void judge_wait(const struct gather *g, const struct twi_span *span,
		       struct twi_slack_row *row)
{
	size_t at = find_wait(g, span->id);
	uint64_t from = twi_max(span->start_ns, span->end_ns), to = from, first = from, gap;

	row->waited = at < g->wait_count;
	if (row->waited) {
		first = g->waits[at].start_ns;
		to = 0;
	}
	for (; at < g->wait_count && g->waits[at].id == span->id; at++) {
		row->wait_ns += g->waits[at].end_ns - g->waits[at].start_ns;
		if (g->waits[at].end_ns > to) {
			from = g->waits[at].start_ns;
			to = g->waits[at].end_ns;
		}
	}
	row->send_ns = twi_span_called(span);
	if (span->queue_ns == UINT32_MAX && first > span->start_ns) /* the call had ended by then */
		row->send_ns = twi_min(row->send_ns, first - span->start_ns);
	row->observed_ns = to > span->start_ns ? to - span->start_ns : 0;
	gap = from > span->start_ns ? from - span->start_ns : 0;
	row->slack_ns = gap - twi_cover_within(&g->network, span->start_ns, span->start_ns + gap);
	row->sized = twi_slack_wire_bytes(span->detail, span->ranks, span->bytes, &row->wire_bytes);
	row->required_bps = twi_slack_required(row->wire_bytes, row->slack_ns);
}

static int rows_by_start(const void *a, const void *b)
{
	const struct twi_slack_row *left = a, *right = b;

	if (left->start_ns != right->start_ns)
		return left->start_ns < right->start_ns ? -1 : 1;
	return (left->id > right->id) - (left->id < right->id);
}

static int add_rank(const struct twi_trace *trace, size_t index, struct twi_slack *out)
{
	const struct twi_trace_rank *rank = &trace->ranks[index];
	size_t first = out->row_count;
	struct gather g;
	int status = gather_rank(rank, &g);

	for (size_t i = 0; i < rank->thread_count && status == TOW_OK; i++) {
		for (size_t k = 0; k < rank->threads[i].span_count; k++) {
			const struct twi_span *span = &rank->threads[i].spans[k];
			struct twi_slack_row *row = &out->rows[out->row_count];

			if (span->kind != TWI_SPAN_COLL)
				continue;
			*row = (struct twi_slack_row){ .rank = index,
						       .id = span->id,
						       .name = twi_view_name(rank, span),
						       .ranks = span->ranks,
						       .kind = span->detail,
						       .bytes = span->bytes,
						       .start_ns = span->start_ns };
			judge_wait(&g, span, row);
			out->row_count++;
		}
	}
	if (out->row_count > first)
		qsort(out->rows + first, out->row_count - first, sizeof(*out->rows), rows_by_start);
	gather_fini(&g);
	return status;
}

/* --- groups --- */

static int rows_by_group(const void *a, const void *b)
{
	const struct twi_slack_row *left = *(const struct twi_slack_row *const *)a;
	const struct twi_slack_row *right = *(const struct twi_slack_row *const *)b;
	uint32_t l = (uint32_t)(left->id >> 32), r = (uint32_t)(right->id >> 32);
	int order;

	if (l != r)
		return l < r ? -1 : 1;
	if (left->kind != right->kind)
		return (int)left->kind - (int)right->kind;
	order = strcmp(left->name, right->name);
	return order != 0 ? order : (left > right) - (left < right);
}

static bool same_group(const struct twi_slack_row *left, const struct twi_slack_row *right)
{
	return left->id >> 32 == right->id >> 32 && left->kind == right->kind &&
	       strcmp(left->name, right->name) == 0;
}

static int values_ascend(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

static struct twi_slack_stat stat_of(uint64_t *values, size_t count)
{
	struct twi_slack_stat stat;
	twi_wide sum = 0;

	qsort(values, count, sizeof(*values), values_ascend);
	for (size_t i = 0; i < count; i++)
		sum += values[i];
	stat.p50 = values[(count + 1) / 2 - 1];
	stat.p99 = values[count - count / 100 - 1];
	stat.max = values[count - 1];
	stat.mean = stat.max == TWI_SLACK_UNBOUNDED ? TWI_SLACK_UNBOUNDED : (uint64_t)(sum / count);
	return stat;
}

/* The figures of one member of all rows, a uint64_t at `offset`. STALL: of send_ns + wait_ns. */
#define STALL SIZE_MAX
static struct twi_slack_stat stat_at(const struct twi_slack_row *const *rows, size_t count,
				     size_t offset, uint64_t *values)
{
	for (size_t i = 0; i < count; i++)
		values[i] =
			offset == STALL
				? rows[i]->send_ns + rows[i]->wait_ns
				: *(const uint64_t *)(const void *)((const char *)rows[i] + offset);
	return stat_of(values, count);
}

static uint64_t mean_of(twi_wide sum, size_t count)
{
	return (uint64_t)(sum / count);
}

static void group_rows(const struct twi_slack_row *const *rows, size_t count, uint64_t *values,
		       struct twi_slack_group *out)
{
	twi_wide bytes = 0, wire = 0, stall = 0;

	*out = (struct twi_slack_group){ .context = (uint32_t)(rows[0]->id >> 32),
					 .kind = rows[0]->kind,
					 .sized = rows[0]->sized,
					 .name = rows[0]->name,
					 .occurrences = count };
	for (size_t i = 0; i < count; i++) {
		bytes += rows[i]->bytes;
		wire += rows[i]->wire_bytes;
		stall += (twi_wide)rows[i]->send_ns + rows[i]->wait_ns;
		out->waited += rows[i]->waited;
		out->ranks = twi_max(out->ranks, rows[i]->ranks);
		/* rows of one rank are adjacent */
		out->seen_ranks += i == 0 || rows[i]->rank != rows[i - 1]->rank;
	}
	out->bytes = mean_of(bytes, count);
	out->wire_bytes = mean_of(wire, count);
	out->stall_total_ns = stall > UINT64_MAX ? UINT64_MAX : (uint64_t)stall;
	out->slack = stat_at(rows, count, offsetof(struct twi_slack_row, slack_ns), values);
	out->stall = stat_at(rows, count, STALL, values);
	out->observed = stat_at(rows, count, offsetof(struct twi_slack_row, observed_ns), values);
	out->send = stat_at(rows, count, offsetof(struct twi_slack_row, send_ns), values);
	out->wait = stat_at(rows, count, offsetof(struct twi_slack_row, wait_ns), values);
	out->required = stat_at(rows, count, offsetof(struct twi_slack_row, required_bps), values);
	out->required_bps = twi_slack_required(out->wire_bytes, out->slack.mean);
}

static int groups_by_cost(const void *a, const void *b)
{
	const struct twi_slack_group *left = a, *right = b;

	if (left->stall_total_ns != right->stall_total_ns)
		return left->stall_total_ns > right->stall_total_ns ? -1 : 1;
	if (left->context != right->context)
		return left->context < right->context ? -1 : 1;
	if (left->kind != right->kind)
		return (int)left->kind - (int)right->kind;
	return strcmp(left->name, right->name);
}

static int make_groups(struct twi_slack *out)
{
	const struct twi_slack_row **order = calloc(out->row_count + 1, sizeof(*order));
	uint64_t *values = calloc(out->row_count + 1, sizeof(*values));
	size_t groups = 0;
	int status = TOW_OK;

	for (size_t i = 0; order != NULL && i < out->row_count; i++)
		order[i] = &out->rows[i];
	if (order != NULL && values != NULL) {
		qsort(order, out->row_count, sizeof(*order), rows_by_group);
		for (size_t i = 0; i < out->row_count; i++)
			groups += i == 0 || !same_group(order[i - 1], order[i]);
		out->groups = calloc(groups + 1, sizeof(*out->groups));
	}
	if (out->groups == NULL)
		status =
			twi_error(TOW_ENOMEM, "no memory to group %zu collectives", out->row_count);
	for (size_t i = 0, next; status == TOW_OK && i < out->row_count; i = next) {
		for (next = i + 1; next < out->row_count; next++) {
			if (!same_group(order[i], order[next]))
				break;
		}
		group_rows(order + i, next - i, values, &out->groups[out->group_count++]);
	}
	if (status == TOW_OK)
		qsort(out->groups, out->group_count, sizeof(*out->groups), groups_by_cost);
	free(order);
	free(values);
	return status;
}

int twi_slack_make(const struct twi_trace *trace, struct twi_slack *out)
{
	struct twi_walk walk = { 0 };
	const struct twi_span *span;
	size_t rows = 0;
	int status = TOW_OK;

	*out = (struct twi_slack){ 0 };
	while ((span = twi_view_next(trace, &walk)) != NULL)
		rows += span->kind == TWI_SPAN_COLL;
	out->rows = calloc(rows + 1, sizeof(*out->rows));
	if (out->rows == NULL)
		return twi_error(TOW_ENOMEM, "no memory for the slack of %zu collectives", rows);
	for (size_t i = 0; i < trace->rank_count && status == TOW_OK; i++)
		status = add_rank(trace, i, out);
	if (status == TOW_OK)
		status = make_groups(out);
	if (status < 0)
		twi_slack_fini(out);
	return status;
}

void twi_slack_fini(struct twi_slack *slack)
{
	free(slack->rows);
	free(slack->groups);
	*slack = (struct twi_slack){ 0 };
}
