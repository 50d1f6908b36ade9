/*
 * overflow.h - allocations outside a full pool (exhaust=copy).
 *
 * The memory comes from the system, neither pinned nor registered. It keeps the pool's promises. A
 * search finds it by any address inside, operations can lease it, and a free while it is leased is
 * deferred.
 *
 *   index:  [ block | block | block | ... ]   pointers, sorted by address
 *   block:  base, bytes, hold word (lease.h)
 *
 * One short lock protects the index. Usually there is no block; the callers then read a count of 0
 * without the lock. The index has one pointer a block, and the pool's limit bounds the bytes.
 */
#ifndef TWI_OVERFLOW_H
#define TWI_OVERFLOW_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct twi_overflow_block {
	void *base;
	uint64_t bytes;
	_Atomic uint32_t hold;
};

struct twi_overflow {
	pthread_mutex_t lock;
	struct twi_overflow_block **index;
	uint32_t room;
	_Atomic uint32_t count;
	_Atomic uint64_t bytes;
	_Atomic uint64_t peak_bytes; /* written under the lock */
};

void twi_overflow_init(struct twi_overflow *overflow);
/* Frees the blocks that are left. */
void twi_overflow_fini(struct twi_overflow *overflow);

/* TOW_OK; TOW_EEXHAUSTED when the sum would exceed `limit`; TOW_ENOMEM. Sets no message. */
int twi_overflow_alloc(struct twi_overflow *overflow, size_t bytes, size_t align, uint64_t limit,
		       void **out);

static inline bool twi_overflow_empty(const struct twi_overflow *overflow)
{
	/* Acquire: pairs with the release of alloc, so that a counted block is visible. */
	return atomic_load_explicit(&overflow->count, memory_order_acquire) == 0;
}

/*
 * Change the hold word of the block around p and return the outcomes of lease.h, with the block's
 * bytes in *bytes_out. TOW_EFOREIGN: no block lies there. A block that ends is freed here.
 */
int twi_overflow_lease(struct twi_overflow *overflow, const void *p, uint64_t *bytes_out);
int twi_overflow_lease_again(struct twi_overflow *overflow, const void *p, uint64_t *bytes_out);
int twi_overflow_release(struct twi_overflow *overflow, const void *p, uint64_t *bytes_out);
/* Returns TOW_EFOREIGN also for a p inside a block, past its base. */
int twi_overflow_free(struct twi_overflow *overflow, void *p);

/* True when [p, p + bytes) lies inside one block, whose base is then in *base_out. */
bool twi_overflow_find(struct twi_overflow *overflow, const void *p, uint64_t bytes,
		       void **base_out);

#endif
