/*
 * arena.h - the interface of a provider: the table of an allocator inside the pool.
 *
 * A provider hands out pieces of one extent. Its metadata lies outside that memory, so that a
 * program that writes past its buffer cannot corrupt it. The metadata has a hold word (lease.h) for
 * each allocation. The provider stores the word and begins it; only the pool changes it.
 *
 *   alloc   the hold word becomes LIVE
 *   find    address of any byte inside -> the allocation and its hold word
 *   next    the first allocation at an address or behind it; repeated calls list all of them
 *   give    after the hold word has ended: the memory is free again
 */
#ifndef TWI_ARENA_H
#define TWI_ARENA_H

#include <stddef.h>
#include <stdint.h>

#define TWI_ALIGN_DEFAULT 64
#define TWI_ALIGN_MAX     ((size_t)2 << 20)

/* One allocation, as find returns it. */
struct twi_block {
	void *base;
	uint64_t bytes; /* usable size: the request, rounded up */
	_Atomic uint32_t *hold;
};

struct twi_arena_stats {
	uint64_t total_bytes;
	uint64_t allocated_bytes; /* requests, rounded up */
	uint64_t peak_bytes;      /* maximum of allocated_bytes so far */
	uint64_t waste_bytes;     /* allocated, but not asked for */
	uint64_t free_bytes;
	uint64_t largest_free_bytes;
	uint64_t least_largest_bytes; /* minimum of largest_free_bytes so far */
	uint64_t last_free_bytes;     /* free block at the end of the extent; 0: none */
	uint64_t allocations;         /* count, now */
};

struct twi_arena_ops {
	const char *name;
	/* base is a multiple of TWI_ALIGN_MAX, bytes of 4096. TOW_OK, TOW_ENOMEM, TOW_EINVAL. */
	int (*create)(void *base, uint64_t bytes, void **ctx_out);
	/* Ends remaining allocations with the arena. No other thread is inside a call. */
	void (*destroy)(void *ctx);
	/* align: a power of two, 1..TWI_ALIGN_MAX. TOW_OK or TOW_EEXHAUSTED, without a message. */
	int (*alloc)(void *ctx, size_t bytes, size_t align, void **out);
	/*
	 * Finds the allocation around p, which lies inside the extent, without a lock. TOW_OK or
	 * TOW_EFREED. If no thread keeps the allocation alive, the result may be out of date,
	 * but it is always an address inside the extent.
	 */
	int (*find)(void *ctx, const void *p, struct twi_block *out);
	/*
	 * Finds the first live allocation that begins at p or behind it; p lies inside the extent.
	 * There is no lock, so a call may miss or repeat an allocation that begins or ends
	 * meanwhile. A request for the block's bytes with this alignment would be placed in the
	 * same way as the original request. TOW_OK, or TOW_EFREED: there is none.
	 */
	int (*next)(void *ctx, const void *p, struct twi_block *out, uint8_t *align_log2_out);
	/*
	 * Returns the memory of the allocation that begins at base. Its hold word has just ended,
	 * or the caller is a replay, in which no other thread looks for the allocation.
	 */
	void (*give)(void *ctx, void *base);
	/*
	 * For replays, in which one thread stands for many. From now on the thread counts as
	 * running on this CPU. The arena takes no lock any more, because no other thread is inside
	 * a call, now or later.
	 */
	void (*stay)(void *ctx, uint32_t cpu);
	/* Returns cached memory first, so that largest_free_bytes is what can be allocated. */
	void (*stats)(void *ctx, struct twi_arena_stats *out);
};

/* The library's own provider, of page runs and slabs: pagerun.c. Works in every process. */
extern const struct twi_arena_ops twi_arena_pagerun;

/* A jemalloc arena for small blocks over the same page runs: jemalloc.c. Use it only where
 * twi_arena_jemalloc_refusal returns NULL. */
extern const struct twi_arena_ops twi_arena_jemalloc;

/* Why this process cannot use jemalloc; NULL: it can. Tested once. Any thread. */
const char *twi_arena_jemalloc_refusal(void);

/* The provider of a new pool: jemalloc where it can be used, else page runs. Any thread. */
const struct twi_arena_ops *twi_arena_choose(void);

/* For tests and benches: sets the result of twi_arena_choose; NULL restores its own choice. */
void twi_arena_force(const struct twi_arena_ops *ops);

#endif
