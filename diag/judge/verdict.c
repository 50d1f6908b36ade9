/*
 * verdict.c - runs the judges in their order, keeps their findings, and puts the verdict into
 * words. verdict_parts.h lists the files that find something.
 */
#include "diag/judge/verdict_parts.h"

#include <stdarg.h>
#include <stdio.h>

#include <internal/base.h>

#include "diag/base/emit.h"
#include "diag/base/words.h"
#include "diag/record/lane_id.h"

static const struct {
	const char *name, *says, *cure;
} causes[] = {
#define ROW(id, name, says, cure) [TWI_CAUSE_##id] = { name, says, cure },
	TWI_CAUSE_MAP(ROW)
#undef ROW
};

const char *twi_cause_name(enum twi_cause cause)
{
	return (unsigned)cause < TWI_CAUSES ? causes[cause].name : "unknown";
}

const char *twi_cause_says(enum twi_cause cause)
{
	return (unsigned)cause < TWI_CAUSES ? causes[cause].says : "unknown";
}

const char *twi_cause_cure(enum twi_cause cause)
{
	return (unsigned)cause < TWI_CAUSES ? causes[cause].cure : "";
}

struct twi_verdict_finding *twi_judge_finding(struct twi_judge *judge, enum twi_cause cause,
					      double confidence)
{
	struct twi_verdict *out = judge->out;
	struct twi_verdict_finding *finding;

	for (uint32_t i = 0; i < out->finding_count; i++) {
		if (out->findings[i].cause != cause)
			continue;
		finding = &out->findings[i];
		finding->confidence = twi_max(finding->confidence, confidence);
		return finding;
	}
	finding = &out->findings[out->finding_count++];
	*finding = (struct twi_verdict_finding){ .cause = cause, .confidence = confidence };
	return finding;
}

bool twi_judge_names(const struct twi_judge *judge, enum twi_cause cause, uint32_t rank)
{
	for (uint32_t i = 0; i < judge->out->finding_count; i++) {
		const struct twi_verdict_finding *finding = &judge->out->findings[i];

		for (uint32_t k = 0; finding->cause == cause && k < finding->rank_count; k++) {
			if (finding->ranks[k] == rank)
				return true;
		}
	}
	return false;
}

bool twi_judge_blames(const struct twi_judge *judge, uint32_t rank)
{
	for (unsigned cause = 0; cause < TWI_CAUSES; cause++) {
		if (twi_judge_names(judge, (enum twi_cause)cause, rank))
			return true;
	}
	return false;
}

static void add_evidence(struct twi_verdict_finding *finding, const char *fmt, va_list args)
{
	if (finding->evidence_count < TWI_FINDING_EVIDENCE)
		vsnprintf(finding->evidence[finding->evidence_count++], TWI_FINDING_TEXT, fmt,
			  args);
}

void twi_judge_blame(struct twi_judge *judge, enum twi_cause cause, uint32_t rank,
		     double confidence, const char *fmt, ...)
{
	struct twi_verdict_finding *finding;
	va_list args;

	if (twi_judge_blames(judge, rank))
		return;
	finding = twi_judge_finding(judge, cause, confidence);
	if (finding->rank_count < TWI_FINDING_RANKS)
		finding->ranks[finding->rank_count++] = rank;
	va_start(args, fmt);
	add_evidence(finding, fmt, args);
	va_end(args);
}

void twi_judge_add(struct twi_judge *judge, enum twi_cause cause, const char *fmt, ...)
{
	va_list args;

	for (uint32_t i = 0; i < judge->out->finding_count; i++) {
		if (judge->out->findings[i].cause != cause)
			continue;
		va_start(args, fmt);
		add_evidence(&judge->out->findings[i], fmt, args);
		va_end(args);
	}
}

void twi_judge_blame_link(struct twi_judge *judge, enum twi_cause cause, uint32_t from, uint32_t to,
			  double confidence, const char *fmt, ...)
{
	struct twi_verdict_finding *finding = twi_judge_finding(judge, cause, confidence);
	va_list args;

	for (uint32_t i = 0; i < finding->link_count; i++) {
		if (finding->links[i].from == from && finding->links[i].to == to)
			return;
	}
	if (finding->link_count < TWI_FINDING_LINKS) {
		finding->links[finding->link_count].from = from;
		finding->links[finding->link_count++].to = to;
	}
	va_start(args, fmt);
	add_evidence(finding, fmt, args);
	va_end(args);
}

const struct twi_verdict_rank *twi_judge_rank(const struct twi_judge *judge, uint32_t rank)
{
	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		if (judge->what->ranks[i].rank == rank)
			return &judge->what->ranks[i];
	}
	return NULL;
}

const char *twi_judge_kind(const struct twi_judge *judge, const struct twi_verdict_rank *rank,
			   uint32_t ctx, const struct twi_state_past *past,
			   char room[TWI_JUDGE_KIND])
{
	const struct twi_state_group *group = twi_group_at(rank, ctx);
	bool named = group != NULL && group->call_seq == past->seq && group->call[0] != '\0';
	char kind[32];

	if (judge->what->kind_name != NULL)
		snprintf(kind, sizeof(kind), "%s", judge->what->kind_name(past->kind));
	else
		snprintf(kind, sizeof(kind), "collective of kind %u", past->kind);
	snprintf(room, TWI_JUDGE_KIND, named ? "%s \"%s\"" : "%s", kind, named ? group->call : "");
	return room;
}

/* The label of a group. If ranks have different labels, the first rank's label counts. */
static const char *label_of(const struct twi_judge *judge, uint32_t ctx)
{
	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_state_group *group = twi_group_at(&judge->what->ranks[i], ctx);

		if (group != NULL && group->label[0] != '\0')
			return group->label;
	}
	return NULL;
}

const char *twi_judge_group(const struct twi_judge *judge, uint32_t ctx, char room[TWI_JUDGE_GROUP])
{
	for (uint32_t i = 0; (ctx & TWI_STATE_FOREIGN) != 0 && i < judge->what->rank_count; i++) {
		const struct twi_state_group *group = twi_group_at(&judge->what->ranks[i], ctx);

		if (group == NULL || group->name[0] == '\0')
			continue;
		snprintf(room, TWI_JUDGE_GROUP, "communicator %s", group->name);
		return room;
	}
	if (label_of(judge, ctx) != NULL)
		snprintf(room, TWI_JUDGE_GROUP, "group %u \"%s\"", twi_ctx_group(ctx),
			 label_of(judge, ctx));
	else
		snprintf(room, TWI_JUDGE_GROUP, "group %u", twi_ctx_group(ctx));
	return room;
}

const char *twi_judge_call(const struct twi_judge *judge, uint32_t ctx, uint64_t seq,
			   char room[TWI_JUDGE_CALL])
{
	char group[TWI_JUDGE_GROUP];

	snprintf(room, TWI_JUDGE_CALL, "%s %llu of %s", twi_ctx_word(ctx), (unsigned long long)seq,
		 twi_judge_group(judge, ctx, group));
	return room;
}

const char *twi_judge_time(uint64_t ns, char room[24])
{
	if (ns >= 10000000000ull)
		snprintf(room, 24, "%.0f s", (double)ns / 1e9);
	else if (ns >= 1000000000ull)
		snprintf(room, 24, "%.1f s", (double)ns / 1e9);
	else
		snprintf(room, 24, "%.0f ms", (double)ns / 1e6);
	return room;
}

/* Missing answers and lost records lower the confidence of all findings. */
static void lower_confidence(struct twi_judge *judge)
{
	struct twi_verdict *out = judge->out;
	double factor = 1;

	if (out->unknown > 0)
		factor -= 0.3 * out->unknown / out->ranks;
	if (out->telemetry_lost)
		factor -= 0.1;
	for (uint32_t i = 0; i < out->finding_count; i++)
		out->findings[i].confidence *= factor;
}

static void count_ranks(struct twi_judge *judge)
{
	struct twi_verdict *out = judge->out;

	out->ranks = judge->what->rank_count;
	for (uint32_t i = 0; i < judge->what->rank_count; i++) {
		const struct twi_verdict_rank *rank = &judge->what->ranks[i];

		if (rank->last == NULL)
			continue;
		out->answered++;
		out->telemetry_lost |= rank->last->lost > 0 || rank->last->cut;
	}
}

static void sort_findings(struct twi_verdict *out)
{
	for (uint32_t i = 1; i < out->finding_count; i++) {
		for (uint32_t k = i;
		     k > 0 && out->findings[k].confidence > out->findings[k - 1].confidence; k--) {
			struct twi_verdict_finding other = out->findings[k];

			out->findings[k] = out->findings[k - 1];
			out->findings[k - 1] = other;
		}
	}
}

void twi_verdict_judge(const struct twi_verdict_case *what, struct twi_verdict *out)
{
	struct twi_judge judge = { .what = what, .out = out };

	*out = (struct twi_verdict){ 0 };
	count_ranks(&judge);
	out->stuck = twi_judge_stuck(&judge);
	/* The order matters: a rank that is blamed for one cause is not blamed for a later one. */
	twi_judge_forming(&judge);
	twi_judge_silent(&judge);
	twi_judge_agreement(&judge);
	twi_judge_links(&judge);
	twi_judge_held_ranks(&judge);
	twi_judge_dials(&judge);
	twi_judge_buffers(&judge);
	twi_judge_missing(&judge);
	twi_judge_waits(&judge);
	twi_judge_roomless(&judge);
	twi_judge_shifted(&judge);
	twi_judge_late(&judge);
	twi_judge_flows(&judge);
	twi_judge_credit(&judge);
	twi_judge_bound(&judge);
	if (out->finding_count == 0)
		twi_judge_overflows(&judge);
	lower_confidence(&judge);
	sort_findings(out);
}

/* --- text --- */

void twi_verdict_emit_finding(const struct twi_verdict_finding *finding, struct twi_emit *emit)
{
	twi_emit_str(emit, "cause", twi_cause_name(finding->cause));
	twi_emit_str(emit, "says", twi_cause_says(finding->cause));
	twi_emit_array_begin(emit, "ranks");
	for (uint32_t i = 0; i < finding->rank_count; i++)
		twi_emit_u64(emit, NULL, finding->ranks[i]);
	twi_emit_array_end(emit);
	twi_emit_array_begin(emit, "links");
	for (uint32_t i = 0; i < finding->link_count; i++) {
		twi_emit_object_begin(emit, NULL);
		twi_emit_u64(emit, "from", finding->links[i].from);
		twi_emit_u64(emit, "to", finding->links[i].to);
		twi_emit_object_end(emit);
	}
	twi_emit_array_end(emit);
	twi_emit_f64(emit, "confidence", finding->confidence);
	if (finding->saves > 0)
		twi_emit_f64(emit, "saves", finding->saves);
	if (finding->step_ns > 0)
		twi_emit_u64(emit, "step_ns", finding->step_ns);
	twi_emit_array_begin(emit, "evidence");
	for (uint32_t i = 0; i < finding->evidence_count; i++)
		twi_emit_str(emit, NULL, finding->evidence[i]);
	twi_emit_array_end(emit);
	twi_emit_str(emit, "cure", twi_cause_cure(finding->cause));
}

const char *twi_verdict_state_name(bool stuck, bool slow)
{
	if (stuck)
		return "stuck";
	return slow ? "slow" : "healthy";
}

/* The state of a job is never "healthy" while ranks are missing. */
static const char *state_of(const struct twi_verdict *verdict)
{
	bool slow = verdict->finding_count > 0 || verdict->waits.slow;

	if (verdict->forming || (verdict->missing > 0 && !verdict->stuck && !slow))
		return "forming";
	return twi_verdict_state_name(verdict->stuck, slow);
}

/* Emits the links in the rank's own order: links with trouble come first. */
static void emit_links(const struct twi_rank_state *state, struct twi_emit *emit)
{
	twi_emit_array_begin(emit, "links");
	for (uint32_t i = 0; state != NULL && i < state->link_count; i++) {
		const struct twi_state_link *link = &state->links[i];
		bool fabric = (link->flags & TWI_LINK_FABRIC) != 0;

		twi_emit_object_begin(emit, NULL);
		twi_emit_u64(emit, "to", link->rank);
		twi_emit_str(emit, "lane", twi_lane_name((enum twi_lane_id)link->lane));
		twi_emit_u64(emit, "unacknowledged_bytes", link->unacked_bytes);
		twi_emit_u64(emit, "waiting_sends", link->waiting_sends);
		twi_emit_u64(emit, "silent_ns", link->silent_ns);
		twi_emit_bool(emit, "no_credit", (link->flags & TWI_LINK_NO_CREDIT) != 0);
		twi_emit_bool(emit, "tcp_info", (link->flags & TWI_LINK_TCP) != 0);
		if (fabric) {
			twi_emit_u64(emit, "outstanding_operations", link->pending_ops);
			twi_emit_str(emit, "libfabric", state->fabric);
		}
		twi_emit_object_end(emit);
	}
	twi_emit_array_end(emit);
}

/* Emits the connections that cannot be made. */
static void emit_dials(const struct twi_rank_state *state, struct twi_emit *emit)
{
	twi_emit_array_begin(emit, "connecting");
	for (uint32_t i = 0; state != NULL && i < state->dial_count; i++) {
		const struct twi_state_dial *dial = &state->dials[i];

		twi_emit_object_begin(emit, NULL);
		twi_emit_u64(emit, "to", dial->rank);
		twi_emit_str(emit, "address", dial->address[0] != '\0' ? dial->address : NULL);
		twi_emit_u64(emit, "age_ns", twi_since(state->now_ns, dial->since_ns));
		twi_emit_u64(emit, "attempts", dial->attempts);
		twi_emit_u64(emit, "syns_sent_again", dial->syns);
		twi_emit_u64(emit, "errno", dial->error);
		twi_emit_object_end(emit);
	}
	twi_emit_array_end(emit);
}

/* A tag is emitted as text, because it may use all 64 bits and a number of JSON may not hold it. */
static void emit_tag(uint64_t tag, struct twi_emit *emit)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)tag);
	twi_emit_str(emit, "tag", text);
}

static void emit_wait(const struct twi_rank_state *state, const struct twi_state_wait *wait,
		      bool thread, struct twi_emit *emit)
{
	twi_emit_object_begin(emit, NULL);
	twi_emit_str(emit, "kind", twi_wait_kind_name(wait->kind));
	twi_emit_bool(emit, "thread", thread);
	if (wait->kind == TWI_STATE_COLL) {
		twi_emit_u64(emit, "group", twi_ctx_group(wait->ctx));
		twi_emit_str(emit, "of",
			     (wait->ctx & TWI_STATE_BARRIERS) != 0 ? "barriers" : "collectives");
		twi_emit_u64(emit, "number", wait->seq);
	} else {
		if (wait->rank != TWI_STATE_NO_RANK)
			twi_emit_u64(emit, "rank", wait->rank);
		emit_tag(wait->tag, emit);
		twi_emit_u64(emit, "bytes", wait->bytes);
	}
	twi_emit_u64(emit, "age_ns", twi_since(state->now_ns, wait->since_ns));
	twi_emit_object_end(emit);
}

/* Emits the waits and the messages under way, then the messages that no receive takes. */
static void emit_waits(const struct twi_rank_state *state, struct twi_emit *emit)
{
	twi_emit_array_begin(emit, "waits");
	for (uint32_t i = 0; state != NULL && i < state->wait_count; i++)
		emit_wait(state, &state->waits[i], true, emit);
	for (uint32_t i = 0; state != NULL && i < state->message_count; i++)
		emit_wait(state, &state->messages[i], false, emit);
	twi_emit_array_end(emit);
	twi_emit_array_begin(emit, "unreceived");
	for (uint32_t i = 0; state != NULL && i < state->stray_count; i++) {
		twi_emit_object_begin(emit, NULL);
		twi_emit_u64(emit, "from", state->strays[i].rank);
		twi_emit_u64(emit, "channel", state->strays[i].channel);
		emit_tag(state->strays[i].tag, emit);
		twi_emit_u64(emit, "bytes", state->strays[i].bytes);
		twi_emit_object_end(emit);
	}
	twi_emit_array_end(emit);
}

static void emit_rank(const struct twi_verdict_case *what, const struct twi_verdict_rank *rank,
		      struct twi_emit *emit)
{
	const struct twi_rank_state *state = rank->last;

	twi_emit_object_begin(emit, NULL);
	twi_emit_u64(emit, "rank", rank->rank);
	twi_emit_bool(emit, "answered", state != NULL);
	twi_emit_str(emit, "host", state != NULL ? state->host : NULL);
	if (rank->pid > 0)
		twi_emit_u64(emit, "pid", rank->pid);
	if (state != NULL) {
		twi_emit_u64(emit, "waiting_threads", state->waiters);
		twi_emit_u64(emit, "run_queue_ns", state->run_queue_ns);
		twi_emit_u64(emit, "on_cpu_ns", state->on_cpu_ns);
		twi_emit_u64(emit, "throttled_ns", state->throttled_ns);
		twi_emit_u64(emit, "pool_free_bytes", state->pool_free_bytes);
		twi_emit_u64(emit, "records_lost", state->lost);
		if (!rank->me)
			twi_emit_u64(emit, "clock_error_ns", rank->error_ns);
	}
	emit_links(state, emit);
	emit_dials(state, emit);
	emit_waits(state, emit);
	twi_emit_array_begin(emit, "groups");
	for (uint32_t i = 0; state != NULL && i < state->group_count; i++) {
		const struct twi_state_group *group = &state->groups[i];
		const struct twi_state_past *last = group->past_count > 0 ? &group->past[0] : NULL;

		twi_emit_object_begin(emit, NULL);
		twi_emit_u64(emit, "group", twi_ctx_group(group->ctx));
		twi_emit_str(emit, "label", group->label[0] != '\0' ? group->label : NULL);
		if (group->name[0] != '\0')
			twi_emit_str(emit, "name", group->name);
		twi_emit_str(emit, "of",
			     (group->ctx & TWI_STATE_BARRIERS) != 0 ? "barriers" : "collectives");
		twi_emit_u64(emit, "last_entered", group->last_seq);
		twi_emit_u64(emit, "in_flight", group->in_flight);
		if (last != NULL && what->kind_name != NULL)
			twi_emit_str(emit, "last_kind", what->kind_name(last->kind));
		if (group->call_seq > 0) {
			twi_emit_u64(emit, "named", group->call_seq);
			twi_emit_str(emit, "call", group->call);
		}
		twi_emit_object_end(emit);
	}
	twi_emit_array_end(emit);
	twi_emit_object_end(emit);
}

void twi_verdict_emit(const struct twi_verdict *verdict, const struct twi_verdict_case *what,
		      struct twi_emit *emit)
{
	char text[TWI_FINDING_TEXT * 2];

	twi_verdict_short(verdict, text, sizeof(text));
	twi_emit_str(emit, "state", state_of(verdict));
	twi_emit_str(emit, "short", text);
	twi_emit_u64(emit, "asked_by", what->me);
	twi_emit_u64(emit, "ranks_in_job", verdict->ranks);
	twi_emit_u64(emit, "ranks_answered", verdict->answered);
	twi_emit_u64(emit, "ranks_unknown", verdict->unknown);
	twi_emit_u64(emit, "ranks_missing", verdict->missing);
	twi_emit_bool(emit, "telemetry_lost", verdict->telemetry_lost);
	if (verdict->waits.ranks > 0) {
		twi_emit_object_begin(emit, "blocked");
		twi_verdict_emit_waits(&verdict->waits, emit);
		twi_emit_object_end(emit);
	}
	twi_emit_array_begin(emit, "findings");
	for (uint32_t i = 0; i < verdict->finding_count; i++) {
		twi_emit_object_begin(emit, NULL);
		twi_verdict_emit_finding(&verdict->findings[i], emit);
		twi_emit_object_end(emit);
	}
	twi_emit_array_end(emit);
	twi_emit_array_begin(emit, "ranks");
	for (uint32_t i = 0; i < what->rank_count; i++)
		emit_rank(what, &what->ranks[i], emit);
	twi_emit_array_end(emit);
}

__attribute__((format(printf, 4, 5))) static size_t append_text(char *out, size_t room, size_t used,
								const char *fmt, ...)
{
	va_list args;
	int n;

	if (used + 1 >= room)
		return used;
	va_start(args, fmt);
	n = vsnprintf(out + used, room - used, fmt, args);
	va_end(args);
	return n < 0 ? used : twi_min(used + (size_t)n, room - 1);
}

/* "rank 2 has not entered (97 %)" */
static size_t add_finding(const struct twi_verdict_finding *finding, char *out, size_t room,
			  size_t used)
{
	if (finding->rank_count > 0)
		used = append_text(out, room, used, finding->rank_count > 1 ? "ranks " : "rank ");
	for (uint32_t i = 0; i < finding->rank_count; i++)
		used = append_text(out, room, used, "%s%u", i > 0 ? ", " : "", finding->ranks[i]);
	if (finding->link_count > 0)
		used = append_text(out, room, used,
				   finding->link_count > 1 ? "links " : "the link ");
	for (uint32_t i = 0; i < finding->link_count; i++)
		used = append_text(out, room, used, "%s%u->%u", i > 0 ? ", " : "",
				   finding->links[i].from, finding->links[i].to);
	return append_text(out, room, used, ": %s, %s (%.0f %%)", twi_cause_name(finding->cause),
			   twi_cause_says(finding->cause), finding->confidence * 100);
}

void twi_verdict_short(const struct twi_verdict *verdict, char *out, size_t room)
{
	size_t used = 0;

	out[0] = '\0';
	for (uint32_t i = 0; i < twi_min(verdict->finding_count, 2u); i++) {
		if (i > 0)
			used = append_text(out, room, used, "; ");
		used = add_finding(&verdict->findings[i], out, room, used);
	}
	if (verdict->finding_count > 0 && verdict->findings[0].evidence_count > 0)
		append_text(out, room, used, ": %s", verdict->findings[0].evidence[0]);
	else if (verdict->finding_count == 0 && verdict->waits.slow)
		append_text(out, room, used, "nobody is named: %s", verdict->waits.says);
}

void twi_verdict_text(const struct twi_verdict *verdict, struct twi_emit *emit)
{
	char line[TWI_FINDING_TEXT * 2], clean[TWI_FINDING_TEXT * 2];

	twi_emit_raw(emit, "towline: verdict: %s; %u of %u ranks answered\n", state_of(verdict),
		     verdict->answered, verdict->ranks);
	if (verdict->waits.slow)
		twi_emit_raw(emit, "towline:   %s\n", verdict->waits.says);
	if (verdict->waits.slow && verdict->finding_count == 0)
		twi_emit_raw(emit, "towline:     mend: %s\n", verdict->waits.mend);
	for (uint32_t i = 0; i < verdict->finding_count; i++) {
		const struct twi_verdict_finding *finding = &verdict->findings[i];

		line[0] = '\0';
		add_finding(finding, line, sizeof(line), 0);
		twi_words_clean(clean, sizeof(clean), line);
		twi_emit_raw(emit, "towline:   %s\n", clean);
		/* The text has names of hosts and of groups as other ranks reported them. */
		for (uint32_t k = 0; k < finding->evidence_count; k++) {
			twi_words_clean(clean, sizeof(clean), finding->evidence[k]);
			twi_emit_raw(emit, "towline:     %s\n", clean);
		}
		twi_emit_raw(emit, "towline:     mend: %s\n", twi_cause_cure(finding->cause));
	}
}
