/*
 * memreg_svg.c - a sizing as one picture that needs nothing else: no script, no font, no link.
 *
 *   title, and the answer
 *   | what the pool is for: one bar, a piece for each line of the sum |
 *   | requests without room, by pool size | step time, by pool size    |
 *   | bytes copied, by pool size          | a late registration, by size |
 *
 * Points are real runs, the thin line between them is replayed. Blue and orange differ in lightness
 * as well as in hue, and marks differ in shape, so that the picture is read without colour too.
 */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "bench/memreg/memreg_bench.h"

#define WIDTH     1000
#define BLUE      "#2563a8"
#define ORANGE    "#d9730d"
#define INK       "#1f2933"
#define GREY      "#6b7785"
#define TICKS     5
#define ROW_PITCH 290 /* from one row of fields to the next */

static const char *const fills[] = { "#2563a8", "#d9730d", "#5a9bd5", "#f0b27a",
				     "#3c7a57", "#8fbc8f", "#7d5ba6", "#bfa8d9",
				     "#8d6e63", "#c9b8ae", "#9aa5b1", "#d5dbe1" };

struct canvas {
	FILE *file;
	const struct memreg_sizing *sizing;
	double row; /* where the first row of fields begins */
};

/* A field with axes; values map into [x, x + w) and, upwards, into [y, y + h). */
struct plot {
	double x, y, w, h, x_max, y_max;
	double x_log_min, y_log_min; /* above 0: that axis is logarithmic, from there */
};

static double map_value(double value, double max, double log_min)
{
	if (log_min > 0)
		return value <= log_min ? 0 : log(value / log_min) / log(max / log_min);
	return max > 0 ? value / max : 0;
}

static double plot_x(const struct plot *p, double value)
{
	return p->x + p->w * map_value(value, p->x_max, p->x_log_min);
}

static double plot_y(const struct plot *p, double value)
{
	return p->y + p->h - p->h * map_value(value, p->y_max, p->y_log_min);
}

/* Text with the five characters that mean something in XML written out. */
static void put_escaped(FILE *file, const char *text)
{
	for (; *text != '\0'; text++) {
		const char *entity = *text == '&'    ? "&amp;"
				     : *text == '<'  ? "&lt;"
				     : *text == '>'  ? "&gt;"
				     : *text == '"'  ? "&quot;"
				     : *text == '\'' ? "&apos;"
						     : NULL;

		if (entity != NULL)
			fputs(entity, file);
		else
			/* Bytes that are no ASCII may be no UTF-8, which a parser would refuse. */
			putc(*text >= ' ' && *text <= '~' ? *text : '?', file);
	}
}

static void draw_text(struct canvas *c, double x, double y, const char *style, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* style: attributes of the text element. */
static void draw_text(struct canvas *c, double x, double y, const char *style, const char *fmt, ...)
{
	char line[512];
	va_list arguments;

	va_start(arguments, fmt);
	vsnprintf(line, sizeof(line), fmt, arguments);
	va_end(arguments);
	fprintf(c->file, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, style);
	put_escaped(c->file, line);
	fputs("</text>\n", c->file);
}

static void draw_line(struct canvas *c, double x1, double y1, double x2, double y2,
		      const char *style)
{
	fprintf(c->file, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", x1, y1, x2,
		y2, style);
}

static void draw_mark(struct canvas *c, double x, double y, bool round, const char *colour)
{
	if (round)
		fprintf(c->file,
			"<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\" fill=\"%s\" stroke=\"#fff\"/>\n",
			x, y, colour);
	else
		fprintf(c->file,
			"<rect x=\"%.1f\" y=\"%.1f\" width=\"8\" height=\"8\" fill=\"%s\" "
			"stroke=\"#fff\"/>\n",
			x - 4, y - 4, colour);
}

/* 1, 2, 2.5 or 5 times a power of ten, so that `max` has at most TICKS steps. */
static double nice_step(double max)
{
	static const double steps[] = { 1, 2, 2.5, 5, 10 };
	double power;

	if (max <= 0)
		return 1;
	power = pow(10, floor(log10(max / TICKS)));
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (steps[i] * power * TICKS >= max)
			return steps[i] * power;
	return 10 * power;
}

static void draw_frame(struct canvas *c, struct plot *p, const char *title, const char *x_label)
{
	draw_text(c, p->x, p->y - 32, "class=\"h\"", "%s", title);
	draw_line(c, p->x, p->y + p->h, p->x + p->w, p->y + p->h, "class=\"axis\"");
	draw_line(c, p->x, p->y, p->x, p->y + p->h, "class=\"axis\"");
	draw_text(c, p->x + p->w / 2, p->y + p->h + 38, "class=\"l\" text-anchor=\"middle\"", "%s",
		  x_label);
}

static void y_ticks(struct canvas *c, struct plot *p)
{
	double step = nice_step(p->y_max);

	/* Counts below a handful have no ticks between them. */
	p->y_max = ceil(p->y_max / step) * step;
	if (p->y_max <= 0)
		p->y_max = 1;
	for (double v = 0; v <= p->y_max * 1.0001; v += step) {
		if (v > 0)
			draw_line(c, p->x, plot_y(p, v), p->x + p->w, plot_y(p, v),
				  "class=\"grid\"");
		draw_text(c, p->x - 8, plot_y(p, v) + 4, "class=\"l\" text-anchor=\"end\"", "%.6g",
			  v);
	}
}

static void x_ticks(struct canvas *c, const struct plot *p)
{
	double step = nice_step(p->x_max);

	for (double v = 0; v <= p->x_max * 1.0001; v += step) {
		draw_line(c, plot_x(p, v), p->y + p->h, plot_x(p, v), p->y + p->h + 4,
			  "class=\"axis\"");
		draw_text(c, plot_x(p, v), p->y + p->h + 19, "class=\"l\" text-anchor=\"middle\"",
			  "%.6g", v);
	}
}

static double to_mib(uint64_t bytes)
{
	return (double)bytes / MEMREG_MIB;
}

/* The size that is named, as a line through a field whose x is the pool's MiB. */
static void named_line(struct canvas *c, const struct plot *p, bool label)
{
	double x = plot_x(p, to_mib(c->sizing->named));

	draw_line(c, x, p->y, x, p->y + p->h, "class=\"named\"");
	if (label)
		draw_text(c, x - 6, p->y + 12, "class=\"n\" text-anchor=\"end\"", "%.6g MiB",
			  to_mib(c->sizing->named));
}

/* Series `pick` of the real runs: a mark each. */
typedef double (*pick_value)(const struct memreg_run *run);

static double pick_misses(const struct memreg_run *run)
{
	return (double)(run->late + run->refused + run->overflowed + run->waited);
}

static double pick_copied(const struct memreg_run *run)
{
	return to_mib(run->fallback_bytes) / (double)(run->steps ? run->steps : 1);
}

static double pick_first(const struct memreg_run *run)
{
	return run->first_step_us / 1e3;
}

static double pick_later(const struct memreg_run *run)
{
	return run->step_us / 1e3;
}

static double run_max(const struct memreg_sizing *s, pick_value pick)
{
	double max = 0;

	for (uint32_t i = 0; i < s->runs; i++)
		if (s->run[i].ran)
			max = fmax(max, pick(&s->run[i]));
	return max;
}

static void draw_series(struct canvas *c, const struct plot *p, pick_value pick, bool round,
			const char *colour)
{
	const struct memreg_sizing *s = c->sizing;

	for (uint32_t i = 0; i < s->runs; i++)
		if (s->run[i].ran)
			draw_mark(c, plot_x(p, to_mib(s->run[i].bytes)),
				  plot_y(p, pick(&s->run[i])), round, colour);
}

static void draw_legend(struct canvas *c, double x, double y, bool round, const char *colour,
			const char *label)
{
	draw_mark(c, x, y - 4, round, colour);
	draw_text(c, x + 10, y, "class=\"l\"", "%s", label);
}

static struct plot pool_plot(const struct canvas *c, double x, double y)
{
	return (struct plot){
		.x = x, .y = y, .w = 385, .h = 190, .x_max = to_mib(c->sizing->named) * 1.06
	};
}

static void draw_misses(struct canvas *c)
{
	const struct memreg_sizing *s = c->sizing;
	struct plot p = pool_plot(c, 75, c->row);

	p.y_max = run_max(s, pick_misses);
	for (uint32_t i = 0; i < s->shadows; i++)
		p.y_max = fmax(p.y_max, (double)s->shadow[i].missed);
	draw_frame(c, &p, "Late registrations, or requests the pool had no room for",
		   "premap_memory_bytes, MiB");
	y_ticks(c, &p);
	x_ticks(c, &p);
	named_line(c, &p, true);
	fprintf(c->file, "<polyline class=\"shadow\" points=\"");
	for (uint32_t i = 0; i < s->shadows; i++)
		fprintf(c->file, "%.1f,%.1f ", plot_x(&p, to_mib(s->shadow[i].bytes)),
			plot_y(&p, (double)s->shadow[i].missed));
	fprintf(c->file, "\"/>\n");
	draw_series(c, &p, pick_misses, true, BLUE);
	draw_legend(c, p.x + 4, p.y - 11, true, BLUE, "real runs");
	draw_line(c, p.x + 90, p.y - 15, p.x + 114, p.y - 15, "class=\"shadow\"");
	draw_text(c, p.x + 120, p.y - 11, "class=\"l\"", "requests without room, replayed");
}

static void draw_times(struct canvas *c)
{
	struct plot p = pool_plot(c, 570, c->row);

	p.y_max = 1.15 * fmax(run_max(c->sizing, pick_first), run_max(c->sizing, pick_later));
	draw_frame(c, &p,
		   c->sizing->job.strategy[0] ? "Time of a step, ms" : "Time of the whole log, ms",
		   "premap_memory_bytes, MiB");
	y_ticks(c, &p);
	x_ticks(c, &p);
	named_line(c, &p, false);
	draw_series(c, &p, pick_first, false, ORANGE);
	/* A log is one step: there is none after it. */
	if (c->sizing->job.strategy[0] != '\0')
		draw_series(c, &p, pick_later, true, BLUE);
	draw_legend(c, p.x + 4, p.y - 11, false, ORANGE, "the first, with its allocations");
	if (c->sizing->job.strategy[0] != '\0')
		draw_legend(c, p.x + 230, p.y - 11, true, BLUE, "each after it");
}

static void draw_copied(struct canvas *c)
{
	struct plot p = pool_plot(c, 75, c->row + ROW_PITCH);

	p.y_max = run_max(c->sizing, pick_copied);
	draw_frame(c, &p, "Fallback copies, MiB in a step", "premap_memory_bytes, MiB");
	if (p.y_max <= 0)
		draw_text(c, p.x + p.w / 2, p.y + p.h / 2, "class=\"l\" text-anchor=\"middle\"",
			  "none at any size: exhaust=copy is what copies");
	y_ticks(c, &p);
	x_ticks(c, &p);
	named_line(c, &p, false);
	draw_series(c, &p, pick_copied, true, BLUE);
}

static void log_ticks(struct canvas *c, struct plot *p)
{
	char size[32];

	for (double v = p->y_log_min; v <= p->y_max * 1.001; v *= 10) {
		draw_line(c, p->x, plot_y(p, v), p->x + p->w, plot_y(p, v), "class=\"grid\"");
		draw_text(c, p->x - 8, plot_y(p, v) + 4, "class=\"l\" text-anchor=\"end\"", "%g",
			  v);
	}
	for (double v = p->x_log_min; v <= p->x_max * 1.001; v *= 16) {
		draw_line(c, plot_x(p, v), p->y + p->h, plot_x(p, v), p->y + p->h + 4,
			  "class=\"axis\"");
		draw_text(c, plot_x(p, v), p->y + p->h + 19, "class=\"l\" text-anchor=\"middle\"",
			  "%s", memreg_bytes_text((uint64_t)v, size, sizeof(size)));
	}
}

static void draw_late(struct canvas *c)
{
	const struct memreg_rows *rows = &c->sizing->rows;
	struct plot p = { 570, c->row + ROW_PITCH, 385, 190, 64.0 * MEMREG_MIB, 1, 4096, 0.1 };

	for (uint32_t i = 0; i < rows->count; i++)
		while (strcmp(rows->row[i].table, "late") == 0 && rows->row[i].ns / 1e3 > p.y_max)
			p.y_max *= 10;
	draw_frame(c, &p, "One late registration, microseconds",
		   "bytes registered (io_uring, base pages)");
	log_ticks(c, &p);
	for (uint32_t i = 0; i < rows->count; i++) {
		const struct memreg_row *row = &rows->row[i];
		bool cold = strncmp(row->what, "cold", 4) == 0;

		if (strcmp(row->table, "late") == 0 && row->why[0] == '\0')
			draw_mark(c, plot_x(&p, (double)row->bytes), plot_y(&p, row->ns / 1e3),
				  !cold, cold ? ORANGE : BLUE);
	}
	draw_legend(c, p.x + 4, p.y - 11, true, BLUE, "touched before");
	draw_legend(c, p.x + 130, p.y - 11, false, ORANGE, "never touched: faults too");
}

/* The sum as one bar, and its lines as the legend, in two columns. */
static void draw_budget(struct canvas *c)
{
	const struct twi_budget *budget = &c->sizing->budget;
	double x = 75, width = WIDTH - 120, sum = (double)twi_budget_sum(budget);
	uint32_t shown = 0;

	c->row = 275;
	draw_text(c, x, 100, "class=\"h\"", "What the pool is for");
	for (uint32_t i = 0; i < budget->count; i++) {
		const struct twi_budget_line *row = &budget->line[i];
		double w = sum > 0 ? width * (double)row->bytes / sum : 0;
		const char *fill = fills[i % (sizeof(fills) / sizeof(fills[0]))];
		double lx = 75 + (shown % 2) * 440, ly = 168 + 20 * (double)(shown / 2);

		fprintf(c->file,
			"<rect x=\"%.1f\" y=\"112\" width=\"%.1f\" height=\"30\" fill=\"%s\" "
			"stroke=\"#fff\" stroke-width=\"0.5\"/>\n",
			x, w, fill);
		x += w;
		if (row->bytes == 0)
			continue;
		shown++;
		c->row = ly + 85;
		fprintf(c->file,
			"<rect x=\"%.1f\" y=\"%.1f\" width=\"11\" height=\"11\" fill=\"%s\"/>\n",
			lx, ly - 10, fill);
		draw_text(c, lx + 18, ly, "class=\"l\"", "%s", row->name);
		draw_text(c, lx + 390, ly, "class=\"l\" text-anchor=\"end\"", "%.2f MiB",
			  to_mib(row->bytes));
	}
}

static void draw_head(struct canvas *c, double height)
{
	const struct memreg_sizing *s = c->sizing;

	fprintf(c->file,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" "
		"viewBox=\"0 0 %d %.0f\" font-family=\"Helvetica, Arial, DejaVu Sans, "
		"sans-serif\">\n"
		"<style>.t{font-size:20px;font-weight:bold;fill:" INK "}.s{font-size:14px;fill:" INK
		"}.h{font-size:14px;font-weight:bold;fill:" INK "}.l{font-size:12px;fill:" INK
		"}.n{font-size:12px;font-weight:bold;fill:" INK "}.axis{stroke:" GREY
		";stroke-width:1}.grid{stroke:#e3e7eb;stroke-width:1}"
		".named{stroke:" INK ";stroke-width:1.5;stroke-dasharray:5 4}"
		".shadow{fill:none;stroke:" GREY ";stroke-width:1.2}</style>\n"
		"<rect width=\"%d\" height=\"%.0f\" fill=\"#ffffff\"/>\n",
		WIDTH, height, WIDTH, height, WIDTH, height);
	draw_text(c, 75, 42, "class=\"t\"", "%.60s%s%s: premap_memory_bytes = %llu", s->job.source,
		  s->job.strategy[0] ? ", " : "", s->job.strategy, (unsigned long long)s->named);
	draw_text(
		c, 75, 66, "class=\"s\"", "%.2f MiB, %s", to_mib(s->named),
		s->verified
			? "verified by real runs: clean at this size, not a step below the smallest"
			: "not verified by real runs");
}

static void draw_page(struct canvas *c)
{
	const struct twi_budget *budget = &c->sizing->budget;
	uint32_t lines = 0;

	for (uint32_t i = 0; i < budget->count; i++)
		lines += budget->line[i].bytes > 0;
	draw_head(c, 168 + 20 * (double)((lines + 1) / 2) + 65 + 2 * ROW_PITCH);
	draw_budget(c);
	draw_misses(c);
	draw_times(c);
	draw_copied(c);
	draw_late(c);
	fputs("</svg>\n", c->file);
}

int memreg_svg(const struct memreg_sizing *sizing, const char *path)
{
	struct canvas canvas = { fopen(path, "we"), sizing, 0 };
	bool bad;

	if (canvas.file == NULL) {
		fprintf(stderr, "memreg-bench: --svg %s: %s\n", path, strerror(errno));
		return MEMREG_FAULT;
	}
	draw_page(&canvas);
	bad = ferror(canvas.file) != 0;
	bad = fclose(canvas.file) != 0 || bad;
	if (bad)
		fprintf(stderr, "memreg-bench: --svg %s: %s\n", path, strerror(errno));
	return bad ? MEMREG_FAULT : 0;
}
