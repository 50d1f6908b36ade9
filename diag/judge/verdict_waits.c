/*
 * verdict_waits.c - ranks that wait for each other by messages, or for a rank that does nothing. It
 * judges the graph of waits (waits_graph.h): circles first, then the ends of chains of waits that
 * are in no circle.
 */
#include "diag/judge/waits_graph.h"

#include <stdio.h>
#include <stdlib.h>

#include <internal/base.h>

#define EDGES 4u /* of a circle, in one line of evidence */
#define WORDS 160u

/* --- text --- */

static const char *edge_words(const struct twi_waits_graph *graph, const struct twi_state_wait *row,
			      uint32_t to, char out[WORDS])
{
	unsigned long long tag = row->tag, bytes = row->bytes;
	char call[TWI_JUDGE_CALL];

	switch (row->kind) {
	case TWI_STATE_COLL:
		snprintf(out, WORDS, "in %s, which rank %u has not entered",
			 twi_judge_call(graph->judge, row->ctx, row->seq, call), to);
		break;
	case TWI_STATE_SEND:
		snprintf(out, WORDS, "to send tag %llu, %llu bytes, to rank %u", tag, bytes, to);
		break;
	case TWI_STATE_RECV:
		snprintf(out, WORDS, "to receive tag %llu from rank %u", tag, to);
		break;
	case TWI_STATE_CALL_OP:
		snprintf(out, WORDS, "for the answer to a call of rank %u", to);
		break;
	case TWI_STATE_PUSH:
		snprintf(out, WORDS, "for rank %u to read from a stream", to);
		break;
	default:
		snprintf(out, WORDS, "for rank %u to write to a stream", to);
		break;
	}
	return out;
}

static const char *manner_of(const struct twi_waits_node *node)
{
	if (node->kind == TWI_WAITS_IDLE)
		return " (in no call)";
	return node->thread ? "" : " (it polls)";
}

/* --- a message of another tag --- */

static const struct twi_state_stray *stray_from(const struct twi_rank_state *state, uint32_t rank,
						uint64_t seq)
{
	for (uint32_t i = 0; i < state->stray_count; i++) {
		if (state->strays[i].rank == rank && (seq == 0 || state->strays[i].seq == seq))
			return &state->strays[i];
	}
	return NULL;
}

/* Whether the awaited message has come, and only lacks its view or the room for one. */
static bool is_there(const struct twi_rank_state *state, const struct twi_state_wait *awaited)
{
	for (uint32_t i = 0; i < state->stray_count; i++) {
		const struct twi_state_stray *stray = &state->strays[i];

		if (stray->rank == awaited->rank && stray->tag == awaited->tag &&
		    stray->channel == awaited->ctx)
			return true;
	}
	return false;
}

/*
 * How sure it is that the awaited message is still at its sender for want of credit. Messages that
 * lie here unreceived then use all credit. 0: that is not so. A state has eight messages at most,
 * so the awaited one may be missing in a full state. A sender to which the asker had to connect
 * first has answered only once.
 */
static double lacks_credit(const struct twi_verdict_rank *sender, uint32_t here,
			   const struct twi_state_wait *awaited)
{
	const struct twi_state_link *last = twi_rank_state_link(sender->last, here);
	const struct twi_state_link *first = twi_rank_state_link(sender->first, here);

	if (last == NULL || (last->flags & TWI_LINK_NO_CREDIT) == 0 ||
	    (first != NULL && (first->flags & TWI_LINK_NO_CREDIT) == 0))
		return 0;
	for (uint32_t i = 0; i < sender->last->message_count; i++) {
		const struct twi_state_wait *sent = &sender->last->messages[i];

		if (sent->kind == TWI_STATE_SEND && sent->stage == TWI_STATE_QUEUED &&
		    sent->rank == here && sent->tag == awaited->tag && sent->ctx == awaited->ctx)
			return 0.9;
	}
	return sender->last->message_count == TWI_STATE_MESSAGES ? 0.6 : 0;
}

static bool blame_credit(const struct twi_waits_graph *graph, const struct twi_waits_node *node,
			 const struct twi_state_wait *row, const struct twi_waits_node *from,
			 const struct twi_state_stray *stray)
{
	double confidence = lacks_credit(from->rank, node->rank->rank, row);
	uint32_t here = node->rank->rank, there = from->rank->rank;
	char time[24];

	if (confidence <= 0)
		return false;
	twi_judge_blame(graph->judge, TWI_CAUSE_CREDIT, here, confidence,
			"rank %u has waited for %s to receive tag %llu from rank %u, which has "
			"no credit to send to it: it holds messages that no receive takes, one "
			"with tag %llu, %llu bytes",
			here, twi_judge_time(node->age_ns, time), (unsigned long long)row->tag,
			there, (unsigned long long)stray->tag, (unsigned long long)stray->bytes);
	graph->judge->out->stuck = true;
	return true;
}

/*
 * Blames both ranks if `node` waits to receive from a rank, and a message of that rank lies here
 * that no receive takes. It is not known which of the two has the wrong tag.
 */
static bool blame_tag(const struct twi_waits_graph *graph, const struct twi_waits_node *node,
		      const struct twi_state_wait *row, const struct twi_waits_node *from)
{
	struct twi_judge *judge = graph->judge;
	uint32_t here = node->rank->rank, there = from->rank->rank;
	const struct twi_state_stray *stray;
	struct twi_verdict_finding *finding;
	char time[24];

	if (row->kind != TWI_STATE_RECV || !twi_waits_tells(node->rank) ||
	    is_there(node->rank->last, row))
		return false;
	stray = stray_from(node->rank->last, there, 0);
	if (stray == NULL || stray_from(node->rank->first, there, stray->seq) == NULL)
		return false;
	if (blame_credit(graph, node, row, from, stray))
		return true;
	finding = twi_judge_finding(judge, TWI_CAUSE_OTHER_TAG, from->knotted ? 0.85 : 0.75);
	if (finding->rank_count + 2 <= TWI_FINDING_RANKS) {
		if (!twi_judge_blames(judge, here))
			finding->ranks[finding->rank_count++] = here;
		if (!twi_judge_blames(judge, there))
			finding->ranks[finding->rank_count++] = there;
	}
	twi_judge_add(judge, TWI_CAUSE_OTHER_TAG,
		      "rank %u has waited for %s%s to receive tag %llu from rank %u; a message "
		      "of that rank with tag %llu, %llu bytes, has come, and no receive takes "
		      "it%s",
		      here, twi_judge_time(node->age_ns, time), manner_of(node),
		      (unsigned long long)row->tag, there, (unsigned long long)stray->tag,
		      (unsigned long long)stray->bytes,
		      row->ctx != stray->channel ? "; it came by another channel or group" : "");
	judge->out->stuck = true;
	return true;
}

/* --- circles --- */

static void add_edges(const struct twi_waits_graph *graph, uint32_t at, uint32_t length)
{
	for (uint32_t done = 0; done < length;) {
		char line[TWI_FINDING_TEXT], words[WORDS], time[24];
		size_t used = 0;

		for (uint32_t i = 0; i < EDGES && done < length; i++, done++) {
			const struct twi_waits_node *node = &graph->nodes[at];
			const struct twi_state_wait *row = NULL;
			uint32_t to = twi_waits_next(graph, node, &row);

			used += (size_t)snprintf(
				line + used, sizeof(line) - used, "%s%u has waited for %s%s %s",
				i == 0 ? "rank " : "; rank ", node->rank->rank,
				twi_judge_time(node->age_ns, time), manner_of(node),
				edge_words(graph, row, graph->nodes[to].rank->rank, words));
			used = twi_min(used, sizeof(line) - 1);
			at = to;
		}
		twi_judge_add(graph->judge, TWI_CAUSE_DEADLOCK, "%s", line);
	}
}

/* Blames nodes of a circle that are in no call: they may be doing something else. */
static bool blame_idle(const struct twi_waits_graph *graph, uint32_t at, uint32_t length)
{
	bool any = false;

	for (uint32_t i = 0; i < length; i++) {
		const struct twi_waits_node *node = &graph->nodes[at];
		const struct twi_state_wait *row = NULL;
		uint32_t to = twi_waits_next(graph, node, &row);
		const struct twi_waits_node *next = &graph->nodes[to];
		char words[WORDS], time[24];

		if (node->kind == TWI_WAITS_BLOCKED && next->kind == TWI_WAITS_IDLE) {
			twi_judge_blame(graph->judge, TWI_CAUSE_ABSENT, next->rank->rank, 0.7,
					"rank %u has waited for %s%s %s, which is in no call of "
					"the library, and has %u operations under way",
					node->rank->rank, twi_judge_time(node->age_ns, time),
					manner_of(node),
					edge_words(graph, row, next->rank->rank, words),
					next->row_count);
			any = true;
		}
		at = to;
	}
	return any;
}

static void blame_circle(const struct twi_waits_graph *graph, uint32_t at, uint32_t length)
{
	struct twi_verdict_finding *finding;
	double sure = 0.95;

	for (uint32_t i = 0, here = at; i < length; i++) {
		const struct twi_waits_node *node = &graph->nodes[here];
		const struct twi_state_wait *row = NULL;
		uint32_t to = twi_waits_next(graph, node, &row);

		if (blame_tag(graph, node, row, &graph->nodes[to]))
			return;
		sure = twi_min(sure, node->kind == TWI_WAITS_IDLE ? 0.6
				     : node->thread               ? 0.95
								  : 0.9);
		here = to;
	}
	graph->judge->out->stuck = true;
	if (blame_idle(graph, at, length))
		return;
	finding = twi_judge_finding(graph->judge, TWI_CAUSE_DEADLOCK, sure);
	for (uint32_t i = 0, here = at; i < length; i++) {
		const struct twi_state_wait *row;

		if (finding->rank_count < TWI_FINDING_RANKS)
			finding->ranks[finding->rank_count++] = graph->nodes[here].rank->rank;
		here = twi_waits_next(graph, &graph->nodes[here], &row);
	}
	add_edges(graph, at, length);
}

/* Follows the first row of each knotted node, until the path meets itself or an earlier path. */
static void judge_knots(struct twi_waits_graph *graph)
{
	for (uint32_t i = 0; i < graph->count; i++) {
		const struct twi_state_wait *row;
		uint32_t at = i, length = 0;

		while (graph->nodes[at].knotted && graph->nodes[at].mark == 0) {
			graph->nodes[at].mark = i + 1;
			at = twi_waits_next(graph, &graph->nodes[at], &row);
		}
		if (!graph->nodes[at].knotted || graph->nodes[at].mark != i + 1)
			continue;
		for (uint32_t here = at; length == 0 || here != at; length++)
			here = twi_waits_next(graph, &graph->nodes[here], &row);
		blame_circle(graph, at, length);
	}
}

/* --- ends of chains --- */

static bool no_credit(const struct twi_waits_node *node, const struct twi_state_wait *row,
		      uint32_t to)
{
	const struct twi_state_link *first = twi_rank_state_link(node->rank->first, to);
	const struct twi_state_link *last = twi_rank_state_link(node->rank->last, to);

	return row->kind == TWI_STATE_SEND && first != NULL && last != NULL &&
	       (first->flags & last->flags & TWI_LINK_NO_CREDIT) != 0;
}

static enum twi_cause cause_of(const struct twi_waits_graph *graph,
			       const struct twi_waits_node *node, const char **does_out)
{
	const struct twi_rank_state *state = node->rank->last;
	char quota[TWI_JUDGE_QUOTA];
	struct twi_starved cpu;

	if (state->pool_waiters > 0) {
		*does_out = "which waits for room in its pool";
		return TWI_CAUSE_POOL;
	}
	if (twi_waits_short(state)) {
		*does_out = "which waits for a copy with its device";
		return TWI_CAUSE_DEVICE;
	}
	twi_judge_starved(graph->judge, node->rank, node->rank->first->now_ns, state->now_ns, &cpu);
	if (cpu.own >= 0.5) {
		*does_out = "which wants a CPU and has none";
		return twi_judge_denied(node->rank, cpu.waited, quota);
	}
	*does_out = node->kind == TWI_WAITS_IDLE
			    ? "which is in no call of the library, and has messages under way"
			    : "which is in no call of the library, and has nothing under way";
	return TWI_CAUSE_ABSENT;
}

static void blame_end(const struct twi_waits_graph *graph, const struct twi_waits_node *node,
		      const struct twi_state_wait *row, const struct twi_waits_node *end)
{
	uint32_t rank = end->rank->rank;
	const char *does;
	enum twi_cause cause = cause_of(graph, end, &does);
	double sure = node->kind == TWI_WAITS_IDLE ? 0.6 : end->kind == TWI_WAITS_IDLE ? 0.75 : 0.9;
	char words[WORDS], time[24];

	if (cause == TWI_CAUSE_ABSENT && no_credit(node, row, rank))
		return; /* twi_judge_credit blames it */
	twi_judge_blame(graph->judge, cause, rank, sure, "rank %u has waited for %s%s %s, %s",
			node->rank->rank, twi_judge_time(node->age_ns, time), manner_of(node),
			edge_words(graph, row, rank, words), does);
	graph->judge->out->stuck = true;
}

/*
 * Follows the waits from one node to the node at the end of the chain. If a node is certainly in a
 * call, its chain ends at a node that waits by callbacks or not at all.
 */
static void judge_way(struct twi_waits_graph *graph, uint32_t start)
{
	const struct twi_waits_node *node = &graph->nodes[start];

	if (node->knotted || !node->judged ||
	    (node->kind != TWI_WAITS_BLOCKED && node->kind != TWI_WAITS_IDLE))
		return;
	for (uint32_t steps = 0; steps < graph->count; steps++) {
		const struct twi_state_wait *row = NULL;
		uint32_t to = twi_waits_next(graph, node, &row);
		const struct twi_waits_node *next =
			to != TWI_WAITS_NOBODY ? &graph->nodes[to] : NULL;

		if (next == NULL || next == node ||
		    twi_judge_blames(graph->judge, next->rank->rank))
			return;
		if (blame_tag(graph, node, row, next) || next->kind == TWI_WAITS_UNKNOWN)
			return;
		if (next->kind == TWI_WAITS_FREE ||
		    (next->kind == TWI_WAITS_IDLE && node->kind == TWI_WAITS_BLOCKED)) {
			blame_end(graph, node, row, next);
			return;
		}
		if (!next->judged)
			return;
		node = next;
	}
}

void twi_judge_waits(struct twi_judge *judge)
{
	struct twi_waits_graph graph;

	if (!twi_waits_open(judge, &graph))
		return; /* without memory the verdict knows less, but nothing wrong */
	twi_waits_find_knots(&graph);
	judge_knots(&graph);
	for (uint32_t i = 0; i < graph.count; i++)
		judge_way(&graph, i);
	free(graph.nodes);
}
