/*
 * sim_wild.h - receives of more than one tag, and of any peer, in a simulated world (sim.h).
 */
#ifndef TWT_SIM_WILD_H
#define TWT_SIM_WILD_H

#include "sim_world.h"

/* A receive as its row says. */
static inline int sim_recv_start(struct sim_op *op, const struct tow_op_options *options)
{
	const struct sim_conn *conn = &op->world->conns[op->conn];
	const struct tow_part part = { op->data, op->bytes };
	struct tow_match match = TOW_MATCH_INIT;

	if (!op->wild)
		return tow_recv_start(conn->peers[op->side], op->data, op->bytes, op->tag, options,
				      &op->op);
	match.peer = op->any ? NULL : conn->peers[op->side];
	match.tag = op->tag;
	match.tag_mask = op->mask;
	return tow_recv_match_start(conn->endpoints[op->side], &match, &part, 1, options, &op->op);
}

/* Which message, and whose, it was that a wild receive has met. */
static inline void sim_bind(struct sim_op *op, const struct tow_result *result)
{
	struct sim_world *world = op->world;

	SIM_CHECK(world, ((result->tag ^ op->tag) & op->mask) == 0, "op %llu got tag %llu",
		  (unsigned long long)op->id, (unsigned long long)result->tag);
	op->tag = result->tag;
	SIM_CHECK(world, result->peer != NULL || (op->any && result->status != TOW_OK),
		  "op %llu is of no peer", (unsigned long long)op->id);
	for (int i = 0; op->any && i < 2 * world->conn_count; i++) {
		if (world->conns[i / 2].peers[i % 2] != result->peer)
			continue;
		op->conn = i / 2;
		op->side = i % 2;
	}
	sim_wild += result->status == TOW_OK;
}

#endif
