/* plan_play.c - plays the plans of all ranks against each other. */
#include "plan_play.h"

void twt_play_init(struct twt_play *play, const struct twi_plan_case *cases,
		   struct twi_plan *const *plans, uint32_t n, uint64_t seed)
{
	*play = (struct twt_play){ .n = n, .random = seed };
	play->rendezvous = twt_random(&play->random) & 1;
	play->ranks = calloc(n, sizeof(*play->ranks));
	assert_non_null(play->ranks);
	for (uint32_t i = 0; i < n; i++) {
		struct twt_play_rank *rank = &play->ranks[i];

		rank->what = &cases[i];
		rank->plan = plans[i];
		rank->late =
			twt_random(&play->random) & 1 ? twt_random_below(&play->random, 50) : 0;
		twt_plan_memory_init(&rank->memory, rank->what,
				     plans[i]->scratch_bytes * plans[i]->depth);
		rank->runs = calloc(plans[i]->depth, sizeof(*rank->runs));
		assert_non_null(rank->runs);
		for (uint32_t k = 0; k < plans[i]->depth; k++) {
			rank->runs[k].states = calloc(plans[i]->step_count + 1, 1);
			assert_non_null(rank->runs[k].states);
		}
	}
}

void twt_play_fini(struct twt_play *play)
{
	for (uint32_t i = 0; i < play->n; i++) {
		struct twt_play_rank *rank = &play->ranks[i];

		for (uint32_t k = 0; k < rank->plan->depth; k++)
			free(rank->runs[k].states);
		for (uint32_t k = 0; k < rank->inbox_n; k++)
			free(rank->inbox[k].data);
		twt_plan_memory_fini(&rank->memory);
		free(rank->caller[0]);
		free(rank->caller[1]);
		free(rank->runs);
		free(rank->inbox);
		free(rank->holds);
	}
	free(play->ranks);
}

void twt_play_caller(struct twt_play *play, struct twt_play_rank *rank, bool save)
{
	for (int space = 0; space < 2; space++) {
		uint64_t bytes = rank->memory.bytes[space];

		if (rank->memory.owned[space] == NULL)
			continue;
		if (save) {
			if (rank->caller[space] == NULL)
				rank->caller[space] = malloc(bytes + 1);
			assert_non_null(rank->caller[space]);
			memcpy(rank->caller[space], rank->memory.at[space], bytes);
			memset(rank->memory.at[space], (int)twt_random(&play->random), bytes);
		} else {
			memcpy(rank->memory.at[space], rank->caller[space], bytes);
		}
	}
}

unsigned char *twt_play_at(const struct twt_play *play, const struct twt_play_rank *rank,
			   const struct twt_play_run *run, const struct twi_plan_ref *ref)
{
	const struct twi_plan_program *program = &rank->plan->programs[run->program];
	uint64_t stride = ref->space == TWI_PLAN_IN    ? program->in_stride
			  : ref->space == TWI_PLAN_OUT ? program->out_stride
						       : 0;
	uint64_t slot = ref->space == TWI_PLAN_SCRATCH
				? (uint64_t)(run - rank->runs) * rank->plan->scratch_bytes
				: 0;

	return play->ranks[ref->rank].memory.at[ref->space] + slot + ref->offset + run->k * stride;
}

static bool twt_play_clash(const struct twt_play_hold *a, const struct twt_play_hold *b)
{
	bool same = a->rank == b->rank && a->run == b->run && a->step == b->step;

	if ((!a->writes && !b->writes) || a->at + a->bytes <= b->at || b->at + b->bytes <= a->at)
		return false;
	/* A result of a REDUCE may lie where a source of it does. */
	return !(same && a->at == b->at && a->writes != b->writes);
}

static bool twt_play_take(struct twt_play *play, struct twt_play_rank *owner,
			  const struct twt_play_hold *hold)
{
	for (uint32_t i = 0; i < owner->holds_n; i++)
		if (twt_play_clash(&owner->holds[i], hold))
			return TWT_PLAY_WRONG(
				play, "rank %u run %u step %u and rank %u run %u step %u clash",
				hold->rank, hold->run, hold->step, owner->holds[i].rank,
				owner->holds[i].run, owner->holds[i].step);
	TWT_PLAY_GROW(owner->holds, owner->holds_n, owner->holds_room);
	owner->holds[owner->holds_n++] = *hold;
	return true;
}

static uint32_t twt_play_refs(const struct twi_plan_step *step)
{
	switch (step->kind) {
	case TWI_PLAN_SYNC:
		return 0;
	case TWI_PLAN_COPY:
		return 2;
	case TWI_PLAN_REDUCE:
		return step->results_n + step->sources_n;
	default:
		return 1;
	}
}

bool twt_play_hold_step(struct twt_play *play, struct twt_play_rank *rank, struct twt_play_run *run,
			uint32_t index)
{
	const struct twi_plan_step *step = &rank->plan->steps[index];
	uint32_t refs = twt_play_refs(step);

	for (uint32_t k = 0; k < refs && step->bytes > 0; k++) {
		const struct twi_plan_ref *ref = &rank->plan->refs[step->ref + k];
		bool first = step->kind == TWI_PLAN_REDUCE ? k < step->results_n : k == 0;
		struct twt_play_hold hold = { twt_play_at(play, rank, run, ref),
					      step->bytes,
					      first && step->kind != TWI_PLAN_SEND,
					      (uint32_t)(rank - play->ranks),
					      run->number,
					      index };

		if (!twt_play_take(play, &play->ranks[ref->rank], &hold))
			return false;
	}
	return true;
}

bool twt_play_hold(struct twt_play *play, struct twt_play_rank *rank, struct twt_play_run *run)
{
	for (uint32_t i = run->begin; i < run->end; i++)
		if (rank->plan->steps[i].kind != TWI_PLAN_RECV &&
		    !twt_play_hold_step(play, rank, run, i))
			return false;
	return true;
}

static void twt_play_release_of(struct twt_play_rank *owner, uint32_t rank, uint32_t run)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < owner->holds_n; i++)
		if (owner->holds[i].rank != rank || owner->holds[i].run != run)
			owner->holds[kept++] = owner->holds[i];
	owner->holds_n = kept;
}

void twt_play_release(struct twt_play *play, struct twt_play_rank *rank, struct twt_play_run *run)
{
	const struct twi_plan *plan = rank->plan;
	uint32_t last = UINT32_MAX;

	for (uint32_t i = run->begin; i < run->end; i++) {
		uint32_t refs = twt_play_refs(&plan->steps[i]);

		for (uint32_t k = 0; k < refs; k++) {
			uint32_t owner = plan->refs[plan->steps[i].ref + k].rank;

			if (owner != last)
				twt_play_release_of(&play->ranks[owner],
						    (uint32_t)(rank - play->ranks), run->number);
			last = owner;
		}
	}
}
