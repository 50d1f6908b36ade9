/*
 * replay_facts.c - the facts of a program without a pool: its peak, and what is never freed.
 */
#include <stdlib.h>

#include "memreg/sizing/replay_op.h"
#include <internal/base.h>
#include <towline/status.h>

#define UNIT  64u
#define PAGE  4096u
#define AHEAD 32    /* events of another order to prefetch */
#define SMALL 2048u /* the arena rounds up to units to this size, to pages above */

/* A block while it is live. */
struct block {
	uint64_t bytes; /* requested, plus 1 */
	uint32_t actor;
	bool late; /* allocated in the second half of the log */
};

struct survey {
	struct twi_replay *replay;
	struct block *block;  /* by slot */
	uint64_t *own, *most; /* by thread: bytes of its blocks, now and at its peak */
	uint64_t now, rounded, steps, middle_bytes, last_bytes;
};

struct twi_replay_op twi_replay_at(const struct twi_replay *replay, uint64_t position)
{
	uint32_t index = twi_replay_index(replay, position);
	const struct twi_replay_packed *op = &replay->op[index], *alloc = op;
	const struct twi_replay_actor *actor = &replay->actor[twi_replay_actor(op)];

	if (twi_replay_kind(op) == TWI_ALLOC_FREE)
		alloc = &replay->op[twi_replay_value(op)];
	return (struct twi_replay_op){
		.ns = twi_replay_ns(replay, index),
		.bytes = twi_replay_value(alloc),
		.caller = actor->caller,
		.tag = actor->tag,
		.slot = twi_replay_slot(replay, index),
		.thread = actor->thread,
		.kind = twi_replay_kind(op),
		.align_log2 = twi_replay_align_log2(op),
	};
}

static uint64_t rounded_bytes(uint64_t bytes)
{
	return twi_max(twi_align_up(bytes, UNIT), UNIT);
}

static uint64_t arena_bytes(uint64_t bytes)
{
	return bytes > SMALL ? twi_align_up(bytes, PAGE) : rounded_bytes(bytes);
}

static void survey_alloc(struct survey *survey, uint64_t position, uint32_t index)
{
	struct twi_replay *replay = survey->replay;
	const struct twi_replay_packed *op = &replay->op[index];
	uint64_t bytes = twi_replay_value(op);
	uint32_t thread = replay->actor[twi_replay_actor(op)].number;

	survey->block[twi_replay_slot(replay, index)] =
		(struct block){ bytes + 1, twi_replay_actor(op), position >= replay->count / 2 };
	survey->now += bytes;
	survey->rounded += rounded_bytes(bytes);
	survey->own[thread] += arena_bytes(bytes);
	survey->most[thread] = twi_max(survey->most[thread], survey->own[thread]);
	if (survey->rounded > replay->peak_rounded) {
		replay->peak_rounded = survey->rounded;
		replay->peak_bytes = survey->now;
		replay->peak_op = position;
	}
}

static void survey_free(struct survey *survey, uint32_t index)
{
	struct twi_replay *replay = survey->replay;
	struct block *block = &survey->block[twi_replay_slot(replay, index)];
	uint64_t bytes = block->bytes - 1;

	survey->now -= bytes;
	survey->rounded -= rounded_bytes(bytes);
	survey->own[replay->actor[block->actor].number] -= arena_bytes(bytes);
	block->bytes = 0;
}

static void survey_step(struct survey *survey)
{
	survey->steps++;
	if (survey->steps == (survey->replay->steps + 1) / 2)
		survey->middle_bytes = survey->now;
	survey->last_bytes = survey->now;
}

static void survey_all(struct survey *survey)
{
	struct twi_replay *replay = survey->replay;

	for (uint64_t i = 0; i < replay->count; i++) {
		uint32_t index = twi_replay_index(replay, i);
		uint8_t kind = twi_replay_kind(&replay->op[index]);

		if (replay->order != NULL && i + AHEAD < replay->count)
			twi_replay_ask(replay, i + AHEAD);
		if (kind == TWI_ALLOC_ALLOC)
			survey_alloc(survey, i, index);
		else if (kind == TWI_ALLOC_FREE)
			survey_free(survey, index);
		else
			survey_step(survey);
	}
	for (uint32_t slot = 0; slot < replay->slots; slot++) {
		const struct block *block = &survey->block[slot];

		if (block->bytes == 0)
			continue;
		replay->never_freed++;
		replay->never_freed_bytes += block->bytes - 1;
		replay->late_bytes += block->late ? block->bytes - 1 : 0;
	}
	for (uint32_t i = 0; i < replay->threads_all; i++)
		replay->apart_rounded += survey->most[i];
	if (survey->steps >= 4 && survey->last_bytes > survey->middle_bytes)
		replay->step_growth_bytes = (survey->last_bytes - survey->middle_bytes) /
					    (survey->steps - (survey->steps + 1) / 2);
}

int twi_replay_survey(struct twi_replay *replay)
{
	struct survey survey = { .replay = replay };
	bool good;

	replay->peak_op = replay->peak_bytes = replay->peak_rounded = 0;
	replay->never_freed = replay->never_freed_bytes = replay->late_bytes = 0;
	replay->apart_rounded = replay->step_growth_bytes = 0;
	survey.block = calloc(replay->slots + 1u, sizeof(survey.block[0]));
	survey.own = calloc(replay->threads_all + 1u, sizeof(survey.own[0]));
	survey.most = calloc(replay->threads_all + 1u, sizeof(survey.most[0]));
	good = survey.block != NULL && survey.own != NULL && survey.most != NULL;
	if (good)
		survey_all(&survey);
	free(survey.block);
	free(survey.own);
	free(survey.most);
	return good ? TOW_OK : TOW_ENOMEM;
}
