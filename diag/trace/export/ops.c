/* ops.c - a rank's operations as pairs of ops. */
#include "diag/trace/export/ops.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "diag/record/coll_kind.h"
#include "diag/trace/export/show.h"

/* How many of one name, kind and size can be under way at once. */
#define DEPTH_MAX 256u

const char *twi_op_what_name(unsigned what)
{
	static const char *const names[] = { "send", "recv", "send-done", "recv-done" };

	return names[what];
}

const char *twi_rendezvous_transfer(const struct twi_rendezvous *rendezvous)
{
	/* Those that are not among MegaScale's transfers have no formula in XProf. */
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

/* A name of letters that XProf's patterns take. */
static void name_rendezvous(struct twi_rendezvous *row, const char *text, size_t number)
{
	size_t at = 0;

	for (; text[at] && at < TWI_RENDEZVOUS_BYTES - 12; at++) {
		char c = text[at];

		row->name[at] = (char)(isalnum((unsigned char)c) || c == '.' || c == '-' ? c : '_');
	}
	snprintf(row->name + at, sizeof(row->name) - at, "%s_%zu", at ? "" : "op", number);
}

static uint32_t new_rendezvous(struct twi_ops *ops, const struct twi_rendezvous *like,
			       const char *text)
{
	struct twi_rendezvous *row;

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
	name_rendezvous(row, text, ops->rendezvous_count);
	return (uint32_t)ops->rendezvous_count;
}

/*
 * The rendezvous of what a rank does in [start, end), or 0. XProf keeps one state for each, so what
 * is under way at once must not share one.
 */
static uint32_t find_rendezvous(struct twi_ops *ops, uint32_t context, const char *text,
				const struct twi_rendezvous *like, size_t rank, uint64_t start_ns,
				uint64_t end_ns)
{
	char key[TWI_SHOW_NAME_BYTES + 64];
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

		if (row->busy_rank != rank || row->busy_until <= start_ns) {
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

	/* The first one beyond: of a larger id, or of this and a later start. */
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

/* Whether it is a thread that waits for the network. */
static bool is_network_wait(const struct twi_span *span)
{
	return span->kind == TWI_SPAN_WAIT &&
	       (span->detail == TWI_SPAN_COLL || span->detail == TWI_SPAN_SEND ||
		span->detail == TWI_SPAN_RECV || span->detail == TWI_SPAN_CALL ||
		span->detail == TWI_SPAN_SERVE);
}

static void add_op(struct twi_ops_rank *rank, enum twi_op_what what, uint32_t rendezvous,
		   uint64_t start_ns, uint64_t end_ns)
{
	rank->ops[rank->op_count++] = (struct twi_op){
		.start_ns = start_ns, .end_ns = end_ns, .rendezvous = rendezvous, .what = what
	};
}

/*
 * When a start call was over at the latest, of a collective whose wait began then. XProf cuts times
 * off to nanoseconds and subtracts them as numbers without a sign, so a slack of none comes out
 * as 500 years now and then: two nanoseconds are left to it.
 */
static uint64_t call_over_ns(uint64_t start_ns, uint64_t wait_ns)
{
	uint64_t gap_ns = wait_ns > start_ns ? wait_ns - start_ns : 0;

	return start_ns + (gap_ns > 2 ? gap_ns - 2 : 0);
}

static void add_coll(struct twi_ops *ops, const struct twi_trace *trace, size_t r,
		     struct twi_op_coll *coll)
{
	const struct twi_span *span = coll->span;
	const char *user = twi_show_user_name(&trace->ranks[r], span);
	uint64_t took_ns = span->end_ns - span->start_ns;
	uint64_t called_ns = span->start_ns + twi_min(took_ns, (uint64_t)span->queue_ns);
	uint64_t from_ns = coll->wait != NULL ? coll->wait->start_ns : span->end_ns;
	uint64_t to_ns = coll->wait != NULL ? coll->wait->end_ns : span->end_ns;
	struct twi_rendezvous like = {
		.collective = true, .kind = span->detail, .ranks = span->ranks, .bytes = span->bytes
	};

	if (coll->first != NULL)
		called_ns = twi_min(called_ns, call_over_ns(span->start_ns, coll->first->start_ns));
	coll->rendezvous = find_rendezvous(ops, (uint32_t)(span->id >> 32),
					   user != NULL ? user : twi_show_coll_name(span->detail),
					   &like, r, span->start_ns, twi_max(to_ns, span->end_ns));
	if (coll->rendezvous == 0) {
		ops->left_out++;
		return;
	}
	add_op(&ops->ranks[r], TWI_OP_SEND, coll->rendezvous, span->start_ns, called_ns);
	add_op(&ops->ranks[r], TWI_OP_RECV, coll->rendezvous, called_ns, called_ns);
	add_op(&ops->ranks[r], TWI_OP_SEND_DONE, coll->rendezvous, from_ns, from_ns);
	add_op(&ops->ranks[r], TWI_OP_RECV_DONE, coll->rendezvous, from_ns, to_ns);
}

/* A wait that is no collective's last one. */
static void add_wait(struct twi_ops *ops, size_t r, const struct twi_span *span)
{
	const struct twi_op_coll *coll = NULL;
	bool receives = span->detail == TWI_SPAN_RECV || span->detail == TWI_SPAN_CALL;
	struct twi_rendezvous like = { .kind = span->detail };
	char text[32];
	uint32_t rendezvous;

	if (span->detail == TWI_SPAN_COLL)
		coll = twi_ops_coll(&ops->ranks[r], span->id, span->start_ns);
	if (coll != NULL && coll->wait == span)
		return;
	snprintf(text, sizeof(text), "wait-%s", twi_show_kind(span->detail));
	rendezvous = coll != NULL ? coll->rendezvous
				  : find_rendezvous(ops, 0, text, &like, SIZE_MAX, 0, 0);
	if (rendezvous == 0)
		ops->left_out++;
	else
		add_op(&ops->ranks[r], receives ? TWI_OP_RECV_DONE : TWI_OP_SEND_DONE, rendezvous,
		       span->start_ns, span->end_ns);
}

static int ops_by_start(const void *a, const void *b)
{
	const struct twi_op *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	if (x->what != y->what)
		return x->what < y->what ? -1 : 1;
	return (x->rendezvous > y->rendezvous) - (x->rendezvous < y->rendezvous);
}

typedef void (*visit_span)(struct twi_ops *ops, size_t r, const struct twi_span *span);

static void visit_spans(struct twi_ops *ops, const struct twi_trace *trace, size_t r,
			visit_span call)
{
	const struct twi_trace_rank *rank = &trace->ranks[r];

	for (size_t t = 0; t < rank->thread_count; t++)
		for (size_t i = 0; i < rank->threads[t].span_count; i++)
			call(ops, r, &rank->threads[t].spans[i]);
}

/* How much room there must be: four ops for a collective. */
static void count_span(struct twi_ops *ops, size_t r, const struct twi_span *span)
{
	ops->ranks[r].coll_count += span->kind == TWI_SPAN_COLL;
	ops->ranks[r].op_count += span->kind == TWI_SPAN_COLL ? 4 : is_network_wait(span);
}

static void take_coll(struct twi_ops *ops, size_t r, const struct twi_span *span)
{
	struct twi_ops_rank *rank = &ops->ranks[r];

	if (span->kind == TWI_SPAN_COLL)
		rank->colls[rank->coll_count++] = (struct twi_op_coll){ .span = span };
}

static void take_coll_wait(struct twi_ops *ops, size_t r, const struct twi_span *span)
{
	struct twi_op_coll *coll;

	if (!is_network_wait(span) || span->detail != TWI_SPAN_COLL)
		return;
	coll = twi_ops_coll(&ops->ranks[r], span->id, span->start_ns);
	if (coll != NULL && (coll->wait == NULL || coll->wait->end_ns < span->end_ns))
		coll->wait = span;
	if (coll != NULL && (coll->first == NULL || coll->first->start_ns > span->start_ns))
		coll->first = span;
}

static void take_wait(struct twi_ops *ops, size_t r, const struct twi_span *span)
{
	if (is_network_wait(span))
		add_wait(ops, r, span);
}

static int make_rank(struct twi_ops *ops, const struct twi_trace *trace, size_t r)
{
	struct twi_ops_rank *rank = &ops->ranks[r];

	visit_spans(ops, trace, r, count_span);
	rank->ops = calloc(rank->op_count + 1, sizeof(*rank->ops));
	rank->colls = calloc(rank->coll_count + 1, sizeof(*rank->colls));
	rank->by_id = calloc(rank->coll_count + 1, sizeof(*rank->by_id));
	if (rank->ops == NULL || rank->colls == NULL || rank->by_id == NULL)
		return twi_error(TOW_ENOMEM, "no memory to write a trace");
	rank->op_count = rank->coll_count = 0;
	visit_spans(ops, trace, r, take_coll);
	qsort(rank->colls, rank->coll_count, sizeof(*rank->colls), colls_by_start);
	for (size_t i = 0; i < rank->coll_count; i++)
		rank->by_id[i] = i;
	qsort_r(rank->by_id, rank->coll_count, sizeof(*rank->by_id), colls_by_id, rank->colls);
	visit_spans(ops, trace, r, take_coll_wait);
	for (size_t i = 0; i < rank->coll_count; i++)
		add_coll(ops, trace, r, &rank->colls[i]);
	visit_spans(ops, trace, r, take_wait);
	qsort(rank->ops, rank->op_count, sizeof(*rank->ops), ops_by_start);
	return TOW_OK;
}

int twi_ops_make(const struct twi_trace *trace, struct twi_ops *out)
{
	int status = TOW_OK;

	*out = (struct twi_ops){ .rank_count = trace->rank_count };
	out->ranks = calloc(trace->rank_count + 1, sizeof(*out->ranks));
	out->first = calloc(TWI_RENDEZVOUS_MAX + 1, sizeof(*out->first));
	if (out->ranks == NULL || out->first == NULL)
		status = twi_error(TOW_ENOMEM, "no memory to write a trace");
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
	*ops = (struct twi_ops){ 0 };
}
