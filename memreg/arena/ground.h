/*
 * ground.h - the arena base of both providers: page runs, the account of allocations, the cache.
 *
 * Each provider adds its own kind of small blocks:
 *
 *   pagerun.c     small: slabs of our own (slab.h)        large: runs
 *   jemalloc.c    small: jemalloc's bins and slabs        large: runs
 *                             ^ its extents are runs too
 *
 * `lock` protects the runs and the account. No code that holds it calls anything that takes another
 * lock.
 */
#ifndef TWI_GROUND_H
#define TWI_GROUND_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memreg/arena/arena.h"
#include "memreg/arena/magazine.h"
#include "memreg/arena/runs.h"
#include "memreg/region/lease.h"
#include <internal/base.h>

struct twi_ground {
	pthread_mutex_t lock;
	char *base;
	uint64_t bytes;
	struct twi_runs runs;
	/* Written under the lock. Cached blocks count as allocated here, with their slack. */
	_Atomic uint64_t allocated_bytes, peak_bytes;
	uint64_t waste_bytes, allocations;
	_Atomic int64_t waste_shift; /* change of slack by blocks that were reused from the cache */
	struct twi_magazine magazine;
};

/* TOW_OK, TOW_EINVAL for a length out of range, TOW_ENOMEM. */
int twi_ground_init(struct twi_ground *ground, void *base, uint64_t bytes);
void twi_ground_fini(struct twi_ground *ground);

/*
 * Lock and unlock the runs and the account. A replay is alone in the arena (stay in arena.h) and
 * takes no lock, which would cost a sixth of its time.
 */
static inline void twi_ground_lock(struct twi_ground *ground)
{
	if (!twi_magazine_alone(&ground->magazine))
		pthread_mutex_lock(&ground->lock);
}

static inline void twi_ground_unlock(struct twi_ground *ground)
{
	if (!twi_magazine_alone(&ground->magazine))
		pthread_mutex_unlock(&ground->lock);
}

/* Count an allocation of `bytes`, of which `slack` were not requested. The lock is held. */
void twi_ground_account(struct twi_ground *ground, uint64_t bytes, uint64_t slack);
void twi_ground_unaccount(struct twi_ground *ground, uint64_t bytes, uint64_t slack);

/* Allocates a run, counts it and makes it LIVE. The lock is held. NULL: no room. */
void *twi_ground_take(struct twi_ground *ground, uint64_t bytes, uint64_t align);
/* Undoes twi_ground_take for the run with this first page. The lock is held. */
void twi_ground_give(struct twi_ground *ground, uint32_t page);

/* Like find in arena.h, for a page without small blocks. */
int twi_ground_find(struct twi_ground *ground, uint32_t page, struct twi_block *out);

/* Like next in arena.h, for a page without small blocks: finds the run that begins there. */
int twi_ground_next(struct twi_ground *ground, uint32_t page, struct twi_block *out,
		    uint8_t *align_log2_out);

/* Fills in `out`. The lock is held, and all cached blocks have been returned. */
void twi_ground_stats(struct twi_ground *ground, struct twi_arena_stats *out);

/* The size of a run for a request of `bytes`. */
static inline uint64_t twi_ground_run_bytes(uint64_t bytes)
{
	return twi_align_up(twi_max(bytes, 1u), TWI_PAGE_BYTES);
}

static inline uint32_t twi_ground_page(const struct twi_ground *ground, const void *p)
{
	return (uint32_t)((uint64_t)((const char *)p - ground->base) >> TWI_PAGE_SHIFT);
}

/* A block of this size or larger is placed only after cached memory has been returned. */
#define TWI_GROUND_LARGE ((uint64_t)256 << 10)

/*
 * True when cached blocks must be returned before `bytes` are allocated. A large block needs all
 * free memory to choose from. A new peak must count only blocks in use.
 */
static inline bool twi_ground_clears(const struct twi_ground *ground, uint64_t bytes)
{
	return twi_magazine_occupied(&ground->magazine) &&
	       (bytes >= TWI_GROUND_LARGE ||
		atomic_load_explicit(&ground->allocated_bytes, memory_order_relaxed) + bytes >
			atomic_load_explicit(&ground->peak_bytes, memory_order_relaxed));
}

/* Records that a block from the cache has another slack than when it was counted. */
static inline void twi_ground_reslack(struct twi_ground *ground, uint64_t from, uint64_t to)
{
	atomic_fetch_add_explicit(&ground->waste_shift, (int64_t)(to - from), memory_order_relaxed);
}

static inline void twi_ground_aligned(struct twi_page *head, uint64_t align)
{
	uint8_t log2 = (uint8_t)__builtin_ctz(TWI_ALIGN_DEFAULT);

	if (twi_unlikely(align > TWI_ALIGN_DEFAULT))
		log2 = (uint8_t)__builtin_ctzll(align);
	if (atomic_load_explicit(&head->align_log2, memory_order_relaxed) != log2)
		atomic_store_explicit(&head->align_log2, log2, memory_order_relaxed);
}

/* Begins a run from the cache as a new allocation. */
static inline void twi_ground_reuse(struct twi_ground *ground, uint32_t page, uint64_t bytes,
				    uint64_t align)
{
	struct twi_page *head = &ground->runs.page[page];
	uint64_t slack = twi_run_pages(&ground->runs, page) * TWI_PAGE_BYTES - bytes;

	if (head->slack != slack) {
		twi_ground_reslack(ground, head->slack, slack);
		head->slack = (uint16_t)slack;
	}
	twi_ground_aligned(head, align);
	twi_hold_begin(&head->hold);
}

#endif
