/*
 * memreg_others.c - headroom: a program does not run the same way twice. The log is replayed on
 * other CPUs and in other orders of its threads, as could have been, and what all of these fit in
 * is added to the size, within bounds.
 */
#include "bench/memreg/memreg_size.h"
#include <internal/base.h>
#include <towline/status.h>

#define OTHERS         32
#define OTHERS_LARGE   4
#define ORDER_PERMILLE 50
#define HEADROOM_PART  3 /* of the size: the most that other runs may add */

int memreg_try_others(struct memreg_sizing *sizing)
{
	const struct twi_replay *replay = sizing->job.replay;
	uint64_t most = sizing->smallest;
	struct twi_replay_search wanted = memreg_search_of(sizing, sizing->smallest);
	struct twi_replay_others others = { .count = replay->count > MEMREG_LARGE_LOG ? OTHERS_LARGE
										      : OTHERS,
					    .permille = ORDER_PERMILLE,
					    .most_bytes = most + most / HEADROOM_PART };
	bool fit;

	wanted.step_bytes = sizing->found.step_bytes;
	memreg_progress("other runs of the program", 25, 100);
	if (twi_replay_find_others(replay, &wanted, &others, &most, &fit) < 0)
		return memreg_sizing_failed(sizing);
	sizing->orders = others.count;
	sizing->capped = !fit;
	sizing->headroom = most - sizing->smallest;
	return 0;
}

uint64_t memreg_any_order(const struct memreg_sizing *sizing)
{
	const struct memreg_job *job = &sizing->job;

	if (job->strategy[0] != '\0' || job->sampled > 1 || job->lost > 0)
		return 0;
	return job->replay->apart_rounded + sizing->own_most_bytes;
}
