/*
 * regions.h - the table of all registered memory: which slots a region has, and which region
 * contains a given range.
 *
 *   slots   | extent 0 | user | cached | free ...    TWI_REGION_SLOTS; an entry lies at the first
 *                                                    slot of its region
 *   order   user and cached regions, sorted by base; each has the furthest end of itself and all
 *           before it. A search is binary, and looks at one region unless regions are nested.
 *
 * States of an entry:  take -> PENDING -> publish -> LIVE -> withdraw -> DEAD -> next_dead -> give.
 * A search finds only LIVE entries. A DEAD one waits until its last hold ends; then registrars
 * forget it. A finder adds a hold under the lock, so an entry with holds is never given back.
 *
 * A handle is a generation and a slot. A process uses each generation once. So a handle that is
 * stale, forged or from another runtime finds nothing.
 *
 * `lock` protects everything except where said otherwise. It is held for microseconds. No thread
 * holds it while calling a registrar. Nothing here allocates memory after init.
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
	struct twi_region region; /* first: a pointer to the region is one to its entry */
	uint32_t holds;
	uint8_t state;
	uint16_t before, after; /* links of the LRU list (cached, LIVE) or the list of the dead */
};

/* One entry of the order. */
struct twi_region_place {
	uint64_t reach; /* the furthest end of this region and all before it */
	uint16_t slot;
};

/* A doubly linked list through `before` and `after`, ended by TWI_NO_SLOT. */
#define TWI_NO_SLOT UINT16_MAX
struct twi_region_list {
	uint16_t first, last;
};

struct twi_regions {
	pthread_mutex_t lock;
	struct twi_region_entry *entry; /* TWI_REGION_SLOTS of them, by first slot */
	struct twi_region_place *order;
	uint32_t ordered;
	uint32_t count[3];             /* PENDING and LIVE regions, by kind */
	uint64_t bytes[3];             /* bytes of these regions */
	uint64_t used[TWI_SLOT_WORDS]; /* a bit for each slot */
	struct twi_region_list lru;    /* the cached regions, least recently used first */
	struct twi_region_list dead;   /* the dead ones without holds */
	_Atomic uint32_t dead_count;   /* read without the lock */
	_Atomic uint32_t findable;     /* count of user and cached regions; read without the lock */
	_Atomic uint64_t version;      /* read without the lock */
};

int twi_regions_init(struct twi_regions *regions); /* TOW_OK, TOW_ENOMEM; then call fini */
void twi_regions_fini(struct twi_regions *regions);

/* The caller of everything below holds the lock. */

/* A PENDING entry with slots of its own. NULL: too few adjacent slots are free. */
struct twi_region_entry *twi_regions_take(struct twi_regions *regions, enum twi_region_kind kind,
					  void *base, uint64_t bytes, int fd);
void twi_regions_publish(struct twi_regions *regions, struct twi_region_entry *entry);
/* Withdraws a PENDING or LIVE entry. Does nothing to a DEAD one. */
void twi_regions_withdraw(struct twi_regions *regions, struct twi_region_entry *entry);
/* A DEAD entry without holds, which the caller must give. NULL: there is none. */
struct twi_region_entry *twi_regions_next_dead(struct twi_regions *regions);
void twi_regions_give(struct twi_regions *regions, struct twi_region_entry *entry);

void twi_regions_hold(struct twi_regions *regions, struct twi_region_entry *entry);
void twi_regions_release(struct twi_regions *regions, struct twi_region_entry *entry);

/* A LIVE region that contains [start, end), a user region before a cached one; else NULL. */
struct twi_region_entry *twi_regions_find(struct twi_regions *regions, uint64_t start,
					  uint64_t end);
/* The lowest cached region, PENDING or LIVE, that shares a byte with [start, end). */
struct twi_region_entry *twi_regions_overlap(struct twi_regions *regions, uint64_t start,
					     uint64_t end);

uint64_t twi_regions_handle(const struct twi_region_entry *entry);
/* The LIVE user region of a handle. TOW_EINVAL for an impossible handle; TOW_EFREED. */
int twi_regions_by_handle(struct twi_regions *regions, uint64_t handle,
			  struct twi_region_entry **entry_out);

/* The first entry from `slot` on in any state but FREE; NULL: there is none. */
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
