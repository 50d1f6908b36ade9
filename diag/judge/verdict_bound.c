/*
 * verdict_bound.c - for how much of its time a job is blocked, and by what. If that is a fifth or
 * more and there is no culprit yet, it looks for a rank that waits for none. That rank is named if
 * all others wait for it by messages or calls:
 *
 *	rank 0 --70 %--> rank 1 --65 %--> rank 2 (3 %) <--68 %-- rank 3		rank 2 is named
 *
 * Receives and pieces of streams count where ranks report steps or call collectives, and where
 * messages go round (verdict_rounds.c). Elsewhere, a rank that waits for them may be an idle
 * server. If ranks wait for each other, or for several ranks, none is named. Then the verdict says
 * that the job is slow, and what is known of its waits.
 */
#include "diag/judge/verdict_parts.h"

#include <stdio.h>

#include <internal/base.h>

#include "diag/base/emit.h"
#include "diag/record/lane_id.h"

#define MUCH      0.2 /* share of blocked time from which a job is slow */
#define FAR_LESS  3.0 /* least ratio of the waits of all others to those of the named rank */
#define WAITS_MIN 8u  /* least waits for a figure of the last seconds */
#define STEPS_MIN 4u  /* or least steps for one */
#define WAITS_FEW 3u  /* least waits for a figure of a longer time */
#define WINDOW_NS 900000000ull
#define MOST      4u  /* at most one rank in so many is busy; the others wait */
#define FREE      0.3 /* most time with messages under way on a path that is not the limit */

/* --- of one rank --- */

const struct twi_state_waited *twi_judge_waited(const struct twi_verdict_rank *rank)
{
	const struct twi_rank_state *state = rank->last;
	const struct twi_state_waited *lately, *longer;

	if (state == NULL)
		return NULL;
	lately = &state->lately;
	longer = &state->longer;
	if (lately->window_ns >= WINDOW_NS &&
	    (lately->waits >= WAITS_MIN || lately->steps >= STEPS_MIN))
		return lately;
	if (longer->window_ns >= WINDOW_NS && longer->waits >= WAITS_FEW)
		return longer;
	return lately->window_ns >= WINDOW_NS ? lately : NULL;
}

static bool counts_kind(const struct twi_judge *judge, const struct twi_state_waited *waited,
			enum twi_waited kind)
{
	switch (kind) {
	case TWI_WAITED_COLL:
	case TWI_WAITED_SEND:
	case TWI_WAITED_CALL:
		return true;
	case TWI_WAITED_RECV:
	case TWI_WAITED_STREAM:
		return judge->receives_count || waited->steps > 0 ||
		       waited->ns[TWI_WAITED_COLL] > 0;
	default:
		return false;
	}
}

/* Share of its time for which the rank is blocked by `kind`; at most 1, whatever it reported. */
static double kind_share(const struct twi_judge *judge, const struct twi_state_waited *waited,
			 enum twi_waited kind)
{
	if (!counts_kind(judge, waited, kind))
		return 0;
	return twi_min((double)waited->ns[kind] / (double)waited->window_ns, 1.0);
}

static double blocked_share(const struct twi_judge *judge, const struct twi_state_waited *waited)
{
	double share = 0;

	for (unsigned kind = 0; kind < TWI_WAITED_KINDS; kind++)
		share += kind_share(judge, waited, (enum twi_waited)kind);
	return twi_min(share, 1.0);
}

/* The same for all waits, whether they count or not: the time in which the rank did nothing. */
static double idle_share(const struct twi_state_waited *waited)
{
	double share = 0;

	for (unsigned kind = 0; kind < TWI_WAITED_KINDS; kind++)
		share += (double)waited->ns[kind] / (double)waited->window_ns;
	return twi_min(share, 1.0);
}

/* --- of all ranks --- */

/* True: messages go round, and nearly all ranks wait. So the others are late, and none is idle. */
static bool do_receives_count(const struct twi_judge *judge)
{
	uint32_t busy = 0, count = judge->what->rank_count;

	if (!twi_judge_goes_round(judge))
		return false;
	for (uint32_t i = 0; i < count; i++) {
		const struct twi_state_waited *waited = twi_judge_waited(&judge->what->ranks[i]);

		busy += waited == NULL || idle_share(waited) < MUCH;
	}
	return busy <= twi_max(1u, count / MOST);
}

/* Number of ranks for each share in percent. */
struct shares {
	uint32_t ranks, with[101];
};

/* The median: the mean of the two ranks in the middle. */
static double middle_of(const struct shares *shares)
{
	uint32_t first = (shares->ranks - 1) / 2, second = shares->ranks / 2, below = 0;
	double sum = 0;

	for (unsigned i = 0; i <= 100; i++) {
		uint32_t next = below + shares->with[i];

		sum += first >= below && first < next ? i : 0;
		sum += second >= below && second < next ? i : 0;
		below = next;
	}
	return sum / 200;
}

/* Takes the median, as a rank with less to do, or a server that never waits, is an exception. */
static void add_shares(const struct twi_judge *judge, struct twi_verdict_waits *out)
{
	struct shares shares = { 0 };
	double all = 0;

	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_state_waited *waited = twi_judge_waited(&judge->what->ranks[i]);

		if (waited == NULL)
			continue;
		shares.ranks++;
		shares.with[(unsigned)(blocked_share(judge, waited) * 100 + 0.5)]++;
		out->window_ns = twi_max(out->window_ns, waited->window_ns);
		for (unsigned kind = 0; kind < TWI_WAITED_KINDS; kind++) {
			out->of[kind] += kind_share(judge, waited, (enum twi_waited)kind);
			all += kind_share(judge, waited, (enum twi_waited)kind);
		}
	}
	out->ranks = shares.ranks;
	if (shares.ranks > 0)
		out->share = middle_of(&shares);
	for (unsigned kind = 0; kind < TWI_WAITED_KINDS; kind++)
		out->of[kind] *= all > 0 ? out->share / all : 0;
}

/* Adds the time in collectives until the last rank had come, and after that. */
static void add_collectives(struct twi_judge *judge, uint32_t ctx)
{
	struct twi_verdict_waits *out = &judge->out->waits;
	struct twi_arrival arrivals[TWI_JUDGE_ARRIVALS];
	uint32_t count = twi_judge_arrivals(judge, ctx, arrivals);

	for (uint32_t i = 0; i < count; i++) {
		for (uint32_t k = 0; k < judge->what->rank_count; k++) {
			const struct twi_verdict_rank *rank = &judge->what->ranks[k];
			const struct twi_state_past *past =
				twi_state_group_past(twi_group_at(rank, ctx), arrivals[i].seq);
			uint64_t offset = (uint64_t)rank->offset_ns;

			if (past == NULL || past->done_ns == 0)
				continue;
			out->before_ns +=
				(double)twi_since(arrivals[i].at_ns, past->start_ns - offset);
			out->behind_ns +=
				(double)twi_since(past->done_ns - offset, arrivals[i].at_ns);
		}
	}
}

/* --- the rank that others wait for --- */

/* Whether the rank is blocked, and for most of that time by messages and calls. */
static bool waits_by_messages(const struct twi_judge *judge, const struct twi_state_waited *waited)
{
	return blocked_share(judge, waited) >= MUCH && waited->awaited_count > 0 &&
	       kind_share(judge, waited, TWI_WAITED_COLL) * 2 < blocked_share(judge, waited) &&
	       (double)waited->awaited[0].ns * 2 >=
		       blocked_share(judge, waited) * (double)waited->window_ns;
}

/* The rank that waits least, if all others wait for much of their time, and far longer. */
static const struct twi_verdict_rank *least_blocked(const struct twi_judge *judge)
{
	const struct twi_verdict_rank *found = NULL;
	double least = 2, second = 2;

	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *rank = &judge->what->ranks[i];
		const struct twi_state_waited *waited = twi_judge_waited(rank);
		double share = waited != NULL ? idle_share(waited) : 0;

		if (rank->last == NULL)
			return NULL;
		if (share < least) {
			second = least;
			least = share;
			found = rank;
		} else {
			second = twi_min(second, share);
		}
	}
	return second <= 1 && second >= MUCH && least * FAR_LESS <= second ? found : NULL;
}

/* Whether `rank` waits for `end`, or for a rank that does. */
static bool leads_to(const struct twi_judge *judge, const struct twi_verdict_rank *rank,
		     const struct twi_verdict_rank *end)
{
	for (uint32_t steps = 0; rank != NULL && steps < judge->what->rank_count; steps++) {
		const struct twi_state_waited *waited = twi_judge_waited(rank);

		if (waited == NULL || !waits_by_messages(judge, waited))
			return false;
		rank = twi_judge_rank(judge, waited->awaited[0].rank);
		if (rank == end)
			return true;
	}
	return false;
}

/* The rank that all others wait for. NULL: not all wait, or not for the same rank. */
static const struct twi_verdict_rank *awaited_by_all(const struct twi_judge *judge)
{
	const struct twi_verdict_rank *found = least_blocked(judge);

	for (uint32_t i = 0; found != NULL && i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *rank = &judge->what->ranks[i];

		if (rank != found && !leads_to(judge, rank, found))
			return NULL;
	}
	return found;
}

static double carried_share(const struct twi_state_carried *carried)
{
	return carried->window_ms > 0 ? (double)carried->wire_ns / 1e6 / (double)carried->window_ms
				      : 0;
}

/*
 * For how much of the time messages were on their way from `at` to `to`. It is the lesser of two
 * figures: one by the times of the messages, one by TCP. The former includes time in which the
 * receiver did not look, the latter time in which it acknowledged late. The shm lane counts as 0:
 * there one of the two ranks is slow, not the path.
 */
static double on_the_way(const struct twi_judge *judge, const struct twi_verdict_rank *at,
			 uint32_t to)
{
	const struct twi_verdict_rank *other = twi_judge_rank(judge, to);
	const struct twi_state_link *link = twi_rank_state_link(at->last, to), *back;
	double wire;

	if (link == NULL || link->lane == TWI_LANE_SHM)
		return 0;
	back = other != NULL ? twi_rank_state_link(other->last, at->rank) : NULL;
	wire = carried_share(&link->carried_out);
	if (back != NULL)
		wire += carried_share(&back->carried_in);
	return (link->flags & TWI_LINK_TCP) != 0 ? twi_min(wire, twi_judge_link_busy(at, to))
						 : wire;
}

/* Whether data of this rank is being sent again, or was since the first look. */
static bool has_lost(const struct twi_verdict_rank *at)
{
	for (uint32_t i = 0; at->last != NULL && i < at->last->link_count; i++) {
		const struct twi_state_link *last = &at->last->links[i];
		const struct twi_state_link *first = twi_rank_state_link(at->first, last->rank);

		if (last->backoffs > 0 ||
		    (first != NULL &&
		     last->retransmits - first->retransmits > last->spurious - first->spurious))
			return true;
	}
	return false;
}

/* True: the paths to and from the rank are not the limit, and no path loses packets. */
static bool ways_are_free(const struct twi_judge *judge, const struct twi_verdict_rank *rank)
{
	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *other = &judge->what->ranks[i];

		if (has_lost(other) ||
		    (other != rank && (on_the_way(judge, other, rank->rank) > FREE ||
				       on_the_way(judge, rank, other->rank) > FREE)))
			return false;
	}
	return true;
}

/* Adds the time of the client's calls to `server` between the looks: in all, and on the wire. */
static void add_called(const struct twi_verdict_rank *client, uint32_t server, double *total,
		       double *wire)
{
	const struct twi_state_link *last = twi_rank_state_link(client->last, server);
	const struct twi_state_link *first = twi_rank_state_link(client->first, server);

	if (first == NULL || last == NULL)
		return;
	*total += (double)twi_since(last->called.total_ns, first->called.total_ns);
	*wire += (double)twi_since(last->called.wire_ns, first->called.wire_ns);
}

/*
 * The rank for whose answers to calls all others wait. It may wait itself: a server may sit in a
 * wait for its end. NULL: not all others wait, or not for the same rank.
 */
static const struct twi_verdict_rank *called_by_all(const struct twi_judge *judge)
{
	const struct twi_verdict_rank *found = NULL;

	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_state_waited *waited = twi_judge_waited(&judge->what->ranks[i]);

		if (waited != NULL && waits_by_messages(judge, waited) &&
		    kind_share(judge, waited, TWI_WAITED_CALL) * 2 >= blocked_share(judge, waited))
			found = twi_judge_rank(judge, waited->awaited[0].rank);
	}
	for (uint32_t i = 0; found != NULL && i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *client = &judge->what->ranks[i];
		const struct twi_state_waited *waited = twi_judge_waited(client);

		if (client == found)
			continue;
		if (waited == NULL || !waits_by_messages(judge, waited) ||
		    kind_share(judge, waited, TWI_WAITED_CALL) * 2 < blocked_share(judge, waited) ||
		    waited->awaited[0].rank != found->rank)
			return NULL;
	}
	return found;
}

/* Whether calls to the rank were on the wire for at most half of their time. */
static bool is_slow_server(const struct twi_judge *judge, const struct twi_verdict_rank *rank)
{
	double total = 0, wire = 0;

	for (uint32_t i = 0; i < judge->what->rank_count; i++)
		add_called(&judge->what->ranks[i], rank->rank, &total, &wire);
	return total > 0 && wire * 2 <= total;
}

/* True: a sender had no credit for the rank in a look, so the rank holds all that it may. */
static bool is_out_of_credit(const struct twi_judge *judge, const struct twi_verdict_rank *rank)
{
	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *other = &judge->what->ranks[i];
		const struct twi_state_waited *waited = twi_judge_waited(other);
		const struct twi_state_link *last = twi_rank_state_link(other->last, rank->rank);
		const struct twi_state_link *first = twi_rank_state_link(other->first, rank->rank);
		uint32_t flags =
			(first != NULL ? first->flags : 0) | (last != NULL ? last->flags : 0);

		if (other != rank && waited != NULL && (flags & TWI_LINK_NO_CREDIT) != 0 &&
		    kind_share(judge, waited, TWI_WAITED_SEND) * 2 >= blocked_share(judge, waited))
			return true;
	}
	return false;
}

/* "rank 0 waited for rank 1 for 71 % of 8.0 s, rank 2 waited ...", for the first four ranks. */
static void tell_waiters(const struct twi_judge *judge, const struct twi_verdict_rank *rank,
			 char out[TWI_FINDING_TEXT - 100])
{
	const size_t room = TWI_FINDING_TEXT - 100;
	size_t used = 0;
	char time[24];

	out[0] = '\0';
	for (uint32_t i = 0, told = 0; i < judge->what->rank_count && told < 4; i++) {
		const struct twi_verdict_rank *other = &judge->what->ranks[i];
		const struct twi_state_waited *waited = twi_judge_waited(other);

		if (other == rank || waited == NULL || waited->awaited_count == 0)
			continue;
		used += (size_t)snprintf(
			out + used, room - used, "%srank %u waited for rank %u for %.0f %% of %s",
			told++ > 0 ? ", " : "", other->rank, waited->awaited[0].rank,
			100 * twi_min((double)waited->awaited[0].ns / (double)waited->window_ns,
				      1.0),
			twi_judge_time(waited->window_ns, time));
		used = twi_min(used, room - 1);
	}
}

/*
 * Names the rank that all others wait for, because its own work takes long. If it lacks a CPU or
 * holds messages, that is the cause instead. If a path to it is busy, the path may be the reason,
 * and no rank is named.
 */
static void judge_stage(struct twi_judge *judge)
{
	const struct twi_verdict_rank *rank = awaited_by_all(judge);
	const struct twi_state_waited *waited = rank != NULL ? twi_judge_waited(rank) : NULL;
	char waiters[TWI_FINDING_TEXT - 100], quota[TWI_JUDGE_QUOTA];
	enum twi_cause cause = TWI_CAUSE_SLOW_STAGE;
	struct twi_starved cpu = { 0 };

	if (rank == NULL || !ways_are_free(judge, rank))
		return;
	tell_waiters(judge, rank, waiters);
	if (rank->first != NULL)
		twi_judge_starved(judge, rank, rank->first->now_ns, rank->last->now_ns, &cpu);
	if (is_out_of_credit(judge, rank))
		cause = TWI_CAUSE_CREDIT;
	else if (cpu.own >= 0.5)
		cause = twi_judge_denied(rank, cpu.waited, quota);
	twi_judge_blame(judge, cause, rank->rank, 0.8, "%s; rank %u itself waited for %.0f %%",
			waiters, rank->rank, waited != NULL ? 100 * idle_share(waited) : 0.0);
}

static void judge_server(struct twi_judge *judge)
{
	const struct twi_verdict_rank *rank = called_by_all(judge);
	char waiters[TWI_FINDING_TEXT - 100];

	if (rank == NULL || !is_slow_server(judge, rank))
		return;
	tell_waiters(judge, rank, waiters);
	twi_judge_blame(judge, TWI_CAUSE_SLOW_SERVER, rank->rank, 0.8,
			"%s; their calls were on the wire for less than half of that", waiters);
}

/* --- the whole --- */

/* The link with messages on their way for the largest part of the time. */
struct busiest {
	uint32_t from, to;
	double busy, bytes_per_s;
};

static void find_busiest(const struct twi_judge *judge, struct busiest *out)
{
	*out = (struct busiest){ 0 };
	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *at = &judge->what->ranks[i];

		for (uint32_t k = 0; at->last != NULL && k < at->last->link_count; k++) {
			const struct twi_state_link *link = &at->last->links[k];
			double busy = on_the_way(judge, at, link->rank);

			if (busy <= out->busy)
				continue;
			*out = (struct busiest){
				.from = at->rank,
				.to = link->rank,
				.busy = busy,
				.bytes_per_s = (double)link->carried_out.bytes * 1e3 /
					       twi_max((double)link->carried_out.window_ms, 1.0),
			};
		}
	}
}

/* Share of the time of calls between the looks that was on the wire; below 0: none has ended. */
static double wire_share(const struct twi_judge *judge)
{
	double total = 0, wire = 0;

	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *rank = &judge->what->ranks[i];

		for (uint32_t k = 0; rank->last != NULL && k < rank->last->link_count; k++)
			add_called(rank, rank->last->links[k].rank, &total, &wire);
	}
	return total > 0 ? twi_min(wire / total, 1.0) : -1;
}

static const char *mend_of(const struct twi_judge *judge, const struct twi_verdict_waits *waits)
{
	double most = 0;
	unsigned kind = TWI_WAITED_COLL;

	for (unsigned i = 0; i < TWI_WAITED_KINDS; i++) {
		if (waits->of[i] > most) {
			most = waits->of[i];
			kind = i;
		}
	}
	if (kind == TWI_WAITED_CALL && wire_share(judge) > 0.5)
		return "calls are on the wire for most of their time (/v1/rpc, wire): see what "
		       "the path between the hosts allows (towdoctor --peer: delay, rate, "
		       "losses), or have more calls in flight at once";
	if (kind == TWI_WAITED_CALL)
		return "see in /v1/rpc where calls spend their time, there and at the server "
		       "(queue, wire, match, serve), and have more calls in flight at once";
	if (kind != TWI_WAITED_COLL)
		return "see in a capture (towtrace) which messages the ranks wait for, and "
		       "start them earlier, or divide the work among the stages differently";
	if (waits->behind_ns >= waits->before_ns)
		return "the exchange itself takes long: see what the path allows (towdoctor "
		       "--peer), start collectives earlier so that they overlap with computing, "
		       "or send less (fewer bytes, fused collectives)";
	return "ranks arrive at different times, and none of them is always the last: see in a "
	       "capture (towtrace) what differs from step to step";
}

static void tell_waits(const struct twi_judge *judge, struct twi_verdict_waits *waits)
{
	struct busiest busiest;
	double all = waits->before_ns + waits->behind_ns;
	size_t used = 0, room = sizeof(waits->says);
	bool first = true;
	char time[24];

	used = (size_t)snprintf(waits->says, room,
				"ranks are blocked for %.0f %% of their time, of %s",
				100 * waits->share, twi_judge_time(waits->window_ns, time));
	for (unsigned kind = 0; kind < TWI_WAITED_KINDS; kind++) {
		if (waits->of[kind] < 0.01)
			continue;
		used += (size_t)snprintf(waits->says + used, room - twi_min(used, room),
					 "%s %.0f %% for %s", first ? ":" : ",",
					 100 * waits->of[kind],
					 twi_waited_name((enum twi_waited)kind));
		used = twi_min(used, room - 1);
		first = false;
	}
	if (waits->of[TWI_WAITED_COLL] * 2 >= waits->share && all > 0)
		used += (size_t)snprintf(
			waits->says + used, room - used,
			"; of what collectives took %.0f %% is behind the arrival of the last rank",
			100 * waits->behind_ns / all);
	if (waits->slow && waits->of[TWI_WAITED_CALL] * 2 >= waits->share && wire_share(judge) >= 0)
		used += (size_t)snprintf(waits->says + used, room - twi_min(used, room),
					 "; of what calls took %.0f %% was on the wire",
					 100 * wire_share(judge));
	used = twi_min(used, room - 1);
	find_busiest(judge, &busiest);
	if (busiest.busy >= 0.5)
		snprintf(waits->says + used, room - used,
			 "; messages are on their way from rank %u to rank %u for %.0f %%, at "
			 "%.1f MB/s",
			 busiest.from, busiest.to, 100 * twi_min(busiest.busy, 1.0),
			 busiest.bytes_per_s / 1e6);
	waits->mend = waits->slow ? mend_of(judge, waits) : NULL;
}

void twi_judge_bound(struct twi_judge *judge)
{
	struct twi_verdict_waits *waits = &judge->out->waits;

	judge->receives_count = do_receives_count(judge);
	add_shares(judge, waits);
	if (waits->ranks == 0)
		return;
	waits->slow = waits->share >= MUCH;
	twi_judge_groups(judge, add_collectives);
	tell_waits(judge, waits);
	if (judge->out->finding_count > 0)
		return;
	twi_judge_rails(judge);
	if (!waits->slow)
		return;
	twi_judge_slow_links(judge);
	if (judge->out->finding_count == 0 && !judge->out->stuck)
		judge_server(judge);
	if (judge->out->finding_count == 0 && !judge->out->stuck && called_by_all(judge) == NULL)
		judge_stage(judge);
	if (judge->out->finding_count == 0 && !judge->out->stuck)
		twi_judge_starved_sends(judge);
}

void twi_verdict_emit_waits(const struct twi_verdict_waits *waits, struct twi_emit *emit)
{
	twi_emit_u64(emit, "ranks", waits->ranks);
	twi_emit_f64(emit, "share", waits->share);
	twi_emit_u64(emit, "window_ns", waits->window_ns);
	for (unsigned kind = 0; kind < TWI_WAITED_KINDS; kind++)
		twi_emit_f64(emit, twi_waited_name((enum twi_waited)kind), waits->of[kind]);
	if (waits->before_ns + waits->behind_ns > 0)
		twi_emit_f64(emit, "behind_last_arrival",
			     waits->behind_ns / (waits->before_ns + waits->behind_ns));
	twi_emit_str(emit, "says", waits->says);
	twi_emit_str(emit, "cure", waits->mend);
}
