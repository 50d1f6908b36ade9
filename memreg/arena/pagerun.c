/*
 * pagerun.c - the page-run provider: page runs for large blocks, slabs for small ones.
 *
 * One short lock protects both, behind a front cache. ground.h, slab.h and magazine.h have the
 * layouts; arena.h has the interface.
 *
 * A search needs no lock. The side table's `small` of the page tells whether the address lies in a
 * slab. If not, the bitmap of run heads finds where the allocation begins.
 */
#include <stdlib.h>

#include "memreg/arena/arena.h"
#include "memreg/arena/ground.h"
#include "memreg/arena/slab.h"

struct pagerun {
	struct twi_ground ground;
	struct twi_slabs slabs;
};

static int pagerun_create(void *base, uint64_t bytes, void **ctx_out)
{
	struct pagerun *arena = calloc(1, sizeof(*arena));
	int status;

	*ctx_out = NULL;
	if (arena == NULL)
		return TOW_ENOMEM;
	status = twi_ground_init(&arena->ground, base, bytes);
	if (status < 0) {
		free(arena);
		return status;
	}
	twi_slabs_init(&arena->slabs, &arena->ground.runs);
	*ctx_out = arena;
	return TOW_OK;
}

static void pagerun_destroy(void *ctx)
{
	struct pagerun *arena = ctx;

	twi_slabs_fini(&arena->slabs);
	twi_ground_fini(&arena->ground);
	free(arena);
}

/* Acquire: pairs with the release in slab_create. */
static struct twi_slab *slab_at(struct pagerun *arena, uint32_t page)
{
	return atomic_load_explicit(&arena->ground.runs.page[page].small, memory_order_acquire);
}

static uint64_t slab_begin(struct twi_slab *slab)
{
	return atomic_load_explicit(&slab->page, memory_order_relaxed) * TWI_PAGE_BYTES;
}

static uint32_t slot_at(struct pagerun *arena, struct twi_slab *slab, const void *p)
{
	uint64_t offset = (uint64_t)((const char *)p - arena->ground.base);

	return (uint32_t)(offset - slab_begin(slab)) / twi_slab_class_bytes((int)slab->class);
}

static void *take_slot(struct pagerun *arena, int class, uint64_t bytes)
{
	uint32_t slot, size = twi_slab_class_bytes(class);
	struct twi_slab *slab = twi_slabs_take(&arena->slabs, class, &slot);

	if (slab == NULL)
		return NULL;
	slab->slack[slot] = (uint16_t)(size - bytes);
	twi_ground_account(&arena->ground, size, slab->slack[slot]);
	twi_hold_begin(&slab->hold[slot]);
	return arena->ground.base + slab_begin(slab) + (uint64_t)slot * size;
}

/* Begins a cached block as a new allocation. Only the caller has it, so it needs no lock. */
static void reuse_block(struct pagerun *arena, void *p, uint64_t bytes, uint64_t align)
{
	uint32_t slot, page = twi_ground_page(&arena->ground, p);
	struct twi_slab *slab = slab_at(arena, page);
	uint64_t slack;

	if (slab == NULL) {
		twi_ground_reuse(&arena->ground, page, bytes, align);
		return;
	}
	slot = slot_at(arena, slab, p);
	slack = twi_slab_class_bytes((int)slab->class) - bytes;
	if (slab->slack[slot] != slack) {
		twi_ground_reslack(&arena->ground, slab->slack[slot], slack);
		slab->slack[slot] = (uint16_t)slack;
	}
	twi_hold_begin(&slab->hold[slot]);
}

/* Returns a block to its slab or run, past the cache. */
static void give_back(void *ctx, void *base)
{
	struct pagerun *arena = ctx;
	uint32_t slot, page = twi_ground_page(&arena->ground, base);
	struct twi_slab *slab = slab_at(arena, page);

	twi_ground_lock(&arena->ground);
	if (slab != NULL) {
		slot = slot_at(arena, slab, base);
		twi_ground_unaccount(&arena->ground, twi_slab_class_bytes((int)slab->class),
				     slab->slack[slot]);
		twi_slabs_give(&arena->slabs, slab, slot);
	} else {
		twi_ground_give(&arena->ground, page);
	}
	twi_ground_unlock(&arena->ground);
}

static void *take_block(struct pagerun *arena, uint64_t bytes, uint64_t align, int class)
{
	void *p = NULL;

	twi_ground_lock(&arena->ground);
	if (class >= 0)
		p = take_slot(arena, class, bytes);
	else if (bytes >= TWI_GROUND_LARGE)
		twi_slabs_trim(&arena->slabs);
	if (p == NULL)
		p = twi_ground_take(&arena->ground, bytes, align);
	twi_ground_unlock(&arena->ground);
	return p;
}

/* Returns cached blocks and empty slabs. */
static void gather_kept(struct pagerun *arena)
{
	twi_magazine_drain(&arena->ground.magazine, give_back, arena);
	twi_ground_lock(&arena->ground);
	twi_slabs_trim(&arena->slabs);
	twi_ground_unlock(&arena->ground);
}

static int pagerun_alloc(void *ctx, size_t bytes, size_t align, void **out)
{
	struct pagerun *arena = ctx;
	struct twi_ground *ground = &arena->ground;
	int class = twi_slab_class(bytes, align);
	uint64_t usable;

	*out = NULL;
	/* The total never changes, so it needs no lock. The test also excludes overflow below. */
	if (bytes > ground->bytes)
		return TOW_EEXHAUSTED;
	usable = class >= 0 ? twi_slab_class_bytes(class) : twi_ground_run_bytes(bytes);
	*out = twi_magazine_take(&ground->magazine, usable, align);
	if (*out != NULL) {
		reuse_block(arena, *out, bytes, align);
		return TOW_OK;
	}
	if (twi_ground_clears(ground, usable))
		twi_magazine_drain(&ground->magazine, give_back, arena);
	*out = take_block(arena, bytes, align, class);
	if (*out == NULL) {
		/* The kept memory may be the memory that is missing. */
		gather_kept(arena);
		*out = take_block(arena, bytes, align, class);
	}
	return *out != NULL ? TOW_OK : TOW_EEXHAUSTED;
}

static int find_slot(struct pagerun *arena, struct twi_slab *slab, uint64_t offset,
		     struct twi_block *out)
{
	uint32_t size = atomic_load_explicit(&slab->slot_bytes, memory_order_relaxed);
	uint64_t begin = slab_begin(slab);
	uint64_t slot = (uint32_t)(offset - begin) / size;

	/* A caller without a lease may find a slab that was returned meanwhile. */
	if (offset < begin || slot >= TWI_SLAB_SLOTS)
		return TOW_EFREED;
	out->hold = &slab->hold[slot];
	if (!(atomic_load_explicit(out->hold, memory_order_acquire) & TWI_HOLD_LIVE))
		return TOW_EFREED;
	out->base = arena->ground.base + begin + slot * size;
	out->bytes = size;
	return TOW_OK;
}

static int pagerun_find(void *ctx, const void *p, struct twi_block *out)
{
	struct pagerun *arena = ctx;
	uint32_t page = twi_ground_page(&arena->ground, p);
	struct twi_slab *slab = slab_at(arena, page);

	if (slab != NULL)
		return find_slot(arena, slab, (uint64_t)((const char *)p - arena->ground.base),
				 out);
	return twi_ground_find(&arena->ground, page, out);
}

/* The first live slot that begins at `offset` or behind it in the same page. */
static int next_slot(struct pagerun *arena, struct twi_slab *slab, uint64_t offset,
		     struct twi_block *out)
{
	uint32_t size = atomic_load_explicit(&slab->slot_bytes, memory_order_relaxed);
	uint64_t begin = slab_begin(slab), end = twi_align_up(offset + 1, TWI_PAGE_BYTES);

	/* As in find_slot: the slab was returned meanwhile. */
	if (offset < begin)
		return TOW_EFREED;
	for (offset = begin + (offset - begin + size - 1) / size * size; offset < end;
	     offset += size)
		if (find_slot(arena, slab, offset, out) == TOW_OK)
			return TOW_OK;
	return TOW_EFREED;
}

static int pagerun_next(void *ctx, const void *p, struct twi_block *out, uint8_t *align_log2_out)
{
	struct pagerun *arena = ctx;
	uint64_t offset = (uint64_t)((const char *)p - arena->ground.base);
	int status = TOW_EFREED;

	/* The size of a small block determines how it lies, so its alignment does not matter. */
	*align_log2_out = (uint8_t)__builtin_ctz(TWI_ALIGN_DEFAULT);
	while (status < 0 && offset < arena->ground.bytes) {
		uint32_t page = (uint32_t)(offset >> TWI_PAGE_SHIFT);
		struct twi_slab *slab = slab_at(arena, page);

		if (slab != NULL)
			status = next_slot(arena, slab, offset, out);
		else if (offset % TWI_PAGE_BYTES == 0)
			status = twi_ground_next(&arena->ground, page, out, align_log2_out);
		offset = ((uint64_t)page + 1) * TWI_PAGE_BYTES;
	}
	return status;
}

static void pagerun_give(void *ctx, void *base)
{
	struct pagerun *arena = ctx;
	uint32_t page = twi_ground_page(&arena->ground, base);
	struct twi_slab *slab = slab_at(arena, page);
	uint64_t bytes = slab != NULL ? twi_slab_class_bytes((int)slab->class)
				      : twi_run_pages(&arena->ground.runs, page) * TWI_PAGE_BYTES;

	twi_magazine_put(&arena->ground.magazine, base, bytes, give_back, arena);
}

static void pagerun_stay(void *ctx, uint32_t cpu)
{
	struct pagerun *arena = ctx;

	arena->ground.magazine.stays = cpu + 1;
}

static void pagerun_stats(void *ctx, struct twi_arena_stats *out)
{
	struct pagerun *arena = ctx;

	gather_kept(arena);
	twi_ground_lock(&arena->ground);
	twi_ground_stats(&arena->ground, out);
	twi_ground_unlock(&arena->ground);
}

const struct twi_arena_ops twi_arena_pagerun = {
	.name = "pagerun",
	.create = pagerun_create,
	.destroy = pagerun_destroy,
	.alloc = pagerun_alloc,
	.find = pagerun_find,
	.next = pagerun_next,
	.give = pagerun_give,
	.stay = pagerun_stay,
	.stats = pagerun_stats,
};
