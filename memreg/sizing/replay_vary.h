/*
 * replay_vary.h - the times of events when a program's threads run in another order; replay.h says
 * what may differ.
 *
 * Threads that share no work run at any pace: each has its own pace, and its own start. Two threads
 * share work if one frees what the other has allocated. The library belongs to them, because its
 * memory depends on what the threads do. All of these keep one pace. Each of them is only late by
 * the time that a scheduler or the peer may cost, which changes.
 */
#ifndef TWI_REPLAY_VARY_H
#define TWI_REPLAY_VARY_H

#include "memreg/sizing/replay.h"

/* How one thread's times change. */
struct twi_replay_pace {
	double pace;
	uint64_t start_ns;
	uint64_t knot, from_ns, to_ns; /* delay at this knot, counted from 1, and at the next one */
};

struct twi_replay_variation {
	uint64_t seed, first_ns, late_ns;
	struct twi_replay_pace *thread; /* by number */
};

/* TOW_OK; TOW_ENOMEM, and then there is nothing to end. */
int twi_replay_variation_init(struct twi_replay_variation *vary, const struct twi_replay *replay,
			      uint64_t seed, uint32_t permille);
void twi_replay_variation_fini(struct twi_replay_variation *vary);

/* The new time of an event of the thread `number` whose recorded time is `ns`. */
uint64_t twi_replay_variation_time(struct twi_replay_variation *vary, uint64_t ns, uint32_t number);

#endif
