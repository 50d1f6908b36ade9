/*
 * plan_ring.c - rank r receives from r - 1 and sends to r + 1.
 *
 * Reduce-scatter: the partial sum of part b starts at rank b + 1. Each rank adds its share, and
 * after n - 1 hops the sum is at rank b. All-gather: the whole parts go round once. An all-reduce
 * is one after the other. In each of the two, each rank sends and receives (n - 1) / n of the
 * payload. This is the least possible (Patarasuk and Yuan 2009). Several runs at once keep links
 * and cores busy together.
 */
#include "transport/coll/plan/plan_list.h"

static uint32_t rank_back(const struct twi_plan_list *list, uint32_t hops)
{
	uint32_t ranks = list->what->ranks;

	return (list->what->rank + ranks - hops % ranks) % ranks;
}

static uint32_t next_rank(const struct twi_plan_list *list)
{
	return (list->what->rank + 1) % list->what->ranks;
}

/* The place of this rank's complete part. */
static struct twi_plan_ref home_ref(const struct twi_plan_list *list, struct twi_plan_range run)
{
	bool all = list->what->kind == TWI_COLL_ALL_REDUCE;

	return twi_plan_own(list, TWI_PLAN_OUT,
			    all ? twi_plan_block(list, run, list->what->rank).first : run.first);
}

static void reduce_scatter(struct twi_plan_list *list, struct twi_plan_range run)
{
	uint32_t hops = list->what->ranks - 1;
	uint64_t area = twi_plan_block_max(list, run);

	/* Two areas take turns: one holds what is sent while the other receives. */
	for (uint32_t hop = 0; hop < hops; hop++) {
		struct twi_plan_range gives = twi_plan_block(list, run, rank_back(list, hop + 1));
		struct twi_plan_range gets = twi_plan_block(list, run, rank_back(list, hop + 2));
		struct twi_plan_ref here = twi_plan_own(list, TWI_PLAN_SCRATCH, hop % 2 ? area : 0);
		struct twi_plan_ref there =
			hop ? twi_plan_own(list, TWI_PLAN_SCRATCH, hop % 2 ? 0 : area)
			    : twi_plan_own(list, TWI_PLAN_IN, gives.first);
		bool last = hop + 1 == hops;

		twi_plan_send(list, there, gives.count, next_rank(list), hop);
		twi_plan_recv(list, here, gets.count, rank_back(list, 1), hop);
		twi_plan_stage(list);
		twi_plan_reduce(list, gets.count, last);
		twi_plan_result(list, last ? home_ref(list, run) : here);
		twi_plan_source(list, here);
		twi_plan_source(list, twi_plan_own(list, TWI_PLAN_IN, gets.first));
		twi_plan_stage(list);
	}
}

/* `from`: the place of the own part. */
static void all_gather(struct twi_plan_list *list, struct twi_plan_range run,
		       struct twi_plan_ref from)
{
	uint32_t hops = list->what->ranks - 1;

	for (uint32_t hop = 0; hop < hops; hop++) {
		struct twi_plan_range gives = twi_plan_block(list, run, rank_back(list, hop));
		struct twi_plan_range gets = twi_plan_block(list, run, rank_back(list, hop + 1));

		if (hop > 0)
			from = twi_plan_own(list, TWI_PLAN_OUT, gives.first);
		twi_plan_send(list, from, gives.count, next_rank(list), hops + hop);
		twi_plan_recv(list, twi_plan_own(list, TWI_PLAN_OUT, gets.first), gets.count,
			      rank_back(list, 1), hops + hop);
		twi_plan_stage(list);
	}
}

static void run_gather(struct twi_plan_list *list, struct twi_plan_range run)
{
	struct twi_plan_range own = twi_plan_block(list, run, list->what->rank);
	bool v = list->what->kind == TWI_COLL_ALL_GATHER_V;
	struct twi_plan_ref from = twi_plan_own(list, TWI_PLAN_IN, v ? 0 : run.first);

	if (!list->what->in_place)
		twi_plan_copy(list, twi_plan_own(list, TWI_PLAN_OUT, own.first), from, own.count);
	all_gather(list, run, from);
}

static void run_all_reduce(struct twi_plan_list *list, struct twi_plan_range run)
{
	reduce_scatter(list, run);
	all_gather(list, run, home_ref(list, run));
}

void twi_plan_build_ring(struct twi_plan_list *list)
{
	switch (list->what->kind) {
	case TWI_COLL_ALL_REDUCE:
		twi_plan_segments(list, 1, list->what->ranks, false, run_all_reduce);
		break;
	case TWI_COLL_REDUCE_SCATTER:
		twi_plan_segments(list, list->what->ranks, 1, false, reduce_scatter);
		break;
	case TWI_COLL_ALL_GATHER_V:
		twi_plan_whole(list, false, run_gather);
		break;
	default:
		twi_plan_segments(list, 1, 1, false, run_gather);
	}
}
