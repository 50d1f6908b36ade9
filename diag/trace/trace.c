/*
 * trace.c - frees a trace.
 */
#include "diag/trace/trace.h"

#include <stdlib.h>

static void fini_rank(struct twi_trace_rank *rank)
{
	for (size_t i = 0; i < rank->thread_count; i++)
		free(rank->threads[i].spans);
	for (size_t i = 0; i < rank->peer_count; i++)
		free(rank->peers[i].name);
	for (size_t i = 0; i < rank->name_count; i++)
		free(rank->names[i]);
	free(rank->threads);
	free(rank->unfinished);
	free(rank->peers);
	free(rank->names);
	free(rank->host);
	free(rank->job);
}

void twi_trace_fini(struct twi_trace *trace)
{
	for (size_t i = 0; i < trace->rank_count; i++)
		fini_rank(&trace->ranks[i]);
	free(trace->ranks);
	*trace = (struct twi_trace){ 0 };
}
