/*
 * alloclog_match.h - finds which records of a sequence are an allocation and its free. Pure.
 *
 * Records are added in the order of time, and are numbered from 0. A free matches an allocation if
 * it is the next event at that address. A free may be late, if its thread was delayed before it
 * recorded the free. Then two allocations follow one another, or the free is older than the
 * allocation before it. In both cases nothing matches there until the next allocation.
 */
#ifndef TWI_ALLOCLOG_MATCH_H
#define TWI_ALLOCLOG_MATCH_H

#include <stddef.h>
#include <stdint.h>

#include "memreg/alloclog/alloclog_pair.h"

#define TWI_ALLOCLOG_NO_MATCH UINT32_MAX

/*
 * Growing memory, by mmap rather than malloc. The recording thread may be in malloc of a program
 * whose large blocks come from the pool. A malloc here could then be an event to record itself.
 */
struct twi_alloclog_area {
	void *at;
	size_t bytes;
};

/* Grows to at least `bytes`; new bytes are 0. TOW_OK; TOW_ENOMEM, with the area unchanged. */
int twi_alloclog_area_grow(struct twi_alloclog_area *area, size_t bytes);
void twi_alloclog_area_fini(struct twi_alloclog_area *area);

struct twi_alloclog_seat {
	uint64_t address;
	uint32_t round; /* the seat is empty if this is not the current round */
	uint32_t index; /* the live allocation there, or NO_MATCH */
	uint64_t ns;    /* time of that allocation */
	uint64_t taken; /* bytes of the pool that it took */
};

struct twi_alloclog_match {
	struct twi_alloclog_area area; /* the seats */
	uint32_t seats, round, added;
};

/* Forgets all records, and makes room for `records`. TOW_OK; TOW_ENOMEM. */
int twi_alloclog_match_begin(struct twi_alloclog_match *match, uint32_t records);

/*
 * Adds the next record. If it is the free of an allocation, the result is the number of the
 * allocation, and *taken_out the bytes that it took. Else the result is NO_MATCH.
 */
uint32_t twi_alloclog_match_add(struct twi_alloclog_match *match,
				const struct twi_alloclog_rec *rec, uint64_t *taken_out);

#endif
