/* plan_play_steps.c - single steps of plans that are played. */
#include "plan_play_steps.h"

/* The next stage of a run; without one, the run is over. */
static bool twt_play_stage(struct twt_play *play, struct twt_play_rank *rank,
			   struct twt_play_run *run)
{
	const struct twi_plan_program *program = &rank->plan->programs[run->program];
	uint32_t stop = program->first + program->count;
	const struct twi_plan_step *steps = rank->plan->steps;

	run->begin = run->end;
	if (run->begin == stop) {
		run->live = false;
		rank->live--;
		return true;
	}
	while (run->end < stop && steps[run->end].stage == steps[run->begin].stage)
		run->states[run->end++] = 0;
	run->left = run->end - run->begin;
	return twt_play_hold(play, rank, run);
}

/* Starts the rank's next run; false when it may not yet, or something is wrong. */
static bool twt_play_start(struct twt_play *play, struct twt_play_rank *rank)
{
	const struct twi_plan *plan = rank->plan;
	const struct twi_plan_program *program;
	struct twt_play_run *run = rank->runs;

	if (rank->program == plan->program_count)
		return false;
	program = &plan->programs[rank->program];
	if (rank->live == plan->depth || (program->fence && rank->k == 0 && rank->live > 0))
		return false;
	while (run->live)
		run++;
	*run = (struct twt_play_run){ true,           rank->program,  rank->k, rank->number++,
				      program->first, program->first, 0,       run->states };
	if (plan->scratch_bytes > 0)
		memset(rank->memory.at[TWI_PLAN_SCRATCH] +
			       (uint64_t)(run - rank->runs) * plan->scratch_bytes,
		       0xee, plan->scratch_bytes);
	rank->live++;
	if (++rank->k == program->repeats) {
		rank->k = 0;
		rank->program++;
	}
	return twt_play_stage(play, rank, run);
}

static void twt_play_complete(struct twt_play_run *run, uint32_t step)
{
	run->states[step] = 2;
	run->left--;
}

static bool twt_play_send(struct twt_play *play, struct twt_play_rank *rank,
			  struct twt_play_run *run, uint32_t index)
{
	const struct twi_plan_step *step = &rank->plan->steps[index];
	struct twt_play_rank *to = &play->ranks[step->peer];
	struct twt_play_message message = {
		.from = (uint32_t)(rank - play->ranks),
		.run = run->number,
		.tag = step->tag,
		.late = (uint32_t)twt_random_below(&play->random, 4),
		.bytes = step->bytes,
		.sender = run,
		.step = index,
		.source = twt_play_at(play, rank, run, twi_plan_refs(rank->plan, step)),
	};

	for (uint32_t i = 0; i < to->inbox_n; i++)
		if (to->inbox[i].from == message.from && to->inbox[i].run == message.run &&
		    to->inbox[i].tag == message.tag)
			return TWT_PLAY_WRONG(play, "rank %u sends rank %u two of run %u tag %u",
					      message.from, step->peer, message.run, message.tag);
	if (!play->rendezvous) {
		message.data = malloc(step->bytes + 1);
		assert_non_null(message.data);
		memcpy(message.data, message.source, step->bytes);
		twt_play_complete(run, index);
	} else {
		run->states[index] = 2; /* its receiver counts it */
	}
	TWT_PLAY_GROW(to->inbox, to->inbox_n, to->inbox_room);
	to->inbox[to->inbox_n++] = message;
	play->messages++;
	play->bytes += step->bytes;
	return true;
}

static bool twt_play_recv(struct twt_play *play, struct twt_play_rank *rank,
			  struct twt_play_run *run, uint32_t index)
{
	const struct twi_plan_step *step = &rank->plan->steps[index];
	struct twt_play_message *message = rank->inbox;
	struct twt_play_message *end = message == NULL ? NULL : message + rank->inbox_n;

	while (message < end && (message->from != step->peer || message->run != run->number ||
				 message->tag != step->tag))
		message++;
	if (message == end || message->late-- > 0)
		return false;
	if (message->bytes != step->bytes)
		return TWT_PLAY_WRONG(play, "run %u tag %u: %llu bytes sent, %llu received",
				      run->number, step->tag, (unsigned long long)message->bytes,
				      (unsigned long long)step->bytes);
	if (!twt_play_hold_step(play, rank, run, index))
		return false;
	memcpy(twt_play_at(play, rank, run, twi_plan_refs(rank->plan, step)),
	       message->data != NULL ? message->data : message->source, step->bytes);
	if (message->data == NULL)
		message->sender->left--;
	free(message->data);
	*message = rank->inbox[--rank->inbox_n];
	twt_play_complete(run, index);
	return true;
}

static void twt_play_reduce(struct twt_play *play, struct twt_play_rank *rank,
			    struct twt_play_run *run, const struct twi_plan_step *step)
{
	const struct twi_plan_ref *refs = twi_plan_refs(rank->plan, step);
	uint64_t unit = twt_plan_unit(rank->what->type);
	const unsigned char **from = calloc(step->sources_n, sizeof(*from));
	unsigned char *element = malloc(step->bytes);

	assert_non_null(from);
	assert_non_null(element);
	for (uint64_t at = 0; at < step->bytes; at += unit) {
		for (uint32_t i = 0; i < step->sources_n; i++)
			from[i] = twt_play_at(play, rank, run, &refs[step->results_n + i]) + at;
		twt_plan_fold(rank->what->type, rank->what->reduce, element + at, from,
			      step->sources_n, step->divide ? rank->what->ranks : 0);
	}
	for (uint32_t i = 0; i < step->results_n; i++)
		memcpy(twt_play_at(play, rank, run, &refs[i]), element, step->bytes);
	free(from);
	free(element);
}

static bool twt_play_sync(struct twt_play *play, struct twt_play_rank *rank,
			  struct twt_play_run *run, uint32_t index)
{
	for (uint32_t i = 0; i < rank->what->locals_n; i++)
		if (play->ranks[rank->what->locals[i]].syncs < rank->syncs)
			return false;
	twt_play_complete(run, index);
	return true;
}

/* Moves one step on; false when it cannot, or something is wrong. */
static bool twt_play_step(struct twt_play *play, struct twt_play_rank *rank,
			  struct twt_play_run *run, uint32_t index)
{
	const struct twi_plan_step *step = &rank->plan->steps[index];
	const struct twi_plan_ref *refs = twi_plan_refs(rank->plan, step);

	if (run->states[index]++ == 0) {
		rank->syncs += step->kind == TWI_PLAN_SYNC;
		return true;
	}
	run->states[index] = 1;
	switch (step->kind) {
	case TWI_PLAN_SEND:
		return twt_play_send(play, rank, run, index);
	case TWI_PLAN_RECV:
		return twt_play_recv(play, rank, run, index);
	case TWI_PLAN_SYNC:
		return twt_play_sync(play, rank, run, index);
	case TWI_PLAN_COPY:
		memcpy(twt_play_at(play, rank, run, &refs[0]),
		       twt_play_at(play, rank, run, &refs[1]), step->bytes);
		break;
	case TWI_PLAN_ZERO:
		memset(twt_play_at(play, rank, run, &refs[0]), 0, step->bytes);
		break;
	default:
		twt_play_reduce(play, rank, run, step);
	}
	twt_play_complete(run, index);
	return true;
}

/* The rank is through; from a barrier nobody comes before all have come to it. */
static bool twt_play_leave(struct twt_play *play, struct twt_play_rank *rank)
{
	rank->left = true;
	twt_play_caller(play, rank, true);
	for (uint32_t i = 0; rank->what->kind == TWI_COLL_BARRIER && i < play->n; i++)
		if (!play->ranks[i].entered)
			return TWT_PLAY_WRONG(play,
					      "a rank leaves the barrier before rank %u "
					      "enters it",
					      i);
	return true;
}

/* Moves anything of a run on. */
static bool twt_play_on(struct twt_play *play, struct twt_play_rank *rank, struct twt_play_run *run)
{
	uint32_t steps = run->end - run->begin;
	uint64_t start = steps ? twt_random_below(&play->random, steps) : 0;

	if (!run->live)
		return false;
	if (run->left == 0) {
		twt_play_release(play, rank, run);
		return twt_play_stage(play, rank, run);
	}
	for (uint32_t i = 0; i < steps; i++) {
		uint32_t index = run->begin + (uint32_t)((start + i) % steps);

		if (run->states[index] < 2 && twt_play_step(play, rank, run, index))
			return true;
		if (play->wrong[0])
			return false;
	}
	return false;
}

static bool twt_play_turn(struct twt_play *play, struct twt_play_rank *rank)
{
	uint32_t depth = rank->plan->depth;
	uint64_t start = twt_random_below(&play->random, depth);

	if (rank->late > 0)
		return rank->late--;
	if (!rank->entered) {
		rank->entered = true;
		twt_play_caller(play, rank, false);
		return true;
	}
	if (!rank->left && rank->live == 0 && rank->program == rank->plan->program_count)
		return twt_play_leave(play, rank);
	if (twt_random_below(&play->random, 3) == 0 && twt_play_start(play, rank))
		return true;
	for (uint32_t i = 0; i < depth && !play->wrong[0]; i++)
		if (twt_play_on(play, rank, &rank->runs[(start + i) % depth]))
			return true;
	return !play->wrong[0] && twt_play_start(play, rank);
}

static bool twt_play_over(struct twt_play *play)
{
	for (uint32_t i = 0; i < play->n; i++) {
		struct twt_play_rank *rank = &play->ranks[i];

		if (rank->live > 0 || rank->program < rank->plan->program_count)
			return TWT_PLAY_WRONG(play, "rank %u is stuck in program %u", i,
					      rank->program);
		if (rank->inbox_n > 0)
			return TWT_PLAY_WRONG(play, "rank %u never receives %u messages", i,
					      rank->inbox_n);
		if (rank->syncs !=
		    play->ranks[rank->what->locals != NULL ? rank->what->locals[0] : i].syncs)
			return TWT_PLAY_WRONG(play, "rank %u comes to %u syncs", i, rank->syncs);
		if (!twt_plan_guards_hold(&rank->memory))
			return TWT_PLAY_WRONG(play, "rank %u has written beyond a buffer", i);
	}
	return true;
}

bool twt_play_run(struct twt_play *play)
{
	for (uint32_t i = 0; i < play->n; i++)
		twt_play_caller(play, &play->ranks[i], true);
	/* What is late comes after a few looks: so many idle turns mean that nothing ever comes. */
	for (unsigned idle = 0; idle < 8 && !play->wrong[0]; idle++) {
		uint64_t start = twt_random_below(&play->random, play->n);

		for (uint32_t i = 0; i < play->n && !play->wrong[0]; i++) {
			struct twt_play_rank *rank = &play->ranks[(start + i) % play->n];

			/* The last idle turns leave nobody out. */
			if (idle < 2 && twt_random_below(&play->random, rank->entered ? 4 : 8) == 0)
				continue;
			if (twt_play_turn(play, rank))
				idle = 0;
		}
	}
	for (uint32_t i = 0; i < play->n; i++)
		twt_play_caller(play, &play->ranks[i], false);
	return !play->wrong[0] && twt_play_over(play);
}
