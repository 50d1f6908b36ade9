/*
 * memreg_size.h - what the parts of sizing share. memreg_size.c has the search and the proof for
 * one job, memreg_others.c the headroom, memreg_budget.c the sum.
 */
#ifndef BENCH_MEMREG_SIZE_H
#define BENCH_MEMREG_SIZE_H

#include "bench/memreg/tow_size.h"

#define MEMREG_LARGE_LOG 1000000 /* events */

/* Prints the library's last error, with the job's name. Returns MEMREG_FAULT. */
int memreg_sizing_failed(const struct memreg_sizing *sizing);

/* A search from `least` upwards, in the arena of the sized pool. */
struct twi_replay_search memreg_search_of(struct memreg_sizing *sizing, uint64_t least);

/* Adds headroom for other runs: the program could have run in another order. */
int memreg_try_others(struct memreg_sizing *sizing);

/*
 * Adds a step where a workload's small collectives are fused: their buffers are taken and freed in
 * the order in which collectives end, and the plan has but one such order.
 */
void memreg_allow_fused(struct memreg_sizing *sizing);

/* Adds headroom for a log from the middle, for the memory that was live before it. */
void memreg_keep_spread(struct memreg_sizing *sizing);

/*
 * The most that can be live in any order of the threads, with the runtime's own memory. It is the
 * sum of the threads' own peaks, with each block as the arena rounds it. It holds where threads
 * free their own blocks; free pieces between blocks come in addition. 0: not known, as the log is
 * not whole or there is none.
 */
uint64_t memreg_any_order(const struct memreg_sizing *sizing);

/*
 * Finds the owners of memory in the log: call sites at the peak, and blocks that are never freed.
 */
int memreg_find_owners(struct memreg_sizing *sizing);

/* Makes a line for each consumer at the peak and for what the pool adds. The sum is the size. */
int memreg_budget_fill(struct memreg_sizing *sizing);

/* Makes one real run. The next run overwrites the result. */
struct memreg_run *memreg_real_run(struct memreg_sizing *sizing, uint64_t bytes);

/* --premap: checks whether this size is enough. */
int memreg_check_size(struct memreg_sizing *sizing);

/* Searches, adds headroom and verifies: all of the answer but the curve. */
int memreg_find_need(struct memreg_sizing *sizing);

/*
 * Several threads at once fragment the free memory differently each time. The worst of these times
 * may be in a gap of the log (docs/sizing.md has an example).
 */
static inline bool memreg_gaps_hide(const struct memreg_job *job)
{
	return job->gaps.count > 0 && job->replay->threads > 1;
}

#endif
