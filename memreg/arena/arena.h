/*
 * arena.h - the table that an allocator inside the pool offers: the specification of a provider.
 *
 * A provider hands out pieces of one extent. Its metadata lives outside that memory, so that a
 * program that writes past its buffer cannot corrupt it. Each allocation has a hold word (lease.h)
 * in that metadata; the pool moves it, the provider only begins it and stores it.
 *
 *   alloc   hold word becomes LIVE
 *   find    address of any byte inside -> the allocation and its hold word
 *   next    the allocation at an address or behind it: who wants to list them asks again
 *   give    after the hold word has ended: the memory is free again
 */
#ifndef TWI_ARENA_H
#define TWI_ARENA_H

#include <stddef.h>
#include <stdint.h>

#define TWI_ALIGN_DEFAULT 64
#define TWI_ALIGN_MAX     ((size_t)2 << 20)

/* One allocation, as find sees it. */
struct twi_block {
	void *base;
	uint64_t bytes; /* usable: what was asked, rounded up */
	_Atomic uint32_t *hold;
};

struct twi_arena_stats {
	uint64_t total_bytes;
	uint64_t allocated_bytes; /* rounded up */
	uint64_t peak_bytes;      /* of allocated_bytes */
	uint64_t waste_bytes;     /* allocated, but not asked for */
	uint64_t free_bytes;
	uint64_t largest_free_bytes;
	uint64_t least_largest_bytes; /* the least that largest_free_bytes has been */
	uint64_t last_free_bytes;     /* of the free block that ends the extent; 0: none does */
	uint64_t allocations;         /* now */
};

struct twi_arena_ops {
	const char *name;
	/* base is a multiple of TWI_ALIGN_MAX, bytes of 4096. TOW_OK, TOW_ENOMEM, TOW_EINVAL. */
	int (*create)(void *base, uint64_t bytes, void **ctx_out);
	/* Allocations that are left end with it. No other thread is inside a call. */
	void (*destroy)(void *ctx);
	/* align: a power of two, 1..TWI_ALIGN_MAX. TOW_OK or TOW_EEXHAUSTED, without a message. */
	int (*alloc)(void *ctx, size_t bytes, size_t align, void **out);
	/*
	 * The allocation around p, which lies inside the extent. Without a lock. TOW_OK or
	 * TOW_EFREED. For a p whose allocation nobody keeps alive the answer may be out of date,
	 * never wild.
	 */
	int (*find)(void *ctx, const void *p, struct twi_block *out);
	/*
	 * The first live allocation that begins at p or behind it; p lies inside the extent. As
	 * find without a lock, so what begins or ends meanwhile may be missed, or told once more.
	 * As many bytes with this alignment are placed in the same way as what was asked for.
	 * TOW_OK, or TOW_EFREED: there is none.
	 */
	int (*next)(void *ctx, const void *p, struct twi_block *out, uint8_t *align_log2_out);
	/*
	 * The hold word of the allocation that begins at base has just ended, or the caller is a
	 * replay, and nobody looks for it.
	 */
	void (*give)(void *ctx, void *base);
	/*
	 * For replays, in which one thread stands for many: from now on it counts as running on
	 * this CPU. Nobody else is inside a call then, nor later: no lock is taken any more.
	 */
	void (*stay)(void *ctx, uint32_t cpu);
	/* Gives back what is kept for speed, so that largest_free_bytes tells what can be had. */
	void (*stats)(void *ctx, struct twi_arena_stats *out);
};

/* Our own, of page runs and slabs: pagerun.c. Needs nothing of the process it lives in. */
extern const struct twi_arena_ops twi_arena_pagerun;

/* A jemalloc arena for small blocks over the same page runs: jemalloc.c. Only where the next says
 * NULL. */
extern const struct twi_arena_ops twi_arena_jemalloc;

/* Why jemalloc cannot be used in this process, NULL when it can. Tried out once. Any thread. */
const char *twi_arena_jemalloc_refusal(void);

/* The provider for a new pool: jemalloc where it can be used, else page runs. Any thread. */
const struct twi_arena_ops *twi_arena_choose(void);

/* For tests and benches: what choose answers from now on; NULL: its own choice again. */
void twi_arena_force(const struct twi_arena_ops *ops);

#endif
