/*
 * report_html_tables.c - the tables of the report, each sorted by cost.
 */
#include <stdio.h>
#include <string.h>

#include <internal/base.h>

#include "diag/base/words.h"
#include "diag/record/counter.h"
#include "tools/trace/report_html.h"

#define PAIRS_SHOWN   12u
#define REGIONS_SHOWN 10u
#define GROUPS_SHOWN  24u
#define RANKS_SHOWN   72u
#define NO_GROUP      "<th class=\"group\"></th>" /* a column without a group head */
#define RANKS_OPEN    8u                          /* the others are folded */

static void begin_section(const struct twi_report_page *p, const char *title, const char *note)
{
	twi_emit_puts(p->e, "<section><h2>");
	twi_emit_puts(p->e, title);
	twi_emit_puts(p->e, "</h2><p class=\"note\">");
	twi_emit_puts(p->e, note);
	twi_emit_puts(p->e, "</p>\n");
}

static void begin_table(const struct twi_report_page *p, const char *head)
{
	twi_emit_puts(p->e, "<div class=\"scroll\"><table>");
	twi_emit_puts(p->e, head);
	twi_emit_puts(p->e, "\n");
}

static void end_table(const struct twi_report_page *p, size_t left_out, const char *of_what)
{
	twi_emit_puts(p->e, "</table></div>");
	if (left_out > 0)
		twi_emit_raw(p->e, "<p class=\"note\">%zu more %s, which cost less.</p>", left_out,
			     of_what);
	twi_emit_puts(p->e, "</section>\n");
}

/* --- collectives --- */

static void stat_cells(struct twi_emit *e, const struct twi_slack_stat *stat)
{
	twi_cell_ns(e, "", stat->mean);
	twi_cell_ns(e, "dim", stat->p50);
	twi_cell_ns(e, "dim", stat->p99);
}

static void slack_row(const struct twi_report_page *p, const struct twi_slack_group *group)
{
	const struct twi_timeline_link *link = &p->t->links[TWI_PATH_NETWORK];
	char name[160], text[64];

	twi_findings_collective(group, name, sizeof(name));
	twi_emit_puts(p->e, "<tr>");
	twi_cell_text(p->e, "l key", name);
	snprintf(text, sizeof(text), "%u", group->context);
	twi_cell_text(p->e, "dim", text);
	snprintf(text, sizeof(text), "%u", group->ranks);
	twi_cell_text(p->e, "", text);
	twi_cell_bytes(p->e, "", group->bytes);
	twi_cell_count(p->e, "", group->occurrences);
	twi_cell_ns(p->e, "key", group->stall_total_ns);
	stat_cells(p->e, &group->stall);
	stat_cells(p->e, &group->slack);
	twi_cell_ns(p->e, "", group->observed.mean);
	twi_cell_ns(p->e, "dim", group->observed.p99);
	if (group->sized)
		twi_cell_rate(p->e,
			      link->used && group->required_bps > link->limit_bps ? "hot" : "",
			      group->required_bps);
	else
		twi_cell_text(p->e, "dim", "\xe2\x80\x93");
	twi_emit_puts(p->e, "</tr>\n");
}

void twi_page_slack(const struct twi_report_page *p)
{
	size_t shown = twi_min(p->slack->group_count, (size_t)GROUPS_SHOWN);

	if (shown == 0)
		return;
	begin_section(
		p, "Collectives: slack and stall",
		"Slack is the time the program left a collective to hide in, stall the time it "
		"kept "
		"the program waiting; over all ranks and occurrences. Required is the bandwidth "
		"that would have hidden it: where it is above the limit of the link, only more "
		"slack or fewer bytes help.");
	begin_table(p,
		    "<tr>" NO_GROUP NO_GROUP NO_GROUP NO_GROUP NO_GROUP
		    "<th class=\"group\" colspan=\"4\">stall</th>"
		    "<th class=\"group\" colspan=\"3\">slack</th>"
		    "<th class=\"group\" colspan=\"2\">observed</th>" NO_GROUP "</tr>"
		    "<tr><th class=\"l\">Collective</th><th>Group</th><th>Ranks</th><th>Size</th>"
		    "<th>Count</th><th>total</th><th>mean</th><th>p50</th><th>p99</th><th>mean</th>"
		    "<th>p50</th><th>p99</th><th>mean</th><th>p99</th><th>Required</th></tr>");
	for (size_t i = 0; i < shown; i++)
		slack_row(p, &p->slack->groups[i]);
	end_table(p, p->slack->group_count - shown, "kinds of collectives");
}

/* --- pairs --- */

void twi_page_pairs(const struct twi_report_page *p)
{
	size_t shown = twi_min(p->t->pair_count, (size_t)PAIRS_SHOWN);

	if (shown == 0)
		return;
	begin_section(
		p, "Pairs of ranks",
		"Usual is what transfers of the same sizes take between other pairs. Marked: slow "
		"pairs, from 1.5 times the usual; they come first.");
	begin_table(
		p,
		"<tr><th class=\"l\">From \xe2\x86\x92 to</th><th>Transfers</th><th>Bytes</th>"
		"<th>p50</th><th>p99</th><th>Max</th><th>Time together</th><th>Against usual</th>"
		"<th>Best rate</th></tr>");
	for (size_t i = 0; i < shown; i++) {
		const struct twi_timeline_pair *pair = &p->t->pairs[i];
		char text[128];
		uint64_t hundredths =
			pair->usual_ns > 0
				? (uint64_t)((twi_wide)pair->typical_ns * 100 / pair->usual_ns)
				: 100;

		twi_findings_pair(pair, text, sizeof(text));
		twi_emit_puts(p->e, "<tr>");
		twi_cell_text(p->e, "l key", text);
		twi_cell_count(p->e, "", pair->latency.count);
		twi_cell_bytes(p->e, "", pair->latency.bytes);
		twi_cell_ns(p->e, "", pair->latency.p50_ns);
		twi_cell_ns(p->e, "", pair->latency.p99_ns);
		twi_cell_ns(p->e, "", pair->latency.max_ns);
		twi_cell_ns(p->e, "", pair->latency.sum_ns);
		snprintf(text, sizeof(text), "%llu.%02llu \xc3\x97",
			 (unsigned long long)(hundredths / 100),
			 (unsigned long long)(hundredths % 100));
		twi_cell_text(p->e, pair->slow ? "hot" : "", text);
		if (pair->best_bps > 0)
			twi_cell_rate(p->e, "", pair->best_bps);
		else
			twi_cell_text(p->e, "dim", "\xe2\x80\x93");
		twi_emit_puts(p->e, "</tr>\n");
	}
	end_table(p, p->t->pair_count - shown, "pairs");
}

/* --- regions --- */

void twi_page_regions(const struct twi_report_page *p)
{
	size_t shown = twi_min(p->t->region_count, (size_t)REGIONS_SHOWN);

	if (shown == 0)
		return;
	begin_section(
		p, "Bound by bandwidth",
		"Times in which a rank's link was at 80 % of its limit or more while its threads "
		"waited for half of the time or more.");
	begin_table(p,
		    "<tr><th class=\"l\">Rank</th><th class=\"l\">Link</th><th>From</th><th>To</th>"
		    "<th>Bytes</th><th>Rate</th><th>Waited</th></tr>");
	for (size_t i = 0; i < shown; i++) {
		const struct twi_timeline_region *region = &p->t->regions[i];
		uint64_t ns = (uint64_t)(region->end_ns - region->start_ns);
		char text[TWI_VALUE_BYTES];

		twi_emit_puts(p->e, "<tr>");
		snprintf(text, sizeof(text), "%lld", (long long)p->trace->ranks[region->rank].rank);
		twi_cell_text(p->e, "l key", text);
		twi_cell_text(p->e, "l", twi_timeline_path_name(region->path));
		twi_value_text((double)region->start_ns, TWI_UNIT_NS, text);
		twi_cell_text(p->e, "", text);
		twi_value_text((double)region->end_ns, TWI_UNIT_NS, text);
		twi_cell_text(p->e, "", text);
		twi_cell_bytes(p->e, "", region->bytes);
		twi_value_text((double)region->bytes * 8e9 / (double)ns, TWI_UNIT_BPS, text);
		twi_cell_text(p->e, "", text);
		twi_cell_ns(p->e, "", region->waited_ns);
		twi_emit_puts(p->e, "</tr>\n");
	}
	end_table(p, p->t->region_count - shown, "such times");
}

/* --- ranks --- */

static void count_of(struct twi_emit *e, uint64_t count, uint64_t whole, bool hot)
{
	char text[TWI_WORDS_BYTES], all[TWI_WORDS_BYTES], cell[2 * TWI_WORDS_BYTES + 8];

	twi_words_count(count, text);
	twi_words_count(whole, all);
	snprintf(cell, sizeof(cell), "%s of %s", text, all);
	twi_cell_text(e, count == 0 ? "dim" : hot ? "hot" : "", cell);
}

static void rank_row(const struct twi_report_page *p, size_t r)
{
	const struct twi_timeline_rank *rank = &p->t->ranks[r];
	const struct twi_trace_rank *from = &p->trace->ranks[r];
	uint64_t steps = twi_max(rank->steps, (uint64_t)1);
	char text[32];

	twi_emit_puts(p->e, "<tr>");
	snprintf(text, sizeof(text), "%lld", (long long)from->rank);
	twi_cell_text(p->e, "l key", text);
	twi_cell_text(p->e, "l dim", from->host != NULL ? from->host : "");
	if (from->clock_error_ns == UINT64_MAX)
		twi_cell_text(p->e, "dim", "not known");
	else
		twi_cell_ns(p->e, "dim", from->clock_error_ns);
	twi_cell_ns(p->e, "", rank->sum.step_ns / steps);
	twi_cell_ns(p->e, "", (rank->sum.step_ns - rank->sum.exposed_ns) / steps);
	twi_cell_ns(p->e, "", rank->sum.exposed_ns / steps);
	count_of(p->e, rank->slowest_steps, p->t->step_count,
		 rank->slowest_steps * 2 > p->t->step_count);
	twi_cell_ns(p->e, "", rank->slowest_ns);
	count_of(p->e, rank->last_count, p->t->entries.judged,
		 rank->last_count * 2 > p->t->entries.judged);
	twi_cell_ns(p->e, "", rank->last_ns);
	twi_cell_ns(p->e, "dim", rank->last_max_ns);
	twi_emit_puts(p->e, "</tr>\n");
}

static const char rank_head[] =
	"<tr>" NO_GROUP NO_GROUP NO_GROUP "<th class=\"group\" colspan=\"3\">mean step</th>"
	"<th class=\"group\" colspan=\"2\">steps held up</th>"
	"<th class=\"group\" colspan=\"3\">last to collectives</th></tr>"
	"<tr><th class=\"l\">Rank</th><th class=\"l\">Host</th><th>Clock error</th>"
	"<th>all</th><th>not waiting</th><th>waiting</th><th>count</th><th>by</th>"
	"<th>count</th><th>by</th><th>max</th></tr>";

void twi_page_ranks(const struct twi_report_page *p)
{
	size_t order[RANKS_SHOWN], shown = 0, left;

	/* The rank with the highest cost comes first. An insertion into a short list is enough. */
	for (size_t r = 0; r < p->t->rank_count; r++) {
		const struct twi_timeline_rank *rank = &p->t->ranks[r];
		uint64_t cost = rank->slowest_ns + rank->last_ns;
		size_t at = shown;

		while (at > 0 &&
		       p->t->ranks[order[at - 1]].slowest_ns + p->t->ranks[order[at - 1]].last_ns <
			       cost)
			at--;
		if (at == RANKS_SHOWN)
			continue;
		shown = twi_min(shown + 1, (size_t)RANKS_SHOWN);
		for (size_t i = shown - 1; i > at; i--)
			order[i] = order[i - 1];
		order[at] = r;
	}
	left = p->t->rank_count - shown;
	begin_section(
		p, "Ranks that the others waited for",
		"Steps that a rank held up: it did not wait, and took longer than the median of "
		"the "
		"others by 5 % of the step or more; from durations alone, so clocks do not matter. "
		"Collectives that it came last to: by so much after every other rank that the "
		"clocks' errors cannot explain it; only the certain part is counted.");
	begin_table(p, rank_head);
	for (size_t i = 0; i < shown; i++) {
		if (i == RANKS_OPEN && shown > RANKS_OPEN + 4) {
			twi_emit_raw(p->e,
				     "</table></div><details><summary>%zu more ranks</summary>",
				     shown - i);
			begin_table(p, rank_head);
		}
		rank_row(p, order[i]);
	}
	if (shown > RANKS_OPEN + 4) {
		twi_emit_puts(p->e, "</table></div></details>");
		begin_table(p, "");
	}
	end_table(p, left, "ranks");
}

/* --- reasons --- */

void twi_page_reasons(const struct twi_report_page *p)
{
	bool shown[TWI_R_COUNT] = { false };
	bool begun = false;

	for (;;) {
		unsigned next = TWI_R_COUNT;
		const struct twi_reason_info *info;

		for (unsigned i = 0; i < TWI_R_COUNT; i++) {
			if (!shown[i] && p->t->reasons[i].count > 0 &&
			    (next == TWI_R_COUNT || p->t->reasons[i].ns > p->t->reasons[next].ns))
				next = i;
		}
		if (next == TWI_R_COUNT)
			break;
		if (!begun) {
			begin_section(
				p, "Copies and late registrations",
				"Each is a copy or a registration that the program can avoid.");
			begin_table(p, "<tr><th class=\"l\">Reason</th><th class=\"l\">Kind</th>"
				       "<th>Count</th><th>Bytes</th><th>Time</th><th>Longest</th>"
				       "<th class=\"l\">Cure</th></tr>");
		}
		begun = shown[next] = true;
		info = twi_reason_describe(next);
		twi_emit_puts(p->e, "<tr>");
		twi_cell_text(p->e, "l key", info->name);
		twi_cell_text(p->e, "l dim", strcmp(info->kind, "copy") == 0 ? "copy" : "late");
		twi_cell_count(p->e, "", p->t->reasons[next].count);
		twi_cell_bytes(p->e, "", p->t->reasons[next].bytes);
		twi_cell_ns(p->e, "", p->t->reasons[next].ns);
		twi_cell_ns(p->e, "dim", p->t->reasons[next].max_ns);
		twi_cell_text(p->e, "l", info->cure);
		twi_emit_puts(p->e, "</tr>\n");
	}
	if (begun)
		end_table(p, 0, "");
}

/* --- what was recorded --- */

static void losses_table(const struct twi_report_page *p)
{
	uint64_t spans = 0, lost = 0, sampled = 0;
	char text[3][TWI_WORDS_BYTES];

	for (size_t r = 0; r < p->t->rank_count; r++) {
		spans += p->t->ranks[r].spans;
		lost += p->t->ranks[r].lost;
		sampled += p->t->ranks[r].sampled_out;
	}
	twi_words_count(spans, text[0]);
	twi_words_count(lost, text[1]);
	twi_words_count(sampled, text[2]);
	twi_emit_raw(p->e,
		     "<p class=\"note\">This page rests on %s spans. %s were overwritten before "
		     "they were read, and %s small messages were not recorded because of sampling "
		     "(knob span_sample).</p>\n",
		     text[0], text[1], text[2]);
}

void twi_page_records(const struct twi_report_page *p)
{
	twi_emit_puts(p->e, "<section><h2>What was recorded</h2>");
	losses_table(p);
	begin_table(p, "<tr><th class=\"l\">Kind</th><th>Count</th><th>Failed</th><th>Bytes</th>"
		       "<th>Time together</th><th>p50</th><th>p99</th><th>Max</th></tr>");
	for (unsigned i = 0; i < TWI_SPAN_KINDS; i++) {
		const struct twi_timeline_quantiles *q = &p->t->kinds[i];

		if (q->count == 0)
			continue;
		twi_emit_puts(p->e, "<tr>");
		twi_cell_text(p->e, "l key", twi_span_kind_name(i));
		twi_cell_count(p->e, "", q->count);
		twi_cell_count(p->e, p->t->failed[i] > 0 ? "hot" : "dim", p->t->failed[i]);
		if (q->bytes > 0)
			twi_cell_bytes(p->e, "", q->bytes);
		else
			twi_cell_text(p->e, "dim", "\xe2\x80\x93");
		twi_cell_ns(p->e, "", q->sum_ns);
		twi_cell_ns(p->e, "", q->p50_ns);
		twi_cell_ns(p->e, "", q->p99_ns);
		twi_cell_ns(p->e, "", q->max_ns);
		twi_emit_puts(p->e, "</tr>\n");
	}
	end_table(p, 0, "");
}
