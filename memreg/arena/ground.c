/*
 * ground.c - runs as allocations, and the account; ground.h has the concept.
 */
#include "memreg/arena/ground.h"

/* The lock is held for some tens of ns, so a waiter spins a little before it sleeps. */
static void lock_init(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
	pthread_mutex_init(lock, &attr);
	pthread_mutexattr_destroy(&attr);
}

int twi_ground_init(struct twi_ground *ground, void *base, uint64_t bytes)
{
	if (bytes < TWI_PAGE_BYTES || bytes >> TWI_PAGE_SHIFT >= TWI_PAGE_NONE)
		return TOW_EINVAL;
	if (twi_runs_init(&ground->runs, base, (uint32_t)(bytes >> TWI_PAGE_SHIFT)))
		return TOW_ENOMEM;
	if (!twi_magazine_init(&ground->magazine, bytes)) {
		twi_runs_fini(&ground->runs);
		return TOW_ENOMEM;
	}
	ground->base = base;
	ground->bytes = bytes;
	ground->waste_bytes = 0;
	ground->allocations = 0;
	atomic_init(&ground->allocated_bytes, 0);
	atomic_init(&ground->peak_bytes, 0);
	atomic_init(&ground->waste_shift, 0);
	lock_init(&ground->lock);
	return TOW_OK;
}

void twi_ground_fini(struct twi_ground *ground)
{
	twi_magazine_fini(&ground->magazine);
	twi_runs_fini(&ground->runs);
	pthread_mutex_destroy(&ground->lock);
}

/* Relaxed: the lock orders the writers. A late read in twi_ground_clears only drains once more. */
void twi_ground_account(struct twi_ground *ground, uint64_t bytes, uint64_t slack)
{
	uint64_t now = atomic_load_explicit(&ground->allocated_bytes, memory_order_relaxed) + bytes;

	atomic_store_explicit(&ground->allocated_bytes, now, memory_order_relaxed);
	if (now > atomic_load_explicit(&ground->peak_bytes, memory_order_relaxed))
		atomic_store_explicit(&ground->peak_bytes, now, memory_order_relaxed);
	ground->waste_bytes += slack;
	ground->allocations++;
}

void twi_ground_unaccount(struct twi_ground *ground, uint64_t bytes, uint64_t slack)
{
	uint64_t now = atomic_load_explicit(&ground->allocated_bytes, memory_order_relaxed) - bytes;

	atomic_store_explicit(&ground->allocated_bytes, now, memory_order_relaxed);
	ground->waste_bytes -= slack;
	ground->allocations--;
}

void *twi_ground_take(struct twi_ground *ground, uint64_t bytes, uint64_t align)
{
	uint64_t usable = twi_ground_run_bytes(bytes);
	uint64_t align_pages = twi_max(align >> TWI_PAGE_SHIFT, 1u);
	struct twi_page *head;
	uint32_t page;

	page = twi_runs_take(&ground->runs, (uint32_t)(usable >> TWI_PAGE_SHIFT),
			     (uint32_t)align_pages, false);
	if (page == TWI_PAGE_NONE)
		return NULL;
	head = &ground->runs.page[page];
	head->state = TWI_PAGE_RUN;
	head->slack = (uint16_t)(usable - bytes);
	twi_ground_account(ground, usable, head->slack);
	twi_ground_aligned(head, align);
	twi_bitmap_set(&ground->runs.heads, page);
	twi_hold_begin(&head->hold);
	return ground->base + page * TWI_PAGE_BYTES;
}

void twi_ground_give(struct twi_ground *ground, uint32_t page)
{
	struct twi_page *head = &ground->runs.page[page];

	twi_assert(head->state == TWI_PAGE_RUN);
	twi_ground_unaccount(ground, twi_run_pages(&ground->runs, page) * TWI_PAGE_BYTES,
			     head->slack);
	twi_bitmap_clear(&ground->runs.heads, page);
	twi_runs_give(&ground->runs, page);
}

int twi_ground_find(struct twi_ground *ground, uint32_t page, struct twi_block *out)
{
	uint32_t head = twi_bitmap_find_back(&ground->runs.heads, page);

	if (head == TWI_BITMAP_NONE)
		return TOW_EFREED;
	out->hold = &ground->runs.page[head].hold;
	if (!(atomic_load_explicit(out->hold, memory_order_acquire) & TWI_HOLD_LIVE) ||
	    page - head >= twi_run_pages(&ground->runs, head))
		return TOW_EFREED;
	out->base = ground->base + head * TWI_PAGE_BYTES;
	out->bytes = twi_run_pages(&ground->runs, head) * TWI_PAGE_BYTES;
	return TOW_OK;
}

int twi_ground_next(struct twi_ground *ground, uint32_t page, struct twi_block *out,
		    uint8_t *align_log2_out)
{
	if (twi_ground_find(ground, page, out) < 0 ||
	    out->base != ground->base + page * TWI_PAGE_BYTES)
		return TOW_EFREED;
	*align_log2_out =
		atomic_load_explicit(&ground->runs.page[page].align_log2, memory_order_relaxed);
	return TOW_OK;
}

void twi_ground_stats(struct twi_ground *ground, struct twi_arena_stats *out)
{
	int64_t shift = atomic_load_explicit(&ground->waste_shift, memory_order_relaxed);

	out->total_bytes = ground->bytes;
	out->allocated_bytes = atomic_load_explicit(&ground->allocated_bytes, memory_order_relaxed);
	out->peak_bytes = atomic_load_explicit(&ground->peak_bytes, memory_order_relaxed);
	out->waste_bytes = ground->waste_bytes + (uint64_t)shift;
	out->free_bytes = ground->bytes - out->allocated_bytes;
	out->largest_free_bytes = twi_runs_largest(&ground->runs) * TWI_PAGE_BYTES;
	out->least_largest_bytes = ground->runs.least_largest * TWI_PAGE_BYTES;
	out->last_free_bytes = twi_runs_last_free(&ground->runs) * TWI_PAGE_BYTES;
	out->allocations = ground->allocations;
}
