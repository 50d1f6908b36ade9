/*
 * findings.c - has one function for each kind of finding; each adds a row only where it applies.
 */
#include "diag/trace/findings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <internal/base.h>

#include "diag/base/emit.h"
#include "diag/base/words.h"
#include "diag/record/coll_kind.h"
#include "diag/record/counter.h"
#include "diag/trace/unfinished.h"

#define UNFINISHED_TOLD 3u

struct look {
	const struct twi_trace *trace;
	const struct twi_timeline *t;
	const struct twi_slack *slack;
	struct twi_findings *out;
	uint64_t least_ns; /* the smallest cost that is reported */
};

/* Adds a row. If all are in use, which no trace reaches, it overwrites the last one. */
static struct twi_finding *add_finding(struct look *l, const char *kind, uint64_t cost_ns)
{
	struct twi_finding *row;

	if (l->out->count < TWI_FINDINGS_MAX)
		l->out->count++;
	row = &l->out->rows[l->out->count - 1];
	*row = (struct twi_finding){ .kind = kind, .cost_ns = cost_ns };
	return row;
}

#define SAY(text, ...) snprintf(text, TWI_FINDING_BYTES, __VA_ARGS__)

void twi_findings_rate(uint64_t bps, char out[TWI_RATE_BYTES])
{
	static const char *const units[] = { "b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s", "Pb/s" };
	uint64_t scale = 1, tenths;
	unsigned unit = 0;

	while (unit + 1 < twi_array_count(units) && bps / scale >= 1000) {
		scale *= 1000;
		unit++;
	}
	tenths = (uint64_t)(((twi_wide)bps * 10 + scale / 2) / scale);
	if (tenths < 1000 && tenths % 10 != 0)
		snprintf(out, TWI_RATE_BYTES, "%llu.%llu %s", (unsigned long long)(tenths / 10),
			 (unsigned long long)(tenths % 10), units[unit]);
	else
		snprintf(out, TWI_RATE_BYTES, "%llu %s", (unsigned long long)((tenths + 5) / 10),
			 units[unit]);
}

void twi_findings_collective(const struct twi_slack_group *group, char *out, size_t bytes)
{
	const char *kind = twi_coll_kind_name((enum twi_coll_kind)group->kind);

	if (group->name[0] != '\0')
		snprintf(out, bytes, "%s \"%.60s\"", kind, group->name);
	else
		snprintf(out, bytes, "%s", kind);
}

void twi_findings_ns(uint64_t ns, char *out, size_t bytes)
{
	char text[TWI_WORDS_BYTES];
	char *micro;

	twi_words_ns(ns, text);
	micro = strstr(text, " us");
	if (micro != NULL)
		snprintf(out, bytes, "%.*s \xc2\xb5s", (int)(micro - text), text);
	else
		snprintf(out, bytes, "%s", text);
}

static void name_end(int64_t rank, const char *name, char *out, size_t bytes)
{
	if (rank >= 0)
		snprintf(out, bytes, "%lld", (long long)rank);
	else
		snprintf(out, bytes, "%.40s", name[0] != '\0' ? name : "?");
}

void twi_findings_pair(const struct twi_timeline_pair *pair, char *out, size_t bytes)
{
	char from[48], to[48];

	name_end(pair->from, pair->from_name, from, sizeof(from));
	name_end(pair->to, pair->to_name, to, sizeof(to));
	snprintf(out, bytes, "%s \xe2\x86\x92 %s", from, to);
}

static unsigned percent_of(uint64_t part, uint64_t whole)
{
	twi_wide share = whole > 0 ? ((twi_wide)part * 100 + whole / 2) / whole : 0;

	return (unsigned)twi_min(share, (twi_wide)100);
}

static const char *plural_of(uint64_t count, const char *one, const char *many)
{
	return count == 1 ? one : many;
}

/* The rank that held up steps most; NULL: there is only one rank. */
static const struct twi_timeline_rank *worst_straggler(const struct look *l)
{
	const struct twi_timeline_rank *ranks = l->t->ranks, *worst = NULL;

	for (size_t i = 0; i < l->t->rank_count && l->t->rank_count > 1; i++) {
		if (worst == NULL || ranks[i].slowest_ns > worst->slowest_ns)
			worst = &ranks[i];
	}
	return worst;
}

/* Late ranks explain half or more of the waiting. Then no network would help. */
static bool explain_late(const struct look *l, uint64_t waited_ns, struct twi_finding *row)
{
	const struct twi_timeline_rank *worst = worst_straggler(l);
	uint64_t others = 0, each = waited_ns / twi_max(l->t->rank_count, (size_t)1);

	for (size_t i = 0; i < l->t->rank_count; i++)
		others += l->t->ranks[i].others_ns;
	if (others > 0 && others >= waited_ns / 2)
		SAY(row->cause, "%u %% of it is for ranks that had not come to a collective yet.",
		    percent_of(others, waited_ns));
	else if (worst != NULL && worst->slowest_ns > 0 && worst->slowest_ns >= each / 2)
		SAY(row->cause,
		    "Rank %lld held up the steps for %u %% of that: the others waited for it.",
		    (long long)l->trace->ranks[worst - l->t->ranks].rank,
		    percent_of(worst->slowest_ns, each));
	else
		return false;
	SAY(row->cure, "See which rank came last, or held up steps; more bandwidth would not "
		       "help.");
	return true;
}

static uint64_t receivers_waited(const struct look *l)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < l->t->pair_count; i++)
		sum += l->t->pairs[i].waited_ns;
	return sum;
}

/* Explains the waiting: by late ranks, late receivers, or the dearest group of collectives. */
static void explain_stall(const struct look *l, uint64_t waited_ns, struct twi_finding *row)
{
	const struct twi_slack_group *group = l->slack->group_count > 0 ? l->slack->groups : NULL;
	char name[128], slack[TWI_WORDS_BYTES], rate[TWI_RATE_BYTES];
	uint64_t all = 0;

	if (explain_late(l, waited_ns, row))
		return;
	for (size_t i = 0; i < l->slack->group_count; i++)
		all += l->slack->groups[i].stall_total_ns;
	if ((group == NULL || all == 0) && receivers_waited(l) >= waited_ns / 2) {
		SAY(row->cause,
		    "Messages waited so long for receivers that had not asked for them.");
		SAY(row->cure, "See below which receivers are late, and which ranks held up "
			       "steps.");
		return;
	}
	if (group == NULL || all == 0) {
		SAY(row->cause, "Nothing was computed while messages were on their way.");
		SAY(row->cure, "Start transfers earlier and wait for them later.");
		return;
	}
	twi_findings_collective(group, name, sizeof(name));
	twi_findings_ns(group->slack.mean, slack, sizeof(slack));
	if (group->required_bps == TWI_SLACK_UNBOUNDED || !group->sized)
		SAY(row->cause, "%u %% of it is %s, which is left %s slack.",
		    percent_of(group->stall_total_ns, all), name,
		    group->slack.mean == 0 ? "no" : slack);
	else
		twi_findings_rate(group->required_bps, rate),
			SAY(row->cause, "%u %% of it is %s: with %s of slack it needs %s to hide.",
			    percent_of(group->stall_total_ns, all), name, slack, rate);
	SAY(row->cure, "%s",
	    group->slack.mean < group->stall.mean
		    ? "Start it earlier, in smaller parts, or wait for it later."
		    : "It had enough time: see below the links, the slow pairs and the ranks "
		      "that came last.");
}

/* Limits a cost to the longest time that a rank waited, where steps show that. */
static uint64_t bounded_cost(const struct look *l, uint64_t ns)
{
	uint64_t most = l->t->step_count > 0 ? 0 : (uint64_t)l->t->view.end_ns;

	for (size_t i = 0; i < l->t->rank_count; i++)
		most = twi_max(most, l->t->ranks[i].sum.exposed_ns);
	return twi_min(ns, most);
}

static void find_exposed(struct look *l)
{
	struct twi_timeline_split sum = { 0 };
	uint64_t steps = 0, ranks = 0;
	char part[TWI_WORDS_BYTES], whole[TWI_WORDS_BYTES];
	struct twi_finding *row;

	for (size_t i = 0; i < l->t->rank_count; i++) {
		sum.step_ns += l->t->ranks[i].sum.step_ns;
		sum.exposed_ns += l->t->ranks[i].sum.exposed_ns;
		steps += l->t->ranks[i].steps;
		ranks += l->t->ranks[i].steps > 0;
	}
	if (ranks == 0 || sum.exposed_ns / ranks < l->least_ns)
		return;
	row = add_finding(l, "exposed", sum.exposed_ns / ranks);
	twi_findings_ns(sum.exposed_ns / steps, part, sizeof(part));
	twi_findings_ns(sum.step_ns / steps, whole, sizeof(whole));
	SAY(row->what, "Steps waited for messages and collectives %u %% of their time: %s of %s.",
	    percent_of(sum.exposed_ns, sum.step_ns), part, whole);
	explain_stall(l, sum.exposed_ns, row);
}

/* Without steps, collectives alone show the cost. */
static void find_stall(struct look *l)
{
	uint64_t all = 0, ranks = l->trace->rank_count;
	char text[TWI_WORDS_BYTES];
	struct twi_finding *row;

	if (l->t->step_count > 0 || ranks == 0)
		return;
	for (size_t i = 0; i < l->slack->group_count; i++)
		all += l->slack->groups[i].stall_total_ns;
	if (all / ranks < l->least_ns)
		return;
	row = add_finding(l, "exposed", all / ranks);
	twi_findings_ns(all / ranks, text, sizeof(text));
	SAY(row->what, "Collectives held each rank's threads up for %s, %u %% of the time.", text,
	    percent_of(all / ranks, (uint64_t)l->t->view.end_ns));
	explain_stall(l, all, row);
}

static void find_links(struct look *l)
{
	for (unsigned path = 0; path < TWI_PATHS; path++) {
		const struct twi_timeline_link *link = &l->t->links[path];
		uint64_t waited = 0, length = 0, ranks = 0;
		char limit[TWI_RATE_BYTES], text[TWI_WORDS_BYTES];
		struct twi_finding *row;

		for (size_t i = 0; i < l->t->rank_count; i++) {
			waited += l->t->ranks[i].bound_waited_ns[path];
			length += l->t->ranks[i].bound_ns[path];
			ranks += l->t->ranks[i].bound_ns[path] > 0;
		}
		if (ranks == 0 || waited / ranks < l->least_ns)
			continue;
		row = add_finding(l, "link", waited / ranks);
		twi_findings_rate(link->limit_bps, limit);
		twi_findings_ns(length / ranks, text, sizeof(text));
		SAY(row->what, "%s of %llu %s full for %s each while threads waited for %s.",
		    path == TWI_PATH_NETWORK ? "The link to the network" : "The memory path",
		    (unsigned long long)ranks, plural_of(ranks, "rank was", "ranks was"), text,
		    path == TWI_PATH_NETWORK ? "it" : "messages of their own host");
		SAY(row->cause, "At least %u %% of %s, %s, in the busier direction.",
		    TWI_TIMELINE_FULL_PERCENT, limit,
		    link->limit_given ? "the limit that was given" : "the best rate seen");
		SAY(row->cure, "%s",
		    path == TWI_PATH_NETWORK
			    ? "Send less (shorter types, fewer repeats), spread it over the "
			      "step, or add links."
			    : "Send less, or spread it over the step.");
	}
}

static void find_straggler(struct look *l)
{
	const struct twi_timeline_rank *ranks = l->t->ranks;
	size_t worst = 0;
	char each[TWI_WORDS_BYTES];
	struct twi_finding *row;

	for (size_t i = 1; i < l->t->rank_count; i++) {
		if (ranks[i].slowest_ns > ranks[worst].slowest_ns)
			worst = i;
	}
	if (l->t->rank_count < 2 || bounded_cost(l, ranks[worst].slowest_ns) < l->least_ns)
		return;
	row = add_finding(l, "straggler", bounded_cost(l, ranks[worst].slowest_ns));
	twi_findings_ns(ranks[worst].slowest_ns / ranks[worst].slowest_steps, each, sizeof(each));
	SAY(row->what, "Rank %lld (%.60s) held up %llu of %zu steps, by %s each.",
	    (long long)l->trace->ranks[worst].rank,
	    l->trace->ranks[worst].host != NULL ? l->trace->ranks[worst].host : "",
	    (unsigned long long)ranks[worst].slowest_steps, l->t->step_count, each);
	SAY(row->cause, "It did not wait for so much longer than the median of the others: it "
			"computed, or did not get the CPU.");
	SAY(row->cure,
	    "Look at its host (towdoctor there: other load, quota, clock speed, memory), and at "
	    "whether it has more to do.");
}

static void find_last(struct look *l)
{
	const struct twi_timeline_rank *ranks = l->t->ranks;
	uint64_t told = l->t->entries.told;
	size_t worst = 0;
	char each[TWI_WORDS_BYTES], most[TWI_WORDS_BYTES];
	struct twi_finding *row;

	for (size_t i = 1; i < l->t->rank_count; i++) {
		if (ranks[i].last_ns > ranks[worst].last_ns)
			worst = i;
	}
	/* Some rank is always last: this one 2.5 times as often as by chance, or in 3/4 of all. */
	if (l->t->rank_count < 2 || bounded_cost(l, ranks[worst].last_ns) < l->least_ns ||
	    ranks[worst].last_count * 2 * l->t->rank_count <
		    twi_min(5 * told, told * 3 / 2 * l->t->rank_count))
		return;
	row = add_finding(l, "last", bounded_cost(l, ranks[worst].last_ns));
	twi_findings_ns(ranks[worst].last_ns / ranks[worst].last_count, each, sizeof(each));
	twi_findings_ns(ranks[worst].last_max_ns, most, sizeof(most));
	SAY(row->what, "Rank %lld came last to %llu of %llu collectives, by %s each, %s at most.",
	    (long long)l->trace->ranks[worst].rank, (unsigned long long)ranks[worst].last_count,
	    (unsigned long long)l->t->entries.judged, each, most);
	SAY(row->cause, "The times are from the rank before it, less the error of the clocks.");
	SAY(row->cure, "See what it does before these collectives: its spans here, towstat explain "
		       "on its host.");
}

/* The trace of one rank shows only that others were late, but not which. */
static void find_others(struct look *l)
{
	uint64_t ns = l->t->rank_count == 1 ? l->t->ranks[0].others_ns : 0;
	char text[TWI_WORDS_BYTES];
	struct twi_finding *row;

	if (ns == 0 || ns < l->least_ns)
		return;
	row = add_finding(l, "others", ns);
	twi_findings_ns(ns, text, sizeof(text));
	SAY(row->what, "This rank waited %s in collectives to which others had not come.", text);
	SAY(row->cause, "Another rank computes longer, or enters later.");
	SAY(row->cure, "Capture all ranks (towtrace capture) to see which.");
}

static void find_pair(struct look *l)
{
	const struct twi_timeline_pair *pair = l->t->pairs;
	char name[128], usual[TWI_WORDS_BYTES], seen[TWI_WORDS_BYTES];
	struct twi_finding *row;
	uint64_t more;

	if (l->t->pair_count == 0 || !pair->slow)
		return;
	more = bounded_cost(l, pair->typical_ns - pair->usual_ns);
	if (more < l->least_ns)
		return;
	row = add_finding(l, "pair", more);
	twi_findings_pair(pair, name, sizeof(name));
	twi_findings_ns(pair->typical_ns / pair->latency.count, seen, sizeof(seen));
	twi_findings_ns(pair->usual_ns / pair->latency.count, usual, sizeof(usual));
	SAY(row->what, "Transfers %s are on their way for %s, where %s is usual for their sizes.",
	    name, seen, usual);
	SAY(row->cause, "%llu of them; other pairs send the same sizes faster.",
	    (unsigned long long)pair->latency.count);
	SAY(row->cure, "Look at the path between the two (towdoctor --peer), and at /v1/peers "
		       "there for the lane and why it was chosen.");
}

/* Messages that wait for their receiver. The link is not the cause; the sender may be held up. */
static void find_receiver(struct look *l)
{
	const struct twi_timeline_pair *worst = NULL;
	char name[128], each[TWI_WORDS_BYTES], whole[TWI_WORDS_BYTES], to[48];
	struct twi_finding *row;
	uint64_t count;

	for (size_t i = 0; i < l->t->pair_count; i++) {
		const struct twi_timeline_pair *pair = &l->t->pairs[i];

		if (pair->latency.count >= TWI_TIMELINE_SLOW_COUNT &&
		    pair->waited_ns >= pair->latency.sum_ns / 2 &&
		    (worst == NULL || pair->waited_ns > worst->waited_ns))
			worst = pair;
	}
	if (worst == NULL || bounded_cost(l, worst->waited_ns) < l->least_ns)
		return;
	count = worst->latency.count;
	row = add_finding(l, "receiver", bounded_cost(l, worst->waited_ns));
	twi_findings_pair(worst, name, sizeof(name));
	name_end(worst->to, worst->to_name, to, sizeof(to));
	twi_findings_ns(worst->waited_ns / count, each, sizeof(each));
	twi_findings_ns(worst->latency.sum_ns / count, whole, sizeof(whole));
	SAY(row->what, "Messages %s waited for their receiver for %s of %s each.", name, each,
	    whole);
	SAY(row->cause, "%s%s had not asked for them: it computed, or posts its receives late.",
	    worst->to >= 0 ? "Rank " : "", to);
	SAY(row->cure, "See what it does meanwhile (towstat explain on its host); post receives "
		       "before the messages come.");
}

static void find_reasons(struct look *l)
{
	uint64_t ranks = twi_max(l->t->rank_count, (size_t)1);

	for (unsigned i = 0; i < TWI_R_COUNT; i++) {
		const struct twi_timeline_reason *reason = &l->t->reasons[i];
		const struct twi_reason_info *info = twi_reason_describe(i);
		bool copy = strcmp(info->kind, "copy") == 0;
		char count[TWI_WORDS_BYTES], bytes[TWI_WORDS_BYTES], ns[TWI_WORDS_BYTES];
		struct twi_finding *row;

		if (reason->ns / ranks < l->least_ns || l->out->count + 4 >= TWI_FINDINGS_MAX)
			continue;
		row = add_finding(l, copy ? "copies" : "registrations", reason->ns / ranks);
		twi_words_count(reason->count, count);
		twi_words_bytes(reason->bytes, bytes);
		twi_findings_ns(reason->ns, ns, sizeof(ns));
		SAY(row->what, "%s %s of %s took %s.", count,
		    copy ? plural_of(reason->count, "fallback copy", "fallback copies")
			 : plural_of(reason->count, "late registration", "late registrations"),
		    bytes, ns);
		SAY(row->cause, "%s: %s.", info->name, info->help);
		SAY(row->cure, "%s.", info->cure);
	}
}

/* A job that hangs, or may hang. */
static void find_unfinished(struct look *l)
{
	struct twi_stuck rows[UNFINISHED_TOLD];
	size_t count = twi_unfinished_find(l->trace, rows, UNFINISHED_TOLD);

	for (size_t i = 0; i < count; i++) {
		const struct twi_stuck *stuck = &rows[i];
		uint64_t window = (uint64_t)l->t->view.end_ns;
		struct twi_finding *row =
			add_finding(l, "unfinished", twi_min(stuck->age_ns, window));
		char text[TWI_STUCK_TEXT], others[48] = "";

		twi_unfinished_say(l->trace, stuck, text);
		SAY(row->what, "%s.", text);
		if (stuck->missing > 1)
			snprintf(others, sizeof(others), " and %zu others have",
				 stuck->missing - 1);
		if (stuck->span->kind != TWI_SPAN_COLL)
			SAY(row->cause, "Nothing of that rank has ended since.");
		else if (stuck->missing > 0 && stuck->known)
			SAY(row->cause, "Rank %lld%s not come to it.",
			    (long long)l->trace->ranks[stuck->first_missing].rank,
			    stuck->missing > 1 ? others : " has");
		else
			SAY(row->cause, "%s",
			    stuck->known ? "All of its ranks are in it."
					 : "Not all of its ranks are in this trace.");
		SAY(row->cure, "Ask towstat verdict while it lasts; then see what the rank that is "
			       "waited for does (towstat explain, a debugger).");
	}
}

static void find_failed(struct look *l)
{
	uint64_t failed = 0, all = 0;
	struct twi_finding *row;

	for (unsigned i = 0; i < TWI_SPAN_KINDS; i++) {
		if (i == TWI_SPAN_WAIT || i == TWI_SPAN_DELIVERY)
			continue;
		failed += l->t->failed[i];
		all += l->t->kinds[i].count;
	}
	if (failed == 0)
		return;
	row = add_finding(l, "failed", 0);
	SAY(row->what, "%llu of %llu operations failed.", (unsigned long long)failed,
	    (unsigned long long)all);
	SAY(row->cause, "The trace has their statuses; the log in /v1/info may say more.");
	SAY(row->cure, "See the table of kinds below.");
}

static void find_lost(struct look *l)
{
	uint64_t lost = 0, spans = 0;
	char text[TWI_WORDS_BYTES];
	struct twi_finding *row;

	for (size_t i = 0; i < l->t->rank_count; i++) {
		lost += l->t->ranks[i].lost;
		spans += l->t->ranks[i].spans;
	}
	if (lost == 0)
		return;
	row = add_finding(l, "lost", 0);
	twi_words_count(lost, text);
	SAY(row->what, "%s spans were overwritten before they were read, %u %% of all.", text,
	    percent_of(lost, lost + spans));
	SAY(row->cause,
	    "A thread's ring keeps its last %u; this report has only those that are "
	    "left.",
	    TWI_SPAN_ROWS);
	SAY(row->cure, "Capture a shorter time, or read more often.");
}

static void find_clocks(struct look *l)
{
	struct twi_finding *row;

	if (l->t->entries.unknown == 0)
		return;
	row = add_finding(l, "clocks", 0);
	SAY(row->what, "For %llu collectives it is not known which rank came last.",
	    (unsigned long long)l->t->entries.unknown);
	SAY(row->cause, "The ranks' clocks were aligned by UNIX time: their offsets were not "
			"measured.");
	SAY(row->cure, "Capture with towtrace, which measures them.");
}

static int by_cost(const void *a, const void *b)
{
	const struct twi_finding *left = a, *right = b;

	if (left->cost_ns != right->cost_ns)
		return left->cost_ns > right->cost_ns ? -1 : 1;
	return strcmp(left->kind, right->kind);
}

void twi_findings_make(const struct twi_trace *trace, const struct twi_timeline *timeline,
		       const struct twi_slack *slack, struct twi_findings *out)
{
	struct look l = { trace, timeline, slack, out,
			  (uint64_t)timeline->view.end_ns / TWI_FINDINGS_SHARE + 1 };

	*out = (struct twi_findings){ 0 };
	find_exposed(&l);
	find_stall(&l);
	find_links(&l);
	find_straggler(&l);
	find_last(&l);
	find_others(&l);
	find_pair(&l);
	find_receiver(&l);
	find_reasons(&l);
	find_unfinished(&l);
	find_failed(&l);
	find_lost(&l);
	find_clocks(&l);
	qsort(out->rows, out->count, sizeof(out->rows[0]), by_cost);
}

void twi_findings_emit(const struct twi_findings *findings, struct twi_emit *e)
{
	twi_emit_array_begin(e, "findings");
	for (size_t i = 0; i < findings->count; i++) {
		const struct twi_finding *row = &findings->rows[i];

		twi_emit_object_begin(e, NULL);
		twi_emit_str(e, "kind", row->kind);
		twi_emit_u64(e, "cost_ns", row->cost_ns);
		twi_emit_str(e, "what", row->what);
		twi_emit_str(e, "cause", row->cause);
		twi_emit_str(e, "cure", row->cure);
		twi_emit_object_end(e);
	}
	twi_emit_array_end(e);
}
