/*
 * pool.h - the pool: memory mapped, faulted in, pinned and registered before the first step.
 *
 *   pool --- extents (memfds; the table is read without a lock)
 *     |        `-- an arena each: who has which part of it (arena.h), hold words (lease.h)
 *     |----- registrations: registrar x all regions, or why not
 *     `----- regions: extents and the user's memory (regions.h, pool_regions.h, late.h)
 *
 * The runtime owns the pool. Allocate, free, lease, release and find may be called by any thread;
 * create and destroy by one. A lease is a transport's claim on a buffer until the kernel has let go
 * of it: while there is one, a free is only noted.
 */
#ifndef TWI_POOL_H
#define TWI_POOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diag/knob/knob_word.h"
#include "diag/record/site.h"
#include "memreg/arena/arena.h"
#include "memreg/pool/extent.h"
#include "memreg/region/registrar.h"

struct twi_diag;
struct twi_pool;

struct twi_pool_options {
	uint64_t bytes;
	bool huge_pages;
	bool strict;                   /* unpinned or unregistered memory is an error */
	const char *numa;              /* the knob; NULL is "" */
	twi_extent_progress *progress; /* of faulting in what options->bytes asks for */
	void *progress_user;
	struct twi_diag *diag;
	uint64_t late_cache_bytes; /* 0: the user's memory is never registered at its first use */
	uint32_t late_cache_entries;
	const struct twi_late_ops *late; /* late.h; NULL: as late_cache_bytes = 0 */
	enum twi_exhaust exhaust;
	uint64_t limit_bytes;   /* of the pool and what lies outside it; 0: four times bytes */
	bool require_zero_copy; /* neither grow nor go outside */
};

/* The knob's word for it. */
const char *twi_exhaust_name(enum twi_exhaust exhaust);

/* What the pool is and how it is used; bytes unless said otherwise. */
struct twi_pool_stats {
	uint64_t asked, mapped, mlocked, registered;
	uint64_t allocated, allocated_peak, waste, free, largest_free;
	uint64_t allocations; /* count */
	uint64_t leased, leased_peak;
	uint64_t own;                     /* of allocated: what the library keeps for itself */
	uint64_t own_allocations;         /* count */
	uint64_t placed;                  /* of allocated: by tow_place */
	uint64_t spread;                  /* all but the least that the largest piece has been */
	uint64_t deferred;                /* freed by their owner, still leased */
	uint64_t grown;                   /* of mapped: by extents after the first */
	uint64_t overflow, overflow_peak; /* allocated outside the pool */
	uint64_t demand;                  /* the most that was allocated and asked for at once */
	uint64_t recommended;             /* premap_memory_bytes, at least, by the demand so far */
	uint64_t exhausted;               /* count of requests without room */
};

/*
 * Maps, faults in and, where permitted, locks options->bytes. TOW_EINVAL naming the option;
 * TOW_ENOMEM; TOW_ESYSTEM; with strict the reason why it cannot be locked.
 */
int twi_pool_create(const struct twi_pool_options *options, struct twi_pool **out);

/* Unregisters and unmaps everything. Leases that are left end here. NULL is legal. */
void twi_pool_destroy(struct twi_pool *pool);

/*
 * Ends all of it but the memory and who has which part of it: registrations, documents, the lock in
 * memory, the files. Then twi_pool_free_detached and twi_pool_destroy are legal, and nothing else.
 */
void twi_pool_detach(struct twi_pool *pool);

/* As twi_pool_free, from the time on when nobody leases any more; it counts nothing. */
int twi_pool_free_detached(struct twi_pool *pool, void *memory);

/*
 * Registers all extents with one more registrar and times it. A failure undoes what was registered.
 * Where TOW_EPERM or TOW_ENOMEM is the registrar's answer (pinning is not permitted), or
 * TOW_ENOTSUP (it knows no registration), and the pool is not strict, the result is TOW_OK, the
 * pool goes on without, and /v1/pool says why; twi_pool_registered tells. Every other failure is
 * returned. After twi_pool_seal it is late.
 */
int twi_pool_registrar_add(struct twi_pool *pool, const struct twi_registrar *registrar, void *ctx);
void twi_pool_registrar_remove(struct twi_pool *pool, const struct twi_registrar *registrar,
			       void *ctx);
bool twi_pool_registered(struct twi_pool *pool, const struct twi_registrar *registrar, void *ctx);

/* From now on every registration is late, and recorded. */
void twi_pool_seal(struct twi_pool *pool);
bool twi_pool_sealed(const struct twi_pool *pool);

/*
 * Allocates for `site`. align: 0 means 64, else a power of two up to 2 MiB. A full pool does as its
 * policy says: it may grow, which takes as long as mapping and registering does. TOW_OK;
 * TOW_EINVAL; TOW_EEXHAUSTED with what would have been enough. *out is NULL after a failure.
 */
int twi_pool_alloc_at(struct twi_pool *pool, size_t bytes, size_t align, struct twi_site site,
		      void **out);

static inline int twi_pool_alloc(struct twi_pool *pool, size_t bytes, size_t align, void **out)
{
	return twi_pool_alloc_at(pool, bytes, align, TWI_SITE_NONE, out);
}

/* Allocates where there is room, and counts no failure. align is not 0. */
int twi_pool_try(struct twi_pool *pool, size_t bytes, size_t align, void **out);

/* Whether the policy of a full pool is to wait. */
bool twi_pool_waits(const struct twi_pool *pool);

/*
 * Whether a request without room is met all the same, by an extent more or by memory outside the
 * pool: exhaust=grow or copy, and nothing requires zero-copy.
 */
bool twi_pool_degrades(const struct twi_pool *pool);

/* The longest block that could be in the pool as it is, and that it may get by its policy. */
uint64_t twi_pool_longest(const struct twi_pool *pool);
uint64_t twi_pool_reach(const struct twi_pool *pool);

/* What the allocation that begins at p takes of the pool; 0: none does. */
uint64_t twi_pool_bytes_at(struct twi_pool *pool, const void *p);

/* False: no more of them are wanted. */
typedef bool twi_pool_visit(void *arg, const struct twi_block *block, uint8_t align_log2);

/*
 * Shows each allocation that is live. Without a lock: what begins or ends meanwhile may be missed.
 */
void twi_pool_each(struct twi_pool *pool, twi_pool_visit *visit, void *arg);

/* Notes that an allocation of `bytes` is the library's own (count 1), or no more (count -1). */
void twi_pool_own(struct twi_pool *pool, uint64_t bytes, int count);

/* Sleeps until something has been freed, at most timeout_ns. */
void twi_pool_wait_room(struct twi_pool *pool, uint64_t timeout_ns);

/* TOW_OK, also for NULL; TOW_EFOREIGN; TOW_EFREED. A failure changes nothing. */
int twi_pool_free(struct twi_pool *pool, void *memory);

/* The same, and whether leases hold the memory still: the last one of them gives it back. */
int twi_pool_free_at(struct twi_pool *pool, void *memory, bool *leased_out);

/*
 * Who hears of memory that was freed while it was leased, when its last lease ends and before
 * anybody can have it again; in the thread of that lease. Before the pool is used.
 */
typedef void twi_pool_returns(void *user, void *memory, uint64_t bytes);
void twi_pool_on_return(struct twi_pool *pool, twi_pool_returns *returns, void *user);

/*
 * One more lease on the allocation around p, inside the pool or allocated outside it for want of
 * room. TOW_OK; TOW_EFOREIGN when p is neither;
 * TOW_EFREED when it is not allocated or already freed; TOW_EBUSY past 2^30 leases.
 */
int twi_pool_lease(struct twi_pool *pool, const void *p);

/* One more lease for who has one already; its owner may have freed the memory since. */
int twi_pool_lease_again(struct twi_pool *pool, const void *p);

/* Ends one lease; the last one of a freed allocation gives the memory back. Lock-free till then. */
void twi_pool_release(struct twi_pool *pool, const void *p);

/*
 * The same lease for one who keeps what was found: p lies in `extent`, block_out is the allocation
 * around it, which stays what it is until the lease ends. So its end need not look for it again.
 */
int twi_pool_lease_block(struct twi_pool *pool, const struct twi_extent *extent, const void *p,
			 struct twi_block *block_out);
void twi_pool_release_block(struct twi_pool *pool, const struct twi_block *block);

/* True when [p, p + bytes) is an allocation outside the pool (TWI_EXHAUST_COPY), or part of one. */
bool twi_pool_overflow(struct twi_pool *pool, const void *p, uint64_t bytes);

/* Bytes freed by their owners that leases still hold. Lock-free. */
uint64_t twi_pool_deferred(const struct twi_pool *pool);

/* True when the allocation around p, which is leased, has been freed by its owner. */
bool twi_pool_freed(struct twi_pool *pool, const void *p);

void twi_pool_stats(struct twi_pool *pool, struct twi_pool_stats *out);

#define TWI_EXTENTS_MAX 16

/* The first member of struct twi_pool. Entries below count never change. */
struct twi_extent_table {
	_Atomic uint32_t count;
	struct twi_extent *extent[TWI_EXTENTS_MAX];
};

/* The extent that [p, p + bytes) lies wholly inside, else NULL. Lock-free. */
static inline const struct twi_extent *twi_pool_find(const struct twi_pool *pool, const void *p,
						     uint64_t bytes)
{
	const struct twi_extent_table *table = (const struct twi_extent_table *)(const void *)pool;
	/* Acquire: pairs with the release that publishes an extent, in pool.c. */
	uint32_t count = atomic_load_explicit(&table->count, memory_order_acquire);

	for (uint32_t i = 0; i < count; i++) {
		const struct twi_extent *extent = table->extent[i];
		uint64_t offset = (uint64_t)((uintptr_t)p - (uintptr_t)extent->base);

		/* Below base the difference wraps around and is too large as well. */
		if (offset < extent->bytes && bytes <= extent->bytes - offset)
			return extent;
	}
	return NULL;
}

#endif
