/*
 * waits_graph.h - which rank waits for which by messages, for verdict_waits.c.
 *
 *	rank 3 --receives from--> rank 2 --receives from--> rank 1, in no call	rank 1 is named
 *	rank 0 --receives from--> rank 1 --receives from--> rank 0		both are
 *
 * Each rank is one node. What the rank does is one of these:
 *
 *	UNKNOWN	it has not answered twice, or something of it went on, or its wait cannot be
 *		followed. It is no culprit, and as far as is known it holds no rank up
 *	FREE	nothing is under way at the rank
 *	IDLE	messages are under way, no thread waits, and no thread of the user polls: the rank
 *		waits by callbacks, or it does something else
 *	BLOCKED	messages are under way, and a thread waits or the user polls
 *
 * A thread that waits for several operations goes on with the first that ends, and so does a rank
 * whose threads do not wait. So such a node is stuck only if all that it waits for is stuck.
 */
#ifndef TWI_WAITS_GRAPH_H
#define TWI_WAITS_GRAPH_H

#include "diag/judge/verdict_parts.h"

#define TWI_WAITS_NOBODY  UINT32_MAX
#define TWI_WAITS_HELD_NS 300000000ull

enum twi_waits_kind { TWI_WAITS_UNKNOWN, TWI_WAITS_FREE, TWI_WAITS_IDLE, TWI_WAITS_BLOCKED };

struct twi_waits_node {
	const struct twi_verdict_rank *rank;
	enum twi_waits_kind kind;
	bool thread;   /* if BLOCKED: a thread waits; false: the user polls */
	bool judged;   /* it has waited for long enough */
	bool knotted;  /* it waits for knotted nodes only */
	uint32_t mark; /* number of the walk that came here last */
	uint64_t age_ns;
	/* Waits or messages of its last state. The node goes on when the first of them ends. */
	const struct twi_state_wait *rows;
	uint32_t row_count;
	uint64_t since_ns; /* start of the waits that count, if `rows` are waits */
};

struct twi_waits_graph {
	struct twi_judge *judge;
	uint32_t count;
	struct twi_waits_node *nodes; /* in the order of the case's ranks */
};

/* Makes the nodes of all ranks. The caller gives `nodes` to free(). False: no memory. */
bool twi_waits_open(struct twi_judge *judge, struct twi_waits_graph *out);

/* The rank stands still because it waits for room in its pool, or for a device. */
bool twi_waits_short(const struct twi_rank_state *state);

/* Messages and strays are known of both looks. */
bool twi_waits_tells(const struct twi_verdict_rank *rank);

/* Sets `knotted` of the nodes that wait for each other and for no other node. */
void twi_waits_find_knots(struct twi_waits_graph *graph);

/*
 * The node that `node` waits for, and the row that says so. If `node` is knotted, the first row
 * decides; else all rows must name the same node. TWI_WAITS_NOBODY: they differ, or it is not
 * known.
 */
uint32_t twi_waits_next(const struct twi_waits_graph *graph, const struct twi_waits_node *node,
			const struct twi_state_wait **row_out);

#endif
