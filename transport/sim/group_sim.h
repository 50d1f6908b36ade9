/*
 * group_sim.h - many ranks in one runtime, for simulations: it replaces tow_group_open and
 * tow_group_split. There is no store, and no rank meets others: the caller names the ranks.
 *
 *	runtime (loop lane, virtual clock) --+-- twi_ranks of rank 0, endpoint loop://...
 *	                                     +-- twi_ranks of rank 1, ...
 *
 * Ranks connect as others do, when one first sends to the other. tow_group_set, _get and _split do
 * not work on such groups: the first two return an error, and a split has no store to use.
 */
#ifndef TWI_GROUP_SIM_H
#define TWI_GROUP_SIM_H

#include "transport/job/group.h"

/*
 * Opens the group at rank `rank` of `size`, with its endpoint at addresses[rank]. All ranks share
 * `addresses`. They stay the caller's until the last group is closed. A copy for each rank would
 * take memory with the square of the ranks. The engine is not held. TOW_OK; TOW_EINVAL, TOW_EBUSY
 * of the address; TOW_ENOMEM.
 */
int twi_group_open_sim(struct tow_runtime *runtime, uint32_t rank, uint32_t size,
		       char (*addresses)[TOW_ADDRESS_MAX], struct tow_group **group_out);

/*
 * Makes the group of these members of `group`, as one of them sees it. `members` are ranks of
 * `group` in the new order. `id` is not 0; it is the same at all of them, and no other group of the
 * job has it. TOW_OK; TOW_ENOMEM.
 */
int twi_group_split_sim(struct tow_group *group, uint32_t id, const uint32_t *members,
			uint32_t size, struct tow_group **group_out);

#endif
