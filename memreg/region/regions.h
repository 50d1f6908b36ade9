/*
 * regions.h - the table of all registered memory: who has which slots, and which region holds a
 * given range.
 *
 *   slots   | extent 0 | user | cached | free ...    TWI_REGION_SLOTS; an entry lies at the first
 *                                                    slot of its region
 *   order   user and cached regions by base, with how far any of those before it reaches: finding
 *           one that holds a range is a binary search and, unless they are nested, one look
 *
 * An entry's life:  take -> PENDING -> publish -> LIVE -> withdraw -> DEAD -> next_dead -> give.
 * Only a LIVE one is found. A DEAD one waits for its last hold; then registrars forget it. What is
 * found is held under the lock, so an entry that somebody holds is never given back.
 *
 * A handle is a generation and a slot. Generations are given once in a process, so a handle that is
 * stale, forged or another runtime's names nothing.
 *
 * `lock` protects all of it except where said otherwise. It is held for microseconds; nobody holds
 * it while calling a registrar. Nothing here allocates after init.
 */
#ifndef TWI_REGIONS_H
#define TWI_REGIONS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "memreg/region/region.h"

#define TWI_SLOT_WORDS (TWI_REGION_SLOTS / 64)

enum twi_region_state { TWI_REGION_FREE, TWI_REGION_PENDING, TWI_REGION_LIVE, TWI_REGION_DEAD };

struct twi_region_entry {
	struct twi_region region; /* first: a region that was handed out is its entry */
	uint32_t holds;
	uint8_t state;
	uint16_t before, after; /* in the LRU list (cached, LIVE) or the list of the dead */
};

/* One place of the order. */
struct twi_region_place {
	uint64_t reach; /* the furthest end of this and all before it */
	uint16_t slot;
};

/* A doubly linked list through `before` and `after`; TWI_NO_SLOT ends it. */
#define TWI_NO_SLOT UINT16_MAX
struct twi_region_list {
	uint16_t first, last;
};

struct twi_regions {
	pthread_mutex_t lock;
	struct twi_region_entry *entry; /* TWI_REGION_SLOTS, by first slot */
	struct twi_region_place *order;
	uint32_t ordered;
	uint32_t count[3];             /* PENDING and LIVE regions, by kind */
	uint64_t bytes[3];             /* of these */
	uint64_t used[TWI_SLOT_WORDS]; /* a bit for each slot */
	struct twi_region_list lru;    /* of the cached; the first is the oldest */
	struct twi_region_list dead;   /* that nobody holds any more */
	_Atomic uint32_t dead_count;   /* read without the lock */
	_Atomic uint32_t findable;     /* user and cached regions; read without the lock */
	_Atomic uint64_t version;      /* read without the lock */
};

int twi_regions_init(struct twi_regions *regions); /* TOW_OK; TOW_ENOMEM, and fini is legal */
void twi_regions_fini(struct twi_regions *regions);

/* All below: with the lock held. */

/* A PENDING entry with slots of its own, or NULL: there are not that many in a row. */
struct twi_region_entry *twi_regions_take(struct twi_regions *regions, enum twi_region_kind kind,
					  void *base, uint64_t bytes, int fd);
void twi_regions_publish(struct twi_regions *regions, struct twi_region_entry *entry);
/* From PENDING or LIVE; on a DEAD one it does nothing. */
void twi_regions_withdraw(struct twi_regions *regions, struct twi_region_entry *entry);
/* A DEAD entry without holds, which is then the caller's to give; NULL: there is none. */
struct twi_region_entry *twi_regions_next_dead(struct twi_regions *regions);
void twi_regions_give(struct twi_regions *regions, struct twi_region_entry *entry);

void twi_regions_hold(struct twi_regions *regions, struct twi_region_entry *entry);
void twi_regions_release(struct twi_regions *regions, struct twi_region_entry *entry);

/* A LIVE region that holds all of [start, end), a user's rather than a cached one; else NULL. */
struct twi_region_entry *twi_regions_find(struct twi_regions *regions, uint64_t start,
					  uint64_t end);
/* Of the cached regions, PENDING or LIVE, that share a byte with [start, end): the lowest. */
struct twi_region_entry *twi_regions_overlap(struct twi_regions *regions, uint64_t start,
					     uint64_t end);

uint64_t twi_regions_handle(const struct twi_region_entry *entry);
/* The LIVE user region of a handle. TOW_EINVAL for what no handle looks like; TOW_EFREED. */
int twi_regions_by_handle(struct twi_regions *regions, uint64_t handle,
			  struct twi_region_entry **entry_out);

/* The entry at `slot` or behind it, whatever its state but FREE; NULL past the last. */
struct twi_region_entry *twi_regions_next(struct twi_regions *regions, uint32_t slot);

static inline uint64_t twi_region_start(const struct twi_region_entry *entry)
{
	return (uint64_t)(uintptr_t)entry->region.base;
}

static inline uint64_t twi_region_end(const struct twi_region_entry *entry)
{
	return twi_region_start(entry) + entry->region.bytes;
}

#endif
