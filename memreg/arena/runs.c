/*
 * runs.c - takes, gives and merges runs of pages; runs.h has the layout.
 */
#include "memreg/arena/runs.h"

#include <stdlib.h>
#include <string.h>

#include <internal/base.h>
#include <towline/status.h>

#define LOOKED 4 /* number of runs of the highest class to look at */

struct place {
	uint32_t power, step;
};

/* The class of a run of this size. A class holds runs of this size and a little more. */
static struct place class_of(uint32_t pages)
{
	unsigned log = 31 - (unsigned)__builtin_clz(pages);

	if (log < TWI_RUN_STEPS_LOG)
		return (struct place){ 0, pages };
	return (struct place){ log - TWI_RUN_STEPS_LOG + 1,
			       (pages >> (log - TWI_RUN_STEPS_LOG)) & (TWI_RUN_STEPS - 1) };
}

/* The smallest run of a class. */
static uint32_t least_of(struct place at)
{
	return at.power == 0 ? at.step : (TWI_RUN_STEPS + at.step) << (at.power - 1);
}

static void set_pages(struct twi_runs *runs, uint32_t page, uint32_t pages)
{
	atomic_store_explicit(&runs->page[page].pages, pages, memory_order_relaxed);
}

/* Marks a free run and puts it into its list. */
static void file_run(struct twi_runs *runs, uint32_t first, uint32_t pages)
{
	struct place at = class_of(pages);
	uint32_t *head = &runs->list[at.power][at.step];
	struct twi_page *page = &runs->page[first];

	runs->page[first + pages - 1].state = TWI_PAGE_TAIL;
	set_pages(runs, first + pages - 1, pages);
	page->state = TWI_PAGE_FREE;
	set_pages(runs, first, pages);
	page->prev = TWI_PAGE_NONE;
	page->next = *head;
	if (*head != TWI_PAGE_NONE)
		runs->page[*head].prev = first;
	*head = first;
	runs->steps[at.power] |= 1u << at.step;
	runs->powers |= 1u << at.power;
	runs->free_pages += pages;
}

/* Undoes file_run. Returns the run's size. */
static uint32_t unfile_run(struct twi_runs *runs, uint32_t first)
{
	struct twi_page *page = &runs->page[first];
	uint32_t pages = twi_run_pages(runs, first);
	struct place at = class_of(pages);

	if (page->next != TWI_PAGE_NONE)
		runs->page[page->next].prev = page->prev;
	if (page->prev != TWI_PAGE_NONE) {
		runs->page[page->prev].next = page->next;
	} else {
		runs->list[at.power][at.step] = page->next;
		if (page->next == TWI_PAGE_NONE) {
			runs->steps[at.power] &= ~(1u << at.step);
			if (!runs->steps[at.power])
				runs->powers &= ~(1u << at.power);
		}
	}
	runs->page[first + pages - 1].state = TWI_PAGE_EMPTY;
	page->state = TWI_PAGE_EMPTY;
	runs->free_pages -= pages;
	return pages;
}

int twi_runs_init(struct twi_runs *runs, void *base, uint32_t pages)
{
	memset(runs, 0, sizeof(*runs));
	memset(runs->list, 0xff, sizeof(runs->list)); /* TWI_PAGE_NONE */
	runs->page = calloc(pages, sizeof(*runs->page));
	if (runs->page == NULL)
		return TOW_ENOMEM;
	if (!twi_bitmap_init(&runs->heads, pages)) {
		free(runs->page);
		runs->page = NULL;
		return TOW_ENOMEM;
	}
	runs->pages = runs->least_largest = pages;
	runs->first_address_page = (uintptr_t)base >> TWI_PAGE_SHIFT;
	file_run(runs, 0, pages);
	return TOW_OK;
}

void twi_runs_fini(struct twi_runs *runs)
{
	free(runs->page);
	twi_bitmap_fini(&runs->heads);
}

/*
 * Updates least_largest. A request takes from the largest free run only when no other has room. So
 * a pool that is smaller by least_largest would have been enough. It looks only at the first runs
 * of the highest class, whose sizes differ by a sixteenth at most.
 */
static void note_largest(struct twi_runs *runs)
{
	uint32_t largest = 0, run, looked = 0;
	struct place at;

	if (runs->powers) {
		at.power = 31 - (uint32_t)__builtin_clz(runs->powers);
		at.step = 31 - (uint32_t)__builtin_clz(runs->steps[at.power]);
		if (least_of(at) >= runs->least_largest)
			return;
		for (run = runs->list[at.power][at.step]; run != TWI_PAGE_NONE && looked < LOOKED;
		     run = runs->page[run].next, looked++)
			largest = twi_max(largest, twi_run_pages(runs, run));
	}
	runs->least_largest = twi_min(runs->least_largest, largest);
}

/* A free run of at least `pages` from the first class whose every run is large enough. */
static uint32_t find_class(const struct twi_runs *runs, uint64_t pages)
{
	unsigned log = 63 - (unsigned)__builtin_clzll(pages);
	struct place at;
	uint32_t steps, powers;

	if (log >= TWI_RUN_STEPS_LOG)
		pages += (1u << (log - TWI_RUN_STEPS_LOG)) - 1;
	if (pages > runs->pages)
		return TWI_PAGE_NONE;
	at = class_of((uint32_t)pages);
	steps = runs->steps[at.power] & (UINT32_MAX << at.step);
	if (!steps) {
		powers = runs->powers & (uint32_t)(UINT64_MAX << (at.power + 1));
		if (!powers)
			return TWI_PAGE_NONE;
		at.power = (uint32_t)__builtin_ctz(powers);
		steps = runs->steps[at.power];
	}
	return runs->list[at.power][__builtin_ctz(steps)];
}

/* The aligned page at which `pages` fit into a free run; TWI_PAGE_NONE: they do not fit. */
static uint32_t fit_in(const struct twi_runs *runs, uint32_t first, uint32_t pages,
		       uint32_t align_pages, bool from_tail)
{
	uint64_t begin = runs->first_address_page + first;
	uint64_t end = begin + twi_run_pages(runs, first);
	uint64_t at;

	if (pages > end - begin)
		return TWI_PAGE_NONE;
	if (from_tail)
		at = (end - pages) & ~((uint64_t)align_pages - 1);
	else
		at = twi_align_up(begin, align_pages);
	if (at < begin || at + pages > end)
		return TWI_PAGE_NONE;
	return (uint32_t)(at - runs->first_address_page);
}

/* Searches every free run that could be large enough, before the request fails. */
static uint32_t search_all(const struct twi_runs *runs, uint32_t pages, uint32_t align_pages)
{
	struct place from = class_of(pages);
	uint32_t powers = runs->powers & (UINT32_MAX << from.power);

	for (; powers != 0; powers &= powers - 1) {
		uint32_t power = (uint32_t)__builtin_ctz(powers), steps = runs->steps[power];

		if (power == from.power)
			steps &= UINT32_MAX << from.step;
		for (; steps != 0; steps &= steps - 1)
			for (uint32_t run = runs->list[power][__builtin_ctz(steps)];
			     run != TWI_PAGE_NONE; run = runs->page[run].next)
				if (fit_in(runs, run, pages, align_pages, false) != TWI_PAGE_NONE)
					return run;
	}
	return TWI_PAGE_NONE;
}

uint32_t twi_runs_take(struct twi_runs *runs, uint32_t pages, uint32_t align_pages, bool from_tail)
{
	uint32_t run, first, end, at = TWI_PAGE_NONE;

	if (pages > runs->free_pages)
		return TWI_PAGE_NONE;
	run = find_class(runs, pages);
	if (run != TWI_PAGE_NONE)
		at = fit_in(runs, run, pages, align_pages, from_tail);
	if (at == TWI_PAGE_NONE && align_pages > 1) {
		run = find_class(runs, (uint64_t)pages + align_pages - 1);
		if (run != TWI_PAGE_NONE)
			at = fit_in(runs, run, pages, align_pages, from_tail);
	}
	if (at == TWI_PAGE_NONE) {
		run = search_all(runs, pages, align_pages);
		if (run == TWI_PAGE_NONE)
			return TWI_PAGE_NONE;
		at = fit_in(runs, run, pages, align_pages, false);
	}
	first = run;
	end = first + unfile_run(runs, first);
	if (at > first)
		file_run(runs, first, at - first);
	if (end > at + pages)
		file_run(runs, at + pages, end - at - pages);
	set_pages(runs, at, pages);
	note_largest(runs);
	return at;
}

void twi_runs_give(struct twi_runs *runs, uint32_t first)
{
	uint32_t end = first + twi_run_pages(runs, first);

	runs->page[first].state = TWI_PAGE_EMPTY;
	if (first > 0) {
		struct twi_page *left = &runs->page[first - 1];

		/* A free run of one page is its own tail, and FREE: file_run writes FREE last. */
		if (left->state == TWI_PAGE_TAIL || left->state == TWI_PAGE_FREE) {
			first -= twi_run_pages(runs, first - 1);
			unfile_run(runs, first);
		}
	}
	if (end < runs->pages && runs->page[end].state == TWI_PAGE_FREE)
		end += unfile_run(runs, end);
	file_run(runs, first, end - first);
}

void twi_runs_give_pages(struct twi_runs *runs, uint32_t first, uint32_t pages)
{
	for (uint32_t i = 0; i < pages; i++)
		runs->page[first + i].state = TWI_PAGE_EMPTY;
	set_pages(runs, first, pages);
	twi_runs_give(runs, first);
}

uint32_t twi_runs_largest(const struct twi_runs *runs)
{
	uint32_t largest = 0, power, step;

	if (!runs->powers)
		return 0;
	power = 31 - (uint32_t)__builtin_clz(runs->powers);
	step = 31 - (uint32_t)__builtin_clz(runs->steps[power]);
	for (uint32_t run = runs->list[power][step]; run != TWI_PAGE_NONE;
	     run = runs->page[run].next)
		largest = twi_max(largest, twi_run_pages(runs, run));
	return largest;
}

uint32_t twi_runs_last_free(const struct twi_runs *runs)
{
	uint8_t state = runs->page[runs->pages - 1].state;

	if (state != TWI_PAGE_TAIL && state != TWI_PAGE_FREE)
		return 0;
	return twi_run_pages(runs, runs->pages - 1);
}
