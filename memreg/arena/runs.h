/*
 * runs.h - runs of 4 KiB pages, the large allocations of both providers.
 *
 * A side table outside the pool has an entry for each page. Only the first entry of a run and the
 * last entry of a free run have a meaning. So taking and giving a run costs the same for any size:
 *
 *   page      0     1     2     3     4     5     6     7     8
 *   state    RUN    -     -    FREE   -     -    TAIL  SLAB   -
 *   pages     3                 4                 4     2
 *             ^ in `heads`      ^ in a free list        ^ `small` of each of its pages is set
 *
 * Invariants: two free runs never touch, because they are merged at once. A free run is in the list
 * of its size class. The other entries are EMPTY. A free run of one page has the state FREE.
 *
 * Free lists are segregated by size, with 16 classes for each power of two (two-level segregated
 * fit). A bitmap finds the first class in which every run is large enough. If there is none, the
 * classes are searched run by run. So a request fails only if no run fits.
 *
 * `heads`, `pages`, `hold` and `small` have readers without a lock. Everything else is under the
 * provider's lock.
 */
#ifndef TWI_RUNS_H
#define TWI_RUNS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "memreg/arena/bitmap.h"

#define TWI_PAGE_SHIFT 12
#define TWI_PAGE_BYTES ((uint64_t)1 << TWI_PAGE_SHIFT)
#define TWI_PAGE_NONE  UINT32_MAX

#define TWI_RUN_STEPS_LOG 4
#define TWI_RUN_STEPS     (1u << TWI_RUN_STEPS_LOG)
#define TWI_RUN_POWERS    (32 - TWI_RUN_STEPS_LOG + 1)

enum twi_page_state { TWI_PAGE_EMPTY, TWI_PAGE_FREE, TWI_PAGE_TAIL, TWI_PAGE_RUN, TWI_PAGE_SLAB };

struct twi_page {
	_Atomic uint32_t hold;      /* RUN: lease.h */
	_Atomic uint32_t pages;     /* first page, and TAIL: pages of the run */
	uint32_t next, prev;        /* FREE: links of its list */
	_Atomic(void *) small;      /* owner of its small blocks: a slab, jemalloc; NULL: none */
	uint16_t slack;             /* RUN: bytes allocated but not requested */
	uint8_t state;              /* enum twi_page_state */
	_Atomic uint8_t align_log2; /* RUN: the requested alignment */
};

struct twi_runs {
	struct twi_page *page;
	uint32_t pages, free_pages;
	uint32_t least_largest;      /* minimum of the largest free run so far, in pages */
	uint64_t first_address_page; /* page number of page 0 in the address space, for alignment */
	struct twi_bitmap heads;     /* first pages of RUNs */
	uint32_t powers;             /* bit p: a list of power p is not empty */
	uint32_t steps[TWI_RUN_POWERS];
	uint32_t list[TWI_RUN_POWERS][TWI_RUN_STEPS];
};

/* Makes one free run of all pages. TOW_OK, TOW_ENOMEM. */
int twi_runs_init(struct twi_runs *runs, void *base, uint32_t pages);
void twi_runs_fini(struct twi_runs *runs);

/*
 * Takes `pages` at a multiple of `align_pages` (a power of two). With from_tail they come from the
 * high end of a free run, unless only the search of all runs finds room. So small, long-lived runs
 * stay away from large ones. TWI_PAGE_NONE: no free run has room. The caller sets the state of the
 * first page.
 */
uint32_t twi_runs_take(struct twi_runs *runs, uint32_t pages, uint32_t align_pages, bool from_tail);

/* Returns a run, and merges it with the free runs beside it. */
void twi_runs_give(struct twi_runs *runs, uint32_t first);

/*
 * Like twi_runs_give, for pages that were not taken as one run: a part of a run, or adjacent
 * runs.
 */
void twi_runs_give_pages(struct twi_runs *runs, uint32_t first, uint32_t pages);

uint32_t twi_runs_largest(const struct twi_runs *runs);
uint32_t twi_runs_last_free(const struct twi_runs *runs); /* pages of the free run at the end */

static inline uint32_t twi_run_pages(const struct twi_runs *runs, uint32_t first)
{
	return atomic_load_explicit(&runs->page[first].pages, memory_order_relaxed);
}

#endif
