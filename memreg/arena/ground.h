/*
 * ground.h - what both providers stand on: the extent's page runs, the account of what is
 * allocated, and the front cache. On it each provider builds its small blocks its own way:
 *
 *   pagerun.c     small: slabs of our own (slab.h)        large: runs
 *   jemalloc.c    small: jemalloc's bins and slabs        large: runs
 *                             ^ its extents are runs too
 *
 * `lock` covers the runs and the account. It is a leaf: nothing is called under it that could take
 * another lock.
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
	/* Written under the lock. What is cached counts as allocated here, with its slack. */
	_Atomic uint64_t allocated_bytes, peak_bytes;
	uint64_t waste_bytes, allocations;
	_Atomic int64_t waste_shift; /* of blocks that came from the cache with another slack */
	struct twi_magazine magazine;
};

/* TOW_OK, TOW_EINVAL for a length out of range, TOW_ENOMEM. */
int twi_ground_init(struct twi_ground *ground, void *base, uint64_t bytes);
void twi_ground_fini(struct twi_ground *ground);

/*
 * Around what changes the runs and the account. A replay is alone (stay in arena.h), and takes no
 * lock: it would be a sixth of its time.
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

/* With the lock held. `slack`: bytes of it that nobody asked for. */
void twi_ground_account(struct twi_ground *ground, uint64_t bytes, uint64_t slack);
void twi_ground_unaccount(struct twi_ground *ground, uint64_t bytes, uint64_t slack);

/* A run as an allocation, accounted and LIVE, with the lock held. NULL: no room. */
void *twi_ground_take(struct twi_ground *ground, uint64_t bytes, uint64_t align);
/* The opposite, by its first page, with the lock held. */
void twi_ground_give(struct twi_ground *ground, uint32_t page);

/* As find in arena.h, for a page that belongs to nothing small. */
int twi_ground_find(struct twi_ground *ground, uint32_t page, struct twi_block *out);

/* As next in arena.h, for a page that belongs to nothing small: the run that begins there. */
int twi_ground_next(struct twi_ground *ground, uint32_t page, struct twi_block *out,
		    uint8_t *align_log2_out);

/* Fills in `out` with the lock held, after all that was cached is back. */
void twi_ground_stats(struct twi_ground *ground, struct twi_arena_stats *out);

/* What a run for so many bytes has. */
static inline uint64_t twi_ground_run_bytes(uint64_t bytes)
{
	return twi_align_up(twi_max(bytes, 1u), TWI_PAGE_BYTES);
}

static inline uint32_t twi_ground_page(const struct twi_ground *ground, const void *p)
{
	return (uint32_t)((uint64_t)((const char *)p - ground->base) >> TWI_PAGE_SHIFT);
}

/* From here on a block is placed only after what is kept for speed is back. */
#define TWI_GROUND_LARGE ((uint64_t)256 << 10)

/*
 * Must what is cached go before so many bytes are taken? For a large block, that it has all places
 * to choose from; and before a new peak, that it is one of blocks in use.
 */
static inline bool twi_ground_clears(const struct twi_ground *ground, uint64_t bytes)
{
	return twi_magazine_occupied(&ground->magazine) &&
	       (bytes >= TWI_GROUND_LARGE ||
		atomic_load_explicit(&ground->allocated_bytes, memory_order_relaxed) + bytes >
			atomic_load_explicit(&ground->peak_bytes, memory_order_relaxed));
}

/* A block from the cache has another slack now than when it was accounted. */
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

/* A run from the cache begins anew. */
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
