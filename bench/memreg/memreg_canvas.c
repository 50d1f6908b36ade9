/*
 * memreg_canvas.c - drawing functions for the pictures of tow-size. See memreg_canvas.h.
 */
#include "bench/memreg/memreg_canvas.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#define TICKS 5

struct memreg_unit memreg_unit_of(uint64_t bytes)
{
	static const struct memreg_unit units[] = {
		{ "bytes", 1 }, { "KiB", 0x1p10 }, { "MiB", 0x1p20 }, { "GiB", 0x1p30 }
	};
	size_t i = 0;

	while (i < 3 && (double)bytes >= units[i + 1].bytes)
		i++;
	return units[i];
}

double memreg_in_unit(const struct memreg_canvas *c, uint64_t bytes)
{
	return (double)bytes / c->unit.bytes;
}

const char *memreg_fit_text(const char *text, size_t most, char *out, size_t room)
{
	size_t bytes = strlen(text);

	if (bytes <= most)
		snprintf(out, room, "%s", text);
	else
		snprintf(out, room, "%.*s...", (int)most - 3, text);
	return out;
}

static double map_value(double value, double max, double log_min)
{
	if (log_min > 0)
		return value <= log_min ? 0 : log(value / log_min) / log(max / log_min);
	return max > 0 ? value / max : 0;
}

double memreg_plot_x(const struct memreg_plot *p, double value)
{
	return p->x + p->w * map_value(value, p->x_max, p->x_log_min);
}

double memreg_plot_y(const struct memreg_plot *p, double value)
{
	return p->y + p->h - p->h * map_value(value, p->y_max, p->y_log_min);
}

/* Writes text with the five special characters of XML escaped. */
void memreg_put_escaped(FILE *file, const char *text)
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
			/*
			 * Bytes outside of ASCII may be invalid UTF-8, which a parser would refuse.
			 */
			putc(*text >= ' ' && *text <= '~' ? *text : '?', file);
	}
}

/* `style` has attributes of the text element. */
void memreg_draw_text(struct memreg_canvas *c, double x, double y, const char *style,
		      const char *fmt, ...)
{
	char line[512];
	va_list arguments;

	va_start(arguments, fmt);
	vsnprintf(line, sizeof(line), fmt, arguments);
	va_end(arguments);
	fprintf(c->file, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, style);
	memreg_put_escaped(c->file, line);
	fputs("</text>\n", c->file);
}

void memreg_draw_line(struct memreg_canvas *c, double x1, double y1, double x2, double y2,
		      const char *style)
{
	fprintf(c->file, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", x1, y1, x2,
		y2, style);
}

void memreg_draw_mark(struct memreg_canvas *c, double x, double y, bool round, const char *colour)
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

/* A step of 1, 2, 2.5 or 5 times a power of ten, so that `max` has at most TICKS steps. */
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

void memreg_draw_frame(struct memreg_canvas *c, struct memreg_plot *p, const char *title,
		       const char *x_label)
{
	memreg_draw_text(c, p->x, p->y - 32, "class=\"h\"", "%s", title);
	memreg_draw_line(c, p->x, p->y + p->h, p->x + p->w, p->y + p->h, "class=\"axis\"");
	memreg_draw_line(c, p->x, p->y, p->x, p->y + p->h, "class=\"axis\"");
	memreg_draw_text(c, p->x + p->w / 2, p->y + p->h + 38, "class=\"l\" text-anchor=\"middle\"",
			 "%s", x_label);
}

void memreg_y_ticks(struct memreg_canvas *c, struct memreg_plot *p)
{
	double step = nice_step(p->y_max);

	/* The axis ends at a whole tick. */
	p->y_max = ceil(p->y_max / step) * step;
	if (p->y_max <= 0)
		p->y_max = 1;
	for (double v = 0; v <= p->y_max * 1.0001; v += step) {
		if (v > 0)
			memreg_draw_line(c, p->x, memreg_plot_y(p, v), p->x + p->w,
					 memreg_plot_y(p, v), "class=\"grid\"");
		memreg_draw_text(c, p->x - 8, memreg_plot_y(p, v) + 4,
				 "class=\"l\" text-anchor=\"end\"", "%.6g", v);
	}
}

void memreg_x_ticks(struct memreg_canvas *c, const struct memreg_plot *p)
{
	double step = p->x_whole ? fmax(nice_step(p->x_max), 1) : nice_step(p->x_max);

	for (double v = 0; v <= p->x_max * 1.0001; v += step) {
		memreg_draw_line(c, memreg_plot_x(p, v), p->y + p->h, memreg_plot_x(p, v),
				 p->y + p->h + 4, "class=\"axis\"");
		memreg_draw_text(c, memreg_plot_x(p, v), p->y + p->h + 19,
				 "class=\"l\" text-anchor=\"middle\"", "%.6g", v);
	}
}

void memreg_draw_legend(struct memreg_canvas *c, double x, double y, bool round, const char *colour,
			const char *label)
{
	memreg_draw_mark(c, x, y - 4, round, colour);
	memreg_draw_text(c, x + 10, y, "class=\"l\"", "%s", label);
}
