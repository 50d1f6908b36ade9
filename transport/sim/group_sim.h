/*
 * group_sim.h - many ranks in one runtime: what a simulation has in place of tow_group_open and
 * tow_group_split. There is no store and nobody to meet: the caller says who the ranks are.
 *
 *	runtime (loop lane, virtual clock) --+-- twi_ranks of rank 0, endpoint loop://...
 *	                                     +-- twi_ranks of rank 1, ...
 *
 * Ranks connect as others do, when they first have something to say to each other. tow_group_set,
 * _get and _split do not work on such groups: the first two say so, and a split has no store to
 * go by.
 */
#ifndef TWI_GROUP_SIM_H
#define TWI_GROUP_SIM_H

#include "transport/job/group.h"

/*
 * Rank `rank` of `size`; its endpoint is opened at addresses[rank]. `addresses` are shared by all
 * ranks and stay the caller's, until the last group has been closed: each rank's own copy would be
 * the square of their number. The engine is not held. TOW_OK; TOW_EINVAL, TOW_EBUSY of the address;
 * TOW_ENOMEM.
 */
int twi_group_open_sim(struct tow_runtime *runtime, uint32_t rank, uint32_t size,
		       char (*addresses)[TOW_ADDRESS_MAX], struct tow_group **group_out);

/*
 * The group of those members of `group` (its ranks, in the new order), as one of them sees it. `id`
 * is the same at all of them and no other group's of the job; not 0. TOW_OK; TOW_ENOMEM.
 */
int twi_group_split_sim(struct tow_group *group, uint32_t id, const uint32_t *members,
			uint32_t size, struct tow_group **group_out);

#endif
