/*
 * coll_table.h - measured choices of plans, read from a file (knob coll_table).
 *
 *	# machine, date, medians
 *	kind lane ranks bytes_max plan
 *	all-reduce shm 2 16384 local
 *
 * kind: as in plan.h. lane: shm (all ranks share one host's memory), mixed, or net. ranks: a
 * number. bytes_max: a number, or inf. The first line that matches a call is taken. `tow-coll-tune`
 * writes such a file. It is read once, when the runtime opens.
 */
#ifndef TWI_COLL_TABLE_H
#define TWI_COLL_TABLE_H

#include "transport/coll/coll.h"

struct twi_coll_table;

/* Without a path, or with an empty one, there is no table. Returns TOW_OK; TOW_EINVAL with the
 * line, or the file that cannot be opened; TOW_ESYSTEM; TOW_ENOMEM. */
int twi_coll_table_load(const char *path, struct twi_coll_table **out);
void twi_coll_table_free(struct twi_coll_table *table);

/* The plan of the first line that matches this call. NULL: no line, or no table. */
const struct twi_plan_row *twi_coll_table_find(const struct twi_coll_group *coll,
					       const struct twi_coll_call *call);

#endif
