/*
 * report_html_parts.c - the charts without a time axis: steps, ranks, sizes.
 */
#include <stdio.h>

#include <internal/base.h>

#include "diag/base/words.h"
#include "tools/trace/report_html.h"

#define WIDTH  568
#define HEIGHT 220
#define LEFT   66.0
#define TOP    34.0
#define BOTTOM 190.0
#define RIGHT  560.0
#define BARS   96u

static void legend_key(struct twi_emit *e, double x, const char *class, const char *text)
{
	twi_svg_rect(e, class, x, 4, 10, 10, NULL);
	twi_svg_text(e, "", x + 15, 13, text);
}

static void split_keys(struct twi_emit *e)
{
	legend_key(e, LEFT, "compute", "compute");
	legend_key(e, LEFT + 90, "hidden", "hidden communication");
	legend_key(e, LEFT + 250, "exposed", "exposed communication");
}

/* Draws one stacked column. */
static void split_column(struct twi_emit *e, const struct twi_scale *scale, double x, double width,
			 const struct twi_timeline_split *part, const char *title)
{
	double compute = twi_scale_at(scale, (double)part->compute_ns);
	double hidden = twi_scale_at(scale, (double)(part->compute_ns + part->hidden_ns));
	double all = twi_scale_at(scale, (double)part->step_ns);

	twi_svg_rect(e, "compute", x, compute, width, scale->bottom - compute, title);
	if (part->hidden_ns > 0)
		twi_svg_rect(e, "hidden", x, hidden, width, compute - hidden, title);
	if (part->exposed_ns > 0)
		twi_svg_rect(e, "exposed", x, all, width, hidden - all, title);
}

static void split_title(char *out, size_t bytes, const char *what,
			const struct twi_timeline_split *part)
{
	char step[TWI_WORDS_BYTES], compute[TWI_WORDS_BYTES], hidden[TWI_WORDS_BYTES];
	char exposed[TWI_WORDS_BYTES];

	twi_findings_ns(part->step_ns, step, sizeof(step));
	twi_findings_ns(part->compute_ns, compute, sizeof(compute));
	twi_findings_ns(part->hidden_ns, hidden, sizeof(hidden));
	twi_findings_ns(part->exposed_ns, exposed, sizeof(exposed));
	snprintf(out, bytes, "%s: %s = compute %s + hidden %s + exposed %s", what, step, compute,
		 hidden, exposed);
}

static void divide_split(struct twi_timeline_split *part, uint64_t by)
{
	part->hidden_ns /= by;
	part->exposed_ns /= by;
	part->compute_ns /= by;
	part->step_ns = part->hidden_ns + part->exposed_ns + part->compute_ns;
}

static void add_split(struct twi_timeline_split *into, const struct twi_timeline_split *from)
{
	into->step_ns += from->step_ns;
	into->compute_ns += from->compute_ns;
	into->hidden_ns += from->hidden_ns;
	into->exposed_ns += from->exposed_ns;
}

/* The layout of columns over the width: the distance from one to the next, and the width of one. */
struct columns {
	double each, width;
};

static struct columns columns_of(size_t count)
{
	double each = (RIGHT - LEFT - 4) / (double)twi_max(count, (size_t)1);

	each = twi_min(each, 56.0);
	return (struct columns){ each, twi_max(each * 0.84, each - 6) };
}

static double column_at(const struct columns *c, size_t i)
{
	return LEFT + 4 + (double)i * c->each + (c->each - c->width) / 2;
}

/* Writes a number below each n-th column, so that the numbers do not overlap. */
static void column_label(struct twi_emit *e, const struct columns *c, size_t i, long long number)
{
	size_t each = (size_t)(34 / c->each) + 1;
	char text[32];

	if (i % each != 0)
		return;
	snprintf(text, sizeof(text), "%lld", number);
	twi_svg_text(e, "m", column_at(c, i) + c->width / 2, BOTTOM + 15, text);
}

static void steps_chart(const struct twi_report_page *p)
{
	size_t each = (p->t->step_count + BARS - 1) / BARS, bars;
	struct columns c;
	struct twi_scale scale;
	uint64_t high = 1;

	bars = (p->t->step_count + each - 1) / each;
	c = columns_of(bars);
	for (size_t i = 0; i < p->t->step_count; i++)
		high = twi_max(high, p->t->steps[i].mean.step_ns);
	scale = twi_scale_make(0, (double)high, BOTTOM, TOP, false, TWI_UNIT_NS);
	twi_svg_begin(p->e, WIDTH, HEIGHT, "time of each step, split");
	split_keys(p->e);
	twi_svg_axis(p->e, &scale, 4, LEFT, RIGHT);
	for (size_t i = 0; i < bars; i++) {
		size_t first = i * each, count = twi_min(each, p->t->step_count - first);
		struct twi_timeline_split part = { 0 };
		char what[64], title[256];
		uint64_t late = 0;

		for (size_t k = first; k < first + count; k++) {
			add_split(&part, &p->t->steps[k].mean);
			late = twi_max(late, p->t->steps[k].late_ns);
		}
		divide_split(&part, count);
		snprintf(what, sizeof(what), count > 1 ? "mean of %zu steps from %llu" : "step",
			 count, (unsigned long long)p->t->steps[first].number);
		if (count == 1)
			snprintf(what, sizeof(what), "step %llu",
				 (unsigned long long)p->t->steps[first].number);
		split_title(title, sizeof(title), what, &part);
		split_column(p->e, &scale, column_at(&c, i), c.width, &part, title);
		column_label(p->e, &c, i, (long long)p->t->steps[first].number);
		if (late > 0)
			twi_svg_rect(p->e, "mark", column_at(&c, i) + c.width / 2 - 1.5,
				     twi_scale_at(&scale, (double)part.step_ns) - 6, 3, 3,
				     "one rank held this step up");
	}
	twi_svg_text(p->e, "m", (LEFT + RIGHT) / 2, HEIGHT - 5, "step");
	twi_svg_end(p->e);
}

static void ranks_chart(const struct twi_report_page *p)
{
	size_t shown = twi_min(p->t->rank_count, (size_t)TWI_TIMELINE_RANKS);
	struct columns c = columns_of(shown);
	struct twi_scale scale;
	uint64_t high = 1;

	for (size_t r = 0; r < shown; r++)
		high = twi_max(high, p->t->ranks[r].sum.step_ns /
					     twi_max(p->t->ranks[r].steps, (uint64_t)1));
	scale = twi_scale_make(0, (double)high, BOTTOM, TOP, false, TWI_UNIT_NS);
	twi_svg_begin(p->e, WIDTH, HEIGHT, "mean time of a step at each rank, split");
	split_keys(p->e);
	twi_svg_axis(p->e, &scale, 4, LEFT, RIGHT);
	for (size_t r = 0; r < shown; r++) {
		struct twi_timeline_split part = p->t->ranks[r].sum;
		char what[64], title[256];

		if (p->t->ranks[r].steps == 0)
			continue;
		divide_split(&part, p->t->ranks[r].steps);
		snprintf(what, sizeof(what), "rank %lld, mean step",
			 (long long)p->trace->ranks[r].rank);
		split_title(title, sizeof(title), what, &part);
		split_column(p->e, &scale, column_at(&c, r), c.width, &part, title);
		column_label(p->e, &c, r, (long long)p->trace->ranks[r].rank);
	}
	twi_svg_text(p->e, "m", (LEFT + RIGHT) / 2, HEIGHT - 5, "rank");
	twi_svg_end(p->e);
}

void twi_page_steps(const struct twi_report_page *p)
{
	if (p->t->step_count == 0) {
		twi_emit_puts(p->e, "<section><h2>Steps</h2><p class=\"note\">This trace has no "
				    "steps: a program marks them with tow_step_begin and "
				    "tow_step_end, and then sees here where their time "
				    "went.</p></section>\n");
		return;
	}
	twi_emit_puts(p->e, "<div class=\"pair\">\n<section><h2>Where the time of steps went</h2>"
			    "<p class=\"note\">Mean over ranks. Hidden: something was under way "
			    "while the step's thread went on. Exposed: it waited. A dot: one rank "
			    "held the step up.</p>\n");
	steps_chart(p);
	twi_emit_puts(p->e,
		      "</section>\n<section><h2>By rank</h2><p class=\"note\">Mean over steps. "
		      "The rank that computes longest waits least; the others wait for "
		      "it.</p>\n");
	ranks_chart(p);
	twi_emit_puts(p->e, "</section>\n</div>\n");
}

/* --- sizes --- */

static void sizes_chart(const struct twi_report_page *p)
{
	unsigned first = TWI_TIMELINE_SIZES, last = 0;
	struct twi_scale scale;
	struct columns c;
	uint64_t high = 1;

	for (unsigned i = 0; i < TWI_TIMELINE_SIZES; i++) {
		if (p->t->sizes[i] == 0)
			continue;
		first = twi_min(first, i);
		last = i;
		high = twi_max(high, p->t->sizes[i]);
	}
	first = first > 0 ? first - 1 : 0;
	c = columns_of(twi_max(last + 2 - first, 8u));
	scale = twi_scale_make(0, (double)high, BOTTOM, TOP - 20, false, TWI_UNIT_COUNT);
	twi_svg_begin(p->e, WIDTH, HEIGHT, "transfers by size");
	twi_svg_axis(p->e, &scale, 4, LEFT, RIGHT);
	for (unsigned i = first; i <= last + 1 && i < TWI_TIMELINE_SIZES; i++) {
		double x = column_at(&c, i - first), y;
		char size[TWI_VALUE_BYTES], title[96], class[8];

		twi_value_text((double)(1ull << i), TWI_UNIT_BYTES, size);
		if ((i - first) % ((unsigned)(52 / c.each) + 1) == 0)
			twi_svg_text(p->e, "m", x + c.width / 2, BOTTOM + 15, size);
		if (p->t->sizes[i] == 0)
			continue;
		snprintf(title, sizeof(title), "%llu transfers of at most %s",
			 (unsigned long long)p->t->sizes[i], size);
		snprintf(class, sizeof(class), "s%u", twi_size_class(1ull << i));
		y = twi_min(twi_scale_at(&scale, (double)p->t->sizes[i]), BOTTOM - 1.5);
		twi_svg_rect(p->e, class, x, y, c.width, BOTTOM - y, title);
	}
	twi_svg_text(p->e, "m", (LEFT + RIGHT) / 2, HEIGHT - 5, "size at most");
	twi_svg_end(p->e);
}

static void size_name(unsigned size_class, char *out, size_t bytes)
{
	char text[TWI_WORDS_BYTES];

	if (twi_size_class_max(size_class) == UINT64_MAX) {
		twi_words_bytes(twi_size_class_min(size_class) - 1, text);
		snprintf(out, bytes, "over %s", text);
	} else {
		twi_words_bytes(twi_size_class_max(size_class), text);
		snprintf(out, bytes, "to %s", text);
	}
}

void twi_page_sizes(const struct twi_report_page *p)
{
	if (p->t->transfer_count == 0)
		return;
	twi_emit_puts(p->e, "<div class=\"pair\">\n<section><h2>Transfers by size</h2><p "
			    "class=\"note\">How many, in powers of two; colours as in the chart "
			    "of latencies.</p>\n");
	sizes_chart(p);
	twi_emit_puts(p->e,
		      "</section>\n<section><h2>Latency by size</h2><p class=\"note\">Of a send "
		      "from its start until the receiver has it; of a receive whose sender is "
		      "not in the trace, from its match.</p>\n<div class=\"scroll\"><table>"
		      "<tr><th class=\"l\">Size</th><th>Transfers</th><th>Bytes</th><th>p50</th>"
		      "<th>p99</th><th>Max</th><th>Mean</th></tr>\n");
	for (unsigned c = 0; c < TWI_SIZE_CLASSES; c++) {
		const struct twi_timeline_quantiles *q = &p->t->classes[c];
		char text[64];

		if (q->count == 0)
			continue;
		size_name(c, text, sizeof(text));
		twi_emit_puts(p->e, "<tr>");
		twi_cell_text(p->e, "l key", text);
		twi_cell_count(p->e, "", q->count);
		twi_cell_bytes(p->e, "", q->bytes);
		twi_cell_ns(p->e, "", q->p50_ns);
		twi_cell_ns(p->e, "", q->p99_ns);
		twi_cell_ns(p->e, "", q->max_ns);
		twi_cell_ns(p->e, "", q->sum_ns / q->count);
		twi_emit_puts(p->e, "</tr>\n");
	}
	twi_emit_puts(p->e, "</table></div></section>\n</div>\n");
}
