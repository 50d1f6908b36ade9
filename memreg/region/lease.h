/*
 * lease.h - the hold word of an allocation: whether it is allocated, freed, and how often leased.
 *
 *   bit 31 LIVE    allocated; a word of 0 means that the block is free
 *   bit 30 FREED   its owner has freed it; the last lease returns the memory
 *   bit 29 PLACED  its owner is a program's allocator (pool_place.h)
 *   bits 0..28     number of leases
 *
 *        begin            lease/release            free, no leases
 *   0 ---------> LIVE <------------------> LIVE+n ..... LIVE -------> 0   TWI_HOLD_ENDED
 *                                            | free
 *                                            v
 *                                       LIVE+FREED+n --- last release --> 0   TWI_HOLD_ENDED
 *
 * Invariant: for one begin exactly one caller sees TWI_HOLD_ENDED, and only that caller may return
 * the memory. This makes three cases safe without a lock: a double free, a free that races with a
 * lease, and a deferred free.
 */
#ifndef TWI_LEASE_H
#define TWI_LEASE_H

#include <stdatomic.h>
#include <stdint.h>

#include <towline/status.h>

#define TWI_HOLD_LIVE   0x80000000u
#define TWI_HOLD_FREED  0x40000000u
#define TWI_HOLD_PLACED 0x20000000u
#define TWI_HOLD_LEASES 0x1fffffffu

/* Outcomes besides the statuses. They are positive, and not in TOW_STATUS_MAP. */
enum {
	TWI_HOLD_ENDED = 64,    /* the caller returns the memory now */
	TWI_HOLD_DEFERRED = 65, /* freed; the last release will be TWI_HOLD_ENDED */
	TWI_HOLD_FIRST = 66,    /* this is now the only lease */
	TWI_HOLD_LAST = 67,     /* the last lease ended; the block is still allocated */
};

/* Release: pairs with the acquire of a thread that changes the word later. */
static inline void twi_hold_begin(_Atomic uint32_t *hold)
{
	atomic_store_explicit(hold, TWI_HOLD_LIVE, memory_order_release);
}

static inline int twi_hold_swap(_Atomic uint32_t *hold, uint32_t *word, uint32_t next)
{
	/* acq_rel: the thread that ends the allocation sees all that earlier holders did. */
	return atomic_compare_exchange_weak_explicit(hold, word, next, memory_order_acq_rel,
						     memory_order_acquire);
}

/* The owner calls it, after the begin. */
static inline void twi_hold_mark_placed(_Atomic uint32_t *hold)
{
	atomic_fetch_or_explicit(hold, TWI_HOLD_PLACED, memory_order_relaxed);
}

/* TOW_OK, TWI_HOLD_FIRST, TOW_EFREED, or TOW_EBUSY when the counter is full. */
static inline int twi_hold_lease(_Atomic uint32_t *hold)
{
	uint32_t word = atomic_load_explicit(hold, memory_order_acquire);

	do {
		if (!(word & TWI_HOLD_LIVE) || (word & TWI_HOLD_FREED))
			return TOW_EFREED;
		if ((word & TWI_HOLD_LEASES) == TWI_HOLD_LEASES)
			return TOW_EBUSY;
	} while (!twi_hold_swap(hold, &word, word + 1));
	return (word & TWI_HOLD_LEASES) ? TOW_OK : TWI_HOLD_FIRST;
}

/* Adds a lease for a holder of one; the owner may have freed meanwhile. TOW_OK or TOW_EBUSY. */
static inline int twi_hold_lease_again(_Atomic uint32_t *hold)
{
	uint32_t word = atomic_load_explicit(hold, memory_order_relaxed);

	do {
		if ((word & TWI_HOLD_LEASES) == 0 || (word & TWI_HOLD_LEASES) == TWI_HOLD_LEASES)
			return TOW_EBUSY;
	} while (!twi_hold_swap(hold, &word, word + 1));
	return TOW_OK;
}

/* TOW_OK, TWI_HOLD_LAST, TWI_HOLD_ENDED, or TOW_EINVAL when there is no lease to end. */
static inline int twi_hold_release(_Atomic uint32_t *hold)
{
	uint32_t word = atomic_load_explicit(hold, memory_order_acquire);
	uint32_t next;

	do {
		if (!(word & TWI_HOLD_LEASES))
			return TOW_EINVAL;
		next = word - 1;
		if ((next & ~TWI_HOLD_PLACED) == (TWI_HOLD_LIVE | TWI_HOLD_FREED))
			next = 0;
	} while (!twi_hold_swap(hold, &word, next));
	if (next == 0)
		return TWI_HOLD_ENDED;
	return (next & TWI_HOLD_LEASES) ? TOW_OK : TWI_HOLD_LAST;
}

/* TWI_HOLD_ENDED, TWI_HOLD_DEFERRED, or TOW_EFREED. */
static inline int twi_hold_free(_Atomic uint32_t *hold)
{
	uint32_t word = atomic_load_explicit(hold, memory_order_acquire);
	uint32_t next;

	do {
		if (!(word & TWI_HOLD_LIVE) || (word & TWI_HOLD_FREED))
			return TOW_EFREED;
		next = (word & TWI_HOLD_LEASES) ? word | TWI_HOLD_FREED : 0;
	} while (!twi_hold_swap(hold, &word, next));
	return next ? TWI_HOLD_DEFERRED : TWI_HOLD_ENDED;
}

#endif
