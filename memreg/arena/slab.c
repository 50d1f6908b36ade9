/*
 * slab.c - takes and gives slots, under the provider's lock; slab.h has the layout.
 */
#include "memreg/arena/slab.h"

#include <sched.h>
#include <stdlib.h>

#include <internal/base.h>

#define CHUNK_SLABS     16
#define HOLDS_IN_A_LINE 16

struct twi_slab_chunk {
	struct twi_slab_chunk *next;
	void *memory; /* the unaligned address from the heap */
	struct twi_slab slab[CHUNK_SLABS];
};

/* Chosen so that slots fill their pages. One empty slab of each class takes 124 KiB in all. */
static const struct {
	uint16_t bytes, pages;
} classes[TWI_SLAB_CLASSES] = {
	{ 64, 1 },  { 128, 2 }, { 192, 3 },  { 256, 4 },  { 384, 3 },
	{ 512, 4 }, { 768, 3 }, { 1024, 4 }, { 1536, 3 }, { 2048, 4 },
};

/* Class by size in units of 64 bytes, rounded up. */
static const uint8_t class_by_units[TWI_SLAB_MAX / TWI_SLAB_UNIT + 1] = {
	0, 0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7,
	8, 8, 8, 8, 8, 8, 8, 8, 9, 9, 9, 9, 9, 9, 9, 9,
};

void twi_slabs_init(struct twi_slabs *slabs, struct twi_runs *runs)
{
	slabs->runs = runs;
	slabs->chunks = NULL;
	twi_list_init(&slabs->spare);
	for (int i = 0; i < TWI_SLAB_CLASSES; i++) {
		twi_list_init(&slabs->partial[i]);
		slabs->empty[i] = NULL;
	}
}

void twi_slabs_fini(struct twi_slabs *slabs)
{
	while (slabs->chunks != NULL) {
		struct twi_slab_chunk *chunk = slabs->chunks;

		slabs->chunks = chunk->next;
		free(chunk->memory);
	}
}

int twi_slab_class(uint64_t bytes, uint64_t align)
{
	int class;

	if (bytes > TWI_SLAB_MAX || align > TWI_SLAB_MAX)
		return -1;
	class = class_by_units[(bytes + TWI_SLAB_UNIT - 1) / TWI_SLAB_UNIT];
	while (classes[class].bytes & (align - 1))
		class ++;
	return class;
}

uint32_t twi_slab_class_bytes(int class)
{
	return classes[class].bytes;
}

static struct twi_slab *make_descriptor(struct twi_slabs *slabs)
{
	struct twi_slab_chunk *chunk;
	struct twi_list *link = twi_list_first(&slabs->spare);

	if (link == NULL) {
		void *memory = calloc(1, sizeof(*chunk) + _Alignof(struct twi_slab_chunk));

		if (memory == NULL)
			return NULL;
		chunk = (struct twi_slab_chunk *)twi_align_up((uintptr_t)memory,
							      _Alignof(struct twi_slab_chunk));
		chunk->memory = memory;
		chunk->next = slabs->chunks;
		slabs->chunks = chunk;
		for (int i = 0; i < CHUNK_SLABS; i++)
			twi_list_push_back(&slabs->spare, &chunk->slab[i].link);
		link = twi_list_first(&slabs->spare);
	}
	twi_list_remove(link);
	return twi_container_of(link, struct twi_slab, link);
}

static struct twi_slab *slab_create(struct twi_slabs *slabs, int class)
{
	struct twi_slab *slab = make_descriptor(slabs);
	uint32_t pages = classes[class].pages, page;

	if (slab == NULL)
		return NULL;
	page = twi_runs_take(slabs->runs, pages, 1, true);
	if (page == TWI_PAGE_NONE) {
		twi_list_push_back(&slabs->spare, &slab->link);
		return NULL;
	}
	slab->class = (uint32_t) class;
	slab->slots = pages * (uint32_t)TWI_PAGE_BYTES / classes[class].bytes;
	slab->free = UINT64_MAX >> (64 - slab->slots);
	atomic_store_explicit(&slab->page, page, memory_order_relaxed);
	atomic_store_explicit(&slab->slot_bytes, classes[class].bytes, memory_order_relaxed);
	slabs->runs->page[page].state = TWI_PAGE_SLAB;
	/* Release: a thread that finds the slab by a page also sees its page and slot_bytes. */
	for (uint32_t i = 0; i < pages; i++)
		atomic_store_explicit(&slabs->runs->page[page + i].small, slab,
				      memory_order_release);
	twi_list_push_back(&slabs->partial[class], &slab->link);
	return slab;
}

static void slab_destroy(struct twi_slabs *slabs, struct twi_slab *slab)
{
	uint32_t page = atomic_load_explicit(&slab->page, memory_order_relaxed);

	for (uint32_t i = 0; i < classes[slab->class].pages; i++)
		atomic_store_explicit(&slabs->runs->page[page + i].small, NULL,
				      memory_order_relaxed);
	twi_list_remove(&slab->link);
	twi_list_push_back(&slabs->spare, &slab->link);
	twi_runs_give(slabs->runs, page);
}

/*
 * A free slot. Each CPU begins its search at another cache line of hold words. Otherwise threads
 * that lease and free small blocks would share lines (measured: 110 to 360 ns instead of 55).
 */
static uint32_t free_slot(const struct twi_slab *slab)
{
	uint32_t from = (uint32_t)sched_getcpu() * HOLDS_IN_A_LINE % TWI_SLAB_SLOTS;
	uint64_t turned =
		from ? slab->free >> from | slab->free << (TWI_SLAB_SLOTS - from) : slab->free;

	return ((uint32_t)__builtin_ctzll(turned) + from) % TWI_SLAB_SLOTS;
}

struct twi_slab *twi_slabs_take(struct twi_slabs *slabs, int class, uint32_t *slot_out)
{
	struct twi_list *link = twi_list_first(&slabs->partial[class]);
	struct twi_slab *slab = link != NULL ? twi_container_of(link, struct twi_slab, link)
					     : slab_create(slabs, class);
	uint32_t slot;

	if (slab == NULL)
		return NULL;
	if (slabs->empty[class] == slab)
		slabs->empty[class] = NULL;
	slot = free_slot(slab);
	slab->free &= ~((uint64_t)1 << slot);
	if (!slab->free)
		twi_list_remove(&slab->link);
	*slot_out = slot;
	return slab;
}

void twi_slabs_give(struct twi_slabs *slabs, struct twi_slab *slab, uint32_t slot)
{
	if (!slab->free)
		twi_list_push_back(&slabs->partial[slab->class], &slab->link);
	slab->free |= (uint64_t)1 << slot;
	if (slab->free != UINT64_MAX >> (64 - slab->slots))
		return;
	if (slabs->empty[slab->class] != NULL)
		slab_destroy(slabs, slab);
	else
		slabs->empty[slab->class] = slab;
}

void twi_slabs_trim(struct twi_slabs *slabs)
{
	for (int i = 0; i < TWI_SLAB_CLASSES; i++) {
		if (slabs->empty[i] != NULL)
			slab_destroy(slabs, slabs->empty[i]);
		slabs->empty[i] = NULL;
	}
}
