/*
 * pool.h - the pool: memory mapped, faulted in, pinned and registered before the first step.
 *
 *   pool --- extents (memfds; the table is read without a lock)
 *     |        `-- one arena each: allocations of the extent (arena.h), hold words (lease.h)
 *     |----- registrations: one for each registrar, or the reason why not
 *     `----- regions: extents and the user's memory (regions.h, pool_regions.h, late.h)
 *
 * The runtime owns the pool. Any thread may allocate, free, lease, release and find; one thread
 * creates and destroys. A transport leases a buffer until the kernel no longer uses it. A free of a
 * leased buffer is deferred until the last lease ends.
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
	twi_extent_progress *progress; /* reports how far options->bytes are faulted in */
	void *progress_user;
	struct twi_diag *diag;
	uint64_t late_cache_bytes; /* 0: the user's memory is never registered at its first use */
	uint32_t late_cache_entries;
	const struct twi_late_ops *late; /* late.h; NULL: as late_cache_bytes = 0 */
	enum twi_exhaust exhaust;
	uint64_t limit_bytes;   /* of the pool with its overflow; 0: four times bytes */
	bool require_zero_copy; /* neither grow nor allocate outside the pool */
};

/* The knob's value as text. */
const char *twi_exhaust_name(enum twi_exhaust exhaust);

/* Size and use of the pool, in bytes unless said otherwise. */
struct twi_pool_stats {
	uint64_t asked, mapped, mlocked, registered;
	uint64_t allocated, allocated_peak, waste, free, largest_free;
	uint64_t allocations; /* count */
	uint64_t leased, leased_peak;
	uint64_t own;                     /* part of allocated that the library uses itself */
	uint64_t own_allocations;         /* count */
	uint64_t placed;                  /* part of allocated that tow_place took */
	uint64_t spread;                  /* mapped, less the minimum of the largest free block */
	uint64_t deferred;                /* freed by their owner, still leased */
	uint64_t grown;                   /* part of mapped in extents after the first */
	uint64_t overflow, overflow_peak; /* allocated outside the pool */
	uint64_t demand;                  /* peak of bytes allocated plus bytes refused */
	uint64_t recommended;             /* least premap_memory_bytes for the demand so far */
	uint64_t exhausted;               /* count of requests without room */
};

/*
 * Maps options->bytes, faults them in and locks them where that is permitted. Returns TOW_EINVAL
 * naming the option; TOW_ENOMEM; TOW_ESYSTEM; with strict also the reason why it cannot lock them.
 */
int twi_pool_create(const struct twi_pool_options *options, struct twi_pool **out);

/* Unregisters and unmaps everything. Remaining leases end here. NULL is legal. */
void twi_pool_destroy(struct twi_pool *pool);

/*
 * Ends registrations, documents, the lock in memory and the files. The memory and its allocations
 * stay. Afterwards only twi_pool_free_detached and twi_pool_destroy are legal.
 */
void twi_pool_detach(struct twi_pool *pool);

/* Like twi_pool_free, after the last lease has ended. Counts nothing. */
int twi_pool_free_detached(struct twi_pool *pool, void *memory);

/*
 * Registers all extents with one more registrar, and measures the time. A failure undoes what was
 * registered. Without strict, three answers of the registrar give TOW_OK: TOW_EPERM and TOW_ENOMEM
 * (it may not pin), and TOW_ENOTSUP (it needs no registration). The pool then works without it, and
 * /v1/pool says why; twi_pool_registered tells. Any other failure is returned. A registrar that is
 * added after twi_pool_seal counts as late.
 */
int twi_pool_registrar_add(struct twi_pool *pool, const struct twi_registrar *registrar, void *ctx);
void twi_pool_registrar_remove(struct twi_pool *pool, const struct twi_registrar *registrar,
			       void *ctx);
bool twi_pool_registered(struct twi_pool *pool, const struct twi_registrar *registrar, void *ctx);

/* From now on every registration counts as late, and is recorded. */
void twi_pool_seal(struct twi_pool *pool);
bool twi_pool_sealed(const struct twi_pool *pool);

/*
 * Allocates for the call site `site`. align is 0, which means 64, or a power of two up to 2 MiB. A
 * full pool follows its policy. Growing takes as long as mapping and registering the new extent.
 * Returns TOW_OK; TOW_EINVAL; TOW_EEXHAUSTED with the size that would have been enough. *out is
 * NULL after a failure.
 */
int twi_pool_alloc_at(struct twi_pool *pool, size_t bytes, size_t align, struct twi_site site,
		      void **out);

static inline int twi_pool_alloc(struct twi_pool *pool, size_t bytes, size_t align, void **out)
{
	return twi_pool_alloc_at(pool, bytes, align, TWI_SITE_NONE, out);
}

/* Allocates where there is room. Counts no failure and sets no message. */
int twi_pool_try(struct twi_pool *pool, size_t bytes, size_t align, void **out);

/* True when the policy of a full pool is to wait. */
bool twi_pool_waits(const struct twi_pool *pool);

/*
 * Whether a request without room is met all the same, by an extent more or by memory outside the
 * pool: exhaust=grow or copy, and nothing requires zero-copy.
 */
bool twi_pool_degrades(const struct twi_pool *pool);

/* Bytes of the largest extent; and that the pool may still get by its policy. */
uint64_t twi_pool_longest(const struct twi_pool *pool);
uint64_t twi_pool_growth_left(const struct twi_pool *pool);

/* The pool's bytes of the allocation that begins at p; 0: no allocation begins there. */
uint64_t twi_pool_bytes_at(struct twi_pool *pool, const void *p);

/* Returns false to end the walk. */
typedef bool twi_pool_visit(void *arg, const struct twi_block *block, uint8_t align_log2);

/*
 * Visits each live allocation, without a lock. A visit may miss an allocation that begins or ends
 * meanwhile.
 */
void twi_pool_each(struct twi_pool *pool, twi_pool_visit *visit, void *arg);

/* Adds (count 1) or removes (count -1) an allocation of `bytes` as the library's own. */
void twi_pool_own(struct twi_pool *pool, uint64_t bytes, int count);

/* Sleeps until another thread frees memory, for at most timeout_ns. */
void twi_pool_wait_room(struct twi_pool *pool, uint64_t timeout_ns);

/* TOW_OK, also for NULL; TOW_EFOREIGN; TOW_EFREED. A failure changes nothing. */
int twi_pool_free(struct twi_pool *pool, void *memory);

/* Like twi_pool_free. *leased_out: leases still hold the memory; the last one returns it. */
int twi_pool_free_at(struct twi_pool *pool, void *memory, bool *leased_out);

/*
 * Sets a callback for memory that its owner freed while it was leased. The thread that ends the
 * last lease calls it, before the memory can be allocated again. Set it before using the pool.
 */
typedef void twi_pool_returns(void *user, void *memory, uint64_t bytes);
void twi_pool_on_return(struct twi_pool *pool, twi_pool_returns *returns, void *user);

/*
 * Adds a lease to the allocation around p, inside the pool or in the overflow. Returns TOW_OK;
 * TOW_EFOREIGN when p is in neither; TOW_EFREED when it is not allocated or already freed;
 * TOW_EBUSY past 2^29 - 1 leases.
 */
int twi_pool_lease(struct twi_pool *pool, const void *p);

/* Adds a lease for a caller that has one. The owner may have freed the memory meanwhile. */
int twi_pool_lease_again(struct twi_pool *pool, const void *p);

/* Ends one lease. The last one of a freed allocation returns the memory; others are lock-free. */
void twi_pool_release(struct twi_pool *pool, const void *p);

/*
 * Like twi_pool_lease and twi_pool_release, for a caller that keeps the allocation. p lies in
 * `extent`, and *block_out is the allocation around it, valid until the lease ends. So the release
 * needs no search.
 */
int twi_pool_lease_block(struct twi_pool *pool, const struct twi_extent *extent, const void *p,
			 struct twi_block *block_out);
void twi_pool_release_block(struct twi_pool *pool, const struct twi_block *block);

/* True when [p, p + bytes) lies in one allocation outside the pool (TWI_EXHAUST_COPY). */
bool twi_pool_overflow(struct twi_pool *pool, const void *p, uint64_t bytes);

/* Bytes that leases still hold after their owners freed them. Lock-free. */
uint64_t twi_pool_deferred(const struct twi_pool *pool);

/* True when the owner has freed the leased allocation around p. */
bool twi_pool_freed(struct twi_pool *pool, const void *p);

void twi_pool_stats(struct twi_pool *pool, struct twi_pool_stats *out);

#define TWI_EXTENTS_MAX 16

/* The first member of struct twi_pool. Entries below count never change. */
struct twi_extent_table {
	_Atomic uint32_t count;
	struct twi_extent *extent[TWI_EXTENTS_MAX];
};

/* The extent that holds all of [p, p + bytes), else NULL. Lock-free. */
static inline const struct twi_extent *twi_pool_find(const struct twi_pool *pool, const void *p,
						     uint64_t bytes)
{
	const struct twi_extent_table *table = (const struct twi_extent_table *)(const void *)pool;
	/* Acquire: pairs with the release that publishes an extent, in pool.c. */
	uint32_t count = atomic_load_explicit(&table->count, memory_order_acquire);

	for (uint32_t i = 0; i < count; i++) {
		const struct twi_extent *extent = table->extent[i];
		uint64_t offset = (uint64_t)((uintptr_t)p - (uintptr_t)extent->base);

		/* For p below base the difference wraps around, and is too large as well. */
		if (offset < extent->bytes && bytes <= extent->bytes - offset)
			return extent;
	}
	return NULL;
}

#endif
