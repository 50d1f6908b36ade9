/* delivery.c - see delivery.h. */
#include "diag/trace/delivery.h"

#include <stdlib.h>

#include "diag/base/error.h"
#include "diag/trace/trace_view.h"

struct twi_delivery {
	int64_t from, to; /* ranks */
	const struct twi_span *span;
};

/* False: a rank of the message is unknown, so a search could not find it. */
static bool make_row(const struct twi_trace_rank *rank, const struct twi_span *span, bool sent,
		     struct twi_delivery *out)
{
	const struct twi_trace_peer *peer = twi_view_peer(rank, span);

	if (peer == NULL || peer->rank < 0 || rank->rank < 0)
		return false;
	*out = (struct twi_delivery){ .from = sent ? rank->rank : peer->rank,
				      .to = sent ? peer->rank : rank->rank,
				      .span = span };
	return true;
}

static int by_message(const void *a, const void *b)
{
	const struct twi_delivery *x = a, *y = b;

	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	if (x->to != y->to)
		return x->to < y->to ? -1 : 1;
	if (x->span->lane != y->span->lane)
		return x->span->lane < y->span->lane ? -1 : 1;
	if (x->span->id != y->span->id)
		return x->span->id < y->span->id ? -1 : 1;
	return (x->span->bytes > y->span->bytes) - (x->span->bytes < y->span->bytes);
}

static int rows_make(const struct twi_trace *trace, enum twi_span_kind kind,
		     struct twi_deliveries *out)
{
	struct twi_walk walk = { 0 };
	const struct twi_span *span;
	size_t room = 0;

	*out = (struct twi_deliveries){ 0 };
	while ((span = twi_view_next(trace, &walk)) != NULL)
		room += span->kind == kind;
	out->rows = calloc(room + 1, sizeof(*out->rows));
	if (out->rows == NULL)
		return twi_error(TOW_ENOMEM, "no memory for %zu messages", room);
	walk = (struct twi_walk){ 0 };
	while ((span = twi_view_next(trace, &walk)) != NULL)
		if (span->kind == kind && make_row(&trace->ranks[walk.rank], span,
						   kind == TWI_SPAN_DELIVERY && span->detail == 0,
						   &out->rows[out->count]))
			out->count++;
	qsort(out->rows, out->count, sizeof(*out->rows), by_message);
	return TOW_OK;
}

int twi_deliveries_make(const struct twi_trace *trace, struct twi_deliveries *out)
{
	return rows_make(trace, TWI_SPAN_DELIVERY, out);
}

int twi_arrivals_make(const struct twi_trace *trace, struct twi_deliveries *out)
{
	return rows_make(trace, TWI_SPAN_RECV, out);
}

void twi_deliveries_fini(struct twi_deliveries *deliveries)
{
	free(deliveries->rows);
	*deliveries = (struct twi_deliveries){ 0 };
}

const struct twi_span *twi_delivery_of(const struct twi_deliveries *deliveries,
				       const struct twi_trace_rank *rank,
				       const struct twi_span *message)
{
	const struct twi_delivery *found;
	struct twi_delivery key;

	if (!make_row(rank, message, message->kind == TWI_SPAN_SEND, &key))
		return NULL;
	found = bsearch(&key, deliveries->rows, deliveries->count, sizeof(key), by_message);
	return found != NULL ? found->span : NULL;
}
