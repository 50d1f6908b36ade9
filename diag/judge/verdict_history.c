/* verdict_history.c - see verdict_history.h. */
#include "diag/judge/verdict_history.h"

#include <stdio.h>
#include <string.h>

#include <internal/base.h>

#include "diag/base/emit.h"

#define SLOW_STILL 0.15 /* a slow job stays slow down to this share of blocked time */

const struct twi_history_row *twi_history_row(const struct twi_history *history, uint32_t back)
{
	if (back >= history->row_count)
		return NULL;
	return &history->rows[(history->newest + TWI_HISTORY_ROWS - back) % TWI_HISTORY_ROWS];
}

static void keep_finding(const struct twi_verdict_finding *finding, struct twi_history_finding *out)
{
	*out = (struct twi_history_finding){ .cause = finding->cause,
					     .confidence = finding->confidence,
					     .rank_count = finding->rank_count,
					     .link_count = finding->link_count };
	for (uint32_t i = 0; i < twi_min(finding->rank_count, TWI_HISTORY_NAMED); i++)
		out->ranks[i] = finding->ranks[i];
	for (uint32_t i = 0; i < twi_min(finding->link_count, TWI_HISTORY_NAMED); i++)
		out->links[i] = finding->links[i];
	if (finding->evidence_count > 0)
		snprintf(out->evidence, sizeof(out->evidence), "%.*s", TWI_HISTORY_TEXT - 1,
			 finding->evidence[0]);
}

static bool same_finding(const struct twi_history_finding *a, const struct twi_history_finding *b)
{
	return a->cause == b->cause && a->rank_count == b->rank_count &&
	       a->link_count == b->link_count &&
	       memcmp(a->ranks, b->ranks, sizeof(a->ranks)) == 0 &&
	       memcmp(a->links, b->links, sizeof(a->links)) == 0;
}

/* Whether two rows name the same causes and culprits, in whatever order. */
static bool same_row(const struct twi_history_row *a, const struct twi_history_row *b)
{
	if (a->stuck != b->stuck || (a->finding_count == 0 && a->slow != b->slow) ||
	    a->finding_count != b->finding_count || a->unknown != b->unknown)
		return false;
	for (uint32_t i = 0; i < a->finding_count; i++) {
		bool found = false;

		for (uint32_t k = 0; k < b->finding_count && !found; k++)
			found = same_finding(&a->findings[i], &b->findings[k]);
		if (!found)
			return false;
	}
	return true;
}

bool twi_history_add(struct twi_history *history, const struct twi_verdict *verdict,
		     uint64_t now_ns)
{
	struct twi_history_row *newest = &history->rows[history->newest];
	struct twi_history_row row = { .from_ns = now_ns,
				       .to_ns = now_ns,
				       .looks = 1,
				       .stuck = verdict->stuck,
				       .slow = verdict->waits.slow,
				       .blocked = verdict->waits.share,
				       .ranks = verdict->ranks,
				       .answered = verdict->answered,
				       .unknown = verdict->unknown,
				       .finding_count = twi_min(verdict->finding_count,
								TWI_HISTORY_FINDINGS) };
	bool same;

	if (history->row_count > 0 && newest->slow && row.blocked >= SLOW_STILL)
		row.slow = true; /* a share at the limit does not make a row of each look */
	for (uint32_t i = 0; i < row.finding_count; i++)
		keep_finding(&verdict->findings[i], &row.findings[i]);
	same = history->row_count > 0 && same_row(newest, &row);
	if (same) {
		row.from_ns = newest->from_ns;
		row.looks += newest->looks;
	} else if (history->row_count > 0) {
		history->newest = (history->newest + 1) % TWI_HISTORY_ROWS;
	}
	history->rows[history->newest] = row;
	if (!same)
		history->row_count = twi_min(history->row_count + 1, TWI_HISTORY_ROWS);
	history->looks++;
	return !same;
}

/* Whether `b` names all culprits of `a`, as far as they are kept. */
static bool names_all(const struct twi_history_finding *b, const struct twi_history_finding *a)
{
	if (a->cause != b->cause || a->rank_count > b->rank_count || a->link_count > b->link_count)
		return false;
	if (b->rank_count > TWI_HISTORY_NAMED || b->link_count > TWI_HISTORY_NAMED)
		return true; /* those that are not kept may be the same */
	for (uint32_t i = 0; i < a->rank_count; i++) {
		bool found = false;

		for (uint32_t k = 0; k < b->rank_count && !found; k++)
			found = a->ranks[i] == b->ranks[k];
		if (!found)
			return false;
	}
	for (uint32_t i = 0; i < a->link_count; i++) {
		bool found = false;

		for (uint32_t k = 0; k < b->link_count && !found; k++)
			found = a->links[i].from == b->links[k].from &&
				a->links[i].to == b->links[k].to;
		if (!found)
			return false;
	}
	return true;
}

const struct twi_history_finding *twi_history_news(const struct twi_history *history)
{
	const struct twi_history_row *now = twi_history_row(history, 0);
	const struct twi_history_row *before = twi_history_row(history, 1);

	/* If the row has several looks, the look before said the same. */
	if (now == NULL || now->looks > 1)
		return NULL;
	for (uint32_t i = 0; i < now->finding_count; i++) {
		bool known = false;

		for (uint32_t k = 0; before != NULL && k < before->finding_count && !known; k++)
			known = names_all(&before->findings[k], &now->findings[i]);
		if (!known)
			return &now->findings[i];
	}
	return NULL;
}

static const char *state_of_row(const struct twi_history_row *row)
{
	return twi_verdict_state_name(row->stuck, row->finding_count > 0 || row->slow);
}

/* Emits a kept finding as the verdict itself would. */
static void emit_kept(const struct twi_history_finding *kept, struct twi_emit *emit)
{
	struct twi_verdict_finding finding = {
		.cause = kept->cause,
		.confidence = kept->confidence,
		.rank_count = twi_min(kept->rank_count, TWI_HISTORY_NAMED),
		.link_count = twi_min(kept->link_count, TWI_HISTORY_NAMED),
		.evidence_count = kept->evidence[0] != '\0',
	};

	memcpy(finding.ranks, kept->ranks, sizeof(kept->ranks));
	memcpy(finding.links, kept->links, sizeof(kept->links));
	memcpy(finding.evidence[0], kept->evidence, sizeof(kept->evidence));
	twi_emit_object_begin(emit, NULL);
	twi_verdict_emit_finding(&finding, emit);
	twi_emit_u64(emit, "culprits", (uint64_t)kept->rank_count + kept->link_count);
	twi_emit_object_end(emit);
}

void twi_history_emit(const struct twi_history *history, uint64_t now_ns, uint64_t ahead_ns,
		      struct twi_emit *emit)
{
	twi_emit_u64(emit, "now_unix_ns", now_ns + ahead_ns);
	twi_emit_u64(emit, "looks", history->looks);
	twi_emit_array_begin(emit, "rows");
	for (uint32_t back = history->row_count; back-- > 0;) {
		const struct twi_history_row *row = twi_history_row(history, back);

		twi_emit_object_begin(emit, NULL);
		twi_emit_u64(emit, "from_unix_ns", row->from_ns + ahead_ns);
		twi_emit_u64(emit, "to_unix_ns", row->to_ns + ahead_ns);
		twi_emit_u64(emit, "looks", row->looks);
		twi_emit_str(emit, "state", state_of_row(row));
		twi_emit_u64(emit, "ranks_in_job", row->ranks);
		twi_emit_u64(emit, "ranks_answered", row->answered);
		twi_emit_u64(emit, "ranks_unknown", row->unknown);
		twi_emit_f64(emit, "blocked", row->blocked);
		twi_emit_array_begin(emit, "findings");
		for (uint32_t i = 0; i < row->finding_count; i++)
			emit_kept(&row->findings[i], emit);
		twi_emit_array_end(emit);
		twi_emit_object_end(emit);
	}
	twi_emit_array_end(emit);
}

/* Emits the culprits of a finding. The confidence is a share with decimals, as seconds are. */
static void emit_culprits(const struct twi_history_finding *kept, struct twi_emit *emit)
{
	const char *cause = twi_cause_name(kept->cause);
	uint64_t sure = (uint64_t)(kept->confidence * 1e9);
	char labels[96];

	for (uint32_t i = 0; i < twi_min(kept->rank_count, TWI_HISTORY_NAMED); i++) {
		snprintf(labels, sizeof(labels), "cause=\"%s\",culprit_rank=\"%u\"", cause,
			 kept->ranks[i]);
		twi_emit_sample_seconds(emit, "towline_verdict", labels, sure);
	}
	for (uint32_t i = 0; i < twi_min(kept->link_count, TWI_HISTORY_NAMED); i++) {
		snprintf(labels, sizeof(labels),
			 "cause=\"%s\",culprit_rank=\"%u\",peer_rank=\"%u\"", cause,
			 kept->links[i].from, kept->links[i].to);
		twi_emit_sample_seconds(emit, "towline_verdict", labels, sure);
	}
}

void twi_history_metrics(const struct twi_history *history, bool fresh, struct twi_emit *emit)
{
	const struct twi_history_row *row = twi_history_row(history, 0);
	char labels[32];

	if (row == NULL)
		return;
	twi_emit_metric_head(emit, "towline_verdict_looks", "counter", NULL,
			     "times that this rank has asked all others for their state");
	twi_emit_sample_u64(emit, "towline_verdict_looks_total", NULL, history->looks);
	if (!fresh)
		return;
	twi_emit_metric_head(emit, "towline_verdict_state", "gauge", NULL,
			     "state of the job by the newest look: 1 for the state that it is "
			     "in");
	snprintf(labels, sizeof(labels), "state=\"%s\"", state_of_row(row));
	twi_emit_sample_u64(emit, "towline_verdict_state", labels, 1);
	twi_emit_metric_head(emit, "towline_verdict", "gauge", NULL,
			     "ranks that hold the job up, by the newest look: the confidence, "
			     "0 to 1");
	for (uint32_t i = 0; i < row->finding_count; i++)
		emit_culprits(&row->findings[i], emit);
}
