/*
 * memreg_size.h - what the parts of sizing share: memreg_size.c has the search and the proof for
 * one job, memreg_others.c the headroom, memreg_budget.c the sum.
 */
#ifndef BENCH_MEMREG_SIZE_H
#define BENCH_MEMREG_SIZE_H

#include "bench/memreg/tow_size.h"

#define MEMREG_LARGE_LOG 1000000 /* events */

/* Says the library's last error, with the job's name. MEMREG_FAULT. */
int memreg_sizing_failed(const struct memreg_sizing *sizing);

/* A search from `least` upwards, in the arena of the pool that is sized. */
struct twi_replay_search memreg_search_of(struct memreg_sizing *sizing, uint64_t least);

/* The program could have run a little otherwise: what other runs need. */
int memreg_try_others(struct memreg_sizing *sizing);

/* Adds to it what a log from the middle needs for what was before it. */
void memreg_keep_spread(struct memreg_sizing *sizing);

/*
 * The most that can be live in any order of the threads, with what the runtime takes: the sum of
 * the threads' own peaks, each block as the arena rounds it. It holds where threads free their own
 * blocks, and pieces between blocks come in addition. 0: nobody can tell, as the log is not whole
 * or there is none.
 */
uint64_t memreg_any_order(const struct memreg_sizing *sizing);

/* Who has what of the log: call sites at the peak, what is never freed. */
int memreg_find_owners(struct memreg_sizing *sizing);

/* A line for each consumer at the peak, and what the pool adds; the sum is the size. */
int memreg_budget_fill(struct memreg_sizing *sizing);

/* One real run; it is gone with the next one. */
struct memreg_run *memreg_real_run(struct memreg_sizing *sizing, uint64_t bytes);

/* --premap: is this size enough? */
int memreg_check_size(struct memreg_sizing *sizing);

/* Searches, adds headroom and verifies: all that the answer needs, without the curve. */
int memreg_find_need(struct memreg_sizing *sizing);

/*
 * What several threads do at once cuts the free memory in pieces in another way each time, and the
 * worst of these times may be in a gap of the log (docs/sizing.md has what that took).
 */
static inline bool memreg_gaps_hide(const struct memreg_job *job)
{
	return job->gaps.count > 0 && job->replay->threads > 1;
}

#endif
