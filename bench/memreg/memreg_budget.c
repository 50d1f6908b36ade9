/*
 * memreg_budget.c - splits a pool of the named size into a sum, and finds the owners: tags, call
 * sites, and callers that free nothing.
 */
#include <inttypes.h>
#include <stdio.h>

#include "bench/memreg/memreg_size.h"
#include <internal/base.h>
#include <towline/status.h>

int memreg_find_owners(struct memreg_sizing *sizing)
{
	const struct twi_replay *replay = sizing->job.replay;

	if (twi_replay_groups(replay, TWI_REPLAY_BY_TAG, sizing->group, MEMREG_GROUPS,
			      &sizing->groups) < 0 ||
	    twi_replay_groups(replay, TWI_REPLAY_BY_CALLER, sizing->site, MEMREG_SITES,
			      &sizing->sites) < 0 ||
	    twi_replay_leaks(replay, &sizing->leaks) < 0)
		return memreg_sizing_failed(sizing);
	/* No event has a caller. */
	if (sizing->sites == 1 && sizing->site[0].caller == 0)
		sizing->sites = 0;
	return 0;
}

static void add_consumers(struct memreg_sizing *sizing)
{
	for (uint32_t i = 0; i < sizing->groups; i++) {
		const struct twi_replay_group *group = &sizing->group[i];
		char name[2 * MEMREG_NAME_ROOM], why[112];

		memreg_group_text(&sizing->job, group, name, sizeof(name));
		snprintf(why, sizeof(why), "%" PRIu64 " block%s live at the peak",
			 group->allocations, group->allocations == 1 ? "" : "s");
		if (sizing->job.strategy[0] != '\0')
			snprintf(why, sizeof(why), "%s",
				 strategy_use_why((enum strategy_use)group->tag));
		else if (sizing->groups == 1 && group->tag == 0 && group->caller == 0)
			snprintf(name, sizeof(name), "all of the program");
		twi_budget_add(&sizing->budget, group->bytes, name, why);
	}
}

int memreg_budget_fill(struct memreg_sizing *sizing)
{
	struct twi_replay_pool pool = memreg_arena_pool(sizing, sizing->found.bytes);
	struct twi_budget *budget = &sizing->budget;
	bool least = sizing->smallest <= TWI_REPLAY_POOL_MIN;
	uint64_t sum, rounding;

	if (twi_replay_run(sizing->job.replay, &pool, TWI_REPLAY_LOOK, &sizing->peak) < 0)
		return memreg_sizing_failed(sizing);
	add_consumers(sizing);
	sum = twi_budget_sum(budget) + sizing->own.bytes;
	rounding = sizing->peak.allocated_bytes - twi_min(sizing->peak.allocated_bytes, sum);
	/* A real run may have shown that less is enough than the replay says. */
	rounding = twi_min(rounding, sizing->smallest - twi_min(sizing->smallest, sum));
	twi_budget_add(budget, sizing->own.bytes, "the runtime: staging",
		       "staging_bytes, taken when it opens; as this runtime does");
	twi_budget_add(budget, rounding, "arena: rounding and alignment",
		       "blocks are whole pages or slots of a slab");
	twi_budget_round(budget, sizing->smallest, 1,
			 least ? "free: no pool is smaller" : "arena: free, but in pieces",
			 least ? "premap_memory_bytes is at least 1 MiB"
			       : "between blocks at the peak, and to the step of the search");
	if (sizing->headroom > sizing->spread)
		twi_budget_add(budget, sizing->headroom - sizing->spread,
			       "headroom: other runs of the program",
			       sizing->job.fuses ? "fused collectives may end in another order"
						 : "on other CPUs, in other orders of its threads");
	if (sizing->spread > 0)
		twi_budget_add(budget, sizing->spread, "headroom: before the log began",
			       "its pool was once filled so far, in pieces");
	twi_budget_round(budget, sizing->named, 1, "not in the log",
			 "scaled by what the log says is missing");
	return 0;
}
