/*
 * sim_world.h - what a simulated world is made of (sim.h): links, operations, what is counted of
 * all seeds, and how a fault is told.
 */
#ifndef TWT_SIM_WORLD_H
#define TWT_SIM_WORLD_H

#include "twt.h"

#include <errno.h>
#include <string.h>

#include <towline/towline.h>

#include "memreg/pool/pool.h"
#include "transport/engine/runtime.h"
#include "transport/op/op.h"
#include "transport/sim/loop_sim.h"

#define SIM_ENDPOINTS 4
#define SIM_CONNS     4
#define SIM_TAGS      3
#define SIM_SPACES    2
#define SIM_OPS       1200

enum sim_end { SIM_OPEN, SIM_ENDED, SIM_UNKNOWN };

struct sim_world;

struct sim_op {
	struct sim_world *world;
	struct tow_op *op; /* NULL: released, or never started */
	int conn, side;    /* the side that started it */
	bool send, pool, callback, asked_cancel, timed;
	bool truncate; /* a receive that takes what fits */
	bool wild;     /* one of some tags, */
	bool any; /* and perhaps of any peer of its endpoint; bound: of that which it has met */
	uint64_t mask;
	enum sim_end end;
	int status;
	uint8_t space;
	uint64_t id, tag, bytes, got, dropped, rpc, deadline_ns;
	uint8_t *data;
	struct sim_op *met; /* a receive's send, a send's receive */
	uint8_t head[8];    /* a receive's first bytes */
};

struct sim_conn {
	struct tow_peer *peers[2];
	struct tow_endpoint *endpoints[2];
	bool closed[2];
};

struct sim_world {
	uint64_t seed, random, log;
	bool closing, bursts, cancels, deadlines, closes, unknowns, callbacks_start;
	bool spaces, corrupts, cuts, masks, draining, busy;
	uint64_t eager_max, credit, bytes_max;
	struct tow_runtime *runtime;
	struct twi_engine *engine;
	struct tow_endpoint *endpoints[SIM_ENDPOINTS];
	struct tow_endpoint *nowhere;
	struct tow_op *clock; /* an accept that nobody meets: waiting for it lets time pass */
	int endpoint_count, conn_count;
	struct sim_conn conns[SIM_CONNS];
	struct sim_op ops[SIM_OPS];
	int op_count;
};

/* Statuses of all operations of all seeds, and what the network did. */
static uint64_t sim_counts[2][32];
static uint64_t sim_breaks, sim_corruptions, sim_announced, sim_too_early, sim_early, sim_dropped;
static uint64_t sim_wild;

#define SIM_FAIL(world, ...)                                                                       \
	do {                                                                                       \
		fprintf(stderr, "%s:%d: seed %llu: ", __FILE__, __LINE__,                          \
			(unsigned long long)(world)->seed);                                        \
		fprintf(stderr, __VA_ARGS__);                                                      \
		fprintf(stderr, "\nreplay: TOW_TEST_SEED=%llu %s\n",                               \
			(unsigned long long)(world)->seed, program_invocation_name);               \
		abort();                                                                           \
	} while (0)

#define SIM_CHECK(world, cond, ...)                                                                \
	do {                                                                                       \
		if (!(cond))                                                                       \
			SIM_FAIL(world, __VA_ARGS__);                                              \
	} while (0)

static inline uint64_t sim_below(struct sim_world *world, uint64_t bound)
{
	return twt_random_below(&world->random, bound);
}

static inline bool sim_chance(struct sim_world *world, unsigned permille)
{
	return sim_below(world, 1000) < permille;
}

#endif
