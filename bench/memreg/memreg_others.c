/*
 * memreg_others.c - computes the headroom, as a program does not run the same way twice.
 *
 * The log is replayed on other CPUs and in other possible orders of its threads. The size grows,
 * within bounds, until all of these runs fit.
 */
#include "bench/memreg/memreg_size.h"
#include <internal/base.h>
#include <towline/status.h>

#define OTHERS_MOST    128
#define OTHERS_EVENTS  ((uint64_t)16 << 20) /* events of all other runs of a round, at most */
#define OTHERS_LARGE   4
#define ORDER_PERMILLE 50
#define HEADROOM_PART  3 /* divisor of the size: the most that other runs may add */

/* More runs make it rarer that a run needs more than all of them: 32 runs missed one in thirty. */
static uint32_t others_count(const struct twi_replay *replay)
{
	if (replay->count > MEMREG_LARGE_LOG)
		return OTHERS_LARGE;
	return (uint32_t)twi_min(OTHERS_EVENTS / twi_max(replay->count, (uint64_t)1),
				 (uint64_t)OTHERS_MOST);
}

int memreg_try_others(struct memreg_sizing *sizing)
{
	const struct twi_replay *replay = sizing->job.replay;
	uint64_t most = sizing->smallest;
	struct twi_replay_search wanted = memreg_search_of(sizing, sizing->smallest);
	struct twi_replay_others others = { .count = others_count(replay),
					    .permille = ORDER_PERMILLE,
					    .most_bytes = most + most / HEADROOM_PART };
	uint64_t above;
	bool fit, above_fits;

	wanted.step_bytes = sizing->found.step_bytes;
	memreg_progress("other runs of the program", 25, 100);
	if (twi_replay_find_others(replay, &wanted, &others, &most, &fit) < 0)
		return memreg_sizing_failed(sizing);
	/*
	 * The need differs, and the rarest run may not be among these. So a further step is added
	 * that holds all.
	 */
	if (fit && (most > sizing->smallest || replay->threads > 1) &&
	    most + wanted.step_bytes <= others.most_bytes) {
		wanted.least_bytes = most + wanted.step_bytes;
		if (twi_replay_find_others(replay, &wanted, &others, &above, &above_fits) < 0)
			return memreg_sizing_failed(sizing);
		most = above_fits ? above : most;
	}
	sizing->orders = others.count;
	sizing->capped = !fit;
	sizing->headroom = most - sizing->smallest;
	return 0;
}

void memreg_allow_fused(struct memreg_sizing *sizing)
{
	if (sizing->job.fuses)
		sizing->headroom += sizing->found.step_bytes;
}

/*
 * For a log from the middle, memory before it is not known. But the log says how much of its pool
 * was enough for all of it, with blocks and free pieces as they lay. Staging is at most a quarter
 * of that.
 */
void memreg_keep_spread(struct memreg_sizing *sizing)
{
	uint64_t spread = sizing->job.spread_bytes, staging = sizing->own.bytes, bytes;

	if (spread == 0)
		return;
	if (sizing->job.staging_bytes >= 0)
		staging = twi_max(staging, (uint64_t)sizing->job.staging_bytes);
	bytes = twi_align_up(spread + twi_min(staging, spread / 3), sizing->found.step_bytes);
	if (bytes <= sizing->smallest + sizing->headroom)
		return;
	sizing->spread = bytes - sizing->smallest - sizing->headroom;
	sizing->headroom += sizing->spread;
}

uint64_t memreg_any_order(const struct memreg_sizing *sizing)
{
	const struct memreg_job *job = &sizing->job;

	/* Staging gets at most a quarter of a pool, which is a third of all else. */
	if (job->strategy[0] != '\0' || job->sampled > 1 || job->lost > 0 || job->gaps.count > 0)
		return 0;
	return job->replay->apart_rounded +
	       twi_min(sizing->own_most_bytes,
		       twi_max(sizing->own.bytes, job->replay->apart_rounded / 3));
}
