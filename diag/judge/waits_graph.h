/*
 * waits_graph.h - which rank waits for which by messages, for verdict_waits.c.
 *
 *	rank 3 --receives from--> rank 2 --receives from--> rank 1, in no call	rank 1 is named
 *	rank 0 --receives from--> rank 1 --receives from--> rank 0		both are
 *
 * Each rank is one node, and what it does is one of these:
 *
 *	UNKNOWN	it has not answered twice, or something of it went on, or it waits for what cannot
 *		be followed: it is nobody's culprit, and holds nobody up as far as is known
 *	FREE	nothing is under way there
 *	IDLE	messages are under way, no thread waits, and no thread of the user's polls: it waits
 *		by callbacks, or it does something else
 *	BLOCKED	a thread waits, or the user polls, and messages are under way
 *
 * A thread in a wait for several operations, and a rank without one, go on with the first that
 * ends: such a node is stuck only if all that it waits for is.
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
	bool thread;   /* blocked: a thread waits; else the user polls */
	bool judged;   /* it has waited for long enough */
	bool knotted;  /* it waits for none but knotted ones */
	uint32_t mark; /* of the walk that came here last */
	uint64_t age_ns;
	/* What it goes on with the first of: of waits or messages of its last state. */
	const struct twi_state_wait *rows;
	uint32_t row_count;
	uint64_t since_ns; /* of waits: of those that count */
};

struct twi_waits_graph {
	struct twi_judge *judge;
	uint32_t count;
	struct twi_waits_node *nodes; /* in the order of the case's ranks */
};

/* Makes nodes of all ranks; they go to free(). False: no memory. */
bool twi_waits_open(struct twi_judge *judge, struct twi_waits_graph *out);

/* It stands still for want of room in its pool, or of a device. */
bool twi_waits_short(const struct twi_rank_state *state);

/* Both looks have messages and strays. */
bool twi_waits_tells(const struct twi_verdict_rank *rank);

/* Knots: `knotted` is set of all that wait for nobody else. */
void twi_waits_find_knots(struct twi_waits_graph *graph);

/*
 * The node whom it waits for, and the row that says so: in a knot the one of its first row; else
 * the one of all rows. TWI_WAITS_NOBODY: there are several, or it is not known.
 */
uint32_t twi_waits_next(const struct twi_waits_graph *graph, const struct twi_waits_node *node,
			const struct twi_state_wait **row_out);

#endif
