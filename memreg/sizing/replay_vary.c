/*
 * replay_vary.c - makes the threads of another order early and late; replay_vary.h has the concept.
 *
 *   delay at a time = on the line between two knots, so that a thread keeps its own order
 */
#include <stdlib.h>

#include "diag/base/hash.h"
#include "memreg/sizing/replay_op.h"
#include "memreg/sizing/replay_vary.h"
#include <internal/base.h>
#include <towline/status.h>

#define LATE_PART  64 /* no delay is longer than the program's time by this */
#define LATE_KNOTS 4  /* distance of knots, in units of the longest delay */

/* The representative of the threads that share work. It shortens the path on the way. */
static uint32_t work_of(uint32_t *work, uint32_t number)
{
	while (work[number] != number) {
		work[number] = work[work[number]];
		number = work[number];
	}
	return number;
}

static void find_works(const struct twi_replay *replay, uint32_t *work)
{
	for (uint32_t i = 0; i < replay->threads_all; i++)
		work[i] = i;
	for (uint64_t i = 0; i < replay->count; i++) {
		const struct twi_replay_packed *op = &replay->op[i], *made;
		uint32_t freer, maker;

		if (twi_replay_kind(op) != TWI_ALLOC_FREE)
			continue;
		made = &replay->op[twi_replay_value(op)];
		freer = replay->actor[twi_replay_actor(op)].number;
		maker = replay->actor[twi_replay_actor(made)].number;
		if (freer != maker)
			work[work_of(work, freer)] = work_of(work, maker);
	}
	/* A thread's call may take the library's memory for another thread: all share work. */
	for (uint32_t i = 0; i < replay->actors; i++) {
		if (replay->actor[i].tag != TWI_ALLOC_TAG_LIBRARY)
			continue;
		for (uint32_t k = 0; k < replay->threads_all; k++)
			work[work_of(work, k)] = work_of(work, replay->actor[i].number);
		return;
	}
}

static uint64_t draw_word(const struct twi_replay_variation *vary, uint64_t what, uint64_t which)
{
	return twi_hash_word(twi_hash_spread(vary->seed) + what * 0x9e3779b97f4a7c15u + which);
}

static void draw_paces(struct twi_replay_variation *vary, const struct twi_replay *replay,
		       uint32_t permille, uint64_t span_ns, uint32_t *work)
{
	uint64_t share = span_ns / 1000 * permille;

	for (uint32_t i = 0; i < replay->threads_all; i++) {
		uint64_t r = draw_word(vary, 0, work_of(work, i));
		double off = (double)(r >> 40) / (1 << 24) - 0.5;

		vary->thread[i].pace = 1.0 + off * 2e-3 * permille;
		vary->thread[i].start_ns = share + (share ? (r & 0xffffffff) % share : 0);
	}
}

int twi_replay_variation_init(struct twi_replay_variation *vary, const struct twi_replay *replay,
			      uint64_t seed, uint32_t permille)
{
	/* The delay of a wake-up, of a turn on a busy CPU, of some such turns. */
	static const uint64_t late_ns[] = { 200000, 1000000, 4000000 };
	uint64_t first_ns = twi_replay_ns(replay, 0);
	uint64_t span_ns = twi_replay_ns(replay, replay->count - 1) - first_ns;
	uint32_t *work = malloc(replay->threads_all * sizeof(work[0]));

	*vary = (struct twi_replay_variation){
		.seed = seed,
		.first_ns = first_ns,
		.late_ns = twi_min(late_ns[seed % twi_array_count(late_ns)], span_ns / LATE_PART),
		.thread = calloc(replay->threads_all, sizeof(vary->thread[0])),
	};
	if (work == NULL || vary->thread == NULL) {
		free(work);
		twi_replay_variation_fini(vary);
		return TOW_ENOMEM;
	}
	find_works(replay, work);
	draw_paces(vary, replay, permille, span_ns, work);
	free(work);
	return TOW_OK;
}

void twi_replay_variation_fini(struct twi_replay_variation *vary)
{
	free(vary->thread);
	vary->thread = NULL;
}

static uint64_t late_at(struct twi_replay_variation *vary, uint64_t ns, uint32_t number)
{
	struct twi_replay_pace *thread = &vary->thread[number];
	uint64_t apart = LATE_KNOTS * vary->late_ns, knot, into;

	if (apart == 0)
		return 0;
	knot = ns / apart;
	into = ns % apart;
	if (thread->knot != knot + 1) {
		thread->knot = knot + 1;
		thread->from_ns = draw_word(vary, (uint64_t)number + 1, knot) % vary->late_ns;
		thread->to_ns = draw_word(vary, (uint64_t)number + 1, knot + 1) % vary->late_ns;
	}
	return (thread->from_ns * (apart - into) + thread->to_ns * into) / apart;
}

uint64_t twi_replay_variation_time(struct twi_replay_variation *vary, uint64_t ns, uint32_t number)
{
	const struct twi_replay_pace *thread = &vary->thread[number];

	ns -= vary->first_ns;
	return thread->start_ns + (uint64_t)((double)ns * thread->pace) + late_at(vary, ns, number);
}
