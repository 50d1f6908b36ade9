/*
 * coll_early.c - computes from which stage on the receives of a plan may be posted, and until which
 * stage its sends may last.
 *
 * A receive that is posted before its message comes needs no handshake and no copy. Its memory may
 * be written as soon as no earlier step uses it. So the receive is posted one stage behind the last
 * such step, but at most AHEAD stages before its own.
 *
 * A send has ended when the receiver has acknowledged all bytes. The next stage need not wait for
 * that; the first stage that writes to the sent memory must.
 *
 * Plans with SYNC are left out: their own steps do not show what other ranks of the host do to this
 * rank's memory.
 */
#include <stdlib.h>

#include "diag/base/error.h"
#include "transport/coll/coll_run.h"

#define AHEAD 4u /* two rounds of messages, each with a reduction behind it */

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

/* Whether `in` and `out` of a call in place begin at the same address. */
static bool same_start(enum twi_coll_kind kind)
{
	return kind == TWI_COLL_ALL_REDUCE || kind == TWI_COLL_ALL_TO_ALL ||
	       kind == TWI_COLL_BROADCAST;
}

/* How many of its refs the step writes to; these are the first ones. */
static uint32_t written_by(const struct twi_plan_step *step)
{
	switch (step->kind) {
	case TWI_PLAN_SEND:
	case TWI_PLAN_SYNC:
		return 0;
	case TWI_PLAN_REDUCE:
		return step->results_n;
	default:
		return 1;
	}
}

/* Whether one of the step's first `count` refs overlaps the span. */
static bool touches_span(const struct twi_coll_entry *entry, const struct twi_plan_step *step,
			 uint32_t count, const struct span *span)
{
	const struct twi_plan_ref *refs = twi_plan_refs(entry->plan, step);

	for (uint32_t i = 0; i < count; i++) {
		uint8_t space = refs[i].space;

		/* In place IN and OUT share one buffer. With different starts they count as one. */
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
		if (steps[i].stage + AHEAD < recv->stage)
			return (uint16_t)(recv->stage - AHEAD);
		if (steps[i].stage < recv->stage &&
		    touches_span(entry, &steps[i], refs_of(&steps[i]), &span))
			return (uint16_t)(steps[i].stage + 1);
	}
	return 0;
}

/*
 * The first stage that must wait for the end of the send. 0: the next stage already must. A receive
 * counts from the stage in which it may be posted.
 */
static uint16_t stage_until(const struct twi_coll_entry *entry,
			    const struct twi_plan_program *program, uint32_t index)
{
	const struct twi_plan_step *steps = entry->plan->steps;
	const struct twi_plan_step *send = &steps[index];
	const struct twi_plan_ref *ref = &entry->plan->refs[send->ref];
	const struct span span = { ref->space, ref->offset, ref->offset + send->bytes };
	uint16_t until = UINT16_MAX;

	for (uint32_t i = index + 1; i < program->first + program->count; i++) {
		uint16_t stage = steps[i].kind == TWI_PLAN_RECV ? entry->early[i] : steps[i].stage;

		if (steps[i].stage > send->stage && stage < until &&
		    touches_span(entry, &steps[i], written_by(&steps[i]), &span))
			until = stage;
	}
	return until > send->stage + 1 ? until : 0;
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
		for (uint32_t i = program->first; i < program->first + program->count; i++) {
			if (plan->steps[i].kind == TWI_PLAN_SEND)
				entry->early[i] = stage_until(entry, program, i);
		}
	}
	return TOW_OK;
}
