/*
 * loop_sim.c - see loop_sim.h.
 */
#include "transport/sim/loop_sim.h"

#include "transport/engine/engine.h"

static struct twi_loop_lane *lane_of(const struct twi_engine *engine)
{
	return (struct twi_loop_lane *)(void *)engine->lanes[TWI_LANE_LOOP];
}

void twi_loop_configure(struct twi_engine *engine, const struct twi_loop_config *config)
{
	struct twi_loop_lane *lane;

	twi_engine_enter(engine);
	lane = lane_of(engine);
	lane->config = *config;
	lane->random = config->seed;
	if (config->pipe_bytes == 0)
		lane->config.pipe_bytes = TWI_LOOP_PIPE_BYTES;
	lane->config.channels = twi_max(1u, twi_min(config->channels, TWI_BULK_MAX));
	lane->config.pipe_bytes = twi_min(lane->config.pipe_bytes, TWI_LOOP_PIPE_BYTES_MAX);
	twi_engine_leave(engine);
}

uint64_t twi_loop_faults(struct twi_engine *engine)
{
	return lane_of(engine)->faults;
}

uint64_t twi_loop_corrupted(struct twi_engine *engine)
{
	return lane_of(engine)->corrupted;
}

uint64_t twi_loop_breaks(struct twi_engine *engine)
{
	return lane_of(engine)->breaks;
}

uint64_t twi_loop_early(struct twi_engine *engine)
{
	return lane_of(engine)->early;
}
