/*
 * waits_graph.c - what each rank does, and which rank it waits for. See waits_graph.h.
 */
#include "diag/judge/waits_graph.h"

#include <stdlib.h>

#include <internal/base.h>

#define MS_NS      1000000ull
#define WAITED_NS  (600 * MS_NS)   /* least wait of a thread */
#define POLLED_NS  (3000 * MS_NS)  /* least age of messages under way, if no thread waits */
#define UNTRIED_NS (10000 * MS_NS) /* the same, while the usual time is not known */
#define TRIED      16u             /* operations after which the usual time is known */
#define SPIN_NS    (100 * 1000)    /* most time between two polls of a thread that only polls */

/* --- what a rank does --- */

static bool group_moved(const struct twi_verdict_rank *rank)
{
	for (uint32_t i = 0; i < rank->last->group_count; i++) {
		const struct twi_state_group *last = &rank->last->groups[i];
		const struct twi_state_group *first = twi_rank_state_group(rank->first, last->ctx);

		if (first == NULL || first->last_seq != last->last_seq ||
		    first->in_flight != last->in_flight)
			return true;
	}
	return false;
}

bool twi_waits_tells(const struct twi_verdict_rank *rank)
{
	return rank->first->tells != 0 && rank->last->tells != 0;
}

static uint64_t polls_of(const struct twi_verdict_rank *rank)
{
	return twi_since(rank->last->polls, rank->first->polls);
}

/* Whether the rank is on a CPU for half of the time, and does not spend that time polling. */
static bool rank_computes(const struct twi_verdict_rank *rank)
{
	uint64_t window = twi_since(rank->last->now_ns, rank->first->now_ns);

	return rank->first->thread == rank->last->thread &&
	       twi_since(rank->last->on_cpu_ns, rank->first->on_cpu_ns) >= window / 2 &&
	       polls_of(rank) < window / SPIN_NS;
}

/* The usual time of a step, or of a long operation, at the rank. */
static uint64_t usual_of(const struct twi_verdict_rank *rank)
{
	uint64_t usual = rank->last->usual_ns;

	for (uint32_t i = 0; i < rank->last->group_count; i++)
		usual = twi_max(usual, twi_judge_usual(&rank->last->groups[i]));
	return twi_min(usual, UINT64_MAX / 4);
}

static uint64_t patience_of(const struct twi_verdict_rank *rank, bool thread)
{
	uint64_t usual = usual_of(rank);
	bool known = usual > 0 || rank->last->ended >= TRIED;
	uint64_t least = thread ? (known ? WAITED_NS : POLLED_NS) : known ? POLLED_NS : UNTRIED_NS;

	return twi_max(least, usual + usual / 2);
}

/* Takes the thread that began to wait last, of those that wait for long. The others may serve. */
static bool take_threads(struct twi_waits_node *node)
{
	const struct twi_rank_state *last = node->rank->last;
	uint64_t patience = patience_of(node->rank, true);

	for (uint32_t i = 0; i < last->wait_count; i++) {
		uint64_t since = last->waits[i].since_ns;

		if (twi_since(last->now_ns, since) >= patience && since >= node->since_ns)
			node->since_ns = since;
	}
	if (node->since_ns == 0)
		return false;
	node->rows = last->waits;
	node->row_count = last->wait_count;
	node->thread = node->judged = true;
	node->age_ns = twi_since(last->now_ns, node->since_ns);
	return true;
}

/* Takes all messages under way; the youngest one counts. */
static void take_messages(struct twi_waits_node *node)
{
	const struct twi_rank_state *last = node->rank->last;

	node->rows = last->messages;
	node->row_count = last->message_count;
	node->age_ns = twi_since(last->now_ns, last->messages[0].since_ns);
	for (uint32_t i = 1; i < last->message_count; i++)
		node->age_ns =
			twi_min(node->age_ns, twi_since(last->now_ns, last->messages[i].since_ns));
	node->judged = node->age_ns >= patience_of(node->rank, false);
}

/* True: a thread waits for room in the pool or for a device, so its rank stands still by itself. */
bool twi_waits_short(const struct twi_rank_state *state)
{
	return (state->pool_waiters > 0 &&
		twi_since(state->now_ns, state->pool_since_ns) >= TWI_WAITS_HELD_NS) ||
	       (state->copies > 0 &&
		twi_since(state->now_ns, state->copy_since_ns) >= TWI_WAITS_HELD_NS);
}

static bool has_collective(const struct twi_rank_state *state)
{
	for (uint32_t i = 0; i < state->group_count; i++) {
		if (state->groups[i].in_flight > 0)
			return true;
	}
	return false;
}

static enum twi_waits_kind kind_of(const struct twi_judge *judge, struct twi_waits_node *node)
{
	const struct twi_verdict_rank *rank = node->rank;

	if (rank->last == NULL || rank->first == NULL || twi_judge_blames(judge, rank->rank) ||
	    group_moved(rank) || (twi_waits_tells(rank) && rank->first->ended != rank->last->ended))
		return TWI_WAITS_UNKNOWN;
	if (twi_waits_short(rank->last))
		return TWI_WAITS_FREE;
	if (take_threads(node))
		return rank_computes(rank) ? TWI_WAITS_UNKNOWN : TWI_WAITS_BLOCKED;
	if (!twi_waits_tells(rank))
		return TWI_WAITS_UNKNOWN;
	if (rank->last->message_count > 0) {
		take_messages(node);
		if (polls_of(rank) == 0 && rank->last->waiters == 0)
			return TWI_WAITS_IDLE;
		return node->judged && !rank_computes(rank) ? TWI_WAITS_BLOCKED : TWI_WAITS_UNKNOWN;
	}
	return rank->last->waiters > 0 || has_collective(rank->last) ? TWI_WAITS_UNKNOWN
								     : TWI_WAITS_FREE;
}

/* --- which rank it waits for --- */

static uint32_t index_of(const struct twi_waits_graph *graph, uint32_t rank)
{
	if (rank < graph->count && graph->nodes[rank].rank->rank == rank)
		return rank;
	for (uint32_t i = 0; i < graph->count; i++) {
		if (graph->nodes[i].rank->rank == rank)
			return i;
	}
	return TWI_WAITS_NOBODY;
}

static bool row_counts(const struct twi_waits_node *node, const struct twi_state_wait *row)
{
	return node->rows != node->rank->last->waits || row->since_ns == node->since_ns;
}

/* Whether the state may have had no room for more rows. */
static bool is_cut(const struct twi_waits_node *node)
{
	const struct twi_rank_state *last = node->rank->last;

	return node->rows == last->waits
		       ? node->row_count == TWI_STATE_WAITS && row_counts(node, &last->waits[0]) &&
				 row_counts(node, &last->waits[TWI_STATE_WAITS - 1])
		       : node->row_count == TWI_STATE_MESSAGES;
}

/* Whether the row waits for the user at the other end, not for what is between the two. */
static bool leads_on(const struct twi_state_wait *row)
{
	switch (row->kind) {
	case TWI_STATE_SEND:
		return row->stage == TWI_STATE_OFFERED || row->stage == TWI_STATE_QUEUED;
	case TWI_STATE_RECV:
		return row->stage == TWI_STATE_POSTED;
	case TWI_STATE_CALL_OP:
	case TWI_STATE_PUSH:
	case TWI_STATE_PULL:
		return true;
	default:
		return false;
	}
}

/* The first node that has not entered the collective, and for which `wanted` is true. */
static uint32_t absent_of(const struct twi_waits_graph *graph, const struct twi_state_wait *row,
			  bool (*wanted)(const struct twi_waits_node *))
{
	for (uint32_t i = 0; i < graph->count; i++) {
		const struct twi_state_group *group = twi_group_at(graph->nodes[i].rank, row->ctx);

		if (group != NULL && group->last_seq < row->seq && wanted(&graph->nodes[i]))
			return i;
	}
	return TWI_WAITS_NOBODY;
}

static bool link_broken(const struct twi_waits_node *from, uint32_t to)
{
	const struct twi_state_link *link = twi_rank_state_link(from->rank->last, to);

	return twi_judge_dials_long(from->rank, to) ||
	       (link != NULL && ((link->flags & (TWI_LINK_BROKEN | TWI_LINK_LOST)) != 0 ||
				 link->stuck_ns >= 250 * MS_NS));
}

/* The node that a row waits for. TWI_WAITS_NOBODY: not known, or `wanted` is false for it. */
static uint32_t target_of(const struct twi_waits_graph *graph, const struct twi_waits_node *node,
			  const struct twi_state_wait *row,
			  bool (*wanted)(const struct twi_waits_node *))
{
	uint32_t to;

	if (row->kind == TWI_STATE_COLL)
		return absent_of(graph, row, wanted);
	to = leads_on(row) ? index_of(graph, row->rank) : TWI_WAITS_NOBODY;
	if (to == TWI_WAITS_NOBODY || !wanted(&graph->nodes[to]) ||
	    link_broken(node, graph->nodes[to].rank->rank) ||
	    (graph->nodes[to].rank->last != NULL &&
	     link_broken(&graph->nodes[to], node->rank->rank)))
		return TWI_WAITS_NOBODY;
	return to;
}

static bool any_node(const struct twi_waits_node *node)
{
	(void)node;
	return true;
}

static bool is_knotted(const struct twi_waits_node *node)
{
	return node->knotted;
}

/* Whether all rows of the node lead to knotted nodes. */
static bool leads_to_knot(const struct twi_waits_graph *graph, const struct twi_waits_node *node)
{
	uint32_t one = TWI_WAITS_NOBODY;

	for (uint32_t i = 0; i < node->row_count; i++) {
		const struct twi_state_wait *row = &node->rows[i];
		uint32_t to;

		if (!row_counts(node, row))
			continue;
		to = target_of(graph, node, row, is_knotted);
		if (to == TWI_WAITS_NOBODY ||
		    (is_cut(node) && one != TWI_WAITS_NOBODY && to != one))
			return false;
		one = to;
	}
	return one != TWI_WAITS_NOBODY;
}

/* --- knots --- */

void twi_waits_find_knots(struct twi_waits_graph *graph)
{
	bool changed = true;

	for (uint32_t i = 0; i < graph->count; i++) {
		struct twi_waits_node *node = &graph->nodes[i];

		node->knotted = node->judged &&
				(node->kind == TWI_WAITS_BLOCKED || node->kind == TWI_WAITS_IDLE);
	}
	while (changed) {
		changed = false;
		for (uint32_t i = 0; i < graph->count; i++) {
			struct twi_waits_node *node = &graph->nodes[i];

			if (node->knotted && !leads_to_knot(graph, node)) {
				node->knotted = false;
				changed = true;
			}
		}
	}
}

uint32_t twi_waits_next(const struct twi_waits_graph *graph, const struct twi_waits_node *node,
			const struct twi_state_wait **row_out)
{
	uint32_t one = TWI_WAITS_NOBODY;

	for (uint32_t i = 0; i < node->row_count; i++) {
		const struct twi_state_wait *row = &node->rows[i];
		uint32_t to;

		if (!row_counts(node, row))
			continue;
		to = target_of(graph, node, row, node->knotted ? is_knotted : any_node);
		if (to == TWI_WAITS_NOBODY || (one != TWI_WAITS_NOBODY && to != one))
			return TWI_WAITS_NOBODY;
		/* If a call has a stream, the row of the stream says more. */
		if (one == TWI_WAITS_NOBODY || (*row_out)->kind == TWI_STATE_CALL_OP)
			*row_out = row;
		one = to;
		if (node->knotted)
			return one;
	}
	return one;
}

/* True: another rank holds this one up, so it is not to blame for what it does not receive. */
bool twi_judge_held_up(const struct twi_judge *judge, const struct twi_verdict_rank *rank)
{
	struct twi_waits_node node = { .rank = rank };

	return kind_of(judge, &node) == TWI_WAITS_BLOCKED;
}

bool twi_waits_open(struct twi_judge *judge, struct twi_waits_graph *out)
{
	*out = (struct twi_waits_graph){ .judge = judge, .count = judge->what->rank_count };
	out->nodes = calloc(out->count + 1, sizeof(*out->nodes));
	for (uint32_t i = 0; out->nodes != NULL && i < out->count; i++) {
		out->nodes[i].rank = &judge->what->ranks[i];
		out->nodes[i].kind = kind_of(judge, &out->nodes[i]);
	}
	return out->nodes != NULL;
}
