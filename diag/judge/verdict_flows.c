/*
 * verdict_flows.c - messages of other libraries (<towline/foreign.h>): links that are slower than
 * others, and devices that take messages later than others do. For our own messages: slow links.
 *
 * The waits of messages show where the time went. They do not show by themselves which rank is to
 * blame, because waiting spreads against the direction of the data:
 *
 *	A --slow link--> B		A's sends are long on the wire: the link is named
 *	Z ----> A			A's buffers are full: its device takes nothing, so A is
 *					not ready for Z, and Z's sends wait for their peer
 *	Z ----> B, B's device is slow	messages at B wait for its device, while B's own sends
 *					wait for no other rank: B is named
 *	A ----> B, A or B is held	messages are long on their way for that: no link is named
 *	A ----> B, B comes late		messages are on their way until B comes and takes them:
 *					a delay that B's lateness explains names no link
 *
 * A rank or link is compared with the others of the same group. If all are alike, none is named.
 * States come from other processes, so sums are doubles, which do not overflow.
 */
#include "diag/judge/verdict_parts.h"

#include <stdio.h>

#include <internal/base.h>

#include "diag/record/lane_id.h"

#define FLOWS_MIN 4u       /* messages that a figure needs */
#define TIMES     4.0      /* times as slow as the others */
#define MEAN_NS   500000.0 /* least mean wait of a message */
#define PART      0.2      /* least share of the time */
#define ROWS_MAX  256u

/* The messages of one rank in one direction, or of one of its links. */
struct flow_sum {
	const struct twi_verdict_rank *rank;
	uint32_t peer; /* rank in the group */
	double messages, bytes, wait_ns, window_ns;
};

struct flow_sums {
	uint32_t ctx, count;
	uint32_t part; /* compared is the value that one in `part` of the others does not exceed */
	struct flow_sum rows[ROWS_MAX];
};

static double flow_mean(const struct flow_sum *sum)
{
	return sum->wait_ns / sum->messages;
}

static double flow_per_byte(const struct flow_sum *sum)
{
	return sum->wait_ns / (sum->bytes > 0 ? sum->bytes : 1);
}

/* The value that one in `part` of the others does not exceed, rounded up; below 0: no others. */
static double part_of_others(const struct flow_sums *sums, uint32_t but,
			     double (*figure)(const struct flow_sum *))
{
	double sorted[ROWS_MAX];
	uint32_t count = 0;

	for (uint32_t i = 0; i < sums->count; i++) {
		double value = figure(&sums->rows[i]);
		uint32_t at = count;

		if (i == but)
			continue;
		for (; at > 0 && sorted[at - 1] > value; at--)
			sorted[at] = sorted[at - 1];
		sorted[at] = value;
		count++;
	}
	return count > 0 ? sorted[count / sums->part] : -1;
}

/*
 * Whether the row waits far longer than the others, by message and by byte, and for much of the
 * time. `known_ns` of each message have another cause, and are taken off first.
 */
static bool stands_out(const struct flow_sums *sums, uint32_t which, double known_ns)
{
	struct flow_sum sum = sums->rows[which];
	double others = part_of_others(sums, which, flow_mean);

	sum.wait_ns -= known_ns * sum.messages;
	return others >= 0 && flow_mean(&sum) >= MEAN_NS && flow_mean(&sum) >= TIMES * others &&
	       flow_per_byte(&sum) >= TIMES * part_of_others(sums, which, flow_per_byte) &&
	       sum.wait_ns >= PART * sum.window_ns;
}

/* The row of the rank, or of its link to the peer; made if new. NULL: there is no room for it. */
static struct flow_sum *find_sum(struct flow_sums *sums, const struct twi_verdict_rank *rank,
				 bool by_peer, uint32_t peer)
{
	for (uint32_t i = 0; i < sums->count; i++)
		if (sums->rows[i].rank == rank && (!by_peer || sums->rows[i].peer == peer))
			return &sums->rows[i];
	if (sums->count == ROWS_MAX)
		return NULL;
	sums->rows[sums->count] = (struct flow_sum){ .rank = rank, .peer = peer };
	return &sums->rows[sums->count++];
}

static void add_sum(struct flow_sums *sums, const struct twi_verdict_rank *rank, bool by_peer,
		    const struct twi_state_flow *flow, uint64_t wait_ns)
{
	struct flow_sum *row = find_sum(sums, rank, by_peer, flow->peer);

	if (row == NULL)
		return;
	row->messages += (double)flow->messages;
	row->bytes += (double)flow->bytes;
	row->wait_ns += (double)wait_ns;
	row->window_ns = twi_max(row->window_ns, (double)flow->window_ns);
}

/* Drops rows with too few messages. */
static void drop_few(struct flow_sums *sums)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < sums->count; i++)
		if (sums->rows[i].messages >= FLOWS_MIN)
			sums->rows[kept++] = sums->rows[i];
	sums->count = kept;
}

/* Adds sends by link, with their time on the wire; or receives by rank, with that of devices. */
static void add_up(const struct twi_judge *judge, bool sends, struct flow_sums *sums)
{
	sums->count = 0;
	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *rank = &judge->what->ranks[i];

		for (uint32_t k = 0; rank->last != NULL && k < rank->last->flow_count; k++) {
			const struct twi_state_flow *flow = &rank->last->flows[k];

			if (flow->ctx == sums->ctx && (flow->sends != 0) == sends)
				add_sum(sums, rank, sends, flow,
					sends ? flow->wire_ns : flow->device_ns);
		}
	}
	drop_few(sums);
}

/* The rank of the job that is rank `peer` of the group. */
static const struct twi_verdict_rank *rank_in_group(const struct twi_judge *judge, uint32_t ctx,
						    uint32_t peer)
{
	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_state_group *group = twi_group_at(&judge->what->ranks[i], ctx);

		if (group != NULL && twi_state_group_has(group, peer))
			return &judge->what->ranks[i];
	}
	return NULL;
}

/* The mean of how much later than all others the rank comes to a collective, by its own doing. */
static double mean_lateness(const struct twi_judge *judge, uint32_t ctx,
			    const struct twi_verdict_rank *rank)
{
	struct twi_arrival arrivals[TWI_JUDGE_ARRIVALS];
	uint32_t count = twi_judge_arrivals(judge, ctx, arrivals);
	double ns = 0;

	for (uint32_t i = 0; i < count; i++)
		ns += arrivals[i].last == rank ? (double)arrivals[i].delay_ns : 0;
	return count > 0 ? ns / count : 0;
}

static void judge_links(struct twi_judge *judge, const struct flow_sums *sums)
{
	char group[TWI_JUDGE_GROUP];

	twi_judge_group(judge, sums->ctx, group);
	for (uint32_t i = 0; i < sums->count; i++) {
		const struct flow_sum *sum = &sums->rows[i];
		const struct twi_verdict_rank *to = rank_in_group(judge, sums->ctx, sum->peer);

		if (to == NULL || !stands_out(sums, i, 0) || twi_judge_was_held(sum->rank) ||
		    twi_judge_was_held(to) ||
		    !stands_out(sums, i, mean_lateness(judge, sums->ctx, to)))
			continue;
		twi_judge_blame_link(
			judge, TWI_CAUSE_SLOW_LINK, sum->rank->rank, to->rank, 0.85,
			"rank %u: the last %.0f messages of %s to rank %u were on their way for "
			"%.1f ms each, at %.0f MB/s; of the other links half take no more than "
			"%.1f ms",
			sum->rank->rank, sum->messages, group, to->rank, flow_mean(sum) / 1e6,
			sum->bytes * 1e3 / twi_max(sum->wait_ns, 1.0),
			part_of_others(sums, i, flow_mean) / 1e6);
	}
}

/* The mean time for which a send of the rank waited for its peer or was on the wire. */
static double blocked_by_others(const struct twi_verdict_rank *rank, uint32_t ctx)
{
	double messages = 0, ns = 0;

	for (uint32_t k = 0; k < rank->last->flow_count; k++) {
		const struct twi_state_flow *flow = &rank->last->flows[k];

		if (flow->ctx != ctx || flow->sends == 0)
			continue;
		messages += (double)flow->messages;
		ns += (double)flow->peer_ns + (double)flow->wire_ns;
	}
	return messages > 0 ? ns / messages : 0;
}

static void judge_devices(struct twi_judge *judge, const struct flow_sums *sums)
{
	char group[TWI_JUDGE_GROUP];

	twi_judge_group(judge, sums->ctx, group);
	for (uint32_t i = 0; i < sums->count; i++) {
		const struct flow_sum *sum = &sums->rows[i];

		if (!stands_out(sums, i, 0) ||
		    blocked_by_others(sum->rank, sums->ctx) * 2 > flow_mean(sum))
			continue;
		twi_judge_blame(judge, TWI_CAUSE_DEVICE, sum->rank->rank, 0.85,
				"rank %u: the last %.0f messages of %s that had come waited for "
				"its device for %.1f ms each; at half of the other ranks it is no "
				"more than %.1f ms",
				sum->rank->rank, sum->messages, group, flow_mean(sum) / 1e6,
				part_of_others(sums, i, flow_mean) / 1e6);
	}
}

static void judge_group(struct twi_judge *judge, uint32_t ctx)
{
	struct flow_sums sums = { .ctx = ctx, .part = 2 };

	if ((ctx & TWI_STATE_FOREIGN) == 0)
		return;
	add_up(judge, true, &sums);
	judge_links(judge, &sums);
	add_up(judge, false, &sums);
	judge_devices(judge, &sums);
}

void twi_judge_flows(struct twi_judge *judge)
{
	twi_judge_groups(judge, judge_group);
}

/* --- our own messages --- */

#define BUSY 0.2 /* least share of the time in which data is on its way, by TCP */

/* The class of links that are compared with each other: the lane, and whether it is one host. */
static uint32_t class_of(const struct twi_verdict_rank *at, const struct twi_verdict_rank *to,
			 const struct twi_state_link *link)
{
	return (uint32_t)link->lane << 1 | (at->last->boot == to->last->boot);
}

/* Adds the messages of one direction in the last seconds, as one of its ends has timed them. */
static void add_carried(struct flow_sums *sums, const struct twi_verdict_rank *from, uint32_t to,
			const struct twi_state_carried *carried)
{
	struct flow_sum *row = carried->messages > 0 ? find_sum(sums, from, true, to) : NULL;

	if (row == NULL)
		return;
	row->messages += (double)carried->messages;
	row->bytes += (double)carried->bytes;
	row->wait_ns += (double)carried->wire_ns;
	row->window_ns = twi_max(row->window_ns, 1e6 * (double)carried->window_ms);
}

static void add_link_of(const struct twi_judge *judge, struct flow_sums *sums,
			const struct twi_verdict_rank *at, const struct twi_state_link *link)
{
	const struct twi_verdict_rank *to = twi_judge_rank(judge, link->rank);

	if (to == NULL || to->last == NULL || class_of(at, to, link) != sums->ctx)
		return;
	add_carried(sums, at, to->rank, &link->carried_out);
	add_carried(sums, to, at->rank, &link->carried_in);
}

/*
 * Blames links that are far slower than the fastest quarter of the others of their class. If two
 * halves of a job are far apart, most of its links are slow, so the median would not do. TCP must
 * agree: otherwise an end may have been slow to send, or to take what had come.
 */
static void judge_class(struct twi_judge *judge, struct flow_sums *sums)
{
	drop_few(sums);
	for (uint32_t i = 0; i < sums->count; i++) {
		const struct flow_sum *sum = &sums->rows[i];
		const struct twi_state_link *link = twi_rank_state_link(sum->rank->last, sum->peer);
		char trip[48] = "";

		if (link == NULL || (link->flags & TWI_LINK_TCP) == 0 || !stands_out(sums, i, 0) ||
		    twi_judge_was_held(sum->rank) ||
		    twi_judge_was_held(twi_judge_rank(judge, sum->peer)) ||
		    twi_judge_link_busy(sum->rank, sum->peer) < BUSY)
			continue;
		if (link->rtt_us >= 1000)
			snprintf(trip, sizeof(trip), "; there and back takes %.1f ms at least",
				 link->rtt_us / 1e3);
		twi_judge_blame_link(
			judge, TWI_CAUSE_SLOW_LINK, sum->rank->rank, sum->peer, 0.8,
			"rank %u: %.0f messages to rank %u were on their way for %.1f ms each, "
			"at %.1f MB/s; on a quarter of the other links it is no more than %.1f "
			"ms%s",
			sum->rank->rank, sum->messages, sum->peer, flow_mean(sum) / 1e6,
			sum->bytes * 1e3 / twi_max(sum->wait_ns, 1.0),
			part_of_others(sums, i, flow_mean) / 1e6, trip);
	}
}

void twi_judge_slow_links(struct twi_judge *judge)
{
	/* There are few classes: for each lane, one within a host and one between hosts. */
	for (uint32_t which = 0; which < 2 * TWI_LANE_COUNT; which++) {
		struct flow_sums sums = { .ctx = which, .part = 4 };

		for (uint32_t i = 0; i < judge->what->rank_count; i++) {
			const struct twi_verdict_rank *at = &judge->what->ranks[i];

			for (uint32_t k = 0;
			     at->last != NULL && at->first != NULL && k < at->last->link_count; k++)
				add_link_of(judge, &sums, at, &at->last->links[k]);
		}
		judge_class(judge, &sums);
	}
}
