/*
 * alloclog_match.c - a table of addresses with open addressing. A matched seat keeps its address
 * until the next round, so that no seat has to move.
 */
#include "memreg/alloclog/alloclog_match.h"

#include <sys/mman.h>

#include "diag/base/error.h"
#include "diag/base/hash.h"
#include <internal/base.h>

#define AREA_STEP ((size_t)64 << 10)

int twi_alloclog_area_grow(struct twi_alloclog_area *area, size_t bytes)
{
	void *at;

	if (bytes <= area->bytes)
		return TOW_OK;
	bytes = twi_align_up(bytes, AREA_STEP);
	at = area->at == NULL
		     ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
		     : mremap(area->at, area->bytes, bytes, MREMAP_MAYMOVE);
	if (at == MAP_FAILED)
		return TOW_ENOMEM;
	*area = (struct twi_alloclog_area){ at, bytes };
	return TOW_OK;
}

void twi_alloclog_area_fini(struct twi_alloclog_area *area)
{
	if (area->at != NULL)
		munmap(area->at, area->bytes);
	*area = (struct twi_alloclog_area){ NULL, 0 };
}

int twi_alloclog_match_begin(struct twi_alloclog_match *match, uint32_t records)
{
	uint32_t seats = 64;

	while (seats < 2 * records)
		seats *= 2;
	match->added = 0;
	/* A seat of zeros is always of another round, because rounds begin with 1. */
	if (match->round == UINT32_MAX) {
		twi_alloclog_area_fini(&match->area);
		match->round = 0;
	}
	if (twi_alloclog_area_grow(&match->area, seats * sizeof(struct twi_alloclog_seat)) < 0)
		return TOW_ENOMEM;
	match->seats = seats;
	match->round++;
	return TOW_OK;
}

static struct twi_alloclog_seat *find_seat(struct twi_alloclog_match *match, uint64_t address)
{
	struct twi_alloclog_seat *seat = match->area.at;
	uint32_t at = (uint32_t)(twi_hash_spread(address >> 6) >> 20) & (match->seats - 1);

	while (seat[at].round == match->round && seat[at].address != address)
		at = (at + 1) & (match->seats - 1);
	return &seat[at];
}

uint32_t twi_alloclog_match_add(struct twi_alloclog_match *match,
				const struct twi_alloclog_rec *rec, uint64_t *taken_out)
{
	uint32_t index = match->added++, found = TWI_ALLOCLOG_NO_MATCH;
	unsigned kind = twi_alloclog_rec_kind(rec);
	struct twi_alloclog_seat *seat;
	bool fresh;

	if (kind != TWI_ALLOC_ALLOC && kind != TWI_ALLOC_FREE)
		return found;
	seat = find_seat(match, rec->address);
	fresh = seat->round != match->round || seat->index == TWI_ALLOCLOG_NO_MATCH;
	if (kind == TWI_ALLOC_FREE && !fresh && seat->ns <= rec->ns) {
		found = seat->index;
		*taken_out = seat->taken;
	}
	*seat = (struct twi_alloclog_seat){ .address = rec->address,
					    .round = match->round,
					    .index = TWI_ALLOCLOG_NO_MATCH };
	if (kind == TWI_ALLOC_ALLOC && fresh) {
		seat->index = index;
		seat->ns = rec->ns;
		seat->taken = twi_alloclog_rec_taken(rec);
	}
	return found;
}
