/*
 * magazine.h - the front cache of an arena: freed blocks, kept by size, for both providers.
 *
 * The next allocation of the same size takes such a block, without the arena's lock and without the
 * allocator.
 *
 *   shard of this CPU: busy  bytes   set 0    set 1          set 31
 *                                  [64 KiB] [1 MiB ]  ...  [       ]    up to 16 blocks each:
 *                                  [64 KiB] [192 B ]       [       ]    size and address
 *
 * A shard belongs to a CPU, not to a thread. So as many shards as CPUs serve any number of threads,
 * and a thread that ends leaves nothing behind. A shard may be busy: its holder was preempted,
 * or a drain works on it. A thread that finds its shard busy goes to the allocator instead;
 * only a drain ever waits.
 *
 * A cached block is free for its owner, but still allocated for the provider. Three rules hide that
 * from the caller, and a fourth keeps cached blocks out of the way of large ones:
 *
 *   - an allocation fails only after a drain;
 *   - statistics drain first;
 *   - while anything is cached, the provider's allocated bytes never pass their peak: a thread that
 *     would raise the peak drains first, so that the peak counts blocks in use, not cached ones;
 *   - a large block is placed only after a drain, so that cached blocks are not in its way.
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
	uint32_t stays;            /* CPU number + 1 of a replay; 0: the thread's own CPU */
	uint64_t shard_bytes;      /* limit of one shard */
	_Atomic uint64_t occupied; /* a bit for each shard that may have blocks */
	void *memory;
	pthread_mutex_t drain;
};

/* Returns a block to the provider. */
typedef void (*twi_magazine_give)(void *ctx, void *base);

/* Makes the cache of an arena of `bytes`. False: no memory. */
bool twi_magazine_init(struct twi_magazine *magazine, uint64_t bytes);
/* Forgets the cached blocks, without returning them. */
void twi_magazine_fini(struct twi_magazine *magazine);

/* A cached block of exactly `bytes`, aligned. NULL: none, or the shard is busy. Lock-free. */
void *twi_magazine_take(struct twi_magazine *magazine, uint64_t bytes, uint64_t align);

/* Caches the block, or returns it by `give`. */
void twi_magazine_put(struct twi_magazine *magazine, void *base, uint64_t bytes,
		      twi_magazine_give give, void *ctx);

/* Returns all cached blocks. Waits for another drain, so that its blocks have been returned too. */
void twi_magazine_drain(struct twi_magazine *magazine, twi_magazine_give give, void *ctx);

/* True for a replay, which is alone inside the calls and needs no locks. */
static inline bool twi_magazine_alone(const struct twi_magazine *magazine)
{
	return twi_unlikely(magazine->stays != 0);
}

/* True when a block may be cached. */
static inline bool twi_magazine_occupied(const struct twi_magazine *magazine)
{
	return atomic_load_explicit(&magazine->occupied, memory_order_relaxed) != 0;
}

#endif
