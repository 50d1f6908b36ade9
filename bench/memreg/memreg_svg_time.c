/*
 * memreg_svg_time.c - draws live memory over time.
 *
 * Each of the largest tags has an area, stacked up to all live memory. The peak and the named size
 * are drawn too; the size is higher by staging, rounding, pieces and headroom. Each column of the
 * picture shows the moment in it with the most live memory. So no peak is lost, for any number of
 * events in a column.
 */
#include <string.h>

#include "bench/memreg/memreg_canvas.h"
#include "bench/memreg/memreg_size.h"
#include <towline/status.h>

#define COLUMNS    580 /* one for each pixel */
#define HEIGHT     215
#define REST_FILL  "#e4d9c5"
#define LEGEND_X   695
#define LEGEND_END 955
#define NAME_MOST  27
#define PITCH      19
#define FILLS      12

/* A tag has its colour of the sum, where that colour is its alone. */
static void choose_fills(const struct memreg_sizing *s, const struct twi_replay_timeline *line,
			 const char **fill)
{
	bool used[FILLS] = { false };

	for (uint32_t k = 0; k < line->count; k++) {
		fill[k] = NULL;
		for (uint32_t i = 0; i < s->groups && i < FILLS; i++) {
			if (s->group[i].tag != line->series[k].tag ||
			    s->group[i].caller != line->series[k].caller || used[i])
				continue;
			used[i] = true;
			fill[k] = memreg_fill(i);
		}
	}
	/* Other tags get colours that the sum does not use, as long as there are any. */
	for (uint32_t k = 0, i = s->budget.count; k < line->count; k++) {
		if (fill[k] != NULL)
			continue;
		while (used[i % FILLS])
			i++;
		used[i % FILLS] = true;
		fill[k] = memreg_fill(i % FILLS);
	}
	fill[line->count] = REST_FILL;
}

static void put_title(struct memreg_canvas *c, const char *name)
{
	fputs("<title>", c->file);
	memreg_put_escaped(c->file, name);
	fputs("</title>", c->file);
}

static uint64_t sum_up_to(const uint64_t *bin, uint32_t series)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i <= series; i++)
		sum += bin[i];
	return sum;
}

/*
 * Draws from the axis up to the sum of the series up to this one. Lower series are drawn over it.
 */
static void draw_area(struct memreg_canvas *c, const struct memreg_plot *p,
		      const struct twi_replay_timeline *line, uint32_t series, const char *fill,
		      const char *name)
{
	double y = p->y + p->h;

	fprintf(c->file, "<path fill=\"%s\" d=\"M%.1f,%.1f", fill, p->x, y);
	for (uint32_t i = 0; i < line->bins; i++) {
		double x = p->x + p->w * i / line->bins;
		double top = memreg_plot_y(
			p, memreg_in_unit(c, sum_up_to(twi_replay_timeline_bin(line, i), series)));

		if (top == y)
			continue;
		fprintf(c->file, "H%.1fV%.1f", x, top);
		y = top;
	}
	fprintf(c->file, "H%.1fV%.1fZ\">", p->x + p->w, p->y + p->h);
	put_title(c, name);
	fputs("</path>\n", c->file);
}

/* The unit of the time axis. Text logs and plans have no times, only an order. */
static double scale_time(const struct memreg_canvas *c, const struct twi_replay_timeline *line,
			 const char **label_out)
{
	uint64_t span = line->end_ns - line->begin_ns;

	*label_out = "events, from the first one on";
	if (!c->sizing->job.timed)
		return 1e3;
	*label_out = span >= 2000000000 ? "seconds since the first event"
		     : span >= 2000000  ? "milliseconds since the first event"
					: "microseconds since the first event";
	return span >= 2000000000 ? 1e9 : span >= 2000000 ? 1e6 : 1e3;
}

/* Draws a row of the legend, without its mark: a name and its bytes. */
static void draw_row(struct memreg_canvas *c, double y, const char *name, uint64_t bytes)
{
	char text[NAME_MOST + 1];

	memreg_draw_text(c, LEGEND_X + 20, y, "class=\"l\"", "%s",
			 memreg_fit_text(name, NAME_MOST, text, sizeof(text)));
	memreg_draw_text(c, LEGEND_END, y, "class=\"l\" text-anchor=\"end\"", "%s",
			 memreg_as_text(bytes).text);
}

static uint64_t rest_most(const struct twi_replay_timeline *line)
{
	uint64_t most = 0;

	for (uint32_t i = 0; i < line->bins; i++) {
		uint64_t bytes = twi_replay_timeline_bin(line, i)[line->count];

		most = bytes > most ? bytes : most;
	}
	return most;
}

/* Draws from the last series, which lies on top, so that picture and legend have the same order. */
static void draw_series(struct memreg_canvas *c, const struct memreg_plot *p,
			const struct twi_replay_timeline *line, double y)
{
	const char *fill[TWI_REPLAY_SERIES + 1];
	uint64_t rest = rest_most(line);
	char name[2 * MEMREG_NAME_ROOM];

	choose_fills(c->sizing, line, fill);
	for (uint32_t left = line->count + 1; left > 0; left--) {
		uint32_t k = left - 1;
		bool is_rest = k == line->count;

		if (is_rest && rest == 0)
			continue;
		snprintf(name, sizeof(name), "all others together");
		if (!is_rest)
			memreg_group_text(&c->sizing->job, &line->series[k], name, sizeof(name));
		draw_area(c, p, line, k, fill[k], name);
		fprintf(c->file,
			"<rect x=\"%d\" y=\"%.1f\" width=\"11\" height=\"11\" fill=\"%s\">",
			LEGEND_X, y - 10, fill[k]);
		put_title(c, name);
		fputs("</rect>\n", c->file);
		draw_row(c, y, name, is_rest ? rest : line->series[k].bytes);
		y += PITCH;
	}
}

static void draw_limits(struct memreg_canvas *c, const struct memreg_plot *p,
			const struct twi_replay_timeline *line, double x_unit)
{
	const struct memreg_sizing *s = c->sizing;
	double n = memreg_plot_y(p, memreg_in_unit(c, s->named));
	double x = memreg_plot_x(p, (double)(line->peak_ns - line->begin_ns) / x_unit);

	memreg_draw_line(c, p->x, n, p->x + p->w, n, "class=\"named\"");
	memreg_draw_mark(c, x, memreg_plot_y(p, memreg_in_unit(c, s->job.replay->peak_bytes)), true,
			 MEMREG_INK);
	memreg_draw_line(c, LEGEND_X - 4, p->y - 4, LEGEND_X + 14, p->y - 4, "class=\"named\"");
	draw_row(c, p->y, "premap_memory_bytes", s->named);
	memreg_draw_mark(c, LEGEND_X + 5, p->y + PITCH - 4, true, MEMREG_INK);
	draw_row(c, p->y + PITCH, "the peak", s->job.replay->peak_bytes);
}

static const char *what_series(const struct memreg_sizing *s,
			       const struct twi_replay_timeline *line)
{
	if (s->job.strategy[0] != '\0')
		return "use";
	for (uint32_t i = 0; i < line->count; i++)
		if (line->series[i].tag != 0)
			return "tag";
	return "caller";
}

int memreg_svg_time(struct memreg_canvas *c)
{
	const struct memreg_sizing *s = c->sizing;
	struct memreg_plot p = { .x = 75, .y = c->row, .w = COLUMNS, .h = HEIGHT };
	uint64_t top = s->named > s->job.replay->peak_bytes ? s->named : s->job.replay->peak_bytes;
	struct twi_replay_timeline line;
	char title[96];
	const char *label;
	double x_unit;

	if (twi_replay_timeline_init(&line, s->job.replay, COLUMNS) < 0)
		return memreg_sizing_failed(s);
	x_unit = scale_time(c, &line, &label);
	p.x_max = (double)(line.end_ns - line.begin_ns) / x_unit;
	p.y_max = memreg_in_unit(c, top) * 1.03;
	p.x_whole = !s->job.timed;
	snprintf(title, sizeof(title), "Live bytes over time, by %s, %s", what_series(s, &line),
		 c->unit.name);
	memreg_draw_frame(c, &p, title, label);
	memreg_y_ticks(c, &p);
	draw_series(c, &p, &line, p.y + 2.6 * PITCH);
	memreg_draw_text(c, LEGEND_END, p.y - 32, "class=\"l\" text-anchor=\"end\"",
			 "the most at once");
	memreg_x_ticks(c, &p);
	draw_limits(c, &p, &line, x_unit);
	twi_replay_timeline_fini(&line);
	return 0;
}
