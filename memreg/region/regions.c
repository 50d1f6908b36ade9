/*
 * regions.c - slots, order and states of registered memory; regions.h has the concept.
 */
#include "memreg/region/regions.h"

#include <stdlib.h>
#include <string.h>

#include "diag/base/error.h"
#include <internal/base.h>
#include <towline/status.h>

#define SLOT_BITS 12

_Static_assert(1u << SLOT_BITS == TWI_REGION_SLOTS, "a handle's low bits are a slot");
_Static_assert(TWI_REGION_SLOTS < TWI_NO_SLOT, "slots fit the links");

/* One number for the whole process, so that a runtime never accepts another one's handle. */
static _Atomic uint64_t last_generation;

int twi_regions_init(struct twi_regions *regions)
{
	*regions = (struct twi_regions){ .lru = { TWI_NO_SLOT, TWI_NO_SLOT },
					 .dead = { TWI_NO_SLOT, TWI_NO_SLOT } };
	pthread_mutex_init(&regions->lock, NULL);
	regions->entry = calloc(TWI_REGION_SLOTS, sizeof(regions->entry[0]));
	regions->order = calloc(TWI_REGION_SLOTS, sizeof(regions->order[0]));
	if (regions->entry == NULL || regions->order == NULL)
		return twi_error(TOW_ENOMEM, "pool: no memory for the table of regions");
	return TOW_OK;
}

void twi_regions_fini(struct twi_regions *regions)
{
	free(regions->entry);
	free(regions->order);
	regions->entry = NULL;
	regions->order = NULL;
	pthread_mutex_destroy(&regions->lock);
}

static void list_append(struct twi_regions *regions, struct twi_region_list *list,
			struct twi_region_entry *entry)
{
	uint16_t slot = (uint16_t)entry->region.slot;

	entry->before = list->last;
	entry->after = TWI_NO_SLOT;
	if (list->last == TWI_NO_SLOT)
		list->first = slot;
	else
		regions->entry[list->last].after = slot;
	list->last = slot;
}

static void list_remove(struct twi_regions *regions, struct twi_region_list *list,
			struct twi_region_entry *entry)
{
	if (entry->before == TWI_NO_SLOT)
		list->first = entry->after;
	else
		regions->entry[entry->before].after = entry->after;
	if (entry->after == TWI_NO_SLOT)
		list->last = entry->before;
	else
		regions->entry[entry->after].before = entry->before;
}

static bool slot_used(const struct twi_regions *regions, uint32_t slot)
{
	return regions->used[slot / 64] >> slot % 64 & 1;
}

/* The first slot of `slots` free ones in a row, or TWI_NO_SLOT. */
static uint32_t find_slots(const struct twi_regions *regions, uint32_t slots)
{
	uint32_t run = 0;

	for (uint32_t slot = 0; slot < TWI_REGION_SLOTS; slot++) {
		if (slot % 64 == 0 && regions->used[slot / 64] == UINT64_MAX) {
			run = 0;
			slot += 63;
			continue;
		}
		run = slot_used(regions, slot) ? 0 : run + 1;
		if (run == slots)
			return slot + 1 - slots;
	}
	return TWI_NO_SLOT;
}

static void mark_slots(struct twi_regions *regions, const struct twi_region *region, bool used)
{
	for (uint32_t i = region->slot; i < region->slot + region->slots; i++) {
		uint64_t bit = (uint64_t)1 << i % 64;

		twi_assert(slot_used(regions, i) != used);
		regions->used[i / 64] ^= bit;
	}
}

/* The number of entries of the order whose region starts below `address`. */
static uint32_t count_below(const struct twi_regions *regions, uint64_t address)
{
	uint32_t low = 0, high = regions->ordered;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (twi_region_start(&regions->entry[regions->order[middle].slot]) < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void mend_reach(struct twi_regions *regions, uint32_t from)
{
	uint64_t reach = from > 0 ? regions->order[from - 1].reach : 0;

	for (uint32_t i = from; i < regions->ordered; i++) {
		reach = twi_max(reach, twi_region_end(&regions->entry[regions->order[i].slot]));
		regions->order[i].reach = reach;
	}
}

static void order_insert(struct twi_regions *regions, const struct twi_region_entry *entry)
{
	uint32_t at = count_below(regions, twi_region_start(entry));
	struct twi_region_place *place = &regions->order[at];

	memmove(place + 1, place, (regions->ordered - at) * sizeof(*place));
	place->slot = (uint16_t)entry->region.slot;
	regions->ordered++;
	mend_reach(regions, at);
	atomic_store_explicit(&regions->findable, regions->ordered, memory_order_release);
}

static void order_remove(struct twi_regions *regions, const struct twi_region_entry *entry)
{
	uint32_t at = count_below(regions, twi_region_start(entry));
	struct twi_region_place *place;

	while (regions->order[at].slot != entry->region.slot)
		at++;
	place = &regions->order[at];
	regions->ordered--;
	memmove(place, place + 1, (regions->ordered - at) * sizeof(*place));
	mend_reach(regions, at);
	atomic_store_explicit(&regions->findable, regions->ordered, memory_order_release);
}

struct twi_region_entry *twi_regions_take(struct twi_regions *regions, enum twi_region_kind kind,
					  void *base, uint64_t bytes, int fd)
{
	uint64_t slots = (bytes + TWI_REGION_PIECE - 1) >> TWI_REGION_PIECE_SHIFT;
	struct twi_region_entry *entry;
	uint32_t slot;

	if (slots == 0 || slots > TWI_REGION_SLOTS)
		return NULL;
	slot = find_slots(regions, (uint32_t)slots);
	if (slot == TWI_NO_SLOT)
		return NULL;
	entry = &regions->entry[slot];
	*entry = (struct twi_region_entry){
		.region = { .base = base,
			    .bytes = bytes,
			    .generation = atomic_fetch_add_explicit(&last_generation, 1,
								    memory_order_relaxed) +
					  1,
			    .slot = slot,
			    .slots = (uint32_t)slots,
			    .kind = kind,
			    .fd = fd },
		.state = TWI_REGION_PENDING,
	};
	mark_slots(regions, &entry->region, true);
	regions->count[kind]++;
	regions->bytes[kind] += bytes;
	/* twi_pool_find finds extents. */
	if (kind != TWI_REGION_EXTENT)
		order_insert(regions, entry);
	return entry;
}

static void count_version(struct twi_regions *regions)
{
	/* Release: a thread that sees the new number sees this table, once it has the lock. */
	atomic_fetch_add_explicit(&regions->version, 1, memory_order_release);
}

void twi_regions_publish(struct twi_regions *regions, struct twi_region_entry *entry)
{
	twi_assert(entry->state == TWI_REGION_PENDING);
	entry->state = TWI_REGION_LIVE;
	if (entry->region.kind == TWI_REGION_CACHED)
		list_append(regions, &regions->lru, entry);
	count_version(regions);
}

static void bury_entry(struct twi_regions *regions, struct twi_region_entry *entry)
{
	list_append(regions, &regions->dead, entry);
	atomic_fetch_add_explicit(&regions->dead_count, 1, memory_order_relaxed);
}

void twi_regions_withdraw(struct twi_regions *regions, struct twi_region_entry *entry)
{
	enum twi_region_kind kind = entry->region.kind;

	if (entry->state == TWI_REGION_DEAD)
		return;
	if (entry->state == TWI_REGION_LIVE && kind == TWI_REGION_CACHED)
		list_remove(regions, &regions->lru, entry);
	entry->state = TWI_REGION_DEAD;
	if (kind != TWI_REGION_EXTENT)
		order_remove(regions, entry);
	regions->count[kind]--;
	regions->bytes[kind] -= entry->region.bytes;
	count_version(regions);
	if (entry->holds == 0)
		bury_entry(regions, entry);
}

struct twi_region_entry *twi_regions_next_dead(struct twi_regions *regions)
{
	struct twi_region_entry *entry;

	if (regions->dead.first == TWI_NO_SLOT)
		return NULL;
	entry = &regions->entry[regions->dead.first];
	list_remove(regions, &regions->dead, entry);
	atomic_fetch_sub_explicit(&regions->dead_count, 1, memory_order_relaxed);
	return entry;
}

void twi_regions_give(struct twi_regions *regions, struct twi_region_entry *entry)
{
	twi_assert(entry->state == TWI_REGION_DEAD && entry->holds == 0);
	entry->state = TWI_REGION_FREE;
	mark_slots(regions, &entry->region, false);
	count_version(regions);
}

void twi_regions_hold(struct twi_regions *regions, struct twi_region_entry *entry)
{
	twi_assert(entry->state != TWI_REGION_FREE && entry->holds < UINT32_MAX);
	entry->holds++;
	if (entry->state == TWI_REGION_LIVE && entry->region.kind == TWI_REGION_CACHED) {
		list_remove(regions, &regions->lru, entry);
		list_append(regions, &regions->lru, entry);
	}
}

void twi_regions_release(struct twi_regions *regions, struct twi_region_entry *entry)
{
	twi_assert(entry->state != TWI_REGION_FREE && entry->holds > 0);
	entry->holds--;
	if (entry->holds == 0 && entry->state == TWI_REGION_DEAD)
		bury_entry(regions, entry);
}

struct twi_region_entry *twi_regions_find(struct twi_regions *regions, uint64_t start, uint64_t end)
{
	struct twi_region_entry *found = NULL;

	for (uint32_t i = count_below(regions, start + 1); i-- > 0;) {
		struct twi_region_entry *entry = &regions->entry[regions->order[i].slot];

		if (regions->order[i].reach < end)
			break;
		if (entry->state != TWI_REGION_LIVE || twi_region_end(entry) < end)
			continue;
		if (entry->region.kind == TWI_REGION_USER)
			return entry;
		found = entry;
	}
	return found;
}

struct twi_region_entry *twi_regions_overlap(struct twi_regions *regions, uint64_t start,
					     uint64_t end)
{
	struct twi_region_entry *found = NULL;

	for (uint32_t i = count_below(regions, end); i-- > 0;) {
		struct twi_region_entry *entry = &regions->entry[regions->order[i].slot];

		if (regions->order[i].reach <= start)
			break;
		if (entry->region.kind == TWI_REGION_CACHED && twi_region_end(entry) > start)
			found = entry;
	}
	return found;
}

uint64_t twi_regions_handle(const struct twi_region_entry *entry)
{
	return entry->region.generation << SLOT_BITS | entry->region.slot;
}

int twi_regions_by_handle(struct twi_regions *regions, uint64_t handle,
			  struct twi_region_entry **entry_out)
{
	struct twi_region_entry *entry = &regions->entry[handle % TWI_REGION_SLOTS];
	uint64_t generation = handle >> SLOT_BITS;

	*entry_out = NULL;
	if (generation == 0 ||
	    generation > atomic_load_explicit(&last_generation, memory_order_relaxed))
		return TOW_EINVAL;
	if (entry->state != TWI_REGION_LIVE || entry->region.generation != generation ||
	    entry->region.kind != TWI_REGION_USER)
		return TOW_EFREED;
	*entry_out = entry;
	return TOW_OK;
}

struct twi_region_entry *twi_regions_next(struct twi_regions *regions, uint32_t slot)
{
	for (; slot < TWI_REGION_SLOTS; slot++) {
		uint64_t left = regions->used[slot / 64] >> slot % 64;

		if (left == 0)
			slot |= 63;
		else if (left & 1 && regions->entry[slot].state != TWI_REGION_FREE &&
			 regions->entry[slot].region.slot == slot)
			return &regions->entry[slot];
	}
	return NULL;
}
