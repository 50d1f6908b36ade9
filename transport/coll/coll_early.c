/*
 * coll_early.c - from which stage on the receives of a plan may be posted.
 *
 * A receive that is posted before its message comes costs no handshake and no copy on the way. Its
 * place may be written as soon as the steps before it are done with that place: so it is posted one
 * stage behind the last of them that touches it. Only in plans without SYNC: what other ranks of
 * the host do to this rank's memory is not in its own steps.
 */
#include <stdlib.h>

#include "diag/error.h"
#include "transport/coll/coll_run.h"

struct span {
	uint8_t space;
	uint64_t first, end;
};

static uint32_t refs_of(const struct twi_plan_step *step)
{
	switch (step->kind) {
	case TWI_PLAN_COPY:
		return 2;
	case TWI_PLAN_REDUCE:
		return step->results_n + step->sources_n;
	case TWI_PLAN_SYNC:
		return 0;
	default:
		return 1;
	}
}

/* Whether `in` and `out` of a call in place are one buffer from its start on. */
static bool same_start(enum twi_coll_kind kind)
{
	return kind == TWI_COLL_ALL_REDUCE || kind == TWI_COLL_ALL_TO_ALL ||
	       kind == TWI_COLL_BROADCAST;
}

static bool touches(const struct twi_coll_entry *entry, const struct twi_plan_step *step,
		    const struct span *span)
{
	const struct twi_plan_ref *refs = &entry->plan->refs[step->ref];

	for (uint32_t i = 0; i < refs_of(step); i++) {
		uint8_t space = refs[i].space;

		/* In place they are one buffer; which part is which is not looked at here. */
		if (entry->call.in_place && space != span->space && space <= TWI_PLAN_OUT &&
		    span->space <= TWI_PLAN_OUT) {
			if (!same_start(entry->call.kind))
				return true;
			space = span->space;
		}
		if (space == span->space && refs[i].offset < span->end &&
		    span->first < refs[i].offset + step->bytes)
			return true;
	}
	return false;
}

static uint16_t stage_for(const struct twi_coll_entry *entry,
			  const struct twi_plan_program *program, uint32_t index)
{
	const struct twi_plan_step *steps = entry->plan->steps;
	const struct twi_plan_step *recv = &steps[index];
	const struct twi_plan_ref *ref = &entry->plan->refs[recv->ref];
	const struct span span = { ref->space, ref->offset, ref->offset + recv->bytes };

	for (uint32_t i = index; i-- > program->first;) {
		if (steps[i].stage < recv->stage && touches(entry, &steps[i], &span))
			return (uint16_t)(steps[i].stage + 1);
	}
	return 0;
}

int twi_coll_early(struct twi_coll_entry *entry)
{
	const struct twi_plan *plan = entry->plan;

	if (plan->syncs > 0 || plan->step_count == 0 || plan->step_count > TWI_COLL_EARLY_STEPS)
		return TOW_OK;
	entry->early = calloc(plan->step_count, sizeof(entry->early[0]));
	if (entry->early == NULL)
		return TOW_ENOMEM;
	for (uint32_t p = 0; p < plan->program_count; p++) {
		const struct twi_plan_program *program = &plan->programs[p];

		for (uint32_t i = program->first; i < program->first + program->count; i++) {
			if (plan->steps[i].kind == TWI_PLAN_RECV)
				entry->early[i] = stage_for(entry, program, i);
		}
	}
	return TOW_OK;
}
