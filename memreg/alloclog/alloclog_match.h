/*
 * alloclog_match.h - which of the records that follow one another are an allocation and its free.
 *
 * Records are added in the order of time and numbered from 0. A free that directly follows an
 * allocation at its address is its free. A free may be late, where its thread was held up before it
 * had recorded it: then two allocations follow one another, or a free is older than the allocation
 * before it. In both cases nothing is matched there until the next allocation. Pure.
 */
#ifndef TWI_ALLOCLOG_MATCH_H
#define TWI_ALLOCLOG_MATCH_H

#include <stddef.h>
#include <stdint.h>

#include "memreg/alloclog/alloclog_pair.h"

#define TWI_ALLOCLOG_NO_MATCH UINT32_MAX

/*
 * Memory that grows, not by malloc: who records may stand in an allocation of a program whose
 * malloc takes large blocks out of the pool, and these would have to be recorded.
 */
struct twi_alloclog_area {
	void *at;
	size_t bytes;
};

/* At least `bytes`, what is new is 0. TOW_OK; TOW_ENOMEM, and it stays as it was. */
int twi_alloclog_area_grow(struct twi_alloclog_area *area, size_t bytes);
void twi_alloclog_area_fini(struct twi_alloclog_area *area);

struct twi_alloclog_seat {
	uint64_t address;
	uint32_t round; /* of which this is; of another one: nothing is here */
	uint32_t index; /* of the allocation that is live there; or NO_MATCH */
	uint64_t ns;    /* of that allocation */
	uint64_t taken; /* of the pool, by it */
};

struct twi_alloclog_match {
	struct twi_alloclog_area area; /* of seats */
	uint32_t seats, round, added;
};

/* Forgets all; for up to `records` more. TOW_OK; TOW_ENOMEM. */
int twi_alloclog_match_begin(struct twi_alloclog_match *match, uint32_t records);

/*
 * Adds the next record. Returns the number of its allocation when it is the free of one, else
 * NO_MATCH. *taken_out: what that took.
 */
uint32_t twi_alloclog_match_add(struct twi_alloclog_match *match,
				const struct twi_alloclog_rec *rec, uint64_t *taken_out);

#endif
