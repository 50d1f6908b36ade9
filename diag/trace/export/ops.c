/* ops.c - turns a rank's operations into pairs of ops. See ops.h. */
#include "diag/trace/export/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "diag/record/coll_kind.h"
#include "diag/trace/export/ops_line.h"
#include "diag/trace/export/show.h"
#include "diag/trace/trace_view.h"

/* How many collectives of one name, kind and size may be under way at once. */
#define DEPTH_MAX 256u

const char *twi_op_what_name(unsigned what)
{
	static const char *const names[] = { "send", "recv", "send-done", "recv-done", "wait" };

	return names[what];
}

const char *twi_rendezvous_transfer(const struct twi_rendezvous *rendezvous)
{
	/* XProf has no formula for those that are not among MegaScale's transfers. */
	static const char *const names[] = {
		[TWI_COLL_ALL_REDUCE] = "ALL_REDUCE",
		[TWI_COLL_REDUCE_SCATTER] = "REDUCE_SCATTER",
		[TWI_COLL_ALL_GATHER] = "ALL_GATHER",
		[TWI_COLL_ALL_GATHER_V] = "ALL_GATHER",
		[TWI_COLL_BROADCAST] = "BROADCAST",
		[TWI_COLL_REDUCE] = "REDUCE",
		[TWI_COLL_GATHER] = "GATHER",
		[TWI_COLL_SCATTER] = "SCATTER",
		[TWI_COLL_ALL_TO_ALL] = "ALL_TO_ALL",
		[TWI_COLL_ALL_TO_ALL_V] = "ALL_TO_ALL",
		[TWI_COLL_PERMUTE] = "ONE_TO_ONE",
		[TWI_COLL_BARRIER] = "BARRIER",
		[TWI_COLL_SEND_RECEIVE] = "ONE_TO_ONE",
	};

	if (!rendezvous->collective || rendezvous->kind >= twi_array_count(names))
		return "UNKNOWN";
	return names[rendezvous->kind];
}

static uint32_t new_rendezvous(struct twi_ops *ops, const struct twi_rendezvous *like,
			       const char *text)
{
	struct twi_rendezvous *row;
	bool named;

	if (ops->rendezvous_count >= TWI_RENDEZVOUS_MAX)
		return 0;
	if (ops->rendezvous_count + 1 >= ops->rendezvous_room) {
		size_t room = ops->rendezvous_room * 2 + 16;

		row = realloc(ops->rendezvous, room * sizeof(*row));
		if (row == NULL)
			return 0;
		ops->rendezvous = row;
		ops->rendezvous_room = room;
	}
	row = &ops->rendezvous[++ops->rendezvous_count];
	*row = *like;
	row->busy_rank = SIZE_MAX;
	row->next = 0;
	named = like->collective
			? twi_op_names_make(&ops->names, text, like->kind, like->bytes, row->name)
			: twi_op_names_plain(&ops->names, text, row->name);
	if (!named)
		ops->rendezvous_count--;
	return named ? (uint32_t)ops->rendezvous_count : 0;
}

/*
 * Finds the rendezvous for an operation of a rank in [start, end); 0: none is free. XProf keeps one
 * state for each. So operations that overlap or touch must not share one.
 */
static uint32_t find_rendezvous(struct twi_ops *ops, uint32_t context, const char *text,
				const struct twi_rendezvous *like, size_t rank, uint64_t start_ns,
				uint64_t end_ns)
{
	char key[TWI_SHOW_NAME_BYTES + 64]; /* no name and "" are the same */
	uint32_t number;
	bool is_new;

	snprintf(key, sizeof(key), "%u/%d/%u/%u/%llu/%s", context, like->collective, like->kind,
		 like->ranks, (unsigned long long)like->bytes, text);
	if (ops->keys.count >= TWI_RENDEZVOUS_MAX)
		return 0;
	number = twi_names_number(&ops->keys, key, &is_new);
	if (number == 0)
		return 0;
	if (is_new)
		ops->first[number] = new_rendezvous(ops, like, text);
	number = ops->first[number];
	for (uint32_t depth = 0; number; depth++) {
		struct twi_rendezvous *row = &ops->rendezvous[number];

		if (row->busy_rank != rank || row->busy_until < start_ns) {
			row->busy_rank = rank;
			row->busy_until = end_ns;
			return number;
		}
		if (row->next == 0 && depth < DEPTH_MAX) {
			uint32_t next = new_rendezvous(ops, like, text);

			ops->rendezvous[number].next = next; /* rows may have moved */
		}
		number = ops->rendezvous[number].next;
	}
	return 0;
}

static int colls_by_start(const void *a, const void *b)
{
	const struct twi_span *x = ((const struct twi_op_coll *)a)->span;
	const struct twi_span *y = ((const struct twi_op_coll *)b)->span;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

static int colls_by_id(const void *a, const void *b, void *arg)
{
	const struct twi_op_coll *colls = arg;
	size_t left = *(const size_t *)a, right = *(const size_t *)b;

	if (colls[left].span->id != colls[right].span->id)
		return colls[left].span->id < colls[right].span->id ? -1 : 1;
	return (left > right) - (left < right);
}

struct twi_op_coll *twi_ops_coll(const struct twi_ops_rank *rank, uint64_t id, uint64_t at_ns)
{
	size_t low = 0, high = rank->coll_count;

	/* Find the first one after it: with a larger id, or with this id and a later start. */
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct twi_span *span = rank->colls[rank->by_id[middle]].span;

		if (span->id > id || (span->id == id && span->start_ns > at_ns))
			high = middle;
		else
			low = middle + 1;
	}
	if (low == 0 || rank->colls[rank->by_id[low - 1]].span->id != id)
		return NULL;
	return &rank->colls[rank->by_id[low - 1]];
}

/* Is it a thread's wait for the network? */
static bool is_network_wait(const struct twi_span *span)
{
	return span->kind == TWI_SPAN_WAIT &&
	       (span->detail == TWI_SPAN_COLL || span->detail == TWI_SPAN_SEND ||
		span->detail == TWI_SPAN_RECV || span->detail == TWI_SPAN_CALL ||
		span->detail == TWI_SPAN_SERVE);
}

/* The times of a rank, while they are gathered. */
struct gather {
	struct twi_ops *ops;
	const struct twi_trace *trace;
	size_t r; /* the rank */
	struct twi_op_time *times;
	size_t count;
};

static void add_time(struct gather *g, enum twi_op_time_kind kind, uint32_t rendezvous,
		     struct twi_op_said *said, uint64_t start_ns, uint64_t end_ns)
{
	g->times[g->count++] = (struct twi_op_time){ .start_ns = start_ns,
						     .end_ns = twi_max(start_ns, end_ns),
						     .rendezvous = rendezvous,
						     .kind = (uint8_t)kind,
						     .said = said };
}

static void add_coll(struct gather *g, struct twi_op_coll *coll)
{
	const struct twi_span *span = coll->span;
	const char *user = twi_show_user_name(&g->trace->ranks[g->r], span);
	uint64_t over_ns = twi_max(span->start_ns, span->end_ns);
	uint64_t called_ns = span->start_ns + twi_span_called(span);
	uint64_t from_ns = coll->wait != NULL ? coll->wait->start_ns : over_ns;
	uint64_t to_ns = coll->wait != NULL ? coll->wait->end_ns : over_ns;
	struct twi_rendezvous like = {
		.collective = true, .kind = span->detail, .ranks = span->ranks, .bytes = span->bytes
	};

	if (coll->first != NULL)
		called_ns = twi_min(called_ns, coll->first->start_ns);
	coll->rendezvous =
		find_rendezvous(g->ops, (uint32_t)(span->id >> 32), user != NULL ? user : "", &like,
				g->r, span->start_ns, twi_max(to_ns, over_ns));
	if (coll->rendezvous == 0) {
		g->ops->left_out++;
		return;
	}
	add_time(g, TWI_OP_TIME_CALL, coll->rendezvous, &coll->said, span->start_ns, called_ns);
	add_time(g, coll->wait != NULL ? TWI_OP_TIME_LAST : TWI_OP_TIME_OVER, coll->rendezvous,
		 &coll->said, from_ns, to_ns);
}

/* Adds a wait that is not the last one for a collective. */
static void add_wait(struct gather *g, const struct twi_span *span)
{
	struct twi_op_coll *coll = NULL;
	bool receives = span->detail == TWI_SPAN_RECV || span->detail == TWI_SPAN_CALL;
	enum twi_op_time_kind kind = receives ? TWI_OP_TIME_OTHERS : TWI_OP_TIME_OTHER;
	struct twi_rendezvous like = { .kind = span->detail };
	char text[32];
	uint32_t rendezvous;

	if (span->detail == TWI_SPAN_COLL)
		coll = twi_ops_coll(&g->ops->ranks[g->r], span->id, span->start_ns);
	if (coll != NULL && coll->wait == span)
		return;
	if (coll != NULL)
		kind = TWI_OP_TIME_WAITED;
	snprintf(text, sizeof(text), "wait-%s", twi_show_kind(span->detail));
	rendezvous = coll != NULL ? coll->rendezvous
				  : find_rendezvous(g->ops, 0, text, &like, SIZE_MAX, 1, 0);
	if (rendezvous == 0)
		g->ops->left_out++;
	else
		add_time(g, kind, rendezvous, coll != NULL ? &coll->said : NULL, span->start_ns,
			 span->end_ns);
}

typedef void (*visit_span)(struct gather *g, const struct twi_span *span);

static void visit_spans(struct gather *g, visit_span call)
{
	const struct twi_trace_rank *rank = &g->trace->ranks[g->r];

	for (size_t t = 0; t < rank->thread_count; t++)
		for (size_t i = 0; i < rank->threads[t].span_count; i++)
			call(g, &rank->threads[t].spans[i]);
}

/* Counts the room that is needed: a collective needs a call and a wait. */
static void count_span(struct gather *g, const struct twi_span *span)
{
	g->ops->ranks[g->r].coll_count += span->kind == TWI_SPAN_COLL;
	g->count += span->kind == TWI_SPAN_COLL ? 2 : is_network_wait(span);
}

static void take_coll(struct gather *g, const struct twi_span *span)
{
	struct twi_ops_rank *rank = &g->ops->ranks[g->r];

	if (span->kind == TWI_SPAN_COLL)
		rank->colls[rank->coll_count++] = (struct twi_op_coll){ .span = span };
}

static void take_coll_wait(struct gather *g, const struct twi_span *span)
{
	struct twi_op_coll *coll;

	if (!is_network_wait(span) || span->detail != TWI_SPAN_COLL)
		return;
	coll = twi_ops_coll(&g->ops->ranks[g->r], span->id, span->start_ns);
	if (coll != NULL && (coll->wait == NULL || coll->wait->end_ns < span->end_ns))
		coll->wait = span;
	if (coll != NULL && (coll->first == NULL || coll->first->start_ns > span->start_ns))
		coll->first = span;
}

static void take_wait(struct gather *g, const struct twi_span *span)
{
	if (is_network_wait(span))
		add_wait(g, span);
}

static int lay_rank(struct gather *g)
{
	struct twi_ops_rank *rank = &g->ops->ranks[g->r];

	g->count = rank->coll_count = 0;
	visit_spans(g, take_coll);
	qsort(rank->colls, rank->coll_count, sizeof(*rank->colls), colls_by_start);
	for (size_t i = 0; i < rank->coll_count; i++)
		rank->by_id[i] = i;
	qsort_r(rank->by_id, rank->coll_count, sizeof(*rank->by_id), colls_by_id, rank->colls);
	visit_spans(g, take_coll_wait);
	for (size_t i = 0; i < rank->coll_count; i++)
		add_coll(g, &rank->colls[i]);
	visit_spans(g, take_wait);
	return twi_ops_line(g->times, g->count, rank);
}

static int make_rank(struct twi_ops *ops, const struct twi_trace *trace, size_t r)
{
	struct gather g = { .ops = ops, .trace = trace, .r = r };
	struct twi_ops_rank *rank = &ops->ranks[r];
	int status;

	visit_spans(&g, count_span);
	g.times = calloc(g.count + 1, sizeof(*g.times));
	rank->colls = calloc(rank->coll_count + 1, sizeof(*rank->colls));
	rank->by_id = calloc(rank->coll_count + 1, sizeof(*rank->by_id));
	if (g.times == NULL || rank->colls == NULL || rank->by_id == NULL)
		status = twi_error(TOW_ENOMEM, "no memory to write a trace");
	else
		status = lay_rank(&g);
	free(g.times);
	return status;
}

/* Names depend on all ranks, so all collectives are seen before a name is made. */
static void see_names(struct twi_ops *ops, const struct twi_trace *trace)
{
	for (size_t r = 0; r < trace->rank_count; r++) {
		const struct twi_trace_rank *rank = &trace->ranks[r];

		for (size_t t = 0; t < rank->thread_count; t++)
			for (size_t i = 0; i < rank->threads[t].span_count; i++) {
				const struct twi_span *span = &rank->threads[t].spans[i];

				if (span->kind == TWI_SPAN_COLL)
					twi_op_names_see(&ops->names,
							 twi_show_user_name(rank, span),
							 span->detail, span->bytes);
			}
	}
}

int twi_ops_make(const struct twi_trace *trace, struct twi_ops *out)
{
	int status = TOW_OK;

	*out = (struct twi_ops){ .rank_count = trace->rank_count };
	out->ranks = calloc(trace->rank_count + 1, sizeof(*out->ranks));
	out->first = calloc(TWI_RENDEZVOUS_MAX + 1, sizeof(*out->first));
	if (!twi_op_names_init(&out->names) || out->ranks == NULL || out->first == NULL)
		status = twi_error(TOW_ENOMEM, "no memory to write a trace");
	else
		see_names(out, trace);
	for (size_t r = 0; r < trace->rank_count && status == TOW_OK; r++)
		status = make_rank(out, trace, r);
	if (status < 0)
		twi_ops_fini(out);
	return status;
}

void twi_ops_fini(struct twi_ops *ops)
{
	for (size_t r = 0; ops->ranks != NULL && r < ops->rank_count; r++) {
		free(ops->ranks[r].ops);
		free(ops->ranks[r].colls);
		free(ops->ranks[r].by_id);
	}
	free(ops->ranks);
	free(ops->rendezvous);
	free(ops->first);
	twi_names_fini(&ops->keys);
	twi_op_names_fini(&ops->names);
	*ops = (struct twi_ops){ 0 };
}
