/*
 * grads_buffers.c - the buffers of a rank, as its plan needs them.
 *
 * They come from the pool, where payload moves without a copy. A buffer without room in the pool
 * comes from the heap, as in a real runtime. It works but costs more, which the report says.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/common/lanes.h"
#include "bench/grads/grads.h"

#define PAGE         UINT64_C(4096)
#define HEADROOM_MIN (UINT64_C(32) << 20)
#define HUGE         (UINT64_C(2) << 20)
#define LIBRARY      (UINT64_C(9) << 19) /* default staging_bytes, and scratch of collectives */

static uint64_t whole_pages(uint64_t bytes)
{
	return (bytes + PAGE - 1) & ~(PAGE - 1);
}

/* The most that the plan has live at once, in whole pages; 0: no memory to count it. */
static uint64_t live_peak(const struct strategy_plan *plan)
{
	uint64_t *bytes = calloc((size_t)plan->buffers + 1, sizeof(*bytes)), live = 0, peak = 0;

	for (uint64_t i = 0; bytes != NULL && i < plan->count; i++) {
		const struct strategy_event *event = &plan->events[i];

		if (event->kind == STRATEGY_ALLOC) {
			bytes[event->buffer] = whole_pages(event->bytes);
			live += bytes[event->buffer];
		} else if (event->kind == STRATEGY_FREE) {
			live -= bytes[event->buffer];
		}
		peak = live > peak ? live : peak;
	}
	free(bytes);
	return peak;
}

uint64_t grads_premap(const struct strategy_plan *plan, const char *lane)
{
	bool shares = strcmp(lane, "auto") == 0 || bench_lane_is_host(lane);
	uint64_t need = live_peak(plan) + LIBRARY, headroom = shares ? need / 16 : need / 2;

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

int grads_buffer_take(struct grads_rank *rank, const struct strategy_event *event)
{
	return make_buffer(rank, event->bytes, &rank->buffer[event->buffer],
			   &rank->heap[event->buffer]);
}

int grads_buffer_give(struct grads_rank *rank, const struct strategy_event *event)
{
	void *memory = rank->buffer[event->buffer];
	bool heap = rank->heap[event->buffer];
	int status = TOW_OK;

	rank->buffer[event->buffer] = NULL;
	rank->heap[event->buffer] = false;
	if (heap)
		free(memory);
	else
		status = tow_free(rank->runtime, memory);
	return status < 0 ? grads_failed(rank->rank, "tow_free", status) : 0;
}

int grads_buffers_make(struct grads_rank *rank)
{
	const struct strategy_plan *plan = &rank->plan;
	int rc = 0;

	rank->buffer = calloc((size_t)plan->buffers + 1, sizeof(*rank->buffer));
	rank->heap = calloc((size_t)plan->buffers + 1, sizeof(*rank->heap));
	if (rank->buffer == NULL || rank->heap == NULL)
		return grads_failed(rank->rank, "tables of the buffers", TOW_ENOMEM);
	for (uint64_t i = 0; i < plan->step_begin && rc == 0; i++)
		if (plan->events[i].kind == STRATEGY_ALLOC)
			rc = grads_buffer_take(rank, &plan->events[i]);
	return rc;
}

void grads_buffers_drop(struct grads_rank *rank)
{
	for (uint32_t i = 0; rank->heap != NULL && i < rank->plan.buffers; i++)
		if (rank->heap[i])
			free(rank->buffer[i]);
	free(rank->buffer);
	free(rank->heap);
}
