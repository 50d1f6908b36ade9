/*
 * report_html.c - the report page: its head, the findings, and the parts of report_html.h.
 */
#include "tools/trace/report_html.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include <internal/base.h>
#include <towline/status.h>
#include <towline/version.h>

#include "diag/base/words.h"
#include "diag/serve/ui/ui.h"
#include "tools/trace/formats.h"

static const char head[] =
	"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
	"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
	"style-src 'unsafe-inline'\">\n"
	"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	"<link rel=\"icon\" href=\"data:,\">\n";

/* Counts the hosts of the ranks. Each rank is compared with the 1024 ranks before it. */
static size_t count_hosts(const struct twi_trace *trace)
{
	size_t hosts = 0;

	for (size_t i = 0; i < trace->rank_count; i++) {
		const char *host = trace->ranks[i].host != NULL ? trace->ranks[i].host : "";
		bool seen = false;

		for (size_t k = i; k > 0 && !seen && i - k < 1024; k--)
			seen = strcmp(trace->ranks[k - 1].host != NULL ? trace->ranks[k - 1].host
								       : "",
				      host) == 0;
		hosts += !seen;
	}
	return hosts;
}

static void emit_title(const struct twi_report_page *p)
{
	const char *job = p->trace->rank_count > 0 && p->trace->ranks[0].job != NULL
				  ? p->trace->ranks[0].job
				  : "";

	twi_emit_puts(p->e, "Towline");
	if (job[0] != '\0') {
		twi_emit_puts(p->e, " \xc2\xb7 ");
		twi_emit_html(p->e, job);
	}
}

static void emit_about(const struct twi_report_page *p)
{
	size_t ranks = p->trace->rank_count, hosts = count_hosts(p->trace);
	time_t at = (time_t)(p->t->view.unix_ns / 1000000000);
	char when[64] = "", length[TWI_VALUE_BYTES];
	struct tm utc;

	if (gmtime_r(&at, &utc) != NULL)
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S UTC", &utc);
	twi_value_text((double)p->t->view.end_ns, TWI_UNIT_NS, length);
	twi_emit_raw(p->e,
		     "<span class=\"about\">%zu rank%s on %zu host%s \xc2\xb7 %s \xc2\xb7 from "
		     "%s</span>\n",
		     ranks, ranks == 1 ? "" : "s", hosts, hosts == 1 ? "" : "s", length, when);
	if (ranks > 0 && p->trace->ranks[0].world > (int64_t)ranks)
		twi_emit_raw(p->e, "<span class=\"about\">of a job of %lld ranks</span>\n",
			     (long long)p->trace->ranks[0].world);
}

static void emit_tile(const struct twi_report_page *p, const char *what, const char *value)
{
	twi_emit_puts(p->e, "<div class=\"tile\"><span>");
	twi_emit_html(p->e, what);
	twi_emit_puts(p->e, "</span><b>");
	twi_emit_html(p->e, value);
	twi_emit_puts(p->e, "</b></div>\n");
}

static void tile_steps(const struct twi_report_page *p)
{
	struct twi_timeline_split sum = { 0 };
	char text[TWI_VALUE_BYTES] = "\xe2\x80\x93";
	uint64_t steps = 0;

	for (size_t r = 0; r < p->t->rank_count; r++) {
		sum.step_ns += p->t->ranks[r].sum.step_ns;
		sum.exposed_ns += p->t->ranks[r].sum.exposed_ns;
		steps += p->t->ranks[r].steps;
	}
	if (steps > 0)
		twi_value_text((double)sum.step_ns / (double)steps, TWI_UNIT_NS, text);
	emit_tile(p, "Mean step", text);
	if (steps > 0)
		snprintf(text, sizeof(text), "%.0f %%",
			 (double)sum.exposed_ns * 100 / (double)twi_max(sum.step_ns, 1u));
	emit_tile(p, "of it waiting for the network", text);
}

static void tile_rate(const struct twi_report_page *p, const char *what, uint64_t bytes)
{
	double ranks = (double)twi_max(p->t->rank_count, (size_t)1);
	char text[TWI_VALUE_BYTES];

	twi_value_text((double)bytes * 8e9 / (double)p->t->view.end_ns / ranks, TWI_UNIT_BPS, text);
	emit_tile(p, what, text);
}

/*
 * Within a host, collectives move bytes without messages, so the tile shows their results instead.
 */
static void tile_traffic(const struct twi_report_page *p)
{
	const struct twi_timeline_link *links = p->t->links;
	const struct twi_timeline_quantiles *colls = &p->t->kinds[TWI_SPAN_COLL];
	bool network = links[TWI_PATH_NETWORK].used;
	char text[TWI_VALUE_BYTES];

	if (p->t->transfer_count == 0 && colls->count > 0) {
		tile_rate(p, "Results of collectives, a rank, in hosts", colls->bytes);
		twi_words_count(colls->count, text);
		emit_tile(p, "Collectives", text);
		return;
	}
	tile_rate(p, network ? "Sent by a rank, network" : "Sent by a rank, in hosts",
		  links[network ? TWI_PATH_NETWORK : TWI_PATH_HOST].total.tx_bytes);
	twi_words_count(p->t->transfer_count, text);
	emit_tile(p, "Transfers", text);
}

static void emit_tiles(const struct twi_report_page *p)
{
	uint64_t copies = 0, lates = 0;
	char text[TWI_VALUE_BYTES];

	twi_emit_puts(p->e, "<div class=\"tiles\">\n");
	tile_steps(p);
	tile_traffic(p);
	for (size_t r = 0; r < p->t->rank_count; r++) {
		copies += p->t->ranks[r].copies;
		lates += p->t->ranks[r].late;
	}
	twi_words_count(copies, text);
	emit_tile(p, "Fallback copies", text);
	twi_words_count(lates, text);
	emit_tile(p, "Late registrations", text);
	twi_emit_puts(p->e, "</div>\n");
}

static void emit_cost(const struct twi_report_page *p, const struct twi_finding *row)
{
	double share = (double)row->cost_ns * 100 / (double)p->t->view.end_ns;
	char text[TWI_WORDS_BYTES];

	if (row->cost_ns == 0) {
		twi_emit_puts(p->e, "<div class=\"cost\"><small>note</small></div>");
		return;
	}
	twi_findings_ns(row->cost_ns, text, sizeof(text));
	twi_emit_puts(p->e, "<div class=\"cost\">");
	twi_emit_html(p->e, text);
	twi_emit_raw(p->e, "<small>%.0f %% of the time</small></div>", share);
}

static void emit_findings(const struct twi_report_page *p)
{
	twi_emit_puts(p->e, "<section><h2>What was found</h2>\n");
	if (p->findings->count == 0)
		twi_emit_puts(p->e, "<p class=\"fine\">Nothing that costs 1 % of the time or "
				    "more.</p>\n");
	else
		twi_emit_puts(p->e, "<ol class=\"findings\">\n");
	for (size_t i = 0; i < p->findings->count; i++) {
		const struct twi_finding *row = &p->findings->rows[i];

		twi_emit_puts(p->e, "<li>");
		emit_cost(p, row);
		twi_emit_puts(p->e, "<div><div class=\"what\">");
		twi_emit_html(p->e, row->what);
		twi_emit_puts(p->e, "</div><div class=\"cause\">");
		twi_emit_html(p->e, row->cause);
		twi_emit_puts(p->e, "</div><div class=\"cure\">");
		twi_emit_html(p->e, row->cure);
		twi_emit_puts(p->e, "</div></div></li>\n");
	}
	if (p->findings->count > 0)
		twi_emit_puts(p->e, "</ol>");
	twi_emit_puts(p->e, "</section>\n");
}

void twi_page_head(const struct twi_report_page *p)
{
	twi_emit_puts(p->e, head);
	twi_emit_puts(p->e, "<title>");
	emit_title(p);
	twi_emit_puts(p->e, "</title>\n<style>\n");
	twi_emit_puts(p->e, twi_ui_style);
	twi_emit_puts(p->e, "</style></head>\n<body><main>\n<header><h1>");
	emit_title(p);
	twi_emit_puts(p->e, "</h1>\n");
	emit_about(p);
	twi_emit_puts(p->e, "</header>\n");
	emit_tiles(p);
	emit_findings(p);
}

static void write_page(const struct twi_report_page *p)
{
	twi_page_head(p);
	twi_page_times(p);
	twi_page_steps(p);
	twi_page_slack(p);
	twi_page_ranks(p);
	twi_page_sizes(p);
	twi_page_pairs(p);
	twi_page_regions(p);
	twi_page_reasons(p);
	twi_page_records(p);
	twi_emit_puts(p->e, "<footer>Written by Towline " TOW_VERSION
			    "; docs/analysis.md says how each number is made.</footer>\n"
			    "</main></body></html>\n");
}

int twi_report_html(const struct twi_trace *trace, char **bytes_out, size_t *count_out)
{
	struct twi_timeline timeline;
	struct twi_findings found;
	struct twi_slack slack;
	struct twi_emit e;
	struct twi_report_page page = { &e, trace, &timeline, &slack, &found };
	int status = twi_slack_make(trace, &slack);

	*bytes_out = NULL;
	*count_out = 0;
	if (status < 0)
		return status;
	status = twi_timeline_make(trace, 0, &timeline);
	if (status == TOW_OK) {
		twi_findings_make(trace, &timeline, &slack, &found);
		twi_emit_init(&e);
		write_page(&page);
		*count_out = e.bytes;
		status = twi_emit_take(&e, bytes_out);
		twi_timeline_fini(&timeline);
	}
	twi_slack_fini(&slack);
	return status;
}
