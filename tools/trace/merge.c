/*
 * merge.c - merges the ranks of two traces, in the order of the ranks.
 */
#include <stdlib.h>

#include "diag/base/error.h"
#include "tools/trace/formats.h"

static int by_rank(const void *a, const void *b)
{
	const struct twi_trace_rank *x = a, *y = b;

	return (x->rank > y->rank) - (x->rank < y->rank);
}

/* A rank below 0 is a process without a number, so two of these are never the same rank. */
static bool has_rank(const struct twi_trace *trace, int64_t rank)
{
	for (size_t i = 0; i < trace->rank_count && rank >= 0; i++) {
		if (trace->ranks[i].rank == rank)
			return true;
	}
	return false;
}

int twi_trace_merge(struct twi_trace *into, struct twi_trace *from)
{
	struct twi_trace_rank *ranks;

	for (size_t i = 0; i < from->rank_count; i++) {
		if (has_rank(into, from->ranks[i].rank))
			return twi_error(TOW_EINVAL, "rank %lld is in both traces",
					 (long long)from->ranks[i].rank);
	}
	if (from->rank_count == 0)
		return TOW_OK;
	ranks = realloc(into->ranks, (into->rank_count + from->rank_count) * sizeof(*ranks));
	if (ranks == NULL)
		return twi_error(TOW_ENOMEM, "no memory to merge traces");
	into->ranks = ranks;
	for (size_t i = 0; i < from->rank_count; i++)
		ranks[into->rank_count++] = from->ranks[i];
	qsort(ranks, into->rank_count, sizeof(*ranks), by_rank);
	free(from->ranks);
	*from = (struct twi_trace){ 0 };
	return TOW_OK;
}
