/*
 * coll_quick.h - small collectives of one host, through cells, without the executor.
 *
 *	IN --give--> own cell, SYNC, cells of all --take--> OUT
 *
 * What a plan of that form needs is looked up once, for its entry; a run then has no chains, no
 * pieces and no references to resolve, which took longer than all of its bytes do.
 */
#ifndef TWI_COLL_QUICK_H
#define TWI_COLL_QUICK_H

#include "transport/coll/coll_run.h"

struct twi_coll_region;

/* From the cell of a rank to OUT. */
struct twi_coll_take {
	const struct twi_coll_region *region;
	uint64_t from, to, bytes;
};

struct twi_coll_quick {
	uint64_t give_from, give_to, give_bytes; /* 0: nothing */
	bool reduces;                            /* all takes into one result, in this order */
	bool divide;
	uint32_t takes_n;
	uint64_t count; /* elements of a reduction */
	struct twi_coll_take takes[];
};

/* For entry->quick, which stays NULL where the plan has another form. TOW_OK or TOW_ENOMEM. */
int twi_coll_quick_make(const struct twi_coll_group *coll, struct twi_coll_entry *entry);

/* The own cell is filled, and shown; the slot is free. And, when all have come, OUT is written. */
void twi_coll_quick_give(struct twi_coll_run *run);
void twi_coll_quick_take(struct twi_coll_run *run);

#endif
