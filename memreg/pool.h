/*
 * pool.h - the pool: memory mapped, faulted in, pinned and registered before the first step.
 *
 *   pool --- extents (memfds; the table is read without a lock)
 *     |        `-- an arena each: who has which part of it (arena.h), hold words (lease.h)
 *     `----- registrations: registrar x all extents, or why not
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

#include "memreg/extent.h"
#include "memreg/registrar.h"

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
};

/* What the pool is and how it is used; bytes unless said otherwise. */
struct twi_pool_stats {
	uint64_t asked, mapped, mlocked, registered;
	uint64_t allocated, allocated_peak, waste, free, largest_free;
	uint64_t allocations; /* count */
	uint64_t leased, leased_peak;
	uint64_t demand;      /* the most that was allocated and asked for at once */
	uint64_t recommended; /* premap_memory_bytes that fits the demand so far */
	uint64_t exhausted;   /* count of requests without room */
};

/*
 * Maps, faults in and, where permitted, locks options->bytes. TOW_EINVAL naming the option;
 * TOW_ENOMEM; TOW_ESYSTEM; with strict the reason why it cannot be locked.
 */
int twi_pool_create(const struct twi_pool_options *options, struct twi_pool **out);

/* Unregisters and unmaps everything. Leases that are left end here. NULL is legal. */
void twi_pool_destroy(struct twi_pool *pool);

/*
 * Registers all extents with one more registrar and times it. A failure undoes what was registered.
 * Where TOW_EPERM or TOW_ENOMEM is the registrar's answer (pinning is not permitted) and the pool
 * is not strict, the result is TOW_OK, the pool goes on without, and /v1/pool says why;
 * twi_pool_registered tells. Every other failure is returned. After twi_pool_seal it is late.
 */
int twi_pool_registrar_add(struct twi_pool *pool, const struct twi_registrar *registrar, void *ctx);
void twi_pool_registrar_remove(struct twi_pool *pool, const struct twi_registrar *registrar,
			       void *ctx);
bool twi_pool_registered(struct twi_pool *pool, const struct twi_registrar *registrar, void *ctx);

/* From now on every registration is late, and recorded. */
void twi_pool_seal(struct twi_pool *pool);

/*
 * Allocates. align: 0 means 64, else a power of two up to 2 MiB. TOW_OK; TOW_EINVAL;
 * TOW_EEXHAUSTED with what would have been enough. *out is NULL after a failure.
 */
int twi_pool_alloc(struct twi_pool *pool, size_t bytes, size_t align, void **out);

/* TOW_OK, also for NULL; TOW_EFOREIGN; TOW_EFREED. A failure changes nothing. */
int twi_pool_free(struct twi_pool *pool, void *memory);

/*
 * One more lease on the allocation around p. TOW_OK; TOW_EFOREIGN when p is not in the pool;
 * TOW_EFREED when it is not allocated or already freed; TOW_EBUSY past 2^30 leases.
 */
int twi_pool_lease(struct twi_pool *pool, const void *p);

/* Ends one lease; the last one of a freed allocation gives the memory back. Lock-free till then. */
void twi_pool_release(struct twi_pool *pool, const void *p);

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
