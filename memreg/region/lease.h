/*
 * lease.h - the hold word of an allocation: is it allocated, freed, and how many leases does it
 * have?
 *
 *   bit 31 LIVE    allocated; 0 in all bits means that the place is free
 *   bit 30 FREED   its owner has freed it; the memory goes back with the last lease
 *   bit 29 PLACED  its owner is a program's allocator (pool_place.h)
 *   bits 0..28     leases
 *
 *        begin            lease/release            free, no leases
 *   0 ---------> LIVE <------------------> LIVE+n ..... LIVE -------> 0   TWI_HOLD_ENDED
 *                                            | free
 *                                            v
 *                                       LIVE+FREED+n --- last release --> 0   TWI_HOLD_ENDED
 *
 * Invariant: exactly one caller sees TWI_HOLD_ENDED for one begin, and only that one may give the
 * memory back. That is what makes a double free, a free racing a lease, and a deferred free safe
 * without a lock.
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

/* Outcomes beside the statuses; positive, and none of TOW_STATUS_MAP's. */
enum {
	TWI_HOLD_ENDED = 64,    /* give the memory back now */
	TWI_HOLD_DEFERRED = 65, /* freed; the last release will say ENDED */
	TWI_HOLD_FIRST = 66,    /* this is the only lease now */
	TWI_HOLD_LAST = 67,     /* that was the last lease; the allocation lives on */
};

/* Release: pairs with the acquire of whoever changes the word later. */
static inline void twi_hold_begin(_Atomic uint32_t *hold)
{
	atomic_store_explicit(hold, TWI_HOLD_LIVE, memory_order_release);
}

static inline int twi_hold_swap(_Atomic uint32_t *hold, uint32_t *word, uint32_t next)
{
	/* acq_rel: whoever ends the allocation sees all that others did before they let go. */
	return atomic_compare_exchange_weak_explicit(hold, word, next, memory_order_acq_rel,
						     memory_order_acquire);
}

/* By its owner, behind the begin. */
static inline void twi_hold_mark_placed(_Atomic uint32_t *hold)
{
	atomic_fetch_or_explicit(hold, TWI_HOLD_PLACED, memory_order_relaxed);
}

/* TOW_OK, TWI_HOLD_FIRST, TOW_EFREED, or TOW_EBUSY past the counter's range. */
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

/* One more for who has a lease already: its owner may have freed it since. TOW_OK or TOW_EBUSY. */
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
