/*
 * strategy_cost.c - the bytes that a rank sends in a transfer and in a step.
 *
 * They are the volumes of algorithms that send no more than they must. An all-reduce sends 2 (n -
 * 1) / n of the vector. An all-gather, a reduce-scatter and an all-to-all send (n - 1) / n of all
 * parts (Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in
 * MPICH", 2005). For small vectors the library may choose a plan that sends more and ends sooner.
 */
#include "bench/workloads/strategy.h"

uint64_t strategy_sent_bytes(const struct strategy_event *event, uint32_t ranks)
{
	uint64_t others = ranks - 1;

	if (event->kind != STRATEGY_SEND || ranks == 0)
		return 0;
	switch (event->transfer) {
	case STRATEGY_ALL_REDUCE:
		return 2 * (event->bytes / ranks * others + event->bytes % ranks * others / ranks);
	case STRATEGY_ALL_GATHER:
	case STRATEGY_REDUCE_SCATTER:
		return event->bytes * others;
	case STRATEGY_ALL_TO_ALL:
		return event->bytes / ranks * others;
	case STRATEGY_MESSAGE:
		return event->bytes;
	default:
		return 0;
	}
}

uint64_t strategy_step_bytes(const struct strategy_plan *plan)
{
	uint32_t ranks = strategy_ranks(plan);
	uint64_t sum = 0;

	for (uint64_t i = plan->step_begin; i < plan->step_end; i++)
		sum += strategy_sent_bytes(&plan->events[i], ranks);
	return sum;
}
