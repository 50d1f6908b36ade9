/*
 * plan_play.h - plays the plans of all ranks of one case together, on plain arrays, in a random
 * legal order: which rank goes on, which of its runs, which step of the stage, when a message is
 * delivered, and when between its start and its end a step looks at memory, all come from a seed.
 *
 *	twt_play_init(&play, cases, plans, n, seed);     a case and a plan for each rank
 *	...fill play.ranks[r].memory.at[TWI_PLAN_IN]...
 *	if (!twt_play_run(&play)) ...play.wrong says what...
 *	twt_play_fini(&play);
 *
 * A stage holds what its steps read and write until it ends; a step that touches what another of
 * the stage, of another run or of another rank has in hand to write is an error, whatever the
 * order. With half of the seeds a message leaves its sender only when its receiver has come to the
 * RECV.
 */
#ifndef TWT_PLAN_PLAY_H
#define TWT_PLAN_PLAY_H

#include "plan_memory.h"

struct twt_play_hold {
	const unsigned char *at;
	uint64_t bytes;
	bool writes;
	uint32_t rank, run, step;
};

/* A run under way. */
struct twt_play_run {
	bool live;
	uint32_t program, k, number; /* numbered through all programs */
	uint32_t begin, end;         /* steps of the present stage */
	uint32_t left;               /* of them */
	unsigned char *states;       /* of all steps: 0, 1 started, 2 complete */
};

struct twt_play_message {
	uint32_t from, run, tag, late;
	uint64_t bytes;
	unsigned char *data;         /* what was captured; NULL: the sender still has it */
	struct twt_play_run *sender; /* then */
	uint32_t step;
	const unsigned char *source;
};

struct twt_play_rank {
	const struct twi_plan_case *what;
	const struct twi_plan *plan;
	struct twt_plan_memory memory;
	struct twt_play_run *runs;         /* plan->depth */
	uint32_t program, k, number, live; /* the next run; how many are under way */
	uint32_t syncs;                    /* come to */
	bool entered, left;
	uint64_t late;            /* turns until it enters */
	unsigned char *caller[2]; /* IN and OUT as they were at the start, then at the end */
	struct twt_play_message *inbox;
	uint32_t inbox_n, inbox_room;
	struct twt_play_hold *holds; /* on memory of this rank */
	uint32_t holds_n, holds_room;
};

struct twt_play {
	struct twt_play_rank *ranks;
	uint32_t n;
	uint64_t random;
	bool rendezvous;
	uint64_t messages, bytes; /* sent by all */
	char wrong[256];          /* "": nothing */
};

#define TWT_PLAY_WRONG(play, ...)                                                                  \
	((void)snprintf((play)->wrong, sizeof((play)->wrong), __VA_ARGS__), false)

void twt_play_init(struct twt_play *play, const struct twi_plan_case *cases,
		   struct twi_plan *const *plans, uint32_t n, uint64_t seed);

void twt_play_fini(struct twt_play *play);

/* Swaps the buffers with what the caller has: its data, or rubbish. */
void twt_play_caller(struct twt_play *play, struct twt_play_rank *rank, bool save);

/* Grows `array` to hold one more. */
#define TWT_PLAY_GROW(array, n, room)                                                              \
	do {                                                                                       \
		if ((n) == (room)) {                                                               \
			(room) = (room) ? (room)*2 : 8;                                            \
			(array) = realloc((array), (room) * sizeof(*(array)));                     \
			assert_non_null(array);                                                    \
		}                                                                                  \
	} while (0)

unsigned char *twt_play_at(const struct twt_play *play, const struct twt_play_rank *rank,
			   const struct twt_play_run *run, const struct twi_plan_ref *ref);

/* Takes what one step reads and writes, until its stage ends. */
bool twt_play_hold_step(struct twt_play *play, struct twt_play_rank *rank, struct twt_play_run *run,
			uint32_t index);

/* A RECV writes when its message comes, and that is after what its sender did before. */
bool twt_play_hold(struct twt_play *play, struct twt_play_rank *rank, struct twt_play_run *run);

/* The stage is over. */
void twt_play_release(struct twt_play *play, struct twt_play_rank *rank, struct twt_play_run *run);

#include "plan_play_steps.h"

#endif
