/*
 * magazine.h - the front cache of an arena: freed blocks kept by size, so that the next allocation
 * of that size takes neither the arena's lock nor the allocator's way. Both providers use it.
 *
 *   shard of this CPU: busy  bytes   set 0    set 1          set 31
 *                                  [64 KiB] [1 MiB ]  ...  [       ]    up to 16 blocks each:
 *                                  [64 KiB] [192 B ]       [       ]    size and address
 *
 * A shard belongs to a CPU, not to a thread: as many shards as CPUs serve any number of threads,
 * and a thread that ends leaves nothing behind. Who finds its shard busy (its holder was preempted,
 * or a drain is at work) goes the slow way; nobody but a drain ever waits.
 *
 * What is cached is free for its owner and still allocated for the provider behind. Three rules
 * keep that from being seen, and a fourth one keeps small things out of the way of large ones:
 *
 *   - an allocation fails only after a drain;
 *   - statistics drain first;
 *   - what the provider counts as allocated never passes its peak while anything is cached
 *     (who would raise it drains first), so that the peak is one of blocks in use, not of
 *     the cache;
 *   - a large block is placed only after a drain: else it would be placed around what is cached.
 */
#ifndef TWI_MAGAZINE_H
#define TWI_MAGAZINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <internal/base.h>

#define TWI_MAGAZINE_SETS       32
#define TWI_MAGAZINE_WAYS       16
#define TWI_MAGAZINE_SHARDS_MAX 64
#define TWI_MAGAZINE_SHARE      4 /* a shard keeps at most this part of the arena */

struct twi_magazine_shard;

struct twi_magazine {
	struct twi_magazine_shard *shard;
	uint32_t mask;             /* shards - 1 */
	uint32_t stays;            /* the CPU that replays are on, and 1; 0: where the thread is */
	uint64_t shard_bytes;      /* what one shard may keep */
	_Atomic uint64_t occupied; /* bit of each shard that may have blocks */
	void *memory;
	pthread_mutex_t drain;
};

/* How a block really goes back: into the provider behind. */
typedef void (*twi_magazine_give)(void *ctx, void *base);

/* For an arena of `bytes`. False: no memory. */
bool twi_magazine_init(struct twi_magazine *magazine, uint64_t bytes);
/* What is cached is forgotten. */
void twi_magazine_fini(struct twi_magazine *magazine);

/* A block of exactly `bytes`, aligned; NULL when there is none at hand. Lock-free. */
void *twi_magazine_take(struct twi_magazine *magazine, uint64_t bytes, uint64_t align);

/* Keeps the block, or gives it. */
void twi_magazine_put(struct twi_magazine *magazine, void *base, uint64_t bytes,
		      twi_magazine_give give, void *ctx);

/* Gives all of them back. Waits for another drain, so that what that one holds is back too. */
void twi_magazine_drain(struct twi_magazine *magazine, twi_magazine_give give, void *ctx);

/* Nobody else is inside a call: a replay, which needs no locks. */
static inline bool twi_magazine_alone(const struct twi_magazine *magazine)
{
	return twi_unlikely(magazine->stays != 0);
}

/* May anything be cached? */
static inline bool twi_magazine_occupied(const struct twi_magazine *magazine)
{
	return atomic_load_explicit(&magazine->occupied, memory_order_relaxed) != 0;
}

#endif
