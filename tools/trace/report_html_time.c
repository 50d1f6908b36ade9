/*
 * report_html_time.c - the charts that share one time axis, stacked in one drawing, so that events
 * of one time are on one vertical line.
 *
 *	        LEFT                                   RIGHT
 *	labels | panel: title above, plot, ...         | legend
 *	       | panel                                 |
 *	         0 ------------- time ------------ end
 */
#include "tools/trace/report_html.h"

#include <stdio.h>

#include <internal/base.h>

#include "diag/base/words.h"

#define WIDTH 1216
#define LEFT  78.0
#define RIGHT 1048.0
#define GAP   34.0 /* above each panel, for the title */
#define FOOT  30.0

struct panel {
	/* Returns the height; 0: no panel. `path` selects the link. */
	double (*height)(const struct twi_report_page *p, unsigned path);
	void (*draw)(const struct twi_report_page *p, unsigned path, double top, double bottom);
	unsigned path;
};

static double x_of(const struct twi_report_page *p, double ns)
{
	double share = ns / (double)p->t->view.end_ns;

	return LEFT + (share < 0 ? 0 : share > 1 ? 1 : share) * (RIGHT - LEFT);
}

static double x_of_bin(const struct twi_report_page *p, unsigned bin)
{
	return x_of(p, (double)bin * (double)p->t->bin_ns);
}

static void draw_legend(struct twi_emit *e, unsigned row, double top, const char *class,
			const char *text)
{
	double y = top + 4 + row * 17.0;

	twi_svg_rect(e, class, RIGHT + 14, y, 10, 10, NULL);
	twi_svg_text(e, "", RIGHT + 30, y + 9, text);
}

/*
 * Draws a step line with one value for each bin. filled: the area below is filled down to `bottom`.
 */
static void draw_staircase(const struct twi_report_page *p, const char *class,
			   double (*value)(const struct twi_report_page *p, unsigned path,
					   unsigned bin),
			   unsigned path, const struct twi_scale *scale, bool filled)
{
	struct twi_emit *e = p->e;
	double last = -1;

	twi_emit_raw(e, "<path class=\"%s\" d=\"", class);
	twi_svg_at(e, "M", LEFT);
	twi_svg_at(e, " ", scale->bottom);
	for (unsigned bin = 0; bin < TWI_TIMELINE_BINS; bin++) {
		double y = twi_scale_at(scale, value(p, path, bin));

		if (y != last) {
			twi_svg_at(e, "H", x_of_bin(p, bin));
			twi_svg_at(e, "V", y);
		}
		last = y;
	}
	twi_svg_at(e, "H", RIGHT);
	if (filled)
		twi_svg_at(e, "V", scale->bottom);
	twi_emit_puts(e, "\"/>\n");
}

/* Draws an invisible column that shows the values of a bin on hover. */
static void draw_hover(const struct twi_report_page *p, unsigned bin, double top, double bottom,
		       const char *text)
{
	double x = x_of_bin(p, bin);

	twi_emit_puts(p->e, "<g fill-opacity=\"0\">");
	twi_svg_rect(p->e, "o", x, top, x_of_bin(p, bin + 1) - x, bottom - top, text);
	twi_emit_puts(p->e, "</g>");
}

static void at_text(const struct twi_report_page *p, unsigned bin, char out[TWI_VALUE_BYTES])
{
	twi_value_text((double)bin * (double)p->t->bin_ns, TWI_UNIT_NS, out);
}

/* --- steps --- */

static double steps_height(const struct twi_report_page *p, unsigned path)
{
	(void)path;
	return p->t->step_count > 0 ? 18 : 0;
}

static void steps_draw(const struct twi_report_page *p, unsigned path, double top, double bottom)
{
	size_t each = p->t->step_count / 400 + 1;

	(void)path;
	twi_svg_text(p->e, "h", LEFT, top - 7, "Steps");
	for (size_t i = 0; i < p->t->step_count; i += each) {
		const struct twi_timeline_step *step = &p->t->steps[i];
		double from = x_of(p, (double)step->start_ns);
		double to = x_of(p, (double)step->start_ns + (double)step->max_ns);
		char number[32], title[128], length[TWI_VALUE_BYTES];

		if (to - from < 0.1)
			continue;
		snprintf(number, sizeof(number), "%llu", (unsigned long long)step->number);
		twi_value_text((double)step->max_ns, TWI_UNIT_NS, length);
		snprintf(title, sizeof(title), "step %s, %s at the slowest rank", number, length);
		twi_svg_rect(p->e, i / each % 2 == 0 ? "step" : "step odd", from, top, to - from,
			     bottom - top, title);
		if (to - from > 34)
			twi_svg_text(p->e, "m", (from + to) / 2, bottom - 5, number);
	}
}

/* --- links --- */

static double sent_mean(const struct twi_report_page *p, unsigned path, unsigned bin)
{
	double bytes = 0;

	for (size_t r = 0; r < p->t->rank_count; r++)
		bytes += (double)p->t->links[path].bins[r * TWI_TIMELINE_BINS + bin].tx_bytes;
	return bytes * 8e9 / (double)p->t->bin_ns / (double)p->t->rank_count;
}

static double link_most(const struct twi_report_page *p, unsigned path, unsigned bin, bool sent)
{
	uint64_t bytes = 0;

	for (size_t r = 0; r < p->t->rank_count; r++) {
		const struct twi_timeline_flow *flow =
			&p->t->links[path].bins[r * TWI_TIMELINE_BINS + bin];

		bytes = twi_max(bytes, sent ? flow->tx_bytes : flow->rx_bytes);
	}
	return (double)bytes * 8e9 / (double)p->t->bin_ns;
}

static double sent_most(const struct twi_report_page *p, unsigned path, unsigned bin)
{
	return link_most(p, path, bin, true);
}

static double received_most(const struct twi_report_page *p, unsigned path, unsigned bin)
{
	return link_most(p, path, bin, false);
}

static double link_height(const struct twi_report_page *p, unsigned path)
{
	return p->t->links[path].used ? 104 : 0;
}

/* Marks the times in which the link of a rank was full and a thread waited for it. */
static void draw_bands(const struct twi_report_page *p, unsigned path, double top, double bottom)
{
	for (unsigned bin = 0; bin < TWI_TIMELINE_BINS; bin++) {
		bool bound = false;

		for (size_t r = 0; r < p->t->rank_count && !bound; r++)
			bound = p->t->links[path].bins[r * TWI_TIMELINE_BINS + bin].bound;
		if (bound)
			twi_svg_rect(p->e, "band", x_of_bin(p, bin), top,
				     x_of_bin(p, bin + 1) - x_of_bin(p, bin), bottom - top, NULL);
	}
}

static void link_draw(const struct twi_report_page *p, unsigned path, double top, double bottom)
{
	const struct twi_timeline_link *link = &p->t->links[path];
	struct twi_scale scale =
		twi_scale_make(0, (double)link->limit_bps * 1.08, bottom, top, false, TWI_UNIT_BPS);
	double limit = twi_scale_at(&scale, (double)link->limit_bps);
	char text[192], rate[TWI_RATE_BYTES], at[TWI_VALUE_BYTES], sent[TWI_VALUE_BYTES];
	char received[TWI_VALUE_BYTES];
	bool many = p->t->rank_count > 1;

	twi_svg_text(p->e, "h", LEFT, top - 7,
		     path == TWI_PATH_NETWORK ? "Throughput of a rank, network"
					      : "Throughput of a rank, within hosts");
	draw_bands(p, path, top, bottom);
	twi_svg_axis(p->e, &scale, 4, LEFT, RIGHT);
	draw_staircase(p, "fill tx", many ? sent_mean : sent_most, path, &scale, true);
	draw_staircase(p, "rx", received_most, path, &scale, false);
	draw_staircase(p, "tx", sent_most, path, &scale, false);
	twi_svg_line(p->e, "limit", LEFT, limit, RIGHT, limit);
	twi_findings_rate(link->limit_bps, rate);
	draw_legend(p->e, 0, top, "tx", many ? "sent, busiest rank" : "sent");
	draw_legend(p->e, 1, top, "rx", many ? "received, busiest rank" : "received");
	if (many)
		draw_legend(p->e, 2, top, "tx h3", "sent, mean of ranks");
	snprintf(text, sizeof(text), "limit %s", rate);
	twi_svg_text(p->e, "limit", RIGHT + 14, top + 66, text);
	twi_svg_text(p->e, "limit", RIGHT + 14, top + 80,
		     link->limit_given ? "(given)" : "(best rate seen)");
	if (p->t->region_count > 0)
		draw_legend(p->e, 5, top + 3, "band", "full, and waited for");
	for (unsigned bin = 0; bin < TWI_TIMELINE_BINS; bin++) {
		double out = sent_most(p, path, bin), in = received_most(p, path, bin);

		if (out + in <= 0)
			continue;
		at_text(p, bin, at);
		twi_value_text(out, TWI_UNIT_BPS, sent);
		twi_value_text(in, TWI_UNIT_BPS, received);
		snprintf(text, sizeof(text), "at %s: busiest rank sent %s, received %s", at, sent,
			 received);
		draw_hover(p, bin, top, bottom, text);
	}
}

/* --- latency --- */

static double latency_height(const struct twi_report_page *p, unsigned path)
{
	(void)path;
	return p->t->transfer_count > 0 ? 148 : 0;
}

static void size_text(unsigned size_class, char *out, size_t bytes)
{
	char most_text[TWI_WORDS_BYTES];
	uint64_t limit = twi_size_class_max(size_class);

	if (limit == UINT64_MAX) {
		twi_words_bytes(twi_size_class_min(size_class) - 1, most_text);
		snprintf(out, bytes, "over %s", most_text);
	} else {
		twi_words_bytes(limit, most_text);
		snprintf(out, bytes, "to %s", most_text);
	}
}

static void latency_class(const struct twi_report_page *p, unsigned c,
			  const struct twi_scale *scale)
{
	struct twi_emit *e = p->e;
	unsigned gap = TWI_TIMELINE_BINS;

	twi_emit_raw(e, "<path class=\"thin s%u\" d=\"", c);
	for (unsigned bin = 0; bin < TWI_TIMELINE_BINS; bin++) {
		const struct twi_timeline_quantiles *q = &p->t->bins[bin].latency[c];

		if (q->count == 0)
			continue;
		twi_svg_at(e, "M", (x_of_bin(p, bin) + x_of_bin(p, bin + 1)) / 2);
		twi_svg_at(e, " ", twi_scale_at(scale, (double)q->p50_ns));
		twi_svg_at(e, "V", twi_scale_at(scale, (double)q->p99_ns));
	}
	twi_emit_raw(e, "\"/>\n<path class=\"s%u\" d=\"", c);
	for (unsigned bin = 0; bin < TWI_TIMELINE_BINS; bin++, gap++) {
		const struct twi_timeline_quantiles *q = &p->t->bins[bin].latency[c];

		if (q->count == 0)
			continue;
		twi_svg_at(e, gap > 4 ? "M" : "L", (x_of_bin(p, bin) + x_of_bin(p, bin + 1)) / 2);
		twi_svg_at(e, " ", twi_scale_at(scale, (double)q->p50_ns));
		gap = 0;
	}
	twi_emit_puts(e, "\"/>\n");
}

static void latency_points(const struct twi_report_page *p, unsigned c,
			   const struct twi_scale *scale)
{
	for (unsigned bin = 0; bin < TWI_TIMELINE_BINS; bin++) {
		const struct twi_timeline_quantiles *q = &p->t->bins[bin].latency[c];
		char p50[TWI_VALUE_BYTES], p99[TWI_VALUE_BYTES], at[TWI_VALUE_BYTES], text[192];

		if (q->count == 0)
			continue;
		at_text(p, bin, at);
		twi_value_text((double)q->p50_ns, TWI_UNIT_NS, p50);
		twi_value_text((double)q->p99_ns, TWI_UNIT_NS, p99);
		snprintf(text, sizeof(text), "at %s: %llu transfers, p50 %s, p99 %s", at,
			 (unsigned long long)q->count, p50, p99);
		twi_emit_raw(p->e, "<circle class=\"s%u\" r=\"2\"", c);
		twi_svg_at(p->e, " cx=\"", (x_of_bin(p, bin) + x_of_bin(p, bin + 1)) / 2);
		twi_svg_at(p->e, "\" cy=\"", twi_scale_at(scale, (double)q->p50_ns));
		twi_emit_puts(p->e, "\"><title>");
		twi_emit_html(p->e, text);
		twi_emit_puts(p->e, "</title></circle>\n");
	}
}

static void latency_draw(const struct twi_report_page *p, unsigned path, double top, double bottom)
{
	uint64_t low = UINT64_MAX, high = 1;
	struct twi_scale scale;
	unsigned row = 0;
	char text[64];

	(void)path;
	for (unsigned bin = 0; bin < TWI_TIMELINE_BINS; bin++) {
		for (unsigned c = 0; c < TWI_SIZE_CLASSES; c++) {
			const struct twi_timeline_quantiles *q = &p->t->bins[bin].latency[c];

			if (q->count == 0)
				continue;
			low = twi_min(low, q->p50_ns);
			high = twi_max(high, q->p99_ns);
		}
	}
	/* A message that has arrived already takes no time, and would stretch the axis. */
	low = twi_max(low, (uint64_t)100);
	scale = twi_scale_make((double)low, (double)high, bottom, top, true, TWI_UNIT_NS);
	twi_svg_text(p->e, "h", LEFT, top - 7,
		     "Transfer latency by size: p50, whisker to p99 (logarithmic)");
	twi_svg_axis(p->e, &scale, 7, LEFT, RIGHT);
	for (unsigned c = 0; c < TWI_SIZE_CLASSES; c++) {
		char class[8];

		if (p->t->classes[c].count == 0)
			continue;
		latency_class(p, c, &scale);
		latency_points(p, c, &scale);
		snprintf(class, sizeof(class), "s%u", c);
		size_text(c, text, sizeof(text));
		draw_legend(p->e, row++, top, class, text);
	}
}

/* --- in flight --- */

static double flight_height(const struct twi_report_page *p, unsigned path)
{
	(void)path;
	return p->t->transfer_count > 0 ? 66 : 0;
}

static double flight_value(const struct twi_report_page *p, unsigned what, unsigned bin)
{
	const struct twi_timeline_bin *b = &p->t->bins[bin];
	const double values[] = { b->flight_mean, (double)b->flight_max, b->flight_bytes_mean,
				  (double)b->flight_bytes_max };

	return values[what];
}

static void flight_draw(const struct twi_report_page *p, unsigned bytes, double top, double bottom)
{
	enum twi_unit unit = bytes ? TWI_UNIT_BYTES : TWI_UNIT_COUNT;
	unsigned first = bytes ? 2 : 0;
	struct twi_scale scale;
	double high = 1;

	for (unsigned bin = 0; bin < TWI_TIMELINE_BINS; bin++)
		high = twi_max(high, flight_value(p, first + 1, bin));
	scale = twi_scale_make(0, high, bottom, top, false, unit);
	twi_svg_text(p->e, "h", LEFT, top - 7,
		     bytes ? "Bytes in flight, all ranks" : "Transfers in flight, all ranks");
	twi_svg_axis(p->e, &scale, 2, LEFT, RIGHT);
	draw_staircase(p, "fill tx", flight_value, first, &scale, true);
	draw_staircase(p, "tx fine", flight_value, first + 1, &scale, false);
	draw_legend(p->e, 0, top, "tx h3", "mean");
	draw_legend(p->e, 1, top, "tx", "most at once");
	for (unsigned bin = 0; bin < TWI_TIMELINE_BINS; bin++) {
		char mean[TWI_VALUE_BYTES], peak[TWI_VALUE_BYTES], at[TWI_VALUE_BYTES], text[160];

		if (flight_value(p, first + 1, bin) <= 0)
			continue;
		at_text(p, bin, at);
		twi_value_text(flight_value(p, first, bin), unit, mean);
		twi_value_text(flight_value(p, first + 1, bin), unit, peak);
		snprintf(text, sizeof(text), "at %s: mean %s, at most %s", at, mean, peak);
		draw_hover(p, bin, top, bottom, text);
	}
}

/* --- copies and late registrations --- */

static bool any_reason(const struct twi_report_page *p)
{
	for (unsigned i = 0; i < TWI_R_COUNT; i++) {
		if (p->t->reasons[i].count > 0)
			return true;
	}
	return false;
}

static double reasons_height(const struct twi_report_page *p, unsigned path)
{
	(void)path;
	return any_reason(p) ? 60 : 0;
}

static void reasons_draw(const struct twi_report_page *p, unsigned path, double top, double bottom)
{
	struct twi_scale scale;
	double high = 1;

	(void)path;
	for (unsigned bin = 0; bin < TWI_TIMELINE_BINS; bin++)
		high = twi_max(high,
			       (double)p->t->bins[bin].copy_ns + (double)p->t->bins[bin].late_ns);
	scale = twi_scale_make(0, high, bottom, top, false, TWI_UNIT_NS);
	twi_svg_text(p->e, "h", LEFT, top - 7,
		     "Time in fallback copies and late registrations, all ranks");
	twi_svg_axis(p->e, &scale, 2, LEFT, RIGHT);
	draw_legend(p->e, 0, top, "copy", "fallback copies");
	draw_legend(p->e, 1, top, "late", "late registrations");
	for (unsigned bin = 0; bin < TWI_TIMELINE_BINS; bin++) {
		const struct twi_timeline_bin *b = &p->t->bins[bin];
		double x = x_of_bin(p, bin), width = x_of_bin(p, bin + 1) - x - 1;
		double late = twi_scale_at(&scale, (double)b->late_ns);
		double both = twi_scale_at(&scale, (double)b->late_ns + (double)b->copy_ns);
		char at[TWI_VALUE_BYTES], copies[TWI_VALUE_BYTES], lates[TWI_VALUE_BYTES];
		char text[192];

		at_text(p, bin, at);
		twi_value_text((double)b->copy_ns, TWI_UNIT_NS, copies);
		twi_value_text((double)b->late_ns, TWI_UNIT_NS, lates);
		snprintf(text, sizeof(text),
			 "at %s: %llu fallback copies, %s; %llu late registrations, %s", at,
			 (unsigned long long)b->copies, copies, (unsigned long long)b->late, lates);
		/* A value above zero is visible, however small. */
		if (b->late > 0)
			twi_svg_rect(p->e, "late", x, twi_min(late, bottom - 2), width,
				     twi_max(bottom - late, 2.0), text);
		if (b->copies > 0)
			twi_svg_rect(p->e, "copy", x, twi_min(both, late - 2), width,
				     twi_max(late - both, 2.0), text);
	}
}

/* --- ranks --- */

static double heat_row(const struct twi_report_page *p)
{
	size_t ranks = twi_min(p->t->rank_count, (size_t)TWI_TIMELINE_RANKS);

	return ranks <= 8 ? 14 : ranks <= 32 ? 8 : ranks <= 64 ? 5 : 3;
}

static double heat_height(const struct twi_report_page *p, unsigned path)
{
	if (!p->t->links[path].used || p->t->rank_count < 2)
		return 0;
	return heat_row(p) * (double)twi_min(p->t->rank_count, (size_t)TWI_TIMELINE_RANKS);
}

/* Returns 0: idle; 8: full; 9: full, and a thread waited. */
static unsigned heat_level(const struct twi_report_page *p, unsigned path, size_t r, unsigned bin)
{
	const struct twi_timeline_link *link = &p->t->links[path];
	const struct twi_timeline_flow *flow = &link->bins[r * TWI_TIMELINE_BINS + bin];
	double bytes = (double)twi_max(flow->tx_bytes, flow->rx_bytes);
	double share = bytes * 8e9 / (double)p->t->bin_ns / (double)twi_max(link->limit_bps, 1u);

	if (flow->bound)
		return 9;
	return bytes <= 0 ? 0 : twi_min((unsigned)(share * 8) + 1, 8u);
}

static void heat_draw(const struct twi_report_page *p, unsigned path, double top, double bottom)
{
	size_t ranks = twi_min(p->t->rank_count, (size_t)TWI_TIMELINE_RANKS);
	double row = heat_row(p);
	size_t each = (size_t)(12 / row) + 1;
	char text[64], class[16];

	twi_svg_text(p->e, "h", LEFT, top - 7,
		     path == TWI_PATH_NETWORK ? "Use of the limit by rank, network"
					      : "Use of the limit by rank, within hosts");
	twi_svg_rect(p->e, "ground", LEFT, top, RIGHT - LEFT, bottom - top, NULL);
	for (size_t r = 0; r < ranks; r++) {
		double y = top + (double)r * row;

		snprintf(text, sizeof(text), "%lld", (long long)p->trace->ranks[r].rank);
		if (row >= 12 || r % each == 0)
			twi_svg_text(p->e, "e", LEFT - 6, y + twi_max(row - 3, 5.0), text);
		for (unsigned bin = 0, next; bin < TWI_TIMELINE_BINS; bin = next) {
			unsigned level = heat_level(p, path, r, bin);

			for (next = bin + 1; next < TWI_TIMELINE_BINS; next++) {
				if (heat_level(p, path, r, next) != level)
					break;
			}
			if (level == 0)
				continue;
			snprintf(class, sizeof(class), level == 9 ? "h9" : "heat h%u", level);
			twi_svg_rect(p->e, class, x_of_bin(p, bin), y,
				     x_of_bin(p, next) - x_of_bin(p, bin), row > 4 ? row - 1 : row,
				     NULL);
		}
	}
	draw_legend(p->e, 0, top - 14, "heat h1", "little");
	draw_legend(p->e, 1, top - 14, "heat h8", "at the limit");
	if (p->t->region_count > 0)
		draw_legend(p->e, 2, top - 14, "h9", "full, and waited for");
}

/* --- together --- */

static void draw_foot(const struct twi_report_page *p, double first, double bottom)
{
	struct twi_scale scale =
		twi_scale_make(0, (double)p->t->view.end_ns, LEFT, RIGHT, false, TWI_UNIT_NS);
	double ticks[TWI_TICKS_MAX];
	char text[TWI_VALUE_BYTES];
	unsigned count;

	scale.high = (double)p->t->view.end_ns;
	count = twi_scale_ticks(&scale, 9, ticks);
	for (unsigned i = 0; i < count; i++) {
		double x = twi_scale_at(&scale, ticks[i]);

		twi_svg_line(p->e, "g", x, first, x, bottom + 4);
		twi_value_text(ticks[i], TWI_UNIT_NS, text);
		twi_svg_text(p->e, "m", x, bottom + 18, text);
	}
	twi_svg_text(p->e, "", RIGHT + 14, bottom + 18, "since the trace began");
}

void twi_page_times(const struct twi_report_page *p)
{
	static const struct panel panels[] = {
		{ steps_height, steps_draw, 0 },
		{ link_height, link_draw, TWI_PATH_NETWORK },
		{ heat_height, heat_draw, TWI_PATH_NETWORK },
		{ link_height, link_draw, TWI_PATH_HOST },
		{ heat_height, heat_draw, TWI_PATH_HOST },
		{ latency_height, latency_draw, 0 },
		{ flight_height, flight_draw, 0 },
		{ flight_height, flight_draw, 1 },
		{ reasons_height, reasons_draw, 0 },
	};
	double heights[twi_array_count(panels)], total = FOOT, at = 0;

	for (unsigned i = 0; i < twi_array_count(panels); i++) {
		heights[i] = panels[i].height(p, panels[i].path);
		total += heights[i] > 0 ? heights[i] + GAP : 0;
	}
	twi_emit_puts(p->e, "<section><h2>Over time</h2>\n");
	if (total <= FOOT) {
		twi_emit_puts(p->e, "<p class=\"note\">This trace has no steps, no transfers and "
				    "no copies.</p></section>\n");
		return;
	}
	twi_emit_puts(p->e, "<p class=\"note\">All panels share one axis of time. Point at a bar "
			    "or a dot for its numbers.</p>\n");
	twi_svg_begin(p->e, WIDTH, (unsigned)total, "charts over time");
	draw_foot(p, GAP - 12, total - FOOT);
	for (unsigned i = 0; i < twi_array_count(panels); i++) {
		if (heights[i] <= 0)
			continue;
		panels[i].draw(p, panels[i].path, at + GAP, at + GAP + heights[i]);
		at += GAP + heights[i];
	}
	twi_svg_end(p->e);
	if (!any_reason(p))
		twi_emit_puts(p->e, "<p class=\"note fine\">No fallback copy and no late "
				    "registration in this trace.</p>\n");
	twi_emit_puts(p->e, "</section>\n");
}
