/*
 * group_sim.c - groups of simulated ranks. See group_sim.h.
 */
#include "transport/sim/group_sim.h"

#include <stdlib.h>

#include "diag/base/error.h"
#include "transport/engine/engine.h"

/* The session of all simulated jobs: the jobs of two runtimes never meet. */
#define SESSION 0x73696d756c617465ull

static int open_ranks(struct tow_runtime *runtime, struct twi_ranks *ranks,
		      char (*addresses)[TOW_ADDRESS_MAX])
{
	int status;

	free(ranks->addresses);
	ranks->addresses = addresses;
	ranks->addresses_shared = true;
	ranks->session = SESSION;
	if (ranks->size == 1)
		return TOW_OK;
	status = tow_endpoint_open(runtime, addresses[ranks->rank], &ranks->endpoint);
	if (status < 0)
		return status;
	twi_group_enter(ranks->engine);
	status = twi_ranks_listen(ranks);
	if (status < 0)
		twi_ranks_hang_up(ranks);
	twi_engine_leave(ranks->engine);
	return status;
}

int twi_group_open_sim(struct tow_runtime *runtime, uint32_t rank, uint32_t size,
		       char (*addresses)[TOW_ADDRESS_MAX], struct tow_group **group_out)
{
	const struct twi_bootstrap self = { .rank = rank, .world_size = size, .pmi_fd = -1 };
	struct twi_ranks *ranks = twi_ranks_make(runtime, &self);
	struct tow_group *group = NULL;
	int status;

	if (ranks == NULL)
		return twi_error(TOW_ENOMEM, "no memory for %u simulated ranks", size);
	status = open_ranks(runtime, ranks, addresses);
	if (status == TOW_OK) {
		group = twi_group_make(runtime, ranks, size);
		status = group != NULL ? TOW_OK : TOW_ENOMEM;
	}
	if (status == TOW_OK) {
		for (uint32_t i = 0; i < size; i++)
			group->members[i] = i;
		group->rank = rank;
		twi_group_begin(group);
		*group_out = group;
	} else {
		twi_group_enter(ranks->engine);
		twi_ranks_hang_up(ranks);
		twi_engine_leave(ranks->engine);
	}
	twi_ranks_let_go(ranks); /* drops this function's reference, as a join does */
	return status;
}

int twi_group_split_sim(struct tow_group *group, uint32_t id, const uint32_t *members,
			uint32_t size, struct tow_group **group_out)
{
	struct tow_group *made = twi_group_make(group->runtime, group->ranks, size);

	if (made == NULL)
		return TOW_ENOMEM;
	for (uint32_t i = 0; i < size; i++) {
		made->members[i] = group->members[members[i]];
		if (members[i] == group->rank)
			made->rank = i;
	}
	made->id = id;
	twi_group_begin(made);
	*group_out = made;
	return TOW_OK;
}
