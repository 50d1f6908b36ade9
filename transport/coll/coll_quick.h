/*
 * coll_quick.h - the fast path: small collectives of one host, through cells, without the executor.
 *
 *	IN --give--> own cell, SYNC, cells of all --take--> OUT
 *
 * An entry whose plan has this form keeps what a run needs, looked up once. Such a run has no
 * chains, no pieces and no references to resolve, which took longer than moving all of its bytes.
 */
#ifndef TWI_COLL_QUICK_H
#define TWI_COLL_QUICK_H

#include "transport/coll/coll_run.h"

struct twi_coll_region;

/* A copy from the cell of a rank to OUT. */
struct twi_coll_take {
	const struct twi_coll_region *region;
	uint64_t from, to, bytes;
};

struct twi_coll_quick {
	uint64_t give_from, give_to, give_bytes; /* 0: nothing */
	bool reduces; /* reduces all takes into one result, in this order */
	bool divide;
	uint32_t takes_n;
	uint64_t count; /* elements of a reduction */
	struct twi_coll_take takes[];
};

/* Sets entry->quick; NULL: the plan has another form. Returns TOW_OK or TOW_ENOMEM. */
int twi_coll_quick_make(const struct twi_coll_group *coll, struct twi_coll_entry *entry);

/* give: fills the own cell, in a free slot, and shows it. take: writes OUT, when all have come. */
void twi_coll_quick_give(struct twi_coll_run *run);
void twi_coll_quick_take(struct twi_coll_run *run);

#endif
