/*
 * replay.h - would this pool have been large enough? An allocation log, replayed without memory.
 *
 *   events of a log --create--> a program of ops with dense slots, checked, with its bounds
 *                                 |
 *                                run in a pool of N bytes: the same provider as the pool's, over
 *                                 |   addresses that nobody touches, so that a pool larger than
 *                                 |   the machine's memory can be tried
 *                                search for the smallest N in which every request fits
 *
 * A request that does not fit is left out, and so is its free: in a live pool it would have made
 * the pool grow (a late registration), or would have lain outside it (fallback copies).
 *
 * Whether a log fits is not strictly monotone in the size: where a block lands depends on where the
 * others are, so a pool a little larger may, rarely, be fragmented a little more. The search
 * therefore tests what it answers: the size it names fits, the step below does not, nor do the
 * steps near it, nor does 90 % of it, to the byte; when one of these fits after all, it goes on
 * from there. So the answer need not be a multiple of the step.
 *
 * No clock: the same program and size give the same result. The arena keeps freed blocks by CPU:
 * a replay says on which one each thread is. Several sizes are tried at once, one on each CPU that
 * there is.
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
	uint64_t ns, bytes; /* of a free: of its allocation */
	uint64_t caller;    /* of an allocation; 0: not known */
	uint32_t tag;       /* of an allocation; 0: none */
	uint32_t slot, thread;
	uint8_t kind; /* enum twi_alloc_kind */
	uint8_t align_log2;
};

struct twi_replay_packed; /* replay_op.h has how the events lie in memory */
struct twi_replay_chunk;
struct twi_replay_actor;

struct twi_replay {
	struct twi_replay_packed *op;
	uint64_t op_bytes; /* mapped for them */
	struct twi_replay_chunk *chunk;
	struct twi_replay_actor *actor;
	uint32_t *order, *slot; /* of another order, which has those above of its origin */
	uint8_t *slim;          /* replay_slim.h; NULL: the events are those above */
	uint64_t slim_bytes, slim_count, slim_peak; /* peak_op, among its events */
	uint64_t count, allocs, steps;
	uint32_t actors, slots, threads_all;
	uint32_t threads;       /* of all: those that allocate or free */
	uint64_t peak_op;       /* position of the allocation with which the most was live */
	uint64_t peak_bytes;    /* asked for and live then */
	uint64_t peak_rounded;  /* the same in units of 64 bytes: no pool can do with less */
	uint64_t apart_rounded; /* sum of the threads' own peaks, each block as the arena rounds */
	uint64_t all_rounded;   /* of all requests, in pages and with their alignment */
	uint64_t largest_bytes; /* of one request */
	uint64_t unmatched_frees; /* of what is not live: freed already, or never allocated here */
	uint64_t double_frees;    /* of them: freed already, and not too long ago to be known */
	uint64_t never_freed, never_freed_bytes; /* allocations */
	uint64_t late_bytes;        /* of them: allocated in the second half of the log */
	uint64_t step_growth_bytes; /* of what is live, a step; over the second half of the steps */
};

/*
 * Takes the events of a log in their order, checks them, and keeps what a replay needs. A builder
 * has no more memory than its events need and its live allocations.
 */
struct twi_replay_builder;

/* TOW_OK; TOW_ENOMEM. */
int twi_replay_begin(struct twi_replay_builder **out);
/* The event with this id is added soon: its place in a large table is asked for in time. */
void twi_replay_expect(const struct twi_replay_builder *builder, uint64_t id);
/* TOW_OK; TOW_EINVAL naming the event; TOW_ENOMEM. After a failure only abandon is allowed. */
int twi_replay_add(struct twi_replay_builder *builder, const struct twi_alloc_event *event);
/*
 * Ends the builder, whatever comes of it. *out is the caller's until twi_replay_destroy. TOW_OK;
 * TOW_EINVAL when there is no allocation; TOW_ENOMEM.
 */
int twi_replay_end(struct twi_replay_builder *builder, struct twi_replay **out);
void twi_replay_abandon(struct twi_replay_builder *builder);

/* All of this for events in memory. */
int twi_replay_create(const struct twi_alloc_event *event, uint64_t count, struct twi_replay **out);
void twi_replay_destroy(struct twi_replay *replay);

/*
 * From here on the program is only replayed as it was recorded, on one CPU, and takes a fifth of
 * the memory: no other order, no groups, no twi_replay_at. TOW_OK; TOW_ENOMEM, and nothing changed.
 */
int twi_replay_slim(struct twi_replay *replay);

/* The event at `position` of the order. */
struct twi_replay_op twi_replay_at(const struct twi_replay *replay, uint64_t position);

/*
 * The same program in another order that could have happened. Each thread keeps its own order, but
 * runs by up to `permille` faster or slower, and begins earlier or later by as much; threads that
 * free each other's memory, and the library, do so together, and each of them is late by some
 * milliseconds at times. No free goes before its allocation. *out must be destroyed before its
 * origin. TOW_OK; TOW_ENOMEM.
 */
int twi_replay_vary(const struct twi_replay *replay, uint64_t seed, uint32_t permille,
		    struct twi_replay **out);

struct twi_replay_pool {
	const struct twi_arena_ops *ops;
	uint64_t bytes;
	uint64_t reserve_bytes; /* what the runtime takes for itself when it opens (staging.h) */
	/* 0: all threads are on one CPU; else by this seed each is on one, and goes to others. */
	uint64_t moves;
};

struct twi_replay_result {
	bool reserve_fits;
	uint64_t missed, missed_bytes; /* requests without room */
	/* At the peak of the program; only with TWI_REPLAY_LOOK. */
	uint64_t allocated_bytes, waste_bytes, free_bytes, largest_free_bytes;
};

enum twi_replay_how {
	TWI_REPLAY_WHOLE,
	TWI_REPLAY_LOOK, /* looks at the peak, and ends there */
	TWI_REPLAY_FITS, /* ends at the first request without room */
};

/* TOW_OK whatever fits; TOW_ENOMEM when the addresses or the provider's tables cannot be had. */
int twi_replay_run(const struct twi_replay *replay, const struct twi_replay_pool *pool,
		   enum twi_replay_how how, struct twi_replay_result *out);

#define TWI_REPLAY_LANES_MAX 8 /* replays at a time */

/* How many replays of the program it is worth to run at once here. */
uint32_t twi_replay_lanes(const struct twi_replay *replay);

/* The same for several pools: as many at a time as there are CPUs, each on one of its own. */
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
	uint64_t least_bytes; /* do not look below; 0: from what the program shows */
	uint64_t page_bytes;  /* the pool is mapped in whole ones of these; 0: 4096 */
	/* After each size that was tried; NULL: nobody listens. */
	void (*progress)(void *arg, uint64_t bytes, bool fits);
	void *arg;
};

struct twi_replay_found {
	uint64_t bytes, step_bytes;
	uint64_t lower_bytes;  /* the bound below at the begin */
	uint64_t tried;        /* sizes */
	uint64_t above_missed; /* sizes among the next four above that do not fit after all */
};

/* Other runs of the same program: of its threads' order, and of the CPUs that they are on. */
struct twi_replay_others {
	uint32_t count;
	uint32_t permille;   /* as twi_replay_vary */
	uint64_t most_bytes; /* no size above is tried */
};

/*
 * A size of wanted->least_bytes and whole steps above it that holds the program and all of its
 * other runs, where a step less does not; the last one that was tried, where none does. step_bytes
 * is set. *fits_out: whether it does. TOW_OK; TOW_ENOMEM.
 */
int twi_replay_find_others(const struct twi_replay *replay, const struct twi_replay_search *wanted,
			   const struct twi_replay_others *others, uint64_t *bytes_out,
			   bool *fits_out);

/* Granularity for a pool of about this many bytes: 2 MiB, less for a pool under 64 MiB. */
uint64_t twi_replay_step(uint64_t bytes);

/* TOW_OK; TOW_ENOMEM. */
int twi_replay_find(const struct twi_replay *replay, const struct twi_replay_search *search,
		    struct twi_replay_found *out);

#endif
