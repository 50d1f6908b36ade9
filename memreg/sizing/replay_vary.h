/*
 * replay_vary.h - when a program's threads do in another order what they did in the log; replay.h
 * has what may differ.
 *
 * Threads that have nothing to do with each other run at any pace: each has one of its own, and its
 * own start. Those of which one frees what the other has allocated are at the same work, and so is
 * the library, whose memory comes and goes by what the threads do: all of them keep one pace, and
 * each is only late by what a scheduler or the other side may cost, now more, now less.
 */
#ifndef TWI_REPLAY_VARY_H
#define TWI_REPLAY_VARY_H

#include "memreg/sizing/replay.h"

/* How one thread is moved. */
struct twi_replay_pace {
	double pace;
	uint64_t start_ns;
	uint64_t knot, from_ns, to_ns; /* how late at this knot, counted from 1, and at the next */
};

struct twi_replay_variation {
	uint64_t seed, first_ns, late_ns;
	struct twi_replay_pace *thread; /* by number */
};

/* TOW_OK; TOW_ENOMEM, and then there is nothing to end. */
int twi_replay_variation_init(struct twi_replay_variation *vary, const struct twi_replay *replay,
			      uint64_t seed, uint32_t permille);
void twi_replay_variation_fini(struct twi_replay_variation *vary);

/* The time at which the thread with this number does what it did at `ns`. */
uint64_t twi_replay_variation_time(struct twi_replay_variation *vary, uint64_t ns, uint32_t number);

#endif
