/*
 * replay.h - replays an allocation log without memory, to find out whether a pool is large enough.
 *
 *   events of a log --create--> a program of ops with dense slots, checked, with its bounds
 *                                 |
 *                                run in a pool of N bytes: the same provider as the pool's, over
 *                                 |   addresses that nobody touches, so that a pool larger than
 *                                 |   the machine's memory can be tried
 *                                search for the smallest N in which every request fits
 *
 * A request that does not fit is left out, and so is its free. In a live pool it would make the
 * pool grow (a late registration), or get memory outside it (fallback copies).
 *
 * Whether a log fits is not strictly monotone in the size. A block's address depends on the other
 * blocks, so a slightly larger pool may, rarely, be slightly more fragmented. The search therefore
 * tests its answer: that size fits, but some smaller ones do not. These are the sizes one to four
 * steps below, and 90 % of it. If one of them fits after all, the search continues there. So the
 * answer need not be a multiple of the step.
 *
 * There is no clock: the same program and size give the same result. The arena caches freed blocks
 * by CPU, so a replay determines the CPU of each thread. Several sizes are tried at once, one on
 * each available CPU.
 */
#ifndef TWI_REPLAY_H
#define TWI_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "memreg/alloclog/alloclog_event.h"

struct twi_arena_ops;

#define TWI_REPLAY_POOL_MIN ((uint64_t)1 << 20) /* smallest premap_memory_bytes */
#define TWI_REPLAY_STEP_MAX ((uint64_t)2 << 20)

/* One event of a program, unpacked. */
struct twi_replay_op {
	uint64_t ns, bytes; /* bytes of a free: those of its allocation */
	uint64_t caller;    /* in an allocation; 0: not known */
	uint32_t tag;       /* in an allocation; 0: none */
	uint32_t slot, thread;
	uint8_t kind; /* enum twi_alloc_kind */
	uint8_t align_log2;
};

struct twi_replay_packed; /* replay_op.h has the layout of events in memory */
struct twi_replay_chunk;
struct twi_replay_actor;

struct twi_replay {
	struct twi_replay_packed *op;
	uint64_t op_bytes; /* bytes mapped for them */
	struct twi_replay_chunk *chunk;
	struct twi_replay_actor *actor;
	uint32_t *order, *slot; /* only in another order, which shares the above with its origin */
	uint8_t *slim;          /* replay_slim.h; NULL: the events are in `op` */
	uint64_t slim_bytes, slim_count, slim_peak; /* slim_peak: peak_op among slim events */
	uint64_t count, allocs, steps;
	uint32_t actors, slots, threads_all;
	uint32_t threads;       /* those of threads_all that allocate or free */
	uint64_t peak_op;       /* position of the allocation that reaches the peak */
	uint64_t peak_bytes;    /* requested bytes that are live then */
	uint64_t peak_rounded;  /* the same in units of 64 bytes: the least that any pool needs */
	uint64_t apart_rounded; /* sum of the threads' own peaks, each block as the arena rounds */
	uint64_t all_rounded;   /* sum of all requests, in pages and with their alignment */
	uint64_t largest_bytes; /* largest request */
	uint64_t unmatched_frees; /* frees of ids that are not live: freed, or never allocated */
	uint64_t double_frees;    /* those of them that are known to have been freed already */
	uint64_t never_freed, never_freed_bytes; /* allocations */
	uint64_t late_bytes;                     /* those allocated in the second half of the log */
	uint64_t step_growth_bytes; /* growth of live bytes a step, in the steps' second half */
};

/*
 * Takes the events of a log in their order, checks them, and keeps what a replay needs. A builder
 * needs memory only for its events and its live allocations.
 */
struct twi_replay_builder;

/* TOW_OK; TOW_ENOMEM. */
int twi_replay_begin(struct twi_replay_builder **out);
/* Prefetches the entry of an id, whose event will be added soon, in a large table. */
void twi_replay_expect(const struct twi_replay_builder *builder, uint64_t id);
/* TOW_OK; TOW_EINVAL naming the event; TOW_ENOMEM. After a failure only abandon is allowed. */
int twi_replay_add(struct twi_replay_builder *builder, const struct twi_alloc_event *event);
/*
 * Ends the builder in any case. The caller owns *out until twi_replay_destroy. TOW_OK; TOW_EINVAL
 * when there is no allocation; TOW_ENOMEM.
 */
int twi_replay_end(struct twi_replay_builder *builder, struct twi_replay **out);
void twi_replay_abandon(struct twi_replay_builder *builder);

/* Does all of this for events in memory. */
int twi_replay_create(const struct twi_alloc_event *event, uint64_t count, struct twi_replay **out);
void twi_replay_destroy(struct twi_replay *replay);

/*
 * Reduces the program to a fifth of its memory. Afterwards it can only be replayed as recorded, on
 * one CPU: no other order, no groups, no twi_replay_at. TOW_OK; TOW_ENOMEM, without a change.
 */
int twi_replay_slim(struct twi_replay *replay);

/* The event at `position` of the order. */
struct twi_replay_op twi_replay_at(const struct twi_replay *replay, uint64_t position);

/*
 * Makes the same program in another order that could have happened. Each thread keeps its order,
 * but runs up to `permille` faster or slower, and begins earlier or later by as much. Threads that
 * free each other's memory, and the library, do so together. Each of them is late by some
 * milliseconds at times. No free precedes its allocation. Destroy *out before its origin. TOW_OK;
 * TOW_ENOMEM.
 */
int twi_replay_vary(const struct twi_replay *replay, uint64_t seed, uint32_t permille,
		    struct twi_replay **out);

struct twi_replay_pool {
	const struct twi_arena_ops *ops;
	uint64_t bytes;
	uint64_t reserve_bytes; /* bytes that the runtime takes at its open (staging.h) */
	/* 0: all threads run on one CPU. Else a seed: each runs on one, and may move to others. */
	uint64_t moves;
};

struct twi_replay_result {
	bool reserve_fits;
	uint64_t missed, missed_bytes; /* requests without room */
	/* State at the peak of the program; only with TWI_REPLAY_LOOK. */
	uint64_t allocated_bytes, waste_bytes, free_bytes, largest_free_bytes;
};

enum twi_replay_how {
	TWI_REPLAY_WHOLE,
	TWI_REPLAY_LOOK, /* ends at the peak, and reads the state there */
	TWI_REPLAY_FITS, /* ends at the first request without room */
};

/* TOW_OK, whether or not requests fit. TOW_ENOMEM: no addresses, or no tables of the provider. */
int twi_replay_run(const struct twi_replay *replay, const struct twi_replay_pool *pool,
		   enum twi_replay_how how, struct twi_replay_result *out);

#define TWI_REPLAY_LANES_MAX 8 /* replays at once, at most */

/* The number of replays of the program that are worth running at once here. */
uint32_t twi_replay_lanes(const struct twi_replay *replay);

/* Runs several pools at once, one on each CPU. */
int twi_replay_run_each(const struct twi_replay *replay, const struct twi_replay_pool *pool,
			uint32_t count, enum twi_replay_how how, struct twi_replay_result *out);

static inline bool twi_replay_clean(const struct twi_replay_result *result)
{
	return result->reserve_fits && result->missed == 0;
}

struct twi_replay_search {
	const struct twi_arena_ops *ops;
	uint64_t reserve_bytes;
	uint64_t step_bytes;  /* granularity of the answer; 0: by twi_replay_step */
	uint64_t least_bytes; /* lower limit of the search; 0: from the program */
	uint64_t page_bytes;  /* the pool is mapped in whole pages of this size; 0: 4096 */
	/* Called after each size that was tried; NULL: no callback. */
	void (*progress)(void *arg, uint64_t bytes, bool fits);
	void *arg;
};

struct twi_replay_found {
	uint64_t bytes, step_bytes;
	uint64_t lower_bytes;  /* lower bound at the begin */
	uint64_t tried;        /* number of sizes */
	uint64_t above_missed; /* sizes among the next four above that do not fit */
};

/* Other runs of the same program: other orders of its threads, and other CPUs. */
struct twi_replay_others {
	uint32_t count;
	uint32_t permille;   /* as in twi_replay_vary */
	uint64_t most_bytes; /* no larger size is tried */
};

/*
 * Finds a size that holds the program and all of its other runs, while one step less does not. The
 * size is wanted->least_bytes plus whole steps. step_bytes must be set. *fits_out tells whether
 * there is such a size; else *bytes_out is the last size that was tried. TOW_OK; TOW_ENOMEM.
 */
int twi_replay_find_others(const struct twi_replay *replay, const struct twi_replay_search *wanted,
			   const struct twi_replay_others *others, uint64_t *bytes_out,
			   bool *fits_out);

/* Granularity for a pool of about this size: 2 MiB, less for a pool under 64 MiB. */
uint64_t twi_replay_step(uint64_t bytes);

/* TOW_OK; TOW_ENOMEM. */
int twi_replay_find(const struct twi_replay *replay, const struct twi_replay_search *search,
		    struct twi_replay_found *out);

#endif
