/*
 * jemalloc.c - the jemalloc provider: a jemalloc arena whose memory is page runs of one extent.
 *
 *   up to 14 KiB   a jemalloc arena of its own; its extent hooks take page runs
 *   larger         page runs directly (ground.h); those of 4, 8 and 12 KiB too
 *
 * jemalloc's bins end at that border. Above it, jemalloc takes 250 ns and a run 54. jemalloc adds
 * a page to each block (cache-oblivious placement). It also rounds up to one of four sizes for each
 * power of two, which may waste a fifth of a pinned pool. Blocks of whole pages waste nothing as
 * runs, and cost 62 ns instead of 200. (Measured, jemalloc 5.3.0.)
 *
 * The library knows jemalloc by weak symbols only. A library that links jemalloc cannot be loaded
 * with dlopen, because of its static TLS. The symbols exist when the program links jemalloc, or if
 * jemalloc is preloaded.
 *
 * jemalloc's metadata must not lie in the pool, which registrars read and overruns reach. So the
 * arena is made with experimental.arenas_create_ext and metadata_use_hooks = false (jemalloc 5.3).
 * Where that is missing, this provider is not used.
 *
 * Hooks. alloc takes a run of at most the largest slab, and refuses more, so that jemalloc does not
 * reserve ahead. dalloc returns pages. split and merge are always allowed, because the runs are one
 * mapping. Pinned memory cannot be committed, decommitted or purged, so those hooks are absent.
 *
 * Dirty pages do not decay by time (-1: 110 ns for a pair instead of 300). They are purged if room
 * is short, and for statistics.
 *
 * All calls bypass the thread caches of jemalloc. These serve all arenas alike, and would hand out
 * the pool's memory to malloc.
 *
 * find needs no lock. Each page with small blocks has a bit for each 64 bytes at which a block
 * begins, and a hold word there. The table never moves, so a late reader sees old values at worst.
 * Entries of pages without small blocks are never touched.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "memreg/arena/arena.h"
#include "memreg/arena/ground.h"
#include "memreg/arena/jemalloc_api.h"
#include "memreg/arena/jemalloc_bins.h"

#define PAGE_UNITS   (TWI_PAGE_BYTES / TWI_JE_UNIT_BYTES)
#define SMALL_PAGES  ((TWI_JE_SMALL_MAX + TWI_PAGE_BYTES - 1) / TWI_PAGE_BYTES)
#define CLASSES_MAX  64
#define SLACK_BITS   16
#define SLACK_MASK   ((1u << SLACK_BITS) - 1)
#define PROBE_BYTES  TWI_ALIGN_MAX
#define PROBE_BLOCKS 100

/* The small blocks that begin in one page. */
struct small_page {
	_Atomic uint64_t heads;            /* bit: a block begins at this unit */
	_Atomic uint32_t hold[PAGE_UNITS]; /* hold word of that block */
	_Atomic uint32_t info[PAGE_UNITS]; /* the block's units << SLACK_BITS | slack */
};

/* Whether jemalloc may keep unused pages. */
enum pages { CLEAN, PURGING, DIRTY };

struct jemalloc {
	struct twi_je_hooks hooks; /* first: the hooks find their arena by it */
	struct twi_ground ground;
	struct small_page *small; /* by page; mapped, but touched only for small blocks */
	unsigned index;
	size_t purge[3], purge_length;
	pthread_mutex_t purging;
	_Atomic int pages; /* enum pages */
};

/* Written once, before the first arena is made. */
static struct twi_je_bins bins;

/* ---- hooks ---- */

static void *hook_alloc(struct twi_je_hooks *hooks, void *at, size_t bytes, size_t align,
			bool *zero, bool *commit, unsigned index)
{
	struct jemalloc *arena = (struct jemalloc *)(void *)hooks;
	struct twi_runs *runs = &arena->ground.runs;
	uint32_t first, pages = (uint32_t)(bytes >> TWI_PAGE_SHIFT);

	(void)index;
	if (at != NULL || *zero || bytes > bins.slab_bytes || align > TWI_ALIGN_MAX)
		return NULL;
	twi_ground_lock(&arena->ground);
	first = twi_runs_take(runs, pages, (uint32_t)twi_max(align >> TWI_PAGE_SHIFT, 1u), true);
	if (first != TWI_PAGE_NONE) {
		runs->page[first].state = TWI_PAGE_SLAB;
		for (uint32_t i = 0; i < pages; i++)
			atomic_store_explicit(&runs->page[first + i].small, arena->small,
					      memory_order_relaxed);
	}
	twi_ground_unlock(&arena->ground);
	*commit = true;
	return first == TWI_PAGE_NONE ? NULL : arena->ground.base + first * TWI_PAGE_BYTES;
}

static bool hook_dalloc(struct twi_je_hooks *hooks, void *p, size_t bytes, bool committed,
			unsigned index)
{
	struct jemalloc *arena = (struct jemalloc *)(void *)hooks;
	struct twi_runs *runs = &arena->ground.runs;
	uint32_t first = twi_ground_page(&arena->ground, p);
	uint32_t pages = (uint32_t)(bytes >> TWI_PAGE_SHIFT);

	(void)committed, (void)index;
	twi_ground_lock(&arena->ground);
	for (uint32_t i = 0; i < pages; i++)
		atomic_store_explicit(&runs->page[first + i].small, NULL, memory_order_relaxed);
	twi_runs_give_pages(runs, first, pages);
	twi_ground_unlock(&arena->ground);
	return false;
}

/* Returns false, which permits it: the extent is one mapping. jemalloc takes NULL as refusal. */
static bool hook_split(struct twi_je_hooks *hooks, void *p, size_t bytes, size_t left, size_t right,
		       bool committed, unsigned index)
{
	(void)hooks, (void)p, (void)bytes, (void)left, (void)right, (void)committed, (void)index;
	return false;
}

static bool hook_merge(struct twi_je_hooks *hooks, void *left, size_t left_bytes, void *right,
		       size_t right_bytes, bool committed, unsigned index)
{
	(void)hooks, (void)left, (void)left_bytes, (void)right, (void)right_bytes;
	(void)committed, (void)index;
	return false;
}

/* ---- creating and destroying the arena ---- */

static int arena_command(const struct jemalloc *arena, const char *verb)
{
	char name[48];

	snprintf(name, sizeof(name), "arena.%u.%s", arena->index, verb);
	return mallctl(name, NULL, NULL, NULL, 0);
}

static int arena_decay(const struct jemalloc *arena, const char *which, ssize_t ms)
{
	char name[48];

	snprintf(name, sizeof(name), "arena.%u.%s_decay_ms", arena->index, which);
	return mallctl(name, NULL, NULL, &ms, sizeof(ms));
}

/* Makes an arena of jemalloc over arena->ground. */
static int arena_begin(struct jemalloc *arena)
{
	struct twi_je_config config = { &arena->hooks, false };
	size_t bytes = sizeof(arena->index);

	arena->hooks = (struct twi_je_hooks){
		.alloc = hook_alloc,
		.dalloc = hook_dalloc,
		.split = hook_split,
		.merge = hook_merge,
	};
	if (mallctl("experimental.arenas_create_ext", &arena->index, &bytes, &config,
		    sizeof(config)))
		return TOW_ENOMEM;
	arena->purge_length = twi_array_count(arena->purge);
	if (arena_decay(arena, "dirty", -1) || arena_decay(arena, "muzzy", 0) ||
	    mallctlnametomib("arena.0.purge", arena->purge, &arena->purge_length)) {
		arena_command(arena, "destroy");
		return TOW_ENOTSUP;
	}
	arena->purge[1] = arena->index;
	return TOW_OK;
}

/* Maps the table of small pages, and makes the arena. */
static int map_small(struct jemalloc *arena, uint64_t bytes)
{
	uint64_t table = (bytes >> TWI_PAGE_SHIFT) * sizeof(struct small_page);
	int status;

	arena->small = mmap(NULL, table, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (arena->small == MAP_FAILED)
		return TOW_ENOMEM;
	status = arena_begin(arena);
	if (status < 0)
		munmap(arena->small, table);
	return status;
}

static int jemalloc_create(void *base, uint64_t bytes, void **ctx_out)
{
	struct jemalloc *arena = calloc(1, sizeof(*arena));
	int status;

	*ctx_out = NULL;
	if (arena == NULL)
		return TOW_ENOMEM;
	status = twi_ground_init(&arena->ground, base, bytes);
	if (status == TOW_OK) {
		status = map_small(arena, bytes);
		if (status < 0)
			twi_ground_fini(&arena->ground);
	}
	if (status < 0) {
		free(arena);
		return status;
	}
	pthread_mutex_init(&arena->purging, NULL);
	*ctx_out = arena;
	return TOW_OK;
}

static void jemalloc_destroy(void *ctx)
{
	struct jemalloc *arena = ctx;

	/* jemalloc refuses when a thread has made the arena its own (thread.arena). It may then
	 * still call the hooks, so the memory behind them must stay. */
	if (arena_command(arena, "destroy"))
		return;
	pthread_mutex_destroy(&arena->purging);
	munmap(arena->small, (arena->ground.bytes >> TWI_PAGE_SHIFT) * sizeof(struct small_page));
	twi_ground_fini(&arena->ground);
	free(arena);
}

/* ---- small blocks ---- */

static struct small_page *small_at(const struct jemalloc *arena, const void *p, uint32_t *unit_out)
{
	uint64_t offset = (uint64_t)((const char *)p - arena->ground.base);

	*unit_out = (uint32_t)(offset >> TWI_JE_UNIT_SHIFT) % PAGE_UNITS;
	return &arena->small[offset >> TWI_PAGE_SHIFT];
}

static bool is_small(const struct jemalloc *arena, uint32_t page)
{
	return atomic_load_explicit(&arena->ground.runs.page[page].small, memory_order_relaxed);
}

static uint64_t info_bytes(uint32_t info)
{
	return (uint64_t)(info >> SLACK_BITS) << TWI_JE_UNIT_SHIFT;
}

static void set_info(struct small_page *page, uint32_t unit, uint64_t size, uint64_t slack)
{
	atomic_store_explicit(&page->info[unit],
			      (uint32_t)(size >> TWI_JE_UNIT_SHIFT) << SLACK_BITS | (uint32_t)slack,
			      memory_order_relaxed);
}

static uint32_t get_info(struct small_page *page, uint32_t unit)
{
	return atomic_load_explicit(&page->info[unit], memory_order_relaxed);
}

static void *take_small(struct jemalloc *arena, uint32_t size, uint64_t bytes, uint64_t align)
{
	void *p = mallocx(size, TWI_JE_ARENA(arena->index) | TWI_JE_TCACHE_NONE);
	struct small_page *page;
	uint32_t unit;

	if (p == NULL)
		return NULL;
	twi_assert((uint64_t)((char *)p - arena->ground.base) <= arena->ground.bytes - size);
	/* jemalloc's heap profiler may return a sampled block at any alignment. */
	if ((uintptr_t)p & (twi_max(align, TWI_JE_UNIT_BYTES) - 1)) {
		dallocx(p, TWI_JE_TCACHE_NONE);
		return NULL;
	}
	page = small_at(arena, p, &unit);
	set_info(page, unit, size, size - bytes);
	atomic_fetch_or_explicit(&page->heads, (uint64_t)1 << unit, memory_order_relaxed);
	twi_ground_lock(&arena->ground);
	twi_ground_account(&arena->ground, size, size - bytes);
	twi_ground_unlock(&arena->ground);
	twi_hold_begin(&page->hold[unit]);
	return p;
}

static void give_small(struct jemalloc *arena, void *p)
{
	uint32_t unit, info;
	struct small_page *page = small_at(arena, p, &unit);

	info = get_info(page, unit);
	twi_ground_lock(&arena->ground);
	twi_ground_unaccount(&arena->ground, info_bytes(info), info & SLACK_MASK);
	twi_ground_unlock(&arena->ground);
	/* Cleared before jemalloc can hand out the address as the middle of another block. */
	atomic_fetch_and_explicit(&page->heads, ~((uint64_t)1 << unit), memory_order_relaxed);
	dallocx(p, TWI_JE_TCACHE_NONE);
	if (atomic_load_explicit(&arena->pages, memory_order_relaxed) != DIRTY)
		atomic_store_explicit(&arena->pages, DIRTY, memory_order_release);
}

/* The bits from a live block's head to p are stable: no other block begins there. */
static int find_small(const struct jemalloc *arena, const void *p, struct twi_block *out)
{
	uint32_t unit, steps = 0, info, distance;
	struct small_page *page = small_at(arena, p, &unit);
	uint64_t heads = atomic_load_explicit(&page->heads, memory_order_relaxed) &
			 (UINT64_MAX >> (PAGE_UNITS - 1 - unit));

	distance = unit;
	for (; !heads && steps < SMALL_PAGES && page > arena->small; steps++) {
		heads = atomic_load_explicit(&(--page)->heads, memory_order_relaxed);
		distance += PAGE_UNITS;
	}
	if (!heads)
		return TOW_EFREED;
	unit = PAGE_UNITS - 1 - (uint32_t)__builtin_clzll(heads);
	distance -= unit;
	out->hold = &page->hold[unit];
	if (!(atomic_load_explicit(out->hold, memory_order_acquire) & TWI_HOLD_LIVE))
		return TOW_EFREED;
	info = get_info(page, unit);
	if (distance >= info >> SLACK_BITS)
		return TOW_EFREED;
	out->base = arena->ground.base + (page - arena->small) * (int64_t)TWI_PAGE_BYTES +
		    unit * TWI_JE_UNIT_BYTES;
	out->bytes = info_bytes(info);
	return TOW_OK;
}

/* ---- the functions of the table ---- */

/* Returns a block to jemalloc or to its run, past the cache. */
static void give_back(void *ctx, void *base)
{
	struct jemalloc *arena = ctx;
	uint32_t page = twi_ground_page(&arena->ground, base);

	if (is_small(arena, page)) {
		give_small(arena, base);
		return;
	}
	twi_ground_lock(&arena->ground);
	twi_ground_give(&arena->ground, page);
	twi_ground_unlock(&arena->ground);
}

static void *take_block(struct jemalloc *arena, uint64_t bytes, uint64_t align, uint32_t small)
{
	void *p = small ? take_small(arena, small, bytes, align) : NULL;

	if (p != NULL)
		return p;
	twi_ground_lock(&arena->ground);
	p = twi_ground_take(&arena->ground, bytes, align);
	twi_ground_unlock(&arena->ground);
	return p;
}

/*
 * Returns cached blocks and jemalloc's dirty pages to the runs. A second caller waits, so that all
 * of them have been returned for both. Unless `surely`, it purges only after a block was given to
 * jemalloc. jemalloc rarely keeps pages for other reasons.
 */
static void gather_kept(struct jemalloc *arena, bool surely)
{
	twi_magazine_drain(&arena->ground.magazine, give_back, arena);
	if (!surely && atomic_load_explicit(&arena->pages, memory_order_acquire) == CLEAN)
		return;
	pthread_mutex_lock(&arena->purging);
	if (surely || atomic_load_explicit(&arena->pages, memory_order_acquire) != CLEAN) {
		int was = PURGING;

		atomic_store_explicit(&arena->pages, PURGING, memory_order_relaxed);
		mallctlbymib(arena->purge, arena->purge_length, NULL, NULL, NULL, 0);
		/* The state stays DIRTY if a block was given meanwhile. */
		atomic_compare_exchange_strong_explicit(&arena->pages, &was, CLEAN,
							memory_order_release, memory_order_relaxed);
	}
	pthread_mutex_unlock(&arena->purging);
}

/* Begins a cached block as a new allocation. Only the caller has it. */
static void reuse_block(struct jemalloc *arena, void *p, uint64_t bytes, uint64_t align)
{
	uint32_t unit, info, page_index = twi_ground_page(&arena->ground, p);
	struct small_page *page;
	uint64_t slack;

	if (!is_small(arena, page_index)) {
		twi_ground_reuse(&arena->ground, page_index, bytes, align);
		return;
	}
	page = small_at(arena, p, &unit);
	info = get_info(page, unit);
	slack = info_bytes(info) - bytes;
	if (slack != (info & SLACK_MASK)) {
		twi_ground_reslack(&arena->ground, info & SLACK_MASK, slack);
		set_info(page, unit, info_bytes(info), slack);
	}
	twi_hold_begin(&page->hold[unit]);
}

static int jemalloc_alloc(void *ctx, size_t bytes, size_t align, void **out)
{
	struct jemalloc *arena = ctx;
	struct twi_ground *ground = &arena->ground;
	uint32_t small = twi_je_bins_small(&bins, bytes, align);
	uint64_t usable;

	*out = NULL;
	if (bytes > ground->bytes)
		return TOW_EEXHAUSTED;
	usable = small ? small : twi_ground_run_bytes(bytes);
	*out = twi_magazine_take(&ground->magazine, usable, align);
	if (*out != NULL) {
		reuse_block(arena, *out, bytes, align);
		return TOW_OK;
	}
	if (twi_ground_clears(ground, usable))
		gather_kept(arena, false);
	*out = take_block(arena, bytes, align, small);
	if (*out == NULL) {
		gather_kept(arena, true);
		*out = take_block(arena, bytes, align, small);
	}
	return *out != NULL ? TOW_OK : TOW_EEXHAUSTED;
}

static int jemalloc_find(void *ctx, const void *p, struct twi_block *out)
{
	struct jemalloc *arena = ctx;
	uint32_t page = twi_ground_page(&arena->ground, p);

	return is_small(arena, page) ? find_small(arena, p, out)
				     : twi_ground_find(&arena->ground, page, out);
}

/* The first live small block that begins at this unit of the page or behind it. */
static int next_small(const struct jemalloc *arena, uint32_t page, uint32_t unit,
		      struct twi_block *out)
{
	char *p = arena->ground.base + page * TWI_PAGE_BYTES;
	uint64_t heads = atomic_load_explicit(&arena->small[page].heads, memory_order_relaxed) &
			 UINT64_MAX << unit;

	for (; heads; heads &= heads - 1) {
		unit = (uint32_t)__builtin_ctzll(heads);
		if (find_small(arena, p + unit * TWI_JE_UNIT_BYTES, out) == TOW_OK)
			return TOW_OK;
	}
	return TOW_EFREED;
}

static int jemalloc_next(void *ctx, const void *p, struct twi_block *out, uint8_t *align_log2_out)
{
	struct jemalloc *arena = ctx;
	uint64_t offset = (uint64_t)((const char *)p - arena->ground.base);
	int status = TOW_EFREED;

	/* The size of a small block determines how it lies, so its alignment does not matter. */
	*align_log2_out = (uint8_t)__builtin_ctz(TWI_ALIGN_DEFAULT);
	while (status < 0 && offset < arena->ground.bytes) {
		uint32_t page = (uint32_t)(offset >> TWI_PAGE_SHIFT);
		uint32_t unit =
			(uint32_t)(twi_align_up(offset % TWI_PAGE_BYTES, TWI_JE_UNIT_BYTES) >>
				   TWI_JE_UNIT_SHIFT);

		if (!is_small(arena, page) && unit == 0)
			status = twi_ground_next(&arena->ground, page, out, align_log2_out);
		else if (is_small(arena, page) && unit < PAGE_UNITS)
			status = next_small(arena, page, unit, out);
		offset = ((uint64_t)page + 1) * TWI_PAGE_BYTES;
	}
	return status;
}

static void jemalloc_give(void *ctx, void *base)
{
	struct jemalloc *arena = ctx;
	uint32_t unit, page = twi_ground_page(&arena->ground, base);
	uint64_t bytes;

	if (is_small(arena, page)) {
		struct small_page *small = small_at(arena, base, &unit);

		bytes = info_bytes(get_info(small, unit));
	} else {
		bytes = twi_run_pages(&arena->ground.runs, page) * TWI_PAGE_BYTES;
	}
	twi_magazine_put(&arena->ground.magazine, base, bytes, give_back, arena);
}

static void jemalloc_stay(void *ctx, uint32_t cpu)
{
	struct jemalloc *arena = ctx;

	arena->ground.magazine.stays = cpu + 1;
}

static void jemalloc_stats(void *ctx, struct twi_arena_stats *out)
{
	struct jemalloc *arena = ctx;

	gather_kept(arena, true);
	twi_ground_lock(&arena->ground);
	twi_ground_stats(&arena->ground, out);
	twi_ground_unlock(&arena->ground);
}

const struct twi_arena_ops twi_arena_jemalloc = {
	.name = "jemalloc",
	.create = jemalloc_create,
	.destroy = jemalloc_destroy,
	.alloc = jemalloc_alloc,
	.find = jemalloc_find,
	.next = jemalloc_next,
	.give = jemalloc_give,
	.stay = jemalloc_stay,
	.stats = jemalloc_stats,
};

/* ---- whether this process can use jemalloc ---- */

/* Tests whether an arena over these pages does what this file relies on. */
static bool works_on(char *base)
{
	struct twi_arena_stats stats;
	struct twi_block block;
	void *p[PROBE_BLOCKS], *ctx;
	struct jemalloc *arena;
	bool ok = true;
	int i;

	if (jemalloc_create(base, PROBE_BYTES, &ctx) < 0)
		return false;
	arena = ctx;
	for (i = 0; ok && i < PROBE_BLOCKS; i++) {
		uint64_t bytes = (uint64_t)(i + 1) * 130;

		if (jemalloc_alloc(arena, bytes, 64, &p[i]) < 0)
			break;
		ok = is_small(arena, twi_ground_page(&arena->ground, p[i])) ==
			     (twi_je_bins_small(&bins, bytes, 64) != 0) &&
		     jemalloc_find(arena, (char *)p[i] + bytes - 1, &block) == TOW_OK &&
		     block.base == p[i];
	}
	ok = ok && i == PROBE_BLOCKS;
	while (i-- > 0) {
		if (jemalloc_find(arena, p[i], &block) == TOW_OK)
			twi_hold_free(block.hold);
		give_back(arena, p[i]);
	}
	jemalloc_stats(arena, &stats);
	ok = ok && stats.allocated_bytes == 0 && stats.largest_free_bytes == PROBE_BYTES;
	jemalloc_destroy(arena);
	return ok;
}

/* Returns NULL, or why jemalloc cannot be used. */
static const char *probe_works(void)
{
	char *memory, *base;
	bool works;

	if (mallctl == NULL || mallctlnametomib == NULL || mallctlbymib == NULL ||
	    mallocx == NULL || dallocx == NULL)
		return "the process has no jemalloc";
	if (!twi_je_bins_read(&bins))
		return "this jemalloc does not report its bins";
	memory = mmap(NULL, 2 * PROBE_BYTES, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return "no memory to try it";
	base = (char *)twi_align_up((uintptr_t)memory, PROBE_BYTES);
	works = works_on(base);
	munmap(memory, 2 * PROBE_BYTES);
	return works ? NULL
		     : "this jemalloc has no arena whose metadata stays outside (it is not "
		       "5.3), or its extent hooks do not work";
}

static const char *refusal;

static void probe_once(void)
{
	refusal = probe_works();
}

const char *twi_arena_jemalloc_refusal(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, probe_once);
	return refusal;
}
