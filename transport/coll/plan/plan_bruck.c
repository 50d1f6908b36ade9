/*
 * plan_bruck.c - plans of log2(n) steps for small payloads (Bruck, Ho, Kipnis, Upfal and Weathersby
 * 1997). The barrier has the same shape (dissemination; Hensgen, Finkel and Manber 1988).
 *
 * All-gather: SCRATCH has the parts of ranks r, r + 1, r + 2, ... one after another. Each step
 * doubles their number with the parts that rank r + 2^k has.
 *
 * All-to-all: the part for rank r + i travels by the set bits of i. In step k all parts whose i has
 * bit k go to rank r + 2^k, packed into one message. Parts that arrive in a step have places of
 * their own, and stay there until a later step, or the end, takes them.
 */
#include "transport/coll/plan/plan_list.h"

static uint32_t rank_ahead(const struct twi_plan_list *list, uint32_t distance)
{
	return (uint32_t)(((uint64_t)list->what->rank + distance) % list->what->ranks);
}

static uint32_t rank_behind(const struct twi_plan_list *list, uint32_t distance)
{
	return rank_ahead(list, list->what->ranks - distance);
}

static void run_all_gather(struct twi_plan_list *list, struct twi_plan_range run)
{
	const struct twi_plan_case *what = list->what;
	uint64_t count = run.count;
	uint32_t tag = 0;

	twi_plan_copy(list, twi_plan_own(list, TWI_PLAN_SCRATCH, 0),
		      twi_plan_own(list, TWI_PLAN_IN, 0), count);
	twi_plan_stage(list);
	for (uint32_t have = 1; have < what->ranks; have *= 2) {
		uint32_t more = what->ranks - have < have ? what->ranks - have : have;

		twi_plan_send(list, twi_plan_own(list, TWI_PLAN_SCRATCH, 0), more * count,
			      rank_behind(list, have), tag);
		twi_plan_recv(list, twi_plan_own(list, TWI_PLAN_SCRATCH, have * count),
			      more * count, rank_ahead(list, have), tag++);
		twi_plan_stage(list);
	}
	for (uint32_t i = what->in_place; i < what->ranks; i++)
		twi_plan_copy(list, twi_plan_own(list, TWI_PLAN_OUT, rank_ahead(list, i) * count),
			      twi_plan_own(list, TWI_PLAN_SCRATCH, i * count), count);
}

/* How many numbers below `i` have the bit set. */
static uint32_t with_bit(uint32_t i, uint32_t bit)
{
	uint32_t whole = i / (2 * bit), rest = i % (2 * bit);

	return whole * bit + (rest > bit ? rest - bit : 0);
}

/* The place of part i before the step of `bit`: where the last step that moved it has put it. */
static struct twi_plan_ref part_at(const struct twi_plan_list *list, uint32_t i, uint32_t bit)
{
	const struct twi_plan_case *what = list->what;
	uint32_t done = i & (bit - 1), step = 1;
	uint64_t place = with_bit(what->ranks, 1); /* behind the area for packing */

	if (done == 0)
		return twi_plan_own(list, TWI_PLAN_IN, rank_ahead(list, i) * what->count);
	for (; done > 1; done >>= 1, step *= 2)
		place += with_bit(what->ranks, step);
	return twi_plan_own(list, TWI_PLAN_SCRATCH, (place + with_bit(i, step)) * what->count);
}

static void one_step(struct twi_plan_list *list, uint32_t bit, uint32_t tag)
{
	uint64_t count = list->what->count;
	uint32_t parts = with_bit(list->what->ranks, bit);

	for (uint32_t i = bit; i < list->what->ranks; i++)
		if (i & bit)
			twi_plan_copy(
				list,
				twi_plan_own(list, TWI_PLAN_SCRATCH, with_bit(i, bit) * count),
				part_at(list, i, bit), count);
	twi_plan_stage(list);
	twi_plan_send(list, twi_plan_own(list, TWI_PLAN_SCRATCH, 0), parts * count,
		      rank_ahead(list, bit), tag);
	twi_plan_recv(list, part_at(list, bit, 2 * bit), parts * count, rank_behind(list, bit),
		      tag);
	twi_plan_stage(list);
}

static void run_all_to_all(struct twi_plan_list *list, struct twi_plan_range run)
{
	const struct twi_plan_case *what = list->what;
	uint32_t bit, tag = 0;

	for (bit = 1; bit < what->ranks; bit *= 2)
		one_step(list, bit, tag++);
	for (uint32_t i = what->in_place; i < what->ranks; i++)
		twi_plan_copy(list,
			      twi_plan_own(list, TWI_PLAN_OUT,
					   rank_ahead(list, what->ranks - i) * run.count),
			      part_at(list, i, bit), run.count);
}

void twi_plan_build_bruck(struct twi_plan_list *list)
{
	twi_plan_whole(list, false,
		       list->what->kind == TWI_COLL_ALL_GATHER ? run_all_gather : run_all_to_all);
}

static void run_barrier(struct twi_plan_list *list, struct twi_plan_range run)
{
	uint32_t tag = 0;

	(void)run;
	for (uint32_t distance = 1; distance < list->what->ranks; distance *= 2) {
		twi_plan_signal(list, TWI_PLAN_SEND, rank_ahead(list, distance), tag);
		twi_plan_signal(list, TWI_PLAN_RECV, rank_behind(list, distance), tag++);
		twi_plan_stage(list);
	}
}

void twi_plan_build_dissemination(struct twi_plan_list *list)
{
	twi_plan_whole(list, false, run_barrier);
}
