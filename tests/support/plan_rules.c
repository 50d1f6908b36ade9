/* plan_rules.c - what holds for every plan. */
#include "plan_rules.h"

static bool twt_plan_is_local(const struct twi_plan_case *what, uint32_t rank)
{
	for (uint32_t i = 0; i < what->locals_n; i++)
		if (what->locals[i] == rank)
			return true;
	return false;
}

/* NULL, or the rule that a ref breaks. cases: of all ranks. */
static const char *twt_plan_ref_rules(const struct twi_plan_case *what,
				      const struct twi_plan_case *cases,
				      const struct twi_plan *plan,
				      const struct twi_plan_program *program,
				      const struct twi_plan_ref *ref, uint64_t bytes, bool writes)
{
	uint64_t unit = twt_plan_unit(what->type), last = program->repeats - 1;
	bool own = ref->rank == what->rank;
	uint64_t room;

	TWT_RULE(ref->rank < what->ranks);
	TWT_RULE(own || twt_plan_is_local(what, ref->rank));
	switch (ref->space) {
	case TWI_PLAN_IN:
		TWT_RULE(!writes);
		room = twt_plan_length(&cases[ref->rank], true) * unit;
		TWT_RULE(ref->offset + last * program->in_stride + bytes <= room);
		return NULL;
	case TWI_PLAN_OUT:
		TWT_RULE(own || !writes || what->peers_write);
		room = twt_plan_length(&cases[ref->rank], false) * unit;
		TWT_RULE(ref->offset + last * program->out_stride + bytes <= room);
		return NULL;
	case TWI_PLAN_SCRATCH:
		TWT_RULE(own);
		TWT_RULE(ref->offset + bytes <= plan->scratch_bytes);
		return NULL;
	default:
		TWT_RULE(ref->space == TWI_PLAN_CELL);
		TWT_RULE(own || !writes);
		TWT_RULE(ref->offset + bytes <= what->cell_bytes);
		return NULL;
	}
}

static const char *twt_plan_step_rules(const struct twi_plan_case *what,
				       const struct twi_plan_case *cases,
				       const struct twi_plan *plan,
				       const struct twi_plan_program *program,
				       const struct twi_plan_step *step)
{
	bool message = step->kind == TWI_PLAN_SEND || step->kind == TWI_PLAN_RECV;
	bool reduce = step->kind == TWI_PLAN_REDUCE, sync = step->kind == TWI_PLAN_SYNC;
	uint32_t writes = reduce ? step->results_n : step->kind != TWI_PLAN_SEND;
	uint32_t refs = reduce                        ? step->results_n + step->sources_n
			: sync                        ? 0
			: step->kind == TWI_PLAN_COPY ? 2
						      : 1;
	const char *broken = NULL;

	TWT_RULE(step->kind <= TWI_PLAN_SYNC);
	TWT_RULE(step->bytes % twt_plan_unit(what->type) == 0);
	TWT_RULE(step->bytes > 0 || sync || (message && what->kind == TWI_COLL_BARRIER));
	TWT_RULE(step->ref + refs <= plan->ref_count);
	TWT_RULE(!message || (step->peer < what->ranks && step->peer != what->rank));
	TWT_RULE(!reduce || (step->results_n > 0 && step->sources_n > 0));
	TWT_RULE(step->sources_n <= TWI_PLAN_SOURCES_MAX);
	TWT_RULE(!step->divide || (reduce && what->reduce == TOW_AVG));
	TWT_RULE(!sync || (program->repeats == 1 && program->fence));
	for (uint32_t i = 0; i < refs && broken == NULL; i++) {
		const struct twi_plan_ref *ref = &plan->refs[step->ref + i];

		TWT_RULE(!message || ref->rank == what->rank);
		broken = twt_plan_ref_rules(what, cases, plan, program, ref, step->bytes,
					    i < writes);
	}
	return broken;
}

const char *twt_plan_rules(const struct twi_plan_case *cases, uint32_t self,
			   const struct twi_plan *plan, const struct twi_plan *first)
{
	const struct twi_plan_case *what = &cases[self];
	uint32_t syncs = 0, most = 0, steps = 0;
	uint64_t runs = 0;

	TWT_RULE(plan->depth >= 1 && plan->depth <= what->depth);
	TWT_RULE(plan->program_count == first->program_count);
	TWT_RULE(plan->scratch_bytes % 64 == 0);
	for (uint32_t p = 0; p < plan->program_count; p++) {
		const struct twi_plan_program *program = &plan->programs[p];
		uint32_t messages = 0, stage = 0;

		runs += program->repeats;
		TWT_RULE(program->repeats >= 1 && program->first == steps);
		TWT_RULE(program->repeats == first->programs[p].repeats);
		steps += program->count;
		for (uint32_t i = 0; i < program->count; i++) {
			const struct twi_plan_step *step = &plan->steps[program->first + i];
			const char *broken = twt_plan_step_rules(what, cases, plan, program, step);

			if (broken != NULL)
				return broken;
			TWT_RULE(step->stage == stage || (i > 0 && step->stage == stage + 1));
			messages = step->stage == stage ? messages : 0;
			stage = step->stage;
			messages += step->kind == TWI_PLAN_SEND || step->kind == TWI_PLAN_RECV;
			most = most > messages ? most : messages;
			syncs += step->kind == TWI_PLAN_SYNC;
		}
	}
	TWT_RULE(steps == plan->step_count);
	TWT_RULE(runs <= TWI_PLAN_RUNS_MAX);
	TWT_RULE(syncs == plan->syncs);
	TWT_RULE(most == plan->messages_max);
	return NULL;
}
