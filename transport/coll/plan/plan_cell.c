/*
 * plan_cell.c - small collectives of one host through its cells. Each rank puts what others need
 * into its own cell; after a SYNC each takes what it needs out of the others' cells. Only their own
 * rank reads and writes the caller's buffers. So these may lie anywhere, and one SYNC suffices: the
 * executor does not let a cell be written again too early (plan.h, CELL).
 */
#include "transport/coll/plan/plan_list.h"

static bool is_root(const struct twi_plan_list *list)
{
	return list->what->rank == list->what->root;
}

/* Elements that the fullest cell has to hold. */
static uint64_t cell_needs(const struct twi_plan_case *what)
{
	uint64_t most = 0;

	switch (what->kind) {
	case TWI_COLL_REDUCE_SCATTER:
	case TWI_COLL_SCATTER:
	case TWI_COLL_ALL_TO_ALL:
		return what->count * what->ranks;
	case TWI_COLL_ALL_GATHER_V:
		for (uint32_t i = 0; i < what->ranks; i++)
			most = most > what->recv_counts[i] ? most : what->recv_counts[i];
		return most;
	default:
		return what->count;
	}
}

/* Elements that fill the own cell, all from the beginning of IN. */
static uint64_t cell_gives(const struct twi_plan_list *list)
{
	const struct twi_plan_case *what = list->what;

	switch (what->kind) {
	case TWI_COLL_BROADCAST:
	case TWI_COLL_SCATTER:
		return is_root(list) ? cell_needs(what) : 0;
	case TWI_COLL_ALL_GATHER_V:
		return what->recv_counts[what->rank];
	case TWI_COLL_PERMUTE:
		return twi_plan_pair_target(what) >= 0 ? what->count : 0;
	case TWI_COLL_SEND_RECEIVE:
		return what->target >= 0 ? what->count : 0;
	default:
		return cell_needs(what);
	}
}

static void take_cell(struct twi_plan_list *list, uint64_t to, uint32_t rank, uint64_t from,
		      uint64_t count)
{
	twi_plan_copy(list, twi_plan_own(list, TWI_PLAN_OUT, to),
		      twi_plan_of(list, rank, TWI_PLAN_CELL, from), count);
}

static void reduce_cells(struct twi_plan_list *list, uint64_t from)
{
	twi_plan_reduce(list, list->what->count, true);
	twi_plan_result(list, twi_plan_own(list, TWI_PLAN_OUT, 0));
	for (uint32_t rank = 0; rank < list->what->ranks; rank++)
		twi_plan_source(list, twi_plan_of(list, rank, TWI_PLAN_CELL, from));
}

/* Takes the parts of all ranks; `from` is the offset in their cells. */
static void gather_cells(struct twi_plan_list *list, uint64_t from)
{
	struct twi_plan_range columns = { 0, list->what->count };
	bool keeps = list->what->in_place && list->what->kind != TWI_COLL_ALL_TO_ALL;

	for (uint32_t rank = 0; rank < list->what->ranks; rank++) {
		struct twi_plan_range part = twi_plan_block(list, columns, rank);

		if (rank != list->what->rank || !keeps)
			take_cell(list, part.first, rank, from, part.count);
	}
}

static void pass_cells(struct twi_plan_list *list)
{
	const struct twi_plan_case *what = list->what;
	bool pairs = what->kind == TWI_COLL_PERMUTE;
	int64_t source = pairs ? twi_plan_pair_source(what) : what->source;

	if (source >= 0)
		take_cell(list, 0, (uint32_t)source, 0, what->count);
	else if (pairs)
		twi_plan_zero(list, twi_plan_own(list, TWI_PLAN_OUT, 0), what->count);
}

static void take_all(struct twi_plan_list *list)
{
	const struct twi_plan_case *what = list->what;
	uint64_t part = what->rank * what->count;

	switch (what->kind) {
	case TWI_COLL_ALL_REDUCE:
		reduce_cells(list, 0);
		break;
	case TWI_COLL_REDUCE_SCATTER:
		reduce_cells(list, part);
		break;
	case TWI_COLL_REDUCE:
		if (is_root(list))
			reduce_cells(list, 0);
		break;
	case TWI_COLL_GATHER:
		if (is_root(list))
			gather_cells(list, 0);
		break;
	case TWI_COLL_ALL_TO_ALL:
		gather_cells(list, part);
		break;
	case TWI_COLL_BROADCAST:
		if (!is_root(list))
			take_cell(list, 0, what->root, 0, what->count);
		break;
	case TWI_COLL_SCATTER:
		if (!is_root(list) || !what->in_place)
			take_cell(list, 0, what->root, part, what->count);
		break;
	case TWI_COLL_PERMUTE:
	case TWI_COLL_SEND_RECEIVE:
		pass_cells(list);
		break;
	default:
		gather_cells(list, 0);
	}
}

bool twi_plan_fits_cell(const struct twi_plan_case *what)
{
	return twi_plan_few_sources(what) &&
	       cell_needs(what) <= what->cell_bytes / twi_plan_type_bytes(what->type);
}

void twi_plan_build_cell(struct twi_plan_list *list)
{
	twi_plan_open(list, 1, true, 0);
	twi_plan_copy(list, twi_plan_own(list, TWI_PLAN_CELL, 0),
		      twi_plan_own(list, TWI_PLAN_IN, 0), cell_gives(list));
	twi_plan_sync(list);
	take_all(list);
	twi_plan_close(list);
}
