/*
 * verdict_links.c - ranks that do not answer, and connections that carry nothing.
 *
 * If A's data to B is not acknowledged, what A receives shows in which direction packets are lost:
 *
 *	A still receives segments of B (retransmissions)         A -> B loses packets: B sends, and
 *	                                                         receives nothing from A
 *	A receives nothing from B                                B -> A loses packets, or B's host
 *	                                                         has gone; if B answers, ask B
 */
#include "diag/judge/verdict_parts.h"

#include <internal/base.h>

#define MS_NS      1000000ull
#define STUCK_NS   (250 * MS_NS)  /* nothing acknowledged for so long, though it was sent again */
#define MUTE_NS    (2500 * MS_NS) /* more than the answer to a ping takes, at one ping a second */
#define NOTHING_NS (1300 * MS_NS) /* nothing has come: pings are a second apart */
#define LOSSES     5u             /* least number of segments lost between two looks */
#define LOSS_PART  50u            /* and least part of all segments: one in so many */
#define SMALL      65536u         /* a smaller socket buffer is suspect */
#define FAR_US     1000u          /* from this round trip on, larger ones may be too small, too */

/*
 * Whether nothing has been acknowledged for long. If nothing has come either, the limit is longer:
 * by then the other side would have sent a ping.
 */
static bool is_stuck(const struct twi_state_link *link)
{
	return link != NULL && (link->flags & TWI_LINK_TCP) != 0 &&
	       (link->flags & TWI_LINK_BYE) == 0 && link->backoffs > 0 &&
	       link->stuck_ns >= (link->heard_segments > 0 ? STUCK_NS : NOTHING_NS);
}

/* Blames one direction between `at`, which reports the link, and the other side. */
static void blame_stuck(struct twi_judge *judge, uint32_t at, const struct twi_state_link *link,
			bool other_known)
{
	char time[24];

	twi_judge_time(link->stuck_ns, time);
	if (link->heard_segments > 0)
		twi_judge_blame_link(
			judge, TWI_CAUSE_LINK, at, link->rank, 0.95,
			"rank %u: nothing that it sent to rank %u was acknowledged "
			"for %s (sent again %u times in a row), while %u segments came "
			"from there",
			at, link->rank, time, link->backoffs, link->heard_segments);
	else
		twi_judge_blame_link(judge, TWI_CAUSE_LINK, link->rank, at, other_known ? 0.8 : 0.7,
				     "rank %u: nothing came from rank %u for %s, not even "
				     "acknowledgements (it sent again %u times in a row); without "
				     "an answer from there its host may as well have gone",
				     at, link->rank, time, link->backoffs);
}

/*
 * Blames the MTU if one stream gets nothing through and another stream does: then it is not the
 * whole path. Large messages have streams of their own.
 */
static bool blame_mtu(struct twi_judge *judge, uint32_t at, const struct twi_state_link *link)
{
	if ((link->flags & TWI_LINK_STREAM_STUCK) == 0)
		return false;
	twi_judge_blame_link(
		judge, TWI_CAUSE_MTU, at, link->rank, 0.75,
		"rank %u: one of its connections to rank %u gets nothing through (sent "
		"again %u times in a row), and another does: packets as large as that "
		"one's may not pass, or a firewall has forgotten it",
		at, link->rank, link->backoffs);
	return true;
}

/* Blames what ranks that answer know of a rank that does not. True: there is something. */
static bool blame_by_links(struct twi_judge *judge, uint32_t rank)
{
	bool any = false;

	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *other = &judge->what->ranks[i];
		const struct twi_state_link *link = twi_rank_state_link(other->last, rank);

		if (!is_stuck(link))
			continue;
		blame_stuck(judge, other->rank, link, false);
		any = true;
	}
	return any;
}

/* A connection to the rank over which everything is acknowledged. */
static const struct twi_state_link *good_link(const struct twi_judge *judge, uint32_t rank,
					      uint32_t *from_out)
{
	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *other = &judge->what->ranks[i];
		const struct twi_state_link *link = twi_rank_state_link(other->last, rank);

		if (link == NULL || (link->flags & TWI_LINK_UP) == 0 ||
		    (link->flags & TWI_LINK_TCP) == 0 || link->stuck_ns > 0)
			continue;
		*from_out = other->rank;
		return link;
	}
	return NULL;
}

/*
 * Blames a rank that holds messages of `rank` and does not receive them: the answer of `rank` would
 * wait behind them. True: there is one.
 */
static bool blame_holder(struct twi_judge *judge, uint32_t rank)
{
	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *at = &judge->what->ranks[i];
		const struct twi_state_link *last = twi_rank_state_link(at->last, rank);
		const struct twi_state_link *first = twi_rank_state_link(at->first, rank);

		if (first == NULL || last == NULL ||
		    (first->flags & last->flags & TWI_LINK_HOLDS) == 0)
			continue;
		judge->out->unknown++;
		twi_judge_blame(
			judge, TWI_CAUSE_CREDIT, at->rank, 0.8,
			"rank %u holds messages of rank %u that no receive has taken, half of "
			"the credit or more; the answers of rank %u wait behind them",
			at->rank, rank, rank);
		return true;
	}
	return false;
}

/* Adds what is known of a connection of libfabric, which says less than our own ones do. */
static void add_fabric(struct twi_judge *judge, enum twi_cause cause, uint32_t rank)
{
	char time[24];

	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *at = &judge->what->ranks[i];
		const struct twi_state_link *link = twi_rank_state_link(at->last, rank);

		if (link == NULL || (link->flags & TWI_LINK_FABRIC) == 0)
			continue;
		twi_judge_add(judge, cause,
			      "rank %u reaches it by libfabric (%s): it received from it %s "
			      "ago, %u operations of %llu bytes are outstanding; libfabric "
			      "gives no TCP_INFO",
			      at->rank, at->last->fabric, twi_judge_time(link->silent_ns, time),
			      link->pending_ops, (unsigned long long)link->unacked_bytes);
		return;
	}
}

/*
 * True: ranks with a connection to `rank` have received nothing from it, though its host
 * acknowledges what they send. That has lasted longer than a running process takes to answer a
 * ping. False: a rank has received something, or none has such a connection.
 */
static bool is_mute_to_all(const struct twi_judge *judge, uint32_t rank, uint32_t *from_out)
{
	bool found = false;

	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *other = &judge->what->ranks[i];
		const struct twi_state_link *link = twi_rank_state_link(other->last, rank);

		if (link == NULL || (link->flags & TWI_LINK_UP) == 0)
			continue;
		if (link->silent_ns < MUTE_NS)
			return false;
		if ((link->flags & TWI_LINK_TCP) == 0 || link->stuck_ns > 0)
			continue;
		found = true;
		*from_out = other->rank;
	}
	return found;
}

static void judge_silent(struct twi_judge *judge, const struct twi_verdict_rank *rank)
{
	uint32_t from;

	if (rank->process == TWI_PROCESS_STOPPED) {
		twi_judge_blame(judge, TWI_CAUSE_STOPPED, rank->rank, 0.99,
				"rank %u does not answer, and its process %llu is stopped (state "
				"%c)",
				rank->rank, (unsigned long long)rank->pid, rank->process_state);
	} else if (rank->process == TWI_PROCESS_GONE) {
		if (!rank->bye)
			twi_judge_blame(judge, TWI_CAUSE_DEAD, rank->rank, 0.99,
					"rank %u does not answer, and its process %llu has ended",
					rank->rank, (unsigned long long)rank->pid);
	} else if (blame_by_links(judge, rank->rank) || blame_holder(judge, rank->rank) ||
		   twi_judge_dials_to(judge, rank->rank)) {
		return;
	} else if (rank->lost && !rank->bye) {
		twi_judge_blame(judge, TWI_CAUSE_DEAD, rank->rank, 0.9,
				"rank %u does not answer, and its connection has ended",
				rank->rank);
	} else if (rank->dialed && judge->out->stuck && is_mute_to_all(judge, rank->rank, &from)) {
		twi_judge_blame(
			judge, TWI_CAUSE_STOPPED, rank->rank, 0.75,
			"rank %u accepts no connection, and sends nothing on those that it has, "
			"though its host acknowledges all that rank %u has sent: its process "
			"does not run, or no thread of it calls the library",
			rank->rank, from);
	} else if (!rank->asked || rank->bye || !judge->out->stuck) {
		judge->out->unknown++; /* if no rank waits, this one may just be busy */
	} else if (rank->process == TWI_PROCESS_UNKNOWN &&
		   good_link(judge, rank->rank, &from) != NULL) {
		twi_judge_blame(judge, TWI_CAUSE_STOPPED, rank->rank, 0.75,
				"rank %u does not answer, though its host acknowledges all that "
				"rank %u has sent: its process does not run, or no thread of it "
				"calls the library",
				rank->rank, from);
	} else {
		twi_judge_blame(judge, TWI_CAUSE_SILENT, rank->rank, 0.5,
				"rank %u does not answer, and its process %s", rank->rank,
				rank->process == TWI_PROCESS_RUNS ? "runs" : "cannot be seen");
	}
}

void twi_judge_silent(struct twi_judge *judge)
{
	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *rank = &judge->what->ranks[i];

		if (rank->me || rank->last != NULL)
			continue;
		judge_silent(judge, rank);
		for (unsigned cause = TWI_CAUSE_DEAD; cause <= TWI_CAUSE_SILENT; cause++)
			if (twi_judge_names(judge, (enum twi_cause)cause, rank->rank))
				add_fabric(judge, (enum twi_cause)cause, rank->rank);
		if (twi_judge_names(judge, TWI_CAUSE_CREDIT, judge->what->me))
			add_fabric(judge, TWI_CAUSE_CREDIT, rank->rank);
	}
}

/* --- among ranks that answer --- */

static bool link_blamed(const struct twi_judge *judge, uint32_t a, uint32_t b)
{
	const struct twi_verdict *out = judge->out;

	for (uint32_t i = 0; i < out->finding_count; i++) {
		const struct twi_verdict_finding *finding = &out->findings[i];

		if (finding->cause != TWI_CAUSE_LINK && finding->cause != TWI_CAUSE_MTU)
			continue;
		for (uint32_t k = 0; k < finding->link_count; k++) {
			if ((finding->links[k].from == a && finding->links[k].to == b) ||
			    (finding->links[k].from == b && finding->links[k].to == a))
				return true;
		}
	}
	return false;
}

static void judge_loss(struct twi_judge *judge, const struct twi_verdict_rank *at,
		       const struct twi_state_link *last)
{
	const struct twi_state_link *first = twi_rank_state_link(at->first, last->rank);
	uint32_t again, spurious, lost, out;

	if (first == NULL || link_blamed(judge, at->rank, last->rank) ||
	    last->segments_out < first->segments_out || last->retransmits < first->retransmits)
		return;
	again = last->retransmits - first->retransmits;
	spurious = last->spurious - twi_min(first->spurious, last->spurious);
	lost = again - twi_min(again, spurious);
	out = last->segments_out - first->segments_out;
	if (lost < LOSSES || (uint64_t)lost * LOSS_PART < out)
		return;
	twi_judge_blame_link(judge, TWI_CAUSE_PACKET_LOSS, at->rank, last->rank, 0.8,
			     "rank %u sent %u of %u segments to rank %u again, of which %u had "
			     "come all the same",
			     at->rank, again, out, last->rank, spurious);
}

void twi_judge_links(struct twi_judge *judge)
{
	for (unsigned pass = 0; pass < 2; pass++) {
		for (uint32_t i = 0; i < judge->what->rank_count; i++) {
			const struct twi_verdict_rank *at = &judge->what->ranks[i];

			for (uint32_t k = 0; at->last != NULL && k < at->last->link_count; k++) {
				const struct twi_state_link *link = &at->last->links[k];
				const struct twi_verdict_rank *to =
					twi_judge_rank(judge, link->rank);

				if (to == NULL || twi_judge_blames(judge, link->rank))
					continue;
				if (pass == 0 && blame_mtu(judge, at->rank, link))
					continue;
				if (pass == 0 && to->last != NULL && is_stuck(link))
					blame_stuck(judge, at->rank, link, true);
				else if (pass == 1)
					judge_loss(judge, at, link);
			}
		}
	}
}

/* --- buffers --- */

struct limits {
	uint64_t window_us, busy_us, rwnd_us, sndbuf_us;
};

static bool limits_of(const struct twi_verdict_rank *at, const struct twi_state_link *last,
		      struct limits *out)
{
	const struct twi_state_link *first = twi_rank_state_link(at->first, last->rank);

	if (first == NULL || at->last->now_ns <= at->first->now_ns ||
	    last->busy_us <= first->busy_us)
		return false;
	*out = (struct limits){ .window_us = (at->last->now_ns - at->first->now_ns) / 1000,
				.busy_us = last->busy_us - first->busy_us,
				.rwnd_us = last->rwnd_limited_us - first->rwnd_limited_us,
				.sndbuf_us = last->sndbuf_limited_us - first->sndbuf_limited_us };
	/* Several streams may be busy at once, so the sums are limited to the whole. */
	out->rwnd_us = twi_min(out->rwnd_us, out->busy_us);
	out->sndbuf_us = twi_min(out->sndbuf_us, out->busy_us);
	return out->busy_us * 4 >= out->window_us;
}

double twi_judge_link_busy(const struct twi_verdict_rank *at, uint32_t to)
{
	const struct twi_state_link *last = twi_rank_state_link(at->last, to);
	const struct twi_state_link *first = twi_rank_state_link(at->first, to);
	uint64_t busy, full;

	if (first == NULL || last == NULL || at->last->now_ns <= at->first->now_ns)
		return 0;
	busy = twi_since(last->busy_us, first->busy_us);
	full = twi_since(last->rwnd_limited_us, first->rwnd_limited_us) +
	       twi_since(last->sndbuf_limited_us, first->sndbuf_limited_us);
	return (double)twi_since(busy, full) * 1e3 / (double)(at->last->now_ns - at->first->now_ns);
}

/* How sure it is that a buffer is too small, if it limits for `part_us` of the busy time. */
static double too_small(const struct twi_state_link *link, uint32_t buffer, uint64_t part_us,
			const struct limits *limits)
{
	if (buffer > 0 && buffer < SMALL && part_us * 10 >= limits->busy_us * 3)
		return 0.95;
	if (link->rtt_us >= FAR_US && part_us * 10 >= limits->busy_us * 8 &&
	    limits->busy_us * 2 >= limits->window_us)
		return 0.7;
	return 0;
}

static void judge_buffers(struct twi_judge *judge, const struct twi_verdict_rank *at,
			  const struct twi_state_link *link)
{
	const struct twi_verdict_rank *to = twi_judge_rank(judge, link->rank);
	const struct twi_state_link *back =
		to != NULL ? twi_rank_state_link(to->last, at->rank) : NULL;
	uint32_t theirs = back != NULL ? back->receive_buffer : link->send_window;
	struct limits limits;
	double sure;

	if (!limits_of(at, link, &limits))
		return;
	sure = too_small(link, link->send_buffer, limits.sndbuf_us, &limits);
	if (sure > 0)
		twi_judge_blame(judge, TWI_CAUSE_TCP_BUFFERS, at->rank, sure,
				"rank %u was held up by its send buffer of %u bytes for %.0f %% of "
				"the time it had something on the way to rank %u",
				at->rank, link->send_buffer,
				100.0 * (double)limits.sndbuf_us / (double)limits.busy_us,
				link->rank);
	sure = too_small(link, theirs, limits.rwnd_us, &limits);
	if (sure > 0 && to != NULL)
		twi_judge_blame(judge, TWI_CAUSE_TCP_BUFFERS, link->rank, sure,
				"rank %u was held up by the receive window of rank %u for %.0f %% "
				"of the time it had something on the way there; the receive buffer "
				"there has %u bytes",
				at->rank, link->rank,
				100.0 * (double)limits.rwnd_us / (double)limits.busy_us, theirs);
}

void twi_judge_buffers(struct twi_judge *judge)
{
	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *at = &judge->what->ranks[i];

		for (uint32_t k = 0; at->last != NULL && k < at->last->link_count; k++) {
			const struct twi_state_link *link = &at->last->links[k];

			/* A held process does not read, and that alone closes its window. */
			if ((link->flags & TWI_LINK_TCP) != 0 &&
			    !link_blamed(judge, at->rank, link->rank) &&
			    !twi_judge_was_held(twi_judge_rank(judge, link->rank)))
				judge_buffers(judge, at, link);
		}
	}
}

/* --- credit --- */

/* A rank that waits itself does not receive for that reason; its culprit is found elsewhere. */
static bool is_held_up(const struct twi_judge *judge, uint32_t rank)
{
	const struct twi_verdict_rank *to = twi_judge_rank(judge, rank);

	return to != NULL && twi_judge_held_up(judge, to);
}

void twi_judge_credit(struct twi_judge *judge)
{
	const uint32_t held = TWI_LINK_NO_CREDIT;
	char time[24];

	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *at = &judge->what->ranks[i];

		for (uint32_t k = 0; at->last != NULL && k < at->last->wait_count; k++) {
			const struct twi_state_wait *wait = &at->last->waits[k];
			const struct twi_state_link *last =
				twi_rank_state_link(at->last, wait->rank);
			const struct twi_state_link *first =
				twi_rank_state_link(at->first, wait->rank);
			uint64_t age = at->last->now_ns - twi_min(wait->since_ns, at->last->now_ns);

			if (first == NULL || last == NULL || age < 600 * MS_NS ||
			    (first->flags & held) == 0 || (last->flags & held) == 0 ||
			    is_held_up(judge, wait->rank))
				continue;
			twi_judge_blame(judge, TWI_CAUSE_CREDIT, wait->rank, 0.9,
					"rank %u has waited for %s to send to rank %u, where "
					"messages that no receive has taken use up its credit",
					at->rank, twi_judge_time(age, time), wait->rank);
			add_fabric(judge, TWI_CAUSE_CREDIT, wait->rank);
		}
	}
}
