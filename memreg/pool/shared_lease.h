/*
 * shared_lease.h - one lease of an allocation that many operations share.
 *
 * A window of messages lies in one or two allocations. The first operation leases the allocation,
 * later ones are counted here, and the last one ends the lease. So each operation saves two atomic
 * changes of the hold word and the search for the allocation.
 *
 * The table does not record which operation took the lease from the pool, because leases on one
 * allocation are alike. With c operations on it, of which n are counted here in p entries, the hold
 * word has c - n + p leases. It has a lease as long as there is an operation, and none afterwards.
 *
 * The thread that holds the engine makes these calls. The table of operations has the leases of its
 * engine. Any thread may free the memory meanwhile.
 */
#ifndef TWI_SHARED_LEASE_H
#define TWI_SHARED_LEASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <internal/base.h>

#include "memreg/pool/pool.h"
#include "memreg/region/lease.h"

#define TWI_SHARED_LEASES 4u /* send and receive memory, for two kinds of work */

struct twi_shared_lease {
	struct twi_block block;
	const struct twi_extent *extent;
	uint64_t users; /* 0: the entry is free, and the lease has ended */
};

struct twi_shared_leases {
	struct twi_shared_lease lease[TWI_SHARED_LEASES];
	uint32_t next; /* the entry to try for the next allocation */
};

/* The entry that shares the allocation around [p, p + bytes), or NULL. */
static inline struct twi_shared_lease *twi_shared_find(struct twi_shared_leases *leases,
						       const void *p, uint64_t bytes)
{
	for (uint32_t i = 0; i < TWI_SHARED_LEASES; i++) {
		struct twi_shared_lease *lease = &leases->lease[i];
		uint64_t offset = (uint64_t)((uintptr_t)p - (uintptr_t)lease->block.base);

		if (lease->users > 0 && offset < lease->block.bytes &&
		    bytes <= lease->block.bytes - offset)
			return lease;
	}
	return NULL;
}

/*
 * Adds a lease, and returns what twi_pool_find and twi_pool_lease_block would return. False: no
 * entry shares the allocation, so the caller must ask the pool.
 */
static inline bool twi_shared_lease(struct twi_shared_leases *leases, const void *p, uint64_t bytes,
				    struct twi_block *block_out,
				    const struct twi_extent **extent_out)
{
	struct twi_shared_lease *lease = twi_shared_find(leases, p, bytes);

	/* The owner may have freed the memory; the pool then reports that. Relaxed: a thread that
	 * frees memory while another one sends it must order the two itself. */
	if (lease == NULL ||
	    (atomic_load_explicit(lease->block.hold, memory_order_relaxed) & TWI_HOLD_FREED) != 0)
		return false;
	lease->users++;
	*block_out = lease->block;
	*extent_out = lease->extent;
	return true;
}

/* Shares the caller's lease on `block` from now on, if the next entry is free. */
static inline void twi_shared_keep(struct twi_shared_leases *leases, const struct twi_block *block,
				   const struct twi_extent *extent)
{
	struct twi_shared_lease *lease = &leases->lease[leases->next];

	leases->next = (leases->next + 1) % TWI_SHARED_LEASES;
	if (lease->users > 0)
		return;
	*lease = (struct twi_shared_lease){ .block = *block, .extent = extent, .users = 1 };
}

/* Ends one lease, shared or not. */
static inline void twi_shared_release(struct twi_shared_leases *leases, struct twi_pool *pool,
				      const struct twi_block *block)
{
	for (uint32_t i = 0; i < TWI_SHARED_LEASES; i++) {
		struct twi_shared_lease *lease = &leases->lease[i];

		if (lease->users > 0 && lease->block.hold == block->hold) {
			if (--lease->users > 0)
				return;
			break;
		}
	}
	twi_pool_release_block(pool, block);
}

#endif
