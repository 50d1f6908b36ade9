/*
 * coll_sim.h - ranks that are simulated: all in one runtime, on the loop lane, with a virtual clock
 * and a network that delays, stalls, cuts writes short, and breaks streams which then resume.
 */
#ifndef TWT_COLL_SIM_H
#define TWT_COLL_SIM_H

#include "coll_batch.h"

#include <errno.h>

#include "transport/engine/runtime.h"
#include "transport/sim/group_sim.h"
#include "transport/sim/loop_sim.h"

#define TWT_SIM_COLORS (TWT_COLL_LISTS - 1)
/* Virtual: longer than anything can take that is still under way. */
#define TWT_SIM_WAIT_NS 600000000000ull

struct twt_coll_sim {
	uint64_t seed, random;
	uint32_t n, colors;
	char (*addresses)[TOW_ADDRESS_MAX];
	struct tow_group **world, **part; /* part: of the rank's colour */
	struct tow_options options;
	struct twi_loop_config network;
	struct twt_coll_batch batch;
};

uint64_t twt_sim_below(struct twt_coll_sim *sim, uint64_t bound);

/* What lies between many ranks is the same for all bytes: an instant costs a look at all links. */
void twt_sim_network(struct twt_coll_sim *sim);

void twt_sim_knobs(struct twt_coll_sim *sim);

/* sim->n, ->options and ->network are there. */
void twt_sim_open(struct twt_coll_sim *sim);

void twt_sim_close(struct twt_coll_sim *sim);

#endif
