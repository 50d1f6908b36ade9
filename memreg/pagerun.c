/*
 * pagerun.c - the page-run provider: runs of pages for what is large, slabs for what is small, one
 * short lock around both. runs.h and slab.h have the layouts, arena.h what is promised.
 *
 * Which of the two an address belongs to, and where its allocation begins, is answered without the
 * lock: the side table's `slab` of the page, else the bitmap of run heads.
 */
#include <pthread.h>
#include <stdlib.h>

#include "memreg/arena.h"
#include "memreg/lease.h"
#include "memreg/runs.h"
#include "memreg/slab.h"
#include <internal/base.h>

struct pagerun {
	pthread_mutex_t lock;
	char *base;
	struct twi_runs runs;
	struct twi_slabs slabs;
	uint64_t allocated_bytes, peak_bytes, waste_bytes, allocations;
};

/* Held for some tens of ns: whoever waits spins a little before it sleeps. */
static void lock_init(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
	pthread_mutex_init(lock, &attr);
	pthread_mutexattr_destroy(&attr);
}

static int pagerun_create(void *base, uint64_t bytes, void **ctx_out)
{
	struct pagerun *arena;

	*ctx_out = NULL;
	if (bytes < TWI_PAGE_BYTES || bytes >> TWI_PAGE_SHIFT >= TWI_PAGE_NONE)
		return TOW_EINVAL;
	arena = calloc(1, sizeof(*arena));
	if (!arena)
		return TOW_ENOMEM;
	if (twi_runs_init(&arena->runs, base, (uint32_t)(bytes >> TWI_PAGE_SHIFT))) {
		free(arena);
		return TOW_ENOMEM;
	}
	arena->base = base;
	lock_init(&arena->lock);
	twi_slabs_init(&arena->slabs, &arena->runs);
	*ctx_out = arena;
	return TOW_OK;
}

static void pagerun_destroy(void *ctx)
{
	struct pagerun *arena = ctx;

	twi_slabs_fini(&arena->slabs);
	twi_runs_fini(&arena->runs);
	pthread_mutex_destroy(&arena->lock);
	free(arena);
}

static void account(struct pagerun *arena, uint64_t bytes, uint64_t slack)
{
	arena->allocated_bytes += bytes;
	arena->peak_bytes = twi_max(arena->peak_bytes, arena->allocated_bytes);
	arena->waste_bytes += slack;
	arena->allocations++;
}

static void unaccount(struct pagerun *arena, uint64_t bytes, uint64_t slack)
{
	arena->allocated_bytes -= bytes;
	arena->waste_bytes -= slack;
	arena->allocations--;
}

static void *take_slot(struct pagerun *arena, int class, uint64_t bytes)
{
	uint32_t slot, page, size = twi_slab_class_bytes(class);
	struct twi_slab *slab = twi_slabs_take(&arena->slabs, class, &slot);

	if (!slab)
		return NULL;
	slab->slack[slot] = (uint16_t)(size - bytes);
	account(arena, size, slab->slack[slot]);
	twi_hold_begin(&slab->hold[slot]);
	page = atomic_load_explicit(&slab->page, memory_order_relaxed);
	return arena->base + page * TWI_PAGE_BYTES + (uint64_t)slot * size;
}

static void *take_run(struct pagerun *arena, uint64_t bytes, uint64_t align)
{
	uint64_t pages = twi_max(twi_align_up(bytes, TWI_PAGE_BYTES) >> TWI_PAGE_SHIFT, 1u);
	uint64_t align_pages = twi_max(align >> TWI_PAGE_SHIFT, 1u);
	struct twi_page *head;
	uint32_t page;

	page = twi_runs_take(&arena->runs, (uint32_t)pages, (uint32_t)align_pages, false);
	if (page == TWI_PAGE_NONE)
		return NULL;
	head = &arena->runs.page[page];
	head->state = TWI_PAGE_RUN;
	head->slack = (uint16_t)(pages * TWI_PAGE_BYTES - bytes);
	account(arena, pages * TWI_PAGE_BYTES, head->slack);
	twi_bitmap_set(&arena->runs.heads, page);
	twi_hold_begin(&head->hold);
	return arena->base + page * TWI_PAGE_BYTES;
}

static int pagerun_alloc(void *ctx, size_t bytes, size_t align, void **out)
{
	struct pagerun *arena = ctx;
	int class = twi_slab_class(bytes, align);
	void *p = NULL;

	*out = NULL;
	/* The total never changes, so that it needs no lock; and no rounding up can overflow below.
	 */
	if (bytes > (uint64_t)arena->runs.pages << TWI_PAGE_SHIFT)
		return TOW_EEXHAUSTED;
	pthread_mutex_lock(&arena->lock);
	if (class >= 0)
		p = take_slot(arena, class, bytes);
	if (!p)
		p = take_run(arena, bytes, align);
	if (!p) {
		/* The empty slabs that are kept may be what is missing. */
		twi_slabs_trim(&arena->slabs);
		p = take_run(arena, bytes, align);
	}
	pthread_mutex_unlock(&arena->lock);
	*out = p;
	return p ? TOW_OK : TOW_EEXHAUSTED;
}

static int find_slot(struct pagerun *arena, struct twi_slab *slab, uint64_t offset,
		     struct twi_block *out)
{
	uint32_t size = atomic_load_explicit(&slab->slot_bytes, memory_order_relaxed);
	uint64_t begin = atomic_load_explicit(&slab->page, memory_order_relaxed) * TWI_PAGE_BYTES;
	uint64_t slot = (uint32_t)(offset - begin) / size;

	/* Only for a slab that was given back while its finder, who had no right to it, looked. */
	if (offset < begin || slot >= TWI_SLAB_SLOTS)
		return TOW_EFREED;
	out->hold = &slab->hold[slot];
	if (!(atomic_load_explicit(out->hold, memory_order_acquire) & TWI_HOLD_LIVE))
		return TOW_EFREED;
	out->base = arena->base + begin + slot * size;
	out->bytes = size;
	return TOW_OK;
}

static int pagerun_find(void *ctx, const void *p, struct twi_block *out)
{
	struct pagerun *arena = ctx;
	uint64_t offset = (uint64_t)((const char *)p - arena->base);
	uint32_t page = (uint32_t)(offset >> TWI_PAGE_SHIFT), head;
	/* Acquire: pairs with the release in slab_create. */
	struct twi_slab *slab =
		atomic_load_explicit(&arena->runs.page[page].slab, memory_order_acquire);

	if (slab)
		return find_slot(arena, slab, offset, out);
	head = twi_bitmap_find_back(&arena->runs.heads, page);
	if (head == TWI_BITMAP_NONE)
		return TOW_EFREED;
	out->hold = &arena->runs.page[head].hold;
	if (!(atomic_load_explicit(out->hold, memory_order_acquire) & TWI_HOLD_LIVE) ||
	    page - head >= twi_run_pages(&arena->runs, head))
		return TOW_EFREED;
	out->base = arena->base + head * TWI_PAGE_BYTES;
	out->bytes = twi_run_pages(&arena->runs, head) * TWI_PAGE_BYTES;
	return TOW_OK;
}

static void pagerun_give(void *ctx, void *base)
{
	struct pagerun *arena = ctx;
	uint64_t offset = (uint64_t)((char *)base - arena->base);
	uint32_t page = (uint32_t)(offset >> TWI_PAGE_SHIFT);
	struct twi_page *head = &arena->runs.page[page];
	struct twi_slab *slab;

	pthread_mutex_lock(&arena->lock);
	slab = atomic_load_explicit(&head->slab, memory_order_relaxed);
	if (slab) {
		uint32_t size = twi_slab_class_bytes((int)slab->class);
		uint64_t begin =
			atomic_load_explicit(&slab->page, memory_order_relaxed) * TWI_PAGE_BYTES;
		uint32_t slot = (uint32_t)(offset - begin) / size;

		unaccount(arena, size, slab->slack[slot]);
		twi_slabs_give(&arena->slabs, slab, slot);
	} else {
		twi_assert(head->state == TWI_PAGE_RUN);
		unaccount(arena, twi_run_pages(&arena->runs, page) * TWI_PAGE_BYTES, head->slack);
		twi_bitmap_clear(&arena->runs.heads, page);
		twi_runs_give(&arena->runs, page);
	}
	pthread_mutex_unlock(&arena->lock);
}

static void pagerun_stats(void *ctx, struct twi_arena_stats *out)
{
	struct pagerun *arena = ctx;

	pthread_mutex_lock(&arena->lock);
	twi_slabs_trim(&arena->slabs);
	out->total_bytes = arena->runs.pages * TWI_PAGE_BYTES;
	out->allocated_bytes = arena->allocated_bytes;
	out->peak_bytes = arena->peak_bytes;
	out->waste_bytes = arena->waste_bytes;
	out->free_bytes = out->total_bytes - arena->allocated_bytes;
	out->largest_free_bytes = twi_runs_largest(&arena->runs) * TWI_PAGE_BYTES;
	out->last_free_bytes = twi_runs_last_free(&arena->runs) * TWI_PAGE_BYTES;
	out->allocations = arena->allocations;
	pthread_mutex_unlock(&arena->lock);
}

const struct twi_arena_ops twi_arena_pagerun = {
	.name = "pagerun",
	.create = pagerun_create,
	.destroy = pagerun_destroy,
	.alloc = pagerun_alloc,
	.find = pagerun_find,
	.give = pagerun_give,
	.stats = pagerun_stats,
};
