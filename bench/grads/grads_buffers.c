/*
 * grads_buffers.c - the buffers of a rank, as its plan wants them.
 *
 * They come from the pool, where payload moves without a copy. What the pool has no room for comes
 * from the heap, as in a real runtime: it works, costs more, and the report says so.
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench/grads/grads.h"

#define PAGE         UINT64_C(4096)
#define HEADROOM_MIN (UINT64_C(32) << 20)
#define HUGE         (UINT64_C(2) << 20)

/* Whole pages for each buffer, and a sixteenth for what the library and its arena need. */
uint64_t grads_premap(const struct strategy_plan *plan)
{
	uint64_t need = 0, headroom;

	for (uint64_t i = 0; i < plan->step_begin; i++)
		if (plan->events[i].kind == STRATEGY_ALLOC)
			need += (plan->events[i].bytes + PAGE - 1) & ~(PAGE - 1);
	headroom = need / 16;
	if (headroom < HEADROOM_MIN)
		headroom = HEADROOM_MIN;
	return (need + headroom + HUGE - 1) & ~(HUGE - 1);
}

static int make_buffer(struct grads_rank *rank, uint64_t bytes, void **memory_out, bool *heap_out)
{
	struct grads_outcome *outcome = &rank->outcome;
	int rc = tow_alloc(rank->runtime, bytes, 0, memory_out);

	if (rc != TOW_EEXHAUSTED)
		return rc < 0 ? grads_failed(rank->rank, "buffer from the pool", rc) : 0;
	if (outcome->heap_buffers++ == 0)
		snprintf(outcome->pool_message, sizeof(outcome->pool_message), "%s",
			 tow_error_message());
	outcome->heap_bytes += bytes;
	*heap_out = true;
	if (posix_memalign(memory_out, 4096, bytes) != 0)
		return grads_failed(rank->rank, "buffer from the heap", TOW_ENOMEM);
	return 0;
}

int grads_buffers_make(struct grads_rank *rank)
{
	const struct strategy_plan *plan = rank->plan;
	int rc = 0;

	rank->buffer = calloc(plan->buffers, sizeof(*rank->buffer));
	rank->heap = calloc(plan->buffers, sizeof(*rank->heap));
	if (rank->buffer == NULL || rank->heap == NULL)
		return grads_failed(rank->rank, "tables of the buffers", TOW_ENOMEM);
	for (uint64_t i = 0; i < plan->step_begin && rc == 0; i++) {
		const struct strategy_event *event = &plan->events[i];

		if (event->kind == STRATEGY_ALLOC)
			rc = make_buffer(rank, event->bytes, &rank->buffer[event->buffer],
					 &rank->heap[event->buffer]);
	}
	return rc;
}

void grads_buffers_drop(struct grads_rank *rank)
{
	for (uint32_t i = 0; rank->heap != NULL && i < rank->plan->buffers; i++)
		if (rank->heap[i])
			free(rank->buffer[i]);
	free(rank->buffer);
	free(rank->heap);
}
