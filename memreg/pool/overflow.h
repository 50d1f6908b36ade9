/*
 * overflow.h - allocations that the pool had no room for (exhaust=copy): memory of the system's,
 * not pinned and not registered, but with the same promises as the pool's own: it is found again by
 * any address inside, it can be leased, and a free while it is leased is deferred.
 *
 *   index:  [ block | block | block | ... ]   pointers, sorted by address
 *   block:  base, bytes, hold word (lease.h)
 *
 * One short lock; who has nothing here (the usual case) sees a count of 0 without it. The index is
 * as long as there are such allocations, and their bytes are bounded by the pool's limit.
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
/* Frees what is left. */
void twi_overflow_fini(struct twi_overflow *overflow);

/* TOW_OK; TOW_EEXHAUSTED when there would be more than `limit` bytes; TOW_ENOMEM. No message. */
int twi_overflow_alloc(struct twi_overflow *overflow, size_t bytes, size_t align, uint64_t limit,
		       void **out);

static inline bool twi_overflow_empty(const struct twi_overflow *overflow)
{
	/* Acquire: pairs with the release of alloc, so that its block is seen with it. */
	return atomic_load_explicit(&overflow->count, memory_order_acquire) == 0;
}

/*
 * The outcomes of lease.h for the block around p, whose bytes and base are written; TOW_EFOREIGN:
 * there is none. What ends is given back here.
 */
int twi_overflow_lease(struct twi_overflow *overflow, const void *p, uint64_t *bytes_out);
int twi_overflow_lease_again(struct twi_overflow *overflow, const void *p, uint64_t *bytes_out);
int twi_overflow_release(struct twi_overflow *overflow, const void *p, uint64_t *bytes_out);
/* TOW_EFOREIGN also for a p inside a block. */
int twi_overflow_free(struct twi_overflow *overflow, void *p);

/* True when [p, p + bytes) lies inside one block; its base. */
bool twi_overflow_find(struct twi_overflow *overflow, const void *p, uint64_t bytes,
		       void **base_out);

#endif
