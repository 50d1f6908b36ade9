/*
 * coll_quick.c - the fast path of small collectives of one host. See coll_quick.h.
 */
#include "transport/coll/coll_quick.h"

#include <stdlib.h>

#include "diag/base/error.h"
#include "transport/coll/coll_local.h"
#include "transport/coll/reduce/reduce.h"
#include "transport/engine/engine.h"
#include "transport/op/path.h"

static const struct twi_coll_region *region_of(const struct twi_coll_group *coll, uint32_t rank)
{
	if (rank == coll->rank)
		return coll->region;
	for (uint32_t i = 0; i < coll->locals_n; i++) {
		if (coll->locals[i].rank == rank)
			return coll->locals[i].region;
	}
	return NULL;
}

static bool is_own(const struct twi_coll_group *coll, const struct twi_plan_ref *ref,
		   enum twi_plan_space space)
{
	return ref->rank == coll->rank && ref->space == space;
}

/* Reads the copy into the own cell. False: the step is something else. */
static bool read_give(const struct twi_coll_group *coll, const struct twi_plan *plan,
		      const struct twi_plan_step *step, struct twi_coll_quick *quick)
{
	const struct twi_plan_ref *refs = twi_plan_refs(plan, step);

	if (step->kind != TWI_PLAN_COPY || !is_own(coll, &refs[0], TWI_PLAN_CELL) ||
	    !is_own(coll, &refs[1], TWI_PLAN_IN))
		return false;
	quick->give_to = refs[0].offset;
	quick->give_from = refs[1].offset;
	quick->give_bytes = step->bytes;
	return true;
}

/* Adds a take from `cell` to the own OUT at `to`. */
static bool add_take(const struct twi_coll_group *coll, struct twi_coll_quick *quick,
		     const struct twi_plan_ref *cell, const struct twi_plan_ref *to, uint64_t bytes)
{
	const struct twi_coll_region *region = region_of(coll, cell->rank);

	if (cell->space != TWI_PLAN_CELL || region == NULL || !is_own(coll, to, TWI_PLAN_OUT))
		return false;
	quick->takes[quick->takes_n++] = (struct twi_coll_take){
		.region = region, .from = cell->offset, .to = to->offset, .bytes = bytes
	};
	return true;
}

static bool read_take(const struct twi_coll_group *coll, const struct twi_coll_entry *entry,
		      const struct twi_plan_step *step, struct twi_coll_quick *quick)
{
	const struct twi_plan_ref *refs = twi_plan_refs(entry->plan, step);

	if (quick->reduces)
		return false; /* a reduction is the only take */
	if (step->kind == TWI_PLAN_COPY)
		return add_take(coll, quick, &refs[1], &refs[0], step->bytes);
	if (step->kind != TWI_PLAN_REDUCE || step->results_n != 1 || quick->takes_n > 0)
		return false;
	quick->reduces = true;
	quick->divide = step->divide;
	quick->count = step->bytes / tow_type_bytes(entry->call.type);
	for (uint32_t i = 0; i < step->sources_n; i++) {
		if (!add_take(coll, quick, &refs[1 + i], &refs[0], step->bytes))
			return false;
	}
	return true;
}

static bool read_plan(const struct twi_coll_group *coll, const struct twi_coll_entry *entry,
		      struct twi_coll_quick *quick)
{
	const struct twi_plan *plan = entry->plan;
	const struct twi_plan_step *step = &plan->steps[plan->programs[0].first];
	const struct twi_plan_step *end = step + plan->programs[0].count;

	if (step < end && read_give(coll, plan, step, quick))
		step++;
	if (step == end || step->kind != TWI_PLAN_SYNC)
		return false;
	for (step++; step < end; step++) {
		if (!read_take(coll, entry, step, quick))
			return false;
	}
	return true;
}

int twi_coll_quick_make(const struct twi_coll_group *coll, struct twi_coll_entry *entry)
{
	const struct twi_plan *plan = entry->plan;
	struct twi_coll_quick *quick;

	if (!entry->local || entry->shares || entry->signs || coll->locals_n == 0 ||
	    plan->program_count != 1 || plan->programs[0].repeats != 1 || plan->syncs != 1)
		return TOW_OK;
	/* There are at most as many takes as references. */
	quick = calloc(1, sizeof(*quick) + plan->ref_count * sizeof(quick->takes[0]));
	if (quick == NULL)
		return TOW_ENOMEM;
	if (read_plan(coll, entry, quick))
		entry->quick = quick;
	else
		free(quick);
	return TOW_OK;
}

static uint64_t whole_bytes(const struct twi_coll_run *run)
{
	return twi_max(run->entry->in_bytes, run->entry->out_bytes);
}

void twi_coll_quick_give(struct twi_coll_run *run)
{
	const struct twi_coll_quick *quick = run->entry->quick;
	struct twi_coll_group *coll = run->coll;
	uint8_t *cell = coll->region->slots[run->seq % TWI_COLL_SLOTS].cell;
	int status;

	if (quick->give_bytes > 0)
		twi_path_copy_large(coll->engine->diag, cell + quick->give_to,
				    run->in + quick->give_from, quick->give_bytes, whole_bytes(run),
				    true);
	status = twi_coll_sync_post(run);
	twi_assert(status == TOW_OK); /* only sharing buffers can fail */
}

static const uint8_t *cell_of(const struct twi_coll_take *take, uint64_t seq)
{
	return take->region->slots[seq % TWI_COLL_SLOTS].cell + take->from;
}

static void reduce_cells(struct twi_coll_run *run)
{
	const struct twi_coll_quick *quick = run->entry->quick;
	const struct twi_coll_call *call = &run->entry->call;
	const void *sources[TWI_PLAN_SOURCES_MAX];
	void *result = run->out + quick->takes[0].to;
	const struct twi_reduction reduction = {
		.type = call->type,
		.reduce = call->reduce,
		.ranks = quick->divide ? run->coll->size : 0,
		.sources_n = quick->takes_n,
		.results_n = 1,
		.sources = sources,
		.results = &result,
		.count = quick->count,
	};

	for (uint32_t i = 0; i < quick->takes_n; i++)
		sources[i] = cell_of(&quick->takes[i], run->seq);
	twi_reduce(&reduction);
}

void twi_coll_quick_take(struct twi_coll_run *run)
{
	const struct twi_coll_quick *quick = run->entry->quick;

	if (quick->reduces) {
		reduce_cells(run);
		return;
	}
	for (uint32_t i = 0; i < quick->takes_n; i++) {
		const struct twi_coll_take *take = &quick->takes[i];

		twi_path_copy_large(run->coll->engine->diag, run->out + take->to,
				    cell_of(take, run->seq), take->bytes, whole_bytes(run), true);
	}
}
