/*
 * memreg_svg.c - draws a sizing as one picture that needs nothing else: no script, no font, no
 * link.
 *
 *   title, and the answer
 *   | the uses of the pool: one bar, a piece for each line of the sum  |
 *   | live memory over time, by tag (memreg_svg_time.c)                |
 *   | requests without room, by pool size | step time, by pool size    |
 *   | bytes copied, by pool size          | a late registration, by size |
 *
 * Points are real runs; the thin line between them is replayed. Blue and orange differ in lightness
 * as well as in hue, and marks differ in shape. So the picture can be read without colour too.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "bench/memreg/memreg_canvas.h"

#define WIDTH       1000
#define ROW_PITCH   290 /* from one row of plots to the next */
#define TIME_PITCH  330
#define NAME_MOST   46 /* characters of a line of the sum */
#define SOURCE_MOST 40

static const char *const fills[] = { "#2563a8", "#d9730d", "#5a9bd5", "#f0b27a",
				     "#3c7a57", "#8fbc8f", "#7d5ba6", "#bfa8d9",
				     "#8d6e63", "#c9b8ae", "#9aa5b1", "#d5dbe1" };

const char *memreg_fill(uint32_t line)
{
	return fills[line % (sizeof(fills) / sizeof(fills[0]))];
}

/* Draws the named size as a line through a plot whose x is the pool's size. */
static void named_line(struct memreg_canvas *c, const struct memreg_plot *p, bool label)
{
	double x = memreg_plot_x(p, memreg_in_unit(c, c->sizing->named));

	memreg_draw_line(c, x, p->y, x, p->y + p->h, "class=\"named\"");
	if (label)
		memreg_draw_text(c, x - 6, p->y + 12, "class=\"n\" text-anchor=\"end\"", "%s",
				 memreg_as_text(c->sizing->named).text);
}

/* A series of the real runs: `pick` gives the value of each mark. */
typedef double (*pick_value)(const struct memreg_run *run);

static double pick_misses(const struct memreg_run *run)
{
	return (double)(run->late + run->refused + run->overflowed + run->waited);
}

static double pick_copied(const struct memreg_run *run)
{
	return (double)(run->fallback_bytes / (run->steps ? run->steps : 1));
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

static void draw_series(struct memreg_canvas *c, const struct memreg_plot *p, pick_value pick,
			double unit, bool round, const char *colour)
{
	const struct memreg_sizing *s = c->sizing;

	for (uint32_t i = 0; i < s->runs; i++)
		if (s->run[i].ran)
			memreg_draw_mark(c, memreg_plot_x(p, memreg_in_unit(c, s->run[i].bytes)),
					 memreg_plot_y(p, pick(&s->run[i]) / unit), round, colour);
}

static void frame_pools(struct memreg_canvas *c, struct memreg_plot *p, const char *title)
{
	char label[48];

	snprintf(label, sizeof(label), "premap_memory_bytes, %s", c->unit.name);
	memreg_draw_frame(c, p, title, label);
}

static struct memreg_plot pool_plot(const struct memreg_canvas *c, double x, double y)
{
	return (struct memreg_plot){ .x = x,
				     .y = y,
				     .w = 385,
				     .h = 190,
				     .x_max = memreg_in_unit(c, c->sizing->named) * 1.06 };
}

static void draw_misses(struct memreg_canvas *c)
{
	const struct memreg_sizing *s = c->sizing;
	struct memreg_plot p = pool_plot(c, 75, c->row);

	p.y_max = run_max(s, pick_misses);
	for (uint32_t i = 0; i < s->shadows; i++)
		p.y_max = fmax(p.y_max, (double)s->shadow[i].missed);
	frame_pools(c, &p, "Late registrations, or requests the pool had no room for");
	memreg_y_ticks(c, &p);
	memreg_x_ticks(c, &p);
	named_line(c, &p, true);
	fprintf(c->file, "<polyline class=\"shadow\" points=\"");
	for (uint32_t i = 0; i < s->shadows; i++)
		fprintf(c->file, "%.1f,%.1f ",
			memreg_plot_x(&p, memreg_in_unit(c, s->shadow[i].bytes)),
			memreg_plot_y(&p, (double)s->shadow[i].missed));
	fprintf(c->file, "\"/>\n");
	draw_series(c, &p, pick_misses, 1, true, MEMREG_BLUE);
	memreg_draw_legend(c, p.x + 4, p.y - 11, true, MEMREG_BLUE, "real runs");
	memreg_draw_line(c, p.x + 90, p.y - 15, p.x + 114, p.y - 15, "class=\"shadow\"");
	memreg_draw_text(c, p.x + 120, p.y - 11, "class=\"l\"", "requests without room, replayed");
}

static void draw_times(struct memreg_canvas *c)
{
	struct memreg_plot p = pool_plot(c, 570, c->row);

	p.y_max = 1.15 * fmax(run_max(c->sizing, pick_first), run_max(c->sizing, pick_later));
	frame_pools(c, &p,
		    c->sizing->job.strategy[0] ? "Time of a step, ms"
					       : "Time of the whole log, ms");
	memreg_y_ticks(c, &p);
	memreg_x_ticks(c, &p);
	named_line(c, &p, false);
	draw_series(c, &p, pick_first, 1, false, MEMREG_ORANGE);
	/* A log is one step, so no step comes after it. */
	if (c->sizing->job.strategy[0] != '\0')
		draw_series(c, &p, pick_later, 1, true, MEMREG_BLUE);
	memreg_draw_legend(c, p.x + 4, p.y - 11, false, MEMREG_ORANGE,
			   "the first, with its allocations");
	if (c->sizing->job.strategy[0] != '\0')
		memreg_draw_legend(c, p.x + 230, p.y - 11, true, MEMREG_BLUE, "each after it");
}

static void draw_copied(struct memreg_canvas *c)
{
	struct memreg_plot p = pool_plot(c, 75, c->row + ROW_PITCH);

	struct memreg_unit unit = memreg_unit_of((uint64_t)run_max(c->sizing, pick_copied));
	char title[48];

	p.y_max = run_max(c->sizing, pick_copied) / unit.bytes;
	snprintf(title, sizeof(title), "Fallback copies, %s in a step", unit.name);
	frame_pools(c, &p, title);
	if (p.y_max <= 0)
		memreg_draw_text(c, p.x + p.w / 2, p.y + p.h / 2,
				 "class=\"l\" text-anchor=\"middle\"",
				 "none at any size: exhaust=copy is what copies");
	memreg_y_ticks(c, &p);
	memreg_x_ticks(c, &p);
	named_line(c, &p, false);
	draw_series(c, &p, pick_copied, unit.bytes, true, MEMREG_BLUE);
}

static void log_ticks(struct memreg_canvas *c, struct memreg_plot *p)
{
	char size[32];

	for (double v = p->y_log_min; v <= p->y_max * 1.001; v *= 10) {
		memreg_draw_line(c, p->x, memreg_plot_y(p, v), p->x + p->w, memreg_plot_y(p, v),
				 "class=\"grid\"");
		memreg_draw_text(c, p->x - 8, memreg_plot_y(p, v) + 4,
				 "class=\"l\" text-anchor=\"end\"", "%g", v);
	}
	for (double v = p->x_log_min; v <= p->x_max * 1.001; v *= 16) {
		memreg_draw_line(c, memreg_plot_x(p, v), p->y + p->h, memreg_plot_x(p, v),
				 p->y + p->h + 4, "class=\"axis\"");
		memreg_draw_text(c, memreg_plot_x(p, v), p->y + p->h + 19,
				 "class=\"l\" text-anchor=\"middle\"", "%s",
				 memreg_bytes_text((uint64_t)v, size, sizeof(size)));
	}
}

static void draw_late(struct memreg_canvas *c)
{
	const struct memreg_rows *rows = &c->sizing->rows;
	struct memreg_plot p = { .x = 570,
				 .y = c->row + ROW_PITCH,
				 .w = 385,
				 .h = 190,
				 .x_max = 64.0 * MEMREG_MIB,
				 .y_max = 1,
				 .x_log_min = 4096,
				 .y_log_min = 0.1 };

	for (uint32_t i = 0; i < rows->count; i++)
		while (strcmp(rows->row[i].table, "late") == 0 && rows->row[i].ns / 1e3 > p.y_max)
			p.y_max *= 10;
	memreg_draw_frame(c, &p, "One late registration, microseconds",
			  "bytes registered (io_uring, base pages)");
	log_ticks(c, &p);
	for (uint32_t i = 0; i < rows->count; i++) {
		const struct memreg_row *row = &rows->row[i];
		bool cold = strncmp(row->what, "cold", 4) == 0;

		if (strcmp(row->table, "late") == 0 && row->why[0] == '\0')
			memreg_draw_mark(c, memreg_plot_x(&p, (double)row->bytes),
					 memreg_plot_y(&p, row->ns / 1e3), !cold,
					 cold ? MEMREG_ORANGE : MEMREG_BLUE);
	}
	memreg_draw_legend(c, p.x + 4, p.y - 11, true, MEMREG_BLUE, "touched before");
	memreg_draw_legend(c, p.x + 130, p.y - 11, false, MEMREG_ORANGE,
			   "never touched: faults too");
}

/* Draws the sum as one bar, and its lines as the legend, in two columns. */
static void draw_budget(struct memreg_canvas *c)
{
	const struct twi_budget *budget = &c->sizing->budget;
	double x = 75, width = WIDTH - 120, sum = (double)twi_budget_sum(budget);
	uint32_t shown = 0;
	char name[NAME_MOST + 1];

	c->row = 275;
	memreg_draw_text(c, x, 100, "class=\"h\"", "What the pool is for");
	for (uint32_t i = 0; i < budget->count; i++) {
		const struct twi_budget_line *row = &budget->line[i];
		double w = sum > 0 ? width * (double)row->bytes / sum : 0;
		const char *fill = memreg_fill(i);
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
		memreg_draw_text(c, lx + 18, ly, "class=\"l\"", "%s",
				 memreg_fit_text(row->name, NAME_MOST, name, sizeof(name)));
		memreg_draw_text(c, lx + 390, ly, "class=\"l\" text-anchor=\"end\"", "%s",
				 memreg_as_text(row->bytes).text);
	}
}

static void draw_head(struct memreg_canvas *c, double height)
{
	const struct memreg_sizing *s = c->sizing;
	const char *slash = strrchr(s->job.source, '/');
	char source[SOURCE_MOST + 1];

	fprintf(c->file,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" "
		"viewBox=\"0 0 %d %.0f\" font-family=\"Helvetica, Arial, DejaVu Sans, "
		"sans-serif\">\n"
		"<style>.t{font-size:20px;font-weight:bold;fill:" MEMREG_INK
		"}.s{font-size:14px;fill:" MEMREG_INK
		"}.h{font-size:14px;font-weight:bold;fill:" MEMREG_INK
		"}.l{font-size:12px;fill:" MEMREG_INK
		"}.n{font-size:12px;font-weight:bold;fill:" MEMREG_INK "}.axis{stroke:" MEMREG_GREY
		";stroke-width:1}.grid{stroke:#e3e7eb;stroke-width:1}"
		".named{stroke:" MEMREG_INK ";stroke-width:1.5;stroke-dasharray:5 4}"
		".shadow{fill:none;stroke:" MEMREG_GREY ";stroke-width:1.2}</style>\n"
		"<rect width=\"%d\" height=\"%.0f\" fill=\"#ffffff\"/>\n",
		WIDTH, height, WIDTH, height, WIDTH, height);
	memreg_draw_text(c, 75, 42, "class=\"t\"", "%s%s%s: premap_memory_bytes = %llu",
			 memreg_fit_text(slash != NULL ? slash + 1 : s->job.source, SOURCE_MOST,
					 source, sizeof(source)),
			 s->job.strategy[0] ? ", " : "", s->job.strategy,
			 (unsigned long long)s->named);
	memreg_draw_text(
		c, 75, 66, "class=\"s\"", "%s, %s", memreg_as_text(s->named).text,
		s->verified
			? "verified by real runs: clean at this size, not a step below the smallest"
			: "not verified by real runs");
}

static int draw_page(struct memreg_canvas *c)
{
	const struct twi_budget *budget = &c->sizing->budget;
	uint32_t lines = 0;
	int rc;

	for (uint32_t i = 0; i < budget->count; i++)
		lines += budget->line[i].bytes > 0;
	draw_head(c, 168 + 20 * (double)((lines + 1) / 2) + 65 + TIME_PITCH + 2 * ROW_PITCH);
	draw_budget(c);
	rc = memreg_svg_time(c);
	c->row += TIME_PITCH;
	draw_misses(c);
	draw_times(c);
	draw_copied(c);
	draw_late(c);
	fputs("</svg>\n", c->file);
	return rc;
}

int memreg_svg(const struct memreg_sizing *sizing, const char *path)
{
	struct memreg_canvas canvas = { .file = fopen(path, "we"),
					.sizing = sizing,
					.unit = memreg_unit_of(sizing->named) };
	bool bad;
	int rc;

	if (canvas.file == NULL) {
		fprintf(stderr, "tow-size: --svg %s: %s\n", path, strerror(errno));
		return MEMREG_FAULT;
	}
	rc = draw_page(&canvas);
	bad = ferror(canvas.file) != 0;
	bad = fclose(canvas.file) != 0 || bad;
	if (bad)
		fprintf(stderr, "tow-size: --svg %s: %s\n", path, strerror(errno));
	return bad ? MEMREG_FAULT : rc;
}
