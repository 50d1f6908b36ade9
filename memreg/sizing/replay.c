/*
 * replay.c - runs a compiled log in a pool of addresses, and searches the smallest that holds it;
 * replay.h has the concept, replay_program.c makes the program.
 */
#include "memreg/sizing/replay.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "diag/base/error.h"
#include "memreg/arena/arena.h"
#include "memreg/region/lease.h"
#include <internal/base.h>
#include <towline/status.h>

#define PAGE 4096u

/* Addresses of a pool, and the provider's view of them. */
struct arena {
	const struct twi_arena_ops *ops;
	void *reserved, *ctx;
	size_t reserved_bytes;
	void **block; /* by slot; NULL: not live, or it did not fit */
};

static void arena_close(struct arena *arena)
{
	if (arena->ctx != NULL)
		arena->ops->destroy(arena->ctx);
	if (arena->reserved != NULL)
		munmap(arena->reserved, arena->reserved_bytes);
	free(arena->block);
}

static int arena_open(struct arena *arena, const struct twi_replay *replay,
		      const struct twi_replay_pool *pool)
{
	uint64_t bytes = twi_align_up(pool->bytes, PAGE);
	void *base;
	int status;

	*arena = (struct arena){ .ops = pool->ops };
	arena->block = calloc(replay->slots + 1u, sizeof(arena->block[0]));
	if (arena->block == NULL)
		return twi_error(TOW_ENOMEM, "replay: no memory for %u blocks", replay->slots);
	arena->reserved_bytes = bytes + TWI_ALIGN_MAX;
	base = mmap(NULL, arena->reserved_bytes, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED) {
		status = twi_error_errno(TOW_ENOMEM, errno, "replay: addresses for %llu bytes",
					 (unsigned long long)bytes);
		arena_close(arena);
		return status;
	}
	arena->reserved = base;
	base = (void *)(uintptr_t)twi_align_up((uintptr_t)base, TWI_ALIGN_MAX);
	status = pool->ops->create(base, bytes, &arena->ctx);
	if (status == TOW_OK)
		return TOW_OK;
	arena->ctx = NULL;
	arena_close(arena);
	return twi_error(status, "replay: no tables for a pool of %llu bytes",
			 (unsigned long long)bytes);
}

static void arena_take(struct arena *arena, const struct twi_replay_op *op,
		       struct twi_replay_result *out)
{
	size_t align = twi_max((size_t)1 << op->align_log2, (size_t)TWI_ALIGN_DEFAULT);

	if (arena->ops->alloc(arena->ctx, op->bytes, align, &arena->block[op->slot]) == TOW_OK)
		return;
	arena->block[op->slot] = NULL;
	out->missed++;
	out->missed_bytes += op->bytes;
}

static void arena_give(struct arena *arena, uint32_t slot)
{
	void *p = arena->block[slot];
	struct twi_block block;

	if (p == NULL)
		return;
	arena->block[slot] = NULL;
	twi_assert(arena->ops->find(arena->ctx, p, &block) == TOW_OK);
	twi_assert(twi_hold_free(block.hold) == TWI_HOLD_ENDED);
	arena->ops->give(arena->ctx, p);
}

/* Asks the provider how the pool stands; it trims by that, so that only a run for it does. */
static void look_at(struct arena *arena, struct twi_replay_result *out)
{
	struct twi_arena_stats stats;

	arena->ops->stats(arena->ctx, &stats);
	out->allocated_bytes = stats.allocated_bytes;
	out->waste_bytes = stats.waste_bytes;
	out->free_bytes = stats.free_bytes;
	out->largest_free_bytes = stats.largest_free_bytes;
}

int twi_replay_run(const struct twi_replay *replay, const struct twi_replay_pool *pool, bool look,
		   struct twi_replay_result *out)
{
	struct arena arena;
	void *reserve = NULL;
	int status;

	*out = (struct twi_replay_result){ .reserve_fits = true };
	status = arena_open(&arena, replay, pool);
	if (status < 0)
		return status;
	if (pool->reserve_bytes > 0)
		out->reserve_fits =
			arena.ops->alloc(arena.ctx, pool->reserve_bytes, PAGE, &reserve) == TOW_OK;
	for (uint64_t i = 0; i < replay->count; i++) {
		const struct twi_replay_op *op = &replay->op[i];

		if (op->kind == TWI_ALLOC_ALLOC)
			arena_take(&arena, op, out);
		else if (op->kind == TWI_ALLOC_FREE)
			arena_give(&arena, op->slot);
		if (look && i == replay->peak_op)
			look_at(&arena, out);
	}
	arena_close(&arena);
	return TOW_OK;
}

uint64_t twi_replay_step(uint64_t bytes)
{
	uint64_t step = TWI_REPLAY_STEP_MAX;

	/* A step of more than a thirty-second would blur what 90 % of the size means. */
	while (step > 16 * PAGE && bytes / 32 < step)
		step /= 2;
	return step;
}

/* One search: what is asked, and how it stands. */
struct search {
	const struct twi_replay *replay;
	const struct twi_replay_search *wanted;
	struct twi_replay_found *found;
	int status; /* of the first failure */
};

static bool search_fits(struct search *search, uint64_t bytes)
{
	uint64_t page = twi_max(search->wanted->page_bytes, (uint64_t)PAGE);
	struct twi_replay_pool pool = { search->wanted->ops, twi_align_up(bytes, page),
					search->wanted->reserve_bytes };
	struct twi_replay_result result;
	bool clean;

	if (search->status < 0)
		return false;
	search->status = twi_replay_run(search->replay, &pool, false, &result);
	clean = search->status == TOW_OK && twi_replay_clean(&result);
	search->found->tried++;
	if (search->wanted->progress != NULL)
		search->wanted->progress(search->wanted->arg, bytes, clean);
	return clean;
}

/* Halves (low, high] until they are a step apart: high fits, low does not. Returns high. */
static uint64_t search_bisect(struct search *search, uint64_t low, uint64_t high)
{
	uint64_t step = search->found->step_bytes;

	while (high - low > step && search->status == TOW_OK) {
		uint64_t middle = low + twi_align_up((high - low) / 2, step);

		if (middle >= high)
			middle = high - step;
		if (search_fits(search, middle))
			high = middle;
		else
			low = middle;
	}
	return high;
}

/* From `low` upwards in strides that double, then back. */
static uint64_t search_gallop(struct search *search, uint64_t low)
{
	uint64_t step = search->found->step_bytes, below = low - step, at = low, stride = step;

	while (!search_fits(search, at) && search->status == TOW_OK) {
		below = at;
		at += stride;
		stride *= 2;
	}
	return search_bisect(search, below, at);
}

/*
 * A size below `bytes` that fits, though it must not if `bytes` is the answer; 0: none was found.
 * Small pools differ by pages, so 90 % is tried as those who check it compute it: to the byte, and
 * in whole MiB. Sizes of the step around it, because an island of sizes that fit is often wider.
 */
static uint64_t fits_below(struct search *search, uint64_t bytes)
{
	uint64_t step = search->found->step_bytes, least = search->found->lower_bytes;
	uint64_t tenth = bytes / 10 * 9, whole = tenth & ~(((uint64_t)1 << 20) - 1);
	const uint64_t below[] = {
		bytes - twi_min(bytes, step),
		bytes - twi_min(bytes, 2 * step),
		bytes - twi_min(bytes, 3 * step),
		bytes - twi_min(bytes, 4 * step),
		tenth,
		tenth + step,
		tenth - twi_min(tenth, step),
		whole,
		whole + ((uint64_t)1 << 20),
	};

	for (size_t i = 0; i < twi_array_count(below); i++) {
		uint64_t size = twi_align_up(below[i], PAGE);

		if (size >= least && size < bytes && search_fits(search, size))
			return size;
	}
	return 0;
}

int twi_replay_find(const struct twi_replay *replay, const struct twi_replay_search *wanted,
		    struct twi_replay_found *out)
{
	struct search search = { replay, wanted, out, TOW_OK };
	uint64_t least = replay->peak_rounded + twi_align_up(wanted->reserve_bytes, PAGE);
	uint64_t step = wanted->step_bytes ? wanted->step_bytes : twi_replay_step(least), lower;

	*out = (struct twi_replay_found){ .step_bytes = step };
	least = twi_max(twi_max(least, wanted->least_bytes), TWI_REPLAY_POOL_MIN);
	out->lower_bytes = twi_align_up(least, PAGE);
	out->bytes = search_gallop(&search, twi_align_up(least, step));
	while ((lower = fits_below(&search, out->bytes)) != 0 && search.status == TOW_OK)
		out->bytes = search_bisect(
			&search, out->lower_bytes - twi_min(out->lower_bytes, step), lower);
	for (uint64_t k = 1; k <= 4; k++)
		out->above_missed += !search_fits(&search, out->bytes + k * step);
	return search.status;
}
